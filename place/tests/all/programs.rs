//! Random programs over a few streams, and what their kernels alone say about the order of
//! their buffers: slowly, and with no code of the planner.

use proptest::prelude::*;
use streamweir_trace::{AllocLog, BufferId, LogBuffer, LogEvent, StreamId};

/// What one buffer may be, by nothing but its kernels: which accesses each has,
/// and for each kernel all that happen before it.
pub(crate) struct Slow {
    pub(crate) accesses: Vec<Vec<usize>>,
    pub(crate) before: Vec<Vec<bool>>,
}

impl Slow {
    /// Closes the order of the kernels over chains and joins, one by one.
    pub(crate) fn of(log: &AllocLog) -> Self {
        let mut slow = Self {
            accesses: vec![Vec::new(); log.buffers.len()],
            before: Vec::new(),
        };
        let mut reached: Vec<Vec<usize>> = vec![Vec::new(); log.streams as usize];
        for event in &log.events {
            match event {
                LogEvent::Join { from, to } => {
                    let more = reached[from.index()].clone();
                    reached[to.index()].extend(more);
                }
                LogEvent::Kernel {
                    stream,
                    reads,
                    writes,
                } => {
                    let kernel = slow.before.len();
                    let mut row = vec![false; kernel];
                    for &earlier in &reached[stream.index()] {
                        row[earlier] = true;
                        for (mine, theirs) in row.iter_mut().zip(&slow.before[earlier]) {
                            *mine |= theirs;
                        }
                    }
                    slow.before.push(row);
                    reached[stream.index()].push(kernel);
                    for buffer in reads.iter().chain(writes) {
                        slow.accesses[buffer.index()].push(kernel);
                    }
                }
                LogEvent::Alloc(_) | LogEvent::Free(_) => {}
            }
        }
        slow
    }

    pub(crate) fn ordered(&self, a: usize, b: usize) -> bool {
        self.accesses[a].iter().all(|&last| {
            let after = |&first: &usize| self.before[first].get(last).copied().unwrap_or(false);
            self.accesses[b].iter().all(after)
        })
    }

    pub(crate) fn conflict(&self, a: usize, b: usize) -> bool {
        !self.ordered(a, b) && !self.ordered(b, a)
    }
}

/// A program over a few streams: joins, buffers, kernels that may use what they
/// are ordered after, and frees.
pub(crate) fn log(choices: &[(u8, u8, u8, u16)], streams: u32) -> AllocLog {
    let width = streams as usize;
    let mut log = AllocLog {
        streams,
        ..AllocLog::default()
    };
    // What each stream has reached, as counts of the events of each.
    let mut reached = vec![vec![0_usize; width]; width];
    let mut points: Vec<(Vec<usize>, bool)> = Vec::new();
    let mut count = 0;
    for &(what, where_, which, bytes) in choices {
        let stream = where_ as usize % width;
        let id = StreamId(stream as u32);
        match what % 8 {
            0 => {
                let from = which as usize % width;
                if from != stream {
                    let theirs = reached[from].clone();
                    for (mine, theirs) in reached[stream].iter_mut().zip(theirs) {
                        *mine = theirs.max(*mine);
                    }
                    let from = StreamId(from as u32);
                    log.events.push(LogEvent::Join { from, to: id });
                }
            }
            1 => {
                let held = (0..points.len()).filter(|&at| points[at].1);
                let held: Vec<usize> = held.collect();
                if let Some(&at) = held.get(which as usize % held.len().max(1)) {
                    points[at].1 = false;
                    log.events.push(LogEvent::Free(BufferId::at(at)));
                }
            }
            2..=4 => {
                log.events.push(LogEvent::Alloc(BufferId::at(points.len())));
                points.push((reached[stream].clone(), true));
                log.buffers.push(LogBuffer {
                    name: format!("buffer {}", log.buffers.len()),
                    stream: id,
                    bytes: u64::from(bytes),
                    align: 1 << (which % 9),
                });
            }
            _ => {
                let usable = |at: &usize| {
                    let (point, held) = &points[*at];
                    *held && point.iter().zip(&reached[stream]).all(|(a, b)| a <= b)
                };
                let all: Vec<usize> = (0..points.len()).filter(usable).collect();
                let pick = |by: usize| all.get(by % all.len().max(1)).map(|&at| BufferId::at(at));
                count += 1;
                reached[stream][stream] = count;
                log.events.push(LogEvent::Kernel {
                    stream: id,
                    reads: pick(which as usize).into_iter().collect(),
                    writes: pick(bytes as usize).into_iter().collect(),
                });
            }
        }
    }
    log
}

pub(crate) fn programs() -> impl Strategy<Value = AllocLog> {
    let choice = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u16>());
    (prop::collection::vec(choice, 0..90), 1..5_u32).prop_map(|(all, streams)| log(&all, streams))
}

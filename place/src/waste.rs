//! What the memory of a log's buffers goes into, stream by stream (R9).

use std::cmp::Reverse;

use streamweir_trace::{AllocLog, BufferId, LogEvent};

use crate::floor::Floor;
use crate::problem::{Plan, Problem};

/// The memory of the buffers of one stream, whose name is its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waste {
    /// The stream's number.
    pub pool: u32,
    /// The most bytes that the host held at one moment.
    pub peak: u64,
    /// The bytes that its pool holds, or, where all streams share one, those that
    /// it was the first to reach.
    pub reserved: u64,
    /// The least that a pool of its own needs.
    pub floor: Floor,
    /// The buffers that cost most, that first; at most three.
    pub costliest: Vec<Costly>,
}

/// A buffer, and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costly {
    /// The buffer.
    pub buffer: BufferId,
    /// Its bytes, alignment included.
    pub bytes: u64,
    /// The events for which the host held it: bytes times these is what it
    /// keeps from others.
    pub events: u64,
}

impl Waste {
    /// The part of what is reserved that is above the floor, from 0 to 1.
    pub fn fragmentation(&self) -> f64 {
        let above = self.reserved.saturating_sub(self.floor.bytes);
        above as f64 / self.reserved.max(1) as f64
    }

    /// One entry for each stream that takes a buffer; `reserved` has the bytes
    /// of each stream by its number.
    ///
    /// # Panics
    /// When the problem is not that of the log.
    pub fn of(log: &AllocLog, problem: &Problem, reserved: &[u64]) -> Vec<Self> {
        assert_eq!(
            log.buffers.len(),
            problem.items().len(),
            "one item for each buffer"
        );
        let held = problem.held();
        let streams = log.streams as usize;
        let mut live = vec![0_u64; streams];
        let mut peak = vec![0_u64; streams];
        let mut taken = vec![0_u64; held.len()];
        let mut events = vec![0_u64; held.len()];
        let mut open = vec![false; held.len()];
        for (at, event) in (0_u64..).zip(&log.events) {
            match event {
                LogEvent::Alloc(buffer) => {
                    let (buffer, stream) = (buffer.index(), log.buffers[buffer.index()].stream);
                    let stream = stream.index();
                    live[stream] += held[buffer];
                    peak[stream] = peak[stream].max(live[stream]);
                    taken[buffer] = at;
                    open[buffer] = true;
                }
                LogEvent::Free(buffer) => {
                    let buffer = buffer.index();
                    live[log.buffers[buffer].stream.index()] -= held[buffer];
                    events[buffer] = at - taken[buffer];
                    open[buffer] = false;
                }
                LogEvent::Join { .. } | LogEvent::Kernel { .. } => {}
            }
        }
        for buffer in (0..held.len()).filter(|&buffer| open[buffer]) {
            events[buffer] = log.events.len() as u64 - taken[buffer];
        }
        let waste = problem.pools().into_iter().map(|pool| {
            let own = (0..held.len()).filter(|&at| problem.items()[at].pool == pool);
            let mut costliest: Vec<Costly> = own
                .map(|at| Costly {
                    buffer: BufferId::at(at),
                    bytes: held[at],
                    events: events[at],
                })
                .collect();
            costliest.sort_by_key(|it| {
                let cost = u128::from(it.bytes) * u128::from(it.events);
                (Reverse(cost), it.buffer)
            });
            costliest.truncate(3);
            Self {
                pool,
                peak: peak[pool as usize],
                reserved: reserved.get(pool as usize).copied().unwrap_or(0),
                floor: problem.floor_of(pool),
                costliest,
            }
        });
        waste.collect()
    }
}

impl Plan {
    /// The bytes of each stream, by its number: its pool, or, where all streams
    /// share one, those that its buffers were the first to reach, in the order of
    /// the list.
    pub fn reserved_by_stream(&self, problem: &Problem) -> Vec<u64> {
        let streams = problem.pools().last().map_or(0, |&last| last as usize + 1);
        let mut reserved = vec![0; streams];
        for (pool, range) in &self.pools {
            if let Some(pool) = pool {
                reserved[*pool as usize] += range.len();
                continue;
            }
            let mut reached = range.start;
            for (at, item) in problem.items().iter().enumerate() {
                let end = self.offsets[at] + problem.held()[at];
                reserved[item.pool as usize] += end.saturating_sub(reached);
                reached = reached.max(end);
            }
        }
        reserved
    }
}

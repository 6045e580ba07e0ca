//! The lives of the buffers of an allocation log.
//!
//! # What is guaranteed
//! - For a plan, a life is [first access, last access] by happens-before alone:
//!   the places on the chains of the streams that the log's joins give. The
//!   host's frees decide nothing.
//! - For the floor of what can be done while a program runs, a life is [alloc
//!   point, host free]: another buffer has the bytes only if its alloc point is
//!   ordered after all that used the first one, and comes after its free in the
//!   order of the host.
//! - A use that is not ordered after the buffer's alloc point is refused.

use streamweir_trace::{AllocLog, BufferId, LogEvent, StreamId};
use thiserror::Error;

use crate::lives::{Life, Lives};
use crate::problem::{Item, PlanError, Problem};

/// Why a log cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogPlanError {
    /// A kernel uses a buffer from a stream that does not continue after the
    /// place where it was taken.
    #[error(
        "event {event}: a kernel on stream {stream} uses {buffer}, which event {alloc} takes on stream {owner}; \
         nothing orders the two. Join stream {owner} into stream {stream} between them"
    )]
    BeforeAllocPoint {
        /// The kernel's event, counted from 0.
        event: usize,
        /// The kernel's stream.
        stream: u32,
        /// What the log calls the buffer.
        buffer: String,
        /// The event that takes it.
        alloc: usize,
        /// The stream it is taken on.
        owner: u32,
    },
    /// The buffers make no problem that can be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The lives of a log's buffers.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// [first access, last access].
    pub accessed: Lives,
    /// [alloc point, host free].
    pub held: Lives,
    items: Vec<Item>,
}

/// What is known of one buffer so far.
struct Seen {
    alloc: usize,
    alloc_clock: Vec<u32>,
    freed: Option<usize>,
    /// What all accesses have before them.
    begin: Vec<u32>,
    /// For each stream its last access, counted from 1.
    end: Vec<u32>,
    span: Option<(u32, u32)>,
    /// The first access, as a place on a stream; none when some access does not
    /// come after it.
    first: Option<(usize, u32)>,
}

impl Recorded {
    /// Follows a log.
    ///
    /// # Errors
    /// When a kernel uses a buffer without being ordered after its alloc point.
    pub fn of(log: &AllocLog) -> Result<Self, LogPlanError> {
        let streams = log.streams as usize;
        let mut frontiers = vec![vec![0_u32; streams]; streams];
        // By buffer: a log need not take them in the order of their numbers.
        let untaken = || Seen {
            alloc: 0,
            alloc_clock: Vec::new(),
            freed: None,
            begin: vec![u32::MAX; streams],
            end: vec![0; streams],
            span: None,
            first: None,
        };
        let mut seen: Vec<Seen> = log.buffers.iter().map(|_| untaken()).collect();
        let mut kernels = 0;
        for (at, event) in log.events.iter().enumerate() {
            match event {
                LogEvent::Join { from, to } => {
                    let pair = frontiers.get_disjoint_mut([from.index(), to.index()]);
                    if let Ok([from, to]) = pair {
                        raise(to, from);
                    }
                }
                LogEvent::Alloc(buffer) => {
                    let owner = log.buffers[buffer.index()].stream;
                    let taken = &mut seen[buffer.index()];
                    taken.alloc = at;
                    taken.alloc_clock.clone_from(&frontiers[owner.index()]);
                }
                LogEvent::Free(buffer) => seen[buffer.index()].freed = Some(at),
                LogEvent::Kernel {
                    stream,
                    reads,
                    writes,
                } => {
                    let frontier = &mut frontiers[stream.index()];
                    for &buffer in reads.iter().chain(writes) {
                        let use_of = &mut seen[buffer.index()];
                        if !use_of.touch(frontier, *stream, kernels) {
                            return Err(unordered(log, at, *stream, buffer, use_of.alloc));
                        }
                    }
                    frontier[stream.index()] += 1;
                    kernels += 1;
                }
            }
        }
        Ok(Self::collect(log, &seen))
    }

    fn collect(log: &AllocLog, seen: &[Seen]) -> Self {
        let streams = log.streams as usize;
        let mut recorded = Self {
            accessed: Lives::new(streams),
            held: Lives::new(streams + 1),
            items: Vec::with_capacity(seen.len()),
        };
        for (buffer, seen) in log.buffers.iter().zip(seen) {
            recorded.items.push(Item {
                bytes: buffer.bytes,
                align: buffer.align,
                pool: buffer.stream.0,
            });
            match seen.span {
                Some(span) => recorded.accessed.push(&Life {
                    begin: &seen.begin,
                    end: &seen.end,
                    span,
                    chain: seen.first.map(|(stream, _)| stream as u32),
                }),
                None => recorded.accessed.push_untouched(),
            }
            // The order of the host is one more axis. An untouched buffer is
            // over once its alloc point is reached: its bytes may have come to
            // it from others.
            let mut begin = seen.alloc_clock.clone();
            let mut end = begin.clone();
            raise(&mut end, &seen.end);
            begin.push(seen.alloc as u32);
            end.push(seen.freed.map_or(u32::MAX, |freed| freed as u32));
            let last = seen.freed.unwrap_or(log.events.len());
            recorded.held.push(&Life {
                begin: &begin,
                end: &end,
                span: (seen.alloc as u32, last as u32),
                chain: Some(buffer.stream.0),
            });
        }
        recorded
    }

    /// The buffers by the lives that a plan goes by.
    ///
    /// # Errors
    /// When they make no problem that can be planned.
    pub fn problem(&self) -> Result<Problem, PlanError> {
        Problem::new(self.items.clone(), self.accessed.clone())
    }
}

impl Seen {
    /// One more access, by the next kernel of a stream with this frontier. False
    /// when that does not come after the alloc point.
    fn touch(&mut self, frontier: &[u32], stream: StreamId, kernel: u32) -> bool {
        let after = |reached: &u32, alloc: &u32| alloc <= reached;
        let mut pairs = frontier.iter().zip(&self.alloc_clock);
        if !pairs.all(|(reached, alloc)| after(reached, alloc)) {
            return false;
        }
        let stream = stream.index();
        let index = frontier[stream] + 1;
        match (self.span, self.first) {
            (None, _) => self.first = Some((stream, index)),
            (Some(_), Some(first)) if first != (stream, index) && frontier[first.0] < first.1 => {
                self.first = None;
            }
            _ => {}
        }
        for (begin, &reached) in self.begin.iter_mut().zip(frontier) {
            *begin = reached.min(*begin);
        }
        self.end[stream] = index;
        let span = self.span.get_or_insert((kernel, kernel));
        span.1 = kernel;
        true
    }
}

fn raise(clock: &mut [u32], by: &[u32]) {
    for (mine, &theirs) in clock.iter_mut().zip(by) {
        *mine = theirs.max(*mine);
    }
}

fn unordered(
    log: &AllocLog,
    event: usize,
    stream: StreamId,
    buffer: BufferId,
    alloc: usize,
) -> LogPlanError {
    let buffer = &log.buffers[buffer.index()];
    LogPlanError::BeforeAllocPoint {
        event,
        stream: stream.0,
        buffer: buffer.name.clone(),
        alloc,
        owner: buffer.stream.0,
    }
}

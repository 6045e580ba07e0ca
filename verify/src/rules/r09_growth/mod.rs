//! R9, growth: how much memory the scratch of a capture takes, beside the least
//! that it needs. A note on the report, not a hazard: nothing computes wrong.
//!
//! ```text
//! worth a line:  main --- W a -- R a (a freed) --- W b -- R b ---     a and b reserve two places
//! fine:          main --- W a -- R a (a freed) --- W b -- R b ---     b has the bytes of a
//! ```
//!
//! For each tag, that is for each pool:
//! - **reserved**: the bytes that the pool holds ([`Trace::reserved`]), or, when
//!   the trace does not say, the bytes that its buffers lie in.
//! - **peak**: the most that is live at once in the order in which the host
//!   recorded the capture: from a buffer's alloc point to its free.
//! - **floor**: the least that any placement of these buffers could do with:
//!   the heaviest set of buffers of which no two are ordered "all uses of one
//!   end before any use of the other begins". Exact up to [`EXACT_BUFFERS`]
//!   buffers and [`EXACT_ACCESSES`] accesses; above that a lower bound, the most
//!   that is in use at one place of one order in which the graph may run. Two
//!   buffers in use at one place are not ordered in that sense, so the bound is
//!   the weight of such a set too.
//!
//! The floor does not count alignment, nor buffers that nothing uses.

mod antichain;
mod floor;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use streamweir_trace::{Buffer, BufferId, BufferKind, ByteRange, Trace};

use crate::rules::Context;

/// The most buffers of a pool for which the floor is exact.
pub(crate) const EXACT_BUFFERS: usize = 64;

/// The most accesses of a pool for which the floor is exact.
pub(crate) const EXACT_ACCESSES: usize = 1024;

/// A pool that reserves less than this above its floor is not worth a line.
const WORTH_A_LINE: u64 = 1 << 20;

/// How much memory the scratch of one pool takes, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// The tag of the pool; `None` for all pools of the capture together.
    pub tag: Option<String>,
    /// The names of the streams that take scratch from it.
    pub streams: Vec<String>,
    /// How many scratch buffers were taken.
    pub buffers: u64,
    /// The most bytes that were live at once in record order.
    pub peak: u64,
    /// The bytes that the pool holds.
    pub reserved: u64,
    /// The least bytes that the same buffers need.
    pub floor: u64,
    /// Whether the floor is exact, or a lower bound.
    pub floor_exact: bool,
}

impl Growth {
    /// Whether the pool reserves far more than it needs: more than twice the
    /// floor, and at least 1 MiB above it. Never so where the floor is only a
    /// lower bound and the peak does not speak for it as well.
    pub fn is_far_above_floor(&self) -> bool {
        let needed = if self.floor_exact {
            self.floor
        } else {
            self.floor.max(self.peak)
        };
        self.reserved / 2 > needed && self.reserved - needed >= WORTH_A_LINE
    }
}

impl fmt::Display for Growth {
    /// One line: "the scratch of tag "main" reserves 404.0 MiB for 40.0 MiB live at
    /// once; 38.5 MiB would do".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tag {
            Some(tag) => write!(f, "the scratch of tag \"{tag}\"")?,
            None => f.write_str("the scratch of all tags")?,
        }
        let least = if self.floor_exact { "" } else { "at least " };
        write!(
            f,
            " reserves {} for {} live at once; {least}{} would do",
            Bytes(self.reserved),
            Bytes(self.peak),
            Bytes(self.floor)
        )
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        if self.0 < MIB {
            return write!(f, "{} bytes", self.0);
        }
        write!(f, "{:.1} MiB", self.0 as f64 / MIB as f64)
    }
}

/// One entry for each pool, by tag, and one for all of them when there are
/// several or when they share memory.
pub(crate) fn growth(context: &Context<'_>) -> Vec<Growth> {
    let trace = context.trace;
    let mut pools: BTreeMap<&str, Vec<BufferId>> = BTreeMap::new();
    for (at, buffer) in trace.buffers.iter().enumerate() {
        if let BufferKind::Scratch { stream, .. } = buffer.kind {
            let tag = trace.stream(stream).tag.as_str();
            pools.entry(tag).or_default().push(BufferId::at(at));
        }
    }
    for reserved in &trace.reserved {
        if let Some(stream) = reserved.stream {
            pools.entry(&trace.stream(stream).tag).or_default();
        }
    }
    let shared = trace.reserved.iter().any(|held| held.stream.is_none());
    if pools.is_empty() && !shared {
        return Vec::new();
    }
    let spans = floor::spans(context);
    let mut all: Vec<Growth> = pools
        .iter()
        .map(|(tag, buffers)| pool(context, Some(tag), buffers, &spans))
        .collect();
    if all.len() > 1 || shared {
        let buffers: Vec<BufferId> = pools.into_values().flatten().collect();
        all.push(pool(context, None, &buffers, &spans));
    }
    all
}

fn pool(
    context: &Context<'_>,
    tag: Option<&str>,
    buffers: &[BufferId],
    spans: &[Option<(u32, u32)>],
) -> Growth {
    let trace = context.trace;
    let of_tag = |tag_of: &str| tag.is_none_or(|tag| tag == tag_of);
    let held = trace.reserved.iter().filter(|held| match held.stream {
        Some(stream) => of_tag(&trace.stream(stream).tag),
        None => tag.is_none(),
    });
    let mut ranges: Vec<ByteRange> = if trace.reserved.is_empty() {
        buffers.iter().map(|&id| trace.buffer(id).range).collect()
    } else {
        held.map(|held| held.range).collect()
    };
    let (floor, floor_exact) = floor::floor(context, buffers, spans);
    let mut streams: Vec<String> = trace
        .streams
        .iter()
        .filter(|stream| of_tag(&stream.tag))
        .map(|stream| stream.name.clone())
        .collect();
    streams.dedup();
    Growth {
        tag: tag.map(str::to_owned),
        streams,
        buffers: buffers.len() as u64,
        peak: peak(trace, buffers),
        reserved: covered(&mut ranges),
        floor,
        floor_exact,
    }
}

/// The bytes that at least one of the ranges holds.
fn covered(ranges: &mut [ByteRange]) -> u64 {
    ranges.sort_unstable();
    let mut end = 0;
    let mut total = 0;
    for range in ranges {
        let from = range.start.max(end);
        if from < range.end {
            total += range.end - from;
            end = range.end;
        }
    }
    total
}

/// The most bytes that are live at once in record order.
fn peak(trace: &Trace, buffers: &[BufferId]) -> u64 {
    let count = trace.nodes.len();
    heaviest(
        count + 1,
        buffers.iter().filter_map(|&id| {
            let Buffer { kind, range, .. } = trace.buffer(id);
            let BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } = kind
            else {
                return None;
            };
            // A position lies in front of the node of its number. What is taken at
            // the very place where another is freed is taken after that.
            let freed = freed_before.map_or(count + 1, |freed| freed.index());
            Some((alloc.before.index(), freed, range.len()))
        }),
    )
}

/// The greatest weight of the half-open intervals that hold one point. They end
/// at `places` at most.
fn heaviest(places: usize, intervals: impl Iterator<Item = (usize, usize, u64)>) -> u64 {
    // By how much the weight changes at each place. Sizes in a hostile file may
    // sum past 64 bits.
    let mut change = vec![0_i128; places + 1];
    for (from, to, weight) in intervals {
        change[from] += i128::from(weight);
        // A buffer that is freed where it was taken was live for a moment.
        change[to.max(from + 1)] -= i128::from(weight);
    }
    let mut live = 0;
    let most = change.into_iter().fold(0, |most, change| {
        live += change;
        live.max(most)
    });
    u64::try_from(most).unwrap_or(u64::MAX)
}

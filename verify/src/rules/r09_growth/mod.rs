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
use streamweir_trace::{Buffer, BufferId, BufferKind, ByteRange, StreamId, Trace};

use crate::rules::Context;
use crate::sweep::Recent;

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
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        let of = |unit: u64| self.0 as f64 / unit as f64;
        if self.0 < KIB {
            write!(f, "{} bytes", self.0)
        } else if self.0 < MIB {
            write!(f, "{:.1} KiB", of(KIB))
        } else {
            write!(f, "{:.1} MiB", of(MIB))
        }
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
    let mut pool_of: Vec<Option<u32>> = vec![None; trace.buffers.len()];
    for (pool, buffers) in (0..).zip(pools.values()) {
        for id in buffers {
            pool_of[id.index()] = Some(pool);
        }
    }
    let uses = floor::Uses::new(context, pools.len(), &pool_of);
    let peaks = peaks(trace, pools.len(), &pool_of);
    let row = |at: usize, tag: Option<&str>, buffers: &[BufferId]| {
        let (floor, floor_exact) = uses.floor(context, at, buffers);
        Growth {
            tag: tag.map(str::to_owned),
            streams: streams(trace, tag),
            buffers: buffers.len() as u64,
            peak: peaks[at],
            reserved: reserved(trace, tag, buffers),
            floor,
            floor_exact,
        }
    };
    let mut all: Vec<Growth> = (pools.iter().enumerate())
        .map(|(at, (tag, buffers))| row(at, Some(tag), buffers))
        .collect();
    if all.len() > 1 || shared {
        let at = all.len();
        let buffers: Vec<BufferId> = pools.into_values().flatten().collect();
        all.push(row(at, None, &buffers));
    }
    all
}

fn streams(trace: &Trace, tag: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = trace
        .streams
        .iter()
        .filter(|stream| tag.is_none_or(|tag| tag == stream.tag))
        .map(|stream| stream.name.clone())
        .collect();
    names.dedup();
    names
}

/// The bytes that the pool of this tag holds, or all pools.
fn reserved(trace: &Trace, tag: Option<&str>, buffers: &[BufferId]) -> u64 {
    let mut ranges: Vec<ByteRange> = if trace.reserved.is_empty() {
        // A pool hands out the same places again and again.
        let mut recent = Recent::new();
        let ranges = buffers.iter().map(|&id| trace.buffer(id).range);
        ranges
            .filter(|range| recent.is_new((range.start, range.end)))
            .collect()
    } else {
        let of_pool = |stream: Option<StreamId>| match (stream, tag) {
            (_, None) => true,
            (Some(stream), Some(tag)) => trace.stream(stream).tag == tag,
            (None, Some(_)) => false,
        };
        let held = trace.reserved.iter().filter(|held| of_pool(held.stream));
        held.map(|held| held.range).collect()
    };
    covered(&mut ranges)
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

/// For each pool, and last for all together, the most bytes that are live at
/// once in record order. `pool_of` gives the pool of a buffer.
fn peaks(trace: &Trace, pools: usize, pool_of: &[Option<u32>]) -> Vec<u64> {
    let count = trace.nodes.len();
    let lives = trace.buffers.iter().zip(pool_of);
    let lives = lives.filter_map(|(Buffer { kind, range, .. }, pool)| {
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
        Some(Live {
            pool: (*pool)?,
            from: alloc.before.index(),
            to: freed,
            bytes: range.len(),
        })
    });
    heaviest(pools, count + 1, lives)
}

/// Bytes of a pool that are live from one place up to another.
#[derive(Clone, Copy)]
struct Live {
    pool: u32,
    from: usize,
    to: usize,
    bytes: u64,
}

/// For each pool, and last for all together, the most bytes that are live at one
/// place, or 2^64 - 1 when the sizes are beyond all memory. Lives end at
/// `places` at most.
fn heaviest(pools: usize, places: usize, lives: impl Iterator<Item = Live> + Clone) -> Vec<u64> {
    // The changes of each place, one place after the other.
    let mut first = vec![0_u32; places + 2];
    // A buffer that is freed where it was taken was live for a moment.
    let ends = |live: &Live| [live.from, live.to.max(live.from + 1)];
    let mut total = 0_u64;
    for live in lives.clone() {
        total = total.saturating_add(live.bytes);
        for at in ends(&live) {
            first[at + 1] += 1;
        }
    }
    // No true sizes sum up to 2^63; those of a hostile file may.
    if i64::try_from(total).is_err() {
        return vec![u64::MAX; pools + 1];
    }
    for at in 1..first.len() {
        first[at] += first[at - 1];
    }
    let mut changes = vec![(0_u32, 0_i64); first[places + 1] as usize];
    let mut next = first.clone();
    for live in lives {
        for (at, bytes) in ends(&live)
            .into_iter()
            .zip([live.bytes as i64, -(live.bytes as i64)])
        {
            changes[next[at] as usize] = (live.pool, bytes);
            next[at] += 1;
        }
    }
    let mut held = vec![0_i64; pools + 1];
    let mut most = vec![0_i64; pools + 1];
    for place in first.windows(2) {
        let changes = &changes[place[0] as usize..place[1] as usize];
        for &(pool, bytes) in changes {
            held[pool as usize] += bytes;
            held[pools] += bytes;
        }
        for &(pool, _) in changes {
            most[pool as usize] = most[pool as usize].max(held[pool as usize]);
        }
        most[pools] = most[pools].max(held[pools]);
    }
    most.into_iter().map(i64::unsigned_abs).collect()
}

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

mod floor;
mod timeline;

use std::fmt;

use serde::{Deserialize, Serialize};
use streamweir_trace::{BufferId, BufferKind, RangeSet, Trace};

use crate::context::Context;

use timeline::{Change, walk};

/// The most buffers of a pool for which the floor is exact.
pub(crate) const EXACT_BUFFERS: usize = 64;

/// The most accesses of a pool for which the floor is exact.
pub(crate) const EXACT_ACCESSES: usize = 1024;

/// A pool that reserves less than this above its floor is not worth a line.
const WORTH_A_LINE: u64 = 1 << 20;

/// How much memory the scratch of one pool takes, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl Growth {
    /// What brings the pool down to what it needs.
    pub fn remedy(&self) -> &'static str {
        if self.floor < self.peak {
            "make it a planned capture, which places buffers by when they are used and not by when the host lets go of them"
        } else {
            "let freed bytes be used again where the graph orders it: take the buffers from pools that share bytes in order, or make it a planned capture"
        }
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
    let pools = Pools::new(context);
    let shared = trace.reserved.iter().any(|held| held.stream.is_none());
    if !shared && !pools.takes.contains(&true) {
        return Vec::new();
    }
    let uses = floor::Uses::new(context, &pools);
    let lives = pools.members.iter().map(|member| member.life);
    let peaks = heaviest(&pools, trace.nodes.len() + 1, lives);
    let reserved = reserved(context, &pools);
    let streams = streams(trace, &pools);
    let row = |at: usize, tag: Option<&&str>, buffers: &[BufferId]| {
        let (floor, floor_exact) = uses.floor(context, at, buffers);
        Growth {
            tag: tag.map(|&tag| tag.to_owned()),
            streams: streams[at].clone(),
            buffers: buffers.len() as u64,
            peak: peaks[at],
            reserved: reserved[at],
            floor,
            floor_exact,
        }
    };
    let mut buffers_of: Vec<Vec<BufferId>> = vec![Vec::new(); pools.len()];
    for member in &pools.members {
        buffers_of[member.pool as usize].push(member.buffer);
    }
    let mut all: Vec<Growth> = (0..pools.len())
        .filter(|&pool| pools.takes[pool])
        .map(|pool| row(pool, pools.tags.get(pool), &buffers_of[pool]))
        .collect();
    if all.len() > 1 || shared {
        all.push(row(pools.len(), None, &buffers_of.concat()));
    }
    all
}

/// The pools of a trace, one for each tag, by number in the order of tags; one
/// number more stands for all together.
struct Pools<'a> {
    tags: Vec<&'a str>,
    /// By stream.
    of_stream: Vec<usize>,
    /// Whether anything is taken from a pool or reserved for it.
    takes: Vec<bool>,
    /// All scratch, in the order of the table of buffers.
    members: Vec<Member>,
}

/// One scratch buffer.
struct Member {
    buffer: BufferId,
    pool: u32,
    bytes: u64,
    /// From its alloc point up to its free, in record order.
    life: (u32, u32),
}

impl<'a> Pools<'a> {
    fn new(context: &Context<'a>) -> Self {
        let trace = context.trace;
        let mut tags: Vec<&str> = trace.streams.iter().map(|s| s.tag.as_str()).collect();
        tags.sort_unstable();
        tags.dedup();
        let of_stream: Vec<usize> = trace
            .streams
            .iter()
            .map(|stream| tags.partition_point(|&tag| tag < stream.tag.as_str()))
            .collect();
        let mut takes = vec![false; tags.len()];
        for stream in trace.reserved.iter().filter_map(|held| held.stream) {
            takes[of_stream[stream.index()]] = true;
        }
        let end = u32::try_from(trace.nodes.len() + 1).unwrap_or(u32::MAX);
        let mut members = Vec::with_capacity(trace.buffers.len());
        for (at, buffer) in trace.buffers.iter().enumerate() {
            if let BufferKind::Scratch {
                stream,
                alloc,
                freed_before,
            } = &buffer.kind
            {
                let pool = of_stream[stream.index()];
                takes[pool] = true;
                // A position lies in front of the node of its number. What is
                // taken at the very place where another is freed is taken after
                // that; what is freed where it was taken was live for a moment.
                let taken = alloc.before.0;
                let freed = freed_before.map_or(end, |freed| freed.0);
                members.push(Member {
                    buffer: BufferId::at(at),
                    pool: pool as u32,
                    bytes: buffer.range.len(),
                    life: (taken, freed.max(taken.saturating_add(1))),
                });
            }
        }
        Self {
            tags,
            of_stream,
            takes,
            members,
        }
    }

    fn len(&self) -> usize {
        self.tags.len()
    }
}

/// The names of the streams of each pool, and last of all of them.
fn streams(trace: &Trace, pools: &Pools<'_>) -> Vec<Vec<String>> {
    let mut names: Vec<Vec<String>> = vec![Vec::new(); pools.len() + 1];
    for (stream, &pool) in trace.streams.iter().zip(&pools.of_stream) {
        for at in [pool, pools.len()] {
            if names[at].last() != Some(&stream.name) {
                names[at].push(stream.name.clone());
            }
        }
    }
    names
}

/// The bytes that each pool holds, and last all together.
fn reserved(context: &Context<'_>, pools: &Pools<'_>) -> Vec<u64> {
    let held = &context.trace.reserved;
    if held.is_empty() {
        return occupied(context, pools);
    }
    let mut ranges = vec![RangeSet::new(); pools.len() + 1];
    for held in held {
        if let Some(stream) = held.stream {
            ranges[pools.of_stream[stream.index()]].insert(held.range);
        }
        ranges[pools.len()].insert(held.range);
    }
    ranges.iter().map(RangeSet::bytes).collect()
}

/// The bytes that the buffers of each pool lie in, and last those of all pools.
fn occupied(context: &Context<'_>, pools: &Pools<'_>) -> Vec<u64> {
    let map = &context.map;
    // How many buffers lie in the cell at hand, and since which byte there are
    // any.
    let mut open = vec![(0_u32, 0_u64); pools.len() + 1];
    let mut total = vec![0; pools.len() + 1];
    let lives = context.accesses.lives();
    let cells = pools
        .members
        .iter()
        .map(|member| lives[member.buffer.index()].cells);
    walk(map.len(), cells, |cell, which, change| {
        for at in [pools.members[which].pool as usize, pools.len()] {
            let (count, since) = &mut open[at];
            match change {
                Change::Begin => {
                    if *count == 0 {
                        *since = map.cut(cell);
                    }
                    *count += 1;
                }
                Change::End => {
                    *count -= 1;
                    if *count == 0 {
                        total[at] += map.cut(cell) - *since;
                    }
                }
            }
        }
    });
    total
}

/// For each pool, and last for all together, the most bytes that are live at one
/// place, or 2^64 - 1 when the sizes are beyond all memory. `lives` says from
/// and up to which place each member is, `places` at most.
fn heaviest(pools: &Pools<'_>, places: usize, lives: impl Iterator<Item = (u32, u32)>) -> Vec<u64> {
    // Sizes of a hostile file may sum up to more than 64 bits hold.
    let members = &pools.members;
    let total = members
        .iter()
        .try_fold(0_u64, |sum, member| sum.checked_add(member.bytes));
    if total.is_none() {
        return vec![u64::MAX; pools.len() + 1];
    }
    let mut held = vec![0_u64; pools.len() + 1];
    let mut most = vec![0_u64; pools.len() + 1];
    walk(places, lives, |_, which, change| {
        let Member { pool, bytes, .. } = members[which];
        for at in [pool as usize, pools.len()] {
            match change {
                Change::Begin => {
                    held[at] += bytes;
                    most[at] = most[at].max(held[at]);
                }
                Change::End => held[at] -= bytes,
            }
        }
    });
    most
}

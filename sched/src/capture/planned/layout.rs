//! Where each scratch block of a recording goes.
//!
//! # What is guaranteed
//! - Two blocks that may not share bytes ([`Lives::conflict`]) do not.
//! - Under [`Policy::ISOLATED`] the blocks of two streams share none at all.
//! - Every block starts at a multiple of the alignment.
//! - A pool needs no more bytes than it would have reserved live: the layout
//!   that the recording's own pools came to is a candidate.

use streamweir_alloc::{ALIGNMENT, BlockRecord, Policy};
use streamweir_trace::{ByteRange, StreamId};

use super::conflict::Lives;

/// Offsets in one piece of the arena.
#[derive(Debug)]
pub(super) struct Layout {
    /// The offset of each block.
    pub(super) offsets: Vec<u64>,
    /// The pools: whose each is, none when all streams share it, and its bytes.
    pub(super) pools: Vec<(Option<StreamId>, ByteRange)>,
    /// How many bytes there are.
    pub(super) bytes: u64,
}

impl Layout {
    pub(super) fn new(blocks: &[BlockRecord], lives: &Lives, policy: Policy) -> Self {
        let mut layout = Self {
            offsets: vec![0; blocks.len()],
            pools: Vec::new(),
            bytes: 0,
        };
        let all = (0..blocks.len()).collect::<Vec<_>>();
        if !policy.is_isolated() {
            layout.add_pool(blocks, lives, None, &all);
            return layout;
        }
        let streams = all.iter().map(|&i| blocks[i].stream.index() + 1).max();
        for stream in (0..streams.unwrap_or(0)).map(StreamId::at) {
            let own = all.iter().copied().filter(|&i| blocks[i].stream == stream);
            layout.add_pool(blocks, lives, Some(stream), &own.collect::<Vec<_>>());
        }
        layout
    }

    /// The bytes that a stream made its pool take. Where all streams share one,
    /// each byte is charged to the stream of the first block that reached so
    /// far.
    pub(super) fn charged_to(&self, stream: StreamId, blocks: &[BlockRecord]) -> u64 {
        let own = self.pools.iter().filter(|pool| pool.0 == Some(stream));
        let own: u64 = own.map(|(_, bytes)| bytes.len()).sum();
        let shared = self.pools.iter().any(|pool| pool.0.is_none());
        let mut reached = 0;
        let mut charged = 0;
        for (block, offset) in blocks.iter().zip(&self.offsets).filter(|_| shared) {
            let end = offset + block.held;
            if end > reached && block.stream == stream {
                charged += end - reached;
            }
            reached = reached.max(end);
        }
        own + charged
    }

    /// Places the `members` above everything placed so far.
    fn add_pool(
        &mut self,
        blocks: &[BlockRecord],
        lives: &Lives,
        stream: Option<StreamId>,
        members: &[usize],
    ) {
        if members.is_empty() {
            return;
        }
        let best = candidates(blocks, lives, members)
            .into_iter()
            .map(|offsets| (height(blocks, members, &offsets), offsets))
            .min_by_key(|&(height, _)| height);
        let Some((height, offsets)) = best else {
            return;
        };
        for (&block, offset) in members.iter().zip(offsets) {
            self.offsets[block] = self.bytes + offset;
        }
        let end = self.bytes + height;
        self.pools.push((stream, ByteRange::new(self.bytes, end)));
        self.bytes = end;
    }
}

fn height(blocks: &[BlockRecord], members: &[usize], offsets: &[u64]) -> u64 {
    let ends = members.iter().zip(offsets);
    let ends = ends.map(|(&block, offset)| offset + blocks[block].held);
    ends.max().unwrap_or(0)
}

/// Layouts to choose from, the first of the lowest ones: what the recording came
/// to, and best fit over the blocks by size, by conflicts and as recorded.
fn candidates(blocks: &[BlockRecord], lives: &Lives, members: &[usize]) -> Vec<Vec<u64>> {
    let conflicts: Vec<Vec<u32>> = members
        .iter()
        .map(|&a| {
            let others = (0_u32..).zip(members);
            let others = others.filter(|&(_, &b)| a != b && lives.conflict(a, b));
            others.map(|(at, _)| at).collect()
        })
        .collect();
    let sizes: Vec<u64> = members.iter().map(|&block| blocks[block].held).collect();
    let weight = |at: usize| -> u64 { conflicts[at].iter().map(|&b| sizes[b as usize]).sum() };
    let recorded: Vec<usize> = (0..members.len()).collect();
    let mut by_size = recorded.clone();
    by_size.sort_by_key(|&at| std::cmp::Reverse((sizes[at], weight(at))));
    let mut by_conflicts = recorded.clone();
    by_conflicts.sort_by_key(|&at| std::cmp::Reverse((weight(at), sizes[at])));
    let mut all = Vec::new();
    // Code that uses a block before its alloc point, which the verifier will
    // report, has no claim on the pools' layout.
    let recorded_layout = compacted(blocks, members);
    if is_valid(&sizes, &conflicts, &recorded_layout) {
        all.push(recorded_layout);
    }
    all.extend([by_size, by_conflicts, recorded].map(|order| fit(&sizes, &conflicts, &order)));
    all
}

/// The layout of the recording's own pools, without the bytes that no block
/// ever had.
fn compacted(blocks: &[BlockRecord], members: &[usize]) -> Vec<u64> {
    let range = |block: usize| {
        let start = blocks[block].range.start;
        (start, start + blocks[block].held)
    };
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&at| range(members[at]));
    let mut offsets = vec![0; members.len()];
    let (mut used_to, mut unused) = (0, 0);
    for at in order {
        let (start, end) = range(members[at]);
        unused += start.saturating_sub(used_to);
        used_to = used_to.max(end);
        offsets[at] = start - unused;
    }
    offsets
}

fn is_valid(sizes: &[u64], conflicts: &[Vec<u32>], offsets: &[u64]) -> bool {
    conflicts.iter().enumerate().all(|(at, others)| {
        others.iter().all(|&other| {
            let other = other as usize;
            offsets[at] + sizes[at] <= offsets[other]
                || offsets[other] + sizes[other] <= offsets[at]
        })
    })
}

/// Places the blocks in this order, each in the lowest of the tightest gaps that
/// those it conflicts with leave.
fn fit(sizes: &[u64], conflicts: &[Vec<u32>], order: &[usize]) -> Vec<u64> {
    let mut placed: Vec<Option<u64>> = vec![None; sizes.len()];
    let mut taken = Vec::new();
    for &at in order {
        taken.clear();
        taken.extend(conflicts[at].iter().filter_map(|&other| {
            let start = placed[other as usize]?;
            Some((start, start + sizes[other as usize]))
        }));
        taken.sort_unstable();
        let (mut end, mut best) = (0, None);
        for &(start, after) in &taken {
            let gap = start.saturating_sub(end);
            if gap >= sizes[at] && best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, end));
            }
            end = end.max(after);
        }
        placed[at] = Some(best.map_or(end, |(_, offset)| offset));
    }
    debug_assert!(sizes.iter().all(|size| size.is_multiple_of(ALIGNMENT)));
    placed.into_iter().map(Option::unwrap_or_default).collect()
}

//! Where each scratch block of a recording goes.
//!
//! # What is guaranteed
//! - Two blocks that may not share bytes (`Lives::conflict`) do not.
//! - Under [`Policy::ISOLATED`] the blocks of two streams share none at all.
//! - Every block starts at a multiple of the alignment.
//! - A pool needs no more bytes than it would have reserved live: the layout
//!   that the recording's own pools came to is a candidate.

use streamweir_alloc::{ALIGNMENT, BlockRecord, Policy};
use streamweir_place::{Budget, Item, Lives, PlanError, Problem, Sharing};
use streamweir_trace::{ByteRange, StreamId};

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

/// How long is looked for a layout, in steps and so the same everywhere: some
/// tens of milliseconds at most.
const STEPS: u64 = 1 << 20;

impl Layout {
    /// # Errors
    /// When the blocks are too many or too large to be placed together.
    pub(super) fn new(
        blocks: &[BlockRecord],
        lives: Lives,
        policy: Policy,
    ) -> Result<Self, PlanError> {
        let pool = |block: &BlockRecord| block.stream.0;
        let items = blocks.iter().map(|block| Item {
            bytes: block.held,
            align: ALIGNMENT,
            pool: pool(block),
        });
        let problem = Problem::new(items.collect(), lives)?;
        let sharing = if policy.is_isolated() {
            Sharing::Isolated
        } else {
            Sharing::Ordered
        };
        let plan = problem.plan(sharing, Budget::steps(STEPS), None);
        let mut layout = Self {
            offsets: vec![0; blocks.len()],
            pools: Vec::new(),
            bytes: 0,
        };
        for (owner, range) in plan.pools {
            let all = 0..blocks.len();
            let members: Vec<usize> = all
                .filter(|&at| owner.is_none_or(|owner| owner == pool(&blocks[at])))
                .collect();
            let planned = members.iter().map(|&at| plan.offsets[at] - range.start);
            layout.add_pool(
                blocks,
                problem.lives(),
                owner.map(StreamId),
                &members,
                planned.collect(),
            );
        }
        Ok(layout)
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

    /// Puts the `members` above everything placed so far, as planned or as the
    /// recording had them, whichever is lower.
    fn add_pool(
        &mut self,
        blocks: &[BlockRecord],
        lives: &Lives,
        stream: Option<StreamId>,
        members: &[usize],
        mut offsets: Vec<u64>,
    ) {
        if members.is_empty() {
            return;
        }
        let recorded = compacted(blocks, members);
        // Code that uses a block before its alloc point, which the verifier will
        // report, has no claim on the pools' layout.
        if height(blocks, members, &recorded) < height(blocks, members, &offsets)
            && is_valid(blocks, lives, members, &recorded)
        {
            offsets = recorded;
        }
        let end = self.bytes + height(blocks, members, &offsets);
        for (&block, offset) in members.iter().zip(offsets) {
            self.offsets[block] = self.bytes + offset;
        }
        self.pools.push((stream, ByteRange::new(self.bytes, end)));
        self.bytes = end;
    }
}

fn height(blocks: &[BlockRecord], members: &[usize], offsets: &[u64]) -> u64 {
    let ends = members.iter().zip(offsets);
    let ends = ends.map(|(&block, offset)| offset + blocks[block].held);
    ends.max().unwrap_or(0)
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

fn is_valid(blocks: &[BlockRecord], lives: &Lives, members: &[usize], offsets: &[u64]) -> bool {
    let bytes = |at: usize| ByteRange::new(offsets[at], offsets[at] + blocks[members[at]].held);
    (0..members.len()).all(|a| {
        (0..a).all(|b| !bytes(a).overlaps(&bytes(b)) || !lives.conflict(members[a], members[b]))
    })
}

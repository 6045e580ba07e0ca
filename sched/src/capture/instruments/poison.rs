//! Poison: bytes that nobody may rely on hold what everybody trips over.
//!
//! # What is filled, and on which stream
//! A scratch buffer is filled with [`Poison::BYTE`] on the stream that takes it,
//! at its alloc point: with [`Poison::Reused`] where it gets bytes that another
//! buffer of the capture has had, with [`Poison::Every`] always. A kernel that
//! still reads the former buffer then reads NaN, and earlier than the new owner's
//! first kernel would make it wrong. Where every access of the former buffer
//! happens before the alloc point nothing changes: the fill comes after them all.
//!
//! In a pool that goes by the order of host calls ([`Policy::host_order`]) the
//! former owner's bytes are anybody's as soon as the host drops the handle, so
//! there it is the drop that fills, on the origin: the one stream that is never
//! joined, and unordered with every side stream that has not been. A drop makes
//! no call of the driver: it may come from any thread, from within a library's
//! call, or while something unwinds. So it puts the buffer aside, and the next
//! call that records, takes, forks, joins or ends fills it first and gives its
//! bytes back then. No call of the capture comes between the drop and that fill.
//!
//! # What the verifier makes of it
//! A fill is a node that writes the buffer. So work of another stream that is
//! ordered after the alloc point but not after the fill, and could use the buffer
//! without poison, is a hazard with it; take the buffer before that stream is
//! forked. And a buffer that no kernel writes before it is read (R13) counts as
//! written: verify without poison, too.
//!
//! [`Policy::host_order`]: crate::Policy::host_order

use std::collections::BTreeMap;

use streamweir_alloc::{AllocError, Block, Pools};
use streamweir_base::sync::Mutex;
use streamweir_trace::{AccessMode, ByteRange, StreamId};

use super::{ElementKind, Taken};
use crate::capture::record::{BufferKey, Operand, What};
use crate::capture::session::{Core, State};
use crate::capture::stream::Spot;
use crate::error::Result;

/// Which scratch buffers are filled with [`BYTE`](Self::BYTE) before they are
/// used. A workspace that a library holds never is: what it holds is carried from
/// one replay to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poison {
    /// None.
    #[default]
    Off,
    /// Those that get bytes which another buffer of the capture has had. Not for
    /// planned captures.
    Reused,
    /// All.
    Every,
}

impl Poison {
    /// Four of them are a NaN as f32, two as f16 and bf16, one as e4m3; as an
    /// integer they are -1.
    pub const BYTE: u8 = 0xff;
}

/// The bytes that buffers have had: ranges that do not touch, by their start.
#[derive(Default)]
pub(super) struct Reuse {
    had: BTreeMap<u64, u64>,
}

impl Reuse {
    /// Enters the bytes of a buffer. Whether another has had any of them.
    fn again(&mut self, range: ByteRange) -> bool {
        let ByteRange { mut start, mut end } = range;
        let mut again = false;
        while let Some((&at, &until)) = self.had.range(..=end).next_back()
            && until >= start
        {
            again |= at < range.end && until > range.start;
            (start, end) = (start.min(at), end.max(until));
            self.had.remove(&at);
        }
        self.had.insert(start, end);
        again
    }
}

/// Buffers that the host has dropped and whose bytes are still theirs.
#[derive(Default)]
pub(in crate::capture) struct Dropped {
    /// None where a drop frees at once, or when the capture has ended.
    waiting: Option<Mutex<Option<Vec<Block>>>>,
}

impl Dropped {
    /// Puts drops aside, when `on`.
    pub(in crate::capture) fn new(on: bool) -> Self {
        Self {
            waiting: on.then(|| Mutex::new(Some(Vec::new()))),
        }
    }

    /// The host lets go of a block.
    pub(in crate::capture) fn push(&self, pools: &Pools, block: Block) -> Result<(), AllocError> {
        if let Some(waiting) = &self.waiting
            && let Some(waiting) = &mut *waiting.lock()
        {
            waiting.push(block);
            return Ok(());
        }
        pools.free(block.id)
    }

    fn take(&self) -> Vec<Block> {
        let Some(waiting) = &self.waiting else {
            return Vec::new();
        };
        waiting
            .lock()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// From here on a drop frees at once, and what has been put aside is freed
    /// without a fill.
    pub(in crate::capture) fn close(&self, pools: &Pools) -> Result<(), AllocError> {
        let Some(waiting) = &self.waiting else {
            return Ok(());
        };
        let rest = waiting.lock().take();
        let freed = rest.into_iter().flatten().map(|block| pools.free(block.id));
        freed.fold(Ok(()), Result::and)
    }
}

impl Core {
    /// Notes a block that has just been taken, and poisons it.
    pub(in crate::capture) fn taken(
        &self,
        state: &mut State,
        spot: Spot,
        block: Block,
        element: ElementKind,
        workspace: bool,
    ) -> Result<()> {
        let Some(instruments) = &mut state.instruments else {
            return Ok(());
        };
        let Spot { scope, line, .. } = spot;
        instruments.taken.push(Taken {
            block,
            scope,
            line,
            element,
            workspace,
        });
        let by_graph = self.policy().is_ordered_by_graph();
        let fills = match instruments.poison {
            Poison::Every => true,
            // What is compared must not differ in bytes that no kernel writes.
            _ if instruments.taps.is_some() => true,
            Poison::Reused => instruments.reuse.again(block.range) && by_graph,
            Poison::Off => false,
        };
        if !fills || workspace {
            return Ok(());
        }
        self.poison(state, spot, block)
    }

    /// Poisons what the host has dropped since the last call, and frees it.
    pub(in crate::capture) fn settle_drops(&self, state: &mut State) -> Result<()> {
        if state.instruments.is_none() {
            return Ok(());
        }
        let mut filled = Ok(());
        for block in self.session.dropped.take() {
            let taken = state.taken(block).filter(|taken| !taken.workspace);
            if let (Ok(()), Some(Taken { scope, line, .. })) = (&filled, taken) {
                let spot = Spot {
                    stream: StreamId(0),
                    scope,
                    line,
                };
                filled = self.poison(state, spot, block);
            }
            self.session.pools.free(block.id)?;
        }
        filled
    }

    fn poison(&self, state: &mut State, spot: Spot, block: Block) -> Result<()> {
        let mark = state.recording.mark();
        let key = BufferKey::scratch(block.id);
        let bytes = block.range.len();
        let recording = &mut state.recording;
        recording.touched.push(block.id);
        recording.add_access(key, ByteRange::new(0, bytes), AccessMode::Write);
        let to = Operand {
            address: block.range.start,
            of: Some((key, 0)),
        };
        let what = What::Fill {
            to,
            bytes,
            value: Poison::BYTE,
            poison: true,
        };
        self.unobserved(state, |core, state| core.emit(state, spot, mark, what))
    }

    /// Records something that is not the capture's own work.
    pub(super) fn unobserved<R>(
        &self,
        state: &mut State,
        record: impl FnOnce(&Self, &mut State) -> R,
    ) -> R {
        if let Some(instruments) = &mut state.instruments {
            instruments.busy = true;
        }
        let result = record(self, state);
        if let Some(instruments) = &mut state.instruments {
            instruments.busy = false;
        }
        result
    }
}

impl State {
    fn taken(&self, block: Block) -> Option<Taken> {
        let instruments = self.instruments.as_ref()?;
        instruments.taken.get(block.id.index()).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bytes_beside_those_that_were_had_are_new() {
        let mut reuse = Reuse::default();
        assert!(!reuse.again(ByteRange::new(256, 512)));
        assert!(!reuse.again(ByteRange::new(512, 768)));
        assert!(!reuse.again(ByteRange::new(0, 256)));
        assert!(reuse.again(ByteRange::new(767, 1024)));
        assert_eq!(reuse.had, BTreeMap::from([(0, 1024)]));
    }

    /// Byte by byte, for every sequence of three ranges in seven bytes.
    #[test]
    fn reuse_is_that_of_single_bytes() {
        let ranges: Vec<_> = (0..6_u64)
            .flat_map(|start| (start + 1..=7).map(move |end| ByteRange::new(start, end)))
            .collect();
        for a in &ranges {
            for b in &ranges {
                for c in &ranges {
                    let (mut reuse, mut had) = (Reuse::default(), BTreeSet::new());
                    for range in [a, b, c] {
                        let mut again = false;
                        for byte in range.start..range.end {
                            again |= !had.insert(byte);
                        }
                        assert_eq!(reuse.again(*range), again, "{a} {b} {c} at {range}");
                    }
                }
            }
        }
    }
}

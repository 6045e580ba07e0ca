//! Poison: scratch that holds nothing yet is filled with a pattern that makes
//! wrong results of whoever still relies on its former content.
//!
//! # What is filled, and on which stream
//! A scratch buffer is filled with [`Poison::BYTE`] on the stream that takes it,
//! at its alloc point: with [`Poison::Reused`] where it gets bytes that another
//! buffer of the capture has had, with [`Poison::Every`] always. A kernel that
//! still reads the former buffer then reads NaN, and earlier than the new owner's
//! first kernel would make it wrong. Where every access of the former buffer
//! happens before the alloc point nothing changes: the fill comes after them all.
//!
//! In a pool that goes by the order of host calls ([`Policy::HOST_ORDER`]) the
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
//! [`Policy::HOST_ORDER`]: crate::Policy::HOST_ORDER

use std::collections::BTreeMap;

use streamweir_alloc::Block;
use streamweir_trace::{AccessMode, ByteRange};

use super::added::Added;
use crate::capture::recording::{Draft, Operand, Spot, What};

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
    pub(super) fn again(&mut self, range: ByteRange) -> bool {
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

/// The fill of a block.
pub(super) fn fill(spot: Spot, block: Block) -> Added {
    let bytes = block.range.len();
    let mut draft = Draft::default();
    let buffer = draft.add_block(block.id, ByteRange::new(0, bytes), AccessMode::Write);
    let to = Operand {
        address: block.range.start,
        of: (buffer, 0),
    };
    let what = What::Fill {
        to,
        bytes,
        value: Poison::BYTE,
        poison: true,
    };
    Added { spot, what, draft }
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

//! The vertical axis of the memory pane: device addresses, with the empty space
//! taken out.
//!
//! # What is guaranteed
//! The axis keeps the order of addresses, and two buffers overlap in the picture
//! exactly where they share bytes. It does not keep proportions: the stretch
//! between two neighbouring bounds of buffers gets a height by the logarithm of
//! its length, so that a counter of four bytes and a cache of gigabytes are both
//! to be seen.

use streamweir_trace::{ByteRange, Trace};

/// The height of a stretch that no buffer lies in.
const GAP: u32 = 40;

/// From device addresses to heights, in tenths of a pixel.
#[derive(Debug)]
pub(super) struct Space {
    bounds: Vec<u64>,
    heights: Vec<u32>,
}

impl Space {
    /// The axis for the buffers of `trace`.
    pub(super) fn new(trace: &Trace) -> Self {
        let mut edges: Vec<(u64, i64)> = trace
            .buffers
            .iter()
            .filter(|buffer| !buffer.range.is_empty())
            .flat_map(|buffer| [(buffer.range.start, 1), (buffer.range.end, -1)])
            .collect();
        edges.sort_unstable();
        let (mut bounds, mut heights) = (Vec::new(), Vec::new());
        let (mut height, mut open) = (0_u32, 0_i64);
        for (at, change) in edges {
            if let Some(&last) = bounds.last()
                && last != at
            {
                let stretch = if open == 0 { GAP } else { tall(at - last) };
                height = height.saturating_add(stretch);
            }
            if bounds.last() != Some(&at) {
                bounds.push(at);
                heights.push(height);
            }
            open += change;
        }
        Self { bounds, heights }
    }

    /// The height of the whole axis.
    pub(super) fn total(&self) -> u32 {
        self.heights.last().copied().unwrap_or(0)
    }

    /// Where a device address lies; one outside of all buffers lies at the next
    /// bound.
    pub(super) fn at(&self, address: u64) -> u32 {
        let next = self.bounds.partition_point(|&bound| bound <= address);
        let (Some(below), Some(&end)) = (next.checked_sub(1), self.bounds.get(next)) else {
            return if next == 0 { 0 } else { self.total() };
        };
        let start = self.bounds[below];
        let (low, high) = (self.heights[below], self.heights[next]);
        let part = (address - start) as f64 / (end - start) as f64;
        low + (f64::from(high - low) * part) as u32
    }

    /// Where a range of device addresses lies.
    pub(super) fn span(&self, range: ByteRange) -> [u32; 2] {
        [self.at(range.start), self.at(range.end)]
    }
}

/// The height of `len` bytes that are in use.
fn tall(len: u64) -> u32 {
    // 4 bytes: 12 px. A KiB: 20 px. A MiB: 30 px. A GiB: 40 px.
    100 + 10 * len.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use streamweir_trace::Buffer;

    use super::*;

    fn space(ranges: &[(u64, u64)]) -> Space {
        let mut trace = Trace::new("t");
        for &(start, end) in ranges {
            trace.add_buffer(Buffer::persistent("b", ByteRange::new(start, end)));
        }
        Space::new(&trace)
    }

    #[test]
    fn shared_bytes_share_a_height_and_gaps_are_small() {
        let space = space(&[(0x1000, 0x1400), (0x1200, 0x1600), (1 << 40, (1 << 40) + 4)]);
        let [a0, a1] = space.span(ByteRange::new(0x1000, 0x1400));
        let [b0, b1] = space.span(ByteRange::new(0x1200, 0x1600));
        assert_eq!((a0, a1, b0, b1), (0, 380, 190, 570));
        let [c0, c1] = space.span(ByteRange::new(1 << 40, (1 << 40) + 4));
        assert_eq!((c0, c1), (570 + GAP, 570 + GAP + 120));
        assert_eq!(space.total(), c1);
    }

    #[test]
    fn order_is_kept_at_the_ends_of_the_address_space() {
        let space = space(&[(0, 1), (1, u64::MAX), (5, 5)]);
        let mut last = 0;
        for address in [0, 1, 2, 1 << 20, 1 << 63, u64::MAX - 1, u64::MAX] {
            let here = space.at(address);
            assert!(here >= last, "{address:#x}");
            last = here;
        }
        assert_eq!(last, space.total());
        assert_eq!(Space::new(&Trace::new("empty")).at(7), 0);
    }
}

//! Which bytes a graph reads and writes, for deciding which graphs conflict.

use streamweir_trace::{ByteRange, RangeSet, Trace};
use streamweir_verify::Shown;

/// The device bytes that a graph reads and writes, scratch included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes read.
    pub reads: RangeSet,
    /// Bytes written.
    pub writes: RangeSet,
}

impl Footprint {
    /// The bytes of all accesses of a trace, those included that its nodes show and
    /// nothing declares, and all that is only possible.
    pub(crate) fn of(trace: &Trace) -> Self {
        match Shown::new(trace) {
            Ok(shown) => Self::of_shown(shown.trace()),
            // It has been judged, so this does not come to pass.
            Err(_) => Self::of_shown(trace),
        }
    }

    fn of_shown(trace: &Trace) -> Self {
        let (mut reads, mut writes) = (Vec::<ByteRange>::new(), Vec::<ByteRange>::new());
        for access in &trace.accesses {
            let buffer = trace.buffer(access.buffer);
            let Some(bytes) = access.bytes.shifted(buffer.range.start) else {
                continue;
            };
            if access.mode.reads() {
                reads.push(bytes);
            }
            if access.mode.writes() {
                writes.push(bytes);
            }
        }
        for word in &trace.possible {
            let start = trace.buffer(word.buffer).range.start;
            if let Some(bytes) = word.bytes.shifted(start) {
                reads.push(bytes);
                writes.push(bytes);
            }
        }
        Self {
            reads: reads.into_iter().collect(),
            writes: writes.into_iter().collect(),
        }
    }

    /// Whether one writes what the other reads or writes.
    pub fn conflicts(&self, other: &Self) -> bool {
        meet(&self.writes, &other.writes)
            || meet(&self.writes, &other.reads)
            || meet(&self.reads, &other.writes)
    }
}

fn meet(a: &RangeSet, b: &RangeSet) -> bool {
    a.as_slice().iter().any(|range| b.overlaps(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(ranges: &[(u64, u64)]) -> RangeSet {
        let ranges = ranges.iter();
        ranges
            .map(|&(start, end)| ByteRange::new(start, end))
            .collect()
    }

    #[test]
    fn reading_the_same_bytes_is_no_conflict_and_writing_them_is() {
        let reader = Footprint {
            reads: bytes(&[(0, 8)]),
            writes: bytes(&[(100, 108)]),
        };
        let other = Footprint {
            reads: bytes(&[(0, 8)]),
            writes: bytes(&[(200, 208)]),
        };
        let writer = Footprint {
            reads: RangeSet::new(),
            writes: bytes(&[(50, 60), (7, 9)]),
        };
        assert!(!reader.conflicts(&other));
        assert!(reader.conflicts(&writer) && writer.conflicts(&reader));
        assert!(
            reader.conflicts(&reader),
            "a graph that writes conflicts with itself"
        );
    }
}

//! Which bytes a graph reads and writes, for deciding which graphs conflict.

use streamweir_trace::{ByteRange, Trace};

/// The device bytes that a graph reads and writes, scratch included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes read, as disjoint sorted ranges.
    pub reads: Vec<ByteRange>,
    /// Bytes written, as disjoint sorted ranges.
    pub writes: Vec<ByteRange>,
}

impl Footprint {
    /// The bytes of all accesses of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
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
        Self {
            reads: merged(reads),
            writes: merged(writes),
        }
    }

    /// Whether one writes what the other reads or writes.
    pub fn conflicts(&self, other: &Self) -> bool {
        meet(&self.writes, &other.writes)
            || meet(&self.writes, &other.reads)
            || meet(&self.reads, &other.writes)
    }
}

fn merged(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable();
    let mut merged: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn meet(a: &[ByteRange], b: &[ByteRange]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i].overlaps(&b[j]) {
            return true;
        }
        if a[i].end <= b[j].end {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(ranges: &[(u64, u64)]) -> Vec<ByteRange> {
        merged(
            ranges
                .iter()
                .map(|&(start, end)| ByteRange::new(start, end))
                .collect(),
        )
    }

    #[test]
    fn ranges_merge_where_they_touch() {
        let merged = bytes(&[(8, 12), (0, 4), (4, 8), (20, 20), (30, 31)]);
        assert_eq!(merged, [ByteRange::new(0, 12), ByteRange::new(30, 31)]);
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
            reads: vec![],
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

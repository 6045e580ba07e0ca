//! Memory without owners: the buffers of a session that share bytes, joined to
//! regions that share none.

use streamweir_trace::session::{Session, Use};
use streamweir_trace::{Buffer, BufferId, ByteRange, Trace};

/// The disjoint regions that the buffers of a session lie in, by address.
#[derive(Debug)]
pub(super) struct Regions {
    ranges: Vec<ByteRange>,
}

impl Regions {
    pub(super) fn new(session: &Session) -> Self {
        let mut all: Vec<ByteRange> = session
            .buffers
            .iter()
            .map(|buffer| buffer.range)
            .filter(|range| !range.is_empty())
            .collect();
        all.sort_unstable();
        let mut ranges: Vec<ByteRange> = Vec::new();
        for range in all {
            match ranges.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
    }

    /// Adds a buffer for each region to `trace`, in order.
    pub(super) fn add_to(&self, trace: &mut Trace) {
        for range in &self.ranges {
            trace.add_buffer(Buffer::persistent(format!("memory at {range}"), *range));
        }
    }

    /// The region of a use and the bytes of it that are touched; `None` when it
    /// touches none.
    pub(super) fn locate(&self, session: &Session, used: &Use) -> Option<(BufferId, ByteRange)> {
        let bytes = addresses(session, used)?;
        let at = self
            .ranges
            .partition_point(|range| range.end <= bytes.start);
        let start = self.ranges.get(at)?.start;
        Some((
            BufferId::at(at),
            ByteRange::new(bytes.start - start, bytes.end - start),
        ))
    }
}

/// The addresses of a use; `None` when it touches no byte.
pub(super) fn addresses(session: &Session, used: &Use) -> Option<ByteRange> {
    let bytes = used
        .bytes
        .shifted(session.buffer(used.buffer).range.start)?;
    (!bytes.is_empty()).then_some(bytes)
}

//! Memory without owners: the buffers of a session that share bytes or touch,
//! joined to regions that share none.

use streamweir_trace::session::{Session, Use};
use streamweir_trace::{Buffer, BufferId, ByteRange, RangeSet, Trace};

/// The disjoint regions that the buffers of a session lie in, by address.
#[derive(Debug)]
pub(super) struct Regions {
    ranges: RangeSet,
}

impl Regions {
    pub(super) fn new(session: &Session) -> Self {
        Self {
            ranges: session.buffers.iter().map(|buffer| buffer.range).collect(),
        }
    }

    /// Adds a buffer for each region to `trace`, in order.
    pub(super) fn add_to(&self, trace: &mut Trace) {
        for range in self.ranges.as_slice() {
            trace.add_buffer(Buffer::persistent(format!("memory at {range}"), *range));
        }
    }

    /// The region of a use and the bytes of it that are touched; `None` when it
    /// touches none.
    pub(super) fn locate(&self, session: &Session, used: &Use) -> Option<(BufferId, ByteRange)> {
        let bytes = addresses(session, used)?;
        let ranges = self.ranges.as_slice();
        let at = ranges.partition_point(|range| range.end <= bytes.start);
        let start = ranges.get(at)?.start;
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

//! Host memory that copies touch. Addresses of the host and of the device are of
//! one space, as unified addressing makes them, and a dump knows no owners of host
//! memory: what overlaps is one buffer, and outlives the graph.

use streamweir_trace::{Buffer, BufferId, ByteRange, RangeSet, Trace};

use crate::audit::graph::{Operand, Side};

/// The buffers of host memory.
#[derive(Debug)]
pub(super) struct HostMemory {
    regions: RangeSet,
    first: BufferId,
}

impl HostMemory {
    /// Adds a buffer for each stretch of host memory among the operands. Of those
    /// that the dump does not tell apart `is_device` says which are the device's.
    pub(super) fn new(
        operands: &mut [Operand],
        is_device: impl Fn(&Operand) -> bool,
        trace: &mut Trace,
    ) -> Self {
        for operand in operands.iter_mut() {
            if operand.side == Side::Either {
                operand.side = match is_device(operand) {
                    true => Side::Device,
                    false => Side::Host,
                };
            }
        }
        let host = operands.iter().filter(|operand| operand.side == Side::Host);
        let regions: RangeSet = host.map(|operand| operand.range).collect();
        let first = BufferId::at(trace.buffers.len());
        for &range in regions.as_slice() {
            let name = format!("host memory at {:#x}", range.start);
            trace.add_buffer(Buffer::persistent(name, range));
        }
        Self { regions, first }
    }

    /// The buffer of an operand in host memory, and its bytes there.
    pub(super) fn locate(&self, range: ByteRange) -> Option<(BufferId, ByteRange)> {
        let regions = self.regions.as_slice();
        let at = regions.partition_point(|region| region.end <= range.start);
        let start = regions.get(at)?.start;
        let id = BufferId(self.first.0 + u32::try_from(at).ok()?);
        Some((id, ByteRange::new(range.start - start, range.end - start)))
    }
}

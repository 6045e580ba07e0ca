//! The memory of the simulated device.

use bytemuck::Pod;
use streamweir_trace::ByteRange;

use super::kernel::SimFault;

/// Device memory as bytes.
#[derive(Debug, Default)]
pub(super) struct Memory {}

impl Memory {
    pub(super) fn read<T: Pod>(&self, address: u64, count: usize) -> Result<&[T], SimFault> {
        let len = (count * size_of::<T>()) as u64;
        Err(SimFault::OutOfBounds(ByteRange::new(
            address,
            address + len,
        )))
    }

    pub(super) fn write<T: Pod>(&mut self, address: u64, values: &[T]) -> Result<(), SimFault> {
        let len = size_of_val(values) as u64;
        Err(SimFault::OutOfBounds(ByteRange::new(
            address,
            address + len,
        )))
    }
}

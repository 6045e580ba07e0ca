//! A comparison of results, on the device.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;

kernel! {
    /// `found += |{i < len : left[i] != right[i]}|`, wrapping: whether results are
    /// those expected, without a look at them by the host.
    ///
    /// # Safety
    /// A thread reads its own word of either buffer, and none from `len` on.
    pub unsafe fn count_differences(left: In<u32>, right: In<u32>, found: Atomic<u32>, len: u32) {
        left.holds([len])?;
        right.holds([len])?;
        found.holds([1_u32])?;
        Ok(count_differences::shape(len)?)
    }
}

shared! {
    pub(super) DIFFERENCES = differences {
        /// Threads of a block.
        THREADS: u32 = 256;
    }
}

impl count_differences {
    /// The launch for `len` words: a thread for each.
    ///
    /// # Errors
    /// When `len` is zero.
    pub fn shape(len: u32) -> Result<LaunchShape, DimensionError> {
        Dims::of("count_differences").at_least_1("len", len)?.grid(
            len.div_ceil(THREADS),
            ("blocks along y", 1),
            THREADS,
        )
    }
}

pub(super) fn sim() -> SimKernel {
    twin::<count_differences>(|block, (left, right, found, len)| {
        let here = blocks::span(block.index()[0], block.shape().block[0], len);
        let left: Vec<u32> = block.read(left.at(here.start), here.len())?.to_vec();
        let right: &[u32] = block.read(right.at(here.start), here.len())?;
        let differ = left.iter().zip(right).filter(|(a, b)| a != b).count() as u32;
        if differ == 0 {
            return Ok(());
        }
        let before: u32 = block.read(found.at(0), 1)?[0];
        block.write(found.at(0), &[before.wrapping_add(differ)])
    })
}

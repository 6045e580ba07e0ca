//! What the twins of all kernels that store a row share.

use streamweir_sched::driver::sim::{SimBlock, SimFault};
use streamweir_sched::kernel::Ptr;

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages, PageLayout, Pages};
use crate::reference::{self, Stored};
use crate::rope::ROPE_DIM;

shared! {
    pub(in crate::dsv4) ROW = row {
        /// Dimensions of an index key in the kernels that rotate and transform it.
        pub INDEX_DIM: u32 = 128;
    }
}

/// A pool and what becomes of a row, normalised and rotated, on its way into it.
pub(in crate::dsv4) trait RowPool: Pages {
    /// Dimensions of a row.
    const DIM: u32;

    /// The row as the pool holds it.
    fn stored(row: Vec<f64>) -> Stored;

    /// Refuses a geometry whose dimension is another.
    fn check(&self, dims: Dims) -> Result<Dims, DimensionError>;
}

fn floats(row: &[f64]) -> Vec<f32> {
    row.iter().map(|&value| value as f32).collect()
}

impl RowPool for LatentFp8Pages {
    const DIM: u32 = Self::DIM;

    fn stored(row: Vec<f64>) -> Stored {
        reference::stored_latent(&floats(&row))
    }

    fn check(&self, dims: Dims) -> Result<Dims, DimensionError> {
        Ok(dims)
    }
}

/// What the pools of index keys have in common.
macro_rules! key_pool {
    ($pool:ident, $stored:ident) => {
        impl RowPool for $pool {
            const DIM: u32 = INDEX_DIM;

            fn stored(mut row: Vec<f64>) -> Stored {
                reference::hadamard(&mut row);
                reference::$stored(&floats(&row))
            }

            fn check(&self, dims: Dims) -> Result<Dims, DimensionError> {
                dims.check("dim", self.dim(), self.dim() == INDEX_DIM, "128")
            }
        }
    };
}

key_pool!(IndexKeyPages, stored_key);
key_pool!(IndexKeyFp8Pages, stored_key_fp8);

/// Counts one fault.
pub(in crate::dsv4) fn count_fault(
    block: &mut SimBlock<'_>,
    faults: Ptr<u32>,
) -> Result<(), SimFault> {
    let count = block.read::<u32>(faults.address, 1)?[0];
    block.write(faults.address, &[count.wrapping_add(1)])
}

/// The slot that a row is stored at: none for slot 0, none and a fault for a
/// slot that the pool does not have.
pub(in crate::dsv4) fn store_slot(
    block: &mut SimBlock<'_>,
    layout: &PageLayout,
    slot: i32,
    faults: Ptr<u32>,
) -> Result<Option<i32>, SimFault> {
    if slot == 0 {
        return Ok(None);
    }
    if layout.value_offset(slot).is_none() {
        count_fault(block, faults)?;
        return Ok(None);
    }
    Ok(Some(slot))
}

/// The angles of a position; a fault where the table does not have it, when
/// `counts`.
pub(in crate::dsv4) fn angles_at(
    block: &mut SimBlock<'_>,
    rope: Ptr<f32>,
    rope_rows: u32,
    position: i32,
    faults: Option<Ptr<u32>>,
) -> Result<Vec<f32>, SimFault> {
    let place = position.clamp(0, rope_rows as i32 - 1);
    if let Some(faults) = faults.filter(|_| place != position) {
        count_fault(block, faults)?;
    }
    let row = ROPE_DIM as usize;
    Ok(block.read(rope.at(place as usize * row), row)?.to_vec())
}

/// What the rows of a store have in common besides their values.
pub(in crate::dsv4) struct Finish<P> {
    pub(in crate::dsv4) pool: u64,
    pub(in crate::dsv4) layout: P,
    pub(in crate::dsv4) norm: Ptr<f32>,
    pub(in crate::dsv4) epsilon: f32,
}

impl<P: RowPool> Finish<P> {
    /// Norm, rotation and store of one row.
    pub(in crate::dsv4) fn run(
        &self,
        block: &mut SimBlock<'_>,
        row: &[f64],
        angles: &[f32],
        slot: i32,
    ) -> Result<(), SimFault> {
        let norm = block.read(self.norm.address, P::DIM as usize)?;
        let mut row = reference::weighted_rms_norm(row, norm, self.epsilon);
        reference::rotate(&mut row, angles, false);
        let stored = P::stored(row);
        write_stored(block, self.pool, self.layout.layout(), slot, &stored)
    }
}

/// Writes a row to its place in a pool, which has the slot.
pub(in crate::dsv4) fn write_stored(
    block: &mut SimBlock<'_>,
    pool: u64,
    layout: &PageLayout,
    slot: i32,
    stored: &Stored,
) -> Result<(), SimFault> {
    if let (Some(values), Some(scales)) = (layout.value_offset(slot), layout.scale_position(slot)) {
        block.write(pool + values, &stored.values)?;
        if !stored.scales.is_empty() {
            block.write(pool + scales, &stored.scales)?;
        }
    }
    Ok(())
}

/// Refuses a table of angles without rows or with more than positions.
pub(in crate::dsv4) fn check_rope(dims: Dims, rope_rows: u32) -> Result<Dims, DimensionError> {
    dims.check(
        "rope_rows",
        rope_rows,
        (1..=i32::MAX as u32).contains(&rope_rows),
        "from 1 to 2,147,483,647",
    )
}

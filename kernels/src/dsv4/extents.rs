//! What checks of several kernels ask of buffers.

use streamweir_sched::kernel::{Extent, Refusal};

use crate::layout::Pages;
use crate::rope::ROPE_DIM;

/// Bytes of the words in which kernels read rows.
pub(super) const WORD: u64 = 16;

/// Refuses a geometry that no pool has. Its bytes may come from anywhere: a layout is
/// plain data.
pub(super) fn sound<P: Pages>(pages: &P) -> Result<(), Refusal> {
    if pages.is_sound() {
        return Ok(());
    }
    Err(Refusal::Size {
        dimension: "bytes of a page",
        value: pages.layout().page_bytes().into(),
        requirement: "those of a layout that `new` makes, with fewer than 2^31 slots",
    })
}

/// A whole pool of this geometry.
pub(super) fn pool<P: Pages>(buffer: Extent, pages: &P) -> Result<Extent, Refusal> {
    sound(pages)?;
    buffer.holds_bytes(pages.layout().pool_bytes())
}

/// The weights of the norm of a row of `dim`, and a table of angles.
pub(super) fn norm_and_rope(
    norm: Extent,
    rope: Extent,
    rope_rows: u32,
    dim: u32,
) -> Result<(), Refusal> {
    norm.holds([dim])?.aligned(WORD)?;
    rope.holds([rope_rows, ROPE_DIM])?.aligned(WORD)?;
    Ok(())
}

//! What every block is a multiple of.

use streamweir_base::ALIGNMENT;

/// `bytes` rounded up to whole [`ALIGNMENT`] units, at least one of them: every
/// block starts at a multiple of that and holds a multiple of it.
pub(crate) fn rounded(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(ALIGNMENT)
}

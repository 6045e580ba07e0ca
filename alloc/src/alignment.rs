//! What every block is a multiple of.

/// Every block starts at a multiple of this many bytes and holds a multiple of
/// it: what the driver's own allocator promises.
pub const ALIGNMENT: u64 = 256;

/// `bytes` rounded up to whole [`ALIGNMENT`] units, at least one of them.
pub(crate) fn rounded(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(ALIGNMENT)
}

//! What a device can do: the driver trait with its backends.
//!
//! These are the public parts of the crate `streamweir-hal`. Owners of handles are
//! not among them: of those, [`Device`](crate::Device) and what it gives out are
//! what a user holds.

#[cfg(feature = "cuda")]
pub use streamweir_hal::cuda;
pub use streamweir_hal::driver::*;
pub use streamweir_hal::sim;
#[cfg(feature = "testing")]
pub use streamweir_hal::testing;

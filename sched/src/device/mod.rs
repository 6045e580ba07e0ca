//! The device: where memory, code and graphs come from.
//!
//! A [`Device`] is a cheap handle. What it gives out keeps what it needs alive
//! by itself; the device may be dropped first.

#[cfg(feature = "cuda")]
mod adopt;
mod check;
mod code;
mod guard;
mod handle;
mod host_fn;
mod host_use;
mod inner;
mod persistent;
mod pinned;
mod store;
mod stream;
mod table;

pub use check::{Damage, GuardReport};
pub(crate) use code::KernelInfo;
pub use code::{LoadedKernel, Module};
pub use guard::Side;
pub use handle::Device;
pub(crate) use host_fn::HostFn;
pub use host_fn::HostTouch;
pub(crate) use host_use::{OfEngine, PinnedInner, Recorded};
pub(crate) use inner::DeviceInner;
pub use persistent::Persistent;
pub(crate) use persistent::{PersistentInner, bytes_of};
pub(crate) use pinned::values;
pub use pinned::{Held, Pinned};
pub(crate) use stream::{Claim, EventInner};
pub use stream::{DeviceStream, Event};
pub use table::Table;

//! Which handles may cross threads.

use static_assertions::{assert_impl_all, assert_not_impl_any};
use streamweir::{
    Attached, Capture, Device, DeviceStream, Error, Event, Graph, LoadedKernel, Module, Persistent,
    Pinned, ReplayGroup, Scratch, Stream,
};

use crate::common::plus;

assert_impl_all!(Device: Send, Sync, Clone);
assert_impl_all!(DeviceStream: Send, Sync, Clone);
assert_impl_all!(Event: Send, Sync, Clone);
assert_impl_all!(Module: Send, Sync, Clone);
assert_impl_all!(LoadedKernel<plus>: Send, Sync, Clone);
assert_impl_all!(Persistent<u32>: Send, Sync, Clone);
assert_impl_all!(Pinned<u32>: Send, Sync);
assert_impl_all!(Scratch<u32>: Send, Sync);
assert_impl_all!(Graph: Send, Sync);
assert_impl_all!(ReplayGroup: Send, Sync, Clone);
assert_impl_all!(Error: Send, Sync, std::error::Error);

// A capture belongs to the thread that began it.
assert_not_impl_any!(Capture: Send, Sync);
assert_not_impl_any!(Attached: Send, Sync);
assert_not_impl_any!(Stream: Send, Sync, Clone);
// One buffer, one owner.
assert_not_impl_any!(Scratch<u32>: Clone);

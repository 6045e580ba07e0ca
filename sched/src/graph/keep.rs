//! What a graph keeps alive.

use std::any::Any;
use std::sync::Arc;

use streamweir_alloc::Lease;
use streamweir_hal::owned::OwnedModule;

use crate::device::{Claim, EventInner, HostFn, PersistentInner, PinnedInner};

/// All that the nodes of a graph refer to (invariant 6). Dropping it releases
/// nothing by itself: each part goes to the reclaimer.
///
/// Most of it is held and never looked at.
#[allow(dead_code)]
#[derive(Default)]
pub(crate) struct Keep {
    pub(crate) modules: Vec<Arc<OwnedModule>>,
    pub(crate) persistent: Vec<Arc<PersistentInner>>,
    pub(crate) pinned: Vec<Arc<PinnedInner>>,
    /// Functions of the host.
    pub(crate) host: Vec<Arc<HostFn>>,
    pub(crate) events: Vec<Arc<EventInner>>,
    /// That it records events.
    pub(crate) claim: Option<Arc<Claim>>,
    /// What foreign calls asked to be kept.
    pub(crate) foreign: Vec<Arc<dyn Any + Send + Sync>>,
    pub(crate) lease: Option<Lease>,
}

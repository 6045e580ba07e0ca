//! Calls of libraries that are made when a planned capture is emitted.

use std::any::Any;
use std::error::Error as StdError;
use std::sync::Arc;

use streamweir_trace::{ByteRange, PdlWait};

use crate::capture::lane::Dyn;
use crate::capture::place::Touch;
use crate::capture::record::{BufferKey, Recording};
use crate::driver::StreamHandle;

/// What a library's call needs, declared before it is made.
///
/// A planned capture places memory and makes the call after everything has been
/// recorded; a live capture and an eager run do both at once.
pub struct ForeignCall<'a, L = Dyn> {
    pub(in crate::capture) name: &'a str,
    pub(in crate::capture) touches: &'a [Touch<'a, L>],
    pub(in crate::capture) workspace: Option<(usize, usize)>,
    pub(in crate::capture) keep: Option<Arc<dyn Any + Send + Sync>>,
    pub(in crate::capture) keeps_order: bool,
    pub(in crate::capture) pdl: PdlWait,
}

impl<'a, L> ForeignCall<'a, L> {
    /// A call that touches these buffers and no other memory of the device. It
    /// keeps the record order among all calls that do.
    pub fn new(name: &'a str, touches: &'a [Touch<'a, L>]) -> Self {
        Self {
            name,
            touches,
            workspace: None,
            keep: None,
            keeps_order: true,
            pdl: PdlWait::None,
        }
    }

    /// Scratch for the call alone: the most that it may use, in bytes, and what
    /// its address must be a multiple of. The algorithm is the caller's to fix
    /// before, so that this is known.
    #[must_use]
    pub fn workspace(mut self, bytes: usize, alignment: usize) -> Self {
        self.workspace = Some((bytes, alignment));
        self
    }

    /// What the graph keeps alive for the call.
    #[must_use]
    pub fn keep(mut self, keep: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The library keeps no state on the host between calls (a random-number
    /// offset, an algorithm found on the way), so that a planned capture may
    /// make this one earlier or later than others.
    #[must_use]
    pub fn stateless(mut self) -> Self {
        self.keeps_order = false;
        self
    }

    /// Every kernel of the call that starts before its predecessor has ended
    /// (programmatic dependent launch) waits for it on all paths, before it
    /// touches any memory that work of the graph writes, be it that one's or of
    /// what comes before it. Libraries launch so between kernels of one call: the
    /// sums of a product that is split over its inner dimension start early.
    /// Nothing in a graph shows the wait, so without this word a
    /// programmatic edge orders nothing. Reports list it as an assumption.
    #[must_use]
    pub fn waits(mut self) -> Self {
        self.pdl = PdlWait::OnAllPaths;
        self
    }
}

impl<L> std::fmt::Debug for ForeignCall<'_, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignCall")
            .field("name", &self.name)
            .field("workspace", &self.workspace)
            .field("keeps_order", &self.keeps_order)
            .finish_non_exhaustive()
    }
}

/// The addresses that a library's call is given.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ForeignAddresses<'a> {
    /// Those of the touched buffers, in the order in which they were declared.
    pub touched: &'a [u64],
    /// That of the declared workspace.
    pub workspace: Option<u64>,
}

/// What enqueues a library's work on a stream of the driver.
pub(in crate::capture) type Enqueue = Box<
    dyn FnOnce(StreamHandle, ForeignAddresses<'_>) -> Result<(), Box<dyn StdError + Send + Sync>>,
>;

/// A call that was put aside.
pub(in crate::capture) struct Deferred {
    pub(in crate::capture) enqueue: Enqueue,
    /// The touched buffers and the offset of the pointer in each.
    pub(in crate::capture) touched: Vec<(BufferKey, u64)>,
    /// The workspace and what its address is a multiple of.
    pub(in crate::capture) workspace: Option<(BufferKey, u64)>,
    pub(in crate::capture) keeps_order: bool,
}

impl Deferred {
    pub(super) fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    /// The addresses of what it touches, once blocks lie at `ranges`.
    pub(super) fn addresses(
        &self,
        recording: &Recording,
        ranges: &[ByteRange],
    ) -> (Vec<u64>, Option<u64>) {
        let start = |key: BufferKey| match key.index() {
            Ok(block) => ranges[block].start,
            Err(persistent) => recording.persistents[persistent].range.start,
        };
        let touched = self.touched.iter();
        let touched = touched.map(|&(key, offset)| start(key) + offset).collect();
        let workspace = self
            .workspace
            .map(|(key, alignment)| start(key).next_multiple_of(alignment));
        (touched, workspace)
    }
}

//! A library's call, declared before it is made.

use std::any::Any;
use std::error::Error as StdError;
use std::sync::Arc;

use streamweir_hal::driver::StreamHandle;
use streamweir_trace::{ByteRange, PdlWait};

use super::buffer::Touch;
use super::lane::Dyn;
use super::recording::{BufferKey, CallSaid, Kept, Recording};

/// What a library's call needs, declared before it is made.
///
/// A planned capture places memory and makes the call after everything has been
/// recorded; a live capture and an eager run do both at once.
pub struct ForeignCall<'a, L = Dyn> {
    pub(super) name: &'a str,
    pub(super) touches: &'a [Touch<'a, L>],
    pub(super) workspace: Option<(usize, usize)>,
    pub(super) keep: Vec<Arc<dyn Any + Send + Sync>>,
    pub(super) keeps_order: bool,
    pub(super) said: CallSaid,
}

impl<'a, L> ForeignCall<'a, L> {
    /// A call that touches these buffers and no other memory of the device. It
    /// keeps the record order among all calls that do.
    pub fn new(name: &'a str, touches: &'a [Touch<'a, L>]) -> Self {
        Self {
            name,
            touches,
            workspace: None,
            keep: Vec::new(),
            keeps_order: true,
            said: CallSaid::default(),
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

    /// What the graph keeps alive for the call, memory that no node of it refers to
    /// included. Memory that its kernels are given an address of is said by
    /// [`keeps`](Self::keeps).
    #[must_use]
    pub fn keep(mut self, keep: Arc<dyn Any + Send + Sync>) -> Self {
        self.keep.push(keep);
        self
    }

    /// Memory at `range` that the call's kernels are given an address of, that no
    /// touched buffer is, and that the graph keeps alive by `owner`: a library's own
    /// constants, say. It explains words of their parameters that point into it; an
    /// operand of a copy or a fill there is an access all the same. Reports list it as
    /// an assumption.
    #[must_use]
    pub fn keeps(
        mut self,
        name: impl Into<String>,
        range: ByteRange,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let name = name.into();
        self.said.keeps.push(Kept { name, range });
        self.keep.push(owner);
        self
    }

    /// Words of the call's parameters that are addresses of known memory, and that
    /// nothing else explains, are left over from other work: its kernels touch nothing
    /// through them. Reports list how many there are and which buffers they point
    /// into, as one assumption for the call. Operands of copies and fills are never
    /// left over.
    #[must_use]
    pub fn left_over(mut self, reason: impl Into<String>) -> Self {
        self.said.left_over = Some(reason.into());
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
    /// touches any memory that the predecessor, or other work before it, writes.
    /// Libraries launch in this way between kernels of one call: the sums of a
    /// product that is split over its inner dimension start early. Nothing in a
    /// graph shows the wait, so unless the caller says this, a programmatic edge
    /// orders nothing. Reports list it as an assumption.
    #[must_use]
    pub fn waits(mut self) -> Self {
        self.said.pdl = PdlWait::OnAllPaths;
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
pub(super) type Enqueue =
    Box<dyn FnOnce(StreamHandle, ForeignAddresses<'_>) -> Result<(), LibraryError>>;

/// What went wrong in a library.
pub(super) type LibraryError = Box<dyn StdError + Send + Sync>;

/// A call that a planned capture makes when it sends its commands.
pub(super) struct Deferred {
    pub(super) enqueue: Enqueue,
    /// The touched buffers and the offset of the pointer in each.
    pub(super) touched: Vec<(BufferKey, u64)>,
    /// The workspace and what its address is a multiple of.
    pub(super) workspace: Option<(BufferKey, u64)>,
    pub(super) keeps_order: bool,
}

impl Deferred {
    /// A call that touches these buffers, and last its workspace if that has an
    /// alignment.
    pub(super) fn new(
        enqueue: Enqueue,
        mut touched: Vec<(BufferKey, u64)>,
        alignment: Option<u64>,
        keeps_order: bool,
    ) -> Self {
        let workspace = alignment.and_then(|alignment| Some((touched.pop()?.0, alignment)));
        Self {
            enqueue,
            touched,
            workspace,
            keeps_order,
        }
    }

    /// The addresses of what it touches, once blocks lie at `ranges`.
    pub(super) fn addresses(
        &self,
        recording: &Recording,
        ranges: &[ByteRange],
    ) -> (Vec<u64>, Option<u64>) {
        let start = |key: BufferKey| match key {
            BufferKey::Scratch(block) => ranges[block as usize].start,
            BufferKey::Persistent(at) => recording.persistents[at as usize].range.start,
        };
        let touched = self.touched.iter();
        let touched = touched.map(|&(key, offset)| start(key) + offset).collect();
        let workspace = self
            .workspace
            .map(|(key, alignment)| start(key).next_multiple_of(alignment));
        (touched, workspace)
    }
}

//! The pools of a capture behind one lock.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
// Tells captures apart and publishes nothing, so loom need not see it; and
// loom's atomics cannot be static.
use std::sync::atomic::{AtomicU32, Ordering};

use streamweir_base::sync::{Mutex, MutexGuard};
use streamweir_trace::{ByteRange, NodeId, StreamId};

use super::state::State;
use crate::alignment::rounded;
use crate::arena::{GrantError, Lease, View};
use crate::block::{Block, BlockId, BlockKind, BlockRecord};
use crate::clocks::{Clock, Position};
use crate::error::AllocError;
use crate::leaks::Leaks;
use crate::policy::Policy;
use crate::report::PoolReport;

static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// The scratch pools of one capture, and the clocks of its streams.
///
/// Each captured stream has one tag and each tag one pool. All calls may come
/// from any thread; the one that matters is [`free`](Self::free), the drop of a
/// handle that was sent elsewhere. Each takes one lock, once, unless the arena
/// has to grow.
///
/// End it with [`finish`](Self::finish) or [`abort`](Self::abort); dropped
/// unfinished, it aborts. Scratch that was never freed is then named in the
/// program's log (`tracing`, at level warn).
pub struct Pools {
    view: View,
    policy: Policy,
    capture: u32,
    state: Mutex<State>,
}

impl Pools {
    /// Pools over all bytes of `view`'s arena.
    pub fn new(view: View, policy: Policy) -> Self {
        let capture = CAPTURES.fetch_add(1, Ordering::Relaxed);
        Self {
            view,
            policy,
            capture,
            state: Mutex::new(State::new(policy, capture)),
        }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The view of the arena.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Adds a captured stream, on which nothing has happened. Streams are
    /// numbered as they are added, the origin first.
    ///
    /// # Errors
    /// When another stream has the tag, or the capture has ended. A stream that
    /// takes part several times is added once and forked again.
    pub fn add_stream(
        &self,
        name: impl Into<Arc<str>>,
        tag: impl Into<Arc<str>>,
    ) -> Result<StreamId, AllocError> {
        self.open()?.add_stream(name.into(), tag.into())
    }

    /// `child` continues after all that `parent` has reached, and after its own
    /// chain if it has one.
    ///
    /// # Errors
    /// When a stream is not of this capture, or the capture has ended.
    pub fn fork(&self, parent: StreamId, child: StreamId) -> Result<(), AllocError> {
        self.open()?.wait_for(child, parent)
    }

    /// `into` continues after all that `from` has reached: a join point.
    ///
    /// # Errors
    /// When a stream is not of this capture, or the capture has ended.
    pub fn join(&self, into: StreamId, from: StreamId) -> Result<(), AllocError> {
        self.open()?.wait_for(into, from)
    }

    /// What an event recorded on `stream` now stands for.
    ///
    /// # Errors
    /// When the stream is not of this capture, or the capture has ended.
    pub fn snapshot(&self, stream: StreamId) -> Result<Clock, AllocError> {
        let state = self.open()?;
        state.has(stream)?;
        Ok(state.clocks.frontier(stream).clone())
    }

    /// `stream` continues after an event of this capture, too.
    ///
    /// # Errors
    /// When the stream is not of this capture, or the capture has ended. That
    /// the clock is of this capture is for the caller to know.
    pub fn wait(&self, stream: StreamId, event: &Clock) -> Result<(), AllocError> {
        let mut state = self.open()?;
        state.wait(stream, event)
    }

    /// Whether the node at `position` happens before what `stream` records next.
    /// False for a stream that is not of this capture.
    pub fn reached(&self, stream: StreamId, position: Position) -> bool {
        let state = self.state.lock();
        state.has(stream).is_ok() && state.clocks.frontier(stream).reaches(position)
    }

    /// Nodes recorded so far, over all streams: the id of the next one.
    pub fn nodes(&self) -> NodeId {
        self.state.lock().clocks.nodes()
    }

    /// Records one node on `stream` that accesses these blocks.
    ///
    /// Whether the blocks are [`visible`](Self::visible) there is not asked:
    /// that is the typed layer's to prevent and the verifier's to find.
    ///
    /// # Errors
    /// When the stream or a block is not of this capture, a block has been
    /// freed, or the capture has ended. The node does not count then.
    pub fn record(&self, stream: StreamId, touched: &[BlockId]) -> Result<Position, AllocError> {
        self.open()?.record(stream, touched)
    }

    /// Takes `bytes` bytes on `stream`, at its present frontier: only what
    /// happens after that may access them. A literal as name costs nothing.
    ///
    /// # Errors
    /// When the arena cannot grow as far as needed, the stream is not of this
    /// capture, or the capture has ended.
    pub fn alloc(
        &self,
        stream: StreamId,
        bytes: u64,
        name: impl Into<Cow<'static, str>>,
    ) -> Result<Block, AllocError> {
        self.take(stream, bytes, name.into(), BlockKind::Scratch)
    }

    /// Takes `bytes` bytes that a library holds on `stream` across its calls, to
    /// the end of the capture. They are not used again for anything.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn workspace(
        &self,
        stream: StreamId,
        bytes: u64,
        name: impl Into<Cow<'static, str>>,
    ) -> Result<Block, AllocError> {
        self.take(stream, bytes, name.into(), BlockKind::Workspace)
    }

    fn take(
        &self,
        stream: StreamId,
        bytes: u64,
        name: Cow<'static, str>,
        kind: BlockKind,
    ) -> Result<Block, AllocError> {
        let Some(held) = rounded(bytes) else {
            let buffer = name.into_owned();
            return Err(AllocError::TooLarge { buffer, bytes });
        };
        let mut state = self.open()?;
        loop {
            state.has(stream)?;
            if let Some(chunk) = state.find(stream, held)? {
                return Ok(state.bind(chunk, stream, bytes, name, kind));
            }
            // What is free at the end of the pool is made longer, if that can be.
            let tails = state.tails(stream);
            // The backing may be slow and is not ours: no lock is held while it
            // works. Another thread may take the new bytes before this one is
            // back; then it looks again, and the other has got on.
            drop(state);
            let span = match self.view.grant(held, &tails) {
                Ok(span) => span,
                Err(error) => return Err(self.refused(error, stream, held, name)),
            };
            state = self.open()?;
            state.add_span(stream, span);
        }
    }

    #[cold]
    fn refused(
        &self,
        error: GrantError,
        stream: StreamId,
        bytes: u64,
        name: Cow<'static, str>,
    ) -> AllocError {
        let source = match error {
            GrantError::Ended => return self.ended(),
            GrantError::Backing(source) => source,
        };
        let arena = self.view.arena();
        let reserved = arena.reserved();
        let arena = Arc::clone(arena.name());
        let buffer = name.into_owned();
        let (stream, tag) = self.state.lock().names(stream);
        if source.is_out_of_memory() {
            AllocError::OutOfMemory {
                buffer,
                stream,
                tag,
                bytes,
                arena,
                reserved,
                source,
            }
        } else {
            AllocError::Backing {
                buffer,
                stream,
                tag,
                bytes,
                arena,
                source,
            }
        }
    }

    /// The host lets go of a block: no access of it will be recorded from now
    /// on. Its bytes are used again where that is safe.
    ///
    /// Does nothing for a workspace, which is held to the end, and nothing once
    /// the capture has ended, when handles may still be dropped.
    ///
    /// # Errors
    /// When the block has been freed before, or is of another capture.
    pub fn free(&self, block: BlockId) -> Result<(), AllocError> {
        let mut state = self.state.lock();
        state.owns(block)?;
        if state.ended {
            state.note_dropped(block);
            return Ok(());
        }
        state.free(block)
    }

    /// [`free`](Self::free) of a block whose accesses were not recorded, as behind
    /// a C `malloc` and `free`: which kernels use the block is not known here.
    ///
    /// Any stream that is ordered after the alloc point may have used it, and no
    /// other one can have. So the bytes need the last node of each such stream,
    /// beside what was recorded. That costs reuse: record accesses where they are
    /// known.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn free_unknown(&self, block: BlockId) -> Result<(), AllocError> {
        let mut state = self.state.lock();
        state.owns(block)?;
        if state.ended {
            state.note_dropped(block);
            return Ok(());
        }
        state.assume_users(block)?;
        state.free(block)
    }

    /// Whether what `stream` records next may access the block: it is held, its
    /// alloc point is within the frontier of the stream, and a workspace is
    /// asked for on its own stream. False for ids of another capture.
    pub fn visible(&self, block: BlockId, stream: StreamId) -> bool {
        self.state.lock().visible(block, stream)
    }

    /// Bytes of the block's range; `None` when it is of another capture.
    pub fn bytes_of(&self, block: BlockId) -> Option<u64> {
        let state = self.state.lock();
        state.owns(block).ok()?;
        Some(state.blocks[block.index()].record.range.len())
    }

    /// All blocks of the capture in the order they were taken, freed ones
    /// included.
    pub fn buffers(&self) -> Vec<BlockRecord> {
        let state = self.state.lock();
        state.blocks.iter().map(|b| b.record.clone()).collect()
    }

    /// Whether the blocks of the capture, freed ones included, are these but for the
    /// capture that they are of.
    pub fn has_buffers(&self, others: &[BlockRecord]) -> bool {
        let state = self.state.lock();
        let blocks = state.blocks.iter().map(|held| &held.record);
        state.blocks.len() == others.len()
            && blocks
                .zip(others)
                .all(|(block, other)| block.is_like(other))
    }

    /// Bytes used, reserved and at peak, per stream and tag, and the buffers
    /// that are held, largest first.
    pub fn report(&self) -> PoolReport {
        self.state
            .lock()
            .report(self.policy, Arc::clone(self.view.arena().name()))
    }

    /// The scratch buffers that nobody has freed, largest first. Before the pools
    /// are dropped this may be asked for at any time; what is left then is said
    /// in the program's log.
    pub fn leaks(&self) -> Leaks {
        let arena = Arc::clone(self.view.arena().name());
        self.state.lock().leaks(arena)
    }

    /// The memory that the pools hold, whether blocks lie in it or not, and the
    /// stream whose pool it is; `None` where all streams share one.
    pub fn reserved(&self) -> Vec<(Option<StreamId>, ByteRange)> {
        self.state.lock().reserved()
    }

    /// Ends the capture as a success. The graph keeps the lease: while it lives,
    /// the bytes stay in place.
    ///
    /// # Errors
    /// When the capture has ended already.
    pub fn finish(&self) -> Result<Lease, AllocError> {
        self.open()?.ended = true;
        self.view.commit().ok_or_else(|| self.ended())
    }

    /// Ends the capture as a failure and leaves the arena as it was. Does
    /// nothing when the capture has ended already.
    pub fn abort(&self) {
        let already = std::mem::replace(&mut self.state.lock().ended, true);
        if !already {
            self.view.abort();
        }
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, AllocError> {
        let state = self.state.lock();
        if state.ended {
            return Err(self.ended());
        }
        Ok(state)
    }

    #[cold]
    fn ended(&self) -> AllocError {
        AllocError::Ended {
            arena: Arc::clone(self.view.arena().name()),
        }
    }
}

impl Drop for Pools {
    /// Says what was leaked; the view then aborts what has not ended.
    fn drop(&mut self) {
        let arena = Arc::clone(self.view.arena().name());
        self.state.get_mut().leaks(arena).warn();
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools")
            .field("capture", &self.capture)
            .field("policy", &self.policy)
            .field("arena", &self.view.arena().name())
            .finish_non_exhaustive()
    }
}

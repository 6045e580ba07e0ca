//! What a capture, and later its graph, holds of an arena.

use std::fmt;
use std::sync::Arc;

use streamweir_trace::ByteRange;

use super::segments::{Span, Tail, ViewId};
use super::{Arena, GrantError};
use crate::alignment::rounded;
use crate::error::AllocError;

/// One capture's view of an arena, in which every byte is free at first.
///
/// Give it to [`Pools::new`](crate::Pools::new), which takes bytes as they are
/// asked for; or [`take`](Self::take) them for a layout that was planned.
/// Dropped before the capture has succeeded, it leaves the arena as it was.
pub struct View {
    arena: Arc<Arena>,
    id: ViewId,
}

impl View {
    pub(super) fn new(arena: Arc<Arena>, id: ViewId) -> Self {
        Self { arena, id }
    }

    /// The arena.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Takes `bytes` bytes in one piece that this view has not taken before,
    /// rounded up to the alignment and no more: room for a planned layout.
    ///
    /// # Errors
    /// When the arena cannot grow as far as needed, or the view has ended.
    pub fn take(&self, bytes: u64) -> Result<ByteRange, AllocError> {
        let arena = || Arc::clone(self.arena.name());
        let Some(bytes_held) = rounded(bytes) else {
            return Err(AllocError::TooLarge {
                buffer: format!("the layout in arena {:?}", arena()),
                bytes,
            });
        };
        match self.arena.grant_exactly(self.id, bytes_held) {
            Ok(span) => Ok(span.range),
            Err(GrantError::Ended) => Err(AllocError::Ended { arena: arena() }),
            Err(GrantError::Backing(source)) => Err(AllocError::Layout {
                bytes: bytes_held,
                arena: arena(),
                reserved: self.arena.reserved(),
                source,
            }),
        }
    }

    /// Ends the view as a success: what the graph holds of the arena.
    ///
    /// # Errors
    /// When it has ended before.
    pub fn finish(&self) -> Result<Lease, AllocError> {
        self.commit().ok_or_else(|| AllocError::Ended {
            arena: Arc::clone(self.arena.name()),
        })
    }

    /// Room for `bytes` bytes: as many, or what makes one of `tails` as long.
    pub(crate) fn grant(&self, bytes: u64, tails: &[Tail]) -> Result<Span, GrantError> {
        self.arena.grant(self.id, bytes, tails)
    }

    /// Ends the view as a success; `None` when it has ended before.
    pub(crate) fn commit(&self) -> Option<Lease> {
        self.arena.commit(self.id)
    }

    /// Ends the view as a failure; does nothing when it has ended before.
    pub(crate) fn abort(&self) {
        self.arena.abort(self.id);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("arena", &self.arena.name())
            .finish_non_exhaustive()
    }
}

/// What a graph holds of an arena: while it lives, the segments that its capture
/// used stay in place. Drop it once no launch of the graph is in flight.
pub struct Lease {
    arena: Arc<Arena>,
    view: ViewId,
    covered: Vec<Span>,
}

impl Lease {
    pub(super) fn new(arena: Arc<Arena>, view: ViewId, covered: Vec<Span>) -> Self {
        Self {
            arena,
            view,
            covered,
        }
    }

    /// The arena.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The bytes that the graph may touch, one range per segment. Two graphs
    /// whose ranges overlap must not be in flight together.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = ByteRange> + '_ {
        self.covered.iter().map(|span| span.range)
    }

    /// How many bytes these are.
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|range| range.len()).sum()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.arena.end_lease(self.view, &self.covered);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("arena", &self.arena.name())
            .field("ranges", &self.ranges().collect::<Vec<_>>())
            .finish()
    }
}

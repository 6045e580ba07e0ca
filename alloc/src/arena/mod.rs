//! The address range that a group of graphs takes its pools from.
//!
//! An arena is a list of segments that its backing reserved, one where the
//! backing can make a segment longer without moving it. The graphs of a
//! replay group are never in flight together, so each capture gets all bytes of
//! all segments to itself, as if it were the only one: it opens a [`View`], and
//! what the arena reserves is the maximum over the captures, not their sum. Two
//! captures may be open at once, from two threads, and may be given the same
//! bytes; that is right for the same reason.
//!
//! # Guarantees
//! - Inside one view no byte is granted twice.
//! - Segments never move, and no part of one is handed back while a view uses it
//!   or a [`Lease`] covers it.
//! - A capture that fails leaves the arena as it was: what was reserved goes back
//!   when no other view uses it and no capture that succeeded ever did. It does
//!   not matter which of several failing captures made the arena grow.
//! - One grower at a time: a view that finds no room while another one grows
//!   waits and looks again, so two captures do not reserve twice what the larger
//!   of them needs.
//! - The backing is called with no lock held.
//!
//! Segments stay when their leases are gone, for the next capture; they go back
//! to the backing with [`Arena::trim`], or when the arena and all leases are gone.
//!
//! Capture the largest of a group first. A smaller one fits into what is there;
//! a larger one makes the arena grow, which costs a reservation at least, and
//! room that the smaller ones cannot use where the backing cannot extend.

mod lease;
mod segments;

use std::fmt;
use std::sync::Arc;

use streamweir_base::sync::{Condvar, Mutex};
use streamweir_base::{ALIGNMENT, Backing, BackingError};
use streamweir_trace::ByteRange;

pub use self::lease::{Lease, View};
pub use self::segments::Holder;
use self::segments::{Growth, SegmentId, Segments, ViewId, Want};
pub(crate) use self::segments::{Span, Tail};
use crate::alignment::rounded;

/// How an arena grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaConfig {
    /// The least that is reserved at once, in bytes.
    pub segment_bytes: u64,
    /// The least that one pool takes from a segment at once, in bytes. Larger
    /// spans leave room to merge freed blocks, smaller ones waste less where
    /// there are many tags.
    pub span_bytes: u64,
}

impl Default for ArenaConfig {
    /// Segments of 16 MiB, spans of 512 KiB.
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            span_bytes: 512 << 10,
        }
    }
}

/// The address range that a replay group takes its pools from.
pub struct Arena {
    name: Arc<str>,
    backing: Arc<dyn Backing>,
    config: ArenaConfig,
    segments: Mutex<Segments>,
    /// Signalled when a grower is done, with or without success.
    grown: Condvar,
}

/// Why a view got no span.
pub(crate) enum GrantError {
    /// The view has been committed or aborted.
    Ended,
    /// The backing gave nothing.
    Backing(BackingError),
}

impl Arena {
    /// An arena that has reserved nothing yet. The name is for reports. Sizes in
    /// `config` are rounded up to the alignment.
    pub fn new(
        name: impl Into<Arc<str>>,
        backing: Arc<dyn Backing>,
        config: ArenaConfig,
    ) -> Arc<Self> {
        let round = |bytes| rounded(bytes).unwrap_or(ALIGNMENT);
        Arc::new(Self {
            name: name.into(),
            backing,
            config: ArenaConfig {
                segment_bytes: round(config.segment_bytes),
                span_bytes: round(config.span_bytes),
            },
            segments: Mutex::new(Segments::default()),
            grown: Condvar::new(),
        })
    }

    /// The arena's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A view for one capture, in which every byte of the arena is free.
    pub fn open(self: &Arc<Self>) -> View {
        self.open_for("unnamed")
    }

    /// [`open`](Self::open) with a name for the capture, by which
    /// [`holders`](Self::holders) speaks of it.
    pub fn open_for(self: &Arc<Self>, capture: impl Into<Arc<str>>) -> View {
        let id = self.segments.lock().open(capture.into());
        View::new(Arc::clone(self), id)
    }

    /// Who holds bytes of the arena, most first: captures that are going on, and
    /// graphs that have not let go. What is left here when all graphs should be
    /// gone has been leaked, and keeps the memory reserved.
    pub fn holders(&self) -> Vec<Holder> {
        self.segments.lock().holders()
    }

    /// Bytes reserved from the backing.
    pub fn reserved(&self) -> u64 {
        self.segments.lock().reserved()
    }

    /// How it grows.
    pub fn config(&self) -> ArenaConfig {
        self.config
    }

    /// The segments, oldest first.
    pub fn segments(&self) -> Vec<ByteRange> {
        self.segments.lock().ranges()
    }

    /// Hands back what no open view uses and no lease covers, whole segments and
    /// their ends, and says how many bytes that were.
    pub fn trim(&self) -> u64 {
        let unused = self.segments.lock().take_unused();
        let bytes = unused.iter().map(ByteRange::len).sum();
        self.release(unused);
        bytes
    }

    /// Bytes that this view has not been given before: `bytes` of them (a multiple
    /// of the alignment) or more, or what makes one of `tails` as long as that.
    fn grant(&self, view: ViewId, bytes: u64, tails: &[Tail]) -> Result<Span, GrantError> {
        let want = Want {
            bytes,
            step: self.config.span_bytes,
            tails,
        };
        self.grant_or_grow(view, want, self.config.segment_bytes)
    }

    /// `bytes` bytes (a multiple of the alignment) that this view has not been
    /// given before.
    fn grant_exactly(&self, view: ViewId, bytes: u64) -> Result<Span, GrantError> {
        let want = Want {
            bytes,
            step: ALIGNMENT,
            tails: &[],
        };
        self.grant_or_grow(view, want, ALIGNMENT)
    }

    /// Where a segment is made longer, then by `growth` bytes at least.
    fn grant_or_grow(&self, view: ViewId, want: Want<'_>, growth: u64) -> Result<Span, GrantError> {
        let mut segments = self.segments.lock();
        let plan = loop {
            if !segments.is_open(view) {
                return Err(GrantError::Ended);
            }
            if let Some(span) = segments.grant(view, want) {
                return Ok(span);
            }
            if !segments.growing {
                segments.growing = true;
                break segments.plan(view, want, growth, self.config.segment_bytes);
            }
            self.grown.wait(&mut segments);
        };
        drop(segments);

        // From here to the end of the statement this thread is the grower; the
        // guard also ends that when the backing panics.
        let grower = Grower(self);
        let grown = self.grow(plan);
        let mut segments = self.segments.lock();
        let mut unwanted = Vec::new();
        let granted = match grown {
            Ok((piece, of)) if segments.is_open(view) => {
                match of {
                    Some(segment) => segments.extend(segment, piece),
                    None => segments.push(piece),
                }
                // There is room now that this view has not used; should that ever be untrue, it is a refusal.
                segments.grant(view, want).ok_or_else(|| {
                    GrantError::Backing(BackingError::failed(
                        "what was reserved has no room for what it was reserved for",
                    ))
                })
            }
            Ok((piece, _)) => {
                unwanted.push(piece);
                Err(GrantError::Ended)
            }
            Err(error) => Err(GrantError::Backing(error)),
        };
        drop(segments);
        drop(grower);
        // Captures that failed meanwhile left the end of the segment in place.
        unwanted.extend(self.segments.lock().take_unwanted());
        self.release(unwanted);
        granted
    }

    /// A piece for a segment that exists, or for a new one.
    fn grow(&self, plan: Growth) -> Result<(ByteRange, Option<SegmentId>), BackingError> {
        let bytes = match plan {
            Growth::New { bytes } => bytes,
            Growth::Extend {
                segment,
                piece,
                bytes,
                otherwise,
            } => match self.backing.extend(piece, bytes)? {
                Some(next) if next.start == piece.end && next.len() >= bytes => {
                    return Ok((next, Some(segment)));
                }
                Some(wrong) => {
                    self.backing.release(wrong);
                    return Err(BackingError::failed(format!(
                        "asked for {bytes} bytes behind {piece}, the backing gave {wrong}"
                    )));
                }
                None => otherwise,
            },
        };
        Ok((self.reserve(bytes)?, None))
    }

    /// A new range of the backing, checked against what a backing promises.
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let range = self.backing.reserve(bytes)?;
        if range.len() >= bytes && range.start.is_multiple_of(ALIGNMENT) {
            return Ok(range);
        }
        self.backing.release(range);
        Err(BackingError::failed(format!(
            "asked for {bytes} bytes aligned to {ALIGNMENT}, the backing gave {range}"
        )))
    }

    fn commit(self: &Arc<Self>, view: ViewId) -> Option<Lease> {
        let used = self.segments.lock().commit(view)?;
        Some(Lease::new(Arc::clone(self), view, used))
    }

    fn abort(&self, view: ViewId) {
        let unused = self.segments.lock().abort(view);
        self.release(unused);
    }

    fn end_lease(&self, view: ViewId, covered: &[Span]) {
        self.segments.lock().end_lease(view, covered);
    }

    fn release(&self, pieces: impl IntoIterator<Item = ByteRange>) {
        for piece in pieces {
            self.backing.release(piece);
        }
    }
}

/// Being the one that grows.
struct Grower<'a>(&'a Arena);

impl Drop for Grower<'_> {
    fn drop(&mut self) {
        self.0.segments.lock().end_growth();
        self.0.grown.notify_all();
    }
}

impl Drop for Arena {
    /// Views and leases own the arena, so nothing uses a segment any more.
    fn drop(&mut self) {
        let all = self.segments.get_mut().pieces();
        self.release(all);
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("name", &self.name)
            .field("config", &self.config)
            .field("segments", &self.segments())
            .finish_non_exhaustive()
    }
}

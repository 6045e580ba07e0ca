//! Scratch that nobody has let go of.
//!
//! A handle frees its block when it is dropped, also after the end of the capture.
//! So a block that is held when the pools go away belonged to a handle that was
//! forgotten, or to foreign code that called no `free`. Nothing breaks by that:
//! the pools' memory goes back with the graph. But the bytes were used for nothing
//! else in the graph, and each capture of the kind pays for them again.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use streamweir_trace::{ByteRange, Count};

use crate::size::size;

/// The scratch buffers of a capture that were taken and never freed: a statement
/// of [`Pools::leaks`](crate::Pools::leaks). Workspaces are held to the end by
/// their nature and are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaks {
    /// The arena's name.
    pub arena: Arc<str>,
    /// The buffers, largest first.
    pub buffers: Vec<Leak>,
}

/// A scratch buffer that was never freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Its name.
    pub buffer: Cow<'static, str>,
    /// The stream it was taken on.
    pub stream: Arc<str>,
    /// That stream's tag.
    pub tag: Arc<str>,
    /// Its addresses.
    pub range: ByteRange,
}

/// How many of them the text names.
const NAMED: usize = 8;

impl Leaks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// How many bytes they are together.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|leak| leak.range.len()).sum()
    }

    /// Says so in the program's log, once, when there are any.
    pub(crate) fn warn(&self) {
        if !self.is_empty() {
            tracing::warn!(
                arena = &*self.arena,
                buffers = self.buffers.len(),
                bytes = self.bytes(),
                "{self}"
            );
        }
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" of stream \"{}\" (tag \"{}\"), {} bytes at {}",
            self.buffer,
            self.stream,
            self.tag,
            self.range.len(),
            self.range
        )
    }
}

impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.buffers.len();
        if count == 0 {
            return write!(f, "all scratch in arena \"{}\" was freed", self.arena);
        }
        write!(
            f,
            "{} in arena \"{}\" ({}) never freed; drop the handles, or free the blocks, \
             where their last use is recorded",
            Count::of(count as u64, "scratch buffer"),
            self.arena,
            size(self.bytes())
        )?;
        for leak in self.buffers.iter().take(NAMED) {
            write!(f, "\n  {leak}")?;
        }
        match count.saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

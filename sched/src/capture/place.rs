//! What a launch can be given: buffers and parts of them.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use streamweir_alloc::BlockId;
use streamweir_trace::{AccessMode, ByteRange};

use super::lane::VisibleOn;
use super::session::Session;
use crate::device::{Persistent, PersistentInner};
use crate::error::{Error, Result};
use crate::kernel::Element;

/// A buffer, or a part of one, as an argument.
pub trait Buffer {
    /// The element type.
    type Item: Element;

    /// Which bytes of which memory it is.
    #[doc(hidden)]
    fn place(&self) -> Place<'_>;
}

/// Bytes of a buffer: where a kernel's pointer points, and what it may touch.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub(super) memory: Memory<'a>,
    /// The pointer's distance from the first byte of the buffer.
    pub(super) pointer: u64,
    /// The bytes touched, counted from the first byte of the buffer.
    pub(super) bytes: ByteRange,
}

/// The memory behind a place.
#[derive(Clone, Copy)]
pub(super) enum Memory<'a> {
    Scratch {
        session: &'a Arc<Session>,
        block: BlockId,
        range: ByteRange,
    },
    Persistent(&'a Arc<PersistentInner>),
}

impl<'a> Place<'a> {
    pub(super) fn whole(memory: Memory<'a>, bytes: u64) -> Self {
        Self {
            memory,
            pointer: 0,
            bytes: ByteRange::new(0, bytes),
        }
    }
}

impl Place<'_> {
    /// The device address that a kernel or a library is given.
    pub(super) fn address(&self) -> Result<u64> {
        match self.memory {
            Memory::Persistent(inner) => Ok(inner.range.start + self.pointer),
            Memory::Scratch {
                session,
                block,
                range,
            } => match session.range_of(block, range) {
                Some(range) => Ok(range.start + self.pointer),
                None => Err(session.no_address(block)),
            },
        }
    }
}

impl<T: Element> Buffer for Persistent<T> {
    type Item = T;

    fn place(&self) -> Place<'_> {
        let bytes = self.inner.range.len();
        Place::whole(Memory::Persistent(&self.inner), bytes)
    }
}

impl<T, L> VisibleOn<L> for Persistent<T> {}

impl<B: Buffer> Buffer for &B {
    type Item = B::Item;

    fn place(&self) -> Place<'_> {
        (**self).place()
    }
}

impl<L, B: VisibleOn<L>> VisibleOn<L> for &B {}

/// A part of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Part<B> {
    buffer: B,
    pointer: u64,
    bytes: ByteRange,
}

impl<L, B: VisibleOn<L>> VisibleOn<L> for Part<B> {}

impl<B: Buffer> Buffer for Part<B> {
    type Item = B::Item;

    fn place(&self) -> Place<'_> {
        Place {
            memory: self.buffer.place().memory,
            pointer: self.pointer,
            bytes: self.bytes,
        }
    }
}

/// Elements `range` of a buffer, as a buffer of its own: the kernel's pointer
/// points to the first of them.
///
/// # Errors
/// When the range is not in the buffer.
pub fn part<B: Buffer>(buffer: B, range: Range<usize>) -> Result<Part<B>> {
    let bytes = elements(&buffer, &range)?;
    Ok(Part {
        pointer: bytes.start,
        bytes,
        buffer,
    })
}

/// A buffer of which the kernel touches the elements `range` only: its pointer
/// still points to the first element of all. That the kernel keeps to it is a
/// promise of the caller.
///
/// # Errors
/// When the range is not in the buffer.
pub fn narrow<B: Buffer>(buffer: B, range: Range<usize>) -> Result<Part<B>> {
    let bytes = elements(&buffer, &range)?;
    Ok(Part {
        pointer: buffer.place().pointer,
        bytes,
        buffer,
    })
}

/// The bytes of a buffer as elements of another type, as a kernel over plain
/// words takes them. They stay the same bytes.
///
/// # Errors
/// When they are no whole number of such elements, or begin where none may.
pub fn cast<U: Element, B: Buffer>(buffer: B) -> Result<Cast<U, B>> {
    let place = buffer.place();
    let start = place.memory.range().start + place.pointer;
    let (size, align) = (size_of::<U>() as u64, align_of::<U>() as u64);
    let whole = place.bytes.len().is_multiple_of(size.max(1)) && start.is_multiple_of(align);
    if place.pointer != place.bytes.start || !whole {
        let elements = place.bytes.len() / (size_of::<B::Item>() as u64).max(1);
        return Err(Error::Length {
            buffer: place.memory.name(),
            has: elements as usize,
            what: format!(
                "its {} bytes are not elements of {size} bytes",
                place.bytes.len()
            ),
        });
    }
    Ok(Cast {
        buffer,
        item: PhantomData,
    })
}

/// A buffer whose bytes are taken for elements of another type: see [`cast`].
#[derive(Clone, Copy, Debug)]
pub struct Cast<U, B> {
    buffer: B,
    item: PhantomData<fn() -> U>,
}

impl<L, U, B: VisibleOn<L>> VisibleOn<L> for Cast<U, B> {}

impl<U: Element, B: Buffer> Buffer for Cast<U, B> {
    type Item = U;

    fn place(&self) -> Place<'_> {
        self.buffer.place()
    }
}

fn elements<B: Buffer>(buffer: &B, range: &Range<usize>) -> Result<ByteRange> {
    let place = buffer.place();
    let size = size_of::<B::Item>() as u64;
    let has = place.bytes.len().checked_div(size).unwrap_or(0) as usize;
    if range.start > range.end || range.end > has {
        return Err(Error::Length {
            buffer: place.memory.name(),
            has,
            what: format!("the part {}..{} is not in it", range.start, range.end),
        });
    }
    let start = place.bytes.start;
    Ok(ByteRange::new(
        start + range.start as u64 * size,
        start + range.end as u64 * size,
    ))
}

impl Memory<'_> {
    /// The buffer's name, for errors.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Scratch { session, block, .. } => session.block_name(*block),
            Self::Persistent(inner) => inner.name.to_string(),
        }
    }

    pub(super) fn range(&self) -> ByteRange {
        match self {
            Self::Scratch { range, .. } => *range,
            Self::Persistent(inner) => inner.range,
        }
    }
}

/// A declared access besides a kernel's parameters: memory that is reached
/// through a table, or that a foreign call touches.
pub struct Touch<'a, L> {
    pub(super) place: Place<'a>,
    pub(super) mode: AccessMode,
    lane: PhantomData<fn(L)>,
}

// A lane is a name; that its values cannot be cloned is no matter.
impl<L> Clone for Touch<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Touch<'_, L> {}

macro_rules! touches {
    ($($(#[$doc:meta])* $name:ident => $mode:ident;)+) => {
        $(
            $(#[$doc])*
            pub fn $name<'a, L, B: Buffer + VisibleOn<L>>(buffer: &'a B) -> Touch<'a, L> {
                Touch { place: buffer.place(), mode: AccessMode::$mode, lane: PhantomData }
            }
        )+
    };
}

touches! {
    /// The work reads the buffer.
    reads => Read;
    /// The work writes the buffer and does not read what was in it.
    writes => Write;
    /// The work reads and writes the buffer.
    updates => ReadWrite;
    /// The work touches the buffer by atomic operations alone.
    atomics => Atomic;
}

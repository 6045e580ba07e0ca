//! Parts of buffers, and their bytes as elements of another type.

use std::marker::PhantomData;
use std::ops::Range;

use streamweir_trace::ByteRange;

use super::place::{Buffer, Place};
use crate::capture::lane::VisibleOn;
use crate::error::{Error, Result};
use crate::kernel::Element;

/// A part of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Part<B> {
    buffer: B,
    pointer: u64,
    bytes: ByteRange,
    end: u64,
}

impl<L, B: VisibleOn<L>> VisibleOn<L> for Part<B> {}

impl<B: Buffer> Buffer for Part<B> {
    type Item = B::Item;

    fn place(&self) -> Place<'_> {
        Place {
            memory: self.buffer.place().memory,
            pointer: self.pointer,
            bytes: self.bytes,
            end: self.end,
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
        end: bytes.end,
        buffer,
    })
}

/// A buffer of which the kernel touches the elements `range` only: its pointer
/// still points to the first element of all. A kernel's check sees the whole buffer.
///
/// # Errors
/// When the range is not in the buffer.
///
/// # Safety
/// The work that is given it touches nothing else of the buffer. Proofs count on it.
pub unsafe fn narrow<B: Buffer>(buffer: B, range: Range<usize>) -> Result<Part<B>> {
    let bytes = elements(&buffer, &range)?;
    let Place { pointer, end, .. } = buffer.place();
    Ok(Part {
        pointer,
        bytes,
        end,
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

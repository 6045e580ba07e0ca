//! What a launch can be given: buffers, and the bytes of them that it touches.

use std::sync::Arc;

use streamweir_alloc::BlockId;
use streamweir_trace::ByteRange;

use crate::capture::lane::{Dyn, VisibleOn};
use crate::capture::pools::ScratchPools;
use crate::device::{Persistent, PersistentInner, Pinned, PinnedInner};
use crate::error::Result;
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
    pub(in crate::capture) memory: Memory<'a>,
    /// The pointer's distance from the first byte of the buffer.
    pub(in crate::capture) pointer: u64,
    /// The bytes touched, counted from the first byte of the buffer.
    pub(in crate::capture) bytes: ByteRange,
    /// Where what a kernel may be let near ends, likewise: narrowing says what is
    /// touched and takes nothing away.
    pub(in crate::capture) end: u64,
}

/// The memory behind a place.
#[derive(Clone, Copy)]
pub(in crate::capture) enum Memory<'a> {
    Scratch {
        pools: &'a Arc<ScratchPools>,
        block: BlockId,
        range: ByteRange,
    },
    Persistent(&'a Arc<PersistentInner>),
}

impl<'a> Place<'a> {
    #[inline]
    pub(in crate::capture) fn whole(memory: Memory<'a>, bytes: u64) -> Self {
        Self {
            memory,
            pointer: 0,
            bytes: ByteRange::new(0, bytes),
            end: bytes,
        }
    }
}

impl Place<'_> {
    /// The device address that a kernel or a library is given.
    pub(in crate::capture) fn address(&self) -> Result<u64> {
        match self.memory {
            Memory::Persistent(inner) => Ok(inner.range.start + self.pointer),
            Memory::Scratch {
                pools,
                block,
                range,
            } => match pools.range_of(block, range) {
                Some(range) => Ok(range.start + self.pointer),
                None => Err(pools.no_address(block)),
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

impl<T> Pinned<T> {
    /// Its memory as a place of copies. It is no [`Buffer`], which kernels are given.
    pub(in crate::capture) fn place(&self) -> Place<'_> {
        self.inner.place()
    }
}

impl PinnedInner {
    /// The same of the memory itself.
    pub(in crate::capture) fn place(&self) -> Place<'_> {
        Place::whole(Memory::Persistent(&self.buffer), self.buffer.range.len())
    }
}

/// Any buffer with these elements, which an engine keeps in one list with others. What
/// lane it is of is not known, so it is visible on streams without a lane alone, where
/// the verifier decides.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Buffer, Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4)?;
/// device.capture::<_, Error>("step", |cap| {
///     let main = cap.origin();
///     let x = main.scratch::<u32>("x", 4)?;
///     let all: [&dyn Buffer<Item = u32>; 2] = [&x, &out];
///     all.into_iter().try_for_each(|buffer| main.fill(buffer, 0))
/// })?;
/// # Ok(())
/// # }
/// ```
impl<T: Element> VisibleOn<Dyn> for dyn Buffer<Item = T> + '_ {}

impl<B: Buffer + ?Sized> Buffer for &B {
    type Item = B::Item;

    fn place(&self) -> Place<'_> {
        (**self).place()
    }
}

impl<L, B: VisibleOn<L> + ?Sized> VisibleOn<L> for &B {}

impl Memory<'_> {
    /// The buffer's name, for errors.
    pub(in crate::capture) fn name(&self) -> String {
        match self {
            Self::Scratch { pools, block, .. } => pools.block_name(*block),
            Self::Persistent(inner) => inner.name.to_string(),
        }
    }

    #[inline]
    pub(in crate::capture) fn range(&self) -> ByteRange {
        match self {
            Self::Scratch { range, .. } => *range,
            Self::Persistent(inner) => inner.range,
        }
    }
}

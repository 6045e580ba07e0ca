//! Scratch buffers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use streamweir_alloc::Block;
use streamweir_trace::ByteRange;

use super::buffer::{Buffer, Memory, Place};
use super::lane::{Dyn, VisibleOn};
use super::pools::ScratchPools;
use crate::error::Result;
use crate::kernel::Element;

/// A scratch buffer of `T`: transient memory of one captured stream, from its
/// alloc point to its last access inside one graph.
///
/// Dropping it, on any thread, gives its bytes back to the stream's pool. A
/// drop is an event of the host and none of the device: the bytes go to
/// another buffer only where every recorded access of this one is ordered
/// before.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 64)?;
/// device.capture::<_, Error>("step", |cap| {
///     let main = cap.origin();
///     let a = main.scratch::<u32>("a", 64)?;
///     main.fill(&a, 1)?;
///     main.copy(&out, &a)?;
///     let bytes = a.range()?;
///     drop(a);
///     // What `main` records next comes after the copy, so it may have the bytes.
///     let b = main.scratch::<u32>("b", 64)?;
///     assert_eq!(b.range()?, bytes);
///     main.fill(&b, 2)
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Scratch<T, L = Dyn> {
    pools: Arc<ScratchPools>,
    block: Block,
    len: usize,
    types: PhantomData<fn() -> (T, L)>,
}

impl<T, L> Scratch<T, L> {
    pub(super) fn new(pools: Arc<ScratchPools>, block: Block, len: usize) -> Self {
        Self {
            pools,
            block,
            len,
            types: PhantomData,
        }
    }

    /// Length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The name, as reports print it.
    pub fn name(&self) -> String {
        self.pools.block_name(self.block.id)
    }

    /// Where it lies. The bytes are this buffer's only for work ordered
    /// between its alloc point and its last recorded access.
    ///
    /// # Errors
    /// [`Error::Unplannable`](crate::Error::Unplannable) while a planned capture
    /// is being recorded: it places its buffers when the recording is complete.
    pub fn range(&self) -> Result<ByteRange> {
        let (pools, block) = (&self.pools, self.block);
        pools
            .range_of(block.id, block.range)
            .ok_or_else(|| pools.no_address(block.id))
    }
}

impl<T, L> VisibleOn<L> for Scratch<T, L> {}

impl<T: Element, L> Buffer for Scratch<T, L> {
    type Item = T;

    fn place(&self) -> Place<'_> {
        let memory = Memory::Scratch {
            pools: &self.pools,
            block: self.block.id,
            range: self.block.range,
        };
        Place::whole(memory, (self.len * size_of::<T>()) as u64)
    }
}

impl<T, L> Drop for Scratch<T, L> {
    fn drop(&mut self) {
        let freed = self.pools.let_go(self.block);
        debug_assert!(
            freed.is_ok(),
            "a scratch buffer is freed once, by its only handle"
        );
    }
}

impl<T, L> fmt::Debug for Scratch<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("name", &self.name())
            .field("range", &self.range().ok())
            .field("len", &self.len)
            .finish()
    }
}

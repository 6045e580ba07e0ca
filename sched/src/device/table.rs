//! Tables of addresses in device memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use streamweir_trace::AccessMode;

use super::{Device, Persistent, PersistentInner};
use crate::error::Result;
use crate::kernel::{Argument, BufferSpec, Ptr, Role, Spec, TableExtent};

/// A table of buffers in device memory: their addresses, one behind the other, for a
/// kernel that finds its buffers there, such as the weights of many experts.
///
/// The library alone writes it, so what it holds are the addresses of these buffers
/// and no others, and a launch that is given it touches them all as `S` says: they are
/// in the proof, and a graph keeps them. A buffer of `u64` into which anybody writes
/// addresses is nothing that a kernel's author could vouch for.
pub struct Table<S: BufferSpec> {
    pub(crate) addresses: Persistent<u64>,
    pub(crate) entries: Arc<[Arc<PersistentInner>]>,
    spec: PhantomData<fn() -> S>,
}

impl Device {
    /// A table of `buffers`, in this order.
    ///
    /// # Errors
    /// As [`persistent_from`](Self::persistent_from).
    pub fn table<S: BufferSpec>(
        &self,
        name: &str,
        buffers: &[&Persistent<S::Item>],
    ) -> Result<Table<S>> {
        let addresses: Vec<u64> = buffers.iter().map(|b| b.range().start).collect();
        Ok(Table {
            addresses: self.persistent_from(name, &addresses)?,
            entries: buffers.iter().map(|b| b.inner.clone()).collect(),
            spec: PhantomData,
        })
    }
}

impl<S: BufferSpec> Table<S> {
    /// How many buffers it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The kernel gets the address of the table, and finds those of the buffers there.
impl<S: BufferSpec> Spec for Table<S> {
    type Raw = Ptr<u64>;
    type Given = TableExtent;
    const SIZE: u32 = 8;
    const ALIGN: u32 = 8;
    const ROLE: Role = Role::Buffer {
        mode: AccessMode::Read,
        element: 8,
    };

    fn decode(bytes: &[u8]) -> Ptr<u64> {
        Ptr::new(bytemuck::pod_read_unaligned(bytes))
    }

    fn given(argument: Argument<'_>) -> TableExtent {
        argument.table(size_of::<S::Item>())
    }
}

impl<S: BufferSpec> fmt::Debug for Table<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.entries.iter().map(|entry| &*entry.name))
            .finish()
    }
}

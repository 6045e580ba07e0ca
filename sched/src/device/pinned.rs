//! Page-locked host memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use streamweir_hal::owned::HostMemory;

use super::handle::Device;
use super::persistent::bytes_of;
use crate::error::{During, Name, Result};
use crate::kernel::Element;

/// Page-locked host memory of `T`, the source of captured uploads.
///
/// A graph that copies from it keeps it alive and reads what is in it at each
/// replay. While such a graph exists the host cannot write: it might be in the
/// middle of a replay.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let input = device.persistent::<u32>("input", 4)?;
/// let mut ids = device.pinned::<u32>("ids", 4)?;
/// if let Some(values) = ids.as_mut_slice() {
///     values.copy_from_slice(&[1, 2, 3, 4]);
/// }
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().upload(&input, &ids))?;
/// graph.replay(&device.stream("replay")?)?;
/// assert_eq!(input.download()?, [1, 2, 3, 4]);
/// assert!(ids.as_mut_slice().is_none()); // a replay might be reading it
/// # Ok(())
/// # }
/// ```
pub struct Pinned<T> {
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) name: Name,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl Device {
    /// Page-locked host memory of `len` elements, zeroed, for copies on a
    /// stream.
    ///
    /// # Errors
    /// When memory runs out, or inside a capture.
    pub fn pinned<T: Element>(&self, name: &str, len: usize) -> Result<Pinned<T>> {
        self.inner.outside("Device::pinned")?;
        Pinned::new(self, name, len)
    }
}

impl<T: Element> Pinned<T> {
    pub(super) fn new(device: &Device, name: &str, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(name, len)?;
        let memory = HostMemory::zeroed(&device.inner.reclaim, bytes.max(1) as usize)
            .during(|| format!("allocating {bytes} page-locked bytes for \"{name}\""))?;
        Ok(Self {
            memory: Arc::new(memory),
            name: name.into(),
            len,
            element: PhantomData,
        })
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&self.memory.bytes()[..self.len * size_of::<T>()])
    }

    /// The elements, to be written, while no graph holds the memory; `None`
    /// when one does.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let bytes = self.len * size_of::<T>();
        let memory = Arc::get_mut(&mut self.memory)?;
        Some(bytemuck::cast_slice_mut(&mut memory.bytes_mut()[..bytes]))
    }
}

impl<T> Pinned<T> {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned")
            .field("name", &self.name)
            .field("len", &self.len)
            .finish()
    }
}

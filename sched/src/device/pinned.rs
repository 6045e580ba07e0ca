//! Page-locked host memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use streamweir_hal::owned::{HostMemory, OwnedEvent};
use streamweir_trace::{ByteRange, RangeSet};

use super::handle::Device;
use super::host_use::PinnedInner;
use super::persistent::{PersistentInner, bytes_of};
use crate::error::{During, Error, FeedError, Result};
use crate::kernel::Element;
use crate::turns::Footprint;

/// Page-locked host memory of `T`, the host's end of captured copies.
///
/// A graph that copies from it or to it keeps it alive, and does so at each replay. It is
/// a buffer like any other: its accesses are in the trace, are proved, and make graphs
/// take turns. Between replays the host has it through [`hold`](Self::hold), which waits
/// for the launches in flight that touch it; while it is held, their replays are refused.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let x = device.persistent::<u32>("x", 4)?;
/// let mut ids = device.pinned::<u32>("ids", 4)?;
/// let mut tokens = device.pinned::<u32>("tokens", 4)?;
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| {
///     cap.origin().upload(&x, &ids)?;
///     cap.origin().download(&mut tokens, &x)
/// })?;
/// let stream = device.stream("replay")?;
/// for step in 0..3 {
///     ids.hold()?.fill(step); // after the replay before, and before the next
///     graph.replay(&stream)?;
///     assert_eq!(tokens.hold()?[..], [step; 4]); // after the replay
/// }
/// let held = ids.hold()?;
/// assert!(graph.replay(&stream).is_err()); // it would read what the host is writing
/// # drop(held);
/// # Ok(())
/// # }
/// ```
pub struct Pinned<T> {
    pub(crate) inner: Arc<PinnedInner>,
    len: usize,
    /// For waits; made when the first is needed.
    event: Option<OwnedEvent>,
    element: PhantomData<fn() -> T>,
}

/// Page-locked memory while the host has it to itself.
///
/// Replays of graphs that touch it are refused until this is dropped.
pub struct Held<'a, T: Element> {
    inner: &'a PinnedInner,
    values: &'a mut [T],
}

/// Clears the mark unless all went well.
struct Mark<'a>(Option<&'a PinnedInner>);

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if let Some(inner) = self.0 {
            inner.set_held(false);
        }
    }
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
    fn new(device: &Device, name: &str, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(name, len)?;
        let memory = HostMemory::zeroed(&device.inner.reclaim, bytes.max(1) as usize)
            .during(|| format!("allocating {bytes} page-locked bytes for \"{name}\""))?;
        let start = memory.address();
        let whole = ByteRange::new(start, start + memory.len() as u64);
        let memory = Arc::new(memory);
        let entry = device
            .inner
            .registry
            .register(whole, name, memory.clone())?;
        let range = ByteRange::new(start, start + bytes);
        let buffer = Arc::new(PersistentInner::new(device, range, name, entry));
        Ok(Self {
            inner: Arc::new(PinnedInner::new(buffer, memory)),
            len,
            event: None,
            element: PhantomData,
        })
    }

    /// The elements, to be read; `None` while something that copies to the memory may
    /// run.
    pub fn as_slice(&self) -> Option<&[T]> {
        if self.inner.is_written() && Arc::strong_count(&self.inner) > 1 {
            return None;
        }
        // What was let go of by others happened before.
        fence(Ordering::Acquire);
        let bytes = self.len * size_of::<T>();
        // SAFETY: the host writes only through an exclusive borrow of this; a copy to
        // the memory is recorded through one, and whoever records, runs or replays it
        // shares `inner`.
        let all = unsafe { self.inner.memory().bytes() };
        Some(bytemuck::cast_slice(&all[..bytes]))
    }

    /// The elements, to be written, while nothing that copies from or to the memory
    /// exists; `None` when something does. See [`hold`](Self::hold).
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        Arc::get_mut(&mut self.inner)?;
        self.inner.note_alone();
        // SAFETY: nobody else shares `inner`, as who copies would.
        Some(unsafe { self.values() })
    }

    /// The elements, to be read and written, when the launches in flight that touch the
    /// memory have ended: waits for an event behind each, and never polls. Replays of
    /// graphs that touch it are refused as long as it is held.
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// # use streamweir::{Device, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// # let input = device.persistent::<u32>("input", 4)?;
    /// # let mut ids = device.pinned::<u32>("ids", 4)?;
    /// # let stream = device.stream("replay")?;
    /// let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().upload(&input, &ids))?;
    /// graph.replay(&stream)?;
    /// ids.hold()?.copy_from_slice(&[1, 2, 3, 4]); // not under the replay
    /// graph.replay(&stream)?;
    /// # assert_eq!(input.download()?, [1, 2, 3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`FeedError::NotHeld`](crate::FeedError::NotHeld) while a capture or an eager run that
    /// copies from or to it is not over, or a graph of an engine does;
    /// [`FeedError::Poisoned`](crate::FeedError::Poisoned) when a function of the host
    /// that touches it has panicked; when work that was waited for failed; or inside a
    /// capture.
    pub fn hold(&mut self) -> Result<Held<'_, T>> {
        let mark = Mark(Some(&self.inner));
        // First, so that who launches after the wait below sees it.
        self.inner.set_held(true);
        if let Some(device) = self.inner.buffer.device() {
            device.outside("Pinned::hold")?;
            self.inner.check_known()?;
            let footprint = Footprint {
                reads: RangeSet::new(),
                writes: [self.inner.buffer.range].into_iter().collect(),
            };
            for last in device.groups.latest_of(&footprint) {
                last.wait(&device.reclaim, &mut self.event).during(|| {
                    format!(
                        "waiting for the copies of page-locked buffer \"{}\"",
                        self.name()
                    )
                })?;
            }
        }
        if let Some(why) = self.inner.poisoned() {
            return Err(Error::Feed(FeedError::Poisoned {
                buffer: self.name().to_owned(),
                why,
            }));
        }
        std::mem::forget(mark);
        let inner = &*self.inner;
        // SAFETY: no launch that touches the memory is in flight, and none begins before
        // the mark goes: a launch looks for it in its turn, and the waits above have
        // taken all turns after it was set. Recordings and engines have none. The borrow
        // keeps the owner away.
        let values = unsafe { values::<T>(inner, self.len) };
        Ok(Held { inner, values })
    }

    /// # Safety
    /// Nobody else reads or writes the memory while the borrow lasts.
    unsafe fn values(&mut self) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { values(&self.inner, self.len) }
    }
}

/// # Safety
/// Nobody else reads or writes the memory while the borrow lasts.
#[expect(
    clippy::mut_from_ref,
    reason = "the values are behind a pointer, and the caller promises to be alone"
)]
pub(crate) unsafe fn values<T: Element>(inner: &PinnedInner, len: usize) -> &mut [T] {
    // SAFETY: the caller's promise.
    let all = unsafe { inner.memory().bytes_alone() };
    bytemuck::cast_slice_mut(&mut all[..len * size_of::<T>()])
}

impl<T> Pinned<T> {
    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.buffer.name
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

impl<T: Element> Deref for Held<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.values
    }
}

impl<T: Element> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.values
    }
}

impl<T: Element> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.inner.set_held(false);
    }
}

impl<T: Element> fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("buffer", &self.inner.buffer.name)
            .field("len", &self.values.len())
            .finish()
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned")
            .field("name", &self.name())
            .field("len", &self.len)
            .finish()
    }
}

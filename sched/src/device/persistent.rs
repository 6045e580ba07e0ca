//! Persistent buffers: memory that outlives the graphs that touch it.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use streamweir_alloc::{ALIGNMENT, PersistentEntry};
use streamweir_base::sync::atomic::AtomicU32;
use streamweir_hal::owned::{self, DeviceMemory, Fence, Shared};
use streamweir_trace::ByteRange;

use super::guard::Guard;
use super::handle::Device;
use super::inner::DeviceInner;
use crate::error::{During, Error, Name, Result};
use crate::kernel::Element;

/// A persistent buffer of `T`: registered once, kept alive by each graph that
/// touches it.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// let input = device.persistent_from("input", &[1_u32, 2, 3, 4])?;
/// let output = device.persistent::<u32>("output", 4)?; // zeroed
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().copy(&output, &input))?;
/// let stream = device.stream("replay")?;
/// graph.replay(&stream)?;
/// assert_eq!(output.download()?, [1, 2, 3, 4]);
///
/// input.upload(&[5, 6, 7, 8])?; // between replays, never inside one
/// graph.replay(&stream)?;
/// assert_eq!(output.download()?, [5, 6, 7, 8]);
///
/// drop(input); // the graph keeps the memory
/// graph.replay(&stream)?;
/// # Ok(())
/// # }
/// ```
pub struct Persistent<T> {
    pub(crate) inner: Arc<PersistentInner>,
    pub(crate) len: usize,
    pub(crate) element: PhantomData<fn() -> T>,
}

pub(crate) struct PersistentInner {
    pub(crate) number: u64,
    pub(crate) range: ByteRange,
    pub(crate) name: Name,
    device: Weak<DeviceInner>,
    reclaim: Shared,
    /// Where the recording that named it last has it in its table. A hint, which each
    /// recording checks: it saves a look into a map for each access.
    pub(crate) seen_at: AtomicU32,
    // Its keep-alive is the memory: when the last handle and the last graph
    // have let go, the memory goes to the reclaimer.
    _entry: Arc<PersistentEntry>,
}

impl Device {
    /// Registers `len` elements of new, zeroed device memory that outlives the
    /// graphs captured with it: weights, caches, inputs, outputs.
    ///
    /// # Errors
    /// When memory runs out, or inside a capture.
    pub fn persistent<T: Element>(&self, name: &str, len: usize) -> Result<Persistent<T>> {
        self.inner.outside("Device::persistent")?;
        self.collect();
        Persistent::new(self, name, len)
    }

    /// Registers new device memory that holds `values`.
    ///
    /// # Errors
    /// As [`persistent`](Self::persistent).
    pub fn persistent_from<T: Element>(&self, name: &str, values: &[T]) -> Result<Persistent<T>> {
        let buffer = self.persistent(name, values.len())?;
        buffer.upload(values)?;
        Ok(buffer)
    }
}

impl<T: Element> Persistent<T> {
    pub(super) fn new(device: &Device, name: &str, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(name, len)?;
        let during = || format!("allocating {bytes} bytes for persistent buffer \"{name}\"");
        let inner = &device.inner;
        if device.guarded {
            let guard = Guard::around(&inner.guards, &inner.reclaim, name, bytes).during(during)?;
            let range = guard.inside();
            let guard = zeroed(device, name, guard, range)?;
            guard
                .set(&inner.reclaim)
                .during(|| format!("setting the guards of \"{name}\""))?;
            // A zero-byte buffer has an address of its own, too.
            let own = ByteRange::new(range.start, range.start + bytes.max(ALIGNMENT));
            let entry = inner.registry.register(own, name, guard)?;
            return Ok(Self::of(device, range, name, entry, len));
        }
        let memory = DeviceMemory::new(&inner.reclaim, bytes.max(ALIGNMENT)).during(during)?;
        let whole = memory.range();
        let range = ByteRange::new(whole.start, whole.start + bytes);
        let memory = zeroed(device, name, memory, range)?;
        let entry = inner.registry.register(whole, name, Arc::new(memory))?;
        Ok(Self::of(device, range, name, entry, len))
    }

    /// Registers device memory that somebody else has, without a copy. `keep`
    /// holds it alive: the buffer and every graph that touches it hold `keep`.
    ///
    /// # Errors
    /// When the pointer is null or not aligned for `T`, or the range overlaps
    /// a buffer that is registered already.
    ///
    /// # Safety
    /// `address` is device memory of `len` elements, live while `keep` is, and
    /// work that the owner enqueues on it is ordered with replays by the owner.
    pub unsafe fn from_raw(
        device: &Device,
        address: u64,
        len: usize,
        name: &str,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        device.inner.outside("Persistent::from_raw")?;
        let bytes = bytes_of::<T>(name, len)?;
        let bad = |why| Error::BadPointer {
            buffer: name.to_owned(),
            address,
            why,
        };
        if address == 0 {
            return Err(bad("it is null"));
        }
        if !address.is_multiple_of(align_of::<T>() as u64) {
            return Err(bad("it is not aligned for its element type"));
        }
        let range = ByteRange::from_len(address, bytes)
            .ok_or_else(|| bad("the buffer would end past the address space"))?;
        let entry = device.inner.registry.register(range, name, keep)?;
        Ok(Self::of(device, range, name, entry, len))
    }

    pub(super) fn of(
        device: &Device,
        range: ByteRange,
        name: &str,
        entry: Arc<PersistentEntry>,
        len: usize,
    ) -> Self {
        Self {
            inner: Arc::new(PersistentInner::new(device, range, name, entry)),
            len,
            element: PhantomData,
        }
    }

    /// Copies `values` to the start of the buffer. Waits first for all work
    /// that streamweir has enqueued on the device, then for the copy.
    ///
    /// # Errors
    /// When there are more values than the buffer has elements, work failed,
    /// or inside a capture.
    pub fn upload(&self, values: &[T]) -> Result<()> {
        self.upload_at(0, values)
    }

    /// Copies `values` to the elements from `at` on; otherwise as
    /// [`upload`](Self::upload). To feed a step use [`Feed`](crate::Feed), which waits
    /// for nothing.
    ///
    /// ```
    /// # use streamweir_sched::{Device, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// let table = device.persistent::<u32>("table", 4)?;
    /// table.upload_at(1, &[7, 8])?;
    /// let mut tail = [0; 3];
    /// table.download_into(1, &mut tail)?;
    /// assert_eq!(tail, [7, 8, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the values end past the buffer, work failed, or inside a capture.
    pub fn upload_at(&self, at: usize, values: &[T]) -> Result<()> {
        let start = self.start_of(at, values.len(), "were to be uploaded")?;
        self.wait_for_all("Persistent::upload")?;
        let bytes = bytemuck::cast_slice(values);
        // SAFETY: the range is live while `inner` is, it is long enough, and
        // `wait_for_all` has waited for the work that might use it.
        unsafe { owned::upload(&self.inner.reclaim, start, bytes) }
            .during(|| format!("uploading to buffer \"{}\"", self.inner.name))
    }

    /// Copies the buffer to the host. Waits first for all work that streamweir
    /// has enqueued on the device.
    ///
    /// # Errors
    /// When work failed, or inside a capture.
    pub fn download(&self) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); self.len];
        self.download_into(0, &mut values)?;
        Ok(values)
    }

    /// Copies the elements from `at` on into memory that the caller has, as many as
    /// `values` takes; otherwise as [`download`](Self::download).
    ///
    /// # Errors
    /// When they end past the buffer, work failed, or inside a capture.
    pub fn download_into(&self, at: usize, values: &mut [T]) -> Result<()> {
        let start = self.start_of(at, values.len(), "were to be downloaded")?;
        self.wait_for_all("Persistent::download")?;
        let bytes = bytemuck::cast_slice_mut(values);
        // SAFETY: as in `upload_at`.
        unsafe { owned::download(&self.inner.reclaim, bytes, start) }
            .during(|| format!("downloading buffer \"{}\"", self.inner.name))
    }

    /// Where element `at` lies, of which on `len` elements are asked for.
    fn start_of(&self, at: usize, len: usize, asked: &str) -> Result<u64> {
        match at.checked_add(len) {
            Some(end) if end <= self.len => {
                Ok(self.inner.range.start + (at * size_of::<T>()) as u64)
            }
            _ => Err(self.length(match at {
                0 => format!("{len} {asked}"),
                _ => format!("{len} {asked}, from element {at} on"),
            })),
        }
    }

    fn wait_for_all(&self, call: &'static str) -> Result<()> {
        match self.inner.device.upgrade() {
            Some(device) => {
                device.outside(call)?;
                device.wait_for_all()
            }
            // The device waited for everything when it went.
            None => Ok(()),
        }
    }

    fn length(&self, what: String) -> Error {
        Error::Length {
            buffer: self.inner.name.to_string(),
            has: self.len,
            what,
        }
    }
}

impl<T> Persistent<T> {
    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies.
    pub fn range(&self) -> ByteRange {
        self.inner.range
    }
}

impl PersistentInner {
    pub(super) fn new(
        device: &Device,
        range: ByteRange,
        name: &str,
        entry: Arc<PersistentEntry>,
    ) -> Self {
        Self {
            number: device.inner.next_number(),
            range,
            name: name.into(),
            device: Arc::downgrade(&device.inner),
            reclaim: device.inner.reclaim.clone(),
            seen_at: AtomicU32::new(0),
            _entry: entry,
        }
    }

    /// The device, unless it is gone.
    pub(super) fn device(&self) -> Option<Arc<DeviceInner>> {
        self.device.upgrade()
    }

    pub(crate) fn is_on(&self, device: &Arc<DeviceInner>) -> bool {
        std::ptr::eq(self.device.as_ptr(), Arc::as_ptr(device))
    }
}

impl<T> Clone for Persistent<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            len: self.len,
            element: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Persistent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("name", &self.inner.name)
            .field("range", &self.inner.range)
            .field("len", &self.len)
            .finish()
    }
}

impl Persistent<u8> {
    /// Memory for what an instrument of a capture writes, which holds nothing
    /// yet. It may be made inside a capture.
    pub(crate) fn unset(device: &Device, name: &str, bytes: u64) -> Result<Self> {
        let memory = DeviceMemory::new(&device.inner.reclaim, bytes.max(ALIGNMENT))
            .during(|| format!("allocating {bytes} bytes for \"{name}\""))?;
        let start = memory.range().start;
        let entry = (device.inner.registry).register(memory.range(), name, Arc::new(memory))?;
        let range = ByteRange::new(start, start + bytes);
        Ok(Self::of(device, range, name, entry, bytes as usize))
    }
}

pub(crate) fn bytes_of<T>(name: &str, len: usize) -> Result<u64> {
    len.checked_mul(size_of::<T>())
        .map(|bytes| bytes as u64)
        .ok_or_else(|| Error::TooLarge {
            buffer: name.to_owned(),
            elements: len,
            element_size: size_of::<T>(),
        })
}

/// Fills `range` of new memory with zeros, and waits.
fn zeroed<M: Send + Sync + 'static>(
    device: &Device,
    name: &str,
    memory: M,
    range: ByteRange,
) -> Result<M> {
    if range.is_empty() {
        return Ok(memory);
    }
    let stream = device.inner.take_stream(0)?;
    // SAFETY: the memory is new: live, used by nobody, and the fill has ended
    // before anybody gets to know it, or the memory waits below until it has.
    let filled =
        unsafe { stream.fill(range.start, 0, range.len()) }.and_then(|()| stream.synchronize());
    match filled {
        Ok(()) => {
            device.inner.give_stream(stream);
            Ok(memory)
        }
        Err(error) => {
            let fences = vec![Fence::from(Arc::new(stream))];
            device.inner.reclaim.retire(fences, Box::new(memory));
            Err(error).during(|| format!("zeroing persistent buffer \"{name}\""))
        }
    }
}

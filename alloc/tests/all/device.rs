//! A backing that keeps books: what is reserved, and that nothing overlaps or is
//! released twice.

use std::sync::{Arc, Mutex};

use streamweir_alloc::{Arena, ArenaConfig, Backing, BackingError};
use streamweir_trace::ByteRange;

#[derive(Default)]
pub(crate) struct Device {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    live: Vec<ByteRange>,
    next: u64,
    capacity: Option<u64>,
    broken: bool,
    /// How long one piece may become with what is behind it; none when each
    /// piece stays as it is.
    reservation: Option<u64>,
}

impl Device {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A device that makes a piece longer in place, up to `reservation` bytes.
    pub(crate) fn extending(reservation: u64) -> Arc<Self> {
        let device = Self::default();
        device.books.lock().unwrap().reservation = Some(reservation);
        Arc::new(device)
    }

    /// At most this many bytes from now on.
    pub(crate) fn limit(&self, capacity: u64) {
        self.books.lock().unwrap().capacity = Some(capacity);
    }

    /// Every reservation fails from now on, or no longer.
    pub(crate) fn set_broken(&self, broken: bool) {
        self.books.lock().unwrap().broken = broken;
    }

    pub(crate) fn live(&self) -> Vec<ByteRange> {
        self.books.lock().unwrap().live.clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.live().iter().map(ByteRange::len).sum()
    }

    /// An arena over this device with segments and spans of these sizes.
    pub(crate) fn arena(self: &Arc<Self>, segment_bytes: u64, span_bytes: u64) -> Arc<Arena> {
        let config = ArenaConfig {
            segment_bytes,
            span_bytes,
        };
        Arena::new("decode", self.clone(), config)
    }
}

impl Books {
    fn may_have(&self, bytes: u64) -> Result<(), BackingError> {
        if self.broken {
            return Err(BackingError::failed("the device is lost"));
        }
        let used: u64 = self.live.iter().map(ByteRange::len).sum();
        if self
            .capacity
            .is_some_and(|capacity| used + bytes > capacity)
        {
            return Err(BackingError::out_of_memory("CUDA_ERROR_OUT_OF_MEMORY"));
        }
        Ok(())
    }
}

impl Backing for Device {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let mut books = self.books.lock().unwrap();
        books.may_have(bytes)?;
        // Segments adjoin, as a driver's may.
        let start = 0x10_0000 + books.next;
        books.next += bytes.max(books.reservation.unwrap_or(0));
        let range = ByteRange::new(start, start + bytes);
        books.live.push(range);
        Ok(range)
    }

    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        let mut books = self.books.lock().unwrap();
        let Some(reservation) = books.reservation else {
            return Ok(None);
        };
        assert!(books.live.contains(&piece), "{piece} is not reserved");
        let base = 0x10_0000;
        let room = reservation - (piece.end - base) % reservation;
        if room == reservation || bytes > room {
            return Ok(None);
        }
        books.may_have(bytes)?;
        let range = ByteRange::new(piece.end, piece.end + bytes);
        assert!(!books.live.iter().any(|live| live.overlaps(&range)));
        books.live.push(range);
        Ok(Some(range))
    }

    fn release(&self, segment: ByteRange) {
        let mut books = self.books.lock().unwrap();
        let at = books.live.iter().position(|live| *live == segment);
        books
            .live
            .swap_remove(at.expect("a segment is released once"));
    }
}

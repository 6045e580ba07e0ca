//! Persistent buffers: memory that outlives graphs, known by address.
//!
//! # Guarantees
//! - Live entries do not overlap, so an address names one buffer at most.
//! - An entry lives as long as somebody (a handle, a graph) holds it, and the
//!   keep-alive it was registered with lives as long as the entry.
//! - An entry is out of the registry before its keep-alive is dropped: by the
//!   time the memory can be used for something else, its addresses are free to
//!   register again.
//! - The keep-alive's drop runs under no lock.
//! - What is gone is remembered for a while, by name, so that a pointer into it
//!   can be explained rather than called unknown.
//! - What somebody says to be freed is remembered until memory is registered there.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use streamweir_base::sync::Mutex;
use streamweir_trace::{ByteRange, RangeSet};
use thiserror::Error;

/// How many entries that are gone are remembered.
const TOMBSTONES: usize = 256;

/// All persistent buffers of a device. A clone is the same registry.
#[derive(Clone, Default)]
pub struct Registry {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// By first address.
    live: BTreeMap<u64, Slot>,
    /// Oldest first.
    gone: VecDeque<Tombstone>,
    /// What was said to be freed, and not registered since.
    freed: RangeSet,
    next: u64,
}

struct Slot {
    number: u64,
    range: ByteRange,
    name: Arc<str>,
    entry: Weak<PersistentEntry>,
}

/// A registered persistent buffer. Dropped with its last reference.
pub struct PersistentEntry {
    range: ByteRange,
    name: Arc<str>,
    number: u64,
    table: Arc<Mutex<Table>>,
    /// Dropped after `Drop::drop` has returned, hence outside the lock.
    _keepalive: Arc<dyn Any + Send + Sync>,
}

/// What is remembered of an entry that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The buffer's name.
    pub name: Arc<str>,
    /// The addresses it had.
    pub range: ByteRange,
}

/// What an address belongs to.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// To this persistent buffer.
    Live(Arc<PersistentEntry>),
    /// To none now; this was the last one there.
    Gone(Tombstone),
    /// To none that is remembered.
    Unknown,
}

/// Why memory could not be registered.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// The range holds no byte.
    #[error("\"{name}\" at {range} holds no byte; register memory with a length")]
    Empty {
        /// The buffer that was to be registered.
        name: Arc<str>,
        /// Its addresses.
        range: ByteRange,
    },
    /// Some of the bytes belong to another buffer.
    #[error(
        "\"{name}\" at {range} overlaps \"{other}\" at {other_range}; use the buffer that is registered, or drop it and the graphs that use it first"
    )]
    Overlap {
        /// The buffer that was to be registered.
        name: Arc<str>,
        /// Its addresses.
        range: ByteRange,
        /// The buffer that is registered.
        other: Arc<str>,
        /// Its addresses.
        other_range: ByteRange,
    },
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the memory at `range`. `keepalive` owns it, or is `Arc::new(())`
    /// where the caller promises that it lives long enough.
    ///
    /// # Errors
    /// When the range is empty or overlaps a live entry, parts of one included.
    pub fn register(
        &self,
        range: ByteRange,
        name: impl Into<Arc<str>>,
        keepalive: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<PersistentEntry>, RegistryError> {
        let name = name.into();
        if range.is_empty() {
            return Err(RegistryError::Empty { name, range });
        }
        let mut table = self.table.lock();
        while let Some(slot) = table.overlapping(range) {
            if slot.entry.strong_count() > 0 {
                return Err(RegistryError::Overlap {
                    name,
                    range,
                    other: Arc::clone(&slot.name),
                    other_range: slot.range,
                });
            }
            // Its last reference is gone and its drop waits for this lock.
            let (start, number) = (slot.range.start, slot.number);
            table.bury(start, number);
        }
        table.freed.remove(range);
        let number = table.next;
        table.next += 1;
        let entry = Arc::new(PersistentEntry {
            range,
            name: Arc::clone(&name),
            number,
            table: Arc::clone(&self.table),
            _keepalive: keepalive,
        });
        let slot = Slot {
            number,
            range,
            name,
            entry: Arc::downgrade(&entry),
        };
        table.live.insert(range.start, slot);
        Ok(entry)
    }

    /// The buffer that the byte at `address` belongs to.
    pub fn find(&self, address: u64) -> Lookup {
        let table = self.table.lock();
        let below = table.live.range(..=address).next_back();
        if let Some((_, slot)) = below.filter(|(_, slot)| slot.range.contains_byte(address)) {
            // Not dropped before the lock is: it is the result.
            return match slot.entry.upgrade() {
                Some(entry) => Lookup::Live(entry),
                None => Lookup::Gone(slot.tombstone()),
            };
        }
        let mut newest_first = table.gone.iter().rev();
        match newest_first.find(|gone| gone.range.contains_byte(address)) {
            Some(gone) => Lookup::Gone(gone.clone()),
            None => Lookup::Unknown,
        }
    }

    /// Notes that somebody has freed the memory at `range`, which no registry sees.
    pub fn note_freed(&self, range: ByteRange) {
        self.table.lock().freed.insert(range);
    }

    /// The memory that was said to be freed, and that nothing has been registered in
    /// since.
    pub fn freed(&self) -> RangeSet {
        self.table.lock().freed.clone()
    }

    /// The live entries by address.
    pub fn entries(&self) -> Vec<Arc<PersistentEntry>> {
        let table = self.table.lock();
        let entries = table.live.values();
        entries.filter_map(|slot| slot.entry.upgrade()).collect()
    }
}

impl Table {
    /// A slot that shares a byte with `range`.
    fn overlapping(&self, range: ByteRange) -> Option<&Slot> {
        // Slots do not overlap, so the last one that starts below the end of
        // the range reaches highest of those.
        let (_, slot) = self.live.range(..range.end).next_back()?;
        slot.range.overlaps(&range).then_some(slot)
    }

    /// Takes the entry with this number out, unless that has happened.
    fn bury(&mut self, start: u64, number: u64) {
        if self.live.get(&start).is_none_or(|s| s.number != number) {
            return;
        }
        if let Some(slot) = self.live.remove(&start) {
            if self.gone.len() == TOMBSTONES {
                self.gone.pop_front();
            }
            self.gone.push_back(slot.tombstone());
        }
    }
}

impl Slot {
    fn tombstone(&self) -> Tombstone {
        Tombstone {
            name: Arc::clone(&self.name),
            range: self.range,
        }
    }
}

impl PersistentEntry {
    /// The buffer's addresses.
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// The buffer's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl Drop for PersistentEntry {
    fn drop(&mut self) {
        self.table.lock().bury(self.range.start, self.number);
    }
}

impl fmt::Debug for PersistentEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentEntry")
            .field("name", &self.name)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        f.debug_struct("Registry")
            .field("live", &table.live.len())
            .field("gone", &table.gone.len())
            .finish()
    }
}

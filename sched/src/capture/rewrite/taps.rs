//! Taps: what each command read and wrote, copied aside as it was.
//!
//! # What is copied
//! Right behind each command, on its stream: of scratch what it has read and then
//! what it has written, of a persistent buffer what it has written, as long as
//! that is not more than [`Taps::persistent_up_to`]. Not copied are a library's
//! workspaces, in which nobody but it knows what means something, and atomics,
//! which others may add to at that moment. What was left out is listed.
//!
//! So that two runs can be compared byte by byte, scratch is filled at its alloc
//! point, as with [`Poison::Every`](super::Poison::Every): bytes that no kernel
//! writes are then the same in both.
//!
//! # Why a tap hides nothing
//! A copy comes after its command on the same stream, and every fork, join and
//! event that is recorded later comes after both. So whatever was ordered after
//! the command is ordered after the copy, whatever was not is not, and no stream
//! gets to wait for another. A pool that goes by the order of host calls looks at
//! no access, and hands out the same bytes. What does change is the time: chains
//! are longer. And scratch lives until its last copy, so that pools which go by
//! the order of the graph may use a little less of it again.
//!
//! # Why what is read is copied once more behind its reader
//! Bytes of a dropped buffer that another stream has overwritten while they were
//! read stay overwritten, so the copy behind the reader shows the buffer that was
//! hit, and not only what was computed from it. Of all the copies that differ
//! from those of a sound run, in the order in which the commands were recorded,
//! the first is therefore of a buffer whose own bytes were hit, or was written by a
//! command of which something was hit that is not copied: a library's workspace.

use std::collections::BTreeSet;
use std::sync::Arc;

use streamweir_base::sync::Mutex;

use super::readings::{Readings, Tap};
use crate::device::{Device, DeviceInner, Persistent};
use crate::error::{Error, InstrumentError, Result};

/// The least that is taken of the device's memory at once; as much as there is
/// already, as long as that is not more than the other.
const SEGMENT: u64 = 4 << 20;
const LARGEST_SEGMENT: u64 = 256 << 20;

/// Each copy begins at a multiple of this.
const ALIGN: u64 = 256;

/// Memory for copies of what the commands of a capture read and write, and the
/// list of them. See [`CaptureOptions::taps`](crate::CaptureOptions::taps).
///
/// It holds one recording: the list is that of the latest capture or eager run
/// with these taps. A graph that was captured before still copies to the same
/// memory, so each graph has taps of its own.
#[derive(Clone)]
pub struct Taps {
    inner: Arc<Mutex<Inner>>,
    device: Device,
    name: Arc<str>,
    limit: u64,
}

struct Inner {
    segments: Vec<Persistent<u8>>,
    list: Vec<Tap>,
    left_out: BTreeSet<String>,
    /// The capture that is recording.
    open: Option<String>,
}

impl Taps {
    /// Taps that have no memory yet; it is taken while they record. The name is
    /// for reports.
    pub fn new(device: &Device, name: impl Into<Arc<str>>) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                segments: Vec::new(),
                list: Vec::new(),
                left_out: BTreeSet::new(),
                open: None,
            })),
            device: device.clone(),
            name: name.into(),
            limit: SEGMENT,
        }
    }

    /// The most bytes of a persistent buffer that are copied after a command has
    /// written them, 4 MiB unless it is said here. A command counts as writing
    /// all that it declares.
    #[must_use]
    pub fn persistent_up_to(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for all work of the device and reads the copies of the latest replay
    /// or eager run.
    ///
    /// # Errors
    /// When that work failed, while the taps record, or inside a capture.
    pub fn read(&self) -> Result<Readings> {
        let (segments, list, left_out) = {
            let inner = self.inner.lock();
            if let Some(capture) = &inner.open {
                return Err(self.in_use(capture));
            }
            let used = inner.list.last().map_or(0, |tap| tap.segment + 1);
            (
                inner.segments[..used].to_vec(),
                inner.list.clone(),
                inner.left_out.iter().cloned().collect(),
            )
        };
        let segments = segments.iter().map(Persistent::download);
        Ok(Readings {
            name: self.name.to_string(),
            segments: segments.collect::<Result<_>>()?,
            taps: list,
            left_out,
        })
    }

    /// Begins the list anew, for a capture to which the taps belong until it
    /// [ends](Self::end).
    pub(super) fn begin(&self, device: &Arc<DeviceInner>, capture: &str) -> Result<()> {
        if !Arc::ptr_eq(&self.device.inner, device) {
            return Err(Error::OtherDevice {
                what: format!("taps \"{}\"", self.name),
                used_on: device.reclaim.info().name.clone(),
            });
        }
        let mut inner = self.inner.lock();
        if let Some(other) = &inner.open {
            return Err(self.in_use(other));
        }
        inner.open = Some(capture.to_owned());
        inner.list.clear();
        inner.left_out.clear();
        Ok(())
    }

    /// The capture has ended.
    pub(super) fn end(&self) {
        self.inner.lock().open = None;
    }

    /// The most bytes of a persistent buffer that are copied.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Enters a copy.
    pub(super) fn push(&self, tap: Tap) {
        self.inner.lock().list.push(tap);
    }

    /// Enters a buffer of which there is no copy.
    pub(super) fn leave_out(&self, buffer: String) {
        self.inner.lock().left_out.insert(buffer);
    }

    fn in_use(&self, capture: &str) -> Error {
        Error::Instrument(InstrumentError::TapsInUse {
            taps: self.name.to_string(),
            capture: capture.to_owned(),
        })
    }

    /// Room for a copy of `bytes` bytes.
    pub(super) fn room(&self, bytes: u64) -> Result<(usize, u64, Persistent<u8>)> {
        let (mut segment, mut offset) = {
            let inner = self.inner.lock();
            match inner.list.last() {
                None => (0, 0),
                Some(last) => (
                    last.segment,
                    (last.offset + last.bytes.len()).next_multiple_of(ALIGN),
                ),
            }
        };
        loop {
            let memory = self.inner.lock().segments.get(segment).cloned();
            match memory {
                Some(memory) if offset + bytes <= memory.range().len() => {
                    return Ok((segment, offset, memory));
                }
                Some(_) => (segment, offset) = (segment + 1, 0),
                // One capture records at a time, so nobody else adds one.
                None => {
                    let name = format!("{}, part {segment}", self.name);
                    let segments = self.inner.lock().segments.clone();
                    let there: u64 = segments.iter().map(|memory| memory.range().len()).sum();
                    let bytes = bytes.max(there.clamp(SEGMENT, LARGEST_SEGMENT));
                    let memory = Persistent::unset(&self.device, &name, bytes)?;
                    self.inner.lock().segments.push(memory);
                }
            }
        }
    }
}

impl std::fmt::Debug for Taps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taps")
            .field("name", &self.name)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

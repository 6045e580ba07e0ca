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
use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::{Block, BlockId};
use streamweir_base::sync::Mutex;
use streamweir_trace::{AccessMode, ByteRange};

use super::{ElementKind, Readings};
use crate::capture::record::{BufferKey, Operand, What};
use crate::capture::session::{Core, State};
use crate::capture::stream::Spot;
use crate::device::{Device, DeviceInner, Persistent};
use crate::error::{Error, Result};

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

/// One copy.
#[derive(Clone, Debug)]
pub(super) struct Tap {
    /// Which command, of those that were tapped.
    pub(super) command: usize,
    pub(super) kernel: String,
    pub(super) stream: String,
    pub(super) scope: Option<String>,
    pub(super) line: &'static Location<'static>,
    pub(super) buffer: String,
    /// Of scratch, the how-manieth that the recording took.
    pub(super) scratch: Option<usize>,
    pub(super) written: bool,
    pub(super) element: ElementKind,
    /// In the buffer.
    pub(super) bytes: ByteRange,
    /// Where the copy lies.
    pub(super) segment: usize,
    pub(super) offset: u64,
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

    /// Begins the list anew.
    pub(super) fn begin(&self, device: &Arc<DeviceInner>, capture: &str) -> Result<Tapping> {
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
        Ok(Tapping {
            taps: self.clone(),
            commands: 0,
            private: BTreeSet::new(),
        })
    }

    fn in_use(&self, capture: &str) -> Error {
        Error::TapsInUse {
            taps: self.name.to_string(),
            capture: capture.to_owned(),
        }
    }

    /// Room for a copy of `bytes` bytes.
    fn room(&self, bytes: u64) -> Result<(usize, u64, Persistent<u8>)> {
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

/// Taps while a capture records.
pub(super) struct Tapping {
    taps: Taps,
    commands: usize,
    /// Blocks that libraries use as they like, by index.
    private: BTreeSet<usize>,
}

impl Drop for Tapping {
    fn drop(&mut self) {
        self.taps.inner.lock().open = None;
    }
}

/// What is tapped of one access.
#[derive(Clone, Copy)]
struct Source {
    buffer: BufferKey,
    bytes: ByteRange,
    written: bool,
}

impl Core {
    /// Says that a library's call has this block to itself.
    pub(in crate::capture) fn is_private(&self, block: BlockId) {
        let mut state = self.state.borrow_mut();
        if let Some(instruments) = &mut state.instruments
            && let Some(tapping) = &mut instruments.taps
        {
            tapping.private.insert(block.index());
        }
    }

    /// Copies what command `index` has touched.
    pub(in crate::capture) fn tap(&self, state: &mut State, spot: Spot, index: u32) -> Result<()> {
        let Some(instruments) = &mut state.instruments else {
            return Ok(());
        };
        let Some(tapping) = &mut instruments.taps else {
            return Ok(());
        };
        // A call that failed has been entered for what it may have begun.
        if instruments.busy || state.broken.is_some() {
            return Ok(());
        }
        let command = tapping.commands;
        tapping.commands += 1;
        for source in sources(state, index) {
            self.copy_aside(state, spot, command, index, source)?;
        }
        Ok(())
    }

    fn copy_aside(
        &self,
        state: &mut State,
        spot: Spot,
        command: usize,
        index: u32,
        source: Source,
    ) -> Result<()> {
        let Source {
            buffer,
            bytes,
            written,
        } = source;
        let Some(instruments) = &state.instruments else {
            return Ok(());
        };
        let Some(tapping) = &instruments.taps else {
            return Ok(());
        };
        let taps = tapping.taps.clone();
        let (name, start, element, skipped, block) = match buffer.index() {
            Ok(block) => {
                let taken = instruments.taken[block];
                let private = taken.workspace || tapping.private.contains(&block);
                let Block { id, range } = taken.block;
                let name = self.session.block_name(id);
                (name, range.start, taken.element, private, Some(id))
            }
            Err(persistent) => {
                let inner = &state.recording.persistents[persistent];
                let skipped = !written || bytes.len() > taps.limit;
                let (name, start) = (inner.name.to_string(), inner.range.start);
                (name, start, ElementKind::Bytes(1), skipped, None)
            }
        };
        if skipped {
            // Inputs are what they are; the rest is not looked at, and that is said.
            if written {
                taps.inner.lock().left_out.insert(name);
            }
            return Ok(());
        }
        let (segment, offset, memory) = taps
            .room(bytes.len())
            .inspect_err(|error| state.break_with(error))?;
        let mark = state.recording.mark();
        let recording = &mut state.recording;
        recording.touched.extend(block);
        let copy = recording.persistent(&memory.inner);
        let to_bytes = ByteRange::new(offset, offset + bytes.len());
        recording.add_access(copy, to_bytes, AccessMode::Write);
        recording.add_access(buffer, bytes, AccessMode::Read);
        let what = What::Copy {
            to: Operand {
                address: memory.range().start + offset,
                of: Some((copy, offset)),
            },
            from: Operand {
                address: start + bytes.start,
                of: Some((buffer, bytes.start)),
            },
            bytes: bytes.len(),
        };
        self.unobserved(state, |core, state| core.emit(state, spot, mark, what))?;
        let tapped = &state.recording.commands[index as usize];
        let tap = Tap {
            command,
            kernel: tapped.what.title(),
            stream: state.name(spot.stream).to_string(),
            scope: spot
                .scope
                .map(|id| state.recording.scopes[id.index()].clone()),
            line: spot.line,
            buffer: name,
            scratch: buffer.index().ok(),
            written,
            element,
            bytes,
            segment,
            offset,
        };
        taps.inner.lock().list.push(tap);
        Ok(())
    }
}

/// What a command has read and then what it has written, each buffer once.
fn sources(state: &State, command: u32) -> Vec<Source> {
    let accesses = state.recording.accesses.iter().rev();
    let mut of_command: Vec<_> = accesses
        .take_while(|access| access.command == command)
        .filter(|access| access.mode != AccessMode::Atomic && !access.bytes.is_empty())
        .collect();
    of_command.reverse();
    let mut sources: Vec<Source> = Vec::with_capacity(of_command.len());
    for written in [false, true] {
        for access in of_command.iter().filter(|a| a.mode.writes() == written) {
            let found = sources
                .iter_mut()
                .find(|source| source.buffer == access.buffer);
            match found {
                // What is read and written by two parameters is read back once.
                Some(source) => {
                    source.written |= written;
                    source.bytes = ByteRange::new(
                        source.bytes.start.min(access.bytes.start),
                        source.bytes.end.max(access.bytes.end),
                    );
                }
                None => sources.push(Source {
                    buffer: access.buffer,
                    bytes: access.bytes,
                    written,
                }),
            }
        }
    }
    sources
}

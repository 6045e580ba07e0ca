//! The copies that taps add behind a command.

use streamweir_alloc::BlockId;
use streamweir_trace::{AccessMode, ByteRange};

use super::added::{Added, Holder, Taken};
use super::element::ElementKind;
use super::readings::Tap;
use super::taps::Taps;
use crate::capture::pools::ScratchPools;
use crate::capture::recording::{BufferKey, Draft, Operand, Recording, What};
use crate::capture::strand::Strands;
use crate::error::Result;

/// Taps while a capture records.
pub(super) struct Tapping {
    taps: Taps,
    /// How many commands were tapped.
    commands: usize,
}

impl Drop for Tapping {
    fn drop(&mut self) {
        self.taps.end();
    }
}

/// What is tapped of one access.
#[derive(Clone, Copy)]
struct Source {
    buffer: BufferKey,
    bytes: ByteRange,
    written: bool,
}

impl Tapping {
    /// `taps` have begun.
    pub(super) fn new(taps: Taps) -> Self {
        Self { taps, commands: 0 }
    }

    /// The copies of what a command has touched.
    pub(super) fn behind(
        &mut self,
        command: u32,
        recording: &mut Recording,
        strands: &Strands,
        pools: &ScratchPools,
        taken: &[Taken],
    ) -> Result<Vec<Added>> {
        let tapped = self.commands;
        self.commands += 1;
        let mut copies = Vec::new();
        for source in sources(recording, command) {
            let of = self.buffer(source, recording, pools, taken);
            if !of.copied {
                // Inputs are what they are; the rest is not looked at, and that
                // is said.
                if source.written {
                    self.taps.leave_out(of.name);
                }
                continue;
            }
            let (segment, offset, memory) = self.taps.room(source.bytes.len())?;
            let spot = recording.commands[command as usize].spot;
            let mut draft = Draft::default();
            draft.blocks.extend(of.block);
            let copy = recording.persistent(&memory.inner);
            let bytes = source.bytes.len();
            let to = ByteRange::new(offset, offset + bytes);
            draft.add_access(copy, to, AccessMode::Write);
            draft.add_access(source.buffer, source.bytes, AccessMode::Read);
            let what = What::Copy {
                to: Operand {
                    address: memory.range().start + offset,
                    of: (copy, offset),
                },
                from: Operand {
                    address: of.start + source.bytes.start,
                    of: (source.buffer, source.bytes.start),
                },
                bytes,
            };
            copies.push(Added { spot, what, draft });
            self.taps.push(Tap {
                command: tapped,
                kernel: recording.commands[command as usize].what.title(),
                stream: strands.get(spot.stream).name.to_string(),
                scope: spot.scope.map(|id| recording.scopes[id.index()].clone()),
                line: spot.line,
                buffer: of.name,
                scratch: source.buffer.block(),
                written: source.written,
                element: of.element,
                bytes: source.bytes,
                segment,
                offset,
            });
        }
        Ok(copies)
    }

    fn buffer(
        &self,
        source: Source,
        recording: &Recording,
        pools: &ScratchPools,
        taken: &[Taken],
    ) -> Tapped {
        match source.buffer {
            BufferKey::Scratch(block) => {
                let taken = &taken[block as usize];
                Tapped {
                    name: pools.block_name(taken.block.id),
                    start: taken.block.range.start,
                    element: taken.element,
                    block: Some(taken.block.id),
                    copied: taken.holder == Holder::User,
                }
            }
            BufferKey::Persistent(at) => {
                let inner = &recording.persistents[at as usize];
                Tapped {
                    name: inner.name.to_string(),
                    start: inner.range.start,
                    element: ElementKind::Bytes(1),
                    block: None,
                    copied: source.written && source.bytes.len() <= self.taps.limit(),
                }
            }
        }
    }
}

/// The buffer that is tapped.
struct Tapped {
    name: String,
    start: u64,
    element: ElementKind,
    /// Of scratch.
    block: Option<BlockId>,
    /// Whether there is a copy of it.
    copied: bool,
}

/// What a command has read and then what it has written, each buffer once.
fn sources(recording: &Recording, command: u32) -> Vec<Source> {
    let accesses = recording.accesses_of(command).iter();
    let of_command: Vec<_> = accesses
        .filter(|access| access.mode != AccessMode::Atomic && !access.bytes.is_empty())
        .collect();
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

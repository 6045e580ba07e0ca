//! The recording: what a capture did, as commands with symbolic buffers.
//!
//! Recording is on the hot path of a live capture, so a command is a few words
//! and its parameters, pointers and accesses stand in shared tables. Addresses
//! occur only in the parameter bytes that went to the driver. At the end the
//! recording becomes a [`Trace`](streamweir_trace::Trace) (see `trace`).

use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::BlockId;
use streamweir_trace::{AccessMode, ByteRange, PdlWait, ScopeId, StreamId};

use super::planned::Deferred;
use crate::device::{EventInner, KernelInfo, PersistentInner};
use crate::driver::{LaunchShape, NodeHandle, Start};
use crate::owned::HostMemory;

/// A buffer of the recording: a scratch block or a registered buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferKey(u32);

const PERSISTENT: u32 = 1 << 31;

impl BufferKey {
    pub(super) fn scratch(block: BlockId) -> Self {
        // The pools hold fewer than 2^31 blocks, for each has a record of more
        // than two bytes.
        Self(block.index() as u32)
    }

    /// The place in the table of blocks, or in that of persistent buffers.
    pub(super) fn index(self) -> Result<usize, usize> {
        if self.0 & PERSISTENT == 0 {
            Ok(self.0 as usize)
        } else {
            Err((self.0 & !PERSISTENT) as usize)
        }
    }
}

/// One recorded piece of work.
pub(super) struct Command {
    pub(super) what: What,
    pub(super) stream: StreamId,
    pub(super) scope: Option<ScopeId>,
    pub(super) line: &'static Location<'static>,
    /// The commands it waits for, in `Recording::waits`.
    pub(super) after: Range<u32>,
    /// Its nodes in the driver, in `Recording::handles`. None in an eager run.
    pub(super) handles: Range<u32>,
}

pub(super) enum What {
    Kernel {
        info: Arc<KernelInfo>,
        shape: LaunchShape,
        start: Start,
        /// In `Recording::param_bytes`.
        params: Range<u32>,
        /// In `Recording::pointers`.
        pointers: Range<u32>,
    },
    Copy {
        to: Operand,
        from: Operand,
        bytes: u64,
    },
    Fill {
        to: Operand,
        bytes: u64,
        value: u8,
        /// Nobody's work, but an instrument's.
        poison: bool,
    },
    EventRecord(Arc<EventInner>),
    EventWait(Arc<EventInner>),
    /// A library's work; `handles` is its frontier afterwards and `entry` the
    /// one before, in the same table.
    Foreign {
        name: String,
        entry: Range<u32>,
        /// What the caller says of its kernels.
        pdl: PdlWait,
    },
}

impl What {
    /// What it is called in reports: the kernel's symbol, the library's call, or
    /// what is done.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Kernel { info, .. } => info.signature.symbol.to_owned(),
            Self::Copy { .. } => "copy".to_owned(),
            Self::Fill { poison: true, .. } => "poison".to_owned(),
            Self::Fill { .. } => "fill".to_owned(),
            Self::EventRecord(event) => format!("record {}", event.name),
            Self::EventWait(event) => format!("wait {}", event.name),
            Self::Foreign { name, .. } => name.clone(),
        }
    }
}

/// Where a copy or a fill begins.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) address: u64,
    /// The buffer and the offset in it; none for page-locked host memory.
    pub(super) of: Option<(BufferKey, u64)>,
}

impl Operand {
    fn relocate(&mut self, blocks: &[ByteRange]) {
        if let Some((buffer, offset)) = self.of
            && let Ok(block) = buffer.index()
        {
            self.address = blocks[block].start + offset;
        }
    }
}

/// A pointer among the parameters of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Pointer {
    pub(super) param: u32,
    pub(super) buffer: BufferKey,
    pub(super) offset: u64,
}

#[derive(Clone, Copy)]
pub(super) struct RecordedAccess {
    pub(super) command: u32,
    pub(super) buffer: BufferKey,
    pub(super) bytes: ByteRange,
    pub(super) mode: AccessMode,
}

#[derive(Default)]
pub(super) struct Recording {
    /// Whether there is a kernel whose blocks spin on each other.
    pub(super) spins: bool,
    pub(super) commands: Vec<Command>,
    pub(super) waits: Vec<u32>,
    pub(super) handles: Vec<NodeHandle>,
    pub(super) param_bytes: Vec<u8>,
    pub(super) pointers: Vec<Pointer>,
    pub(super) accesses: Vec<RecordedAccess>,
    pub(super) scopes: Vec<String>,
    pub(super) persistents: Vec<Arc<PersistentInner>>,
    pub(super) pinned: Vec<Arc<HostMemory>>,
    /// For each block in the order it was taken, its alloc point in
    /// `alloc_frontiers`.
    pub(super) allocs: Vec<Range<u32>>,
    pub(super) alloc_frontiers: Vec<u32>,
    /// The blocks that the command in the making touches.
    pub(super) touched: Vec<BlockId>,
    /// The calls of libraries that a planned capture has put aside, by command.
    pub(super) deferred: HashMap<u32, Deferred>,
    known: HashMap<u64, u32>,
    scope_ids: HashMap<String, ScopeId>,
}

/// How long the tables were before a command, to take a refused one back.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    params: usize,
    pointers: usize,
    accesses: usize,
}

impl Recording {
    pub(super) fn mark(&mut self) -> Mark {
        self.touched.clear();
        Mark {
            params: self.param_bytes.len(),
            pointers: self.pointers.len(),
            accesses: self.accesses.len(),
        }
    }

    pub(super) fn take_back(&mut self, mark: Mark) {
        self.param_bytes.truncate(mark.params);
        self.pointers.truncate(mark.pointers);
        self.accesses.truncate(mark.accesses);
    }

    pub(super) fn params_since(&self, mark: Mark) -> Range<u32> {
        mark.params as u32..self.param_bytes.len() as u32
    }

    pub(super) fn pointers_since(&self, mark: Mark) -> Range<u32> {
        mark.pointers as u32..self.pointers.len() as u32
    }

    pub(super) fn persistent(&mut self, inner: &Arc<PersistentInner>) -> BufferKey {
        let index = *self.known.entry(inner.number).or_insert_with(|| {
            self.persistents.push(inner.clone());
            (self.persistents.len() - 1) as u32
        });
        BufferKey(index | PERSISTENT)
    }

    pub(super) fn add_pointer(&mut self, param: usize, buffer: BufferKey, offset: u64) {
        self.pointers.push(Pointer {
            param: param as u32,
            buffer,
            offset,
        });
    }

    pub(super) fn add_access(&mut self, buffer: BufferKey, bytes: ByteRange, mode: AccessMode) {
        let command = self.commands.len() as u32;
        self.accesses.push(RecordedAccess {
            command,
            buffer,
            bytes,
            mode,
        });
    }

    /// Replaces what stood for addresses by addresses: block `i` lies at
    /// `blocks[i]`.
    pub(super) fn relocate(&mut self, blocks: &[ByteRange]) {
        for command in &mut self.commands {
            match &mut command.what {
                What::Kernel {
                    info,
                    params,
                    pointers,
                    ..
                } => {
                    let params = &mut self.param_bytes[params.start as usize..params.end as usize];
                    let pointers = pointers.start as usize..pointers.end as usize;
                    for pointer in &self.pointers[pointers] {
                        let Ok(block) = pointer.buffer.index() else {
                            continue;
                        };
                        let address = blocks[block].start + pointer.offset;
                        let at = info.slots[pointer.param as usize].offset as usize;
                        params[at..at + 8].copy_from_slice(&address.to_ne_bytes());
                    }
                }
                What::Copy { to, from, .. } => {
                    to.relocate(blocks);
                    from.relocate(blocks);
                }
                What::Fill { to, .. } => to.relocate(blocks),
                What::EventRecord(_) | What::EventWait(_) | What::Foreign { .. } => {}
            }
        }
    }

    /// The id of a scope path.
    pub(super) fn scope(&mut self, path: &str) -> ScopeId {
        if let Some(&id) = self.scope_ids.get(path) {
            return id;
        }
        self.scopes.push(path.to_owned());
        let id = ScopeId::at(self.scopes.len() - 1);
        self.scope_ids.insert(path.to_owned(), id);
        id
    }
}

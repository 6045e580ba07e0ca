//! Where the storage of a tensor is: in a block, in memory that nobody holds, or
//! outside of all that the allocator's record shows.

use std::collections::{HashMap, HashSet};

use streamweir_trace::dump::{Dump, Pool};
use streamweir_trace::{AllocPoint, Buffer, BufferId, BufferKind, ByteRange, Count, NodeId, Trace};

use crate::audit::blocks::Blocks;
use crate::audit::memory::{Buffers, Free, FreeBlock, Streams};

/// Where a storage is.
pub(super) enum Storage {
    Buffer(BufferId),
    /// Its owner has let go of it, or nothing keeps it for the graph.
    Nobodys,
    /// In a pool of captured graphs, and not given out.
    NotGivenOut,
}

/// The storages that operators name.
pub(super) struct Storages<'a> {
    blocks: &'a Blocks,
    buffers: &'a Buffers,
    free: Free,
    events_known: bool,
    streams: Streams,
    /// Storages that the allocator's record does not hold.
    unlisted: HashMap<ByteRange, BufferId>,
    /// Storages of which the dump does not say who holds them.
    untold: HashSet<ByteRange>,
}

impl<'a> Storages<'a> {
    pub(super) fn new(
        dump: &Dump,
        blocks: &'a Blocks,
        buffers: &'a Buffers,
        streams: Streams,
    ) -> Self {
        Self {
            blocks,
            buffers,
            free: Free::of(dump),
            events_known: dump.events.is_some(),
            streams,
            unlisted: HashMap::new(),
            untold: HashSet::new(),
        }
    }

    /// Where a storage is, at any node of the operator that names it.
    pub(super) fn find(
        &mut self,
        trace: &mut Trace,
        storage: ByteRange,
        block: Option<usize>,
    ) -> Storage {
        if let Some(block) = block {
            let life = &self.blocks.all[block];
            let buffer = self.buffers.of_block[block];
            return match buffer.filter(|_| !life.abandoned() && !life.unkept()) {
                Some(buffer) => {
                    if life.given.is_some() && life.pool == Pool::Unknown {
                        self.untold.insert(storage);
                    }
                    Storage::Buffer(buffer)
                }
                None => Storage::Nobodys,
            };
        }
        if let Some(&buffer) = self.unlisted.get(&storage) {
            return Storage::Buffer(buffer);
        }
        let free = self.free.at(storage);
        let buffer = match free {
            // It was free when the capture began, or let go of while it went on;
            // either way whoever asks may have it.
            Some(FreeBlock {
                pool: Pool::General,
                stream,
                ..
            }) => {
                let stream = self.streams.get(trace, stream);
                Buffer {
                    name: format!("freed memory at {:#x}", storage.start),
                    kind: BufferKind::Scratch {
                        stream,
                        alloc: AllocPoint::default(),
                        freed_before: Some(NodeId(0)),
                    },
                    range: storage,
                    carried: true,
                }
            }
            Some(FreeBlock {
                pool: Pool::Private,
                ..
            }) if self.events_known => return Storage::NotGivenOut,
            free => {
                if free.is_some() {
                    self.untold.insert(storage);
                }
                Buffer::persistent(format!("memory at {:#x}", storage.start), storage)
            }
        };
        let buffer = trace.add_buffer(buffer);
        self.unlisted.insert(storage, buffer);
        Storage::Buffer(buffer)
    }

    /// What was taken for granted.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.unlisted.is_empty() {
            lines.push(format!(
                "{} storages lie outside of the allocator's record and are taken to outlive the graph",
                self.unlisted.len()
            ));
        }
        let untold = self.untold.len();
        if untold > 0 {
            let untold = Count::of(untold as u64, "storage");
            lines.push(format!(
                "of {untold} the dump does not say which pool holds the bytes; they are taken to be kept for the graph"
            ));
        }
        lines
    }
}

//! The recording: what a capture did, as commands with symbolic buffers.
//!
//! It is a value. It calls nothing and runs nobody's code, so it can be looked
//! at, rewritten and placed after the fact. What it shares with the device are
//! the owners of what its commands refer to, which a graph has to keep alive
//! anyway. Which nodes the driver made of a command stands in
//! [`Nodes`](super::nodes::Nodes), and the closures of library calls that are
//! made later stand with the sink that makes them.
//!
//! Recording is on the hot path of a live capture, so a command is a few words
//! and its parameters, pointers and accesses stand in shared tables. Addresses
//! occur only in parameter bytes and operands. At the end the recording becomes
//! a [`Trace`](streamweir_trace::Trace) (see `trace`).

mod command;
mod draft;
mod keep;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use streamweir_base::sync::atomic::Ordering;
use streamweir_trace::{ByteRange, ScopeId};

pub(super) use self::command::{
    BufferKey, CallSaid, Command, Kept, LaunchSaid, Operand, Pointer, RecordedAccess, Spot, What,
    shows_words,
};
pub(super) use self::draft::Draft;
use crate::device::{PersistentInner, Recorded};

#[derive(Default)]
pub(super) struct Recording {
    /// Whether there is a kernel whose blocks spin on each other.
    pub(super) spins: bool,
    pub(super) commands: Vec<Command>,
    /// The commands that each command waits for.
    pub(super) waits: Vec<u32>,
    pub(super) param_bytes: Vec<u8>,
    pub(super) pointers: Vec<Pointer>,
    pub(super) accesses: Vec<RecordedAccess>,
    pub(super) scopes: Vec<String>,
    pub(super) persistents: Vec<Arc<PersistentInner>>,
    pub(super) pinned: Vec<Recorded>,
    /// For each block in the order it was taken, its alloc point in
    /// `alloc_frontiers`.
    pub(super) allocs: Vec<Range<u32>>,
    pub(super) alloc_frontiers: Vec<u32>,
    known: HashMap<u64, u32>,
    scope_ids: HashMap<String, ScopeId>,
}

impl Recording {
    /// The buffer's place in the table of persistent buffers, if it is where the
    /// buffer says that it was last: so it is at every access but the first, unless
    /// another recording names the buffer meanwhile.
    #[inline]
    pub(super) fn known(&self, inner: &Arc<PersistentInner>) -> Option<BufferKey> {
        let at = inner.seen_at.load(Ordering::Relaxed);
        let there = self.persistents.get(at as usize)?;
        Arc::ptr_eq(there, inner).then_some(BufferKey::Persistent(at))
    }

    /// The buffer's place in the table of persistent buffers, which it is
    /// entered into when it is new.
    pub(super) fn persistent(&mut self, inner: &Arc<PersistentInner>) -> BufferKey {
        let index = *self.known.entry(inner.number).or_insert_with(|| {
            self.persistents.push(inner.clone());
            (self.persistents.len() - 1) as u32
        });
        inner.seen_at.store(index, Ordering::Relaxed);
        BufferKey::Persistent(index)
    }

    /// Enters a command, which waits for the commands in `after`, and returns
    /// its number.
    pub(super) fn push(&mut self, spot: Spot, what: What, draft: &mut Draft, after: &[u32]) -> u32 {
        let command = self.commands.len() as u32;
        let accesses = draft.accesses.iter();
        self.accesses.extend(accesses.map(|access| RecordedAccess {
            command,
            buffer: access.buffer,
            bytes: access.bytes,
            mode: access.mode,
        }));
        self.pinned.append(&mut draft.pinned);
        let command = Command {
            what,
            spot,
            params: append(&mut self.param_bytes, &draft.params),
            pointers: append(&mut self.pointers, &draft.pointers),
            after: append(&mut self.waits, after),
        };
        self.commands.push(command);
        self.commands.len() as u32 - 1
    }

    /// Whether a function of the host is lent memory by the word of the proof alone.
    pub(super) fn lends_to_the_host(&self) -> bool {
        let mut whats = self.commands.iter().map(|command| &command.what);
        whats.any(|what| matches!(what, What::Host(function) if !function.vouched))
    }

    /// Enters the alloc point of the block that was taken last.
    pub(super) fn add_alloc(&mut self, frontier: &[u32]) {
        self.allocs
            .push(append(&mut self.alloc_frontiers, frontier));
    }

    /// What a command touches; the one that was recorded last is found at once.
    pub(super) fn accesses_of(&self, command: u32) -> &[RecordedAccess] {
        let end = self.accesses.partition_point(|a| a.command <= command);
        let start = self.accesses[..end].partition_point(|a| a.command < command);
        &self.accesses[start..end]
    }

    pub(super) fn params(&self, command: &Command) -> &[u8] {
        &self.param_bytes[indices(&command.params)]
    }

    pub(super) fn pointers(&self, command: &Command) -> &[Pointer] {
        &self.pointers[indices(&command.pointers)]
    }

    pub(super) fn waits(&self, command: &Command) -> &[u32] {
        &self.waits[indices(&command.after)]
    }

    /// Replaces what stood for addresses by addresses: block `i` lies at
    /// `blocks[i]`.
    pub(super) fn relocate(&mut self, blocks: &[ByteRange]) {
        for command in &mut self.commands {
            match &mut command.what {
                What::Kernel { info, .. } => {
                    let params = &mut self.param_bytes[indices(&command.params)];
                    for pointer in &self.pointers[indices(&command.pointers)] {
                        let BufferKey::Scratch(block) = pointer.buffer else {
                            continue;
                        };
                        let address = blocks[block as usize].start + pointer.offset;
                        let slot = info.slots[pointer.param as usize];
                        let at = (slot.offset + pointer.at) as usize;
                        params[at..at + 8].copy_from_slice(&address.to_ne_bytes());
                    }
                }
                What::Copy { to, from, .. } => {
                    to.relocate(blocks);
                    from.relocate(blocks);
                }
                What::Fill { to, .. } => to.relocate(blocks),
                What::EventRecord(_)
                | What::EventWait(_)
                | What::Host(_)
                | What::Foreign { .. } => {}
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

/// Appends to a shared table; where the new entries stand in it.
pub(super) fn append<T: Copy>(table: &mut Vec<T>, entries: &[T]) -> Range<u32> {
    let start = table.len() as u32;
    table.extend_from_slice(entries);
    start..table.len() as u32
}

/// A range of a shared table, to index it with.
pub(super) fn indices(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use streamweir_trace::{AccessMode, StreamId};

    use super::*;

    #[test]
    fn each_command_has_its_own_accesses_and_the_tables_are_shared() {
        let mut recording = Recording::default();
        let spot = Spot {
            stream: StreamId(0),
            scope: None,
            line: Location::caller(),
        };
        let block = |index| BufferKey::Scratch(index);
        for (count, after) in [(2, &[][..]), (0, &[0]), (1, &[0, 1])] {
            let mut draft = Draft::default();
            for index in 0..count {
                draft.add_access(block(index), ByteRange::new(0, 4), AccessMode::Read);
            }
            let what = What::Foreign {
                name: "call".into(),
                said: CallSaid::default(),
            };
            recording.push(spot, what, &mut draft, after);
        }
        let counts = [0, 1, 2].map(|command| recording.accesses_of(command).len());
        assert_eq!(counts, [2, 0, 1]);
        assert_eq!(recording.waits(&recording.commands[2]), [0, 1]);
        assert!(recording.waits(&recording.commands[0]).is_empty());
    }
}

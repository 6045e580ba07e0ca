//! Which nodes the driver made of each command, as the sink found them.
//!
//! They stand beside the recording: it says what was asked for, this what came
//! of it.

use std::collections::HashMap;
use std::ops::Range;

use streamweir_hal::driver::NodeHandle;

use super::recording::{append, indices};

/// What became of one command.
pub(super) enum Sent {
    /// The driver made this node of it.
    Node(NodeHandle),
    /// A library's call took the stream's frontier from the one to the other.
    Call {
        before: Vec<NodeHandle>,
        after: Vec<NodeHandle>,
    },
    /// No node that is known: it runs at once, is not sent yet, or failed.
    Unseen,
}

/// By command.
#[derive(Default)]
pub(super) struct Nodes {
    handles: Vec<NodeHandle>,
    found: Vec<Range<u32>>,
    /// The frontiers before the calls of libraries.
    before: HashMap<u32, Range<u32>>,
}

impl Nodes {
    /// What became of the next command.
    #[inline]
    pub(super) fn push(&mut self, sent: Sent) {
        let found = self.enter(self.found.len() as u32, sent);
        self.found.push(found);
    }

    /// What became of a command that was pushed unseen.
    pub(super) fn set(&mut self, command: u32, sent: Sent) {
        self.found[command as usize] = self.enter(command, sent);
    }

    #[inline]
    fn enter(&mut self, command: u32, sent: Sent) -> Range<u32> {
        match sent {
            Sent::Node(node) => append(&mut self.handles, &[node]),
            Sent::Call { before, after } => {
                let before = append(&mut self.handles, &before);
                self.before.insert(command, before);
                append(&mut self.handles, &after)
            }
            Sent::Unseen => 0..0,
        }
    }

    /// The node of a command; of a library's call the frontier that it left,
    /// which the next command of the stream waits for.
    pub(super) fn of(&self, command: usize) -> &[NodeHandle] {
        &self.handles[indices(&self.found[command])]
    }

    /// The frontier that a library's call has found.
    pub(super) fn before(&self, command: usize) -> &[NodeHandle] {
        match self.before.get(&(command as u32)) {
            Some(range) => &self.handles[indices(range)],
            None => &[],
        }
    }
}

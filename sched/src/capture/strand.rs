//! One captured stream, as its capture sees it.

use std::any::TypeId;
use std::sync::Arc;

use streamweir_trace::StreamId;

use crate::error::Name;
use crate::owned::OwnedStream;

/// A captured stream. It keeps its number, tag, pool and driver stream when it
/// is joined and forked again.
pub(super) struct Strand {
    pub(super) name: Name,
    pub(super) stream: Arc<OwnedStream>,
    /// `None` for the origin.
    pub(super) parent: Option<StreamId>,
    /// Forked and not joined; always true of the origin.
    pub(super) active: bool,
    /// The lane type that stands for it, if one does.
    pub(super) lane: Option<(TypeId, &'static str)>,
    /// The commands that its next command waits for.
    pub(super) frontier: Vec<u32>,
    /// Times it was forked, so that a handle of an earlier time is told apart.
    pub(super) generation: u32,
}

impl Strand {
    /// Continues after `others`, too.
    pub(super) fn wait_for(&mut self, others: &[u32]) {
        for &command in others {
            if !self.frontier.contains(&command) {
                self.frontier.push(command);
            }
        }
    }
}

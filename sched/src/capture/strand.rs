//! The captured streams, as their capture sees them: names, tags and chains.
//! The driver's streams behind them are the sink's.

use std::any::TypeId;
use std::collections::HashMap;
use std::panic::Location;

use streamweir_trace::StreamId;

use super::lane::LaneId;
use crate::error::Name;

/// A captured stream. It keeps its number, tag, pool and driver stream when it
/// is joined and forked again.
pub(super) struct Strand {
    pub(super) name: Name,
    /// `None` for the origin.
    pub(super) parent: Option<StreamId>,
    /// Forked and not joined; always true of the origin.
    pub(super) active: bool,
    /// The lane type that stands for it, if one does.
    pub(super) lane: Option<LaneId>,
    /// The commands that its next command waits for.
    pub(super) frontier: Vec<u32>,
    /// The line that forked it last; none for the origin.
    pub(super) forked: Option<&'static Location<'static>>,
    /// Times it was forked, so that a handle of an earlier time is told apart.
    pub(super) generation: u32,
}

impl Strand {
    /// Continues after `others`, too.
    fn wait_for(&mut self, others: &[u32]) {
        for &command in others {
            if !self.frontier.contains(&command) {
                self.frontier.push(command);
            }
        }
    }
}

/// All of them, the origin first.
pub(super) struct Strands {
    all: Vec<Strand>,
    by_name: HashMap<Name, StreamId>,
}

pub(super) const ORIGIN: StreamId = StreamId(0);

impl Strands {
    pub(super) fn new(origin: Name) -> Self {
        let mut strands = Self {
            all: Vec::new(),
            by_name: HashMap::new(),
        };
        strands.push(origin, None);
        strands.all[0].active = true;
        strands
    }

    /// Adds a stream that is not forked yet.
    pub(super) fn push(&mut self, name: Name, parent: Option<StreamId>) {
        self.by_name
            .insert(name.clone(), StreamId::at(self.all.len()));
        self.all.push(Strand {
            name,
            parent,
            active: false,
            lane: None,
            frontier: Vec::new(),
            forked: None,
            generation: 0,
        });
    }

    pub(super) fn all(&self) -> &[Strand] {
        &self.all
    }

    pub(super) fn get(&self, id: StreamId) -> &Strand {
        &self.all[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> &mut Strand {
        &mut self.all[id.index()]
    }

    pub(super) fn named(&self, name: &str) -> Option<StreamId> {
        self.by_name.get(name).copied()
    }

    /// The first stream that is forked and not joined.
    pub(super) fn unjoined(&self) -> Option<(StreamId, &Strand)> {
        let forked = |strand: &Strand| strand.active && strand.parent.is_some();
        let found = self.all.iter().position(forked)?;
        Some((StreamId::at(found), &self.all[found]))
    }

    /// The stream that a lane type stands for.
    pub(super) fn of_lane(&self, lane: TypeId) -> Option<StreamId> {
        let found = |strand: &Strand| strand.lane.is_some_and(|(id, _)| id == lane);
        self.all.iter().position(found).map(StreamId::at)
    }

    /// `later` continues after all that `earlier` has recorded.
    pub(super) fn order(&mut self, later: StreamId, earlier: StreamId) {
        let frontier = self.get(earlier).frontier.clone();
        self.get_mut(later).wait_for(&frontier);
    }
}

//! Whose turns a graph takes.

use std::sync::{Arc, Weak};

use streamweir_base::sync::Mutex;

use super::footprint::Footprint;
use super::launch::Launch;
use super::ranks;
use super::turn::Turn;

/// Graphs that take turns in any case: those of one replay group.
pub(crate) struct TurnGroup {
    turn: Arc<Turn<Arc<Launch>>>,
    members: Mutex<Vec<Weak<Footprint>>>,
}

impl TurnGroup {
    /// A group without graphs. No two of a device have the same number.
    pub(crate) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self {
            turn: Arc::new(Turn::new(number)),
            members: Mutex::ranked(ranks::MEMBERS, Vec::new()),
        })
    }

    /// The group's latest launch.
    pub(crate) fn last(&self) -> Option<Arc<Launch>> {
        self.turn.last()
    }

    fn conflicts(&self, footprint: &Footprint) -> bool {
        let members = self.members.lock();
        members
            .iter()
            .filter_map(Weak::upgrade)
            .any(|member| member.conflicts(footprint))
    }
}

/// The groups of a device that have graphs.
pub(crate) struct Groups {
    all: Mutex<Vec<Weak<TurnGroup>>>,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            all: Mutex::ranked(ranks::GROUPS, Vec::new()),
        }
    }
}

impl Groups {
    /// The latest launch of each group.
    pub(crate) fn latest_launches(&self) -> Vec<Arc<Launch>> {
        let groups: Vec<_> = {
            let all = self.all.lock();
            all.iter().filter_map(Weak::upgrade).collect()
        };
        groups.iter().filter_map(|group| group.last()).collect()
    }

    /// The latest launch of each group that has a graph which conflicts with
    /// `footprint`.
    pub(crate) fn latest_of(&self, footprint: &Footprint) -> Vec<Arc<Launch>> {
        let groups: Vec<_> = {
            let all = self.all.lock();
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let conflicting = groups.iter().filter(|group| group.conflicts(footprint));
        conflicting.filter_map(|group| group.last()).collect()
    }

    /// Enters a graph into `home` and finds the turns it takes: the group's
    /// own, and those of all groups with a graph that conflicts. A graph of
    /// such a group need not know: it takes its own group's turn, and so meets
    /// this graph there.
    pub(crate) fn enroll(
        &self,
        home: &Arc<TurnGroup>,
        footprint: &Arc<Footprint>,
    ) -> Vec<Arc<Turn<Arc<Launch>>>> {
        // Declared before the lock, so that no group goes while it is held.
        let known: Vec<_>;
        // One lock over the whole, so that of two graphs that enter at once
        // the later one sees the earlier.
        let mut all = self.all.lock();
        all.retain(|group| group.strong_count() > 0);
        known = all.iter().filter_map(Weak::upgrade).collect();
        let mut turns = vec![home.turn.clone()];
        for group in &known {
            if !Arc::ptr_eq(group, home) && group.conflicts(footprint) {
                turns.push(group.turn.clone());
            }
        }
        if !known.iter().any(|group| Arc::ptr_eq(group, home)) {
            all.push(Arc::downgrade(home));
        }
        let mut members = home.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(footprint));
        turns.sort_by_key(|turn| turn.rank());
        turns
    }
}

//! Whose turns a graph takes.

use std::sync::{Arc, Weak};

use streamweir_base::sync::Mutex;
use streamweir_trace::ByteRange;

use super::footprint::Footprint;
use super::launch::Launch;
use super::ranks;
use super::turn::Turn;

type Turns = Vec<Arc<Turn<Arc<Launch>>>>;

/// Graphs that take turns in any case: those of one replay group. Or eager runs that
/// come one after the other.
pub(crate) struct TurnGroup {
    turn: Arc<Turn<Arc<Launch>>>,
    members: Mutex<Vec<Weak<Footprint>>>,
    /// Whether the members are eager runs. A run is a member while it is under way, so
    /// other runs take a group of runs for one that conflicts.
    of_runs: bool,
}

impl TurnGroup {
    /// A group without graphs. No two of a device have the same number.
    pub(crate) fn new(number: u64) -> Arc<Self> {
        Self::with(number, false)
    }

    /// A group for eager runs.
    pub(crate) fn of_runs(number: u64) -> Arc<Self> {
        Self::with(number, true)
    }

    fn with(number: u64, of_runs: bool) -> Arc<Self> {
        Arc::new(Self {
            turn: Arc::new(Turn::new(number)),
            members: Mutex::ranked(ranks::MEMBERS, Vec::new()),
            of_runs,
        })
    }

    /// Whether its members are eager runs.
    pub(crate) fn is_of_runs(&self) -> bool {
        self.of_runs
    }

    /// The group's latest launch.
    pub(crate) fn last(&self) -> Option<Arc<Launch>> {
        self.turn.last()
    }

    /// Whether a member conflicts with whoever reads these bytes, and with whoever
    /// writes them.
    pub(crate) fn meets(&self, bytes: &ByteRange) -> [bool; 2] {
        let members = self.members.lock();
        let (mut read, mut written) = (false, false);
        for member in members.iter().filter_map(Weak::upgrade) {
            read |= member.reads.overlaps(bytes);
            written |= member.writes.overlaps(bytes);
        }
        [written, read || written]
    }

    fn conflicts(&self, footprint: &Footprint) -> bool {
        let members = self.members.lock();
        members
            .iter()
            .filter_map(Weak::upgrade)
            .any(|member| member.conflicts(footprint))
    }

    fn enter(&self, footprint: &Arc<Footprint>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(Arc::downgrade(footprint));
    }
}

/// The groups of a device that have graphs.
pub(crate) struct Groups {
    all: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    groups: Vec<Weak<TurnGroup>>,
    /// Changes when a group gets a member that it has not had before, runs of a group
    /// of runs aside.
    version: u64,
}

/// The turns of somebody who has entered, and may enter again with the same bytes.
#[derive(Clone)]
pub(crate) struct Enrolled {
    pub(crate) turns: Turns,
    version: u64,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            all: Mutex::ranked(ranks::GROUPS, Known::default()),
        }
    }
}

impl Groups {
    /// The groups, unless they and their members are those of `version`, which is
    /// renewed otherwise. Members may be gone since.
    pub(crate) fn changed_since(&self, version: &mut Option<u64>) -> Option<Vec<Arc<TurnGroup>>> {
        let all = self.all.lock();
        if *version == Some(all.version) {
            return None;
        }
        *version = Some(all.version);
        Some(all.groups.iter().filter_map(Weak::upgrade).collect())
    }

    /// The latest launch of each group that has a graph which conflicts with
    /// `footprint`.
    pub(crate) fn latest_of(&self, footprint: &Footprint) -> Vec<Arc<Launch>> {
        let groups: Vec<_> = {
            let all = self.all.lock();
            all.groups.iter().filter_map(Weak::upgrade).collect()
        };
        let conflicting = groups.iter().filter(|group| group.conflicts(footprint));
        conflicting.filter_map(|group| group.last()).collect()
    }

    /// Enters a graph into `home` and finds the turns it takes: the group's
    /// own, and those of all groups with a graph that conflicts. A graph of
    /// such a group need not know: it takes its own group's turn, and so meets
    /// this graph there.
    pub(crate) fn enroll(&self, home: &Arc<TurnGroup>, footprint: &Arc<Footprint>) -> Turns {
        self.enroll_again(home, footprint, None).turns
    }

    /// The same for one who was here before with the same bytes: the turns are those
    /// of `before` as long as nobody else has come.
    pub(crate) fn enroll_again(
        &self,
        home: &Arc<TurnGroup>,
        footprint: &Arc<Footprint>,
        before: Option<&Enrolled>,
    ) -> Enrolled {
        // Declared before the lock, so that no group goes while it is held.
        let known: Vec<_>;
        // One lock over the whole, so that of two graphs that enter at once
        // the later one sees the earlier.
        let mut all = self.all.lock();
        if let Some(before) = before.filter(|before| before.version == all.version) {
            home.enter(footprint);
            return before.clone();
        }
        all.groups.retain(|group| group.strong_count() > 0);
        known = all.groups.iter().filter_map(Weak::upgrade).collect();
        let mut turns = vec![home.turn.clone()];
        for group in &known {
            let both_run = home.of_runs && group.of_runs;
            if !Arc::ptr_eq(group, home) && (both_run || group.conflicts(footprint)) {
                turns.push(group.turn.clone());
            }
        }
        let is_new = !known.iter().any(|group| Arc::ptr_eq(group, home));
        if is_new {
            all.groups.push(Arc::downgrade(home));
        }
        if is_new || !home.of_runs {
            all.version += 1;
        }
        home.enter(footprint);
        turns.sort_by_key(|turn| turn.rank());
        Enrolled {
            turns,
            version: all.version,
        }
    }
}

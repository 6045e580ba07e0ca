//! A clock that counts slices.
//!
//! It says how much work ran, not how long it would take anywhere: of two tasks side
//! by side all slices count. That is the same in each run, whatever the interleaving,
//! and enough to see which work was timed.

use std::collections::BTreeMap;

use super::schedule::TaskId;

/// Slices since the device was made, and when tasks ended.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now: u64,
    ended: BTreeMap<TaskId, u64>,
}

impl Clock {
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    pub(super) fn end(&mut self, task: TaskId) {
        self.ended.insert(task, self.now);
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// When the last of some tasks ended, none of which is unfinished.
    pub(super) fn ended(&self, tasks: &[TaskId]) -> u64 {
        let each = tasks.iter().filter_map(|task| self.ended.get(task));
        each.copied().max().unwrap_or(0)
    }
}

//! The executor: tasks that wait for tasks, run slice by slice.
//!
//! Nothing runs when it is enqueued. A wait makes the executor run slices of
//! any tasks that are ready, as the [schedule](super::schedule) decides, until
//! what is waited for has ended. A task is ready when all that it depends on
//! has ended, and that is the only order there is.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::Clock;
use super::memory::Memory;
use super::schedule::{Choose, TaskId};
use super::work::{Failed, Work};
use crate::driver::code::SimFault;

/// Things whose last owner may be the device. Dropping them runs foreign code,
/// so it is done when the device's lock has been let go.
pub(super) type Trash = Vec<Arc<dyn Any + Send + Sync>>;

/// A fault, and which work it happened in.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) work: String,
    pub(super) fault: SimFault,
}

/// All unfinished work of a device.
#[derive(Debug)]
pub(super) struct Executor {
    tasks: BTreeMap<TaskId, Task>,
    /// The tasks that wait for none, ascending.
    ready: Vec<TaskId>,
    next: TaskId,
    pub(super) schedule: Box<dyn Choose>,
    pub(super) clock: Option<Clock>,
}

#[derive(Debug)]
struct Task {
    work: Work,
    slice: u64,
    slices: u64,
    waits_for: usize,
    followers: Vec<TaskId>,
    /// The instantiated graph that the task belongs to, kept alive by it.
    image: Option<Arc<dyn Any + Send + Sync>>,
}

impl Executor {
    pub(super) fn new(schedule: Box<dyn Choose>) -> Self {
        Self {
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            next: 0,
            schedule,
            clock: None,
        }
    }

    /// Enqueues work behind `after`; whatever of it has ended is ignored.
    pub(super) fn enqueue(
        &mut self,
        work: Work,
        after: impl IntoIterator<Item = TaskId>,
        image: Option<Arc<dyn Any + Send + Sync>>,
    ) -> TaskId {
        let id = self.next;
        self.next += 1;
        let mut waits_for = 0;
        for before in after {
            if let Some(task) = self.tasks.get_mut(&before)
                && task.followers.last() != Some(&id)
            {
                task.followers.push(id);
                waits_for += 1;
            }
        }
        let slices = work.slices();
        self.tasks.insert(
            id,
            Task {
                work,
                slice: 0,
                slices,
                waits_for,
                followers: Vec::new(),
                image,
            },
        );
        if waits_for == 0 {
            self.ready.push(id);
        }
        id
    }

    /// Whether a task has not ended.
    pub(super) fn pending(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    /// How many tasks have not ended.
    #[cfg(feature = "testing")]
    pub(super) fn unfinished(&self) -> usize {
        self.tasks.len()
    }

    /// Runs slices until none of `tasks` is pending.
    pub(super) fn run_until(
        &mut self,
        tasks: &[TaskId],
        memory: &mut Memory,
        trash: &mut Trash,
    ) -> Result<(), Broken> {
        while tasks.iter().any(|&task| self.pending(task)) {
            self.run_slice(memory, trash)?;
        }
        Ok(())
    }

    /// Runs one slice of one ready task, if there is one.
    pub(super) fn run_slice(
        &mut self,
        memory: &mut Memory,
        trash: &mut Trash,
    ) -> Result<(), Broken> {
        let Some(last) = self.ready.len().checked_sub(1) else {
            return Ok(());
        };
        let at = self.schedule.choose(&self.ready).min(last);
        let id = self.ready[at];
        let Some(task) = self.tasks.get_mut(&id) else {
            self.ready.remove(at);
            return Ok(());
        };
        if let Err(Failed { fault, at }) = task.work.run(task.slice, memory) {
            let name = task.work.name();
            return Err(Broken {
                work: match at {
                    Some(at) => format!("{name} (at {at})"),
                    None => name.to_owned(),
                },
                fault,
            });
        }
        if let Some(clock) = &mut self.clock {
            clock.tick();
        }
        task.slice += 1;
        if task.slice == task.slices {
            self.ready.remove(at);
            self.finish(id, trash);
        }
        Ok(())
    }

    /// Drops all unfinished work.
    pub(super) fn abandon(&mut self, trash: &mut Trash) {
        self.ready.clear();
        for task in std::mem::take(&mut self.tasks).into_values() {
            discard(task, trash);
        }
    }

    fn finish(&mut self, id: TaskId, trash: &mut Trash) {
        let Some(task) = self.tasks.remove(&id) else {
            return;
        };
        if let Some(clock) = &mut self.clock {
            clock.end(id);
        }
        for follower in &task.followers {
            if let Some(next) = self.tasks.get_mut(follower) {
                next.waits_for -= 1;
                if next.waits_for == 0 {
                    let at = self.ready.partition_point(|other| other < follower);
                    self.ready.insert(at, *follower);
                }
            }
        }
        discard(task, trash);
    }
}

fn discard(task: Task, trash: &mut Trash) {
    trash.extend(task.image);
    if let Work::Kernel { function, .. } = task.work {
        trash.push(function);
    }
}

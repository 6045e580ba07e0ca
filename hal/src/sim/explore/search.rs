//! The search: one schedule of each class, depth first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use streamweir_trace::ByteRange;

use super::super::footprint::Footprint;
use super::super::memory::Memory;
use super::super::objects::Task;
use super::super::work::Failed;
use super::{Bounds, Exploration, ExploreError, Outcome, Reduction, Schedule};

/// A set of tasks.
type Tasks = u64;

fn only(task: usize) -> Tasks {
    1 << task
}

/// A slice that has run.
struct Step {
    task: usize,
    footprint: Rc<Footprint>,
    /// For each task, how many of its slices happen before this one or are it.
    clock: Vec<u64>,
}

impl Step {
    /// Whether the slice happens before one with `clock`.
    fn within(&self, clock: &[u64]) -> bool {
        self.clock[self.task] <= clock[self.task]
    }
}

/// A state of the search, and what has been tried from it.
struct Frame {
    enabled: Tasks,
    /// What has been or will be tried.
    chosen: Tasks,
    /// What need not be tried (again).
    done: Tasks,
    /// Tasks whose next slice would lead only to classes that have been seen,
    /// with what that slice touches.
    asleep: Vec<(usize, Rc<Footprint>)>,
}

struct Search<'a> {
    tasks: Vec<Task>,
    slices: Vec<u64>,
    memory: &'a mut Memory,
    observe: &'a [ByteRange],
    bounds: &'a Bounds,
    /// How many slices of each task have run.
    progress: Vec<u64>,
    steps: Vec<Step>,
    frames: Vec<Frame>,
    ran: u64,
    interleavings: u64,
    outcomes: BTreeMap<Vec<u8>, (u64, Schedule)>,
}

pub(super) fn run(
    tasks: Vec<Task>,
    memory: &mut Memory,
    observe: &[ByteRange],
    bounds: &Bounds,
) -> Result<Exploration, ExploreError> {
    let mut search = Search {
        slices: tasks.iter().map(|task| task.work.slices()).collect(),
        progress: vec![0; tasks.len()],
        tasks,
        memory,
        observe,
        bounds,
        steps: Vec::new(),
        frames: Vec::new(),
        ran: 0,
        interleavings: 0,
        outcomes: BTreeMap::new(),
    };
    search.all()?;
    Ok(Exploration {
        interleavings: search.interleavings,
        slices: search.ran,
        outcomes: std::mem::take(&mut search.outcomes)
            .into_iter()
            .map(|(bytes, (interleavings, schedule))| Outcome {
                bytes,
                interleavings,
                schedule,
            })
            .collect(),
    })
}

/// However the search ends, memory is as before.
impl Drop for Search<'_> {
    fn drop(&mut self) {
        // Of a kernel body that panicked.
        let broken_off = self.memory.end_log();
        self.memory.take_back(&broken_off.undo);
        while self.take_back().is_some() {}
    }
}

impl Search<'_> {
    fn all(&mut self) -> Result<(), ExploreError> {
        self.enter(Vec::new());
        while let Some(frame) = self.frames.last() {
            let next = frame.chosen & !frame.done;
            if next != 0 {
                self.step(next.trailing_zeros() as usize)?;
                continue;
            }
            self.frames.pop();
            let taken = self.take_back();
            if let (Some(step), Some(frame)) = (taken, self.frames.last_mut()) {
                frame.done |= only(step.task);
                frame.asleep.push((step.task, step.footprint));
            }
        }
        Ok(())
    }

    /// Begins at a state that has been reached.
    fn enter(&mut self, asleep: Vec<(usize, Rc<Footprint>)>) {
        let enabled = (0..self.tasks.len())
            .filter(|&task| self.enabled(task))
            .fold(0, |set, task| set | only(task));
        if enabled == 0 {
            self.complete();
        }
        let done = asleep.iter().fold(0, |set, &(task, _)| set | only(task));
        let awake = enabled & !done;
        let chosen = match self.bounds.reduction {
            Reduction::Conflicts => awake & awake.wrapping_neg(),
            Reduction::None => enabled,
        };
        self.frames.push(Frame {
            enabled,
            chosen,
            done,
            asleep,
        });
    }

    fn enabled(&self, task: usize) -> bool {
        self.progress[task] < self.slices[task]
            && self.tasks[task]
                .after
                .iter()
                .all(|&before| self.progress[before] == self.slices[before])
    }

    /// Runs the next slice of `task`, and begins at the state behind it.
    fn step(&mut self, task: usize) -> Result<(), ExploreError> {
        if self.ran == self.bounds.slices {
            return Err(ExploreError::TooManySlices {
                bound: self.bounds.slices,
                interleavings: self.interleavings,
            });
        }
        self.ran += 1;
        self.memory.begin_log();
        let ran = self.tasks[task].work.run(self.progress[task], self.memory);
        let footprint = Rc::new(self.memory.end_log());
        if let Err(Failed { fault, .. }) = ran {
            // What the slice did before it failed is taken back with the rest.
            self.memory.take_back(&footprint.undo);
            let name = self.tasks[task].work.name().to_owned();
            let mut schedule = self.schedule();
            schedule.nodes.push(task);
            return Err(ExploreError::Fault {
                node: task,
                name,
                fault,
                schedule,
            });
        }
        let clock = self.order(task, &footprint);
        let asleep = match (self.bounds.reduction, self.frames.last()) {
            (Reduction::Conflicts, Some(frame)) => frame
                .asleep
                .iter()
                .filter(|(_, other)| !other.conflicts(&footprint))
                .cloned()
                .collect(),
            _ => Vec::new(),
        };
        self.progress[task] += 1;
        self.steps.push(Step {
            task,
            footprint,
            clock,
        });
        self.enter(asleep);
        Ok(())
    }

    /// The clock of the slice that `task` has just run; on the way every race
    /// with an earlier slice is noted where it can be turned round.
    fn order(&mut self, task: usize, footprint: &Footprint) -> Vec<u64> {
        let mut clock = vec![0; self.tasks.len()];
        let mut races = Vec::new();
        for (at, step) in self.steps.iter().enumerate().rev() {
            if step.within(&clock) {
                continue;
            }
            let ordered = step.task == task || self.tasks[task].after.contains(&step.task);
            if !ordered && !step.footprint.conflicts(footprint) {
                continue;
            }
            // A slice that an earlier one reaches only over this one has been
            // joined in before, so the two are neighbours in the order.
            for (mine, &theirs) in clock.iter_mut().zip(&step.clock) {
                *mine = (*mine).max(theirs);
            }
            if !ordered {
                races.push(at);
            }
        }
        clock[task] = self.progress[task] + 1;
        if self.bounds.reduction == Reduction::Conflicts {
            for at in races {
                self.turn_round(at, task, &clock);
            }
        }
        clock
    }

    /// Makes sure that from the state before step `at` something is tried that
    /// leads to the new slice of `task` without that step.
    fn turn_round(&mut self, at: usize, task: usize, clock: &[u64]) {
        let late = &self.steps[at];
        let mut initials = 0;
        // The first slice of each task in what does not happen after `late`.
        let mut firsts: Vec<&Step> = Vec::new();
        let mut seen = 0;
        for step in self.steps[at + 1..]
            .iter()
            .filter(|step| !late.within(&step.clock))
        {
            if seen & only(step.task) == 0 {
                if !firsts.iter().any(|first| first.within(&step.clock)) {
                    initials |= only(step.task);
                }
                seen |= only(step.task);
                firsts.push(step);
            }
        }
        if seen & only(task) == 0 && !firsts.iter().any(|first| first.within(clock)) {
            initials |= only(task);
        }
        let frame = &mut self.frames[at];
        debug_assert_eq!(initials & !frame.enabled, 0, "an initial can run");
        if initials & frame.chosen == 0 {
            frame.chosen |= match initials & only(task) {
                0 => initials & initials.wrapping_neg(),
                itself => itself,
            };
        }
    }

    /// Takes the last slice back.
    fn take_back(&mut self) -> Option<Step> {
        let step = self.steps.pop()?;
        self.memory.take_back(&step.footprint.undo);
        self.progress[step.task] -= 1;
        Some(step)
    }

    fn complete(&mut self) {
        self.interleavings += 1;
        let mut bytes = Vec::new();
        for range in self.observe {
            bytes.extend(self.memory.fetch(range.start, range.len()));
        }
        let schedule = self.schedule();
        match self.outcomes.entry(bytes) {
            Entry::Occupied(mut known) => known.get_mut().0 += 1,
            Entry::Vacant(new) => {
                new.insert((1, schedule));
            }
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(self.steps.iter().map(|step| step.task).collect())
    }
}

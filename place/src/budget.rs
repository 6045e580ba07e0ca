//! How long a plan may be looked for.
//!
//! Work is counted in steps: one step is one neighbour of a buffer looked at, so
//! that its cost hardly depends on the problem. The same steps give the same plan
//! on any machine. A deadline stops the search earlier, wherever it is; what has
//! been found by then is a valid plan too, only which one it is depends on the
//! machine then.

use std::time::{Duration, Instant};

/// Steps for each millisecond of a budget given in time: what one core of a
/// small machine does with something to spare, so that the steps are used up
/// before the time is and the plan is the same in every run.
const STEPS_PER_MILLISECOND: u64 = 60_000;

/// A bound on the work that goes into one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most steps. The first layout, which is always made, is not counted
    /// against it.
    pub steps: u64,
    /// When to stop at the latest.
    pub deadline: Option<Instant>,
}

impl Budget {
    /// So many steps and no deadline: the plan is a function of the problem.
    pub const fn steps(steps: u64) -> Self {
        Self {
            steps,
            deadline: None,
        }
    }

    /// About this much time, from now on: so many steps as a small machine does
    /// in it, and a deadline at its end.
    pub fn time(time: Duration) -> Self {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            steps: milliseconds.saturating_mul(STEPS_PER_MILLISECOND),
            deadline: Instant::now().checked_add(time),
        }
    }
}

/// Steps between two looks at the clock.
const LOOK_EVERY: u64 = 1 << 14;

/// What is left of a budget.
#[derive(Debug)]
pub(crate) struct Meter {
    left: u64,
    until_look: u64,
    deadline: Option<Instant>,
}

impl Meter {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            left: budget.steps,
            until_look: LOOK_EVERY,
            deadline: budget.deadline,
        }
    }

    /// Takes steps; false when they are used up or the time is over.
    #[inline]
    pub(crate) fn take(&mut self, steps: u64) -> bool {
        self.left = self.left.saturating_sub(steps);
        self.until_look = self.until_look.saturating_sub(steps);
        if self.until_look == 0 {
            self.look();
        }
        self.left > 0
    }

    #[cold]
    fn look(&mut self) {
        self.until_look = LOOK_EVERY;
        if self.deadline.is_some_and(|at| Instant::now() >= at) {
            self.left = 0;
        }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// A part of what is left, as a meter of its own; give what it has left
    /// back with [`reclaim`](Self::reclaim).
    pub(crate) fn part(&mut self, steps: u64) -> Self {
        let steps = steps.min(self.left);
        self.left -= steps;
        Self {
            left: steps,
            until_look: LOOK_EVERY,
            deadline: self.deadline,
        }
    }

    /// Takes back what a part has left.
    pub(crate) fn reclaim(&mut self, part: &Self) {
        self.left += part.left;
        if self.deadline.is_some_and(|at| Instant::now() >= at) {
            self.left = 0;
        }
    }
}

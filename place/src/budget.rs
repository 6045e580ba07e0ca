//! How long a plan may be looked for.
//!
//! A budget is a number of steps or a time. One step is one neighbour of a buffer looked at, so
//! that its cost hardly depends on the problem, and the same steps give the same plan on any
//! machine. A time is used until it is over, and then it is the machine on which it depends how
//! far the search came; what has been found by then is a valid plan too.

use std::time::{Duration, Instant};

/// A bound on the work that goes into one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most steps. The first layout is always made.
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

    /// So much time, from now on.
    pub fn time(time: Duration) -> Self {
        Self {
            steps: u64::MAX,
            deadline: Instant::now().checked_add(time),
        }
    }
}

/// Steps between two looks at the clock.
const LOOK_EVERY: u64 = 1 << 14;

/// What is left of a budget.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Steps that may still be taken.
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

    /// The share of `members` out of `all` in what is left, steps and time, as a meter of its
    /// own; give what it has left back with [`reclaim`](Self::reclaim).
    pub(crate) fn share(&mut self, members: u64, all: u64) -> Self {
        let of = |what: u128| what * u128::from(members) / u128::from(all.max(1));
        let steps = of(u128::from(self.left)) as u64;
        let deadline = self.deadline.map(|at| {
            let now = Instant::now();
            let time = of(at.saturating_duration_since(now).as_nanos());
            now + Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
        });
        Self {
            deadline,
            ..self.part(steps)
        }
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

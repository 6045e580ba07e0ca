//! Taking turns: conflicting graphs are never in flight together (invariant 7).
//!
//! Each replay group has one [`Turn`], which knows its latest launch. A launch
//! takes the turns of every group that its graph's bytes conflict with, in the
//! order of their ranks, orders itself after the latest launch of each, and
//! becomes the latest launch itself: wait, launch and record are one locked
//! step, so no other launch can come between. Inside one group each launch is
//! ordered after the one before, so the latest stands for all.

use std::sync::Arc;

use streamweir_base::sync::Mutex;

use super::ranks;

/// The turn of one replay group; `L` tells one launch from another.
#[derive(Debug)]
pub struct Turn<L> {
    rank: u64,
    last: Mutex<Option<L>>,
}

impl<L: Clone> Turn<L> {
    /// The turn of a group. No two groups of a device have the same rank.
    pub fn new(rank: u64) -> Self {
        Self {
            rank,
            last: Mutex::ranked(ranks::TURN.of(rank), None),
        }
    }

    /// The order in which turns are locked.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Launches once more when the latest launch is one that `same` knows as
    /// its own, and says whether it did. The latest launch then stays, unless
    /// `renew`, asked after the launch, gives another.
    ///
    /// This is the common case of one graph replayed on one stream: nothing to
    /// wait for, and nothing to enter.
    ///
    /// # Errors
    /// What `launch` returns.
    #[inline]
    pub fn again<E>(
        &self,
        same: impl FnOnce(&L) -> bool,
        launch: impl FnOnce() -> Result<(), E>,
        renew: impl FnOnce(&L) -> Option<L>,
    ) -> Result<bool, E> {
        let mut last = self.last.lock();
        let Some(latest) = &*last else {
            return Ok(false);
        };
        if !same(latest) {
            return Ok(false);
        }
        launch()?;
        if let Some(next) = renew(latest) {
            *last = Some(next);
        }
        Ok(true)
    }

    /// The latest launch.
    pub fn last(&self) -> Option<L> {
        self.last.lock().clone()
    }
}

/// Launches in turn: calls `after` with the latest launch of each group, then
/// `launch`, whose result becomes the latest launch of all of them.
///
/// `turns` are sorted by rank, each once.
///
/// # Errors
/// What `after` or `launch` returns; the latest launches stay what they were.
pub fn in_turn<L: Clone, E>(
    turns: &[Arc<Turn<L>>],
    mut after: impl FnMut(&L) -> Result<(), E>,
    launch: impl FnOnce() -> Result<L, E>,
) -> Result<L, E> {
    debug_assert!(turns.windows(2).all(|pair| pair[0].rank < pair[1].rank));
    take(turns, &mut after, launch)
}

/// Takes the turns one inside the other, which needs no list of guards.
fn take<L: Clone, E>(
    turns: &[Arc<Turn<L>>],
    after: &mut impl FnMut(&L) -> Result<(), E>,
    launch: impl FnOnce() -> Result<L, E>,
) -> Result<L, E> {
    let Some((turn, rest)) = turns.split_first() else {
        return launch();
    };
    let mut last = turn.last.lock();
    if let Some(last) = &*last {
        after(last)?;
    }
    let launched = take(rest, after, launch)?;
    *last = Some(launched.clone());
    Ok(launched)
}

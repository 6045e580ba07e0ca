//! `parking_lot`'s locks, which check the order of ranks in test builds.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::Rank;

/// A mutual exclusion lock with a place in the lock order.
pub struct Mutex<T> {
    inner: parking_lot::Mutex<T>,
    #[cfg(debug_assertions)]
    rank: Rank,
}

/// Access to what a [`Mutex`] protects.
pub struct MutexGuard<'a, T> {
    inner: parking_lot::MutexGuard<'a, T>,
    #[cfg(debug_assertions)]
    _held: held::Held,
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl<T> Mutex<T> {
    /// A leaf around `value`: no other lock is taken while it is held.
    pub fn new(value: T) -> Self {
        Self::ranked(Rank::LEAF, value)
    }

    /// A lock of `rank` around `value`.
    #[inline]
    pub fn ranked(rank: Rank, value: T) -> Self {
        #[cfg(not(debug_assertions))]
        let _ = rank;
        Self {
            inner: parking_lot::Mutex::new(value),
            #[cfg(debug_assertions)]
            rank,
        }
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// With debug assertions, when the thread holds a lock of the same rank or
    /// a higher one: on another day two threads would wait for each other.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // Before the wait, which a wrong order may make endless.
        #[cfg(debug_assertions)]
        let held = held::Held::new(self.rank);
        MutexGuard {
            inner: self.inner.lock(),
            #[cfg(debug_assertions)]
            _held: held,
        }
    }

    /// The value, without locking.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the lock up, waits for a notification, takes the lock again. It
    /// counts as held meanwhile: whoever waits under another lock keeps it from
    /// those who would notify.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(&mut guard.inner);
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(debug_assertions)]
mod held {
    use std::cell::RefCell;
    use std::marker::PhantomData;

    use super::Rank;

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// The calling thread holds a lock of this rank, or is about to.
    pub(super) struct Held {
        rank: Rank,
        // The mark is the thread's own.
        _not_send: PhantomData<*const ()>,
    }

    impl Held {
        #[track_caller]
        pub(super) fn new(rank: Rank) -> Self {
            // A thread that ends has no list any more, and locks in the drop of
            // its other thread-locals are not checked.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                // While it unwinds, a thread drops what it holds in any order,
                // and a second panic would hide the first.
                if let Some(highest) = held.iter().max().filter(|_| !std::thread::panicking()) {
                    assert!(
                        *highest < rank,
                        "lock order: {rank} is taken while {highest} is held"
                    );
                }
                held.push(rank);
            });
            Self {
                rank,
                _not_send: PhantomData,
            }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|rank| *rank == self.rank) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    const OUTER: Rank = Rank::new(1, "outer");
    const INNER: Rank = Rank::new(2, "inner");

    fn refused(lock: impl FnOnce()) -> String {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(lock));
        let payload = unwound.expect_err("the order is wrong");
        *payload.downcast::<String>().expect("a message")
    }

    #[test]
    fn ranks_rise() {
        let (outer, inner) = (Mutex::ranked(OUTER, 1), Mutex::ranked(INNER, 2));
        let leaf = Mutex::new(3);
        let guards = (outer.lock(), inner.lock(), leaf.lock());
        assert_eq!((*guards.0, *guards.1, *guards.2), (1, 2, 3));
        drop(guards);
        // Given up in any order, and taken again.
        let (first, second) = (outer.lock(), inner.lock());
        drop(first);
        drop(second);
        drop(outer.lock());
    }

    #[test]
    fn a_falling_rank_is_told_with_both_names() {
        let (outer, inner) = (Mutex::ranked(OUTER, ()), Mutex::ranked(INNER, ()));
        let text = refused(|| {
            let _inner = inner.lock();
            drop(outer.lock());
        });
        assert!(
            text.contains("outer (rank 1.0)") && text.contains("inner (rank 2.0)"),
            "{text}"
        );
        // What was held when it panicked is not held any more.
        drop((outer.lock(), inner.lock()));
    }

    #[test]
    fn locks_of_one_kind_go_by_their_number() {
        let turns = [1, 2].map(|order| Mutex::ranked(OUTER.of(order), order));
        drop((turns[0].lock(), turns[1].lock()));
        refused(|| drop((turns[1].lock(), turns[0].lock())));
    }

    #[test]
    fn nothing_is_locked_under_a_leaf() {
        let leaves = [(); 2].map(Mutex::new);
        refused(|| drop((leaves[0].lock(), leaves[1].lock())));
        drop(leaves[0].lock());
        drop(leaves[1].lock());
    }

    #[test]
    fn threads_have_lists_of_their_own() {
        let (outer, inner) = (Mutex::ranked(OUTER, ()), Mutex::ranked(INNER, ()));
        let _inner = inner.lock();
        std::thread::scope(|scope| {
            scope
                .spawn(|| drop(outer.lock()))
                .join()
                .expect("it holds nothing");
        });
    }
}

//! Loom's locks in the same shape.

use std::ops::{Deref, DerefMut};

use super::Rank;

/// Loom reports poisoning like std; `parking_lot` has none, and a panic in
/// a model fails it anyway.
fn unpoisoned<G>(result: Result<G, std::sync::PoisonError<G>>) -> G {
    result.unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A mutual exclusion lock.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// Access to what a [`Mutex`] protects.
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// A lock around `value`. Loom finds a wrong order by itself: it deadlocks.
    pub fn ranked(_rank: Rank, value: T) -> Self {
        Self::new(value)
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(unpoisoned(self.0.lock())))
    }

    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }

    /// The value.
    pub fn into_inner(self) -> T {
        unpoisoned(self.0.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0
            .as_ref()
            .expect("a guard is empty only inside a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0
            .as_mut()
            .expect("a guard is empty only inside a wait")
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Gives the lock up, waits for a notification, takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.0.take() {
            guard.0 = Some(unpoisoned(self.0.wait(held)));
        }
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

//! Locks and atomics in the shape of `parking_lot`, or loom's under
//! `--cfg streamweir_loom`.
//!
//! Code is written once against this module. Three rules make it checkable by
//! loom and safe to hold:
//!
//! - ownership stays [`std::sync::Arc`] and [`std::sync::Weak`]; loom need not
//!   see reference counts to see the data that locks protect;
//! - no caller's code (a backing, a keep-alive's drop, an event query) runs
//!   while a lock of this crate is held;
//! - no lock is built in a `const` or `static`, because loom's cannot be.
//!
//! Lock order: there is none to keep. No lock of this crate is taken while
//! another one is held.

#[cfg(not(streamweir_loom))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Atomics.
#[cfg(not(streamweir_loom))]
pub mod atomic {
    pub use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Atomics.
#[cfg(streamweir_loom)]
pub mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

#[cfg(streamweir_loom)]
pub use modelled::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(streamweir_loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};

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

    /// A readers-writer lock.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(loom::sync::RwLock<T>);

    /// Shared access to what a [`RwLock`] protects.
    pub type RwLockReadGuard<'a, T> = loom::sync::RwLockReadGuard<'a, T>;
    /// Exclusive access to what a [`RwLock`] protects.
    pub type RwLockWriteGuard<'a, T> = loom::sync::RwLockWriteGuard<'a, T>;

    impl<T> RwLock<T> {
        /// A lock around `value`.
        pub fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        /// Waits until no writer holds the lock.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            unpoisoned(self.0.read())
        }

        /// Waits until nobody holds the lock.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            unpoisoned(self.0.write())
        }
    }
}

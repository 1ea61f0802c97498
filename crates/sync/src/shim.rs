//! The shim: one set of names for atomics, `Arc`, `Mutex`, `RwLock`, `Condvar` and threads, in three builds.
//!
//! Product builds: std atomics and `Arc`, parking_lot locks (one byte, no poisoning: a panic inside a critical section
//! aborts the transaction, not the database). Under `--cfg loom` and `--cfg shuttle`: the checker's types; results of
//! its `Mutex` and `RwLock` are unwrapped.
//!
//! In a product build `Condvar` never wakes spuriously; callers loop on their condition all the same.

#[cfg(not(any(loom, shuttle)))]
mod imp {
    pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    use std::time::Duration;
    pub use std::{
        hint,
        sync::{Arc, atomic},
        thread,
    };

    /// A cell accessed by raw pointers, with loom's interface, so that a model sees each access.
    #[derive(Debug, Default)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Wraps `value`.
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `read` with a pointer to the value. A reader through it must ensure that there are no writers.
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Calls `write` with a pointer to the value. A writer through it must ensure exclusive access.
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// A condition variable for [`Mutex`].
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Creates one without waiters.
        #[must_use]
        pub const fn new() -> Self {
            Self(parking_lot::Condvar::new())
        }

        /// Releases `guard`, waits for a notification, and locks again.
        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// Like [`Condvar::wait`], but for at most `limit`; also returns whether the limit passed without a
        /// notification.
        pub fn wait_for<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            limit: Duration,
        ) -> (MutexGuard<'a, T>, super::WaitTimedOut) {
            let timed_out = self.0.wait_for(&mut guard, limit).timed_out();
            (guard, super::WaitTimedOut(timed_out))
        }

        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes every waiter.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(loom)]
use loom as checker;
#[cfg(all(shuttle, not(loom)))]
use shuttle as checker;

#[cfg(any(loom, shuttle))]
mod imp {
    use super::checker;
    #[cfg(all(shuttle, not(loom)))]
    pub use crate::watched_cell::WatchedCell as UnsafeCell;
    pub use checker::{
        hint,
        sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic},
        thread,
    };
    #[cfg(loom)]
    pub use loom::cell::UnsafeCell;
    use std::{sync::PoisonError, time::Duration};

    /// A mutual exclusion lock.
    #[derive(Debug)]
    pub struct Mutex<T>(checker::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// Creates an unlocked mutex.
        pub fn new(value: T) -> Self {
            Self(checker::sync::Mutex::new(value))
        }

        /// Locks.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Locks unless another thread holds it.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    /// A lock for many readers or one writer.
    #[derive(Debug)]
    pub struct RwLock<T>(checker::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// Creates an unlocked lock.
        pub fn new(value: T) -> Self {
            Self(checker::sync::RwLock::new(value))
        }

        /// Locks for reading.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        /// Locks for writing.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T: Default> Default for RwLock<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    /// A condition variable for [`Mutex`].
    #[derive(Debug)]
    pub struct Condvar(checker::sync::Condvar);

    impl Default for Condvar {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Condvar {
        /// Creates one without waiters.
        #[must_use]
        pub fn new() -> Self {
            Self(checker::sync::Condvar::new())
        }

        /// Releases `guard`, waits for a notification, and locks again.
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }

        /// Like [`Condvar::wait`]: a model has no time, so the limit never passes.
        pub fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _limit: Duration,
        ) -> (MutexGuard<'a, T>, super::WaitTimedOut) {
            (self.wait(guard), super::WaitTimedOut(false))
        }

        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes every waiter.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

pub use imp::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, UnsafeCell, atomic, hint, thread,
};

/// Whether [`Condvar::wait_for`] returned because its limit passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimedOut(pub bool);

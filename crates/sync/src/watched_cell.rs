//! `WatchedCell`: a cell that detects overlapping accesses by two threads. Exists only under `--cfg shuttle`, whose
//! models have no such cells; it has the interface of loom's cell.
//!
//! It detects the overlap itself, not a missing order between two accesses: loom covers that.
//!
//! # Invariants
//! - C1. All threads of a model run on one thread of the system, and a switch happens only where it is requested: no
//!   two threads change the count of users at one time.

use std::{
    cell::{Cell, UnsafeCell},
    time::Duration,
};

/// The value of `users` while one thread writes; otherwise it is the number of readers.
const WRITING: isize = -1;

/// A cell accessed by raw pointers.
#[derive(Debug, Default)]
pub struct WatchedCell<T> {
    value: UnsafeCell<T>,
    users: Cell<isize>,
}

impl<T> WatchedCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), users: Cell::new(0) }
    }

    /// Calls `read` with a pointer to the value.
    ///
    /// # Panics
    /// If another thread is writing.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        assert!(self.users.get() != WRITING, "Causality violation: a cell is read while it is written");
        self.users.set(self.users.get() + 1);
        switch();
        let result = read(self.value.get());
        self.users.set(self.users.get() - 1);
        result
    }

    /// Calls `write` with a pointer to the value.
    ///
    /// # Panics
    /// If another thread is reading or writing.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        assert!(self.users.get() == 0, "Causality violation: a cell is written while another uses it");
        self.users.set(WRITING);
        switch();
        let result = write(self.value.get());
        self.users.set(0);
        result
    }
}

/// Lets another thread of the model run, if the schedule says so.
fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}

//! `WatchedCell`: a cell that tells when two sides touch it at one time. Exists under `--cfg shuttle` only, whose model
//! knows no cells of its own; it has the form of loom's.
//!
//! Seen is the overlap itself, not a missing order between two accesses: that is loom's part.
//!
//! # Invariants
//! - C1. All threads of a model run on one thread of the system, and a switch happens only where one is asked for: the
//!   count of users is never touched by two at a time.

use std::{
    cell::{Cell, UnsafeCell},
    time::Duration,
};

/// How many read, or that one writes.
const WRITING: isize = -1;

/// A cell reached by raw pointers.
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
    /// When somebody writes at the time.
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
    /// When somebody reads or writes at the time.
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

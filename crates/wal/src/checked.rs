//! `Checked`: how far an opening is with checking the log's files, for whoever watches from another thread.
//!
//! Figures for people: they are stored and loaded relaxed, and nothing is decided by them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Bytes of the files that an opening checks. Clones are the same figures.
#[derive(Clone, Debug, Default)]
pub struct Checked(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    done: AtomicU64,
    total: AtomicU64,
}

impl Checked {
    /// Returns the bytes that were checked, and those there are; zeros before it is known how many. With copies of the log, or a
    /// ring that a killed process left, they may be checked more than once: then it begins again.
    ///
    /// # Progress
    /// Wait-free.
    pub fn bytes(&self) -> (u64, u64) {
        let total = self.0.total.load(Relaxed);
        (self.0.done.load(Relaxed).min(total), total)
    }

    /// Begins, with no file yet.
    pub(crate) fn begin(&self) {
        self.0.total.store(0, Relaxed);
        self.0.done.store(0, Relaxed);
    }

    /// Adds a file to be checked.
    pub(crate) fn expect(&self, bytes: u64) {
        self.0.total.fetch_add(bytes, Relaxed);
    }

    /// Notes that so much was checked in all.
    pub(crate) fn reach(&self, bytes: u64) {
        self.0.done.store(bytes, Relaxed);
    }
}

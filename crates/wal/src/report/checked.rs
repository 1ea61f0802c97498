//! `Checked`: how far an opening has checked the log's files, for display by another thread.
//!
//! The figures are only for people: they are stored and loaded relaxed, and no decision depends on them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The number of bytes that an opening has checked and has to check. Clones share the same figures.
#[derive(Clone, Debug, Default)]
pub struct Checked(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    done: AtomicU64,
    total: AtomicU64,
}

impl Checked {
    /// Returns the number of bytes checked and the total; zeros until the total is known. With copies of the log, or
    /// with a ring that a killed process left, the files may be checked more than once; the count then starts again.
    ///
    /// # Progress
    /// Wait-free.
    pub fn bytes(&self) -> (u64, u64) {
        let total = self.0.total.load(Relaxed);
        (self.0.done.load(Relaxed).min(total), total)
    }

    /// Starts the count, with no file yet.
    pub(crate) fn begin(&self) {
        self.0.total.store(0, Relaxed);
        self.0.done.store(0, Relaxed);
    }

    /// Adds the bytes of a file to be checked to the total.
    pub(crate) fn expect(&self, bytes: u64) {
        self.0.total.fetch_add(bytes, Relaxed);
    }

    /// Stores the number of bytes checked so far.
    pub(crate) fn reach(&self, bytes: u64) {
        self.0.done.store(bytes, Relaxed);
    }
}

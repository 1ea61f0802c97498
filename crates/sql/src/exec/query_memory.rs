//! `QueryMemory`: how much all statements of a server keep in memory together, and may.
//!
//! Statements take from it in steps ([`Held`](super::held::Held)); rows of tables are no part of it (`store.memory_limit`).
//!
//! # Invariants
//! - Q1. `used` is the sum of what was taken and not given back, never above `bytes_max`.
//!
//! Progress: wait-free, one addition for each step that a statement takes and one when it ends; a statement that keeps no rows does neither.
//! The counter guards no data, so both are Relaxed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module's documentation.
#[derive(Debug)]
pub struct QueryMemory {
    used: AtomicU64,
    refused: AtomicU64,
    bytes_max: u64,
}

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// All of the budget.
    pub(crate) bytes_max: u64,
}

impl QueryMemory {
    /// A budget of which nothing is used.
    pub const fn new(bytes_max: u64) -> Self {
        Self { used: AtomicU64::new(0), refused: AtomicU64::new(0), bytes_max }
    }

    /// Returns what is taken.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns how much may be.
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns how often a statement was refused because all together would have had too much.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Takes so many bytes more, or none.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Refused> {
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.bytes_max);
        let taken = self.used.fetch_update(Relaxed, Relaxed, fits);
        taken.map(|_before| ()).map_err(|_full| {
            self.refused.fetch_add(1, Relaxed);
            Refused { bytes_max: self.bytes_max }
        })
    }

    /// Gives so many bytes back.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Relaxed);
            debug_assert!(before >= bytes, "Q1");
        }
    }
}

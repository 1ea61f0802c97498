//! `QueryMemory`: the memory that all statements of a server keep together, and its limit.
//!
//! Statements take from it in steps ([`Held`](super::held::Held)); rows of tables do not count (`store.memory_limit`).
//!
//! # Invariants
//! - Q1. `used` is the sum of what was taken and not given back; it never exceeds `bytes_max`.
//!
//! Progress: taking is lock-free (a compare-and-swap loop, once for each step that a statement takes); giving back is
//! wait-free (one subtraction, when the statement ends). A statement that keeps no rows does neither. The counter
//! guards no data, so both are Relaxed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module's documentation.
#[derive(Debug)]
pub struct QueryMemory {
    used: AtomicU64,
    refused: AtomicU64,
    bytes_max: u64,
}

/// The error for a used-up budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The whole budget.
    pub(crate) bytes_max: u64,
}

impl QueryMemory {
    /// Creates a budget of which nothing is used.
    pub const fn new(bytes_max: u64) -> Self {
        Self { used: AtomicU64::new(0), refused: AtomicU64::new(0), bytes_max }
    }

    /// Returns the bytes that are taken.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns the limit.
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns how often a statement was refused because all statements together would have exceeded the limit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Takes bytes from the budget, or none if they do not fit.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Refused> {
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.bytes_max);
        let taken = self.used.fetch_update(Relaxed, Relaxed, fits);
        taken.map(|_before| ()).map_err(|_full| {
            self.refused.fetch_add(1, Relaxed);
            Refused { bytes_max: self.bytes_max }
        })
    }

    /// Gives bytes back.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Relaxed);
            debug_assert!(before >= bytes, "Q1");
        }
    }
}

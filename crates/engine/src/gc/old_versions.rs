//! `OldVersions`: how much memory old versions may occupy and how old snapshots may get, and what happens beyond
//! that.
//!
//! # Invariants
//! - O1. Writers have precedence over snapshots: at the limit everything is pruned, then snapshots are cancelled,
//!   the lowest first, one per round; only when none is left to cancel are writes refused, until there is room.
//! - O2. No thread waits for a reader: a cancelled snapshot keeps nothing from the next list on (`snapshots.rs` of
//!   `txn`, S3).
//! - O3. Only snapshots below the list's `up` are cancelled (`can_be_cancelled`): the others keep only versions
//!   that have to be kept anyway.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::EngineError;

/// The limits of old versions.
#[derive(Debug)]
pub(crate) struct OldVersions {
    // Constant after open.
    memory_max: u64,
    snapshot_age_max: Option<Duration>,
    // Written by the thread that ticks.
    writers_refused: AtomicBool,
}

impl OldVersions {
    pub(crate) fn new(memory_max: u64, snapshot_age_max: Option<Duration>) -> Self {
        Self { memory_max, snapshot_age_max, writers_refused: AtomicBool::new(false) }
    }

    pub(crate) fn is_above_limit(&self, bytes: u64) -> bool {
        bytes > self.memory_max
    }

    pub(crate) fn is_too_old(&self, age: Duration) -> bool {
        self.snapshot_age_max.is_some_and(|max| age > max)
    }

    pub(crate) fn has_age_limit(&self) -> bool {
        self.snapshot_age_max.is_some()
    }

    pub(crate) fn refuse_writers(&self, refuse: bool) {
        if self.writers_refused.load(Relaxed) != refuse {
            self.writers_refused.store(refuse, Relaxed);
        }
    }

    /// Fails while there is no room for the old versions that a write would create.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<(), EngineError> {
        if self.writers_refused.load(Relaxed) {
            return Err(EngineError::OldVersionMemory { limit_bytes: self.memory_max });
        }
        Ok(())
    }
}

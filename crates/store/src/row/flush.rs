//! A row's way to the LSM levels: the mark of an unflushed state, what a flush takes of a row, and what the levels hold
//! of it.
//!
//! # Invariants
//! - L1. A writer marks the row after it has put its version on top and before its commit is in the log; a flush clears
//!   the mark before it looks at the head. Both are read-modify-writes of `flags`: after a mark that precedes the
//!   clearing the flush sees the version, and one that follows it lists the row again. So a row with an unflushed
//!   newest state is marked, and listed once.
//! - L2. `ON_DISK`: the levels hold a value of the row as of the last recorded flush. `FLUSHING`: a flush that is not
//!   recorded has passed something of the row to the levels, so their state is unknown. Only the one running flush
//!   changes both; it sets the second while it holds the row's pruning flag.
//! - L3. A deleted row with either bit does not die: without its tombstone nothing would delete it from the levels.
//!   Death needs the pruning flag too (R4), so that neither overlooks the other.
//! - L4. A flush takes the newest state committed below its position. A version that is unfinished or committed later
//!   leaves the row marked.
//! - L5. A re-log takes the same as a flush and leaves the mark: its rows stay unflushed, and the caller that took
//!   their lists lists them again. A commit below its position marked the row before that position was loaded, so the
//!   pruning flag is taken after the mark and the look finds the version.
//!
//! Checked by `family/loom_models.rs` and the family's flush tests.

use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::{mutant, ord};

use super::Row;
use super::chain::walk;
use super::head::DEAD;
use super::prune::{DIRTY, FLUSHING, ON_DISK};
use crate::epoch::Pin;
use crate::stamp::atomic::Ordering::{Relaxed, Release};
use crate::stamp::{Resolve, TxnStatus};

/// The positions of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushAt {
    /// The flush takes what was committed below: at or below `durable`.
    pub position: Lsn,
    /// The position of the last recorded flush.
    pub flushed: Lsn,
    /// Whether a flush failed since then: the levels may hold values of rows without `ON_DISK`.
    pub uncertain: bool,
}

/// The state of a row that a flush takes.
#[derive(Debug)]
pub struct FlushEntry {
    /// The row.
    pub row: Arc<Row>,
    /// Position of its commit.
    pub csn: Lsn,
    /// Its value; `None` if it was deleted.
    pub value: Option<Arc<[u8]>>,
    /// Whether the levels held a value as of the last recorded flush.
    pub was_on_disk: bool,
}

impl Row {
    /// Records that the newest state may not be in the levels (L1). Returns whether the caller must list the row.
    #[must_use]
    pub(crate) fn mark(&self) -> bool {
        self.flags.fetch_or(DIRTY, ord!("ROW_MARK", Release)) & DIRTY == 0
    }

    /// Clears the mark and takes the state to be flushed. Returns it, and whether the row must be marked again (L4).
    pub(crate) fn take_for_flush(
        self: &Arc<Self>,
        at: FlushAt,
        first_commit: Lsn,
        fates: &impl Resolve,
        pin: &Pin,
    ) -> (Option<FlushEntry>, bool) {
        if !mutant!("MARK_CLEARED_LATE") {
            // Relaxed: the pruning flag is taken next, by an Acquire of the same word, which sees everything that this
            // saw.
            self.flags.fetch_and(!DIRTY, Relaxed);
        }
        while !self.take_pruning() {
            collie_sync::thread::yield_now();
        }
        let taken = self.newest_below(at, first_commit, fates, pin);
        if taken.0.is_some() {
            self.flags.fetch_or(FLUSHING, Relaxed); // L3: seen by the next holder of the pruning flag
        }
        self.give_pruning();
        if mutant!("MARK_CLEARED_LATE") {
            self.flags.fetch_and(!DIRTY, Relaxed);
        }
        taken
    }

    /// Takes the same as a flush, and leaves the mark (L5).
    pub(crate) fn take_for_relog(
        self: &Arc<Self>,
        at: FlushAt,
        first_commit: Lsn,
        fates: &impl Resolve,
        pin: &Pin,
    ) -> Option<FlushEntry> {
        while !self.take_pruning() {
            collie_sync::thread::yield_now();
        }
        let (entry, _newer_is_listed_with_it) = self.newest_below(at, first_commit, fates, pin);
        self.give_pruning();
        entry
    }

    /// Finds the newest state below the position; the caller holds the pruning flag. No state was committed below
    /// `first_commit` (A2 of `family.rs`).
    fn newest_below(
        self: &Arc<Self>,
        at: FlushAt,
        first_commit: Lsn,
        fates: &impl Resolve,
        pin: &Pin,
    ) -> (Option<FlushEntry>, bool) {
        let head = self.head.load(ord!("ROW_HEAD_LOAD", Acquire));
        if head == DEAD {
            return (None, false); // L3: the levels hold nothing of it
        }
        let mut newer = false;
        for (_, version) in walk(head, pin) {
            if version.is_lock() {
                continue;
            }
            match version.fate(fates) {
                TxnStatus::Aborted => {}
                TxnStatus::InProgress(_) => newer = true,
                TxnStatus::Committed(csn) if csn.max(first_commit) >= at.position => newer = true,
                TxnStatus::Committed(csn) => {
                    let csn = csn.max(first_commit);
                    let value = version.value().map(Arc::clone);
                    let was_on_disk = self.flags.load(Relaxed) & ON_DISK != 0; // L2: only this flush changes it
                    let held = (was_on_disk || at.uncertain) && !mutant!("ON_DISK_IGNORED_BY_FLUSH");
                    if csn < at.flushed || value.is_none() && !held {
                        return (None, newer);
                    }
                    return (Some(FlushEntry { row: Arc::clone(self), csn, value, was_on_disk }), newer);
                }
            }
        }
        (None, newer)
    }

    /// Records that the flush which took the row is recorded in MANIFEST.
    pub(crate) fn note_flushed(&self, is_put: bool) {
        if is_put {
            self.flags.fetch_or(ON_DISK, Relaxed); // first, since L3 needs one of the two bits
            self.flags.fetch_and(!FLUSHING, Release);
        } else {
            self.flags.fetch_and(!(ON_DISK | FLUSHING), Release);
        }
    }

    /// Records that the levels hold a value; the caller is the only thread that knows the row.
    pub(crate) fn note_on_disk(&self) {
        self.flags.fetch_or(ON_DISK, Relaxed);
    }

    /// Returns whether the levels hold something of the row, or may (L3).
    pub(crate) fn is_on_disk(&self) -> bool {
        self.flags.load(Relaxed) & (ON_DISK | FLUSHING) != 0 && !mutant!("ON_DISK_IGNORED")
    }
}

//! Pruning a chain below a horizon (R4), and the death of a row that nobody sees (R5).

use std::ptr;

use collie_base::Lsn;
use collie_sync::mutant;

use super::Row;
use super::chain::{retire, walk};
use super::head::{DEAD, is_shared};
use super::version::Version;
use crate::calls::Removal;
use crate::epoch::Pin;
use crate::stamp::Fate;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Whether no snapshot at or above `horizon` looks below a version committed at `csn`.
fn is_settled(csn: Lsn, horizon: Lsn) -> bool {
    if mutant!("FREED_AT_HORIZON") { csn <= horizon } else { csn < horizon || mutant!("ROW_HORIZON_IGNORED") }
}

impl Row {
    /// Cuts off what no snapshot at or above `horizon` sees. Returns how many versions are left; `None` when another
    /// thread is at it.
    pub(crate) fn prune(&self, horizon: Lsn, pin: &Pin) -> Option<u32> {
        let pruned = self.take_pruning()?;
        let mut left = 0_u32;
        let mut done = pruned.max(horizon.get());
        let mut keep = None;
        for (_, version) in walk(self.head.load(Acquire), pin) {
            left = left.saturating_add(1);
            if !version.is_lock()
                && matches!(Fate::of_final(&version.stamp), Ok(Fate::Committed(csn)) if is_settled(csn, horizon))
            {
                keep = Some(version);
                break;
            }
        }
        if let Some(keep) = keep {
            let rest = keep.next.load(Acquire);
            let mut unfinished = 0_u32;
            let mut below = 0_u32;
            for (_, version) in walk(rest, pin) {
                below = below.saturating_add(1);
                unfinished += u32::from(Fate::of_final(&version.stamp).is_err());
            }
            if unfinished == 0 {
                keep.next.store(ptr::null_mut(), Release); // R4
                retire(rest, ptr::null_mut(), pin);
            } else {
                left = left.saturating_add(below); // R2: an owner has yet to stamp
                done = pruned;
            }
        }
        self.give_pruning(done);
        Some(left)
    }

    /// Takes the right to prune, unless somebody has it. Returns the horizon pruned to so far.
    fn take_pruning(&self) -> Option<u64> {
        let word = self.pruned.load(Relaxed);
        let taken = word & 1 == 0 && self.pruned.compare_exchange(word, word | 1, Acquire, Relaxed).is_ok();
        taken.then_some(word >> 1)
    }

    fn give_pruning(&self, horizon: u64) {
        self.pruned.store(horizon << 1, Release);
    }

    /// Returns whether what was superseded at `csn` is gone. May say no although it is.
    pub(crate) fn is_pruned(&self, csn: Lsn) -> bool {
        csn.get() < self.pruned.load(Relaxed) >> 1
    }

    /// Makes the row dead when it is empty, or deleted below `horizon`.
    pub(crate) fn try_remove(&self, horizon: Lsn, pin: &Pin) -> Removal {
        let Some(pruned) = self.take_pruning() else { return Removal::Busy };
        let head = self.head.load(Acquire);
        let mut gone = true;
        let mut deleted = false;
        for (_, version) in walk(head, pin) {
            match Fate::of_final(&version.stamp) {
                Err(_) => gone = false,
                Ok(Fate::Committed(csn)) if !deleted && !version.is_lock() => {
                    deleted = is_settled(csn, horizon) && version.value().is_none();
                    gone &= deleted;
                }
                Ok(_) => {}
            }
            if !gone {
                break;
            }
        }
        let removal = if head == DEAD || !gone {
            Removal::Alive
        } else if is_shared(head) {
            Removal::Busy // who deleted it has not given its own lock back yet
        } else if self.replace_head_by_death(head) {
            retire(head, ptr::null_mut(), pin); // R5: a chain without a reader
            Removal::Dead
        } else {
            Removal::Alive
        };
        self.give_pruning(pruned);
        removal
    }

    fn replace_head_by_death(&self, head: *mut Version) -> bool {
        if mutant!("ROW_DEATH_STORED") {
            self.head.store(DEAD, Release);
            return true;
        }
        self.head.compare_exchange(head, DEAD, AcqRel, Acquire).is_ok()
    }
}

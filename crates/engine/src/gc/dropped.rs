//! `DroppedFamilies`: the families whose drop is committed and whose rows still occupy memory.
//!
//! Replay notes a family with the end of the record that drops it: the family becomes due once every snapshot is
//! at or above that end, on a replica and also after its promotion. A session of a primary frees a family at once
//! when its drop is acknowledged. A family leaves the list only after its rows are freed, so at any moment the
//! list names every family whose rows are no part of the database.

use std::task::{Context, Poll, Waker};

use collie_base::{CfId, Lsn};
use parking_lot::Mutex;

#[derive(Debug)]
struct Dropped {
    cf: CfId,
    /// The end of the record of the drop: snapshots at or above it do not show the family.
    end: Lsn,
    /// Whether its rows may be freed.
    is_due: bool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct DroppedFamilies {
    families: Mutex<Vec<Dropped>>,
    /// Tasks that wait until families are freed. Locked inside of `families`.
    waiting: Mutex<Vec<Waker>>,
}

impl DroppedFamilies {
    /// Adds a family that snapshots below `end` may show.
    pub(crate) fn note(&self, cf: CfId, end: Lsn) {
        let mut families = self.families.lock();
        if !families.iter().any(|family| family.cf == cf) {
            families.push(Dropped { cf, end, is_due: false });
        }
    }

    /// Marks a family that no session reads as due, whether it was noted or not.
    pub(crate) fn free(&self, cf: CfId) {
        let mut families = self.families.lock();
        match families.iter_mut().find(|family| family.cf == cf) {
            Some(family) => family.is_due = true,
            None => families.push(Dropped { cf, end: Lsn::ZERO, is_due: true }),
        }
    }

    /// Marks the families as due that no snapshot at or above `horizon` shows. Returns whether any family is due.
    pub(crate) fn free_below(&self, horizon: Lsn) -> bool {
        let mut families = self.families.lock();
        families.iter_mut().filter(|family| family.end <= horizon).for_each(|family| family.is_due = true);
        families.iter().any(|family| family.is_due)
    }

    /// Returns a family that is due. It stays in the list until it is [gone](Self::gone).
    pub(crate) fn due(&self) -> Option<CfId> {
        self.families.lock().iter().find(|family| family.is_due).map(|family| family.cf)
    }

    /// Removes a family whose rows are freed.
    pub(crate) fn gone(&self, cf: CfId) {
        self.families.lock().retain(|family| family.cf != cf);
        self.wake();
    }

    /// Wakes the tasks that wait: a family is gone, or the thread that frees them is.
    pub(crate) fn wake(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns ready once none of these families is in the list.
    pub(crate) fn poll_gone(&self, cfs: &[CfId], cx: &Context<'_>) -> Poll<()> {
        let families = self.families.lock();
        if !families.iter().any(|family| cfs.contains(&family.cf)) {
            return Poll::Ready(());
        }
        self.waiting.lock().push(cx.waker().clone());
        Poll::Pending
    }

    /// Returns whether no family is in the list.
    pub(crate) fn is_empty(&self) -> bool {
        self.families.lock().is_empty()
    }

    /// Returns the listed families that are no part of the state at a snapshot, because it does not show them or
    /// their rows are being freed.
    pub(crate) fn hidden_from(&self, snapshot: Lsn) -> Vec<CfId> {
        let families = self.families.lock();
        families.iter().filter(|family| family.is_due || family.end <= snapshot).map(|family| family.cf).collect()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: a family is due by the horizon or by a call, and is listed until its rows are freed. Method: one
    /// noted family and one that was not, with the horizon below, at and above the drop.
    #[test]
    fn a_dropped_family_is_due_at_the_horizon_and_listed_until_it_is_freed() {
        let (dropped, [first, second]) = (DroppedFamilies::default(), [5, 6].map(CfId::new));
        dropped.note(first, Lsn::new(100));
        assert!(!dropped.free_below(Lsn::new(99)) && dropped.due().is_none(), "a snapshot at 99 shows it");
        assert_eq!(dropped.hidden_from(Lsn::new(99)), []);
        assert_eq!(dropped.hidden_from(Lsn::new(100)), [first]);
        assert!(dropped.free_below(Lsn::new(100)));
        assert_eq!(dropped.due(), Some(first));
        dropped.note(first, Lsn::new(200)); // noted by a second source: the first one applies
        assert_eq!(dropped.hidden_from(Lsn::new(100)), [first], "freed in part: none of its rows counts");
        let waits = Context::from_waker(Waker::noop());
        assert!(dropped.poll_gone(&[first], &waits).is_pending() && dropped.poll_gone(&[second], &waits).is_ready());
        dropped.gone(first);
        assert!(dropped.is_empty() && dropped.poll_gone(&[first], &waits).is_ready());
        dropped.free(second);
        assert_eq!((dropped.due(), dropped.hidden_from(Lsn::ZERO)), (Some(second), vec![second]));
    }
}

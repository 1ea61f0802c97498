//! `Jobs`: which families are being flushed or re-logged, and the slots for the snapshots of the jobs that do so.
//!
//! # Invariants
//! - J1. A family is in one claim at a time. A flush of a family of an atomic group claims all families that are
//!   members at that moment: two such claims have a member in common, or their families share no tree. A re-log
//!   claims the families whose rows it logs.
//! - J2. A job claims all its families in one step, and while it waits it holds nothing that other jobs wait for. So
//!   jobs never wait in a cycle.
//! - J3. A claim that was waited for has a slot for a snapshot: there are as many slots as jobs may run at a time
//!   (`store.compaction_threads`).
//!
//! Checked by the tests below and `flusher_tests.rs`.

use std::collections::BTreeSet;

use collie_base::CfId;
use collie_txn::{Place, TxnError};
use parking_lot::{Condvar, Mutex};

/// Number of flushes and re-logs at a time, unless the options say otherwise. Jobs mostly wait for the disk; more
/// of them than the disk serves at once only occupy memory.
pub(crate) const JOBS_DEFAULT: usize = 4;
/// The largest number of flushes and re-logs at a time that options may ask for (`store.compaction_threads`).
pub const JOBS_MAX: usize = 64;

#[derive(Debug)]
struct Inner {
    claimed: BTreeSet<CfId>,
    /// Snapshot slots that no claim has.
    places: Vec<Place>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Jobs {
    inner: Mutex<Inner>,
    /// Snapshot slots in all: jobs at a time.
    count: usize,
    /// Signals that a claim was given back.
    freed: Condvar,
}

/// Families that no other job flushes or re-logs until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim<'j> {
    jobs: &'j Jobs,
    cfs: Vec<CfId>,
    place: Option<Place>,
}

impl Jobs {
    /// Makes room for `count` jobs at a time. Takes the snapshot slots from `keep`, which it calls `count` times.
    pub(crate) fn new(count: usize, keep: impl FnMut() -> Result<Place, TxnError>) -> Result<Self, TxnError> {
        let places = std::iter::repeat_with(keep).take(count).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { inner: Mutex::new(Inner { claimed: BTreeSet::new(), places }), count, freed: Condvar::new() })
    }

    /// Returns how many jobs may run at a time.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Waits until no other claim has one of the families that `cfs` names, and a snapshot slot is free. Calls
    /// `cfs` again for each attempt.
    pub(crate) fn claim(&self, cfs: impl Fn() -> Vec<CfId>) -> Claim<'_> {
        let mut inner = self.inner.lock();
        loop {
            let wanted = cfs();
            if !wanted.iter().any(|cf| inner.claimed.contains(cf))
                && let Some(place) = inner.places.pop()
            {
                inner.claimed.extend(&wanted);
                return Claim { jobs: self, cfs: wanted, place: Some(place) };
            }
            self.freed.wait(&mut inner);
        }
    }

    /// Claims families if no other claim has one of them, without a snapshot slot.
    pub(crate) fn try_claim(&self, cfs: &[CfId]) -> Option<Claim<'_>> {
        let mut inner = self.inner.lock();
        if cfs.iter().any(|cf| inner.claimed.contains(cf)) {
            return None;
        }
        inner.claimed.extend(cfs);
        Some(Claim { jobs: self, cfs: cfs.to_vec(), place: None })
    }

    /// Holds up every flush and re-log until the result is dropped.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_up(&self) -> impl Sized + '_ {
        (0..self.count).map(|_| self.claim(Vec::new)).collect::<Vec<_>>()
    }
}

impl Claim<'_> {
    /// Returns the snapshot slot of a claim that was waited for (J3).
    pub(crate) fn place(&mut self) -> &mut Place {
        self.place.as_mut().expect("only claims that were waited for hold snapshots")
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut inner = self.jobs.inner.lock();
        self.cfs.iter().for_each(|cf| _ = inner.claimed.remove(cf));
        inner.places.extend(self.place.take());
        drop(inner);
        self.jobs.freed.notify_all();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "jobs_tests.rs"]
mod tests;

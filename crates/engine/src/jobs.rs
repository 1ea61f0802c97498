//! `Jobs`: which families are being flushed or re-logged, and the places for the snapshots of those who do it.
//!
//! # Invariants
//! - J1. A family is in one claim at a time, and so is every family of an atomic group: who claims one of it claims those that
//!   are members at that moment, and two such claims have a member in common, or their families share no tree.
//! - J2. A job claims once, all families together, and holds nothing else that jobs wait for meanwhile. So no circle of waits.
//! - J3. A claim that was waited for has a place for a snapshot: there are as many as jobs at a time (`store.compaction_threads`).
//!
//! Checked by the tests below and `flusher_tests.rs`.

use std::collections::BTreeSet;

use collie_base::CfId;
use collie_txn::{Place, TxnError};
use parking_lot::{Condvar, Mutex};

/// Flushes and re-logs at a time, unless the options say otherwise. Mostly they wait for the disk; more of them than it takes at once
/// only take up memory.
pub(crate) const JOBS_DEFAULT: usize = 4;
/// The most that options may ask for.
pub(crate) const JOBS_MAX: usize = 64;

#[derive(Debug)]
struct Inner {
    claimed: BTreeSet<CfId>,
    /// Those that nobody has.
    places: Vec<Place>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Jobs {
    inner: Mutex<Inner>,
    /// Places in all: jobs at a time.
    count: usize,
    /// Something was given back.
    freed: Condvar,
}

/// Families that nobody else flushes or re-logs until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim<'j> {
    jobs: &'j Jobs,
    cfs: Vec<CfId>,
    place: Option<Place>,
}

impl Jobs {
    /// For `count` jobs at a time. Takes its places by `keep`, called so often.
    pub(crate) fn new(count: usize, keep: impl FnMut() -> Result<Place, TxnError>) -> Result<Self, TxnError> {
        let places = std::iter::repeat_with(keep).take(count).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { inner: Mutex::new(Inner { claimed: BTreeSet::new(), places }), count, freed: Condvar::new() })
    }

    /// Returns how many jobs there may be at a time.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Waits until nobody has one of the families that `cfs` names, which is asked each time anew, and there is a place.
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

    /// Claims families if nobody has one of them, without a place.
    pub(crate) fn try_claim(&self, cfs: &[CfId]) -> Option<Claim<'_>> {
        let mut inner = self.inner.lock();
        if cfs.iter().any(|cf| inner.claimed.contains(cf)) {
            return None;
        }
        inner.claimed.extend(cfs);
        Some(Claim { jobs: self, cfs: cfs.to_vec(), place: None })
    }

    /// Holds up every flush and re-log until what is returned is dropped.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_up(&self) -> impl Sized + '_ {
        (0..self.count).map(|_| self.claim(Vec::new)).collect::<Vec<_>>()
    }
}

impl Claim<'_> {
    /// Returns the place of a claim that was waited for (J3).
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

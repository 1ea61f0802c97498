//! `Snapshots`: one padded word per holder of a snapshot, and the horizon below which nobody looks any more.
//!
//! # Invariants
//! - S1. A holder announces itself (0) before it loads the boundary, and whoever computes the horizon loads `durable`
//!   before it looks at the holders. Between the two steps of each side stands a SeqCst fence: it stops the load of the
//!   boundary from passing the announcement, and the loads of the holders from passing the load of `durable`. So either
//!   the holder is seen, or its snapshot is at or above that `durable`.
//! - S2. The horizon is at or below every present and future snapshot, and never falls. 0 in a slot keeps it where it is.
//!
//! # Ordering
//! | store                         | pairs with                | carries                                       |
//! |-------------------------------|---------------------------|-----------------------------------------------|
//! | `own` Release (begin)         | `own` Acquire (horizon)   | nothing; orders it after the announcement     |
//! | `own` Release (end)           | `own` Acquire (horizon)   | the reader's last look at the old versions    |
//! | `ack_floor` Release           | `ack_floor` Acquire       | what the asynchronous committer had seen      |
//!
//! # Progress
//! Taking and ending a snapshot: wait-free. `advance_horizon`: wait-free but for a compare-exchange loop of
//! `fetch_max`; O(slots in use).

use crate::{error::TxnError, log::CommitLog};
use collie_base::Lsn;
use collie_sync::{
    Mutex, Padded,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    mutant, ord,
};
use std::sync::Arc;

const NONE: u64 = u64::MAX;
const REGISTERING: u64 = 0;

/// Which boundary a snapshot starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// All that is committed.
    Boundary,
    /// What no crash takes back, or what was acknowledged without that promise.
    Settled,
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    own: Box<[Padded<AtomicU64>]>,
    /// Slots below this were used at least once.
    used: Padded<AtomicUsize>,
    /// Written by asynchronous committers.
    ack_floor: Padded<AtomicU64>,
    /// Written by `advance_horizon`.
    horizon: Padded<AtomicU64>,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// Slots given back, with the number of owners each has had.
    slots: Vec<(usize, u64)>,
    unused_from: usize,
}

impl Snapshots {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            own: (0..slots).map(|_| Padded::new(AtomicU64::new(NONE))).collect(),
            used: Padded::new(AtomicUsize::new(0)),
            ack_floor: Padded::new(AtomicU64::new(0)),
            horizon: Padded::new(AtomicU64::new(0)),
            free: Mutex::new(Free::default()),
        }
    }

    /// Takes a slot; returns it and the number of owners it has had.
    pub(crate) fn take_slot(&self) -> Result<(usize, u64), TxnError> {
        let mut free = self.free.lock();
        if let Some(slot) = free.slots.pop() {
            return Ok(slot);
        }
        let slot = free.unused_from;
        if slot == self.own.len() {
            return Err(TxnError::TooManySessions { limit: slot });
        }
        free.unused_from += 1;
        // Before the holder's first fence, so S1 covers it like the announcement itself.
        self.used.store(free.unused_from, ord!("USED_STORE", Release));
        Ok((slot, 0))
    }

    pub(crate) fn give_slot(&self, slot: usize, owners: u64) {
        self.end(slot);
        self.free.lock().slots.push((slot, owners));
    }

    /// Registers slot `slot` and loads its snapshot.
    pub(crate) fn begin(&self, slot: usize, from: Origin, log: &impl CommitLog) -> Lsn {
        let own = &self.own[slot];
        let load = || match from {
            Origin::Boundary => log.boundary(),
            Origin::Settled => self.settled(log),
        };
        if mutant!("LOAD_THEN_REGISTER") {
            let snapshot = load();
            fence(Ordering::SeqCst);
            own.store(snapshot.get(), ord!("_", Release));
            return snapshot;
        }
        own.store(REGISTERING, ord!("_", Relaxed));
        if !mutant!("NO_READER_FENCE") {
            fence(Ordering::SeqCst);
        }
        let snapshot = load();
        own.store(snapshot.get(), ord!("OWN_STORE", Release));
        snapshot
    }

    pub(crate) fn end(&self, slot: usize) {
        self.own[slot].store(NONE, ord!("OWN_END", Release));
    }

    /// Returns max(`durable`, `ack_floor`).
    pub(crate) fn settled(&self, log: &impl CommitLog) -> Lsn {
        let durable = log.durable();
        durable.max(Lsn::new(self.ack_floor.load(ord!("ACK_FLOOR_LOAD", Acquire))))
    }

    pub(crate) fn raise_ack_floor(&self, end: Lsn) {
        if self.ack_floor.load(ord!("ACK_FLOOR_LOOK", Acquire)) < end.get() {
            self.ack_floor.fetch_max(end.get(), ord!("ACK_FLOOR_MAX", Release));
        }
    }

    pub(crate) fn horizon(&self) -> Lsn {
        Lsn::new(self.horizon.load(ord!("HORIZON_LOAD", Acquire)))
    }

    /// Computes the horizon anew from the log and all holders, and returns it.
    pub(crate) fn advance_horizon(&self, log: &impl CommitLog) -> Lsn {
        let up = if mutant!("HORIZON_FROM_BOUNDARY") { log.boundary() } else { log.durable() };
        if !mutant!("NO_HORIZON_FENCE") {
            fence(Ordering::SeqCst);
        }
        let used = self.used.load(ord!("USED_LOAD", Acquire));
        let lowest = self.own[..used].iter().map(|own| own.load(ord!("OWN_LOAD", Acquire))).min();
        let up = if mutant!("UP_AFTER_HOLDERS") { log.durable() } else { up };
        let horizon = up.get().min(lowest.unwrap_or(NONE));
        let before = self.horizon.fetch_max(horizon, ord!("HORIZON_MAX", AcqRel));
        Lsn::new(before.max(horizon))
    }

    /// Returns the slots that hold a snapshot now, by snapshot.
    pub(crate) fn by_slot(&self) -> Vec<(usize, Lsn)> {
        let used = self.used.load(Ordering::Acquire);
        let own = self.own[..used].iter().map(|own| own.load(Ordering::Acquire)).enumerate();
        let mut held: Vec<(usize, Lsn)> = own
            .filter(|(_, own)| *own != NONE && *own != REGISTERING)
            .map(|(slot, own)| (slot, Lsn::new(own)))
            .collect();
        held.sort_unstable_by_key(|(slot, snapshot)| (*snapshot, *slot));
        held
    }

    /// Returns how many slots hold a snapshot now, and the lowest of these.
    pub(crate) fn held(&self) -> (usize, Option<Lsn>) {
        let used = self.used.load(Ordering::Acquire);
        let held = self.own[..used].iter().map(|own| own.load(Ordering::Acquire)).filter(|own| *own != NONE);
        held.fold((0, None), |(count, lowest), own| {
            (count + 1, Some(lowest.map_or(Lsn::new(own), |low: Lsn| low.min(Lsn::new(own)))))
        })
    }
}

/// A snapshot held outside any session: a backup, an embedded read view. Dropping it lets it go.
#[derive(Debug)]
pub struct Holder {
    snapshots: Arc<Snapshots>,
    slot: usize,
    owners: u64,
    snapshot: Lsn,
}

impl Holder {
    pub(crate) fn new(snapshots: &Arc<Snapshots>, from: Origin, log: &impl CommitLog) -> Result<Self, TxnError> {
        let (slot, owners) = snapshots.take_slot()?;
        let snapshot = snapshots.begin(slot, from, log);
        Ok(Self { snapshots: Arc::clone(snapshots), slot, owners, snapshot })
    }

    /// Returns the snapshot: commits below it are visible.
    #[must_use]
    pub fn snapshot(&self) -> Lsn {
        self.snapshot
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.snapshots.give_slot(self.slot, self.owners);
    }
}

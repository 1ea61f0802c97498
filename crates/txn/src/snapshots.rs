//! `Snapshots`: one padded word per holder of a snapshot, and the list of live snapshots, by which old versions are
//! freed.
//!
//! # Invariants
//! - S1. A holder announces itself (0) before it loads the boundary, and the list maker loads `settled`, the lowest
//!   position at which any snapshot begins (`durable` without a quorum), before it reads the holders. A SeqCst fence
//!   separates the two steps on each side: it stops the load of the boundary from passing the announcement, and the
//!   loads of the holders from passing the load of `settled`. So either the list maker sees the holder, or its snapshot
//!   is at or above that position.
//! - S2. Every present and future snapshot in force is in the published list, or at or above its `up`. While a slot
//!   contains 0 the previous list stays. The horizon is the lowest position of the list, and never falls.
//! - S3. A snapshot is cancelled by one exchange of its slot's word (`CANCELLED`); from then on lists leave it out,
//!   whatever its owner does. Only the owner clears the word. A reader at a snapshot checks the word after the read and
//!   before the result is used: if a version was missing because of a list without the snapshot, the reader sees the
//!   word, since the exchange happened before the list, the list before the cut of the link, and the cut before the
//!   read that noticed it. Epochs free what the reader walks, so it is never freed memory.
//!
//! # Ordering
//! | store                         | pairs with                | carries                                       |
//! |-------------------------------|---------------------------|-----------------------------------------------|
//! | `own` Release (begin)         | `own` Acquire (advance)   | nothing; orders it after the announcement     |
//! | `own` Release (end)           | `own` Acquire (advance)   | the reader's last look at the old versions    |
//! | `own` AcqRel (cancel)         | `own` Acquire (advance)   | nothing new; the first step of S3             |
//! | `live` AcqRel (`Published`)   | its Acquire, pruners      | the list, and the exchanges before it (S3)    |
//! | `next`, `head` of a row (`store`) | their Acquire, readers | the list by which the row was pruned (S3)    |
//! | `ack_floor` Release           | `ack_floor` Acquire       | what the asynchronous committer had seen      |
//! | `first_write` Release         | `first_write` Acquire     | that the slot's transactions before are done  |
//!
//! # Progress
//! Taking, ending and checking a snapshot: wait-free. `advance`: one mutex, which only other calls of it and `all`
//! take; O(slots in use).

use crate::{
    error::{SnapshotCancelled, TxnError},
    log::CommitLog,
};
use collie_base::{LiveSnapshots, Lsn, Map};
use collie_sync::{
    Mutex, Padded, Published,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    mutant, ord,
};
use std::{
    sync::{Arc, atomic},
    time::Duration,
};

const NONE: u64 = u64::MAX;
const REGISTERING: u64 = 0;
/// Set in a slot's word together with the snapshot: it is no longer in force (S3). No position has this bit.
const CANCELLED: u64 = 1 << 62;

/// The position from which a snapshot starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Everything committed: the boundary.
    Boundary,
    /// The log's settled position, or the acknowledged floor if that is higher.
    Settled,
    /// The log's settled position: no crash takes back what is below, and with a quorum no failover.
    Durable,
}

/// The slot of one holder.
#[derive(Debug)]
struct Slot {
    own: AtomicU64,
    /// Number of snapshots begun here, which distinguishes one that lasts from several at the same position. The owner
    /// stores it before its word.
    begun: atomic::AtomicU64,
    /// When the transaction that the owner has, or had last, got its xid, in its caller's unit; 0 if unknown. Stored by
    /// the owner only.
    first_write: AtomicU64,
    /// Whether the owner checks its word after each read (S3).
    can_be_cancelled: atomic::AtomicBool,
}

/// A snapshot that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldSnapshot {
    /// The slot of its holder; for a session the value of `Session::slot`.
    pub slot: usize,
    /// Commits below it are visible to it.
    pub snapshot: Lsn,
    /// How long it has been held, as far as ticks have seen it.
    pub age: Duration,
    /// Whether it can be cancelled: that of a session can, once new snapshots begin above it.
    pub can_be_cancelled: bool,
    begun: u64,
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    slots: Box<[Padded<Slot>]>,
    /// Slots below this were used at least once.
    used: Padded<AtomicUsize>,
    /// Written by asynchronous committers.
    ack_floor: Padded<AtomicU64>,
    /// Written by `advance`: the list, and the lowest position in it.
    live: Padded<Published<LiveSnapshots>>,
    horizon: AtomicU64,
    /// Held while a list is made.
    listing: Mutex<Listing>,
    /// Why the last cancelled snapshot of each slot was cancelled.
    cancelled: Mutex<Map<usize, SnapshotCancelled>>,
    free: Mutex<Free>,
}

/// State that is kept from one list to the next.
#[derive(Debug)]
struct Listing {
    /// The list that is published.
    last: LiveSnapshots,
    /// For each slot the number of snapshots begun, and when the current one was first seen.
    seen: Vec<(u64, Duration)>,
}

#[derive(Debug, Default)]
struct Free {
    /// Slots given back, with the number of owners that each has had.
    slots: Vec<(usize, u64)>,
    unused_from: usize,
    /// Number of slots of a [`Place`], which the reported limit excludes.
    kept: usize,
}

impl Default for Slot {
    fn default() -> Self {
        let (begun, can_be_cancelled) = (atomic::AtomicU64::new(0), atomic::AtomicBool::new(false));
        Self { own: AtomicU64::new(NONE), begun, first_write: AtomicU64::new(0), can_be_cancelled }
    }
}

impl Snapshots {
    pub(crate) fn new(slots: usize) -> Self {
        let none = LiveSnapshots::none_below(Lsn::ZERO);
        Self {
            slots: (0..slots).map(|_| Padded::new(Slot::default())).collect(),
            used: Padded::new(AtomicUsize::new(0)),
            ack_floor: Padded::new(AtomicU64::new(0)),
            live: Padded::new(Published::new(none.clone())),
            horizon: AtomicU64::new(0),
            listing: Mutex::new(Listing { last: none, seen: Vec::new() }),
            cancelled: Mutex::new(Map::default()),
            free: Mutex::new(Free::default()),
        }
    }

    /// Takes a slot; returns it and the number of owners that it has had. With `can_be_cancelled` the owner obeys S3.
    pub(crate) fn take_slot(&self, can_be_cancelled: bool) -> Result<(usize, u64), TxnError> {
        let mut free = self.free.lock();
        if let Some(slot) = free.slots.pop() {
            self.slots[slot.0].can_be_cancelled.store(can_be_cancelled, atomic::Ordering::Release);
            return Ok(slot);
        }
        let slot = free.unused_from;
        if slot == self.slots.len() {
            return Err(TxnError::TooManySessions { limit: slot - free.kept });
        }
        free.unused_from += 1;
        self.slots[slot].can_be_cancelled.store(can_be_cancelled, atomic::Ordering::Release);
        // Before the holder's first fence, so that S1 covers it like the announcement itself.
        self.used.store(free.unused_from, ord!("USED_STORE", Release));
        Ok((slot, 0))
    }

    pub(crate) fn give_slot(&self, slot: usize, owners: u64) {
        self.end(slot);
        self.free.lock().slots.push((slot, owners));
    }

    /// Registers slot `slot` and loads its snapshot.
    pub(crate) fn begin(&self, slot: usize, from: Origin, log: &impl CommitLog) -> Lsn {
        let Slot { own, begun, .. } = &*self.slots[slot];
        begun.store(begun.load(atomic::Ordering::Relaxed) + 1, atomic::Ordering::Relaxed);
        let load = || match from {
            Origin::Boundary => log.boundary(),
            Origin::Settled => self.settled(log),
            Origin::Durable => log.settled(),
        };
        if mutant!("LOAD_THEN_REGISTER") {
            let snapshot = load();
            fence(Ordering::SeqCst);
            own.store(snapshot.get(), ord!("_", Release));
            return snapshot;
        }
        // S1: the announcement precedes the fence, and the load of the snapshot follows it.
        own.store(REGISTERING, ord!("_", Relaxed));
        if !mutant!("NO_READER_FENCE") {
            fence(Ordering::SeqCst);
        }
        let snapshot = load();
        own.store(snapshot.get(), ord!("OWN_STORE", Release));
        snapshot
    }

    pub(crate) fn end(&self, slot: usize) {
        self.slots[slot].own.store(NONE, ord!("OWN_END", Release));
    }

    /// Records when the owner of `slot`, which calls this, got an xid; 0 if unknown.
    pub(crate) fn note_first_write(&self, slot: usize, moment: u64) {
        self.slots[slot].first_write.store(moment, ord!("FIRST_WRITE_STORE", Release));
    }

    /// Returns the last time recorded by the owner of `slot`. Acquire: a thread that finds the time of a later
    /// transaction finds the earlier ones done.
    pub(crate) fn first_write(&self, slot: usize) -> u64 {
        self.slots[slot].first_write.load(ord!("FIRST_WRITE_LOAD", Acquire))
    }

    /// Returns whether the snapshot of `slot`, whose owner calls this, is no longer in force (S3).
    pub(crate) fn is_cancelled(&self, slot: usize) -> bool {
        // Relaxed: earlier reads were made with Acquire, and only those decide whether the word is seen (S3).
        let own = self.slots[slot].own.load(Ordering::Relaxed);
        own & CANCELLED != 0 && own != NONE && !mutant!("CANCEL_UNSEEN")
    }

    /// Returns the facts reported about the cancelled snapshot of `slot`.
    pub(crate) fn why_cancelled(&self, slot: usize) -> SnapshotCancelled {
        let said = self.cancelled.lock().get(&slot).copied();
        said.unwrap_or(SnapshotCancelled { age: Duration::ZERO, old_version_bytes: 0 })
    }

    /// Cancels `held`, if it is still in force. Lists made from now on leave it out.
    pub(crate) fn cancel(&self, held: &HeldSnapshot, old_version_bytes: u64) -> bool {
        let slot = &self.slots[held.slot];
        if !held.can_be_cancelled || slot.begun.load(atomic::Ordering::Relaxed) != held.begun {
            return false;
        }
        let mut said = self.cancelled.lock();
        said.insert(held.slot, SnapshotCancelled { age: held.age, old_version_bytes });
        let (old, new) = (held.snapshot.get(), held.snapshot.get() | CANCELLED);
        // This cannot be another snapshot of the slot: it was below a list's `up`, and by S1 none begins there after
        // its word was read.
        slot.own.compare_exchange(old, new, ord!("OWN_CANCEL", AcqRel), Ordering::Relaxed).is_ok()
    }

    /// Returns max(the log's settled position, `ack_floor`).
    pub(crate) fn settled(&self, log: &impl CommitLog) -> Lsn {
        let settled = log.settled();
        settled.max(Lsn::new(self.ack_floor.load(ord!("ACK_FLOOR_LOAD", Acquire))))
    }

    pub(crate) fn raise_ack_floor(&self, end: Lsn) {
        if self.ack_floor.load(ord!("ACK_FLOOR_LOOK", Acquire)) < end.get() {
            self.ack_floor.fetch_max(end.get(), ord!("ACK_FLOOR_MAX", Release));
        }
    }

    pub(crate) fn horizon(&self) -> Lsn {
        Lsn::new(self.horizon.load(ord!("HORIZON_LOAD", Acquire)))
    }

    /// Publishes a list that `advance` did not make: a mistake of a model.
    #[cfg(all(test, loom))]
    pub(crate) fn replace_live(&self, live: LiveSnapshots) {
        self.live.replace(live);
    }

    /// Calls `look` with the last list of live snapshots. `look` must not wait.
    pub(crate) fn with_live<R>(&self, look: impl FnOnce(&LiveSnapshots) -> R) -> R {
        self.live.read(look)
    }

    /// Makes a new list from the log and all holders, records the holders at `now`, and returns the horizon.
    pub(crate) fn advance(&self, log: &impl CommitLog, now: Duration) -> Lsn {
        let mut listing = self.listing.lock(); // one at a time: a list replaces only older ones (S2)
        let Listing { last, seen } = &mut *listing;
        // S1: `settled` is loaded before the fence, and the slots are read after it.
        let up = match () {
            () if mutant!("HORIZON_FROM_BOUNDARY") => log.boundary(),
            () if mutant!("HORIZON_FROM_DURABLE") => log.durable(),
            () => log.settled(),
        };
        if !mutant!("NO_HORIZON_FENCE") {
            fence(Ordering::SeqCst);
        }
        let used = self.used.load(ord!("USED_LOAD", Acquire));
        seen.resize(used, (0, now));
        let mut held = Vec::new();
        let mut registering = false;
        for (slot, seen) in self.slots[..used].iter().zip(seen) {
            let own = slot.own.load(ord!("OWN_LOAD", Acquire));
            match own {
                NONE => continue,
                REGISTERING => registering = true,
                _ if own & CANCELLED == 0 => held.push(Lsn::new(own)),
                _ => {}
            }
            let begun = slot.begun.load(atomic::Ordering::Relaxed);
            if seen.0 != begun {
                *seen = (begun, now);
            }
        }
        let up = if mutant!("UP_AFTER_HOLDERS") { log.settled() } else { up };
        // S2: a slot that is registering may get a snapshot below `up`, so the previous list stays.
        if !registering || mutant!("REGISTERING_IGNORED") {
            let live = LiveSnapshots::new(up, held);
            let horizon = live.horizon();
            if *last != live {
                *last = live.clone();
                self.live.replace(live);
            }
            self.horizon.store(horizon.get(), ord!("HORIZON_STORE", Release));
        }
        self.horizon()
    }

    /// Returns the snapshots in force, lowest first, with their ages at `now`. One that begins during the call may be
    /// missing.
    pub(crate) fn all(&self, now: Duration) -> Vec<HeldSnapshot> {
        let listing = self.listing.lock();
        let Listing { last, seen } = &*listing;
        let up = last.up(); // its fence precedes our reads of the words
        let used = self.used.load(Ordering::Acquire);
        let held = self.slots[..used].iter().enumerate().filter_map(|(number, slot)| {
            let own = slot.own.load(Ordering::Acquire);
            if own == REGISTERING || own & CANCELLED != 0 {
                return None;
            }
            let begun = slot.begun.load(atomic::Ordering::Relaxed);
            let since = seen.get(number).filter(|seen| seen.0 == begun).map_or(now, |seen| seen.1);
            Some(HeldSnapshot {
                slot: number,
                snapshot: Lsn::new(own),
                age: now.saturating_sub(since),
                can_be_cancelled: Lsn::new(own) < up && slot.can_be_cancelled.load(atomic::Ordering::Acquire),
                begun,
            })
        });
        let mut held: Vec<HeldSnapshot> = held.collect();
        held.sort_unstable_by_key(|held| (held.snapshot, held.slot));
        held
    }

    /// Returns the number of slots that hold a snapshot, and the lowest snapshot. A slot that is registering counts as
    /// 0.
    pub(crate) fn held(&self) -> (usize, Option<Lsn>) {
        let used = self.used.load(Ordering::Acquire);
        let held = self.slots[..used].iter().map(|slot| slot.own.load(Ordering::Acquire));
        held.filter(|own| *own & CANCELLED == 0).fold((0, None), |(count, lowest), own| {
            (count + 1, Some(lowest.map_or(Lsn::new(own), |low: Lsn| low.min(Lsn::new(own)))))
        })
    }
}

/// A snapshot held outside any session: a backup, an embedded read view. Dropping it ends the snapshot. Never
/// cancelled.
#[derive(Debug)]
pub struct Holder {
    snapshots: Arc<Snapshots>,
    slot: usize,
    owners: u64,
    snapshot: Lsn,
}

impl Holder {
    pub(crate) fn new(snapshots: &Arc<Snapshots>, from: Origin, log: &impl CommitLog) -> Result<Self, TxnError> {
        let (slot, owners) = snapshots.take_slot(false)?;
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

/// A slot for successive snapshots of one holder: none of them can fail for lack of a slot.
#[derive(Debug)]
pub struct Place {
    snapshots: Arc<Snapshots>,
    slot: usize,
    owners: u64,
}

impl Place {
    pub(crate) fn new(snapshots: &Arc<Snapshots>) -> Result<Self, TxnError> {
        let (slot, owners) = snapshots.take_slot(false)?;
        snapshots.free.lock().kept += 1;
        Ok(Self { snapshots: Arc::clone(snapshots), slot, owners })
    }

    pub(crate) fn hold(&mut self, from: Origin, log: &impl CommitLog) -> Placed<'_> {
        let snapshot = self.snapshots.begin(self.slot, from, log);
        Placed { place: self, snapshot }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.snapshots.free.lock().kept -= 1;
        self.snapshots.give_slot(self.slot, self.owners);
    }
}

/// A snapshot held in a [`Place`]. Dropping it ends the snapshot. It is never cancelled.
#[derive(Debug)]
pub struct Placed<'p> {
    place: &'p Place,
    snapshot: Lsn,
}

impl Placed<'_> {
    /// Returns the snapshot: commits below it are visible.
    #[must_use]
    pub fn snapshot(&self) -> Lsn {
        self.snapshot
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        self.place.snapshots.end(self.place.slot);
    }
}

//! `Snapshots`: one padded word per holder of a snapshot, and the list of those live, by which old versions are freed.
//!
//! # Invariants
//! - S1. A holder announces itself (0) before it loads the boundary, and whoever makes the list loads `settled`, the lowest
//!   position at which any snapshot begins (`durable` unless replicas are counted), before it looks at the holders. Between the two steps of each side stands a SeqCst fence: it stops the load of the boundary from
//!   passing the announcement, and the loads of the holders from passing that load. So either the holder is
//!   seen, or its snapshot is at or above that position.
//! - S2. Every present and future snapshot that is in force is in the published list, or at or above its `up`. While a slot
//!   says 0 the list before stays. The horizon is the lowest of it, and never falls.
//! - S3. A snapshot is cancelled by one exchange of its slot's word (`CANCELLED`); from then on lists leave it out, whatever
//!   its owner does. Only the owner clears the word. Whoever reads at a snapshot looks at the word after the read and before
//!   the answer is used: if a version was missing because of a list without the snapshot, the reader sees the word, since
//!   the exchange happened before the list, the list before the link that was cut, and the cut before the read that
//!   noticed it. What the reader walks is freed by epochs, so it is never freed memory.
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
//! Taking, ending and checking a snapshot: wait-free. `advance`: one mutex, which only its like take; O(slots in use).

use crate::{error::TxnError, log::CommitLog};
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
/// Set beside the snapshot in a slot's word: it is not in force any more (S3). No position has this bit.
const CANCELLED: u64 = 1 << 62;

/// Which boundary a snapshot starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// All that is committed.
    Boundary,
    /// What the log has settled, or what was acknowledged without that promise.
    Settled,
    /// What the log has settled: no crash takes it back, and where replicas are counted no failover.
    Durable,
}

/// A place for one holder.
#[derive(Debug)]
struct Slot {
    own: AtomicU64,
    /// Snapshots begun here, so that one that lasts is told from several of the same position. Stored by the owner before
    /// its word.
    begun: atomic::AtomicU64,
    /// When the transaction that the owner has, or had last, got its xid, as its caller tells time; 0: not known. Owner only.
    first_write: AtomicU64,
    /// Whether the owner looks at its word after each read (S3).
    can_be_cancelled: atomic::AtomicBool,
}

/// A snapshot somebody holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldSnapshot {
    /// Its holder's place: of a session, what `Session::slot` says.
    pub slot: usize,
    /// Commits below it are visible to it.
    pub snapshot: Lsn,
    /// How long it has been there, as far as ticks have seen it.
    pub age: Duration,
    /// Whether it can be cancelled: a session's can, when no snapshot begins so low any more.
    pub can_be_cancelled: bool,
    begun: u64,
}

/// What is said about a snapshot that was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotCancelled {
    /// How old it was.
    pub age: Duration,
    /// Bytes of old versions that were kept then, most of them for it.
    pub old_version_bytes: u64,
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
    /// Why the snapshot of a slot was cancelled last.
    cancelled: Mutex<Map<usize, SnapshotCancelled>>,
    free: Mutex<Free>,
}

/// What is known from one list to the next.
#[derive(Debug)]
struct Listing {
    /// The one that is published.
    last: LiveSnapshots,
    /// For each slot the count of snapshots begun, and when the present one was first seen.
    seen: Vec<(u64, Duration)>,
}

#[derive(Debug, Default)]
struct Free {
    /// Slots given back, with the number of owners each has had.
    slots: Vec<(usize, u64)>,
    unused_from: usize,
    /// Slots of a [`Place`], which no limit counts.
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

    /// Takes a slot; returns it and the number of owners it has had. With `can_be_cancelled` the owner obeys S3.
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

    /// Notes when the owner of `slot`, who calls, got an xid; 0 for not known.
    pub(crate) fn note_first_write(&self, slot: usize, moment: u64) {
        self.slots[slot].first_write.store(moment, ord!("FIRST_WRITE_STORE", Release));
    }

    /// Returns what was noted last of the owner of `slot`. Acquire: who finds what a later transaction noted finds the earlier ones
    /// done.
    pub(crate) fn first_write(&self, slot: usize) -> u64 {
        self.slots[slot].first_write.load(ord!("FIRST_WRITE_LOAD", Acquire))
    }

    /// Returns whether the snapshot of `slot`, whose owner calls, is in force no more (S3).
    pub(crate) fn is_cancelled(&self, slot: usize) -> bool {
        // Relaxed: what was read before was read with Acquire, and only that decides whether the word is seen (S3).
        let own = self.slots[slot].own.load(Ordering::Relaxed);
        own & CANCELLED != 0 && own != NONE && !mutant!("CANCEL_UNSEEN")
    }

    /// Returns what is said about the cancelled snapshot of `slot`.
    pub(crate) fn why_cancelled(&self, slot: usize) -> SnapshotCancelled {
        let said = self.cancelled.lock().get(&slot).copied();
        said.unwrap_or(SnapshotCancelled { age: Duration::ZERO, old_version_bytes: 0 })
    }

    /// Takes `held` out of force, if it still is. Lists made from now on leave it out.
    pub(crate) fn cancel(&self, held: &HeldSnapshot, old_version_bytes: u64) -> bool {
        let slot = &self.slots[held.slot];
        if !held.can_be_cancelled || slot.begun.load(atomic::Ordering::Relaxed) != held.begun {
            return false;
        }
        let mut said = self.cancelled.lock();
        said.insert(held.slot, SnapshotCancelled { age: held.age, old_version_bytes });
        let (old, new) = (held.snapshot.get(), held.snapshot.get() | CANCELLED);
        // Not another snapshot of the slot: it was below a list's `up`, and by S1 none begins there after its word was
        // looked at.
        slot.own.compare_exchange(old, new, ord!("OWN_CANCEL", AcqRel), Ordering::Relaxed).is_ok()
    }

    /// Returns max(what the log has settled, `ack_floor`).
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

    /// Publishes a list that was not made by `advance`: a mistake that a model makes.
    #[cfg(all(test, loom))]
    pub(crate) fn replace_live(&self, live: LiveSnapshots) {
        self.live.replace(live);
    }

    /// Calls `look` with the list of live snapshots as last made. `look` must not wait.
    pub(crate) fn with_live<R>(&self, look: impl FnOnce(&LiveSnapshots) -> R) -> R {
        self.live.read(look)
    }

    /// Makes the list anew from the log and all holders, notes who is there at `now`, and returns the horizon.
    pub(crate) fn advance(&self, log: &impl CommitLog, now: Duration) -> Lsn {
        let mut listing = self.listing.lock(); // one at a time: a list replaces only older ones (S2)
        let Listing { last, seen } = &mut *listing;
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

    /// Returns the snapshots in force, lowest first, with their ages at `now`. One that begins meanwhile may be missing.
    pub(crate) fn all(&self, now: Duration) -> Vec<HeldSnapshot> {
        let listing = self.listing.lock();
        let Listing { last, seen } = &*listing;
        let up = last.up(); // its fence comes before our looks at the words
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

    /// Returns how many slots hold a snapshot now, and the lowest of these.
    pub(crate) fn held(&self) -> (usize, Option<Lsn>) {
        let used = self.used.load(Ordering::Acquire);
        let held = self.slots[..used].iter().map(|slot| slot.own.load(Ordering::Acquire));
        held.filter(|own| *own & CANCELLED == 0).fold((0, None), |(count, lowest), own| {
            (count + 1, Some(lowest.map_or(Lsn::new(own), |low: Lsn| low.min(Lsn::new(own)))))
        })
    }
}

/// A snapshot held outside any session: a backup, an embedded read view. Dropping it lets it go. It is never cancelled.
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

/// A place for the snapshots of one holder, kept from one to the next: none of them fails for want of a place.
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

/// A snapshot held in a [`Place`]. Dropping it lets it go. It is never cancelled.
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

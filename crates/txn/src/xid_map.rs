//! `XidMap`: assigns xids and holds the outcome of each until its versions carry it.
//!
//! A ring of `N` words (`dense`) answers for the last `N` xids. A transaction that is still open when the ring laps it
//! moves to `sparse`. Below `floor_xid` only `sparse` answers; every other transaction there is stamped.
//!
//! # Invariants
//! - M1. A slot is given to xid `x` only after `floor_xid > x - N`. Checked in `allocate`; loom model of slot reuse.
//! - M2. `x < floor_xid`: every version of `x` is stamped, or `x` is in `sparse`. Kept by `retire` and `finish`.
//! - M3. A transaction's own state word is stored before its dense word, so that a reader that comes to it through
//!   `sparse`, after the dense word moved, finds its outcome there.
//! - M4. The dense word of `x` changes from in progress (which names `x`) by compare-and-swap only: to its outcome by
//!   the owner, to moved by `retire`. Neither can hit a later owner of the slot.
//! - M5. A slot's descriptor and its dense word change together, under the descriptor's lock: `retire` passes no xid
//!   whose word is not stored yet.
//!
//! # Ordering
//! | store                          | pairs with                       | carries                                     |
//! |--------------------------------|----------------------------------|---------------------------------------------|
//! | `floor_xid` Release (retire)   | Acquire in `allocate`            | the slot is free                            |
//! | dense Release (allocate)       | Acquire in `resolve`             | a later owner's word shows its floor too    |
//! | `floor_xid` Release (retire)   | Acquire in `resolve`, after the slot | a later owner's word is recognized |
//! | `state` Release (publish)      | Acquire in `resolve` by sparse   | the end of a moved transaction              |
//! | stamps, then `flags` AcqRel    | Acquire in `retire`              | M2                                          |
//!
//! # Progress
//! `resolve`: wait-free, except for one short read lock if the transaction was lapped. `publish`: wait-free.
//! `allocate`: wait-free while the ring has room, else as `retire` (one mutex).

use crate::{
    desc::{Desc, OwnerId},
    stamp::{Resolution, Stamp, Word},
};
use collie_base::{Lsn, Map, Xid};
use collie_sync::{Mutex, Padded, RwLock, atomic::AtomicU64, mutant, ord, thread};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct XidMap {
    // Constant after open.
    pub(crate) dense: Box<[AtomicU64]>,
    pub(crate) descs: Box<[Mutex<Option<Arc<Desc>>>]>,
    // Written by allocators.
    next_xid: Padded<AtomicU64>,
    // Written under `retiring`.
    floor_xid: Padded<AtomicU64>,
    pub(crate) sparse: RwLock<Map<u64, Arc<Desc>>>,
    pub(crate) retiring: Mutex<()>,
    /// Number of lookups in `sparse`, for people: models need not watch it.
    lapped_lookups: std::sync::atomic::AtomicU64,
}

impl XidMap {
    /// Creates a map of `slots` words (a power of two) whose first xid is `first`.
    pub(crate) fn new(slots: usize, first: Xid) -> Self {
        assert!(slots.is_power_of_two(), "{slots} slots: not a power of two");
        assert!(first.get() > 0 && first.get() < 1 << 61, "first xid {first} is out of range");
        Self {
            dense: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            descs: (0..slots).map(|_| Mutex::new(None)).collect(),
            next_xid: Padded::new(AtomicU64::new(first.get())),
            floor_xid: Padded::new(AtomicU64::new(first.get())),
            sparse: RwLock::new(Map::default()),
            retiring: Mutex::new(()),
            lapped_lookups: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(crate) fn slot(&self, xid: u64) -> usize {
        let slots = self.dense.len() as u64;
        usize::try_from(xid & (slots - 1)).expect("below the number of slots")
    }

    pub(crate) fn next_xid(&self) -> Xid {
        Xid::new(self.next_xid.load(ord!("NEXT_XID_LOAD", Acquire)))
    }

    pub(crate) fn floor_xid(&self) -> Xid {
        Xid::new(self.floor_xid.load(ord!("FLOOR_LOAD", Acquire)))
    }

    /// Assigns no xid below `first` from now on. Returns `false` and does nothing if a transaction has an xid.
    pub(crate) fn begin_at(&self, first: Xid) -> bool {
        self.retire(false);
        let _one = self.retiring.lock();
        let next = self.next_xid.load(ord!("NEXT_XID_BEGIN", Acquire));
        if self.floor_xid.load(ord!("FLOOR_LOAD_BEGIN", Acquire)) != next {
            return false;
        }
        // An allocator that gets an xid from here on waits for its slot until the floor permits it (M1): the lock is
        // held until the floor has moved.
        let to = first.get().max(next);
        let raised = self.next_xid.compare_exchange(next, to, ord!("NEXT_XID_RAISE", AcqRel), ord!("_", Acquire));
        if raised.is_ok() {
            self.floor_xid.store(to, ord!("FLOOR_RAISE", Release));
        }
        raised.is_ok()
    }

    /// Assigns the next xid. No version may name it before this returns.
    pub(crate) fn allocate(&self, owner: OwnerId) -> Arc<Desc> {
        let xid = self.next_xid.fetch_add(1, ord!("NEXT_XID_ADD", AcqRel));
        let desc = Arc::new(Desc::new(Xid::new(xid), owner));
        let slots = self.dense.len() as u64;
        while self.floor_xid.load(ord!("FLOOR_LOAD_ALLOCATE", Acquire)) + slots <= xid {
            self.retire(true);
            // Another allocator may be between its number and its slot, where `retire` cannot pass it.
            thread::yield_now();
        }
        let slot = self.slot(xid);
        let take_slot = || self.dense[slot].store(Word::in_progress(desc.xid).raw(), ord!("SLOT_REUSE", Release));
        let mut place = self.descs[slot].lock();
        let lapped = place.replace(Arc::clone(&desc));
        if mutant!("SLOT_TAKEN_OUTSIDE") {
            drop(place);
            take_slot();
        } else {
            take_slot(); // M5
            drop(place);
        }
        drop(lapped);
        desc
    }

    /// Publishes the commit of `desc` at `csn`. Stores two words; it cannot fail (the log calls it).
    pub(crate) fn publish(&self, desc: &Desc, csn: Lsn) {
        self.end(desc, Word::committed(csn));
    }

    /// Publishes that `desc` aborted. Its versions must already be undone.
    pub(crate) fn publish_abort(&self, desc: &Desc) {
        self.end(desc, Word::ABORTED);
    }

    fn end(&self, desc: &Desc, word: Word) {
        let dense = &self.dense[self.slot(desc.xid.get())];
        let in_progress = Word::in_progress(desc.xid).raw();
        if mutant!("STATE_AFTER_DENSE") {
            let _ = dense.compare_exchange(in_progress, word.raw(), ord!("_", AcqRel), ord!("_", Acquire));
            desc.set_state(word);
            return;
        }
        desc.set_state(word);
        if mutant!("DENSE_PLAIN_STORE") {
            dense.store(word.raw(), ord!("_", Release));
            return;
        }
        // Failure means that it was moved (M4): then the state word above counts (M3).
        let _ = dense.compare_exchange(in_progress, word.raw(), ord!("DENSE_CAS", AcqRel), ord!("_", Acquire));
    }

    /// Marks `desc` done, after its versions are stamped. Returns whether a session waits for it.
    #[must_use]
    pub(crate) fn finish(&self, desc: &Desc) -> bool {
        let duties = desc.finish();
        if duties.leave_sparse {
            self.sparse.write().remove(&desc.xid.get());
        }
        duties.wake
    }

    /// Marks `desc` done while its versions wait to be stamped ([`XidMap::note_stamped`]). Returns whether a session
    /// waits for it.
    #[must_use]
    pub(crate) fn finish_unstamped(&self, desc: &Desc) -> bool {
        if mutant!("STAMPED_WHEN_DONE") {
            return self.finish(desc);
        }
        desc.finish_waits()
    }

    /// Marks that every version of `desc`, which is done, is stamped.
    pub(crate) fn note_stamped(&self, desc: &Desc) {
        if desc.finish_stamps() {
            self.sparse.write().remove(&desc.xid.get());
        }
    }

    /// Returns the outcome of the writer of a version; `stamp` loads the version's stamp (Acquire).
    ///
    /// # Panics
    /// If the xid is in no map and the version is not stamped: a bug that must not be answered with a guess.
    pub(crate) fn resolve(&self, stamp: impl Fn() -> Stamp) -> Resolution {
        let xid = match stamp().settled() {
            Ok(end) => return end,
            Err(xid) => xid,
        };
        let dense = &self.dense[self.slot(xid.get())];
        let (word, floor) = if mutant!("FLOOR_BEFORE_SLOT") {
            let floor = self.floor_xid.load(ord!("_", Acquire));
            (dense.load(ord!("_", Acquire)), floor)
        } else {
            let word = dense.load(ord!("SLOT_LOAD", Acquire));
            (word, self.floor_xid.load(ord!("FLOOR_LOAD_RESOLVE", Acquire)))
        };
        let word = Word::from_raw(word);
        if xid.get() >= floor && word != Word::MOVED {
            return word.resolution(xid);
        }
        self.resolve_lapped(xid, stamp)
    }

    #[cold]
    fn resolve_lapped(&self, xid: Xid, stamp: impl Fn() -> Stamp) -> Resolution {
        if let Ok(end) = stamp().settled() {
            return end;
        }
        let found = self.sparse.read().get(&xid.get()).map(|desc| desc.state());
        self.lapped_lookups.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if let Some(word) = found {
            return word.resolution(xid);
        }
        // The owner stamps before it leaves `sparse`, and the lock above makes the stamp visible.
        match stamp().settled() {
            Ok(end) => end,
            Err(_) => panic!("xid {xid} is in no map and its version is not stamped (floor {})", self.floor_xid()),
        }
    }

    pub(crate) fn lapped_lookups(&self) -> u64 {
        self.lapped_lookups.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the descriptor of `xid`, unless it is finished and forgotten.
    pub(crate) fn desc(&self, xid: Xid) -> Option<Arc<Desc>> {
        let slot = self.descs[self.slot(xid.get())].lock().clone();
        slot.filter(|desc| desc.xid == xid).or_else(|| self.sparse.read().get(&xid.get()).cloned())
    }

    /// Returns the descriptors of open transactions, by xid. One that begins or ends during the call may be missing or
    /// present.
    pub(crate) fn open(&self) -> Vec<Arc<Desc>> {
        let mut open: Vec<Arc<Desc>> = self.sparse.read().values().cloned().collect();
        for xid in self.floor_xid().get()..self.next_xid().get() {
            let desc = self.descs[self.slot(xid)].lock().clone();
            open.extend(desc.filter(|desc| desc.xid.get() == xid));
        }
        open.retain(|desc| !desc.is_done());
        open.sort_unstable_by_key(|desc| desc.xid);
        open.dedup_by_key(|desc| desc.xid);
        open
    }

    /// Raises the floor over finished transactions; with `make_room` also over open ones while the ring lacks room.
    pub(crate) fn retire(&self, make_room: bool) {
        let _one = self.retiring.lock();
        let slots = self.dense.len() as u64;
        let next = self.next_xid.load(ord!("NEXT_XID_RETIRE", Acquire));
        let mut xid = self.floor_xid.load(ord!("FLOOR_LOAD_RETIRE", Acquire));
        while xid < next {
            let slot = self.slot(xid);
            // If it is not that of this xid, the owner is between its number and its slot, and we must not pass it.
            let Some(desc) = self.descs[slot].lock().clone().filter(|desc| desc.xid.get() == xid) else { return };
            if !desc.is_finished() {
                if !make_room || xid + slots >= next {
                    return;
                }
                if mutant!("FLOOR_BEFORE_MOVE") {
                    self.floor_xid.store(xid + 1, ord!("_", Release));
                }
                // M2: an open transaction is in `sparse` before the floor passes it.
                self.move_to_sparse(&desc, slot);
            }
            xid += 1;
            self.floor_xid.store(xid, ord!("FLOOR_STORE", Release));
        }
    }

    fn move_to_sparse(&self, desc: &Arc<Desc>, slot: usize) {
        let xid = desc.xid.get();
        let insert = || self.sparse.write().insert(xid, Arc::clone(desc));
        if !mutant!("SPARSE_AFTER_MOVE") {
            insert();
        }
        let in_progress = Word::in_progress(desc.xid).raw();
        // Failure means that it has ended since; it stays in `sparse` until it is stamped.
        let _ = self.dense[slot].compare_exchange(
            in_progress,
            Word::MOVED.raw(),
            ord!("MOVE_CAS", AcqRel),
            ord!("_", Acquire),
        );
        if mutant!("SPARSE_AFTER_MOVE") {
            self.floor_xid.store(xid + 1, ord!("_", Release));
            insert();
        }
        if !desc.lap() {
            // It finished before it could learn that it must leave `sparse`.
            self.sparse.write().remove(&xid);
        }
    }

    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn sparse_len(&self) -> usize {
        self.sparse.read().len()
    }
}

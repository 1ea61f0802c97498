//! `Row`: one key's chain of versions, newest first, and `Pending`: a version whose transaction is unfinished.
//!
//! Not here: which rows exist (the index), who waits how, when a transaction ends.
//!
//! # Invariants
//! - R1. Everything but `stamp` and `next` of a version is constant from before it is linked.
//! - R2. A version is retired by the thread that took it out of the chain, once, and only with a final stamp. So the one
//!   holder of its `Pending` may touch it until it stamps it, and not after.
//! - R3. Commit positions fall along a chain; above the newest committed version lie unfinished versions of at most one
//!   transaction, rolled-back ones and finished locks.
//! - R4. A linked version's `next` changes only while its changer holds the row's pruning (`pruned`, lowest bit), and only
//!   that of the newest version that is no lock and was committed below the horizon. So the newest committed version
//!   leaves only with its row.
//! - R5. `DEAD` is stored once, into a head from which no snapshot at or above the horizon sees anything; a dead row never
//!   lives again. The caller then takes it out of the index.
//!
//! # Ordering
//! | store                          | pairs with             | carries                                       |
//! |--------------------------------|------------------------|-----------------------------------------------|
//! | `head` compare-exchange AcqRel | `head` Acquire, reader | the version, and what its `next` leads to     |
//! | `stamp` Release, owner         | `stamp` Acquire        | all the owner did before it ended             |
//! | `next` Release, pruner         | `next` Acquire         | nothing new; the shorter chain                |
//! | `pruned` Release, holder       | `pruned` Acquire       | the chain as the last holder left it          |
//!
//! # Progress
//! Reading is wait-free but for the walk. Writing is lock-free: a failed exchange means another writer got on.
//! Checked by `row_tests.rs`, `row_loom.rs`, `stress_tests.rs` and the family's model test.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use collie_base::{Lsn, Xid};
use collie_sync::{mutant, ord};

use crate::calls::{Basis, Change, InsertOutcome, LockStrength, Removal, View, WriteOutcome, WriteRules};
use crate::epoch::{Pin, pin};
use crate::key::Key;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::stamp::atomic::{AtomicPtr, AtomicU64};
use crate::stamp::{ABORTED, Fate, Resolve, Word, unfinished};

/// One value, or the mark of a deletion or a lock.
#[derive(Debug)]
enum Content {
    Put(Arc<[u8]>),
    Tombstone,
    Moved(Box<[u8]>),
    Lock(LockStrength),
}

impl Content {
    fn of(change: Change<'_>) -> Self {
        match change {
            Change::Put(value) => Self::Put(value.into()),
            Change::Delete => Self::Tombstone,
            Change::MoveTo(key) => Self::Moved(key.into()),
            Change::Lock(strength) => Self::Lock(strength),
        }
    }
}

#[derive(Debug)]
struct Version {
    /// Lets a model see whether a version's constant part is read before it was published.
    #[cfg(loom)]
    published: loom::cell::UnsafeCell<u64>,
    stamp: Word,
    next: AtomicPtr<Version>,
    command: u32,
    /// Versions from here down when this one was linked, at least.
    depth: u32,
    /// Depth at which the next writer prunes: twice what the last pruning had to leave, so that pruning costs each
    /// writer a constant number of steps however many versions old snapshots hold.
    prune_at: u32,
    content: Content,
}

/// Chains shorter than this are not worth a walk.
const PRUNE_DEPTH_MIN: u32 = 4;

impl Version {
    fn new(stamp: u64, command: u32, content: Content) -> Box<Self> {
        let next = AtomicPtr::new(ptr::null_mut());
        Box::new(Self {
            #[cfg(loom)]
            published: loom::cell::UnsafeCell::new(0),
            stamp: Word::new(stamp),
            next,
            command,
            depth: 1,
            prune_at: PRUNE_DEPTH_MIN,
            content,
        })
    }

    const fn is_lock(&self) -> bool {
        matches!(self.content, Content::Lock(_))
    }

    const fn value(&self) -> Option<&Arc<[u8]>> {
        match &self.content {
            Content::Put(value) => Some(value),
            _ => None,
        }
    }

    fn fate(&self, fates: &impl Resolve) -> Fate {
        Fate::of_final(&self.stamp).unwrap_or_else(|_| fates.resolve(&self.stamp))
    }

    /// Whether nobody needs it any more: rolled back or a finished lock, and its owner is done with it (R2).
    fn is_debris(&self) -> bool {
        match Fate::of_final(&self.stamp) {
            Ok(Fate::Aborted) => true,
            Ok(_) => self.is_lock(),
            Err(_) => false,
        }
    }
}

/// One key and its versions.
#[derive(Debug)]
pub struct Row {
    head: AtomicPtr<Version>,
    /// Lowest bit: somebody prunes (R4). The rest: the highest horizon that the chain was pruned to, so that a row with
    /// much garbage is walked once per horizon and not once per piece.
    pruned: AtomicU64,
    key: Key,
}

/// The head of a row that left the index (R5).
const DEAD: *mut Version = ptr::without_provenance_mut(1);

/// A chain from `at` down, as the holder of a pin may walk it.
struct Walk<'g> {
    at: *mut Version,
    _pin: &'g Pin,
}

impl<'g> Iterator for Walk<'g> {
    type Item = (NonNull<Version>, &'g Version);

    fn next(&mut self) -> Option<Self::Item> {
        let version = NonNull::new(self.at).filter(|v| v.as_ptr() != DEAD)?;
        // SAFETY: `at` was read from a head or a linked `next` after the pin was taken, and versions are freed only
        // through the collector (R2), so it outlives the pin.
        let shared: &'g Version = unsafe { version.as_ref() };
        #[cfg(loom)]
        shared.published.with(|_| ());
        self.at = shared.next.load(Acquire);
        Some((version, shared))
    }
}

const fn walk(at: *mut Version, pin: &Pin) -> Walk<'_> {
    Walk { at, _pin: pin }
}

/// What a writer finds at the top of a chain.
struct Top<'g> {
    /// First version that is no debris: a new version links to it.
    link: *mut Version,
    depth: u32,
    prune_at: u32,
    /// The strongest lock the writer itself holds above `base`.
    held: Option<LockStrength>,
    /// The version that says what the row is, and its fate.
    base: Option<(&'g Version, Fate)>,
}

impl Row {
    /// A row with one unfinished version.
    pub(crate) fn pending(key: Key, value: &[u8], view: &View, rules: &WriteRules) -> Pending {
        let version = Version::new(unfinished(rules.xid), view.command, Content::Put(value.into()));
        let version = NonNull::from(Box::leak(version));
        let row = Arc::new(Self { head: AtomicPtr::new(version.as_ptr()), pruned: AtomicU64::new(0), key });
        Pending { row, version: Some(version), supersedes: false }
    }

    /// A row whose only version was committed at `csn`.
    pub(crate) fn committed(key: Key, value: &[u8], csn: Lsn) -> Arc<Self> {
        let version = Box::into_raw(Version::new(csn.get(), 0, Content::Put(value.into())));
        Arc::new(Self { head: AtomicPtr::new(version), pruned: AtomicU64::new(0), key })
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the value in view.
    pub fn read<'g>(&self, view: &View, fates: &impl Resolve, pin: &'g Pin) -> Option<&'g Arc<[u8]>> {
        for (_, version) in walk(self.head.load(ord!("ROW_HEAD_LOAD", Acquire)), pin) {
            if version.is_lock() {
                continue;
            }
            match version.fate(fates) {
                Fate::Committed(csn) if csn < view.snapshot => return version.value(),
                Fate::InProgress(xid) if Some(xid) == view.me && version.command < view.command => {
                    return version.value();
                }
                _ => {}
            }
        }
        None
    }

    /// Replaces the content with a later commit's, for loading before anybody reads. Returns whether a value is left.
    pub(crate) fn load(&self, value: Option<&[u8]>, csn: Lsn, pin: &Pin) -> bool {
        let head = self.head.load(Acquire);
        let older = walk(head, pin).next().map(|(_, v)| v.stamp.load(Acquire));
        assert!(older.is_none_or(|older| older <= csn.get()), "commits are loaded in their order");
        let new = value.map_or(DEAD, |value| Box::into_raw(Version::new(csn.get(), 0, Content::Put(value.into()))));
        let old = self.head.swap(new, AcqRel);
        self.retire_from(old, ptr::null_mut(), pin);
        value.is_some()
    }

    /// Puts a new version on top, if the newest state allows it.
    pub(crate) fn write(
        self: &Arc<Self>,
        change: Change<'_>,
        basis: Basis,
        view: &View,
        rules: &WriteRules,
        fates: &impl Resolve,
    ) -> WriteOutcome {
        let pin = pin();
        let mut ready = None;
        loop {
            let head = self.head.load(Acquire);
            if head == DEAD {
                return WriteOutcome::Dead;
            }
            let top = self.top(head, rules.xid, fates, &pin);
            let Some((base, fate)) = top.base else { return WriteOutcome::Gone(None) };
            match fate {
                Fate::InProgress(xid) if xid != rules.xid && !mutant!("ROW_UNFINISHED_IGNORED") => {
                    return WriteOutcome::Wait(xid);
                }
                Fate::InProgress(_) if base.command >= view.command => return WriteOutcome::SelfModified,
                Fate::Committed(csn) if csn >= view.snapshot && basis != Basis::After(csn) => {
                    if rules.repeatable {
                        return WriteOutcome::Conflict(csn);
                    }
                    return match &base.content {
                        Content::Put(value) => WriteOutcome::Changed { csn, value: Arc::clone(value) },
                        Content::Moved(key) => WriteOutcome::Moved { csn, key: key.clone() },
                        Content::Tombstone | Content::Lock(_) => WriteOutcome::Gone(Some(csn)),
                    };
                }
                _ => {}
            }
            if base.value().is_none() {
                return WriteOutcome::Gone(None);
            }
            if let Change::Lock(strength) = change {
                let mine = matches!(fate, Fate::InProgress(_));
                if mine || top.held.is_some_and(|held| held >= strength) {
                    return WriteOutcome::Held;
                }
            }
            let new =
                ready.take().unwrap_or_else(|| Version::new(unfinished(rules.xid), view.command, Content::of(change)));
            match self.install(head, &top, new, rules.horizon, &pin) {
                Ok(pending) => return WriteOutcome::Done(pending),
                Err(unused) => ready = Some(unused),
            }
        }
    }

    /// Puts a first or a new value on top, if no live row is there.
    pub(crate) fn insert(
        self: &Arc<Self>,
        value: &[u8],
        view: &View,
        rules: &WriteRules,
        fates: &impl Resolve,
    ) -> InsertOutcome {
        let pin = pin();
        let mut ready = None;
        loop {
            let head = self.head.load(Acquire);
            if head == DEAD {
                return InsertOutcome::Dead;
            }
            let top = self.top(head, rules.xid, fates, &pin);
            match top.base {
                Some((base, Fate::InProgress(xid))) if xid != rules.xid => {
                    // A lock says nothing about whether the row lives: what lies under it does.
                    let under = base.is_lock().then(|| self.first_content(head, fates, &pin)).flatten();
                    return match under {
                        Some((content, Fate::Committed(csn))) if content.value().is_some() => {
                            InsertOutcome::Duplicate(Some(csn))
                        }
                        _ => InsertOutcome::Wait(xid),
                    };
                }
                Some((base, Fate::Committed(csn))) => {
                    if base.value().is_some() {
                        return InsertOutcome::Duplicate(Some(csn));
                    }
                    if rules.repeatable && csn >= view.snapshot {
                        return InsertOutcome::Conflict(csn);
                    }
                }
                Some((base, _)) if base.value().is_some() => return InsertOutcome::Duplicate(None),
                _ => {}
            }
            let new = ready
                .take()
                .unwrap_or_else(|| Version::new(unfinished(rules.xid), view.command, Content::of(Change::Put(value))));
            match self.install(head, &top, new, rules.horizon, &pin) {
                Ok(pending) => return InsertOutcome::Done(pending),
                Err(unused) => ready = Some(unused),
            }
        }
    }

    fn first_content<'g>(&self, head: *mut Version, fates: &impl Resolve, pin: &'g Pin) -> Option<(&'g Version, Fate)> {
        walk(head, pin)
            .filter(|(_, version)| !version.is_lock())
            .map(|(_, version)| (version, version.fate(fates)))
            .find(|(_, fate)| *fate != Fate::Aborted)
    }

    fn top<'g>(&self, head: *mut Version, xid: Xid, fates: &impl Resolve, pin: &'g Pin) -> Top<'g> {
        let mut top = Top { link: ptr::null_mut(), depth: 0, prune_at: PRUNE_DEPTH_MIN, held: None, base: None };
        for (pointer, version) in walk(head, pin) {
            if top.link.is_null() {
                if version.is_debris() {
                    continue;
                }
                (top.link, top.depth, top.prune_at) = (pointer.as_ptr(), version.depth, version.prune_at);
            }
            let fate = version.fate(fates);
            match (&version.content, fate) {
                (_, Fate::Aborted) | (Content::Lock(_), Fate::Committed(_)) => {}
                (Content::Lock(strength), Fate::InProgress(holder)) if holder == xid => {
                    top.held = top.held.max(Some(*strength));
                }
                _ => {
                    top.base = Some((version, fate));
                    break;
                }
            }
        }
        top
    }

    /// Links `new` in place of `head`, above `top`. Gives it back when another writer was first.
    fn install(
        self: &Arc<Self>,
        head: *mut Version,
        top: &Top<'_>,
        mut new: Box<Version>,
        horizon: Lsn,
        pin: &Pin,
    ) -> Result<Pending, Box<Version>> {
        new.next.store(top.link, Relaxed);
        (new.depth, new.prune_at) = (top.depth.saturating_add(1), top.prune_at);
        if new.depth >= new.prune_at
            && let Some(left) = self.prune(horizon, pin)
        {
            new.depth = left.saturating_add(1);
            new.prune_at = left.saturating_mul(2).max(PRUNE_DEPTH_MIN);
        }
        let new = Box::into_raw(new);
        if mutant!("ROW_HEAD_STORED") {
            self.head.store(new, Release);
        } else if self.head.compare_exchange(head, new, ord!("ROW_HEAD_CAS", AcqRel), Acquire).is_err() {
            // SAFETY: `new` is ours alone: it was never linked.
            return Err(unsafe { Box::from_raw(new) });
        }
        self.retire_from(head, top.link, pin); // R2: our exchange took the debris out.
        let version = NonNull::new(new);
        Ok(Pending { row: Arc::clone(self), version, supersedes: !top.link.is_null() })
    }

    /// Retires the versions from `first` down to, not including, `end`: just taken out by the caller.
    fn retire_from(&self, first: *mut Version, end: *mut Version, pin: &Pin) {
        let mut at = first;
        while !at.is_null() && at != end && at != DEAD {
            // SAFETY: R2: the caller took `at` out of the chain, so it is not freed before we retire it below.
            let next = unsafe { (*at).next.load(Acquire) };
            debug_assert!(
                // SAFETY: as above.
                Fate::of_final(unsafe { &(*at).stamp }).is_ok(),
                "R2: only final versions leave a chain"
            );
            // SAFETY: R2: taken out by the caller, by one exchange or while pruning, so by nobody else; boxed in `new`.
            unsafe { pin.retire(at) };
            at = next;
        }
    }

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
                && matches!(Fate::of_final(&version.stamp), Ok(Fate::Committed(csn)) if csn < horizon || mutant!("ROW_HORIZON_IGNORED"))
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
                self.retire_from(rest, ptr::null_mut(), pin);
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
                    deleted = csn < horizon && version.value().is_none();
                    gone &= deleted;
                }
                Ok(_) => {}
            }
            if !gone {
                break;
            }
        }
        let removal = if head == DEAD {
            Removal::Alive
        } else if gone && self.replace_head_by_death(head) {
            self.retire_from(head, ptr::null_mut(), pin); // R5: a chain without a reader
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

    /// Returns how many versions are linked.
    pub fn version_count(&self) -> usize {
        walk(self.head.load(Acquire), &pin()).count()
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let pin = pin();
        let mut at = self.head.load(Acquire);
        while !at.is_null() && at != DEAD {
            // SAFETY: a `Pending` holds its row, so with the row's last holder gone nobody links, unlinks or stamps; readers
            // with an older pin may still look, which is why the version is retired and not freed.
            let next = unsafe { (*at).next.load(Acquire) };
            // SAFETY: as above, and the chain is walked once.
            unsafe { pin.retire(at) };
            at = next;
        }
    }
}

/// A version whose transaction is unfinished. The one handle that ends it: commit it or undo it; dropped, it is undone.
///
/// Undo the versions of a transaction newest first.
#[derive(Debug)]
pub struct Pending {
    row: Arc<Row>,
    version: Option<NonNull<Version>>,
    supersedes: bool,
}

// SAFETY: the pointer is the handle's alone to end (R2), everything behind it is atomic or constant (R1), and `Row` is
// `Sync`; nothing is tied to a thread.
unsafe impl Send for Pending {}
// SAFETY: as for `Send`; nothing is done through a shared reference but reading `row`.
unsafe impl Sync for Pending {}

impl Pending {
    /// Returns the row.
    pub const fn row(&self) -> &Arc<Row> {
        &self.row
    }

    /// Returns whether there was something below, so that garbage is left once this is committed.
    pub const fn supersedes(&self) -> bool {
        self.supersedes
    }

    /// Stamps the version with its commit position.
    pub fn commit(mut self, csn: Lsn) {
        debug_assert!(csn >= Lsn::FIRST, "a commit position is a log position");
        if let Some(version) = self.version.take() {
            // SAFETY: R2: not stamped yet, so not retired; the reference ends with the store.
            unsafe { version.as_ref() }.stamp.store(csn.get(), ord!("ROW_STAMP_STORE", Release));
        }
    }

    /// Rolls the version back. Returns whether the row may be empty now, so that it should be removed.
    pub fn undo(mut self) -> bool {
        self.take_back()
    }

    fn take_back(&mut self) -> bool {
        let Some(version) = self.version.take() else { return false };
        let pin = pin();
        let at = version.as_ptr();
        // SAFETY: R2: not stamped yet, so not retired, and after the stamp the pin keeps it.
        let (stamp, next) = unsafe { (&(*at).stamp, (*at).next.load(Acquire)) };
        stamp.store(ABORTED, Release);
        if self.row.head.compare_exchange(at, next, AcqRel, Acquire).is_ok() {
            // SAFETY: R2: our exchange took it out; had a writer done so first, ours would have failed.
            unsafe { pin.retire(at) };
        }
        next.is_null() || walk(self.row.head.load(Acquire), &pin).all(|(_, version)| version.is_debris())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.take_back();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "row_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[cfg(loom)]
#[path = "row_loom.rs"]
mod models;

//! `Row`: one key's chain of versions, newest first: reading it, writing on top of it.
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
//!
//! | file | noun |
//! |---|---|
//! | `row/version.rs` | one version |
//! | `row/chain.rs` | walking a chain, its top as a writer finds it |
//! | `row/prune.rs` | cutting off what nobody sees; death |
//! | `row/pending.rs` | [`Pending`]: a version whose transaction is unfinished |

mod chain;
mod pending;
mod prune;
mod version;

use std::ptr::{self, NonNull};
use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::{mutant, ord};

use self::chain::{DEAD, Top, first_content, retire, walk};
pub use self::pending::Pending;
use self::version::{Content, PRUNE_DEPTH_MIN, Version};
use crate::calls::{Basis, Change, InsertOutcome, View, WriteOutcome, WriteRules};
use crate::epoch::{Pin, pin};
use crate::key::Key;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::stamp::atomic::{AtomicPtr, AtomicU64};
use crate::stamp::{Fate, Resolve, unfinished};

/// One key and its versions.
#[derive(Debug)]
pub struct Row {
    head: AtomicPtr<Version>,
    /// Lowest bit: somebody prunes (R4). The rest: the highest horizon that the chain was pruned to, so that a row with
    /// much garbage is walked once per horizon and not once per piece.
    pruned: AtomicU64,
    key: Key,
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
        retire(old, ptr::null_mut(), pin);
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
            let top = Top::of(head, rules.xid, fates, &pin);
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
            let top = Top::of(head, rules.xid, fates, &pin);
            match top.base {
                Some((base, Fate::InProgress(xid))) if xid != rules.xid => {
                    // A lock says nothing about whether the row lives: what lies under it does.
                    let under = base.is_lock().then(|| first_content(head, fates, &pin)).flatten();
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
        retire(head, top.link, pin); // R2: our exchange took the debris out.
        let version = NonNull::new(new);
        Ok(Pending { row: Arc::clone(self), version, supersedes: !top.link.is_null() })
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

#[cfg(test)]
#[cfg(not(loom))]
#[path = "row_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[cfg(loom)]
#[path = "row_loom.rs"]
mod models;

//! `Row`: the chain of versions of one key, newest first: reading it, and writing on top of it.
//!
//! Not here: which rows exist (the index), how to wait, when a transaction ends.
//!
//! # Invariants
//! - R1. Everything but `stamp` and `next` of a version is constant from before it is linked.
//! - R2. A version is retired once, by the thread that took it out of the chain, and only with a final stamp. So the
//!   holder of its `Pending` may access it until it stamps it, and not after.
//! - R3. Commit positions fall along a chain; above the newest committed version lie unfinished versions of at most one
//!   transaction, rolled-back ones and finished locks. The newest of the unfinished ones says how strongly that
//!   transaction holds the row.
//! - R4. A linked version's `next` changes only under the row's pruning flag (in `flags`), and only that of the newest
//!   committed version that is not a lock, or of one below. So the newest committed version leaves only with its row,
//!   and a version that a writer links to is never being unlinked. A version below is unlinked if no live snapshot sees
//!   it, now or later; a thread that stands on it still finds everything below that is kept. If it changed keys, the
//!   version above gets a note of that before the link that leaves it out.
//! - R5. `DEAD` is stored once, into a head from which no snapshot at or above the horizon sees anything; a dead row
//!   never lives again. The caller then removes it from the index.
//! - R6. While a transaction holds the row in shared strength, it is in the table of [`ShareLocks`] and the head is
//!   tagged. The tag is set and cleared under the table's lock for the row, and every other exchange of the head keeps
//!   it. A new version is put on a tagged head only under that lock, and only if no holder conflicts with it. A tagged
//!   row does not die.
//! - R7. A committer stamps first and then queues the row; a thread that takes it from the queue records that first and
//!   then prunes. So either the committer finds the row not queued, or the pruner finds the stamp.
//! - R8. The newest committed state that a writer gets is the last version of the transaction that made it: the head is
//!   loaded once more after the look, since that transaction may have put another version there between the load of the
//!   head and its commit. So a commit's position names one version of a row.
//!
//! # Ordering
//! | store                          | pairs with             | carries                                       |
//! |--------------------------------|------------------------|-----------------------------------------------|
//! | `head` compare-exchange AcqRel | `head` Acquire, reader | the version, and what its `next` leads to     |
//! | tag of `head`, taker AcqRel    | `head` exchange, writer | nothing: one of the two exchanges fails (R6) |
//! | `stamp` Release, owner         | `stamp` Acquire        | everything before the owner's end             |
//! | `next` Release, pruner         | `next` Acquire         | the shorter chain, and the cancelling that allowed it |
//! | `flags` Release, pruning given | `flags` Acquire, taken | the chain as the last holder left it          |
//! | `flags` Release, queued        | `flags` Acquire, pruning taken | the stamp (R7)                        |
//! | `flags` Release, marked        | `flags` Acquire, pruning taken by a flush | the version on top (L1 of `row/flush.rs`) |
//!
//! # Progress
//! Reading is wait-free except for the walk. Writing is lock-free: a failed exchange means that another thread made
//! progress. Taking and releasing share locks, and writing a row that has some, waits for one short mutex of the table.
//!
//! Checked by `row/tests.rs`, `row/share_tests.rs`, `row/retry_tests.rs`, `row/loom_models.rs`, `family/stress.rs`
//! and the family's model test.
//!
//! | file | noun |
//! |---|---|
//! | `row/version.rs`, `row/head.rs` | one version; the head's word and its tags |
//! | `row/chain.rs` | walking a chain, and its top as a writer finds it |
//! | `row/share.rs` | [`ShareLock`]: locks of shared strength, and a writer's check of them |
//! | `row/newest.rs` | the newest committed state |
//! | `row/put.rs` | a value put without reading the row |
//! | `row/load.rs` | a row while its directory is opened |
//! | `row/applied.rs` | a row that follows a log |
//! | `row/flush.rs` | [`FlushEntry`]: what a flush takes of a row; which states the levels lack |
//! | `row/prune.rs` | unlinking versions that no snapshot sees; death; places in queues |
//! | `row/pending.rs` | [`Pending`]: a version whose transaction is unfinished |

mod applied;
pub(crate) mod calls;
mod chain;
mod flush;
mod head;
mod load;
mod newest;
mod pending;
mod prune;
mod put;
mod share;
pub(crate) mod trace;
mod version;

use std::ptr::NonNull;
use std::sync::Arc;

use collie_base::{CfId, LockStrength, Lsn};
use collie_sync::{mutant, ord};

pub(crate) use self::applied::Applied;
use self::chain::{Look, Top, first_content, retire, walk};
pub use self::flush::{FlushAt, FlushEntry};
use self::head::{DEAD, version_of, with_tags_of};
pub use self::pending::Pending;
use self::prune::Growth;
use self::share::Refused;
pub use self::share::ShareLock;
use self::version::Version;
use crate::epoch::{Pin, pin};
use crate::key::Key;
use crate::share_locks::ShareLocks;
use crate::stamp::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::stamp::atomic::{AtomicPtr, AtomicU32};
use crate::stamp::{Resolve, TxnStatus};
use crate::{
    row::calls::Basis, row::calls::Change, row::calls::InsertOutcome, row::calls::Origin, row::calls::View,
    row::calls::WriteOutcome, row::calls::WriteRules,
};

/// The writer of the version that a read chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "trace-oracle"), expect(unreachable_pub, reason = "told to those who watch reads"))]
pub enum Seen {
    /// The transaction committed at this position.
    Committed(Lsn),
    /// This command of the reader's transaction.
    Own(u32),
}

fn is_visible(csn: Lsn, view: &View) -> bool {
    if mutant!("ROW_VISIBLE_AT_SNAPSHOT") { csn <= view.snapshot } else { csn < view.snapshot }
}

/// Returns the value of a chosen version, and reports the read to `trace`.
fn seen<'g>(key: &[u8], version: &'g Version, seen: Seen) -> Option<&'g Arc<[u8]>> {
    let value = version.value();
    trace::note(key, seen, value.map(|value| &value[..]));
    value
}

/// Returns the outcome of an insert over a version with a value; `None` if it has none.
fn taken(version: &Version, origin: Origin) -> Option<InsertOutcome> {
    version.value().map(|value| InsertOutcome::Duplicate { origin, value: Arc::clone(value) })
}

/// One key and its versions.
#[derive(Debug)]
pub struct Row {
    head: AtomicPtr<Version>,
    /// Whether the row is being pruned (R4), and its queues (R7) and flush state: the constants of `row/prune.rs`.
    flags: AtomicU32,
    growth: Growth,
    key: Key,
}

impl Row {
    /// Returns a row with one unfinished version.
    pub(crate) fn pending(key: Key, value: &[u8], view: &View, rules: &WriteRules) -> Pending {
        let version = Version::unfinished(Change::PutKeys(value), rules.xid, view.command);
        let bytes = version.counted_bytes();
        let version = NonNull::from(Box::leak(version));
        let row = Arc::new(Self::over(key, version.as_ptr()));
        Pending { row, version: Some(version), supersedes: false, outdates: 0, bytes, retries: 0 }
    }

    /// Returns a row whose only version was committed at `csn`, in no index yet.
    pub fn committed(key: Key, value: &[u8], csn: Lsn) -> Arc<Self> {
        let version = Box::into_raw(Version::committed(value, csn));
        Arc::new(Self::over(key, version))
    }

    fn over(key: Key, head: *mut Version) -> Self {
        Self { head: AtomicPtr::new(head), flags: AtomicU32::new(0), growth: Growth::new(), key }
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the key in the form that an index stores.
    pub(crate) const fn index_key(&self) -> &Key {
        &self.key
    }

    /// Returns the value in view.
    pub fn read<'g>(&self, view: &View, fates: &impl Resolve, pin: &'g Pin) -> Option<&'g Arc<[u8]>> {
        for (_, version) in walk(self.head.load(ord!("ROW_HEAD_LOAD", Acquire)), pin) {
            if version.is_lock() {
                continue;
            }
            match version.fate(fates) {
                TxnStatus::Committed(csn) if is_visible(csn, view) => {
                    return seen(&self.key, version, Seen::Committed(csn));
                }
                TxnStatus::InProgress(xid) if Some(xid) == view.me && version.command < view.command => {
                    return seen(&self.key, version, Seen::Own(version.command));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns how many versions [`Self::read`] walks over, the last one included: for measurements, after the read.
    pub(crate) fn read_steps(&self, view: &View, fates: &impl Resolve, pin: &Pin) -> usize {
        let mut steps = 0;
        for (_, version) in walk(self.head.load(ord!("ROW_HEAD_LOAD", Acquire)), pin) {
            steps += 1;
            let ends = match version.fate(fates) {
                _ if version.is_lock() => false,
                TxnStatus::Committed(csn) => is_visible(csn, view),
                TxnStatus::InProgress(xid) => Some(xid) == view.me && version.command < view.command,
                _ => false,
            };
            if ends {
                break;
            }
        }
        steps
    }

    /// Returns whether the row left the index, or is about to (R5).
    pub(crate) fn is_dead(&self) -> bool {
        self.head.load(Acquire) == DEAD
    }

    /// Puts a new version on top, or takes a lock, if the newest state and the locks of other transactions allow it.
    pub(crate) fn write(
        self: &Arc<Self>,
        family: CfId,
        change: Change<'_>,
        basis: Basis,
        view: &View,
        rules: &WriteRules,
        others: &(impl Resolve + ShareLocks),
    ) -> WriteOutcome {
        let pin = &pin();
        let look = Look { family, strength: change.strength(), basis, view, rules, others, pin };
        if look.strength.is_shared() {
            return self.share(&look);
        }
        let (mut ready, mut retries) = (None, 0_u16);
        loop {
            let head = self.head.load(Acquire);
            if head == DEAD {
                return WriteOutcome::Dead;
            }
            let top = Top::of(head, &look);
            if let Some(refusal) = top.refusal(&look) {
                // R8: a refusal counts only if the head has not changed since the look.
                if self.is_newest(head) {
                    return refusal;
                }
                retries = retries.saturating_add(1);
                continue;
            }
            if matches!(change, Change::Lock(strength) if top.held >= Some(strength)) {
                return WriteOutcome::Held;
            }
            let new = ready.take().unwrap_or_else(|| Version::unfinished(change, rules.xid, view.command));
            match self.install_beside_shares(head, &top, new, &look) {
                Ok(mut pending) => {
                    pending.retries = retries;
                    return WriteOutcome::Done(pending);
                }
                Err(Refused::Shared(holder)) => return WriteOutcome::Wait(holder),
                Err(Refused::Overtaken(unused)) => {
                    (ready, retries) = (Some(unused), retries.saturating_add(1));
                }
            }
        }
    }

    /// Puts a first or a new value on top, if there is no live row.
    pub(crate) fn insert(
        self: &Arc<Self>,
        family: CfId,
        value: &[u8],
        view: &View,
        rules: &WriteRules,
        others: &(impl Resolve + ShareLocks),
    ) -> InsertOutcome {
        let pin = &pin();
        let look = Look { family, strength: LockStrength::Update, basis: Basis::Snapshot, view, rules, others, pin };
        let mut ready = None;
        loop {
            let head = self.head.load(Acquire);
            if head == DEAD {
                return InsertOutcome::Dead;
            }
            let top = Top::of(head, &look);
            let refusal = match top.base {
                Some((base, TxnStatus::InProgress(xid))) if xid != rules.xid => {
                    // A lock does not say whether the row is live: the version under it does.
                    let under = base.is_lock().then(|| first_content(head, others, pin)).flatten();
                    let committed = match under {
                        Some((content, TxnStatus::Committed(csn))) => taken(content, Origin::Committed(csn)),
                        _ => None,
                    };
                    Some(committed.unwrap_or(InsertOutcome::Wait(xid)))
                }
                Some((base, TxnStatus::Committed(csn))) => taken(base, Origin::Committed(csn))
                    .or((rules.repeatable && csn >= view.snapshot).then_some(InsertOutcome::Conflict(csn))),
                Some((base, _)) => {
                    let mine = base.command >= view.command;
                    taken(base, if mine { Origin::ThisCommand } else { Origin::EarlierCommand })
                }
                None => None,
            };
            if let Some(refusal) = refusal {
                // R8, as in `write`.
                if self.is_newest(head) {
                    return refusal;
                }
                continue;
            }
            let deleted_at = match top.base {
                Some((_, TxnStatus::Committed(csn))) if !is_visible(csn, view) => Some(csn),
                _ => None,
            };
            let new =
                ready.take().unwrap_or_else(|| Version::unfinished(Change::PutKeys(value), rules.xid, view.command));
            match self.install_beside_shares(head, &top, new, &look) {
                Ok(pending) => {
                    return match deleted_at {
                        Some(csn) => InsertOutcome::DoneAfter { pending, csn },
                        None => InsertOutcome::Done(pending),
                    };
                }
                // The holder deleted the row and has ended, and will release its own share lock in a moment.
                Err(Refused::Shared(holder)) => return InsertOutcome::Wait(holder),
                Err(Refused::Overtaken(unused)) => ready = Some(unused),
            }
        }
    }

    /// Returns whether `head` is still on top. Called after a look from it (R8).
    fn is_newest(&self, head: *mut Version) -> bool {
        mutant!("ROW_LOOKED_AT_ONCE") || version_of(self.head.load(ord!("ROW_HEAD_LOAD", Acquire))) == version_of(head)
    }

    /// Links `new` in place of `head`, above `top`. Gives it back if another writer was first.
    fn install(
        self: &Arc<Self>,
        head: *mut Version,
        top: &Top<'_>,
        mut new: Box<Version>,
        pin: &Pin,
    ) -> Result<Pending, Box<Version>> {
        new.next.store(top.link, Relaxed);
        new.strength = top.held.map_or(new.strength, |held| held.max(new.strength));
        let supersedes = !top.link.is_null() && !new.is_lock();
        let mut outdates = if new.is_lock() || new.value().is_some() { 0 } else { self.old_bytes(&new) };
        if let Some((base, _)) = top.base.filter(|(base, _)| !new.is_lock() && base.value().is_some()) {
            outdates += self.old_bytes(base);
        }
        let bytes = new.counted_bytes();
        let new = Box::into_raw(new);
        let tagged = if mutant!("ROW_INSTALL_DROPS_TAGS") { new } else { with_tags_of(new, head) }; // R6
        if mutant!("ROW_HEAD_STORED") {
            self.head.store(tagged, Release);
        } else if self.head.compare_exchange(head, tagged, ord!("ROW_HEAD_CAS", AcqRel), Acquire).is_err() {
            // SAFETY: `new` is ours alone: it was never linked.
            return Err(unsafe { Box::from_raw(new) });
        }
        retire(head, top.link, pin); // R2: our exchange took the debris out
        self.growth.add();
        Ok(Pending { row: Arc::clone(self), version: NonNull::new(new), supersedes, outdates, bytes, retries: 0 })
    }

    /// Returns for each linked version, newest first, whether it is committed and stamped.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn versions(&self) -> impl Iterator<Item = bool> {
        let committed = |version: &Version| matches!(TxnStatus::of_final(&version.stamp), Ok(TxnStatus::Committed(_)));
        let states: Vec<_> = walk(self.head.load(Acquire), &pin()).map(|(_, version)| committed(version)).collect();
        states.into_iter()
    }

    /// Returns how many versions are linked.
    pub fn version_count(&self) -> usize {
        walk(self.head.load(Acquire), &pin()).count()
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let pin = pin();
        let mut at = version_of(self.head.load(Acquire));
        while !at.is_null() {
            // SAFETY: a `Pending` holds its row, so once the row's last holder is gone no thread links, unlinks or
            // stamps; readers with an older pin may still look, which is why the version is retired and not freed.
            let next = unsafe { (*at).next.load(Acquire) };
            // SAFETY: as above, and the chain is walked once.
            unsafe { pin.retire(at) };
            at = next;
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;

#[cfg(test)]
#[cfg(not(loom))]
mod retry_tests;

#[cfg(test)]
#[cfg(not(loom))]
mod share_tests;

#[cfg(test)]
#[cfg(loom)]
mod loom_models;

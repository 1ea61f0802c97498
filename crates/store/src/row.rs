//! `Row`: one key's chain of versions, newest first: reading it, writing on top of it.
//!
//! Not here: which rows exist (the index), who waits how, when a transaction ends.
//!
//! # Invariants
//! - R1. Everything but `stamp` and `next` of a version is constant from before it is linked.
//! - R2. A version is retired by the thread that took it out of the chain, once, and only with a final stamp. So the one
//!   holder of its `Pending` may touch it until it stamps it, and not after.
//! - R3. Commit positions fall along a chain; above the newest committed version lie unfinished versions of at most one
//!   transaction, rolled-back ones and finished locks. The newest of the unfinished ones says how strongly that
//!   transaction holds the row.
//! - R4. A linked version's `next` changes only while its changer holds the row's pruning (in `flags`), and only that of the
//!   newest committed version that is no lock, or of one below. So the newest committed version leaves only with its row,
//!   and what a writer links to is never being unlinked. A version below goes when none of the live snapshots sees it, now
//!   or later; who stands on it still finds everything below that is kept. That it changed keys is noted at the one above,
//!   before the link that leaves it out.
//! - R5. `DEAD` is stored once, into a head from which no snapshot at or above the horizon sees anything; a dead row never
//!   lives again. The caller then takes it out of the index.
//! - R6. While a transaction holds the row in shared strength, it is in the table of [`ShareLocks`] and the head is tagged.
//!   The tag comes and goes under the table's lock for the row, every other exchange of the head keeps it, and a new
//!   version is put on a tagged head under that lock only, when no holder conflicts with it. A tagged row does not die.
//! - R7. A committer stamps first and then queues the row; who takes it from the queue notes that first and then prunes. So
//!   either the one finds the row not queued, or the other finds the stamp.
//! - R8. What a writer is told of the newest committed state is the last version of the transaction that made it: the head is
//!   asked for once more after the look, since that transaction may have put another one there between the load of the head
//!   and its commit. So a commit's position names one version of a row.
//!
//! # Ordering
//! | store                          | pairs with             | carries                                       |
//! |--------------------------------|------------------------|-----------------------------------------------|
//! | `head` compare-exchange AcqRel | `head` Acquire, reader | the version, and what its `next` leads to     |
//! | tag of `head`, taker AcqRel    | `head` exchange, writer | nothing: one of the two exchanges fails (R6) |
//! | `stamp` Release, owner         | `stamp` Acquire        | all the owner did before it ended             |
//! | `next` Release, pruner         | `next` Acquire         | the shorter chain, and by whose leave: a reader that misses a version for it sees that its snapshot was cancelled |
//! | `flags` Release, pruning given | `flags` Acquire, taken | the chain as the last holder left it          |
//! | `flags` Release, queued        | `flags` Acquire, pruning taken | the stamp (R7)                        |
//! | `flags` Release, marked        | `flags` Acquire, pruning taken by a flush | the version on top (L1 of `row/flush.rs`) |
//!
//! # Progress
//! Reading is wait-free but for the walk. Writing is lock-free: a failed exchange means another writer got on. Taking and
//! giving back share locks, and writing a row that has some, waits for one short mutex of the table.
//! Checked by `row_tests.rs`, `share_tests.rs`, `retry_tests.rs`, `row_loom.rs`, `stress_tests.rs` and the family's model test.
//!
//! | file | noun |
//! |---|---|
//! | `row/version.rs`, `row/head.rs` | one version; the head's word and its tags |
//! | `row/chain.rs` | walking a chain, its top as a writer finds it |
//! | `row/share.rs` | [`ShareLock`]: locks of shared strength, and a writer beside them |
//! | `row/newest.rs` | the newest committed state |
//! | `row/put.rs` | a value put whatever is there |
//! | `row/load.rs` | a row while its directory is opened |
//! | `row/applied.rs` | a row that follows a log |
//! | `row/flush.rs` | [`FlushEntry`]: what a flush takes of a row; which states the levels lack |
//! | `row/prune.rs` | unlinking what nobody sees; death; places in queues |
//! | `row/pending.rs` | [`Pending`]: a version whose transaction is unfinished |

mod applied;
mod chain;
mod flush;
mod head;
mod load;
mod newest;
mod pending;
mod prune;
mod put;
mod share;
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
use crate::calls::{Basis, Change, InsertOutcome, Origin, View, WriteOutcome, WriteRules};
use crate::epoch::{Pin, pin};
use crate::key::Key;
use crate::share_locks::ShareLocks;
use crate::stamp::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::stamp::atomic::{AtomicPtr, AtomicU32};
use crate::stamp::{Fate, Resolve};
use crate::trace;

/// Whose version a read chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "trace-oracle"), expect(unreachable_pub, reason = "told to those who watch reads"))]
pub enum Seen {
    /// Of the transaction committed at this position.
    Committed(Lsn),
    /// Of this command of the reader's transaction.
    Own(u32),
}

fn is_visible(csn: Lsn, view: &View) -> bool {
    if mutant!("ROW_VISIBLE_AT_SNAPSHOT") { csn <= view.snapshot } else { csn < view.snapshot }
}

/// Returns the value of a version that was chosen, and tells who watches.
fn seen<'g>(key: &[u8], version: &'g Version, seen: Seen) -> Option<&'g Arc<[u8]>> {
    let value = version.value();
    trace::note(key, seen, value.map(|value| &value[..]));
    value
}

/// What an insert is told of a version that lives.
fn taken(version: &Version, origin: Origin) -> Option<InsertOutcome> {
    version.value().map(|value| InsertOutcome::Duplicate { origin, value: Arc::clone(value) })
}

/// One key and its versions.
#[derive(Debug)]
pub struct Row {
    head: AtomicPtr<Version>,
    /// Who is at the row (R4), and where it waits (R7): the constants of `row/prune.rs`.
    flags: AtomicU32,
    growth: Growth,
    key: Key,
}

impl Row {
    /// A row with one unfinished version.
    pub(crate) fn pending(key: Key, value: &[u8], view: &View, rules: &WriteRules) -> Pending {
        let version = Version::unfinished(Change::PutKeys(value), rules.xid, view.command);
        let bytes = version.counted_bytes();
        let version = NonNull::from(Box::leak(version));
        let row = Arc::new(Self::over(key, version.as_ptr()));
        Pending { row, version: Some(version), supersedes: false, outdates: 0, bytes, retries: 0 }
    }

    /// A row whose only version was committed at `csn`, in no index yet.
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

    /// Returns the key as an index has it.
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
                Fate::Committed(csn) if is_visible(csn, view) => return seen(&self.key, version, Seen::Committed(csn)),
                Fate::InProgress(xid) if Some(xid) == view.me && version.command < view.command => {
                    return seen(&self.key, version, Seen::Own(version.command));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns how many versions [`Self::read`] walks past, with the one it ends at: for who measures reads, after them.
    pub(crate) fn read_steps(&self, view: &View, fates: &impl Resolve, pin: &Pin) -> usize {
        let mut steps = 0;
        for (_, version) in walk(self.head.load(ord!("ROW_HEAD_LOAD", Acquire)), pin) {
            steps += 1;
            let ends = match version.fate(fates) {
                _ if version.is_lock() => false,
                Fate::Committed(csn) => is_visible(csn, view),
                Fate::InProgress(xid) => Some(xid) == view.me && version.command < view.command,
                _ => false,
            };
            if ends {
                break;
            }
        }
        steps
    }

    /// Whether the row left the index, or is about to (R5).
    pub(crate) fn is_dead(&self) -> bool {
        self.head.load(Acquire) == DEAD
    }

    /// Puts a new version on top, or takes a lock, if the newest state and the locks of others allow it.
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

    /// Puts a first or a new value on top, if no live row is there.
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
                Some((base, Fate::InProgress(xid))) if xid != rules.xid => {
                    // A lock says nothing about whether the row lives: what lies under it does.
                    let under = base.is_lock().then(|| first_content(head, others, pin)).flatten();
                    let committed = match under {
                        Some((content, Fate::Committed(csn))) => taken(content, Origin::Committed(csn)),
                        _ => None,
                    };
                    Some(committed.unwrap_or(InsertOutcome::Wait(xid)))
                }
                Some((base, Fate::Committed(csn))) => taken(base, Origin::Committed(csn))
                    .or((rules.repeatable && csn >= view.snapshot).then_some(InsertOutcome::Conflict(csn))),
                Some((base, _)) => {
                    let mine = base.command >= view.command;
                    taken(base, if mine { Origin::ThisCommand } else { Origin::EarlierCommand })
                }
                None => None,
            };
            if let Some(refusal) = refusal {
                if self.is_newest(head) {
                    return refusal;
                }
                continue;
            }
            let deleted_at = match top.base {
                Some((_, Fate::Committed(csn))) if !is_visible(csn, view) => Some(csn),
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
                // Of a row that was deleted: the one that did so has ended, and gives its own lock back in a moment.
                Err(Refused::Shared(holder)) => return InsertOutcome::Wait(holder),
                Err(Refused::Overtaken(unused)) => ready = Some(unused),
            }
        }
    }

    /// Returns whether `head` is on top still. Asked after a look from it (R8).
    fn is_newest(&self, head: *mut Version) -> bool {
        mutant!("ROW_LOOKED_AT_ONCE") || version_of(self.head.load(ord!("ROW_HEAD_LOAD", Acquire))) == version_of(head)
    }

    /// Links `new` in place of `head`, above `top`. Gives it back when another writer was first.
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
        retire(head, top.link, pin); // R2: our exchange took the debris out.
        self.growth.add();
        Ok(Pending { row: Arc::clone(self), version: NonNull::new(new), supersedes, outdates, bytes, retries: 0 })
    }

    /// Tells of each linked version, newest first, whether it is committed and stamped.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn versions(&self) -> impl Iterator<Item = bool> {
        let committed = |version: &Version| matches!(Fate::of_final(&version.stamp), Ok(Fate::Committed(_)));
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
#[cfg(not(loom))]
#[path = "retry_tests.rs"]
mod retry_tests;

#[cfg(test)]
#[cfg(not(loom))]
#[path = "share_tests.rs"]
mod share_tests;

#[cfg(test)]
#[cfg(loom)]
#[path = "row_loom.rs"]
mod models;

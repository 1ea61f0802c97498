//! Locks of shared strength: taking and releasing them, and the check that a writer makes (R6).
//!
//! A locker, under the table's lock for the row, looks at the chain, enters itself in the table, and tags the head by
//! an exchange that fails if a writer was faster. A writer that loaded a head with the tag takes the same lock before
//! its own exchange; the exchange of a writer that loaded it without the tag fails if a locker was faster. So the
//! exchanges on the head order the two, and the second sees the first.

use std::sync::Arc;

use collie_base::{CfId, LockStrength, Xid};
use collie_sync::mutant;

use super::chain::{Look, Top, walk};
use super::head::{DEAD, is_shared, not_shared, shared};
use super::version::Version;
use super::{Pending, Row};
use crate::epoch::pin;
use crate::row::calls::WriteOutcome;
use crate::share_locks::ShareLocks;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Release};
use crate::stamp::{Resolve, TxnStatus};

/// A row held in shared strength. Release it with [`ShareLock::release`]: if dropped, it stays held forever.
#[derive(Debug)]
#[must_use = "a lock that is dropped is held for ever"]
pub struct ShareLock {
    row: Arc<Row>,
    family: CfId,
    xid: Xid,
    /// The strength in which the transaction held the row before.
    before: Option<LockStrength>,
}

impl ShareLock {
    /// Releases the lock: the transaction holds again what it held before. Release the locks of one transaction newest
    /// first.
    pub fn release(self, locks: &impl ShareLocks) {
        let last = locks.with_holders(self.family, &self.row.key, |holders| {
            holders.set(self.xid, self.before);
            let last = holders.is_empty() || mutant!("SHARE_RELEASED_FOR_ALL");
            if last && !mutant!("SHARE_UNTAGGED_OUTSIDE") {
                self.row.untag();
            }
            last
        });
        if last && mutant!("SHARE_UNTAGGED_OUTSIDE") {
            self.row.untag();
        }
    }
}

/// Why a version was not put on top.
pub(super) enum Refused {
    /// Another writer or a locker was first: the version comes back.
    Overtaken(Box<Version>),
    /// This transaction holds the row in shared strength.
    Shared(Xid),
}

impl Row {
    /// Holds the row in shared strength, if the newest state allows it.
    pub(super) fn share(self: &Arc<Self>, look: &Look<'_, impl Resolve + ShareLocks>) -> WriteOutcome {
        let (family, xid) = (look.family, look.rules.xid);
        look.others.with_holders(family, &self.key, |holders| {
            let before = holders.held_by(xid);
            loop {
                let head = self.head.load(Acquire);
                if head == DEAD {
                    return WriteOutcome::Dead;
                }
                let top = Top::of(head, look);
                if let Some(refusal) = top.refusal(look) {
                    if self.is_newest(head) {
                        return refusal;
                    }
                    continue;
                }
                if top.held.is_some() || before >= Some(look.strength) {
                    return WriteOutcome::Held;
                }
                // R6: the entry precedes the tag, so that a writer that sees the tag finds the holder.
                if !mutant!("SHARE_WITHOUT_ENTRY") {
                    holders.set(xid, Some(look.strength));
                }
                if is_shared(head) || self.tag(head) {
                    return WriteOutcome::Shared(ShareLock { row: Arc::clone(self), family, xid, before });
                }
                // A writer was first: take the entry back and look again.
                holders.set(xid, before);
            }
        })
    }

    fn tag(&self, head: *mut Version) -> bool {
        if mutant!("SHARE_WITHOUT_TAG") {
            return true;
        }
        if mutant!("SHARE_TAG_STORED") {
            self.head.store(shared(head), Release);
            return true;
        }
        self.head.compare_exchange(head, shared(head), AcqRel, Acquire).is_ok()
    }

    /// Clears the tag. Called under the table's lock, so that no locker relies on it.
    fn untag(&self) {
        let mut head = self.head.load(Acquire);
        while let Err(now) = self.head.compare_exchange(head, not_shared(head), AcqRel, Acquire) {
            head = now;
        }
    }

    /// Installs `new` in place of `head` if no share lock conflicts.
    pub(super) fn install_beside_shares(
        self: &Arc<Self>,
        head: *mut Version,
        top: &Top<'_>,
        new: Box<Version>,
        look: &Look<'_, impl ShareLocks>,
    ) -> Result<Pending, Refused> {
        let install = || self.install(head, top, new, look.pin).map_err(Refused::Overtaken);
        if !is_shared(head) || mutant!("ROW_SHARED_IGNORED") {
            return install();
        }
        let (xid, strength) = (look.rules.xid, look.strength);
        if mutant!("ROW_INSTALLED_OUTSIDE") {
            let found = look.others.with_holders(look.family, &self.key, |holders| holders.in_the_way(xid, strength));
            return found.map_or_else(install, |holder| Err(Refused::Shared(holder)));
        }
        look.others.with_holders(look.family, &self.key, |holders| match holders.in_the_way(xid, strength) {
            Some(holder) => Err(Refused::Shared(holder)),
            None => install(),
        })
    }

    /// Returns whether `holder` blocks a request for the row in this strength.
    pub(crate) fn is_held(
        &self,
        family: CfId,
        holder: Xid,
        strength: LockStrength,
        others: &(impl Resolve + ShareLocks),
    ) -> bool {
        let pin = pin();
        let head = self.head.load(Acquire);
        for (_, version) in walk(head, &pin) {
            match version.fate(others) {
                TxnStatus::InProgress(xid) if xid == holder => return version.strength.conflicts_with(strength),
                TxnStatus::Committed(_) if !version.is_lock() => break,
                _ => {}
            }
        }
        is_shared(head)
            && others.with_holders(family, &self.key, |holders| {
                holders.held_by(holder).is_some_and(|held| held.conflicts_with(strength))
            })
    }
}

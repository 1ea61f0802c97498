//! A value put on top of a row whatever its state: live or deleted, in view or newer.
//!
//! The caller of a put does not learn the previous state, so one look decides: only an unfinished writer, a holder of a
//! shared lock and, at REPEATABLE READ, a commit that is not in view can be in the way. The strength depends on the
//! row: over a live value the row's keys stay, as with [`Change::Put`]; otherwise the row comes into existence, as with
//! an insert. So the strength is chosen by the head that the exchange replaces, and chosen again for each attempt.
//!
//! Checked by `family/put_loom_models.rs` and the family's model test.

use std::sync::Arc;

use collie_base::{CfId, LockStrength};
use collie_sync::mutant;

use super::Row;
use super::chain::{Look, Top, is_changed};
use super::head::DEAD;
use super::share::Refused;
use super::version::Version;
use crate::epoch::pin;
use crate::share_locks::ShareLocks;
use crate::stamp::atomic::Ordering::Acquire;
use crate::stamp::{Resolve, TxnStatus};
use crate::{row::calls::Basis, row::calls::Change, row::calls::PutOutcome, row::calls::View, row::calls::WriteRules};

impl Row {
    /// Puts `value` on top, if no unfinished transaction and no rule is in the way.
    pub(crate) fn put(
        self: &Arc<Self>,
        family: CfId,
        value: &[u8],
        view: &View,
        rules: &WriteRules,
        others: &(impl Resolve + ShareLocks),
    ) -> PutOutcome {
        let pin = &pin();
        let mut look =
            Look { family, strength: LockStrength::Update, basis: Basis::Snapshot, view, rules, others, pin };
        let mut ready: Option<Box<Version>> = None;
        loop {
            let head = self.head.load(Acquire);
            if head == DEAD {
                return PutOutcome::Dead;
            }
            // A writer of whole rows steps over the same versions in either strength, so one look serves both.
            look.strength = LockStrength::Update;
            let top = Top::of(head, &look);
            let replaced = top.base.is_some_and(|(base, _)| base.value().is_some());
            let change = if replaced { Change::Put(value) } else { Change::PutKeys(value) };
            look.strength = change.strength();
            let after = match top.base {
                Some((_, TxnStatus::Committed(csn))) if is_changed(csn, view) => Some(csn),
                _ => None,
            };
            // Neither outcome needs the second look at the head that other writes need (R8): a waiter looks again, and
            // a commit that came after the snapshot remains after it.
            match top.base {
                Some((_, TxnStatus::InProgress(holder)))
                    if holder != rules.xid && !mutant!("ROW_UNFINISHED_IGNORED") =>
                {
                    return PutOutcome::Wait { holder, strength: look.strength };
                }
                _ => {}
            }
            if let Some(csn) = after.filter(|_| rules.repeatable) {
                return PutOutcome::Conflict(csn);
            }
            let mut new = ready.take().unwrap_or_else(|| Version::unfinished(change, rules.xid, view.command));
            if !mutant!("PUT_STRENGTH_KEPT") {
                new.strength = look.strength;
            }
            match self.install_beside_shares(head, &top, new, &look) {
                Ok(pending) => return PutOutcome::Done { pending, replaced, after },
                Err(Refused::Shared(holder)) => return PutOutcome::Wait { holder, strength: look.strength },
                Err(Refused::Overtaken(unused)) => ready = Some(unused),
            }
        }
    }
}

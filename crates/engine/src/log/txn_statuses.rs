//! `TxnStatuses`: the statuses of transactions, in the form in which rows ask for them.

use collie_base::{CfId, LockStrength, Xid};
use collie_store::{Resolve, RowHolders, ShareLocks, TxnStatus, Word};
use collie_txn::{CommitLog, Resolution, RowShares, Txns};

use crate::log::EngineLog;

/// The resolver for rows: returns the status of a transaction, and the holders of a row in shared strength.
pub(crate) struct TxnStatuses<'a, L = EngineLog>(pub(crate) &'a Txns<L>);

impl<L: CommitLog> Resolve for TxnStatuses<'_, L> {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        match self.0.resolve(stamp) {
            Resolution::InProgress(xid) => TxnStatus::InProgress(xid),
            Resolution::Aborted => TxnStatus::Aborted,
            Resolution::Committed(csn) => TxnStatus::Committed(csn),
        }
    }
}

/// The holders of one row, in the form that rows use.
struct Holders<'a>(&'a mut RowShares);

impl RowHolders for Holders<'_> {
    fn in_the_way(&self, me: Xid, wanted: LockStrength) -> Option<Xid> {
        self.0.in_the_way(me, wanted)
    }

    fn held_by(&self, holder: Xid) -> Option<LockStrength> {
        self.0.held_by(holder)
    }

    fn set(&mut self, holder: Xid, strength: Option<LockStrength>) {
        self.0.set(holder, strength);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<L: CommitLog> ShareLocks for TxnStatuses<'_, L> {
    fn with_holders<R>(&self, family: CfId, key: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
        self.0.with_row_shares(family, key, |shares| act(&mut Holders(shares)))
    }
}

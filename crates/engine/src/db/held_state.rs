//! `HeldState`: the state below one position, held so that it can be summed up while commits continue.

use std::fmt;
use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_store::Family;
use collie_txn::Holder;

use crate::EngineError;
use crate::db::state_hash::family_hash;
use crate::log::txn_statuses::TxnStatuses;
use crate::shared::Shared;

/// The rows of a database at one position. Old versions are kept for it until it is dropped.
pub struct HeldState {
    holder: Holder,
    shared: Arc<Shared>,
    families: Vec<Arc<Family>>,
}

impl fmt::Debug for HeldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldState").field("at", &self.at()).finish_non_exhaustive()
    }
}

impl HeldState {
    /// Holds the current quorum-durable state of all families except `skipped`.
    pub(crate) fn new(shared: &Arc<Shared>, skipped: &[CfId]) -> Result<Self, EngineError> {
        let holder = shared.txns.hold_settled()?;
        let mut families = shared.families.all();
        let dropped = shared.dropped.hidden_from(holder.snapshot());
        families.retain(|family| !skipped.contains(&family.id()) && !dropped.contains(&family.id()));
        Ok(Self { holder, shared: Arc::clone(shared), families })
    }

    /// Returns the position; the state holds the commits below it.
    pub fn at(&self) -> Lsn {
        self.holder.snapshot()
    }

    /// Returns a hash of the rows of each family that has rows, the same on every node with the same rows
    /// ([`Db::state_hash`](crate::Db::state_hash) is their sum). Reads every row.
    pub fn hashes(&self) -> Vec<(CfId, u64)> {
        let fates = TxnStatuses(&self.shared.txns);
        let hash = |family: &Arc<Family>| (family.id(), family_hash(family, self.at(), &fates));
        self.families.iter().map(hash).filter(|(_, hash)| *hash != 0).collect()
    }
}

//! `Holders`: the transactions that hold one row in shared strength, for tests and models.

use std::collections::BTreeMap;

use collie_base::{LockStrength, Xid};

use crate::share_locks::RowHolders;

/// The transactions that hold one row in shared strength.
#[derive(Default)]
pub(crate) struct Holders(BTreeMap<Xid, LockStrength>);

impl RowHolders for Holders {
    fn in_the_way(&self, me: Xid, wanted: LockStrength) -> Option<Xid> {
        self.0.iter().find(|(xid, held)| **xid != me && held.conflicts_with(wanted)).map(|(xid, _)| *xid)
    }

    fn held_by(&self, holder: Xid) -> Option<LockStrength> {
        self.0.get(&holder).copied()
    }

    fn set(&mut self, holder: Xid, strength: Option<LockStrength>) {
        match strength {
            Some(strength) => self.0.insert(holder, strength),
            None => self.0.remove(&holder),
        };
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

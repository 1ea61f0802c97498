//! `ShareLocks`: the holders of rows in shared strength, as far as rows need them.
//!
//! Locks of exclusive strength are unfinished versions of the row itself. Locks of shared strength are in a table of
//! the caller, and the row is only marked; `row/share.rs` has the protocol between the two.

use collie_base::{CfId, LockStrength, Xid};

/// The holders of one row; no other thread can read or change them during the access.
pub trait RowHolders {
    /// Returns a holder other than `me` whose lock conflicts with `wanted`.
    fn in_the_way(&self, me: Xid, wanted: LockStrength) -> Option<Xid>;

    /// Returns the strength in which `holder` holds the row.
    fn held_by(&self, holder: Xid) -> Option<LockStrength>;

    /// Sets the strength in which `holder` holds the row from now on; `None` if not at all.
    fn set(&mut self, holder: Xid, strength: Option<LockStrength>);

    /// Returns whether the row has no holder.
    fn is_empty(&self) -> bool;
}

/// The table of all holders.
pub trait ShareLocks {
    /// Runs `act` with the holders of the row at `key` of `family`. No two calls for one row overlap, and each sees the
    /// effects of the previous one. `act` neither waits nor calls the table.
    fn with_holders<R>(&self, family: CfId, key: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R;
}

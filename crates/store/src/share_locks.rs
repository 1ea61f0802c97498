//! `ShareLocks`: who holds which row in shared strength, as far as rows need to know.
//!
//! Locks of exclusive strength are unfinished versions of the row itself. Those of shared strength are in a table of the
//! caller's, and the row is only marked; the protocol between the two is in `row/share.rs`.

use collie_base::{CfId, LockStrength, Xid};

/// The holders of one row, while nobody else can change or read them.
pub trait RowHolders {
    /// Returns a holder other than `me` whose lock conflicts with `wanted`.
    fn in_the_way(&self, me: Xid, wanted: LockStrength) -> Option<Xid>;

    /// Returns what `holder` holds.
    fn held_by(&self, holder: Xid) -> Option<LockStrength>;

    /// Notes what `holder` holds from now on; `None`: nothing.
    fn set(&mut self, holder: Xid, strength: Option<LockStrength>);

    /// Returns whether nobody holds the row.
    fn is_empty(&self) -> bool;
}

/// The table of all holders.
pub trait ShareLocks {
    /// Runs `act` with the holders of the row at `key` of `family`. No two calls for one row overlap, and what one did the
    /// next sees. `act` neither waits nor calls the table.
    fn with_holders<R>(&self, family: CfId, key: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R;
}

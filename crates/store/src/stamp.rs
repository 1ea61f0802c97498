//! The stamp of a version: its writer, or its commit position.
//!
//! | stamp | meaning |
//! |---|---|
//! | bit 63 set | written by the transaction whose id is in the low 63 bits; ask a [`Resolve`] |
//! | 1 | its transaction was rolled back |
//! | 4096 and above | the commit position |
//!
//! Only the writer stores a stamp, once, from the first form to one of the others ("final").

use collie_base::{Lsn, Xid};

pub(crate) use collie_sync::atomic;

/// The type of a stamp in memory.
pub type Word = atomic::AtomicU64;

const UNFINISHED: u64 = 1 << 63;
/// The stamp of a version that was rolled back.
pub(crate) const ABORTED: u64 = 1;

/// The status of the transaction that wrote a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// Still running.
    InProgress(Xid),
    /// Rolled back.
    Aborted,
    /// Committed at this position.
    Committed(Lsn),
}

impl TxnStatus {
    /// Returns the status that a final stamp records.
    ///
    /// # Errors
    /// The id of the writer, if the stamp is not final yet.
    pub fn of_final(stamp: &Word) -> Result<Self, Xid> {
        let raw = stamp.load(atomic::Ordering::Acquire);
        match raw {
            ABORTED => Ok(Self::Aborted),
            _ if raw & UNFINISHED == 0 => Ok(Self::Committed(Lsn::new(raw))),
            _ => Err(Xid::new(raw & !UNFINISHED)),
        }
    }
}

/// Returns the stamp of an unfinished version.
pub(crate) const fn unfinished(xid: Xid) -> u64 {
    UNFINISHED | xid.get()
}

/// Knows the status of transactions that have not stamped their versions yet.
pub trait Resolve {
    /// Returns the status of the version that carries `stamp`, which may become final during the call.
    fn resolve(&self, stamp: &Word) -> TxnStatus;
}

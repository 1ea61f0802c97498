//! The newest committed state of a row, beyond every snapshot: for callers that must know whether the row changed.

use collie_base::Lsn;
use collie_sync::ord;

use super::Row;
use super::chain::walk;
use crate::epoch::Pin;
use crate::stamp::atomic::Ordering::Acquire;
use crate::stamp::{Resolve, TxnStatus};

impl Row {
    /// Returns the position of the newest committed version, a deletion included; `None` if there is none. Ignores
    /// locks and unfinished versions, the caller's own included.
    ///
    /// At or above the horizon the answer is exact: such a version is removed only in favour of a newer one (R4, R5).
    pub(crate) fn newest_commit(&self, fates: &impl Resolve, pin: &Pin) -> Option<Lsn> {
        walk(self.head.load(ord!("ROW_HEAD_LOAD", Acquire)), pin).filter(|(_, version)| !version.is_lock()).find_map(
            |(_, version)| match version.fate(fates) {
                TxnStatus::Committed(csn) => Some(csn),
                TxnStatus::InProgress(_) | TxnStatus::Aborted => None,
            },
        )
    }

    /// Returns the newest state committed below `snapshot`, with its commit; `None` if it was deleted or there was
    /// none.
    pub(crate) fn state_below<'g>(&self, snapshot: Lsn, fates: &impl Resolve, pin: &'g Pin) -> Option<(Lsn, &'g [u8])> {
        walk(self.head.load(Acquire), pin)
            .filter(|(_, version)| !version.is_lock())
            .find_map(|(_, version)| match version.fate(fates) {
                TxnStatus::Committed(csn) if csn < snapshot => Some((csn, version)),
                _ => None,
            })
            .and_then(|(csn, version)| Some((csn, &version.value()?[..])))
    }
}

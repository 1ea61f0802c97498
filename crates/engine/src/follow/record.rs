//! `RecordAt`: the place of a record in a followed log, and the functions that visit records.

use collie_base::Lsn;
use collie_wal::RecordRef;

use crate::EngineError;

/// The place of a record in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordAt {
    /// At or below its first byte: the end of the record before it.
    pub(crate) since: Lsn,
    /// Its position, which is that of its last piece.
    pub(crate) lsn: Lsn,
}

/// A callback that gets the position, the tag and the payload of a record.
pub(crate) type VisitRecord<'v> = dyn FnMut(Lsn, u8, &[u8]) -> Result<(), EngineError> + 'v;

/// A callback that gets a record.
pub(crate) type VisitRef<'v> = dyn FnMut(RecordRef<'_>) -> Result<(), EngineError> + 'v;

//! Samples of the engine's own calls for `collie_obs`. These functions are out of line and run after the measured
//! time has ended.
//!
//! Units that are one call of a session are here; those of background threads are next to their work.

use collie_base::{LockStrength, Lsn};
use collie_obs::{
    Ended, LockWait, RowDelete, RowInsert, RowRead, RowUpdate, Scan, Span, TxnAbort, TxnBegin, TxnCommit, Wait,
    moment_for, start, start_wait, word,
};
use collie_store::{Family, Pending, Pin, ScanRequest, View};
use collie_txn::{Blocker, Isolation, RowLockRequest, Txns};

use crate::Write;
use crate::log::EngineLog;
use crate::log::txn_statuses::TxnStatuses;
use crate::redo::buffer::RedoBuffer;

/// Records a read of a row by its key.
#[cold]
pub(crate) fn row_read(
    ended: Ended<RowRead>,
    (family, key): (&Family, &[u8]),
    value_bytes: Option<usize>,
    (view, fates, pin): (&View, &TxnStatuses<'_>, &Pin),
) {
    let chain_steps = word(family.read_steps(key, view, fates, pin));
    let (value_bytes, found) = (word(value_bytes.unwrap_or(0)), u32::from(value_bytes.is_some()));
    ended.tell(Lsn::ZERO, RowRead { key_bytes: word(key.len()), value_bytes, chain_steps, found }, []);
}

/// Records the insertion of a row; `unique`: it was allowed only because the key was free.
#[cold]
pub(crate) fn row_insert(ended: Ended<RowInsert>, pending: &Pending, value_bytes: usize, unique: bool) {
    let (key_bytes, value_bytes) = (word(pending.row().key().len()), word(value_bytes));
    let insert = RowInsert { key_bytes, value_bytes, unique: u32::from(unique) };
    ended.tell(Lsn::ZERO, insert, [pending.bytes_with_row()]);
}

/// Versions are counted for at most this number of the first rows of a measured scan; the others are assumed to be
/// like them.
const STEPS_OF_ROWS: usize = 64;

/// Records a scan: the rows of `request` that were examined, those of them that were visited, and the bytes of
/// these.
#[cold]
pub(crate) fn scan(
    ended: Ended<Scan>,
    (family, request, reverse): (&Family, ScanRequest<'_>, bool),
    [examined, visited, bytes]: [usize; 3],
    (view, fates): (&View, &TxnStatuses<'_>),
) {
    let first = ScanRequest { limit: examined.clamp(1, STEPS_OF_ROWS), ..request };
    let [rows, steps] = family.scan_steps(first, view, fates);
    let scan = Scan {
        rows_examined: word(examined),
        rows_returned: word(visited),
        value_bytes: word(bytes),
        chain_steps: word(steps * examined / rows.max(1)),
        reverse: u32::from(reverse),
    };
    ended.tell(Lsn::ZERO, scan, []);
}

/// Returns the moment at which a transaction makes its first write, for sessions that will wait for its rows; 0
/// while no waits are measured.
#[inline]
pub(crate) fn first_write() -> u64 {
    moment_for::<LockWait>()
}

/// A measured wait for a row, which may end on another thread.
#[derive(Debug)]
pub(crate) struct MeasuredLockWait {
    wait: Wait<LockWait>,
    strength: LockStrength,
    /// When the holder made its first write; 0: not known.
    held_since: u64,
}

impl MeasuredLockWait {
    /// Begins to measure the wait for `blocker`; waits for tables are no unit.
    #[inline]
    pub(crate) fn start(blocker: &Blocker, txns: &Txns<EngineLog>) -> Option<Self> {
        let Blocker::Row(RowLockRequest { strength, holder, .. }) = blocker else { return None };
        let mut wait = start_wait()?;
        let held_since = txns.first_write(*holder).unwrap_or(0);
        wait.restart();
        Some(Self { wait, strength: *strength, held_since })
    }

    /// Records the end of the wait, which began behind `ahead` other waiters.
    #[cold]
    pub(crate) fn tell(self, ahead: usize) {
        let Self { wait, strength, held_since } = self;
        let strength = match strength {
            LockStrength::KeyShare => 0,
            LockStrength::Share => 1,
            LockStrength::NoKeyUpdate => 2,
            LockStrength::Update => 3,
        };
        let holder_age_us = wait.us_since(held_since);
        wait.stop_with(Lsn::ZERO, LockWait { strength, queue_len: word(ahead), holder_age_us }, []);
    }
}

/// A write to an existing row, in progress.
#[derive(Debug)]
pub(crate) enum Writing {
    Update(Span<RowUpdate>),
    Delete(Span<RowDelete>),
}

/// A [`Writing`] that has ended.
#[derive(Debug)]
pub(crate) enum WroteRow {
    Update(Ended<RowUpdate>),
    Delete(Ended<RowDelete>),
}

impl Writing {
    /// Begins to measure an update or a deletion; locks and moves are no units.
    #[inline]
    pub(crate) fn start(what: &Write<'_>) -> Option<Self> {
        match what {
            Write::Put(_) | Write::PutKeys(_) => start().map(Self::Update),
            Write::Delete => start().map(Self::Delete),
            Write::MoveTo { .. } | Write::Lock(_) => None,
        }
    }

    pub(crate) fn end(self) -> WroteRow {
        match self {
            Self::Update(span) => WroteRow::Update(span.end()),
            Self::Delete(span) => WroteRow::Delete(span.end()),
        }
    }
}

impl WroteRow {
    /// Records that the row has the version `pending`, after `tried` earlier calls for it by the same statement did
    /// not succeed.
    #[cold]
    pub(crate) fn tell(self, pending: &Pending, value_bytes: usize, tried: u32) {
        let row = pending.row();
        let (key_bytes, chain_len) = (word(row.key().len()), word(row.version_count()));
        match self {
            Self::Update(ended) => {
                let retries = tried.saturating_add(u32::from(pending.retries()));
                let update = RowUpdate { key_bytes, value_bytes: word(value_bytes), chain_len, retries };
                ended.tell(Lsn::ZERO, update, [pending.bytes_with_row()]);
            }
            Self::Delete(ended) => ended.tell(Lsn::ZERO, RowDelete { key_bytes, chain_len }, []),
        }
    }
}

/// Records the begin of a transaction.
#[cold]
pub(crate) fn txn_begin(ended: Ended<TxnBegin>, isolation: Isolation, txns: &Txns<EngineLog>) {
    let kind = match isolation {
        Isolation::ReadCommitted => 0,
        Isolation::RepeatableRead => 1,
        Isolation::Serializable => 2,
    };
    ended.tell(Lsn::ZERO, TxnBegin { kind, live_snapshots: word(txns.snapshots_held().0) }, []);
}

/// The amount that a transaction has written, taken before its end empties the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    rows: u64,
    redo_bytes: u64,
    chunks: u64,
}

impl Written {
    pub(crate) fn of(redo: &RedoBuffer) -> Self {
        Self { rows: redo.position(), redo_bytes: redo.bytes_written(), chunks: redo.chunks() }
    }

    /// Records the commit of the transaction, at `at` unless it wrote nothing.
    #[cold]
    pub(crate) fn committed(self, span: Span<TxnCommit>, at: Lsn) {
        let Self { rows, redo_bytes, chunks } = self;
        let (read_only, rows) = (u32::from(rows == 0), word(rows));
        span.stop_with(at, TxnCommit { rows, redo_bytes: word(redo_bytes), chunks: word(chunks), read_only }, []);
    }

    /// Records that the transaction was undone.
    #[cold]
    pub(crate) fn undone(self, span: Span<TxnAbort>) {
        span.stop(TxnAbort { rows: word(self.rows), redo_bytes: word(self.redo_bytes) });
    }
}

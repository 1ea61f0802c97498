//! Figures of flushes by family: how many, and why.

use collie_base::{CfId, Map};

/// Why a family was flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushCause {
    /// It had `store.write_buffer_size` bytes of unflushed rows.
    Size,
    /// It needed the oldest part of a log that was too long.
    LogLimit,
    /// Old versions, or all rows, took up too much memory.
    Memory,
    /// Somebody asked for these families.
    Call,
    /// Somebody asked for all families.
    Checkpoint,
    /// The database was closed, and it had rows that the log has not.
    Close,
    /// Another family of its group was dropped.
    Drop,
    /// A write or a sync of its tree failed.
    Failure,
}

/// Flushes of one family since the open; those of an atomic group count for each of its families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyFlushStat {
    /// For its unflushed rows (`store.write_buffer_size`).
    pub by_size: u64,
    /// For the length of the log (`wal.max_total_wal_size`).
    pub by_log_limit: u64,
    /// For memory (`store.memory_limit`, `txn.old_version_memory`).
    pub by_memory: u64,
    /// By a call for some families.
    pub by_call: u64,
    /// By a call for all families, as CHECKPOINT is.
    pub by_checkpoint: u64,
    /// By a close.
    pub by_close: u64,
    /// To take out the rows of a dropped family of its group.
    pub by_drop: u64,
    /// To write its tree anew, after a write or a sync of it failed.
    pub by_failure: u64,
    /// Row states that all of them brought.
    pub rows: u64,
    /// Times that its rows were written to the log once more instead.
    pub relogs: u64,
    /// Rows of these.
    pub relogged_rows: u64,
    /// Bytes of keys and values of these.
    pub relogged_bytes: u64,
}

impl FamilyFlushStat {
    /// Returns how many flushes there were.
    pub const fn flushes(&self) -> u64 {
        let asked = self.by_call + self.by_checkpoint + self.by_close;
        self.by_size + self.by_log_limit + self.by_memory + self.by_drop + self.by_failure + asked
    }

    const fn of_cause(&mut self, cause: FlushCause) -> &mut u64 {
        match cause {
            FlushCause::Size => &mut self.by_size,
            FlushCause::LogLimit => &mut self.by_log_limit,
            FlushCause::Memory => &mut self.by_memory,
            FlushCause::Call => &mut self.by_call,
            FlushCause::Checkpoint => &mut self.by_checkpoint,
            FlushCause::Close => &mut self.by_close,
            FlushCause::Drop => &mut self.by_drop,
            FlushCause::Failure => &mut self.by_failure,
        }
    }
}

/// The figures of all families.
#[derive(Debug, Default)]
pub(crate) struct FlushFigures(Map<CfId, FamilyFlushStat>);

impl FlushFigures {
    /// Counts a flush that was recorded.
    pub(crate) fn flushed(&mut self, cf: CfId, cause: FlushCause, rows: u64) {
        let stat = self.0.entry(cf).or_default();
        *stat.of_cause(cause) += 1;
        stat.rows += rows;
    }

    /// Counts a re-log.
    pub(crate) fn relogged(&mut self, cf: CfId, rows: u64, bytes: u64) {
        let stat = self.0.entry(cf).or_default();
        stat.relogs += 1;
        stat.relogged_rows += rows;
        stat.relogged_bytes += bytes;
    }

    /// Forgets a dropped family.
    pub(crate) fn forget(&mut self, cf: CfId) {
        self.0.remove(&cf);
    }

    pub(crate) fn of(&self, cf: CfId) -> FamilyFlushStat {
        self.0.get(&cf).copied().unwrap_or_default()
    }
}

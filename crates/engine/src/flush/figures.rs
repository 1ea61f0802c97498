//! Figures of flushes by family: their number, by cause.

use collie_base::{CfId, Map};

/// Why a family was flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushCause {
    /// The family had `store.write_buffer_size` bytes of unflushed rows.
    Size,
    /// It needed the oldest part of a log that was too long, or the disk was full.
    LogLimit,
    /// Old versions, or all rows, took up too much memory.
    Memory,
    /// A caller asked for these families.
    Call,
    /// A caller asked for all families.
    Checkpoint,
    /// The database was closed, and the family had rows that are not in the log.
    Close,
    /// Another family of its group was dropped.
    Drop,
    /// A write or a sync of its tree failed, or a file of the tree has rotted.
    Failure,
}

/// Flushes of one family since the opening; a flush of an atomic group is counted for each of its families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyFlushStat {
    /// For its unflushed rows (`store.write_buffer_size`).
    pub by_size: u64,
    /// For the length of the log (`wal.max_total_wal_size`), or for a full disk.
    pub by_log_limit: u64,
    /// For memory (`store.memory_limit`, `txn.old_version_memory`).
    pub by_memory: u64,
    /// By a call for some families.
    pub by_call: u64,
    /// By a call for all families, such as CHECKPOINT.
    pub by_checkpoint: u64,
    /// By a close.
    pub by_close: u64,
    /// To take out the rows of a dropped family of its group.
    pub by_drop: u64,
    /// To rewrite its tree after a write or a sync of it failed or a file rotted.
    pub by_failure: u64,
    /// Row states that all these flushes wrote.
    pub rows: u64,
    /// Times that its rows were logged again instead.
    pub relogs: u64,
    /// Rows logged again.
    pub relogged_rows: u64,
    /// Bytes of the keys and values logged again.
    pub relogged_bytes: u64,
}

impl FamilyFlushStat {
    /// Returns the number of flushes.
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
    /// Counts a recorded flush.
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

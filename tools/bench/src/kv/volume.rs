//! `Volume`: bytes that an open database has written; `Put`: those of one benchmark, and their ratios to the user's.
//!
//! | figure | is |
//! |---|---|
//! | `WAF_lsm` | (flush + compaction) / flush: RocksDB's `W-Amp`; without the log, so `disable_wal` cannot change it |
//! | `WAF_total` | (log + flush + compaction) / keys and values written |
//! | `WAF_dev` | bytes that the process has written to a device / keys and values written; Linux only |
//! | `SAF` | (tables + kept log) / live keys and values |
//! | `SAF_lsm` | the same without the log |
//!
//! The log counts with its kept bytes: the rest of its files is prepared in advance and does not belong to these rows.
//!
//! # Invariants
//! - V1. A ratio with the divisor 0 is not reported: no flush, no bytes written, no live bytes.

use std::ops::ControlFlow;

use collie_kv::{Cf, Db, Error};

use crate::measures::float;

/// Counters since the opening of the database; `device_bytes` since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    /// Bytes of frames written to the log's files.
    pub(super) log_bytes: u64,
    pub(super) flush_bytes: u64,
    pub(super) compaction_bytes: u64,
    /// `None`: the system does not report it.
    pub(super) device_bytes: Option<u64>,
}

impl Volume {
    /// Reads the counters.
    pub(super) fn of(db: &Db) -> Self {
        let levels = db.engine().level_stat();
        let log = db.engine().log().map(collie_wal::Log::stat).unwrap_or_default();
        Self {
            log_bytes: log.file_bytes,
            flush_bytes: levels.flush_bytes,
            compaction_bytes: levels.compaction_bytes,
            device_bytes: device_bytes(&std::fs::read_to_string("/proc/self/io").unwrap_or_default()),
        }
    }

    /// Returns the counts since `before`, of the same open database.
    pub(super) fn since(&self, before: &Self) -> Self {
        let device = self.device_bytes.zip(before.device_bytes);
        Self {
            log_bytes: self.log_bytes.saturating_sub(before.log_bytes),
            flush_bytes: self.flush_bytes.saturating_sub(before.flush_bytes),
            compaction_bytes: self.compaction_bytes.saturating_sub(before.compaction_bytes),
            device_bytes: device.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// Finds the bytes that a process has written to devices in the text of `/proc/PID/io`.
fn device_bytes(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse().ok())
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole)) // V1
}

/// Bytes written and on disk for one benchmark and those after it that did not write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Put {
    pub(super) user_bytes: u64,
    pub(super) volume: Volume,
    /// Bytes of tables, and of the kept part of the log.
    pub(super) table_bytes: u64,
    pub(super) log_bytes: u64,
    /// Keys and values that a reader finds.
    pub(super) live_bytes: u64,
    /// Most bytes of log kept at one time.
    pub(super) log_peak_bytes: u64,
    /// The bytes from which on the engine releases log: the requested limit, or the one that it chose.
    pub(super) log_limit_bytes: u64,
    pub(super) segment_bytes: u64,
}

impl Put {
    pub(super) fn waf_lsm(&self) -> Option<f64> {
        ratio(self.volume.flush_bytes + self.volume.compaction_bytes, self.volume.flush_bytes)
    }

    pub(super) fn waf_total(&self) -> Option<f64> {
        let Volume { log_bytes, flush_bytes, compaction_bytes, .. } = self.volume;
        ratio(log_bytes + flush_bytes + compaction_bytes, self.user_bytes)
    }

    pub(super) fn waf_dev(&self) -> Option<f64> {
        self.volume.device_bytes.and_then(|bytes| ratio(bytes, self.user_bytes))
    }

    pub(super) fn saf(&self) -> Option<f64> {
        ratio(self.table_bytes + self.log_bytes, self.live_bytes)
    }

    pub(super) fn saf_lsm(&self) -> Option<f64> {
        ratio(self.table_bytes, self.live_bytes)
    }
}

/// Returns the bytes of tables, and of the rows of `cfs` that a reader finds.
///
/// # Errors
/// Those of the engine.
pub(super) fn table_and_live_bytes(db: &Db, cfs: &[Cf]) -> Result<(u64, u64), Error> {
    let snapshot = db.snapshot()?;
    let mut live_bytes = 0;
    for cf in cfs {
        snapshot.scan(cf, ..).visit(|key, value| {
            live_bytes += (key.len() + value.len()) as u64;
            ControlFlow::Continue(())
        })?;
    }
    Ok((db.engine().level_stat().trees.iter().map(|tree| tree.bytes).sum(), live_bytes))
}

/// Returns the bytes of log that an opening would need. Loads two positions without locking the log.
pub(super) fn kept_log_bytes(db: &Db) -> u64 {
    if db.engine().log().is_none() {
        return 0;
    }
    let (start, end) = (db.engine().flush_stat().log_start, db.durable());
    if end > start { end.bytes_since(start) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each ratio uses the right bytes, and none is reported with divisor 0 (V1). Method: invented counters.
    #[test]
    fn ratios_are_of_the_right_bytes() {
        let before = Volume { log_bytes: 100, flush_bytes: 10, compaction_bytes: 0, device_bytes: Some(5) };
        let after = Volume { log_bytes: 1_300, flush_bytes: 510, compaction_bytes: 250, device_bytes: Some(3_005) };
        let volume = after.since(&before);
        let put =
            Put { user_bytes: 1_000, volume, table_bytes: 300, log_bytes: 200, live_bytes: 250, ..Put::default() };
        assert_eq!([put.waf_lsm(), put.waf_total(), put.waf_dev()], [Some(1.5), Some(1.95), Some(3.0)]);
        assert_eq!([put.saf(), put.saf_lsm()], [Some(2.0), Some(1.2)]);
        // Without the log the first ratio is the same, the second is not.
        let unlogged = Put { volume: Volume { log_bytes: 0, ..volume }, ..put };
        assert_eq!([unlogged.waf_lsm(), unlogged.waf_total()], [Some(1.5), Some(0.75)]);
        let none = Put::default();
        let all = [none.waf_lsm(), none.waf_total(), none.waf_dev(), none.saf(), none.saf_lsm()];
        assert_eq!(all, [None; 5]);
    }

    /// Goal: the system's counter of a process is parsed. Method: its text; a text without the line.
    #[test]
    fn device_bytes_are_found() {
        assert_eq!(device_bytes("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n"), Some(4_096));
        assert_eq!(device_bytes("rchar: 1\n"), None);
    }
}

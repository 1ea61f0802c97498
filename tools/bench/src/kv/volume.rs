//! `Volume`: bytes and calls that an open database has counted; `Amplification` and `Space`: their ratios to the user's
//! bytes.
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

/// Counters since the opening of the database; `device_bytes` since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    /// Bytes of frames written to the log's files.
    pub(super) log_bytes: u64,
    pub(super) flush_bytes: u64,
    pub(super) compaction_bytes: u64,
    /// `None`: the system does not report it.
    pub(super) device_bytes: Option<u64>,
    pub(super) frames: u64,
    pub(super) syncs: u64,
    pub(super) flushes: u64,
    pub(super) compactions: u64,
    /// Appends that found the ring full and waited.
    pub(super) ring_full: u64,
    /// Writes that waited because flushes were behind: slowed, and stopped.
    pub(super) slowed: u64,
    pub(super) stopped: u64,
}

impl Volume {
    /// Reads the counters.
    pub(super) fn of(db: &Db) -> Self {
        let levels = db.engine().level_stat();
        let stalls = db.engine().stall_stat();
        let log = db.engine().log().map(collie_wal::Log::stat).unwrap_or_default();
        Self {
            log_bytes: log.file_bytes,
            flush_bytes: levels.flush_bytes,
            compaction_bytes: levels.compaction_bytes,
            device_bytes: device_bytes(&std::fs::read_to_string("/proc/self/io").unwrap_or_default()),
            frames: log.frames,
            syncs: log.syncs,
            flushes: levels.flushes,
            compactions: levels.compactions,
            ring_full: log.ring_full,
            slowed: stalls.slowed.count,
            stopped: stalls.stopped.count,
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
            frames: self.frames.saturating_sub(before.frames),
            syncs: self.syncs.saturating_sub(before.syncs),
            flushes: self.flushes.saturating_sub(before.flushes),
            compactions: self.compactions.saturating_sub(before.compactions),
            ring_full: self.ring_full.saturating_sub(before.ring_full),
            slowed: self.slowed.saturating_sub(before.slowed),
            stopped: self.stopped.saturating_sub(before.stopped),
        }
    }
}

/// Finds the bytes that a process has written to devices in the text of `/proc/PID/io`.
fn device_bytes(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse().ok())
}

/// Bytes written per byte of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amplification {
    pub(super) lsm: Option<f64>,
    pub(super) total: Option<f64>,
    pub(super) device: Option<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "ratios for people")]
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64) // V1
}

impl Amplification {
    /// Returns the amplification of `volume`, written for `user_bytes` of keys and values.
    pub(super) fn of(volume: &Volume, user_bytes: u64) -> Self {
        let levels = volume.flush_bytes + volume.compaction_bytes;
        Self {
            lsm: ratio(levels, volume.flush_bytes),
            total: ratio(levels + volume.log_bytes, user_bytes),
            device: volume.device_bytes.and_then(|bytes| ratio(bytes, user_bytes)),
        }
    }
}

/// Bytes on the disk, and the live bytes that they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) table_bytes: u64,
    /// The kept part of the log.
    pub(super) log_bytes: u64,
    /// The log's files, including prepared ones.
    pub(super) log_file_bytes: u64,
    /// Keys and values that a reader finds.
    pub(super) live_bytes: u64,
}

impl Space {
    /// Determines the space; reads every row of `cfs` for it.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn of(db: &Db, cfs: &[Cf], segment_bytes: u64) -> Result<Self, Error> {
        let snapshot = db.snapshot()?;
        let mut live_bytes = 0;
        for cf in cfs {
            snapshot.scan(cf, ..).visit(|key, value| {
                live_bytes += (key.len() + value.len()) as u64;
                ControlFlow::Continue(())
            })?;
        }
        let files = db.engine().log().map_or(0, |log| {
            let stat = log.stat();
            (stat.segments + stat.spares) as u64
        });
        Ok(Self {
            table_bytes: db.engine().level_stat().trees.iter().map(|tree| tree.bytes).sum(),
            log_bytes: kept_log_bytes(db),
            log_file_bytes: files * segment_bytes,
            live_bytes,
        })
    }

    /// Returns `SAF` and `SAF_lsm`.
    pub(super) fn amplification(&self) -> [Option<f64>; 2] {
        [self.table_bytes + self.log_bytes, self.table_bytes].map(|bytes| ratio(bytes, self.live_bytes))
    }
}

/// Returns the bytes of log that an opening would need. Loads two positions without locking the log.
pub(super) fn kept_log_bytes(db: &Db) -> u64 {
    if db.engine().log().is_none() {
        return 0;
    }
    let (start, end) = (db.engine().flush_stat().log_start, db.durable());
    if end > start { end.bytes_since(start) } else { 0 }
}

/// Bytes written and on disk for one benchmark and those after it that did not write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Put {
    pub(super) user_bytes: u64,
    pub(super) volume: Volume,
    pub(super) space: Space,
    /// Most bytes of log kept at one time.
    pub(super) log_peak_bytes: u64,
    /// The bytes from which on the engine releases log: the requested limit, or the one that it chose.
    pub(super) log_limit_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) open_files_peak: u64,
    /// The compression of the tables.
    pub(super) compression: &'static str,
}

/// Formats a ratio with two decimals, or `-` if there is none.
pub(super) fn shown(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}

impl Put {
    /// Returns the lines about it.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { user_bytes, volume, space, .. } = self;
        let Amplification { lsm, total, device } = Amplification::of(volume, *user_bytes);
        let [with_log, tables] = space.amplification();
        vec![
            format!(
                "  written    : WAF_lsm {} WAF_total {} WAF_dev {}; user {}, log {}, flush {}, compaction {} ({})",
                shown(lsm),
                shown(total),
                shown(device),
                mebibytes(*user_bytes),
                mebibytes(volume.log_bytes),
                mebibytes(volume.flush_bytes),
                mebibytes(volume.compaction_bytes),
                self.compression
            ),
            format!(
                "  space      : SAF {} SAF_lsm {}; live {}, tables {} ({}), log {} of files of {}, log peak {}",
                shown(with_log),
                shown(tables),
                mebibytes(space.live_bytes),
                mebibytes(space.table_bytes),
                self.compression,
                mebibytes(space.log_bytes),
                mebibytes(space.log_file_bytes),
                mebibytes(self.log_peak_bytes)
            ),
            format!(
                "  counters   : {} syncs, {} frames, {} flushes, {} compactions, at most {} open files, stalls: {} of a full \
                 ring, {} slowed and {} stopped by a long log",
                volume.syncs,
                volume.frames,
                volume.flushes,
                volume.compactions,
                self.open_files_peak,
                volume.ring_full,
                volume.slowed,
                volume.stopped
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each ratio uses the right bytes, and none is reported with divisor 0 (V1). Method: invented counters.
    #[test]
    fn ratios_are_of_the_right_bytes() {
        let before = Volume { log_bytes: 100, flush_bytes: 10, device_bytes: Some(5), ..Volume::default() };
        let after = Volume {
            log_bytes: 1_300,
            flush_bytes: 510,
            compaction_bytes: 250,
            device_bytes: Some(3_005),
            syncs: 3,
            ..Volume::default()
        };
        let volume = after.since(&before);
        assert_eq!((volume.log_bytes, volume.flush_bytes, volume.syncs), (1_200, 500, 3));
        let found = Amplification::of(&volume, 1_000);
        assert_eq!(found, Amplification { lsm: Some(1.5), total: Some(1.95), device: Some(3.0) });
        // Without the log the first ratio is the same, the second is not.
        let unlogged = Volume { log_bytes: 0, ..volume };
        let found = Amplification::of(&unlogged, 1_000);
        assert_eq!((found.lsm, found.total), (Some(1.5), Some(0.75)));
        let nothing = Amplification::of(&Volume::default(), 0);
        assert_eq!(nothing, Amplification::default());
        let space = Space { table_bytes: 300, log_bytes: 200, log_file_bytes: 4_096, live_bytes: 250 };
        assert_eq!(space.amplification(), [Some(2.0), Some(1.2)]);
        assert_eq!(Space::default().amplification(), [None, None]);
        let lines = Put { user_bytes: 1_000, volume, space, ..Put::default() }.lines().join("\n");
        assert!(
            lines.contains("WAF_lsm 1.50 WAF_total 1.95 WAF_dev 3.00;") && lines.contains("SAF 2.00 SAF_lsm 1.20;")
        );
        assert!(lines.contains("3 syncs") && lines.contains("stalls: 0 of"), "{lines}");
    }

    /// Goal: the system's counter of a process is parsed. Method: its text; a text without the line.
    #[test]
    fn device_bytes_are_found() {
        assert_eq!(device_bytes("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n"), Some(4_096));
        assert_eq!(device_bytes("rchar: 1\n"), None);
    }
}

//! `LogLimit`: how long the log may get before families are flushed so that it can be cut
//! (`wal.max_total_wal_size`).
//!
//! The configured size, or else eight times the bytes that the families may have unflushed, within 1 and 16 GiB and
//! at most a quarter of the log's file system. Never so large that `wal.max_segments` would refuse writers before
//! they are stopped at twice the limit, and never below two segments.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::Options;

const AUTO_BYTES: std::ops::RangeInclusive<u64> = 1 << 30..=16 << 30;

/// The limit of the log.
#[derive(Debug)]
pub(crate) struct LogLimit {
    /// 0: none. It can change while the database is open and publishes nothing else, so accesses are Relaxed.
    asked: AtomicU64,
    // Constant after open.
    segment_bytes: u64,
    /// Upper bound of the limit that is chosen where none was configured.
    auto_bytes_max: u64,
    /// Upper bound of any limit.
    bytes_max: u64,
}

impl LogLimit {
    /// Makes the limit of a log on a file system of `disk_bytes`, if that is known.
    pub(crate) fn new(options: &Options, disk_bytes: Option<u64>) -> Self {
        let log = &options.log;
        // Two limits, the file that is being written, and the spare files.
        let files = log.max_segments.saturating_sub(log.spares.saturating_add(3)) / 2;
        Self {
            asked: AtomicU64::new(options.max_total_wal_size),
            segment_bytes: log.segment_bytes,
            auto_bytes_max: disk_bytes.map_or(u64::MAX, |bytes| bytes / 4).min(*AUTO_BYTES.end()),
            bytes_max: u64::from(files).saturating_mul(log.segment_bytes),
        }
    }

    /// Sets another limit; 0 chooses one.
    pub(crate) fn ask(&self, bytes: u64) {
        self.asked.store(bytes, Relaxed);
    }

    /// Returns the limit in bytes for `families` families with at most `write_buffer_bytes` of unflushed bytes
    /// each.
    pub(crate) fn bytes(&self, families: u64, write_buffer_bytes: u64) -> u64 {
        let chosen = match self.asked.load(Relaxed) {
            0 => {
                let unflushed = families.saturating_mul(write_buffer_bytes).saturating_mul(8);
                unflushed.max(*AUTO_BYTES.start()).min(self.auto_bytes_max)
            }
            asked => asked,
        };
        chosen.min(self.bytes_max).max(self.segment_bytes.saturating_mul(2))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn limit(asked: u64, disk_bytes: Option<u64>, max_segments: u32) -> LogLimit {
        let mut options = Options { max_total_wal_size: asked, ..Options::default() };
        (options.log.segment_bytes, options.log.max_segments, options.log.spares) = (64 * MIB, max_segments, 2);
        LogLimit::new(&options, disk_bytes)
    }

    /// Goal: the limit of the log is the configured one, or that of the formula, within a quarter of the disk and
    /// within the files that are allowed, and at least two segments. Method: the ends of each range.
    #[test]
    fn log_limit_is_what_was_asked_or_the_formula_within_disk_and_files() {
        let auto = limit(0, None, 1024);
        assert_eq!([1, 10, 1000].map(|families| auto.bytes(families, 64 * MIB)), [GIB, 5 * GIB, 16 * GIB]);
        assert_eq!(limit(0, Some(8 * GIB), 1024).bytes(1000, 64 * MIB), 2 * GIB, "a quarter of the file system");
        assert_eq!(limit(0, Some(2 * GIB), 1024).bytes(1, 64 * MIB), 512 * MIB);
        assert_eq!(limit(1, Some(2 * GIB), 1024).bytes(1000, 64 * MIB), 128 * MIB, "two segments");
        assert_eq!(
            limit(500 * MIB, Some(GIB), 1024).bytes(1, 64 * MIB),
            500 * MIB,
            "what was asked is not corrected by the disk"
        );
        // 8 files: two limits of one file each would fit; the minimum is two.
        assert_eq!(limit(500 * MIB, None, 8).bytes(1, 64 * MIB), 128 * MIB);
        assert_eq!(limit(500 * MIB, None, 15).bytes(1, 64 * MIB), 5 * 64 * MIB);
        auto.ask(300 * MIB);
        assert_eq!(auto.bytes(1000, 64 * MIB), 300 * MIB);
        auto.ask(0);
        assert_eq!(auto.bytes(1, 64 * MIB), GIB);
    }
}

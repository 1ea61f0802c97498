//! A method per setting, to be chained. Settings of the log have `wal` in their names, as in RocksDB or as a prefix.

use std::path::PathBuf;
use std::time::Duration;

use collie_engine::Compression;
use collie_wal::{RecoveryMode, RingKind};

use super::Options;

/// Defines methods that set a field and return the options.
macro_rules! setters {
    ($($name:ident: $type:ty = $($field:ident).+, $text:literal;)*) => {
        impl Options {
            $(
                #[doc = concat!("Sets ", $text, ".")]
                #[must_use]
                pub const fn $name(mut self, value: $type) -> Self {
                    self.$($field).+ = value;
                    self
                }
            )*
        }
    };
}

setters! {
    create_if_missing: bool = create_if_missing, "[`create_if_missing`](field@Options::create_if_missing)";
    read_only: bool = read_only, "[`read_only`](field@Options::read_only)";
    memory_limit: u64 = store.memory_limit, "[`store.memory_limit`](crate::StoreOptions::memory_limit)";
    recovery_threads: usize = store.recovery_threads, "[`store.recovery_threads`](crate::StoreOptions::recovery_threads)";
    write_buffer_size: u64 = store.write_buffer_size, "[`store.write_buffer_size`](crate::StoreOptions::write_buffer_size)";
    gc_interval: Duration = store.gc_interval, "[`store.gc_interval`](crate::StoreOptions::gc_interval)";
    compression: Compression = store.compression, "[`store.compression`](crate::StoreOptions::compression)";
    compaction_threads: usize = store.compaction_threads, "[`store.compaction_threads`](crate::StoreOptions::compaction_threads)";
    avoid_flush_at_close: bool = store.avoid_flush_at_close, "[`store.avoid_flush_at_close`](crate::StoreOptions::avoid_flush_at_close)";
    allow_replication_holes: bool = store.allow_replication_holes, "[`store.allow_replication_holes`](crate::StoreOptions::allow_replication_holes)";
    wal_enabled: bool = wal.enabled, "[`wal.enabled`](crate::WalOptions::enabled)";
    wal_ring: RingKind = wal.ring, "[`wal.ring`](crate::WalOptions::ring)";
    wal_ring_size: u64 = wal.ring_size, "[`wal.ring_size`](crate::WalOptions::ring_size)";
    wal_chunk_size: u64 = wal.chunk_size, "[`wal.chunk_size`](crate::WalOptions::chunk_size)";
    wal_slots: u32 = wal.slots, "[`wal.slots`](crate::WalOptions::slots)";
    wal_frame_size: u64 = wal.frame_size, "[`wal.frame_size`](crate::WalOptions::frame_size)";
    wal_segment_size: u64 = wal.segment_size, "[`wal.segment_size`](crate::WalOptions::segment_size)";
    wal_spares: u32 = wal.spares, "[`wal.spares`](crate::WalOptions::spares)";
    wal_max_segments: u32 = wal.max_segments, "[`wal.max_segments`](crate::WalOptions::max_segments)";
    max_total_wal_size: u64 = wal.max_total_wal_size, "[`wal.max_total_wal_size`](crate::WalOptions::max_total_wal_size)";
    wal_flush_delay: Duration = wal.flush_delay, "[`wal.flush_delay`](crate::WalOptions::flush_delay)";
    wal_flush_bytes: u64 = wal.flush_bytes, "[`wal.flush_bytes`](crate::WalOptions::flush_bytes)";
    manual_wal_flush: bool = wal.manual_wal_flush, "[`wal.manual_wal_flush`](crate::WalOptions::manual_wal_flush)";
    wal_recovery_mode: RecoveryMode = wal.recovery_mode, "[`wal.recovery_mode`](crate::WalOptions::recovery_mode)";
    max_sessions: usize = txn.max_sessions, "[`txn.max_sessions`](crate::TxnSettings::max_sessions)";
    xid_slots: usize = txn.xid_slots, "[`txn.xid_slots`](crate::TxnSettings::xid_slots)";
    old_version_memory: u64 = txn.old_version_memory, "[`txn.old_version_memory`](crate::TxnSettings::old_version_memory)";
}

impl Options {
    /// Sets [`wal.wal_dir`](crate::WalOptions::wal_dir).
    #[must_use]
    pub fn wal_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.wal.wal_dir = Some(dir.into());
        self
    }

    /// Sets [`wal.ring_dir`](crate::WalOptions::ring_dir).
    #[must_use]
    pub fn wal_ring_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.wal.ring_dir = dir.into();
        self
    }

    /// Sets [`txn.max_snapshot_age`](crate::TxnSettings::max_snapshot_age).
    #[must_use]
    pub const fn max_snapshot_age(mut self, age: Duration) -> Self {
        self.txn.max_snapshot_age = Some(age);
        self
    }
}

#[cfg(test)]
mod tests {
    use collie_engine::OPTION_NAMES;

    use super::*;

    /// Goal: each method sets the setting of its name and no other, and every setting has one. Method: all of them,
    /// compared with [`Options::set`] from a text that is no default.
    #[test]
    fn methods_set_what_names_set() {
        let new = Options::new;
        let seconds = Duration::from_secs;
        let cases = [
            (new().create_if_missing(false), "create_if_missing", "false"),
            (new().read_only(true), "read_only", "true"),
            (new().allow_replication_holes(true), "store.allow_replication_holes", "true"),
            (new().avoid_flush_at_close(true), "store.avoid_flush_at_close", "true"),
            (new().compaction_threads(7), "store.compaction_threads", "7"),
            (new().compression(Compression::None), "store.compression", "none"),
            (new().gc_interval(Duration::from_millis(9)), "store.gc_interval", "9ms"),
            (new().memory_limit(3 << 30), "store.memory_limit", "3GiB"),
            (new().recovery_threads(3), "store.recovery_threads", "3"),
            (new().write_buffer_size(1 << 20), "store.write_buffer_size", "1MiB"),
            (new().max_sessions(12), "txn.max_sessions", "12"),
            (new().max_snapshot_age(seconds(5)), "txn.max_snapshot_age", "5s"),
            (new().old_version_memory(1 << 20), "txn.old_version_memory", "1MiB"),
            (new().xid_slots(64), "txn.xid_slots", "64"),
            (new().wal_chunk_size(4096), "wal.chunk_size", "4KiB"),
            (new().wal_enabled(false), "wal.enabled", "false"),
            (new().wal_flush_bytes(5), "wal.flush_bytes", "5"),
            (new().wal_flush_delay(seconds(1)), "wal.flush_delay", "1s"),
            (new().wal_frame_size(8192), "wal.frame_size", "8KiB"),
            (new().manual_wal_flush(true), "wal.manual_wal_flush", "true"),
            (new().wal_max_segments(9), "wal.max_segments", "9"),
            (new().max_total_wal_size(1 << 30), "wal.max_total_wal_size", "1GiB"),
            (new().wal_recovery_mode(RecoveryMode::PointInTime), "wal.recovery_mode", "point_in_time"),
            (new().wal_ring(RingKind::Auto), "wal.ring", "auto"),
            (new().wal_ring_dir("/tmp"), "wal.ring_dir", "/tmp"),
            (new().wal_ring_size(1 << 20), "wal.ring_size", "1MiB"),
            (new().wal_segment_size(8 << 20), "wal.segment_size", "8MiB"),
            (new().wal_slots(5), "wal.slots", "5"),
            (new().wal_spares(6), "wal.spares", "6"),
            (new().wal_dir("/log"), "wal.wal_dir", "/log"),
        ];
        assert_eq!(cases.each_ref().map(|(_, name, _)| *name), OPTION_NAMES);
        for (options, name, value) in cases {
            let mut named = new();
            named.set(name, value).unwrap();
            assert_eq!(options, named, "{name}");
            assert_ne!(options, new(), "{name} = {value} is the default");
        }
    }
}

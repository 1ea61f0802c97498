//! The names of the settings of a database, `table.field`, and the nearest known name of a wrong one.

/// Every name of a setting with which a database can be opened, in ascending order.
pub const OPTION_NAMES: [&str; 30] = [
    "create_if_missing",
    "read_only",
    "store.allow_replication_holes",
    "store.avoid_flush_at_close",
    "store.compaction_threads",
    "store.compression",
    "store.gc_interval",
    "store.memory_limit",
    "store.recovery_threads",
    "store.write_buffer_size",
    "txn.max_sessions",
    "txn.max_snapshot_age",
    "txn.old_version_memory",
    "txn.xid_slots",
    "wal.chunk_size",
    "wal.enabled",
    "wal.flush_bytes",
    "wal.flush_delay",
    "wal.frame_size",
    "wal.manual_wal_flush",
    "wal.max_segments",
    "wal.max_total_wal_size",
    "wal.recovery_mode",
    "wal.ring",
    "wal.ring_dir",
    "wal.ring_size",
    "wal.segment_size",
    "wal.slots",
    "wal.spares",
    "wal.wal_dir",
];

/// Returns the known name at the smallest edit distance from a name that no setting has.
pub fn nearest_option(name: &str) -> &'static str {
    OPTION_NAMES.into_iter().min_by_key(|known| strsim::levenshtein(name, known)).unwrap_or_default()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: the name that a person meant is suggested. Method: wrong names, and the names that are nearest to them.
    #[test]
    fn the_nearest_name_is_suggested() {
        for (wrong, near) in [
            ("wal.flush_dely", "wal.flush_delay"),
            ("flush_delay", "wal.flush_delay"),
            ("wal.segmentsize", "wal.segment_size"),
            ("txn.max_session", "txn.max_sessions"),
            ("create_if_mising", "create_if_missing"),
        ] {
            assert_eq!(nearest_option(wrong), near);
        }
        assert!(OPTION_NAMES.is_sorted());
    }
}

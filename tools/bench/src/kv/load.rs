//! `Load`: the benchmarks of one cell and the settings of its database, and the same as flags of db_bench.

use super::workload::Workload;

/// Bytes of a key and of a value: db_bench's defaults.
pub(super) const KEY_BYTES: usize = 16;
pub(super) const VALUE_BYTES: usize = 100;

/// The benchmarks in order, and how they run.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) benchmarks: Vec<Workload>,
    pub(super) num: u64,
    pub(super) seed: u64,
    pub(super) threads: u32,
    pub(super) families: u64,
    pub(super) disable_wal: bool,
    pub(super) sync: bool,
    pub(super) manual_wal_flush: bool,
    /// Whether the time of each operation is recorded.
    pub(super) latencies: bool,
    pub(super) write_buffer_size: Option<u64>,
    pub(super) max_total_wal_size: Option<u64>,
    /// Length of the log's files; the peer has none of a set length.
    pub(super) segment_bytes: Option<u64>,
    /// Whether the peer leaves its tables unmerged.
    pub(super) peer_keeps_tables: bool,
}

impl Load {
    /// Returns a load of `num` keys on one thread, with the settings of a new database.
    pub(super) fn new(benchmarks: &[Workload], num: u64, seed: u64) -> Self {
        Self {
            benchmarks: benchmarks.to_vec(),
            num: num.max(1),
            seed,
            threads: 1,
            families: 1,
            disable_wal: false,
            sync: false,
            manual_wal_flush: false,
            latencies: false,
            write_buffer_size: None,
            max_total_wal_size: None,
            segment_bytes: None,
            peer_keeps_tables: false,
        }
    }

    /// Returns the settings as db_bench's flags, without the benchmarks.
    pub(super) fn for_peer(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--num={}", self.num),
            format!("--seed={}", self.seed),
            format!("--threads={}", self.threads),
            format!("--num_column_families={}", self.families),
            "--compression_type=lz4".to_owned(),
        ];
        let switches = [
            ("disable_wal", self.disable_wal),
            ("sync", self.sync),
            ("manual_wal_flush", self.manual_wal_flush),
            ("histogram", self.latencies),
            ("disable_auto_compactions", self.peer_keeps_tables),
        ];
        flags.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| format!("--{name}=1")));
        let sizes = [("write_buffer_size", self.write_buffer_size), ("max_total_wal_size", self.max_total_wal_size)];
        flags.extend(sizes.iter().filter_map(|(name, bytes)| bytes.map(|bytes| format!("--{name}={bytes}"))));
        flags
    }

    /// Returns how far a write waits, if the log's memory outlives the process or does not.
    pub(super) const fn level(&self, outlives: bool) -> &'static str {
        match (self.disable_wal, self.sync, outlives) {
            (true, ..) => "none",
            (_, true, _) => "disk",
            (_, _, true) => "process",
            _ => "memory",
        }
    }

    /// Returns why the writes of the two would not survive the same faults, if so.
    pub(super) fn unlike(&self, outlives: bool) -> Option<&'static str> {
        let waits = self.sync || self.manual_wal_flush || self.disable_wal;
        (!waits && !outlives)
            .then_some("a kill would lose our last writes and not RocksDB's: there is no tmpfs for a shared ring")
    }
}

//! `KvSettings`: the settings of `collie-bench kv`.

use std::path::{Path, PathBuf};

use crate::{Pace, Plan};

/// What is asked, and of how many keys.
#[derive(Clone)]
pub struct KvSettings {
    /// The clock, the files, the questions, the directory for the databases, and the progress callback.
    pub plan: Plan,
    /// The number of keys.
    pub num: u64,
    /// Runs of each cell.
    pub runs: u32,
    /// RocksDB's program db_bench, for comparison.
    pub peer: Option<PathBuf>,
    /// Seed of the keys and values.
    pub seed: u64,
    /// Length of the log's files, where a question sets none: small in tests, since the warm-up writes them all.
    pub segment_bytes: Option<u64>,
}

impl KvSettings {
    /// The defaults, with databases in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self { plan: Plan::new(dir, Pace::Full), num: 1_000_000, runs: 3, peer: None, seed: 1, segment_bytes: None }
    }
}

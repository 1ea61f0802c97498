//! Arguments and results of calls on the LSM levels.

use std::fmt;

use collie_base::{CfId, Lsn};

/// Id of a tree: the tables of one family, or of an atomic group of families. Never reused in a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeId(u32);

impl TreeId {
    /// Wraps a raw id.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the raw id.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The newest state of one key below the position of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The family.
    pub cf: CfId,
    /// At most 65,531 bytes.
    pub key: &'a [u8],
    /// Position of the commit; below the position of the flush.
    pub csn: Lsn,
    /// At most 64 MiB; `None` deletes the key.
    pub value: Option<&'a [u8]>,
}

/// A key with its value, as a tree holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The family.
    pub cf: CfId,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Position of the commit.
    pub csn: Lsn,
}

/// A tree as MANIFEST records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeState {
    /// The tree.
    pub id: TreeId,
    /// Its families, ascending, without dropped ones.
    pub cfs: Vec<CfId>,
    /// Families dropped since the last flush, ascending: the next flush removes their keys from the tables.
    pub dropped: Vec<CfId>,
    /// Every commit below this position to these families is in the tables.
    pub flush_lsn: Lsn,
    /// Number of keys with a value, including keys of dropped families that no flush has removed yet. After an
    /// interrupted flush this is exact only once the tree was loaded.
    pub live_keys: u64,
}

/// How the blocks of a table are stored. Each table records its own choice: tables of one tree may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// LZ4: about half the bytes of ordinary rows, at some hundred megabytes per second and core.
    #[default]
    Lz4,
}

impl Compression {
    /// Every variant with its name in settings.
    pub const NAMES: [(&str, Self); 2] = [("none", Self::None), ("lz4", Self::Lz4)];
}

/// Options of the LSM levels. They are not stored: each open may choose differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelOptions {
    /// Bytes of cached blocks in all trees together. Default 8 MiB: only opening and compaction read, and they bypass
    /// the cache.
    pub cache_bytes: u64,
    /// Maximum number of open table files in all trees together; a database lowers it to what the process may have.
    /// Default 8,192. A compaction or a load opens one more per run.
    pub descriptors: usize,
    /// How flushes and merges store blocks of tables from now on; older tables are read as they are. On a disk that is
    /// not the operating system's ([`Levels::open`](crate::Levels::open)) nothing is compressed. Default LZ4.
    pub compression: Compression,
    /// Target size of a table in bytes. Default 64 MiB.
    pub table_bytes: u64,
}

impl Default for LevelOptions {
    fn default() -> Self {
        Self { cache_bytes: 8 << 20, descriptors: 8_192, compression: Compression::Lz4, table_bytes: 64 << 20 }
    }
}

/// What LSM levels record about the log that belongs to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelsNoted {
    /// Position from which on the log is needed; `Lsn::FIRST` without levels.
    pub log_start: Lsn,
    /// The highest position of a flush that has begun; zero without one. A log that ends below it does not belong to
    /// these levels.
    pub flushed: Lsn,
}

/// What an open found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelsFound {
    /// There were no levels before this open.
    pub created: bool,
    /// Directories that belong to no tree of MANIFEST; they were deleted.
    pub deleted_dirs: Vec<String>,
    /// Bytes of an incomplete append to MANIFEST, which was never reported as successful.
    pub torn_bytes: u64,
    /// Trees whose last flush was interrupted: loading finds out whether it took effect.
    pub interrupted: Vec<TreeId>,
}

/// Result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes of the new tables.
    pub table_bytes: u64,
    /// Sorted runs that a reader must merge now.
    pub runs: usize,
    /// The runs of them that only a compaction removes.
    pub new_runs: usize,
    /// The caller should call [`crate::Levels::compact_due`].
    pub compaction_due: bool,
}

/// Result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the tables written.
    pub table_bytes: u64,
    /// Sorted runs that a reader must merge now.
    pub runs: usize,
}

/// What was written to a tree, or to all trees, since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeWritten {
    /// Flushes recorded.
    pub flushes: u64,
    /// Bytes of tables that they wrote.
    pub flush_bytes: u64,
    /// Compactions that wrote or moved tables.
    pub compactions: u64,
    /// Bytes of tables that they wrote.
    pub compaction_bytes: u64,
}

/// Figures of one tree in [`LevelStat`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeStat {
    /// The state that MANIFEST records.
    pub state: TreeState,
    /// Table files.
    pub tables: usize,
    /// Sorted runs.
    pub runs: usize,
    /// Bytes of the table files.
    pub bytes: u64,
    /// What was written to it since the open.
    pub written: TreeWritten,
    /// Why the tree takes no more flushes until it is opened again or rewritten.
    pub failed: Option<String>,
}

/// Counters since the open, and figures of each tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelStat {
    /// The trees, by id.
    pub trees: Vec<TreeStat>,
    /// Flushes recorded.
    pub flushes: u64,
    /// Bytes of tables that flushes wrote.
    pub flush_bytes: u64,
    /// Compactions that wrote or moved tables.
    pub compactions: u64,
    /// Bytes of tables that compactions wrote.
    pub compaction_bytes: u64,
    /// Bytes of MANIFEST.
    pub manifest_bytes: u64,
    /// How often MANIFEST was rewritten, the open included.
    pub manifest_rewrites: u64,
}

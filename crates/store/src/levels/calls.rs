//! What calls on the levels take and give.

use std::fmt;

use collie_base::{CfId, Lsn};

/// Id of a tree: the tables of one family, or of an atomic group of families. Never given twice in a directory.
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
    /// Where the state was committed; below the position of the flush.
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
    /// Where it was committed.
    pub csn: Lsn,
}

/// A tree as MANIFEST knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeState {
    /// The tree.
    pub id: TreeId,
    /// Its families, ascending, without those dropped.
    pub cfs: Vec<CfId>,
    /// Families dropped since the last flush, ascending: the next one takes their keys out of the tables.
    pub dropped: Vec<CfId>,
    /// Every commit to them below is in the tables.
    pub flush_lsn: Lsn,
    /// Keys with a value, those of dropped families that are not cleaned yet included. After an interrupted flush this
    /// is exact only once the tree was loaded.
    pub live_keys: u64,
}

/// How the blocks of a table are stored. Every table says it of its own blocks: those of one tree may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4: about half the bytes of ordinary rows, at some hundred megabytes a second of a core.
    #[default]
    Lz4,
}

impl Compression {
    /// Every one, with its name in settings.
    pub const NAMES: [(&str, Self); 2] = [("none", Self::None), ("lz4", Self::Lz4)];
}

/// How levels are kept. Not stored: each open may choose anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelOptions {
    /// Bytes of blocks cached in all trees together. Default 8 MiB: only opening and compaction read, and they pass by it.
    pub cache_bytes: u64,
    /// Most table files kept open in all trees together; a database lowers it to what the process may have. Default 8,192. A
    /// compaction or a load opens one more per run.
    pub descriptors: usize,
    /// How blocks of tables are stored that are written from now on, by a flush or a merge; the others are read as they are. On a disk
    /// that is not the operating system's ([`Levels::open`](crate::Levels::open)) nothing is compressed. Default LZ4.
    pub compression: Compression,
    /// Target size of a table in bytes. Default 64 MiB.
    pub table_bytes: u64,
}

impl Default for LevelOptions {
    fn default() -> Self {
        Self { cache_bytes: 8 << 20, descriptors: 8_192, compression: Compression::Lz4, table_bytes: 64 << 20 }
    }
}

/// What levels say of the log that goes with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelsNoted {
    /// From where on it is needed; `Lsn::FIRST` without levels.
    pub log_start: Lsn,
    /// The highest position that a flush has begun with; zero without one. A log that ends below does not fit.
    pub flushed: Lsn,
}

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelsFound {
    /// There were no levels before.
    pub created: bool,
    /// Directories that no tree of MANIFEST has; they were deleted.
    pub deleted_dirs: Vec<String>,
    /// Bytes of a MANIFEST append cut short; nobody was told of it.
    pub torn_bytes: u64,
    /// Trees whose last flush was interrupted: loading says whether it happened.
    pub interrupted: Vec<TreeId>,
}

/// What a flush did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes of the new tables.
    pub table_bytes: u64,
    /// Sorted runs that a reader must merge now.
    pub runs: usize,
    /// Those of them that only a compaction makes fewer.
    pub new_runs: usize,
    /// It is time to call [`crate::Levels::compact_due`].
    pub compaction_due: bool,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the tables written.
    pub table_bytes: u64,
    /// Sorted runs that a reader must merge now.
    pub runs: usize,
}

/// What was written to a tree, or to all of them, since the open.
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

/// A tree's share of [`LevelStat`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeStat {
    /// What MANIFEST says.
    pub state: TreeState,
    /// Table files.
    pub tables: usize,
    /// Sorted runs.
    pub runs: usize,
    /// Bytes of the table files.
    pub bytes: u64,
    /// What was written to it since the open.
    pub written: TreeWritten,
    /// Why the tree takes no flush any more in this life.
    pub failed: Option<String>,
}

/// Counters since the open, and the trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelStat {
    /// By id.
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
    /// How often it was rewritten, the open included.
    pub manifest_rewrites: u64,
}

//! The compared logs, each behind [`Peer`].

mod collie;
mod cwal_like;
mod mutex_group;
mod okay;
mod raft;
mod wal_db;

use std::path::Path;

use collie_env::Env;
use collie_wal::{Protocol, RingKind};

/// How far an append waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Until the record is in the log's memory: a dying process loses it.
    Memory,
    /// Until the kernel has it: the process may die.
    Process,
    /// Until it is on disk: the power may go.
    Disk,
}

impl Level {
    /// Returns the name on rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
        }
    }
}

/// Appends a record; returns when it is as safe as its level requires.
pub(crate) type Appender<'a> = Box<dyn FnMut(&[u8]) -> anyhow::Result<()> + 'a>;

/// Opens a log in an empty directory; returns `None` if the log is not built.
type Open = fn(&Env, &Path) -> anyhow::Result<Option<Box<dyn Peer>>>;

/// The compared part of a log.
pub(crate) trait Peer: Sync {
    /// Makes the appender of thread number `thread` at `level`.
    fn appender(&self, thread: usize, level: Level) -> anyhow::Result<Appender<'_>>;

    /// Does the periodic work of a log's owner, so that old files are removed.
    fn tidy(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A log that can be opened.
pub(crate) struct Entry {
    /// The name on rows.
    pub(crate) name: &'static str,
    /// A description of how it manages its files.
    pub(crate) files: &'static str,
    /// The levels that it supports.
    pub(crate) levels: &'static [Level],
    pub(crate) open: Open,
}

impl Entry {
    /// Returns the place of its records in memory.
    pub(crate) fn ring(&self) -> &'static str {
        match self.name {
            SHARED_RING => "shared 16 MiB",
            name if name.starts_with("collie") => "private 16 MiB",
            _ => "its own buffer",
        }
    }
}

const ALL_LEVELS: &[Level] = &[Level::Disk, Level::Process, Level::Memory];
const ON_KERNEL: &[Level] = &[Level::Disk, Level::Process];

/// The row that has the `process` level of a server: the ring outlives the process, and no record makes a system call.
const SHARED_RING: &str = "collie base, shared ring";

/// All logs, Collie's first.
pub(crate) const ENTRIES: [Entry; 10] = [
    Entry {
        name: "collie mutex",
        files: "filled and recycled",
        levels: ALL_LEVELS,
        open: |env, dir| collie::open(env, dir, Protocol::Mutex, RingKind::Private),
    },
    Entry {
        name: "collie base",
        files: "filled and recycled",
        levels: ALL_LEVELS,
        open: |env, dir| collie::open(env, dir, Protocol::Base, RingKind::Private),
    },
    Entry {
        name: SHARED_RING,
        files: "filled and recycled",
        levels: ON_KERNEL,
        open: |env, dir| collie::open(env, dir, Protocol::Base, RingKind::Shared),
    },
    Entry {
        name: "collie help",
        files: "filled and recycled",
        levels: ALL_LEVELS,
        open: |env, dir| collie::open(env, dir, Protocol::Help, RingKind::Private),
    },
    Entry {
        name: "raft-engine",
        files: "filled and recycled",
        levels: ON_KERNEL,
        open: |_, dir| Ok(Some(Box::new(raft::Raft::open(dir, true)?))),
    },
    Entry {
        name: "raft-engine, as it comes",
        files: "grown",
        levels: ON_KERNEL,
        open: |_, dir| Ok(Some(Box::new(raft::Raft::open(dir, false)?))),
    },
    Entry {
        name: "okaywal",
        files: "preallocated",
        levels: &[Level::Disk],
        open: |_, dir| Ok(Some(Box::new(okay::Okay::open(dir)?))),
    },
    Entry {
        name: "wal-db",
        files: "grown",
        levels: ON_KERNEL,
        open: |_, dir| Ok(Some(Box::new(wal_db::WalDb::open(dir)?))),
    },
    Entry {
        name: "mutex group log",
        files: "filled",
        levels: &[Level::Disk, Level::Memory],
        open: |env, dir| Ok(Some(Box::new(mutex_group::MutexGroup::create(env, dir)?))),
    },
    Entry {
        name: "CWal-like log",
        files: "grown",
        levels: ON_KERNEL,
        open: |env, dir| Ok(Some(Box::new(cwal_like::CwalLike::create(env, dir)?))),
    },
];

//! The logs that are compared, each behind [`Peer`].

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
    /// Returns its name on rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
        }
    }
}

/// Takes a record; returns when it is as safe as was asked for.
pub(crate) type Appender<'a> = Box<dyn FnMut(&[u8]) -> anyhow::Result<()> + 'a>;

/// Opens a log in an empty directory; `None` when it is not built.
type Open = fn(&Env, &Path) -> anyhow::Result<Option<Box<dyn Peer>>>;

/// A log, as much of it as is compared.
pub(crate) trait Peer: Sync {
    /// Makes what thread number `thread` appends with at `level`.
    fn appender(&self, thread: usize, level: Level) -> anyhow::Result<Appender<'_>>;

    /// Does what an owner does now and then so that old files go.
    fn tidy(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A log that can be opened.
pub(crate) struct Entry {
    /// Its name on rows.
    pub(crate) name: &'static str,
    /// What it does with its files.
    pub(crate) files: &'static str,
    /// The levels that it has.
    pub(crate) levels: &'static [Level],
    pub(crate) open: Open,
}

impl Entry {
    /// Returns where its records lie in memory.
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

/// The row on which `process` is what it is in a server: the ring outlives the process, and no record makes a system call.
const SHARED_RING: &str = "collie base, shared ring";

/// All logs, Collie's first.
pub(crate) const ENTRIES: [Entry; 10] = [
    Entry {
        name: "collie oracle",
        files: "filled and recycled",
        levels: ALL_LEVELS,
        open: |env, dir| collie::open(env, dir, Protocol::Oracle, RingKind::Private),
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

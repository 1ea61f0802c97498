//! `Kind`: every log that is measured in memory, with its name and its cost by construction.

use std::path::PathBuf;

use collie_env::Env;
use collie_wal::{Protocol, WalError};

use crate::{
    collie::Collie,
    harness::{Harness, Sink},
    protocols::{Flags, InsertLocks, JoinedSlot, LinkBuffer, OneMutex, RangeMap},
    subject::Subject,
    write_each::WriteEach,
};

/// A log that can be measured in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    WriteEach,
    OneMutex,
    InsertLocks,
    JoinedSlot,
    LinkBuffer,
    RangeMap,
    Flags,
    Mutex,
    Base,
    Help,
}

/// Collie's own, in the order of preference if two are equal.
pub(crate) const OWN: [Kind; 3] = [Kind::Mutex, Kind::Base, Kind::Help];

/// All kinds, peers first.
pub(crate) const ALL: [Kind; 10] = [
    Kind::WriteEach,
    Kind::OneMutex,
    Kind::InsertLocks,
    Kind::JoinedSlot,
    Kind::LinkBuffer,
    Kind::RangeMap,
    Kind::Flags,
    Kind::Mutex,
    Kind::Base,
    Kind::Help,
];

impl Kind {
    /// Returns its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WriteEach => "mutex, a write per record",
            Self::OneMutex => "mutex, buffered",
            Self::InsertLocks => "8 insert locks (PostgreSQL)",
            Self::JoinedSlot => "joined slot (WiredTiger)",
            Self::LinkBuffer => "link buffer (MySQL 8)",
            Self::RangeMap => "range map (wal-db)",
            Self::Flags => "flags (Border-Collie, published)",
            Self::Mutex => "collie mutex",
            Self::Base => "collie base",
            Self::Help => "collie help",
        }
    }

    /// Returns Collie's protocol, if it is one.
    pub(crate) fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Mutex => Some(Protocol::Mutex),
            Self::Base => Some(Protocol::Base),
            Self::Help => Some(Protocol::Help),
            _ => None,
        }
    }

    /// Returns the number of locked read-modify-writes of an uncontended append on cache lines that other threads also
    /// write, counted in the code. (Those on a thread's own line are not counted.)
    pub(crate) fn shared_rmws(self) -> u32 {
        match self {
            // Locking and unlocking the mutex.
            Self::WriteEach | Self::OneMutex | Self::Mutex => 2,
            // The insert lock, and the spinlock, which is released by a plain store.
            Self::InsertLocks => 3,
            // Joining and releasing.
            Self::JoinedSlot => 2,
            // The position, and the mutex of the map.
            Self::RangeMap => 3,
            // The position.
            Self::LinkBuffer | Self::Flags | Self::Base | Self::Help => 1,
        }
    }
}

/// The configuration of a subject.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Appending threads.
    pub(crate) threads: usize,
    pub(crate) ring_bytes: u64,
    /// Pending bytes from which on the sink empties the ring.
    pub(crate) flush_bytes: u64,
    /// The directory for the file of the log that writes each record.
    pub(crate) dir: PathBuf,
}

/// Work that can be done with any subject.
pub(crate) trait Visit {
    type Out;

    fn visit<S: Subject>(self, subject: &S) -> Self::Out;
}

/// Sets up `kind` and runs `work` with it; `None` if the protocol is not built.
///
/// # Errors
/// Those of the operating system.
pub(crate) fn with_subject<V: Visit>(kind: Kind, setup: &Setup, work: V) -> anyhow::Result<Option<V::Out>> {
    fn harness<P: crate::protocols::Protocol>(setup: &Setup) -> Harness<P> {
        Harness::new(setup.threads, setup.ring_bytes, setup.flush_bytes, Sink::Null)
    }
    let out = match kind {
        Kind::WriteEach => work.visit(&WriteEach::create(&Env::real(), &setup.dir)?),
        Kind::OneMutex => work.visit(&harness::<OneMutex>(setup)),
        Kind::InsertLocks => work.visit(&harness::<InsertLocks>(setup)),
        Kind::JoinedSlot => work.visit(&harness::<JoinedSlot>(setup)),
        Kind::LinkBuffer => work.visit(&harness::<LinkBuffer>(setup)),
        Kind::RangeMap => work.visit(&harness::<RangeMap>(setup)),
        Kind::Flags => work.visit(&harness::<Flags>(setup)),
        Kind::Mutex | Kind::Base | Kind::Help => {
            let protocol = kind.protocol().expect("these three have one");
            match Collie::open(protocol, setup.threads, setup.ring_bytes, setup.flush_bytes) {
                Ok(log) => work.visit(&log),
                Err(WalError::InvalidOptions { message }) if message.contains("not built") => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    };
    Ok(Some(out))
}

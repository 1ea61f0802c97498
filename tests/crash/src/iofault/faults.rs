//! `Faults`: which file system call fails, and how. There is one fault at a time, for one kind of file and one
//! operation.

use std::{fmt, thread, time::Duration};

use fuser::Errno;
use parking_lot::Mutex;

use crate::random::Random;

/// The purpose of a file of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A segment of the log, or one that is being prepared.
    Log,
    /// A table of the LSM levels, or the directory of tables.
    Table,
    /// The directory of a tree, or a list of its tables.
    List,
    Manifest,
    Control,
    Slots,
    Other,
}

impl Kind {
    /// Returns the kind of `name` in a directory of kind `parent`.
    pub(super) fn of(parent: Self, name: &str) -> Self {
        match name {
            _ if name.contains(".wal") => Self::Log,
            _ if name.starts_with("MANIFEST") => Self::Manifest,
            _ if name.starts_with("control") => Self::Control,
            _ if name.starts_with("slots") => Self::Slots,
            _ if name.starts_with("tree-") => Self::List,
            _ if parent == Self::Table || parent == Self::List && name == "tables" => Self::Table,
            _ if parent == Self::List => Self::List,
            _ => Self::Other,
        }
    }
}

/// An operation of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Sync,
    /// Opens or creates a file.
    Open,
    Rename,
    Unlink,
    /// A change of the length.
    Resize,
}

/// The way in which an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    EioOnce,
    Eio,
    NoSpace,
    /// Only half of the data is written.
    Short,
    Slow,
}

/// The duration of a slow call.
const SLOW: Duration = Duration::from_millis(200);
/// The number of slow calls, limited so that an opening that reads the whole log still ends in time.
const SLOW_CALLS: u64 = 50;

/// The kinds of files and operations of a server at which faults come.
const PLACES: [(Kind, Operation); 22] = [
    (Kind::Log, Operation::Write),
    (Kind::Log, Operation::Sync),
    (Kind::Log, Operation::Open),
    (Kind::Log, Operation::Rename),
    (Kind::Log, Operation::Unlink),
    (Kind::Log, Operation::Resize),
    (Kind::Log, Operation::Read),
    (Kind::Table, Operation::Write),
    (Kind::Table, Operation::Sync),
    (Kind::Table, Operation::Open),
    (Kind::Table, Operation::Unlink),
    (Kind::Table, Operation::Read),
    (Kind::List, Operation::Write),
    (Kind::List, Operation::Sync),
    (Kind::List, Operation::Open),
    (Kind::List, Operation::Rename),
    (Kind::Manifest, Operation::Write),
    (Kind::Manifest, Operation::Sync),
    (Kind::Manifest, Operation::Rename),
    (Kind::Control, Operation::Write),
    (Kind::Control, Operation::Rename),
    (Kind::Slots, Operation::Write),
];

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    kind: Kind,
    operation: Operation,
    pub(super) failure: Failure,
    /// The number of calls that succeed before it.
    after: u64,
}

impl Fault {
    pub(super) fn draw(random: &mut Random) -> Self {
        let (kind, operation) = PLACES[usize::try_from(random.below(PLACES.len() as u64)).unwrap_or(0)];
        let grows = !matches!(operation, Operation::Read | Operation::Unlink);
        let failure = match random.below(10) {
            0..=3 => Failure::EioOnce,
            4 | 5 => Failure::Eio,
            6 | 7 if grows => Failure::NoSpace,
            8 if operation == Operation::Write => Failure::Short,
            8 => Failure::EioOnce,
            _ => Failure::Slow,
        };
        Self { kind, operation, failure, after: random.below(6) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, operation, failure, after } = self;
        write!(f, "{failure:?} at {operation:?} of {kind:?} after {after}")
    }
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Fail(i32),
    /// A write of half of the data.
    Half,
}

#[derive(Debug, Default)]
struct Armed {
    fault: Option<Fault>,
    hits: u64,
}

/// The current fault.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Mutex<Armed>,
}

impl Faults {
    pub(super) fn arm(&self, fault: Fault) {
        *self.armed.lock() = Armed { fault: Some(fault), hits: 0 };
    }

    /// Removes the fault. Returns the number of calls that it affected.
    pub(super) fn clear(&self) -> u64 {
        std::mem::take(&mut *self.armed.lock()).hits
    }

    pub(super) fn hits(&self) -> u64 {
        self.armed.lock().hits
    }

    /// Returns what happens to a call, and waits if the call is to be slow.
    pub(super) fn judge(&self, kind: Kind, operation: Operation) -> Verdict {
        let failure = {
            let mut armed = self.armed.lock();
            let Some(fault) = &mut armed.fault else { return Verdict::Pass };
            if (fault.kind, fault.operation) != (kind, operation) {
                return Verdict::Pass;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return Verdict::Pass;
            }
            let failure = fault.failure;
            armed.hits += 1;
            if failure == Failure::EioOnce || failure == Failure::Slow && armed.hits == SLOW_CALLS {
                armed.fault = None;
            }
            failure
        };
        match failure {
            Failure::EioOnce | Failure::Eio => Verdict::Fail(Errno::EIO.code()),
            Failure::NoSpace => Verdict::Fail(Errno::ENOSPC.code()),
            Failure::Short => Verdict::Half,
            Failure::Slow => {
                thread::sleep(SLOW);
                Verdict::Pass
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each file of a data directory gets its kind. Method: the names of files.
    #[test]
    fn files_are_of_their_kinds() {
        let kind = |path: &str| path.split('/').fold(Kind::Other, Kind::of);
        let found = [
            "data/wal/00000000000000000001.wal",
            "data/wal/spare-1.wal.tmp",
            "data/levels/MANIFEST.new",
            "data/levels/tree-0000000001/tables/7",
            "data/levels/tree-0000000001/v3",
            "data/control.new",
            "data/slots",
            "data/wal/LOCK",
        ];
        let expected =
            [Kind::Log, Kind::Log, Kind::Manifest, Kind::Table, Kind::List, Kind::Control, Kind::Slots, Kind::Other];
        assert_eq!(found.map(kind), expected);
    }

    /// Goal: a fault affects only calls of its kind, after the given number of calls, and as often as it should.
    /// Method: a fault that strikes once, and one that stays until it is cleared.
    #[test]
    fn fault_strikes_where_and_as_often_as_it_says() {
        let faults = Faults::default();
        let (kind, operation) = (Kind::Log, Operation::Sync);
        let judge = || faults.judge(kind, operation);
        assert_eq!(judge(), Verdict::Pass);
        faults.arm(Fault { kind, operation, failure: Failure::EioOnce, after: 1 });
        assert_eq!(faults.judge(kind, Operation::Write), Verdict::Pass);
        assert_eq!(faults.judge(Kind::Table, operation), Verdict::Pass);
        assert_eq!([judge(), judge(), judge()], [Verdict::Pass, Verdict::Fail(Errno::EIO.code()), Verdict::Pass]);
        faults.arm(Fault { kind, operation, failure: Failure::NoSpace, after: 0 });
        assert_eq!([judge(), judge()], [Verdict::Fail(Errno::ENOSPC.code()); 2]);
        assert_eq!((faults.hits(), faults.clear(), judge()), (2, 2, Verdict::Pass));
    }
}

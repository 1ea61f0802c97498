//! `EngineLog`: the write-ahead log as the transactions' [`CommitLog`], and its writers, one per thread; or, in a database
//! opened read-only, the end of what was read of it; or, in a replica, what it shows of the log that it follows.
//!
//! A slot of the log belongs to a thread, not to a session: a session holds a writer for one append and never over a
//! wait of its own, so scans look at as many slots as threads append. A thread finds its writer by its number, with one
//! compare-exchange on a line that nobody else uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use collie_base::{Lsn, Xid};
use collie_env::FileLock;
use collie_txn::{Appended, CommitLog};
use collie_wal::{Log, Mark, WalError, Writer};
use parking_lot::Mutex;

use crate::log_times::{Part, counted};
use crate::needs::Marks;
use crate::redo::tag as redo_tag;
use crate::replica::followed::Followed;

/// How many cells a thread tries before it makes a writer for one append.
const PROBES: usize = 4;

/// The log under the transactions.
#[derive(Debug)]
pub(crate) struct EngineLog(Backing);

#[derive(Debug)]
enum Backing {
    /// An open log, and writers by thread number.
    Open { wal: Log, cells: Box<[Cell]> },
    /// The log of another database is followed: nothing is appended here.
    Following(Arc<Followed>),
    /// A log was read up to `end`, and nothing is ever appended. Locks may keep others away from it meanwhile.
    Ended { end: Lsn, _locks: Vec<Box<dyn FileLock>> },
}

/// A thread's writer, made when it first appends; alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(Mutex<Option<Writer>>);

/// Returns the number of the calling thread: threads count from 0, in the order in which they first ask.
pub(crate) fn thread_number() -> usize {
    std::thread_local! {
        static THREAD: usize = {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            NEXT.fetch_add(1, Ordering::Relaxed)
        };
    }
    THREAD.with(|thread| *thread)
}

impl EngineLog {
    /// For threads that share `slots` slots.
    pub(crate) fn new(wal: Log, slots: u32) -> Self {
        Self(Backing::Open { wal, cells: (0..slots.max(1)).map(|_| Cell::default()).collect() })
    }

    /// Of a log that was read to its end and is closed. `locks` are held as long as this is.
    pub(crate) fn ended(end: Lsn, locks: Vec<Box<dyn FileLock>>) -> Self {
        Self(Backing::Ended { end, _locks: locks })
    }

    /// Of a database that follows another one's log.
    pub(crate) const fn following(followed: Arc<Followed>) -> Self {
        Self(Backing::Following(followed))
    }

    /// Returns what is known of the log that is followed, if one is.
    pub(crate) const fn followed(&self) -> Option<&Arc<Followed>> {
        match &self.0 {
            Backing::Following(followed) => Some(followed),
            Backing::Open { .. } | Backing::Ended { .. } => None,
        }
    }

    /// Returns the open log; `None` in a database opened read-only.
    pub(crate) fn wal(&self) -> Option<&Log> {
        match &self.0 {
            Backing::Open { wal, .. } => Some(wal),
            Backing::Following(followed) => followed.own.log(),
            Backing::Ended { .. } => None,
        }
    }

    /// Returns the next free position of the open log; `None` in a database opened read-only.
    pub(crate) fn next(&self) -> Option<Lsn> {
        self.wal().map(Log::glsn)
    }

    /// Calls `append` with a writer of its own.
    ///
    /// # Errors
    /// `append`'s; `Closed` where no log is open.
    pub(crate) fn with_writer<R, E: From<WalError>>(
        &self,
        append: impl FnOnce(&mut Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        let Backing::Open { wal, cells } = &self.0 else { return Err(WalError::Closed.into()) };
        let (first, count) = (thread_number(), cells.len());
        // Its own cell, but for more threads than cells, and for appends inside of appends.
        for number in first..first + PROBES {
            if let Some(mut writer) = cells[number % count].0.try_lock() {
                return append(writer.get_or_insert_with(|| wal.writer()));
            }
        }
        append(&mut wal.writer())
    }

    /// [`EngineLog::with_writer`], with a writer that refuses instead of waiting for room in the ring if `no_slowdown`.
    ///
    /// # Errors
    /// `append`'s, `RingFull` among them; `Closed` where no log is open.
    pub(crate) fn with_writer_that<R, E: From<WalError>>(
        &self,
        no_slowdown: bool,
        append: impl FnOnce(&mut Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        self.with_writer(|writer| {
            if !no_slowdown {
                return append(writer);
            }
            let refusing = Refusing::new(writer);
            append(&mut *refusing.0)
        })
    }

    /// Blocks until `mark` reaches `lsn`, flushing on this thread if nobody else does.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        match &self.0 {
            Backing::Open { wal, .. } => counted(Part::Wait(mark), || wal.wait(mark, lsn)),
            Backing::Following(followed) => {
                followed.shown.wait(lsn).map_err(|_| WalError::Closed)?;
                if mark == Mark::Boundary { Ok(()) } else { followed.own.wait_durable(lsn) }
            }
            Backing::Ended { end, .. } if lsn <= *end => Ok(()),
            Backing::Ended { .. } => Err(WalError::Closed),
        }
    }

    /// Gives up the log below `lsn`, in whole files; `false`: no log is open.
    ///
    /// # Errors
    /// The log's: it is longer than it must be.
    pub(crate) fn truncate_before(&self, lsn: Lsn) -> Result<bool, WalError> {
        match &self.0 {
            Backing::Open { wal, .. } => wal.truncate_before(lsn).map(|_| true),
            Backing::Following(followed) => followed.own.truncate_before(lsn).map(|()| true),
            Backing::Ended { .. } => Ok(false),
        }
    }

    /// Returns a bound of the ids of transactions in the log that is followed, below what is shown of it; 0 otherwise.
    pub(crate) fn followed_xid_limit(&self) -> Xid {
        self.followed().map_or(Xid::new(0), |followed| followed.xid_limit())
    }

    /// Returns whether no log is there that could be given up.
    pub(crate) const fn is_ended(&self) -> bool {
        matches!(self.0, Backing::Ended { .. })
    }

    /// Has everything appended so far durable soon, without waiting for it.
    pub(crate) fn flush_soon(&self) {
        if let Some(wal) = self.wal() {
            wal.flush_soon();
        }
    }

    /// Blocks until the boundary has passed `lsn`, below which somebody saw a commit published: its appender has a few
    /// instructions left.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait_boundary(&self, lsn: Lsn) -> Result<(), WalError> {
        if self.boundary() >= lsn {
            return Ok(());
        }
        self.wait(Mark::Boundary, lsn)
    }

    /// Blocks until the boundary has passed every commit that was published before the call; returns a position above
    /// all of them.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait_published(&self) -> Result<Lsn, WalError> {
        let end = match &self.0 {
            Backing::Open { wal, .. } => wal.glsn(),
            Backing::Following(followed) => followed.shown.position(),
            Backing::Ended { end, .. } => *end,
        };
        // The look moves the boundary; where nothing is under way there is nothing to wait for.
        if !self.is_reached(Mark::Boundary, end) {
            self.wait(Mark::Boundary, end)?;
        }
        Ok(end)
    }

    /// Blocks until everything below `lsn` is on disk, flushing on this thread if nobody else does.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError> {
        self.wait(Mark::Durable, lsn)
    }
}

/// A writer that refuses to wait for room in the ring, until this is dropped.
struct Refusing<'a>(&'a mut Writer);

impl<'a> Refusing<'a> {
    fn new(writer: &'a mut Writer) -> Self {
        writer.set_no_slowdown(true);
        Self(writer)
    }
}

impl Drop for Refusing<'_> {
    fn drop(&mut self) {
        self.0.set_no_slowdown(false);
    }
}

impl Marks for EngineLog {
    fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool {
        match &self.0 {
            Backing::Open { wal, .. } => counted(Part::Wait(mark), || wal.is_reached(mark, lsn)),
            Backing::Following(followed) if mark == Mark::Boundary => lsn <= followed.shown.position(),
            Backing::Following(followed) => lsn <= followed.durable(),
            Backing::Ended { end, .. } => lsn <= *end,
        }
    }
}

impl CommitLog for EngineLog {
    type Writer = Writer;
    type Error = WalError;

    fn append(&self, writer: &mut Writer, tag: u8, parts: &[&[u8]]) -> Result<Appended, WalError> {
        counted(Part::Append, || writer.append(tag, parts)).map(|at| Appended { start: at.start, end: at.end })
    }

    fn append_commit(
        &self,
        writer: &mut Writer,
        tag: u8,
        bytes: &[u8],
        publish: impl FnOnce(Lsn),
    ) -> Result<Appended, WalError> {
        // What is not in the log leaves a hole there, for who follows it.
        let appended = counted(Part::Append, || match tag {
            redo_tag::UNLOGGED => writer.append_unlogged(tag, bytes, publish),
            _ => writer.append_with(tag, bytes, publish),
        });
        appended.map(|at| Appended { start: at.start, end: at.end })
    }

    fn boundary(&self) -> Lsn {
        match &self.0 {
            Backing::Open { wal, .. } => wal.boundary(),
            Backing::Following(followed) => followed.shown.position(),
            Backing::Ended { end, .. } => *end,
        }
    }

    fn durable(&self) -> Lsn {
        match &self.0 {
            Backing::Open { wal, .. } => wal.durable(),
            Backing::Following(followed) => followed.durable(),
            Backing::Ended { end, .. } => *end,
        }
    }
}

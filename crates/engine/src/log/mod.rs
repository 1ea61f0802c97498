//! `EngineLog`: the write-ahead log as the [`CommitLog`] of the transactions, with its writers, one per thread. In
//! a database that is opened read-only it is the end of the log that was read; in a replica it is the visible part
//! of the log that is followed, until the replica is promoted and that log becomes its own.
//!
//! A slot of the log belongs to a thread, not to a session: a session holds a writer for one append and never over
//! a wait of its own, so scans look at as many slots as threads append. A thread finds its writer by its number,
//! with one compare-exchange on a line that no other thread uses.
//!
//! # Invariants
//! - L1. Once [`EngineLog::hold`] has returned, no record is appended before [`EngineLog::release`]: an appender
//!   looks at `held` under the lock of its cell, or while it holds `elsewhere` shared, and `hold` stores `held`
//!   before it takes each of these locks once.
//! - L2. An appender that is refused gets the error inside its `append` closure, so that a commit can undo its
//!   writes.
//!
//! | file | holds |
//! |---|---|
//! | `settled`, `quorum_notes` | the quorum-durable position, and which replicas are asked from where on |
//! | `write_pause` | writers that wait while a primary hands over |
//! | `room`, `limit` | how long the log may get, for writers and for flushes |
//! | `carry`, `large` | what of the log has to be kept: facts of released log, transactions with chunks |
//! | `time_marks`, `drawn` | times in the log, a sample of commits |
//! | `part`, `times` | the time that work spends in the log, for benchmarks |
//! | `marks` | how far the log has come, as the waits of commits ask for it |
//! | `shown_wait` | the wait until snapshots of a replica show a position |
//! | `txn_statuses` | the statuses of transactions, as rows ask for them |
//! | `no_log` | a database without a log |

pub(crate) mod carry;
pub(crate) mod drawn;
pub(crate) mod large;
pub(crate) mod limit;
pub(crate) mod marks;
pub(crate) mod no_log;
pub(crate) mod part;
pub(crate) mod quorum_notes;
pub(crate) mod room;
pub(crate) mod settled;
pub(crate) mod shown_wait;
pub(crate) mod time_marks;
#[cfg(feature = "bench-hooks")]
pub(crate) mod times;
pub(crate) mod txn_statuses;
pub(crate) mod write_pause;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use collie_base::{Lsn, Xid};
use collie_env::FileLock;
use collie_txn::{Appended, CommitLog};
use collie_wal::{Log, Mark, WalError, Writer};
use parking_lot::{Mutex, RwLock};

use crate::follow::followed::Followed;
use crate::log::drawn::Draw;
use crate::log::marks::Marks;
use crate::log::part::{Part, counted};
use crate::log::settled::Settled;
use crate::log::shown_wait::ShownWait;
use crate::redo::tag as redo_tag;

/// Number of cells that a thread tries before it makes a writer for one append.
const PROBES: usize = 4;

/// The log under the transactions.
#[derive(Debug)]
pub(crate) struct EngineLog {
    backing: Backing,
    /// Confirmations by replicas, where they are counted ([`Options::quorum`](crate::Options::quorum)).
    settled: Option<Arc<Settled>>,
    /// A sample of the commits.
    draw: Draw,
    /// Whether appends are refused (L1). Stored with Release; appenders load it under a lock that `hold` takes
    /// after its store.
    held: AtomicBool,
    /// Held shared by an append with a writer of no cell.
    elsewhere: RwLock<()>,
}

#[derive(Debug)]
enum Backing {
    Open(Open),
    /// The log of another database is followed: nothing is appended here, until `promoted` is set and takes its
    /// place.
    Following {
        followed: Arc<Followed>,
        promoted: OnceLock<Open>,
    },
    /// A log was read up to `end`, and nothing is ever appended. The locks keep other processes away from it.
    Ended {
        end: Lsn,
        _locks: Vec<Box<dyn FileLock>>,
    },
}

/// An open log, and its writers by thread number.
#[derive(Debug)]
struct Open {
    wal: Log,
    cells: Box<[Cell]>,
}

impl Open {
    /// Makes cells for threads that share `slots` slots.
    fn new(wal: Log, slots: u32) -> Self {
        Self { wal, cells: (0..slots.max(1)).map(|_| Cell::default()).collect() }
    }
}

/// The state of a log at one moment.
#[derive(Clone, Copy)]
enum State<'a> {
    Open(&'a Open),
    Following(&'a Arc<Followed>),
    Ended(Lsn),
}

/// A thread's writer, made at its first append; alone on its cache lines.
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
    /// Wraps an open log for threads that share `slots` slots.
    pub(crate) fn new(wal: Log, slots: u32) -> Self {
        Self::of(Backing::Open(Open::new(wal, slots)))
    }

    /// Represents a log that was read to its end and is closed. `locks` are held until this is dropped.
    pub(crate) fn ended(end: Lsn, locks: Vec<Box<dyn FileLock>>) -> Self {
        Self::of(Backing::Ended { end, _locks: locks })
    }

    /// Represents the log of another database, which this one follows.
    pub(crate) fn following(followed: Arc<Followed>) -> Self {
        Self::of(Backing::Following { followed, promoted: OnceLock::new() })
    }

    fn of(backing: Backing) -> Self {
        let (draw, held, elsewhere) = (Draw::default(), AtomicBool::new(false), RwLock::new(()));
        Self { backing, settled: None, draw, held, elsewhere }
    }

    /// Makes replicas count if `counts` is true; [`Settled::set_counted`] says from when on they do.
    pub(crate) fn counting_replicas(self, counts: bool) -> Self {
        Self { settled: counts.then(Settled::new), ..self }
    }

    /// Returns the sample of the commits.
    pub(crate) const fn draw(&self) -> &Draw {
        &self.draw
    }

    /// Returns the confirmations by replicas, where they are counted.
    pub(crate) const fn replicas(&self) -> Option<&Arc<Settled>> {
        self.settled.as_ref()
    }

    /// Makes `wal` the log of this database, which continues above the end of the log that was followed. Marks
    /// never fall: all visible and all durable records are below the position where `wal` continues.
    pub(crate) fn promote(&self, wal: Log, slots: u32) {
        if let Backing::Following { promoted, .. } = &self.backing {
            assert!(promoted.set(Open::new(wal, slots)).is_ok(), "a replica is promoted once");
        }
    }

    /// Returns the present state of the log.
    #[inline]
    fn state(&self) -> State<'_> {
        match &self.backing {
            Backing::Open(open) => State::Open(open),
            Backing::Following { followed, promoted } => promoted.get().map_or(State::Following(followed), State::Open),
            Backing::Ended { end, .. } => State::Ended(*end),
        }
    }

    /// Returns the log that is appended to, if there is one.
    #[inline]
    fn open(&self) -> Option<&Open> {
        match self.state() {
            State::Open(open) => Some(open),
            State::Following(_) | State::Ended(_) => None,
        }
    }

    /// Returns the state of the log that is followed, if one is.
    pub(crate) fn followed(&self) -> Option<&Arc<Followed>> {
        match self.state() {
            State::Following(followed) => Some(followed),
            State::Open(_) | State::Ended(_) => None,
        }
    }

    /// Returns the open log; `None` in a database opened read-only.
    pub(crate) fn wal(&self) -> Option<&Log> {
        match self.state() {
            State::Open(open) => Some(&open.wal),
            State::Following(followed) => followed.own.log(),
            State::Ended(_) => None,
        }
    }

    /// Returns the next free position of the open log; `None` in a database opened read-only.
    pub(crate) fn next(&self) -> Option<Lsn> {
        self.wal().map(Log::glsn)
    }

    /// Calls `append` with a writer that no other append uses at the same time.
    ///
    /// # Errors
    /// Those of `append`; `Closed` where no log is open, or it is held.
    pub(crate) fn with_writer<R, E: From<WalError>>(
        &self,
        append: impl FnOnce(&mut Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        self.with_writer_that(Manner::default(), append)
    }

    /// Calls `append` with a writer that appends in this manner, or with the reason why there is none (L2):
    /// `Closed` where no log is open, or it is held.
    pub(crate) fn with_writer_or<R>(
        &self,
        manner: Manner,
        append: impl FnOnce(Result<&mut Writer, WalError>) -> R,
    ) -> R {
        let Some(Open { wal, cells }) = self.open() else { return append(Err(WalError::Closed)) };
        let append = |writer: &mut Writer| {
            if self.is_held() {
                return append(Err(WalError::Closed));
            }
            if manner == Manner::default() {
                return append(Ok(writer));
            }
            let mannered = Mannered::new(writer, manner);
            append(Ok(&mut *mannered.0))
        };
        let (first, count) = (thread_number(), cells.len());
        // A thread uses its own cell, unless there are more threads than cells, or this append is inside of another
        // one.
        for number in first..first + PROBES {
            if let Some(mut writer) = cells[number % count].0.try_lock() {
                return append(writer.get_or_insert_with(|| wal.writer()));
            }
        }
        // A nested append must not wait for a thread that waits for the outer append.
        let _shared = self.elsewhere.read_recursive();
        append(&mut wal.writer())
    }

    /// Returns whether a write or a sync has failed for good, so that nothing more becomes durable.
    pub(crate) fn has_failed(&self) -> bool {
        self.wal().is_some_and(|wal| wal.stat().poisoned)
    }

    /// Refuses all appends from here on (L1). Waits for appends in progress.
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::Release);
        for cell in self.open().iter().flat_map(|open| open.cells.iter()) {
            drop(cell.0.lock());
        }
        drop(self.elsewhere.write());
    }

    /// Admits appends again.
    pub(crate) fn release(&self) {
        self.held.store(false, Ordering::Release);
    }

    /// Returns whether appends are refused.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Does the same as [`EngineLog::with_writer`], with a writer that appends in this manner.
    ///
    /// # Errors
    /// Those of `append`, including `RingFull`; `Closed` where no log is open, or it is held.
    pub(crate) fn with_writer_that<R, E: From<WalError>>(
        &self,
        manner: Manner,
        append: impl FnOnce(&mut Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        self.with_writer_or(manner, |writer| append(writer.map_err(E::from)?))
    }

    /// Blocks until `mark` reaches `lsn`, and flushes on this thread if no other does.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        match self.state() {
            State::Open(Open { wal, .. }) => counted(Part::Wait(mark), || wal.wait(mark, lsn)),
            State::Following(followed) => {
                ShownWait::new(&followed.shown, lsn).block().map_err(|_| WalError::Closed)?;
                if mark == Mark::Boundary { Ok(()) } else { followed.own.wait_durable(lsn) }
            }
            State::Ended(end) if lsn <= end => Ok(()),
            State::Ended(_) => Err(WalError::Closed),
        }
    }

    /// Releases the log below `lsn`, in whole files; `false`: no log is open.
    ///
    /// # Errors
    /// Those of the log; it stays longer than it has to be then.
    pub(crate) fn truncate_before(&self, lsn: Lsn) -> Result<bool, WalError> {
        match self.state() {
            State::Open(Open { wal, .. }) => wal.truncate_before(lsn).map(|_| true),
            State::Following(followed) => followed.own.truncate_before(lsn).map(|()| true),
            State::Ended(_) => Ok(false),
        }
    }

    /// Returns a bound of the ids of transactions in the visible part of the log that is followed; 0 if none is
    /// followed.
    pub(crate) fn followed_xid_limit(&self) -> Xid {
        self.followed().map_or(Xid::new(0), |followed| followed.xid_limit())
    }

    /// Returns whether there is no log that could be released.
    pub(crate) const fn is_ended(&self) -> bool {
        matches!(self.backing, Backing::Ended { .. })
    }

    /// Requests that all appended records become durable soon, without waiting for it.
    pub(crate) fn flush_soon(&self) {
        if let Some(wal) = self.wal() {
            wal.flush_soon();
        }
    }

    /// Blocks until the boundary has passed `lsn`, below which the caller saw a published commit: its appender has
    /// a few instructions left.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait_boundary(&self, lsn: Lsn) -> Result<(), WalError> {
        if self.boundary() >= lsn {
            return Ok(());
        }
        self.wait(Mark::Boundary, lsn)
    }

    /// Blocks until the boundary has passed every commit that was published before the call; returns a position
    /// above all of them.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait_published(&self) -> Result<Lsn, WalError> {
        let end = match self.state() {
            State::Open(Open { wal, .. }) => wal.glsn(),
            State::Following(followed) => followed.shown.position(),
            State::Ended(end) => end,
        };
        // The check itself advances the boundary; if no append is in progress there is nothing to wait for.
        if !self.is_reached(Mark::Boundary, end) {
            self.wait(Mark::Boundary, end)?;
        }
        Ok(end)
    }

    /// Blocks until everything below `lsn` is on disk, and flushes on this thread if no other does.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError> {
        self.wait(Mark::Durable, lsn)
    }
}

/// How records are appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Whether an append is refused where it would wait for room in the ring.
    pub(crate) no_slowdown: bool,
    /// Whether the records give room on the disk back, and may use the log's reserve.
    pub(crate) gives_back: bool,
}

impl Manner {
    /// For appends that are refused where they would wait for room in the ring.
    pub(crate) const NO_SLOWDOWN: Self = Self { no_slowdown: true, gives_back: false };
    /// For small records that operations which give room back need.
    pub(crate) const GIVES_BACK: Self = Self { no_slowdown: false, gives_back: true };
}

/// A writer that appends in some manner, until this is dropped.
struct Mannered<'a>(&'a mut Writer);

impl<'a> Mannered<'a> {
    fn new(writer: &'a mut Writer, manner: Manner) -> Self {
        writer.set_no_slowdown(manner.no_slowdown);
        writer.set_gives_back(manner.gives_back);
        Self(writer)
    }
}

impl Drop for Mannered<'_> {
    fn drop(&mut self) {
        self.0.set_no_slowdown(false);
        self.0.set_gives_back(false);
    }
}

impl Marks for EngineLog {
    fn replicas(&self) -> Option<&Settled> {
        self.settled.as_deref()
    }

    fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool {
        match self.state() {
            State::Open(Open { wal, .. }) => counted(Part::Wait(mark), || wal.is_reached(mark, lsn)),
            State::Following(followed) if mark == Mark::Boundary => lsn <= followed.shown.position(),
            State::Following(followed) => lsn <= followed.durable(),
            State::Ended(end) => lsn <= end,
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
        // An unlogged write leaves a hole in the log for readers that follow it.
        let appended = counted(Part::Append, || match tag {
            redo_tag::UNLOGGED => writer.append_unlogged(tag, bytes, publish),
            _ => writer.append_with(tag, bytes, publish),
        });
        appended.map(|at| Appended { start: at.start, end: at.end })
    }

    fn boundary(&self) -> Lsn {
        match self.state() {
            State::Open(Open { wal, .. }) => wal.boundary(),
            State::Following(followed) => followed.shown.position(),
            State::Ended(end) => end,
        }
    }

    fn durable(&self) -> Lsn {
        match self.state() {
            State::Open(Open { wal, .. }) => wal.durable(),
            State::Following(followed) => followed.durable(),
            State::Ended(end) => end,
        }
    }

    fn settled(&self) -> Lsn {
        match &self.settled {
            None => self.durable(),
            Some(settled) => settled.position(|| self.durable()),
        }
    }
}

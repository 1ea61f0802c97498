//! `EngineLog`: the write-ahead log as the transactions' [`CommitLog`], and its writers, one per thread.
//!
//! A slot of the log belongs to a thread, not to a session: a session holds a writer for one append and never over a
//! wait of its own, so scans look at as many slots as threads append. A thread finds its writer by its number, with one
//! compare-exchange on a line that nobody else uses.

use std::sync::atomic::{AtomicUsize, Ordering};

use collie_base::Lsn;
use collie_txn::{Appended, CommitLog};
use collie_wal::{Log, Mark, WalError, Writer};
use parking_lot::Mutex;

/// How many cells a thread tries before it makes a writer for one append.
const PROBES: usize = 4;

/// The log under the transactions.
#[derive(Debug)]
pub(crate) struct EngineLog {
    pub(crate) wal: Log,
    /// Writers by thread number.
    cells: Box<[Cell]>,
}

/// A thread's writer, made when it first appends; alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(Mutex<Option<Writer>>);

std::thread_local! {
    static THREAD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

impl EngineLog {
    /// For threads that share `slots` slots.
    pub(crate) fn new(wal: Log, slots: u32) -> Self {
        Self { wal, cells: (0..slots.max(1)).map(|_| Cell::default()).collect() }
    }

    /// Calls `append` with a writer of its own.
    pub(crate) fn with_writer<R>(&self, append: impl FnOnce(&mut Writer) -> R) -> R {
        let (first, cells) = (THREAD.with(|thread| *thread), self.cells.len());
        // Its own cell, but for more threads than cells, and for appends inside of appends.
        for number in first..first + PROBES {
            if let Some(mut writer) = self.cells[number % cells].0.try_lock() {
                return append(writer.get_or_insert_with(|| self.wal.writer()));
            }
        }
        append(&mut self.wal.writer())
    }

    /// Blocks until the boundary has passed `lsn`, below which somebody saw a commit published: its appender has a few
    /// instructions left.
    ///
    /// # Errors
    /// The log stopped before.
    pub(crate) fn wait_boundary(&self, lsn: Lsn) -> Result<(), WalError> {
        if self.wal.boundary() >= lsn {
            return Ok(());
        }
        self.wal.wait(Mark::Boundary, lsn)
    }

    /// Blocks until everything below `lsn` is on disk, flushing on this thread if nobody else does.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError> {
        self.wal.wait(Mark::Durable, lsn)
    }
}

impl CommitLog for EngineLog {
    type Writer = Writer;
    type Error = WalError;

    fn append(&self, writer: &mut Writer, tag: u8, parts: &[&[u8]]) -> Result<Appended, WalError> {
        writer.append(tag, parts).map(|at| Appended { start: at.start, end: at.end })
    }

    fn append_commit(
        &self,
        writer: &mut Writer,
        tag: u8,
        bytes: &[u8],
        publish: impl FnOnce(Lsn),
    ) -> Result<Appended, WalError> {
        writer.append_with(tag, bytes, publish).map(|at| Appended { start: at.start, end: at.end })
    }

    fn boundary(&self) -> Lsn {
        self.wal.boundary()
    }

    fn durable(&self) -> Lsn {
        self.wal.durable()
    }
}

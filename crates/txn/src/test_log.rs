//! A log for tests: one mutex, positions only. On request it becomes durable, fails, or keeps its boundary.

use crate::log::{Appended, CommitLog};
use collie_base::Lsn;
use collie_sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Length of every record.
pub(crate) const RECORD: u64 = 10;

#[derive(Debug)]
pub(crate) struct TestLog {
    next: Mutex<u64>,
    boundary: AtomicU64,
    durable: AtomicU64,
    pub(crate) fails: AtomicBool,
    stalls: AtomicBool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("log is full")
    }
}

impl std::error::Error for Full {}

impl TestLog {
    pub(crate) fn new() -> Self {
        let start = Lsn::FIRST.get();
        Self {
            next: Mutex::new(start),
            boundary: AtomicU64::new(start),
            durable: AtomicU64::new(start),
            fails: AtomicBool::new(false),
            stalls: AtomicBool::new(false),
        }
    }

    /// Keeps the boundary where it is, as an earlier append in progress does, or lets it catch up.
    pub(crate) fn stall(&self, stalls: bool) {
        self.stalls.store(stalls, Ordering::Relaxed);
        if !stalls {
            self.boundary.store(*self.next.lock(), Ordering::Release);
        }
    }

    /// Makes everything appended so far durable.
    pub(crate) fn flush(&self) {
        self.durable.fetch_max(self.boundary.load(Ordering::Acquire), Ordering::Release);
    }
}

impl CommitLog for TestLog {
    type Writer = ();
    type Error = Full;

    fn append(&self, writer: &mut (), tag: u8, parts: &[&[u8]]) -> Result<Appended, Full> {
        self.append_commit(writer, tag, &parts.concat(), |_| ())
    }

    fn append_commit(&self, (): &mut (), _: u8, _: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, Full> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(Full);
        }
        let mut next = self.next.lock();
        let (start, end) = (*next, *next + RECORD);
        *next = end;
        publish(Lsn::new(start));
        if !self.stalls.load(Ordering::Relaxed) {
            self.boundary.store(end, Ordering::Release);
        }
        Ok(Appended { start: Lsn::new(start), end: Lsn::new(end) })
    }

    fn boundary(&self) -> Lsn {
        Lsn::new(self.boundary.load(Ordering::Acquire))
    }

    fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }
}

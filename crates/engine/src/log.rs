//! `EngineLog`: the write-ahead log as the transactions' [`CommitLog`], and a pool of its writers.

use collie_base::Lsn;
use collie_txn::{Appended, CommitLog};
use collie_wal::{Log, Mark, WalError, Writer};
use parking_lot::Mutex;

/// The log under the transactions.
#[derive(Debug)]
pub(crate) struct EngineLog {
    pub(crate) wal: Log,
    /// Writers that nobody uses: as many as there ever were appenders at one time.
    idle: Mutex<Vec<Writer>>,
}

impl EngineLog {
    pub(crate) fn new(wal: Log) -> Self {
        Self { wal, idle: Mutex::default() }
    }

    /// Calls `append` with a writer of its own.
    pub(crate) fn with_writer<R>(&self, append: impl FnOnce(&mut Writer) -> R) -> R {
        let idle = self.idle.lock().pop();
        let mut writer = idle.unwrap_or_else(|| self.wal.writer());
        let answer = append(&mut writer);
        self.idle.lock().push(writer);
        answer
    }

    /// Waits until the boundary has passed a commit that somebody saw published below `lsn`. Between the two its appender
    /// has a few instructions left, and nothing in them can fail, so nobody needs to be woken.
    pub(crate) fn pass_boundary(&self, lsn: Lsn) {
        let mut looks = 0_u32;
        while self.wal.boundary() < lsn {
            looks += 1;
            if looks < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Blocks until everything below `lsn` is on disk, flushing on this thread if nobody else does.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError> {
        self.pass_boundary(lsn);
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

//! `FollowerLog`: a replica's own log on disk, and the reader of the records that it receives.
//!
//! # Invariants
//! - O1. Replay gets what the log has taken, in the same order: bytes go to the log first, and then to the record
//!   reader as far as the log has taken them, also after an error.
//! - O2. The record reader continues behind the last record that was read when the log was opened: a record in pieces
//!   may begin before that point and end after it.

use std::path::Path;

use collie_base::Lsn;
use collie_env::Env;
use collie_wal::{Follower, Log, Mark, RecordRef, Recovered, Unpacker, WalError};
use parking_lot::Mutex;

use crate::EngineError;
use crate::follow::followed::OwnLog;
use crate::follow::record::RecordAt;
use crate::follow::record::VisitRecord;
use crate::follow::record::VisitRef;
use crate::redo::tag;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct FollowerLog {
    follower: Follower,
    start: Lsn,
    /// `None` until the log was read once. Held during a receive.
    unpacker: Mutex<Option<Unpacker>>,
}

/// Reason for which reading back ended.
enum Stop {
    Behind,
    Failed(EngineError),
}

impl From<WalError> for Stop {
    fn from(error: WalError) -> Self {
        Self::Failed(error.into())
    }
}

impl FollowerLog {
    /// Opens the log in `dir`.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn open(env: &Env, dir: &Path, options: collie_wal::Options) -> Result<(Self, Recovered), WalError> {
        let (follower, found) = Follower::open(env, dir, options, tag::INCARNATION)?;
        Ok((Self { follower, start: found.start, unpacker: Mutex::new(None) }, found))
    }

    /// Returns the log, whose only source of records is [`FollowerLog::receive`].
    pub(crate) const fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Reads every record (O2).
    ///
    /// # Errors
    /// Those of the log; the first error of `visit`.
    pub(crate) fn read_all(&self, visit: &mut VisitRef<'_>) -> Result<(), EngineError> {
        let mut records = self.follower.log().read(self.start);
        records.visit_rest(&mut *visit)?;
        *self.unpacker.lock() = Some(records.into_unpacker()?);
        Ok(())
    }

    /// Calls `work` while nothing is received; if it succeeds, nothing is received ever after.
    pub(crate) fn end_receiving<R>(
        &self,
        work: impl FnOnce(&Self) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let mut unpacker = self.unpacker.lock();
        let done = work(self)?;
        *unpacker = None;
        Ok(done)
    }

    /// Calls `look` while nothing is received: everything in the log has been passed to the record reader.
    pub(crate) fn between_receives<R>(&self, look: impl FnOnce() -> R) -> R {
        let _nothing_comes = self.unpacker.lock();
        look()
    }

    /// Appends received bytes to the log, and gives `take` a function that reads their records (O1). Returns the end of
    /// the log.
    ///
    /// # Errors
    /// Those of the log; then those of `take`.
    pub(crate) fn receive(
        &self,
        start: Lsn,
        prev_end: Lsn,
        records: &[u8],
        take: impl FnOnce(&mut dyn FnMut(&mut VisitRef<'_>) -> Result<(), EngineError>) -> Result<(), EngineError>,
    ) -> Result<Lsn, EngineError> {
        let mut unpacker = self.unpacker.lock();
        let unpacker = unpacker.as_mut().ok_or(EngineError::Closed)?;
        let received = self.follower.receive(start, prev_end, records);
        let end = self.follower.end();
        let taken = if end > start { usize::try_from(end.bytes_since(start)).unwrap_or(usize::MAX) } else { 0 };
        if let Some(taken) = records.get(..taken).filter(|taken| !taken.is_empty() && unpacker.position() == prev_end) {
            take(&mut |visit| unpacker.take(start, prev_end, taken, &mut *visit))?;
        }
        Ok(received?)
    }
}

impl OwnLog for FollowerLog {
    fn start(&self) -> Lsn {
        self.start
    }

    fn end(&self) -> Lsn {
        self.follower.end()
    }

    fn durable(&self) -> Lsn {
        self.follower.durable()
    }

    fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError> {
        self.follower.log().wait(Mark::Durable, lsn)
    }

    fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError> {
        self.follower.log().truncate_before(lsn).map(|_| ())
    }

    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError> {
        // Only durable log can be read; received log becomes durable soon.
        self.wait_durable(Lsn::new(last.lsn.get() + 1))?;
        let read = self.follower.log().read(first.since).visit(|record: RecordRef<'_>| {
            if record.lsn > last.lsn {
                return Err(Stop::Behind);
            }
            visit(record.lsn, record.tag, record.body).map_err(Stop::Failed)
        });
        match read {
            Ok(()) | Err(Stop::Behind) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn close(&self) -> Result<(), EngineError> {
        Ok(self.follower.clone().close()?)
    }

    fn log(&self) -> Option<&Log> {
        Some(self.follower.log())
    }
}

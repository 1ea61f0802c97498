//! [`Readiness`]: the open database, or the reason why none is open: the monitoring port of a server exists before it
//! has a database, and between two of them.

use std::sync::Arc;

use collie_engine::{OpenPhase, OpenProgress};
use collie_sql::session::Database;
use parking_lot::Mutex;

/// The reason why there is no database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The current activity, in a line.
    pub(crate) why: String,
    /// The progress of that activity in percent, if it is known.
    pub(crate) percent: Option<u64>,
}

/// See the module's documentation.
pub(crate) struct Readiness(Mutex<Result<Arc<Database>, Closed>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Mutex::new(Err(Closed { why: "it is starting".to_owned(), percent: None })))
    }
}

impl Readiness {
    /// Returns the database.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn now(&self) -> Result<Arc<Database>, Closed> {
        self.0.lock().clone()
    }

    /// Records that a database is open.
    pub(crate) fn open(&self, database: Arc<Database>) {
        *self.0.lock() = Ok(database);
    }

    /// Records that there is no database now, or soon will be none.
    pub(crate) fn close(&self, why: impl Into<String>) {
        let closed = Err(Closed { why: why.into(), percent: None });
        // The previous database is dropped after the lock is released.
        let _before = std::mem::replace(&mut *self.0.lock(), closed);
    }

    /// Records the progress of an open.
    pub(crate) fn opening(&self, progress: &OpenProgress) {
        let what = match progress.phase {
            OpenPhase::Verify => "checking the log",
            OpenPhase::Levels => "loading the levels",
            OpenPhase::ScanChunks => "reading the log for large transactions",
            OpenPhase::Replay => "replaying the log",
            OpenPhase::Done => "reading the catalog",
        };
        let percent = progress.percent();
        let why = format!("it is starting: {what}, {percent} % of {} MiB", progress.bytes_total >> 20);
        *self.0.lock() = Err(Closed { why, percent: Some(percent) });
    }
}

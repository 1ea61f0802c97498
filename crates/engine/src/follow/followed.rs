//! `Followed`: the state of a database that follows a log: its own copy of the log, and its read horizon.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

use collie_base::{HistoryId, Lsn, Xid};
use collie_wal::{Log, WalError};
use parking_lot::Mutex;

use crate::dir::history_list::HISTORIES_MAX;
use crate::follow::holes::Holes;
use crate::follow::record::RecordAt;
use crate::follow::record::VisitRecord;
use crate::follow::replay_time::ReplayTime;
use crate::follow::shown::Shown;
use crate::follow::shown_times::ShownTimes;
use crate::{EngineError, HistoryStart, HistoryState};

/// A replica's own log: the records of its primary, at their positions.
pub(crate) trait OwnLog: fmt::Debug + Send + Sync {
    /// Returns the start of the log.
    fn start(&self) -> Lsn;

    /// Returns the end of the received log.
    fn end(&self) -> Lsn;

    /// Returns the position below which everything is on this node's disk.
    fn durable(&self) -> Lsn;

    /// Blocks until `durable` reaches `lsn`, which was received.
    ///
    /// # Errors
    /// If the log stopped before that.
    fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError>;

    /// Releases the log below `lsn`, in whole files.
    ///
    /// # Errors
    /// Those of the log, which is then longer than necessary.
    fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError>;

    /// Calls `visit` with the records from `first` to `last`, which were received, and perhaps with a few more.
    ///
    /// # Errors
    /// Those of the log; the first error of `visit`.
    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError>;

    /// Closes the log durably.
    ///
    /// # Errors
    /// Those of the log.
    fn close(&self) -> Result<(), EngineError>;

    /// Returns the log, for its figures; `None` if there is none.
    fn log(&self) -> Option<&Log>;
}

/// Catalog rows that one commit wrote, in their order: a key, and its value or `None` if it was deleted.
pub type CatalogRows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A replayed change of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogChange {
    /// Snapshots at or above this position show the change. There is none before the hook has returned.
    pub shown_from: Lsn,
    /// The written rows: a hook that has read the catalog once need not read it again.
    pub rows: CatalogRows,
}

/// A hook that receives each change of the catalog. It must not wait for a snapshot that shows the change: there is
/// none before the hook returns.
pub type CatalogHook = Arc<dyn Fn(CatalogChange) + Send + Sync>;

/// See the module's documentation.
pub(crate) struct Followed {
    // Constant after open.
    pub(crate) own: Arc<dyn OwnLog>,
    pub(crate) shown: Arc<Shown>,
    /// The times at which positions became visible.
    pub(crate) shown_times: ShownTimes,
    /// Families that lack rows here. Noted by the dispatcher.
    pub(crate) holes: Holes,
    /// Above every transaction id in the dispatched log. Stored by the dispatcher.
    xid_limit: AtomicU64,
    /// Time marks in the received log.
    pub(crate) time: ReplayTime,
    /// The newest received histories, oldest first; each is noted before any commit of it is shown.
    histories: Mutex<Vec<HistoryStart>>,
    telling: Mutex<Telling>,
}

/// The hook for changes of the catalog.
#[derive(Default)]
struct Telling {
    hook: Option<CatalogHook>,
    /// Snapshots at or above this position show every change so far.
    changed: Lsn,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("own", &self.own).field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Followed {
    /// Returns the state of a followed log with ids below `xid_limit` so far, and these histories.
    pub(crate) fn new(
        own: Arc<dyn OwnLog>,
        shown: Arc<Shown>,
        holes: Holes,
        xid_limit: Xid,
        histories: Vec<HistoryStart>,
    ) -> Self {
        Self {
            own,
            shown,
            shown_times: ShownTimes::default(),
            holes,
            xid_limit: AtomicU64::new(xid_limit.get()),
            time: ReplayTime::default(),
            histories: Mutex::new(histories),
            telling: Mutex::default(),
        }
    }

    /// Notes a history that begins, before any commit of it is shown.
    pub(crate) fn note_history(&self, history: HistoryStart) {
        let mut histories = self.histories.lock();
        histories.push(history);
        let excess = histories.len().saturating_sub(HISTORIES_MAX);
        histories.drain(..excess);
    }

    /// Returns the newest received histories, oldest first.
    pub(crate) fn histories(&self) -> Vec<HistoryStart> {
        self.histories.lock().clone()
    }

    /// Returns the state of a history.
    pub(crate) fn history_state(&self, history: HistoryId) -> HistoryState {
        HistoryState::of(history, &self.histories.lock())
    }

    /// Returns the smaller of the read horizon and the own durable position. Flushes and cuts of the log use it as
    /// `durable`.
    pub(crate) fn durable(&self) -> Lsn {
        self.shown.position().min(self.own.durable())
    }

    /// Raises the bound of transaction ids.
    pub(crate) fn note_xid_limit(&self, limit: Xid) {
        self.xid_limit.fetch_max(limit.get(), Release);
    }

    /// Returns a bound of the transaction ids in the log below the read horizon.
    pub(crate) fn xid_limit(&self) -> Xid {
        Xid::new(self.xid_limit.load(Acquire))
    }

    /// Installs `hook` for changes of the catalog from now on. Returns the position from which on snapshots show all
    /// earlier changes.
    pub(crate) fn set_hook(&self, hook: CatalogHook) -> Lsn {
        let mut telling = self.telling.lock();
        telling.hook = Some(hook);
        telling.changed
    }

    /// Passes a change of the catalog to the hook.
    pub(crate) fn catalog_changed(&self, shown_from: Lsn, rows: CatalogRows) {
        let hook = {
            let mut telling = self.telling.lock();
            telling.changed = shown_from;
            telling.hook.clone()
        };
        if let Some(hook) = hook {
            hook(CatalogChange { shown_from, rows });
        }
    }
}

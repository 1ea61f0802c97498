//! `Followed`: what a database knows of the log that it follows: its own copy of it, and how far it shows it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

use collie_base::{HistoryId, Lsn, Xid};
use collie_wal::{Log, WalError};
use parking_lot::Mutex;

use crate::history_list::HISTORIES_MAX;
use crate::replica::holes::Holes;
use crate::replica::live::VisitRecord;
use crate::replica::replay_time::ReplayTime;
use crate::replica::shown::Shown;
use crate::replica::shown_times::ShownTimes;
use crate::replica::unfinished::RecordAt;
use crate::{EngineError, HistoryStart, HistoryState};

/// A replica's own log: the records of its primary, at their positions.
pub(crate) trait OwnLog: fmt::Debug + Send + Sync {
    /// Returns where it starts.
    fn start(&self) -> Lsn;

    /// Returns the end of what was received.
    fn end(&self) -> Lsn;

    /// Returns the position below which everything is on this machine's disk.
    fn durable(&self) -> Lsn;

    /// Blocks until `durable` reaches `lsn`, which was received.
    ///
    /// # Errors
    /// The log stopped before.
    fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError>;

    /// Gives up the log below `lsn`, in whole files.
    ///
    /// # Errors
    /// The log's: it is longer than it must be.
    fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError>;

    /// Calls `visit` with the records from `first` to `last`, which were received, and perhaps with some more.
    ///
    /// # Errors
    /// The log's, the first one of `visit`.
    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError>;

    /// Closes it, durably.
    ///
    /// # Errors
    /// The log's.
    fn close(&self) -> Result<(), EngineError>;

    /// Returns the log, for its figures; `None` where there is none.
    fn log(&self) -> Option<&Log>;
}

/// Rows of the catalog that one commit wrote, in their order: a key, and its value or `None` where it was deleted.
pub type CatalogRows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A change of the catalog that was replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogChange {
    /// Snapshots at or above this position show it. None does before the hook has returned.
    pub shown_from: Lsn,
    /// What it wrote: who has read the catalog once need not read it again.
    pub rows: CatalogRows,
}

/// Told of each change of the catalog. It must not wait for a snapshot to show something: none does before it returns.
pub type CatalogHook = Arc<dyn Fn(CatalogChange) + Send + Sync>;

/// See the module's documentation.
pub(crate) struct Followed {
    // Constant after open.
    pub(crate) own: Arc<dyn OwnLog>,
    pub(crate) shown: Arc<Shown>,
    /// Since when what is shown is.
    pub(crate) shown_times: ShownTimes,
    /// Families of which rows are missing here. Noted by the dispatcher.
    pub(crate) holes: Holes,
    /// Every id of a transaction in the log that was dispatched is below. Stored by the dispatcher.
    xid_limit: AtomicU64,
    /// Marks of the time among what was taken.
    pub(crate) time: ReplayTime,
    /// The newest of those that were received, oldest first: each before anything in it is shown.
    histories: Mutex<Vec<HistoryStart>>,
    telling: Mutex<Telling>,
}

/// Whom changes of the catalog are told.
#[derive(Default)]
struct Telling {
    hook: Option<CatalogHook>,
    /// Snapshots at or above it show every change so far.
    changed: Lsn,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("own", &self.own).field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Followed {
    /// With ids below `xid_limit` in the log so far, and these histories.
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

    /// Takes note of a history that begins, before anything in it is shown.
    pub(crate) fn note_history(&self, history: HistoryStart) {
        let mut histories = self.histories.lock();
        histories.push(history);
        let excess = histories.len().saturating_sub(HISTORIES_MAX);
        histories.drain(..excess);
    }

    /// Returns the newest of the histories that were received, oldest first.
    pub(crate) fn histories(&self) -> Vec<HistoryStart> {
        self.histories.lock().clone()
    }

    /// Returns what is known of a history.
    pub(crate) fn history_state(&self, history: HistoryId) -> HistoryState {
        HistoryState::of(history, &self.histories.lock())
    }

    /// Returns the position that is shown, and on this machine's disk: what flushes and cuts of the log go by.
    pub(crate) fn durable(&self) -> Lsn {
        self.shown.position().min(self.own.durable())
    }

    /// Raises the bound of ids.
    pub(crate) fn note_xid_limit(&self, limit: Xid) {
        self.xid_limit.fetch_max(limit.get(), Release);
    }

    /// Returns a bound of the ids in the log below what is shown.
    pub(crate) fn xid_limit(&self) -> Xid {
        Xid::new(self.xid_limit.load(Acquire))
    }

    /// Has `hook` told of changes of the catalog from now on. Returns the position from which on snapshots show all that came before.
    pub(crate) fn set_hook(&self, hook: CatalogHook) -> Lsn {
        let mut telling = self.telling.lock();
        telling.hook = Some(hook);
        telling.changed
    }

    /// Tells of a change of the catalog.
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

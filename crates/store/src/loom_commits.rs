//! `Commits`: replaces transactions and a log in the models of rows, under `--cfg loom`.

use collie_base::{CfId, Lsn, Xid};
use collie_sync::Mutex;
use collie_sync::atomic::{AtomicU64, Ordering};

use crate::held::Holders;
use crate::stamp::{Resolve, TxnStatus, Word};
use crate::{RowHolders, ShareLocks};

/// Position of the first commit of a model.
pub(crate) const START: u64 = 5000;
/// Length of a commit's record.
const LEN: u64 = 10;

/// The states of `N` transactions, by id, and a log under one mutex: a commit takes a position, publishes, and moves
/// the boundary. The holders of the model's one row are under another mutex.
pub(crate) struct Commits<const N: usize> {
    states: [AtomicU64; N],
    log: Mutex<u64>,
    boundary: AtomicU64,
    holders: Mutex<Holders>,
}

impl<const N: usize> Commits<N> {
    pub(crate) fn new() -> Self {
        let states = std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            states,
            log: Mutex::new(START),
            boundary: AtomicU64::new(START),
            holders: Mutex::new(Holders::default()),
        }
    }

    /// Returns the boundary: every commit below is published.
    pub(crate) fn now(&self) -> Lsn {
        Lsn::new(self.boundary.load(Ordering::Acquire))
    }

    /// Commits transaction `xid` and returns its position.
    pub(crate) fn publish(&self, xid: u64) -> Lsn {
        self.publish_and(xid, |_| ())
    }

    /// The same; `and` receives the end of the record while the log is still locked.
    pub(crate) fn publish_and(&self, xid: u64, and: impl FnOnce(u64)) -> Lsn {
        let state = &self.states[usize::try_from(xid).unwrap()];
        self.append(|position| state.store(position, Ordering::Release), and)
    }

    /// Appends a record that is not a commit. `and` as above.
    pub(crate) fn mark(&self, and: impl FnOnce(u64)) -> Lsn {
        self.append(|_| (), and)
    }

    fn append(&self, publish: impl FnOnce(u64), and: impl FnOnce(u64)) -> Lsn {
        let mut log = self.log.lock();
        let position = *log;
        *log += LEN;
        publish(position);
        self.boundary.store(*log, Ordering::Release);
        and(*log);
        Lsn::new(position)
    }

    /// Returns whether transaction `xid` is still running, or its CSN.
    pub(crate) fn fate(&self, xid: Xid) -> TxnStatus {
        match self.states[usize::try_from(xid.get()).unwrap()].load(Ordering::Acquire) {
            0 => TxnStatus::InProgress(xid),
            csn => TxnStatus::Committed(Lsn::new(csn)),
        }
    }
}

impl<const N: usize> ShareLocks for Commits<N> {
    fn with_holders<R>(&self, _: CfId, _: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
        act(&mut *self.holders.lock())
    }
}

impl<const N: usize> Resolve for Commits<N> {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp).unwrap_or_else(|xid| self.fate(xid))
    }
}

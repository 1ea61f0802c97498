//! `Commits`: what the models of rows have in place of transactions and a log, under `--cfg loom`.

use collie_base::{CfId, Lsn, Xid};
use collie_sync::Mutex;
use collie_sync::atomic::{AtomicU64, Ordering};

use crate::held::Holders;
use crate::stamp::{Fate, Resolve, Word};
use crate::{RowHolders, ShareLocks};

/// Where the first commit of a model lies.
pub(crate) const START: u64 = 5000;
/// How long a commit's record is.
const LEN: u64 = 10;

/// The states of `N` transactions, by their id, and a log under one mutex: a commit takes a position, publishes, moves the
/// boundary. The holders of the model's one row are under a mutex of their own.
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

    /// Everything below is published.
    pub(crate) fn now(&self) -> Lsn {
        Lsn::new(self.boundary.load(Ordering::Acquire))
    }

    /// Commits transaction `xid` at the position returned.
    pub(crate) fn publish(&self, xid: u64) -> Lsn {
        self.publish_and(xid, |_| ())
    }

    /// The same; `and` is given the end of the record while the log is still held.
    pub(crate) fn publish_and(&self, xid: u64, and: impl FnOnce(u64)) -> Lsn {
        let state = &self.states[usize::try_from(xid).unwrap()];
        self.append(|position| state.store(position, Ordering::Release), and)
    }

    /// Puts in a record that is no commit. `and` as above.
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

    /// Whether transaction `xid` runs still.
    pub(crate) fn fate(&self, xid: Xid) -> Fate {
        match self.states[usize::try_from(xid.get()).unwrap()].load(Ordering::Acquire) {
            0 => Fate::InProgress(xid),
            csn => Fate::Committed(Lsn::new(csn)),
        }
    }
}

impl<const N: usize> ShareLocks for Commits<N> {
    fn with_holders<R>(&self, _: CfId, _: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
        act(&mut *self.holders.lock())
    }
}

impl<const N: usize> Resolve for Commits<N> {
    fn resolve(&self, stamp: &Word) -> Fate {
        Fate::of_final(stamp).unwrap_or_else(|xid| self.fate(xid))
    }
}

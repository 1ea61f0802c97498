//! `Writes`: the versions of one open transaction, and the garbage that its commit makes.

use std::collections::VecDeque;
use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_store::{Family, Fate, Pending, Resolve, Row, Word};
use collie_txn::{Resolution, Txns, WriteSet};
use parking_lot::Mutex;

use crate::families::Families;
use crate::log::EngineLog;

/// Answers the rows' question what became of a transaction.
pub(crate) struct Fates<'a>(pub(crate) &'a Txns<EngineLog>);

impl Resolve for Fates<'_> {
    fn resolve(&self, stamp: &Word) -> Fate {
        match self.0.resolve(stamp) {
            Resolution::InProgress(xid) => Fate::InProgress(xid),
            Resolution::Aborted => Fate::Aborted,
            Resolution::Committed(csn) => Fate::Committed(csn),
        }
    }
}

/// Rows taken from the queue under one hold of its lock.
const CLEAN_BATCH_ROWS: usize = 256;

/// Rows of which a commit superseded something, about in the order of commits.
#[derive(Debug, Default)]
pub(crate) struct Garbage(Mutex<VecDeque<(Lsn, CfId, Arc<Row>)>>);

impl Garbage {
    /// Cleans up to `limit` rows that were superseded below `horizon`; returns how many.
    pub(crate) fn clean(&self, families: &Families, horizon: Lsn, limit: usize) -> usize {
        let mut cleaned = 0;
        let mut busy = Vec::new();
        let mut family: Option<Arc<Family>> = None;
        let mut batch = Vec::with_capacity(CLEAN_BATCH_ROWS);
        while cleaned < limit {
            {
                let mut queue = self.0.lock();
                while batch.len() < CLEAN_BATCH_ROWS && queue.front().is_some_and(|(csn, ..)| *csn < horizon) {
                    batch.extend(queue.pop_front());
                }
            }
            if batch.is_empty() {
                break;
            }
            cleaned += batch.len();
            for (csn, cf, row) in batch.drain(..) {
                if family.as_ref().is_none_or(|family| family.id() != cf) {
                    family = families.get(cf);
                }
                if family.as_ref().is_some_and(|family| family.clean(&row, csn, horizon)) {
                    busy.push((csn, cf, row));
                }
            }
        }
        if !busy.is_empty() {
            self.0.lock().extend(busy);
        }
        cleaned
    }

    /// Returns how many rows wait.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// The versions of one open transaction, oldest first.
#[derive(Debug)]
pub(crate) struct Writes {
    families: Arc<Families>,
    garbage: Arc<Garbage>,
    entries: Vec<(CfId, Pending)>,
}

impl Writes {
    pub(crate) fn new(families: &Arc<Families>, garbage: &Arc<Garbage>) -> Self {
        Self { families: Arc::clone(families), garbage: Arc::clone(garbage), entries: Vec::new() }
    }

    pub(crate) fn push(&mut self, cf: CfId, pending: Pending) {
        self.entries.push((cf, pending));
    }
}

impl WriteSet for Writes {
    fn stamp(&mut self, csn: Lsn) {
        if self.entries.iter().any(|(_, pending)| pending.supersedes()) {
            let superseding = self.entries.iter().filter(|(_, pending)| pending.supersedes());
            let mut queue = self.garbage.0.lock();
            queue.extend(superseding.map(|(cf, pending)| (csn, *cf, Arc::clone(pending.row()))));
        }
        self.entries.drain(..).for_each(|(_, pending)| pending.commit(csn));
    }

    fn undo_to(&mut self, position: u64) {
        let kept = usize::try_from(position).unwrap_or(usize::MAX);
        while self.entries.len() > kept {
            let Some((cf, pending)) = self.entries.pop() else { return };
            match self.families.get(cf) {
                Some(family) => family.undo(pending),
                None => drop(pending), // a dropped family has no index to take the row from
            }
        }
    }

    fn position(&self) -> u64 {
        u64::try_from(self.entries.len()).unwrap_or(u64::MAX)
    }
}

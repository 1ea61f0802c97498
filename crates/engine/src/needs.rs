//! `Needs`: what must hold before the reply to the end of a transaction leaves. How one waits for it is `wait.rs`'s business.
//!
//! # Invariants
//! - G1. Before the reply to a commit that does not wait for the disk leaves, the boundary has passed its record and the
//!   acknowledged floor was raised to its end: whoever hears of it finds it in every later snapshot, also of what is settled.
//!
//! Checked by the models of readers of what is settled (`loom_tests.rs`).

use collie_base::Lsn;
use collie_txn::{CommitLog, Gate, Txns};
use collie_wal::Mark;

/// A log that can be asked whether a mark has reached a position.
pub(crate) trait Marks: CommitLog {
    /// Returns whether `mark` has reached `lsn`. For the boundary it may look at every slot in use.
    fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool;
}

/// What must hold, first to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    boundary: Lsn,
    durable: Lsn,
    /// Whether the acknowledged floor may stand for `durable`.
    or_acknowledged: bool,
    /// What to acknowledge then.
    acknowledge: Option<Lsn>,
}

impl Needs {
    /// For a commit whose record ends at `end`, and which waits for the disk if `sync`.
    pub(crate) const fn committed(end: Lsn, sync: bool) -> Self {
        if sync {
            Self { boundary: Lsn::ZERO, durable: end, or_acknowledged: false, acknowledge: None }
        } else {
            Self { boundary: end, durable: Lsn::ZERO, or_acknowledged: false, acknowledge: Some(end) }
        }
    }

    /// For a transaction that wrote nothing.
    pub(crate) fn nothing_written(gate: Gate) -> Self {
        let durable = gate.settled.unwrap_or(Lsn::ZERO);
        Self { boundary: gate.boundary, durable, or_acknowledged: true, acknowledge: None }
    }

    /// Returns the mark that must still move, and where to.
    pub(crate) fn missing(&self, txns: &Txns<impl Marks>) -> Option<(Mark, Lsn)> {
        let log = txns.log();
        if !log.is_reached(Mark::Boundary, self.boundary) {
            return Some((Mark::Boundary, self.boundary));
        }
        let there = if self.or_acknowledged { txns.settled() } else { log.durable() };
        (there < self.durable).then_some((Mark::Durable, self.durable))
    }

    /// Nothing is missing any more, and the reply leaves next: acknowledges what does not wait for the disk.
    pub(crate) fn met(&mut self, txns: &Txns<impl CommitLog>) {
        if let Some(end) = self.acknowledge.take() {
            txns.acknowledge(end);
        }
    }
}

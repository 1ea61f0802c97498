//! `Needs`: what must hold before the reply to the end of a transaction leaves. How one waits for it is `wait.rs`'s business.
//!
//! # Invariants
//! - G1. Before the reply to a commit that waits for less than what is settled leaves, the boundary has passed its record and the
//!   acknowledged floor was raised to its end: whoever hears of it finds it in every later snapshot, also of what is settled.
//! - G2. A reply says that replicas have the commit only if they said so: one that leaves because they are not counted, or because
//!   nobody waits for them any more, is marked.
//! - G3. A reply that leaves because nobody is asked leaves with what every later snapshot of what is settled shows: it is settled, or
//!   acknowledged (G1), also if replicas are asked from the next moment on.
//!
//! Checked by the models of readers of what is settled (`loom_tests.rs`), G3 by `tests/quorum.rs` too.

use collie_base::Lsn;
use collie_sync::mutant;
use collie_txn::{CommitLog, Gate, Txns};
use collie_wal::Mark;

use crate::settled::{CommitLevel, Confirm, Settled};

/// A log that can be asked whether a mark has reached a position.
pub(crate) trait Marks: CommitLog {
    /// Returns whether `mark` has reached `lsn`. For the boundary it may look at every slot in use.
    fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool;

    /// Returns what replicas have confirmed, where they are counted.
    fn replicas(&self) -> Option<&Settled> {
        None
    }
}

/// What must still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// This mark of the log must reach this.
    Log(Mark, Lsn),
    /// Replicas must confirm what lies below this.
    Replicas(Confirm, Lsn),
}

/// What must hold, first to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    boundary: Lsn,
    durable: Lsn,
    /// Whether the acknowledged floor may stand for the rest: nothing was written.
    or_acknowledged: bool,
    /// What replicas must have confirmed, where they are counted.
    replicas: Option<(Confirm, Lsn)>,
    /// What to acknowledge then.
    acknowledge: Option<Lsn>,
    /// Whether the reply leaves without what replicas were asked for (G2).
    unconfirmed: bool,
}

impl Needs {
    const NOTHING: Self = Self {
        boundary: Lsn::ZERO,
        durable: Lsn::ZERO,
        or_acknowledged: false,
        replicas: None,
        acknowledge: None,
        unconfirmed: false,
    };

    /// For a commit whose record ends at `end`; `counts`: replicas are counted here.
    pub(crate) fn committed(end: Lsn, level: CommitLevel, counts: bool) -> Self {
        if !level.is_synchronous() {
            return Self { boundary: end, acknowledge: Some(end), ..Self::NOTHING };
        }
        let replicas = level.confirm().filter(|_| counts).map(|confirm| (confirm, end));
        // What is received only is not settled yet.
        let settles = !counts || matches!(replicas, Some((Confirm::Flushed | Confirm::Applied, _)));
        Self { durable: end, replicas, acknowledge: (!settles).then_some(end), ..Self::NOTHING }
    }

    /// For a transaction that wrote nothing; `counts`: replicas are counted here.
    pub(crate) fn nothing_written(gate: Gate, level: CommitLevel, counts: bool) -> Self {
        let durable = gate.settled.unwrap_or(Lsn::ZERO);
        // It waits for what it revealed, and that has to be shown to nobody else.
        let waits = counts && level >= CommitLevel::RemoteFlush;
        let replicas = gate.settled.filter(|_| waits).map(|revealed| (Confirm::Flushed, revealed));
        Self { boundary: gate.boundary, durable, or_acknowledged: true, replicas, ..Self::NOTHING }
    }

    /// Returns what must still happen.
    pub(crate) fn missing(&self, txns: &Txns<impl Marks>) -> Option<Missing> {
        let log = txns.log();
        if !log.is_reached(Mark::Boundary, self.boundary) {
            return Some(Missing::Log(Mark::Boundary, self.boundary));
        }
        if log.durable() < self.durable && !(self.or_acknowledged && txns.settled() >= self.durable) {
            return Some(Missing::Log(Mark::Durable, self.durable));
        }
        let (confirm, lsn) = self.replicas?;
        let replicas = log.replicas()?;
        let is_met = replicas.is_met(confirm, lsn) || self.or_acknowledged && txns.settled() >= lsn;
        (!is_met).then_some(Missing::Replicas(confirm, lsn))
    }

    /// Replicas are not waited for any more.
    pub(crate) fn give_up_replicas(&mut self) {
        if let Some((_, end)) = self.replicas.take() {
            self.unconfirmed = true;
            if !self.or_acknowledged {
                self.acknowledge = Some(end);
            }
        }
    }

    /// Nothing is missing any more, and the reply leaves next: acknowledges what does not wait for all that makes it settled. Returns
    /// whether the reply leaves without replicas that it asked for (G2).
    pub(crate) fn met(&mut self, txns: &Txns<impl Marks>) -> bool {
        if let Some((confirm, end)) = self.replicas
            && !self.or_acknowledged
            && let Some(replicas) = txns.log().replicas().filter(|replicas| !replicas.is_confirmed(confirm, end))
        {
            if replicas.is_asked() {
                self.give_up_replicas(); // they are not counted just now
            } else if txns.settled() < end && !mutant!("UNASKED_UNACKNOWLEDGED") {
                self.acknowledge = Some(end); // G3
            }
        }
        if let Some(end) = self.acknowledge.take().filter(|_| !mutant!("UNCONFIRMED_UNACKNOWLEDGED")) {
            txns.acknowledge(end);
            // It may be all that others waited for who have seen it.
            txns.log().replicas().into_iter().for_each(|replicas| replicas.wake(end));
        }
        self.unconfirmed
    }
}

//! `AckCondition`: the conditions that must hold before the reply to the end of a transaction leaves. `wait.rs` has the
//! waits.
//!
//! # Invariants
//! - G1. Before a reply leaves that does not wait until its commit is quorum-durable, the boundary has passed the
//!   record of the commit and the acknowledged floor was raised to the end of it: a client that receives the reply
//!   finds the commit in every later snapshot, including those at the quorum-durable position.
//! - G2. A reply says that replicas have the commit only if they reported so: a reply that leaves because they are
//!   not counted, or because the wait for them was given up, is marked.
//! - G3. A reply that leaves because no replica is asked leaves with a commit that every later snapshot at the
//!   quorum-durable position shows: it is quorum-durable or acknowledged (G1), even if replicas are asked from the
//!   next moment on.
//!
//! Checked by the models of readers at the quorum-durable position (`loom_tests.rs`), G3 by `tests/quorum.rs` too.

use collie_base::Lsn;
use collie_sync::mutant;
use collie_txn::{Gate, Txns};
use collie_wal::Mark;

use crate::log::marks::Marks;
use crate::log::settled::{CommitLevel, Confirm};

/// The next condition that does not hold yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// This mark of the log must reach this position.
    Log(Mark, Lsn),
    /// Replicas must confirm everything below this position.
    Replicas(Confirm, Lsn),
}

/// Conditions, in the order in which they are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckCondition {
    boundary: Lsn,
    durable: Lsn,
    /// Whether the acknowledged floor may replace `durable` and `replicas`: nothing was written.
    or_acknowledged: bool,
    /// The confirmation that replicas must have given, where they are counted.
    replicas: Option<(Confirm, Lsn)>,
    /// The position to acknowledge when all conditions hold.
    acknowledge: Option<Lsn>,
    /// Whether the reply leaves without the replicas that it asked for (G2).
    unconfirmed: bool,
}

impl AckCondition {
    const NOTHING: Self = Self {
        boundary: Lsn::ZERO,
        durable: Lsn::ZERO,
        or_acknowledged: false,
        replicas: None,
        acknowledge: None,
        unconfirmed: false,
    };

    /// Returns the conditions of a commit whose record ends at `end`; `counts`: replicas are counted here.
    pub(crate) fn committed(end: Lsn, level: CommitLevel, counts: bool) -> Self {
        if !level.is_synchronous() {
            return Self { boundary: end, acknowledge: Some(end), ..Self::NOTHING };
        }
        let replicas = level.confirm().filter(|_| counts).map(|confirm| (confirm, end));
        // A commit that replicas have only received is not quorum-durable yet.
        let settles = !counts || matches!(replicas, Some((Confirm::Flushed | Confirm::Applied, _)));
        Self { durable: end, replicas, acknowledge: (!settles).then_some(end), ..Self::NOTHING }
    }

    /// Returns the conditions of a transaction that wrote nothing; `counts`: replicas are counted here.
    pub(crate) fn nothing_written(gate: Gate, level: CommitLevel, counts: bool) -> Self {
        let durable = gate.settled.unwrap_or(Lsn::ZERO);
        // The commits that it revealed must be on the replicas' disks, but need not be visible to readers there.
        let waits = counts && level >= CommitLevel::RemoteFlush;
        let replicas = gate.settled.filter(|_| waits).map(|revealed| (Confirm::Flushed, revealed));
        Self { boundary: gate.boundary, durable, or_acknowledged: true, replicas, ..Self::NOTHING }
    }

    /// Returns the first condition that does not hold yet.
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

    /// Ends the wait for replicas.
    pub(crate) fn give_up_replicas(&mut self) {
        if let Some((_, end)) = self.replicas.take() {
            self.unconfirmed = true;
            if !self.or_acknowledged {
                self.acknowledge = Some(end);
            }
        }
    }

    /// Acknowledges a commit whose reply does not wait until it is quorum-durable. The caller has found all
    /// conditions to hold and sends the reply next. Returns whether the reply leaves without replicas that it asked
    /// for (G2).
    pub(crate) fn met(&mut self, txns: &Txns<impl Marks>) -> bool {
        if let Some((confirm, end)) = self.replicas
            && !self.or_acknowledged
            && let Some(replicas) = txns.log().replicas().filter(|replicas| !replicas.is_confirmed(confirm, end))
        {
            if replicas.is_asked() {
                self.give_up_replicas(); // they are not counted at present
            } else if txns.settled() < end && !mutant!("UNASKED_UNACKNOWLEDGED") {
                self.acknowledge = Some(end); // G3
            }
        }
        if let Some(end) = self.acknowledge.take().filter(|_| !mutant!("UNCONFIRMED_UNACKNOWLEDGED")) {
            txns.acknowledge(end);
            // This may be the only condition that readers of the commit still wait for.
            txns.log().replicas().into_iter().for_each(|replicas| replicas.wake(end));
        }
        self.unconfirmed
    }
}

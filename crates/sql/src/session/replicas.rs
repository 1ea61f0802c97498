//! The end of a commit: what is waited for, and what the client is told when it was not all that was asked for.
//!
//! # Invariants
//! - W1. This node's disk is always waited for, where the level says so; only the wait for replicas can be given up: by a cancel, or
//!   after `replication.sync_timeout`. The commit stands either way.
//! - W2. A reply that leaves without the replicas that its level asked for says so (R14 of replication.md).
//! - W3. A request to cancel that ended the wait is used up by it.
//! - W4. With a quorum no replica shows what a failover may take back: R4 of replication.md, also of what its log had when it was opened.
//!
//! Checked by the clients' tests of synchronous replicas (`tests/clients/tests/synchronous.rs`).

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use collie_engine::{Ack, CancelReason, EngineError, Receipt};

use crate::{
    error::{Result, SqlError, SqlState},
    session::{Database, Session, position},
};

/// What commits ask of replicas, in a database where they may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicasAsked {
    /// Whether `replication.quorum` names somebody, which counts where the log does not say who is asked.
    pub configured: bool,
    /// `replication.sync_timeout`: how long they are waited for; `None`: until they have it.
    pub timeout: Option<Duration>,
    /// Whether readers of replicas see only what so many have (`replication.show = settled`).
    pub shows_settled: bool,
}

impl Database {
    /// Says what commits ask of replicas. Only the first call counts.
    pub fn ask_replicas(&self, replicas: ReplicasAsked) {
        let _already_said = self.replicas.set(replicas);
    }

    /// Refuses to read tables of a replica that was opened with commits of which it does not know yet whether replicas have them (W4).
    ///
    /// # Errors
    /// 57P03, with what to do.
    pub(super) fn refuse_unsettled(&self) -> Result<()> {
        let Some(asked) = self.replicas.get().filter(|asked| asked.shows_settled && self.db.is_unsettled()) else {
            return Ok(());
        };
        // Where nobody is asked nothing is held back from readers.
        if !self.db.quorum_note().map_or(asked.configured, |note| note.asks()) {
            return Ok(());
        }
        let text = "this replica has commits of which it does not know whether enough replicas have them";
        let error = SqlError::new(SqlState::CANNOT_CONNECT_NOW, text);
        let why =
            "It was started with them, and a failover may take them back until a primary says that they may be shown.";
        Err(error.detail(why).hint("Try again once it follows a primary whose quorum is there, or promote it."))
    }
}

impl Session {
    /// Waits until the reply may leave (W1); also returns what the client is to be warned of (W2).
    ///
    /// # Errors
    /// The log's. The inner one says that the time for replicas is over: the commit stands.
    pub(super) async fn acknowledged(
        &self,
        mut ack: Ack,
    ) -> std::result::Result<(Receipt, Result<Option<SqlError>>), EngineError> {
        let Some(asked) = self.database.replicas.get().copied() else { return Ok((ack.await?, Ok(None))) };
        if let Some(timeout) = asked.timeout {
            self.limit_replicas(timeout);
        }
        let (cancel, mut reason) = (self.cancel.clone(), None);
        let outcome = poll_fn(|cx| {
            loop {
                if let Poll::Ready(outcome) = Pin::new(&mut ack).poll(cx) {
                    return Poll::Ready(outcome);
                }
                if reason.is_some() || !ack.waits_for_replicas() {
                    return Poll::Pending;
                }
                let Poll::Ready(why) = cancel.poll_cancelled(cx) else { return Poll::Pending };
                reason = Some(why);
                ack.give_up_replicas();
            }
        })
        .await;
        self.end_replicas(reason.is_some());
        let receipt = outcome?;
        let needed = || self.database.quorum().map_or(1, |quorum| quorum.needed.max(1));
        let told =
            if ack.is_unconfirmed() { unconfirmed(needed(), reason, receipt, &self.token(receipt)) } else { Ok(None) };
        Ok((receipt, told))
    }

    /// Returns the token of a commit.
    fn token(&self, receipt: Receipt) -> String {
        position::token(&self.database, receipt.end).map_or_else(String::new, |token| token.to_string())
    }
}

/// Says that replicas do not have it.
fn unconfirmed(needed: usize, reason: Option<CancelReason>, receipt: Receipt, token: &str) -> Result<Option<SqlError>> {
    let replicas = if needed == 1 { "replica" } else { "replicas" };
    let text = format!("durable here, not confirmed by {needed} {replicas}");
    let stands = |why: &str| format!("{why} The transaction is committed, and may be lost if this server is.");
    let is_late = reason == Some(CancelReason::ReplicasTimeout);
    if is_late && receipt.csn.is_some() {
        let error = SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, text);
        return Err(
            error.detail(stands(&format!("They did not answer within replication.sync_timeout. Token {token}.")))
        );
    }
    let warning = SqlError::new(SqlState::WARNING, text);
    Ok(Some(match reason {
        None => warning.detail(stands("Replication is degraded: commits do without replicas.")),
        Some(_) if is_late => warning.detail(stands("They did not answer within replication.sync_timeout.")),
        Some(_) => warning.detail(stands("The wait was canceled.")),
    }))
}

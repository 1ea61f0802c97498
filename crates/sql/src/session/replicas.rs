//! The end of a commit: the wait before its reply, and the reply if the wait ended early.
//!
//! | the wait for replicas ends because | the reply | the commit is visible |
//! |---|---|---|
//! | they have the commit | the command's tag | yes |
//! | commits are answered without them (`replication.degrade`) | the tag, with a warning (01000) | yes |
//! | the client cancels the statement | the tag, with a warning (01000) | yes |
//! | `replication.sync_timeout` is over | an error, 08007, with the token | yes |
//! | the session ends: terminated, server stops, node deposed | none: 57P01 with the token | once they have it |
//!
//! # Invariants
//! - W1. A commit always waits for this node's disk, if its level asks for it; only the wait for replicas can be given
//!   up. The commit stands either way.
//! - W2. A reply that leaves without the replicas that its level asked for says so (REPL-14).
//! - W3. A cancel that ended the wait is used up by it.
//! - W4. With a quorum no replica shows a commit that a failover may take back: REPL-4, also for the log that it had
//!   when it was opened.
//! - W5. No reply with a tag leaves without the replicas unless this node is still the primary, as far as it can learn
//!   ([`NodeState::still_leads`](crate::session::NodeState::still_leads)). That is checked when only the reply is left
//!   to do. If another node is the primary, the session ends.
//! - W6. A session that must end leaves its commit to the replicas: no reader sees it before they have it. Only a
//!   change of definitions is visible at once, since its locks end with the session.
//!
//! Checked by `replicas/tests.rs`, each way of the table, and by the clients' tests of synchronous replicas
//! (`tests/clients/tests/synchronous.rs`, `tests/clients/tests/deposed.rs`).

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use collie_engine::{Ack, CancelReason, EngineError, Receipt};

use crate::{
    error::{Result, SqlError, SqlState},
    session::{Database, Session, position},
};

/// The replicas that commits wait for, in a database that can have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicasAsked {
    /// Whether `replication.quorum` names any replica. It counts only if the log has no quorum configuration.
    pub configured: bool,
    /// `replication.sync_timeout`: the limit of the wait; `None`: without limit.
    pub timeout: Option<Duration>,
    /// Whether readers on replicas see only commits that the quorum has (`replication.show = settled`).
    pub shows_settled: bool,
}

impl Database {
    /// Sets the replicas that commits wait for. Only the first call counts.
    pub fn ask_replicas(&self, replicas: ReplicasAsked) {
        let _already_said = self.replicas.set(replicas);
    }

    /// Refuses to read tables of a replica that was opened with commits of which it does not know yet whether a quorum
    /// has them (W4).
    ///
    /// # Errors
    /// 57P03, with what to do.
    pub(super) fn refuse_unsettled(&self) -> Result<()> {
        let Some(asked) = self.replicas.get().filter(|asked| asked.shows_settled && self.db.is_unsettled()) else {
            return Ok(());
        };
        // Without a quorum, no commit is held back from readers.
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

/// The reason why a wait for replicas ended.
enum Waited {
    /// The commit needs nothing more, or the log has failed.
    Over(std::result::Result<Receipt, EngineError>),
    /// A cancel, a time limit or an order to end came.
    Asked(CancelReason),
}

/// A commit that is on this node's disk and is not confirmed by the replicas that were asked for.
struct Unconfirmed {
    /// The reason why the wait was given up; `None` if commits are answered without replicas.
    reason: Option<CancelReason>,
    receipt: Receipt,
    /// The list of the quorum.
    asked: String,
    token: String,
}

impl Session {
    /// Waits until the reply may leave (W1); also returns a warning for the client, if any (W2). `defines`: the
    /// transaction changed definitions (W6).
    ///
    /// # Errors
    /// The log's. The inner error says that the reply may not leave without replicas, and that the commit stands.
    pub(super) async fn acknowledged(
        &self,
        mut ack: Ack,
        defines: bool,
    ) -> std::result::Result<(Receipt, Result<Option<SqlError>>), EngineError> {
        let Some(asked) = self.database.replicas.get().copied() else { return Ok((ack.await?, Ok(None))) };
        // The statement's own time limit has ended with the commit (SQL-26).
        if let Some(timeout) = asked.timeout {
            self.limit_replicas(timeout);
        }
        let (mut reason, mut was_asked) = (None, false);
        let outcome = loop {
            match self.waited(&mut ack, reason.is_some()).await {
                Waited::Over(outcome) => break Some(outcome),
                Waited::Asked(why) => {
                    was_asked = true;
                    let leads = self.database.still_leads().await;
                    if !ack.waits_for_replicas() {
                        continue; // the replicas have it by now
                    }
                    if !defines && (!leads || self.is_told_to_end()) {
                        break None; // W6
                    }
                    ack.give_up_replicas();
                    reason = Some(why);
                }
            }
        };
        self.end_replicas(was_asked);
        let receipt = match outcome {
            Some(outcome) => {
                let receipt = outcome?;
                if !ack.is_unconfirmed() {
                    return Ok((receipt, Ok(None)));
                }
                receipt
            }
            None => ack.receipt(),
        };
        let asked = self.database.quorum().map_or_else(|| "enough replicas".to_owned(), |quorum| quorum.asked());
        let unconfirmed = Unconfirmed { reason, receipt, asked, token: self.token(receipt) };
        let leads = self.database.still_leads().await; // W5
        let said = if leads && !self.is_told_to_end() { unconfirmed.said() } else { Err(unconfirmed.ended()) };
        Ok((receipt, said))
    }

    /// Waits until `ack` resolves, or until a cancel asks to give up replicas while it waits only for them. After
    /// `given_up`, waits only for `ack`.
    async fn waited(&self, ack: &mut Ack, given_up: bool) -> Waited {
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = Pin::new(&mut *ack).poll(cx) {
                return Poll::Ready(Waited::Over(outcome));
            }
            if given_up || !ack.waits_for_replicas() {
                return Poll::Pending;
            }
            self.cancel.poll_cancelled(cx).map(Waited::Asked)
        })
        .await
    }

    /// Returns the token of a commit.
    fn token(&self, receipt: Receipt) -> String {
        position::token(&self.database, receipt.end).map_or_else(String::new, |token| token.to_string())
    }
}

impl Unconfirmed {
    fn text(&self) -> String {
        format!("durable here, not confirmed by {}", self.asked)
    }

    fn stands(why: &str) -> String {
        format!("{why} The transaction is committed, and may be lost if this server is.")
    }

    /// Returns the error that ends a session whose reply may not leave.
    fn ended(&self) -> SqlError {
        let text = "terminating connection while its commit waits for replicas";
        let error = SqlError::new(SqlState::ADMIN_SHUTDOWN, text);
        let detail = match self.receipt.csn {
            Some(_) => {
                format!("The transaction is {}: whether it is kept is not known. Token {}.", self.text(), self.token)
            }
            None => format!("What the transaction has read is {}.", self.text()),
        };
        error.detail(detail).hint("Connect to the server that leads, and look whether the transaction is there.")
    }

    /// Returns the warning that goes with a reply, or the error in its place.
    fn said(&self) -> Result<Option<SqlError>> {
        let is_late = self.reason == Some(CancelReason::ReplicasTimeout);
        let late = "They did not answer within replication.sync_timeout.";
        if is_late && self.receipt.csn.is_some() {
            let error = SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, self.text());
            return Err(error.detail(Self::stands(&format!("{late} Token {}.", self.token))));
        }
        let warning = SqlError::new(SqlState::WARNING, self.text());
        Ok(Some(warning.detail(Self::stands(match self.reason {
            None => "Replication is degraded: commits do without replicas.",
            Some(_) if is_late => late,
            Some(_) => "The wait was canceled.",
        }))))
    }
}

#[cfg(test)]
mod tests;

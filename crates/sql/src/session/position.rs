//! Read-your-writes on another node: tokens of commits, and `collie.wait_for_lsn`.
//!
//! A commit's token is `HISTORY:LSN`: the history of the log and the end of the commit's record. It comes from
//! `collie_last_commit()` or, with `collie.report_commit = on`, from the parameter `collie.last_commit` before
//! ReadyForQuery. On any node `SET collie.wait_for_lsn = 'TOKEN'` makes statements wait until the commit is shown
//! there. A plain LSN is a position of any history that reaches it.
//!
//! # Invariants
//! - P1. While a position is set, a statement that takes a new snapshot sees every commit whose record ends at or below
//!   it, or fails: 57014 after `collie.wait_timeout`, 40001 if the commit was lost.
//! - P2. Names are resolved after the wait, in a catalog that is as new.
//! - P3. A token above the end of its history on this node is lost. That is checked after each wait too: a position
//!   says nothing once another history has reached it.
//! - P4. A statement under a kept snapshot does not wait.
//!
//! The wait blocks its thread (`Database::block_by`), as `pg_sleep` does, and takes no lock.
//!
//! Checked by `following/tests.rs`.

use std::{fmt, future::Future as _, pin::Pin, task::Poll, time::Duration};

use collie_base::{HistoryId, Lsn};
use collie_engine::{HistoryState, Token};

use crate::{
    error::{Result, SqlError, SqlState},
    session::{Database, Session, limits},
};

/// Interval of checks without a notification: for an unknown history that may arrive, and on a primary, where positions
/// that are not shown are rare.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The position that a session wants to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Position {
    /// `None` for any history that reaches the position.
    history: Option<HistoryId>,
    lsn: Lsn,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.history {
            Some(history) => Token { history, lsn: self.lsn }.fmt(f),
            None => self.lsn.fmt(f),
        }
    }
}

impl Position {
    /// Reads a token or an LSN; returns `None` for any other text.
    pub(in crate::session) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(Token { history, lsn }) = text.parse() {
            return Some(Self { history: Some(history), lsn });
        }
        text.parse().ok().map(|lsn| Self { history: None, lsn })
    }

    /// Returns whether snapshots at `shown` show the position. `state` is the state of its history, if it has one.
    ///
    /// # Errors
    /// 40001 if no snapshot ever will (P3).
    fn is_shown(self, shown: Lsn, state: Option<HistoryState>) -> Result<bool> {
        match state {
            Some(HistoryState::Unknown) => Ok(false),
            Some(HistoryState::Ended { at }) if self.lsn > at => {
                let text = format!("commit {} was lost in the failover at LSN {at}", self.lsn);
                Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, text)
                    .detail(format!("The history of the token {self} ended there on this line."))
                    .hint("What was written may have to be written again."))
            }
            Some(HistoryState::Ended { .. } | HistoryState::Current) | None => Ok(shown >= self.lsn),
        }
    }
}

impl Database {
    /// Returns whether new snapshots show a position.
    ///
    /// # Errors
    /// 40001 if they never will (P3).
    fn shows(&self, position: Position) -> Result<bool> {
        // In this order, so that the state of the history covers every position that was shown before.
        let shown = self.db.shown();
        position.is_shown(shown, position.history.map(|history| self.db.history_state(history)))
    }
}

impl Session {
    /// Waits until the next snapshot shows the position in `collie.wait_for_lsn`, if one is set (P1).
    ///
    /// # Errors
    /// 57014, 40001, and those of a cancelled statement.
    pub(super) fn wait_for_position(&self) -> Result<()> {
        match self.settings.effective().wait_for {
            None => Ok(()),
            Some(position) => self.wait_for(position),
        }
    }

    /// Returns whether a statement would now have to wait for the position in `collie.wait_for_lsn`, or fail.
    pub(super) fn must_wait(&self) -> bool {
        let position = self.settings.effective().wait_for.filter(|_| self.engine.snapshot().is_none());
        position.is_some_and(|position| !self.database.shows(position).unwrap_or(false))
    }

    #[cold]
    fn wait_for(&self, position: Position) -> Result<()> {
        // P4
        if self.engine.snapshot().is_some() || self.database.shows(position)? {
            return Ok(());
        }
        let db = &self.database.db;
        if !db.is_replica()
            && position.lsn <= db.boundary()
            && let Some(log) = db.log()
        {
            log.flush_soon(); // without it, no flush may be due
        }
        let limit_ms = self.settings.effective().position_wait_ms;
        let limit = if limit_ms == 0 { Duration::MAX } else { Duration::from_millis(limit_ms) };
        let (mut shown, mut outcome) = (None, Ok(None));
        let mut look = |cx: &mut std::task::Context<'_>| -> Poll<Result<()>> {
            match self.database.shows(position) {
                Ok(false) => {}
                Ok(true) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            if shown.is_none() {
                shown = db.wait_shown(position.lsn);
            }
            if let Some(wait) = &mut shown
                && let Poll::Ready(ended) = Pin::new(wait).poll(cx)
            {
                shown = None;
                if ended.is_err() && !db.is_replica() {
                    return Poll::Pending; // promoted meanwhile: the next check is a primary's
                }
                // The position is reached: `shows` also checks its history (P3).
                return match ended.map_err(SqlError::from).and_then(|()| self.database.shows(position)) {
                    Ok(true) => Poll::Ready(Ok(())),
                    Ok(false) => Poll::Pending,
                    Err(error) => Poll::Ready(Err(error)),
                };
            }
            Poll::Pending
        };
        self.database.block(&mut || {
            outcome = limits::block_until(&self.database, &self.cancel, limit, LOOK_EVERY, &mut look);
        });
        match outcome? {
            Some(ended) => ended,
            None => Err(self.not_shown(position)),
        }
    }

    fn not_shown(&self, position: Position) -> SqlError {
        let db = &self.database.db;
        let text = format!("canceling statement due to collie.wait_timeout: {position} is not shown here");
        let unknown = position.history.filter(|history| db.history_state(*history) == HistoryState::Unknown);
        let detail = match unknown {
            Some(_) => "This node does not know the history of the token.".to_owned(),
            None => format!("This node shows commits up to {}.", db.shown()),
        };
        SqlError::new(SqlState::QUERY_CANCELED, text).detail(detail)
    }

    /// Returns the token of the last commit if the client wants it (`collie.report_commit`) and did not get it yet. The
    /// caller sends it as the parameter [`COMMIT_PARAMETER`], before ReadyForQuery.
    pub fn commit_to_report(&mut self) -> Option<String> {
        if self.is_commit_told || !self.settings.effective().report_commit {
            return None;
        }
        self.is_commit_told = true;
        token(&self.database, self.last_commit).map(|token| token.to_string())
    }
}

/// The parameter by which commits are reported to clients.
pub const COMMIT_PARAMETER: &str = "collie.last_commit";

/// Returns the token of a commit on this node whose record ends at `end`.
pub(super) fn token(database: &Database, end: Option<Lsn>) -> Option<Token> {
    // Every commit of a session here is in the newest history: a node that follows another one commits nothing.
    let history = database.db.histories().1.last()?.history;
    end.map(|lsn| Token { history, lsn })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: tokens and plain positions are read, with blanks around them, and other texts are not. Method: table.
    #[test]
    fn positions_are_read_as_tokens_and_as_lsns() {
        let read = |text| Position::read(text).map(|position| position.to_string());
        assert_eq!(read(" 0/1000 ").as_deref(), Some("0/1000"));
        assert_eq!(read("a0:1/2").as_deref(), Some("00000000000000A0:1/2"));
        for text in ["", "1", "x", "0/", ":0/1", "1:0/1:2"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    /// Goal: P1, P3: a position is shown from its LSN on, is lost above the end of its history, whatever is shown, and
    /// is waited for if its history is unknown. Method: a position in each state of a history, below, at and above.
    #[test]
    fn positions_are_shown_waited_for_or_lost() {
        let position = Position { history: Some(HistoryId::new(1)), lsn: Lsn::new(100) };
        let is_shown = |shown, state| position.is_shown(Lsn::new(shown), state).map_err(|error| error.state());
        let ended = |at| Some(HistoryState::Ended { at: Lsn::new(at) });
        for state in [None, Some(HistoryState::Current), ended(100), ended(500)] {
            assert_eq!(
                [99, 100, 101].map(|shown| is_shown(shown, state)),
                [Ok(false), Ok(true), Ok(true)],
                "{state:?}"
            );
        }
        for shown in [0, 99, 100, 10_000] {
            assert_eq!(is_shown(shown, Some(HistoryState::Unknown)), Ok(false));
            assert_eq!(is_shown(shown, ended(99)), Err(SqlState::SERIALIZATION_FAILURE));
        }
    }
}

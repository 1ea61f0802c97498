//! [`ReadSession`]: runs reads that another node has taken. It keeps nothing of them: rows are counted as they come.
//!
//! It is not listed among the sessions: nobody is connected, and what it runs is shown nowhere (S3).

use std::sync::Arc;

use collie_engine::CancelHandle;

use super::{fit::is_fit, parameters};
use crate::{
    error::{Result, SqlState},
    session::{
        Client, Database, Session,
        prepared::{Planned, Prepared, Verb},
        run::Rows,
    },
    types::Value,
};

/// What its activity is called.
const NAME: &str = "sampled reads";

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rerun {
    /// It has run, and returned so many rows.
    Ran {
        /// How many.
        rows: u64,
    },
    /// It is none that may be run again: nothing of it ran.
    Unfit,
    /// It has failed. What the message says may be what users wrote (S3).
    Failed(SqlState),
}

/// See the module's documentation.
pub struct ReadSession(Session);

/// A read that may run.
struct Ready {
    prepared: Arc<Prepared>,
    planned: Arc<Planned>,
    params: Vec<Value>,
}

impl Database {
    /// Opens a session for reads of another node. Each may take `statement_ms` and keep `bytes_max` of rows in memory: beyond either it
    /// fails (57014, 53200).
    ///
    /// # Errors
    /// 53300 when the engine has no room for another session.
    pub fn connect_for_reads(self: &Arc<Self>, statement_ms: u64, bytes_max: u64) -> Result<ReadSession> {
        let mut session = self.connect_unlisted(NAME)?;
        // What text means follows from these: whoever takes reads takes them under the same alone.
        session.set_at_connect("statement_timeout", &statement_ms.to_string())?;
        session.set_at_connect("default_transaction_read_only", "on")?;
        session.row_bytes_max = bytes_max;
        Ok(ReadSession(session))
    }
}

impl ReadSession {
    /// Returns what cancels the read that runs.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.0.cancel.clone()
    }

    /// Runs a read to its end. `client` is asked to drain about once a millisecond, and gets no rows.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a transaction open, which the next call ends.
    pub async fn run<C: Client>(&mut self, text: &str, parameters: &[u8], client: &mut C) -> Rerun {
        let session = &mut self.0;
        session.roll_back().await;
        session.begin_message(NAME);
        let ran = match session.ready(text, parameters) {
            Ok(Some(ready)) => session.rerun(ready, client).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if ran.is_err() {
            session.fail().await;
        }
        session.end_message();
        match ran {
            Ok(Some(rows)) => Rerun::Ran { rows },
            Ok(None) => Rerun::Unfit,
            Err(error) if error.state() == SqlState::PROTOCOL_VIOLATION => Rerun::Unfit,
            Err(error) => Rerun::Failed(error.state()),
        }
    }
}

impl Session {
    /// Prepares a read; `None` for a statement that must not run here (S2).
    fn ready(&mut self, text: &str, parameters: &[u8]) -> Result<Option<Ready>> {
        let (types, params) = parameters::decode(parameters)?;
        let prepared = self.prepare_current(text, &types)?;
        let Some(planned) = self.planned(&prepared)? else { return Ok(None) };
        let is_fit = planned.verb == Verb::Select
            && planned.analyzed.parameters == types
            && *planned.fit.get_or_init(|| is_fit(&planned.analyzed));
        Ok(is_fit.then_some(Ready { prepared, planned, params }))
    }

    async fn rerun<C: Client>(&mut self, ready: Ready, client: &mut C) -> Result<u64> {
        let Ready { prepared, planned, params } = ready;
        let Some(stmt) = prepared.stmt.as_deref() else { unreachable!("what is planned is a statement") };
        let rows = self.run(stmt, &prepared.declared, planned, params, Rows::Dropped, client).await?;
        self.commit(client).await?;
        Ok(rows)
    }
}

//! [`ReadSession`]: runs reads that another node has sampled. It keeps none of their rows, but counts them as they
//! come.
//!
//! It is not listed among the sessions: no client is connected, and its statements are shown nowhere (S3).

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

/// The text of its activity.
const NAME: &str = "sampled reads";

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rerun {
    /// It has run, and returned this number of rows.
    Ran {
        /// The number of rows.
        rows: u64,
    },
    /// It must not be run again: no part of it ran.
    Unfit,
    /// It has failed. The message is left out, since it may contain users' text (S3).
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
    /// Opens a session for reads of another node. Each may take `statement_ms` and keep `bytes_max` of rows in memory;
    /// beyond either limit it fails (57014, 53200).
    ///
    /// # Errors
    /// 53300 when the engine has no room for another session.
    pub fn connect_for_reads(self: &Arc<Self>, statement_ms: u64, bytes_max: u64) -> Result<ReadSession> {
        let mut session = self.connect_unlisted(NAME)?;
        // The other settings keep their defaults, since the meaning of a text depends on them: reads are sampled only
        // under the defaults.
        session.set_at_connect("statement_timeout", &statement_ms.to_string())?;
        session.set_at_connect("default_transaction_read_only", "on")?;
        session.row_bytes_max = bytes_max;
        Ok(ReadSession(session))
    }
}

impl ReadSession {
    /// Returns the handle that cancels the running read.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.0.cancel.clone()
    }

    /// Runs a read to its end. `client` is asked to drain about once a millisecond, and gets no rows.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a transaction open; the next call rolls it back.
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

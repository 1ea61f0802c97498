//! CHECKPOINT, and `CALL collie_checkpoint(...)`, which copies the database to a directory of the server (`copies.rs`
//! decides which).
//!
//! Both block their thread until they are done, and the runtime knows of it ([`Database::block`](super::Database)). A
//! copy ends, and leaves nothing behind, when the statement is cancelled or reaches its time limit.

use std::ops::ControlFlow;

use collie_engine::{CheckpointOptions, EngineError};

use crate::{
    analyze::bound::ResultColumn,
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::{Client, Session, limits},
    types::{SqlType, Value, oid},
};

/// Returns the columns of the row that a copy answers with.
pub(super) fn copied_columns() -> Vec<ResultColumn> {
    let column = |(name, ty): (&str, u32)| ResultColumn { name: name.to_owned(), ty: SqlType::new(ty), origin: None };
    let positions = ["start_lsn", "from_lsn", "end_lsn"].map(|name| (name, oid::TEXT));
    let counts = [("files", oid::INT8), ("bytes", oid::INT8), ("directory", oid::TEXT)];
    positions.into_iter().chain(counts).map(column).collect()
}

impl Session {
    /// Runs CHECKPOINT: on return the LSM levels hold every commit that was quorum-durable at the call, and the log
    /// that only those commits needed is released.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        self.database.block(&mut || outcome = self.database.db.flush_all());
        Ok(outcome?)
    }

    /// Copies the database. Every user may, since Collie has no privileges.
    pub(super) fn copy_database<C: Client>(&mut self, copy: &ast::CopyDatabase, client: &mut C) -> Result<()> {
        let dir = self.database.place_of_copy(&copy.dir)?;
        let options = CheckpointOptions { copy: copy.copy };
        let mut outcome = Err(EngineError::Cancelled);
        self.database.block(&mut || {
            outcome = self.database.db.checkpoint(&dir, options, &mut |_| match self.cancel.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        });
        let made = match outcome {
            Err(error @ (EngineError::BadTarget { .. } | EngineError::InvalidArgument { .. })) => {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string()));
            }
            outcome => outcome.map_err(|error| limits::wait_failed(error, &self.cancel))?,
        };
        let count = |count: u64| Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
        let position = |lsn: collie_base::Lsn| Value::Text(lsn.to_string().as_str().into());
        let positions = [made.start, made.from, made.end].map(position);
        let made_in = Value::Text(dir.display().to_string().as_str().into());
        let row: Vec<Value> = positions.into_iter().chain([count(made.files), count(made.bytes), made_in]).collect();
        let columns = copied_columns();
        client.columns(&columns, &[]);
        client.row(&row, &columns, &[], &self.text_context())
    }
}

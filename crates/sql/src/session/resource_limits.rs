//! [`ResourceLimits`]: limits of the memory for rows that statements keep, and of what one session keeps.
//!
//! Rows of tables have another limit (`store.memory_limit`); this is what a query adds while it runs.
//!
//! # Invariants
//! - R1. A statement that keeps rows has an account on the database's one budget ([`QueryMemory`]) until it ends, or
//!   until its portal is dropped if it was suspended.
//! - R2. The number of objects that a session keeps while no statement runs is bounded: prepared statements, advisory
//!   locks.

use std::sync::Arc;

use collie_env::{Files, machine_memory_bytes};

use crate::{
    error::{Result, SqlError, SqlState},
    exec::{Held, Kept, QueryMemory},
    types::Value,
};

/// The default share of the machine's memory for rows that all statements keep, in percent. Rows of tables have 60 by
/// default.
const OF_MACHINE_PERCENT: u64 = 20;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct ResourceLimits {
    memory: Arc<QueryMemory>,
    statement_bytes: u64,
    prepared_statements: usize,
    advisory_locks: usize,
}

/// The limits in an operator's configuration; 0 chooses the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourcesAsked {
    /// Bytes of rows that all statements together may keep in memory. 0: a fifth of the machine's memory, or of the
    /// limit of its control group.
    pub query_bytes: u64,
    /// Bytes of rows that one statement may keep in memory. 0: half of the limit for all.
    pub statement_bytes: u64,
    /// Prepared statements that one session may have. 0: 10,000.
    pub prepared_statements: usize,
    /// Advisory locks that one session may hold. 0: 100,000.
    pub advisory_locks: usize,
}

impl ResourceLimits {
    /// Computes the limits for this machine.
    pub(super) fn new(asked: ResourcesAsked, files: &dyn Files) -> Self {
        let or = |asked: usize, default| if asked == 0 { default } else { asked };
        let query_bytes = match asked.query_bytes {
            0 => machine_memory_bytes(files).map_or(u64::MAX, |all| all / 100 * OF_MACHINE_PERCENT),
            given => given,
        };
        let statement_bytes = if asked.statement_bytes == 0 { query_bytes / 2 } else { asked.statement_bytes };
        Self {
            memory: Arc::new(QueryMemory::new(query_bytes)),
            statement_bytes: statement_bytes.min(query_bytes),
            prepared_statements: or(asked.prepared_statements, 10_000),
            advisory_locks: or(asked.advisory_locks, 100_000),
        }
    }

    /// Returns the budget of all statements.
    pub fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    /// Returns the limit of the rows that one statement may keep in memory, in bytes.
    pub const fn statement_bytes(&self) -> u64 {
        self.statement_bytes
    }

    /// Opens an account for one statement.
    pub(super) fn account(&self) -> Held {
        Held::of(self.memory.clone(), self.statement_bytes)
    }

    /// Checks that a session that has `count` prepared statements may have one more.
    ///
    /// # Errors
    /// 53400.
    pub(super) fn check_prepared(&self, count: usize) -> Result<()> {
        if count < self.prepared_statements {
            return Ok(());
        }
        let message = format!("too many prepared statements in this session: {count}");
        Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
            .hint("DEALLOCATE those that are no longer used, or raise server.max_prepared_statements."))
    }

    /// Checks that a session that holds `count` advisory locks may take one more.
    ///
    /// # Errors
    /// 53200, as in PostgreSQL.
    pub(super) fn check_advisory(&self, count: usize) -> Result<()> {
        if count < self.advisory_locks {
            return Ok(());
        }
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for locks")
            .detail(format!("This session holds {count} advisory locks."))
            .hint("Give locks back that are no longer needed, or raise server.max_advisory_locks."))
    }
}

/// Rows that a session keeps, on their own account.
pub(super) struct KeptRows {
    rows: Vec<Vec<Value>>,
    kept: Kept,
    held: Held,
}

impl KeptRows {
    /// Makes an empty set of rows; errors name `keeper`.
    pub(super) fn on(limits: &ResourceLimits, keeper: &'static str) -> Self {
        let held = limits.account();
        Self { rows: Vec::new(), kept: Kept::by(keeper), held }
    }

    /// Keeps a row.
    ///
    /// # Errors
    /// 53200 beyond the limits.
    pub(super) fn push(&mut self, row: &[Value]) -> Result<()> {
        self.kept.row(&mut self.held, row)?;
        self.rows.push(row.to_vec());
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows and takes them off the account.
    pub(super) fn into_rows(self) -> Vec<Vec<Value>> {
        self.rows
    }

    /// Returns the rows one by one, on the account until they are dropped.
    pub(super) fn into_rest(self) -> RestRows {
        RestRows { rows: self.rows.into_iter(), _held: self.held }
    }
}

/// Rows of a suspended portal that were not sent yet.
pub(super) struct RestRows {
    rows: std::vec::IntoIter<Vec<Value>>,
    _held: Held,
}

impl Iterator for RestRows {
    type Item = Vec<Value>;

    fn next(&mut self) -> Option<Vec<Value>> {
        self.rows.next()
    }
}

#[cfg(test)]
mod tests {
    use collie_env::Env;

    use super::*;

    /// Goal: limits without a configured value follow from the others, and one statement never gets more than the limit
    /// for all. Method: budgets with and without the statement's share; counts at and below their bounds.
    #[test]
    fn limits_follow_from_what_was_asked() {
        let (env, _disk) = Env::simulated(1);
        let limits = |query_bytes, statement_bytes| {
            let asked = ResourcesAsked { query_bytes, statement_bytes, prepared_statements: 2, advisory_locks: 3 };
            ResourceLimits::new(asked, &*env.files)
        };
        assert_eq!(limits(1000, 0).statement_bytes(), 500);
        assert_eq!(limits(1000, 2000).statement_bytes(), 1000);
        let limits = limits(1000, 0);
        limits.check_prepared(1).unwrap();
        assert_eq!(limits.check_prepared(2).unwrap_err().state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        limits.check_advisory(2).unwrap();
        assert_eq!(limits.check_advisory(3).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
    }

    /// Goal: rows of a suspended portal are on the account until the portal is dropped (R1). Method: rows kept, taken
    /// over, dropped.
    #[test]
    fn rows_of_a_portal_count_until_it_goes() {
        let (env, _disk) = Env::simulated(1);
        let asked = ResourcesAsked { query_bytes: 1 << 20, ..ResourcesAsked::default() };
        let limits = ResourceLimits::new(asked, &*env.files);
        let mut rows = KeptRows::on(&limits, "a portal");
        rows.push(&[Value::Int4(1)]).unwrap();
        let mut rest = rows.into_rest();
        assert!(limits.memory().used_bytes() > 0);
        assert_eq!(rest.next().unwrap().len(), 1);
        drop(rest);
        assert_eq!(limits.memory().used_bytes(), 0);
    }
}

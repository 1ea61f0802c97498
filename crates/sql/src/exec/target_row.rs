//! `TargetRow`: the row that an UPDATE or DELETE is about to change. The statement's query finds it, and it is written
//! only
//! on the version on which it was checked.
//!
//! # Invariants
//! - T1. The frame's slots of the table hold the version that was checked last, and `basis` names it.
//! - T2. A row that another transaction changed first is checked again by the whole condition of its level, on its
//!   newest version and with the rows of the other ranges as first fetched, and is then written on top of exactly that
//!   version.

use std::sync::Arc;

use collie_engine::{Basis, Blocker, Family, Outcome, Write};

use crate::{
    error::Result,
    exec::{
        context::Run,
        dml::look_again,
        error::from_engine,
        op::{Op, Pull},
    },
    plan::{
        code::Code,
        node::{Node, Target},
    },
    types::Value,
};

/// The outcome of writing the row.
#[must_use]
pub(crate) enum Written {
    /// The row is written.
    Done,
    /// Another transaction holds the row; write again after the wait.
    Wait(Blocker),
    /// A newer version is in the frame, and the condition holds on it: compute the write again from that version.
    Changed,
    /// The row has moved to another key, which is now `key`: write again.
    Moved,
    /// The row is gone, no longer matches, or was already changed by this statement.
    Passed,
}

/// The row, and the query that finds the next one.
pub(crate) struct TargetRow {
    op: Op,
    /// Slots of the query and of the row's columns.
    pub(crate) frame: Vec<Value>,
    /// The key of the row.
    pub(crate) key: Vec<u8>,
    basis: Basis,
    table: Option<Arc<Family>>,
}

impl TargetRow {
    pub(crate) fn new(node: &Node, slots: usize) -> Self {
        Self {
            op: Op::new(node),
            frame: vec![Value::Null; slots],
            key: Vec::new(),
            basis: Basis::Snapshot,
            table: None,
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.op.rewind();
    }

    /// Returns the columns of the row.
    pub(crate) fn columns(&self, target: &Target) -> &[Value] {
        &self.frame[target.base..target.base + target.relation.columns.len()]
    }

    /// Finds the next row. It skips rows for which an outer join found no row of the table.
    pub(crate) fn fetch(&mut self, node: &Node, target: &Target, run: &mut Run<'_>) -> Result<Pull> {
        let slot = target.key_slot.expect("a changed table has a slot for its key");
        loop {
            let pull = self.op.pull(node, &mut self.frame, None, run)?;
            if matches!(pull, Pull::Row) {
                let Value::Bytea(key) = &self.frame[slot] else { continue };
                self.key.clear();
                self.key.extend_from_slice(key);
                self.basis = Basis::Snapshot;
            }
            return Ok(pull);
        }
    }

    /// Writes the row on the version on which it was checked (T2).
    pub(crate) fn write(
        &mut self,
        target: &Target,
        recheck: Option<&Code>,
        what: Write<'_>,
        run: &mut Run<'_>,
    ) -> Result<Written> {
        let table = self.table.get_or_insert_with(|| run.db.family(target.relation.family()));
        Ok(match run.session.write(table, &self.key, self.basis, what).map_err(from_engine)? {
            Outcome::Done => Written::Done,
            Outcome::Wait(blocker) => Written::Wait(blocker),
            Outcome::Changed { csn, row } => {
                self.basis = Basis::After(csn);
                let still_meant = look_again(target, &row, recheck, &mut self.frame, None, run)?;
                if still_meant { Written::Changed } else { Written::Passed }
            }
            Outcome::Moved(key) => {
                self.key = key;
                self.basis = Basis::Snapshot;
                Written::Moved
            }
            Outcome::Gone | Outcome::SelfModified => Written::Passed,
        })
    }
}

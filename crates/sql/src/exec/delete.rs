//! DELETE: rows of a scan or join are removed with all their index entries.
//!
//! A row that somebody changed first is judged again on its newest version, as in UPDATE.

use std::sync::Arc;

use collie_engine::{Basis, Family, Outcome, Write};

use crate::{
    error::Result,
    exec::{
        context::{Env, Run},
        dml::{Advance, Removal, look_again, write_entry},
        entry,
        error::from_engine,
        eval::eval,
        op::{Op, Pull},
    },
    plan::node::DeletePlan,
    types::Value,
};

#[derive(Clone, Copy)]
enum Stage {
    Fetch,
    Write,
    Entry(usize),
}

/// The state of a DELETE.
pub(crate) struct DeleteState {
    op: Op,
    frame: Vec<Value>,
    stage: Stage,
    basis: Basis,
    table: Option<Arc<Family>>,
    entries: Vec<Option<Arc<Family>>>,
    key: Vec<u8>,
    entry: Vec<u8>,
}

impl DeleteState {
    pub(crate) fn new(plan: &DeletePlan) -> Self {
        Self {
            op: Op::new(&plan.node),
            frame: vec![Value::Null; plan.slots],
            stage: Stage::Fetch,
            basis: Basis::Snapshot,
            table: None,
            entries: plan.target.relation.indexes.iter().map(|_| None).collect(),
            key: Vec::new(),
            entry: Vec::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.op.rewind();
        self.stage = Stage::Fetch;
    }

    /// Removes the next row; RETURNING goes to `out`.
    pub(crate) fn advance(&mut self, plan: &DeletePlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        let target = &plan.target;
        let relation = &target.relation;
        loop {
            match self.stage {
                Stage::Fetch => {
                    match self.op.pull(&plan.node, &mut self.frame, None, run)? {
                        Pull::Row => {}
                        Pull::End => return Ok(Advance::End),
                        Pull::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Pull::Yield => return Ok(Advance::Yield),
                    }
                    let slot = target.key_slot.expect("a table deleted from has a slot for its key");
                    let Value::Bytea(key) = &self.frame[slot] else { continue };
                    self.key.clear();
                    self.key.extend_from_slice(key);
                    self.basis = Basis::Snapshot;
                    self.stage = Stage::Write;
                }
                Stage::Write => {
                    let table = self.table.get_or_insert_with(|| run.db.family(relation.family()));
                    match run.session.write(table, &self.key, self.basis, Write::Delete).map_err(from_engine)? {
                        Outcome::Done => self.stage = Stage::Entry(0),
                        Outcome::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Outcome::Changed { csn, row } => {
                            self.basis = Basis::After(csn);
                            if !look_again(target, &row, plan.recheck.as_ref(), &mut self.frame, None, run)? {
                                self.stage = Stage::Fetch;
                            }
                        }
                        Outcome::Moved(key) => {
                            self.key = key;
                            self.basis = Basis::Snapshot;
                        }
                        Outcome::Gone | Outcome::SelfModified => self.stage = Stage::Fetch,
                    }
                }
                Stage::Entry(at) => {
                    let Some(index) = relation.indexes.get(at) else {
                        self.stage = Stage::Fetch;
                        out.clear();
                        for code in &plan.returning {
                            out.push(eval(code, run, &Env::new(&self.frame, None))?);
                        }
                        return Ok(Advance::Row);
                    };
                    if !index.primary {
                        let row = &self.frame[target.base..target.base + relation.columns.len()];
                        self.entry.clear();
                        entry::entry_key(index, row, &self.key, &mut self.entry)?;
                        let family = self.entries[at].get_or_insert_with(|| run.db.family(index.cf));
                        match write_entry(run.session, family, &self.entry, Write::Delete)? {
                            Removal::Done => {}
                            Removal::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        }
                    }
                    self.stage = Stage::Entry(at + 1);
                }
            }
        }
    }
}

//! INSERT: rows of a query become rows of a table and entries of all its indexes.
//!
//! # Invariants
//! - I1. NOT NULL and CHECK are judged before anything of the row is written.
//! - I2. After a wait, the same write is tried again; what is already written of the row stays (E3).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use collie_engine::Insert;

use crate::{
    catalog::relation::TableKey,
    error::Result,
    exec::{
        context::{Env, Run},
        dml::{self, Advance},
        entry,
        error::from_engine,
        eval::eval,
        families::Families,
        op::Pull,
        source::QueryState,
    },
    plan::node::InsertPlan,
    types::Value,
};

#[derive(Clone, Copy)]
enum Stage {
    Fetch,
    Table,
    Entry(usize),
}

/// The state of an INSERT.
pub(crate) struct InsertState {
    source: QueryState,
    /// The new row, in the slots of its table.
    frame: Vec<Value>,
    stage: Stage,
    families: Families,
    row_ids: Option<Arc<AtomicU64>>,
    key: Vec<u8>,
    row: Vec<u8>,
    entry: Vec<u8>,
}

impl InsertState {
    pub(crate) fn new(plan: &InsertPlan) -> Self {
        Self {
            source: QueryState::new(&plan.source),
            frame: vec![Value::Null; plan.slots],
            stage: Stage::Fetch,
            families: Families::new(&plan.target.relation),
            row_ids: None,
            key: Vec::new(),
            row: Vec::new(),
            entry: Vec::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.source.op.rewind();
        self.stage = Stage::Fetch;
    }

    /// Writes the next row; RETURNING goes to `out`.
    pub(crate) fn advance(&mut self, plan: &InsertPlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        let target = &plan.target;
        let relation = &target.relation;
        loop {
            match self.stage {
                Stage::Fetch => {
                    match self.source.pull(&plan.source, None, run)? {
                        Pull::Row => {}
                        Pull::End => return Ok(Advance::End),
                        Pull::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Pull::Yield => return Ok(Advance::Yield),
                    }
                    run.tick()?;
                    self.make_row(plan, run)?;
                    self.stage = Stage::Table;
                }
                Stage::Table => {
                    let table = self.families.table(relation, run);
                    match run.session.insert(table, &self.key, &self.row).map_err(from_engine)? {
                        Insert::Done => self.stage = Stage::Entry(0),
                        Insert::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Insert::Duplicate => {
                            let row = &self.frame[target.base..target.base + relation.columns.len()];
                            let index = relation.primary_key().expect("row ids are never given twice");
                            return Err(dml::duplicate_key(relation, index, row, run));
                        }
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
                        let family = self.families.entries(relation, at, run);
                        let value = entry::entry_value(index, &self.key);
                        match run.session.insert(family, &self.entry, value).map_err(from_engine)? {
                            Insert::Done => {}
                            Insert::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                            Insert::Duplicate => return Err(dml::duplicate_key(relation, index, row, run)),
                        }
                    }
                    self.stage = Stage::Entry(at + 1);
                }
            }
        }
    }

    /// Makes the new row from the source's, with its key and bytes.
    fn make_row(&mut self, plan: &InsertPlan, run: &mut Run<'_>) -> Result<()> {
        let target = &plan.target;
        let relation = &target.relation;
        let base = target.base;
        let width = relation.columns.len();
        self.frame[base..base + width].fill(Value::Null);
        for (&column, value) in plan.columns.iter().zip(self.source.row(&plan.source)) {
            self.frame[base + column] = value.clone();
        }
        for (column, code) in &plan.defaults {
            self.frame[base + column] = eval(code, run, &Env::new(&self.frame, None))?;
        }
        dml::check_not_null(relation, &self.frame[base..base + width], run)?;
        dml::check_conditions(target, &plan.checks, &self.frame, run)?;
        let row = &self.frame[base..base + width];
        self.row.clear();
        relation.layout.encode(row, &mut self.row)?;
        self.key.clear();
        match (&relation.key, relation.primary_key()) {
            (TableKey::Primary, Some(index)) => entry::primary_key(index, row, &mut self.key),
            _ => {
                if self.row_ids.is_none() {
                    self.row_ids = Some(run.row_ids.counter(run.db, run.session, relation.family())?);
                }
                let counter = self.row_ids.as_ref().expect("it was just filled");
                let id = counter.fetch_add(1, Ordering::Relaxed);
                self.key.extend_from_slice(&id.to_be_bytes());
                Ok(())
            }
        }
    }
}

//! UPDATE: rows of a scan or join are rewritten in place; index entries follow only where an indexed column changed.
//!
//! # Invariants
//! - U1. The frame's slots of the table hold the version the new row was computed from; the new row is beside it.
//! - U2. A row that was judged again on a newer version (`target_row` T2) is computed again from that version.
//! - U3. A row is updated once per statement, however often a join meets it.
//! - U4. An update that leaves every column of every unique index as it is locks the row as FOR NO KEY UPDATE does; any
//!   other as FOR UPDATE.

use std::sync::Arc;

use collie_engine::{Family, Insert, Write};

use crate::{
    catalog::relation::Index,
    error::Result,
    exec::{
        context::{Env, Run},
        dml::{self, Advance, Removal, write_entry},
        entry,
        error::from_engine,
        eval::eval,
        op::Pull,
        target_row::{TargetRow, Written},
    },
    plan::node::UpdatePlan,
    types::Value,
};

#[derive(Clone, Copy)]
enum Stage {
    Fetch,
    Compute,
    Write,
    /// The row goes to its new key.
    Arrive,
    /// Remove the old entry of the index at this place in the list.
    Remove(usize),
    /// Insert the new one.
    Add(usize),
}

/// The state of an UPDATE.
pub(crate) struct UpdateState {
    /// The row as it is.
    old: TargetRow,
    stage: Stage,
    table: Option<Arc<Family>>,
    entries: Vec<Option<Arc<Family>>>,
    /// Where it will be.
    new_key: Vec<u8>,
    /// The new row.
    new: Vec<Value>,
    row: Vec<u8>,
    /// Whether a column of a unique index gets another value: then who refers to the row is in the way (U4).
    changes_keys: bool,
    old_entry: Vec<u8>,
    new_entry: Vec<u8>,
}

impl UpdateState {
    pub(crate) fn new(plan: &UpdatePlan) -> Self {
        Self {
            old: TargetRow::new(&plan.node, plan.slots),
            stage: Stage::Fetch,
            table: None,
            entries: plan.target.relation.indexes.iter().map(|_| None).collect(),
            new_key: Vec::new(),
            new: Vec::new(),
            row: Vec::new(),
            changes_keys: false,
            old_entry: Vec::new(),
            new_entry: Vec::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.old.rewind();
        self.stage = Stage::Fetch;
    }

    /// Writes the next row; RETURNING goes to `out`.
    pub(crate) fn advance(&mut self, plan: &UpdatePlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        let target = &plan.target;
        let relation = &target.relation;
        loop {
            match self.stage {
                Stage::Fetch => match self.old.fetch(&plan.node, target, run)? {
                    Pull::Row => self.stage = Stage::Compute,
                    Pull::End => return Ok(Advance::End),
                    Pull::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                    Pull::Yield => return Ok(Advance::Yield),
                },
                Stage::Compute => {
                    self.compute(plan, run)?;
                    self.stage = Stage::Write;
                }
                Stage::Write => {
                    let moves = plan.moves && self.new_key != self.old.key;
                    let what = if moves {
                        Write::MoveTo { new_key: &self.new_key }
                    } else if self.changes_keys {
                        Write::PutKeys(&self.row)
                    } else {
                        Write::Put(&self.row)
                    };
                    match self.old.write(target, plan.recheck.as_ref(), what, run)? {
                        Written::Done if moves => self.stage = Stage::Arrive,
                        Written::Done => self.stage = Stage::Remove(0),
                        Written::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Written::Changed => self.stage = Stage::Compute,
                        Written::Moved => {}
                        Written::Passed => self.stage = Stage::Fetch,
                    }
                }
                Stage::Arrive => {
                    let table = self.table.get_or_insert_with(|| run.db.family(relation.family()));
                    match run.session.insert(table, &self.new_key, &self.row).map_err(from_engine)? {
                        Insert::Done => self.stage = Stage::Remove(0),
                        Insert::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Insert::Duplicate => {
                            let index = relation.primary_key().expect("only a primary key moves rows");
                            return Err(dml::duplicate_key(relation, index, &self.new, run));
                        }
                    }
                }
                Stage::Remove(at) => {
                    let Some(&place) = plan.indexes.get(at) else {
                        self.stage = Stage::Fetch;
                        if !plan.returning.is_empty() {
                            self.exchange(plan);
                            out.clear();
                            for code in &plan.returning {
                                out.push(eval(code, run, &Env::new(&self.old.frame, None))?);
                            }
                        }
                        return Ok(Advance::Row);
                    };
                    match self.remove(plan, place, run)? {
                        Some(Removal::Wait(blocker)) => return Ok(Advance::Wait(blocker)),
                        Some(Removal::Done) => self.stage = Stage::Add(at),
                        None => self.stage = Stage::Remove(at + 1),
                    }
                }
                Stage::Add(at) => {
                    let place = plan.indexes[at];
                    let index = &relation.indexes[place];
                    let family = self.entries[place].get_or_insert_with(|| run.db.family(index.cf));
                    let value = entry::entry_value(index, &self.new_key);
                    match run.session.insert(family, &self.new_entry, value).map_err(from_engine)? {
                        Insert::Done => self.stage = Stage::Remove(at + 1),
                        Insert::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Insert::Duplicate => return Err(dml::duplicate_key(relation, index, &self.new, run)),
                    }
                }
            }
        }
    }

    /// Computes the new row from the one in the frame.
    fn compute(&mut self, plan: &UpdatePlan, run: &mut Run<'_>) -> Result<()> {
        let target = &plan.target;
        let relation = &target.relation;
        self.new.clear();
        self.new.extend_from_slice(self.old.columns(target));
        for (column, code) in &plan.assignments {
            self.new[*column] = eval(code, run, &Env::new(&self.old.frame, None))?;
        }
        dml::check_not_null(relation, &self.new, run)?;
        if !plan.checks.is_empty() {
            self.exchange(plan);
            let checked = dml::check_conditions(target, &plan.checks, &self.old.frame, run);
            self.exchange(plan);
            checked?;
        }
        self.row.clear();
        relation.layout.encode(&self.new, &mut self.row)?;
        self.new_key.clear();
        match relation.primary_key() {
            Some(index) if plan.moves => entry::primary_key(index, &self.new, &mut self.new_key)?,
            _ => self.new_key.extend_from_slice(&self.old.key),
        }
        self.changes_keys = false;
        for &place in &plan.indexes {
            let index = &relation.indexes[place];
            if index.unique && !self.changes_keys {
                self.make_entry_keys(plan, index)?;
                self.changes_keys = self.old_entry != self.new_entry;
            }
        }
        Ok(())
    }

    /// Makes the keys of the old and the new row's entries in `index`.
    fn make_entry_keys(&mut self, plan: &UpdatePlan, index: &Index) -> Result<()> {
        self.old_entry.clear();
        self.new_entry.clear();
        entry::entry_key(index, self.old.columns(&plan.target), &self.old.key, &mut self.old_entry)?;
        entry::entry_key(index, &self.new, &self.new_key, &mut self.new_entry)
    }

    /// Exchanges the row in the frame and the one beside it.
    fn exchange(&mut self, plan: &UpdatePlan) {
        let base = plan.target.base;
        let width = self.new.len();
        self.old.frame[base..base + width].swap_with_slice(&mut self.new);
    }

    /// Removes the old entry of an index; `None` when the entry stays as it is.
    fn remove(&mut self, plan: &UpdatePlan, place: usize, run: &mut Run<'_>) -> Result<Option<Removal>> {
        let index = &plan.target.relation.indexes[place];
        self.make_entry_keys(plan, index)?;
        let same_key = self.old_entry == self.new_entry;
        if same_key && (!index.unique || self.old.key == self.new_key) {
            return Ok(None);
        }
        let family = self.entries[place].get_or_insert_with(|| run.db.family(index.cf));
        if same_key {
            // The unique key stays, but names the row at its new place.
            let put = Write::Put(&self.new_key);
            return Ok(match write_entry(run.session, family, &self.old_entry, put)? {
                Removal::Done => None,
                wait => Some(wait),
            });
        }
        write_entry(run.session, family, &self.old_entry, Write::Delete).map(Some)
    }
}

//! INSERT: the rows of a query become rows of a table and entries in all its indexes.
//!
//! With ON CONFLICT the keys that decide (the arbiters) are claimed before the rest of the row is written. A claim is
//! the
//! row's own entry, so nothing has to be confirmed later: other transactions that want the key wait for the end of this
//! one. If a claim meets a live row, the other claims of the row are released.
//!
//! # Invariants
//! - I1. NOT NULL and CHECK are evaluated before anything of the row is written. The values of indexes are computed
//!   after
//!   the row is written, because a row that conflicts, or whose primary key is taken, does not need them. Only those of
//!   the arbiters are computed before.
//! - I2. After a wait, the same write is tried again; what is already written of the row stays (E3). Only claims do not
//!   stay: while the row waits for one, it holds no other, so that two statements that want two keys in different order
//!   make progress.
//! - I3. When a conflict is handled, nothing of the proposed row is written: `mark` precedes its first claim.
//! - I4. The claim that was waited for is the first one tried afterwards, so that the queue for its key advances.
//! - I5. A key with a NULL conflicts with no other, and a row that is not in a partial index has no key there, so there
//!   is
//!   nothing to claim: the entry, if there is one, is written with the others.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use collie_engine::{Existing, Insert, Mark};

use crate::{
    catalog::relation::TableKey,
    error::Result,
    exec::{
        computed::Computed,
        conflict::{ConflictRow, Met, Resolved},
        context::{Env, Run},
        dml::{self, Advance},
        entry::{self, Keyed},
        error::from_engine,
        eval::eval,
        families::Families,
        op::Pull,
        source::QueryState,
    },
    plan::node::{ConflictPlan, InsertPlan, Target},
    types::Value,
};

#[derive(Clone, Copy)]
enum Stage {
    Fetch,
    /// Claim the arbiter this many places after `first_claim`.
    Claim(usize),
    /// Do what DO UPDATE says to the row that the claim in the index at this place met.
    Resolve(usize),
    Table,
    Entry(usize),
}

/// The state of an INSERT.
pub(crate) struct InsertState {
    source: QueryState,
    /// The new row, in the slots of its table; while a conflict is resolved, in the slots of `excluded`.
    frame: Vec<Value>,
    stage: Stage,
    families: Families,
    /// The values that the indexes computed from the new row.
    computed: Computed,
    row_ids: Option<Arc<AtomicU64>>,
    key: Vec<u8>,
    row: Vec<u8>,
    /// The entry written last.
    entry: Vec<u8>,
    /// The arbiter that is tried first (I4).
    first_claim: usize,
    /// The savepoint before the first claim of the row (I3).
    mark: Option<Mark>,
    conflict: ConflictRow,
}

impl InsertState {
    pub(crate) fn new(plan: &InsertPlan) -> Self {
        Self {
            source: QueryState::new(&plan.source),
            frame: vec![Value::Null; plan.slots],
            stage: Stage::Fetch,
            families: Families::new(&plan.target.relation),
            computed: Computed::default(),
            row_ids: None,
            key: Vec::new(),
            row: Vec::new(),
            entry: Vec::new(),
            first_claim: 0,
            mark: None,
            conflict: ConflictRow::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.source.op.rewind();
        self.stage = Stage::Fetch;
        self.first_claim = 0;
    }

    /// Writes the next row; its RETURNING values are written to `out`.
    pub(crate) fn advance(&mut self, plan: &InsertPlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        let relation = &plan.target.relation;
        loop {
            match self.stage {
                Stage::Fetch => {
                    if run.is_spent() {
                        return Ok(Advance::Yield);
                    }
                    match self.source.pull(&plan.source, None, run)? {
                        Pull::Row => {}
                        Pull::End => return Ok(Advance::End),
                        Pull::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Pull::Yield => return Ok(Advance::Yield),
                    }
                    run.tick()?;
                    self.make_row(plan, run)?;
                    self.stage = Stage::Table;
                    if plan.conflict.is_some() {
                        self.mark = Some(run.session.savepoint());
                        self.conflict.forget();
                        self.stage = Stage::Claim(0);
                    }
                }
                Stage::Claim(at) => {
                    let conflict = plan.conflict.as_ref().expect("only ON CONFLICT claims");
                    let count = conflict.arbiters.len();
                    if at == count {
                        self.stage = Stage::Table;
                        continue;
                    }
                    let place = conflict.arbiters[(self.first_claim + at) % count];
                    let index = &relation.indexes[place];
                    if self.keyed(&plan.target, place).is_none_or(|row| entry::has_null(index, row)) {
                        self.stage = Stage::Claim(at + 1); // I5
                        continue;
                    }
                    let primary = index.primary;
                    let claimed = if primary { self.put_row(plan, run)? } else { self.put_entry(plan, place, run)? };
                    match claimed {
                        Insert::Done => self.stage = Stage::Claim(at + 1),
                        Insert::Wait(blocker) => {
                            if at > 0 {
                                self.give_back(run); // I2
                                self.first_claim = (self.first_claim + at) % count; // I4
                                self.stage = Stage::Claim(0);
                            }
                            return Ok(Advance::Wait(blocker));
                        }
                        Insert::Duplicate(existing) => {
                            // The place in the queue for the row itself is kept, because DO UPDATE locks it next.
                            if at > 0 || !primary || conflict.update.is_none() {
                                self.give_back(run); // I3
                            }
                            self.meet(plan, conflict, place, existing, run)?;
                        }
                    }
                }
                Stage::Resolve(place) => {
                    let update = plan.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
                    let update = update.expect("only DO UPDATE resolves");
                    let Self { conflict, frame, families, .. } = self;
                    match conflict.resolve(&plan.target, place, update, frame, families, run)? {
                        Resolved::Updated => return self.written(plan, run, out),
                        Resolved::Unwanted => self.stage = Stage::Fetch,
                        Resolved::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Resolved::Gone => {
                            run.tick()?;
                            self.give_back(run);
                            self.exchange(&plan.target);
                            self.stage = Stage::Claim(0);
                        }
                    }
                }
                Stage::Table => {
                    // NOT NULL and CHECK were evaluated by `make_row`; an arbiter's row or entry is already written as
                    // its claim.
                    let primary = relation.primary_key();
                    if primary.is_none() || !self.is_claimed(plan, 0) {
                        match self.put_row(plan, run)? {
                            Insert::Done => {}
                            Insert::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                            Insert::Duplicate(_) => {
                                let index = primary.expect("row ids are never given twice");
                                let row = Keyed::Row(self.columns(&plan.target));
                                return Err(dml::duplicate_key(relation, index, row, run));
                            }
                        }
                    }
                    let claimed = plan.conflict.as_ref().map_or(&[][..], |conflict| &*conflict.arbiters);
                    self.computed.compute(&plan.target, |place| !claimed.contains(&place), &self.frame, run)?;
                    self.stage = Stage::Entry(0);
                }
                Stage::Entry(at) => {
                    let Some(index) = relation.indexes.get(at) else {
                        plan.foreign.inserted(self.columns(&plan.target), run.events);
                        return self.written(plan, run, out);
                    };
                    let has_entry = self.keyed(&plan.target, at).is_some();
                    if has_entry && !index.primary && !self.is_claimed(plan, at) {
                        match self.put_entry(plan, at, run)? {
                            Insert::Done => {}
                            Insert::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                            Insert::Duplicate(_) => {
                                let row = self.keyed(&plan.target, at).expect("it has an entry");
                                return Err(dml::duplicate_key(relation, index, row, run));
                            }
                        }
                    }
                    self.stage = Stage::Entry(at + 1);
                }
            }
        }
    }

    /// Finishes the row that was inserted or updated; its RETURNING values are written to `out`.
    fn written(&mut self, plan: &InsertPlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        self.stage = Stage::Fetch;
        out.clear();
        for code in &plan.returning {
            out.push(eval(code, run, &Env::new(&self.frame, None))?);
        }
        Ok(Advance::Row)
    }

    fn put_row(&mut self, plan: &InsertPlan, run: &mut Run<'_>) -> Result<Insert> {
        let table = self.families.table(&plan.target.relation, run);
        run.session.insert(table, &self.key, &self.row).map_err(from_engine)
    }

    fn put_entry(&mut self, plan: &InsertPlan, place: usize, run: &mut Run<'_>) -> Result<Insert> {
        let target = &plan.target;
        let index = &target.relation.indexes[place];
        let row = &self.frame[target.base..target.base + target.relation.columns.len()];
        let keyed = self.computed.keyed(target, place, row).expect("only a row that is in the index has an entry");
        self.entry.clear();
        entry::entry_key(index, keyed, &self.key, &mut self.entry)?;
        let family = self.families.entries(&target.relation, place, run);
        let value = entry::entry_value(index, &self.key);
        run.session.insert(family, &self.entry, value).map_err(from_engine)
    }

    /// Rolls back the claims and locks of the row, which also leaves their queues.
    fn give_back(&mut self, run: &mut Run<'_>) {
        run.session.rollback_to(self.mark.expect("a mark was set before the first claim"));
    }

    /// Decides how to handle the row that a claim met.
    fn meet(
        &mut self,
        plan: &InsertPlan,
        conflict: &ConflictPlan,
        place: usize,
        existing: Existing,
        run: &mut Run<'_>,
    ) -> Result<()> {
        if conflict.update.is_none() {
            // DO NOTHING must not be decided by a row that REPEATABLE READ does not show.
            let _ = run.session.basis_on(&existing).map_err(from_engine)?;
            self.stage = Stage::Fetch;
            return Ok(());
        }
        let index = &plan.target.relation.indexes[place];
        let claimed = if index.primary { &self.key } else { &self.entry };
        self.conflict.meet(Met { index, claimed, existing }, run)?;
        self.exchange(&plan.target);
        self.stage = Stage::Resolve(place);
        Ok(())
    }

    /// Exchanges the table's slots and those of `excluded`.
    fn exchange(&mut self, target: &Target) {
        let width = target.relation.columns.len();
        let (row, excluded) = self.frame[target.base..].split_at_mut(width);
        row.swap_with_slice(&mut excluded[..width]);
    }

    /// Returns whether the entry of the index at `place` was claimed and is therefore already written.
    fn is_claimed(&self, plan: &InsertPlan, place: usize) -> bool {
        let index = &plan.target.relation.indexes[place];
        plan.conflict.as_ref().is_some_and(|conflict| conflict.arbiters.contains(&place))
            && self.keyed(&plan.target, place).is_some_and(|row| !entry::has_null(index, row))
    }

    /// Returns the new row as the index at `place` sees it; `None` if it is not in the index.
    fn keyed(&self, target: &Target, place: usize) -> Option<Keyed<'_>> {
        self.computed.keyed(target, place, self.columns(target))
    }

    fn columns(&self, target: &Target) -> &[Value] {
        &self.frame[target.base..target.base + target.relation.columns.len()]
    }

    /// Builds the new row from the source's row, with its key and bytes.
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
        if let Some(conflict) = &plan.conflict {
            self.computed.compute(target, |place| conflict.arbiters.contains(&place), &self.frame, run)?;
        }
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

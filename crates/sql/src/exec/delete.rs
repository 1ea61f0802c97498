//! DELETE: removes the rows of a scan or join, with all their index entries.
//!
//! A row that another transaction changed first is checked again on its newest version (`target_row`).

use collie_engine::Write;

use crate::{
    error::Result,
    exec::{
        computed::Computed,
        context::{Env, Run},
        dml::{Advance, Removal, write_entry},
        entry,
        eval::eval,
        families::Families,
        op::Pull,
        target_row::{TargetRow, Written},
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
    row: TargetRow,
    stage: Stage,
    families: Families,
    /// The values that the indexes computed from the row.
    computed: Computed,
    entry: Vec<u8>,
}

impl DeleteState {
    pub(crate) fn new(plan: &DeletePlan) -> Self {
        Self {
            row: TargetRow::new(&plan.node, plan.slots),
            stage: Stage::Fetch,
            families: Families::new(&plan.target.relation),
            computed: Computed::default(),
            entry: Vec::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.row.rewind();
        self.stage = Stage::Fetch;
    }

    /// Removes the next row; its RETURNING values are written to `out`.
    pub(crate) fn advance(&mut self, plan: &DeletePlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        let target = &plan.target;
        loop {
            match self.stage {
                Stage::Fetch => match self.row.fetch(&plan.node, target, run)? {
                    Pull::Row => self.stage = Stage::Write,
                    Pull::End => return Ok(Advance::End),
                    Pull::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                    Pull::Yield => return Ok(Advance::Yield),
                },
                Stage::Write => match self.row.write(target, plan.recheck.as_ref(), Write::Delete, run)? {
                    Written::Done => {
                        // After the write no other transaction changes the row, so its entries follow from this
                        // version.
                        self.computed.compute(target, |_| true, &self.row.frame, run)?;
                        self.stage = Stage::Entry(0);
                    }
                    Written::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                    Written::Changed | Written::Moved => {}
                    Written::Passed => self.stage = Stage::Fetch,
                },
                Stage::Entry(at) => {
                    let Some(index) = target.relation.indexes.get(at) else {
                        plan.foreign.deleted(self.row.columns(target), run.events);
                        self.stage = Stage::Fetch;
                        out.clear();
                        for code in &plan.returning {
                            out.push(eval(code, run, &Env::new(&self.row.frame, None))?);
                        }
                        return Ok(Advance::Row);
                    };
                    let keyed = self.computed.keyed(target, at, self.row.columns(target));
                    if let Some(keyed) = keyed.filter(|_| !index.primary) {
                        self.entry.clear();
                        entry::entry_key(index, keyed, &self.row.key, &mut self.entry)?;
                        let family = self.families.entries(&target.relation, at, run);
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

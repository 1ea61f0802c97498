//! UPDATE: rewrites the rows of a scan or join in place; index entries are replaced only if an indexed column changed.
//!
//! # Invariants
//! - U1. If a row was checked again on a newer version (`target_row` T2), the new row is computed again from that
//!   version.
//! - U2. A row is updated once per statement, even if a join returns it several times.

use crate::{
    error::Result,
    exec::{
        context::{Env, Run},
        dml::Advance,
        eval::eval,
        families::Families,
        op::Pull,
        row_update::{Followed, OldRow, RowUpdate},
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
    Follow,
}

/// The state of an UPDATE.
pub(crate) struct UpdateState {
    /// The old row.
    old: TargetRow,
    /// The new row.
    new: RowUpdate,
    stage: Stage,
    families: Families,
}

impl UpdateState {
    pub(crate) fn new(plan: &UpdatePlan) -> Self {
        Self {
            old: TargetRow::new(&plan.node, plan.slots),
            new: RowUpdate::new(),
            stage: Stage::Fetch,
            families: Families::new(&plan.target.relation),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.old.rewind();
        self.stage = Stage::Fetch;
    }

    /// Writes the next row; its RETURNING values are written to `out`.
    pub(crate) fn advance(&mut self, plan: &UpdatePlan, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Advance> {
        let target = &plan.target;
        let Self { old, new, stage, families } = self;
        loop {
            match *stage {
                Stage::Fetch => match old.fetch(&plan.node, target, run)? {
                    Pull::Row => *stage = Stage::Compute,
                    Pull::End => return Ok(Advance::End),
                    Pull::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                    Pull::Yield => return Ok(Advance::Yield),
                },
                Stage::Compute => {
                    new.compute(OldRow { target, key: &old.key }, &plan.change, &mut old.frame, run)?;
                    *stage = Stage::Write;
                }
                Stage::Write => match old.write(target, plan.recheck.as_ref(), new.write(), run)? {
                    Written::Done => *stage = Stage::Follow,
                    Written::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                    Written::Changed => *stage = Stage::Compute,
                    Written::Moved => {}
                    Written::Passed => *stage = Stage::Fetch,
                },
                Stage::Follow => {
                    let row = OldRow { target, key: &old.key };
                    match new.follow(row, &plan.change, &old.frame, families, run)? {
                        Followed::Wait(blocker) => return Ok(Advance::Wait(blocker)),
                        Followed::Done => {}
                    }
                    *stage = Stage::Fetch;
                    if !plan.returning.is_empty() {
                        new.show(target, &mut old.frame);
                        out.clear();
                        for code in &plan.returning {
                            out.push(eval(code, run, &Env::new(&old.frame, None))?);
                        }
                    }
                    return Ok(Advance::Row);
                }
            }
        }
    }
}

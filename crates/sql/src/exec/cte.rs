//! Rows of common table expressions: computed once per statement, as far as they are read, and kept for all readers.
//!
//! A data-modifying expression runs to its end whether it is read or not; rows that are not read are not kept.
//!
//! # Invariants
//! - W1. Row `n` is the same for all readers: it was computed when the first of them asked for it.
//! - W2. No more rows of a query are computed than are read, so a row that is not read is not locked either.
//! - W3. Rows that expressions read are computed before the expressions (`Plan::ahead`), because expressions cannot
//!   wait.
//! - W4. When a statement has ended, each of its data-modifying expressions has been run to its end, once.
//!
//! Checked by `tests::shared`.

use crate::{
    error::Result,
    exec::{context::Run, held::Kept, machine::Machine, op::Pull},
    plan::node::Ahead,
    types::Value,
};

/// The computed part of one common table expression.
pub(crate) struct CteState {
    /// The machine that computes it; `None` before its first row and after its last.
    machine: Option<Machine>,
    rows: Vec<Box<[Value]>>,
    complete: bool,
    kept: Kept,
}

impl Default for CteState {
    fn default() -> Self {
        Self { machine: None, rows: Vec::new(), complete: false, kept: Kept::by("WITH") }
    }
}

impl CteState {
    /// Drops the rows of an earlier statement.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Copies row `at` of expression `id` to `into` (W1).
pub(crate) fn read(id: usize, at: usize, into: &mut [Value], run: &mut Run<'_>) -> Result<Pull> {
    let pulled = reach(id, at, run)?;
    if matches!(pulled, Pull::Row) {
        into.clone_from_slice(&run.ctes[id].rows[at]);
    }
    Ok(pulled)
}

/// Computes the rows that `ahead` asks for (W3). It returns `End` when they are there, and never a row.
pub(crate) fn compute(ahead: Ahead, run: &mut Run<'_>) -> Result<Pull> {
    while run.ctes[ahead.cte].rows.len() < ahead.rows_max {
        if run.is_spent() {
            return Ok(Pull::Yield);
        }
        match reach(ahead.cte, run.ctes[ahead.cte].rows.len(), run)? {
            Pull::Row => {}
            other => return Ok(other),
        }
    }
    Ok(Pull::End)
}

/// Runs expression `id` to its end without keeping the remaining rows (W4). It never returns a row.
pub(crate) fn finish(id: usize, run: &mut Run<'_>) -> Result<Pull> {
    let mut row = Vec::new();
    while !run.ctes[id].complete {
        if run.is_spent() {
            return Ok(Pull::Yield);
        }
        match next(id, run, &mut row)? {
            Pull::Row => {}
            other => return Ok(other),
        }
    }
    Ok(Pull::End)
}

/// Computes rows until row `at`, which is at most the next one, is there (W2).
fn reach(id: usize, at: usize, run: &mut Run<'_>) -> Result<Pull> {
    let cte = &run.ctes[id];
    if at < cte.rows.len() {
        return Ok(Pull::Row);
    }
    if cte.complete {
        return Ok(Pull::End);
    }
    debug_assert_eq!(at, cte.rows.len(), "rows are read one after another");
    let mut row = Vec::new();
    let pulled = next(id, run, &mut row)?;
    if matches!(pulled, Pull::Row) {
        let cte = &mut run.ctes[id];
        cte.kept.row(run.held, &row)?;
        cte.rows.push(row.into());
    }
    Ok(pulled)
}

/// Computes the next row.
fn next(id: usize, run: &mut Run<'_>, row: &mut Vec<Value>) -> Result<Pull> {
    let plan = run.plan;
    let root = &plan.ctes[id];
    let mut machine = run.ctes[id].machine.take().unwrap_or_else(|| Machine::new(root));
    let pulled = machine.next(root, run, row)?;
    let cte = &mut run.ctes[id];
    match pulled {
        Pull::End => cte.complete = true,
        Pull::Row | Pull::Wait(_) | Pull::Yield => cte.machine = Some(machine),
    }
    Ok(pulled)
}

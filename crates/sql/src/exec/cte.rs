//! Rows of common table expressions: computed once per statement, as far as anybody asks, and kept for every reader.
//!
//! # Invariants
//! - W1. Row `n` is the same for all readers: it was computed when the first of them asked for it.
//! - W2. No more rows are computed than were asked for: a row that nobody reads is not locked either.
//! - W3. What expressions read is there before they are evaluated (`Plan::ahead`), because expressions cannot wait.
//!
//! Checked by `tests::shared`.

use crate::{
    error::Result,
    exec::{context::Run, op::Pull, source::QueryState},
    plan::node::Ahead,
    types::Value,
};

/// What is there of one common table expression.
#[derive(Default)]
pub(crate) struct CteState {
    /// The query in progress; `None` before its first row and after its last.
    query: Option<Box<QueryState>>,
    rows: Vec<Box<[Value]>>,
    complete: bool,
}

impl CteState {
    /// Forgets the rows of an earlier statement.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Puts row `at` of expression `id` into `into` (W1).
pub(crate) fn read(id: usize, at: usize, into: &mut [Value], run: &mut Run<'_>) -> Result<Pull> {
    let pulled = reach(id, at, run)?;
    if matches!(pulled, Pull::Row) {
        into.clone_from_slice(&run.ctes[id].rows[at]);
    }
    Ok(pulled)
}

/// Computes what `ahead` asks for (W3). `End` says that it is there; it never gives a row.
pub(crate) fn compute(ahead: Ahead, run: &mut Run<'_>) -> Result<Pull> {
    while run.ctes[ahead.cte].rows.len() < ahead.rows_max {
        match reach(ahead.cte, run.ctes[ahead.cte].rows.len(), run)? {
            Pull::Row => {}
            other => return Ok(other),
        }
    }
    Ok(Pull::End)
}

/// Goes on with the query until row `at`, the next one at most, is there (W2).
fn reach(id: usize, at: usize, run: &mut Run<'_>) -> Result<Pull> {
    let cte = &mut run.ctes[id];
    if at < cte.rows.len() {
        return Ok(Pull::Row);
    }
    if cte.complete {
        return Ok(Pull::End);
    }
    debug_assert_eq!(at, cte.rows.len(), "rows are read one after another");
    let plan = run.plan;
    let query = &plan.ctes[id];
    let mut state = cte.query.take().unwrap_or_else(|| Box::new(QueryState::new(query)));
    let pulled = state.pull(query, None, run)?;
    let cte = &mut run.ctes[id];
    match pulled {
        Pull::End => cte.complete = true,
        Pull::Row => {
            cte.rows.push(state.row(query).into());
            cte.query = Some(state);
        }
        Pull::Wait(_) | Pull::Yield => cte.query = Some(state),
    }
    Ok(pulled)
}

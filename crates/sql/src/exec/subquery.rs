//! Subqueries in expressions: scalar, EXISTS, ARRAY, ANY and ALL.
//!
//! # Invariants
//! - U1. A subquery that refers to nothing outside itself runs once per statement; others run for each row.
//! - U2. `x = ANY (rows)` by look-up gives the same result as comparing with each row: equality is that of `rowkey`.
//! - U3. Work that takes longer than a step continues aside, because an expression cannot yield. The work done so far
//!   is
//!   kept.

use std::sync::Arc;

use collie_base::Set;

use crate::{
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        eval::{array_of, call, eval as eval_code},
        held::Kept,
        op::Pull,
        rowkey,
        source::QueryState,
    },
    plan::{
        code::Callee,
        node::{SubPlan, SubPlanKind},
    },
    types::Value,
};

/// The state of one subquery.
#[derive(Default)]
pub(crate) struct SubState {
    query: Option<QueryState>,
    once: Option<Once>,
}

/// The result of an uncorrelated subquery.
enum Once {
    Value(Value),
    Rows(Arc<RowSet>),
}

/// Rows of a subquery under ANY or ALL.
struct RowSet {
    rows: Vec<Box<[Value]>>,
    /// Keys of the rows without NULL, if they can be looked up.
    keys: Option<Set<Box<[u8]>>>,
    /// Whether some row has a NULL.
    has_null: bool,
}

impl SubState {
    /// Drops what an earlier statement computed.
    pub(crate) fn reset(&mut self) {
        self.once = None;
    }
}

/// Evaluates subquery `id`.
pub(crate) fn eval(id: usize, run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    let plan = run.plan;
    let sub = &plan.subplans[id];
    if let SubPlanKind::Compare { left, callees, all, hashed } = &sub.kind {
        let mut fields = Vec::with_capacity(left.len());
        for code in left {
            fields.push(eval_code(code, run, env)?);
        }
        let rows = match &run.subs[id].once {
            Some(Once::Rows(rows)) => rows.clone(),
            _ if sub.correlated => {
                let mut unknown = false;
                return with_state(id, sub, run, env, &mut |state, run, env| {
                    compare_each(state, sub, &fields, (&callees[..], *all), &mut unknown, run, env)
                });
            }
            _ => {
                let types = hashed.as_deref();
                let mut set = RowSet { rows: Vec::new(), keys: types.map(|_| Set::default()), has_null: false };
                // The set is kept to the end of the statement (U1), so nothing takes it off the account.
                let mut kept = Kept::by("a subquery");
                with_state(id, sub, run, env, &mut |state, run, env| {
                    collect(state, sub, types, (&mut set, &mut kept), run, env)
                })?;
                let rows = Arc::new(set);
                run.subs[id].once = Some(Once::Rows(rows.clone()));
                rows
            }
        };
        return compare_set(&rows, &fields, callees, *all, hashed.as_deref(), run);
    }
    if let Some(Once::Value(value)) = &run.subs[id].once {
        return Ok(value.clone());
    }
    let (mut values, mut kept) = (Vec::new(), Kept::by("a subquery"));
    let value =
        with_state(id, sub, run, env, &mut |state, run, env| single(state, sub, (&mut values, &mut kept), run, env))?;
    kept.end(run.held);
    if !sub.correlated {
        run.subs[id].once = Some(Once::Value(value.clone()));
    }
    Ok(value)
}

/// A part of the work on the rows of a subquery. It returns `None` if the step is spent, and is then called again.
type Body<'b, T> = &'b mut dyn FnMut(&mut QueryState, &mut Run<'_>, &Env<'_>) -> Result<Option<T>>;

/// Runs `body` with the subquery's operators at their start.
fn with_state<T>(id: usize, sub: &SubPlan, run: &mut Run<'_>, env: &Env<'_>, body: Body<'_, T>) -> Result<T> {
    let mut state = match run.subs[id].query.take() {
        Some(mut state) => {
            state.op.rewind();
            state
        }
        None => QueryState::new(&sub.query),
    };
    let mut result = body(&mut state, run, env);
    if matches!(result, Ok(None)) {
        run.share.is_aside = true;
        let aside = run.aside;
        aside(&mut || result = body(&mut state, run, env)); // U3
        run.share.is_aside = false;
    }
    run.subs[id].query = Some(state);
    let unfinished = || SqlError::new(SqlState::INTERNAL_ERROR, "a subquery stopped before its end");
    result?.ok_or_else(unfinished)
}

/// The next result of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Row,
    End,
    /// The step is spent, on a thread that other sessions wait for.
    Spent,
}

fn next(state: &mut QueryState, sub: &SubPlan, run: &mut Run<'_>, env: &Env<'_>) -> Result<Next> {
    loop {
        match state.pull(&sub.query, Some(env), run)? {
            Pull::Row => return Ok(Next::Row),
            Pull::End => return Ok(Next::End),
            Pull::Yield if run.share.is_aside => run.go_on()?,
            Pull::Yield => return Ok(Next::Spent),
            // Subqueries that may wait were computed ahead (cte W3).
            Pull::Wait(_) => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "an expression would have to wait for a lock"));
            }
        }
    }
}

/// Returns the value of a scalar, EXISTS or ARRAY subquery; `None` if the step is spent. `values` holds the values so
/// far, on the account of `kept`.
fn single(
    state: &mut QueryState,
    sub: &SubPlan,
    (values, kept): (&mut Vec<Value>, &mut Kept),
    run: &mut Run<'_>,
    env: &Env<'_>,
) -> Result<Option<Value>> {
    loop {
        let next = next(state, sub, run, env)?;
        let value = match next {
            Next::Spent => return Ok(None),
            Next::Row => Some(state.row(&sub.query).first().cloned().unwrap_or(Value::Null)),
            Next::End => None,
        };
        match (&sub.kind, value) {
            (SubPlanKind::Exists, value) => return Ok(Some(Value::Bool(value.is_some()))),
            (SubPlanKind::Array(_), Some(value)) => {
                kept.row(run.held, std::slice::from_ref(&value))?;
                values.push(value);
            }
            (SubPlanKind::Array(oid), None) => return array_of(*oid, std::mem::take(values)).map(Some),
            (SubPlanKind::Scalar | SubPlanKind::Compare { .. }, Some(value)) if values.is_empty() => values.push(value),
            (SubPlanKind::Scalar | SubPlanKind::Compare { .. }, Some(_)) => {
                return Err(SqlError::new(
                    SqlState::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ));
            }
            (SubPlanKind::Scalar | SubPlanKind::Compare { .. }, None) => {
                return Ok(Some(values.pop().unwrap_or(Value::Null)));
            }
        }
    }
}

fn collect(
    state: &mut QueryState,
    sub: &SubPlan,
    hashed: Option<&[u32]>,
    (set, kept): (&mut RowSet, &mut Kept),
    run: &mut Run<'_>,
    env: &Env<'_>,
) -> Result<Option<()>> {
    loop {
        match next(state, sub, run, env)? {
            Next::Row => {}
            Next::End => return Ok(Some(())),
            Next::Spent => return Ok(None),
        }
        let row = state.row(&sub.query);
        if row.iter().any(Value::is_null) {
            set.has_null = true;
        } else if let (Some(keys), Some(types)) = (&mut set.keys, hashed) {
            let key = key_of(row, types)?;
            kept.key(run.held, &key)?;
            keys.insert(key);
            // With one column the key alone decides whether a row matches.
            if types.len() == 1 {
                continue;
            }
        }
        kept.row(run.held, row)?;
        set.rows.push(row.into());
    }
}

fn key_of(row: &[Value], types: &[u32]) -> Result<Box<[u8]>> {
    let mut key = Vec::new();
    for (value, &oid) in row.iter().zip(types) {
        rowkey::push_equal(&mut key, value, oid)?;
    }
    Ok(key.into_boxed_slice())
}

fn compare_set(
    set: &RowSet,
    fields: &[Value],
    callees: &[Callee],
    all: bool,
    hashed: Option<&[u32]>,
    run: &mut Run<'_>,
) -> Result<Value> {
    let mut unknown = false;
    if let (Some(keys), Some(types)) = (&set.keys, hashed) {
        let has_null = fields.iter().any(Value::is_null);
        if fields.len() == 1 && has_null {
            let empty = keys.is_empty() && set.rows.is_empty();
            return Ok(if empty { Value::Bool(all) } else { Value::Null });
        }
        if !has_null {
            if keys.contains(&key_of(fields, types)?) {
                return Ok(Value::Bool(!all));
            }
            // Only a NULL in a row can still make the result unknown.
            if !set.has_null {
                return Ok(Value::Bool(all));
            }
        }
    }
    run.compared(set.rows.len())?;
    for row in &set.rows {
        match compare_row(row, fields, callees, all, run)? {
            Some(result) if result != all => return Ok(Value::Bool(result)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(all) })
}

fn compare_each(
    state: &mut QueryState,
    sub: &SubPlan,
    fields: &[Value],
    (callees, all): (&[Callee], bool),
    unknown: &mut bool,
    run: &mut Run<'_>,
    env: &Env<'_>,
) -> Result<Option<Value>> {
    loop {
        match next(state, sub, run, env)? {
            Next::Row => {}
            Next::End => return Ok(Some(if *unknown { Value::Null } else { Value::Bool(all) })),
            Next::Spent => return Ok(None),
        }
        match compare_row(state.row(&sub.query), fields, callees, all, run)? {
            Some(result) if result != all => return Ok(Some(Value::Bool(result))),
            Some(_) => {}
            None => *unknown = true,
        }
    }
}

/// Compares one row: fields are AND-ed under ANY; under ALL the comparisons are negated and the fields OR-ed.
fn compare_row(
    row: &[Value],
    fields: &[Value],
    callees: &[Callee],
    all: bool,
    run: &mut Run<'_>,
) -> Result<Option<bool>> {
    if let ([field], [value], [callee]) = (fields, row, callees) {
        return Ok(call(callee, &[field.clone(), value.clone()], run)?.as_bool());
    }
    let mut unknown = false;
    for ((field, value), callee) in fields.iter().zip(row).zip(callees) {
        match call(callee, &[field.clone(), value.clone()], run)?.as_bool() {
            Some(result) if result == all => return Ok(Some(result)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(!all) })
}

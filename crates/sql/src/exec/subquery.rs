//! Subqueries in expressions: scalar, EXISTS, ARRAY, ANY and ALL.
//!
//! # Invariants
//! - U1. A subquery that names nothing outside itself runs once per statement; others run for each row.
//! - U2. `x = ANY (rows)` by look-up gives what comparing with each row would: equality is that of `rowkey`.

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

/// What an uncorrelated subquery gave.
enum Once {
    Value(Value),
    Rows(Arc<RowSet>),
}

/// Rows of a subquery under ANY or ALL.
struct RowSet {
    rows: Vec<Box<[Value]>>,
    /// Keys of the rows without NULL, when they can be looked up.
    keys: Option<Set<Box<[u8]>>>,
    /// Whether some row has a NULL.
    has_null: bool,
}

impl SubState {
    /// Forgets what an earlier statement computed.
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
                return with_state(id, sub, run, env, |state, run, env| {
                    compare_each(state, sub, &fields, callees, *all, run, env)
                });
            }
            _ => {
                let types = hashed.as_deref();
                let rows = with_state(id, sub, run, env, |state, run, env| collect(state, sub, types, run, env))?;
                let rows = Arc::new(rows);
                run.subs[id].once = Some(Once::Rows(rows.clone()));
                rows
            }
        };
        return compare_set(&rows, &fields, callees, *all, hashed.as_deref(), run);
    }
    if let Some(Once::Value(value)) = &run.subs[id].once {
        return Ok(value.clone());
    }
    let value = with_state(id, sub, run, env, |state, run, env| single(state, sub, run, env))?;
    if !sub.correlated {
        run.subs[id].once = Some(Once::Value(value.clone()));
    }
    Ok(value)
}

/// Runs `body` with the subquery's operators at their start.
fn with_state<T>(
    id: usize,
    sub: &SubPlan,
    run: &mut Run<'_>,
    env: &Env<'_>,
    body: impl FnOnce(&mut QueryState, &mut Run<'_>, &Env<'_>) -> Result<T>,
) -> Result<T> {
    let mut state = match run.subs[id].query.take() {
        Some(mut state) => {
            state.op.rewind();
            state
        }
        None => QueryState::new(&sub.query),
    };
    let result = body(&mut state, run, env);
    run.subs[id].query = Some(state);
    result
}

fn next(state: &mut QueryState, sub: &SubPlan, run: &mut Run<'_>, env: &Env<'_>) -> Result<bool> {
    loop {
        match state.pull(&sub.query, Some(env), run)? {
            Pull::Row => return Ok(true),
            Pull::End => return Ok(false),
            Pull::Yield => run.go_on()?,
            // What may wait was computed ahead (cte W3).
            Pull::Wait(_) => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "an expression would have to wait for a lock"));
            }
        }
    }
}

fn single(state: &mut QueryState, sub: &SubPlan, run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    match &sub.kind {
        SubPlanKind::Exists => next(state, sub, run, env).map(Value::Bool),
        SubPlanKind::Array(oid) => {
            let (mut values, mut kept) = (Vec::new(), Kept::by("a subquery"));
            while next(state, sub, run, env)? {
                let value = state.row(&sub.query).first().cloned().unwrap_or(Value::Null);
                kept.row(run.held, std::slice::from_ref(&value))?;
                values.push(value);
            }
            kept.end(run.held);
            array_of(*oid, values)
        }
        SubPlanKind::Scalar | SubPlanKind::Compare { .. } => {
            if !next(state, sub, run, env)? {
                return Ok(Value::Null);
            }
            let value = state.row(&sub.query).first().cloned().unwrap_or(Value::Null);
            if next(state, sub, run, env)? {
                return Err(SqlError::new(
                    SqlState::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ));
            }
            Ok(value)
        }
    }
}

fn collect(
    state: &mut QueryState,
    sub: &SubPlan,
    hashed: Option<&[u32]>,
    run: &mut Run<'_>,
    env: &Env<'_>,
) -> Result<RowSet> {
    let mut set = RowSet { rows: Vec::new(), keys: hashed.map(|_| Set::default()), has_null: false };
    // Kept to the end of the statement (U1), so nothing takes it off the account.
    let mut kept = Kept::by("a subquery");
    while next(state, sub, run, env)? {
        let row = state.row(&sub.query);
        if row.iter().any(Value::is_null) {
            set.has_null = true;
        } else if let (Some(keys), Some(types)) = (&mut set.keys, hashed) {
            let key = key_of(row, types)?;
            kept.key(run.held, &key)?;
            keys.insert(key);
            // With one column a row found or not by its key is all there is to know.
            if types.len() == 1 {
                continue;
            }
        }
        kept.row(run.held, row)?;
        set.rows.push(row.into());
    }
    Ok(set)
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
            // Only a NULL in a row can still make the answer unknown.
            if !set.has_null {
                return Ok(Value::Bool(all));
            }
        }
    }
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
    callees: &[Callee],
    all: bool,
    run: &mut Run<'_>,
    env: &Env<'_>,
) -> Result<Value> {
    let mut unknown = false;
    while next(state, sub, run, env)? {
        match compare_row(state.row(&sub.query), fields, callees, all, run)? {
            Some(result) if result != all => return Ok(Value::Bool(result)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(all) })
}

/// Compares one row: fields are AND-ed under ANY and, being negated comparisons, OR-ed under ALL.
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

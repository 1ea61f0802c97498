//! Converts the keys of an index access to spans of key bytes, with the values of one execution.
//!
//! # Invariants
//! - S1. Spans do not overlap and are in key order, so that no row is returned twice.
//! - S2. A NULL or a value outside the column's type gives no span: such a comparison is never true.

use std::ops::Bound;

use collie_engine::KeyRange;

use crate::{
    codec::key::{self, KeyColumn},
    error::Result,
    exec::{
        context::{Env, Run},
        eval::eval,
    },
    plan::{
        code::Code,
        node::{IndexAccess, Limiter, Prefix, Term},
    },
    types::{Value, oid},
};

/// The number of values of an index's columns that are encoded and sorted in about a millisecond.
const VALUES_PER_STEP: usize = 2_048;

/// A value converted to a column's type.
enum Fit {
    Value(Value),
    /// Below every value of the type.
    Below,
    /// Above every value of the type.
    Above,
    Null,
}

fn fit(value: Value, column_oid: u32) -> Fit {
    if value.is_null() {
        return Fit::Null;
    }
    match (column_oid, &value) {
        (oid::INT2, Value::Int4(_) | Value::Int8(_)) => match i16::try_from(value.as_i64().unwrap_or_default()) {
            Ok(small) => Fit::Value(Value::Int2(small)),
            Err(_) => outside(&value),
        },
        (oid::INT4, Value::Int8(number)) => match i32::try_from(*number) {
            Ok(small) => Fit::Value(Value::Int4(small)),
            Err(_) => outside(&value),
        },
        (oid::INT4, Value::Int2(number)) => Fit::Value(Value::Int4(i32::from(*number))),
        (oid::INT8, Value::Int2(_) | Value::Int4(_)) => Fit::Value(Value::Int8(value.as_i64().unwrap_or_default())),
        _ => Fit::Value(value),
    }
}

fn outside(value: &Value) -> Fit {
    if value.as_i64().is_some_and(|number| number < 0) { Fit::Below } else { Fit::Above }
}

/// Computes into `out` the prefix of an access whose terms are all single values; returns false if no key matches.
pub(crate) fn single_prefix(access: &IndexAccess, run: &mut Run<'_>, env: &Env<'_>, out: &mut Vec<u8>) -> Result<bool> {
    out.clear();
    let Prefix::Product(terms) = &access.prefix else { return Ok(false) };
    for (term, column) in terms.iter().zip(&access.keys) {
        let Term::One(code) = term else { return Ok(false) };
        match fit(eval(code, run, env)?, column.oid) {
            Fit::Value(value) => key::encode_column(out, column, &value)?,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Computes all prefixes, in key order and without duplicates.
pub(crate) fn prefixes(access: &IndexAccess, run: &mut Run<'_>, env: &Env<'_>) -> Result<Vec<Vec<u8>>> {
    if !is_long(access, run) {
        return prefixes_here(access, run, env);
    }
    let (aside, mut computed) = (run.aside, None);
    aside(&mut || computed = Some(prefixes_here(access, run, env)));
    computed.unwrap_or_else(|| prefixes_here(access, run, env))
}

/// Returns whether an access has so many values that computing them takes longer than a step.
fn is_long(access: &IndexAccess, run: &Run<'_>) -> bool {
    let values = match &access.prefix {
        Prefix::Rows(rows) => rows.len(),
        Prefix::Product(terms) => terms
            .iter()
            .map(|term| match term {
                Term::One(_) => 1,
                Term::List(list) => list.len(),
                Term::Elements(Code::Param(index)) => match run.params.get(*index) {
                    Some(Value::Array(array)) => array.values.len(),
                    _ => 1,
                },
                Term::Elements(Code::Const(Value::Array(array))) => array.values.len(),
                Term::Elements(_) => 1,
            })
            .fold(1, usize::saturating_mul),
    };
    values > VALUES_PER_STEP
}

fn prefixes_here(access: &IndexAccess, run: &mut Run<'_>, env: &Env<'_>) -> Result<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = match &access.prefix {
        Prefix::Product(terms) => {
            let mut all = vec![Vec::new()];
            for (term, column) in terms.iter().zip(&access.keys) {
                let mut encoded = Vec::new();
                for value in term_values(term, run, env)? {
                    if let Fit::Value(value) = fit(value, column.oid) {
                        let mut bytes = Vec::new();
                        key::encode_column(&mut bytes, column, &value)?;
                        encoded.push(bytes);
                    }
                }
                all = all
                    .iter()
                    .flat_map(|prefix: &Vec<u8>| encoded.iter().map(|bytes| [prefix.as_slice(), bytes].concat()))
                    .collect();
            }
            all
        }
        Prefix::Rows(rows) => {
            let mut all = Vec::with_capacity(rows.len());
            'rows: for row in rows {
                let mut bytes = Vec::new();
                for (code, column) in row.iter().zip(&access.keys) {
                    match fit(eval(code, run, env)?, column.oid) {
                        Fit::Value(value) => key::encode_column(&mut bytes, column, &value)?,
                        _ => continue 'rows,
                    }
                }
                all.push(bytes);
            }
            all
        }
    };
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn term_values(term: &Term, run: &mut Run<'_>, env: &Env<'_>) -> Result<Vec<Value>> {
    match term {
        Term::One(code) => Ok(vec![eval(code, run, env)?]),
        Term::List(list) => list.iter().map(|code| eval(code, run, env)).collect(),
        Term::Elements(code) => Ok(match eval(code, run, env)? {
            Value::Array(array) => array.values.clone(),
            _ => Vec::new(),
        }),
    }
}

/// Computes the spans of an access, in key order.
pub(crate) fn spans(access: &IndexAccess, run: &mut Run<'_>, env: &Env<'_>) -> Result<Vec<KeyRange>> {
    let Some(column) = access.keys.get(access.fixed) else {
        return Ok(prefixes(access, run, env)?.iter().map(|prefix| KeyRange::prefix(prefix)).collect());
    };
    let lower = bound(access.lower.as_ref(), column, run, env)?;
    let upper = bound(access.upper.as_ref(), column, run, env)?;
    let (low, high) = match (lower, upper) {
        (Edge::Nothing, _) | (_, Edge::Nothing) => return Ok(Vec::new()),
        // No value is above such a lower bound or below such an upper bound; the opposite cases do not limit the range.
        (Edge::Above, _) | (_, Edge::Below) => return Ok(Vec::new()),
        (low, high) => (low, high),
    };
    let mut spans = Vec::new();
    for prefix in prefixes(access, run, env)? {
        let whole = KeyRange::prefix(&prefix);
        let at = |bytes: &[u8]| [prefix.as_slice(), bytes].concat();
        let after = |bytes: &[u8]| KeyRange::prefix(&at(bytes)).end;
        let (first, last) = if column.desc { (&high, &low) } else { (&low, &high) };
        let start = match first {
            Edge::At(bytes, true) => Bound::Included(at(bytes)),
            Edge::At(bytes, false) => match after(bytes) {
                Bound::Excluded(next) => Bound::Included(next),
                _ => continue,
            },
            _ => whole.start.clone(),
        };
        let end = match last {
            Edge::At(bytes, true) => after(bytes),
            Edge::At(bytes, false) => Bound::Excluded(at(bytes)),
            _ => whole.end.clone(),
        };
        if let (Bound::Included(start), Bound::Excluded(end)) = (&start, &end)
            && start >= end
        {
            continue;
        }
        spans.push(KeyRange { start, end });
    }
    Ok(spans)
}

/// One end of a range.
enum Edge {
    /// No bound was given.
    Open,
    /// These bytes, inclusive or not.
    At(Vec<u8>, bool),
    /// A value below the type's range.
    Below,
    /// A value above the type's range.
    Above,
    /// NULL: no value matches.
    Nothing,
}

fn bound(limiter: Option<&Limiter>, column: &KeyColumn, run: &mut Run<'_>, env: &Env<'_>) -> Result<Edge> {
    let Some(limiter) = limiter else { return Ok(Edge::Open) };
    Ok(match fit(eval(&limiter.value, run, env)?, column.oid) {
        Fit::Value(value) => {
            let mut bytes = Vec::new();
            key::encode_column(&mut bytes, column, &value)?;
            Edge::At(bytes, limiter.inclusive)
        }
        Fit::Below => Edge::Below,
        Fit::Above => Edge::Above,
        Fit::Null => Edge::Nothing,
    })
}

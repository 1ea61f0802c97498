//! Functions over arrays. Comparisons are in `compare`, text forms in `types::io`; subscripts and `= ANY` are
//! expressions.
//!
//! # Invariants
//! - A2. Every subscript fits in an integer, and so does the subscript after the last.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::cmp::Ordering;
use std::sync::Arc;

use super::args::{array, boolean, int4, new_text};
use super::context::{EvalContext, Rows};
use super::implementation::{Entry, entries};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Array, ArrayDim, Value, oid};

#[cold]
fn incompatible() -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot concatenate incompatible arrays")
}

fn int(number: usize) -> Value {
    Value::Int4(i32::try_from(number).expect("an array has fewer than 2^31 elements"))
}

/// Returns the dimension with this number, counted from 1.
fn dimension(args: &[Value]) -> Option<ArrayDim> {
    let at = usize::try_from(i64::from(int4(&args[1])) - 1).ok()?;
    array(&args[0]).dims.get(at).copied()
}

/// Returns the last subscript of a dimension.
fn last(dim: ArrayDim) -> i32 {
    let last = i64::from(dim.lower) + i64::from(dim.len) - 1;
    i32::try_from(last).unwrap_or(i32::MAX) // A2; an earlier version stored what a client sent in binary form
}

fn length(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(dimension(args).map_or(Value::Null, |dim| Value::Int4(dim.len.cast_signed())))
}

fn lower(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(dimension(args).map_or(Value::Null, |dim| Value::Int4(dim.lower)))
}

fn upper(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(dimension(args).map_or(Value::Null, |dim| Value::Int4(last(dim))))
}

fn dimensions(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let dims = &array(&args[0]).dims;
    Ok(if dims.is_empty() { Value::Null } else { int(dims.len()) })
}

fn bounds(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let dims = &array(&args[0]).dims;
    if dims.is_empty() {
        return Ok(Value::Null);
    }
    Ok(new_text(dims.iter().map(|&dim| format!("[{}:{}]", dim.lower, last(dim))).collect::<String>()))
}

fn cardinality(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(int(array(&args[0]).values.len()))
}

/// Makes the array value, unless a subscript would not fit in an integer (A2).
fn bounded(array: Array) -> Result<Value> {
    array.check_bounds()?;
    Ok(Value::Array(Arc::new(array)))
}

/// Makes a one-dimensional array of these elements.
fn list(element_oid: u32, lower: i32, values: Vec<Value>) -> Result<Value> {
    bounded(Array::with_lower(element_oid, lower, values))
}

/// Returns the element type of an argument that may be a NULL array.
fn element_of(array_type: u32) -> u32 {
    oid::element_of(array_type).unwrap_or(oid::TEXT)
}

/// Returns the element type, lower bound and elements of an array, for functions over lists; NULL counts as empty.
fn as_list(value: &Value, array_type: u32) -> Result<(u32, i32, &[Value])> {
    let Value::Array(array) = value else { return Ok((element_of(array_type), 1, &[])) };
    match array.dims.as_slice() {
        [] => Ok((array.element_oid, 1, &[])),
        [dim] => Ok((array.element_oid, dim.lower, &array.values)),
        _ => Err(SqlError::new(SqlState::DATA_EXCEPTION, "argument must be empty or one-dimensional array")),
    }
}

fn append(args: &[Value], types: &[u32], _: &EvalContext<'_>) -> Result<Value> {
    let (element, lower, values) = as_list(&args[0], types[0])?;
    list(element, lower, values.iter().chain([&args[1]]).cloned().collect())
}

fn prepend(args: &[Value], types: &[u32], _: &EvalContext<'_>) -> Result<Value> {
    let (element, lower, values) = as_list(&args[1], types[1])?;
    list(element, lower, [&args[0]].into_iter().chain(values).cloned().collect())
}

/// Joins two arrays of equal shape, or an array and one of its slices.
fn concatenate(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = match (&args[0], &args[1]) {
        (Value::Null, other) | (other, Value::Null) => return Ok(other.clone()),
        (a, b) => (array(a), array(b)),
    };
    if a.values.is_empty() {
        return Ok(args[1].clone());
    }
    if b.values.is_empty() {
        return Ok(args[0].clone());
    }
    let mut dims = if a.dims.len() >= b.dims.len() { a.dims.clone() } else { b.dims.clone() };
    let added = if a.dims.len() == b.dims.len() && a.dims[1..] == b.dims[1..] {
        b.dims[0].len
    } else if dims[1..] == a.dims[..] || dims[1..] == b.dims[..] {
        1
    } else {
        return Err(incompatible());
    };
    dims[0].len += added;
    context.check_length((a.values.len() + b.values.len()) * size_of::<Value>())?;
    let values = a.values.iter().chain(&b.values).cloned().collect();
    bounded(Array { element_oid: a.element_oid, dims, values })
}

/// Returns whether two elements are the same; NULL is the same as NULL.
fn same(a: &Value, b: &Value, element: u32) -> bool {
    a.compare(b, element) == Ordering::Equal
}

fn searched(value: &Value) -> Result<(&Array, i32)> {
    let array = array(value);
    match array.dims.as_slice() {
        [] => Ok((array, 1)),
        [dim] => Ok((array, dim.lower)),
        _ => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "searching for elements in multidimensional arrays is not supported",
        )),
    }
}

/// Returns the subscripts of the elements that are the same as the searched one.
fn found<'a>(args: &'a [Value]) -> Result<impl Iterator<Item = i32> + 'a> {
    let (array, lower) = searched(&args[0])?;
    let hits = (i64::from(lower)..).zip(&array.values).filter(|(_, value)| same(value, &args[1], array.element_oid));
    Ok(hits.map(|(subscript, _)| i32::try_from(subscript).expect("an array's subscripts fit in an integer (A2)")))
}

fn position(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let from = match args.get(2) {
        None => i32::MIN,
        Some(Value::Null) => {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "initial position must not be null"));
        }
        Some(from) => int4(from),
    };
    Ok(found(args)?.find(|&subscript| subscript >= from).map_or(Value::Null, Value::Int4))
}

fn positions(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    Ok(Value::array(oid::INT4, found(args)?.map(Value::Int4).collect()))
}

fn remove(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let array = array(&args[0]);
    if array.dims.len() > 1 {
        let message = "removing elements from multidimensional arrays is not supported";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let kept = array.values.iter().filter(|value| !same(value, &args[1], array.element_oid)).cloned().collect();
    list(array.element_oid, array.dims.first().map_or(1, |dim| dim.lower), kept)
}

fn replace(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let mut replaced = array(&args[0]).clone();
    for value in &mut replaced.values {
        if same(value, &args[1], replaced.element_oid) {
            *value = args[2].clone();
        }
    }
    Ok(Value::Array(Arc::new(replaced)))
}

/// Returns whether `array` has an element equal to `value`; NULL equals nothing.
fn has(array: &Array, value: &Value) -> bool {
    !value.is_null() && array.values.iter().any(|v| !v.is_null() && same(v, value, array.element_oid))
}

fn contains(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (whole, part) = (array(&args[0]), array(&args[1]));
    Ok(Value::Bool(part.values.iter().all(|value| has(whole, value))))
}

fn contained(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (part, whole) = (array(&args[0]), array(&args[1]));
    Ok(Value::Bool(part.values.iter().all(|value| has(whole, value))))
}

fn overlap(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let (a, b) = (array(&args[0]), array(&args[1]));
    Ok(Value::Bool(a.values.iter().any(|value| has(b, value))))
}

fn unnest(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    let Value::Array(array) = &args[0] else { return Ok(Box::new(std::iter::empty())) };
    let array = Arc::clone(array);
    Ok(Box::new((0..array.values.len()).map(move |i| Ok(array.values[i].clone()))))
}

fn subscripts(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    let Some(dim) = dimension(args) else { return Ok(Box::new(std::iter::empty())) };
    let range = (dim.lower..=last(dim)).map(|subscript| Ok(Value::Int4(subscript)));
    Ok(if args.get(2).is_some_and(boolean) { Box::new(range.rev()) } else { Box::new(range) })
}

pub(super) const ENTRIES: &[&[Entry]] = &[
    entries! { Scalar:
        "array_length" => length, "array_lower" => lower, "array_upper" => upper, "array_ndims" => dimensions,
        "array_dims" => bounds, "array_cardinality" => cardinality, "array_cat" => concatenate,
        "array_position" => position, "array_position_start" => position, "array_positions" => positions,
        "array_remove" => remove, "array_replace" => replace,
        "arraycontains" => contains, "arraycontained" => contained, "arrayoverlap" => overlap,
    },
    entries! { Typed:
        "array_append" => append, "array_prepend" => prepend,
    },
    entries! { Set:
        "array_unnest" => unnest, "generate_subscripts" => subscripts, "generate_subscripts_nodir" => subscripts,
    },
];

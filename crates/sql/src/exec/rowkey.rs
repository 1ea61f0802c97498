//! Rows of values as byte strings whose order and equality are those of the values: for sorts, groups and hash joins.
//!
//! These keys are never stored: stored keys are those of `codec::key`, which exist only for types that an index can
//! have.
//! Integers of all widths have one form here, because hash joins compare different widths.
//!
//! # Invariants
//! - B1. `a` equals `b` under the type's equality iff their bytes are equal; ascending bytes are ascending values.
//! - B2. The bytes of no value are a prefix of those of another value of the same type, so that columns can be
//!   concatenated.

use crate::{
    codec::key::{self, KeyColumn},
    error::Result,
    plan::node::Order,
    types::{Value, oid},
};

/// Appends a value as a key that is only compared for equality.
pub(crate) fn push_equal(out: &mut Vec<u8>, value: &Value, oid: u32) -> Result<()> {
    push(out, value, oid)
}

/// Appends a value as a sort key.
pub(crate) fn push_ordered(out: &mut Vec<u8>, value: &Value, order: Order) -> Result<()> {
    if value.is_null() {
        out.push(if order.nulls_first { 0 } else { 2 });
        return Ok(());
    }
    out.push(1);
    let start = out.len();
    push_value(out, value, order.oid)?;
    if order.descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
    Ok(())
}

fn push(out: &mut Vec<u8>, value: &Value, oid: u32) -> Result<()> {
    if value.is_null() {
        out.push(2);
        return Ok(());
    }
    out.push(1);
    push_value(out, value, oid)
}

fn push_value(out: &mut Vec<u8>, value: &Value, type_oid: u32) -> Result<()> {
    match value {
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => {
            let number = value.as_i64().unwrap_or_default();
            out.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
            Ok(())
        }
        Value::Oid(number) => {
            out.extend_from_slice(&number.to_be_bytes());
            Ok(())
        }
        Value::Char(byte) => {
            out.push(*byte);
            Ok(())
        }
        Value::Text(text) if type_oid != oid::BPCHAR => {
            out.extend_from_slice(text.as_bytes());
            out.push(0);
            Ok(())
        }
        Value::Array(array) => {
            if matches!(type_oid, oid::OIDVECTOR | oid::INT2VECTOR) {
                out.extend_from_slice(&(array.values.len() as u64).to_be_bytes());
            }
            for value in &array.values {
                push(out, value, array.element_oid)?;
            }
            out.push(0);
            for dim in &array.dims {
                out.extend_from_slice(&dim.len.to_be_bytes());
                out.extend_from_slice(&(i64::from(dim.lower) ^ i64::MIN).to_be_bytes());
            }
            out.extend_from_slice(&[0; 4]);
            Ok(())
        }
        Value::Record(fields) => {
            for value in fields.iter() {
                push(out, value, value.natural_oid())?;
            }
            out.push(0);
            Ok(())
        }
        _ => key::encode_column(out, &KeyColumn::not_null(key_oid(value, type_oid)), value),
    }
}

/// Returns the type to encode by: the value's own kind, except where one kind has several orders.
fn key_oid(value: &Value, type_oid: u32) -> u32 {
    match value {
        Value::Text(_) => type_oid,
        _ => value.natural_oid(),
    }
}

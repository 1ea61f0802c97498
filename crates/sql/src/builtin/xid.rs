//! Transaction ids of 64 bits and snapshots of them, as values: `xid8`, `pg_snapshot`, `txid_snapshot`.
//!
//! An `xid8` is kept as an `int8`, a snapshot as its text. The session provides the running transaction's own values.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use super::args::{int, text};
use super::context::{EvalContext, Rows};
use super::implementation::{Entry, entries};
use crate::error::Result;
use crate::types::{Value, XidSnapshot};

fn snapshot(value: &Value) -> Result<XidSnapshot> {
    XidSnapshot::parse(text(value), "pg_snapshot")
}

fn xmin(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int8(snapshot(&args[0])?.xmin))
}

fn xmax(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int8(snapshot(&args[0])?.xmax))
}

fn visible(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(snapshot(&args[1])?.shows(int(&args[0]))))
}

fn open(args: &[Value], _: &EvalContext<'_>) -> Result<Rows> {
    Ok(Box::new(snapshot(&args[0])?.open.into_iter().map(|xid| Ok(Value::Int8(xid)))))
}

pub(super) const ENTRIES: &[&[Entry]] = &[
    entries! { Scalar:
        "pg_snapshot_xmin" => xmin, "pg_snapshot_xmax" => xmax, "pg_visible_in_snapshot" => visible,
    },
    entries! { Set: "pg_snapshot_xip" => open, },
];

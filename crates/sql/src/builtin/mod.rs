//! PostgreSQL's built-in objects: types, functions, operators, casts, aggregates and operator classes, under PostgreSQL
//! 15's OIDs, and their implementations.
//!
//! This module knows no catalog and no session: functions that need one are marked [`Implementation::System`] and
//! answered through [`SystemFunctions`]. It resolves no overloads: it lists the rows from which analysis chooses.
//!
//! The facts are in `crates/sql/builtin/*.tsv`, which `generate.py` writes from a running PostgreSQL 15, only for what
//! is implemented here. See [`implementation`] for the invariants between the facts and the implementations.

mod accumulate;
mod aggregate;
mod args;
mod array;
mod bytes;
mod cast;
mod chars;
mod compare;
mod context;
mod datetime;
mod datetime_format;
mod float;
mod implementation;
mod integer;
mod interval;
mod interval_fields;
mod moments;
mod number_format;
mod numeric;
mod pattern;
mod pg_lsn;
mod regex;
mod series;
mod system;
mod tables;
mod text;
mod xid;

#[cfg(test)]
mod builtin_tests;
#[cfg(test)]
mod robust_tests;

pub use cast::{Conversion, binary_coercible, cast_value, catalog_output, conversion, convert};
pub use context::{EvalContext, Rows, SystemFunctions};
pub use implementation::{Accumulator, AggregateFn, Implementation, ScalarFn, SetFn, TypedFn};
pub use tables::{
    Aggregate, Cast, CastContext, CastMethod, OpClass, Operator, Proc, ProcKind, Strategy, Type, TypeKind, Volatility,
    accumulator, aggregate, btree_operator, btree_strategy, cast, casts, op_class_by_name, op_class_for, op_classes,
    operator_by_oid, operators, operators_named, proc_by_oid, procs, procs_named, type_by_name, type_by_oid, types,
};

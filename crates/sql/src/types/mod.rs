//! Values and their types: the form of a SQL value in memory, its order, and its text and binary forms.
//!
//! `builtin` resolves functions, operators and casts, and `codec` has the bytes at rest. This module knows neither the
//! catalog nor a session or a clock: the settings of text forms come in a [`TextContext`].
//!
//! # Invariants
//! - T1. A [`Value`] does not contain its SQL type; the code that holds it knows the type's OID. One variant serves
//!   several types (`text`, `varchar`, `char(n)`, `name` are all [`Value::Text`]).
//! - T2. Text contains no NUL character. Every input refuses it with 22021.
//! - T3. `char(n)` is stored padded with blanks to its length and compared without them.
//! - T4. No arithmetic wraps; a result that does not fit is an error with PostgreSQL's SQLSTATE and text.
//! - T5. `compare` is a total order, and `hash_into` agrees with it: equal values of one type have equal hashes.
//!
//! Checked by the tests next to each file, with PostgreSQL 15's answers.

pub mod array;
pub mod datetime;
pub mod interval;
pub mod io;
pub mod numeric;
pub mod oid;
mod sql_type;
pub mod typmod;
mod value;
mod xid_snapshot;

pub use array::{Array, ArrayDim};
pub use interval::{Interval, IntervalStyle};
pub use io::{ByteaOutput, TextContext};
pub use numeric::Numeric;
pub use sql_type::SqlType;
pub use value::{Value, compare_f64};
pub use xid_snapshot::XidSnapshot;

//! Values and their types: what a SQL value is in memory, how it is ordered, and how it reads and prints.
//!
//! Not here: which function, operator or cast a name means (`builtin`), and bytes at rest (`codec`). Nothing here knows
//! the catalog, a session or a clock: what a text form depends on comes in a [`TextContext`].
//!
//! # Invariants
//! - T1. A [`Value`] does not say its SQL type; whoever holds it knows the type's OID. One kind of value serves several
//!   types (`text`, `varchar`, `char(n)`, `name` are all [`Value::Text`]).
//! - T2. Text holds no NUL character. Every way in refuses it with 22021.
//! - T3. `char(n)` is kept padded with blanks to its length and compared without them.
//! - T4. No arithmetic wraps; what does not fit is an error with PostgreSQL's SQLSTATE and text.
//! - T5. `compare` is a total order and `hash_into` agrees with it: equal values of one type hash alike.
//!
//! Checked by the tests beside each file, with answers taken from PostgreSQL 15.

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

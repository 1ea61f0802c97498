//! `Implementation`: the way a built-in function is computed, and the registry that finds it by PostgreSQL's internal
//! name (`pg_proc.prosrc`). The rows of `proc.tsv` hold the facts about the function.
//!
//! # Invariants
//! - I1. Every registered name has a row in `proc.tsv`, and every row has a registered name
//!   (`every_row_is_implemented_and_every_implementation_has_a_row`).
//! - I2. The function of a strict row is never called with NULL: the caller returns NULL instead.
//! - I3. A function is called with the number of arguments, and with the variants, that its row's types ask for.
//!
//! `generate.py` finds the registered names by reading the `"name" =>` lines of this folder.

use collie_base::Map;

use super::context::{EvalContext, Rows};
use super::{
    aggregate, array, bytes, chars, compare, datetime, datetime_format, float, integer, interval, interval_fields,
    moments, number_format, numeric, pattern, pg_lsn, series, system, text, xid,
};
use crate::error::Result;
use crate::types::Value;

/// Computes one value from the arguments.
pub type ScalarFn = fn(&[Value], &EvalContext<'_>) -> Result<Value>;
/// Computes one value like [`ScalarFn`]; the function also gets the types of its arguments (polymorphic functions).
pub type TypedFn = fn(&[Value], &[u32], &EvalContext<'_>) -> Result<Value>;
/// Computes the rows of a set-returning function.
pub type SetFn = fn(&[Value], &EvalContext<'_>) -> Result<Rows>;
/// Makes the state of an aggregate for one group. Takes the types of the arguments.
pub type AggregateFn = fn(&[u32]) -> Box<dyn Accumulator + Send>;

/// The running state of an aggregate over one group.
pub trait Accumulator {
    /// Adds the arguments of one row. Rows with NULL are added as well: the aggregate decides what they mean.
    ///
    /// # Errors
    /// Those of the aggregate's arithmetic, such as 22003.
    fn add(&mut self, args: &[Value]) -> Result<()>;

    /// Returns the aggregate of all rows added. Called once, last.
    ///
    /// # Errors
    /// As for [`Accumulator::add`].
    fn finish(&mut self) -> Result<Value>;

    /// Returns whether the state keeps the added rows.
    fn keeps_rows(&self) -> bool {
        false
    }
}

/// The way a function is computed.
#[derive(Clone, Copy, Debug)]
pub enum Implementation {
    /// From its arguments.
    Scalar(ScalarFn),
    /// From its arguments and their types, which the caller passes along.
    Typed(TypedFn),
    /// By [`SystemFunctions::call`](super::SystemFunctions::call) with this source.
    System(&'static str),
    /// Many rows, from its arguments.
    Set(SetFn),
    /// Many rows, by [`SystemFunctions::call_set`](super::SystemFunctions::call_set) with this source.
    SystemSet(&'static str),
    /// One value from many rows.
    Aggregate(AggregateFn),
}

/// One registered name.
pub(super) type Entry = (&'static str, Implementation);

/// Lists `"name" => function` pairs as registry entries of one kind.
macro_rules! entries {
    ($kind:ident: $($name:literal => $function:expr,)*) => {
        &[$(($name, $crate::builtin::Implementation::$kind($function)),)*]
    };
}
pub(super) use entries;

/// Returns every registered name, in the order of the modules.
pub(super) fn registered() -> impl Iterator<Item = Entry> {
    let tables: [&[&[Entry]]; 20] = [
        integer::ENTRIES,
        float::ENTRIES,
        numeric::ENTRIES,
        compare::ENTRIES,
        text::ENTRIES,
        chars::ENTRIES,
        pattern::ENTRIES,
        bytes::ENTRIES,
        datetime::ENTRIES,
        datetime_format::ENTRIES,
        interval::ENTRIES,
        interval_fields::ENTRIES,
        moments::ENTRIES,
        number_format::ENTRIES,
        array::ENTRIES,
        series::ENTRIES,
        aggregate::ENTRIES,
        system::ENTRIES,
        xid::ENTRIES,
        pg_lsn::ENTRIES,
    ];
    tables.into_iter().flatten().flat_map(|entries| entries.iter().copied())
}

/// Returns the registry as a map.
pub(super) fn by_name() -> Map<&'static str, Implementation> {
    registered().collect()
}

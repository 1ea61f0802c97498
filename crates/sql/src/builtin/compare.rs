//! The comparison operators `=`, `<>`, `<`, `<=`, `>`, `>=` of every type, also between number types and between time
//! types.
//!
//! # Invariants
//! - C1. Within one type they agree with `Value::compare`, and so with the order of indexes and sorts.
//!
//! The registry lists operator functions; the types differ only in the order of two values.
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::cmp::Ordering;

use super::args::{boolean, bytea, char, date, float, int, interval, micros, numeric, oid, pg_lsn, text};
use super::context::EvalContext;
use super::implementation::{Entry, entries};
use crate::error::Result;
use crate::types::{Value, oid as type_oid};

/// Orders two values that are not NULL.
trait Order {
    fn order(left: &Value, right: &Value, context: &EvalContext<'_>) -> Ordering;
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident: |$left:ident, $right:ident, $context:pat_param| $order:expr;)*) => {$(
        $(#[$doc])*
        struct $name;
        impl Order for $name {
            #[inline]
            fn order($left: &Value, $right: &Value, $context: &EvalContext<'_>) -> Ordering {
                $order
            }
        }
    )*};
}

orders! {
    Booleans: |a, b, _| boolean(a).cmp(&boolean(b));
    /// Of any two widths.
    Integers: |a, b, _| int(a).cmp(&int(b));
    Int4s: |a, b, _| match (a, b) {
        (Value::Int4(a), Value::Int4(b)) => a.cmp(b),
        _ => int(a).cmp(&int(b)),
    };
    /// Of any two widths.
    Floats: |a, b, _| order_floats(float(a), float(b));
    Numerics: |a, b, _| numeric(a).cmp(numeric(b));
    /// By bytes: the C collation.
    Texts: |a, b, _| text(a).as_bytes().cmp(text(b).as_bytes());
    /// Without the blanks at the end.
    Blanks: |a, b, _| a.compare(b, type_oid::BPCHAR);
    Byteas: |a, b, _| bytea(a).cmp(bytea(b));
    Chars: |a, b, _| char(a).cmp(&char(b));
    Oids: |a, b, _| oid(a).cmp(&oid(b));
    Lsns: |a, b, _| pg_lsn(a).cmp(&pg_lsn(b));
    Vectors: |a, b, _| a.compare(b, type_oid::OIDVECTOR);
    Dates: |a, b, _| date(a).cmp(&date(b));
    /// Two times, two timestamps or two timestamps with time zone.
    Moments: |a, b, _| micros(a).cmp(&micros(b));
    Intervals: |a, b, _| interval(a).cmp(&interval(b));
    /// Timestamps and dates.
    LocalMoments: |a, b, _| local(a).cmp(&local(b));
    /// Timestamps with time zone against dates and timestamps, which are taken in the session's zone.
    Instants: |a, b, context| instant(a, context).cmp(&instant(b, context));
    /// By `Value::compare`: arrays and rows.
    Generic: |a, b, _| a.compare(b, type_oid::ANYARRAY);
}

/// Orders floats: NaN is equal to itself and above every number; -0 equals 0.
fn order_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Returns the microseconds of a date or timestamp. The result is wide because dates reach further than timestamps;
/// infinities lie outside.
fn local(value: &Value) -> i128 {
    const DAY: i128 = 86_400_000_000;
    match value {
        Value::Date(i32::MIN) | Value::Timestamp(i64::MIN) => i128::MIN,
        Value::Date(i32::MAX) | Value::Timestamp(i64::MAX) => i128::MAX,
        Value::Date(days) => i128::from(*days) * DAY,
        other => i128::from(micros(other)),
    }
}

/// Returns the microseconds in UTC of a timestamptz, or of a date or timestamp taken in the session's zone.
fn instant(value: &Value, context: &EvalContext<'_>) -> i128 {
    match value {
        Value::TimestampTz(i64::MIN) => i128::MIN,
        Value::TimestampTz(i64::MAX) => i128::MAX,
        Value::TimestampTz(at) => i128::from(*at),
        other => match local(other) {
            infinite @ (i128::MIN | i128::MAX) => infinite,
            at => at - i128::from(super::datetime::zone_micros(context)),
        },
    }
}

fn eq<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(O::order(&args[0], &args[1], context).is_eq()))
}

fn ne<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(O::order(&args[0], &args[1], context).is_ne()))
}

fn lt<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(O::order(&args[0], &args[1], context).is_lt()))
}

fn le<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(O::order(&args[0], &args[1], context).is_le()))
}

fn gt<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(O::order(&args[0], &args[1], context).is_gt()))
}

fn ge<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(O::order(&args[0], &args[1], context).is_ge()))
}

/// Compares text for equality. The lengths come first, so that most unequal pairs cost no byte comparison.
fn text_eq(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(text(&args[0]) == text(&args[1])))
}

fn text_ne(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(text(&args[0]) != text(&args[1])))
}

/// Implements the support function of a btree class: returns -1, 0 or 1.
fn three_way<O: Order>(args: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Int4(O::order(&args[0], &args[1], context) as i32))
}

pub(super) const ENTRIES: &[&[Entry]] = &[entries! { Scalar:
    "booleq" => eq::<Booleans>, "boolne" => ne::<Booleans>, "boollt" => lt::<Booleans>, "boolle" => le::<Booleans>, "boolgt" => gt::<Booleans>, "boolge" => ge::<Booleans>,
    "int2eq" => eq::<Integers>, "int2ne" => ne::<Integers>, "int2lt" => lt::<Integers>, "int2le" => le::<Integers>, "int2gt" => gt::<Integers>, "int2ge" => ge::<Integers>,
    "int24eq" => eq::<Integers>, "int24ne" => ne::<Integers>, "int24lt" => lt::<Integers>, "int24le" => le::<Integers>, "int24gt" => gt::<Integers>, "int24ge" => ge::<Integers>,
    "int28eq" => eq::<Integers>, "int28ne" => ne::<Integers>, "int28lt" => lt::<Integers>, "int28le" => le::<Integers>, "int28gt" => gt::<Integers>, "int28ge" => ge::<Integers>,
    "int42eq" => eq::<Integers>, "int42ne" => ne::<Integers>, "int42lt" => lt::<Integers>, "int42le" => le::<Integers>, "int42gt" => gt::<Integers>, "int42ge" => ge::<Integers>,
    "int48eq" => eq::<Integers>, "int48ne" => ne::<Integers>, "int48lt" => lt::<Integers>, "int48le" => le::<Integers>, "int48gt" => gt::<Integers>, "int48ge" => ge::<Integers>,
    "int82eq" => eq::<Integers>, "int82ne" => ne::<Integers>, "int82lt" => lt::<Integers>, "int82le" => le::<Integers>, "int82gt" => gt::<Integers>, "int82ge" => ge::<Integers>,
    "int84eq" => eq::<Integers>, "int84ne" => ne::<Integers>, "int84lt" => lt::<Integers>, "int84le" => le::<Integers>, "int84gt" => gt::<Integers>, "int84ge" => ge::<Integers>,
    "xid8eq" => eq::<Integers>, "xid8ne" => ne::<Integers>, "xid8lt" => lt::<Integers>, "xid8le" => le::<Integers>, "xid8gt" => gt::<Integers>, "xid8ge" => ge::<Integers>,
    "int8eq" => eq::<Integers>, "int8ne" => ne::<Integers>, "int8lt" => lt::<Integers>, "int8le" => le::<Integers>, "int8gt" => gt::<Integers>, "int8ge" => ge::<Integers>,
    "int4eq" => eq::<Int4s>, "int4ne" => ne::<Int4s>, "int4lt" => lt::<Int4s>, "int4le" => le::<Int4s>, "int4gt" => gt::<Int4s>, "int4ge" => ge::<Int4s>,
    "float4eq" => eq::<Floats>, "float4ne" => ne::<Floats>, "float4lt" => lt::<Floats>, "float4le" => le::<Floats>, "float4gt" => gt::<Floats>, "float4ge" => ge::<Floats>,
    "float8eq" => eq::<Floats>, "float8ne" => ne::<Floats>, "float8lt" => lt::<Floats>, "float8le" => le::<Floats>, "float8gt" => gt::<Floats>, "float8ge" => ge::<Floats>,
    "float48eq" => eq::<Floats>, "float48ne" => ne::<Floats>, "float48lt" => lt::<Floats>, "float48le" => le::<Floats>, "float48gt" => gt::<Floats>, "float48ge" => ge::<Floats>,
    "float84eq" => eq::<Floats>, "float84ne" => ne::<Floats>, "float84lt" => lt::<Floats>, "float84le" => le::<Floats>, "float84gt" => gt::<Floats>, "float84ge" => ge::<Floats>,
    "numeric_eq" => eq::<Numerics>, "numeric_ne" => ne::<Numerics>, "numeric_lt" => lt::<Numerics>, "numeric_le" => le::<Numerics>, "numeric_gt" => gt::<Numerics>, "numeric_ge" => ge::<Numerics>,
    "texteq" => text_eq, "textne" => text_ne, "text_lt" => lt::<Texts>, "text_le" => le::<Texts>,
    "text_gt" => gt::<Texts>, "text_ge" => ge::<Texts>,
    "nameeq" => text_eq, "namene" => text_ne, "namelt" => lt::<Texts>, "namele" => le::<Texts>, "namegt" => gt::<Texts>, "namege" => ge::<Texts>,
    "nameeqtext" => text_eq, "namenetext" => text_ne, "namelttext" => lt::<Texts>, "nameletext" => le::<Texts>, "namegttext" => gt::<Texts>, "namegetext" => ge::<Texts>,
    "texteqname" => text_eq, "textnename" => text_ne, "textltname" => lt::<Texts>, "textlename" => le::<Texts>, "textgtname" => gt::<Texts>, "textgename" => ge::<Texts>,
    "bpchareq" => eq::<Blanks>, "bpcharne" => ne::<Blanks>, "bpcharlt" => lt::<Blanks>, "bpcharle" => le::<Blanks>, "bpchargt" => gt::<Blanks>, "bpcharge" => ge::<Blanks>,
    "byteaeq" => eq::<Byteas>, "byteane" => ne::<Byteas>, "bytealt" => lt::<Byteas>, "byteale" => le::<Byteas>, "byteagt" => gt::<Byteas>, "byteage" => ge::<Byteas>,
    "chareq" => eq::<Chars>, "charne" => ne::<Chars>, "charlt" => lt::<Chars>, "charle" => le::<Chars>, "chargt" => gt::<Chars>, "charge" => ge::<Chars>,
    "oideq" => eq::<Oids>, "oidne" => ne::<Oids>, "oidlt" => lt::<Oids>, "oidle" => le::<Oids>, "oidgt" => gt::<Oids>, "oidge" => ge::<Oids>,
    "pg_lsn_eq" => eq::<Lsns>, "pg_lsn_ne" => ne::<Lsns>, "pg_lsn_lt" => lt::<Lsns>, "pg_lsn_le" => le::<Lsns>, "pg_lsn_gt" => gt::<Lsns>, "pg_lsn_ge" => ge::<Lsns>,
    "oidvectoreq" => eq::<Vectors>, "oidvectorne" => ne::<Vectors>, "oidvectorlt" => lt::<Vectors>, "oidvectorle" => le::<Vectors>, "oidvectorgt" => gt::<Vectors>, "oidvectorge" => ge::<Vectors>,
    "text_pattern_lt" => lt::<Texts>, "text_pattern_le" => le::<Texts>, "text_pattern_gt" => gt::<Texts>, "text_pattern_ge" => ge::<Texts>,
    "bpchar_pattern_lt" => lt::<Blanks>, "bpchar_pattern_le" => le::<Blanks>, "bpchar_pattern_gt" => gt::<Blanks>, "bpchar_pattern_ge" => ge::<Blanks>,
    "date_eq" => eq::<Dates>, "date_ne" => ne::<Dates>, "date_lt" => lt::<Dates>, "date_le" => le::<Dates>, "date_gt" => gt::<Dates>, "date_ge" => ge::<Dates>,
    "time_eq" => eq::<Moments>, "time_ne" => ne::<Moments>, "time_lt" => lt::<Moments>, "time_le" => le::<Moments>, "time_gt" => gt::<Moments>, "time_ge" => ge::<Moments>,
    "timestamp_eq" => eq::<Moments>, "timestamp_ne" => ne::<Moments>, "timestamp_lt" => lt::<Moments>, "timestamp_le" => le::<Moments>, "timestamp_gt" => gt::<Moments>, "timestamp_ge" => ge::<Moments>,
    "interval_eq" => eq::<Intervals>, "interval_ne" => ne::<Intervals>, "interval_lt" => lt::<Intervals>, "interval_le" => le::<Intervals>, "interval_gt" => gt::<Intervals>, "interval_ge" => ge::<Intervals>,
    "date_eq_timestamp" => eq::<LocalMoments>, "date_ne_timestamp" => ne::<LocalMoments>, "date_lt_timestamp" => lt::<LocalMoments>, "date_le_timestamp" => le::<LocalMoments>, "date_gt_timestamp" => gt::<LocalMoments>, "date_ge_timestamp" => ge::<LocalMoments>,
    "timestamp_eq_date" => eq::<LocalMoments>, "timestamp_ne_date" => ne::<LocalMoments>, "timestamp_lt_date" => lt::<LocalMoments>, "timestamp_le_date" => le::<LocalMoments>, "timestamp_gt_date" => gt::<LocalMoments>, "timestamp_ge_date" => ge::<LocalMoments>,
    "date_eq_timestamptz" => eq::<Instants>, "date_ne_timestamptz" => ne::<Instants>, "date_lt_timestamptz" => lt::<Instants>, "date_le_timestamptz" => le::<Instants>, "date_gt_timestamptz" => gt::<Instants>, "date_ge_timestamptz" => ge::<Instants>,
    "timestamptz_eq_date" => eq::<Instants>, "timestamptz_ne_date" => ne::<Instants>, "timestamptz_lt_date" => lt::<Instants>, "timestamptz_le_date" => le::<Instants>, "timestamptz_gt_date" => gt::<Instants>, "timestamptz_ge_date" => ge::<Instants>,
    "timestamp_eq_timestamptz" => eq::<Instants>, "timestamp_ne_timestamptz" => ne::<Instants>, "timestamp_lt_timestamptz" => lt::<Instants>, "timestamp_le_timestamptz" => le::<Instants>, "timestamp_gt_timestamptz" => gt::<Instants>, "timestamp_ge_timestamptz" => ge::<Instants>,
    "timestamptz_eq_timestamp" => eq::<Instants>, "timestamptz_ne_timestamp" => ne::<Instants>, "timestamptz_lt_timestamp" => lt::<Instants>, "timestamptz_le_timestamp" => le::<Instants>, "timestamptz_gt_timestamp" => gt::<Instants>, "timestamptz_ge_timestamp" => ge::<Instants>,
    "array_eq" => eq::<Generic>, "array_ne" => ne::<Generic>, "array_lt" => lt::<Generic>, "array_le" => le::<Generic>, "array_gt" => gt::<Generic>, "array_ge" => ge::<Generic>,
    "record_eq" => eq::<Generic>, "record_ne" => ne::<Generic>, "record_lt" => lt::<Generic>, "record_le" => le::<Generic>, "record_gt" => gt::<Generic>, "record_ge" => ge::<Generic>,
    "btint2cmp" => three_way::<Integers>,
    "btint4cmp" => three_way::<Int4s>,
    "btint8cmp" => three_way::<Integers>,
    "bttextcmp" => three_way::<Texts>,
    "btoidcmp" => three_way::<Oids>,
    "date_cmp" => three_way::<Dates>,
    "timestamp_cmp" => three_way::<Moments>,
    "interval_cmp" => three_way::<Intervals>,
    "numeric_cmp" => three_way::<Numerics>,
    "bpcharcmp" => three_way::<Blanks>,
    "byteacmp" => three_way::<Byteas>,
    "btfloat8cmp" => three_way::<Floats>,
    "pg_lsn_cmp" => three_way::<Lsns>,
    "btboolcmp" => three_way::<Booleans>,
}];

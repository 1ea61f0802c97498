//! Which aggregate has which state, by argument types. The states are `accumulate`'s.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::cmp::Ordering;

use super::accumulate::{
    Bits, Collected, Count, Every, Extreme, FloatResult, FloatSum, IntegerResult, IntegerSum, JoinedBytes, JoinedText,
    NumericSum, Stacked,
};
use super::implementation::{Entry, entries};
use crate::types::oid;

pub(super) const ENTRIES: &[&[Entry]] = &[
    entries! { Aggregate:
        "count()" => |_| Box::<Count>::default(),
        "count(any)" => |_| Box::<Count>::default(),
        "sum(smallint)" => |_| Box::new(IntegerSum::new(IntegerResult::Int8)),
        "sum(integer)" => |_| Box::new(IntegerSum::new(IntegerResult::Int8)),
        "sum(bigint)" => |_| Box::new(IntegerSum::new(IntegerResult::Numeric)),
        "sum(numeric)" => |_| Box::new(NumericSum::new(false)),
        "sum(real)" => |_| Box::new(FloatSum::new(FloatResult::Float4)),
        "sum(double precision)" => |_| Box::new(FloatSum::new(FloatResult::Float8)),
        "avg(smallint)" => |_| Box::new(IntegerSum::new(IntegerResult::Average)),
        "avg(integer)" => |_| Box::new(IntegerSum::new(IntegerResult::Average)),
        "avg(bigint)" => |_| Box::new(IntegerSum::new(IntegerResult::Average)),
        "avg(numeric)" => |_| Box::new(NumericSum::new(true)),
        "avg(real)" => |_| Box::new(FloatSum::new(FloatResult::Average)),
        "avg(double precision)" => |_| Box::new(FloatSum::new(FloatResult::Average)),
        "bool_and(boolean)" => |_| Box::new(Every::new(true)),
        "every(boolean)" => |_| Box::new(Every::new(true)),
        "bool_or(boolean)" => |_| Box::new(Every::new(false)),
        "bit_and(smallint)" => |_| Box::new(Bits::new(|a, b| a & b)),
        "bit_and(integer)" => |_| Box::new(Bits::new(|a, b| a & b)),
        "bit_and(bigint)" => |_| Box::new(Bits::new(|a, b| a & b)),
        "bit_or(smallint)" => |_| Box::new(Bits::new(|a, b| a | b)),
        "bit_or(integer)" => |_| Box::new(Bits::new(|a, b| a | b)),
        "bit_or(bigint)" => |_| Box::new(Bits::new(|a, b| a | b)),
        "bit_xor(smallint)" => |_| Box::new(Bits::new(|a, b| a ^ b)),
        "bit_xor(integer)" => |_| Box::new(Bits::new(|a, b| a ^ b)),
        "bit_xor(bigint)" => |_| Box::new(Bits::new(|a, b| a ^ b)),
        "string_agg(text, text)" => |_| Box::<JoinedText>::default(),
        "string_agg(bytea, bytea)" => |_| Box::<JoinedBytes>::default(),
        "array_agg(anynonarray)" => |types| Box::new(Collected::new(types[0])),
        "array_agg(anyarray)" => |_| Box::<Stacked>::default(),
    },
    entries! { Aggregate:
        "min(smallint)" => |_| Box::new(Extreme::new(oid::INT2, Ordering::Less)),
        "min(integer)" => |_| Box::new(Extreme::new(oid::INT4, Ordering::Less)),
        "min(bigint)" => |_| Box::new(Extreme::new(oid::INT8, Ordering::Less)),
        "min(oid)" => |_| Box::new(Extreme::new(oid::OID, Ordering::Less)),
        "min(real)" => |_| Box::new(Extreme::new(oid::FLOAT4, Ordering::Less)),
        "min(double precision)" => |_| Box::new(Extreme::new(oid::FLOAT8, Ordering::Less)),
        "min(date)" => |_| Box::new(Extreme::new(oid::DATE, Ordering::Less)),
        "min(time without time zone)" => |_| Box::new(Extreme::new(oid::TIME, Ordering::Less)),
        "min(timestamp without time zone)" => |_| Box::new(Extreme::new(oid::TIMESTAMP, Ordering::Less)),
        "min(timestamp with time zone)" => |_| Box::new(Extreme::new(oid::TIMESTAMPTZ, Ordering::Less)),
        "min(text)" => |_| Box::new(Extreme::new(oid::TEXT, Ordering::Less)),
        "min(numeric)" => |_| Box::new(Extreme::new(oid::NUMERIC, Ordering::Less)),
        "min(character)" => |_| Box::new(Extreme::new(oid::BPCHAR, Ordering::Less)),
        "min(pg_lsn)" => |_| Box::new(Extreme::new(oid::PG_LSN, Ordering::Less)),
        "min(anyarray)" => |_| Box::new(Extreme::new(oid::ANYARRAY, Ordering::Less)),
    },
    entries! { Aggregate:
        "max(smallint)" => |_| Box::new(Extreme::new(oid::INT2, Ordering::Greater)),
        "max(integer)" => |_| Box::new(Extreme::new(oid::INT4, Ordering::Greater)),
        "max(bigint)" => |_| Box::new(Extreme::new(oid::INT8, Ordering::Greater)),
        "max(oid)" => |_| Box::new(Extreme::new(oid::OID, Ordering::Greater)),
        "max(real)" => |_| Box::new(Extreme::new(oid::FLOAT4, Ordering::Greater)),
        "max(double precision)" => |_| Box::new(Extreme::new(oid::FLOAT8, Ordering::Greater)),
        "max(date)" => |_| Box::new(Extreme::new(oid::DATE, Ordering::Greater)),
        "max(time without time zone)" => |_| Box::new(Extreme::new(oid::TIME, Ordering::Greater)),
        "max(timestamp without time zone)" => |_| Box::new(Extreme::new(oid::TIMESTAMP, Ordering::Greater)),
        "max(timestamp with time zone)" => |_| Box::new(Extreme::new(oid::TIMESTAMPTZ, Ordering::Greater)),
        "max(text)" => |_| Box::new(Extreme::new(oid::TEXT, Ordering::Greater)),
        "max(numeric)" => |_| Box::new(Extreme::new(oid::NUMERIC, Ordering::Greater)),
        "max(character)" => |_| Box::new(Extreme::new(oid::BPCHAR, Ordering::Greater)),
        "max(pg_lsn)" => |_| Box::new(Extreme::new(oid::PG_LSN, Ordering::Greater)),
        "max(anyarray)" => |_| Box::new(Extreme::new(oid::ANYARRAY, Ordering::Greater)),
    },
];

//! `Value`: one SQL value in memory, 24 bytes.
//!
//! It does not contain its type: see T1 in the module above. Clones share long parts and never copy text.
//!
//! # Invariants
//! - V1. At most 24 bytes, so that rows of values stay dense.
//! - V2. `compare` is a total order of the values of one type; NULL is above all values, NaN above all numbers, and -0
//!   equals 0.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use collie_base::Lsn;

use super::{Array, Interval, Numeric, oid};

/// One SQL value. The code that holds it knows its type.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int2`.
    Int2(i16),
    /// `int4`.
    Int4(i32),
    /// `int8`.
    Int8(i64),
    /// `float4`.
    Float4(f32),
    /// `float8`.
    Float8(f64),
    /// `numeric`.
    Numeric(Numeric),
    /// `text`, `varchar`, `char(n)` (padded), `name`, `unknown`, `cstring`; `void` is the empty one.
    Text(Arc<str>),
    /// `bytea`.
    Bytea(Arc<[u8]>),
    /// `date`: days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities.
    Date(i32),
    /// `time`: microseconds since midnight, 24:00 included.
    Time(i64),
    /// `timestamp`: microseconds since 2000-01-01; `i64::MIN` and `i64::MAX` are the infinities.
    Timestamp(i64),
    /// `timestamptz`: microseconds since 2000-01-01 UTC; infinities as for `timestamp`.
    TimestampTz(i64),
    /// `interval`.
    Interval(Interval),
    /// `oid` and the `reg*` types.
    Oid(u32),
    /// `"char"`: one byte.
    Char(u8),
    /// `pg_lsn`.
    PgLsn(Lsn),
    /// Any array, `int2vector` and `oidvector` included.
    Array(Arc<Array>),
    /// A row.
    Record(Arc<[Value]>),
}

const _: () = assert!(size_of::<Value>() <= 24); // V1
const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Value>();
};

impl Value {
    /// Makes text.
    pub fn text(text: &str) -> Self {
        Self::Text(Arc::from(text))
    }

    /// Makes bytea.
    pub fn bytea(bytes: &[u8]) -> Self {
        Self::Bytea(Arc::from(bytes))
    }

    /// Makes a one-dimensional array with lower bound 1.
    pub fn array(element_oid: u32, values: Vec<Self>) -> Self {
        Self::Array(Arc::new(Array::new(element_oid, values)))
    }

    /// Returns whether it is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns a boolean's value.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns an int2, int4, int8 or OID as `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int2(value) => Some(i64::from(*value)),
            Self::Int4(value) => Some(i64::from(*value)),
            Self::Int8(value) => Some(*value),
            Self::Oid(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// Returns an int2, int4, int8 or OID as `i32`, if it fits.
    pub fn as_i32(&self) -> Option<i32> {
        i32::try_from(self.as_i64()?).ok()
    }

    /// Returns a float4 or float8 as `f64`.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float4(value) => Some(f64::from(*value)),
            Self::Float8(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a numeric.
    pub const fn as_numeric(&self) -> Option<&Numeric> {
        match self {
            Self::Numeric(value) => Some(value),
            _ => None,
        }
    }

    /// Returns text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a bytea's bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytea(value) => Some(value),
            _ => None,
        }
    }

    /// Returns an OID, or the number of a `reg*` value.
    pub const fn as_oid(&self) -> Option<u32> {
        match self {
            Self::Oid(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns an array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a row's values.
    pub fn as_record(&self) -> Option<&[Self]> {
        match self {
            Self::Record(value) => Some(value),
            _ => None,
        }
    }

    /// Orders two values of the type `oid` like its default btree operator class, with NULL last.
    ///
    /// Both must be of that type. Integers of different widths are compared by value; any other mixture has an order
    /// without a meaning.
    pub fn compare(&self, other: &Self, oid: u32) -> Ordering {
        match (self, other) {
            (Self::Int4(left), Self::Int4(right)) => left.cmp(right),
            (Self::Int8(left), Self::Int8(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => {
                if oid == oid::BPCHAR {
                    trim_blanks(left).as_bytes().cmp(trim_blanks(right).as_bytes())
                } else {
                    left.as_bytes().cmp(right.as_bytes())
                }
            }
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Greater,
            (_, Self::Null) => Ordering::Less,
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Int2(left), Self::Int2(right)) => left.cmp(right),
            (Self::Float4(left), Self::Float4(right)) => compare_f64(f64::from(*left), f64::from(*right)),
            (Self::Float8(left), Self::Float8(right)) => compare_f64(*left, *right),
            (Self::Numeric(left), Self::Numeric(right)) => left.cmp(right),
            (Self::Bytea(left), Self::Bytea(right)) => left.cmp(right),
            (Self::Date(left), Self::Date(right)) => left.cmp(right),
            (Self::Time(left), Self::Time(right)) => left.cmp(right),
            (Self::Timestamp(left), Self::Timestamp(right)) => left.cmp(right),
            (Self::TimestampTz(left), Self::TimestampTz(right)) => left.cmp(right),
            (Self::Interval(left), Self::Interval(right)) => left.cmp(right),
            (Self::Oid(left), Self::Oid(right)) => left.cmp(right),
            (Self::Char(left), Self::Char(right)) => left.cmp(right),
            (Self::PgLsn(left), Self::PgLsn(right)) => left.cmp(right),
            // Vectors are ordered by length first, as in oidvector's operator class.
            (Self::Array(left), Self::Array(right)) if oid == oid::OIDVECTOR || oid == oid::INT2VECTOR => {
                left.values.len().cmp(&right.values.len()).then_with(|| left.compare(right))
            }
            (Self::Array(left), Self::Array(right)) => left.compare(right),
            (Self::Record(left), Self::Record(right)) => compare_records(left, right),
            _ => match (self.as_i64(), other.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }

    /// Feeds the value to `state`, so that values of one type that compare equal have equal hashes.
    pub fn hash_into<H: Hasher>(&self, oid: u32, state: &mut H) {
        match self {
            Self::Null => state.write_u8(0),
            Self::Bool(value) => value.hash(state),
            Self::Int2(value) => state.write_i16(*value),
            Self::Int4(value) => state.write_i32(*value),
            Self::Int8(value) => state.write_i64(*value),
            Self::Float4(value) => state.write_u64(canonical_bits(f64::from(*value))),
            Self::Float8(value) => state.write_u64(canonical_bits(*value)),
            Self::Numeric(value) => value.hash(state),
            Self::Text(value) if oid == oid::BPCHAR => trim_blanks(value).hash(state),
            Self::Text(value) => value.hash(state),
            Self::Bytea(value) => value.hash(state),
            Self::Date(value) => state.write_i32(*value),
            Self::Time(value) | Self::Timestamp(value) | Self::TimestampTz(value) => state.write_i64(*value),
            Self::Interval(value) => value.hash(state),
            Self::Oid(value) => state.write_u32(*value),
            Self::Char(value) => state.write_u8(*value),
            Self::PgLsn(value) => state.write_u64(value.get()),
            Self::Array(value) => value.hash_into(state),
            Self::Record(values) => {
                for value in values.iter() {
                    value.hash_into(value.natural_oid(), state);
                }
            }
        }
    }

    /// Returns the OID of the type that such a value has by default: `text` for text, `oid` for OIDs.
    pub fn natural_oid(&self) -> u32 {
        match self {
            Self::Null => oid::UNKNOWN,
            Self::Bool(_) => oid::BOOL,
            Self::Int2(_) => oid::INT2,
            Self::Int4(_) => oid::INT4,
            Self::Int8(_) => oid::INT8,
            Self::Float4(_) => oid::FLOAT4,
            Self::Float8(_) => oid::FLOAT8,
            Self::Numeric(_) => oid::NUMERIC,
            Self::Text(_) => oid::TEXT,
            Self::Bytea(_) => oid::BYTEA,
            Self::Date(_) => oid::DATE,
            Self::Time(_) => oid::TIME,
            Self::Timestamp(_) => oid::TIMESTAMP,
            Self::TimestampTz(_) => oid::TIMESTAMPTZ,
            Self::Interval(_) => oid::INTERVAL,
            Self::Oid(_) => oid::OID,
            Self::Char(_) => oid::CHAR,
            Self::PgLsn(_) => oid::PG_LSN,
            Self::Array(array) => array.array_oid(),
            Self::Record(_) => oid::RECORD,
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 1,
            Self::Int2(_) | Self::Int4(_) | Self::Int8(_) | Self::Oid(_) => 2,
            Self::Float4(_) => 3,
            Self::Float8(_) => 4,
            Self::Numeric(_) => 5,
            Self::Text(_) => 6,
            Self::Bytea(_) => 7,
            Self::Date(_) => 8,
            Self::Time(_) => 9,
            Self::Timestamp(_) => 10,
            Self::TimestampTz(_) => 11,
            Self::Char(_) => 12,
            Self::Array(_) => 13,
            Self::Record(_) => 14,
            Self::PgLsn(_) => 15,
            Self::Interval(_) => 16,
            Self::Null => 17,
        }
    }
}

/// Sameness for plans and tests: the same variant, and equal in its natural order; NULL is the same as NULL. SQL's `=`
/// is [`Value::compare`] with the type, after NULLs have been handled.
impl Value {
    /// Returns whether two values are the same in every visible way: `0` and `-0`, or `1.0` and `1.00`, are equal but
    /// not identical.
    pub fn is_identical(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float4(a), Self::Float4(b)) => a.to_bits() == b.to_bits(),
            (Self::Float8(a), Self::Float8(b)) => a.to_bits() == b.to_bits(),
            (Self::Numeric(a), Self::Numeric(b)) => a.parts() == b.parts(),
            (Self::Interval(a), Self::Interval(b)) => (a.months, a.days, a.micros) == (b.months, b.days, b.micros),
            (Self::Text(a), Self::Text(b)) => a == b,
            _ => self == other,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.compare(other, self.natural_oid()) == Ordering::Equal
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

from!(bool => Bool, i16 => Int2, i32 => Int4, i64 => Int8, f32 => Float4, f64 => Float8, Numeric => Numeric, Arc<str> => Text);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Arc::from(text))
    }
}

/// Returns `text` without the blanks at its end, which have no meaning in `char(n)`.
pub(crate) fn trim_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// Orders floats as PostgreSQL does: NaN equals itself and is above every number; -0 equals 0.
pub fn compare_f64(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Returns bits that are the same for floats that are equal by [`compare_f64`].
pub(crate) fn canonical_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    }
}

fn compare_records(left: &[Value], right: &[Value]) -> Ordering {
    for (a, b) in left.iter().zip(right) {
        match a.compare(b, a.natural_oid()) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    left.len().cmp(&right.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: V2. Method: lists in PostgreSQL's order, every pair compared.
    #[test]
    fn values_compare_in_the_order_of_their_btree_class() {
        let floats: Vec<Value> =
            [f64::NEG_INFINITY, -1.5, 0.0, 1e-300, 3.0, f64::INFINITY, f64::NAN].map(Value::Float8).into();
        let texts: Vec<Value> = ["", "A", "B", "a", "aa", "\u{e9}"].map(Value::text).into();
        for (oid, mut list) in [(oid::FLOAT8, floats), (oid::TEXT, texts)] {
            list.push(Value::Null);
            for (i, left) in list.iter().enumerate() {
                for (j, right) in list.iter().enumerate() {
                    assert_eq!(left.compare(right, oid), i.cmp(&j), "{left:?} {right:?}");
                }
            }
        }
    }

    /// Goal: T3 and T5. Method: equal pairs that differ in their bytes.
    #[test]
    fn equal_values_hash_alike_whatever_their_bytes() {
        let interval = |months, days, micros| Value::Interval(Interval { months, days, micros });
        let hash = |value: &Value, oid| {
            let mut state = std::hash::DefaultHasher::new();
            value.hash_into(oid, &mut state);
            state.finish()
        };
        for (oid, left, right) in [
            (oid::FLOAT8, Value::Float8(0.0), Value::Float8(-0.0)),
            (oid::FLOAT8, Value::Float8(f64::NAN), Value::Float8(-f64::NAN)),
            (oid::FLOAT4, Value::Float4(0.0), Value::Float4(-0.0)),
            (oid::BPCHAR, Value::text("a  "), Value::text("a")),
            (oid::NUMERIC, Value::Numeric("1.50".parse().unwrap()), Value::Numeric("1.5".parse().unwrap())),
            (oid::NUMERIC, Value::Numeric("0.00".parse().unwrap()), Value::Numeric("0".parse().unwrap())),
            (oid::INTERVAL, interval(1, 0, 0), interval(0, 30, 0)),
            (oid::INTERVAL, interval(1, -30, 7), interval(0, -1, 86_400_000_007)),
        ] {
            assert_eq!(left.compare(&right, oid), Ordering::Equal);
            assert_eq!(hash(&left, oid), hash(&right, oid));
        }
        assert_eq!(Value::text("a ").compare(&Value::text("a"), oid::TEXT), Ordering::Greater);
    }
}

//! Properties of keys: order, unique form, no prefixes, and the treatment of garbage.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::key::{KEY_BYTES_MAX, decode_key, encode_key, is_lossless, successor};
use super::*;
use crate::types::{Interval, Numeric, Value, oid};

fn text() -> impl Strategy<Value = Value> {
    prop_oneof!["[a-c ]{0,4}", "[^\\x00]{0,6}"].prop_map(Value::from)
}

fn numeric() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-200_i64..200, 0_u16..4).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa.into(), scale)),
        (any::<i128>(), 0_u16..60).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa, scale)),
        (1_i64..100, -300_i32..300).prop_map(|(lead, exponent)| Numeric::parse(&format!("{lead}e{exponent}")).unwrap()),
        Just(Numeric::NAN),
        Just(Numeric::INFINITY),
        Just(Numeric::NEG_INFINITY),
    ]
    .prop_map(Value::Numeric)
}

/// Returns intervals of any size, and small ones of which some have equal length.
fn interval() -> impl Strategy<Value = Value> {
    let any = any::<(i32, i32, i64)>();
    let near = (-2_i32..3, -60_i32..61, (-2_i64..3).prop_map(|days| days * 86_400_000_000));
    let edge = prop::sample::select(vec![(i32::MIN, i32::MIN, i64::MIN), (i32::MAX, i32::MAX, i64::MAX)]);
    prop_oneof![any, near, edge].prop_map(|(months, days, micros)| Value::Interval(Interval { months, days, micros }))
}

/// Returns a strategy for two values of one type, similar enough to be equal now and then.
fn pair_of(type_oid: u32) -> BoxedStrategy<(Value, Value)> {
    fn both<S: Strategy<Value = Value> + 'static>(one: impl Fn() -> S) -> BoxedStrategy<(Value, Value)> {
        (one(), one()).boxed()
    }
    match type_oid {
        oid::BOOL => both(|| any::<bool>().prop_map(Value::Bool)),
        oid::CHAR => both(|| any::<u8>().prop_map(Value::Char)),
        oid::INT2 => both(|| any::<i16>().prop_map(Value::Int2)),
        oid::INT4 => both(|| prop_oneof![any::<i32>(), -2_i32..2].prop_map(Value::Int4)),
        oid::INT8 => both(|| prop_oneof![any::<i64>(), -2_i64..2].prop_map(Value::Int8)),
        oid::FLOAT4 => both(|| any::<u32>().prop_map(|bits| Value::Float4(f32::from_bits(bits)))),
        oid::FLOAT8 => both(|| {
            prop_oneof![any::<u64>(), Just(0), Just(1 << 63)].prop_map(|bits| Value::Float8(f64::from_bits(bits)))
        }),
        oid::DATE => both(|| any::<i32>().prop_map(Value::Date)),
        oid::TIME => both(|| any::<i64>().prop_map(Value::Time)),
        oid::TIMESTAMP => both(|| any::<i64>().prop_map(Value::Timestamp)),
        oid::TIMESTAMPTZ => both(|| any::<i64>().prop_map(Value::TimestampTz)),
        oid::INTERVAL => both(interval),
        oid::OID | oid::REGCLASS => both(|| any::<u32>().prop_map(Value::Oid)),
        oid::BYTEA => both(|| {
            prop::collection::vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..5)
                .prop_map(|bytes| Value::bytea(&bytes))
        }),
        oid::NUMERIC => both(numeric),
        _ => both(text),
    }
}

const KEY_TYPES: &[u32] = &[
    oid::BOOL,
    oid::CHAR,
    oid::INT2,
    oid::INT4,
    oid::INT8,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::NUMERIC,
    oid::TEXT,
    oid::VARCHAR,
    oid::BPCHAR,
    oid::NAME,
    oid::BYTEA,
    oid::DATE,
    oid::TIME,
    oid::TIMESTAMP,
    oid::TIMESTAMPTZ,
    oid::INTERVAL,
    oid::OID,
    oid::REGCLASS,
];

/// Returns a column with two values for it, which may be NULL if it is nullable.
fn column() -> impl Strategy<Value = (KeyColumn, Value, Value)> {
    (prop::sample::select(KEY_TYPES), any::<bool>(), any::<bool>(), any::<bool>()).prop_flat_map(
        |(oid, desc, nulls_first, nullable)| {
            let column = KeyColumn { oid, desc, nulls_first, nullable };
            (pair_of(oid), 0..8_u8).prop_map(move |((left, right), null)| {
                let with_null = |value, bit| if nullable && null & bit != 0 && null < 4 { Value::Null } else { value };
                (column, with_null(left, 1), with_null(right, 2))
            })
        },
    )
}

fn key(columns: &[KeyColumn], values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(&mut out, columns, values).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Goal: K1, K2, and decoding. Method: two random rows of random columns; compare bytes with values, look for
    /// prefixes, decode, and truncate the key.
    #[test]
    fn keys_order_like_values_and_decode(rows in prop::collection::vec(column(), 1..4)) {
        let columns: Vec<KeyColumn> = rows.iter().map(|(column, ..)| *column).collect();
        let lefts: Vec<Value> = rows.iter().map(|(_, left, _)| left.clone()).collect();
        let rights: Vec<Value> = rows.iter().map(|(.., right)| right.clone()).collect();
        let (left, right) = (key(&columns, &lefts), key(&columns, &rights));
        let expected = rows.iter().map(|(column, a, b)| column.compare(a, b)).find(|order| order.is_ne());
        prop_assert_eq!(left.cmp(&right), expected.unwrap_or(Ordering::Equal));
        if left != right {
            prop_assert!(!right.starts_with(&left) && !left.starts_with(&right), "K2");
        }
        let decoded = decode_key(&left, &columns).unwrap();
        for ((column, value, _), back) in rows.iter().zip(&decoded) {
            prop_assert_eq!(column.compare(value, back), Ordering::Equal);
            if is_lossless(column.oid) {
                prop_assert_eq!(value, back);
            }
        }
        prop_assert_eq!(key(&columns, &decoded), left.clone());
        prop_assert!(decode_key(&left[..left.len() - 1], &columns).is_err());
        let prefix = key(&columns, &lefts[..lefts.len() - 1]);
        prop_assert!(left.starts_with(&prefix));
        if let Some(above) = successor(&prefix) {
            prop_assert!(above > left);
            prop_assert_eq!(right < above, right <= prefix || right.starts_with(&prefix) || right < prefix);
        }
    }

    /// Goal: damaged keys give XX001, never a panic. Method: random bytes as keys of random columns.
    #[test]
    fn garbage_keys_are_refused_without_panic(bytes: Vec<u8>, (column, ..) in column()) {
        if let Err(error) = decode_key(&bytes, &[column]) {
            prop_assert_eq!(error.state(), crate::error::SqlState::DATA_CORRUPTED);
        }
    }
}

/// Goal: keys have the layout of the module's documentation. Method: bytes written by hand.
#[test]
fn keys_have_their_documented_bytes() {
    let numeric = |text: &str| Value::Numeric(Numeric::parse(text).unwrap());
    let not_null = KeyColumn::not_null;
    let descending = KeyColumn { desc: true, ..KeyColumn::nullable(oid::INT2) };
    for (column, value, expected) in [
        (not_null(oid::INT4), Value::Int4(1), &[0x80, 0, 0, 1][..]),
        (not_null(oid::INT4), Value::Int4(-1), &[0x7F, 0xFF, 0xFF, 0xFF]),
        (KeyColumn::nullable(oid::INT2), Value::Null, &[2]),
        (KeyColumn { nulls_first: true, ..descending }, Value::Null, &[0]),
        (descending, Value::Int2(0), &[1, 0x7F, 0xFF]),
        (not_null(oid::TEXT), Value::text("ab"), b"ab\0"),
        (not_null(oid::BPCHAR), Value::text("ab  "), b"ab\0"),
        (not_null(oid::BYTEA), Value::bytea(&[1, 0]), &[1, 0, 0xFF, 0, 0]),
        (not_null(oid::FLOAT8), Value::Float8(-0.0), &[0x80, 0, 0, 0, 0, 0, 0, 0]),
        (not_null(oid::NUMERIC), numeric("0.00"), &[2]),
        (not_null(oid::NUMERIC), numeric("123.40"), &[3, 0x82, 2, 24, 41, 0]),
        (not_null(oid::NUMERIC), numeric("-1"), &[1, 0x7E, 0xFD, 0xFF]),
    ] {
        assert_eq!(key(&[column], std::slice::from_ref(&value)), expected, "{value:?}");
    }
}

/// Goal: values that cannot be keys are refused. Method: one case for each error.
#[test]
fn values_that_cannot_be_keys_are_refused() {
    let refused =
        |oid, value| format!("{:?}", encode_key(&mut Vec::new(), &[KeyColumn::not_null(oid)], &[value]).unwrap_err());
    assert!(refused(oid::INT4, Value::Null).starts_with("23502"));
    assert!(refused(oid::INT4, Value::text("1")).starts_with("XX000"));
    assert!(refused(oid::JSON, Value::text("1")).starts_with("42704: data type json has no default operator class"));
    assert!(refused(oid::TEXT, Value::text("a\0")).starts_with("22021"));
    let long = "x".repeat(KEY_BYTES_MAX);
    assert_eq!(
        refused(oid::TEXT, Value::from(long)),
        "54000: key size 65536 exceeds maximum 65531".replace("65536", "65532")
    );
    assert_eq!(successor(&[1, 0xFF, 0xFF]), Some(vec![2]));
    assert_eq!(successor(&[0xFF]), None);
    assert_eq!(successor(&[]), None);
}

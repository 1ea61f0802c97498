//! Properties of rows: round trips, columns added later, and the treatment of garbage.

use proptest::prelude::*;

use super::*;
use crate::error::SqlState;
use crate::types::{Array, ArrayDim, Interval, Numeric, Value, oid};

/// Returns a type, and a value of it or NULL.
fn cell() -> impl Strategy<Value = (u32, Value)> {
    let numeric = || {
        prop_oneof![
            (any::<i64>(), 0_u16..20).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa.into(), scale)),
            (any::<i128>(), 0_u16..300).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa, scale)),
            Just(Numeric::NAN),
            Just(Numeric::INFINITY),
            Just(Numeric::NEG_INFINITY),
        ]
    };
    let typed = prop_oneof![
        any::<bool>().prop_map(|value| (oid::BOOL, Value::Bool(value))),
        any::<u8>().prop_map(|value| (oid::CHAR, Value::Char(value))),
        any::<i16>().prop_map(|value| (oid::INT2, Value::Int2(value))),
        any::<i32>().prop_map(|value| (oid::INT4, Value::Int4(value))),
        any::<i64>().prop_map(|value| (oid::INT8, Value::Int8(value))),
        any::<f32>().prop_map(|value| (oid::FLOAT4, Value::Float4(value))),
        any::<f64>().prop_map(|value| (oid::FLOAT8, Value::Float8(value))),
        any::<i32>().prop_map(|value| (oid::DATE, Value::Date(value))),
        any::<i64>().prop_map(|value| (oid::TIMESTAMPTZ, Value::TimestampTz(value))),
        any::<(i32, i32, i64)>()
            .prop_map(|(months, days, micros)| (oid::INTERVAL, Value::Interval(Interval { months, days, micros }))),
        any::<u32>().prop_map(|value| (oid::REGCLASS, Value::Oid(value))),
        ".{0,20}".prop_map(|text| (oid::TEXT, Value::from(text))),
        any::<Vec<u8>>().prop_map(|bytes| (oid::BYTEA, Value::bytea(&bytes))),
        numeric().prop_map(|number| (oid::NUMERIC, Value::Numeric(number))),
        prop::collection::vec(prop::option::of(".{0,5}"), 0..4).prop_map(|items| {
            let values = items.into_iter().map(|item| item.map_or(Value::Null, Value::from)).collect();
            (oid::TEXT_ARRAY, Value::array(oid::TEXT, values))
        }),
        prop::collection::vec(any::<i16>(), 0..4).prop_map(|items| {
            let values = items.into_iter().map(Value::Int2).collect();
            (oid::INT2VECTOR, Value::Array(Array::with_lower(oid::INT2, 0, values).into()))
        }),
        prop::collection::vec(numeric(), 4).prop_map(|items| {
            let dims = vec![ArrayDim { len: 2, lower: -1 }, ArrayDim { len: 2, lower: 3 }];
            let values = items.into_iter().map(Value::Numeric).collect();
            (oid::NUMERIC_ARRAY, Value::Array(Array { element_oid: oid::NUMERIC, dims, values }.into()))
        }),
    ];
    (typed, 0_u8..5).prop_map(|((oid, value), null)| (oid, if null == 0 { Value::Null } else { value }))
}

fn encode(layout: &RowLayout, values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    layout.encode(values, &mut out).unwrap();
    out
}

/// Asserts that two values are the same, including the scale of numbers.
fn same(left: &Value, right: &Value) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

proptest! {
    /// Goal: decode(encode(row)) = row, by single columns and all at once; the caller supplies later columns. Method:
    /// read random rows through their layout, and rows of their first columns through the whole layout.
    #[test]
    fn rows_round_trip_under_their_own_and_later_layouts(cells in prop::collection::vec(cell(), 0..20), cut in 0_usize..20) {
        let oids: Vec<u32> = cells.iter().map(|(oid, _)| *oid).collect();
        let values: Vec<Value> = cells.into_iter().map(|(_, value)| value).collect();
        let layout = RowLayout::new(&oids);
        let cut = cut.min(values.len());
        for stored in [values.len(), cut] {
            let bytes = encode(&RowLayout::new(&oids[..stored]), &values[..stored]);
            prop_assert_eq!(layout.stored_columns(&bytes).unwrap(), stored);
            let mut out = vec![Value::text("default"); oids.len()];
            layout.decode_into(&bytes, &(0..oids.len()).collect::<Vec<_>>(), &mut out).unwrap();
            for (at, value) in values.iter().enumerate() {
                let read = layout.decode_column(&bytes, at).unwrap();
                let raw = layout.column_bytes(&bytes, at).unwrap();
                if at < stored {
                    same(&read.expect("stored"), value);
                    same(&out[at], value);
                    prop_assert_eq!(raw.is_none(), value.is_null());
                    if let (oid::TEXT, Value::Text(text)) = (oids[at], value) {
                        prop_assert_eq!(raw.unwrap(), text.as_bytes());
                    }
                } else {
                    prop_assert!(read.is_none() && raw.is_none());
                    same(&out[at], &Value::text("default"));
                }
            }
        }
    }

    /// Goal: R3. Method: valid rows with bytes changed or cut off, and random bytes; each column is read or gives
    /// XX001.
    #[test]
    fn garbage_rows_are_refused_without_panic(
        cells in prop::collection::vec(cell(), 1..8),
        noise: Vec<u8>,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end: prop::sample::Index,
    ) {
        let oids: Vec<u32> = cells.iter().map(|(oid, _)| *oid).collect();
        let values: Vec<Value> = cells.into_iter().map(|(_, value)| value).collect();
        let layout = RowLayout::new(&oids);
        let good = encode(&layout, &values);
        let mut changed = good.clone();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        let mut headed = good[..HEADER_END.min(good.len())].to_vec();
        headed.extend_from_slice(&noise);
        for bytes in [&changed[..], &good[..end.index(good.len())], &noise, &headed] {
            for at in 0..oids.len() {
                if let Err(error) = layout.decode_column(bytes, at) {
                    prop_assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
                }
            }
        }
    }
}

const HEADER_END: usize = 5;

/// Goal: rows above 64 KiB get wide offsets, others do not. Method: text around the limit.
#[test]
fn offsets_widen_when_the_row_needs_it() {
    let layout = RowLayout::new(&[oid::TEXT, oid::INT4, oid::TEXT]);
    for (len, wide) in [(65_534, 0), (65_535, 1), (200_000, 1)] {
        let values = [Value::from("x".repeat(len)), Value::Int4(7), Value::text("y")];
        let mut bytes = b"before".to_vec();
        layout.encode(&values, &mut bytes).unwrap();
        let row = &bytes[6..];
        assert_eq!(row[1], wide, "{len}");
        for (at, value) in values.iter().enumerate() {
            assert_eq!(layout.decode_column(row, at).unwrap().as_ref(), Some(value));
        }
    }
}

/// Goal: rows have the layout of the module's documentation. Method: one row written by hand.
#[test]
fn rows_have_their_documented_bytes() {
    let layout = RowLayout::new(&[oid::INT4, oid::TEXT, oid::BOOL, oid::INT2, oid::NUMERIC]);
    let number = Value::Numeric(Numeric::parse("-1.50").unwrap());
    let bytes = encode(&layout, &[Value::Int4(1), Value::text("ab"), Value::Bool(true), Value::Null, number]);
    let expected = [&[1, 0, 5, 0][..], &[0b0_1000], &[1, 0, 0, 0, 1, 0, 0], &[2, 0, 5, 0], b"ab", &[1, 2, 150]];
    assert_eq!(bytes, expected.concat());
}

/// Goal: a value of another type than its column's is an error of the caller. Method: fixed and variable columns.
#[test]
fn values_of_another_type_are_refused() {
    for (oid, value) in [(oid::INT4, Value::Int8(1)), (oid::TEXT, Value::Int4(1)), (oid::TEXT_ARRAY, Value::text("{}"))]
    {
        let refused = RowLayout::new(&[oid]).encode(&[value], &mut Vec::new()).unwrap_err();
        assert_eq!(refused.state(), SqlState::INTERNAL_ERROR);
    }
}

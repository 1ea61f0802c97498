//! Tests of text and binary forms against PostgreSQL 15's answers in `io_answers.tsv`, and against garbage.

use proptest::prelude::*;

use super::*;
use crate::types::{Array, datetime::Zone};

/// 2025-05-08 06:13:20 UTC.
const NOW: i64 = 800_000_000_000_000;

fn context() -> TextContext {
    TextContext { now: NOW, ..TextContext::default() }
}

fn type_named(name: &str) -> u32 {
    let name = name.strip_suffix("[]").map_or_else(|| name.to_owned(), |element| format!("_{element}"));
    oid::by_typname(&name).expect("the table names built-in types")
}

/// Reads text and returns the entry of the table's answer column: the text again, the binary form in hex, or the error.
fn answer(type_oid: u32, text: &str, binary: bool) -> String {
    match text_in(type_oid, -1, text, &context()) {
        Ok(value) if binary => {
            let mut bytes = Vec::new();
            binary_out(&value, type_oid, &mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        Ok(value) => to_text(&value, type_oid, &context()),
        Err(error) => match &error.report().detail {
            Some(detail) => format!("{error:?} | {detail}"),
            None => format!("{error:?}"),
        },
    }
}

/// Goal: every text form is read, printed and refused as in PostgreSQL. Method: its answers, checked in as a table.
#[test]
fn text_and_binary_forms_are_postgresqls() {
    let mut wrong = Vec::new();
    for line in include_str!("io_answers.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (case, expected) = line.split_once("\t=\t").expect("each line has an answer");
        let fields: Vec<&str> = case.split('\t').collect();
        let got = answer(type_named(fields[1]), fields[2], fields.len() > 3);
        if got != expected {
            wrong.push(format!("{case}: got {got}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: binary input inverts binary output. Method: both, on each value of the table that can be read.
#[test]
fn binary_forms_round_trip() {
    for line in include_str!("io_answers.tsv").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let type_oid = type_named(fields[1]);
        let Ok(value) = text_in(type_oid, -1, fields[2], &context()) else { continue };
        let mut bytes = Vec::new();
        binary_out(&value, type_oid, &mut bytes);
        let back = binary_in(type_oid, -1, &bytes).unwrap();
        assert_eq!(to_text(&back, type_oid, &context()), to_text(&value, type_oid, &context()), "{line}");
        if !bytes.is_empty() && !SqlType::new(type_oid).is_string_like() && type_oid != oid::BYTEA {
            assert!(binary_in(type_oid, -1, &bytes[..bytes.len() - 1]).is_err(), "cut short: {line}");
        }
    }
}

/// Goal: words for moments depend on the context. Method: one transaction time, read in two zones.
#[test]
fn moments_relative_to_now_use_the_context() {
    let east = TextContext { zone: Zone { east_s: 18 * 3_600, ..Zone::default() }, ..context() };
    for (type_oid, text, utc, in_east) in [
        (oid::TIMESTAMPTZ, "now", "2025-05-08 06:13:20+00", "2025-05-09 00:13:20+18"),
        (oid::TIMESTAMP, "now", "2025-05-08 06:13:20", "2025-05-09 00:13:20"),
        (oid::DATE, "today", "2025-05-08", "2025-05-09"),
        (oid::DATE, "yesterday", "2025-05-07", "2025-05-08"),
        (oid::TIMESTAMP, "tomorrow 10:30", "2025-05-09 10:30:00", "2025-05-10 10:30:00"),
        (oid::TIMESTAMPTZ, "2025-05-08 10:00", "2025-05-08 10:00:00+00", "2025-05-08 10:00:00+18"),
        (oid::TIME, "now", "06:13:20", "00:13:20"),
    ] {
        for (context, expected) in [(context(), utc), (east, in_east)] {
            let value = text_in(type_oid, -1, text, &context).unwrap();
            assert_eq!(to_text(&value, type_oid, &context), expected, "{text}");
        }
    }
}

/// Goal: typmods apply on input as on assignment. Method: one fitting and one refused text of each kind.
#[test]
fn input_applies_the_typmod() {
    let read = |type_oid, typmod, text: &str| match text_in(type_oid, typmod, text, &context()) {
        Ok(value) => to_text(&value, type_oid, &context()),
        Err(error) => format!("{error:?}"),
    };
    assert_eq!(read(oid::BPCHAR, 9, "ab"), "ab   ");
    assert_eq!(read(oid::VARCHAR, 6, "abc"), "22001: value too long for type character varying(2)");
    assert_eq!(read(oid::NUMERIC, typmod::numeric(4, 2), "12.345"), "12.35");
    assert_eq!(read(oid::NUMERIC, typmod::numeric(4, 2), "123.45"), "22003: numeric field overflow");
    assert_eq!(read(oid::TIMESTAMP, 1, "2024-01-02 03:04:05.678"), "2024-01-02 03:04:05.7");
    assert_eq!(read(oid::NUMERIC_ARRAY, typmod::numeric(4, 1), "{1.25,NULL}"), "{1.3,NULL}");
}

/// Goal: client bytes are accepted as text only if they are valid and contain no NUL (T2). Method: one bad form of
/// each.
#[test]
fn text_that_is_not_utf8_or_holds_nul_is_refused() {
    for (bytes, expected) in [
        (&b"a\0b"[..], "22021: invalid byte sequence for encoding \"UTF8\": 0x00"),
        (b"a\xff", "22021: invalid byte sequence for encoding \"UTF8\": 0xff"),
        (b"\xc3\x28", "22021: invalid byte sequence for encoding \"UTF8\": 0xc3 0x28"),
        (b"\xe2\x82", "22021: invalid byte sequence for encoding \"UTF8\": 0xe2 0x82"),
    ] {
        assert_eq!(format!("{:?}", binary_in(oid::TEXT, -1, bytes).unwrap_err()), expected);
    }
    assert!(text_in(oid::TEXT, -1, "a\0", &context()).is_err());
    assert!(text_in(oid::NAME, -1, "\0", &context()).is_err());
}

/// Goal: rows and escaped bytea print as in PostgreSQL. Method: its answers for `select row(..)` and for `bytea_output
/// = escape`.
#[test]
fn rows_and_escaped_bytea_print_with_their_quoting() {
    let row = Value::Record([Value::Int4(1), Value::Null, Value::text(""), Value::text("a\"b\\ c")].into());
    assert_eq!(to_text(&row, oid::RECORD, &context()), r#"(1,,"","a""b\\ c")"#);
    let escape = TextContext { bytea_output: ByteaOutput::Escape, ..context() };
    assert_eq!(to_text(&Value::bytea(b"a\\\x00\xff"), oid::BYTEA, &escape), r"a\\\000\377");
    let array = Array::with_lower(oid::INT4, -2, vec![Value::Int4(7)]);
    assert_eq!(to_text(&Value::Array(array.into()), oid::INT4_ARRAY, &context()), "[-2:-2]={7}");
}

const ALL: &[u32] = &[
    oid::BOOL,
    oid::CHAR,
    oid::INT2,
    oid::INT4,
    oid::INT8,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::NUMERIC,
    oid::TEXT,
    oid::NAME,
    oid::BYTEA,
    oid::DATE,
    oid::TIME,
    oid::TIMESTAMP,
    oid::TIMESTAMPTZ,
    oid::INTERVAL,
    oid::OID,
    oid::INT2VECTOR,
    oid::OIDVECTOR,
    oid::INT4_ARRAY,
    oid::TEXT_ARRAY,
    oid::NUMERIC_ARRAY,
    oid::INTERVAL_ARRAY,
];

proptest! {
    /// Goal: no client bytes panic. Method: random and partly valid text and bytes, read as every type.
    #[test]
    fn garbage_is_refused_without_panic(
        text in prop_oneof![
            ".{0,24}",
            "[-+0-9a-z:./ T{},\"\\\\\\[\\]=]{0,24}",
            "[0-9]{1,5}[-/. ][0-9a-z]{1,5}[-/. ][0-9]{1,5}[ tT][0-9]{1,3}:[0-9]{1,3}(:[0-9.]{1,9})?[-+ a-z0-9]{0,6}",
        ],
        bytes: Vec<u8>,
        count in 0_u8..4,
    ) {
        let mut array = vec![0, 0, 0, count, 0, 0, 0, 0, 0, 0, 0, 23];
        array.extend_from_slice(&bytes);
        for &type_oid in ALL {
            if let Ok(value) = text_in(type_oid, -1, &text, &context()) {
                let shown = to_text(&value, type_oid, &context());
                let again = text_in(type_oid, -1, &shown, &context()).expect("what prints reads");
                prop_assert_eq!(to_text(&again, type_oid, &context()), shown);
            }
            let _ = binary_in(type_oid, -1, text.as_bytes());
            let _ = binary_in(type_oid, -1, &bytes);
            let _ = binary_in(type_oid, -1, &array);
        }
    }

    /// Goal: dates and timestamps print and read back. Method: random moments in the whole range, three zones.
    #[test]
    fn moments_round_trip_as_text(
        date in datetime::DATE_MIN..datetime::DATE_END,
        us in datetime::TIMESTAMP_MIN + datetime::DAY_US..datetime::TIMESTAMP_END - datetime::DAY_US,
        zone in prop_oneof![Just(0), Just(-28_800), Just(20_700)],
    ) {
        let context = TextContext { zone: Zone { east_s: zone, ..Zone::default() }, ..context() };
        for (type_oid, value) in [
            (oid::DATE, Value::Date(date)),
            (oid::TIMESTAMP, Value::Timestamp(us)),
            (oid::TIMESTAMPTZ, Value::TimestampTz(us)),
            (oid::TIME, Value::Time(us.rem_euclid(datetime::DAY_US))),
        ] {
            let shown = to_text(&value, type_oid, &context);
            prop_assert_eq!(text_in(type_oid, -1, &shown, &context).unwrap(), value, "{}", shown);
        }
    }

    /// Goal: printed floats read back to the same bits. Method: random bits of both widths.
    #[test]
    fn floats_round_trip_as_text(wide: u64, narrow: u32) {
        let (wide, narrow) = (f64::from_bits(wide), f32::from_bits(narrow));
        for (type_oid, value) in [(oid::FLOAT8, Value::Float8(wide)), (oid::FLOAT4, Value::Float4(narrow))] {
            let shown = to_text(&value, type_oid, &context());
            prop_assert_eq!(text_in(type_oid, -1, &shown, &context()).unwrap(), value, "{}", shown);
        }
    }
}

/// Goal: A2: an array whose subscripts do not fit in an integer is refused in text and in binary form, and its
/// neighbour is accepted (T307). Method: the bounds on either side of the limit.
#[test]
fn arrays_beyond_the_last_subscript_are_refused() {
    let read = |lower: i32, len: i32| {
        let mut bytes = Vec::new();
        for word in [1, 0, oid::INT4.cast_signed(), len, lower] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        (0..len).for_each(|_| bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 7]));
        binary_in(oid::INT4_ARRAY, -1, &bytes)
    };
    let text = |lower: i32, len: i32| {
        let upper = i64::from(lower) + i64::from(len) - 1;
        let items = vec!["7"; usize::try_from(len).unwrap()].join(",");
        text_in(oid::INT4_ARRAY, -1, &format!("[{lower}:{upper}]={{{items}}}"), &TextContext::default())
    };
    for (lower, len) in [(i32::MAX - 2, 2), (i32::MAX - 1, 1), (i32::MIN, 2), (1, 3)] {
        assert_eq!(read(lower, len).unwrap(), text(lower, len).unwrap(), "{len} from {lower}");
    }
    for (lower, len) in [(i32::MAX, 1), (i32::MAX - 1, 2)] {
        assert_eq!(read(lower, len).unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED, "{len} from {lower}");
        assert_eq!(text(lower, len).unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED, "{len} from {lower}");
    }
    assert_eq!(read(i32::MAX, 2).unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}

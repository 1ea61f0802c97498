//! Checks that no built-in function panics or returns a value of another type, and that LIKE agrees with a model.

use proptest::prelude::*;

use super::*;
use crate::error::{Result, SqlError};
use crate::types::datetime::Zone;
use crate::types::io::{TextContext, text_in};
use crate::types::{Array, Value, oid};

/// A session that refuses every call.
struct Nobody;

impl SystemFunctions for Nobody {
    fn call(&self, source: &str, _: &[Value]) -> Result<Value> {
        Err(SqlError::unsupported(source))
    }

    fn call_set(&self, source: &str, _: &[Value]) -> Result<Rows> {
        Err(SqlError::unsupported(source))
    }
}

/// Returns values at the edges of a type, as text.
fn edges(type_oid: u32) -> &'static [&'static str] {
    match type_oid {
        oid::BOOL => &["t", "f"],
        oid::INT2 => &["0", "1", "-1", "32767", "-32768"],
        oid::INT4 => &["0", "1", "-1", "7", "2147483647", "-2147483648"],
        oid::INT8 => &["0", "1", "-1", "9223372036854775807", "-9223372036854775808"],
        oid::FLOAT4 => &["0", "-1.5", "3e38", "1e-40", "NaN", "Infinity", "-Infinity"],
        oid::FLOAT8 => &["0", "-1.5", "0.5", "1e308", "1e-310", "9.3e18", "NaN", "Infinity", "-Infinity"],
        oid::NUMERIC => &["0", "-1.50", "0.001", "123456789012345678901234567890.123", "1e60", "NaN", "-Infinity"],
        oid::BYTEA => &["\\x", "\\x00ff10"],
        oid::CHAR => &["", "a"],
        oid::DATE => &["2000-01-01", "4714-11-24 BC", "5874897-12-31", "2024-02-29", "infinity", "-infinity"],
        oid::TIME => &["00:00", "24:00", "23:59:59.999999"],
        oid::TIMESTAMP => {
            &["2000-01-01", "4714-11-24 BC", "294276-12-31 23:59:59.999999", "0001-01-01 BC", "infinity", "-infinity"]
        }
        oid::TIMESTAMPTZ => &["2000-01-01+00", "4714-11-24 00:00+00 BC", "294276-12-31 23:59:59.999999+00", "infinity"],
        oid::INTERVAL => &[
            "0",
            "1 mon -31 days 24:00:00.000001",
            "-178956970 years -8 mons -2147483648 days -2562047788:00:54.775808",
            "178956970 years 7 mons 2147483647 days 2562047788:00:54.775807",
            "1 day -1 usec",
        ],
        oid::OIDVECTOR | oid::INT2VECTOR => &["", "1 2"],
        _ => &[
            "",
            "a",
            "day",
            "%_\\",
            "\u{e9}\u{1f600}x",
            "(",
            "[[:a",
            "FM9,990.0S",
            "YYYY-Month TH",
            "epoch",
            "\\",
            "%s%I",
        ],
    }
}

/// Returns edge values of a declared type, each with its real type.
fn values(declared: u32, context: &EvalContext<'_>) -> Vec<(Value, u32)> {
    let of = |type_oid: u32| {
        let read = |text: &&str| text_in(type_oid, -1, text, context.text).ok();
        edges(type_oid).iter().filter_map(read).map(|value| (value, type_oid)).collect::<Vec<_>>()
    };
    let arrays = |element: u32, array: u32, texts: &[&str]| {
        let mut arrays: Vec<(Value, u32)> =
            texts.iter().filter_map(|text| text_in(array, -1, text, context.text).ok()).map(|v| (v, array)).collect();
        let far = Array::with_lower(element, i32::MAX - 1, vec![Value::Null]);
        arrays.push((Value::Array(far.into()), array));
        arrays
    };
    const TEXTS: &[&str] = &["{}", "{a,NULL}", "{{a,b},{c,d}}"];
    const NUMBERS: &[&str] = &["{}", "{1,NULL,1}", "{{1,2},{3,4}}", "[-5:-4]={1,2}"];
    match declared {
        oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY | oid::INT4_ARRAY => arrays(oid::INT4, oid::INT4_ARRAY, NUMBERS),
        oid::TEXT_ARRAY => arrays(oid::TEXT, oid::TEXT_ARRAY, TEXTS),
        oid::ANYELEMENT | oid::ANYNONARRAY | oid::ANYCOMPATIBLE | oid::ANY => of(oid::INT4),
        oid::RECORD => vec![(Value::Record([Value::Int4(1), Value::Null].into()), oid::RECORD)],
        other if oid::is_oid_like(other) => vec![(Value::Oid(0), other), (Value::Oid(u32::MAX), other)],
        other if type_by_oid(other).is_some_and(|t| t.category == b'A' || !t.supported) => Vec::new(),
        other => of(other),
    }
}

/// Returns whether a value has the variant of a type.
fn is_of_type(value: &Value, declared: u32) -> bool {
    match (value, declared) {
        (Value::Null, _) => true,
        (_, oid::ANYELEMENT | oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY | oid::ANYCOMPATIBLE) => true,
        // All string types share one variant.
        (Value::Text(_), other) => type_by_oid(other).is_some_and(|t| t.category == b'S' || other == oid::CSTRING),
        (Value::Oid(_), other) => oid::is_oid_like(other),
        (Value::Array(array), other) => oid::array_of(array.element_oid) == Some(other),
        (value, other) => value.natural_oid() == other,
    }
}

fn run(proc: &Proc, args: &[Value], types: &[u32], context: &EvalContext<'_>) -> Result<Vec<Value>> {
    match proc.implementation {
        Implementation::Scalar(function) => function(args, context).map(|value| vec![value]),
        Implementation::Typed(function) => function(args, types, context).map(|value| vec![value]),
        Implementation::Set(function) => function(args, context)?.take(5).collect(),
        _ => Ok(Vec::new()),
    }
}

/// Goal: for any arguments, a function returns a value of its type or an error (SQL-4, SQL-7). Method: every function
/// with every combination of edge values for one and two arguments, and a sample of the combinations for more; NULL for
/// functions that are not strict.
#[test]
fn no_function_panics_at_the_edges_of_its_types() {
    let text = TextContext { zone: Zone { east_s: -43_200, ..Zone::default() }, ..TextContext::default() };
    let context = EvalContext {
        text: &text,
        transaction_time: 0,
        statement_time: 0,
        clock_time: &|| 0,
        system: &Nobody,
        value_bytes_max: usize::MAX,
    };
    for proc in procs().iter().filter(|proc| proc.kind == ProcKind::Function) {
        let choices: Vec<Vec<(Value, u32)>> = proc
            .arguments
            .iter()
            .map(|&declared| {
                let mut values = values(declared, &context);
                if !proc.strict {
                    values.push((Value::Null, declared));
                }
                values
            })
            .collect();
        if choices.iter().any(Vec::is_empty) {
            continue;
        }
        let combinations: usize = choices.iter().map(Vec::len).product();
        // The step shares no divisor with the sizes, so it visits a spread of the larger products.
        let step = if combinations > 2_000 { 37 } else { 1 };
        for number in (0..combinations).step_by(step) {
            let mut rest = number;
            let (mut args, mut types) = (Vec::new(), Vec::new());
            for choice in &choices {
                let (value, type_oid) = choice[rest % choice.len()].clone();
                rest /= choice.len();
                args.push(value);
                types.push(type_oid);
            }
            for value in run(proc, &args, &types, &context).unwrap_or_default() {
                let declared = proc.result;
                assert!(is_of_type(&value, declared), "{}({args:?}) gave {value:?} for type {declared}", proc.name);
            }
        }
    }
}

/// Goal: casts end in the variant of their target (K1). Method: every listed cast with the edge values of its source.
#[test]
fn every_cast_ends_in_a_value_of_its_target() {
    let text = TextContext::default();
    let context = EvalContext {
        text: &text,
        transaction_time: 0,
        statement_time: 0,
        clock_time: &|| 0,
        system: &Nobody,
        value_bytes_max: usize::MAX,
    };
    for cast in casts() {
        for (value, source) in values(cast.source, &context) {
            let target = crate::types::SqlType::new(cast.target);
            if let Ok(done) = cast_value(value.clone(), source, target, true, &context) {
                assert!(is_of_type(&done, cast.target), "{value:?} of {source} became {done:?} for {}", cast.target);
            }
        }
    }
}

/// Matches LIKE directly by its definition.
fn model(text: &[char], pattern: &[char]) -> Option<bool> {
    Some(match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => {
            let mut any = false;
            for from in 0..=text.len() {
                any |= model(&text[from..], rest)?;
            }
            any
        }
        ['_', rest @ ..] => !text.is_empty() && model(&text[1..], rest)?,
        ['\\'] => return None,
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
            !text.is_empty() && text[0] == *literal && model(&text[1..], rest)?
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: LIKE follows its definition, also for non-ASCII characters. Method: comparison with the model, over an
    /// alphabet small enough to match often. Patterns that end in a lone escape may fail or not match.
    #[test]
    fn like_agrees_with_its_definition(text in "[ab\u{e9}]{0,8}", pattern in "[ab\u{e9}%_\\\\]{0,8}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        if let Some(expected) = model(&chars(&text), &chars(&pattern)) {
            prop_assert_eq!(pattern::like(&text, &pattern, false).ok(), Some(expected));
        }
    }

    /// Goal: no client text breaks the translation of regular expressions (SQL-7). Method: random patterns.
    #[test]
    fn no_pattern_panics(text in "\\PC{0,10}", pattern in "[a-c()\\[\\]{}*+?|^$.\\\\:=!<0-9,&~-]{0,12}") {
        let context_text = TextContext::default();
        let context = EvalContext {
            text: &context_text, transaction_time: 0, statement_time: 0, clock_time: &|| 0, system: &Nobody,
            value_bytes_max: usize::MAX,
        };
        for name in ["textregexeq", "substring", "regexp_match", "regexp_split_to_array", "regexp_matches"] {
            for proc in procs_named(name).iter().filter(|proc| *proc.arguments == [oid::TEXT, oid::TEXT]) {
                let _ = run(proc, &[Value::text(&text), Value::text(&pattern)], &[oid::TEXT, oid::TEXT], &context);
            }
        }
    }
}

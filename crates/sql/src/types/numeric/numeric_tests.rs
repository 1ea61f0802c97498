//! Tests of numeric against PostgreSQL 15's answers in `answers.tsv`, and against 128-bit integers.

use proptest::prelude::*;

use super::*;
use crate::types::typmod;

/// Performs one operation of the table.
fn answer(fields: &[&str]) -> Result<String> {
    let number = |at: usize| Numeric::parse(fields[at]);
    let integer = |at: usize| fields[at].parse::<i32>().unwrap();
    let result = match fields[0] {
        "in" if fields.len() > 3 => {
            let mut bytes = Vec::new();
            Numeric::parse(fields[2])?.write_wire(&mut bytes);
            return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        "in" => Numeric::parse(fields[2]),
        "add" => number(1)?.add(&number(2)?),
        "sub" => number(1)?.sub(&number(2)?),
        "mul" => number(1)?.mul(&number(2)?),
        "div" => number(1)?.div(&number(2)?),
        "mod" => number(1)?.rem(&number(2)?),
        "divt" => number(1)?.div_trunc(&number(2)?),
        "pow" => number(1)?.power(&number(2)?),
        "log2" => number(1)?.log(&number(2)?),
        "sqrt" => number(1)?.sqrt(),
        "exp" => number(1)?.exp(),
        "ln" => number(1)?.ln(),
        "ceil" => Ok(number(1)?.ceil()),
        "floor" => Ok(number(1)?.floor()),
        "trim" => Ok(number(1)?.trim_scale()),
        "round" => Ok(number(1)?.round(integer(2))),
        "trunc" => Ok(number(1)?.trunc(integer(2))),
        "typmod" => number(1)?.apply_typmod(typmod::numeric(integer(2), integer(3))),
        "fromf8" => Ok(Numeric::from_f64(fields[1].parse().unwrap())),
        "fromf4" => Ok(Numeric::from_f32(fields[1].parse().unwrap())),
        "int8" => return number(1)?.to_i64().map(|value| value.to_string()),
        "cmp" => return Ok(format!("{}", number(1)?.cmp(&number(2)?) as i8)),
        "f8" => {
            let value = crate::types::Value::Float8(number(1)?.to_f64());
            return Ok(crate::types::io::to_text(&value, crate::types::oid::FLOAT8, &Default::default()));
        }
        other => panic!("operation {other}"),
    };
    result.map(|number| number.to_string())
}

/// Goal: results, scales and errors are PostgreSQL's. Method: its answers, checked in as a table.
#[test]
fn operations_answer_as_postgresql_does() {
    let mut wrong = Vec::new();
    for line in include_str!("answers.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (case, expected) = line.split_once("\t=\t").expect("each line has an answer");
        let got = answer(&case.split('\t').collect::<Vec<_>>()).unwrap_or_else(|error| match &error.report().detail {
            Some(detail) => format!("{error:?} | {detail}"),
            None => format!("{error:?}"),
        });
        if got != expected {
            wrong.push(format!("{case}: got {got}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: malformed wire bytes are refused with PostgreSQL's texts. Method: one of each kind.
#[test]
fn malformed_wire_forms_are_refused() {
    for (words, expected) in [
        (&[1, 0, 0x1234, 0, 5][..], "22P03: invalid sign in external \"numeric\" value"),
        (&[1, 0, 0, 0x4000, 5], "22P03: invalid scale in external \"numeric\" value"),
        (&[1, 0, 0, 0, 10_000], "22P03: invalid digit in external \"numeric\" value"),
        (&[2, 0, 0, 0, 5], "22P03: insufficient data left in message"),
        (&[1, 0, 0, 0, 5, 6], "22P03: incorrect binary data format"),
        (&[1, 0x7FFF, 0, 0, 5], ""),
    ] {
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u16| word.to_be_bytes()).collect();
        match Numeric::from_wire(&bytes) {
            Ok(number) => assert!(expected.is_empty() && number.to_string().len() == 131_069, "{number}"),
            Err(error) => assert_eq!(format!("{error:?}"), expected),
        }
    }
    // Digits beyond the display scale are dropped.
    assert_eq!(Numeric::from_wire(&[0, 1, 0xFF, 0xFF, 0, 0, 0, 2, 0x04, 0xD2]).unwrap().to_string(), "0.12");
}

/// Goal: limits are checked before the size of work depends on them. Method: the largest numbers and one step beyond.
#[test]
fn numbers_beyond_the_limits_overflow() {
    let largest = Numeric::parse("9e131071").unwrap();
    assert_eq!(format!("{:?}", largest.add(&largest).unwrap_err()), "22003: value overflows numeric format");
    assert!(largest.mul(&largest).is_err());
    assert!(Numeric::parse("2").unwrap().power(&Numeric::parse("1e9").unwrap()).is_err());
    assert!(Numeric::parse("1e5000").unwrap().exp().is_err());
    assert_eq!(Numeric::from(i64::MIN).neg().to_string(), "9223372036854775808");
    assert_eq!(Numeric::from(i64::MIN).neg().neg().to_i64().unwrap(), i64::MIN);
}

fn any_number() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        (any::<i64>(), 0_u16..25).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa.into(), scale)),
        (-1000_i64..1000, 0_u16..5).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa.into(), scale)),
        (any::<i128>(), 0_u16..45).prop_map(|(mantissa, scale)| Numeric::from_i128(mantissa, scale)),
        Just(Numeric::NAN),
        Just(Numeric::INFINITY),
        Just(Numeric::NEG_INFINITY),
    ]
}

fn hash(number: &Numeric) -> u64 {
    let mut state = std::hash::DefaultHasher::new();
    number.hash(&mut state);
    state.finish()
}

proptest! {
    /// Goal: text and wire forms are exact, scale included. Method: random numbers through both.
    #[test]
    fn text_and_wire_round_trip(number in any_number()) {
        let text = number.to_string();
        prop_assert_eq!(Numeric::parse(&text).unwrap().to_string(), text.clone());
        let mut bytes = Vec::new();
        number.write_wire(&mut bytes);
        prop_assert_eq!(Numeric::from_wire(&bytes).unwrap().to_string(), text);
    }

    /// Goal: the order is total and agrees with subtraction and hashing. Method: random triples, and equal values of
    /// different scales.
    #[test]
    fn order_agrees_with_subtraction_and_hashing(a in any_number(), b in any_number(), c in any_number()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
        if !(a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite()) {
            prop_assert_eq!(a.sub(&b).unwrap().signum(), a.cmp(&b) as i32);
            let longer = a.round(i32::from(a.scale()) + 7);
            prop_assert_eq!(&longer, &a);
            prop_assert_eq!(hash(&longer), hash(&a));
            prop_assert_eq!(hash(&a.trim_scale()), hash(&a));
        }
    }

    /// Goal: division is exact to half of its last digit, and the remainder matches it. Method: multiply back.
    #[test]
    fn division_multiplies_back(a in any_number(), b in any_number()) {
        if let (Ok(quotient), Ok(whole), Ok(rest)) = (a.div(&b), a.div_trunc(&b), a.rem(&b))
            && !(quotient.is_nan() || quotient.is_infinite() || b.is_infinite())
        {
            prop_assert_eq!(whole.mul(&b).unwrap().add(&rest).unwrap(), a.clone());
            prop_assert!(rest.abs() < b.abs());
            let error = quotient.mul(&b).unwrap().sub(&a).unwrap().abs();
            let half = Numeric::from_i128(5, quotient.scale() + 1).mul(&b.abs()).unwrap();
            prop_assert!(error <= half);
        }
    }

    /// Goal: the digits for keys give the value back. Method: take a number apart and put it together.
    #[test]
    fn significant_digits_round_trip(number in any_number()) {
        let mut digits = Vec::new();
        if let Some(exponent) = number.significant_digits(&mut digits) {
            let back = Numeric::from_significant_digits(number.signum() < 0, &digits, exponent).unwrap();
            prop_assert_eq!(back, number);
        }
    }
}

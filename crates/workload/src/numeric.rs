//! `Money` and `Rate`: PostgreSQL's numeric in its binary form, without conversion through text.

use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

/// The base of the digits in the binary form.
const BASE: i64 = 10_000;
const NEGATIVE: u16 = 0x4000;

/// An amount in cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub i64);

/// A rate in ten-thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) i64);

type Boxed = Box<dyn std::error::Error + Sync + Send>;

/// Reads a number as ten-thousandths.
fn read(raw: &[u8]) -> Option<i64> {
    let word = |at: usize| raw.get(2 * at..2 * at + 2).map(|word| [word[0], word[1]]);
    let count = usize::from(u16::from_be_bytes(word(0)?));
    let weight = i16::from_be_bytes(word(1)?);
    let sign = u16::from_be_bytes(word(2)?);
    let mut sum = 0_i64;
    for at in 0..count {
        let digit = i64::from(u16::from_be_bytes(word(4 + at)?));
        // The first digit after the decimal point has weight -1 and counts our units, so its power is 0.
        let power = i32::from(weight) - i32::try_from(at).ok()? + 1;
        match u32::try_from(power) {
            Ok(power) => sum = sum.checked_add(digit.checked_mul(BASE.checked_pow(power)?)?)?,
            Err(_) if digit == 0 => {}
            Err(_) => return None, // finer than our unit
        }
    }
    match sign {
        0 => Some(sum),
        NEGATIVE => Some(-sum),
        _ => None,
    }
}

impl FromSql<'_> for Rate {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Boxed> {
        read(raw).map(Self).ok_or_else(|| "a rate that is no multiple of a ten-thousandth".into())
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

impl FromSql<'_> for Money {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Boxed> {
        let value = read(raw).filter(|value| value % 100 == 0);
        value.map(|value| Self(value / 100)).ok_or_else(|| "an amount that is no multiple of a cent".into())
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

impl ToSql for Money {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        let mut rest = self.0.unsigned_abs() * 100; // ten-thousandths
        let mut digits = Vec::with_capacity(5);
        while rest > 0 {
            digits.push(u16::try_from(rest % BASE.unsigned_abs())?);
            rest /= BASE.unsigned_abs();
        }
        // `digits` begins with the digit after the decimal point, so the most significant one has this weight.
        let weight = if digits.is_empty() { 0 } else { i16::try_from(digits.len())? - 2 };
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        let shown: Vec<u16> = digits.into_iter().skip(zeros).rev().collect();
        let words = [u16::try_from(shown.len())?, weight.cast_unsigned(), if self.0 < 0 { NEGATIVE } else { 0 }, 2];
        for word in words.into_iter().chain(shown) {
            out.extend_from_slice(&word.to_be_bytes());
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: amounts survive the round trip and have PostgreSQL's form. Method: amounts around every digit boundary,
    /// both signs; the bytes that PostgreSQL sends for 12345.67, 0.01 and 0.1234.
    #[test]
    fn amounts_survive_the_binary_form() {
        for cents in [0, 1, 99, 100, 12_345, 999_999, 1_000_000, 100_000_000, 999_999_999_999] {
            for cents in [cents, -cents] {
                let mut out = BytesMut::new();
                Money(cents).to_sql(&Type::NUMERIC, &mut out).unwrap();
                assert_eq!(Money::from_sql(&Type::NUMERIC, &out).unwrap(), Money(cents), "{out:?}");
            }
        }
        let mut out = BytesMut::new();
        Money(1_234_567).to_sql(&Type::NUMERIC, &mut out).unwrap();
        assert_eq!(out[..], [0, 3, 0, 1, 0, 0, 0, 2, 0, 1, 9, 41, 26, 44]);
        let cent = [0, 1, 0xFF, 0xFF, 0, 0, 0, 2, 0, 100];
        assert_eq!(Money::from_sql(&Type::NUMERIC, &cent).unwrap(), Money(1));
        let rate = [0, 1, 0xFF, 0xFF, 0, 0, 0, 4, 0x04, 0xD2];
        assert_eq!(Rate::from_sql(&Type::NUMERIC, &rate).unwrap(), Rate(1_234));
        assert!(Money::from_sql(&Type::NUMERIC, &rate).is_err() && Money::from_sql(&Type::NUMERIC, &[0, 1]).is_err());
    }
}

//! `Numeric` as text and as PostgreSQL's binary wire form.
//!
//! # The wire form, big-endian
//! | bytes | what |
//! |-------|------|
//! | i16   | count of digits |
//! | i16   | weight: the first digit stands for 10000^weight |
//! | u16   | sign: 0x0000 plus, 0x4000 minus, 0xC000 NaN, 0xD000 Infinity, 0xF000 -Infinity |
//! | u16   | display scale |
//! | u16.. | digits in base 10000, most significant first |

use std::fmt;
use std::str::FromStr;

use super::{Big, INTEGER_DIGITS_MAX, Magnitude, Numeric, Repr, SCALE_MAX, overflow};
use crate::error::{Result, SqlError, SqlState};

const WIRE_NEGATIVE: u16 = 0x4000;
const WIRE_NAN: u16 = 0xC000;
const WIRE_INFINITY: u16 = 0xD000;
const WIRE_NEG_INFINITY: u16 = 0xF000;

/// Larger exponents are refused before any size depends on them; the bound is PostgreSQL's.
const EXPONENT_MAX: i64 = 1_073_741_823;

fn invalid(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type numeric: \"{text}\""))
}

fn malformed(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

impl Numeric {
    /// Parses decimal text: sign, digits, point, exponent, or NaN, Infinity and inf, with blanks at either end.
    ///
    /// # Errors
    /// 22P02 if it is not a number; 22003 if it is beyond the type's limits.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, body) = match trimmed.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if !body.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.') {
            return if body.eq_ignore_ascii_case(b"infinity") || body.eq_ignore_ascii_case(b"inf") {
                Ok(if negative { Self::NEG_INFINITY } else { Self::INFINITY })
            } else if trimmed.eq_ignore_ascii_case("nan") {
                Ok(Self::NAN)
            } else {
                Err(invalid(text))
            };
        }
        let (mantissa, exponent) = match body.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&body[..at], Some(&body[at + 1..])),
            None => (body, None),
        };
        let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return Err(invalid(text));
        }
        let exponent = match exponent {
            None => 0,
            Some(bytes) => parse_exponent(bytes).ok_or_else(|| invalid(text))?,
        };
        if exponent.abs() >= EXPONENT_MAX {
            return Err(overflow());
        }
        // Any 18 digits fit i64.
        if exponent == 0 && whole.len() + fraction.len() <= 18 {
            let value = whole.iter().chain(fraction).fold(0_i64, |value, digit| value * 10 + i64::from(digit - b'0'));
            let scale = u16::try_from(fraction.len()).expect("at most 18");
            return Ok(Self(Repr::Small { scale, mantissa: if negative { -value } else { value } }));
        }
        let fraction_digits = i64::try_from(fraction.len()).map_err(|_| overflow())?;
        let scale = fraction_digits - exponent;
        let mut digits = Vec::with_capacity(whole.len() + fraction.len());
        digits.extend_from_slice(whole);
        digits.extend_from_slice(fraction);
        let digits = match digits.iter().position(|&digit| digit != b'0') {
            Some(at) => &digits[at..],
            None => &[],
        };
        let shown = u16::try_from(scale.max(0)).ok().filter(|&scale| scale <= SCALE_MAX).ok_or_else(overflow)?;
        let magnitude = if scale >= 0 || digits.is_empty() {
            Magnitude::from_digits(digits)
        } else {
            // The size is checked before the product is made.
            let zeros = usize::try_from(-scale).map_err(|_| overflow())?;
            if digits.len() + zeros > INTEGER_DIGITS_MAX {
                return Err(overflow());
            }
            Magnitude::from_digits(digits).mul_pow10(zeros)
        };
        Self::from_big(Big { negative: negative && !magnitude.is_zero(), scale: shown, magnitude })
    }

    /// Appends its text: all digits, exactly `scale` of them after the point.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::NaN => out.extend_from_slice(b"NaN"),
            Repr::PosInf => out.extend_from_slice(b"Infinity"),
            Repr::NegInf => out.extend_from_slice(b"-Infinity"),
            Repr::Small { scale, mantissa } => {
                if *mantissa < 0 {
                    out.push(b'-');
                }
                let mut buffer = [b'0'; 20];
                let digits = small_digits(mantissa.unsigned_abs(), &mut buffer);
                write_with_point(digits, usize::from(*scale), out);
            }
            Repr::Big(big) => {
                if big.negative {
                    out.push(b'-');
                }
                let mut digits = Vec::with_capacity(big.magnitude.digits());
                big.magnitude.write_digits(&mut digits);
                write_with_point(&digits, usize::from(big.scale), out);
            }
        }
    }

    /// Reads the binary wire form.
    ///
    /// # Errors
    /// 22P03 if the bytes are malformed; 22003 beyond the type's limits.
    pub fn from_wire(bytes: &[u8]) -> Result<Self> {
        let (words, rest) = bytes.as_chunks::<2>();
        let mut words = words.iter().map(|word| u16::from_be_bytes(*word));
        let mut next = || words.next().ok_or_else(|| malformed("insufficient data left in message"));
        let (count, weight, sign, scale) = (next()?, i32::from(next()?.cast_signed()), next()?, next()?);
        match sign {
            0 | WIRE_NEGATIVE | WIRE_NAN | WIRE_INFINITY | WIRE_NEG_INFINITY => {}
            _ => return Err(malformed("invalid sign in external \"numeric\" value")),
        }
        if scale > SCALE_MAX {
            return Err(malformed("invalid scale in external \"numeric\" value"));
        }
        let mut digits = Vec::with_capacity(bytes.len() * 2);
        for _ in 0..count {
            let group = next()?;
            if group >= 10_000 {
                return Err(malformed("invalid digit in external \"numeric\" value"));
            }
            for power in [1_000, 100, 10, 1] {
                digits.push(b'0' + u8::try_from(group / power % 10).expect("a digit"));
            }
        }
        if !rest.is_empty() || words.next().is_some() {
            return Err(malformed("incorrect binary data format"));
        }
        match sign {
            WIRE_NAN => return Ok(Self::NAN),
            WIRE_INFINITY => return Ok(Self::INFINITY),
            WIRE_NEG_INFINITY => return Ok(Self::NEG_INFINITY),
            _ => {}
        }
        // The digits spell the number times 10^own. Move the point to `scale`, and drop digits that `scale` does not
        // show.
        let own = (i32::from(count) - 1 - weight) * 4;
        let magnitude = Magnitude::from_digits(&digits);
        let shift = i32::from(scale) - own;
        let by = usize::try_from(shift.unsigned_abs()).expect("32 bits fit");
        if !magnitude.is_zero() && shift > 0 && magnitude.digits() + by > INTEGER_DIGITS_MAX + usize::from(scale) {
            return Err(overflow());
        }
        let magnitude = if shift >= 0 { magnitude.mul_pow10(by) } else { magnitude.div_pow10(by) };
        Self::from_big(Big { negative: sign == WIRE_NEGATIVE && !magnitude.is_zero(), scale, magnitude })
    }

    /// Appends the binary wire form.
    pub fn write_wire(&self, out: &mut Vec<u8>) {
        let mut put = |word: u16| out.extend_from_slice(&word.to_be_bytes());
        let special = match &self.0 {
            Repr::NaN => Some(WIRE_NAN),
            Repr::PosInf => Some(WIRE_INFINITY),
            Repr::NegInf => Some(WIRE_NEG_INFINITY),
            Repr::Small { .. } | Repr::Big(_) => None,
        };
        if let Some(sign) = special {
            // PostgreSQL sends this scale with infinities; readers ignore it.
            let scale = if sign == WIRE_NAN { 0 } else { 0x20 };
            [0, 0, sign, scale].into_iter().for_each(put);
            return;
        }
        let Big { negative, scale, magnitude } = self.to_big().expect("finite");
        let mut digits = Vec::with_capacity(magnitude.digits() + 8);
        magnitude.write_digits(&mut digits);
        // Zeros at both ends fill the groups on both sides of the point.
        let whole = i64::try_from(digits.len()).expect("bounded by N2") - i64::from(scale);
        let weight = (whole + 3).div_euclid(4) - 1;
        let before = usize::try_from((weight + 1) * 4 - whole).expect("0 to 3");
        let after = usize::from((4 - scale % 4) % 4);
        digits.splice(0..0, std::iter::repeat_n(b'0', before));
        digits.extend(std::iter::repeat_n(b'0', after));
        let (groups, _) = digits.as_chunks::<4>();
        let groups =
            groups.iter().map(|group| group.iter().fold(0_u16, |value, digit| value * 10 + u16::from(digit - b'0')));
        let mut groups: Vec<u16> = groups.collect();
        while groups.last() == Some(&0) {
            groups.pop();
        }
        let weight = if groups.is_empty() { 0 } else { i16::try_from(weight).expect("bounded by N2") };
        put(u16::try_from(groups.len()).expect("bounded by N2"));
        put(weight.cast_unsigned());
        put(if negative { WIRE_NEGATIVE } else { 0 });
        put(scale);
        groups.into_iter().for_each(put);
    }
}

/// Parses an exponent's sign and digits; saturates at the bound above which exponents are refused.
fn parse_exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some(if negative { -value } else { value })
}

/// Writes the digits of `value` to the end of `buffer` and returns them; there is at least one.
fn small_digits(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    while value > 0 || at == buffer.len() {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(value % 10).expect("a digit");
        value /= 10;
    }
    &buffer[at..]
}

/// Appends `digits`, with `scale` of them after the point and at least one before it.
fn write_with_point(digits: &[u8], scale: usize, out: &mut Vec<u8>) {
    let whole = digits.len().saturating_sub(scale);
    let (before, after) = digits.split_at(whole);
    if before.is_empty() {
        out.push(b'0');
    }
    out.extend_from_slice(before);
    if scale > 0 {
        out.push(b'.');
        out.extend(std::iter::repeat_n(b'0', scale - after.len()));
        out.extend_from_slice(after);
    }
}

impl FromStr for Numeric {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_text(&mut text);
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

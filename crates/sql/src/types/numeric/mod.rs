//! `Numeric`: PostgreSQL's exact decimal numbers.
//!
//! It is not floating point: every operation defines its result's scale and rounds halves away from zero. This file has
//! the representation, order and conversions; the rest is in `arithmetic.rs`, `functions.rs` and `text.rs`.
//!
//! # Invariants
//! - N1. A number whose mantissa fits `i64` is `Small`, every other number is `Big`, so each (value, scale) has one
//!   form.
//! - N2. The scale is at most [`SCALE_MAX`], and there are at most [`INTEGER_DIGITS_MAX`] digits before the point.
//! - N3. `-Infinity < numbers < Infinity < NaN`. NaN equals itself, and equal values of different scales are equal.
//!
//! Checked by `numeric_tests.rs` (answers of PostgreSQL 15, properties) and by the properties in `magnitude.rs`.

mod arithmetic;
mod functions;
mod magnitude;
mod text;

#[cfg(test)]
mod numeric_tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};

use magnitude::Magnitude;

/// Maximum display scale.
pub const SCALE_MAX: u16 = 16_383;
/// Maximum number of digits before the point.
pub const INTEGER_DIGITS_MAX: usize = 131_072;
/// Maximum scale for rounding functions.
pub const RESULT_SCALE_MAX: i32 = 2_000;

/// A decimal number of any size, NaN, or an infinity.
#[derive(Clone)]
pub struct Numeric(Repr);

#[derive(Clone)]
enum Repr {
    Small { scale: u16, mantissa: i64 },
    Big(Arc<Big>),
    NaN,
    PosInf,
    NegInf,
}

/// A finite number as sign, mantissa and scale. Arithmetic uses it when 128 bits do not suffice.
#[derive(Clone, Debug)]
struct Big {
    negative: bool,
    scale: u16,
    magnitude: Magnitude,
}

/// The parts of a number that the row format stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts<'a> {
    /// NaN.
    NaN,
    /// An infinity.
    Infinity {
        /// Whether it is the negative one.
        negative: bool,
    },
    /// `mantissa * 10^-scale`.
    Small {
        /// Digits after the point.
        scale: u16,
        /// All digits, with a sign.
        mantissa: i64,
    },
    /// A number whose mantissa does not fit 64 bits.
    Big {
        /// Whether it is below zero.
        negative: bool,
        /// Digits after the point.
        scale: u16,
        /// All digits in base 10^9, least significant first.
        limbs: &'a [u32],
    },
}

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

impl Numeric {
    /// Not a number.
    pub const NAN: Self = Self(Repr::NaN);
    /// Above every number.
    pub const INFINITY: Self = Self(Repr::PosInf);
    /// Below every number.
    pub const NEG_INFINITY: Self = Self(Repr::NegInf);
    /// 0 with scale 0.
    pub const ZERO: Self = Self(Repr::Small { scale: 0, mantissa: 0 });
    /// 1 with scale 0.
    pub const ONE: Self = Self(Repr::Small { scale: 0, mantissa: 1 });

    /// Makes `mantissa * 10^-scale`.
    ///
    /// # Panics
    /// If `scale` is above [`SCALE_MAX`].
    pub fn from_i128(mantissa: i128, scale: u16) -> Self {
        assert!(scale <= SCALE_MAX, "the caller bounds the scale");
        match i64::try_from(mantissa) {
            Ok(mantissa) => Self(Repr::Small { scale, mantissa }),
            Err(_) => {
                let magnitude = Magnitude::from_u128(mantissa.unsigned_abs());
                Self(Repr::Big(Arc::new(Big { negative: mantissa < 0, scale, magnitude })))
            }
        }
    }

    /// Makes the number in its only form (N1) after checking its limits (N2).
    fn from_big(big: Big) -> Result<Self> {
        if big.magnitude.limbs().len() <= 3
            && let Some(mantissa) = big.magnitude.to_u128().and_then(|value| i64::try_from(value).ok())
        {
            let mantissa = if big.negative { -mantissa } else { mantissa };
            return Ok(Self(Repr::Small { scale: big.scale, mantissa }));
        }
        if big.magnitude.digits() > INTEGER_DIGITS_MAX + usize::from(big.scale) {
            return Err(overflow());
        }
        // i64::MIN is the only value of 64 bits whose magnitude does not fit i64.
        if big.negative && big.magnitude.to_u128() == Some(1 << 63) {
            return Ok(Self(Repr::Small { scale: big.scale, mantissa: i64::MIN }));
        }
        Ok(Self(Repr::Big(Arc::new(big))))
    }

    /// Returns sign, mantissa and scale of a finite number.
    fn to_big(&self) -> Option<Big> {
        match &self.0 {
            Repr::Small { scale, mantissa } => Some(Big {
                negative: *mantissa < 0,
                scale: *scale,
                magnitude: Magnitude::from_u128(u128::from(mantissa.unsigned_abs())),
            }),
            Repr::Big(big) => Some(Big::clone(big)),
            Repr::NaN | Repr::PosInf | Repr::NegInf => None,
        }
    }

    /// Returns the parts of the number for storage.
    pub fn parts(&self) -> Parts<'_> {
        match &self.0 {
            Repr::Small { scale, mantissa } => Parts::Small { scale: *scale, mantissa: *mantissa },
            Repr::Big(big) => Parts::Big { negative: big.negative, scale: big.scale, limbs: big.magnitude.limbs() },
            Repr::NaN => Parts::NaN,
            Repr::PosInf => Parts::Infinity { negative: false },
            Repr::NegInf => Parts::Infinity { negative: true },
        }
    }

    /// Makes a number from its sign, scale and base-10^9 limbs (least significant first, the last one not 0).
    ///
    /// `None` if a limb or the number exceeds its limits.
    pub fn from_limbs(negative: bool, scale: u16, limbs: Vec<u32>) -> Option<Self> {
        let magnitude = Magnitude::from_limbs(limbs)?;
        if scale > SCALE_MAX {
            return None;
        }
        Self::from_big(Big { negative, scale, magnitude }).ok()
    }

    /// Makes the number that `value` shows with 15 significant digits, like PostgreSQL's cast.
    pub fn from_f64(value: f64) -> Self {
        Self::from_float(value, 14)
    }

    /// Makes the number that `value` shows with 6 significant digits, like PostgreSQL's cast.
    pub fn from_f32(value: f32) -> Self {
        Self::from_float(f64::from(value), 5)
    }

    fn from_float(value: f64, fraction_digits: usize) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return if value > 0.0 { Self::INFINITY } else { Self::NEG_INFINITY };
        }
        let text = format!("{value:.fraction_digits$e}");
        let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        Self::parse(&format!("{digits}e{exponent}")).expect("a float's exponent is within numeric's limits")
    }

    /// Returns the nearest float; an infinity if it is out of range.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::NaN => f64::NAN,
            Repr::PosInf => f64::INFINITY,
            Repr::NegInf => f64::NEG_INFINITY,
            Repr::Small { scale, mantissa } if mantissa.unsigned_abs() < 1 << 53 && *scale <= 22 => {
                // Both operands are exact, so the only division rounds correctly.
                let exact = *mantissa as f64;
                exact / 10_f64.powi(i32::from(*scale))
            }
            Repr::Small { .. } | Repr::Big(_) => self.to_string().parse().expect("numeric text is float text"),
        }
    }

    /// Rounds to an integer, halves away from zero.
    ///
    /// # Errors
    /// 22003 if it does not fit; 0A000 for NaN and infinities.
    pub fn to_i64(&self) -> Result<i64> {
        self.to_integer("bigint")
    }

    /// Rounds to an integer, halves away from zero.
    ///
    /// # Errors
    /// 22003 if it does not fit; 0A000 for NaN and infinities.
    pub fn to_i32(&self) -> Result<i32> {
        self.to_integer("integer")
    }

    /// Rounds to an integer, halves away from zero.
    ///
    /// # Errors
    /// 22003 if it does not fit; 0A000 for NaN and infinities.
    pub fn to_i16(&self) -> Result<i16> {
        self.to_integer("smallint")
    }

    fn to_integer<T: TryFrom<i64>>(&self, name: &str) -> Result<T> {
        let what = match self.0 {
            Repr::NaN => "NaN",
            Repr::PosInf | Repr::NegInf => "infinity",
            Repr::Small { .. } | Repr::Big(_) => {
                return match self.round(0).0 {
                    Repr::Small { mantissa, .. } => T::try_from(mantissa).ok(),
                    _ => None,
                }
                .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range")));
            }
        };
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {name}")))
    }

    /// Returns whether it is NaN.
    pub const fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// Returns whether it is an infinity.
    pub const fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::PosInf | Repr::NegInf)
    }

    /// Returns whether it is zero.
    pub const fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small { mantissa: 0, .. })
    }

    /// Returns whether it is a finite number without a fraction, whatever its scale.
    pub fn is_integer(&self) -> bool {
        match &self.0 {
            Repr::Small { scale: 0, .. } => true,
            Repr::Small { .. } | Repr::Big(_) => self.trunc(0) == *self,
            _ => false,
        }
    }

    /// Returns -1, 0 or 1; 0 for NaN.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small { mantissa, .. } => i32::from(*mantissa > 0) - i32::from(*mantissa < 0),
            Repr::Big(big) => {
                if big.negative {
                    -1
                } else {
                    1
                }
            }
            Repr::PosInf => 1,
            Repr::NegInf => -1,
            Repr::NaN => 0,
        }
    }

    /// Returns the number of digits that it shows after the point; 0 for NaN and infinities.
    pub fn scale(&self) -> u16 {
        match &self.0 {
            Repr::Small { scale, .. } => *scale,
            Repr::Big(big) => big.scale,
            _ => 0,
        }
    }

    /// Returns the decimal exponent of its first digit (0 for 1 to 9, -1 for 0.1 to 0.9); `None` for zero, NaN and
    /// infinities.
    fn leading_exponent(&self) -> Option<i32> {
        let (digits, scale) = match &self.0 {
            Repr::Small { mantissa: 0, .. } | Repr::NaN | Repr::PosInf | Repr::NegInf => return None,
            Repr::Small { scale, mantissa } => (mantissa.unsigned_abs().ilog10() + 1, *scale),
            Repr::Big(big) => (u32::try_from(big.magnitude.digits()).expect("bounded by N2"), big.scale),
        };
        Some(i32::try_from(digits).expect("bounded by N2") - i32::from(scale) - 1)
    }

    const fn rank(&self) -> u8 {
        match self.0 {
            Repr::NegInf => 0,
            Repr::Small { .. } | Repr::Big(_) => 1,
            Repr::PosInf => 2,
            Repr::NaN => 3,
        }
    }
}

/// Returns 10^`exponent` if it fits.
fn pow10_i128(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Small { scale: s1, mantissa: m1 }, Repr::Small { scale: s2, mantissa: m2 }) = (&self.0, &other.0)
        {
            if s1 == s2 {
                return m1.cmp(m2);
            }
            // 10^18 times an i64 fits 128 bits; larger differences of scale use magnitudes.
            let scale = *s1.max(s2);
            if scale - *s1.min(s2) <= 18 {
                let left = i128::from(*m1) * 10_i128.pow(u32::from(scale - s1));
                let right = i128::from(*m2) * 10_i128.pow(u32::from(scale - s2));
                return left.cmp(&right);
            }
        }
        let (Some(left), Some(right)) = (self.to_big(), other.to_big()) else { return self.rank().cmp(&other.rank()) };
        let (left_sign, right_sign) = (self.signum(), other.signum());
        if left_sign != right_sign || left_sign == 0 {
            return left_sign.cmp(&right_sign);
        }
        let by_size = self.leading_exponent().cmp(&other.leading_exponent()).then_with(|| {
            let scale = left.scale.max(right.scale);
            let left = left.magnitude.mul_pow10(usize::from(scale - left.scale));
            left.cmp(&right.magnitude.mul_pow10(usize::from(scale - right.scale)))
        });
        if left_sign < 0 { by_size.reverse() } else { by_size }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    /// Hashes the value without its trailing zeros, so that 1.50 and 1.5 have the same hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Small { mantissa: 0, .. } => state.write_i32(0),
            Repr::Small { scale, mantissa } => {
                let (mut mantissa, mut exponent) = (*mantissa, -i32::from(*scale));
                while mantissa % 10 == 0 {
                    mantissa /= 10;
                    exponent += 1;
                }
                state.write_i32(exponent);
                state.write_u8(u8::from(mantissa < 0));
                state.write_u64(mantissa.unsigned_abs());
            }
            Repr::Big(big) => {
                let zeros = big.magnitude.trailing_zeros();
                let magnitude = big.magnitude.div_pow10(zeros);
                state.write_i32(i32::try_from(zeros).expect("bounded by N2") - i32::from(big.scale));
                state.write_u8(u8::from(big.negative));
                match magnitude.to_u128().and_then(|value| u64::try_from(value).ok()) {
                    Some(small) => state.write_u64(small),
                    None => magnitude.limbs().hash(state),
                }
            }
            Repr::NaN | Repr::PosInf | Repr::NegInf => state.write_u8(self.rank()),
        }
    }
}

macro_rules! from_integers {
    ($($type:ty),*) => {$(
        impl From<$type> for Numeric {
            fn from(value: $type) -> Self {
                Self(Repr::Small { scale: 0, mantissa: i64::from(value) })
            }
        }
    )*};
}

from_integers!(i16, i32, i64, u32);

impl Numeric {
    /// Appends its significant decimal digits, without zeros at either end, and returns the exponent e for which its
    /// absolute value is `0.digits * 10^e`. For zero, NaN and infinities it appends nothing and returns `None`.
    /// [`signum`](Self::signum) has the sign.
    pub fn significant_digits(&self, out: &mut Vec<u8>) -> Option<i32> {
        let exponent = self.leading_exponent()? + 1;
        match &self.0 {
            Repr::Small { mantissa, .. } => {
                Magnitude::from_u128(u128::from(mantissa.unsigned_abs())).write_digits(out);
            }
            Repr::Big(big) => big.magnitude.write_digits(out),
            Repr::NaN | Repr::PosInf | Repr::NegInf => return None,
        }
        while out.last() == Some(&b'0') {
            out.pop();
        }
        Some(exponent)
    }

    /// Makes `0.digits * 10^exponent` with the smallest scale that shows it; `digits` are ASCII digits.
    ///
    /// `None` if every digit is 0, or if the number is beyond the type's limits.
    pub fn from_significant_digits(negative: bool, digits: &[u8], exponent: i32) -> Option<Self> {
        let end = digits.iter().rposition(|&digit| digit != b'0')? + 1;
        let digits = &digits[..end];
        let scale = i32::try_from(end).ok()?.checked_sub(exponent)?;
        let magnitude = Magnitude::from_digits(digits);
        let shown = u16::try_from(scale.max(0)).ok().filter(|&scale| scale <= SCALE_MAX)?;
        let zeros = usize::try_from(scale.min(0).unsigned_abs()).ok().filter(|&zeros| zeros <= INTEGER_DIGITS_MAX)?;
        Self::from_big(Big { negative, scale: shown, magnitude: magnitude.mul_pow10(zeros) }).ok()
    }
}

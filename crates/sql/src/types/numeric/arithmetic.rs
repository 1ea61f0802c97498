//! Exact arithmetic on `Numeric`: the four operations, remainder, rounding, and the typmod of `numeric(p,s)`.
//!
//! `functions.rs` has the functions that approximate. Each operation tries 128-bit integers first.
//!
//! The scales of results are PostgreSQL's: a sum has the larger scale of its operands, a product the sum of their
//! scales, a quotient at least 16 significant digits (`quotient_scale`).

use super::{Big, Magnitude, Numeric, RESULT_SCALE_MAX, Repr, SCALE_MAX, division_by_zero, overflow, pow10_i128};
use crate::error::{Result, SqlError, SqlState};

/// Minimum number of significant digits of an inexact result.
pub(super) const SIGNIFICANT_DIGITS_MIN: i32 = 16;
/// Maximum scale of an inexact result.
pub(super) const DISPLAY_SCALE_MAX: i32 = 1_000;

impl Numeric {
    /// Adds two numbers.
    ///
    /// # Errors
    /// 22003 beyond the type's limits.
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small { scale: s1, mantissa: m1 }, Repr::Small { scale: s2, mantissa: m2 }) = (&self.0, &other.0)
        {
            if s1 == s2 {
                return Ok(Self::from_i128(i128::from(*m1) + i128::from(*m2), *s1));
            }
            let scale = *s1.max(s2);
            if scale - *s1.min(s2) <= 18 {
                let left = i128::from(*m1) * 10_i128.pow(u32::from(scale - s1));
                let right = i128::from(*m2) * 10_i128.pow(u32::from(scale - s2));
                return Ok(Self::from_i128(left + right, scale));
            }
        }
        let (Some(left), Some(right)) = (self.to_big(), other.to_big()) else {
            return Ok(match (&self.0, &other.0) {
                (Repr::NaN, _) | (_, Repr::NaN) => Self::NAN,
                (Repr::PosInf, Repr::NegInf) | (Repr::NegInf, Repr::PosInf) => Self::NAN,
                (Repr::PosInf, _) | (_, Repr::PosInf) => Self::INFINITY,
                _ => Self::NEG_INFINITY,
            });
        };
        let scale = left.scale.max(right.scale);
        let a = left.magnitude.mul_pow10(usize::from(scale - left.scale));
        let b = right.magnitude.mul_pow10(usize::from(scale - right.scale));
        let (negative, magnitude) = if left.negative == right.negative {
            (left.negative, a.add(&b))
        } else if a >= b {
            (left.negative, a.sub(&b))
        } else {
            (right.negative, b.sub(&a))
        };
        Self::from_big(Big { negative, scale, magnitude })
    }

    /// Subtracts `other` from the number.
    ///
    /// # Errors
    /// 22003 beyond the type's limits.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        self.add(&other.neg())
    }

    /// Multiplies two numbers.
    ///
    /// # Errors
    /// 22003 beyond the type's limits.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small { scale: s1, mantissa: m1 }, Repr::Small { scale: s2, mantissa: m2 }) = (&self.0, &other.0)
            && s1 + s2 <= SCALE_MAX
        {
            return Ok(Self::from_i128(i128::from(*m1) * i128::from(*m2), s1 + s2));
        }
        let (Some(left), Some(right)) = (self.to_big(), other.to_big()) else {
            return Ok(match (self.is_nan() || other.is_nan(), self.signum() * other.signum()) {
                (true, _) | (_, 0) => Self::NAN,
                (_, 1) => Self::INFINITY,
                _ => Self::NEG_INFINITY,
            });
        };
        let magnitude = left.magnitude.mul(&right.magnitude);
        let negative = left.negative != right.negative;
        let scale = usize::from(left.scale) + usize::from(right.scale);
        let excess = scale.saturating_sub(usize::from(SCALE_MAX));
        let scale = u16::try_from(scale - excess).expect("at most SCALE_MAX");
        Self::from_big(Big { negative, scale, magnitude: magnitude.round_pow10(excess) })
    }

    /// Divides by `other`; the quotient has the scale that PostgreSQL chooses.
    ///
    /// # Errors
    /// 22012 for a zero divisor; 22003 beyond the type's limits.
    pub fn div(&self, other: &Self) -> Result<Self> {
        if let Some(special) = self.special_quotient(other)? {
            return Ok(special);
        }
        self.div_to_scale(other, self.quotient_scale(other), true)
    }

    /// Divides by `other` and drops the fraction.
    ///
    /// # Errors
    /// 22012 for a zero divisor; 22003 beyond the type's limits.
    pub fn div_trunc(&self, other: &Self) -> Result<Self> {
        if let Some(special) = self.special_quotient(other)? {
            return Ok(special);
        }
        self.div_to_scale(other, 0, false)
    }

    /// Returns the remainder of integer division, which has the sign of `self`.
    ///
    /// # Errors
    /// 22012 for a zero divisor.
    pub fn rem(&self, other: &Self) -> Result<Self> {
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NAN);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        if let (Repr::Small { scale: s1, mantissa: m1 }, Repr::Small { scale: s2, mantissa: m2 }) = (&self.0, &other.0)
        {
            let scale = *s1.max(s2);
            if scale - *s1.min(s2) <= 18 {
                let left = i128::from(*m1) * 10_i128.pow(u32::from(scale - s1));
                let right = i128::from(*m2) * 10_i128.pow(u32::from(scale - s2));
                return Ok(Self::from_i128(left % right, scale));
            }
        }
        let Some(left) = self.to_big() else { return Ok(Self::NAN) };
        let Some(right) = other.to_big() else { return Ok(self.clone()) };
        let scale = left.scale.max(right.scale);
        let a = left.magnitude.mul_pow10(usize::from(scale - left.scale));
        let b = right.magnitude.mul_pow10(usize::from(scale - right.scale));
        Self::from_big(Big { negative: left.negative, scale, magnitude: a.div_rem(&b).1 })
    }

    /// Returns the quotient if an operand is NaN or an infinity; refuses a zero divisor.
    fn special_quotient(&self, other: &Self) -> Result<Option<Self>> {
        if self.is_nan() || other.is_nan() {
            return Ok(Some(Self::NAN));
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        Ok(match (self.is_infinite(), other.is_infinite()) {
            (true, true) => Some(Self::NAN),
            (true, false) if self.signum() * other.signum() > 0 => Some(Self::INFINITY),
            (true, false) => Some(Self::NEG_INFINITY),
            (false, true) => Some(Self::ZERO),
            (false, false) => None,
        })
    }

    /// Returns the weight of the first base-10^4 digit, and that digit. PostgreSQL computes the scale of quotients from
    /// them.
    fn leading_group(&self) -> (i32, i32) {
        let Some(exponent) = self.leading_exponent() else { return (0, 0) };
        let weight = exponent.div_euclid(4);
        let wanted = exponent.rem_euclid(4).unsigned_abs() + 1;
        if let Repr::Small { mantissa, .. } = &self.0 {
            let mantissa = mantissa.unsigned_abs();
            let digits = mantissa.ilog10() + 1;
            let group = match digits.checked_sub(wanted) {
                Some(excess) => mantissa / 10_u64.pow(excess),
                None => mantissa * 10_u64.pow(wanted - digits),
            };
            return (weight, i32::try_from(group).expect("at most four digits"));
        }
        let wanted = usize::try_from(wanted).expect("1 to 4");
        let mut digits = Vec::new();
        self.to_big().expect("only numbers have an exponent").magnitude.write_digits(&mut digits);
        digits.resize(digits.len().max(wanted), b'0');
        (weight, digits[..wanted].iter().fold(0, |group, digit| group * 10 + i32::from(digit - b'0')))
    }

    pub(super) fn quotient_scale(&self, other: &Self) -> u16 {
        let ((weight1, group1), (weight2, group2)) = (self.leading_group(), other.leading_group());
        let weight = weight1 - weight2 - i32::from(group1 <= group2);
        let scale = (SIGNIFICANT_DIGITS_MIN - weight * 4).max(i32::from(self.scale())).max(i32::from(other.scale()));
        u16::try_from(scale.clamp(0, DISPLAY_SCALE_MAX)).expect("clamped")
    }

    /// Divides finite numbers to `scale` digits after the point; rounds halves away from zero, or truncates.
    pub(super) fn div_to_scale(&self, other: &Self, scale: u16, round: bool) -> Result<Self> {
        let shift = i32::from(scale) + i32::from(other.scale()) - i32::from(self.scale());
        if let (Repr::Small { mantissa: m1, .. }, Repr::Small { mantissa: m2, .. }) = (&self.0, &other.0)
            && let Some(power) = pow10_i128(shift.unsigned_abs())
        {
            let operands = if shift >= 0 {
                i128::from(*m1).checked_mul(power).map(|numerator| (numerator, i128::from(*m2)))
            } else {
                i128::from(*m2).checked_mul(power).map(|divisor| (i128::from(*m1), divisor))
            };
            if let Some((numerator, divisor)) = operands {
                let (mut quotient, rest) = (numerator / divisor, numerator % divisor);
                let half = divisor.unsigned_abs() - rest.unsigned_abs() <= rest.unsigned_abs();
                if round && half {
                    quotient += if (numerator < 0) == (divisor < 0) { 1 } else { -1 };
                }
                return Ok(Self::from_i128(quotient, scale));
            }
        }
        let (left, right) = (self.to_big().expect("finite"), other.to_big().expect("finite"));
        let by = usize::try_from(shift.unsigned_abs()).expect("32 bits fit");
        let (a, b) = if shift >= 0 {
            (left.magnitude.mul_pow10(by), right.magnitude)
        } else {
            (left.magnitude, right.magnitude.mul_pow10(by))
        };
        let (mut magnitude, rest) = a.div_rem(&b);
        if round && rest.mul_small(2) >= b {
            magnitude = magnitude.add(&Magnitude::from_u128(1));
        }
        Self::from_big(Big { negative: left.negative != right.negative, scale, magnitude })
    }

    /// Returns the number with the other sign.
    #[must_use]
    pub fn neg(&self) -> Self {
        match &self.0 {
            Repr::Small { scale, mantissa } => Self::from_i128(-i128::from(*mantissa), *scale),
            Repr::Big(big) => {
                let big = Big { negative: !big.negative, ..Big::clone(big) };
                Self::from_big(big).expect("a number and its negative have the same digits")
            }
            Repr::NaN => Self::NAN,
            Repr::PosInf => Self::NEG_INFINITY,
            Repr::NegInf => Self::INFINITY,
        }
    }

    /// Returns the number without its sign.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// Returns -1, 0 or 1 as a number; NaN for NaN.
    #[must_use]
    pub fn sign(&self) -> Self {
        if self.is_nan() { Self::NAN } else { Self::from(self.signum()) }
    }

    /// Rounds to `scale` digits after the point, halves away from zero; a negative `scale` rounds before the point.
    ///
    /// The result shows that many digits. `scale` is clamped to 2,000 in either direction. If rounding up would exceed
    /// the type's limits, which requires a number of 131,072 digits, the number is returned unrounded.
    #[must_use]
    pub fn round(&self, scale: i32) -> Self {
        self.rescaled(scale, true)
    }

    /// Drops the digits beyond `scale` places after the point; a negative `scale` also drops places before the point.
    #[must_use]
    pub fn trunc(&self, scale: i32) -> Self {
        self.rescaled(scale, false)
    }

    fn rescaled(&self, scale: i32, round: bool) -> Self {
        self.to_scale(scale.clamp(-RESULT_SCALE_MAX, RESULT_SCALE_MAX), round).unwrap_or_else(|_| self.clone())
    }

    pub(super) fn to_scale(&self, scale: i32, round: bool) -> Result<Self> {
        let drop = i32::from(self.scale()) - scale;
        let shown = u16::try_from(scale.max(0)).map_err(|_| overflow())?;
        if let Repr::Small { mantissa, .. } = &self.0 {
            let mantissa = i128::from(*mantissa);
            if drop == 0 {
                return Ok(self.clone());
            }
            if drop < 0
                && let Some(wide) = pow10_i128(drop.unsigned_abs()).and_then(|power| mantissa.checked_mul(power))
            {
                return Ok(Self::from_i128(wide, shown));
            }
            if drop > 0 && scale >= 0 {
                let power = pow10_i128(drop.unsigned_abs()).unwrap_or(i128::MAX);
                let (quotient, rest) = (mantissa / power, mantissa % power);
                let half = round && rest.unsigned_abs() >= power.unsigned_abs().div_ceil(2);
                return Ok(Self::from_i128(quotient + if half { mantissa.signum() } else { 0 }, shown));
            }
        }
        let Some(big) = self.to_big() else { return Ok(self.clone()) };
        let by = usize::try_from(drop.unsigned_abs()).expect("32 bits fit");
        let magnitude = match (drop > 0, round) {
            (false, _) => big.magnitude.mul_pow10(by),
            (true, true) => big.magnitude.round_pow10(by),
            (true, false) => big.magnitude.div_pow10(by),
        };
        // With a negative scale, zeros remain before the point.
        let magnitude = magnitude.mul_pow10(usize::try_from(-scale.min(0)).expect("not negative"));
        Self::from_big(Big { negative: big.negative, scale: shown, magnitude })
    }

    /// Rounds up to an integer.
    #[must_use]
    pub fn ceil(&self) -> Self {
        let down = self.trunc(0);
        if down < *self { down.add(&Self::ONE).unwrap_or(down) } else { down }
    }

    /// Rounds down to an integer.
    #[must_use]
    pub fn floor(&self) -> Self {
        let up = self.trunc(0);
        if up > *self { up.sub(&Self::ONE).unwrap_or(up) } else { up }
    }

    /// Removes the zeros at the end of the fraction.
    #[must_use]
    pub fn trim_scale(&self) -> Self {
        self.to_scale(i32::from(self.scale_min()), false).unwrap_or_else(|_| self.clone())
    }

    /// Returns the number of digits after the point that show the number exactly.
    pub fn scale_min(&self) -> u16 {
        let Some(big) = self.to_big() else { return 0 };
        if big.magnitude.is_zero() {
            return 0;
        }
        let zeros = u16::try_from(big.magnitude.trailing_zeros()).unwrap_or(u16::MAX);
        big.scale.saturating_sub(zeros)
    }

    /// Rounds to the declared scale of a `numeric(p,s)` and checks the declared precision.
    ///
    /// # Errors
    /// 22003 with detail if the rounded value has too many digits before the point.
    pub fn apply_typmod(&self, typmod: i32) -> Result<Self> {
        let Some((precision, scale)) = super::super::typmod::numeric_parts(typmod) else { return Ok(self.clone()) };
        let refuse = |detail: String| {
            Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(detail))
        };
        if self.is_nan() {
            return Ok(self.clone());
        }
        if self.is_infinite() {
            return refuse(format!("A field with precision {precision}, scale {scale} cannot hold an infinite value."));
        }
        let rounded = self.to_scale(scale, true)?;
        let digits_max = precision - scale;
        match rounded.leading_exponent() {
            Some(exponent) if exponent >= digits_max => {
                let bound = if digits_max == 0 { "1".to_owned() } else { format!("10^{digits_max}") };
                refuse(format!(
                    "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
                ))
            }
            _ => Ok(rounded),
        }
    }
}

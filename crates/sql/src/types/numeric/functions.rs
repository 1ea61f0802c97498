//! Functions on `Numeric` whose results are approximations: root, power, exponential and logarithms.
//!
//! `arithmetic.rs` has exact arithmetic. Each result is rounded to the scale that PostgreSQL chooses, which gives at
//! least 16 significant digits; intermediate results have some ten digits more.

use super::arithmetic::{DISPLAY_SCALE_MAX, SIGNIFICANT_DIGITS_MIN};
use super::{Big, Magnitude, Numeric, division_by_zero, overflow};
use crate::error::{Result, SqlError, SqlState};

/// log10(e).
const LOG10_E: f64 = std::f64::consts::LOG10_E;
/// Number of digits that intermediate results have beyond the shown ones.
const GUARD: usize = 12;

fn refuse<T>(state: SqlState, message: &str) -> Result<T> {
    Err(SqlError::new(state, message))
}

/// Truncates an estimate to an integer, as PostgreSQL's scale rules do.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates and callers clamp")]
fn truncated(estimate: f64) -> i32 {
    estimate as i32
}

fn clamp_scale(scale: i32) -> u16 {
    u16::try_from(scale.clamp(0, DISPLAY_SCALE_MAX)).expect("clamped")
}

/// A positive decimal floating-point number: `digits * 10^exponent`.
#[derive(Clone)]
struct Float {
    digits: Magnitude,
    exponent: i64,
}

impl Float {
    fn of(big: &Big) -> Self {
        Self { digits: big.magnitude.clone(), exponent: -i64::from(big.scale) }
    }

    /// Keeps `precision` significant digits.
    fn cut(self, precision: usize) -> Self {
        let excess = self.digits.digits().saturating_sub(precision);
        let exponent = self.exponent + i64::try_from(excess).expect("a length fits");
        Self { digits: self.digits.div_pow10(excess), exponent }
    }

    fn mul(&self, other: &Self, precision: usize) -> Self {
        let digits = self.digits.mul(&other.digits);
        Self { digits, exponent: self.exponent + other.exponent }.cut(precision)
    }

    fn reciprocal(&self, precision: usize) -> Self {
        let shift = precision + self.digits.digits();
        let digits = Magnitude::pow10(shift).div_rem(&self.digits).0;
        Self { digits, exponent: -self.exponent - i64::try_from(shift).expect("a length fits") }
    }

    /// Raises the number to a natural power.
    fn power(&self, mut exponent: u32, precision: usize) -> Result<Self> {
        let mut result = Self { digits: Magnitude::from_u128(1), exponent: 0 };
        let mut square = self.clone();
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result.mul(&square, precision);
            }
            exponent >>= 1;
            if exponent > 0 {
                square = square.mul(&square, precision);
            }
            if result.exponent.abs().max(square.exponent.abs()) > 1 << 40 {
                return Err(overflow());
            }
        }
        Ok(result)
    }

    fn round(&self, negative: bool, scale: u16) -> Result<Numeric> {
        let shift = self.exponent + i64::from(scale);
        let digits = i64::try_from(self.digits.digits()).expect("a length fits");
        if shift + digits < 0 {
            return Numeric::from_big(Big { negative: false, scale, magnitude: Magnitude::ZERO });
        }
        let by = usize::try_from(shift.unsigned_abs()).map_err(|_| overflow())?;
        if shift > 0 && by > super::INTEGER_DIGITS_MAX + usize::from(scale) {
            return Err(overflow());
        }
        let magnitude = if shift >= 0 { self.digits.mul_pow10(by) } else { self.digits.round_pow10(by) };
        let negative = negative && !magnitude.is_zero();
        Numeric::from_big(Big { negative, scale, magnitude })
    }
}

/// Returns ln(`value`) for a value above 1, as a natural number times 10^-`places`, by square roots and the series of
/// artanh.
fn ln_fixed(value: &Magnitude, places: usize) -> Magnitude {
    let one = Magnitude::pow10(places);
    let bound = one.add(&one.div_small(10).0);
    let mut value = value.clone();
    let mut doublings = 1_u32;
    while value > bound {
        value = value.mul_pow10(places).isqrt();
        doublings += 1;
    }
    // ln(v) = 2 artanh((v - 1) / (v + 1))
    let mut term = value.sub(&one).mul_pow10(places).div_rem(&value.add(&one)).0;
    let square = term.mul(&term).div_pow10(places);
    let mut sum = Magnitude::ZERO;
    let mut divisor = 1;
    while !term.is_zero() {
        sum = sum.add(&term.div_small(divisor).0);
        term = term.mul(&square).div_pow10(places);
        divisor += 2;
    }
    (0..doublings).fold(sum, |sum, _| sum.mul_small(2))
}

/// Returns the logarithm of a positive finite number, rounded to `scale`.
fn ln_to_scale(big: &Big, scale: u16) -> Result<Numeric> {
    let places = usize::from(scale) + GUARD + 8;
    // value = lead * 10^exponent with lead in [1, 10); the logarithm of 10 accounts for the exponent.
    let digits = big.magnitude.digits();
    let exponent = i64::try_from(digits).expect("a length fits") - 1 - i64::from(big.scale);
    let one = Magnitude::pow10(places);
    let near_one = |magnitude: Magnitude| {
        if magnitude >= one {
            (false, ln_fixed(&magnitude, places))
        } else {
            let inverse = one.mul_pow10(places).div_rem(&magnitude).0;
            (true, ln_fixed(&inverse, places))
        }
    };
    let at_places = |shown: usize, magnitude: &Magnitude| {
        if places >= shown { magnitude.mul_pow10(places - shown) } else { magnitude.div_pow10(shown - places) }
    };
    let (negative, sum) = if exponent == -1 || exponent == 0 {
        near_one(at_places(usize::from(big.scale), &big.magnitude))
    } else {
        let lead = near_one(at_places(digits - 1, &big.magnitude)).1;
        let ln10 = ln_fixed(&one.mul_small(10), places);
        let tens = ln10.mul(&Magnitude::from_u128(u128::from(exponent.unsigned_abs())));
        if exponent > 0 { (false, tens.add(&lead)) } else { (true, tens.sub(&lead)) }
    };
    let magnitude = sum.round_pow10(places - usize::from(scale));
    let negative = negative && !magnitude.is_zero();
    Numeric::from_big(Big { negative, scale, magnitude })
}

/// Returns the exponential of a finite number, rounded to `scale`.
fn exp_to_scale(big: &Big, approximate: f64, scale: u16) -> Result<Numeric> {
    if approximate.abs() >= 6_000.0 {
        return if approximate > 0.0 {
            Err(overflow())
        } else {
            Numeric::from_big(Big { negative: false, scale, magnitude: Magnitude::ZERO })
        };
    }
    let weight = usize::try_from(truncated(approximate.abs() * LOG10_E)).expect("not negative") + 1;
    // Halving the argument 20 times makes it small; squaring the result as often loses at most seven digits.
    let halvings = 20_u32;
    let places = usize::from(scale) + weight + GUARD + 8;
    let one = Magnitude::pow10(places);
    let shown = usize::from(big.scale);
    let argument =
        if places >= shown { big.magnitude.mul_pow10(places - shown) } else { big.magnitude.div_pow10(shown - places) };
    let argument = argument.div_small(1 << halvings).0;
    let (mut sum, mut term, mut nth) = (one.clone(), one, 1);
    while !term.is_zero() {
        term = term.mul(&argument).div_pow10(places).div_small(nth).0;
        sum = sum.add(&term);
        nth += 1;
    }
    let exponent = -i64::try_from(places).expect("a length fits");
    let mut result = Float { digits: sum, exponent };
    for _ in 0..halvings {
        result = result.mul(&result, places);
    }
    if big.negative { result.reciprocal(places) } else { result }.round(false, scale)
}

impl Numeric {
    /// Estimates the decimal exponent of the logarithm of a positive number, as PostgreSQL does.
    fn ln_weight(&self) -> i32 {
        let near = |text: &str| Self::parse(text).expect("a constant");
        let log10 = |value: f64| if value == 0.0 { 0 } else { truncated(value.abs().log10()) };
        if *self >= near("0.9") && *self <= near("1.1") {
            let above = self.sub(&Self::ONE).unwrap_or(Self::ZERO).abs();
            let Some(exponent) = above.leading_exponent() else { return 0 };
            return exponent;
        }
        let Some(exponent) = self.leading_exponent() else { return 0 };
        // The leading digits and a power of ten stay finite even if the number as a float would not.
        let mut digits = Vec::new();
        self.to_big().expect("finite").magnitude.write_digits(&mut digits);
        digits.truncate(8);
        let lead = digits.iter().fold(0.0, |value, digit| value * 10.0 + f64::from(digit - b'0'));
        let places = i32::try_from(digits.len()).expect("at most 8") - 1;
        log10(f64::ln(lead) + f64::from(exponent - places) * std::f64::consts::LN_10)
    }

    /// Returns the square root.
    ///
    /// # Errors
    /// 2201F for a negative number.
    pub fn sqrt(&self) -> Result<Self> {
        if self.signum() < 0 {
            return refuse(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "cannot take square root of a negative number",
            );
        }
        let Some(big) = self.to_big() else { return Ok(self.clone()) };
        let weight = self.leading_exponent().map_or(0, |exponent| exponent.div_euclid(4));
        let result_weight = if weight >= 0 { weight * 2 + 1 } else { 1 - ((1 - weight * 4) / 2).max(1) };
        let scale = clamp_scale((SIGNIFICANT_DIGITS_MIN - result_weight).max(i32::from(big.scale)));
        // One extra digit decides the rounding: a root with a 5 there is exactly half or above it.
        let places = usize::from(scale) + 1;
        let root = big.magnitude.mul_pow10(places * 2 + usize::from(big.scale % 2));
        let own = (usize::from(big.scale) + usize::from(big.scale % 2)) / 2;
        let root = root.isqrt();
        Self::from_big(Big { negative: false, scale, magnitude: root.round_pow10(own + 1) })
    }

    /// Returns e raised to this power.
    ///
    /// # Errors
    /// 22003 if the result is beyond the type's limits.
    pub fn exp(&self) -> Result<Self> {
        let Some(big) = self.to_big() else {
            return Ok(if self.signum() < 0 { Self::ZERO } else { self.clone() });
        };
        let approximate = self.to_f64();
        let weight = truncated((approximate * LOG10_E).clamp(-2_000.0, 2_000.0));
        let scale = clamp_scale((SIGNIFICANT_DIGITS_MIN - weight).max(i32::from(big.scale)));
        exp_to_scale(&big, approximate, scale)
    }

    /// Returns the natural logarithm.
    ///
    /// # Errors
    /// 2201E for zero and negative numbers.
    pub fn ln(&self) -> Result<Self> {
        self.require_logarithm()?;
        let Some(big) = self.to_big() else { return Ok(self.clone()) };
        let scale = clamp_scale((SIGNIFICANT_DIGITS_MIN - self.ln_weight()).max(i32::from(big.scale)));
        ln_to_scale(&big, scale)
    }

    /// Returns the logarithm of `value` to the base `self`.
    ///
    /// # Errors
    /// 2201E for zero and negative numbers; 22012 for base 1.
    pub fn log(&self, value: &Self) -> Result<Self> {
        if self.is_nan() || value.is_nan() {
            return Ok(Self::NAN);
        }
        if value.is_infinite() {
            value.require_logarithm()?;
        }
        self.require_logarithm()?;
        value.require_logarithm()?;
        let (Some(base), Some(number)) = (self.to_big(), value.to_big()) else {
            return Ok(match (self.is_infinite(), value.is_infinite()) {
                (true, true) => Self::NAN,
                (true, false) => Self::ZERO,
                _ => Self::INFINITY,
            });
        };
        let (base_weight, number_weight) = (self.ln_weight(), value.ln_weight());
        let weight = number_weight - base_weight;
        let scale =
            clamp_scale((SIGNIFICANT_DIGITS_MIN - weight).max(i32::from(base.scale)).max(i32::from(number.scale)));
        let wide = |ln_weight: i32| clamp_scale((i32::from(scale) + weight - ln_weight + 8).max(0));
        let ln_base = ln_to_scale(&base, wide(base_weight))?;
        let ln_number = ln_to_scale(&number, wide(number_weight))?;
        if ln_base.is_zero() {
            return Err(division_by_zero());
        }
        ln_number.div_to_scale(&ln_base, scale, true)
    }

    fn require_logarithm(&self) -> Result<()> {
        let state = SqlState::INVALID_ARGUMENT_FOR_LOGARITHM;
        match self.signum() {
            -1 => refuse(state, "cannot take logarithm of a negative number"),
            0 if !self.is_nan() => refuse(state, "cannot take logarithm of zero"),
            _ => Ok(()),
        }
    }

    /// Raises the number to a power.
    ///
    /// # Errors
    /// 2201F if the result would not be a real number; 22003 if it is beyond the type's limits.
    pub fn power(&self, exponent: &Self) -> Result<Self> {
        if let Some(special) = self.special_power(exponent)? {
            return Ok(special);
        }
        let base = self.to_big().expect("special_power took the others");
        let power = exponent.to_big().expect("special_power took the others");
        let integer = exponent.is_integer();
        if integer && let Ok(natural) = exponent.to_i32() {
            return self.integer_power(natural);
        }
        if self.is_zero() {
            return Self::from_big(Big { negative: false, scale: 16, magnitude: Magnitude::ZERO });
        }
        let odd = integer && !exponent.rem(&Self::from(2_i64))?.is_zero();
        let positive = self.abs();
        let big = Big { negative: false, ..base };
        let ln_weight = positive.ln_weight();
        // A rough logarithm bounds the size of the result before any precision follows from it.
        let rough = ln_to_scale(&big, clamp_scale((8 - ln_weight).max(0)))?.mul(exponent)?.to_f64();
        if rough.abs() > 6_020.0 {
            return if rough > 0.0 {
                Err(overflow())
            } else {
                Self::from_big(Big {
                    negative: false,
                    scale: clamp_scale(DISPLAY_SCALE_MAX),
                    magnitude: Magnitude::ZERO,
                })
            };
        }
        let weight = truncated(rough * LOG10_E);
        let scale = (SIGNIFICANT_DIGITS_MIN - weight).max(i32::from(big.scale)).max(i32::from(power.scale));
        let scale = clamp_scale(scale);
        let significant = (i32::from(scale) + weight).max(0);
        let ln = ln_to_scale(&big, u16::try_from((significant - ln_weight + 20).max(0)).expect("bounded by rough"))?;
        let product = ln.mul(exponent)?;
        let result = exp_to_scale(&product.to_big().expect("finite"), product.to_f64(), scale)?;
        Ok(if odd && self.signum() < 0 { result.neg() } else { result })
    }

    /// Returns the powers that involve NaN or infinities, and refuses those that are undefined.
    fn special_power(&self, exponent: &Self) -> Result<Option<Self>> {
        let state = SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION;
        if self.is_nan() || exponent.is_nan() {
            let one = exponent.is_zero() || *self == Self::ONE;
            return Ok(Some(if one { Self::ONE } else { Self::NAN }));
        }
        let infinite = self.is_infinite() || exponent.is_infinite();
        if self.is_zero() && exponent.signum() < 0 {
            return refuse(state, "zero raised to a negative power is undefined");
        }
        if self.signum() < 0 && !exponent.is_infinite() && !exponent.is_integer() {
            return refuse(state, "a negative number raised to a non-integer power yields a complex result");
        }
        if !infinite {
            return Ok(None);
        }
        if *self == Self::ONE || exponent.is_zero() {
            return Ok(Some(Self::ONE));
        }
        if exponent.is_infinite() {
            let size = self.abs();
            return Ok(Some(match (self.is_zero(), size.cmp(&Self::ONE), exponent.signum() > 0) {
                (true, ..) => Self::ZERO,
                (_, std::cmp::Ordering::Equal, _) => Self::ONE,
                (_, std::cmp::Ordering::Greater, true) | (_, std::cmp::Ordering::Less, false) => Self::INFINITY,
                _ => Self::ZERO,
            }));
        }
        if exponent.signum() < 0 {
            return Ok(Some(Self::ZERO));
        }
        let odd = !exponent.rem(&Self::from(2_i64))?.is_zero();
        Ok(Some(if self.signum() < 0 && odd { Self::NEG_INFINITY } else { Self::INFINITY }))
    }

    fn integer_power(&self, exponent: i32) -> Result<Self> {
        let big = self.to_big().expect("the caller has a number");
        let weight = match self.leading_exponent() {
            None => 0.0,
            Some(place) => {
                let mut digits = Vec::new();
                big.magnitude.write_digits(&mut digits);
                digits.truncate(17);
                let lead = digits.iter().fold(0.0, |value, digit| value * 10.0 + f64::from(digit - b'0'));
                let places = i32::try_from(digits.len()).expect("at most 17") - 1;
                f64::from(exponent) * (lead.log10() + f64::from(place - places))
            }
        };
        // Unlike other powers, integer powers show at least 16 digits after the point, whatever their size.
        let scale = clamp_scale(SIGNIFICANT_DIGITS_MIN.max(i32::from(big.scale)));
        // Results that overflow or round to zero are found before any digit is computed.
        if weight > f64::from((i32::from(i16::MAX) + 1) * 4) {
            return Err(overflow());
        }
        let zero = || Self::from_big(Big { negative: false, scale, magnitude: Magnitude::ZERO });
        if weight + 1.0 < f64::from(-i32::from(scale)) {
            return zero();
        }
        match exponent {
            0 => return Self::ONE.to_scale(i32::from(scale), false),
            1 => return self.to_scale(i32::from(scale), true),
            _ if self.is_zero() => return zero(),
            _ => {}
        }
        let significant = usize::try_from((i32::from(scale) + truncated(weight)).max(0)).expect("not negative");
        let precision = significant + GUARD + 22;
        let power = Float::of(&big).power(exponent.unsigned_abs(), precision)?;
        let power = if exponent < 0 { power.reciprocal(precision) } else { power };
        power.round(big.negative && exponent % 2 != 0, scale)
    }
}

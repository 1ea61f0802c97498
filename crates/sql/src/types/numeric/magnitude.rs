//! `Magnitude`: a natural number of any size in base 10^9, so that decimal shifts and text are cheap.
//!
//! Its owner keeps the sign and the scale. Multiplication and division are the schoolbook algorithms, since numbers are
//! short.
//!
//! # Invariants
//! - M1. Every limb is below [`BASE`]; the least significant limb comes first.
//! - M2. The last limb is not 0. So zero has no limbs, and each number has one form.

use std::cmp::Ordering;

/// One more than the largest limb.
const BASE: u64 = 1_000_000_000;
/// Decimal digits in a limb.
const LIMB_DIGITS: usize = 9;

/// Powers of ten that fit a limb.
const POW10: [u32; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// A natural number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Magnitude(Vec<u32>);

/// Splits a value below `BASE * 2^32` into a limb and a carry.
const fn split(value: u64) -> (u32, u64) {
    ((value % BASE) as u32, value / BASE)
}

impl Magnitude {
    pub(crate) const ZERO: Self = Self(Vec::new());

    pub(crate) fn from_u128(mut value: u128) -> Self {
        let mut limbs = Vec::with_capacity(5);
        while value > 0 {
            limbs.push(u32::try_from(value % u128::from(BASE)).expect("a remainder of BASE is below 2^32"));
            value /= u128::from(BASE);
        }
        Self(limbs)
    }

    /// Makes 10^`exponent`.
    pub(crate) fn pow10(exponent: usize) -> Self {
        let mut limbs = vec![0; exponent / LIMB_DIGITS];
        limbs.push(POW10[exponent % LIMB_DIGITS]);
        Self(limbs)
    }

    /// Makes the number that the ASCII `digits` spell; leading zeros are allowed.
    pub(crate) fn from_digits(digits: &[u8]) -> Self {
        let limbs = digits
            .rchunks(LIMB_DIGITS)
            .map(|chunk| chunk.iter().fold(0_u32, |limb, digit| limb * 10 + u32::from(digit - b'0')))
            .collect();
        Self(limbs).trimmed()
    }

    /// Makes the number with these limbs, least significant first; `None` unless M1 and M2 hold.
    pub(crate) fn from_limbs(limbs: Vec<u32>) -> Option<Self> {
        let good = limbs.iter().all(|&limb| u64::from(limb) < BASE) && limbs.last() != Some(&0);
        good.then_some(Self(limbs))
    }

    pub(crate) fn limbs(&self) -> &[u32] {
        &self.0
    }

    pub(crate) fn to_u128(&self) -> Option<u128> {
        self.0
            .iter()
            .rev()
            .try_fold(0_u128, |value, &limb| value.checked_mul(u128::from(BASE))?.checked_add(u128::from(limb)))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// Returns its number of decimal digits; 0 has none.
    pub(crate) fn digits(&self) -> usize {
        match self.0.last() {
            None => 0,
            Some(&top) => (self.0.len() - 1) * LIMB_DIGITS + POW10.partition_point(|&power| power <= top),
        }
    }

    /// Appends its decimal digits; none for 0.
    pub(crate) fn write_digits(&self, out: &mut Vec<u8>) {
        let skip = (LIMB_DIGITS - self.digits() % LIMB_DIGITS) % LIMB_DIGITS;
        for (nth, &limb) in self.0.iter().rev().enumerate() {
            let start = if nth == 0 { skip } else { 0 };
            for power in POW10[..LIMB_DIGITS].iter().rev().skip(start) {
                out.push(b'0' + u8::try_from(limb / power % 10).expect("a digit"));
            }
        }
    }

    /// Returns the number of zeros at the end of its decimal form.
    pub(crate) fn trailing_zeros(&self) -> usize {
        let whole = self.0.iter().take_while(|&&limb| limb == 0).count();
        let Some(&limb) = self.0.get(whole) else { return 0 };
        whole * LIMB_DIGITS + (1..LIMB_DIGITS).take_while(|&n| limb % POW10[n] == 0).count()
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        let (long, short) = if self.0.len() >= other.0.len() { (self, other) } else { (other, self) };
        let mut limbs = Vec::with_capacity(long.0.len() + 1);
        let mut carry = 0;
        for (at, &limb) in long.0.iter().enumerate() {
            let sum = u64::from(limb) + u64::from(short.0.get(at).copied().unwrap_or(0)) + carry;
            let (low, high) = split(sum);
            limbs.push(low);
            carry = high;
        }
        if carry > 0 {
            limbs.push(1);
        }
        Self(limbs)
    }

    /// Subtracts `other`, which must not be the larger number.
    pub(crate) fn sub(&self, other: &Self) -> Self {
        let mut limbs = Vec::with_capacity(self.0.len());
        let mut borrow = 0;
        for (at, &limb) in self.0.iter().enumerate() {
            let take = u64::from(other.0.get(at).copied().unwrap_or(0)) + borrow;
            let (low, kept) = split(u64::from(limb) + BASE - take);
            limbs.push(low);
            borrow = 1 - kept;
        }
        assert!(borrow == 0 && self.0.len() >= other.0.len(), "sub needs the larger number first");
        Self(limbs).trimmed()
    }

    pub(crate) fn mul(&self, other: &Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return Self::ZERO;
        }
        let mut limbs = vec![0_u32; self.0.len() + other.0.len()];
        for (at, &left) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (slot, &right) in limbs[at..].iter_mut().zip(&other.0) {
                let (low, high) = split(u64::from(*slot) + u64::from(left) * u64::from(right) + carry);
                *slot = low;
                carry = high;
            }
            limbs[at + other.0.len()] = split(carry).0;
        }
        Self(limbs).trimmed()
    }

    pub(crate) fn mul_small(&self, factor: u32) -> Self {
        let mut limbs = Vec::with_capacity(self.0.len() + 1);
        let mut carry = 0;
        for &limb in &self.0 {
            let (low, high) = split(u64::from(limb) * u64::from(factor) + carry);
            limbs.push(low);
            carry = high;
        }
        while carry > 0 {
            let (low, high) = split(carry);
            limbs.push(low);
            carry = high;
        }
        Self(limbs).trimmed()
    }

    /// Divides by `divisor`, which must not be 0; returns quotient and remainder.
    pub(crate) fn div_small(&self, divisor: u32) -> (Self, u32) {
        let mut limbs = vec![0; self.0.len()];
        let mut rest = 0_u64;
        for (slot, &limb) in limbs.iter_mut().zip(&self.0).rev() {
            let value = rest * BASE + u64::from(limb);
            *slot = split(value / u64::from(divisor)).0;
            rest = value % u64::from(divisor);
        }
        (Self(limbs).trimmed(), u32::try_from(rest).expect("a remainder of a u32"))
    }

    /// Multiplies by 10^`exponent`.
    pub(crate) fn mul_pow10(&self, exponent: usize) -> Self {
        if self.is_zero() || exponent == 0 {
            return self.clone();
        }
        let scaled = self.mul_small(POW10[exponent % LIMB_DIGITS]);
        let mut limbs = vec![0; exponent / LIMB_DIGITS];
        limbs.extend_from_slice(&scaled.0);
        Self(limbs)
    }

    /// Divides by 10^`exponent` and drops the remainder.
    pub(crate) fn div_pow10(&self, exponent: usize) -> Self {
        if exponent == 0 {
            return self.clone();
        }
        let kept = self.0.get(exponent / LIMB_DIGITS..).unwrap_or(&[]);
        Self(kept.to_vec()).div_small(POW10[exponent % LIMB_DIGITS]).0
    }

    /// Divides by 10^`exponent` and rounds halves up.
    pub(crate) fn round_pow10(&self, exponent: usize) -> Self {
        if exponent == 0 {
            return self.clone();
        }
        let (quotient, digit) = self.div_pow10(exponent - 1).div_small(10);
        if digit >= 5 { quotient.add(&Self(vec![1])) } else { quotient }
    }

    /// Divides by `divisor`, which must not be 0; returns quotient and remainder.
    ///
    /// Source: Knuth, The Art of Computer Programming, volume 2, algorithm D.
    pub(crate) fn div_rem(&self, divisor: &Self) -> (Self, Self) {
        let n = divisor.0.len();
        assert!(n > 0, "the caller refuses a zero divisor");
        if self.cmp(divisor).is_lt() {
            return (Self::ZERO, self.clone());
        }
        if n == 1 {
            let (quotient, rest) = self.div_small(divisor.0[0]);
            return (quotient, Self::from_u128(u128::from(rest)));
        }
        // Scaling makes the divisor's top limb at least BASE / 2, so that a guessed limb is at most 2 too large.
        let scale = split(BASE / (u64::from(divisor.0[n - 1]) + 1)).0;
        let mut u = self.mul_small(scale).0;
        u.resize(self.0.len() + 1, 0);
        let v = divisor.mul_small(scale).0;
        let (top, second) = (u64::from(v[n - 1]), u64::from(v[n - 2]));
        let mut quotient = vec![0_u32; u.len() - n];
        for at in (0..quotient.len()).rev() {
            let head = u64::from(u[at + n]) * BASE + u64::from(u[at + n - 1]);
            let (mut guess, mut rest) = (head / top, head % top);
            while guess >= BASE || guess * second > rest * BASE + u64::from(u[at + n - 2]) {
                guess -= 1;
                rest += top;
                if rest >= BASE {
                    break;
                }
            }
            let (mut carry, mut borrow) = (0, 0);
            for (slot, &limb) in u[at..].iter_mut().zip(&v) {
                let (low, high) = split(guess * u64::from(limb) + carry);
                carry = high;
                let (low, kept) = split(u64::from(*slot) + BASE - u64::from(low) - borrow);
                *slot = low;
                borrow = 1 - kept;
            }
            let (low, kept) = split(u64::from(u[at + n]) + BASE - carry - borrow);
            u[at + n] = low;
            if kept == 0 {
                // The guess was one too large: add the divisor back.
                guess -= 1;
                let mut carry = 0;
                for (slot, &limb) in u[at..].iter_mut().zip(&v) {
                    let (low, high) = split(u64::from(*slot) + u64::from(limb) + carry);
                    *slot = low;
                    carry = high;
                }
                u[at + n] = split(u64::from(u[at + n]) + carry).0;
            }
            quotient[at] = split(guess).0;
        }
        (Self(quotient).trimmed(), Self(u).trimmed().div_small(scale).0)
    }

    /// Returns the largest number whose square does not exceed this number.
    pub(crate) fn isqrt(&self) -> Self {
        if let Some(small) = self.to_u128() {
            return Self::from_u128(small.isqrt());
        }
        // Newton's method falls from above until it stops falling. The start has the right leading digits, so few steps
        // suffice.
        let digits = self.digits();
        let drop = (digits - 34) & !1;
        let lead = self.div_pow10(drop).to_u128().expect("at most 36 digits are left");
        let mut root = Self::from_u128(lead.isqrt() + 1).mul_pow10(drop / 2);
        loop {
            let next = root.add(&self.div_rem(&root).0).div_small(2).0;
            if next.cmp(&root).is_ge() {
                return root;
            }
            root = next;
        }
    }
}

impl Ord for Magnitude {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Magnitude {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = Magnitude> {
        prop::collection::vec(
            prop_oneof![Just(0_u32), Just(999_999_999), Just(500_000_000), 0..1_000_000_000_u32],
            0..9,
        )
        .prop_map(|limbs| Magnitude(limbs).trimmed())
    }

    proptest! {
        /// Goal: the operations are those of natural numbers. Method: identities over limbs near their bounds.
        #[test]
        fn arithmetic_keeps_the_identities_of_natural_numbers(a in number(), b in number(), c in number()) {
            prop_assert_eq!(a.add(&b).sub(&b), a.clone());
            prop_assert_eq!(a.mul(&b.add(&c)), a.mul(&b).add(&a.mul(&c)));
            if !b.is_zero() {
                let (quotient, rest) = a.div_rem(&b);
                prop_assert!(rest < b);
                prop_assert_eq!(quotient.mul(&b).add(&rest), a.clone());
            }
            let root = a.isqrt();
            let above = root.add(&Magnitude::from_u128(1));
            prop_assert!(root.mul(&root) <= a && above.mul(&above) > a);
        }

        /// Goal: decimal shifts and digits agree with text. Method: shift up and down, write and read back.
        #[test]
        fn shifts_and_digits_round_trip(a in number(), shift in 0_usize..40) {
            let up = a.mul_pow10(shift);
            prop_assert_eq!(up.div_pow10(shift), a.clone());
            prop_assert_eq!(up.round_pow10(shift), a.clone());
            let mut text = Vec::new();
            a.write_digits(&mut text);
            prop_assert_eq!(text.len(), a.digits());
            prop_assert_eq!(Magnitude::from_digits(&text), a.clone());
            let zeros = text.iter().rev().take_while(|&&digit| digit == b'0').count();
            prop_assert_eq!(a.trailing_zeros(), zeros);
        }

        /// Goal: small numbers agree with machine arithmetic. Method: comparison with u128.
        #[test]
        fn small_numbers_agree_with_u128(a: u64, b in 1_u64..) {
            let (big_a, big_b) = (Magnitude::from_u128(a.into()), Magnitude::from_u128(b.into()));
            prop_assert_eq!(big_a.mul(&big_b).to_u128(), Some(u128::from(a) * u128::from(b)));
            prop_assert_eq!(big_a.div_rem(&big_b).0.to_u128(), Some(u128::from(a / b)));
            prop_assert_eq!(big_a.cmp(&big_b), a.cmp(&b));
        }
    }
}

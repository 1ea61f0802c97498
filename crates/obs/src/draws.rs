//! `Draws`: the number of calls to pass over until the next sample, so that each call is taken with probability p,
//! independently.
//!
//! The skips are geometric, since a fixed stride would beat with work that has a period of its own.

/// A drawn skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// Calls to pass over.
    pub(crate) calls: u32,
    /// Whether the call after them is taken. If not, that call starts a new draw, which gives the same
    /// distribution.
    pub(crate) then_due: bool,
}

/// A thread's sequence of draws, determined by its seed.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number by SplitMix64: a counter in odd steps, then a mixing function. Steele, Lea, Flood,
    /// OOPSLA 2014.
    fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws for probability `p`: 1 and above pass over no call, 0 and below take none.
    pub(crate) fn skip(&mut self, p: f32) -> Skip {
        if p >= 1.0 {
            return Skip { calls: 0, then_due: true };
        }
        let never = Skip { calls: u32::MAX, then_due: false };
        if p.is_nan() || p <= 0.0 {
            return never;
        }
        // In (0, 1], so that its logarithm is finite.
        let uniform = ((self.u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let calls = (uniform.ln() / (-f64::from(p)).ln_1p()).floor();
        if calls >= f64::from(u32::MAX) {
            return never;
        }
        #[expect(clippy::cast_possible_truncation, reason = "looked at above")]
        let calls = calls as u32;
        Skip { calls, then_due: true }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: skips are geometric. Method: at three probabilities compare the share of skips of length 0, 1 and 2
    /// and the mean with the distribution, each within five standard errors; the seed is fixed.
    #[test]
    fn skips_are_geometric() {
        const DRAWS: u32 = 200_000;
        for p in [0.5_f32, 0.1, 0.9] {
            let mut draws = Draws::new(7);
            let (mut shares, mut sum) = ([0_u32; 3], 0.0);
            for _ in 0..DRAWS {
                let skip = draws.skip(p);
                assert!(skip.then_due);
                sum += f64::from(skip.calls);
                if let Some(share) = shares.get_mut(skip.calls as usize) {
                    *share += 1;
                }
            }
            let (p, n) = (f64::from(p), f64::from(DRAWS));
            for (length, share) in (0..).zip(shares) {
                let expected = p * (1.0 - p).powi(length);
                let error = (expected * (1.0 - expected) / n).sqrt();
                let seen = f64::from(share) / n;
                assert!((seen - expected).abs() < 5.0 * error, "p {p}, length {length}: {seen}, not {expected}");
            }
            let (mean, error) = ((1.0 - p) / p, (1.0 - p).sqrt() / p / n.sqrt());
            assert!((sum / n - mean).abs() < 5.0 * error, "p {p}: mean {}, not {mean}", sum / n);
        }
    }

    /// Goal: probabilities at the ends of the range give no skip and no sample. Method: 1 and above, 0, below, NaN,
    /// and one whose skip does not fit.
    #[test]
    fn skips_at_the_ends_are_none_and_never() {
        let mut draws = Draws::new(1);
        for p in [1.0, 2.0, f32::INFINITY] {
            assert_eq!(draws.skip(p), Skip { calls: 0, then_due: true });
        }
        for p in [0.0, -1.0, f32::NAN, f32::MIN_POSITIVE] {
            assert_eq!(draws.skip(p), Skip { calls: u32::MAX, then_due: false }, "{p}");
        }
    }
}

//! The paired permutation test (Fisher, 1935): whether the new value is better than by chance.

use collie_env::{Random as _, SimRandom};

/// Up to this many pairs every choice of signs is evaluated, above it a random sample.
const EXACT_PAIRS: usize = 14;

/// The size of that sample.
const DRAWS: u32 = 9999;

/// The results of two neighbouring seconds, one under each value; more is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Under the old value.
    pub old: f64,
    /// Under the new one.
    pub new: f64,
}

/// Returns the probability that the new value looks at least as much better by chance: one-sided, in the mean of the
/// differences. It is 1 for no pairs or if a difference is not finite. The same pairs and seed give the same result.
pub fn permutation_p(pairs: &[Pair], seed: u64) -> f64 {
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.new - pair.old).collect();
    if differences.is_empty() || differences.iter().any(|difference| !difference.is_finite()) {
        return 1.0;
    }
    let seen: f64 = differences.iter().sum();
    // The slack covers rounding: a sum of the same numbers in which signs were changed twice may differ in its last
    // places.
    let slack = 1e-12 * differences.iter().map(|difference| difference.abs()).sum::<f64>();
    let is_as_good = |signs: u64| {
        let signed = differences.iter().enumerate().map(|(at, d)| if signs >> (at % 64) & 1 == 1 { -d } else { *d });
        signed.sum::<f64>() >= seen - slack
    };
    if differences.len() <= EXACT_PAIRS {
        let all = 1_u64 << differences.len();
        return (0..all).filter(|signs| is_as_good(*signs)).count() as f64 / all as f64;
    }
    let chance = SimRandom::new(seed);
    let mut as_good = 0_u32;
    for _ in 0..DRAWS {
        let mut word = 0;
        let signed = differences.iter().enumerate().map(|(at, d)| {
            if at % 64 == 0 {
                word = chance.u64();
            }
            if word >> (at % 64) & 1 == 1 { -d } else { *d }
        });
        as_good += u32::from(signed.sum::<f64>() >= seen - slack);
    }
    // The measured choice counts as one of them, so p is never 0.
    f64::from(as_good + 1) / f64::from(DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::unit_interval;

    fn pairs(differences: &[f64]) -> Vec<Pair> {
        differences.iter().map(|difference| Pair { old: 100.0, new: 100.0 + difference }).collect()
    }

    /// Goal: the probability is exact. Method: computed by hand: n differences of one sign are the best of 2^n choices;
    /// 3, 2, 1 and -4 sum to 2, which 7 of the 16 choices reach.
    #[test]
    fn permutation_is_exact_for_few_pairs() {
        assert_eq!(permutation_p(&pairs(&[1.0; 5]), 1), 1.0 / 32.0);
        assert_eq!(permutation_p(&pairs(&[-1.0; 5]), 1), 1.0);
        assert_eq!(permutation_p(&pairs(&[3.0, 2.0, 1.0, -4.0]), 1), 7.0 / 16.0);
        assert_eq!(permutation_p(&[], 1), 1.0);
        assert_eq!(permutation_p(&pairs(&[1.0, f64::NAN]), 1), 1.0);
    }

    /// Goal: a random sample of choices agrees with all of them. Method: 14 pairs by all choices; the same by a sample,
    /// with a fifteenth pair without a difference, which doubles every choice.
    #[test]
    fn drawing_agrees_with_enumeration() {
        let mut differences: Vec<f64> = (0..14).map(|n| f64::from(n * 37 % 11) - 4.0).collect();
        let exact = permutation_p(&pairs(&differences), 1);
        differences.push(0.0);
        let drawn = permutation_p(&pairs(&differences), 1);
        assert!((0.02..0.5).contains(&exact) && (drawn - exact).abs() < 0.02, "{exact}, {drawn}");
    }

    /// Goal: chance alone passes as often as the level says. Method: 400 trials of 20 pairs that differ by noise only,
    /// at 5 %.
    #[test]
    fn false_alarms_are_as_rare_as_promised() {
        let chance = SimRandom::new(4);
        let noise = |_| unit_interval(&chance) - 0.5;
        let passed = (0..400)
            .map(|_| pairs(&(0..20).map(noise).collect::<Vec<_>>()))
            .filter(|pairs| permutation_p(pairs, 1) < 0.05)
            .count();
        assert!((5..40).contains(&passed), "{passed} of 400");
    }
}

//! `Thinner`: keeps most of the rare samples and few of the frequent ones, and gives their weights.

use super::{Bucket, CountMin};
use crate::numbers::bounded;

/// m: about how many samples of a bucket are kept per half-life before the bucket is thinned.
const BUCKET_SAMPLES: f64 = 200.0;

/// The half-life of the counts, in seconds.
const HALF_LIFE_S: f64 = 3600.0;

/// The least probability with which a sample is kept.
const KEEP_MIN: f64 = 0.001;

/// The most calls that a kept sample stands for; the excess is counted.
pub const WEIGHT_MAX: f64 = 100.0;

/// The weight of a kept sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// p: the probability of being kept, sampling and thinning together.
    pub probability: f64,
    /// The number of calls that it stands for, at most [`WEIGHT_MAX`].
    pub weight: f64,
}

/// Thins the samples of one unit.
#[derive(Clone, Debug)]
pub struct Thinner {
    counts: CountMin,
    cut: u64,
    cut_weight: f64,
}

impl Default for Thinner {
    fn default() -> Self {
        Self { counts: CountMin::new(HALF_LIFE_S), cut: 0, cut_weight: 0.0 }
    }
}

impl Thinner {
    /// Decides whether to keep a sample that was taken with `probability`; `draw` is a random number from 0 to 1 for
    /// it.
    pub fn keep(&mut self, bucket: Bucket, probability: f64, now_s: f64, draw: f64) -> Option<Kept> {
        let keep = (BUCKET_SAMPLES / self.counts.add(bucket, now_s)).clamp(KEEP_MIN, 1.0);
        if draw >= keep {
            return None;
        }
        let probability = bounded(probability * keep, f64::MIN_POSITIVE, 1.0, 1.0);
        let weight = probability.recip().min(WEIGHT_MAX);
        if probability.recip() > WEIGHT_MAX {
            self.cut += 1;
            self.cut_weight += probability.recip() - WEIGHT_MAX;
        }
        Some(Kept { probability, weight })
    }

    /// Returns the number of weights that were cut, and the total that was cut off.
    pub const fn cut(&self) -> (u64, f64) {
        (self.cut, self.cut_weight)
    }
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;

    use super::*;
    use crate::numbers::unit_interval;

    /// Goal: B3 holds, and thinning keeps rare samples. Method: 100,000 calls of a frequent bucket and 100 of a rare
    /// one, sampled with a probability that changes halfway.
    #[test]
    fn weights_add_up_to_what_was_offered() {
        let (mut thinner, chance) = (Thinner::default(), SimRandom::new(8));
        let (frequent, rare) = (Bucket::of(&[8]), Bucket::of(&[4096]));
        let (mut kept, mut weight, mut rare_kept, mut rare_weight) = (0, 0.0, 0, 0.0);
        for call in 0..100_000 {
            let p = if call < 50_000 { 0.5 } else { 0.25 };
            let is_sampled = unit_interval(&chance) < p;
            if let Some(sample) = is_sampled.then(|| thinner.keep(frequent, p, 0.0, unit_interval(&chance))).flatten() {
                kept += 1;
                weight += sample.weight;
            }
            if call % 1000 == 0 {
                let sample = thinner.keep(rare, 1.0, 0.0, unit_interval(&chance)).expect("it is rare");
                rare_kept += 1;
                rare_weight += sample.weight;
            }
        }
        let (_, cut) = thinner.cut();
        assert!((weight + cut - 100_000.0).abs() < 12_000.0, "{weight} + {cut}");
        assert!((rare_weight - 100.0).abs() < 1e-9 && rare_kept == 100);
        // 200 (1 + ln(n / 200)) with n = 37,500 is about 1,250.
        assert!((900..1600).contains(&kept), "{kept} of the frequent ones");
    }

    /// Goal: a weight above the limit is cut and counted. Method: a sample of probability 1 / 1000.
    #[test]
    fn large_weights_are_cut_and_counted() {
        let mut thinner = Thinner::default();
        let kept = thinner.keep(Bucket::of(&[1]), 0.001, 0.0, 0.0).expect("the first of its bucket");
        assert_eq!((kept.probability, kept.weight), (0.001, WEIGHT_MAX));
        assert_eq!(thinner.cut(), (1, 900.0));
    }
}

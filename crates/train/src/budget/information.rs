//! `Information`: how much one more sample of a unit would tell.

use std::collections::BTreeMap;

use super::Bucket;

/// The number of buckets that are kept apart; the others count as one, so that memory is bounded.
const BUCKETS_MAX: usize = 4096;

/// The residual variance of a bucket with fewer than two samples, in log space.
const PRIOR_VARIANCE: f64 = 1.0;

/// The residuals of one bucket (Welford, 1962).
#[derive(Clone, Copy, Debug, Default)]
struct Residuals {
    samples: f64,
    weight: f64,
    mean: f64,
    squares: f64,
}

impl Residuals {
    fn variance(&self) -> f64 {
        if self.samples < 2.0 { PRIOR_VARIANCE } else { self.squares / (self.samples - 1.0) }
    }
}

/// The residuals of a unit's model by bucket.
#[derive(Clone, Debug, Default)]
pub struct Information {
    buckets: BTreeMap<Bucket, Residuals>,
    rest: Residuals,
}

impl Information {
    /// Adds a sample's residual, ln of the measured value less ln of the predicted one, with its weight. Values that
    /// are not finite are ignored, and so are weights that are not above 0.
    pub fn add(&mut self, bucket: Bucket, residual_ln: f64, weight: f64) {
        if !residual_ln.is_finite() || !weight.is_finite() || weight <= 0.0 {
            return;
        }
        let is_full = self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(&bucket);
        let seen = if is_full { &mut self.rest } else { self.buckets.entry(bucket).or_default() };
        seen.samples += 1.0;
        seen.weight += weight;
        let before = residual_ln - seen.mean;
        seen.mean += before / seen.samples;
        seen.squares += before * (residual_ln - seen.mean);
    }

    /// Returns the sum over all buckets of the residual variance per sample times the bucket's share of the calls.
    pub fn per_sample(&self) -> f64 {
        let all = || self.buckets.values().chain([&self.rest]).filter(|bucket| bucket.samples > 0.0);
        let total: f64 = all().map(|bucket| bucket.weight).sum();
        if total == 0.0 {
            return PRIOR_VARIANCE;
        }
        all().map(|bucket| bucket.variance() * bucket.weight / total / bucket.samples).sum()
    }

    /// sg: returns the residual standard deviation over all buckets; 1 without residuals.
    pub fn deviation(&self) -> f64 {
        let all = || self.buckets.values().chain([&self.rest]).filter(|bucket| bucket.samples > 0.0);
        let total: f64 = all().map(|bucket| bucket.weight).sum();
        if total == 0.0 {
            return PRIOR_VARIANCE.sqrt();
        }
        all().map(|bucket| bucket.variance() * bucket.weight / total).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: information falls with the number of samples and rises with the spread. Method: residuals of +-1 and
    /// +-0.1, few and many.
    #[test]
    fn information_is_variance_per_sample() {
        let of = |spread: f64, samples: u32| {
            let mut information = Information::default();
            for sample in 0..samples {
                let residual = if sample % 2 == 0 { spread } else { -spread };
                information.add(Bucket::of(&[1]), residual, 2.0);
            }
            (information.per_sample(), information.deviation())
        };
        assert_eq!(of(1.0, 0), (1.0, 1.0));
        let (few, many) = (of(1.0, 10), of(1.0, 1000));
        assert!((few.0 - 10.0 / 9.0 / 10.0).abs() < 1e-9 && (many.0 - 1000.0 / 999.0 / 1000.0).abs() < 1e-9);
        assert!((many.1 - 1.0).abs() < 1e-3 && (of(0.1, 1000).1 - 0.1).abs() < 1e-3);
    }

    /// Goal: memory is bounded and no sample is lost. Method: more buckets than are kept apart, and values that are not
    /// finite.
    #[test]
    fn information_is_bounded() {
        let mut information = Information::default();
        for a in 0..32 {
            for b in 0..32 {
                (0..6).for_each(|c| information.add(Bucket::of(&[1 << a, 1 << b, 1 << c]), 0.5, 1.0));
            }
        }
        information.add(Bucket::of(&[]), f64::NAN, 1.0);
        information.add(Bucket::of(&[]), 1.0, f64::INFINITY);
        assert_eq!(information.buckets.len(), BUCKETS_MAX);
        let samples: f64 = information.buckets.values().map(|bucket| bucket.samples).sum();
        assert_eq!(samples + information.rest.samples, 32.0 * 32.0 * 6.0);
    }
}

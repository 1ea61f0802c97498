//! `CountMin`: estimates in fixed memory how often each bucket was seen lately.
//!
//! A count-min sketch (Cormode and Muthukrishnan, 2005) with forward decay (Cormode et al., 2009): instead of lowering
//! all counts as time passes, a later arrival counts for more. An estimate is never below the decayed count.

use super::Bucket;

const ROWS: usize = 4;
const COLUMNS: usize = 1024;

/// The multipliers of the rows: odd and far apart (multiply-shift hashing, Dietzfelbinger et al., 1997).
const MULTIPLIERS: [u64; ROWS] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0xD6E8_FEB8_6659_FD93];

/// Before an arrival would count for more than this, all counts are scaled down.
const SCALE_MAX: f64 = 1e12;

/// A sketch of decayed counts.
#[derive(Clone, Debug)]
pub struct CountMin {
    counts: Vec<f64>,
    half_life_s: f64,
    /// The time at which an arrival counts as 1.
    origin_s: f64,
}

impl CountMin {
    /// Returns an empty sketch. An arrival counts half as much after `half_life_s`.
    pub fn new(half_life_s: f64) -> Self {
        Self { counts: vec![0.0; ROWS * COLUMNS], half_life_s, origin_s: 0.0 }
    }

    fn places(bucket: Bucket) -> [usize; ROWS] {
        // The top ten bits of the product are the column.
        let column = |multiplier: u64| (u64::from(bucket.key()) + 1).wrapping_mul(multiplier) >> 54;
        let mut row = 0;
        MULTIPLIERS.map(|multiplier| {
            row += 1;
            (row - 1) * COLUMNS + usize::try_from(column(multiplier)).expect("ten bits")
        })
    }

    fn scale(&self, now_s: f64) -> f64 {
        ((now_s - self.origin_s) / self.half_life_s).exp2()
    }

    /// Counts an arrival and returns the number of arrivals of its bucket, including this one, each halved per
    /// half-life.
    ///
    /// `now_s` is a time in seconds on any clock. If it goes back, estimates become higher, never lower.
    pub fn add(&mut self, bucket: Bucket, now_s: f64) -> f64 {
        let now_s = if now_s.is_finite() { now_s.max(self.origin_s) } else { self.origin_s };
        if self.scale(now_s) > SCALE_MAX {
            let shrink = self.scale(now_s).recip();
            self.counts.iter_mut().for_each(|count| *count *= shrink);
            self.origin_s = now_s;
        }
        let scale = self.scale(now_s);
        let mut least = f64::INFINITY;
        for place in Self::places(bucket) {
            self.counts[place] += scale;
            least = least.min(self.counts[place] / scale);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use collie_env::SimRandom;

    use super::*;

    fn bucket(number: u32) -> Bucket {
        Bucket::of(&[1 << (number % 29), 1 << (number / 29), 0])
    }

    /// Goal: an estimate is never below the count and seldom far above it. Method: 50,000 arrivals of 400 buckets,
    /// small numbers more often, compared with an exact count.
    #[test]
    fn estimates_are_never_low_and_seldom_high() {
        let (mut sketch, mut exact) = (CountMin::new(3600.0), BTreeMap::new());
        let chance = SimRandom::new(3);
        let (total, mut far) = (50_000, 0);
        for _ in 0..total {
            let bucket = bucket(u32::try_from(chance.below(chance.below(400) + 1)).expect("below 400"));
            let count = exact.entry(bucket).or_insert(0.0);
            *count += 1.0;
            let estimate = sketch.add(bucket, 0.0);
            assert!(estimate >= *count);
            far += usize::from(estimate > *count + 0.01 * f64::from(total));
        }
        assert!(far < 500, "{far} estimates are off by more than a hundredth of all arrivals");
    }

    /// Goal: an arrival counts half as much after each half-life, also over times that would overflow. Method: 8
    /// arrivals, one after 3 half-lives, one after 1000 of them, and one at an earlier time.
    #[test]
    fn counts_halve_with_time() {
        let mut sketch = CountMin::new(10.0);
        let one = bucket(5);
        for _ in 0..8 {
            sketch.add(one, 100.0);
        }
        assert!((sketch.add(one, 130.0) - 2.0).abs() < 1e-9);
        assert!((sketch.add(one, 10_130.0) - 1.0).abs() < 1e-9);
        assert!((sketch.add(one, 5.0) - 2.0).abs() < 1e-9);
    }
}

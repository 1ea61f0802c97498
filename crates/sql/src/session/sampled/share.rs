//! [`ReadShare`]: the probability with which a read is sampled, and [`Skip`]: the number of reads that a session still
//! skips.
//!
//! The gap between two sampled reads is drawn from the geometric distribution, so that each read is sampled with the
//! same probability, independently of the others. Sampling every n-th read would resonate with a client that repeats n
//! statements. Each session counts for itself: with one count for all, every statement would write a shared word.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The share of reads that are sampled; none at first. The component that ships reads writes it, and every session
/// reads it.
#[derive(Debug, Default)]
pub struct ReadShare {
    /// An `f32` as bits; 0 for none.
    bits: AtomicU32,
}

impl ReadShare {
    /// Sets the probability with which each read is sampled from now on; 0, NaN and values below 0 mean none.
    pub fn set(&self, share: f32) {
        let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
        self.bits.store(share.to_bits(), Relaxed);
    }

    /// Returns the probability.
    pub fn get(&self) -> f32 {
        f32::from_bits(self.bits.load(Relaxed))
    }
}

/// A session's state until its next sampled read.
#[derive(Debug, Default)]
pub(in crate::session) struct Skip {
    /// The bits of the share that `left` was drawn for.
    share: u32,
    left: u64,
}

impl Skip {
    /// Returns whether this read is sampled. `random` is called when a gap is drawn.
    #[inline]
    pub(in crate::session) fn takes(&mut self, share: &ReadShare, random: impl Fn() -> u64) -> bool {
        let bits = share.bits.load(Relaxed);
        if bits == 0 {
            return false;
        }
        if bits == self.share && self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.draw(bits, random)
    }

    #[cold]
    fn draw(&mut self, bits: u32, random: impl Fn() -> u64) -> bool {
        let gap = || gap(f32::from_bits(bits).into(), random());
        if bits != self.share {
            // A new gap: the rest of the old one says nothing about the new share.
            (self.share, self.left) = (bits, gap());
            if self.left > 0 {
                self.left -= 1;
                return false;
            }
        }
        self.left = gap();
        true
    }
}

/// Returns the number of reads to skip before the next sampled one, if each is sampled with probability `share`, above
/// 0.
#[expect(clippy::cast_possible_truncation, reason = "what is too large for the type is its largest")]
fn gap(share: f64, random: u64) -> u64 {
    // In (0, 1]: 53 bits, as many as the fraction of an `f64` holds.
    let uniform = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (uniform.ln() / (-share).ln_1p()) as u64
}

#[cfg(test)]
mod tests {
    use collie_env::{Random, SimRandom};

    use super::*;

    fn taken(skip: &mut Skip, share: &ReadShare, random: &SimRandom, reads: u32) -> u32 {
        (0..reads).map(|_| u32::from(skip.takes(share, || random.u64()))).sum()
    }

    /// Goal: as many reads are sampled as the share says, also right after it has changed, in a long session and in
    /// many short ones; none at 0, all at 1. Method: 200,000 reads each with a fixed seed; five standard deviations.
    #[test]
    fn the_share_is_taken_in_long_and_short_sessions() {
        let random = SimRandom::new(7);
        let share = ReadShare::default();
        let mut skip = Skip::default();
        assert_eq!(taken(&mut skip, &share, &random, 1000), 0);
        for part in [0.01_f32, 0.3, 0.001] {
            share.set(part);
            let reads = 200_000_u32;
            let (expected, part) = (f64::from(reads) * f64::from(part), f64::from(part));
            let band = 5.0 * (expected * (1.0 - part)).sqrt();
            let long = f64::from(taken(&mut skip, &share, &random, reads));
            assert!((long - expected).abs() < band, "{long} of {expected} by one session");
            let short = |_| taken(&mut Skip::default(), &share, &random, 5);
            let short = f64::from((0..reads / 5).map(short).sum::<u32>());
            assert!((short - expected).abs() < band, "{short} of {expected} by short sessions");
        }
        share.set(1.0);
        assert_eq!(taken(&mut skip, &share, &random, 1000), 1000);
        share.set(0.0);
        assert_eq!(taken(&mut skip, &share, &random, 1000), 0);
    }

    /// Goal: gaps are geometric, so that no periodic statement is always sampled or always skipped. Method: the
    /// frequency of gaps of 0, 1, 2, 3 at a quarter, against 1/4, 3/16, ..; and statements in a cycle of four, each of
    /// which is sampled as often as the others.
    #[test]
    fn gaps_are_geometric() {
        let random = SimRandom::new(11);
        let draws = 100_000;
        let mut counts = [0_u32; 4];
        for _ in 0..draws {
            if let Some(count) = usize::try_from(gap(0.25, random.u64())).ok().and_then(|gap| counts.get_mut(gap)) {
                *count += 1;
            }
        }
        for (count, part) in counts.into_iter().zip([0.25, 0.1875, 0.140_625, 0.105_469]) {
            let expected = f64::from(draws) * part;
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{count} of {expected}");
        }
        let (share, mut skip) = (ReadShare::default(), Skip::default());
        share.set(0.25);
        let mut by_place = [0_u32; 4];
        for _ in 0..50_000 {
            for place in &mut by_place {
                *place += u32::from(skip.takes(&share, || random.u64()));
            }
        }
        for count in by_place {
            assert!((f64::from(count) - 12_500.0).abs() < 600.0, "{by_place:?}");
        }
    }

    /// Goal: a value that is no probability samples nothing, or everything. Method: values out of its range, the ends
    /// of the generator.
    #[test]
    fn shares_out_of_range_are_none_or_all() {
        let share = ReadShare::default();
        for (given, kept) in [(f32::NAN, 0.0), (-1.0, 0.0), (7.0, 1.0), (0.5, 0.5)] {
            share.set(given);
            assert_eq!(share.get().to_bits(), f32::to_bits(kept), "{given}");
        }
        assert_eq!([gap(1.0, 0), gap(1.0, u64::MAX), gap(0.5, u64::MAX)], [0; 3]);
        assert!(gap(1e-30, 0) > 1 << 60);
    }
}

//! `Trial`: the new value in alternation with the old one.

use super::{Pair, permutation_p};

/// The number of comparable pairs of one-second windows that decide a trial.
pub const PAIRS_MIN: usize = 20;

/// A trial that has fewer than [`PAIRS_MIN`] comparable pairs by then is rejected.
const PAIRS_MAX: usize = 60;

/// A better result counts if its probability by chance is below this. A trial is evaluated once, at its end.
const P_MAX: f64 = 0.05;

/// The state or result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialVerdict {
    /// It continues.
    Open,
    /// Better than chance, with this probability.
    Passed(f64),
    /// Not better than chance, with this probability.
    Failed(f64),
    /// The delay left its bound during the pair.
    TooLate,
}

/// A trial in progress.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    pairs: Vec<Pair>,
}

impl Trial {
    /// Adds a pair of windows, and whether the delay stayed in its bound in both.
    ///
    /// A pair in which a value is not finite cannot be compared and does not count; too many of them end the trial.
    #[must_use]
    pub fn add(&mut self, pair: Pair, is_delay_held: bool, seed: u64) -> TrialVerdict {
        if !is_delay_held {
            return TrialVerdict::TooLate;
        }
        self.pairs.push(pair);
        let sound: Vec<Pair> =
            self.pairs.iter().copied().filter(|pair| pair.old.is_finite() && pair.new.is_finite()).collect();
        if sound.len() < PAIRS_MIN {
            return if self.pairs.len() < PAIRS_MAX { TrialVerdict::Open } else { TrialVerdict::Failed(1.0) };
        }
        let p = permutation_p(&sound, seed);
        if p < P_MAX { TrialVerdict::Passed(p) } else { TrialVerdict::Failed(p) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pair: impl Fn(usize) -> Pair) -> (usize, TrialVerdict) {
        let mut trial = Trial::default();
        (1..)
            .map(|n| (n, trial.add(pair(n), true, 1)))
            .find(|(_, verdict)| *verdict != TrialVerdict::Open)
            .expect("a trial ends")
    }

    /// Goal: a trial is evaluated once, after twenty pairs. Method: better, equal and worse throughput with the same
    /// noise.
    #[test]
    fn a_trial_passes_what_is_better() {
        let noise = |n: usize| f64::from(u8::try_from(n * 7 % 10).unwrap());
        let of = |shift: f64| run(|n| Pair { old: 1000.0 + noise(n), new: 1000.0 + shift + noise(n + 3) });
        assert!(matches!(of(50.0), (PAIRS_MIN, TrialVerdict::Passed(p)) if p < 0.001));
        assert!(matches!(of(0.0), (PAIRS_MIN, TrialVerdict::Failed(_))));
        assert!(matches!(of(-50.0), (PAIRS_MIN, TrialVerdict::Failed(p)) if p > 0.99));
    }

    /// Goal: a trial ends whatever is measured. Method: only values that are not numbers; a delay out of bound.
    #[test]
    fn a_trial_ends() {
        assert_eq!(run(|_| Pair { old: f64::NAN, new: 1.0 }), (PAIRS_MAX, TrialVerdict::Failed(1.0)));
        let late = Trial::default().add(Pair { old: 1.0, new: 9.0 }, false, 1);
        assert_eq!(late, TrialVerdict::TooLate);
    }
}

//! `learn`: takes more and more samples of a population, and measures how good the models fitted to them are.
//!
//! The stream of calls is divided into stages, each about as long as all before it together. In a stage every arm may
//! take the same number of samples: a hundredth of the calls. After it, every unit's model is fitted to all samples
//! kept so far.
//!
//! # What always holds
//! - L1. All arms see the same units for the same time, and may take the same number of samples of them, on average.
//! - L2. An arm decides by the same inputs as the product: P8 ([`allocate`]), the residuals of the current model
//!   ([`Information`]), which are 1 before there is one, and counts of buckets ([`Thinner`]).
//! - L3. Every sample has the weight that a fit gives it: 1 / p, at most 100.

use collie_train::budget::{Information, Share, Thinner, UnitBudget, WEIGHT_MAX, allocate};
use collie_train::model::{FitOptions, Fitted, Sample, Samples, fit};
use collie_train::{TrainError, UnitId};
use collie_workload::Chance;

use super::population::{Call, Population, Unit};
use crate::txn::count_of;

/// The share of calls that may be sampled.
const SHARE: f64 = 0.01;
/// The cost of a sample in us, equal for all.
const COST_US: f64 = 1.0;

/// A method to decide which calls are sampled and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// Every call is equally likely.
    Uniform,
    /// P8 sets the probability of each unit.
    Neyman,
    /// P8; in addition, few samples are kept of kinds of calls that are frequent.
    Buckets,
}

impl Arm {
    pub(super) const ALL: [Self; 3] = [Self::Uniform, Self::Neyman, Self::Buckets];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Neyman => "Neyman (P8)",
            Self::Buckets => "Neyman, buckets (P8, thinned)",
        }
    }
}

/// The state after a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// The number of samples taken so far.
    pub(super) taken: f64,
    /// The number of those that were kept.
    pub(super) kept: f64,
    /// The mean error of the units' models.
    pub(super) error: f64,
}

/// One unit's samples so far, and its model.
struct Learner<'a> {
    unit: &'a Unit,
    id: UnitId,
    samples: Samples,
    thinner: Thinner,
    fitted: Option<Fitted>,
    information: Information,
}

impl Learner<'_> {
    /// Processes a sample that was taken with probability `p`; returns whether it is kept.
    fn take(&mut self, arm: Arm, call: &Call, p: f64, now_s: f64, draw: f64) -> Result<bool, TrainError> {
        let weight = if arm == Arm::Buckets {
            let Some(kept) = self.thinner.keep(call.bucket, p, now_s, draw) else { return Ok(false) };
            kept.weight
        } else {
            p.recip().min(WEIGHT_MAX)
        };
        if let Some(fitted) = &self.fitted {
            let predicted = fitted.predict(&call.features)?.value;
            self.information.add(call.bucket, (call.label / predicted).ln(), weight);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hours in microseconds")]
        let time_us = (now_s * 1e6) as u64;
        self.samples.push(Sample { features: &call.features, label: call.label, weight, time_us })?;
        Ok(true)
    }

    /// Samples the calls of `seconds`, each with probability `p`, by geometric skips; returns the numbers of samples
    /// taken and kept.
    fn sample(
        &mut self,
        arm: Arm,
        (from_s, seconds): (f64, f64),
        p: f64,
        chance: &mut Chance,
    ) -> Result<(f64, f64), TrainError> {
        let (mut at, mut taken, mut kept) = (0.0, 0.0, 0.0);
        let calls = (self.unit.calls_per_s * seconds).round();
        if p <= 0.0 {
            return Ok((taken, kept));
        }
        loop {
            // ln(1 - p) of p = 1 is infinite: nothing is skipped.
            at += (chance.share().ln() / (-p).ln_1p()).floor() + 1.0;
            if at > calls {
                return Ok((taken, kept));
            }
            let call = self.unit.source.call(chance);
            let now_s = from_s + seconds * at / calls;
            taken += 1.0;
            kept += f64::from(u8::from(self.take(arm, &call, p, now_s, chance.share())?));
        }
    }

    /// Fits a model to all kept samples; with too few samples there is no new model.
    fn fit(&mut self) -> Result<(), TrainError> {
        match fit(&self.samples, &FitOptions::default()) {
            Ok(fitted) => self.fitted = Some(fitted),
            Err(TrainError::TooFew { .. }) => (),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns the sampling probability of each unit.
fn probabilities(arm: Arm, learners: &[Learner<'_>], calls_per_s: f64) -> Vec<f64> {
    if arm == Arm::Uniform {
        return vec![SHARE; learners.len()];
    }
    let budget = |learner: &Learner<'_>| UnitBudget {
        unit: learner.id,
        weight: count_of(learners.len()).recip(),
        deviation: learner.information.deviation(),
        cost_us: COST_US,
        calls_per_s: learner.unit.calls_per_s,
        information: learner.information.per_sample(),
    };
    let budgets: Vec<UnitBudget> = learners.iter().map(budget).collect();
    allocate(&budgets, SHARE * calls_per_s * COST_US).iter().map(|share: &Share| share.probability).collect()
}

/// Runs an arm until the error is at most the smallest requested one, or `taken_max` samples were taken. Returns the
/// state after each stage, the first of which has `first` samples.
///
/// # Errors
/// The population contains invalid calls.
pub(super) fn learn(
    population: &Population,
    arm: Arm,
    seed: u64,
    first: f64,
    taken_max: f64,
) -> Result<Vec<Step>, TrainError> {
    let mut chance = Chance::new(seed, 0);
    let mut learners = Vec::new();
    for (number, unit) in population.units.iter().enumerate() {
        learners.push(Learner {
            unit,
            id: UnitId::new(u8::try_from(number).expect("a few units")),
            samples: Samples::new(unit.feature_count, unit.complexity)?,
            thinner: Thinner::default(),
            fitted: None,
            information: Information::default(),
        });
    }
    let calls_per_s = population.calls_per_s();
    let (mut steps, mut at_s, mut due) = (Vec::new(), 0.0, first);
    let mut step = Step { taken: 0.0, kept: 0.0, error: 1.0 };
    loop {
        let seconds = due / (SHARE * calls_per_s) - at_s;
        let probabilities = probabilities(arm, &learners, calls_per_s);
        for (learner, p) in learners.iter_mut().zip(probabilities) {
            // Residuals of earlier models are discarded, as in a server.
            learner.information = Information::default();
            let (taken, kept) = learner.sample(arm, (at_s, seconds), p, &mut chance.fork())?;
            (step.taken, step.kept) = (step.taken + taken, step.kept + kept);
        }
        let mut errors = 0.0;
        for learner in &mut learners {
            learner.fit()?;
            errors += learner.unit.error(learner.fitted.as_ref())?;
        }
        step.error = errors / count_of(learners.len());
        steps.push(step);
        if step.error <= population.error_min() || due >= taken_max {
            return Ok(steps);
        }
        at_s += seconds;
        due = (2.0 * due).min(taken_max);
    }
}

/// The numbers of samples at which an arm reached the requested error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reached {
    pub(super) taken: f64,
    pub(super) kept: f64,
    /// False if these samples were not enough.
    pub(super) is_reached: bool,
}

/// Returns the number of samples at which the error first was `error_max`, interpolated linearly in logarithms between
/// two stages.
pub(super) fn reached(steps: &[Step], error_max: f64) -> Reached {
    let last = steps.last().copied().unwrap_or(Step { taken: 0.0, kept: 0.0, error: 1.0 });
    let Some(at) = steps.iter().position(|step| step.error <= error_max) else {
        return Reached { taken: last.taken, kept: last.kept, is_reached: false };
    };
    let step = steps[at];
    let Some(before) = at.checked_sub(1).map(|before| steps[before]) else {
        return Reached { taken: step.taken, kept: step.kept, is_reached: true };
    };
    let part = (before.error.ln() - error_max.ln()) / (before.error.ln() - step.error.ln());
    let between = |from: f64, to: f64| (from.ln() + part * (to.ln() - from.ln())).exp();
    Reached { taken: between(before.taken, step.taken), kept: between(before.kept, step.kept), is_reached: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::active::drawn;

    /// Goal: the number of samples follows from the probability, and is all calls if that is 1. Method: the calls of
    /// the most frequent unit in ten seconds, with three probabilities, without thinning.
    #[test]
    fn samples_are_as_many_as_calls_and_probability_make() {
        let population = drawn::population();
        for (p, expected) in [(0.01, 2_000.0), (0.5, 100_000.0), (1.0, 200_000.0)] {
            let unit = &population.units[0];
            let mut learner = Learner {
                unit,
                id: UnitId::new(0),
                samples: Samples::new(unit.feature_count, unit.complexity).unwrap(),
                thinner: Thinner::default(),
                fitted: None,
                information: Information::default(),
            };
            let (taken, kept) = learner.sample(Arm::Neyman, (0.0, 10.0), p, &mut Chance::new(5, 0)).unwrap();
            assert!((taken / expected - 1.0_f64).abs() < 0.1 && kept == taken, "{taken} with {p}");
            assert!(p < 1.0 || taken == expected, "{taken}");
            assert_eq!(learner.samples.weight(0), p.recip().min(WEIGHT_MAX));
        }
    }

    /// Goal: L1, and each arm does what its name says. Method: two stages of each arm over the synthetic units: the
    /// same number of samples is taken; with it P8's models are better from the first stage on; only the third arm
    /// discards samples, once there are many of a kind.
    #[test]
    fn arms_spend_the_same_on_different_calls() {
        let mut population = drawn::population();
        population.errors = vec![0.0];
        let [uniform, neyman, buckets] = Arm::ALL.map(|arm| {
            let steps = learn(&population, arm, 3, 6_400.0, 25_600.0).unwrap();
            assert_eq!(steps.len(), 3);
            assert!(steps.iter().all(|step| (0.0..=1.0).contains(&step.error)), "{arm:?}: {steps:?}");
            assert!((23_000.0..28_000.0).contains(&steps[2].taken), "{arm:?}: {steps:?}");
            steps
        });
        assert!(uniform[2].kept == uniform[2].taken && neyman[2].kept == neyman[2].taken);
        assert!(buckets[2].kept < 0.99 * buckets[2].taken, "{buckets:?}");
        assert!(neyman[0].error < uniform[0].error && buckets[0].error < uniform[0].error, "{uniform:?} {neyman:?}");
    }

    /// Goal: the same seed gives the same samples. Method: one arm twice, and with another seed.
    #[test]
    fn learning_is_its_seeds() {
        let population = drawn::population();
        let of = |seed| learn(&population, Arm::Buckets, seed, 200.0, 800.0).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    /// Goal: the number of samples is interpolated between two stages. Method: a curve that falls with the square root
    /// of the number of samples, whose crossing is computed by hand; one that is below from the start; one that never
    /// gets there.
    #[test]
    fn samples_to_an_error_are_between_the_stages() {
        let step = |taken: f64| Step { taken, kept: taken / 2.0, error: taken.powf(-0.5) };
        let steps = [100.0, 400.0, 1_600.0].map(step);
        let found = reached(&steps, 0.03);
        assert!((found.taken - 1.0 / 0.0009).abs() < 1e-6 && (found.kept - 0.5 / 0.0009).abs() < 1e-6, "{found:?}");
        assert_eq!(reached(&steps, 0.2), Reached { taken: 100.0, kept: 50.0, is_reached: true });
        assert_eq!(reached(&steps, 0.01), Reached { taken: 1_600.0, kept: 800.0, is_reached: false });
    }
}

//! `learn`: samples of a population, more and more of them, and how good models of them are.
//!
//! The stream of calls goes by in stages, each about as long as all before it together. In a stage every arm may take as many samples:
//! a hundredth of the calls. After it, every unit's model is fitted to all that were kept so far.
//!
//! # What always holds
//! - L1. All arms see the same units for the same time, and may take as many samples of them, on average.
//! - L2. What an arm goes by is what the product goes by: P8 ([`allocate`]), the residuals of the model so far ([`Information`]), which are
//!   1 before there is one, and counts of buckets ([`Thinner`]).
//! - L3. Every sample counts as much as a fit would have it: 1 / p, at most 100.

use collie_train::budget::{Information, Share, Thinner, UnitBudget, WEIGHT_MAX, allocate};
use collie_train::model::{FitOptions, Fitted, Sample, Samples, fit};
use collie_train::{TrainError, UnitId};

use super::population::{Call, Population, Unit};
use crate::tpcc::Chance;
use crate::txn::count_of;

/// Part of the calls that may be sampled.
const SHARE: f64 = 0.01;
/// What a sample costs, in us: the same for all.
const COST_US: f64 = 1.0;

/// Who decides what is sampled and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// Every call is as likely.
    Uniform,
    /// P8 says of each unit how likely.
    Neyman,
    /// P8, and of kinds of calls of which there are many, few are kept.
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

/// What is known after a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// Samples that were taken so far.
    pub(super) taken: f64,
    /// Those of them that were kept.
    pub(super) kept: f64,
    /// Mean error of the units' models.
    pub(super) error: f64,
}

/// One unit's samples so far, and what they taught.
struct Learner<'a> {
    unit: &'a Unit,
    id: UnitId,
    samples: Samples,
    thinner: Thinner,
    fitted: Option<Fitted>,
    information: Information,
}

impl Learner<'_> {
    /// Takes a sample that was taken with probability `p`; returns whether it is kept.
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

    /// Samples the calls of `seconds`, each with probability `p`, by geometric skips; returns how many were taken and kept.
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

    /// Fits a model to all that was kept. One with too few samples has none.
    fn fit(&mut self) -> Result<(), TrainError> {
        match fit(&self.samples, &FitOptions::default()) {
            Ok(fitted) => self.fitted = Some(fitted),
            Err(TrainError::TooFew { .. }) => (),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns with which probability each unit is sampled.
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

/// Lets an arm learn until the error is at most the smallest that is asked for, or `taken_max` samples were taken. Returns what was known
/// after each stage, the first of `first` samples.
///
/// # Errors
/// A population with calls that are none.
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
            // What the residuals were of the model before the last is forgotten, as in a server.
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

/// Where an arm had the error that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reached {
    pub(super) taken: f64,
    pub(super) kept: f64,
    /// False: it had not yet, with so many.
    pub(super) is_reached: bool,
}

/// Returns with how many samples the error was `error_max` for the first time: between two stages, along a straight line of logarithms.
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

    /// Goal: samples are as many as the probability makes them, and of all of the calls where it is 1. Method: of the most frequent unit,
    /// calls of ten seconds, with three probabilities, without thinning.
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

    /// Goal: L1, and that each arm does what it is named for. Method: two stages of each arm over the drawn units: as many samples are taken; with as
    /// many, P8's models are better from the first stage on; only the third arm throws some away, once there are many of a kind.
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

    /// Goal: same seed, same samples. Method: one arm twice, and with another seed.
    #[test]
    fn learning_is_its_seeds() {
        let population = drawn::population();
        let of = |seed| learn(&population, Arm::Buckets, seed, 200.0, 800.0).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    /// Goal: the number of samples is found between two stages. Method: a curve that falls as one by the root of samples, whose crossing
    /// follows by hand; one that is below from the start; one that is never.
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

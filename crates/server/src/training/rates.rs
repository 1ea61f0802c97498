//! [`Rates`]: the probability with which each unit is sampled: by P8 within the grant, on a primary a thousandth of
//! calls. Pure.
//!
//! The call rate of a unit is estimated from its samples: n samples, taken with probability p for t seconds, mean n /
//! (p t) calls per second. One more is added to n: that is an approximate upper bound for a unit without samples. So a
//! rarely called unit is sampled more from tick to tick until each of its calls is, and a frequently called one costs
//! no more than the grant.
//!
//! # Invariants
//! - B1 (of `collie_train::budget`). The expected cost is within the limit, and with a limit of 0 nothing is sampled.
//! - R1. Sources depend on the role: a primary's is `calibration` alone (TRAIN-6), a replica's are all others.
//! - R2. Units and sources that were switched off are not sampled, whatever the grant.
//! - R3. A unit gives at most [`SAMPLES_PER_S_MAX`] samples per second: a thread's lane holds no more than some
//!   thousand.

use collie_obs::{RateTable, SOURCES, Source, UNIT_SLOTS, UNITS};
use collie_train::{
    SourceId, UnitId,
    budget::{PROBABILITY_MIN, Shedding, Switched, Switches, UnitBudget, allocate},
};

/// The limit for the cost of a primary's samples, in us per second: half a percent of a core (TRAIN-6).
const CALIBRATION_US_PER_S: f64 = 5000.0;

/// See R3.
const SAMPLES_PER_S_MAX: f64 = 5000.0;

/// The assumed cost of a sample before it was measured, in us.
const COST_US: f64 = 1.0;

/// Probabilities are rounded down to steps of a quarter of a power of two, since a change makes every thread draw
/// again.
const STEPS_PER_DOUBLING: f64 = 4.0;

/// Counts fade to 1 / e within this many seconds.
const FADE_S: f64 = 1.0;

/// What may be sampled now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum May {
    /// Nothing: there is no grant, or samples are not kept.
    Nothing,
    /// The share of a primary.
    Calibrate,
    /// Every call of a primary, whatever the cost: for a benchmark that measures it (R3 and TRAIN-6 do not hold).
    Everything,
    /// Samples of a replica up to this cost.
    Collect {
        /// In us per second.
        us_per_s: f64,
    },
}

impl May {
    const fn sources(self) -> &'static [Source] {
        match self {
            Self::Nothing => &[],
            Self::Calibrate | Self::Everything => &[Source::Calibration],
            Self::Collect { .. } => &[Source::Apply, Source::Local, Source::ReplayedRead],
        }
    }
}

/// The observations of one unit.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The number of samples, including dropped ones, and the exposure: the time, weighted with p. Both fade.
    samples: f64,
    exposure_s: f64,
    /// The probability with which it has been sampled since the last tick.
    p: f64,
}

impl Seen {
    fn calls_per_s(&self) -> Option<f64> {
        (self.exposure_s > 0.0).then(|| (self.samples + 1.0) / self.exposure_s)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Rates {
    seen: [Seen; UNIT_SLOTS],
    shedding: Shedding,
    cost_us: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { seen: [Seen::default(); UNIT_SLOTS], shedding: Shedding::default(), cost_us: COST_US }
    }
}

/// How a unit is sampled from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct UnitRate {
    /// The probability.
    pub(super) p: f64,
    /// The call rate; `None`: it was not sampled yet.
    pub(super) calls_per_s: Option<f64>,
    /// The cost of that.
    pub(super) cost_us_per_s: f64,
    /// Whether it is left out because the limit does not pay for it.
    pub(super) is_shed: bool,
}

impl Rates {
    /// Takes the counts of a period of `seconds`: samples by unit and source, and dropped ones by unit; and the total
    /// cost of a sample, in us.
    pub(super) fn saw(
        &mut self,
        taken: &[[u64; SOURCES]; UNIT_SLOTS],
        dropped: &[u64; UNIT_SLOTS],
        seconds: f64,
        cost_us: f64,
    ) {
        self.cost_us = cost_us;
        let fade = (-seconds / FADE_S).exp();
        for ((seen, taken), dropped) in self.seen.iter_mut().zip(taken).zip(dropped) {
            // Late samples of a unit that is off say nothing about its call rate.
            if seen.p > 0.0 {
                let count: u64 = taken.iter().sum::<u64>() + dropped;
                seen.samples = fade * seen.samples + count as f64;
                seen.exposure_s = fade * seen.exposure_s + seen.p * seconds;
            }
        }
    }

    /// Returns the table for the time from now on, with the units that were shed or restored for it. `worth` returns
    /// the residual standard deviation of a unit's model, and how much one more sample would tell.
    pub(super) fn decide(
        &mut self,
        may: May,
        switches: &Switches,
        worth: &dyn Fn(UnitId) -> (f64, f64),
    ) -> (RateTable, Vec<Switched>) {
        let is_on = |unit: u8, source: Source| switches.is_on(UnitId::new(unit), SourceId::new(source.number()));
        let on: Vec<u8> = UNITS
            .iter()
            .map(|unit| unit.id)
            .filter(|unit| may.sources().iter().any(|source| is_on(*unit, *source)))
            .collect();
        let (shares, changes) = match may {
            May::Nothing => (Vec::new(), Vec::new()),
            May::Calibrate => (self.calibrate(&on), Vec::new()),
            May::Everything => (on.iter().map(|unit| (*unit, 1.0)).collect(), Vec::new()),
            // A control window, or a halt: shed units stay shed, which is no change.
            May::Collect { us_per_s } if us_per_s <= 0.0 => (Vec::new(), Vec::new()),
            May::Collect { us_per_s } => self.collect(&on, us_per_s, worth),
        };
        let mut table = RateTable::off();
        self.seen.iter_mut().for_each(|seen| seen.p = 0.0);
        for (unit, wanted) in shares {
            let seen = &mut self.seen[usize::from(unit)];
            let is_bounded = may != May::Everything;
            let most = seen.calls_per_s().filter(|_| is_bounded).map_or(1.0, |calls| SAMPLES_PER_S_MAX / calls);
            let p = stepped(wanted.min(most));
            for source in may.sources().iter().filter(|source| is_on(unit, **source)) {
                table.set(unit, *source, p);
                seen.p = f64::from(p);
            }
        }
        (table, changes)
    }

    fn calibrate(&self, on: &[u8]) -> Vec<(u8, f64)> {
        let cost = |unit: &u8| {
            let calls_per_s = self.seen[usize::from(*unit)].calls_per_s().unwrap_or(0.0);
            PROBABILITY_MIN * calls_per_s * self.cost_us
        };
        let all: f64 = on.iter().map(cost).sum();
        let part = if all > CALIBRATION_US_PER_S { CALIBRATION_US_PER_S / all } else { 1.0 };
        on.iter().map(|unit| (*unit, PROBABILITY_MIN * part)).collect()
    }

    fn collect(
        &mut self,
        on: &[u8],
        us_per_s: f64,
        worth: &dyn Fn(UnitId) -> (f64, f64),
    ) -> (Vec<(u8, f64)>, Vec<Switched>) {
        let budget = |unit: &u8| {
            let (deviation, information) = worth(UnitId::new(*unit));
            UnitBudget {
                unit: UnitId::new(*unit),
                // No pending decision needs one unit more than another, so all have equal weights.
                weight: 1.0 / on.len() as f64,
                deviation,
                cost_us: self.cost_us,
                calls_per_s: self.seen[usize::from(*unit)].calls_per_s().unwrap_or(0.0),
                information,
            }
        };
        let mut budgets: Vec<UnitBudget> = on.iter().map(budget).collect();
        let changes = self.shedding.tick(&budgets, us_per_s);
        budgets.retain(|budget| !self.shedding.is_shed(budget.unit));
        let shares = allocate(&budgets, us_per_s).into_iter();
        (shares.map(|share| (share.unit.get(), share.probability)).collect(), changes)
    }

    /// Returns how a unit is sampled.
    pub(super) fn of(&self, unit: u8) -> UnitRate {
        let Some(seen) = self.seen.get(usize::from(unit)) else { return UnitRate::default() };
        let calls_per_s = seen.calls_per_s();
        UnitRate {
            p: seen.p,
            calls_per_s,
            cost_us_per_s: seen.p * calls_per_s.unwrap_or(0.0) * self.cost_us,
            is_shed: self.shedding.is_shed(UnitId::new(unit)),
        }
    }

    /// Returns how all of them are sampled, by number.
    pub(super) fn all(&self) -> [UnitRate; UNIT_SLOTS] {
        std::array::from_fn(|unit| u8::try_from(unit).map(|unit| self.of(unit)).unwrap_or_default())
    }

    /// Returns the cost of samples of every call, in us per second, as far as call rates are known.
    pub(super) fn wanted_us_per_s(&self) -> f64 {
        let calls = self.seen.iter().filter_map(Seen::calls_per_s).map(|calls| calls.min(SAMPLES_PER_S_MAX));
        calls.sum::<f64>() * self.cost_us
    }
}

/// Returns `p` rounded down to a step, but not below the least probability of a sampled unit.
fn stepped(p: f64) -> f32 {
    if p.is_nan() || p <= 0.0 {
        return 0.0;
    }
    // With a grant that is used up completely, rounding errors make probabilities slightly too small.
    let p = (p * (1.0 + 1e-9)).min(1.0);
    let step = ((p.log2() * STEPS_PER_DOUBLING).floor() / STEPS_PER_DOUBLING).exp2();
    let step = if p > 0.999 * PROBABILITY_MIN { step.max(p.min(PROBABILITY_MIN)) } else { step };
    #[expect(clippy::cast_possible_truncation, reason = "a probability; what is too small for 32 bits is 0")]
    {
        step as f32
    }
}

#[cfg(test)]
mod tests;

//! `Proposal`: a change that a model suggests, and the rules by which it is accepted or refused.

use thiserror::Error;

use super::{Gain, Setting};

/// The least lower end of the predicted gain.
const GAIN_MIN: f64 = 0.05;

/// One step changes a value by at most this factor.
const STEP_MAX: f64 = 2.0;

/// A change of one setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The setting.
    pub setting: Setting,
    /// The value in force, in the setting's unit.
    pub old: f64,
    /// The value to try.
    pub new: f64,
    /// The lowest and the highest value that the configuration accepts.
    pub range: (f64, f64),
    /// Whether a person has set it.
    pub is_set_by_hand: bool,
    /// The predicted gain.
    pub gain: Gain,
    /// The hash of the model's package.
    pub model_hash: u64,
    /// Whether too few of the newest samples lie in the model's intervals.
    pub is_model_stale: bool,
}

/// The reason for which nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// `training.apply` is off.
    #[error("training.apply is off")]
    Off,
    /// Another change is in flight.
    #[error("another change is in flight")]
    Busy,
    /// The last change ended, or was proposed, less than ten minutes ago.
    #[error("the last change ended, or was proposed, less than ten minutes ago")]
    CoolDown,
    /// The setting was rolled back too often.
    #[error("it was rolled back three times within a day")]
    Quarantined,
    /// A person has set the setting.
    #[error("it was set by hand")]
    SetByHand,
    /// The new value is outside of the range, equal to the old one, or not a number.
    #[error("the value is not one that the setting takes")]
    OutOfRange,
    /// The value would change by more than a factor of two.
    #[error("one step changes a value by at most a factor of two")]
    TooFar,
    /// The model is stale.
    #[error("the model is stale")]
    StaleModel,
    /// The lower end of the predicted gain is below 5 %.
    #[error("the lower end of the predicted gain is below 5 %")]
    TooLittle,
}

impl Proposal {
    /// Checks whether the proposal by itself may be tried.
    ///
    /// # Errors
    /// The first [`Refusal`] that applies.
    pub fn check(&self) -> Result<(), Refusal> {
        let (low, high) = self.range;
        if self.is_set_by_hand {
            return Err(Refusal::SetByHand);
        }
        if !(low..=high).contains(&self.new) || !self.old.is_finite() || self.new == self.old {
            return Err(Refusal::OutOfRange);
        }
        // No step from 0 or to 0 is small: the factor would be infinite.
        let is_near = self.old > 0.0 && (self.old / STEP_MAX..=self.old * STEP_MAX).contains(&self.new);
        if !is_near {
            return Err(Refusal::TooFar);
        }
        if self.is_model_stale {
            return Err(Refusal::StaleModel);
        }
        // A gain that is not finite does not count.
        if self.gain.low.is_finite() && self.gain.low >= GAIN_MIN { Ok(()) } else { Err(Refusal::TooLittle) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a proposal that passes.
    pub(in crate::decision) fn sound() -> Proposal {
        Proposal {
            setting: Setting::FlushDelay,
            old: 10.0,
            new: 20.0,
            range: (1.0, 1000.0),
            is_set_by_hand: false,
            gain: Gain { low: 0.05, expected: 0.1, high: 0.15 },
            model_hash: 7,
            is_model_stale: false,
        }
    }

    /// Goal: each rule refuses. Method: one fault at a time, on either side of its limit.
    #[test]
    fn each_rule_refuses() {
        let good = sound();
        let gain = |low| Gain { low, ..good.gain };
        assert_eq!(good.check(), Ok(()));
        assert_eq!(Proposal { new: 5.0, ..good }.check(), Ok(()));
        for (proposal, refusal) in [
            (Proposal { is_set_by_hand: true, ..good }, Refusal::SetByHand),
            (Proposal { range: (1.0, 19.0), ..good }, Refusal::OutOfRange),
            (Proposal { new: f64::NAN, ..good }, Refusal::OutOfRange),
            (Proposal { new: 10.0, ..good }, Refusal::OutOfRange),
            (Proposal { old: f64::NAN, ..good }, Refusal::OutOfRange),
            (Proposal { new: 20.1, ..good }, Refusal::TooFar),
            (Proposal { new: 4.9, ..good }, Refusal::TooFar),
            (Proposal { old: 0.0, ..good }, Refusal::TooFar),
            (Proposal { is_model_stale: true, ..good }, Refusal::StaleModel),
            (Proposal { gain: gain(0.049), ..good }, Refusal::TooLittle),
            (Proposal { gain: gain(f64::NAN), ..good }, Refusal::TooLittle),
            (Proposal { gain: gain(f64::INFINITY), ..good }, Refusal::TooLittle),
        ] {
            assert_eq!(proposal.check(), Err(refusal), "{proposal:?}");
        }
    }
}

//! [`Candidate`]: a change that was weighed, with the reason if it was not proposed: an operator needs it to see why a
//! server changes nothing.

use std::fmt;

use collie_train::decision::{Gain, Refusal, Setting};

use super::{
    effect::Change,
    forecast::{Forecast, NoPrediction, forecast},
    hands::Hands,
    knobs::Knobs,
    predictor::Predictor,
};

/// The factors by which a value is multiplied to be weighed.
const STEPS: [f64; 2] = [2.0, 0.5];

/// The outcome of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It is in the journal.
    Proposed,
    /// It is worth enough, but another one is worth more.
    WorthLess,
    /// The rules refuse it.
    Refused(Refusal),
    /// Models cannot predict its gain.
    NoPrediction(NoPrediction),
    /// Neither twice nor half the value is in the range of decisions.
    NoStep,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proposed => f.write_str("proposed"),
            Self::WorthLess => f.write_str("another change is worth more"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NoPrediction(unforetold) => unforetold.fmt(f),
            Self::NoStep => f.write_str("neither twice nor half the value is within what decisions may choose"),
        }
    }
}

/// See the module's documentation. Values are in us, bytes or a count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) setting: Setting,
    /// The current value.
    pub(super) old: f64,
    /// The value that was weighed; `None`: none was.
    pub(super) new: Option<f64>,
    /// The gain that models predict, if they do.
    pub(super) gain: Option<Gain>,
    pub(super) outcome: Outcome,
}

/// A change, and its forecast.
#[derive(Debug)]
pub(super) struct Weighed {
    pub(super) change: Change,
    pub(super) forecast: Forecast,
}

/// All changes by one step.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Those with a forecast, the largest gain first.
    pub(super) weighed: Vec<Weighed>,
    /// All others, by setting.
    pub(super) others: Vec<Candidate>,
}

impl Candidates {
    /// Weighs twice and half the value of every setting that the node has.
    pub(super) fn weigh(knobs: &dyn Knobs, hands: &Hands, predictor: &dyn Predictor) -> Self {
        let mut all = Self::default();
        for setting in Setting::ALL {
            let Some(old) = knobs.value(setting) else { continue };
            let other = |new, outcome| Candidate { setting, old, new, gain: None, outcome };
            if hands.hold(setting) {
                all.others.push(other(None, Outcome::Refused(Refusal::SetByHand)));
                continue;
            }
            let steps = steps(setting, old, knobs.range(setting));
            if steps.is_empty() {
                all.others.push(other(None, Outcome::NoStep));
            }
            for change in steps {
                match forecast(&change, predictor) {
                    Ok(forecast) => all.weighed.push(Weighed { change, forecast }),
                    Err(why) => all.others.push(other(Some(change.new), Outcome::NoPrediction(why))),
                }
            }
        }
        all.weighed.sort_by(|one, other| other.forecast.gain.low.total_cmp(&one.forecast.gain.low));
        all
    }
}

impl Weighed {
    /// Returns a candidate with this outcome.
    pub(super) fn candidate(&self, outcome: Outcome) -> Candidate {
        let Change { setting, old, new } = self.change;
        Candidate { setting, old, new: Some(new), gain: Some(self.forecast.gain), outcome }
    }
}

/// Returns the changes of a setting by one step that are within `low..=high`.
fn steps(setting: Setting, old: f64, (low, high): (f64, f64)) -> Vec<Change> {
    let change = |step: f64| Change { setting, old, new: (old * step).ceil() };
    let may_be = |change: &Change| (low..=high).contains(&change.new) && change.new >= old / 2.0 && change.new != old;
    STEPS.map(change).into_iter().filter(may_be).collect()
}

#[cfg(test)]
mod tests {
    use collie_env::SimFiles;

    use super::{
        super::world::{Models, World},
        *,
    };

    /// Goal: every setting of a node is weighed, or a reason is given, and the change with the largest gain comes
    /// first. Method: a simulated server: free settings, one that was set by hand, models that know one of two
    /// settings, and models that know none.
    #[test]
    fn every_setting_is_weighed_or_says_why_not() {
        let (world, hands) = (World::new(SimFiles::new(), 1, 0.0), Hands::default());
        let all = Candidates::weigh(&world, &hands, &Models::promise(0.2));
        let worth: Vec<_> = all.weighed.iter().map(|one| (one.change.setting, one.change.new)).collect();
        let (delay, bytes) = (Setting::FlushDelay, Setting::FlushBytes);
        // The flushes here are not ended by bytes, so a change of bytes has no gain, and half the delay is a loss.
        assert_eq!(worth[0], (delay, 20_000.0));
        assert_eq!(worth.last(), Some(&(delay, 5000.0)));
        assert_eq!((worth.len(), all.others.len()), (4, 0));
        assert!(worth.contains(&(bytes, 524_288.0)) && worth.contains(&(bytes, 2_097_152.0)), "{worth:?}");
        hands.note_given(["wal.flush_bytes"]);
        let all = Candidates::weigh(&world, &hands, &Models::promise(0.2));
        let by_hand = Candidate {
            setting: bytes,
            old: 1_048_576.0,
            new: None,
            gain: None,
            outcome: Outcome::Refused(Refusal::SetByHand),
        };
        assert_eq!((all.weighed.len(), &all.others[..]), (2, &[by_hand][..]));
        world.0.lock().values.insert(delay, 1e9);
        let all = Candidates::weigh(&world, &hands, &Models::promise(0.2));
        assert_eq!((all.weighed.len(), all.others[0].new, &all.others[0].outcome), (0, None, &Outcome::NoStep));
        world.0.lock().values.insert(delay, 30_000.0);
        let all = Candidates::weigh(&world, &hands, &Models::promise(0.2));
        assert_eq!(all.weighed.len(), 1, "60 ms are beyond the range");
    }

    /// Goal: outcomes are described in words. Method: one of each kind.
    #[test]
    fn outcomes_are_told() {
        for (outcome, words) in [
            (Outcome::Proposed, "proposed"),
            (Outcome::WorthLess, "another change is worth more"),
            (Outcome::Refused(Refusal::TooLittle), "the lower end of the predicted gain is below 5 %"),
            (Outcome::NoPrediction(NoPrediction::NoModel("SCAN")), "no model of SCAN is in use"),
            (Outcome::NoStep, "neither twice nor half the value is within what decisions may choose"),
        ] {
            assert_eq!(outcome.to_string(), words);
        }
    }
}

//! [`Forecast`]: the gain that models predict for a change, from the newest sampled calls.

use collie_obs::UnitSchema;
use collie_train::{
    UnitId,
    decision::{Gain, Moved, UnitForecast, predicted_gain},
    model::Prediction,
};
use thiserror::Error;

use super::{
    effect::{Change, Effect, Features, effects},
    predictor::{Call, Predictor, Recent},
};

/// The number of calls of a unit that are predicted: the newest ones.
const CALLS_MAX: usize = 64;
/// With fewer calls, a unit counts as unknown.
const CALLS_MIN: usize = 16;
/// The fraction of calls outside of the model's training ranges above which no decision is made.
const UNKNOWN_MAX: f64 = 0.1;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Forecast {
    /// The relative gain in throughput by the shorter time of these calls: half the time is a gain of 1.
    pub(super) gain: Gain,
    /// The package of the first unit's model.
    pub(super) model_hash: u64,
    /// A model of one of the units is stale.
    pub(super) is_stale: bool,
    /// Each unit, in the mean.
    pub(super) moved: Vec<Moved>,
}

/// The reason why models cannot predict the gain of a change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NoPrediction {
    /// Too few calls were sampled of all affected units.
    #[error("fewer than {CALLS_MIN} calls were sampled of {} within an hour", .0.join(", "))]
    TooFewCalls(Vec<&'static str>),
    /// There is no model of this unit, which is called.
    #[error("no model of {0} is in use")]
    NoModel(&'static str),
    /// Too many calls lie outside of the training ranges, before or after the change.
    #[error("{calls} of {of} calls of {unit} are beyond what its model has seen, as they are or would be")]
    Outside {
        /// The unit.
        unit: &'static str,
        /// The number of such calls.
        calls: usize,
        /// The number of all calls.
        of: usize,
    },
    /// The predictions add up to no number.
    #[error("what models say adds up to no number")]
    NoNumber,
}

/// A call before and after the change.
struct Predicted {
    before: Vec<f64>,
    after: Vec<f64>,
    calls_after: f64,
    weight: f64,
    old: Prediction,
    new: Prediction,
}

fn foretell(
    call: &Call,
    (unit, effect): (&UnitSchema, Effect),
    change: &Change,
    predictor: &dyn Predictor,
) -> Option<Predicted> {
    let mut after = call.features.clone();
    let calls_after = effect(&mut Features::new(unit, &mut after), change);
    let (old, new) = (predictor.predict(unit, &call.features)?, predictor.predict(unit, &after)?);
    (!old.clamped && !new.clamped).then(|| Predicted {
        before: call.features.clone(),
        after,
        calls_after,
        weight: call.weight,
        old,
        new,
    })
}

/// Returns a prediction of `calls` calls instead of one.
fn times(prediction: Prediction, calls: f64) -> Prediction {
    let Prediction { value, low, high, clamped } = prediction;
    Prediction { value: value * calls, low: low * calls, high: high * calls, clamped }
}

/// Returns the mean over calls, by their weights.
fn mean(calls: &[Predicted], of: impl Fn(&Predicted) -> f64) -> f64 {
    let weights: f64 = calls.iter().map(|call| call.weight).sum();
    calls.iter().map(|call| call.weight * of(call)).sum::<f64>() / weights
}

fn moved(unit: &UnitSchema, calls_per_s: f64, calls: &[Predicted]) -> Moved {
    let feature = |place: usize| {
        let at = |features: &[f64]| features.get(place).copied().unwrap_or(0.0);
        (mean(calls, |call| at(&call.before)), mean(calls, |call| at(&call.after)))
    };
    Moved {
        unit: UnitId::new(unit.id),
        calls_per_s: (calls_per_s, calls_per_s * mean(calls, |call| call.calls_after)),
        cost: (mean(calls, |call| call.old.value), mean(calls, |call| call.new.value)),
        features: (0..unit.features.len()).map(feature).collect(),
    }
}

/// Predicts the gain of `change`.
///
/// # Errors
/// The reason why it cannot be predicted.
pub(super) fn forecast(change: &Change, predictor: &dyn Predictor) -> Result<Forecast, NoPrediction> {
    let (mut units, mut all_moved, mut first_hash, mut is_stale) = (Vec::new(), Vec::new(), None, false);
    let concerned = effects(change.setting);
    for &(unit, effect) in &concerned {
        let Recent { calls_per_s, calls } = predictor.recent(unit);
        let newest = &calls[calls.len().saturating_sub(CALLS_MAX)..];
        let is_sound = |call: &&Call| call.features.len() == unit.features.len() && call.weight > 0.0;
        let newest: Vec<&Call> = newest.iter().filter(is_sound).collect();
        if newest.len() < CALLS_MIN || calls_per_s <= 0.0 {
            continue; // a unit without calls costs nothing
        }
        let hash = predictor.model_hash(unit).ok_or(NoPrediction::NoModel(unit.name))?;
        let foretold: Vec<Predicted> =
            newest.iter().filter_map(|call| foretell(call, (unit, effect), change, predictor)).collect();
        let outside = newest.len() - foretold.len();
        if outside as f64 > UNKNOWN_MAX * newest.len() as f64 {
            return Err(NoPrediction::Outside { unit: unit.name, calls: outside, of: newest.len() });
        }
        first_hash = first_hash.or(Some(hash));
        is_stale |= predictor.is_stale(unit);
        let weights: f64 = foretold.iter().map(|call| call.weight).sum();
        units.extend(foretold.iter().map(|call| UnitForecast {
            calls_per_s: calls_per_s * call.weight / weights,
            old: call.old,
            new: times(call.new, call.calls_after),
        }));
        all_moved.push(moved(unit, calls_per_s, &foretold));
    }
    let names = || concerned.iter().map(|(unit, _)| unit.name).collect();
    let model_hash = first_hash.ok_or_else(|| NoPrediction::TooFewCalls(names()))?;
    let gain = predicted_gain(&units).ok_or(NoPrediction::NoNumber)?;
    Ok(Forecast { gain, model_hash, is_stale, moved: all_moved })
}

#[cfg(test)]
mod tests {
    use collie_train::decision::Setting;

    use super::*;

    /// Flushes of the log that take 1 ms and 1 us for each 100 bytes, and that the delay ends.
    #[derive(Debug)]
    struct Flushes {
        calls: usize,
        /// The number of calls that are outside of the model's training ranges.
        unknown: usize,
        has_model: bool,
    }

    fn flush(stream_bytes: f64) -> Vec<f64> {
        vec![stream_bytes, 0.0, 1.0, 10_000.0, 1.0, 0.0]
    }

    impl Predictor for Flushes {
        fn recent(&self, unit: &UnitSchema) -> Recent {
            if unit.name != "LOG_FLUSH" {
                return Recent::default();
            }
            let call = |at| Call { features: flush(if at < self.unknown { 1e9 } else { 100_000.0 }), weight: 2.0 };
            Recent { calls_per_s: 100.0, calls: (0..self.calls).map(call).collect() }
        }

        fn predict(&self, _: &UnitSchema, features: &[f64]) -> Option<Prediction> {
            let value = 1e6 + features[0] * 10.0;
            let (low, high) = (value * 0.9, value * 1.1);
            (features[0] < 1e8).then_some(Prediction { value, low, high, clamped: false })
        }

        fn model_hash(&self, _: &UnitSchema) -> Option<u64> {
            self.has_model.then_some(7)
        }

        fn is_stale(&self, _: &UnitSchema) -> bool {
            true
        }
    }

    const CHANGE: Change = Change { setting: Setting::FlushDelay, old: 10_000.0, new: 20_000.0 };

    /// Goal: the forecast is the arithmetic of the calls: half as many flushes with twice the bytes. Method: a known
    /// model; the gain by hand: 2 ms a hundred times against 3 ms fifty times.
    #[test]
    fn a_forecast_is_of_all_calls_of_a_second() {
        let forecast = forecast(&CHANGE, &Flushes { calls: 40, unknown: 0, has_model: true }).unwrap();
        assert!((forecast.gain.expected - (200.0 / 150.0 - 1.0)).abs() < 1e-9, "{:?}", forecast.gain);
        assert!(forecast.gain.low > 0.28 && forecast.gain.low < forecast.gain.expected);
        assert_eq!((forecast.model_hash, forecast.is_stale), (7, true));
        let [moved] = &forecast.moved[..] else { panic!("{:?}", forecast.moved) };
        assert_eq!((moved.calls_per_s, moved.cost), ((100.0, 50.0), (2e6, 3e6)));
        assert_eq!((moved.features[0], moved.features[3]), ((1e5, 2e5), (10_000.0, 20_000.0)));
    }

    /// Goal: no decision is based on unknown calls, and the reason is given. Method: no model, too few calls, no calls,
    /// and calls outside of the training ranges: a tenth of them and one more.
    #[test]
    fn what_is_not_known_is_not_foretold() {
        let why = |calls, unknown, has_model| forecast(&CHANGE, &Flushes { calls, unknown, has_model }).map(|_| ());
        assert_eq!(why(40, 4, true), Ok(()));
        assert_eq!(why(40, 5, true), Err(NoPrediction::Outside { unit: "LOG_FLUSH", calls: 5, of: 40 }));
        assert_eq!(why(40, 0, false), Err(NoPrediction::NoModel("LOG_FLUSH")));
        let too_few = Err(NoPrediction::TooFewCalls(vec!["LOG_FLUSH"]));
        assert_eq!((why(15, 0, true), why(0, 0, true)), (too_few.clone(), too_few));
        let other = Change { setting: Setting::GcInterval, ..CHANGE };
        let unknown = forecast(&other, &Flushes { calls: 40, unknown: 0, has_model: true }).unwrap_err();
        let words = "fewer than 16 calls were sampled of GC_TICK, ROW_READ, SCAN within an hour";
        assert_eq!(unknown.to_string(), words);
    }
}

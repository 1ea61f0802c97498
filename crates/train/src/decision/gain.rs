//! `Gain`: the value of a change as the models predict it.

use crate::model::Prediction;

/// The share by which throughput grows, 0.1 for 10 %, with an interval of nine tenths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The lower end.
    pub low: f64,
    /// The expected gain.
    pub expected: f64,
    /// The upper end.
    pub high: f64,
}

/// The predictions for one unit under the old and the new value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitForecast {
    /// Calls per second.
    pub calls_per_s: f64,
    /// The cost of a call under the old value.
    pub old: Prediction,
    /// The cost of a call under the new value.
    pub new: Prediction,
}

/// Returns half the width of the interval, in ln.
fn width_ln(prediction: &Prediction) -> f64 {
    (prediction.high / prediction.low).ln() / 2.0
}

/// Sums the costs of the units under both values. The errors of different predictions are taken as independent, each in
/// proportion to its share of the cost.
///
/// Returns `None` if there are no units, or if a prediction was clamped or is not a cost: no decision is based on
/// those.
pub fn predicted_gain(units: &[UnitForecast]) -> Option<Gain> {
    let is_sound = |prediction: &Prediction| {
        !prediction.clamped && prediction.low > 0.0 && prediction.value.is_finite() && prediction.high.is_finite()
    };
    if units.iter().any(|unit| !is_sound(&unit.old) || !is_sound(&unit.new)) {
        return None;
    }
    let cost = |of: fn(&UnitForecast) -> Prediction| -> (f64, f64) {
        let total: f64 = units.iter().map(|unit| unit.calls_per_s * of(unit).value).sum();
        let share = |unit: &UnitForecast| unit.calls_per_s * of(unit).value / total;
        let variance = units.iter().map(|unit| (share(unit) * width_ln(&of(unit))).powi(2)).sum();
        (total, variance)
    };
    let ((old, old_variance), (new, new_variance)) = (cost(|unit| unit.old), cost(|unit| unit.new));
    let gain_ln = (old / new).ln();
    let width_ln = (old_variance + new_variance).sqrt();
    let gain = |ln: f64| ln.exp() - 1.0;
    let found = Gain { low: gain(gain_ln - width_ln), expected: gain(gain_ln), high: gain(gain_ln + width_ln) };
    (found.low.is_finite() && found.high.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(value: f64, width: f64) -> Prediction {
        Prediction { value, low: value / width, high: value * width, clamped: false }
    }

    /// Goal: a change that halves the cost doubles the throughput. Method: certain predictions, wide ones, and several
    /// units.
    #[test]
    fn gain_is_old_cost_by_new_cost() {
        let unit =
            |width| UnitForecast { calls_per_s: 100.0, old: prediction(2.0, width), new: prediction(1.0, width) };
        let sure = predicted_gain(&[unit(1.0)]).unwrap();
        assert_eq!((sure.low, sure.expected, sure.high), (1.0, 1.0, 1.0));
        let wide = predicted_gain(&[unit(1.5)]).unwrap();
        let factor = (1.5_f64.ln() * 2.0_f64.sqrt()).exp();
        assert!((wide.low - (2.0 / factor - 1.0)).abs() < 1e-9 && (wide.high - (2.0 * factor - 1.0)).abs() < 1e-9);
        let many = predicted_gain(&[unit(1.5); 16]).unwrap();
        assert!(many.low > wide.low && (many.expected - 1.0).abs() < 1e-9, "errors of many units cancel");
    }

    /// Goal: an unsound prediction gives no gain. Method: each kind of unsound prediction.
    #[test]
    fn unsound_predictions_give_no_gain() {
        let good = UnitForecast { calls_per_s: 1.0, old: prediction(2.0, 1.1), new: prediction(1.0, 1.1) };
        assert_eq!(predicted_gain(&[]), None);
        let clamped = UnitForecast { new: Prediction { clamped: true, ..good.new }, ..good };
        assert_eq!(predicted_gain(&[good, clamped]), None);
        let absent = UnitForecast { new: Prediction { value: f64::NAN, ..good.new }, ..good };
        assert_eq!(predicted_gain(&[absent]), None);
        let infinite = UnitForecast { calls_per_s: f64::INFINITY, ..good };
        assert_eq!(predicted_gain(&[infinite]), None);
    }
}

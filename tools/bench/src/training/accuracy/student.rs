//! `at_most`: Student's t distribution, for the degrees of freedom that the blocks of a run give.
//!
//! For whole degrees of freedom these are finite sums (Abramowitz and Stegun, 26.7.3 and 26.7.4), without special
//! functions.

use std::f64::consts::FRAC_2_PI;

/// Returns the probability that a value of Student's t distribution with `degrees` degrees of freedom, at least one,
/// is at most `t`. An infinite `t` gives 0 or 1; NaN gives NaN.
pub(super) fn at_most(t: f64, degrees: u32) -> f64 {
    assert!(degrees > 0, "a spread comes from at least two values");
    // The probability of the values nearer to 0 than `t`, on both sides.
    let nearer = within(t.abs(), degrees);
    0.5 + t.signum() * nearer / 2.0
}

/// Returns the probability of values in `-t..=t`.
fn within(t: f64, degrees: u32) -> f64 {
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = degrees % 2 == 1;
    // The first term of the series, and the number after which its factors begin.
    let (mut term, first) = if is_odd { (cosine, 1) } else { (1.0, 0) };
    let terms = if is_odd { (degrees - 1) / 2 } else { degrees / 2 };
    let mut sum = 0.0;
    for at in 0..terms {
        sum += term;
        let number = f64::from(first + 2 * at + 1);
        term *= cosine * cosine * number / (number + 1.0);
    }
    if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [f64; 6] = [0.0, 0.1, 0.5, 1.0, 2.5, 40.0];

    fn check(degrees: u32, closed: fn(f64) -> f64) {
        for t in PLACES {
            for (t, expected) in [(t, closed(t)), (-t, 1.0 - closed(t))] {
                let found = at_most(t, degrees);
                assert!((found - expected).abs() < 1e-12, "{degrees} degrees, {t}: {found}, not {expected}");
            }
        }
    }

    /// Goal: the distribution is Student's. Method: the closed forms for one to five degrees of freedom at six points
    /// on both sides.
    #[test]
    fn few_degrees_equal_their_closed_forms() {
        use std::f64::consts::PI;
        check(1, |t| 0.5 + t.atan() / PI);
        check(2, |t| 0.5 + t / (2.0 * (2.0 + t * t).sqrt()));
        check(3, |t| {
            let x = t / 3.0_f64.sqrt();
            0.5 + (x / (1.0 + x * x) + x.atan()) / PI
        });
        check(4, |t| {
            let x = t / (1.0 + t * t / 4.0).sqrt();
            0.5 + 0.375 * x * (1.0 - x * x / 12.0)
        });
        check(5, |t| {
            let x = t / 5.0_f64.sqrt();
            let y = 1.0 + x * x;
            0.5 + (x / y * (1.0 + 2.0 / (3.0 * y)) + x.atan()) / PI
        });
    }

    /// Goal: quantiles match printed tables, and many degrees approach the normal distribution. Method: three 95 %
    /// quantiles to the digits of the tables; 4000 degrees at 1.96.
    #[test]
    fn quantiles_equal_printed_tables() {
        for (degrees, quantile) in [(9, 1.833), (19, 1.729), (30, 1.697)] {
            assert!((at_most(quantile, degrees) - 0.95).abs() < 1e-4, "{degrees} degrees");
        }
        assert!((at_most(1.959_964, 4000) - 0.975).abs() < 1e-4);
        for degrees in [7, 8] {
            assert!((at_most(f64::INFINITY, degrees) - 1.0).abs() < 1e-12);
            assert!(at_most(f64::NEG_INFINITY, degrees).abs() < 1e-12);
        }
        assert!(at_most(f64::NAN, 3).is_nan());
    }
}

//! Split conformal intervals (Papadopoulos et al., 2002; Lei et al., 2018): the error of a model, estimated from rows
//! to which it was not fitted.

/// The nominal share of new samples inside their intervals.
pub const COVERAGE: f64 = 0.9;

/// Returns the ceil((n + 1) 0.9)-th smallest absolute value of `residuals`; `None` if there are too few.
pub fn conformal_quantile(residuals: &[f64]) -> Option<f64> {
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let rank = crate::numbers::count_of(((sizes.len() + 1) as f64 * COVERAGE).ceil());
    sizes.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;

    use super::*;
    use crate::numbers::unit_interval;

    /// Goal: the rank is that of the method. Method: residuals whose size is their number.
    #[test]
    fn quantile_is_of_the_documented_rank() {
        let residuals: Vec<f64> = (1..=99).map(|n| if n % 2 == 0 { f64::from(n) } else { -f64::from(n) }).collect();
        assert_eq!(conformal_quantile(&residuals), Some(90.0));
        assert_eq!(conformal_quantile(&residuals[..9]), Some(9.0));
        assert_eq!(conformal_quantile(&residuals[..8]), None, "the tenth of nine");
        assert_eq!(conformal_quantile(&[]), None);
    }

    /// Goal: about nine tenths of new residuals are inside, also for a distribution that is not normal. Method: 2,000
    /// skewed residuals, 10,000 new ones, five seeds.
    #[test]
    fn intervals_hold_nine_tenths() {
        for seed in 1..=5 {
            let chance = SimRandom::new(seed);
            let residual = || -unit_interval(&chance).max(1e-12).ln() - 0.5;
            let known: Vec<f64> = (0..2000).map(|_| residual()).collect();
            let quantile = conformal_quantile(&known).unwrap();
            let inside = (0..10_000).filter(|_| residual().abs() <= quantile).count();
            assert!((8800..9200).contains(&inside), "seed {seed}: {inside} of 10,000");
        }
    }
}

//! `table`: every policy under every disturbance, over seeds.

use super::Disturbance;
use super::load::Load;
use super::recovery::recovery_s;
use super::run::run;
use crate::policy::{Bound, Grant, Settings, Signals};

/// One policy under one disturbance, over all seeds.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The share of the windows that were out of bound.
    pub out_share: f64,
    /// The share of the offered collection that was done.
    pub kept_share: f64,
    /// The effective number of samples, weighted by 1 / p, as a share of the commits (Kish, 1965).
    pub effective_share: f64,
    /// The mean delay without collection, in us.
    pub without_us: f64,
    /// The excess of windows above their limit, summed over a run, in milliseconds times seconds.
    pub violation_ms_s: f64,
    /// The longest time from an end of the disturbance until five consecutive windows were inside, in seconds; infinite
    /// if the run was not back in time. `None` for a disturbance that does not end.
    pub recovery_s: Option<f64>,
}

const EMPTY: Cell = Cell {
    out_share: 0.0,
    kept_share: 0.0,
    effective_share: 0.0,
    without_us: 0.0,
    violation_ms_s: 0.0,
    recovery_s: None,
};

/// A policy as a function of signals.
pub type Tick = Box<dyn FnMut(&Signals) -> Grant>;

/// Runs every policy under every disturbance with every seed; rows are policies, columns [`Disturbance::ALL`].
///
/// `start` returns the policy of a number in its first state. `offered_us` is the collection work that a commit can
/// cause. The default bound of [`Settings`] decides which windows are out. Pure. Cost: about a tenth of a second per
/// seed, and a hundredth for each policy.
pub fn table(seeds: &[u64], offered_us: f64, policies: usize, start: &dyn Fn(usize) -> Tick) -> Vec<Vec<Cell>> {
    let bound = Settings::default().bound;
    let runs = seeds.len() as f64;
    let column = |kind: Disturbance| {
        let mut cells = vec![EMPTY; policies];
        for seed in seeds {
            let arrivals = Load::new(*seed).arrivals(kind);
            let without = run(kind, &arrivals, offered_us, &mut |_| Grant::NONE);
            for (row, cell) in cells.iter_mut().enumerate() {
                let mut policy = start(row);
                let with = run(kind, &arrivals, offered_us, &mut *policy);
                let windows = with.windows_us.len() as f64;
                let (is_out, violation_ms_s) = judge(&bound, &with.windows_us, &without.windows_us);
                cell.out_share += is_out.iter().filter(|is_out| **is_out).count() as f64 / windows / runs;
                cell.kept_share += with.kept_share / runs;
                cell.effective_share += with.effective_share / runs;
                cell.without_us += without.windows_us.iter().sum::<f64>() / windows / runs;
                cell.violation_ms_s += violation_ms_s / runs;
                cell.recovery_s = recovery_s(&is_out, &kind.calms_ms()).map(|s| cell.recovery_s.unwrap_or(0.0).max(s));
            }
        }
        cells
    };
    let columns = Disturbance::ALL.map(column);
    (0..policies).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

/// Returns which windows were out, and the sum of their excess, in ms times seconds. The delays are means of windows in
/// us.
fn judge(bound: &Bound, with_us: &[f64], without_us: &[f64]) -> (Vec<bool>, f64) {
    let pairs = || with_us.iter().zip(without_us);
    let is_out = pairs().map(|(with, without)| bound.is_out(*with, *without)).collect();
    let above_us: f64 = pairs().map(|(with, without)| (with - bound.limit_us(*without)).max(0.0)).sum();
    (is_out, above_us / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: windows are judged in pairs. Method: a window inside by the floor, one inside by the share, and one out by
    /// 9 ms.
    #[test]
    fn windows_are_judged_against_the_same_second_without() {
        let bound = Bound { share: 0.1, floor_us: 1000.0 };
        let (is_out, above) = judge(&bound, &[1_900.0, 109_000.0, 20_000.0], &[1_000.0, 100_000.0, 10_000.0]);
        assert_eq!((is_out, above), (vec![false, false, true], 9.0));
    }
}

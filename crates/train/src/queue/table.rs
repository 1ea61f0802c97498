//! `table`: every policy under every disturbance, over seeds.

use super::Disturbance;
use super::load::Load;
use super::recovery::recovery_s;
use super::run::run;
use crate::policy::{Bound, Grant, Settings, Signals};

/// One policy under one disturbance, over all seeds.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Part of the windows that were out of bound.
    pub out_share: f64,
    /// Part of the offered collection that was done.
    pub kept_share: f64,
    /// For which part of the commits the samples count, once they are weighted by 1 / p (Kish, 1965).
    pub effective_share: f64,
    /// Mean delay without collection, in us.
    pub without_us: f64,
    /// By how much windows were above their limit, summed over a run: milliseconds times seconds.
    pub violation_ms_s: f64,
    /// The longest time from an end of the disturbance until five windows in a row were inside, in seconds; infinite: it was not back in
    /// time. None of a disturbance that does not end.
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

/// A policy that is ticked with signals.
pub type Tick = Box<dyn FnMut(&Signals) -> Grant>;

/// Runs every policy under every disturbance with every seed; rows are policies, columns [`Disturbance::ALL`].
///
/// `start` makes a policy by its number in its first state. `offered_us` is the collection work that a commit could give rise to. A window
/// is out by the bound that [`Settings`] have by default. Pure. Cost: about a tenth of a second per seed, and a hundredth per policy more.
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

/// Returns which windows were out, and by how much all of them together, in ms times seconds. Delays are means of windows in us.
fn judge(bound: &Bound, with_us: &[f64], without_us: &[f64]) -> (Vec<bool>, f64) {
    let pairs = || with_us.iter().zip(without_us);
    let is_out = pairs().map(|(with, without)| bound.is_out(*with, *without)).collect();
    let above_us: f64 = pairs().map(|(with, without)| (with - bound.limit_us(*without)).max(0.0)).sum();
    (is_out, above_us / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: windows are judged in pairs. Method: one inside by the floor, one by the share, and one out by 9 ms.
    #[test]
    fn windows_are_judged_against_the_same_second_without() {
        let bound = Bound { share: 0.1, floor_us: 1000.0 };
        let (is_out, above) = judge(&bound, &[1_900.0, 109_000.0, 20_000.0], &[1_000.0, 100_000.0, 10_000.0]);
        assert_eq!((is_out, above), (vec![false, false, true], 9.0));
    }
}

//! Compares windows of one run with the same windows of a run without collection. Pure.
//!
//! Windows of one second, in quick runs of a tenth of that, are counted from the begin of each phase. The recovery is
//! measured in steps of a fifth of a second from the end of the disturbance on.

use collie_train::policy::Settings;
use collie_train::queue::settled;

use super::course::{Delay, Observed, Phase};
use crate::measures::{float, median};
use crate::txn::count_of;

/// The length of a step after a disturbance, in ns.
pub(super) const STEP_NS: u64 = 200_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The consecutive steps inside the bound that prove a recovery.
pub(super) const SETTLED_STEPS: usize = 3;

/// Median delays of one phase, in us; `None` where the replica was not connected, or nothing was committed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Medians {
    pub(super) windows: Vec<Option<f64>>,
    /// The length of a window.
    window_ns: u64,
    /// From the end of the disturbance on.
    pub(super) steps: Vec<Option<f64>>,
    /// Of the whole phase.
    pub(super) all: Option<f64>,
}

/// Returns the median of the delays at the looks, each of which covers the commits since the previous one.
fn median_of(delays: &[Delay], from_ns: u64, until_ns: u64) -> Option<f64> {
    let within = || delays.iter().filter(|delay| (from_ns..until_ns).contains(&delay.at_ns));
    let all: Vec<f64> = within().filter_map(|delay| delay.us).collect();
    (!all.is_empty() && within().all(|delay| delay.is_connected)).then(|| median(&all))
}

/// Divides `from_ns..until_ns` into whole parts, and returns the median of each.
fn parts(delays: &[Delay], from_ns: u64, until_ns: u64, part_ns: u64) -> Vec<Option<f64>> {
    let count = until_ns.saturating_sub(from_ns) / part_ns;
    (0..count).map(|part| median_of(delays, from_ns + part * part_ns, from_ns + (part + 1) * part_ns)).collect()
}

impl Medians {
    pub(super) fn of(delays: &[Delay], phase: &Phase, window_ns: u64) -> Self {
        let Phase { begun_ns, over_ns, ended_ns, .. } = *phase;
        Self {
            windows: parts(delays, begun_ns, ended_ns, window_ns),
            window_ns,
            steps: parts(delays, over_ns, ended_ns, STEP_NS),
            all: median_of(delays, begun_ns, ended_ns),
        }
    }
}

/// Returns the medians of each phase of a run.
pub(super) fn medians(of: &Observed) -> Vec<Medians> {
    of.phases.iter().map(|phase| Medians::of(&of.delays, phase, of.window_ns)).collect()
}

/// The result for one phase of a run, or for several together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) windows: usize,
    /// The number of windows that were out of bound.
    pub(super) out: usize,
    /// The number of windows without a median in one of both runs.
    pub(super) unknown: usize,
    /// The sum of the excess of windows over their limit, in ms times seconds.
    pub(super) violation_ms_s: f64,
    /// The time until recovery in seconds, infinite if there was none; a step without a median is not inside.
    pub(super) recovery_s: f64,
}

impl Verdict {
    /// Judges a phase against the same phase without collection.
    pub(super) fn of(with: &Medians, without: &Medians) -> Self {
        let bound = Settings::default().bound;
        let mut this = Self::default();
        for pair in with.windows.iter().zip(&without.windows) {
            let (Some(with_us), Some(without_us)) = pair else {
                this.unknown += 1;
                continue;
            };
            this.windows += 1;
            this.out += usize::from(bound.is_out(*with_us, *without_us));
            let over_ms = (with_us - bound.limit_us(*without_us)).max(0.0) / 1000.0;
            this.violation_ms_s += over_ms * float(with.window_ns) / float(SECOND_NS);
        }
        let is_out = |(with, without): (&Option<f64>, &Option<f64>)| match (with, without) {
            (Some(with), Some(without)) => bound.is_out(*with, *without),
            _ => true,
        };
        let out: Vec<bool> = with.steps.iter().zip(&without.steps).map(is_out).collect();
        let back = settled(&out, SETTLED_STEPS);
        this.recovery_s = back.map_or(f64::INFINITY, |steps| count_of(steps) * float(STEP_NS) / float(SECOND_NS));
        this
    }

    /// Merges another verdict: the longer recovery counts.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            windows: self.windows + other.windows,
            out: self.out + other.out,
            unknown: self.unknown + other.unknown,
            violation_ms_s: self.violation_ms_s + other.violation_ms_s,
            recovery_s: self.recovery_s.max(other.recovery_s),
        }
    }

    /// Returns the share of windows that were out, in percent; `None` if none could be judged.
    pub(super) fn out_pct(&self) -> Option<f64> {
        (self.windows > 0).then(|| 100.0 * count_of(self.out) / count_of(self.windows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(of: impl Fn(u64) -> Option<f64>) -> Vec<Delay> {
        (0..175).map(|at| Delay { at_ns: 7 + at * 20_000_000, is_connected: true, us: of(at * 20) }).collect()
    }

    const PHASE: Phase = Phase { begun_ns: 7, over_ns: 1_000_000_007, ended_ns: 3_500_000_007 };

    /// Goal: windows count from the begin of a phase, steps from the end of its disturbance; looks without commits do
    /// not count, and a window in which the replica was disconnected is unknown. Method: a delay that equals its
    /// second; a look without a commit in the second, and one without a replica in the third.
    #[test]
    fn delays_are_cut_by_phase() {
        let mut delays = delays(|ms| (ms != 1_500).then_some(ms as f64 / 1000.0));
        delays[125].is_connected = false;
        let medians = Medians::of(&delays, &PHASE, SECOND_NS);
        assert_eq!(medians.windows.len(), 3);
        let [first, second, third] = medians.windows[..] else { panic!("three") };
        assert!((first.unwrap() - 0.49).abs() < 1e-9 && (second.unwrap() - 1.48).abs() < 1e-9 && third.is_none());
        assert_eq!(medians.steps.len(), 12);
        assert!((medians.steps[0].unwrap() - 1.09).abs() < 1e-9 && medians.steps[7].is_none());
        assert_eq!((medians.all, median_of(&[], 0, 9)), (None, None));
    }

    /// Goal: windows are judged by the same window without collection, and a recovery counts where the delay stays
    /// low. Method: a run that is 9 ms above its limit for 1.4 s after the disturbance, compared with itself and with
    /// a calm one; one that never recovers; one without data.
    #[test]
    fn a_run_is_judged_by_the_same_run_without() {
        let calm = Medians::of(&delays(|_| Some(500.0)), &PHASE, SECOND_NS);
        let late = Medians::of(
            &delays(|ms| Some(if (1_000..2_400).contains(&ms) { 10_500.0 } else { 500.0 })),
            &PHASE,
            SECOND_NS,
        );
        assert_eq!(Verdict::of(&late, &late).out_pct(), Some(0.0));
        let verdict = Verdict::of(&late, &calm);
        assert_eq!((verdict.windows, verdict.out, verdict.unknown), (3, 1, 0), "most of the third was in time");
        assert!((verdict.recovery_s - 1.4).abs() < 1e-9, "{verdict:?}");
        // The second window is 9 ms above its limit of 1.5 ms.
        assert!((verdict.violation_ms_s - 9.0).abs() < 1e-6, "{verdict:?}");
        let never = Medians::of(&delays(|_| Some(10_500.0)), &PHASE, SECOND_NS);
        assert_eq!(Verdict::of(&never, &calm).recovery_s, f64::INFINITY);
        let silent = Verdict::of(&Medians::of(&delays(|_| None), &PHASE, SECOND_NS), &calm);
        assert_eq!((silent.out_pct(), silent.unknown, silent.recovery_s), (None, 3, f64::INFINITY));
        let shorter = |delays: &[Delay]| Medians::of(delays, &PHASE, SECOND_NS / 10);
        let tenths = Verdict::of(&shorter(&delays(|_| Some(10_500.0))), &shorter(&delays(|_| Some(500.0))));
        assert!(tenths.windows == 35 && (tenths.violation_ms_s - 3.5 * 9.0).abs() < 1e-6, "{tenths:?}");
        let both = verdict.and(silent);
        assert_eq!((both.windows, both.out, both.unknown, both.recovery_s), (3, 1, 3, f64::INFINITY));
    }
}

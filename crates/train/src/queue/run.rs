//! `Run`: one run of the queue under a policy.

use super::load::Arrivals;
use super::{Disturbance, RUN_MS, WINDOW_MS};
use crate::policy::{Grant, Signals, TICK_US};

/// The delay of an empty queue: the transfer over the network.
const TRANSPORT_MS: f64 = 0.1;

/// The results of one run.
pub(super) struct Run {
    /// The mean delay of each window, in us.
    pub(super) windows_us: Vec<f64>,
    /// The share of the offered collection that was done.
    pub(super) kept_share: f64,
    /// The effective number of samples as a share of all commits: (sum of weights)^2 / sum of squared weights, with
    /// weights of 1 / p.
    pub(super) effective_share: f64,
}

/// Runs the queue under `tick`, whose grant decides the share of `offered_us` that is collected with each commit of the
/// next tick.
pub(super) fn run(
    kind: Disturbance,
    arrivals: &[Arrivals],
    offered_us: f64,
    tick: &mut dyn FnMut(&Signals) -> Grant,
) -> Run {
    let (mut queue_us, mut share, mut peak_per_s) = (0.0_f64, 0.0, 0.0_f64);
    let (mut busy_us, mut spent_us, mut delay_sum_ms, mut commits) = (0.0, 0.0, 0.0, 0.0);
    let (mut window_sum_ms, mut kept_us, mut all_us) = (0.0, 0.0, 0.0);
    let (mut weights, mut squares) = (0.0, 0.0);
    let mut windows_us = Vec::with_capacity(RUN_MS / WINDOW_MS);
    for (at_ms, arrived) in arrivals.iter().enumerate() {
        let capacity_us = kind.capacity_us(at_ms);
        let collecting_us = share * offered_us * arrived.commits;
        queue_us += arrived.work_us + collecting_us;
        let done_us = queue_us.min(capacity_us);
        queue_us -= done_us;
        let delay_ms = queue_us / 1000.0 + TRANSPORT_MS;
        // By the wall clock, a throttled or stalled worker is busy for as long as there is work.
        busy_us += if capacity_us > 0.0 {
            done_us * 1000.0 / capacity_us
        } else {
            1000.0 * f64::from(u8::from(queue_us > 0.0))
        };
        spent_us += collecting_us;
        kept_us += collecting_us;
        all_us += offered_us * arrived.commits;
        if share > 0.0 {
            weights += arrived.commits;
            squares += arrived.commits / share;
        }
        commits += arrived.commits;
        delay_sum_ms += delay_ms;
        window_sum_ms += delay_ms;
        if at_ms % 100 == 99 {
            let commits_per_s = commits * 1e6 / TICK_US;
            // The sources estimate their rate as P6 does: it rises at once and falls slowly.
            peak_per_s = commits_per_s.max(0.9 * peak_per_s + 0.1 * commits_per_s);
            let offered_us_per_s = peak_per_s * offered_us;
            let signals = Signals {
                delay_us: Some(delay_sum_ms * 10.0),
                age_us: delay_ms * 1000.0,
                commits_per_s,
                busy_us,
                spent_us,
                offered_us_per_s,
                ..Signals::default()
            };
            share = tick(&signals).share(offered_us_per_s);
            (busy_us, spent_us, delay_sum_ms, commits) = (0.0, 0.0, 0.0, 0.0);
        }
        if at_ms % WINDOW_MS == WINDOW_MS - 1 {
            windows_us.push(window_sum_ms * 1000.0 / WINDOW_MS as f64);
            window_sum_ms = 0.0;
        }
    }
    let effective = if squares > 0.0 { weights * weights / squares } else { 0.0 };
    Run { windows_us, kept_share: kept_us / all_us, effective_share: effective * offered_us / all_us }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::load::Load;

    /// Goal: delay, work done and effective samples follow the grants. Method: no grant, everything, and half and a
    /// quarter alternately, for which the effective number is known: two halves of the commits with weights 2 and 4.
    #[test]
    fn a_run_counts_what_was_granted() {
        let arrivals = Load::new(5).arrivals(Disturbance::Steady);
        let mut ticks = 0;
        let mut under = |grant: &mut dyn FnMut(u32) -> f64| {
            run(Disturbance::Steady, &arrivals, 2.0, &mut |signals| {
                ticks += 1;
                Grant { collect_us_per_s: grant(ticks) * signals.offered_us_per_s }
            })
        };
        let none = under(&mut |_| 0.0);
        let all = under(&mut |_| 1.0);
        let turns = under(&mut |tick| if tick % 2 == 0 { 0.5 } else { 0.25 });
        assert_eq!((none.kept_share, none.effective_share), (0.0, 0.0));
        // The first tick comes before the first grant.
        assert!((0.995..1.0).contains(&all.kept_share) && (all.effective_share - all.kept_share).abs() < 1e-9);
        assert!((turns.kept_share - 0.375).abs() < 0.003, "{}", turns.kept_share);
        assert!((turns.effective_share - 1.0 / 3.0).abs() < 0.003, "{}", turns.effective_share);
        let mean = |run: &Run| run.windows_us.iter().sum::<f64>() / run.windows_us.len() as f64;
        assert_eq!(none.windows_us.len(), 120);
        assert!(mean(&none) < mean(&turns) && mean(&turns) < mean(&all));
    }
}

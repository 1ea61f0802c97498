//! Figures and targets of the runs of a policy.

use collie_train::policy::{Halt, PolicyKind};

use super::course::{Observed, Reading};
use super::disturbance::Disturbance;
use super::judge::{Medians, Verdict, medians};
use crate::measures::per_s;
use crate::replication::PairSettings;
use crate::report::{Figure, Row};
use crate::training::arms::policy_name;
use crate::training::bootstrap::{Interval, paired_ratios};
use crate::txn::count_of;
use crate::{Pace, Spread};

/// The targets: the share of windows inside the bound under every disturbance, and the recovery time after a burst.
const INSIDE_PCT_MIN: f64 = 99.0;
pub(super) const RECOVERY_S_MAX: f64 = 2.0;

/// One run of a policy, phase by phase, and the run that it is compared with.
struct Paired {
    with: Vec<Medians>,
    without: Vec<Medians>,
}

/// Pairs the runs of a policy with those without collection. The latter are paired with the next one each; their
/// differences are by chance.
fn pairs(policy: PolicyKind, runs: &[Observed], without: &[Observed]) -> Vec<Paired> {
    let shift = usize::from(policy == PolicyKind::Nothing);
    let all: Vec<Vec<Medians>> = without.iter().map(medians).collect();
    if shift > 0 && runs.len() < 2 {
        return Vec::new();
    }
    let paired = |(run, of): (usize, &Observed)| {
        let other = all.get((run + shift) % all.len().max(1)).cloned().unwrap_or_default();
        Paired { with: medians(of), without: other }
    };
    runs.iter().enumerate().map(paired).collect()
}

fn of_seconds(recovery_s: f64) -> Figure {
    if recovery_s.is_infinite() { Figure::Absent("not back in time") } else { Figure::Runs(Spread::of(&[recovery_s])) }
}

/// Adds the verdicts of several runs of the same phases.
fn with_verdicts(row: Row, verdicts: &[Verdict]) -> Row {
    let Some(all) = verdicts.iter().copied().reduce(Verdict::and) else {
        return row.figure("windows_out_pct", Figure::Absent("one run only"));
    };
    let count = |count: usize| Figure::Count(count as u64);
    let out = all.out_pct().map_or(Figure::Absent("nothing said"), |pct| Figure::Runs(Spread::of(&[pct])));
    row.figure("windows", count(all.windows))
        .figure("windows_out_pct", out)
        .figure("windows_unknown", count(all.unknown))
        .figure("violation_ms_s", Figure::Runs(Spread::of(&[all.violation_ms_s / count_of(verdicts.len())])))
        .figure("recovery_max_s", of_seconds(all.recovery_s))
}

/// Adds median delays, and their ratios to those without collection.
fn with_delays(row: Row, with: &[Option<f64>], without: &[Option<f64>], seed: u64) -> Row {
    let known: Vec<(f64, f64)> = with.iter().zip(without).filter_map(|(with, without)| (*with).zip(*without)).collect();
    let (with, without): (Vec<f64>, Vec<f64>) = known.into_iter().unzip();
    if with.is_empty() {
        return row.figure("delay_us", Figure::Absent("nothing said"));
    }
    let ratio = Interval::of(&paired_ratios(&with, &without), seed);
    row.runs("delay_us", &with)
        .figure("delay_ratio_ci95", ratio.map_or(Figure::Absent("no delay without"), |ratio| ratio.figure()))
}

/// Returns a policy's rows: one over all disturbances, and one for each disturbance.
pub(super) fn rows(
    policy: PolicyKind,
    runs: &[Observed],
    without: &[Observed],
    ring: &'static str,
    seed: u64,
) -> Vec<Row> {
    let pairs = pairs(policy, runs, without);
    let mut rows = Vec::new();
    let (mut inside, mut recovery_s) = (true, None);
    for (place, kind) in Disturbance::ALL.into_iter().enumerate() {
        let of = |medians: &Vec<Medians>| medians.get(place).cloned();
        let phases: Vec<(Medians, Medians)> =
            pairs.iter().filter_map(|pair| of(&pair.with).zip(of(&pair.without))).collect();
        let verdicts: Vec<Verdict> = phases.iter().map(|(with, without)| Verdict::of(with, without)).collect();
        if let Some(all) = verdicts.iter().copied().reduce(Verdict::and) {
            inside &= all.out_pct().is_some_and(|pct| 100.0 - pct >= INSIDE_PCT_MIN);
            if kind == Disturbance::Burst {
                recovery_s = Some(all.recovery_s);
            }
        }
        let [with, without] = [|pair: &(Medians, Medians)| pair.0.all, |pair: &(Medians, Medians)| pair.1.all]
            .map(|of: fn(&(Medians, Medians)) -> Option<f64>| phases.iter().map(of).collect::<Vec<_>>());
        let row = with_verdicts(Row::new(policy_name(policy), kind.name(), "disk", ring), &verdicts);
        rows.push(with_delays(row, &with, &without, seed));
    }
    let together: Vec<Verdict> = pairs
        .iter()
        .filter_map(|pair| {
            let all = pair.with.iter().zip(&pair.without).map(|(with, without)| Verdict::of(with, without));
            all.reduce(Verdict::and)
        })
        .collect();
    let flat = |of: fn(&Paired) -> &Vec<Medians>| -> Vec<Option<f64>> {
        pairs.iter().flat_map(of).map(|medians| medians.all).collect()
    };
    let row = with_verdicts(Row::new(policy_name(policy), "all of them", "disk", ring), &together);
    let row = with_delays(row, &flat(|pair| &pair.with), &flat(|pair| &pair.without), seed);
    let (row, granted) = with_readings(row, runs);
    rows.insert(
        0,
        if policy == PolicyKind::Headroom {
            row.target(format!(">= {INSIDE_PCT_MIN} % of windows inside under every one"), inside)
                .target(
                    format!("back <= {RECOVERY_S_MAX} s after a burst"),
                    recovery_s.is_some_and(|s| s <= RECOVERY_S_MAX),
                )
                .target("nothing is granted in a halt", granted == 0)
        } else {
            row
        },
    );
    rows
}

fn is_halt(reading: &Reading) -> bool {
    Halt::ALL.iter().any(|halt| halt.word() == reading.state)
}

/// Adds the replica's own reports, and the results of the load. Also returns how often work was granted during a halt.
fn with_readings(row: Row, runs: &[Observed]) -> (Row, usize) {
    let readings = || runs.iter().flat_map(|run| &run.readings);
    let granted = readings().filter(|reading| is_halt(reading) && reading.grant_us_per_s > 0.0).count();
    let each = |of: &dyn Fn(&Observed) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    // The increase of counts that start at the replica's start.
    let added = |of: &dyn Fn(&Reading) -> f64| {
        each(&|run: &Observed| match (run.readings.first(), run.readings.last()) {
            (Some(first), Some(last)) => (of(last) - of(first)).max(0.0),
            _ => 0.0,
        })
    };
    let counted = |column: usize| added(&|reading: &Reading| reading.windows[column] as f64);
    let seconds = each(&|run| {
        let phases = (run.phases.first(), run.phases.last());
        phases.0.zip(phases.1).map_or(1.0, |(first, last)| crate::measures::float(last.ended_ns - first.begun_ns) / 1e9)
    });
    let by_second = |values: Vec<f64>| -> Vec<f64> {
        values.into_iter().zip(&seconds).map(|(value, seconds)| value / seconds.max(1e-3)).collect()
    };
    let halted = each(&|run| 100.0 * part(&run.readings, is_halt));
    let grants = each(&|run| {
        run.readings.iter().map(|reading| reading.grant_us_per_s).sum::<f64>() / count_of(run.readings.len().max(1))
    });
    let row = row
        .runs("own_windows", &counted(0))
        .runs("own_out", &counted(1))
        .runs("own_unknown", &counted(2))
        .runs("halted_pct", &halted)
        .runs("granted_us_per_s", &grants)
        .runs("spent_us_per_s", &by_second(added(&|reading| reading.spent_us)))
        .runs("samples_kept", &each(&|run| run.kept.samples))
        .runs("n_eff", &each(&|run| run.kept.effective))
        .runs("txn_per_s", &each(&|run| per_s(run.run.tally.ended(), run.run.ns)));
    (row, granted)
}

fn part(readings: &[Reading], is_so: impl Fn(&Reading) -> bool) -> f64 {
    count_of(readings.iter().filter(|reading| is_so(reading)).count()) / count_of(readings.len().max(1))
}

/// Returns notes about how the figures were made.
pub(super) fn notes(settings: &PairSettings) -> Vec<String> {
    let mut notes = vec![
        "a window of 1 s is out when its median delay, as the primary measures it, is above max(1.1 D0, D0 + 1 ms), D0 being that of the same window \
         in the run without collection that has the same requests; runs without collection are judged by each other, the next one each: \
         what is out there is by chance"
            .to_owned(),
        "recovery: from the end of a disturbance until three steps of 0.2 s in a row were inside, the longest of all runs; own_*: windows that \
         the replica judged by the bound it had measured, of all runs the middle one; halted: of looks at the policy, ten a second"
            .to_owned(),
        "samples_kept: what the replica's files have of a run by the time at which samples were taken; n_eff: of each unit's (sum w)^2 / sum w^2, \
         w = 1 / p, at most 100, summed over units"
            .to_owned(),
        "the replica follows through a relay of the benchmark's process, under every policy; network stall: it passes nothing on for 200 ms, \
         in neither direction, then all of it; slow disk: the replica's whole process stands still for 60 ms of every second, which is more \
         than a disk would stop; ramp and 90 % load: a second load of the same kind beside the first, whose transactions txn_per_s does not count"
            .to_owned(),
    ];
    if settings.plan.pace != Pace::Full {
        notes.push("phases and windows are a tenth as long as at full pace: figures mean nothing".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::kept::Kept;
    use crate::training::policies::course::{Delay, Phase};
    use crate::training::recorded::Window;
    use collie_workload::Run;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns a run in which `us` gives the delay from a phase's index and the time since its begin, in ms.
    fn observed(us: impl Fn(usize, u64) -> f64, readings: Vec<Reading>) -> Observed {
        let phase = |place: usize| {
            let begun_ns = place as u64 * 3 * SECOND_NS;
            Phase { begun_ns, over_ns: begun_ns + SECOND_NS, ended_ns: begun_ns + 3 * SECOND_NS }
        };
        let phases: Vec<Phase> = (0..Disturbance::ALL.len()).map(phase).collect();
        let delay = |at: u64| {
            let (place, ms) = (usize::try_from(at / 150).unwrap(), at % 150 * 20);
            Delay { at_ns: at * 20_000_000, is_connected: true, us: Some(us(place, ms)) }
        };
        let delays = (0..Disturbance::ALL.len() as u64 * 150).map(delay).collect();
        let (run, kept) = (Run { ns: SECOND_NS, ..Run::default() }, Kept { samples: 90.0, effective: 45.0 });
        Observed { phases, delays, readings, run, during: Window::default(), kept, window_ns: SECOND_NS }
    }

    fn reading(state: &str, grant_us_per_s: f64, out: i64) -> Reading {
        Reading { state: state.to_owned(), grant_us_per_s, windows: [10 + out, out, 0], spent_us: 1000.0 * out as f64 }
    }

    fn met(rows: &[Row]) -> Vec<bool> {
        rows[0].targets.iter().map(|target| target.met).collect()
    }

    /// Goal: targets cover the worst disturbance, the burst, and every look at the policy. Method: a harmless policy;
    /// one that is late under the hog alone; one after the burst alone; one that grants work during a halt.
    #[test]
    fn targets_are_of_each_disturbance() {
        let calm = || observed(|_, _| 500.0, vec![reading("collecting", 9.0, 0), reading("far", 0.0, 2)]);
        let without = [calm(), calm()];
        let of = |with: Observed| rows(PolicyKind::Headroom, &[with], &without, "-", 1);
        let good = of(calm());
        assert_eq!((good.len(), met(&good)), (Disturbance::ALL.len() + 1, vec![true, true, true]));
        assert_eq!((good[0].median("own_out"), good[0].median("halted_pct")), (Some(2.0), Some(50.0)));
        assert_eq!((good[0].median("samples_kept"), good[0].median("n_eff")), (Some(90.0), Some(45.0)));
        assert_eq!((good[0].median("windows"), good[0].median("delay_ratio_ci95")), (Some(33.0), Some(1.0)));
        let hog = Disturbance::ALL.iter().position(|kind| *kind == Disturbance::Hog).unwrap();
        let late = of(observed(|place, ms| if place == hog && ms < 1_000 { 9_000.0 } else { 500.0 }, vec![]));
        assert_eq!(
            (met(&late), late[hog + 1].median("windows_out_pct").map(f64::round)),
            (vec![false, true, true], Some(33.0))
        );
        let burst = Disturbance::ALL.iter().position(|kind| *kind == Disturbance::Burst).unwrap();
        let slow = of(observed(|place, ms| if place == burst && ms > 2_000 { 9_000.0 } else { 500.0 }, vec![]));
        assert_eq!(met(&slow), [false, true, true], "it is back before, and late again");
        let never = of(observed(|place, ms| if place == burst && ms >= 1_000 { 9_000.0 } else { 500.0 }, vec![]));
        assert_eq!(met(&never), [false, false, true]);
        assert_eq!(met(&of(observed(|_, _| 500.0, vec![reading("silent", 1.0, 0)]))), [true, true, false]);
    }

    /// Goal: runs without collection are judged by each other, not by themselves. Method: one that is 9 ms late in
    /// every phase, with a calm one; a single one.
    #[test]
    fn runs_without_collection_are_judged_by_the_next() {
        let runs = [observed(|_, _| 500.0, vec![]), observed(|_, _| 9_500.0, vec![])];
        let row = &rows(PolicyKind::Nothing, &runs, &runs, "-", 1)[0];
        assert_eq!(row.median("windows_out_pct"), Some(50.0), "the second by the first, not the first by the second");
        assert!(row.targets.is_empty());
        let alone = &rows(PolicyKind::Nothing, &runs[..1], &runs[..1], "-", 1)[0];
        assert!(matches!(alone.figures[0], ("windows_out_pct", Figure::Absent(_))), "{:?}", alone.figures);
    }
}

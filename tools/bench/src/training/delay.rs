//! How far is a replica behind over time, with collection off, always on, and under the policy? At four fifths of the
//! knee, in windows. Figure 5.2 of the thesis with arms.
//!
//! A window is a second. It is out if its median delay is above B: a tenth more than that of the run of the same
//! number without collection, or a millisecond more, whichever is more. A look covers the commits since the previous
//! one; a window without commits does not count. The share of windows that are out when each run without collection is
//! compared with the next one shows what no policy can meet.

use super::arms::{Collecting, loaded_pair, with_samples};
use super::bootstrap::{Interval, in_balanced_order, paired_ratios};
use super::cores::two_cores;
use super::knee::knee;
use crate::Section;
use crate::measures::{median, per_s};
use crate::replication::PairSettings;
use crate::replication::rate::{Watched, at_rate, delays};
use crate::replication::watch::Sample;
use crate::report::{Figure, Row};
use crate::txn::count_of;

/// The share of the knee without collection.
const SHARE: f64 = 0.8;
/// The factor by which a run is longer than those of other questions.
const LONGER: u32 = 5;
/// The defaults of `training.collection_delay_bound` and `training.collection_delay_floor`.
const BOUND_SHARE: f64 = 0.1;
const BOUND_FLOOR_US: f64 = 1_000.0;
/// The target: P6 has at least this share of its windows inside.
const INSIDE_MIN: f64 = 0.99;
const SECOND_NS: u64 = 1_000_000_000;

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let long = PairSettings { time: settings.time * LONGER, ..settings.clone() };
    let mut section = Section::new(
        "time",
        format!(
            "how far is a replica that collects behind over time? (TPC-C, {} warehouses, {} % of the knee without collection, begun by chance, \
             commits on disk, {} runs of {} s in balanced order; delay by the primary's clock, in windows of a second)",
            settings.warehouses,
            SHARE * 100.0,
            settings.runs,
            long.time.as_secs_f64()
        ),
    );
    let pair = loaded_pair(settings, two_cores(), &mut section)?;
    Collecting::Nothing.begin(settings, &pair)?;
    let knees = (0..settings.runs.min(3)).map(|run| knee(&pair, settings, run)).collect::<anyhow::Result<Vec<_>>>()?;
    let asked = SHARE * median(&knees);
    let watched = in_balanced_order(Collecting::ALL.len(), settings.runs, |arm, run| {
        let collecting = Collecting::ALL[arm];
        settings.plan.say(&format!("time: {}, run {} of {}", collecting.name(), run + 1, settings.runs));
        collecting.begin(settings, &pair)?;
        with_samples(&pair, || at_rate(&pair, &long, run, asked))
    })?;
    let samples: Vec<Vec<f64>> =
        watched.iter().map(|runs| runs.iter().map(|(_, samples)| *samples).collect()).collect();
    let watched: Vec<Vec<Watched>> =
        watched.into_iter().map(|runs| runs.into_iter().map(|(watched, _)| watched).collect()).collect();
    Collecting::Nothing.begin(settings, &pair)?;
    pair.check(settings, &mut section)?;
    let known = |of: &Watched| {
        let windows = windows(&of.samples, of.run.from_ns, |sample| sample.behind.and_then(|behind| behind.us));
        windows.into_iter().flatten().collect::<Vec<f64>>()
    };
    let windows: Vec<Vec<Vec<f64>>> = watched.iter().map(|runs| runs.iter().map(known).collect()).collect();
    for (arm, collecting) in Collecting::ALL.into_iter().enumerate() {
        let row = Row::new(collecting.name(), format!("{} % of the knee", SHARE * 100.0), "disk", pair.ring());
        let row = row.at(asked).runs("asked_per_s", &[asked]).runs("samples", &samples[arm]);
        section.rows.push(figures(settings, row, collecting, [&windows[arm], &windows[0]], &watched[arm]));
    }
    Ok(section)
}

/// Returns the median delay of each second since `from_ns`, in microseconds; `None` for a second in which `delay`
/// returns none.
pub(crate) fn windows(samples: &[Sample], from_ns: u64, delay: impl Fn(&Sample) -> Option<f64>) -> Vec<Option<f64>> {
    let mut all: Vec<Vec<f64>> = Vec::new();
    for sample in samples {
        let Some(us) = delay(sample) else { continue };
        let second = usize::try_from(sample.at_ns.saturating_sub(from_ns) / SECOND_NS).expect("seconds of a run");
        if all.len() <= second {
            all.resize(second + 1, Vec::new());
        }
        all[second].push(us);
    }
    all.into_iter().map(|of| middle(&of)).collect()
}

fn middle(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

/// Returns B for a delay without collection of `without_us`.
fn bound_us(without_us: f64) -> f64 {
    ((1.0 + BOUND_SHARE) * without_us).max(without_us + BOUND_FLOOR_US)
}

/// Returns the share of the windows of all runs that are inside, comparing each run with the one without collection
/// that is `shift` runs later; `None` if there are none.
fn inside(with: &[Vec<f64>], without: &[Vec<f64>], shift: usize) -> Option<f64> {
    let (mut all, mut inside) = (0_usize, 0_usize);
    for (with, without) in with.iter().zip(without.iter().cycle().skip(shift)) {
        let Some(without_us) = middle(without) else { continue };
        all += with.len();
        inside += with.iter().filter(|us| **us <= bound_us(without_us)).count();
    }
    (all > 0).then(|| count_of(inside) / count_of(all))
}

fn figures(
    settings: &PairSettings,
    row: Row,
    collecting: Collecting,
    [with, without]: [&[Vec<f64>]; 2],
    runs: &[Watched],
) -> Row {
    let row = row
        .runs("txn_per_s", &runs.iter().map(|of| per_s(of.run.tally.ended(), of.run.ns)).collect::<Vec<_>>())
        .figure("backlog_txns", Figure::Count(runs.iter().map(|of| of.run.backlog).max().unwrap_or(0)));
    let mut row = delays(row, &runs.iter().map(|of| &of.samples[..]).collect::<Vec<_>>());
    // Each run without collection is compared with the next one: windows that are out there are out by chance.
    let is_baseline = collecting == Collecting::Nothing;
    let share = if is_baseline && with.len() < 2 { None } else { inside(with, without, usize::from(is_baseline)) };
    row = match share {
        Some(share) => row.runs("windows_inside_share", &[share]),
        None => row.figure("windows_inside_share", Figure::Absent("not said")),
    };
    if collecting == Collecting::Nothing {
        return row;
    }
    let medians = |runs: &[Vec<f64>]| runs.iter().map(|of| middle(of).unwrap_or(0.0)).collect::<Vec<_>>();
    if let Some(interval) = Interval::of(&paired_ratios(&medians(with), &medians(without)), settings.seed) {
        row = row.figure("delay_ratio_ci95", interval.figure()).beside("collection off", interval.median);
    }
    if collecting == Collecting::Headroom {
        row = row.target("99 % of windows inside B", share.is_some_and(|share| share >= INSIDE_MIN));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::pair::Behind;

    fn sample(ms: u64, us: Option<f64>) -> Sample {
        Sample { at_ns: 1_000 + ms * 1_000_000, behind: Some(Behind { us, bytes: 0.0 }), seen_us: 0.0 }
    }

    /// Goal: a window is the median of a second, and one without a known delay has none. Method: samples of four
    /// seconds, the second of which has no delay and the third no sample.
    #[test]
    fn windows_are_seconds() {
        let samples = [sample(100, Some(10.0)), sample(900, Some(30.0)), sample(1_500, None), sample(3_000, Some(5.0))];
        let clock = |sample: &Sample| sample.behind.and_then(|behind| behind.us);
        assert_eq!(windows(&samples, 1_000, clock), [Some(20.0), None, None, Some(5.0)]);
        assert_eq!(windows(&[], 1_000, clock), [] as [Option<f64>; 0]);
    }

    /// Goal: B is a tenth more or a millisecond more, and a run is judged by the baseline with its number. Method:
    /// both sides of 10 ms; two runs with different baselines; one without a baseline.
    #[test]
    fn windows_are_inside_the_bound_of_their_run() {
        assert_eq!((bound_us(500.0), bound_us(20_000.0).round()), (1_500.0, 22_000.0));
        let with = [vec![1_400.0, 1_600.0], vec![2_900.0, 3_000.0], vec![9.0]];
        let without = [vec![400.0, 600.0], vec![2_000.0], vec![]];
        assert_eq!(inside(&with, &without, 0), Some(0.75));
        assert_eq!(inside(&[vec![]], &[vec![1.0]], 0), None);
        let runs = [vec![400.0, 500.0], vec![1_450.0, 1_600.0]];
        assert_eq!(inside(&runs, &runs, 1), Some(0.75), "each by the next");
    }
}

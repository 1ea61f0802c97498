//! Does a replica that measures itself fall further and further behind? First a replica that replays transactions one
//! by one in the order of their begin, as the thesis' system does, at 70 % of its replay rate, without and with a
//! sampler that makes six system calls for each sample of everything; then Collie's replica at the same rate with the
//! same sampler, governed by its policy. Figure 1.1 of the thesis.

use super::arms::{Collecting, with_samples};
use super::bootstrap::{Interval, in_balanced_order, paired_ratios};
use super::cores::{note_cores, two_cores};
use super::delay::windows;
use super::knee::knee;
use super::live::{Node, set_samples};
use super::naive::Naive;
use super::settings::TrainingSettings;
use crate::Section;
use crate::measures::{median, per_s};
use crate::replication::ReplicationSettings;
use crate::replication::pair::{self, Arm, Launch, Pair};
use crate::replication::rate::{GROWTH_US, Watched, at_rate, delays};
use crate::replication::watch::{growth_us, prepare};
use crate::report::{Figure, Row, Series};
use crate::servers::BESIDE_SAMPLES;
use crate::txn::count_of;

/// The share of the replay rate of the replica that replays by begin.
const SHARE: f64 = 0.7;
/// The factor by which a run is longer than those of other questions, so that growth shows.
const LONGER: u32 = 5;
/// The extra work of Collie's replica for each sample.
const DEAR: [&str; 2] = [BESIDE_SAMPLES, "six-calls:1"];

/// The measurements of one row.
struct Arms {
    pair: Pair,
    what: [&'static str; 2],
    /// By arm: without and with the sampler.
    watched: Vec<Vec<Watched>>,
}

pub(crate) fn measure(settings: &TrainingSettings) -> anyhow::Result<Section> {
    let long = ReplicationSettings { time: settings.time * LONGER, ..settings.replication() };
    let pairs = (settings.runs / 2).max(1);
    let mut section = Section::new(
        "fig-1-1",
        format!(
            "does a replica that measures itself fall ever further behind? (TPC-C, {} warehouses, {} % of what a replica replays that does so by \
             begin, begun by chance, {pairs} pairs of runs of {} s, in turn off-on-on-off; delay as a client sees it)",
            settings.warehouses,
            SHARE * 100.0,
            long.time.as_secs_f64()
        ),
    );
    let cores = two_cores();
    let (thesis, asked) = by_begin(settings, &long, pairs, cores, &mut section)?;
    arm_rows(settings, &thesis, asked, &mut section);
    // Its replica is this process, so it must end before the next pair is measured.
    drop(thesis);
    let ours = governed(settings, &long, pairs, cores, asked, &mut section)?;
    arm_rows(settings, &ours, asked, &mut section);
    note_cores(&mut section, cores);
    section.notes.push(
        "the replica by begin replays in the benchmark's process, which has every core: its load is beside it, and its sampler is that process'"
            .to_owned(),
    );
    Ok(section)
}

/// Measures the replica that replays by begin; returns its runs, and the requested rate.
fn by_begin(
    settings: &TrainingSettings,
    long: &ReplicationSettings,
    pairs: u32,
    cores: Option<[usize; 2]>,
    section: &mut Section,
) -> anyhow::Result<(Arms, f64)> {
    let replication = settings.replication();
    let pair = pair::launch(&replication, Arm::Thesis, Launch { cores, ..Launch::default() })?;
    pair.load(&replication)?;
    let _look_us = prepare(&pair, &replication)?;
    let knees = (0..pairs.min(3)).map(|run| knee(&pair, &replication, run)).collect::<anyhow::Result<Vec<_>>>()?;
    let asked = SHARE * median(&knees);
    let (mut taken, mut lost, mut what) = (0, 0, String::new());
    let watched = in_balanced_order(2, pairs, |arm, run| {
        let state = if arm == 1 { "every call sampled" } else { "nothing sampled" };
        settings.plan.say(&format!("fig-1-1: by begin, {state}: run {} of {pairs}", run + 1));
        let naive = (arm == 1).then(Naive::start).transpose()?;
        let watched = at_rate(&pair, long, run, asked);
        if let Some(naive) = naive {
            what.clone_from(&naive.what);
            let (new, new_lost) = naive.end();
            (taken, lost) = (taken + new, lost + new_lost);
        }
        watched
    })?;
    pair.check(&replication, section)?;
    section.notes.push(format!("replay by begin: {taken} samples were taken, {lost} lost; {what}"));
    Ok((Arms { pair, what: ["nothing sampled", "every call, six system calls"], watched }, asked))
}

/// Measures Collie's replica with the same sampler, under its policy, at the same rate.
fn governed(
    settings: &TrainingSettings,
    long: &ReplicationSettings,
    pairs: u32,
    cores: Option<[usize; 2]>,
    asked: f64,
    section: &mut Section,
) -> anyhow::Result<Arms> {
    let replication = settings.replication();
    let replica = DEAR.iter().map(|word| (*word).to_owned()).collect();
    let pair = pair::launch(&replication, Arm::Collie, Launch { replica, cores, ..Launch::default() })?;
    pair.load(&replication)?;
    let _look_us = prepare(&pair, &replication)?;
    set_samples(&settings.plan, &pair, Node::Replica, true)?;
    let (arms, mut taken) = ([Collecting::Nothing, Collecting::Headroom], 0.0);
    let watched = in_balanced_order(arms.len(), pairs, |arm, run| {
        settings.plan.say(&format!("fig-1-1: collie, {}: run {} of {pairs}", arms[arm].name(), run + 1));
        arms[arm].begin(settings, &pair)?;
        let (watched, samples) = with_samples(&pair, || at_rate(&pair, long, run, asked))?;
        taken += samples;
        Ok(watched)
    })?;
    Collecting::Nothing.begin(settings, &pair)?;
    pair.check(&replication, section)?;
    section.notes.push(format!("collie: {taken:.0} samples were taken, under P6"));
    Ok(Arms { pair, what: ["collection off (P0)", "headroom (P6), six system calls"], watched })
}

fn arm_rows(settings: &TrainingSettings, arms: &Arms, asked: f64, section: &mut Section) {
    let means = |runs: &[Watched]| {
        let mean = |of: &Watched| {
            of.samples.iter().map(|sample| sample.seen_us).sum::<f64>() / count_of(of.samples.len().max(1))
        };
        runs.iter().map(mean).collect::<Vec<_>>()
    };
    for (arm, (what, runs)) in arms.what.iter().zip(&arms.watched).enumerate() {
        let growths: Vec<f64> = runs.iter().map(|of| growth_us(&of.samples)).collect();
        let row = Row::new(arms.pair.name(), *what, "disk", arms.pair.ring())
            .runs("asked_per_s", &[asked])
            .runs("txn_per_s", &runs.iter().map(|of| per_s(of.run.tally.ended(), of.run.ns)).collect::<Vec<_>>());
        let mut row = delays(row, &runs.iter().map(|of| &of.samples[..]).collect::<Vec<_>>())
            .runs("growth_us", &growths)
            .figure("backlog_txns", Figure::Count(runs.iter().map(|of| of.run.backlog).max().unwrap_or(0)));
        if arm == 1 {
            let ratios = paired_ratios(&means(runs), &means(&arms.watched[0]));
            if let Some(interval) = Interval::of(&ratios, settings.seed) {
                row = row.figure("delay_ratio_ci95", interval.figure()).beside(arms.what[0], interval.median);
            }
            if arms.pair.has_targets() {
                row = row.target("the delay does not grow", median(&growths) <= GROWTH_US);
            }
        }
        section.rows.push(row);
        section.series.push(Series {
            subject: format!("{}, {what}", arms.pair.name()),
            key: "delay_second_us",
            points: seconds(runs),
        });
    }
}

/// Returns the mean delay of each second, over all runs.
fn seconds(runs: &[Watched]) -> Vec<(f64, f64)> {
    let mut all: Vec<Vec<f64>> = Vec::new();
    for of in runs {
        for (second, us) in windows(&of.samples, of.run.from_ns, |sample| Some(sample.seen_us)).into_iter().enumerate()
        {
            if all.len() <= second {
                all.resize(second + 1, Vec::new());
            }
            all[second].extend(us);
        }
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / count_of(values.len().max(1));
    let seconds = all.iter().enumerate().filter(|(_, values)| !values.is_empty());
    seconds.map(|(second, values)| (count_of(second) + 0.5, mean(values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::watch::Sample;
    use collie_workload::Run;

    /// Goal: a second covers all runs, and one without a look is left out. Method: two runs, the second one a second
    /// longer with no sample in its second second.
    #[test]
    fn seconds_are_of_all_runs() {
        let of = |samples: &[(u64, f64)]| Watched {
            run: Run { from_ns: 0, ..Run::default() },
            samples: samples
                .iter()
                .map(|&(ms, seen_us)| Sample { at_ns: ms * 1_000_000, behind: None, seen_us })
                .collect(),
        };
        let runs = [of(&[(100, 2.0), (200, 4.0)]), of(&[(900, 9.0), (2_500, 7.0)])];
        assert_eq!(seconds(&runs), [(0.5, 6.0), (2.5, 7.0)]);
    }
}

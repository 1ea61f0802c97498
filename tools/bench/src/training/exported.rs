//! How much throughput does it cost to export a number of metrics? Every call is sampled and each sample exported
//! several times, by Collie's sampler and by one that makes six system calls. Figure 5.3 of the thesis, which looked
//! for the number at which its own system loses the 11 % that PostgreSQL lost with its metrics on.

use collie_workload::Pacing;

use super::bootstrap::{Interval, in_balanced_order, paired_ratios};
use super::cores::{note_cores, two_cores};
use super::live::{Collected, Node, set_samples};
use super::overhead::said;
use super::settings::TrainingSettings;
use super::usage::Usage;
use crate::Section;
use crate::measures::{float, median, micros, per_s};
use crate::replication::pair::{self, Arm, Launch};
use crate::report::{Figure, Row};
use crate::servers::{BESIDE_SAMPLES, SAMPLE_EVERYTHING};

/// How often each sample is exported.
const TIMES: [u32; 5] = [1, 3, 10, 30, 90];
/// The shorter list for a test that it works.
const FEW_TIMES: [u32; 2] = [1, 10];
/// The loss of throughput in percent that PostgreSQL's metrics caused in the thesis.
const LOSS_PERCENT: f64 = 11.0;
/// The names of the samplers in tables and on the command line.
const KINDS: [(&str, &str); 2] = [("collie's sampler", "own"), ("six system calls", "six-calls")];

/// One number of exports.
#[derive(Clone, Copy, Debug)]
struct Point {
    metrics_per_txn: f64,
    loss_percent: f64,
}

pub(crate) fn measure(settings: &TrainingSettings) -> anyhow::Result<Section> {
    let pairs = (settings.runs / 2).max(1);
    let mut section = Section::new(
        "fig-5-3",
        format!(
            "what does it cost to export so many metrics? (TPC-C, {} warehouses, {} clients, flat out, every call sampled, each sample exported \
             up to {} times; {pairs} pairs of runs of {} s for each, in turn off-on-on-off)",
            settings.warehouses,
            settings.clients,
            TIMES[TIMES.len() - 1],
            settings.time.as_secs_f64()
        ),
    );
    let cores = two_cores();
    for (kind, word) in KINDS {
        let times = if settings.small { &FEW_TIMES[..] } else { &TIMES[..] };
        let points = times
            .iter()
            .map(|times| one_number(settings, (kind, word, *times), pairs, cores, &mut section))
            .collect::<anyhow::Result<Vec<_>>>()?;
        section.notes.push(match crossing(&points, LOSS_PERCENT) {
            Some(metrics) => format!(
                "{kind}: {LOSS_PERCENT} % of throughput are lost at {} {metrics:.0} metrics a transaction",
                if points[0].loss_percent >= LOSS_PERCENT { "no more than" } else { "about" }
            ),
            None => format!("{kind}: {LOSS_PERCENT} % of throughput are lost at none of these numbers"),
        });
    }
    note_cores(&mut section, cores);
    Ok(section)
}

/// Measures one number of exports on a separate server.
fn one_number(
    settings: &TrainingSettings,
    (kind, word, times): (&str, &str, u32),
    pairs: u32,
    cores: Option<[usize; 2]>,
    section: &mut Section,
) -> anyhow::Result<Point> {
    let replication = settings.replication();
    // Collie's own sample is the first; the other sampler runs once in addition to it from the start.
    let beside = if word == "own" { times - 1 } else { times };
    let primary = vec![SAMPLE_EVERYTHING.to_owned(), BESIDE_SAMPLES.to_owned(), format!("{word}:{beside}")];
    let launch = Launch { name: kind.to_owned(), primary, cores, alone: true, ..Launch::default() };
    let pair = pair::launch(&replication, Arm::Collie, launch)?;
    pair.load(&replication)?;
    let mut samples_per_txn = Vec::new();
    let ran = in_balanced_order(2, pairs, |arm, run| {
        let state = if arm == 1 { "on" } else { "off" };
        settings.plan.say(&format!("fig-5-3: {kind}, {times} times, {state}: run {} of {pairs}", run + 1));
        set_samples(&settings.plan, &pair, Node::Primary, arm == 1)?;
        let (collected, used) = (Collected::of(&pair, Node::Primary)?, Usage::of(pair.primary_process())?);
        let done = pair.drive(&replication, run, Pacing::FlatOut)?;
        anyhow::ensure!(done.tally.ended() > 0, "nothing ended in a run of {:?}", settings.time);
        let used = Usage::of(pair.primary_process())?.since(used);
        let collected = Collected::of(&pair, Node::Primary)?.since(collected);
        // Samples and processor time cover the whole run with its warm-up.
        let whole_ns = float(done.ns) + settings.warm_up.as_secs_f64() * 1e9;
        let count = float(done.tally.ended()) * whole_ns / float(done.ns.max(1));
        if arm == 1 {
            samples_per_txn.push((collected.samples + collected.lost) / count);
        }
        Ok((per_s(done.tally.ended(), done.ns), micros(used.cpu_ns) / count))
    })?;
    set_samples(&settings.plan, &pair, Node::Primary, false)?;
    pair.check(&replication, section)?;
    section.notes.extend(said(&pair, "beside each sample"));
    let each =
        |arm: usize, cpu: bool| ran[arm].iter().map(|(rate, used)| if cpu { *used } else { *rate }).collect::<Vec<_>>();
    let ratios = paired_ratios(&each(1, false), &each(0, false));
    let losses: Vec<f64> = ratios.iter().map(|ratio| 100.0 * (1.0 - ratio)).collect();
    let metrics_per_txn = median(&samples_per_txn) * f64::from(times);
    let mut row = Row::new(kind, format!("each {times} times"), "disk", pair.ring())
        .at(metrics_per_txn)
        .runs("metrics_per_txn", &[metrics_per_txn])
        .runs("txn_per_s", &each(1, false))
        .runs("without_txn_per_s", &each(0, false));
    let ratio_of_cpu = paired_ratios(&each(1, true), &each(0, true));
    for (key, values) in [("loss_percent_ci95", &losses), ("cpu_ratio_ci95", &ratio_of_cpu)] {
        let interval = Interval::of(values, settings.seed);
        row = row.figure(key, interval.map_or(Figure::Absent("no runs"), |interval| interval.figure()));
    }
    section.rows.push(row);
    Ok(Point { metrics_per_txn, loss_percent: if losses.is_empty() { 0.0 } else { median(&losses) } })
}

/// Returns the number of metrics per transaction at which the loss first reaches `percent`, interpolated between two
/// measured points linearly in their logarithms; `None` if it does not.
fn crossing(points: &[Point], percent: f64) -> Option<f64> {
    let at = points.iter().position(|point| point.loss_percent >= percent)?;
    let above = points[at];
    let Some(below) = at.checked_sub(1).map(|before| points[before]) else { return Some(above.metrics_per_txn) };
    let share = (percent - below.loss_percent) / (above.loss_percent - below.loss_percent);
    let [low, high] = [below, above].map(|point| point.metrics_per_txn.max(f64::MIN_POSITIVE).ln());
    Some((low + share * (high - low)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the number at which a loss is reached lies between the two points around it. Method: halfway in the
    /// logarithm; at the first; never.
    #[test]
    fn a_crossing_is_between_two_points() {
        let point = |metrics_per_txn, loss_percent| Point { metrics_per_txn, loss_percent };
        let points = [point(10.0, 1.0), point(1_000.0, 21.0), point(9_000.0, 50.0)];
        assert!((crossing(&points, 11.0).unwrap() - 100.0).abs() < 1e-6);
        assert_eq!((crossing(&points, 0.5), crossing(&points, 60.0)), (Some(10.0), None));
        assert_eq!(crossing(&[], 11.0), None);
    }
}

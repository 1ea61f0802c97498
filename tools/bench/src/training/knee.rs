//! Up to which rate does a replica keep up, and how far behind is it at each rate, with collection off, always on, and
//! under the policy? Figure 5.1 of the thesis with arms.
//!
//! The knee is the rate that primary and replica sustain together: the transactions of a run flat out, divided by its
//! time plus the time that the replica then took to catch up. So a replica that falls behind lowers it, and the slower
//! of the two determines it.

use collie_workload::Pacing;

use super::arms::{Collecting, loaded_pair, with_samples};
use super::bootstrap::{Interval, in_balanced_order, paired_ratios};
use super::cores::two_cores;
use crate::Section;
use crate::measures::{median, per_s};
use crate::replication::PairSettings;
use crate::replication::pair::Pair;
use crate::replication::rate::{Watched, at_rate, delays};
use crate::report::{Figure, Row};

/// Rates, in percent of the knee without collection.
const PERCENTS: [u32; 4] = [50, 70, 90, 100];
/// The largest share by which collecting may lower the knee.
const LOWER_MAX: f64 = 0.02;
/// Pairs of runs per run that watches the delay at each rate: there are many rates.
const PAIRS_PER_WATCHED: u32 = 5;

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "rate",
        format!(
            "which rate does a replica that collects follow? (TPC-C, {} warehouses, {} clients, commits on disk, {} runs of {} s in balanced \
             order; the knee: transactions by the time of a run flat out and until the replica was even; delays by arrival rate)",
            settings.warehouses,
            settings.clients,
            settings.runs,
            settings.time.as_secs_f64()
        ),
    );
    let pair = loaded_pair(settings, two_cores(), &mut section)?;
    let knees = in_balanced_order(Collecting::ALL.len(), settings.runs, |arm, run| {
        let collecting = Collecting::ALL[arm];
        settings.plan.say(&format!("rate: {}, flat out, run {} of {}", collecting.name(), run + 1, settings.runs));
        collecting.begin(settings, &pair)?;
        with_samples(&pair, || knee(&pair, settings, run))
    })?;
    let without = knee_rows(settings, &pair, &knees, &mut section);
    watched_rows(settings, &pair, without, &mut section)?;
    Collecting::Nothing.begin(settings, &pair)?;
    pair.check(settings, &mut section)?;
    Ok(section)
}

/// Returns the rate that both sustain, in transactions per second.
pub(crate) fn knee(pair: &Pair, settings: &PairSettings, run: u32) -> anyhow::Result<f64> {
    let done = pair.drive(settings, run, Pacing::FlatOut)?;
    let begun = settings.plan.now_ns();
    pair.until_even(settings)?;
    let caught_up_ns = settings.plan.now_ns() - begun;
    anyhow::ensure!(done.tally.ended() > 0, "nothing ended in a run of {:?}", settings.time);
    Ok(per_s(done.tally.ended(), done.ns + caught_up_ns))
}

/// Adds a row for each policy; returns the knee without collection.
fn knee_rows(settings: &PairSettings, pair: &Pair, runs: &[Vec<(f64, f64)>], section: &mut Section) -> f64 {
    let knees = |arm: usize| runs[arm].iter().map(|(knee, _)| *knee).collect::<Vec<_>>();
    for (arm, collecting) in Collecting::ALL.into_iter().enumerate() {
        let samples: Vec<f64> = runs[arm].iter().map(|(_, samples)| *samples).collect();
        let mut row = Row::new(collecting.name(), "the knee", "disk", pair.ring())
            .at(100.0)
            .runs("knee_per_s", &knees(arm))
            .runs("samples", &samples);
        if collecting != Collecting::Nothing {
            let ratios = paired_ratios(&knees(arm), &knees(0));
            if let Some(interval) = Interval::of(&ratios, settings.seed) {
                row = row.figure("knee_ratio_ci95", interval.figure()).beside("collection off", interval.median);
                if collecting == Collecting::Headroom {
                    row = row.target("at most 2 % below the one without", interval.median >= 1.0 - LOWER_MAX);
                }
            }
        }
        section.rows.push(row);
    }
    median(&knees(0))
}

/// Adds rows with the delay at each rate under each policy.
fn watched_rows(settings: &PairSettings, pair: &Pair, knee: f64, section: &mut Section) -> anyhow::Result<()> {
    let runs = (settings.runs / PAIRS_PER_WATCHED).max(1);
    for percent in PERCENTS {
        let asked = knee * f64::from(percent) / 100.0;
        let watched = in_balanced_order(Collecting::ALL.len(), runs, |arm, run| {
            let collecting = Collecting::ALL[arm];
            settings.plan.say(&format!("rate: {}, {percent} %, run {} of {runs}", collecting.name(), run + 1));
            collecting.begin(settings, pair)?;
            at_rate(pair, settings, run, asked)
        })?;
        for (collecting, runs) in Collecting::ALL.into_iter().zip(&watched) {
            section.rows.push(watched_row(collecting, pair, percent, asked, runs));
        }
    }
    Ok(())
}

fn watched_row(collecting: Collecting, pair: &Pair, percent: u32, asked: f64, runs: &[Watched]) -> Row {
    let row = Row::new(collecting.name(), format!("{percent} % of the knee without"), "disk", pair.ring())
        .at(asked)
        .runs("txn_per_s", &runs.iter().map(|of| per_s(of.run.tally.ended(), of.run.ns)).collect::<Vec<_>>());
    delays(row, &runs.iter().map(|of| &of.samples[..]).collect::<Vec<_>>())
        .figure("backlog_txns", Figure::Count(runs.iter().map(|of| of.run.backlog).max().unwrap_or(0)))
}

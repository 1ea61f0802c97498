//! How long is the delay at which arrival rate? Transactions of TPC-C begin by chance (a Poisson process) at a share of what the primary
//! reaches flat out with its replica behind it, and the replica is watched. Figure 5.1 of the thesis, beside PostgreSQL.

use super::floors::Floors;
use super::pair::{Pair, pairs};
use super::settings::ReplicationSettings;
use super::watch::{Sample, Summary, by_clock, growth_us, prepare, watched};
use crate::measures::{float, median, micros, per_s};
use crate::report::{Figure, Row, Section};
use crate::tpcc::{Kind, Pacing, Run};

/// A rate is sustained where no more of what was asked for is left over than this share of it.
const LEFT_OVER: f64 = 0.01;
/// A delay grows where its mean gets longer by this, from the first third of a run to the last.
const GROWTH_US: f64 = 1_000.0;

/// One run of one rate.
pub(super) struct Watched {
    pub(super) run: Run,
    /// Within the measured time only.
    pub(super) samples: Vec<Sample>,
}

/// Runs of one case, at most, until there is something in one: short ones on a machine that does other things may be empty.
const ATTEMPTS: u32 = 30;

fn until_some<T>(
    settings: &ReplicationSettings,
    mut run: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(done) = run()? {
            return Ok(done);
        }
    }
    anyhow::bail!("nothing ended within any of {ATTEMPTS} runs of {:?}", settings.time)
}

/// Measures what the primary reaches flat out while its replica follows: transactions a second.
///
/// # Errors
/// As of the driver.
pub(super) fn peak(pair: &Pair, settings: &ReplicationSettings) -> anyhow::Result<f64> {
    let mut all = Vec::new();
    for run in 0..settings.runs {
        settings.plan.say(&format!("{}: flat out, run {} of {}", pair.name(), run + 1, settings.runs));
        let done = until_some(settings, || {
            let done = pair.drive(settings, run, Pacing::FlatOut)?;
            pair.until_even(settings)?;
            Ok((done.tally.ended() > 0).then_some(done))
        })?;
        all.push(per_s(done.tally.ended(), done.ns));
    }
    Ok(median(&all))
}

/// Runs TPC-C at a rate while the replica is watched, and waits until both are even.
///
/// # Errors
/// As of the driver and the watcher.
pub(super) fn at_rate(pair: &Pair, settings: &ReplicationSettings, run: u32, per_s: f64) -> anyhow::Result<Watched> {
    until_some(settings, || {
        let (run, mut samples) = watched(pair, settings, || pair.drive(settings, run, Pacing::Poisson(per_s)))?;
        samples.retain(|sample| (run.from_ns..run.from_ns + run.ns).contains(&sample.at_ns));
        pair.until_even(settings)?;
        Ok((!samples.is_empty()).then_some(Watched { run, samples }))
    })
}

pub(super) fn measure(settings: &ReplicationSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "rate",
        format!(
            "how far behind is a replica at which rate of TPC-C? ({} warehouses, {} clients, begun by chance, commits on disk, {} s a run; \
             delay by the primary's clock, seen by a client that waits for its row on the replica)",
            settings.warehouses,
            settings.clients,
            settings.time.as_secs_f64()
        ),
    );
    let mut floors = Floors::new(&settings.plan)?;
    let pairs = pairs(settings, &mut section)?;
    let mut peaks = Vec::new();
    let mut looks = Vec::new();
    for pair in &pairs {
        pair.load(settings)?;
        looks.push(prepare(pair, settings)?);
        peaks.push(peak(pair, settings)?);
    }
    let mut all: Vec<Vec<Vec<Watched>>> =
        pairs.iter().map(|_| settings.percents.iter().map(|_| Vec::new()).collect()).collect();
    for run in 0..settings.runs {
        for (case, percent) in settings.percents.iter().enumerate() {
            floors.slice(&settings.plan, settings.time / 10)?;
            for ((pair, peak), all) in pairs.iter().zip(&peaks).zip(&mut all) {
                settings.plan.say(&format!("{}: {percent} %, run {} of {}", pair.name(), run + 1, settings.runs));
                all[case].push(at_rate(pair, settings, run, peak * f64::from(*percent) / 100.0)?);
            }
        }
    }
    for pair in &pairs {
        pair.check(settings, &mut section)?;
    }
    floors.rows(&mut section);
    for (((pair, peak), look_us), all) in pairs.iter().zip(&peaks).zip(&looks).zip(&all) {
        section.rows.push(
            Row::new(pair.name(), "flat out, its replica following", "disk", pair.ring())
                .runs("txn_per_s", &[*peak])
                .runs("look_us", &[*look_us]),
        );
        for (percent, runs) in settings.percents.iter().zip(all) {
            section.rows.push(row(pair, *percent, peak * f64::from(*percent) / 100.0, runs));
        }
    }
    Ok(section)
}

/// Adds what samples come to, by the primary's clock and as a client sees it.
pub(super) fn delays(row: Row, runs: &[&[Sample]]) -> Row {
    let of = |pick: &dyn Fn(&[Sample]) -> Option<Summary>| runs.iter().filter_map(|of| pick(of)).collect::<Vec<_>>();
    let clock = of(&|samples| Summary::of(by_clock(samples)));
    let seen = of(&|samples| Summary::of(samples.iter().map(|sample| sample.seen_us)));
    let figure = |row: Row, key, of: &[Summary], value: fn(&Summary) -> f64| match of {
        [] => row.figure(key, Figure::Absent("not said")),
        of => row.runs(key, &of.iter().map(value).collect::<Vec<_>>()),
    };
    let row = figure(row, "delay_mean_us", &clock, |of| of.mean);
    let row = figure(row, "delay_sd_us", &clock, |of| of.sd);
    let row = figure(row, "delay_p99_us", &clock, |of| of.p99);
    let row = figure(row, "delay_max_us", &clock, |of| of.max);
    let row = figure(row, "seen_mean_us", &seen, |of| of.mean);
    let row = figure(row, "seen_sd_us", &seen, |of| of.sd);
    let row = figure(row, "seen_p50_us", &seen, |of| of.p50);
    let row = figure(row, "seen_p99_us", &seen, |of| of.p99);
    figure(row, "seen_max_us", &seen, |of| of.max)
}

fn row(pair: &Pair, percent: u32, asked: f64, runs: &[Watched]) -> Row {
    let each = |figure: &dyn Fn(&Watched) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
    let most_bytes = |of: &Watched| {
        let bytes = of.samples.iter().filter_map(|sample| Some(sample.behind?.bytes));
        bytes.fold(0.0, f64::max)
    };
    let row = Row::new(pair.name(), format!("{percent} % of flat out"), "disk", pair.ring())
        .at(asked)
        .runs("asked_per_s", &[asked])
        .runs("txn_per_s", &each(&|of| per_s(of.run.tally.ended(), of.run.ns)));
    let row = delays(row, &runs.iter().map(|of| &of.samples[..]).collect::<Vec<_>>())
        .runs("behind_max_bytes", &each(&most_bytes))
        .runs("growth_us", &each(&|of| growth_us(&of.samples)))
        .runs("new_order_p99_us", &each(&|of| micros(of.run.tally.of(Kind::NewOrder).latencies.at_per_mille(990))))
        .figure("backlog_txns", Figure::Count(runs.iter().map(|of| of.run.backlog).max().unwrap_or(0)));
    let sustained = runs.iter().all(|of| {
        let begun = of.run.backlog + of.run.tally.ended();
        float(of.run.backlog) <= LEFT_OVER * float(begun.max(1))
    });
    if sustained && !pair.is_peer() {
        let grown = row.median("growth_us").unwrap_or(0.0);
        return row.target("the primary sustains it: the delay does not grow", grown <= GROWTH_US);
    }
    row
}

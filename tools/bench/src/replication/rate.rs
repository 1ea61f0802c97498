//! What is the delay at which arrival rate? Transactions of TPC-C begin at random (a Poisson process) at a share of the
//! primary's full rate with a following replica, and the replica is watched. This is figure 5.1 of the thesis, for
//! comparison with PostgreSQL, by several numbers of workers.

use collie_workload::{Kind, Pacing, Run};

use super::PairSettings;
use super::floors::Floors;
use super::pair::{self, Pair};
use super::watch::{Sample, Summary, by_clock, growth_us, prepare, watched};
use crate::measures::{float, median, micros, per_s};
use crate::report::{Figure, Row, Section};

/// A rate is sustained if at most this share of the requested transactions is left over.
const LEFT_OVER: f64 = 0.01;
/// A delay grows if its mean increases by this from the first third of a run to the last.
pub(crate) const GROWTH_US: f64 = 1_000.0;

/// One run of one rate.
pub(crate) struct Watched {
    pub(crate) run: Run,
    /// Within the measured time only.
    pub(crate) samples: Vec<Sample>,
}

/// The most attempts at one run of a case until something ended in it: short runs on a busy machine may be empty.
const ATTEMPTS: u32 = 30;

fn until_some<T>(settings: &PairSettings, mut run: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(done) = run()? {
            return Ok(done);
        }
    }
    anyhow::bail!("nothing ended within any of {ATTEMPTS} runs of {:?}", settings.time)
}

/// Measures the primary's full rate while its replica follows, in transactions per second.
///
/// # Errors
/// Those of the driver.
pub(crate) fn peak(pair: &Pair, settings: &PairSettings) -> anyhow::Result<f64> {
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

/// Runs TPC-C at a rate while the replica is watched, and waits until the replica has caught up.
///
/// # Errors
/// Those of the driver and the watcher.
pub(crate) fn at_rate(pair: &Pair, settings: &PairSettings, run: u32, per_s: f64) -> anyhow::Result<Watched> {
    until_some(settings, || {
        let (run, mut samples) = watched(pair, settings, || pair.drive(settings, run, Pacing::Poisson(per_s)))?;
        samples.retain(|sample| (run.from_ns..run.from_ns + run.ns).contains(&sample.at_ns));
        pair.until_even(settings)?;
        Ok((!samples.is_empty()).then_some(Watched { run, samples }))
    })
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
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
    let mut standing = Standing::start(settings, &mut section);
    standing.each(|arm| {
        arm.pair.load(settings)?;
        arm.look_us = prepare(&arm.pair, settings)?;
        arm.peak = peak(&arm.pair, settings)?;
        Ok(())
    });
    for run in 0..settings.runs {
        for (case, percent) in settings.percents.iter().enumerate() {
            floors.slice(&settings.plan, settings.time / 10)?;
            standing.each(|arm| {
                let (name, asked) = (arm.pair.name(), arm.asked(*percent));
                settings.plan.say(&format!("{name}: {percent} %, run {} of {}", run + 1, settings.runs));
                let watched = at_rate(&arm.pair, settings, run, asked)?;
                arm.runs[case].push(watched);
                Ok(())
            });
        }
    }
    standing.each(|arm| arm.pair.check(settings, &mut section));
    floors.rows(&mut section);
    for arm in &standing.arms {
        section.rows.push(
            Row::new(arm.pair.name(), "flat out, its replica following", "disk", arm.pair.ring())
                .runs("txn_per_s", &[arm.peak])
                .runs("look_us", &[arm.look_us]),
        );
        for (percent, runs) in settings.percents.iter().zip(&arm.runs) {
            section.rows.push(row(&arm.pair, *percent, arm.asked(*percent), runs));
        }
    }
    section.failure = standing.failure();
    Ok(section)
}

/// A pair that is measured, and its findings so far.
struct Arm {
    pair: Pair,
    /// The primary's full rate in transactions per second.
    peak: f64,
    /// The floor of a read on the replica.
    look_us: f64,
    /// By rate and run.
    runs: Vec<Vec<Watched>>,
}

impl Arm {
    fn asked(&self, percent: u32) -> f64 {
        self.peak * f64::from(percent) / 100.0
    }
}

/// The arms that are still measured. One that fails is stopped, and the others are measured to the end.
struct Standing {
    arms: Vec<Arm>,
    failures: Vec<String>,
}

impl Standing {
    /// Starts a pair for each number of workers, and PostgreSQL's if it is wanted; adds a note if that is not
    /// installed.
    fn start(settings: &PairSettings, section: &mut Section) -> Self {
        let mut arms = vec![pair::Arm::Collie];
        arms.extend(settings.workers.iter().map(|workers| pair::Arm::Workers(*workers)));
        arms.extend(settings.peer.then_some(pair::Arm::Peer));
        let mut this = Self { arms: Vec::new(), failures: Vec::new() };
        for arm in arms {
            let runs = || settings.percents.iter().map(|_| Vec::new()).collect();
            match pair::start(settings, arm) {
                Ok(pair) => this.arms.push(Arm { pair, peak: 0.0, look_us: 0.0, runs: runs() }),
                Err(error) if arm == pair::Arm::Peer => section.notes.push(format!("no rows of PostgreSQL: {error:#}")),
                Err(error) => this.failures.push(format!("{arm:?}: {error:#}")),
            }
        }
        this
    }

    /// Calls `work` with each arm.
    fn each(&mut self, mut work: impl FnMut(&mut Arm) -> anyhow::Result<()>) {
        let Self { arms, failures } = self;
        arms.retain_mut(|arm| match work(arm) {
            Ok(()) => true,
            Err(error) => {
                failures.push(format!("{}: {error:#}", arm.pair.name()));
                false
            }
        });
    }

    fn failure(self) -> Option<String> {
        (!self.failures.is_empty()).then(|| self.failures.join("; "))
    }
}

/// Adds the delays of the samples, by the primary's clock and as a client sees them.
pub(crate) fn delays(row: Row, runs: &[&[Sample]]) -> Row {
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
    let most_bytes = |of: &Watched| {
        let bytes = of.samples.iter().filter_map(|sample| Some(sample.behind?.bytes));
        bytes.fold(0.0, f64::max)
    };
    let row = Row::new(pair.name(), format!("{percent} % of flat out"), "disk", pair.ring())
        .at(asked)
        .runs("asked_per_s", &[asked])
        .each("txn_per_s", runs, |of| per_s(of.run.tally.ended(), of.run.ns));
    let row = delays(row, &runs.iter().map(|of| &of.samples[..]).collect::<Vec<_>>())
        .each("behind_max_bytes", runs, most_bytes)
        .each("growth_us", runs, |of| growth_us(&of.samples))
        .each("new_order_p99_us", runs, |of| micros(of.run.tally.of(Kind::NewOrder).latencies.at_per_mille(990)))
        .figure("backlog_txns", Figure::Count(runs.iter().map(|of| of.run.backlog).max().unwrap_or(0)));
    let sustained = runs.iter().all(|of| {
        let begun = of.run.backlog + of.run.tally.ended();
        float(of.run.backlog) <= LEFT_OVER * float(begun.max(1))
    });
    if sustained && pair.has_targets() {
        let grown = row.median("growth_us").unwrap_or(0.0);
        return row.target("the primary sustains it: the delay does not grow", grown <= GROWTH_US);
    }
    row
}

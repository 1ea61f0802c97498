//! Does the primary measure the delay that a client sees? At rates of small commits from one to ten thousand per
//! second, the primary's figure is compared with that of a client that commits a row and reads it on the replica until
//! it sees the commit.
//!
//! A client's reads take time: it measures from the start of the first read after the reply to the end of the read that
//! sees the row. If the row becomes visible after V, about V plus one read has passed by then, so the time of one read
//! is subtracted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use collie_workload::sleep_until;

use super::PairSettings;
use super::pair::{Arm, Launch, Pair, launch};
use super::small;
use super::watch::{Summary, WATCHED, prepare};
use crate::report::{Figure, Row, Section};
use crate::txn::count_of;

/// Commits per second.
const RATES: [u32; 5] = [1, 10, 100, 1_000, 10_000];
/// Sessions that commit alongside the client that reads.
const LOADERS: u32 = 4;
/// The highest rate at which the reading client commits.
const LOOKED_PER_S: f64 = 20.0;
/// At a low rate, a run is long enough for this many commits.
const COMMITS_MIN: f64 = 10.0;
/// Targets.
const OFF_SHARE: f64 = 0.2;
const OFF_US: f64 = 100.0;
/// The primary's measurements of the last seconds that had commits.
const SECONDS: &str = "SELECT p50_us::float8, commits::float8, mean_us::float8 FROM collie_replication_delay \
                       WHERE commits > 0 AND at > now() - interval";

/// The findings at one rate.
#[derive(Debug)]
struct Found {
    commits_per_s: f64,
    seen: Summary,
    /// For each second of the run: median, commits, mean.
    seconds: Vec<(f64, f64, f64)>,
}

impl Found {
    /// Returns the median of the seconds' medians, weighted by their commits, in microseconds.
    fn measured_p50_us(&self) -> Option<f64> {
        let mut seconds = self.seconds.clone();
        seconds.sort_unstable_by(|(one, ..), (other, ..)| one.total_cmp(other));
        let half = seconds.iter().map(|(_, commits, _)| commits).sum::<f64>() / 2.0;
        let mut below = 0.0;
        let reaches = |(_, commits, _): &&(f64, f64, f64)| {
            below += commits;
            below >= half
        };
        seconds.iter().find(reaches).map(|(p50_us, ..)| *p50_us)
    }

    /// Returns the mean, in microseconds.
    fn measured_mean_us(&self) -> Option<f64> {
        let commits = self.seconds.iter().map(|(_, commits, _)| commits).sum::<f64>();
        let sum = self.seconds.iter().map(|(_, commits, mean_us)| commits * mean_us).sum::<f64>();
        (commits > 0.0).then(|| sum / commits)
    }
}

/// Returns whether two times are the same within the tolerance of this question.
fn is_near(measured_us: f64, seen_us: f64) -> bool {
    (measured_us - seen_us).abs() <= (OFF_SHARE * seen_us).max(OFF_US)
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "delay",
        format!(
            "does the primary measure what a client sees? (updates of one row, {LOADERS} sessions and a client that reads its row on the replica, \
             commits on disk, {} runs of {} s, longer at few commits)",
            settings.runs,
            settings.time.as_secs_f64()
        ),
    );
    let pair = launch(settings, Arm::Collie, Launch::default())?;
    small::prepare(&pair, LOADERS)?;
    let look_us = prepare(&pair, settings)?;
    for rate in RATES.into_iter().filter(|rate| !settings.small || (10..=100).contains(rate)) {
        let mut runs = Vec::new();
        for run in 0..settings.runs {
            settings.plan.say(&format!("delay: {rate} commits a second, run {} of {}", run + 1, settings.runs));
            runs.push(at_rate(&pair, settings, f64::from(rate))?);
        }
        section.rows.push(row(&pair, rate, look_us, &runs));
    }
    Ok(section)
}

fn at_rate(pair: &Pair, settings: &PairSettings, rate: f64) -> anyhow::Result<Found> {
    let clock = &*settings.plan.env.clock;
    let time = settings.time.max(Duration::from_secs_f64(COMMITS_MIN / rate));
    let looked_per_s = rate.min(LOOKED_PER_S);
    let loaded_per_s = rate - looked_per_s;
    let stop = AtomicBool::new(false);
    let begun_ns = clock.now_ns();
    let (seen, committed) = std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..if loaded_per_s > 0.0 { LOADERS } else { 0 })
            .map(|loader| {
                scope.spawn({
                    let stop = &stop;
                    move || load(pair, settings, loader, loaded_per_s, stop)
                })
            })
            .collect();
        let seen = look(pair, settings, looked_per_s, begun_ns + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        stop.store(true, Relaxed);
        let mut committed = 0;
        for loader in loaders {
            committed += loader.join().ok().context("a session panicked")??;
        }
        let seen = seen?;
        anyhow::Ok((seen.clone(), committed + seen.len()))
    })?;
    let seconds = crate::measures::float(clock.now_ns() - begun_ns) / 1e9;
    // The last second is recorded a little later.
    sleep_until(clock, clock.now_ns() + 1_200_000_000);
    let rows = pair.connect()?.query(&format!("{SECONDS} '{} seconds'", seconds + 1.2), &[])?;
    Ok(Found {
        commits_per_s: count_of(committed) / seconds,
        seen: Summary::of(seen).context("no row was looked for")?,
        seconds: rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect(),
    })
}

/// Commits its share of the updates until `stop`; returns how many.
fn load(pair: &Pair, settings: &PairSettings, loader: u32, per_s: f64, stop: &AtomicBool) -> anyhow::Result<usize> {
    let clock = &*settings.plan.env.clock;
    let mut session = pair.connect()?;
    let write = session.prepare("UPDATE small SET n = n + 1 WHERE id = $1")?;
    let gap_ns = Duration::from_secs_f64(f64::from(LOADERS) / per_s).as_nanos();
    let (begun_ns, mut count) = (clock.now_ns(), 0_usize);
    while !stop.load(Relaxed) {
        let due = u128::from(begun_ns) + gap_ns * count as u128;
        sleep_until(clock, u64::try_from(due)?);
        session.execute(&write, &[&(loader.cast_signed() + 1)])?;
        count += 1;
    }
    Ok(count)
}

/// Commits a row `per_s` times a second until `until_ns` and each time reads it on the replica until it is visible.
/// Returns how long each took, in microseconds.
fn look(pair: &Pair, settings: &PairSettings, per_s: f64, until_ns: u64) -> anyhow::Result<Vec<f64>> {
    let clock = &*settings.plan.env.clock;
    let (mut primary, mut look) = (pair.connect()?, pair.look(WATCHED)?);
    let write = primary.prepare("UPDATE watched SET n = n + 1 WHERE id = 1 RETURNING n")?;
    let gap_ns = u64::try_from(Duration::from_secs_f64(1.0 / per_s).as_nanos())?;
    let mut all = Vec::new();
    while all.is_empty() || clock.now_ns() < until_ns {
        let due_ns = clock.now_ns() + gap_ns;
        let wanted: i64 = primary.query_one(&write, &[])?.get(0);
        let at_ns = clock.now_ns();
        while look.number()? < wanted {}
        all.push(crate::measures::micros(clock.now_ns() - at_ns));
        sleep_until(clock, due_ns);
    }
    Ok(all)
}

fn row(pair: &Pair, rate: u32, look_us: f64, runs: &[Found]) -> Row {
    let each = |figure: &dyn Fn(&Found) -> Option<f64>| runs.iter().filter_map(figure).collect::<Vec<_>>();
    let figure = |row: Row, key, values: Vec<f64>| match &values[..] {
        [] => row.figure(key, Figure::Absent("nothing measured")),
        values => row.runs(key, values),
    };
    let row = Row::new(pair.name(), format!("{rate} commits/s"), "disk", pair.ring())
        .at(f64::from(rate))
        .runs("txn_per_s", &each(&|of| Some(of.commits_per_s)))
        .runs("look_us", &[look_us])
        .runs("seen_p50_us", &each(&|of| Some(of.seen.p50)))
        .runs("seen_mean_us", &each(&|of| Some(of.seen.mean)));
    let row = figure(row, "delay_p50_us", each(&Found::measured_p50_us));
    let row = figure(row, "delay_mean_us", each(&Found::measured_mean_us));
    let both = row.median("delay_p50_us").zip(row.median("seen_p50_us"));
    let met = both.is_some_and(|(measured_us, seen_us)| is_near(measured_us, (seen_us - look_us).max(0.0)));
    row.target("the median within 20 % or 0.1 ms of what a client sees", met)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the median is one of commits, and times are near by share or by difference. Method: seconds with different
    /// numbers of commits; both limits.
    #[test]
    fn medians_are_compared_by_part_or_by_time() {
        let seen = Summary { mean: 1.0, sd: 0.0, p50: 1.0, p99: 1.0, max: 1.0 };
        let seconds = vec![(900.0, 1.0, 900.0), (300.0, 8.0, 350.0), (500.0, 3.0, 500.0)];
        let found = Found { commits_per_s: 4.0, seen, seconds };
        assert_eq!(found.measured_p50_us(), Some(300.0));
        assert!(found.measured_mean_us().is_some_and(|mean| (mean - 5_200.0 / 12.0).abs() < 1e-9));
        assert!(
            is_near(400.0, 300.0)
                && !is_near(401.0, 300.0)
                && is_near(12_000.0, 10_000.0)
                && !is_near(7_900.0, 10_000.0)
        );
        let idle = Found { seconds: Vec::new(), ..found };
        assert_eq!((idle.measured_p50_us(), idle.measured_mean_us()), (None, None));
    }
}

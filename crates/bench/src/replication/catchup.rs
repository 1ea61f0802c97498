//! How fast does a replica come back? Stopped until it is behind by a gibibyte of log, then started while the primary is at half of what it
//! reaches; and filled anew from nothing under the same load.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::floors::Floors;
use super::pair::{Pair, pairs};
use super::rate::peak;
use super::settings::ReplicationSettings;
use crate::measures::{float, micros};
use crate::report::{Row, Section};
use crate::tpcc::{Kind, Pacing, Run, Target as _};

/// Of what the primary reaches flat out.
const PERCENT: f64 = 50.0;
/// A replica is even once a row is seen on it so soon after its commit.
const EVEN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(600);
/// Rows that are written over again and again to make log, and bytes of each.
const ROWS: u32 = 1_000;
const ROW_BYTES: usize = 1_000;
/// Targets.
const EVEN_S: f64 = 30.0;
const P99_RATIO: f64 = 1.2;
/// Of log that the replica is behind by, for the target to mean anything.
const ENOUGH_BYTES: u64 = 1 << 30;

/// What one run came to.
struct CaughtUp {
    behind_bytes: f64,
    even_s: f64,
    /// New-Order's p99 with an even replica, while it comes back, and while another is filled.
    p99_us: [f64; 3],
    filled_s: f64,
    filled_bytes: f64,
}

pub(super) fn measure(settings: &ReplicationSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "catchup",
        format!(
            "how fast does a replica come back that is {} MiB of log behind, and how fast is an empty one filled? (TPC-C, {} warehouses, at \
             {PERCENT} % of flat out meanwhile)",
            settings.behind_bytes >> 20,
            settings.warehouses
        ),
    );
    let mut floors = Floors::new(&settings.plan)?;
    let mut pairs = pairs(settings, &mut section)?;
    let mut all: Vec<Vec<CaughtUp>> = Vec::new();
    let mut rates = Vec::new();
    for pair in &pairs {
        pair.load(settings)?;
        prepare(pair)?;
        rates.push(peak(pair, settings)? * PERCENT / 100.0);
        all.push(Vec::new());
    }
    for run in 0..settings.runs {
        floors.slice(&settings.plan, settings.time / 10)?;
        for ((pair, rate), all) in pairs.iter_mut().zip(&rates).zip(&mut all) {
            all.push(catch_up(pair, settings, run, *rate)?);
        }
    }
    for pair in &pairs {
        pair.check(settings, &mut section)?;
    }
    floors.rows(&mut section);
    for ((pair, rate), runs) in pairs.iter().zip(&rates).zip(&all) {
        section.rows.extend(rows(pair, settings, *rate, runs));
    }
    Ok(section)
}

/// Makes the rows that log is made of.
fn prepare(pair: &Pair) -> anyhow::Result<()> {
    let mut primary = pair.connect()?;
    primary.batch_execute("CREATE TABLE filler (id int PRIMARY KEY, t text NOT NULL)")?;
    primary.batch_execute(&format!("INSERT INTO filler SELECT n, '' FROM generate_series(1, {ROWS}) AS n"))?;
    Ok(())
}

/// Makes so many bytes of log on the primary; returns how many they were.
fn fall_behind(pair: &Pair, bytes: u64) -> anyhow::Result<f64> {
    let (target, mut primary) = (pair.target(), pair.connect()?);
    let write = primary.prepare("UPDATE filler SET t = $1::text || id")?;
    let from = target.log_position()?;
    loop {
        let made = target.log_position()?.saturating_sub(from);
        if made >= bytes {
            return Ok(float(made));
        }
        primary.execute(&write, &[&"log that a replica has not seen; ".repeat(ROW_BYTES / 33)])?;
    }
}

/// Waits until a row is seen on the replica soon after its commit.
fn until_near(pair: &Pair, settings: &ReplicationSettings) -> anyhow::Result<()> {
    let clock = &settings.plan.env.clock;
    let begun = clock.now_ns();
    loop {
        let before = clock.now_ns();
        pair.until_even(settings)?;
        let now = clock.now_ns();
        if u128::from(now - before) < EVEN.as_nanos() {
            return Ok(());
        }
        let waited = u128::from(now - begun);
        anyhow::ensure!(waited < PATIENCE.as_nanos(), "{}: the replica does not come back", pair.name());
    }
}

/// Has `replica` started while TPC-C runs; returns the run, and the seconds until the replica is even.
fn beside_load(
    pair: &mut Pair,
    settings: &ReplicationSettings,
    (run, rate): (u32, f64),
    start: fn(&mut Pair, &ReplicationSettings) -> anyhow::Result<()>,
) -> anyhow::Result<(Run, f64)> {
    let clock = &settings.plan.env.clock;
    let load = pair.load_of(settings, run, Pacing::Poisson(rate));
    std::thread::scope(|scope| {
        let running = scope.spawn(load);
        std::thread::sleep(settings.warm_up);
        let begun = clock.now_ns();
        start(pair, settings)?;
        until_near(pair, settings)?;
        let even_s = float(clock.now_ns() - begun) / 1e9;
        let run = running.join().ok().context("the load panicked")??;
        Ok((run, even_s))
    })
}

fn catch_up(pair: &mut Pair, settings: &ReplicationSettings, run: u32, rate: f64) -> anyhow::Result<CaughtUp> {
    let say = |what: &str| settings.plan.say(&format!("{}: {what}, run {} of {}", pair.name(), run + 1, settings.runs));
    say("half of its load");
    let even = pair.drive(settings, 3 * run, Pacing::Poisson(rate))?;
    pair.until_even(settings)?;
    say("falling behind");
    pair.stop_replica()?;
    let behind_bytes = fall_behind(pair, settings.behind_bytes)?;
    settings.plan.say(&format!("{}: coming back, run {} of {}", pair.name(), run + 1, settings.runs));
    let (back, even_s) = beside_load(pair, settings, (3 * run + 1, rate), Pair::start_replica)?;
    settings.plan.say(&format!("{}: filling anew, run {} of {}", pair.name(), run + 1, settings.runs));
    pair.stop_replica()?;
    let (filled, filled_s) = beside_load(pair, settings, (3 * run + 2, rate), Pair::fill_replica)?;
    let p99 = |run: &Run| micros(run.tally.of(Kind::NewOrder).latencies.at_per_mille(990));
    Ok(CaughtUp {
        behind_bytes,
        even_s,
        p99_us: [p99(&even), p99(&back), p99(&filled)],
        filled_s,
        filled_bytes: float(bytes_in(pair.replica_directory()?)),
    })
}

/// Returns the bytes of all files below `dir`; what goes meanwhile counts for nothing.
fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(of) if of.is_dir() => bytes_in(&entry.path()),
        Ok(of) => of.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

fn rows(pair: &Pair, settings: &ReplicationSettings, rate: f64, runs: &[CaughtUp]) -> [Row; 2] {
    let each = |figure: &dyn Fn(&CaughtUp) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
    let row = |case: &str, p99: usize| {
        Row::new(pair.name(), case, "disk", pair.ring())
            .runs("asked_per_s", &[rate])
            .runs("p99_before_us", &each(&|of| of.p99_us[0]))
            .runs("p99_meanwhile_us", &each(&|of| of.p99_us[p99]))
            .runs("p99_ratio", &each(&|of| of.p99_us[p99] / of.p99_us[0].max(1.0)))
    };
    let per_second = |bytes: f64, seconds: f64| bytes / seconds.max(1e-3);
    let mut back = row("comes back", 1)
        .runs("log_bytes", &each(&|of| of.behind_bytes))
        .runs("even_s", &each(&|of| of.even_s))
        .runs("bytes_per_s", &each(&|of| per_second(of.behind_bytes, of.even_s)));
    let filled = row("filled anew", 2)
        .runs("directory_bytes", &each(&|of| of.filled_bytes))
        .runs("even_s", &each(&|of| of.filled_s))
        .runs("bytes_per_s", &each(&|of| per_second(of.filled_bytes, of.filled_s)));
    if pair.is_peer() {
        return [back, filled];
    }
    if settings.behind_bytes >= ENOUGH_BYTES {
        let even_s = back.median("even_s").unwrap_or(f64::INFINITY);
        back = back.target("even within 30 s", even_s <= EVEN_S);
    }
    [back, filled].map(|row| {
        let ratio = row.median("p99_ratio").unwrap_or(f64::INFINITY);
        row.target("p99 meanwhile <= 1.2x", ratio <= P99_RATIO)
    })
}

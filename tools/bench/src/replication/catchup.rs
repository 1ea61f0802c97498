//! How fast does a replica catch up? It is stopped until it is a gibibyte of log behind, and then started while the
//! primary runs at half of its full rate. Then an empty replica is filled under the same load, with TPC-C's tables and
//! another one of a given size.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use collie_workload::{Kind, Pacing, Run, target::Target as _};

use super::PairSettings;
use super::floors::Floors;
use super::pair::{Pair, pairs};
use super::rate::peak;
use crate::measures::{float, micros};
use crate::report::{Row, Section};

/// Percentage of the primary's full rate.
const PERCENT: f64 = 50.0;
/// A replica has caught up once a row is seen on it this soon after its commit.
const EVEN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(600);
/// The number of rows that are overwritten repeatedly to make log, and the bytes of each.
const ROWS: u32 = 1_000;
const ROW_BYTES: usize = 1_000;
/// Rows of the table for the base backup that are loaded at a time.
const BALLAST_ROWS: u64 = 8_000;
/// Targets.
const EVEN_S: f64 = 30.0;
const P99_RATIO: f64 = 1.2;
/// The log that the replica must lack for the target to be meaningful.
const ENOUGH_BYTES: u64 = 1 << 30;

/// The result of one return of a replica.
struct Returned {
    /// Bytes of the log that it lacked, or of the directory with which it was filled.
    bytes: f64,
    even_s: f64,
    /// New-Order's p99 before, with a replica that has caught up, and meanwhile.
    p99_us: [f64; 2],
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "catchup",
        format!(
            "how fast does a replica come back that is {} MiB of log behind, and how fast is an empty one filled, by TPC-C's tables and {} \
             MiB of another, at {} MiB/s at most? (TPC-C, {} warehouses, at {PERCENT} % of flat out meanwhile)",
            settings.behind_bytes >> 20,
            settings.backup_bytes >> 20,
            settings.backup_bytes_per_s >> 20,
            settings.warehouses
        ),
    );
    let mut floors = Floors::new(&settings.plan)?;
    let mut pairs = pairs(settings, &mut section)?;
    let mut rates = Vec::new();
    for pair in &pairs {
        pair.load(settings)?;
        prepare(pair)?;
        rates.push(peak(pair, settings)? * PERCENT / 100.0);
    }
    let mut all: [Vec<Vec<Returned>>; 2] = [(); 2].map(|()| pairs.iter().map(|_| Vec::new()).collect());
    for (phase, all) in all.iter_mut().enumerate() {
        if phase == 1 {
            // Only now: otherwise a restarted replica would have to load the table.
            for pair in &pairs {
                settings.plan.say(&format!("{}: rows to be copied", pair.name()));
                ballast(pair, settings)?;
            }
        }
        for run in 0..settings.runs {
            floors.slice(&settings.plan, settings.time / 10)?;
            for ((pair, rate), all) in pairs.iter_mut().zip(&rates).zip(&mut *all) {
                all.push(if phase == 0 {
                    comes_back(pair, settings, run, *rate)?
                } else {
                    is_filled(pair, settings, run, *rate)?
                });
            }
        }
    }
    for pair in &pairs {
        pair.check(settings, &mut section)?;
    }
    floors.rows(&mut section);
    let [back, filled] = &all;
    for (((pair, rate), back), filled) in pairs.iter().zip(&rates).zip(back).zip(filled) {
        section.rows.extend([back_row(pair, settings, *rate, back), filled_row(pair, *rate, filled)]);
    }
    Ok(section)
}

/// Creates the rows that are overwritten to make log.
fn prepare(pair: &Pair) -> anyhow::Result<()> {
    let mut primary = pair.connect()?;
    primary.batch_execute("CREATE TABLE filler (id int PRIMARY KEY, t text NOT NULL)")?;
    primary.batch_execute(&format!("INSERT INTO filler SELECT n, '' FROM generate_series(1, {ROWS}) AS n"))?;
    Ok(())
}

/// Makes at least `bytes` bytes of log on the primary; returns how many it made.
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
fn until_near(pair: &Pair, settings: &PairSettings) -> anyhow::Result<()> {
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

/// Starts the replica while TPC-C runs; returns the run, and the seconds until the replica has caught up.
fn beside_load(
    pair: &mut Pair,
    settings: &PairSettings,
    (run, rate): (u32, f64),
    start: fn(&mut Pair, &PairSettings) -> anyhow::Result<()>,
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

fn say(pair: &Pair, settings: &PairSettings, run: u32, what: &str) {
    settings.plan.say(&format!("{}: {what}, run {} of {}", pair.name(), run + 1, settings.runs));
}

fn p99_us(run: &Run) -> f64 {
    micros(run.tally.of(Kind::NewOrder).latencies.at_per_mille(990))
}

/// Stops the replica, makes log, and lets the replica catch up.
fn comes_back(pair: &mut Pair, settings: &PairSettings, run: u32, rate: f64) -> anyhow::Result<Returned> {
    say(pair, settings, run, "half of its load");
    let even = pair.drive(settings, 4 * run, Pacing::Poisson(rate))?;
    pair.until_even(settings)?;
    say(pair, settings, run, "falling behind");
    pair.stop_replica()?;
    let bytes = fall_behind(pair, settings.behind_bytes)?;
    say(pair, settings, run, "coming back");
    let (meanwhile, even_s) = beside_load(pair, settings, (4 * run + 1, rate), Pair::start_replica)?;
    pair.until_even(settings)?;
    Ok(Returned { bytes, even_s, p99_us: [p99_us(&even), p99_us(&meanwhile)] })
}

/// Fills another replica in place of the existing one.
fn is_filled(pair: &mut Pair, settings: &PairSettings, run: u32, rate: f64) -> anyhow::Result<Returned> {
    say(pair, settings, run, "half of its load");
    let even = pair.drive(settings, 4 * run + 2, Pacing::Poisson(rate))?;
    pair.until_even(settings)?;
    say(pair, settings, run, "filling anew");
    pair.stop_replica()?;
    let (meanwhile, even_s) = beside_load(pair, settings, (4 * run + 3, rate), Pair::fill_replica)?;
    pair.until_even(settings)?;
    let bytes = float(bytes_in(pair.replica_directory()?));
    Ok(Returned { bytes, even_s, p99_us: [p99_us(&even), p99_us(&meanwhile)] })
}

/// Creates a table of the given size that does not compress, and waits until the replica has it.
fn ballast(pair: &Pair, settings: &PairSettings) -> anyhow::Result<()> {
    let mut primary = pair.connect()?;
    primary.batch_execute("CREATE TABLE ballast (id int PRIMARY KEY, t text NOT NULL)")?;
    let (rows, mut chance) = (settings.backup_bytes.div_ceil(u64::try_from(ROW_BYTES)?), settings.seed | 1);
    let mut row = 0;
    while row < rows {
        let mut writer = primary.copy_in("COPY ballast FROM STDIN")?;
        let until = rows.min(row + BALLAST_ROWS);
        while row < until {
            let text = noise(&mut chance);
            writer.write_all(format!("{row}\t{text}\n").as_bytes())?;
            row += 1;
        }
        writer.finish()?;
    }
    drop(primary);
    pair.until_even(settings)
}

/// Returns [`ROW_BYTES`] letters that do not compress, from a xorshift generator.
fn noise(chance: &mut u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut text = String::with_capacity(ROW_BYTES);
    while text.len() < ROW_BYTES {
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        for at in 0..10 {
            let letter = usize::try_from(*chance >> (6 * at) & 63).unwrap_or(0);
            text.push(char::from(LETTERS[letter]));
        }
    }
    text
}

/// Returns the bytes of all files below `dir`; files that disappear meanwhile do not count.
pub(crate) fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(of) if of.is_dir() => bytes_in(&entry.path()),
        Ok(of) => of.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

fn row(pair: &Pair, case: &str, rate: f64, runs: &[Returned], bytes: &'static str) -> Row {
    let each = |figure: &dyn Fn(&Returned) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
    Row::new(pair.name(), case, "disk", pair.ring())
        .runs("asked_per_s", &[rate])
        .runs("p99_before_us", &each(&|of| of.p99_us[0]))
        .runs("p99_meanwhile_us", &each(&|of| of.p99_us[1]))
        .runs("p99_ratio", &each(&|of| of.p99_us[1] / of.p99_us[0].max(1.0)))
        .runs(bytes, &each(&|of| of.bytes))
        .runs("even_s", &each(&|of| of.even_s))
        .runs("bytes_per_s", &each(&|of| of.bytes / of.even_s.max(1e-3)))
}

/// Adds the target for the latency of other clients.
fn beside_others(pair: &Pair, row: Row) -> Row {
    let ratio = row.median("p99_ratio").unwrap_or(f64::INFINITY);
    if pair.has_targets() { row.target("p99 meanwhile <= 1.2x", ratio <= P99_RATIO) } else { row }
}

fn back_row(pair: &Pair, settings: &PairSettings, rate: f64, runs: &[Returned]) -> Row {
    let mut row = row(pair, "comes back", rate, runs, "log_bytes");
    if pair.has_targets() && settings.behind_bytes >= ENOUGH_BYTES {
        let even_s = row.median("even_s").unwrap_or(f64::INFINITY);
        row = row.target("even within 30 s", even_s <= EVEN_S);
    }
    beside_others(pair, row)
}

fn filled_row(pair: &Pair, rate: f64, runs: &[Returned]) -> Row {
    beside_others(pair, row(pair, "filled anew", rate, runs, "directory_bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: rows to be copied have the right length and do not repeat. Method: a thousand of them, as COPY takes them.
    #[test]
    fn noise_is_of_one_length_and_differs() {
        let mut chance = 1;
        let all: std::collections::BTreeSet<String> = (0..1_000).map(|_| noise(&mut chance)).collect();
        assert_eq!(all.len(), 1_000);
        assert!(all.iter().all(|text| text.len() == ROW_BYTES && !text.contains(['\t', '\\', '\n'])));
        // Each letter occurs about equally often.
        let letters = all.iter().flat_map(|text| text.bytes()).filter(|byte| *byte == b'A').count();
        assert!((14_000..17_500).contains(&letters), "{letters}");
    }
}

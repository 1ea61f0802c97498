//! The experiments of the LevelDB wiki's page on RocksDB's write-ahead log, on both databases: the log switched off,
//! its limit from nothing to a million megabytes with many families, and manual flushes.
//!
//! `docs/bench/kv.md` has the results of the page's authors on their machine. Here the experiments check the shape:
//! figures that must not depend on a setting, and by how much the log may slow down writes.

use super::super::volume::{Amplification, Put};
use super::cells::{Cell, Cells, Samples, median, with_peer_volumes, with_puts, with_runs};
use super::loads::note_failures;
use crate::{Figure, Row, Section};

/// Length of the log's files in the experiments with limits: small, so that a limit is reached.
const SEGMENT_BYTES: u64 = 4 << 20;
/// The lowest allowed rate, as a share of the rate without a limit.
const RATE_SHARE: f64 = 0.95;
/// The number of files that a process may have open.
const DESCRIPTORS: u32 = 256;
/// The limit under which the number of families varies.
const FAMILIES_LIMIT: u64 = 500_000_000;
/// How far two figures that should be alike may be apart.
const ALIKE: f64 = 0.05;

/// Returns the ratio of the medians.
fn by(ours: &[f64], other: &[f64]) -> Option<f64> {
    Some(median(ours)? / median(other)?)
}

fn row(subject: impl Into<String>, case: &str, samples: &Samples) -> Row {
    Row::new(subject, case, samples.level, samples.ring)
}

fn peer_row(subject: impl Into<String>, case: &str, samples: &Samples) -> Row {
    Row::new(subject, case, samples.level, "-")
}

/// Measures with the log switched off: what the log costs, and that the figures of the LSM levels do not contain it.
///
/// # Errors
/// Those of [`Cells::run`].
pub(super) fn without_log(cells: &Cells<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new("kv-log-off", "What does the log cost? (time with it by time without; disable_wal)");
    // The benchmark, its place in the list, and the largest allowed ratio of its time with the log to that without.
    let asked = [("fillseq", 0, 1.3), ("fillrandom", 2, 1.2), ("readrandom", 3, 1.05)];
    let list = "benchmarks=fillseq,flush,fillrandom,readrandom,flush".to_owned();
    let settings = ["disable_wal=0", "disable_wal=1"];
    let all: Vec<Cell> = settings.iter().map(|set| Cell::new(*set, &[list.clone(), (*set).to_owned()])).collect();
    let samples = cells.run(section.name, cells.runs(super::RUNS_MANY), &all, say)?;
    let [with, without] = &samples[..] else { unreachable!("two cells were asked for") };
    for (name, place, most) in asked {
        let rows = [(settings[0], with, false), (settings[1], without, true)].map(|(set, samples, is_off)| {
            let case = format!("{name}, {set}");
            let mut ours = with_runs(row("collie", &case, samples), "ops_per_s", &samples.rates(place));
            let mut peer = with_runs(peer_row("RocksDB", &case, samples), "ops_per_s", &samples.peer_rates(place));
            if name != "readrandom" {
                let puts = samples.puts(place);
                let share = samples.ours(place, |figures| figures.writes.log_percent()[0]);
                ours = with_puts(with_runs(ours, "log_time_percent", &share), &puts);
                peer = with_peer_volumes(peer, samples, place, puts.last().map_or(0, |put| put.user_bytes));
            }
            if samples.ours_failed.is_some() {
                ours = ours.figure("ops_per_s", Figure::Absent("refused")).target("runs without the log", false);
            }
            if let Some(ratio) = by(&samples.rates(place), &samples.peer_rates(place)) {
                ours = ours.beside("RocksDB", ratio);
            }
            if is_off {
                if let Some(tax) = by(&samples.rates(place), &with.rates(place)) {
                    ours = ours.beside("with the log", tax).target(format!("<= {most}x"), tax <= most);
                }
                if name != "readrandom" {
                    ours = shape_of_levels(ours, &with.puts(place), &samples.puts(place));
                }
                if let Some(tax) = by(&samples.peer_rates(place), &with.peer_rates(place)) {
                    peer = peer.beside("with the log", tax);
                }
            }
            [Some(ours), (!samples.peer.is_empty()).then_some(peer)]
        });
        section.rows.extend(rows.into_iter().flatten().flatten());
    }
    for (cell, samples) in all.iter().zip(&samples) {
        note_failures(&mut section, &cell.case, samples);
    }
    Ok(section)
}

/// Checks that the log is in no figure of the LSM levels, but in that of all bytes.
fn shape_of_levels(row: Row, with: &[Put], without: &[Put]) -> Row {
    let told = |puts: &[Put]| puts.last().map(|put| Amplification::of(&put.volume, put.user_bytes));
    let Some((with, without)) = told(with).zip(told(without)) else { return row };
    let mut row = row;
    if let Some((on, off)) = with.lsm.zip(without.lsm) {
        row = row.target("WAF_lsm as with the log", (on - off).abs() <= ALIKE * on);
    }
    if let Some((on, off)) = with.total.zip(without.total) {
        row = row.target("WAF_total below that with the log", off < on);
    }
    row
}

/// A number of families, and a limit of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    families: u64,
    bytes: u64,
}

/// Returns the limits of the study: 0, and powers of ten.
fn limits() -> Vec<Limit> {
    let powers = |families, most| {
        let bytes = std::iter::once(0).chain((0..=most).map(|power| 10_u64.pow(power)));
        bytes.map(move |bytes| Limit { families, bytes })
    };
    let mut all: Vec<Limit> = powers(1, 8).chain(powers(10, 12)).chain(powers(15, 12)).collect();
    for families in [10, 15, 20, 25, 30] {
        all.push(Limit { families, bytes: FAMILIES_LIMIT });
        if families > 15 {
            all.push(Limit { families, bytes: 0 });
        }
    }
    all
}

/// Returns whether the peer runs the limit too. It runs only a few, since it takes long with small limits.
const fn has_peer(limit: Limit) -> bool {
    matches!(limit, Limit { families: 1 | 10, bytes: 0 | 100_000 | 100_000_000 })
}

fn limit_settings(cells: &Cells<'_>, limit: Limit) -> Vec<String> {
    vec![
        "benchmarks=fillrandom".to_owned(),
        format!("num={}", (cells.num() * 2 / 5).max(1)),
        format!("num_column_families={}", limit.families),
        format!("max_total_wal_size={}", limit.bytes),
        format!("wal_segment_size={SEGMENT_BYTES}"),
    ]
}

/// Measures limits of the log, by bytes and by families.
///
/// # Errors
/// Those of [`Cells::run`].
pub(super) fn log_limits(cells: &Cells<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<[Section; 2]> {
    let mut by_bytes = Section::new("kv-wal-size", "What does max_total_wal_size cost, and is it kept? (fillrandom)");
    let mut by_families =
        Section::new("kv-families", "What do many families cost under one limit? (fillrandom, 500 MB)");
    let limits = limits();
    let cell = |limit: &Limit| Cell {
        case: format!("{} families, {} bytes", limit.families, limit.bytes),
        settings: limit_settings(cells, *limit),
        beside: has_peer(*limit),
    };
    let all: Vec<Cell> = limits.iter().map(cell).collect();
    let samples = cells.run(by_bytes.name, cells.runs(super::RUNS), &all, say)?;
    let unlimited = |families: u64| {
        let place = limits.iter().position(|limit| *limit == Limit { families, bytes: 0 });
        place.map(|place| &samples[place])
    };
    for ((limit, cell), samples) in limits.iter().zip(&all).zip(&samples) {
        let (section, at) = match limit.bytes {
            FAMILIES_LIMIT => (&mut by_families, limit.families),
            0 if limit.families > 15 => continue,
            bytes => (&mut by_bytes, bytes),
        };
        section.rows.extend(limit_rows(*limit, at, samples, unlimited(limit.families)));
        note_failures(section, &cell.case, samples);
    }
    by_bytes.notes.push(format!(
        "files of the log have {} MiB here, so that limits are reached; below two files the limit is two files",
        SEGMENT_BYTES >> 20
    ));
    Ok([by_bytes, by_families])
}

/// Returns the rows of one limit.
fn limit_rows(limit: Limit, at: u64, samples: &Samples, unlimited: Option<&Samples>) -> Vec<Row> {
    // In the section by families the number of families is the x of the plot; elsewhere it distinguishes the lines.
    let subject = |who: &str| match limit {
        Limit { bytes: FAMILIES_LIMIT, .. } => who.to_owned(),
        Limit { families: 1, .. } => format!("{who}, 1 family"),
        Limit { families, .. } => format!("{who}, {families} families"),
    };
    let case = match limit {
        Limit { bytes: FAMILIES_LIMIT, families } => format!("{families} families"),
        Limit { bytes: 0, .. } => "limit chosen".to_owned(),
        Limit { bytes, .. } => format!("{bytes} bytes"),
    };
    #[expect(clippy::cast_precision_loss, reason = "the x of a plot")]
    let x = at as f64;
    let rates = samples.rates(0);
    let mut ours = with_runs(row(subject("collie"), &case, samples).at(x), "ops_per_s", &rates);
    if let Some(why) = &samples.ours_failed {
        ours = ours.figure("ops_per_s", Figure::Absent("failed")).target(format!("runs ({why})"), false);
    }
    let puts = samples.puts(0);
    #[expect(clippy::cast_precision_loss, reason = "bytes for people")]
    let peaks: Vec<f64> = puts.iter().map(|put| put.log_peak_bytes as f64).collect();
    ours = with_runs(ours, "log_peak_bytes", &peaks);
    if let Some(share) = unlimited.filter(|_| limit.bytes > 0).and_then(|other| by(&rates, &other.rates(0))) {
        ours = ours.beside("no limit", share).target(format!(">= {RATE_SHARE}x no limit"), share >= RATE_SHARE);
    }
    let is_kept = |put: &Put| put.log_peak_bytes <= 2 * put.log_limit_bytes + put.segment_bytes;
    if !puts.is_empty() {
        ours = ours.target("log <= 2x limit + 1 file", puts.iter().all(is_kept));
    }
    let mut rows = vec![ours];
    if !samples.peer.is_empty() {
        let mut peer = peer_row(subject("RocksDB"), &case, samples).at(x);
        peer = with_runs(peer, "ops_per_s", &samples.peer_rates(0));
        if let Some(share) =
            unlimited.filter(|_| limit.bytes > 0).and_then(|other| by(&samples.peer_rates(0), &other.peer_rates(0)))
        {
            peer = peer.beside("no limit", share);
        }
        rows.push(peer);
    }
    rows
}

/// Runs ten families under a limit of one byte, with few open files.
///
/// # Errors
/// If no process can be started.
pub(super) fn descriptors(cells: &Cells<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Section> {
    let mut section =
        Section::new("kv-descriptors", "Does a limit of one byte with ten families run with 256 open files?");
    let settings = limit_settings(cells, Limit { families: 10, bytes: 1 });
    let case = format!("10 families, 1 byte, {DESCRIPTORS} files");
    say(&format!("{}: {case}", section.name));
    let ours = cells.run_process(&settings, DESCRIPTORS)?;
    let told = |row: Row, rate: &Result<f64, String>| match rate {
        Ok(rate) => row.runs("ops_per_s", &[*rate]),
        Err(_) => row.figure("ops_per_s", Figure::Absent("failed")),
    };
    let row = told(Row::new("collie", &case, "process", "auto"), &ours);
    section.rows.push(row.target("runs to its end", ours.is_ok()));
    let peer = cells.run_peer_process(&settings, DESCRIPTORS)?;
    section.rows.extend(peer.iter().map(|peer| told(Row::new("RocksDB", &case, "process", "-"), peer)));
    section.notes.extend(ours.err().map(|why| format!("collie: {why}")));
    section.notes.extend(peer.and_then(Result::err).map(|why| format!("RocksDB: {why}")));
    Ok(section)
}

/// Measures manual flushes, with and without waiting for the disk.
///
/// # Errors
/// Those of [`Cells::run`].
pub(super) fn manual_flush(cells: &Cells<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new("kv-manual-flush", "What does manual_wal_flush change, with sync and without?");
    let few = cells.num() / 200;
    let mut all = Vec::new();
    for sync in [0, 1] {
        for manual in [0, 1] {
            let case = format!("sync={sync}, manual_wal_flush={manual}");
            let mut settings = vec!["benchmarks=fillseq,fillrandom".to_owned()];
            settings.extend([format!("sync={sync}"), format!("manual_wal_flush={manual}")]);
            settings.extend((sync == 1).then(|| format!("num={}", few.max(1))));
            all.push(Cell::new(case, &settings));
        }
    }
    let samples = cells.run(section.name, cells.runs(super::RUNS), &all, say)?;
    for (place, name) in ["fillseq", "fillrandom"].into_iter().enumerate() {
        for (at, (cell, own)) in all.iter().zip(&samples).enumerate() {
            let (is_sync, is_manual) = (at >= 2, at % 2 == 1);
            let case = format!("{name}, {}", cell.case);
            let mut ours = with_runs(row("collie", &case, own), "ops_per_s", &own.rates(place));
            let mut peer = with_runs(peer_row("RocksDB", &case, own), "ops_per_s", &own.peer_rates(place));
            let share = own.ours(place, |figures| figures.writes.log_percent()[0]);
            ours = with_runs(ours, "log_time_percent", &share);
            if let Some(ratio) = by(&own.rates(place), &own.peer_rates(place)) {
                ours = ours.beside("RocksDB", ratio);
            }
            if is_manual {
                let auto = &samples[at - 1];
                if let Some(ratio) = by(&own.rates(place), &auto.rates(place)) {
                    let (text, met) = if is_sync {
                        ("within 5 % of manual_wal_flush=0", (ratio - 1.0).abs() <= ALIKE)
                    } else {
                        (">= manual_wal_flush=0", ratio >= 1.0)
                    };
                    ours = ours.beside("manual_wal_flush=0", ratio).target(text, met);
                }
                if let Some(ratio) = by(&own.peer_rates(place), &auto.peer_rates(place)) {
                    peer = peer.beside("manual_wal_flush=0", ratio);
                }
            }
            section.rows.push(ours);
            section.rows.extend((!own.peer.is_empty()).then_some(peer));
        }
    }
    for (cell, samples) in all.iter().zip(&samples) {
        note_failures(&mut section, &cell.case, samples);
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::super::super::flags::KvFlags;
    use super::super::super::line::Figures;
    use super::super::super::ours::Outcome;
    use super::super::super::volume::Volume;
    use super::*;

    fn samples(rate: u64, log_peak_bytes: u64) -> Samples {
        let figures = Figures { operations: rate, elapsed_ns: 1_000_000_000, written: 1, ..Figures::default() };
        let put = Put { user_bytes: 1, log_peak_bytes, log_limit_bytes: 8, segment_bytes: 4, ..Put::default() };
        let outcome = Outcome { figures: Some(figures), put: Some(put), lines: Vec::new() };
        Samples { ours: vec![vec![outcome]], level: "process", ring: "shared", ..Samples::default() }
    }

    /// Goal: the limits are those of the study, none occurs twice, and each has one to be compared with. Method:
    /// counts, and the lookup by families.
    #[test]
    fn limits_are_those_of_the_study() {
        let all = limits();
        let of = |families: u64| all.iter().filter(|limit| limit.families == families).count();
        assert_eq!([1, 10, 15, 20, 25, 30].map(of), [10, 15, 15, 2, 2, 2]);
        for (at, limit) in all.iter().enumerate() {
            assert!(!all[..at].contains(limit), "{limit:?} twice");
            assert!(all.contains(&Limit { families: limit.families, bytes: 0 }), "{limit:?} stands alone");
        }
        assert_eq!(all.iter().filter(|limit| has_peer(**limit)).count(), 6);
    }

    /// Goal: a limit is judged by the rate without a limit and by the kept log. Method: invented rates and peaks, on
    /// both sides of each threshold.
    #[test]
    fn limits_are_judged() {
        let limit = Limit { families: 10, bytes: 1 };
        let met = |rate, peak| {
            let rows = limit_rows(limit, 1, &samples(rate, peak), Some(&samples(100, 0)));
            assert_eq!((rows.len(), &rows[0].subject[..], rows[0].at), (1, "collie, 10 families", Some(1.0)));
            rows[0].targets.iter().map(|target| target.met).collect::<Vec<_>>()
        };
        assert_eq!(met(95, 20), [true, true]);
        assert_eq!(met(94, 20), [false, true]);
        assert_eq!(met(200, 21), [true, false]);
        let failed = Samples { ours_failed: Some("no room".to_owned()), ..Samples::default() };
        let rows = limit_rows(limit, 1, &failed, None);
        assert_eq!(rows[0].targets[0].text, "runs (no room)");
        let free = Limit { families: 1, bytes: 0 };
        let rows = limit_rows(free, 0, &samples(5, 0), Some(&samples(100, 0)));
        assert_eq!((&rows[0].subject[..], rows[0].targets.len()), ("collie, 1 family", 1), "nothing to stand beside");
    }

    /// Goal: without the log the figure of the LSM levels must be the same, and that of all bytes lower. Method:
    /// invented bytes.
    #[test]
    fn levels_are_judged_without_the_log() {
        let put = |log_bytes, compaction_bytes| {
            let volume = Volume { log_bytes, flush_bytes: 100, compaction_bytes, ..Volume::default() };
            Put { user_bytes: 100, volume, ..Put::default() }
        };
        let met = |with: Put, without: Put| {
            let row = shape_of_levels(Row::new("collie", "a", "none", "-"), &[with], &[without]);
            row.targets.iter().map(|target| target.met).collect::<Vec<_>>()
        };
        assert_eq!(met(put(150, 0), put(0, 0)), [true, true]);
        assert_eq!(met(put(150, 0), put(150, 10)), [false, false]);
    }

    /// Goal: cells use known flags. Method: one of each experiment with a limit, parsed as a run would parse them.
    #[test]
    fn cells_name_flags_that_are_there() {
        let env = collie_env::Env::real();
        let cells = Cells::new(&KvFlags::default(), &env, std::path::Path::new("."), None);
        for limit in limits() {
            KvFlags::default().with(&limit_settings(&cells, limit)).unwrap();
        }
    }
}

//! The experiments of the LevelDB wiki's page on RocksDB's write-ahead log, on both databases: the log switched off,
//! limits of the log with many families, and manual flushes.
//!
//! `docs/bench/kv.md` has the results of the page's authors on their machine. Here the experiments check the shape:
//! figures that must not depend on a setting, and by how much the log may slow down writes.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::KvSettings;
use super::cells::{Cell, Cells, Samples, by, with_peer_volumes, with_puts};
use super::load::Load;
use super::volume::Put;
use super::workload::Workload::{FillRandom, FillSeq, Flush, ReadRandom};
use crate::measures::float;
use crate::{Row, Section};

/// Length of the log's files in the experiments with limits: small, so that a limit is reached.
const SEGMENT_BYTES: u64 = 4 << 20;
/// The lowest allowed rate, as a share of the rate without a limit.
const RATE_SHARE: f64 = 0.95;
/// The number of files that a process may have open.
const DESCRIPTORS: u64 = 256;
/// The limits of the log; 0: the engine chooses one.
const LIMITS: [u64; 4] = [0, 1, 100_000, 100_000_000];
/// The limit under which the number of families varies.
const FAMILIES_LIMIT: u64 = 500_000_000;
/// How far two figures that should be alike may be apart.
const ALIKE: f64 = 0.05;

/// Measures with the log switched off: what the log costs, and that the figures of the LSM levels do not contain it.
pub(crate) fn without_log(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let mut section = Section::new("kv-log-off", "What does the log cost? (time with it by time without; disable_wal)");
    let lists = [&[FillSeq, Flush][..], &[FillRandom, ReadRandom, Flush]];
    // The benchmark, its list and its place there, and the largest allowed ratio of its time with the log to that
    // without.
    let asked = [("fillseq", 0, 0, 1.3), ("fillrandom", 1, 0, 1.2), ("readrandom", 1, 1, 1.05)];
    let cell = |list: usize, disable_wal: bool| {
        let load = Load { disable_wal, ..cells.load(lists[list], cells.num()) };
        Cell::new(format!("{}, disable_wal={}", lists[list][0].name(), u8::from(disable_wal)), load)
    };
    let samples = cells.run(&mut section, &[cell(0, false), cell(0, true), cell(1, false), cell(1, true)])?;
    for (name, list, place, most) in asked {
        let [with, without] = [&samples[2 * list], &samples[2 * list + 1]];
        for (samples, is_off) in [(with, false), (without, true)] {
            let case = format!("{name}, disable_wal={}", u8::from(is_off));
            let (mut ours, mut peer) = samples.rows("", &case, place);
            if let Some(ratio) = by(&samples.rates(place), &samples.peer_rates(place)) {
                ours = ours.beside("RocksDB", ratio);
            }
            if name != "readrandom" && samples.ours_failed.is_none() {
                let puts = samples.puts(place);
                ours = with_puts(ours.runs("log_time_percent", &samples.log_percent(place)), &puts);
                peer = peer.map(|peer| with_peer_volumes(peer, samples, place, &puts));
            }
            if is_off {
                if let Some(tax) = by(&samples.rates(place), &with.rates(place)) {
                    ours = ours.beside("with the log", tax).target(format!("<= {most}x"), tax <= most);
                }
                if name != "readrandom" {
                    ours = shape_of_levels(ours, &with.puts(place), &samples.puts(place));
                }
                if let Some(tax) = by(&samples.peer_rates(place), &with.peer_rates(place)) {
                    peer = peer.map(|peer| peer.beside("with the log", tax));
                }
            }
            section.rows.push(ours);
            section.rows.extend(peer);
        }
    }
    Ok(section)
}

/// Checks that the log is in no figure of the LSM levels, but in that of all bytes.
fn shape_of_levels(mut row: Row, with: &[Put], without: &[Put]) -> Row {
    let Some((with, without)) = with.last().zip(without.last()) else { return row };
    if let Some((on, off)) = with.waf_lsm().zip(without.waf_lsm()) {
        row = row.target("WAF_lsm as with the log", (on - off).abs() <= ALIKE * on);
    }
    if let Some((on, off)) = with.waf_total().zip(without.waf_total()) {
        row = row.target("WAF_total below that with the log", off < on);
    }
    row
}

fn limited(cells: &Cells<'_>, families: u64, bytes: u64) -> Load {
    let load = cells.load(&[FillRandom], cells.num() * 2 / 5);
    Load { families, max_total_wal_size: Some(bytes), segment_bytes: Some(SEGMENT_BYTES), ..load }
}

/// Measures limits of the log, by bytes.
pub(crate) fn log_limits(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let mut section = Section::new("kv-wal-size", "What does max_total_wal_size cost, and is it kept? (fillrandom)");
    for (families, subject) in [(1, ", 1 family"), (10, ", 10 families")] {
        let case = |bytes| if bytes == 0 { "limit chosen".to_owned() } else { format!("{bytes} bytes") };
        let all: Vec<Cell> = LIMITS
            .into_iter()
            .map(|bytes| Cell { beside: bytes != 1, ..Cell::new(case(bytes), limited(cells, families, bytes)) })
            .collect();
        let samples = cells.run(&mut section, &all)?;
        for ((bytes, cell), own) in LIMITS.into_iter().zip(&all).zip(&samples) {
            let unlimited = (bytes > 0).then_some(&samples[0]);
            section.rows.extend(limit_rows(subject, &cell.case, float(bytes), own, unlimited));
        }
    }
    section.notes.push(format!(
        "files of the log have {} MiB here, so that limits are reached; below two files the limit is two files",
        SEGMENT_BYTES >> 20
    ));
    Ok(section)
}

/// Measures numbers of families under one limit.
pub(crate) fn families(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let mut section = Section::new("kv-families", "What do many families cost under one limit? (fillrandom, 500 MB)");
    for families in [10, 20, 30] {
        let case = format!("{families} families");
        let cell = |bytes| Cell { beside: false, ..Cell::new(&case, limited(cells, families, bytes)) };
        let samples = cells.run(&mut section, &[cell(0), cell(FAMILIES_LIMIT)])?;
        section.rows.extend(limit_rows("", &case, float(families), &samples[1], Some(&samples[0])));
    }
    Ok(section)
}

/// Returns the rows of one limit; `at` is the x of a plot.
fn limit_rows(subject: &str, case: &str, at: f64, samples: &Samples, unlimited: Option<&Samples>) -> Vec<Row> {
    let (ours, peer) = samples.rows(subject, case, 0);
    let mut ours = ours.at(at);
    let puts = samples.puts(0);
    if !puts.is_empty() {
        ours = ours.runs("log_peak_bytes", &puts.iter().map(|put| float(put.log_peak_bytes)).collect::<Vec<_>>());
    }
    if let Some(share) = unlimited.and_then(|other| by(&samples.rates(0), &other.rates(0))) {
        ours = ours.beside("no limit", share).target(format!(">= {RATE_SHARE}x no limit"), share >= RATE_SHARE);
    }
    let is_kept = |put: &Put| put.log_peak_bytes <= 2 * put.log_limit_bytes + put.segment_bytes;
    if !puts.is_empty() {
        ours = ours.target("log <= 2x limit + 1 file", puts.iter().all(is_kept));
    }
    let mut peer = peer.map(|peer| peer.at(at));
    if let Some(share) = unlimited.and_then(|other| by(&samples.peer_rates(0), &other.peer_rates(0))) {
        peer = peer.map(|peer| peer.beside("no limit", share));
    }
    [Some(ours), peer].into_iter().flatten().collect()
}

/// Runs ten families under a limit of one byte, while this process and its children may have few files open.
pub(crate) fn descriptors(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let mut section =
        Section::new("kv-descriptors", "Does a limit of one byte with ten families run with 256 open files?");
    let case = format!("10 families, 1 byte, {DESCRIPTORS} files");
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, soft.min(DESCRIPTORS), hard)?;
    let ran = cells.run(&mut section, &[Cell::new(&case, limited(cells, 10, 1))]);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    let samples = &ran?[0];
    let (ours, peer) = samples.rows("", &case, 0);
    section.rows.push(ours.target("runs to its end", samples.ours_failed.is_none()));
    section.rows.extend(peer);
    Ok(section)
}

/// Measures manual flushes, with and without waiting for the disk.
pub(crate) fn manual_flush(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let mut section = Section::new("kv-manual-flush", "What does manual_wal_flush change, with sync and without?");
    for workload in [FillSeq, FillRandom] {
        for sync in [false, true] {
            let num = if sync { cells.num() / 200 } else { cells.num() };
            let cell = |manual_wal_flush: bool| {
                let (sync_word, manual_word) = (u8::from(sync), u8::from(manual_wal_flush));
                let case = format!("{}, sync={sync_word}, manual_wal_flush={manual_word}", workload.name());
                Cell::new(case, Load { sync, manual_wal_flush, ..cells.load(&[workload], num) })
            };
            let all = [cell(false), cell(true)];
            let samples = cells.run(&mut section, &all)?;
            for (at, (cell, own)) in all.iter().zip(&samples).enumerate() {
                let (mut ours, mut peer) = own.rows("", &cell.case, 0);
                if own.ours_failed.is_none() {
                    ours = ours.runs("log_time_percent", &own.log_percent(0));
                }
                if let Some(ratio) = by(&own.rates(0), &own.peer_rates(0)) {
                    ours = ours.beside("RocksDB", ratio);
                }
                let auto = &samples[0];
                if let Some(ratio) = by(&own.rates(0), &auto.rates(0)).filter(|_| at == 1) {
                    let (text, met) = match sync {
                        true => ("within 5 % of manual_wal_flush=0", (ratio - 1.0).abs() <= ALIKE),
                        false => (">= manual_wal_flush=0", ratio >= 1.0),
                    };
                    ours = ours.beside("manual_wal_flush=0", ratio).target(text, met);
                }
                if let Some(ratio) = by(&own.peer_rates(0), &auto.peer_rates(0)).filter(|_| at == 1) {
                    peer = peer.map(|peer| peer.beside("manual_wal_flush=0", ratio));
                }
                section.rows.push(ours);
                section.rows.extend(peer);
            }
        }
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::ours::Outcome;
    use super::super::volume::Volume;
    use super::*;

    fn samples(rate: u64, log_peak_bytes: u64) -> Samples {
        let figures = Figures { operations: rate, elapsed_ns: 1_000_000_000, written: 1, ..Figures::default() };
        let put = Put { user_bytes: 1, log_peak_bytes, log_limit_bytes: 8, segment_bytes: 4, ..Put::default() };
        let ours = vec![vec![Outcome { figures, put: Some(put) }]];
        Samples { ours, level: "process", ring: "shared", ..Samples::default() }
    }

    /// Goal: a limit is judged by the rate without a limit and by the kept log. Method: invented rates and peaks, on
    /// both sides of each threshold.
    #[test]
    fn limits_are_judged() {
        let met = |rate, peak| {
            let rows = limit_rows(", 10 families", "1 bytes", 1.0, &samples(rate, peak), Some(&samples(100, 0)));
            assert_eq!((rows.len(), &rows[0].subject[..], rows[0].at), (1, "collie, 10 families", Some(1.0)));
            rows[0].targets.iter().map(|target| target.met).collect::<Vec<_>>()
        };
        assert_eq!(met(95, 20), [true, true]);
        assert_eq!(met(94, 20), [false, true]);
        assert_eq!(met(200, 21), [true, false]);
        let rows = limit_rows("", "limit chosen", 0.0, &samples(5, 0), None);
        assert_eq!((&rows[0].subject[..], rows[0].targets.len()), ("collie", 1), "nothing to be compared with");
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
}

//! The loads for which figures are promised: each run together with the peer, with the ratio to reach.

use super::super::volume::{Amplification, Put};
use super::cells::{Cell, Cells, Samples, median, with_peer_volumes, with_puts, with_runs};
use crate::{Figure, Latencies, Row, Section};

/// The promise for a load.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    /// At least this multiple of the peer's operations per second.
    Rate(f64),
    /// Percentiles of at most half the peer's, and no operation longer than a millisecond.
    Latency,
    /// At most this multiple of the peer's written bytes, per byte of the user.
    Written(f64),
    /// At most this many bytes of tables per byte of the user.
    Space(f64),
}

/// A load: its name, its flags, the place of the reported benchmark in its list, and the promise for it.
pub(super) struct Load {
    case: &'static str,
    settings: Vec<String>,
    place: usize,
    promise: Promise,
}

/// The largest latency at a percentile as a share of the peer's, and the longest any operation may take.
const LATENCY_RATIO: f64 = 0.5;
const MAX_US: f64 = 1_000.0;
/// The reported percentiles: in parts of 10,000, in percent as the peer prints them, and the key.
const PERCENTILES: [(u64, f64, &str); 3] =
    [(9_900, 99.0, "p99_us"), (9_990, 99.9, "p999_us"), (9_999, 99.99, "p9999_us")];

/// Opens a database whose rows are all in its log, after an orderly close as with the peer.
pub(super) fn reopening() -> Load {
    let settings = [
        "benchmarks=fillrandom,recover",
        "write_buffer_size=4294967296",
        "max_total_wal_size=17179869184",
        "disable_auto_compactions=1",
    ];
    Load {
        case: "open after fillrandom",
        settings: settings.map(str::to_owned).to_vec(),
        place: 1,
        promise: Promise::Rate(4.0),
    }
}

pub(super) fn loads(num: u64) -> Vec<Load> {
    let load = |case, place, promise, settings: &[String]| Load { case, settings: settings.to_vec(), place, promise };
    let list = |names: &str| format!("benchmarks={names}");
    let count = |num: u64| format!("num={}", num.max(1));
    let set = str::to_owned;
    let rate = Promise::Rate;
    vec![
        load("fillseq", 0, rate(4.0), &[list("fillseq")]),
        load("fillrandom", 0, rate(4.0), &[list("fillrandom")]),
        load("fillrandom, 2 threads", 0, rate(4.0), &[list("fillrandom"), set("threads=2"), count(num / 2)]),
        load("fillrandom, no log", 0, rate(3.0), &[list("fillrandom"), set("disable_wal=1")]),
        load("fillseq, manual_wal_flush", 0, rate(4.0), &[list("fillseq"), set("manual_wal_flush=1")]),
        load("fillrandom, manual_wal_flush", 0, rate(4.0), &[list("fillrandom"), set("manual_wal_flush=1")]),
        load("fillrandom, sync", 0, rate(1.6), &[list("fillrandom"), set("sync=1"), count(num / 200)]),
        load(
            "fillrandom, sync, 8 threads",
            0,
            rate(2.0),
            &[list("fillrandom"), set("sync=1"), set("threads=8"), count(num / 400)],
        ),
        load("readrandom, in memory", 1, rate(5.0), &[list("fillrandom,readrandom")]),
        load("readseq", 1, rate(0.8), &[list("fillseq,readseq")]),
        load("readreverse", 1, rate(0.8), &[list("fillseq,readreverse")]),
        load("fillrandom, latency", 0, Promise::Latency, &[list("fillrandom"), set("histogram=1")]),
        load("fillrandom, flushed", 0, Promise::Written(0.6), &[list("fillrandom,flush")]),
        load(
            "overwrite x6, flushed",
            0,
            Promise::Written(0.7),
            &[
                list("filluniquerandom,overwrite,overwrite,overwrite,overwrite,overwrite,overwrite,flush"),
                count(num / 5),
            ],
        ),
        load("fillrandom, flushed and compacted", 0, Promise::Space(1.1), &[list("fillrandom,flush,compact")]),
        reopening(),
    ]
}

/// Returns the figures of latency, run by run: each percentile, and the maximum.
fn latencies(samples: &Samples) -> Vec<(&'static str, Vec<f64>)> {
    #[expect(clippy::cast_precision_loss, reason = "microseconds for people")]
    let of = |figure: &dyn Fn(&Latencies) -> u64| {
        samples.ours(0, |figures| figures.latencies.as_ref().map_or(0.0, |all| figure(all) as f64 / 1e3))
    };
    let mut all: Vec<_> = PERCENTILES.iter().map(|(part, _, key)| (*key, of(&|all| all.at(*part, 10_000)))).collect();
    all.push(("max_us", of(&Latencies::max_ns)));
    all
}

fn peer_latencies(samples: &Samples) -> Vec<(&'static str, Vec<f64>)> {
    let at = |wanted: f64| {
        samples.peer(0, |line| {
            let found = line.percentiles.iter().find(|(percent, _)| (percent - wanted).abs() < 1e-6);
            found.map(|(_, us)| *us)
        })
    };
    let mut all: Vec<_> = PERCENTILES.iter().map(|(_, percent, key)| (*key, at(*percent))).collect();
    all.push(("max_us", samples.peer(0, |line| line.max_us)));
    all
}

/// Returns the peer's written bytes per byte of the user, for all benchmarks of the list together.
fn peer_written(samples: &Samples, puts: &[Put]) -> Vec<f64> {
    let runs = samples.peer.iter().zip(puts);
    #[expect(clippy::cast_precision_loss, reason = "ratios for people")]
    let by_run = runs.filter(|(_, put)| put.user_bytes > 0).map(|(run, put)| {
        let volumes = run.iter().flatten().filter_map(|line| line.volume);
        volumes.map(|volume| volume.log_bytes + volume.level_bytes).sum::<f64>() / put.user_bytes as f64
    });
    by_run.collect()
}

/// Returns the rows of one load: Collie's, and the peer's if it ran.
fn rows(load: &Load, samples: &Samples) -> [Option<Row>; 2] {
    let mut ours = Row::new("collie", load.case, samples.level, samples.ring);
    let mut peer = Row::new("RocksDB", load.case, samples.level, "-");
    let (rates, peer_rates) = (samples.rates(load.place), samples.peer_rates(load.place));
    if samples.ours_failed.is_some() {
        ours = ours.figure("ops_per_s", Figure::Absent("refused")).target("the load runs", false);
    }
    ours = with_runs(ours, "ops_per_s", &rates);
    peer = with_runs(peer, "ops_per_s", &peer_rates);
    let compared = median(&rates).zip(median(&peer_rates)).map(|(ours, peer)| ours / peer);
    match load.promise {
        Promise::Rate(least) => {
            let log = samples.ours(load.place, |figures| figures.writes.log_percent()[0]);
            ours =
                with_runs(ours, "log_time_percent", if log.iter().any(|share| *share > 0.0) { &log[..] } else { &[] });
            if let Some(ratio) = compared {
                ours = ours.beside("RocksDB", ratio).target(format!(">= {least}x RocksDB"), ratio >= least);
            }
        }
        Promise::Latency => {
            for ((key, values), (_, theirs)) in latencies(samples).into_iter().zip(peer_latencies(samples)) {
                if let Some((mine, other)) = median(&values).zip(median(&theirs)) {
                    let met = mine <= LATENCY_RATIO * other;
                    ours = ours.target(format!("{key} <= {LATENCY_RATIO}x"), met).beside(key, mine / other);
                }
                if let Some(mine) = median(&values).filter(|_| key == "max_us") {
                    ours = ours.target("max <= 1 ms", mine <= MAX_US);
                }
                ours = with_runs(ours, key, &values);
                peer = with_runs(peer, key, &theirs);
            }
        }
        Promise::Written(most) => {
            let puts = samples.put_in_all();
            ours = with_puts(ours, &puts);
            let theirs = peer_written(samples, &puts);
            peer = with_runs(peer, "waf_total", &theirs);
            let mine: Vec<f64> =
                puts.iter().filter_map(|put| Amplification::of(&put.volume, put.user_bytes).total).collect();
            if let Some((mine, other)) = median(&mine).zip(median(&theirs)) {
                let met = mine <= most * other;
                ours = ours.beside("WAF_total of RocksDB", mine / other).target(format!("WAF_total <= {most}x"), met);
            }
        }
        Promise::Space(most) => {
            let puts = samples.puts(load.place);
            ours = with_puts(ours, &puts);
            peer = with_peer_volumes(peer, samples, load.place, puts.last().map_or(0, |put| put.user_bytes));
            let saf: Vec<f64> = puts.iter().filter_map(|put| put.space.amplification()[1]).collect();
            if let Some(saf) = median(&saf) {
                ours = ours.target(format!("SAF_lsm <= {most}"), saf <= most);
            }
        }
    }
    let ran = !samples.peer.is_empty();
    [Some(ours), ran.then_some(peer)]
}

/// Runs the loads.
///
/// # Errors
/// Those of [`Cells::run`].
pub(super) fn measure(cells: &Cells<'_>, loads: Vec<Load>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Section> {
    let mut section =
        Section::new("kv-loads", "What does each load do, beside RocksDB's own program with the same flags?");
    section.notes.extend(cells.describe_peer()?.map(|text| format!("peer: {text}")));
    let all: Vec<Cell> = loads.iter().map(|load| Cell::new(load.case, &load.settings)).collect();
    for (load, samples) in loads.iter().zip(cells.run(section.name, cells.runs(super::RUNS), &all, say)?) {
        section.rows.extend(rows(load, &samples).into_iter().flatten());
        note_failures(&mut section, load.case, &samples);
    }
    Ok(section)
}

/// Notes why a cell has no figures.
pub(super) fn note_failures(section: &mut Section, case: &str, samples: &Samples) {
    for (who, why) in [("collie", &samples.ours_failed), ("RocksDB", &samples.peer_failed)] {
        section.notes.extend(why.iter().map(|why| format!("{case}: {who}: {why}")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::flags::KvFlags;
    use super::super::super::line::Figures;
    use super::super::super::ours::Outcome;
    use super::super::super::peer::{PeerLine, PeerVolume};
    use super::super::super::volume::Volume;
    use super::*;

    fn samples(ours_ns: u64, peer_rate: f64) -> Samples {
        let mut all = Latencies::default();
        (1..=10_000).for_each(|ns| all.record(ns * 100));
        let volume = Volume { log_bytes: 130, flush_bytes: 50, ..Volume::default() };
        let put = Put { user_bytes: 100, volume, ..Put::default() };
        let figures = Figures {
            operations: 1_000,
            elapsed_ns: ours_ns,
            written: 100,
            latencies: Some(all),
            ..Figures::default()
        };
        let outcome = Outcome { figures: Some(figures), put: Some(put), lines: Vec::new() };
        let line = PeerLine {
            name: "fillseq".to_owned(),
            operations_per_second: peer_rate,
            percentiles: vec![(99.0, 1_000.0), (99.9, 3_000.0), (99.99, 4_000.0)],
            max_us: Some(1_500.0),
            volume: Some(PeerVolume { log_bytes: 150.0, flush_bytes: 50.0, level_bytes: 150.0 }),
            ..PeerLine::default()
        };
        Samples { ours: vec![vec![outcome]], peer: vec![vec![Some(line)]], level: "process", ..Samples::default() }
    }

    /// Goal: ratios are Collie's figure divided by the peer's, and each promise is judged by its own figure. Method:
    /// invented figures on both sides of the promise.
    #[test]
    fn promises_are_judged_by_their_figures() {
        let load = |promise| Load { case: "a", settings: Vec::new(), place: 0, promise };
        let judged = |promise, samples: &Samples| {
            let [ours, peer] = rows(&load(promise), samples);
            assert!(peer.is_some());
            let ours = ours.unwrap();
            (ours.beside.iter().map(|beside| beside.ratio).collect::<Vec<_>>(), ours.targets)
        };
        // 1,000 operations in a millisecond: a million per second.
        let (ratios, targets) = judged(Promise::Rate(4.0), &samples(1_000_000, 250_000.0));
        assert_eq!((ratios, targets[0].met), (vec![4.0], true));
        let (ratios, targets) = judged(Promise::Rate(4.0), &samples(1_000_000, 500_000.0));
        assert_eq!((ratios, targets[0].met), (vec![2.0], false));
        // p99 is 990 us against 1,000, p99.9 is 999 against 3,000, p99.99 is 1,000 against 4,000, the maximum is 1,000
        // against 1,500.
        let (ratios, targets) = judged(Promise::Latency, &samples(1, 1.0));
        assert_eq!(ratios.len(), 4);
        let met: Vec<(&str, bool)> = targets.iter().map(|target| (&target.text[..], target.met)).collect();
        assert_eq!(
            met,
            [
                ("p99_us <= 0.5x", false),
                ("p999_us <= 0.5x", true),
                ("p9999_us <= 0.5x", true),
                ("max_us <= 0.5x", false),
                ("max <= 1 ms", true)
            ]
        );
        // 180 bytes against 300, for 100.
        let (ratios, targets) = judged(Promise::Written(0.61), &samples(1, 1.0));
        assert!((ratios[0] - 0.6).abs() < 1e-9 && targets[0].met, "{ratios:?}");
        let (_, targets) = judged(Promise::Written(0.59), &samples(1, 1.0));
        assert!(!targets[0].met);
    }

    /// Goal: a load that Collie refuses stays in the table and fails its target. Method: one that failed.
    #[test]
    fn refused_load_is_lost() {
        let failed = Samples { ours_failed: Some("not built".to_owned()), ..Samples::default() };
        let load = Load { case: "a", settings: Vec::new(), place: 0, promise: Promise::Rate(3.0) };
        let [ours, peer] = rows(&load, &failed);
        assert!(peer.is_none());
        let ours = ours.unwrap();
        assert!(matches!(ours.figures[..], [("ops_per_s", Figure::Absent("refused"))]));
        assert!(!ours.targets[0].met);
        let mut section = Section::new("kv-loads", "?");
        note_failures(&mut section, "a", &failed);
        assert_eq!(section.notes, ["a: collie: not built"]);
    }

    /// Goal: every load uses known flags. Method: all of them, parsed as a run would parse them.
    #[test]
    fn loads_name_flags_that_are_there() {
        for load in loads(1_000) {
            KvFlags::default().with(&load.settings).expect(load.case);
        }
    }
}

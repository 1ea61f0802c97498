//! The loads for which figures are promised: each run together with the peer, with the ratio to reach.

use super::KvSettings;
use super::cells::{Cell, Cells, Samples, by, median, with_peer_volumes, with_puts, with_runs};
use super::load::Load;
use super::volume::Put;
use super::workload::Workload::{
    Compact, FillRandom, FillSeq, FillUniqueRandom, Flush, Overwrite, ReadRandom, ReadReverse, ReadSeq, Recover,
};
use crate::measures::{float, micros};
use crate::{Latencies, Row, Section};

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

/// A load with its promise, and the place of the reported benchmark in its list.
struct Promised {
    case: &'static str,
    load: Load,
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
fn reopening(cells: &Cells<'_>) -> Promised {
    let load = Load {
        write_buffer_size: Some(4 << 30),
        max_total_wal_size: Some(16 << 30),
        peer_keeps_tables: true,
        ..cells.load(&[FillRandom, Recover], cells.num())
    };
    Promised { case: "open after fillrandom", load, place: 1, promise: Promise::Rate(4.0) }
}

fn loads(cells: &Cells<'_>) -> Vec<Promised> {
    let num = cells.num();
    let (random, seq) = (|num| cells.load(&[FillRandom], num), cells.load(&[FillSeq], num));
    let of = |case, place, promise, load| Promised { case, load, place, promise };
    let overwritten = [&[FillUniqueRandom][..], &[Overwrite; 6], &[Flush]].concat();
    let rate = Promise::Rate;
    vec![
        of("fillseq", 0, rate(4.0), seq.clone()),
        of("fillrandom", 0, rate(4.0), random(num)),
        of("fillrandom, 2 threads", 0, rate(4.0), Load { threads: 2, ..random(num / 2) }),
        of("fillrandom, no log", 0, rate(3.0), Load { disable_wal: true, ..random(num) }),
        of("fillseq, manual_wal_flush", 0, rate(4.0), Load { manual_wal_flush: true, ..seq }),
        of("fillrandom, manual_wal_flush", 0, rate(4.0), Load { manual_wal_flush: true, ..random(num) }),
        of("fillrandom, sync", 0, rate(1.6), Load { sync: true, ..random(num / 200) }),
        of("fillrandom, sync, 8 threads", 0, rate(2.0), Load { sync: true, threads: 8, ..random(num / 400) }),
        of("readrandom, in memory", 1, rate(5.0), cells.load(&[FillRandom, ReadRandom], num)),
        of("readseq", 1, rate(0.8), cells.load(&[FillSeq, ReadSeq], num)),
        of("readreverse", 1, rate(0.8), cells.load(&[FillSeq, ReadReverse], num)),
        of("fillrandom, latency", 0, Promise::Latency, Load { latencies: true, ..random(num) }),
        of("fillrandom, flushed", 0, Promise::Written(0.6), cells.load(&[FillRandom, Flush], num)),
        of("overwrite x6, flushed", 0, Promise::Written(0.7), cells.load(&overwritten, num / 5)),
        of("fillrandom, flushed and compacted", 0, Promise::Space(1.1), cells.load(&[FillRandom, Flush, Compact], num)),
    ]
}

/// Returns the figures of latency, run by run, Collie's and the peer's: each percentile, and the maximum.
fn latencies(samples: &Samples) -> Vec<(&'static str, Vec<f64>, Vec<f64>)> {
    let of = |figure: &dyn Fn(&Latencies) -> u64| {
        samples.ours(0, |figures| figures.latencies.as_ref().map_or(0.0, |all| micros(figure(all))))
    };
    let peer_at = |wanted: f64| {
        samples.peer(0, |line| {
            let found = line.percentiles.iter().find(|(percent, _)| (percent - wanted).abs() < 1e-6);
            found.map(|(_, us)| *us)
        })
    };
    let each =
        |(part, percent, key): &(u64, f64, &'static str)| (*key, of(&|all| all.at(*part, 10_000)), peer_at(*percent));
    let mut all: Vec<_> = PERCENTILES.iter().map(each).collect();
    all.push(("max_us", of(&Latencies::max_ns), samples.peer(0, |line| line.max_us)));
    all
}

/// Returns the peer's written bytes per byte of the user, for all benchmarks of the list together.
fn peer_written(samples: &Samples, puts: &[Put]) -> Vec<f64> {
    let runs = samples.peer.iter().zip(puts);
    let by_run = runs.filter(|(_, put)| put.user_bytes > 0).map(|(run, put)| {
        let volumes = run.iter().flatten().filter_map(|line| line.volume);
        volumes.map(|volume| volume.log_bytes + volume.level_bytes).sum::<f64>() / float(put.user_bytes)
    });
    by_run.collect()
}

/// Returns the rows of one load: Collie's, and the peer's if it ran.
fn rows(of: &Promised, samples: &Samples) -> (Row, Option<Row>) {
    let Promised { case, place, promise, .. } = *of;
    let (mut ours, mut peer) = samples.rows("", case, place);
    match promise {
        Promise::Rate(least) => {
            let log = samples.log_percent(place);
            if log.iter().any(|share| *share > 0.0) {
                ours = ours.runs("log_time_percent", &log);
            }
            if let Some(ratio) = by(&samples.rates(place), &samples.peer_rates(place)) {
                ours = ours.beside("RocksDB", ratio).target(format!(">= {least}x RocksDB"), ratio >= least);
            }
        }
        Promise::Latency => {
            for (key, values, theirs) in latencies(samples) {
                if let Some(ratio) = by(&values, &theirs) {
                    ours = ours.target(format!("{key} <= {LATENCY_RATIO}x"), ratio <= LATENCY_RATIO).beside(key, ratio);
                }
                if let Some(mine) = median(&values).filter(|_| key == "max_us") {
                    ours = ours.target("max <= 1 ms", mine <= MAX_US);
                }
                ours = with_runs(ours, key, &values);
                peer = peer.map(|peer| with_runs(peer, key, &theirs));
            }
        }
        Promise::Written(most) => {
            let puts = samples.put_in_all();
            ours = with_puts(ours, &puts);
            let theirs = peer_written(samples, &puts);
            let mine: Vec<f64> = puts.iter().filter_map(Put::waf_total).collect();
            if let Some(ratio) = by(&mine, &theirs) {
                ours = ours.beside("WAF_total of RocksDB", ratio);
                ours = ours.target(format!("WAF_total <= {most}x"), ratio <= most);
            }
            peer = peer.map(|peer| with_runs(peer, "waf_total", &theirs));
        }
        Promise::Space(most) => {
            let puts = samples.puts(place);
            ours = with_puts(ours, &puts);
            peer = peer.map(|peer| with_peer_volumes(peer, samples, place, &puts));
            if let Some(saf) = median(&puts.iter().filter_map(Put::saf_lsm).collect::<Vec<_>>()) {
                ours = ours.target(format!("SAF_lsm <= {most}"), saf <= most);
            }
        }
    }
    (ours, peer)
}

fn measured(cells: &Cells<'_>, mut section: Section, loads: &[Promised]) -> anyhow::Result<Section> {
    let all: Vec<Cell> = loads.iter().map(|of| Cell::new(of.case, of.load.clone())).collect();
    for (of, samples) in loads.iter().zip(cells.run(&mut section, &all)?) {
        let (ours, peer) = rows(of, &samples);
        section.rows.push(ours);
        section.rows.extend(peer);
    }
    Ok(section)
}

/// Runs the loads.
pub(crate) fn measure(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let question = "What does each load do, beside RocksDB's own program with the same flags?";
    measured(cells, Section::new("kv-loads", question), &loads(cells))
}

/// Opens a database whose rows are in its log alone.
pub(crate) fn recover(settings: &KvSettings) -> anyhow::Result<Section> {
    let cells = &Cells::new(settings)?;
    let question = "How fast is a database opened whose rows are in its log alone?";
    measured(cells, Section::new("kv-recover", question), &[reopening(cells)])
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::ours::Outcome;
    use super::super::peer_text::{PeerLine, PeerVolume};
    use super::super::volume::Volume;
    use super::*;

    fn samples(ours_ns: u64, peer_rate: f64) -> Samples {
        let mut all = Latencies::default();
        (1..=10_000).for_each(|ns| all.record(ns * 100));
        let volume = Volume { log_bytes: 130, flush_bytes: 50, ..Volume::default() };
        let put = Put { user_bytes: 100, volume, ..Put::default() };
        let (operations, latencies) = (1_000, Some(all));
        let figures = Figures { operations, elapsed_ns: ours_ns, written: 100, latencies, ..Figures::default() };
        let line = PeerLine {
            name: "fillseq".to_owned(),
            operations_per_second: peer_rate,
            percentiles: vec![(99.0, 1_000.0), (99.9, 3_000.0), (99.99, 4_000.0)],
            max_us: Some(1_500.0),
            volume: Some(PeerVolume { log_bytes: 150.0, flush_bytes: 50.0, level_bytes: 150.0 }),
        };
        let ours = vec![vec![Outcome { figures, put: Some(put) }]];
        Samples { ours, peer: vec![vec![Some(line)]], level: "process", ..Samples::default() }
    }

    /// Goal: ratios are Collie's figure divided by the peer's, each promise is judged by its own figure, and a load
    /// that fails has missed its target. Method: invented figures on both sides of the promise.
    #[test]
    fn promises_are_judged_by_their_figures() {
        let judged = |promise, samples: &Samples| {
            let of = Promised { case: "a", load: Load::new(&[FillSeq], 1, 1), place: 0, promise };
            let (ours, peer) = rows(&of, samples);
            assert_eq!(peer.is_some(), samples.ours_failed.is_none());
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
        let met: Vec<bool> = targets.iter().map(|target| target.met).collect();
        assert_eq!(met, [false, true, true, false, true]);
        // 180 bytes against 300, for 100.
        let (ratios, targets) = judged(Promise::Written(0.61), &samples(1, 1.0));
        assert!((ratios[0] - 0.6).abs() < 1e-9 && targets[0].met, "{ratios:?}");
        let (_, targets) = judged(Promise::Written(0.59), &samples(1, 1.0));
        assert!(!targets[0].met);
        let failed = Samples { ours_failed: Some("not built".to_owned()), ..Samples::default() };
        let (_, targets) = judged(Promise::Rate(3.0), &failed);
        assert_eq!((&targets[0].text[..], targets[0].met), ("runs (not built)", false));
    }
}

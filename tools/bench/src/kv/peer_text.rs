//! `PeerLine`: the figures in the output of db_bench.

use super::workload::Workload;

/// The content of a line of db_bench, and of the lines about the same benchmark after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PeerLine {
    pub(super) name: String,
    pub(super) operations_per_second: f64,
    /// With `--histogram`: percentiles, and their microseconds.
    pub(super) percentiles: Vec<(f64, f64)>,
    pub(super) max_us: Option<f64>,
    /// The bytes that a writing benchmark wrote, according to its statistics.
    pub(super) volume: Option<PeerVolume>,
}

/// Bytes that RocksDB wrote, from the rows for the last interval of its statistics; a sum over intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PeerVolume {
    pub(super) log_bytes: f64,
    pub(super) flush_bytes: f64,
    /// Bytes of flushes and compactions: `W-Amp` of the row for all levels, times the flushed bytes.
    pub(super) level_bytes: f64,
}

impl PeerVolume {
    pub(super) fn waf_lsm(&self) -> Option<f64> {
        (self.flush_bytes > 0.0).then(|| self.level_bytes / self.flush_bytes)
    }

    pub(super) fn waf_total(&self, user_bytes: u64) -> Option<f64> {
        (user_bytes > 0).then(|| (self.log_bytes + self.level_bytes) / crate::measures::float(user_bytes))
    }
}

/// The benchmarks after which statistics are asked for.
const WRITERS: [Workload; 4] =
    [Workload::FillSeq, Workload::FillRandom, Workload::FillUniqueRandom, Workload::Overwrite];

/// Finds the lines with figures, and the lines that belong to each.
pub(super) fn lines(text: &str) -> Vec<PeerLine> {
    let (mut found, mut statistics): (Vec<PeerLine>, Statistics) = (Vec::new(), Statistics::default());
    // Progress overwrites its own line: only the text after the last carriage return counts.
    for line in text.lines().filter_map(|line| line.rsplit('\r').next()) {
        if let Some(one) = figures(line) {
            found.push(one);
        } else if let Some(last) = found.last_mut() {
            if let Some(list) = line.strip_prefix("Percentiles: ") {
                last.percentiles = percentiles(list);
            } else if line.starts_with("Min: ") && line.contains("Max: ") {
                last.max_us = after(line, "Max: ");
            }
        }
        if let Some(volume) = statistics.take(line) {
            let wrote = |line: &&mut PeerLine| WRITERS.iter().any(|one| one.name() == line.name);
            if let Some(last) = found.iter_mut().rev().find(wrote) {
                let sum = last.volume.get_or_insert_default();
                sum.log_bytes += volume.log_bytes;
                sum.flush_bytes += volume.flush_bytes;
                sum.level_bytes += volume.level_bytes;
            }
        }
    }
    found
}

fn figures(line: &str) -> Option<PeerLine> {
    let (name, rest) = line.split_once(" : ")?;
    let (_, rest) = rest.split_once("micros/op ")?;
    let operations_per_second = rest.split_once(" ops/sec")?.0.trim().parse().ok()?;
    Some(PeerLine { name: name.trim().to_owned(), operations_per_second, ..PeerLine::default() })
}

/// Parses the number after `word`.
fn after(line: &str, word: &str) -> Option<f64> {
    let rest = line.split_once(word)?.1.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Parses `P50: 1.0 P99.9: 2.0`.
fn percentiles(list: &str) -> Vec<(f64, f64)> {
    let words: Vec<&str> = list.split_ascii_whitespace().collect();
    words
        .chunks(2)
        .filter_map(|pair| {
            let [name, value] = pair else { return None };
            Some((name.strip_prefix('P')?.strip_suffix(':')?.parse().ok()?, value.parse().ok()?))
        })
        .collect()
}

/// The state of parsing the text of one `stats`.
#[derive(Debug, Default)]
struct Statistics {
    w_amp: f64,
    flush_gib: f64,
    ingest_mib: Option<f64>,
}

/// Column of `W-Amp` among the words of a row of levels; before it are level, files, size and its unit, score, and six
/// columns of bytes.
const W_AMP_WORD: usize = 11;

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_024.0 * MIB;
/// The value of the last printed digit of the log's bytes.
const GIB_DIGIT: f64 = 0.01 * GIB;

impl Statistics {
    /// Parses a line; returns the bytes of the last interval once all of them were read.
    fn take(&mut self, line: &str) -> Option<PeerVolume> {
        let line = line.trim_start();
        if line.starts_with("Int ") {
            self.w_amp = line.split_ascii_whitespace().nth(W_AMP_WORD)?.parse().ok()?;
        } else if line.starts_with("Flush(GB): ") {
            self.flush_gib = after(line, "interval ")?;
        } else if line.starts_with("Interval writes: ") {
            self.ingest_mib = after(line, "ingest: ");
        } else if let Some(writes) = line.strip_prefix("Interval WAL: ") {
            let written = after(writes, "written: ")? * GIB;
            // The bytes of batches are printed with more digits than the log's bytes, and are equal except for
            // transactions' own records.
            let batches = self.ingest_mib.take().unwrap_or(0.0) * MIB;
            let is_same = !writes.starts_with("0 writes") && (batches - written).abs() <= GIB_DIGIT;
            let flush_bytes = self.flush_gib * GIB;
            return Some(PeerVolume {
                log_bytes: if is_same { batches } else { written },
                flush_bytes,
                level_bytes: self.w_amp * flush_bytes,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the statistics of db_bench become bytes and ratios of the benchmark that wrote. Method: its texts,
    /// shortened: one with the log, one without, one without a flush.
    #[test]
    fn statistics_of_the_peer_are_read() {
        let stats = |ingest: &str, flush: &str, w_amp: &str, wal: &str| {
            format!(
                "\n** Compaction Stats [default] **\n\
                 Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Rd(MB/s)\n\
                 ----\n\
                   L0      0/0    0.00 KB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   1.0      0.0\n\
                  Sum      1/0    1.38 MB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   9.9     17.5\n\
                  Int      0/0    0.00 KB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   {w_amp}     17.5\n\
                 Flush(GB): cumulative 7.777, interval {flush}\n\
                 Interval writes: 40K writes, 60K keys, 40K commit groups, 1.0 writes per commit group, ingest: {ingest} MB, 3.19 MB/s\n\
                 Interval WAL: {wal}, 3.19 MB/s\n"
            )
        };
        let text = format!(
            "fillseq      :       2.000 micros/op 500000 ops/sec 2.0 seconds 1000000 operations;   55.3 MB/s\n\
             Microseconds per write:\nCount: 5 Average: 1.0  StdDev: 0.1\nMin: 1  Median: 2.0000  Max: 6100\n\
             Percentiles: P50: 2.00 P75: 3.00 P99: 5.90 P99.9: 18.00 P99.99: 38.50\n\
             readrandom   :       1.000 micros/op 1000000 ops/sec 1.0 seconds 1000000 operations; (5 of 5 found)\n{}\
             fillrandom   :       4.000 micros/op 250000 ops/sec 4.0 seconds 1000000 operations;   27.7 MB/s\n{}\
             overwrite    :       4.000 micros/op 250000 ops/sec 4.0 seconds 1000000 operations;   27.7 MB/s\n{}",
            stats("128.00", "0.125", "1.5", "40K writes, 0 syncs, 40000.00 writes per sync, written: 0.13 GB"),
            stats("128.00", "0.250", "2.0", "0 writes, 0 syncs, 0.00 writes per sync, written: 0.00 GB"),
            // As with transactions, whose batches count twice.
            stats("64.00", "0.000", "0.0", "5 writes, 0 syncs, 5.00 writes per sync, written: 0.02 GB")
        );
        let found = lines(&text);
        assert_eq!(
            found.iter().map(|line| &line.name[..]).collect::<Vec<_>>(),
            ["fillseq", "readrandom", "fillrandom", "overwrite"]
        );
        assert_eq!(found[0].percentiles, [(50.0, 2.0), (75.0, 3.0), (99.0, 5.9), (99.9, 18.0), (99.99, 38.5)]);
        assert_eq!((found[0].max_us, found[1].volume), (Some(6_100.0), None));
        let mib = f64::from(1 << 20);
        let volume = |at: usize| found[at].volume.unwrap();
        let expected = PeerVolume { log_bytes: 128.0 * mib, flush_bytes: 128.0 * mib, level_bytes: 192.0 * mib };
        assert_eq!(volume(0), expected);
        let told = |at: usize| (volume(at).waf_lsm(), volume(at).waf_total(128 << 20));
        assert_eq!((told(0), told(2)), ((Some(1.5), Some(2.5)), (Some(2.0), Some(4.0))));
        assert_eq!((volume(3).log_bytes, volume(3).waf_lsm()), (0.02 * GIB, None));
        assert_eq!(volume(0).waf_total(0), None);
    }
}

//! Runs every question about the key-value engine once, with small sizes. No test judges a figure, since that would
//! make it depend on the machine.

use std::path::{Path, PathBuf};

use collie_workload::Random;

use super::KvSettings;
use super::draw::{Values, key_into};
use super::figures::SAMPLED_ONE_IN;
use crate::{Figure, Report, kv_bench};

/// Creates a program that answers as db_bench does and records its arguments.
fn planted_peer(dir: &Path) -> PathBuf {
    let (text, program) = (dir.join("db_bench.sh"), dir.join("db_bench"));
    let script = "#!/bin/sh\n\
                  echo \"$@\" >> \"$(dirname \"$0\")/asked\"\n\
                  for flag in \"$@\"; do case \"$flag\" in --benchmarks=*) list=\"${flag#*=}\";; esac; done\n\
                  echo 'RocksDB:    version 7.0.0' >&2\n\
                  echo 'WARNING: Assertions are enabled; benchmarks unnecessarily slow'\n\
                  IFS=,\n\
                  for name in $list; do case \"$name\" in\n\
                  flush|levelstats) ;;\n\
                  stats) echo ' Int 0/0 0.00 KB 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.5 17.5'\n\
                  echo 'Flush(GB): cumulative 0.001, interval 0.001'\n\
                  echo 'Interval writes: 100 writes, 100 keys, 100 commit groups, 1.0 writes per commit group, ingest: 2.00 MB, 1 MB/s'\n\
                  echo 'Interval WAL: 100 writes, 0 syncs, 100.00 writes per sync, written: 0.00 GB, 1 MB/s';;\n\
                  *) echo \"$name : 2.000 micros/op 1000 ops/sec 1.0 seconds 1000 operations;\"\n\
                  echo 'Min: 1  Median: 2.0  Max: 3.0'\n\
                  echo 'Percentiles: P50: 1.00 P75: 1.00 P99: 2.00 P99.9: 2.50 P99.99: 2.75';;\n\
                  esac; done\n";
    std::fs::write(&text, script).unwrap();
    // Another process installs it: if this process had it open for writing while another test forks a child, running it
    // would fail with "text file busy".
    let made = std::process::Command::new("install").args(["-m", "755"]).args([&text, &program]).status();
    assert!(made.unwrap().success());
    program
}

/// Goal: T72: the sampled writes are of every kind. Method: costs that recur every 2, 4, to 4096 writes; the same share
/// of the sampled writes must have each, as of all writes.
#[test]
fn sampled_writes_do_not_all_pay_what_few_pay() {
    for period in (1..=12).map(|bits| 1_u64 << bits) {
        let sampled = (1..=period).map(|number| number * SAMPLED_ONE_IN);
        assert_eq!(sampled.filter(|write| write.is_multiple_of(period)).count(), 1, "a cost every {period} writes");
    }
}

/// Goal: keys are in the order of their numbers, and values compress to half. Method: keys and values against what
/// db_bench makes.
#[test]
fn keys_and_values_are_as_db_bench_makes_them() {
    let mut key = [0; 16];
    key_into(&mut key, 258);
    assert_eq!(&key, b"\0\0\0\0\0\0\x01\x0200000000");
    let mut values = Values::new(&mut Random::new(1, 0));
    let first = values.next().to_owned();
    assert_eq!((first.len(), &first[..50]), (100, &first[50..]));
    assert_ne!(values.next(), first);
}

/// Asks `questions` with small sizes and the peer `program`.
fn asked(questions: &[&str], dir: &Path, program: PathBuf) -> anyhow::Result<Report> {
    let segment_bytes = Some(1 << 20);
    let mut settings = KvSettings { num: 400, runs: 1, peer: Some(program), segment_bytes, ..KvSettings::new(dir) };
    settings.plan.only = questions.iter().map(|name| (*name).to_owned()).collect();
    kv_bench(&settings)
}

/// Checks the numbers of Collie's and the peer's rows in a section, and that its figures are complete.
fn check(report: &Report, name: &str, [ours, peer]: [usize; 2]) {
    let section = report.sections.iter().find(|section| section.name == name).unwrap();
    let of = |who: &str| section.rows.iter().filter(|row| row.subject.starts_with(who)).count();
    assert_eq!([of("collie"), of("RocksDB")], [ours, peer], "{name}: {:?}", section.notes);
    for row in &section.rows {
        assert!(!row.figures.is_empty(), "{name}: {row:?}");
        for (key, figure) in &row.figures {
            let is_whole = matches!(figure, Figure::Runs(spread) if spread.low >= 0.0 && spread.high.is_finite());
            assert!(is_whole, "{name}: {key}: {figure:?}");
        }
    }
}

/// Goal: every question is answered, and the peer runs its part with the same settings. A missing peer is an error
/// that names the package. Method: all questions but the one that lets its process open few files, with small sizes
/// and a script in place of db_bench.
#[test]
fn peer_is_run_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let program = planted_peer(dir.path());
    let names = ["kv-loads", "kv-recover", "kv-log-off", "kv-wal-size", "kv-families", "kv-manual-flush"];
    let report = asked(&names, dir.path(), program).unwrap();
    assert_eq!(report.failed(), [""; 0], "{}", report.table());
    for (name, counts) in [
        ("kv-loads", [15, 15]),
        ("kv-recover", [1, 1]),
        ("kv-log-off", [6, 6]),
        ("kv-wal-size", [8, 6]),
        ("kv-families", [3, 0]),
        ("kv-manual-flush", [8, 8]),
    ] {
        check(&report, name, counts);
    }
    let notes = &report.sections[0].notes;
    assert_eq!(notes[0], "peer: RocksDB 7.0.0 WARNING: Assertions are enabled; benchmarks unnecessarily slow");
    let row = report.sections[0].rows.iter().find(|row| row.case == "fillseq").unwrap();
    assert_eq!((row.beside.len(), row.targets.len()), (1, 1), "{row:?}");
    // 1.5 times a thousandth of a GiB for the LSM levels, and 2 MiB for the log, divided by 400 x 116 bytes.
    let mut rows = report.sections[0].rows.iter();
    let written = rows.find(|row| row.subject == "RocksDB" && row.case == "fillrandom, flushed").unwrap();
    assert_eq!(written.median("waf_total").unwrap().round(), 80.0, "{written:?}");
    let made = std::fs::read_to_string(dir.path().join("asked")).unwrap();
    for part in [
        "--benchmarks=fillrandom,flush,stats",
        "--use_existing_db=1",
        "--num=2 --seed=1 --threads=1 --num_column_families=1 --compression_type=lz4 --sync=1",
    ] {
        assert!(made.contains(part), "no {part} in\n{made}");
    }
    let drawn = tempfile::tempdir().unwrap();
    assert_eq!(crate::draw(&report, drawn.path()).unwrap().len(), 3);
    let missing = asked(&["kv-recover"], dir.path(), "/nowhere/db_bench".into()).unwrap();
    assert!(missing.sections[0].failure.as_ref().unwrap().contains("rocksdb-tools"));
}

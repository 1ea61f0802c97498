//! Runs the flags, the lines, every benchmark and every experiment once, with small sizes. No test judges a figure,
//! since that would make it depend on the machine.

use std::path::Path;

use super::draw::{Values, key_into};
use super::drive::unlike;
use super::line::{Figures, SAMPLED_ONE_IN};
use super::peer::lines;
use super::workload::Workload;
use super::{KvFlags, kv_bench};
use crate::{Figure, Report};
use collie_engine::{Isolation, LogTimes};
use collie_env::Env;
use collie_workload::Random;

/// Small files of the log, since they are filled with zeros and the warm-up writes them all.
const SMALL_LOG: &str = "--wal_segment_size=1048576";

fn parse(flags: &[&str]) -> Result<KvFlags, String> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    KvFlags::parse(&flags).map_err(|error| error.to_string())
}

fn run(flags: &[&str]) -> (Vec<String>, anyhow::Result<Option<Report>>) {
    let flags = parse(&[&[SMALL_LOG][..], flags].concat()).unwrap();
    let mut said = Vec::new();
    let outcome = kv_bench(&flags, &Env::real(), None, &mut |line| said.push(line.to_owned()));
    (said, outcome)
}

/// Creates a program that answers as db_bench does and records its arguments. Returns the flag that names it.
fn planted_peer(dir: &Path) -> String {
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
    format!("--peer=db_bench={}", program.display())
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

/// Goal: flags are those of db_bench, and none is ignored. Method: each notation, one without effect, wrong ones with
/// their messages.
#[test]
fn flags_are_understood_or_refused() {
    let flags =
        parse(&["--benchmarks=fillseq,readrandom[X3]", "--value-size=8", "--sync", "--histogram=true"]).unwrap();
    assert_eq!(flags.benchmarks, [(Workload::FillSeq, 1), (Workload::ReadRandom, 3)]);
    assert_eq!((flags.value_size, flags.sync, flags.histogram), (8, true, true));
    assert_eq!(flags.for_peer, ["--value_size=8", "--sync=1", "--histogram=true"]);
    let flags = parse(&["--bloom_bits=10", "--compression_type=snappy", "--isolation=serializable"]).unwrap();
    assert!(flags.notes[0].starts_with("bloom_bits=10: no effect: "), "{:?}", flags.notes);
    assert_eq!((flags.notes.len(), flags.isolation), (2, Isolation::Serializable));
    let flags = parse(&["--compression_type=none", "--max_background_jobs=9"]).unwrap();
    assert_eq!((flags.compression_name(), flags.background_jobs, flags.notes.len()), ("none", Some(9), 0));
    assert_eq!(flags.for_peer, ["--compression_type=none", "--max_background_jobs=9"]);
    let cell = flags.with(&["num=5", "sync=1"]).unwrap();
    assert_eq!((cell.num, cell.sync, flags.sync), (5, true, false));
    assert!(cell.for_peer.ends_with(&["--num=5".to_owned(), "--sync=1".to_owned()]), "{:?}", cell.for_peer);
    for (wrong, said) in [
        ("--vlaue_size=1", "unknown flag --vlaue_size: did you mean --value_size?"),
        ("--benchmarks=fillsec", "unknown benchmark fillsec: did you mean fillseq?"),
        ("--benchmarks=fillseq[5]", "name[X5] repeats"),
        ("--benchmarks=", "names none"),
        ("--num=many", "a count is wanted"),
        ("--num=0", "at least 1"),
        ("--key_size=7", "at least 8"),
        ("--sync=2", "0 or 1"),
        ("--merge_operator=put", "--merge_operator is not built"),
        ("--wal_segment_size=4096", "at least 1048576"),
        ("--compression_type=lz5", "none, lz4"),
        ("--max_background_jobs=0", "1 to 64"),
        ("--isolation=none", "read_committed, repeatable_read, serializable"),
        ("--matrix=wall-study", "wal-study, figures, recover, all"),
        ("--plots=x", "--plots is of a matrix"),
        ("--blom_bits=1", "did you mean --bloom_bits?"),
        ("--peer=redis", "db_bench"),
        ("fillseq", "is no flag"),
    ] {
        let error = parse(&[wrong]).unwrap_err();
        assert!(error.contains(said), "{wrong}: {error}");
    }
}

/// Goal: keys are in the order of their numbers, and values compress as requested. Method: keys and values against what
/// db_bench makes; a count of repeated bytes.
#[test]
fn keys_and_values_are_as_db_bench_makes_them() {
    let mut key = [0; 16];
    key_into(&mut key, 258);
    assert_eq!(&key, b"\0\0\0\0\0\0\x01\x0200000000");
    let mut random = Random::new(1, 0);
    let mut values = Values::new(0.5, 100, &mut random);
    let value = values.next(100).to_vec();
    assert_eq!(value[..50], value[50..], "half of it is new");
    assert_ne!(values.next(100), value);
    let mut values = Values::new(1.0, 3 << 20, &mut random);
    assert_eq!(values.next(3 << 20).len(), 3 << 20);
    assert_ne!(Random::new(1, 0).draw(), Random::new(1, 1).draw());
}

/// Goal: Collie's lines have db_bench's format, and the parser reads both. Method: figures to a line and back; a line
/// of db_bench.
#[test]
fn lines_are_those_of_db_bench() {
    let figures = Figures {
        operations: 1_000,
        thread_ns: 2_000_000,
        elapsed_ns: 1_000_000,
        bytes: 1 << 20,
        found: Some((5, 1_000)),
        ..Figures::default()
    };
    let line = figures.line("readrandom");
    let expected = "readrandom   :       2.000 micros/op 1000000 ops/sec 0.001 seconds 1000 operations; 1000.0 MB/s (5 of 1000 found)";
    assert_eq!(line, expected);
    assert_eq!(lines(&line)[0].operations_per_second, 1e6);
    let theirs = "Set seed to 1\nDB path: [/x]\n\rfinished 100 ops\rfillseq      :       2.389 micros/op 418541 ops/sec 2.389 \
                  seconds 1000000 operations;   46.3 MB/s\n";
    let found = lines(theirs);
    assert_eq!((found.len(), &found[0].name[..], found[0].operations_per_second), (1, "fillseq", 418_541.0));
}

/// Goal: every flag of db_bench is known, whether it has an effect or not. Method: db_bench's own list of flags, each
/// with the value 1.
#[test]
fn every_flag_of_db_bench_is_known() {
    let Ok(help) = std::process::Command::new("db_bench").arg("--help").output() else {
        assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "rocksdb-tools is not installed");
        eprintln!("NOT RUN: rocksdb-tools is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&help.stdout).into_owned() + &String::from_utf8_lossy(&help.stderr);
    let files: Vec<&str> = text.split("Flags from ").collect();
    let own = files.iter().find(|part| part.lines().next().is_some_and(|file| file.contains("db_bench_tool")));
    let names =
        own.unwrap().lines().filter_map(|line| line.strip_prefix("    -")?.split_once(" (")).map(|(name, _)| name);
    let mut count = 0;
    for name in names {
        if let Err(error) = parse(&[&format!("--{name}=1")]) {
            assert!(!error.contains("unknown flag"), "{error}");
        }
        count += 1;
    }
    assert!(count > 300, "{count} flags were found");
}

/// Goal: the time that a write spends in the log is reported by its parts. Method: two invented writes.
#[test]
fn log_time_is_told_by_its_parts() {
    let mut figures = Figures::default();
    assert!(figures.writes.lines().is_empty(), "nothing was written");
    figures.writes.record(1_000, LogTimes { append_ns: 100, boundary_ns: 50, durable_ns: 0 });
    figures.writes.record(3_000, LogTimes { append_ns: 300, boundary_ns: 150, durable_ns: 400 });
    assert_eq!(figures.writes.log_percent(), [25.0, 10.0, 5.0, 10.0]);
    let lines = figures.writes.lines();
    assert!(lines[0].contains("max 3.00 us, of 2 writes"), "{lines:?}");
    assert!(lines[1].contains("25.0 % of a write: append 10.0 %, wait for the boundary 5.0 %, for the disk 10.0 %"));
    let (before, other) = (figures.clone(), figures);
    let mut all = before;
    all.merge(&other);
    assert_eq!((all.writes.log_percent()[0], all.writes.latencies.count()), (25.0, 4));
}

/// Goal: writes that a kill loses are not compared with writes that survive it. Method: each setting, with a ring that
/// outlives the process and one that does not.
#[test]
fn unlike_durability_is_named() {
    let why = |flag: &str, outlives| unlike(&parse(&[flag]).unwrap(), outlives);
    assert!(why("--num=1", false).unwrap().contains("--allow_unlike=1"));
    assert_eq!(why("--num=1", true), None);
    for alike in ["--sync=1", "--disable_wal=1", "--manual_wal_flush=1"] {
        assert_eq!(why(alike, false), None);
    }
}

/// Goal: every benchmark runs and counts its operations. Method: all of them over a small database, with two threads,
/// batches and families; the operations in each line; the bytes written and on disk after each benchmark that writes.
#[test]
fn every_benchmark_runs() {
    let dir = tempfile::tempdir().unwrap();
    let db = format!("--db={}", dir.path().display());
    let all: Vec<(&str, Workload)> =
        Workload::ALL.iter().copied().filter(|(_, one)| *one != Workload::Compact).collect();
    let measured: Vec<_> =
        all.iter().filter(|(_, one)| !matches!(one, Workload::Stats | Workload::LevelStats)).collect();
    // The benchmarks that read follow those that fill, so they find rows whatever a benchmark leaves.
    let list = format!("--benchmarks={}", all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(","));
    let (json, report) = (dir.path().join("kv.json"), dir.path().join("report.csv"));
    let out = [format!("--json={}", json.display()), format!("--report_file={}", report.display())];
    let (said, outcome) = run(&[
        &db,
        &list,
        "--num=2000",
        "--threads=2",
        "--histogram=1",
        "--num_column_families=2",
        "--report_interval_seconds=1",
        &out[0],
        &out[1],
    ]);
    outcome.unwrap();
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("micros/op")).collect();
    assert_eq!(lines.len(), measured.len(), "{said:?}");
    for (line, (name, one)) in lines.iter().zip(&measured) {
        assert!(line.starts_with(name), "{line}");
        let count = match one {
            // Scans read one family, and the rows that are left in it by then: 2 rows of fill100K, and those of
            // overwrite.
            Workload::ReadSeq | Workload::ReadReverse | Workload::SeekRandom => continue,
            Workload::FillSync | Workload::Fill100K => 4,
            Workload::Recover | Workload::Flush => 1,
            _ => 4_000,
        };
        assert!(line.contains(&format!(" {count} operations;")), "{line}");
    }
    let behind = |what: &str| said.iter().filter(|line| line.trim_start().starts_with(what)).count();
    let loads = all.iter().filter(|(_, one)| one.is_load()).count();
    assert_eq!(said.iter().filter(|line| line.contains("Percentiles:")).count(), loads);
    let writing = all.iter().filter(|(_, one)| one.writes()).count();
    assert_eq!([behind("commit "), behind("log time ")], [writing, writing]);
    assert_eq!([behind("written "), behind("space "), behind("counters ")], [writing + 1; 3], "and behind flush");
    assert_eq!(
        [behind("warm-up "), behind("recovered "), behind("** DB Stats **"), behind("Tree ")],
        [1; 4],
        "{said:#?}"
    );
    assert!(said.iter().any(|line| line.contains("( transactions:4000 aborts:")), "{said:#?}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), measured.len());
    assert!(json["results"][0]["waf_total"][0].as_f64().unwrap() > 0.0, "{}", json["results"][0]);
    assert!(std::fs::read_to_string(report).unwrap().starts_with("secs_elapsed,interval_qps\n"));
}

/// Goal: benchmarks find the rows that earlier ones left. Method: filled rows are found again in order, and deleted
/// ones are not; random reads draw other keys than random writes did: 63 of 100 keys were written; rows that were read
/// before a restart are read after it.
#[test]
fn benchmarks_find_what_those_before_left() {
    let dir = tempfile::tempdir().unwrap();
    let db = format!("--db={}", dir.path().display());
    let again = "--benchmarks=fillseq,readrandom,readseq,readreverse,deleteseq,readrandom,readmissing[X2]";
    let (said, outcome) = run(&[&db, again, "--num=500", "--batch_size=50"]);
    outcome.unwrap();
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("micros/op")).collect();
    for (line, ends) in lines.iter().zip(["", "(500 of 500 found)", "", "", "", "(0 of 500 found)", "(0 of 500 found)"])
    {
        assert!(line.ends_with(ends) && line.contains(" 500 operations;"), "{line}");
    }
    assert!(said.iter().any(|line| line.starts_with("readmissing [AVG    2 runs]")), "{said:?}");
    let (said, outcome) = run(&[&db, "--benchmarks=fillrandom,readrandom,recover,readrandom", "--num=4000"]);
    outcome.unwrap();
    let found = said.iter().filter_map(|line| line.split_once('(')?.1.strip_suffix(" of 4000 found)")?.parse().ok());
    let found: Vec<u32> = found.collect();
    assert!(found.len() == 2 && found.iter().all(|found| (2_300..2_800).contains(found)), "{said:?}");
}

/// Goal: no update of a transaction is lost at any isolation level; the benchmark would report it. Method: few rows,
/// four threads; the benchmark itself compares the sums.
#[test]
fn transactions_lose_no_update_at_any_level() {
    let dir = tempfile::tempdir().unwrap();
    let db = format!("--db={}", dir.path().display());
    // The first run begins without rows; the last one creates the missing ones.
    for level in ["repeatable_read", "serializable", "read_committed"] {
        let isolation = format!("--isolation={level}");
        let (said, outcome) = run(&[
            &db,
            "--benchmarks=randomtransaction",
            "--num=20",
            "--reads=300",
            "--threads=4",
            "--transaction_sets=3",
            &isolation,
        ]);
        outcome.unwrap();
        assert!(said.iter().any(|line| line.contains("( transactions:1200 aborts:")), "{level}: {said:#?}");
    }
}

/// Goal: tables are merged on request, and writes run without the log. Method: a list with `compact`, a run with
/// `disable_wal`, and one with a database that has no log.
#[test]
fn tables_are_merged_and_writes_leave_the_log_out() {
    let dir = tempfile::tempdir().unwrap();
    let db = format!("--db={}", dir.path().display());
    for flags in [
        ["--benchmarks=fillseq,compact", "--compression_type=none"],
        ["--disable_wal=1", "--max_background_jobs=2"],
        ["--disable_wal=all", "--benchmarks=fillseq,flush,recover,readrandom"],
    ] {
        let (said, outcome) = run(&[&db, flags[0], flags[1], "--num=50"]);
        outcome.unwrap();
        assert!(said.iter().any(|line| line.contains("micros/op")), "{said:?}");
    }
}

/// Goal: the peer's figures are reported next to Collie's, each under its own benchmark, and a missing peer is an error
/// that names the package. Method: a script in place of db_bench.
#[test]
fn peer_is_run_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (db, peer) = (format!("--db={}", dir.path().display()), planted_peer(dir.path()));
    let list = "--benchmarks=fillseq,flush,readrandom,recover,fillsync";
    let (said, outcome) = run(&[&db, &peer, list, "--num=100", "--runs=2", "--allow_unlike=1"]);
    outcome.unwrap();
    assert!(
        said.iter().any(|line| line == "RocksDB 7.0.0 WARNING: Assertions are enabled; benchmarks unnecessarily slow")
    );
    for name in ["fillseq", "readrandom", "recover", "fillsync"] {
        assert_eq!(said.iter().filter(|line| line.starts_with(&format!("RocksDB {name} "))).count(), 2, "{said:#?}");
    }
    // 1.5 times a thousandth of a GiB for the LSM levels, and 2 MiB for the log, divided by 100 x 116 bytes.
    let told = "WAF_lsm 1.50 WAF_total 319.63 (by its statistics)";
    assert_eq!(said.iter().filter(|line| line.ends_with(told)).count(), 2, "{said:#?}");
    let row = |name: &str| said.iter().rfind(|line| line.starts_with(name)).unwrap();
    assert!(row("fillseq ").contains(" 1000 ") && row("readrandom ").contains(" 1000 "), "{said:#?}");
    assert!(row("flush ").trim_end().ends_with('-'), "{}", row("flush "));
    let asked = std::fs::read_to_string(dir.path().join("asked")).unwrap();
    for part in [
        "--benchmarks=fillseq,flush,readrandom,stats --num=100 --compression_type=lz4\n",
        "--benchmarks=levelstats --num=100 --compression_type=lz4 --use_existing_db=1\n",
        "--benchmarks=fillsync,stats --num=100 --compression_type=lz4 --writes=1\n",
    ] {
        assert_eq!(asked.matches(part).count(), 2, "{asked}");
    }
    let (_, missing) = run(&[&db, "--peer=db_bench=/nowhere/db_bench", "--benchmarks=fillseq", "--num=5", "--sync=1"]);
    assert!(format!("{:#}", missing.unwrap_err()).contains("rocksdb-tools"));
}

/// Runs a matrix with a planted peer; returns its report.
fn matrix(name: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let (db, peer) = (format!("--db={}", dir.path().display()), planted_peer(dir.path()));
    let matrix = format!("--matrix={name}");
    let (_, outcome) = run(&[&db, &peer, &matrix, "--num=400", "--runs=1", "--allow_unlike=1"]);
    outcome.unwrap().unwrap()
}

/// Checks the numbers of Collie's and the peer's rows in a section, and that its figures are complete.
fn check(report: &Report, name: &str, [ours, peer]: [usize; 2]) {
    let section = report.sections.iter().find(|section| section.name == name).unwrap();
    let of = |who: &str| section.rows.iter().filter(|row| row.subject.starts_with(who)).count();
    assert_eq!([of("collie"), of("RocksDB")], [ours, peer], "{name}");
    for row in &section.rows {
        assert!(!row.figures.is_empty(), "{name}: {row:?}");
        for (key, figure) in &row.figures {
            let is_whole = match figure {
                Figure::Runs(spread) => spread.low >= 0.0 && spread.high.is_finite(),
                Figure::Absent(_) => true,
                Figure::Count(_) => false,
            };
            assert!(is_whole, "{name}: {key}: {figure:?}");
        }
    }
}

/// Goal: every load for which figures are promised runs, and the peer runs it too. Method: all of them, with small
/// sizes and a planted peer.
#[test]
fn loads_run_beside_the_peer() {
    let report = matrix("figures");
    check(&report, "kv-loads", [16, 16]);
    let notes = &report.sections[0].notes;
    assert!(notes[0].starts_with("peer: RocksDB 7.0.0"), "{notes:?}");
    let row = report.sections[0].rows.iter().find(|row| row.case == "fillseq").unwrap();
    assert_eq!((row.beside.len(), row.targets.len()), (1, 1), "{row:?}");
}

/// Goal: every experiment of the study runs, and the peer runs its part. Method: all of them, with small sizes and a
/// planted peer.
#[test]
fn study_runs_to_its_end() {
    let report = matrix("wal-study");
    check(&report, "kv-log-off", [6, 6]);
    check(&report, "kv-wal-size", [38, 6]);
    check(&report, "kv-families", [5, 0]);
    check(&report, "kv-descriptors", [1, 1]);
    check(&report, "kv-manual-flush", [8, 8]);
    let drawn = tempfile::tempdir().unwrap();
    assert_eq!(crate::draw(&report, drawn.path()).unwrap().len(), 3);
}

//! The flags, the lines, and every benchmark once, small.

use super::draw::{Random, Values, key_into};
use super::line::Figures;
use super::peer::lines;
use super::workload::Workload;
use super::{KvFlags, kv_bench};
use collie_env::Env;

fn parse(flags: &[&str]) -> Result<KvFlags, String> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    KvFlags::parse(&flags).map_err(|error| error.to_string())
}

fn run(flags: &[&str]) -> (Vec<String>, anyhow::Result<()>) {
    let flags = parse(flags).unwrap();
    let mut said = Vec::new();
    let outcome = kv_bench(&flags, &Env::real(), &mut |line| said.push(line.to_owned()));
    (said, outcome)
}

/// Goal: flags are db_bench's, and none is passed over. Method: each notation, one without effect, wrong ones with their messages.
#[test]
fn flags_are_understood_or_refused() {
    let flags =
        parse(&["--benchmarks=fillseq,readrandom[X3]", "--value-size=8", "--sync", "--histogram=true"]).unwrap();
    assert_eq!(flags.benchmarks, [(Workload::FillSeq, 1), (Workload::ReadRandom, 3)]);
    assert_eq!((flags.value_size, flags.sync, flags.histogram), (8, true, true));
    assert_eq!(flags.for_peer, ["--value_size=8", "--sync=1", "--histogram=true"]);
    let flags = parse(&["--bloom_bits=10", "--compression_type=lz4"]).unwrap();
    assert!(flags.notes[0].starts_with("bloom_bits=10: no effect: "), "{:?}", flags.notes);
    assert_eq!(flags.notes.len(), 2);
    for (wrong, said) in [
        ("--vlaue_size=1", "unknown flag --vlaue_size: did you mean --value_size?"),
        ("--benchmarks=fillsec", "unknown benchmark fillsec: did you mean fillseq?"),
        ("--benchmarks=fillseq[5]", "name[X5] repeats"),
        ("--benchmarks=", "names none"),
        ("--num=many", "a count is wanted"),
        ("--num=0", "at least 1"),
        ("--key_size=7", "at least 8"),
        ("--sync=2", "0 or 1"),
        ("--wal_dir=/x", "--wal_dir is not built"),
        ("--peer=redis", "db_bench"),
        ("fillseq", "is no flag"),
    ] {
        let error = parse(&[wrong]).unwrap_err();
        assert!(error.contains(said), "{wrong}: {error}");
    }
}

/// Goal: keys are in the order of their numbers and values compress as asked. Method: neighbours; a count of repeated bytes.
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
    assert_ne!(Random::new(1, 0).next(), Random::new(1, 1).next());
}

/// Goal: lines read as db_bench's, ours by its eye and its by ours. Method: figures to a line and back; a line of db_bench.
#[test]
fn lines_are_those_of_db_bench() {
    let figures = Figures {
        operations: 1_000,
        thread_ns: 2_000_000,
        elapsed_ns: 1_000_000,
        bytes: 1 << 20,
        found: Some((5, 1_000)),
        latencies: None,
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

/// Goal: every benchmark runs and counts what it did. Method: all of them over a small database, with two threads, batches and
/// families; the operations in each line.
#[test]
fn every_benchmark_runs() {
    let dir = tempfile::tempdir().unwrap();
    let db = format!("--db={}", dir.path().display());
    let (mut names, mut expected) = (Vec::new(), Vec::new());
    for (name, workload) in Workload::ALL {
        names.push(*name);
        expected.push(if matches!(workload, Workload::FillSync | Workload::Fill100K) { 4 } else { 4_000 });
    }
    // Whatever a benchmark leaves, the next ones that read find something: they follow the filling ones.
    let list = format!("--benchmarks={}", names.join(","));
    let json = dir.path().join("kv.json");
    let out = format!("--json={}", json.display());
    let (said, outcome) =
        run(&[&db, &list, "--num=2000", "--threads=2", "--histogram=1", "--num_column_families=2", &out]);
    outcome.unwrap();
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("micros/op")).collect();
    assert_eq!(lines.len(), names.len(), "{said:?}");
    for ((line, name), count) in lines.iter().zip(&names).zip(&expected) {
        assert!(line.starts_with(name), "{line}");
        // Scans read one family, and what is left of it by then: 2 rows of fill100K, and what overwrite made of it.
        let count = if name.starts_with("readse") || *name == "readreverse" { None } else { Some(count) };
        assert!(count.is_none_or(|count| line.contains(&format!(" {count} operations;"))), "{line}");
    }
    assert_eq!(said.iter().filter(|line| line.contains("P99.9")).count(), names.len());
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), names.len());
    // What was filled is found again by the next run over it, in order, and what was deleted is not.
    let again = "--benchmarks=fillseq,readrandom,readseq,readreverse,deleteseq,readrandom,readmissing[X2]";
    let (said, outcome) = run(&[&db, again, "--num=500", "--batch_size=50"]);
    outcome.unwrap();
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("micros/op")).collect();
    for (line, ends) in lines.iter().zip(["", "(500 of 500 found)", "", "", "", "(0 of 500 found)", "(0 of 500 found)"])
    {
        assert!(line.ends_with(ends) && line.contains(" 500 operations;"), "{line}");
    }
    assert!(said.iter().any(|line| line.starts_with("readmissing [AVG    2 runs]")), "{said:?}");
    // What is read at random is not what was written at random: 63 of 100 keys were.
    let (said, outcome) = run(&[&db, "--benchmarks=fillrandom,readrandom", "--num=4000"]);
    outcome.unwrap();
    let found = said.iter().find_map(|line| line.split_once('(')?.1.strip_suffix(" of 4000 found)")?.parse().ok());
    assert!(found.is_some_and(|found: u32| (2_300..2_800).contains(&found)), "{said:?}");
    let (_, refused) = run(&[&db, "--benchmarks=fillseq", "--num=5", "--disable_wal=1"]);
    assert!(format!("{:#}", refused.unwrap_err()).contains("disable_wal"));
}

/// Goal: a peer's figures stand beside ours, and one that is not there is named. Method: a script in place of db_bench.
#[test]
fn peer_is_run_in_turn() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("db_bench");
    let script = "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/asked\"\n\
                  echo 'fillseq      :       2.000 micros/op 1000 ops/sec 1.0 seconds 1000 operations;'\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (db, peer) = (format!("--db={}", dir.path().display()), format!("--peer=db_bench={}", program.display()));
    let flags = [&db[..], &peer, "--benchmarks=fillseq", "--num=100", "--runs=2", "--unlike_durability=1"];
    let (said, outcome) = run(&flags);
    outcome.unwrap();
    assert_eq!(said.iter().filter(|line| line.starts_with("RocksDB fillseq")).count(), 2);
    let row = said.last().unwrap();
    assert!(row.starts_with("fillseq ") && row.contains(" 1000 "), "{row}");
    let asked = std::fs::read_to_string(dir.path().join("asked")).unwrap();
    assert!(asked.contains("--benchmarks=fillseq --compression_type=none --num=100"), "{asked}");
    let (_, missing) = run(&[&db, "--peer=db_bench=/nowhere/db_bench", "--benchmarks=fillseq", "--num=5", "--sync=1"]);
    assert!(format!("{:#}", missing.unwrap_err()).contains("rocksdb-tools"));
}

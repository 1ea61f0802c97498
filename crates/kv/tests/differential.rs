//! The same sequence of calls with lsm-tree, with the map that replaces it on a simulated disk, and in RocksDB: every
//! committed byte is the same. RocksDB is written and read by its own tool, `ldb` of the package rocksdb-tools; nothing
//! of it is linked.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use collie_engine::Env;
use collie_env::{SimFiles, SimRandom};
use collie_kv::{Batch, CfOptions, Db, Durability};
use common::tiny;

/// Names of the families.
const NAMES: [&str; 2] = ["a", "b"];
const SYNC: Durability = Durability::Local;

type Key = Vec<u8>;
/// The rows of each family.
type State = BTreeMap<&'static str, BTreeMap<Key, Vec<u8>>>;

/// A write to a family; `None` deletes.
type Put = (&'static str, Key, Option<Vec<u8>>);

/// One step of a sequence.
#[derive(Clone, Debug)]
enum Step {
    /// One commit.
    Write(Vec<Put>),
    Flush(&'static str),
    Compact(&'static str),
    /// Flushes, re-logs and cuts of the log that are due.
    FlushDue,
    Drop(&'static str),
    /// The database is closed, or dropped as it is.
    Reopen {
        closed: bool,
    },
    /// The sequence continues in a copy.
    MoveToCopy,
}

fn below(random: &SimRandom, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).unwrap()
}

/// Returns keys that are prefixes of each other, including the empty one.
fn key(number: usize) -> Key {
    let bytes = [0x00, 0xFF, b'k', u8::try_from(number / 9).unwrap()];
    bytes[..number % 5 % 4 + usize::from(number > 0)].iter().map(|byte| byte ^ u8::try_from(number).unwrap()).collect()
}

/// Draws a sequence of steps.
fn life(seed: u64, steps: usize) -> Vec<Step> {
    let random = SimRandom::new(seed);
    let name = || NAMES[below(&random, 2)];
    let put = |at: usize| -> Put {
        let len = [0, 7, 40, 9000][below(&random, 4)];
        let value = (below(&random, 3) > 0)
            .then(|| (0..len).map(|byte| u8::try_from((byte * 31 + at) % 256).unwrap()).collect());
        (name(), key(below(&random, 30)), value)
    };
    let step = |at| match below(&random, 24) {
        0 | 1 => Step::Flush(name()),
        2 => Step::Compact(name()),
        3 => Step::FlushDue,
        4 => Step::Reopen { closed: below(&random, 2) == 0 },
        5 if below(&random, 3) == 0 => Step::MoveToCopy,
        6 if below(&random, 3) == 0 => Step::Drop(name()),
        _ => Step::Write((0..=below(&random, 4)).map(|more| put(at + more)).collect()),
    };
    (0..steps).map(step).collect()
}

/// A database and its directory.
struct Side {
    env: Env,
    dir: PathBuf,
    db: Db,
    copies: u32,
}

fn open(env: &Env, dir: &Path) -> Db {
    let (engine, _) = collie_engine::Db::open(dir, tiny(), env.clone(), &mut |_| ()).unwrap();
    engine.set_max_total_wal_size(1);
    Db::over(&engine)
}

impl Side {
    fn new(env: Env, dir: &Path) -> Self {
        env.files.create_dir_all(dir).unwrap();
        let dir = dir.join("db-0");
        let db = open(&env, &dir);
        NAMES.iter().for_each(|name| _ = db.create_cf(name, CfOptions::default()).unwrap());
        Self { env, dir, db, copies: 0 }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(puts) => {
                let mut batch = Batch::new();
                for (name, key, value) in puts {
                    let cf = self.db.cf(name).unwrap();
                    match value {
                        Some(value) => batch.put(&cf, key, value),
                        None => batch.delete(&cf, key),
                    }
                }
                self.db.write(batch, SYNC).unwrap();
            }
            Step::Flush(name) => self.db.flush_cf(&[&self.db.cf(name).unwrap()]).unwrap(),
            Step::Compact(name) => self.db.compact(&self.db.cf(name).unwrap()).unwrap(),
            Step::FlushDue => _ = self.db.engine().flush_due().unwrap(),
            Step::Drop(name) => {
                self.db.drop_cf(&self.db.cf(name).unwrap()).unwrap();
                self.db.create_cf(name, CfOptions::default()).unwrap();
            }
            Step::Reopen { closed } => {
                if *closed {
                    self.db.close().unwrap();
                }
                self.reopen();
            }
            Step::MoveToCopy => {
                self.copies += 1;
                let to = self.dir.with_file_name(format!("db-{}", self.copies));
                self.db.checkpoint(&to).unwrap();
                self.dir = to;
                self.reopen();
            }
        }
        self.db.engine().tick();
    }

    fn reopen(&mut self) {
        // The open one must be dropped first: the directory is locked.
        self.db = open(&Env::over(SimFiles::new(), 8), Path::new("/nowhere"));
        self.db = open(&self.env, &self.dir);
    }

    fn state(&self) -> State {
        let snapshot = self.db.snapshot().unwrap();
        let rows = |name: &'static str| {
            let rows: Vec<_> =
                snapshot.scan(&self.db.cf(name).unwrap(), ..).map(|item| item.unwrap().to_pair()).collect();
            assert!(rows.is_sorted_by(|one, next| one.0 < next.0));
            (name, rows.into_iter().collect())
        };
        NAMES.into_iter().map(rows).collect()
    }

    /// Flushes and merges everything; returns the number of keys that the tables report.
    fn merge(&self) -> u64 {
        NAMES.iter().for_each(|name| self.db.compact(&self.db.cf(name).unwrap()).unwrap());
        let ids = NAMES.map(|name| self.db.cf(name).unwrap().id());
        let trees = self.db.engine().level_stat().trees.into_iter().map(|tree| tree.state);
        trees.filter(|tree| ids.contains(&tree.cfs[0])).map(|tree| tree.live_keys).sum()
    }
}

/// Returns the state after a sequence, computed with a plain map.
fn after(steps: &[Step]) -> State {
    let mut state: State = NAMES.into_iter().map(|name| (name, BTreeMap::new())).collect();
    for step in steps {
        match step {
            Step::Write(puts) => {
                for (name, key, value) in puts {
                    let rows = state.get_mut(name).unwrap();
                    match value {
                        Some(value) => _ = rows.insert(key.clone(), value.clone()),
                        None => _ = rows.remove(key),
                    }
                }
            }
            Step::Drop(name) => state.get_mut(name).unwrap().clear(),
            _ => {}
        }
    }
    state
}

/// Goal: with lsm-tree, in the operating system's files, and with the map, on a simulated disk, the engine commits,
/// flushes, merges, re-logs, drops, copies and opens to the same bytes. Method: random sequences on both; each state
/// after an opening is compared, and at the end the tables alone, merged.
#[test]
fn engine_is_the_same_on_lsm_tree_and_on_the_map() {
    for seed in 0..3 {
        let steps = life(seed, 120);
        let scratch = tempfile::tempdir().unwrap();
        let mut real = Side::new(Env::real(), scratch.path());
        let mut map = Side::new(Env::over(SimFiles::new(), seed), Path::new("/scratch"));
        for (at, step) in steps.iter().enumerate() {
            real.step(step);
            map.step(step);
            let expected = after(&steps[..=at]);
            for (name, side) in [("lsm-tree", &real), ("map", &map)] {
                assert!(side.state() == expected, "{name}, seed {seed}, step {at}: {step:?}");
            }
        }
        let expected = after(&steps);
        let keys: usize = expected.values().map(BTreeMap::len).sum();
        for side in [&mut real, &mut map] {
            assert_eq!(side.merge(), keys as u64);
            side.db.close().unwrap();
            side.reopen();
            assert!(side.state() == expected, "seed {seed}");
        }
    }
}

/// Runs `ldb` on a database; returns its output.
fn ldb(dir: &Path, arguments: &[String]) -> String {
    let mut command = Command::new("ldb");
    let output = command.arg(format!("--db={}", dir.display())).args(arguments).arg("--hex").output();
    let output = output.expect("ldb of the package rocksdb-tools (`make tools`)");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02X}"))
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.trim().strip_prefix("0x").unwrap();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// Goal: RocksDB holds the same bytes in the same order after the same writes. Method: the writes of a sequence by
/// `ldb`, one process per run of puts and per deletion, each family as a separate database; `ldb scan` before and after
/// it compacts, compared with our scan.
#[test]
fn engine_holds_what_rocksdb_holds() {
    let steps = life(77, 60);
    let scratch = tempfile::tempdir().unwrap();
    let mut collie = Side::new(Env::real(), &scratch.path().join("collie"));
    let peer = |name: &str| scratch.path().join(name);
    let flush = |name: &str, puts: &mut Vec<String>| {
        if !puts.is_empty() {
            let all = ["batchput".to_owned(), "--create_if_missing".to_owned()].into_iter().chain(puts.drain(..));
            ldb(&peer(name), &all.collect::<Vec<_>>());
        }
    };
    let mut waiting: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for step in &steps {
        collie.step(step);
        match step {
            Step::Write(puts) => {
                for (name, key, value) in puts {
                    let waiting = waiting.entry(name).or_default();
                    match value {
                        Some(value) => waiting.extend([hex(key), hex(value)]),
                        None => {
                            flush(name, waiting);
                            if peer(name).exists() {
                                ldb(&peer(name), &["delete".to_owned(), hex(key)]);
                            }
                        }
                    }
                }
            }
            Step::Drop(name) => {
                waiting.remove(name);
                let _never_written = std::fs::remove_dir_all(peer(name));
            }
            _ => {}
        }
    }
    let state = collie.state();
    assert!(state == after(&steps) && state.values().all(|rows| rows.len() > 5), "{state:?}");
    for (name, rows) in &state {
        flush(name, waiting.entry(name).or_default());
        for compacted in [false, true] {
            if compacted {
                ldb(&peer(name), &["compact".to_owned()]);
            }
            let scan = ldb(&peer(name), &["scan".to_owned()]);
            let found: Vec<(Key, Vec<u8>)> = scan
                .lines()
                .map(|line| line.split_once(" : ").unwrap_or_else(|| panic!("{line}")))
                .map(|(key, value)| (bytes_of(key), bytes_of(value)))
                .collect();
            let ours: Vec<(Key, Vec<u8>)> = rows.clone().into_iter().collect();
            assert!(found == ours, "{name}: {} rows there, {} here", found.len(), ours.len());
        }
    }
}

//! Atomic groups: families that are flushed together, their state after a crash, and dropped members.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use collie_engine::{Env, ErrorKind, Options};
use collie_env::{Fault, SimFiles, SimRandom};
use collie_kv::{Batch, Cf, CfOptions, Db, Durability, FlushTo, TxnOptions};
use common::open_tiny;

const SYNC: Durability = Durability::Local;
const ASYNC: Durability = Durability::Async;
const UNLOGGED: Durability = Durability::Unlogged;

/// Rows of each existing family.
type Rows = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn open(disk: &SimFiles, seed: u64) -> Db {
    Db::over(&open_tiny(Env::over(disk.clone(), seed)).unwrap().0)
}

fn make(db: &Db, name: &str) -> Cf {
    db.create_cf(name, CfOptions::new().group("g")).unwrap()
}

fn rows(db: &Db) -> Rows {
    let snapshot = db.snapshot().unwrap();
    let names = db.list_cfs().unwrap().into_iter().map(|(name, _)| name);
    let rows = |name: &str| snapshot.scan(&db.cf(name).unwrap(), ..).map(|item| item.unwrap().to_pair()).collect();
    names.map(|name| (name.clone(), rows(&name))).collect()
}

/// Returns the families of each tree.
fn trees(db: &Db) -> Vec<Vec<u32>> {
    let trees = db.engine().level_stat().trees;
    trees.into_iter().map(|tree| tree.state.cfs.into_iter().map(|cf| cf.get()).collect()).collect()
}

/// Returns a batch that writes one row in each family.
fn batch(cfs: &[&Cf], key: u8, value: Option<&[u8]>) -> Batch {
    let mut batch = Batch::new();
    for cf in cfs {
        match value {
            Some(value) => batch.put(cf, [key], value),
            None => batch.delete(cf, [key]),
        }
    }
    batch
}

/// One step of a run.
#[derive(Clone)]
enum Op {
    /// The same write to every existing member.
    Write {
        key: u8,
        value: Option<Vec<u8>>,
        unlogged: bool,
    },
    Create(&'static str),
    Drop(&'static str),
}

/// How the run continues after a drop.
#[derive(Clone, Copy, Debug)]
enum Way {
    Nothing,
    /// MANIFEST is notified of the drop.
    Settle,
    Flush,
}

/// The steps of a run so far, and how many of them must survive.
#[derive(Clone, Default)]
struct Progress {
    /// The last step may be in progress.
    ops: Vec<Op>,
    /// Number of steps that are durable in the log.
    durable: usize,
    /// Number of steps that the group's last flush holds.
    flushed: usize,
    is_flushing: bool,
}

impl Progress {
    /// Returns the rows after the first `logged` steps, where only the unlogged writes of the first `flushed` steps are
    /// in tables.
    fn expected(&self, flushed: usize, logged: usize) -> Rows {
        let mut rows = Rows::new();
        for (at, op) in self.ops.iter().enumerate().take(logged) {
            match op {
                Op::Create(name) => _ = rows.insert((*name).to_owned(), BTreeMap::new()),
                Op::Drop(name) => _ = rows.remove(*name),
                Op::Write { unlogged: true, .. } if at >= flushed => {}
                Op::Write { key, value: Some(value), .. } => {
                    rows.values_mut().for_each(|rows| _ = rows.insert(vec![*key], value.clone()));
                }
                Op::Write { key, value: None, .. } => rows.values_mut().for_each(|rows| _ = rows.remove(&vec![*key])),
            }
        }
        rows
    }

    /// Returns whether these rows are allowed: for one length of the log, and one flush for all members.
    fn allows(&self, found: &Rows) -> bool {
        (self.durable..=self.ops.len()).any(|logged| {
            let under_way = self.is_flushing.then_some(self.ops.len());
            let mut flushes = [Some(self.flushed), under_way].into_iter().flatten();
            flushes.any(|at| at <= logged && self.expected(at, logged) == *found)
        })
    }
}

/// Writes batches over a group whose members come and go, logged and not, with flushes between them.
fn live(disk: &SimFiles, seed: u64, progress: &Mutex<Progress>) {
    let random = SimRandom::new(seed);
    let db = open(disk, seed);
    let mut members = vec![db.cf("a").unwrap(), db.cf("b").unwrap()];
    let did = |op: Op| progress.lock().unwrap().ops.push(op);
    let durable = || {
        let mut progress = progress.lock().unwrap();
        progress.durable = progress.ops.len();
    };
    for round in 0..24_u8 {
        let below = |limit| usize::try_from(random.below(limit)).unwrap();
        match round {
            7 | 17 => {
                let name = if round == 7 { "c" } else { "b" };
                did(Op::Create(name));
                members.push(make(&db, name));
                durable();
            }
            12 => {
                did(Op::Drop("b"));
                db.drop_cf(&members.remove(1)).unwrap();
                durable();
            }
            _ => {}
        }
        let (key, unlogged, sync) = (u8::try_from(below(4)).unwrap(), below(3) > 0, below(3) == 0);
        let value = (below(3) > 0).then(|| vec![round; [5, 1500][below(2)]]);
        did(Op::Write { key, value: value.clone(), unlogged });
        let durability = if unlogged {
            UNLOGGED
        } else if sync {
            SYNC
        } else {
            ASYNC
        };
        let cfs: Vec<&Cf> = members.iter().collect();
        let receipt = db.write(batch(&cfs, key, value.as_deref()), durability).unwrap();
        if durability == SYNC && receipt.token.is_some() {
            durable();
        }
        if below(4) == 0 {
            progress.lock().unwrap().is_flushing = true;
            db.flush_cf(&[&members[below(2)]]).unwrap();
            let mut progress = progress.lock().unwrap();
            let all = progress.ops.len();
            (progress.is_flushing, progress.flushed, progress.durable) = (false, all, all);
        }
        db.engine().tick();
    }
}

/// Opens the state after a crash, checks it, and continues: later writes are there after the next crash.
fn check(disk: &SimFiles, progress: &Progress, seed: u64) {
    let db = open(disk, seed);
    let found = rows(&db);
    assert!(progress.allows(&found), "{found:02x?} after {} steps", progress.ops.len());
    drop(db);
    let cut = disk.power_cut(seed);
    let db = open(&cut, seed + 1);
    assert_eq!(rows(&db), found, "opening changes nothing");
    let cfs: Vec<Cf> = found.keys().map(|name| db.cf(name).unwrap()).collect();
    let cfs: Vec<&Cf> = cfs.iter().collect();
    db.write(batch(&cfs, 0, Some(b"again")), SYNC).unwrap();
    db.write(batch(&cfs, 1, None), UNLOGGED).unwrap();
    db.write(batch(&cfs, 2, Some(b"unlogged")), UNLOGGED).unwrap();
    db.flush_cf(&cfs[..1]).unwrap();
    assert!(trees(&db).len() <= 1, "{:?}", trees(&db));
    let then = rows(&db);
    let cut = cut.power_cut(seed);
    let db = open(&cut, seed + 2);
    assert_eq!(rows(&db), then, "what was flushed stays");
}

/// Goal: whenever the power is cut, also in the middle of a flush, a drop or the creation of a member, all families of
/// a group have one prefix of their unlogged writes: a batch over them is there wholly or not at all. Method: random
/// runs; at each call to the disk a state that a power cut could leave; opened twice, written to, flushed, cut off
/// again.
#[test]
fn power_cut_anywhere_leaves_one_prefix_of_all_families_of_a_group() {
    let mut checked = 0;
    for seed in 0..14_u64 {
        let (env, disk) = Env::simulated(seed);
        let db = Db::over(&open_tiny(env).unwrap().0);
        let _members = ["a", "b"].map(|name| make(&db, name));
        db.close().unwrap();
        drop(db);
        let ops = vec![Op::Create("a"), Op::Create("b")];
        let progress = Arc::new(Mutex::new(Progress { ops, durable: 2, ..Progress::default() }));
        checked += common::at_each_moment(&disk, &progress, seed, || live(&disk, 100 + seed, &progress), check);
    }
    assert!(checked > 400, "only {checked} moments");
}

/// Goal: a flush that fails anywhere, and a member that is dropped after it, leave a database that opens with every row
/// of the others and continues (F8 of the flush, A5 of MANIFEST). Method: each call of a flush fails once, the disk
/// being full or broken; then a drop, of which MANIFEST is notified or not, another flush or none, a kill or a power
/// cut, and a flush after it.
#[test]
fn member_dropped_after_a_failed_flush_leaves_the_others_whole() {
    let (mut failed, mut call) = (0, 0);
    'calls: loop {
        let ways = [Way::Nothing, Way::Settle, Way::Flush];
        for (fault, way) in [Fault::Eio, Fault::Enospc].into_iter().flat_map(|it| ways.map(|way| (it, way))) {
            let (env, disk) = Env::simulated(3);
            let db = Db::over(&open_tiny(env).unwrap().0);
            let [a, b] = ["a", "b"].map(|name| make(&db, name));
            db.write(batch(&[&a, &b], 0, Some(b"old")), SYNC).unwrap();
            db.flush_cf(&[&a]).unwrap();
            for key in 1..4 {
                db.write(batch(&[&a, &b], key, Some(b"new")), SYNC).unwrap();
            }
            db.put(&b, "b alone", "x", SYNC).unwrap();
            db.write(batch(&[&a, &b], 0, None), SYNC).unwrap();
            let before = disk.calls();
            disk.fail_call(before + 1 + call, fault);
            let flushed = db.flush_cf(&[&b]);
            if flushed.is_ok() && disk.calls() <= before + 1 + call {
                break 'calls; // there is no such call any more
            }
            disk.clear_faults();
            failed += u32::from(flushed.is_err());
            // A log that failed accepts no drop.
            if db.drop_cf(&b).is_err() {
                continue;
            }
            let went_on = match way {
                Way::Nothing => true,
                Way::Settle => db.flush_cf(&[]).is_ok(),
                Way::Flush => db.put(&a, [9], "x", SYNC).is_ok() && db.flush_cf(&[&a]).is_ok(),
            };
            let expected = rows(&db);
            assert_eq!(expected.keys().collect::<Vec<_>>(), ["a"]);
            let context = format!("call {call} {fault:?}, {way:?}: {went_on}");
            for left in [disk.process_kill(), disk.power_cut(call)] {
                for seed in 4..7 {
                    let opened = open_tiny(Env::over(left.clone(), seed));
                    let db = Db::over(&opened.unwrap_or_else(|error| panic!("{context}: {error}")).0);
                    assert_eq!(rows(&db), expected, "{context}");
                    let a = db.cf("a").unwrap();
                    assert!(seed < 5 || trees(&db) == [[a.id().get()]], "{context}: {:?}", trees(&db));
                    db.put(&a, [3], "new", SYNC).unwrap();
                    db.flush_cf(&[&a]).unwrap();
                    db.engine().flush_due().unwrap();
                }
            }
        }
        call += 1;
    }
    assert!(failed > 20, "{failed} flushes failed");
}

/// Goal: members of a group share a tree, also those created later; a group outlives the closing of its directory and
/// its first member; an unlogged batch over families that are not one group is refused. Method: several groups, created
/// before and after a flush, over an opening.
#[test]
fn families_of_a_group_share_a_tree_for_good() {
    let (env, disk) = Env::simulated(1);
    let db = Db::over(&open_tiny(env).unwrap().0);
    let (alone, other) =
        (db.create_cf("alone", CfOptions::default()).unwrap(), db.create_cf("h", CfOptions::new().group("h")));
    let (other, a) = (other.unwrap(), make(&db, "a"));
    assert_eq!((alone.group(), other.group(), a.group()), ("", "h", "g"));
    for cf in [&alone, &other, &a] {
        db.put(cf, "k", "v", UNLOGGED).unwrap();
    }
    db.flush_cf(&[&alone, &other, &a]).unwrap();
    let b = make(&db, "b");
    db.write(batch(&[&a, &b], 1, Some(b"v")), UNLOGGED).unwrap();
    let flushes = db.engine().flush_stat().flushes;
    db.flush_cf(&[&a, &b]).unwrap();
    assert_eq!(db.engine().flush_stat().flushes, flushes + 1, "one for both");
    let id = |cf: &Cf| cf.id().get();
    assert_eq!(trees(&db), [vec![id(&alone)], vec![id(&other)], vec![id(&a), id(&b)]]);
    let expected = rows(&db);
    drop((alone, other, a, b, db));

    let db = open(&disk.power_cut(1), 2);
    assert_eq!(rows(&db), expected);
    let [alone, other, a, b] = ["alone", "h", "a", "b"].map(|name| db.cf(name).unwrap());
    assert_eq!((alone.group(), other.group(), b.group()), ("", "h", "g"));
    for cfs in [[&a, &other], [&a, &alone], [&alone, &other]] {
        let refused = db.write(batch(&cfs, 2, Some(b"v")), UNLOGGED).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        cfs.iter().for_each(|cf| txn.put(cf, [2], "v").unwrap());
        assert_eq!(txn.commit(UNLOGGED).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    [&a, &b].iter().for_each(|cf| txn.put(cf, [3], "v").unwrap());
    txn.commit(UNLOGGED).unwrap();
    db.drop_cf(&a).unwrap();
    let c = make(&db, "c");
    db.write(batch(&[&b, &c], 4, Some(b"v")), UNLOGGED).unwrap();
    db.flush_cf(&[&c]).unwrap();
    assert_eq!(trees(&db).last().unwrap()[..], [id(&b), id(&c)]);
    assert_eq!(rows(&db)["c"].len(), 1);
}

/// Goal: a dropped member occupies space no longer than until the next round of the flusher, even without writes to the
/// others, and the rest opens. Method: a large member and a small one on the real file system.
#[test]
fn space_of_a_dropped_member_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options { background: false, ..Options::small() };
        Db::over(&collie_engine::Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap().0)
    };
    let db = open();
    let (small, large) = (make(&db, "small"), make(&db, "large"));
    for key in 0..200_u8 {
        db.put(&large, [key], vec![key; 4000], ASYNC).unwrap();
    }
    db.put(&small, "k", "v", SYNC).unwrap();
    db.flush_cf(&[&small]).unwrap();
    let bytes = || db.engine().level_stat().trees[0].bytes;
    assert!(bytes() > 4000, "{}", bytes());
    db.drop_cf(&large).unwrap();
    db.flush_wal(FlushTo::Disk).unwrap();
    db.flush_cf(&[]).unwrap(); // settles the drop
    db.engine().flush_due().unwrap();
    let tree = &db.engine().level_stat().trees[0];
    assert!(tree.bytes < 2000 && tree.runs == 1, "{tree:?}");
    assert_eq!((tree.state.live_keys, tree.state.dropped.len()), (1, 0));
    db.close().unwrap();
    drop((small, large, db));
    let db = open();
    assert_eq!(rows(&db)["small"].len(), 1);
}

//! Tests of `Levels` on the simulated disk. After a power cut or a failing call at any point of a script, the state is
//! the one before or the one after the interrupted call, and the script can continue.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use collie_base::{CfId, Lsn};
use collie_env::{CrashPoint, Env, Fault, Limits, SimFiles};
use parking_lot::Mutex;

use super::{
    Edit, Levels, LevelsError, TreeId,
    levels_tests::{Rows, edit, load, open},
};

const DIR: &str = "/db/levels";

type Put = (u32, &'static [u8], u64, Option<&'static [u8]>);

/// One call of a script.
#[derive(Clone, Copy, Debug)]
enum Op {
    Create(&'static [u32]),
    /// Flushes to the tree of the first family.
    Flush(u32, u64, &'static [Put]),
    Drop(u32),
    /// Adds the second family to the tree of the first.
    Join(u32, u32),
    LogStart(u64),
    Compact(u32),
    /// Rewrites the tree of the family, flushed at the position.
    Anew(u32, u64),
    Reopen,
}

/// The expected state of the levels: families of each tree, its position, its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Model {
    trees: BTreeMap<Vec<u32>, (u64, Rows)>,
    log_start: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self { trees: BTreeMap::new(), log_start: Lsn::FIRST.get() }
    }
}

impl Model {
    fn tree_of(&self, cf: u32) -> Vec<u32> {
        self.trees.keys().find(|cfs| cfs.contains(&cf)).expect("lives are written so").clone()
    }

    fn after(&self, op: Op) -> Self {
        let mut next = self.clone();
        match op {
            Op::Create(cfs) => {
                next.trees.insert(cfs.to_vec(), (0, Rows::new()));
            }
            Op::Flush(cf, f, puts) => {
                let (flush_lsn, rows) = next.trees.get_mut(&self.tree_of(cf)).unwrap();
                *flush_lsn = f;
                for (cf, key, csn, value) in puts {
                    match value {
                        Some(value) => rows.insert((*cf, key.to_vec()), (value.to_vec(), *csn)),
                        None => rows.remove(&(*cf, key.to_vec())),
                    };
                }
            }
            Op::Drop(cf) => {
                let mut cfs = self.tree_of(cf);
                let (flush_lsn, mut rows) = next.trees.remove(&cfs).unwrap();
                cfs.retain(|member| *member != cf);
                rows.retain(|(member, _), _| *member != cf);
                if !cfs.is_empty() {
                    next.trees.insert(cfs, (flush_lsn, rows));
                }
            }
            Op::Join(cf, new) => {
                let mut cfs = self.tree_of(cf);
                let tree = next.trees.remove(&cfs).unwrap();
                cfs.push(new);
                cfs.sort_unstable();
                next.trees.insert(cfs, tree);
            }
            Op::LogStart(lsn) => next.log_start = lsn,
            Op::Anew(cf, f) => next.trees.get_mut(&self.tree_of(cf)).unwrap().0 = f,
            Op::Compact(_) | Op::Reopen => {}
        }
        next
    }

    fn rows(&self) -> BTreeMap<&Vec<u32>, &Rows> {
        self.trees.iter().map(|(cfs, (_, rows))| (cfs, rows)).collect()
    }

    /// Returns the state on disk.
    fn observed(levels: &Levels) -> Result<Self, LevelsError> {
        let mut trees = BTreeMap::new();
        for tree in levels.trees() {
            let cfs = tree.cfs.iter().map(|cf| cf.get()).collect();
            trees.insert(cfs, (tree.flush_lsn.get(), load(levels, tree.id)?));
        }
        Ok(Self { trees, log_start: levels.log_start().get() })
    }

    /// Returns an error if `self`, found after a script was cut within `op`, which began at `before`, is neither side
    /// of `op`.
    fn judge(&self, before: &Self, op: Op) -> Result<(), String> {
        let after = before.after(op);
        let rows_after = self.rows() == after.rows();
        if self.rows() != before.rows() && !rows_after {
            return Err(format!("neither {before:?} nor {after:?}"));
        }
        for (cfs, (flush_lsn, _)) in &self.trees {
            let of = |model: &Self| model.trees.get(cfs).map(|(flush_lsn, _)| *flush_lsn);
            let covered = of(&after) == Some(*flush_lsn) && rows_after;
            if !covered && of(before) != Some(*flush_lsn) {
                return Err(format!("{cfs:?} says it was flushed at {flush_lsn}"));
            }
        }
        if self.log_start != before.log_start && self.log_start != after.log_start {
            return Err(format!("the log starts at {}", self.log_start));
        }
        Ok(())
    }
}

/// A script of every kind of call, with overwritten, deleted and empty keys.
const LIFE: &[Op] = &[
    Op::Create(&[16]),
    Op::Flush(16, 30, &[(16, b"", 20, Some(b"e")), (16, b"a", 21, Some(b"1")), (16, b"b", 22, Some(b"2"))]),
    Op::Create(&[17, 18]),
    Op::Flush(17, 40, &[(17, b"k", 31, Some(b"g")), (18, b"k", 32, Some(b"h")), (18, b"l", 33, Some(b"i"))]),
    Op::LogStart(8192),
    Op::Flush(16, 50, &[(16, b"a", 41, None), (16, b"b", 42, Some(b"3")), (16, b"c", 43, Some(b"4"))]),
    Op::Reopen,
    Op::Flush(16, 60, &[]),
    Op::Drop(18),
    Op::Join(17, 15),
    Op::Flush(17, 70, &[(15, b"m", 61, Some(b"i")), (17, b"m", 61, Some(b"j"))]),
    Op::Compact(16),
    Op::Anew(17, 75),
    Op::Anew(16, 76),
    Op::Drop(16),
    Op::Create(&[20]),
    Op::Flush(20, 80, &[(20, b"z", 71, Some(b"5")), (20, b"zz", 72, None)]),
    Op::LogStart(9000),
    Op::Drop(17),
    Op::Flush(15, 90, &[(15, b"m", 81, Some(b"6"))]),
];

/// Returns the models before each op, and the final one.
fn models() -> Vec<Model> {
    let mut models = vec![Model::default()];
    for op in LIFE {
        models.push(models.last().unwrap().after(*op));
    }
    models
}

fn tree(levels: &Levels, cf: u32) -> TreeId {
    levels.tree_of(CfId::new(cf)).expect("lives are written so")
}

/// Makes one call; `after` is the model behind it. A call that was already made can be repeated without harm.
fn step(levels: &mut Levels, env: &Env, op: Op, after: &Model) -> Result<(), LevelsError> {
    match op {
        Op::Create(cfs) => {
            let cfs: Vec<CfId> = cfs.iter().copied().map(CfId::new).collect();
            if levels.tree_of(cfs[0]).is_none() {
                levels.create_tree(&cfs)?;
            }
        }
        Op::Flush(cf, f, puts) => {
            let edits: Vec<Edit<'_>> = puts.iter().map(|(cf, key, csn, value)| edit(*cf, key, *csn, *value)).collect();
            let live = after.trees[&after.tree_of(cf)].1.len() as u64;
            levels.flush(tree(levels, cf), Lsn::new(f), &edits, live)?;
        }
        Op::Drop(cf) => levels.drop_cf(CfId::new(cf))?,
        Op::Join(cf, new) => {
            if levels.tree_of(CfId::new(new)).is_none() {
                levels.add_family(tree(levels, cf), CfId::new(new))?;
            }
        }
        Op::LogStart(lsn) => levels.note_log_start(Lsn::new(lsn), &lsn.to_le_bytes())?,
        Op::Compact(cf) => {
            levels.compact(tree(levels, cf))?;
        }
        Op::Anew(cf, f) => write_anew(levels, cf, f, &after.trees[&after.tree_of(cf)].1)?,
        Op::Reopen => {
            *levels = Levels::open(env, Path::new(DIR), &Default::default())?.0;
            Model::observed(levels)?;
        }
    }
    Ok(())
}

/// Rewrites the tree of a family with these rows, in two batches.
fn write_anew(levels: &Levels, cf: u32, f: u64, rows: &Rows) -> Result<(), LevelsError> {
    let rows: Vec<Edit<'_>> = rows.iter().map(|((cf, key), (value, csn))| edit(*cf, key, *csn, Some(value))).collect();
    let (first, second) = rows.split_at(rows.len() / 2);
    let old = tree(levels, cf);
    let replaced = levels.replace_tree(old, Lsn::new(f), &[], &mut |add| add(first).and_then(|()| add(second)))?;
    assert!(replaced.tree != old && levels.tree_of(CfId::new(cf)) == Some(replaced.tree));
    assert_eq!(replaced.keys.values().sum::<u64>(), rows.len() as u64);
    Ok(())
}

/// Runs the script from op `from` on and compares the final state with the model.
fn live_on(levels: &mut Levels, env: &Env, from: usize, models: &[Model]) {
    for at in from..LIFE.len() {
        step(levels, env, LIFE[at], &models[at + 1]).unwrap_or_else(|error| panic!("{:?}: {error}", LIFE[at]));
    }
    *levels = open(env, Path::new(DIR)).0;
    assert_eq!(Model::observed(levels).unwrap(), *models.last().unwrap());
    assert_eq!(levels.log_carry(), 9000_u64.to_le_bytes());
}

/// Goal: V1, V2, V7, N1, N2: whenever the power fails, and whatever unsynced data survives, an open finds everything
/// acknowledged, the interrupted call took effect wholly or not at all, and the script ends in the same state as
/// without the power cut. Method: each crash point of a script that makes every call, with up to a few dozen states
/// each.
#[test]
fn power_cut_anywhere_leaves_one_side_of_the_call_under_way() {
    let models = models();
    let (env, disk) = Env::simulated(5);
    let (points, at) = (Arc::new(Mutex::new(Vec::<(usize, CrashPoint)>::new())), Arc::new(AtomicUsize::new(0)));
    let (sink, now) = (points.clone(), at.clone());
    disk.watch(move |point| sink.lock().push((now.load(Ordering::Relaxed), point)));
    let mut levels = open(&env, Path::new(DIR)).0;
    for (number, op) in LIFE.iter().enumerate() {
        at.store(number, Ordering::Relaxed);
        step(&mut levels, &env, *op, &models[number + 1]).unwrap();
        points.lock().push((number, disk.crash_point()));
    }
    let points = std::mem::take(&mut *points.lock());
    let limits = Limits { exhaustive: 24, sampled: 12, structured: 6 };
    let (mut states, mut undone, mut torn) = (0, 0, 0);
    for (seed, (number, point)) in (1..).zip(&points) {
        for picks in point.states(limits, seed) {
            let env = Env::over(point.state(&picks), seed);
            let context = || format!("{:?}: {}", LIFE[*number], point.describe(&picks));
            let opened = Levels::open(&env, Path::new(DIR), &Default::default());
            let (mut levels, found) = opened.unwrap_or_else(|error| panic!("{}: {error}", context()));
            let observed = Model::observed(&levels).unwrap_or_else(|error| panic!("{}: {error}", context()));
            observed.judge(&models[*number], LIFE[*number]).unwrap_or_else(|error| panic!("{}: {error}", context()));
            states += 1;
            undone += usize::from(observed == models[*number] && observed != models[*number + 1]);
            torn += usize::from(found.torn_bytes > 0);
            live_on(&mut levels, &env, *number, &models);
        }
    }
    assert!(points.len() > 50 && states > 250, "{} points, {states} states", points.len());
    assert!(undone > 50 && torn > 20, "{undone} states without the call, {torn} with a torn append");
}

/// Goal: N1, N2 of the rewriting of a MANIFEST that has grown: a power cut at any step of it leaves the state before or
/// after the call that caused it, and what is carried of the log. Method: notes of the log's start until one more byte
/// is too many; then a flush.
#[test]
fn power_cut_while_a_grown_manifest_is_rewritten_leaves_one_side() {
    const CARRY: usize = 250 << 10;
    let models = models();
    let (env, disk) = Env::simulated(6);
    let mut levels = open(&env, Path::new(DIR)).0;
    (0..2).for_each(|number| step(&mut levels, &env, LIFE[number], &models[number + 1]).unwrap());
    for start in 8192..8197_u64 {
        levels.note_log_start(Lsn::new(start), &[7; CARRY]).unwrap();
    }
    let (mut before, op) = (models[2].clone(), LIFE[5]);
    before.log_start = 8196;
    let after = before.after(op);
    let (rewrites, points) = (levels.stat().manifest_rewrites, Arc::new(Mutex::new(Vec::<CrashPoint>::new())));
    let sink = points.clone();
    disk.watch(move |point| sink.lock().push(point));
    step(&mut levels, &env, op, &after).unwrap();
    assert_eq!(levels.stat().manifest_rewrites, rewrites + 1, "it was too long");
    points.lock().push(disk.crash_point());
    let (mut states, mut done) = (0, 0);
    let limits = Limits { exhaustive: 24, sampled: 12, structured: 4 };
    for (seed, point) in (1..).zip(&*points.lock()) {
        for picks in point.states(limits, seed) {
            let env = Env::over(point.state(&picks), seed);
            let mut levels = open(&env, Path::new(DIR)).0;
            let observed =
                Model::observed(&levels).unwrap_or_else(|error| panic!("{error}: {}", point.describe(&picks)));
            observed.judge(&before, op).unwrap_or_else(|error| panic!("{error}: {}", point.describe(&picks)));
            assert_eq!(levels.log_carry(), [7; CARRY]);
            done += usize::from(observed == after);
            states += 1;
            step(&mut levels, &env, op, &after).unwrap();
            assert_eq!(Model::observed(&open(&env, Path::new(DIR)).0).unwrap(), after);
        }
    }
    assert!(states > 20 && done > 0 && done < states, "{states} states, the flush in {done} of them");
}

/// Returns how many changing calls the script makes, the open included.
fn count_calls() -> u64 {
    let (env, disk) = Env::simulated(5);
    live_on(&mut open(&env, Path::new(DIR)).0, &env, 0, &models());
    disk.calls()
}

/// Goal: N3, V6: a call that fails on a full or broken disk leaves one side or the other; the same call succeeds when
/// repeated, at the latest after a reopen; and the script ends in the same state as without the failure. Method: each
/// call of a script fails once, in both ways.
#[test]
fn failing_call_can_be_made_again() {
    let models = models();
    let (mut failed, mut reopened) = (0, 0);
    for call in 1..=count_calls() {
        for fault in [Fault::Eio, Fault::Enospc] {
            let (env, disk) = Env::simulated(5);
            disk.fail_call(call, fault);
            let opened = Levels::open(&env, Path::new(DIR), &Default::default());
            let mut levels = opened.unwrap_or_else(|_| open(&env, Path::new(DIR))).0;
            for (number, op) in LIFE.iter().enumerate() {
                let after = &models[number + 1];
                let Err(error) = step(&mut levels, &env, *op, after) else { continue };
                failed += 1;
                let retry = step(&mut levels, &env, *op, after);
                if let Err(LevelsError::TreeFailed { .. }) = retry {
                    reopened += 1;
                    levels = open(&env, Path::new(DIR)).0;
                    let observed = Model::observed(&levels).unwrap();
                    observed.judge(&models[number], *op).unwrap_or_else(|error| panic!("call {call}: {error}"));
                    step(&mut levels, &env, *op, after).unwrap_or_else(|error| panic!("call {call}: {error}"));
                } else {
                    retry.unwrap_or_else(|again| panic!("call {call}: {error}, then {again}"));
                }
            }
            disk.clear_faults();
            levels = open(&env, Path::new(DIR)).0;
            assert_eq!(Model::observed(&levels).unwrap(), *models.last().unwrap(), "call {call}: {fault:?}");
        }
    }
    assert!(failed > 60 && reopened > 3, "{failed} calls failed, {reopened} made it necessary to open again");
}

/// Goal: V6, W1 to W3: a failed tree is rewritten without a reopen, whatever call failed, also if the rewrite fails
/// once; the script ends in the same state as without the failure, and the tree's failed files are gone. Method: each
/// call of a script fails; if that failed a tree, a call during its rewrite fails too, and the rewrite is repeated.
#[test]
fn tree_that_failed_is_written_anew_in_the_same_life() {
    let models = models();
    let (mut anew, mut again) = (0, 0);
    for call in 1..=count_calls() {
        for second in [1, 2, 4, 6, 7, 9, 11, 100] {
            let (env, disk) = Env::simulated(5);
            disk.fail_call(call, Fault::Eio);
            let opened = Levels::open(&env, Path::new(DIR), &Default::default());
            let mut levels = opened.unwrap_or_else(|_| open(&env, Path::new(DIR))).0;
            for (number, op) in LIFE.iter().enumerate() {
                let (before, after) = (&models[number], &models[number + 1]);
                let Err(error) = step(&mut levels, &env, *op, after) else { continue };
                if let Op::Flush(cf, f, _) = *op
                    && levels.failure(tree(&levels, cf)).is_some()
                {
                    assert_eq!(levels.to_be_replaced().len(), 1);
                    let failed = super::backend::tree_dir(Path::new(DIR), tree(&levels, cf));
                    let rows = &after.trees[&after.tree_of(cf)].1;
                    disk.fail_call(disk.calls() + second, Fault::Eio);
                    anew += 1;
                    if write_anew(&levels, cf, f, rows).is_err() {
                        again += 1;
                        let point = disk.crash_point();
                        let cut = Env::over(point.state(&point.none_kept()), 9);
                        let found = Model::observed(&open(&cut, Path::new(DIR)).0).unwrap();
                        found.judge(before, *op).unwrap_or_else(|error| panic!("call {call}, {second}: {error}"));
                        write_anew(&levels, cf, f, rows).unwrap();
                    }
                    disk.clear_faults();
                    assert!(levels.failure(tree(&levels, cf)).is_none() && levels.to_be_replaced().is_empty());
                    // If no call failed again. Otherwise the next open removes the files.
                    assert!(second < 100 || env.files.list(&failed).is_err(), "the files that failed are gone");
                } else {
                    let retry = step(&mut levels, &env, *op, after);
                    retry.unwrap_or_else(|again| panic!("call {call}: {error}, then {again}"));
                }
            }
            disk.clear_faults();
            levels = open(&env, Path::new(DIR)).0;
            assert_eq!(Model::observed(&levels).unwrap(), *models.last().unwrap(), "call {call}, {second}");
        }
    }
    assert!(anew > 30 && again > 10, "{anew} trees were written anew, {again} of them only when it was tried again");
}

/// Goal: V4, V7: damage is refused by name, and nothing is deleted. Method: a tree's file is lost, rots, or is put back
/// to an older state; MANIFEST is lost or rots.
#[test]
fn damage_is_refused_by_name() {
    let models = models();
    let made = || {
        let (env, disk) = Env::simulated(5);
        let mut levels = open(&env, Path::new(DIR)).0;
        for number in 0..6 {
            step(&mut levels, &env, LIFE[number], &models[number + 1]).unwrap();
        }
        (env, disk)
    };
    let (map, manifest) = (Path::new("/db/levels/tree-0000000001/map"), Path::new("/db/levels/MANIFEST"));
    let refused = |env: &Env, disk: &SimFiles| {
        let before = disk.used_bytes();
        let outcome =
            Levels::open(env, Path::new(DIR), &Default::default()).and_then(|(levels, _)| Model::observed(&levels));
        let error = outcome.expect_err("the damage goes unnoticed");
        // Only MANIFEST is rewritten, to the same number of bytes or fewer.
        assert!(disk.used_bytes() + 256 > before, "{error}: something was deleted");
        error.to_string()
    };
    let (env, disk) = made();
    env.files.remove(map).unwrap();
    assert_eq!(refused(&env, &disk), format!("{}: the file is missing; family 16 below 0/32 affected", map.display()));
    let (env, disk) = made();
    disk.flip(map, 6, 1).unwrap();
    assert!(refused(&env, &disk).starts_with(&format!("{}: malformed bytes: checksum", map.display())));
    let (env, disk) = made();
    let lost = super::map::MapStore::new(env.files.clone(), Path::new(DIR));
    super::backend::LevelStore::open(&lost, TreeId::new(1)).unwrap();
    let mut gone = std::iter::once(edit(16, b"b", 49, None));
    super::backend::LevelStore::apply(&lost, TreeId::new(1), Lsn::new(50), &mut gone).unwrap();
    let text = refused(&env, &disk);
    assert_eq!(text, "/db/levels/tree-0000000001 has 2 live keys, MANIFEST says 3; family 16 below 0/32 affected");
    let (env, disk) = made();
    env.files.remove(manifest).unwrap();
    assert_eq!(refused(&env, &disk), "/db/levels/MANIFEST is damaged at byte 0: there are trees but no MANIFEST");
    let (env, disk) = made();
    disk.flip(manifest, 60, 4).unwrap();
    assert!(refused(&env, &disk).contains("MANIFEST is damaged at byte"));
}

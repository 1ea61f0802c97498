//! Tests of lsm-tree's own files in the states in which a crash between two steps of a flush or a merge may leave them.
//! The crate writes files itself, so no simulated disk can be under it. Its steps are reconstructed from the files
//! before and after: new tables, the list of tables, the name of the list, then the removal of files that are no longer
//! needed.

use std::{collections::BTreeMap, fs, path::Path};

use collie_base::{CfId, Lsn};
use collie_env::Env;

use super::{
    Edit, Levels, TreeId,
    levels_tests::{Rows, edit, load, open},
    rules_tests::scratch,
};

/// Bytes of the frame that records a flush of a tree with an id below 128.
const DONE_FRAME_BYTES: usize = 34;
const TREE: &str = "tree-0000000001";

/// The files below a directory, by their path in it.
type Files = BTreeMap<String, Vec<u8>>;

fn files_in(dir: &Path) -> Files {
    let (mut files, mut todo) = (Files::new(), vec![dir.to_owned()]);
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

fn write(dir: &Path, files: &Files) {
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Returns the place of a new or changed file of a tree in the order of writing.
fn order(name: &str) -> u8 {
    match name {
        _ if name.contains("tables/") => 0,
        _ if name.ends_with("current") => 2,
        _ => 1,
    }
}

/// Returns the states between `before` and `after`, including one with each file half written.
fn between(before: &Files, after: &Files) -> Vec<Files> {
    let mut new: Vec<(&String, &Vec<u8>)> =
        after.iter().filter(|(name, bytes)| before.get(*name) != Some(*bytes)).collect();
    new.sort_by_key(|(name, _)| (order(name), *name));
    let mut now = before.clone();
    let mut states = vec![now.clone()];
    for (name, bytes) in new {
        let mut half = now.clone();
        if order(name) == 2 {
            // This file is replaced by a complete one.
            half.insert(format!("{TREE}/.tmp1"), bytes[..bytes.len() / 2].to_vec());
        } else {
            half.insert(name.clone(), bytes[..bytes.len() / 2].to_vec());
        }
        now.insert(name.clone(), bytes.clone());
        states.extend([half, now.clone()]);
    }
    for gone in before.keys().filter(|name| !after.contains_key(*name)) {
        now.remove(gone);
        states.push(now.clone());
    }
    assert!(now == *after, "the last state is the end of the call");
    states
}

/// Returns a tree of several runs, with replaced and deleted keys.
fn sample(dir: &Path) -> (Levels, TreeId) {
    let levels = open(&Env::real(), dir).0;
    let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
    for round in 0..4_u64 {
        let keys: Vec<[u8; 1]> = (0..20).map(|key| [key]).collect();
        let value = [u8::try_from(round).unwrap(); 100];
        let of_round = |key: &&[u8; 1]| round == 0 || u64::from(key[0]) % 4 == round;
        let edits: Vec<Edit<'_>> = keys
            .iter()
            .filter(of_round)
            .map(|key| edit(16, key, 100 * round + 10 + u64::from(key[0]), (round < 3).then_some(&value[..])))
            .collect();
        levels.flush(tree, Lsn::new(100 * round + 50), &edits, if round < 3 { 20 } else { 15 }).unwrap();
    }
    (levels, tree)
}

/// Opens a state twice; returns its rows, which must be the same both times, and whether the flush at `f` is recorded.
/// Then checks that flushes and merges continue on it.
fn check(files: &Files, tree: TreeId, f: Lsn) -> (Rows, bool) {
    let dir = scratch();
    write(dir.path(), files);
    let mut found = Vec::new();
    for _ in 0..2 {
        let levels = open(&Env::real(), dir.path()).0;
        let rows = load(&levels, tree).unwrap();
        found.push((rows, levels.trees()[0].flush_lsn >= f));
    }
    assert!(found[0] == found[1], "what was found once stays");
    let (rows, is_flushed) = found.remove(0);
    let levels = open(&Env::real(), dir.path()).0;
    load(&levels, tree).unwrap();
    let next = Lsn::new(levels.trees()[0].flush_lsn.get().max(f.get()) + 10);
    levels.flush(tree, next, &[edit(16, b"next", next.get() - 1, Some(b"n"))], rows.len() as u64 + 1).unwrap();
    levels.compact(tree).unwrap();
    let mut expected = rows.clone();
    expected.insert((16, b"next".to_vec()), (b"n".to_vec(), next.get() - 1));
    drop(levels);
    let levels = open(&Env::real(), dir.path()).0;
    assert!(load(&levels, tree).unwrap() == expected, "it goes on");
    (rows, is_flushed)
}

/// Goal: R4, V2: between any two steps of a flush the tree is as before it or as after it, and says which. Method: the
/// states between the files before and after, under the MANIFEST of a flush that has begun.
#[test]
fn crash_between_the_steps_of_a_flush_leaves_one_side() {
    let dir = scratch();
    let (levels, tree) = sample(dir.path());
    let before = (files_in(dir.path()), load(&levels, tree).unwrap());
    let f = Lsn::new(600);
    let edits = [edit(16, &[1], 500, None), edit(16, &[2], 501, Some(b"2")), edit(16, &[90], 502, Some(b"90"))];
    levels.flush(tree, f, &edits, before.1.len() as u64).unwrap();
    let after_rows = load(&levels, tree).unwrap();
    drop(levels);
    let mut after = files_in(dir.path());
    // The flush has begun and is not recorded.
    let manifest = after.get_mut("MANIFEST").unwrap();
    manifest.truncate(manifest.len() - DONE_FRAME_BYTES);
    let mut midst = before.0.clone();
    midst.insert("MANIFEST".to_owned(), manifest.clone());
    let states = between(&midst, &after);
    let mut counts = [0; 2];
    for state in &states {
        let (rows, is_flushed) = check(state, tree, f);
        assert!(rows == if is_flushed { &after_rows } else { &before.1 }.clone(), "{is_flushed}: {:?}", rows.keys());
        counts[usize::from(is_flushed)] += 1;
    }
    assert!(counts[0] > 3 && counts[1] > 0, "{counts:?} without and with the flush");
}

/// Goal: between any two steps of a merge the tree has the same contents. Method: as above.
#[test]
fn crash_between_the_steps_of_a_merge_changes_nothing() {
    let dir = scratch();
    let (levels, tree) = sample(dir.path());
    let (before, rows) = (files_in(dir.path()), load(&levels, tree).unwrap());
    levels.compact(tree).unwrap();
    drop(levels);
    let states = between(&before, &files_in(dir.path()));
    assert!(states.len() > 8, "{} states", states.len());
    for state in &states {
        let (found, _) = check(state, tree, Lsn::new(350));
        assert!(found == rows, "{:?}", found.keys());
    }
}

//! Tests of `Levels` on the operating system's disk: each call does what its documentation says.

use std::{collections::BTreeMap, path::Path};

use collie_base::{CfId, Lsn, Remedy};
use collie_env::Env;

use super::{Compression, Edit, LevelOptions, Levels, LevelsError, LevelsFound, TreeId};

pub(super) type Rows = BTreeMap<(u32, Vec<u8>), (Vec<u8>, u64)>;

pub(super) fn open(env: &Env, dir: &Path) -> (Levels, LevelsFound) {
    Levels::open(env, dir, &LevelOptions::default()).unwrap()
}

/// Returns an edit: a put, or a delete if `value` is `None`.
pub(super) fn edit<'a>(cf: u32, key: &'a [u8], csn: u64, value: Option<&'a [u8]>) -> Edit<'a> {
    Edit { cf: CfId::new(cf), key, csn: Lsn::new(csn), value }
}

pub(super) fn load(levels: &Levels, tree: TreeId) -> Result<Rows, LevelsError> {
    let mut rows = Rows::new();
    let visited = levels.load(tree, &mut |entry| {
        let old = rows.insert((entry.cf.get(), entry.key.to_vec()), (entry.value.to_vec(), entry.csn.get()));
        assert!(old.is_none(), "a key is visited twice");
    })?;
    assert_eq!(visited, rows.len() as u64);
    Ok(rows)
}

fn rows(of: &[(u32, &[u8], &[u8], u64)]) -> Rows {
    of.iter().map(|(cf, key, value, csn)| ((*cf, key.to_vec()), (value.to_vec(), *csn))).collect()
}

/// Goal: another open finds what was flushed, overwritten and deleted keys included, with the commit numbers and
/// positions given. Method: three flushes of one family, the edge keys among them; reopen and load; compact and load
/// again.
#[test]
fn flushed_rows_are_loaded_after_reopening_and_after_compaction() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let longest = vec![0xFF; 65_531];
    let expected = rows(&[(16, b"", b"empty key", 20), (16, b"a", b"2", 40), (16, &longest, b"long", 20)]);
    let tree = {
        let (levels, found) = open(&env, dir.path());
        assert!(found.created);
        let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
        assert_eq!(levels.tree_of(CfId::new(16)), Some(tree));
        assert!(load(&levels, tree).unwrap().is_empty());
        let first = [
            edit(16, b"", 20, Some(b"empty key")),
            edit(16, b"a", 20, Some(b"1")),
            edit(16, b"b", 20, Some(b"")),
            edit(16, &longest, 20, Some(b"long")),
        ];
        levels.flush(tree, Lsn::new(30), &first, 4).unwrap();
        levels.flush(tree, Lsn::new(50), &[edit(16, b"a", 40, Some(b"2")), edit(16, b"b", 41, None)], 3).unwrap();
        levels.flush(tree, Lsn::new(60), &[], 3).unwrap();
        assert_eq!(load(&levels, tree).unwrap(), expected);
        tree
    };
    let (levels, found) = open(&env, dir.path());
    assert_eq!(found, LevelsFound::default());
    let state = &levels.trees()[0];
    assert_eq!(
        (state.id, &state.cfs[..], state.flush_lsn, state.live_keys),
        (tree, &[CfId::new(16)][..], Lsn::new(60), 3)
    );
    assert_eq!(load(&levels, tree).unwrap(), expected);
    let before = levels.stat().trees[0].clone();
    let compacted = levels.compact(tree).unwrap();
    assert_eq!((before.runs, compacted.runs), (2, 1));
    assert!(compacted.table_bytes > 0);
    assert_eq!(load(&levels, tree).unwrap(), expected);
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert_eq!(load(&levels, tree).unwrap(), expected);
    assert_eq!(levels.stat().trees[0].tables, 1);
}

/// Goal: a group shares a tree and one position; a dropped member's rows are gone at once and its keys leave the tables
/// at the next flush; the last member's drop removes the tree. Method: two families, drops with and without a reopen in
/// between.
#[test]
fn group_shares_a_tree_and_loses_a_dropped_member() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (a, b) = (CfId::new(16), CfId::new(17));
    let (levels, _) = open(&env, dir.path());
    let tree = levels.create_tree(&[a, b]).unwrap();
    let edits = [edit(16, b"k", 20, Some(b"a")), edit(17, b"k", 20, Some(b"b")), edit(17, b"l", 21, Some(b"b"))];
    levels.flush(tree, Lsn::new(30), &edits, 3).unwrap();
    levels.drop_cf(b).unwrap();
    assert_eq!((levels.tree_of(a), levels.tree_of(b)), (Some(tree), None));
    let kept = rows(&[(16, b"k", b"a", 20)]);
    assert_eq!(load(&levels, tree).unwrap(), kept);
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert_eq!(load(&levels, tree).unwrap(), kept);
    assert_eq!(levels.trees()[0].live_keys, 3, "its keys are still there");
    let refused = levels.flush(tree, Lsn::new(40), &[edit(17, b"k", 35, Some(b"c"))], 1);
    assert!(matches!(refused, Err(LevelsError::InvalidCall { .. })), "{refused:?}");
    assert!(levels.create_tree(&[b]).is_err(), "its keys are still there");
    levels.flush(tree, Lsn::new(40), &[], 1).unwrap();
    assert_eq!(load(&levels, tree).unwrap(), kept);
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert_eq!((load(&levels, tree).unwrap(), levels.trees()[0].live_keys), (kept, 1));
    levels.drop_cf(a).unwrap();
    assert!(levels.trees().is_empty());
    drop(levels);
    let (levels, found) = open(&env, dir.path());
    assert!(levels.trees().is_empty() && found.deleted_dirs.is_empty(), "{found:?}");
    assert_eq!(levels.create_tree(&[CfId::new(18)]).unwrap(), TreeId::new(2), "ids are not given twice");
}

/// Goal: a call that contradicts its documentation is refused, says so, and changes nothing. Method: one call per rule.
#[test]
fn flush_refuses_what_it_is_not_documented_to_take() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, _) = open(&env, dir.path());
    let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
    levels.flush(tree, Lsn::new(30), &[edit(16, b"k", 20, Some(b"v"))], 1).unwrap();
    let long = vec![0; 65_532];
    let (k, l) = (edit(16, b"k", 35, Some(b"w")), edit(16, b"l", 35, None));
    let wrong: [(u64, &[Edit<'_>], u64); 7] = [
        (29, &[k], 1),
        (40, &[l, k], 1),
        (40, &[k, k], 1),
        (35, &[k], 1),
        (40, &[edit(17, b"k", 35, None)], 1),
        (40, &[edit(16, &long, 35, None)], 1),
        (40, &[], 2),
    ];
    for (f, edits, live) in wrong {
        let error = levels.flush(tree, Lsn::new(f), edits, live).unwrap_err();
        assert!(matches!(error, LevelsError::InvalidCall { .. }), "{error}");
        assert_eq!(error.remedy(), Remedy::FixCall);
    }
    assert!(levels.create_tree(&[CfId::new(16)]).is_err() && levels.create_tree(&[]).is_err());
    assert!(levels.flush(TreeId::new(9), Lsn::new(40), &[], 0).is_err());
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert!(levels.flush(tree, Lsn::new(40), &[], 1).is_err(), "not loaded");
    assert_eq!(load(&levels, tree).unwrap(), rows(&[(16, b"k", b"v", 20)]));
    levels.flush(tree, Lsn::new(40), &[], 1).unwrap();
}

/// Goal: the log's start and the carried facts survive together, and the start never moves back. Method: note, reopen,
/// note lower.
#[test]
fn log_start_is_kept_with_what_it_carries() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, _) = open(&env, dir.path());
    assert_eq!((levels.log_start(), levels.log_carry()), (Lsn::FIRST, Vec::new()));
    levels.note_log_start(Lsn::new(8192), b"xid 7").unwrap();
    drop(levels);
    assert_eq!(Levels::noted_in(&env, dir.path()).unwrap().log_start, Lsn::new(8192));
    assert_eq!(Levels::noted_in(&env, &dir.path().join("none")).unwrap().log_start, Lsn::FIRST);
    let (levels, _) = open(&env, dir.path());
    assert_eq!((levels.log_start(), levels.log_carry()), (Lsn::new(8192), b"xid 7".to_vec()));
    levels.note_log_start(Lsn::new(4096), b"xid 9").unwrap();
    assert_eq!((levels.log_start(), levels.log_carry()), (Lsn::new(8192), b"xid 9".to_vec()));
    assert!(levels.note_log_start(Lsn::new(9000), &vec![0; (256 << 10) + 1]).is_err());
}

/// Goal: a checkpoint opens by itself with the same rows, and neither side affects the other afterwards. Method:
/// checkpoint between flushes, compact the original, open both.
#[test]
fn checkpoint_opens_as_it_was_while_the_original_goes_on() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (from, to) = (dir.path().join("a"), dir.path().join("b"));
    let (levels, _) = open(&env, &from);
    let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
    levels.flush(tree, Lsn::new(30), &[edit(16, b"k", 20, Some(b"1"))], 1).unwrap();
    levels.flush(tree, Lsn::new(40), &[edit(16, b"k", 35, Some(b"2"))], 1).unwrap();
    levels.checkpoint(&to).unwrap();
    let refused = levels.checkpoint(&to);
    assert!(matches!(refused, Err(LevelsError::InvalidCall { .. })), "{refused:?}");
    levels.flush(tree, Lsn::new(50), &[edit(16, b"k", 45, None)], 0).unwrap();
    levels.compact(tree).unwrap();
    let (copy, found) = open(&env, &to);
    assert_eq!(found, LevelsFound::default());
    assert_eq!(load(&copy, tree).unwrap(), rows(&[(16, b"k", b"2", 35)]));
    copy.flush(tree, Lsn::new(60), &[edit(16, b"z", 55, Some(b"3"))], 2).unwrap();
    copy.compact(tree).unwrap();
    drop(levels);
    let (levels, _) = open(&env, &from);
    assert!(load(&levels, tree).unwrap().is_empty());
}

/// Goal: S13: a merged tree holds exactly one entry per live key. Method: the same keys are replaced over and over and
/// the newest of them deleted; compare the bytes of the tables, and the highest entry in them.
#[test]
fn merged_tree_holds_one_entry_for_each_live_key() {
    const VALUE_BYTES: usize = 4 << 10;
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let levels = open(&env, dir.path()).0;
    let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
    let random = collie_env::SimRandom::new(5);
    let mut csn = 10_000;
    for round in 0..6_u64 {
        let keys: Vec<[u8; 8]> = (0..40_u64).map(u64::to_be_bytes).collect();
        let value: Vec<u8> =
            (0..VALUE_BYTES / 8).flat_map(|_| collie_env::Random::u64(&random).to_le_bytes()).collect();
        let edits: Vec<Edit<'_>> = (0..)
            .zip(&keys)
            .map(|(at, key)| {
                csn += 1;
                // The last round deletes the upper half.
                edit(16, key, csn, (round < 5 || at < 20).then_some(&value[..]))
            })
            .collect();
        levels.flush(tree, Lsn::new(csn + 1), &edits, if round < 5 { 40 } else { 20 }).unwrap();
    }
    let before = levels.stat().trees[0].bytes;
    assert!(before > 150 * VALUE_BYTES as u64, "{before} bytes: there is nothing to merge");
    levels.compact(tree).unwrap();
    let stat = &levels.stat().trees[0];
    let most = (22 * VALUE_BYTES + (16 << 10)) as u64;
    assert!(stat.runs == 1 && stat.bytes < most, "{} runs of {} bytes for 20 keys", stat.runs, stat.bytes);
    assert_eq!(levels.backend.highest(tree), Some(Lsn::new(csn - 20)), "a deletion is left");
    assert_eq!(load(&levels, tree).unwrap().len(), 20);
}

/// Goal: `compression` decides how tables are written from then on, and both kinds can be read: a tree that has both
/// loads the same rows, also when opened for reading, and a merge stores all of them the new way. Method: rows of one
/// repeated byte, flushed without and with LZ4 in turn, then merged with either.
#[test]
fn tables_of_either_compression_are_read_after_the_option_changed() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let options = |compression| LevelOptions { compression, ..LevelOptions::default() };
    let open = |compression| Levels::open(&env, dir.path(), &options(compression)).unwrap().0;
    let keys: Vec<[u8; 4]> = (0..1_000_u32).map(u32::to_be_bytes).collect();
    let value = vec![7; 1_000];
    let bytes_of = |levels: &Levels| levels.stat().trees[0].bytes;
    let tree = open(Compression::None).create_tree(&[CfId::new(16)]).unwrap();
    let mut added = Vec::new();
    for (round, compression) in [Compression::None, Compression::Lz4, Compression::None].into_iter().enumerate() {
        let levels = open(compression);
        load(&levels, tree).unwrap();
        let before = bytes_of(&levels);
        let csn = 100 * (round as u64 + 1);
        let edits: Vec<Edit<'_>> =
            keys.iter().skip(round).step_by(3).map(|key| edit(16, key, csn, Some(&value))).collect();
        let live = levels.trees()[0].live_keys + edits.len() as u64;
        levels.flush(tree, Lsn::new(csn + 1), &edits, live).unwrap();
        added.push(bytes_of(&levels) - before);
    }
    assert!(added[0] > 300_000 && added[2] > 300_000 && added[1] < 60_000, "{added:?}");
    let expected = load(&open(Compression::None), tree).unwrap();
    assert_eq!(expected.len(), keys.len());
    for compression in [Compression::None, Compression::Lz4] {
        assert_eq!(load(&open(compression), tree).unwrap(), expected);
        let to_read = Levels::open_to_read(&env, dir.path(), &options(compression)).unwrap();
        assert_eq!(load(&to_read, tree).unwrap(), expected);
    }
    // A tree of one run is not merged again: one more row makes it two.
    let mut merged = Vec::new();
    for (csn, compression) in [(500, Compression::Lz4), (600, Compression::None), (700, Compression::Lz4)] {
        let levels = open(compression);
        load(&levels, tree).unwrap();
        levels.flush(tree, Lsn::new(csn + 1), &[edit(16, &keys[0], csn, Some(&value))], 1_000).unwrap();
        levels.compact(tree).unwrap();
        merged.push(bytes_of(&levels));
        assert_eq!(load(&levels, tree).unwrap().len(), keys.len());
    }
    assert!(merged[1] > 1_000_000 && merged[0] < 100_000 && merged[2] < 100_000, "{merged:?}");
}

//! Tests of rot in files of LSM levels: the stored checksums detect and name it, and a rewrite of the tree repairs it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use collie_base::{CfId, Lsn};
use collie_env::Env;

use super::{
    LevelSums, Levels, LevelsError, TreeId,
    backend::tree_dir,
    levels_tests::{Rows, edit, load, open},
};

const A: CfId = CfId::new(16);

/// Returns levels with a tree of two runs and one of one run.
fn sample(env: &Env, dir: &Path) -> (Levels, TreeId) {
    let (levels, _) = open(env, dir);
    let tree = levels.create_tree(&[A]).unwrap();
    let keys: Vec<[u8; 2]> = (0..900_u16).map(u16::to_be_bytes).collect();
    let value = [7; 60];
    let many: Vec<_> = keys.iter().map(|key| edit(16, key, 20, Some(&value))).collect();
    levels.flush(tree, Lsn::new(30), &many, 900).unwrap();
    levels.flush(tree, Lsn::new(40), &[edit(16, &keys[0], 35, None), edit(16, b"z", 36, Some(b"z"))], 900).unwrap();
    let other = levels.create_tree(&[CfId::new(17)]).unwrap();
    levels.flush(other, Lsn::new(50), &[edit(17, b"k", 45, Some(b"v"))], 1).unwrap();
    (levels, tree)
}

fn faults(env: &Env, dir: &Path) -> Vec<LevelsError> {
    match LevelSums::of(env, dir) {
        Ok(sums) => sums.read_all::<LevelsError>(&*env.files, &mut |_| Ok(())).unwrap(),
        Err(error) => vec![error],
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 16;
    fs::write(path, bytes).unwrap();
}

/// Returns every file of the levels.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort_unstable();
    found
}

/// Goal: U1: the stored checksums detect a flipped bit anywhere in a file of the levels, and name the file and its
/// families; the same for a table replaced by a table of another run, which is valid by itself. Method: a bit of each
/// file, at places all over it; one table overwritten by another; a table and MANIFEST removed.
#[test]
fn rot_anywhere_in_levels_is_found_by_the_checksums_inside() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, tree) = sample(&env, dir.path());
    assert!(faults(&env, dir.path()).is_empty());
    drop(levels);
    let all = files(dir.path());
    assert!(all.len() >= 8, "{all:?}");
    for path in &all {
        let whole = fs::read(path).unwrap();
        for at in (0..whole.len()).step_by((whole.len() / 40).max(1)).chain([whole.len() - 1]) {
            flip(path, at);
            let found = faults(&env, dir.path());
            let last_of_manifest = path.ends_with("MANIFEST") && found.is_empty();
            let text = found.iter().map(ToString::to_string).collect::<String>();
            assert!(last_of_manifest || found.len() == 1, "{} at {at}: {text}", path.display());
            let own = tree_dir(dir.path(), tree);
            if path.starts_with(&own) {
                assert!(text.contains("family 16") && text.contains(&*own.to_string_lossy()), "{text}");
            }
            fs::write(path, &whole).unwrap();
        }
    }
    let tables: Vec<&PathBuf> =
        all.iter().filter(|path| path.starts_with(tree_dir(dir.path(), tree).join("tables"))).collect();
    let [one, two] = tables[..] else { panic!("{tables:?}") };
    let (of_one, of_two) = (fs::read(one).unwrap(), fs::read(two).unwrap());
    fs::write(one, &of_two).unwrap();
    assert_eq!(faults(&env, dir.path()).len(), 1);
    fs::write(one, &of_one).unwrap();
    fs::remove_file(two).unwrap();
    let missing = faults(&env, dir.path()).remove(0).to_string();
    assert!(missing.contains(&*two.to_string_lossy()) && missing.contains("is missing"), "{missing}");
    fs::write(two, &of_two).unwrap();
    assert!(faults(&env, dir.path()).is_empty());
    fs::remove_file(dir.path().join("MANIFEST")).unwrap();
    assert!(matches!(&faults(&env, dir.path())[..], [LevelsError::ManifestDamaged { .. }]));
}

/// Goal: an open that fails over a rotten table names that table and not only the tree's directory. Method: the end of
/// a table, which is read first, flipped.
#[test]
fn opening_names_the_rotten_file() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, tree) = sample(&env, dir.path());
    drop(levels);
    let table = files(&tree_dir(dir.path(), tree).join("tables")).remove(0);
    let len = fs::read(&table).unwrap().len();
    flip(&table, len - 20);
    let refused = Levels::open(&env, dir.path(), &Default::default()).unwrap_err();
    assert!(refused.to_string().starts_with(&*table.to_string_lossy()), "{refused}");
}

/// Goal: W1, W4: a tree with a rotten table is rewritten, also after a merge has failed over it; the families have all
/// rows, after later flushes and opens too; nothing of the old tree is left but the damaged file, which is in
/// quarantine with the bytes that were found. Method: a table flipped and detected, a merge that fails, the tree
/// rewritten in two parts; a flush and a reopen.
#[test]
fn tree_written_anew_takes_the_place_of_a_rotten_one() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, old) = sample(&env, dir.path());
    let before = load(&levels, old).unwrap();
    let sums = levels.sums_of(old).unwrap();
    assert!(sums.read_all::<LevelsError>(&*env.files, &mut |_| Ok(())).unwrap().is_empty());
    let table = sums.paths().remove(0);
    flip(&table, 700);
    let rotten = fs::read(&table).unwrap();
    let found = sums.read_all::<LevelsError>(&*env.files, &mut |_| Ok(())).unwrap();
    let [LevelsError::TreeDamaged { path, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(path, &table);
    levels.compact(old).unwrap_err();
    assert!(levels.failure(old).is_some());

    let all: Vec<_> = before.iter().map(|((cf, key), (value, csn))| edit(*cf, key, *csn, Some(value))).collect();
    let (some, others) = all.split_at(300);
    let written = levels
        .replace_tree(old, Lsn::new(60), std::slice::from_ref(&table), &mut |put| {
            put(some)?;
            put(others)
        })
        .unwrap();
    assert_eq!((written.keys[&A], levels.tree_of(A)), (900, Some(written.tree)));
    assert_eq!(fs::read(&written.quarantined[0]).unwrap(), rotten);
    assert!(written.quarantined[0].starts_with(dir.path().join("quarantine")), "{written:?}");
    assert!(!tree_dir(dir.path(), old).exists());
    assert_eq!(load(&levels, written.tree).unwrap(), before);
    levels.flush(written.tree, Lsn::new(70), &[edit(16, b"z", 65, Some(b"new"))], 900).unwrap();
    levels.compact(written.tree).unwrap();
    assert!(faults(&env, dir.path()).is_empty());
    drop(levels);
    let (levels, found) = open(&env, dir.path());
    assert!(found.deleted_dirs.is_empty(), "{found:?}");
    let mut after: Rows = before;
    after.insert((16, b"z".to_vec()), (b"new".to_vec(), 65));
    assert_eq!(load(&levels, written.tree).unwrap(), after);
}

/// Goal: calls that contradict the documentation are refused, and the old tree stays. Method: a position below the last
/// flush, rows that do not ascend, a row without a value, one at the position, and a failure of the caller.
#[test]
fn tree_that_cannot_be_written_anew_leaves_the_old_one() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, old) = sample(&env, dir.path());
    let before = load(&levels, old).unwrap();
    let wrong: [(u64, Vec<super::Edit<'_>>); 4] = [
        (39, vec![edit(16, b"a", 20, Some(b"1"))]),
        (60, vec![edit(16, b"b", 20, Some(b"1")), edit(16, b"a", 20, Some(b"1"))]),
        (60, vec![edit(16, b"a", 20, None)]),
        (60, vec![edit(16, b"a", 60, Some(b"1"))]),
    ];
    for (f, edits) in wrong {
        let refused = levels.replace_tree(old, Lsn::new(f), &[], &mut |put| put(&edits));
        assert!(matches!(refused, Err(LevelsError::InvalidCall { .. })), "{refused:?}");
    }
    let failed = levels.replace_tree(old, Lsn::new(60), &[], &mut |put| {
        put(&[edit(16, b"a", 20, Some(b"1"))])?;
        Err(LevelsError::InvalidCall { what: "planted" })
    });
    assert!(failed.unwrap_err().to_string().contains("planted"));
    assert_eq!(load(&levels, old).unwrap(), before);
    levels.flush(old, Lsn::new(70), &[edit(16, b"z", 65, Some(b"new"))], 900).unwrap();
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert_eq!(load(&levels, old).unwrap().len(), before.len());
    assert!(levels.create_tree(&[CfId::new(20)]).unwrap() > TreeId::new(2), "ids are not given twice");
}

/// Goal: if MANIFEST rots under open levels, is removed, or is put back from an older copy, it is rewritten from
/// memory. Method: each of the three, then a reopen.
#[test]
fn manifest_that_rots_under_open_levels_is_written_again() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, tree) = sample(&env, dir.path());
    let path = dir.path().join("MANIFEST");
    let older = fs::read(&path).unwrap();
    levels.flush(tree, Lsn::new(80), &[edit(16, b"y", 75, Some(b"y"))], 901).unwrap();
    assert!(levels.mend_manifest().unwrap().is_none());
    flip(&path, 60);
    assert!(matches!(levels.mend_manifest().unwrap(), Some(LevelsError::ManifestDamaged { .. })));
    fs::write(&path, older).unwrap();
    assert!(levels.mend_manifest().unwrap().is_some());
    fs::remove_file(&path).unwrap();
    assert!(levels.mend_manifest().unwrap().is_some());
    assert!(levels.mend_manifest().unwrap().is_none());
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert_eq!(load(&levels, tree).unwrap().len(), 901);
}

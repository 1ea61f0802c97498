//! Tests of the rules of `lsm.rs`: each shows what lsm-tree does without the rule, and that the levels avoid it.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use collie_base::{CfId, Lsn};
use collie_env::Env;
use lsm_tree::{AbstractTree, AnyTree, Config, InternalValue, SeqNo, SequenceNumberCounter, ValueType};
use parking_lot::Mutex;

use super::{
    Edit, Entry, FLUSH_FLOOR_BYTES, Flushed, LevelOptions, Levels, LevelsError, RUNS_MAX, TreeId,
    backend::{BackendError, Effort, LevelStore, TreeFiles},
    levels_tests::{Rows, edit, load, open},
    lsm::{LsmStore, WATERMARK},
    map::MapStore,
};

/// A tree of the crate alone, without the levels.
struct Raw {
    counter: SequenceNumberCounter,
    tree: lsm_tree::Tree,
}

impl Raw {
    fn open(dir: &Path) -> lsm_tree::Result<Self> {
        let counter = SequenceNumberCounter::default();
        match Config::new(dir, counter.clone(), SequenceNumberCounter::default()).open()? {
            AnyTree::Standard(tree) => Ok(Self { counter, tree }),
            AnyTree::Blob(_) => unreachable!("not asked for"),
        }
    }

    fn put(&self, key: &[u8], value: &[u8], number: SeqNo) {
        let item = InternalValue::from_components(key, value, number, ValueType::Value);
        let (tables, _) = self.tree.flush_to_tables([Ok(item)].into_iter()).unwrap().unwrap();
        self.tree.register_tables(&tables, None, None, &[], 0).unwrap();
    }

    fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<Vec<u8>> {
        self.tree.get(key, snapshot).unwrap().map(|value| value.to_vec())
    }

    fn len(&self) -> lsm_tree::Result<usize> {
        self.tree.len(SeqNo::MAX, None)
    }
}

fn put(levels: &Levels, tree: TreeId, key: &[u8], csn: u64, live: u64) -> Flushed {
    levels.flush(tree, Lsn::new(csn + 1), &[edit(16, key, csn, Some(b"value"))], live).unwrap()
}

fn made(dir: &Path) -> (Env, Levels, TreeId) {
    let env = Env::real();
    let (levels, _) = open(&env, dir);
    let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
    (env, levels, tree)
}

/// Returns a store of the trees in `dir`, without MANIFEST.
fn store(env: &Env, dir: &Path) -> LsmStore {
    LsmStore::new(env.files.clone(), dir, LevelOptions::default())
}

/// Returns a directory in memory if the machine has one: hundreds of flushes sync thousands of times.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Goal: R1: a counter of the tree's own restarts at each open, so that a newer value gets a lower number than an older
/// one and compaction drops the newer; commit numbers avoid that. Method: overwrite a key across a reopen, then
/// compact.
#[test]
fn own_counter_brings_an_overwritten_value_back() {
    let dir = scratch();
    let raw = Raw::open(dir.path()).unwrap();
    for value in [b"0", b"1", b"2"] {
        raw.put(b"k", value, raw.counter.next());
    }
    drop(raw);
    let raw = Raw::open(dir.path()).unwrap();
    raw.put(b"k", b"3", raw.counter.next());
    raw.tree.major_compact(u64::MAX, WATERMARK).unwrap();
    assert_eq!(
        raw.get(b"k", SeqNo::MAX).as_deref(),
        Some(&b"2"[..]),
        "the newest value should be gone without the rule"
    );

    let dir = scratch();
    let (env, levels, tree) = made(dir.path());
    levels.flush(tree, Lsn::new(200), &[edit(16, b"k", 150, Some(b"2"))], 1).unwrap();
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    load(&levels, tree).unwrap();
    levels.flush(tree, Lsn::new(300), &[edit(16, b"k", 250, Some(b"3"))], 1).unwrap();
    levels.compact(tree).unwrap();
    assert_eq!(load(&levels, tree).unwrap()[&(16, b"k".to_vec())], (b"3".to_vec(), 250));
}

/// Goal: R1: with a counter outside the LSN domain, a reader between two flushes loses its row when the tables are
/// merged; with one raised to f before each registration it keeps the row. Method: both, flushes at 100 and 200, a
/// reader at 120.
#[test]
fn reader_between_flushes_keeps_its_row_only_with_the_counter_of_the_log() {
    for raised in [false, true] {
        let dir = scratch();
        let raw = Raw::open(dir.path()).unwrap();
        for (f, csn, value) in [(100, 50, b"1"), (200, 150, b"2")] {
            if raised {
                raw.counter.fetch_max(f);
            }
            raw.put(b"k", value, csn);
        }
        assert!(raised || raw.get(b"k", 120).is_some());
        raw.tree.major_compact(u64::MAX, 200).unwrap();
        assert_eq!(raw.get(b"k", 120).is_some(), raised);
    }
}

/// Goal: R2: a tree with 300 runs in level 0 does not open, or opens without most of its rows; the levels compact
/// before that. Method: 300 flushes of overlapping keys each, without any other compaction.
#[test]
fn three_hundred_runs_do_not_open_without_compaction() {
    let key = |number: u64| [b"a".to_vec(), number.to_be_bytes().to_vec()].concat();
    let dir = scratch();
    let raw = Raw::open(dir.path()).unwrap();
    for number in 0..300_u64 {
        let ends = [&b"a"[..], &key(number), b"z"];
        let items = ends.map(|key| Ok(InternalValue::from_components(key, b"", number, ValueType::Value)));
        let (tables, _) = raw.tree.flush_to_tables(items.into_iter()).unwrap().unwrap();
        raw.tree.register_tables(&tables, None, None, &[], WATERMARK).unwrap();
    }
    assert_eq!((raw.tree.l0_run_count(), raw.len().unwrap()), (300, 302));
    drop(raw);
    let reopened = catch_unwind(AssertUnwindSafe(|| Raw::open(dir.path()).and_then(|raw| raw.len())));
    assert!(!matches!(reopened, Ok(Ok(302))), "300 runs do no harm any more: {:?}", reopened.ok());

    let dir = scratch();
    let (env, levels, tree) = made(dir.path());
    let mut most = 0;
    for number in 0..300_u64 {
        let (middle, csn) = (key(number), 1000 + number * 2);
        let edits = [edit(16, b"a", csn, Some(b"")), edit(16, &middle, csn, Some(b"")), edit(16, b"z", csn, Some(b""))];
        let flushed = levels.flush(tree, Lsn::new(csn + 1), &edits, number + 3).unwrap();
        assert_eq!(flushed.compaction_due, flushed.runs >= 8 && levels.backend.files(tree).new_runs >= 8);
        most = most.max(levels.backend.files(tree).new_runs);
    }
    assert_eq!(most, RUNS_MAX, "the limit is met and kept");
    drop(levels);
    let (levels, _) = open(&env, dir.path());
    assert_eq!(load(&levels, tree).unwrap().len(), 302);
}

/// Goal: background compaction keeps the number of a tree's runs small. Method: 40 overlapping flushes, compacted when
/// due.
#[test]
fn due_compaction_keeps_the_runs_few() {
    let dir = scratch();
    let (_env, levels, tree) = made(dir.path());
    for number in 0..40_u64 {
        let csn = 1000 + number * 2;
        let edits = [edit(16, b"a", csn, Some(b"")), edit(16, b"z", csn, Some(b""))];
        let flushed = levels.flush(tree, Lsn::new(csn + 1), &edits, 2).unwrap();
        assert!(flushed.runs <= 9, "{flushed:?}");
        if flushed.compaction_due {
            assert!(levels.compact_due(tree).unwrap().runs <= 2);
        }
    }
    assert_eq!(load(&levels, tree).unwrap()[&(16, b"z".to_vec())].1, 1078);
    assert!(levels.stat().compactions >= 4);
}

/// Goal: R3: a flush below the floor writes many times the bytes of its rows; at the floor it writes little more than
/// them. Method: the bytes of tables of a flush of one row, and of one of incompressible rows of 16 MiB.
#[test]
fn flush_below_the_floor_writes_many_times_its_rows() {
    let dir = scratch();
    let (_env, levels, tree) = made(dir.path());
    let small = put(&levels, tree, b"k", 20, 1);
    assert!(small.table_bytes > 50 * (1 + 5), "{small:?}");
    let mut word = 1_u64;
    let mut noise = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33).to_le_bytes()[0]
    };
    let values: Vec<Vec<u8>> = (0..FLUSH_FLOOR_BYTES >> 16).map(|_| (0..1 << 16).map(|_| noise()).collect()).collect();
    let keys: Vec<[u8; 4]> = (0..values.len()).map(|at| u32::try_from(at).unwrap().to_be_bytes()).collect();
    let edits: Vec<Edit<'_>> = keys.iter().zip(&values).map(|(key, value)| edit(16, key, 25, Some(value))).collect();
    let large = levels.flush(tree, Lsn::new(30), &edits, 1 + edits.len() as u64).unwrap();
    let least = FLUSH_FLOOR_BYTES..FLUSH_FLOOR_BYTES + FLUSH_FLOOR_BYTES / 50;
    assert!(least.contains(&large.table_bytes), "{large:?}");
}

/// Goal: R4: a crash between the registration of tables and our record of it is settled: the next load records the
/// flush, also one that only deleted, and repeating the flush changes nothing. A flush that was begun and not
/// registered is forgotten. Method: cut the last frame off MANIFEST after each kind of flush, and with the tables of
/// before.
#[test]
fn flush_that_was_registered_but_not_recorded_is_recorded_by_the_next_load() {
    let dir = scratch();
    let (env, levels, tree) = made(dir.path());
    put(&levels, tree, b"a", 20, 1);
    put(&levels, tree, b"b", 30, 2);
    let expected = load(&levels, tree).unwrap();
    drop(levels);
    let (trees, before) = (dir.path().join("tree-0000000001"), scratch());
    copy_dir(&trees, before.path());
    let manifest = dir.path().join("MANIFEST");
    let bytes = fs::read(&manifest).unwrap();
    fs::write(&manifest, &bytes[..bytes.len() - 34]).unwrap();
    for round in 0..2 {
        let (levels, found) = open(&env, dir.path());
        assert_eq!(found.interrupted.len(), usize::from(round == 0), "{found:?}");
        assert_eq!(levels.trees()[0].flush_lsn, Lsn::new(if round == 0 { 21 } else { 31 }));
        assert_eq!(load(&levels, tree).unwrap(), expected);
        assert_eq!((levels.trees()[0].flush_lsn, levels.trees()[0].live_keys), (Lsn::new(31), 2));
    }
    let (levels, _) = open(&env, dir.path());
    load(&levels, tree).unwrap();
    put(&levels, tree, b"b", 30, 2);
    assert_eq!(load(&levels, tree).unwrap(), expected);
    assert_eq!(levels.trees()[0].flush_lsn, Lsn::new(31));
    levels
        .flush(tree, Lsn::new(41), &[Edit { cf: CfId::new(16), key: b"b", csn: Lsn::new(35), value: None }], 1)
        .unwrap();
    drop(levels);
    let bytes = fs::read(&manifest).unwrap();
    fs::write(&manifest, &bytes[..bytes.len() - 34]).unwrap();
    let kept = scratch();
    copy_dir(dir.path(), kept.path());
    let (levels, _) = open(&env, dir.path());
    assert_eq!(load(&levels, tree).unwrap().len(), 1);
    assert_eq!(
        (levels.trees()[0].flush_lsn, levels.trees()[0].live_keys),
        (Lsn::new(41), 1),
        "a deletion was registered"
    );
    drop(levels);
    let kept_trees = kept.path().join("tree-0000000001");
    fs::remove_dir_all(&kept_trees).unwrap();
    copy_dir(before.path(), &kept_trees);
    let (levels, _) = open(&env, kept.path());
    assert_eq!(load(&levels, tree).unwrap(), expected);
    assert_eq!((levels.trees()[0].flush_lsn, levels.trees()[0].live_keys), (Lsn::new(31), 2), "nothing was registered");
}

/// Goal: R4: the crate accepts a list that lacks tables, and deletes those tables; the levels refuse it by their count.
/// Method: put the files of an earlier version back.
#[test]
fn silently_missing_table_is_refused_by_the_count() {
    let (dir, old) = (scratch(), scratch());
    let (env, levels, tree) = made(dir.path());
    put(&levels, tree, b"a", 20, 1);
    let trees = dir.path().join("tree-0000000001");
    copy_dir(&trees, old.path());
    put(&levels, tree, b"b", 30, 2);
    drop(levels);
    fs::remove_dir_all(&trees).unwrap();
    copy_dir(old.path(), &trees);
    assert_eq!(Raw::open(old.path()).unwrap().len().unwrap(), 1, "the crate sees nothing amiss");
    let (levels, _) = open(&env, dir.path());
    let error = load(&levels, tree).unwrap_err();
    assert!(matches!(error, LevelsError::LiveKeysDiffer { found: 1, .. }), "{error}");
    assert!(error.to_string().ends_with("has 1 live keys, MANIFEST says 2; family 16 below 0/1F affected"), "{error}");
    drop(levels);
    fs::remove_file(trees.join("current")).unwrap();
    let error = Levels::open(&env, dir.path(), &Default::default()).unwrap_err();
    assert!(error.to_string().contains("current: the file is missing"), "the crate would start an empty tree: {error}");
}

/// Goal: R4: a list of tables that is rotten at any byte is refused before the crate can act on it; the crate accepts
/// some of them. Method: flip a bit in each byte.
#[test]
fn rotten_list_of_tables_is_refused_before_the_crate_reads_it() {
    let (dir, copies) = (scratch(), scratch());
    let (env, levels, tree) = made(dir.path());
    for number in 0..4_u8 {
        put(&levels, tree, &[number], 20 + u64::from(number) * 10, 1 + u64::from(number));
    }
    drop(levels);
    let trees = dir.path().join("tree-0000000001");
    let version = fs::read_dir(&trees).unwrap().map(|entry| entry.unwrap().path());
    let version =
        version.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with('v')).unwrap();
    let good = fs::read(&version).unwrap();
    let (tables, mut taken) = (fs::read_dir(trees.join("tables")).unwrap().count(), 0);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&version, &bad).unwrap();
        if at % 8 == 0 {
            let copy = copies.path().join(at.to_string());
            copy_dir(&trees, &copy);
            taken += usize::from(catch_unwind(|| Raw::open(&copy).is_ok()).unwrap_or(false));
        }
        match store(&env, dir.path()).open(tree) {
            Err(BackendError::Damaged { path, what }) => {
                assert_eq!((&path, &what[..]), (&version, "bad checksum of the list of tables"), "byte {at}");
            }
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(fs::read_dir(trees.join("tables")).unwrap().count(), tables);
    }
    assert!(taken > 0, "the crate checks its list now");
    let error = Levels::open(&env, dir.path(), &Default::default()).unwrap_err();
    let text = format!("{}: bad checksum of the list of tables; family 16 below 0/33 affected", version.display());
    assert_eq!(error.to_string(), text);
}

/// Goal: a rotten byte of a table is refused by the file's name, or harmless, but never served. Method: flip a bit in
/// every fifth byte of a table, open and load.
#[test]
fn rotten_byte_of_a_table_is_never_served() {
    let dir = scratch();
    let (env, levels, tree) = made(dir.path());
    let keys: Vec<Vec<u8>> = (0..40_u32).map(|number| number.to_be_bytes().to_vec()).collect();
    let edits: Vec<Edit<'_>> = keys.iter().map(|key| edit(16, key, 25, Some(key))).collect();
    levels.flush(tree, Lsn::new(30), &edits, 40).unwrap();
    let expected = load(&levels, tree).unwrap();
    drop(levels);
    let tables = dir.path().join("tree-0000000001/tables");
    let table = fs::read_dir(&tables).unwrap().next().unwrap().unwrap().path();
    let good = fs::read(&table).unwrap();
    let (mut refused, mut named) = (0, 0);
    for at in (0..good.len()).step_by(5) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&table, &bad).unwrap();
        let store = store(&env, dir.path());
        let mut rows = Rows::new();
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            store.open(tree)?;
            store.scan(tree, &mut |entry| {
                rows.insert((16, entry.key.to_vec()), (entry.value.to_vec(), entry.csn.get()));
            })
        }));
        match loaded {
            Ok(Ok(())) => assert_eq!(rows, expected, "byte {at}"),
            Ok(Err(BackendError::Damaged { path, .. })) => {
                assert!(path.starts_with(tables.parent().unwrap()), "byte {at}");
                refused += 1;
                named += usize::from(path == table);
            }
            // `panic_below_fails_its_tree_alone` shows how the levels handle a panic.
            Err(_panic) => refused += 1,
            Ok(Err(other)) => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(refused > 50 && named > 20, "{refused} refused, {named} by name, of {} bytes", good.len());
}

/// Goal: R5: the crate panics on an empty key, and takes the same key of two families for one key. Method: both without
/// the prefix; with the prefix both keys are kept.
#[test]
fn keys_without_their_family_panic_or_collide() {
    let dir = scratch();
    let raw = Raw::open(dir.path()).unwrap();
    let empty = catch_unwind(AssertUnwindSafe(|| raw.put(b"", b"v", 1)));
    assert!(empty.is_err(), "an empty key is taken now");
    raw.put(b"k", b"of 16", 20);
    raw.put(b"k", b"of 17", 21);
    assert_eq!(raw.len().unwrap(), 1);

    let dir = scratch();
    let (levels, _) = open(&Env::real(), dir.path());
    let tree = levels.create_tree(&[CfId::new(16), CfId::new(17)]).unwrap();
    let edits = [edit(16, b"", 20, Some(b"x")), edit(16, b"k", 20, Some(b"x")), edit(17, b"k", 21, Some(b"y"))];
    levels.flush(tree, Lsn::new(30), &edits, 3).unwrap();
    assert_eq!(load(&levels, tree).unwrap().len(), 3);
}

/// A map store that panics in the chosen call of `apply`.
#[derive(Debug)]
struct Panicking(MapStore, Mutex<u32>);

impl LevelStore for Panicking {
    fn create(&self, tree: TreeId) -> Result<(), BackendError> {
        self.0.create(tree)
    }
    fn open(&self, tree: TreeId) -> Result<(), BackendError> {
        self.0.open(tree)
    }
    fn apply<'a>(&self, tree: TreeId, f: Lsn, edits: &mut dyn Iterator<Item = Edit<'a>>) -> Result<u64, BackendError> {
        let left = self.1.lock().checked_sub(1);
        *self.1.lock() = left.unwrap_or(0);
        assert_ne!(left, Some(0), "planted");
        self.0.apply(tree, f, edits)
    }
    fn scan(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BackendError> {
        self.0.scan(tree, visit)
    }
    fn highest(&self, tree: TreeId) -> Option<Lsn> {
        self.0.highest(tree)
    }
    fn compact(&self, tree: TreeId, effort: Effort) -> Result<u64, BackendError> {
        self.0.compact(tree, effort)
    }
    fn files(&self, tree: TreeId) -> TreeFiles {
        self.0.files(tree)
    }
    fn bytes(&self, tree: TreeId) -> u64 {
        self.0.bytes(tree)
    }
    fn file_entries(&self, tree: TreeId) -> Vec<(std::path::PathBuf, u64)> {
        self.0.file_entries(tree)
    }
    fn table_sums(&self, tree: TreeId) -> Vec<(std::path::PathBuf, u128)> {
        self.0.table_sums(tree)
    }
    fn check_list(&self, tree: TreeId) -> Result<(), BackendError> {
        self.0.check_list(tree)
    }
    fn link_to(&self, tree: TreeId, to: &Path) -> Result<(), BackendError> {
        self.0.link_to(tree, to)
    }
    fn forget(&self, tree: TreeId) {
        self.0.forget(tree);
    }
}

/// Goal: V6: a panic in the table library fails its tree: the error has the panic's text, and the tree takes no more
/// calls; other trees continue, and a reopen repairs it. Method: a backend that panics in the second flush.
#[test]
fn panic_below_fails_its_tree_alone() {
    let (env, _disk) = Env::simulated(1);
    let dir = Path::new("/levels");
    let backend = Panicking(MapStore::new(env.files.clone(), dir), Mutex::new(2));
    let (levels, _) = Levels::open_with(&env, dir, Box::new(backend)).unwrap();
    let (a, b) = (levels.create_tree(&[CfId::new(16)]).unwrap(), levels.create_tree(&[CfId::new(17)]).unwrap());
    put(&levels, a, b"k", 20, 1);
    let again = |levels: &Levels| levels.flush(a, Lsn::new(40), &[edit(16, b"l", 30, Some(b"v"))], 2);
    let error = again(&levels).unwrap_err();
    assert!(error.to_string().contains("the table library panicked: assertion"), "{error}");
    for refused in [again(&levels).map(drop), load(&levels, a).map(drop), levels.compact(a).map(drop)] {
        assert!(matches!(refused, Err(LevelsError::TreeFailed { .. })), "{refused:?}");
    }
    assert!(matches!(levels.checkpoint(Path::new("/copy")), Err(LevelsError::TreeFailed { .. })));
    let stat = levels.stat();
    assert!(stat.trees[0].failed.as_ref().is_some_and(|why| why.contains("planted")), "{stat:?}");
    assert_eq!(stat.trees[1].failed, None);
    levels.flush(b, Lsn::new(40), &[edit(17, b"l", 30, Some(b"v"))], 1).unwrap();
    drop(levels);
    let (levels, found) = open(&env, dir);
    assert_eq!(found.interrupted, [a]);
    assert_eq!(load(&levels, a).unwrap().len(), 1);
    again(&levels).unwrap();
}

/// Goal: a tree of lsm-tree's files is rewritten in many batches, more than level 0 takes, and loads as the rows
/// passed; the old directory is gone and flushes continue. Rows that do not ascend, or cannot belong to the tree, are
/// refused and leave the old tree. Method: a group of two families on the real disk, 20 batches; then another open.
#[test]
fn tree_of_real_files_is_written_anew_in_batches() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let (levels, _) = open(&env, dir.path());
    let tree = levels.create_tree(&[CfId::new(16), CfId::new(17)]).unwrap();
    levels.flush(tree, Lsn::new(40), &[edit(16, b"old", 30, Some(b"v"))], 1).unwrap();
    let row = |n: u32| (16 + n / 1000, (n % 1000).to_be_bytes().to_vec());
    let all: Vec<(u32, Vec<u8>)> = (0..2000).map(row).collect();
    let edits: Vec<Edit<'_>> = all.iter().map(|(cf, key)| edit(*cf, key, 45, Some(b"value"))).collect();
    for wrong in [
        vec![edits[1], edits[0]],
        vec![edit(18, b"k", 45, Some(b"v"))],
        vec![edit(16, b"k", 50, Some(b"v"))],
        vec![edit(16, b"k", 45, None)],
    ] {
        let refused = levels.replace_tree(tree, Lsn::new(50), &[], &mut |add| add(&wrong));
        assert!(matches!(refused, Err(LevelsError::InvalidCall { .. })), "{refused:?}");
    }
    assert_eq!(load(&levels, tree).unwrap().len(), 1);
    let mut batches = edits.chunks(100);
    let replaced = levels.replace_tree(tree, Lsn::new(50), &[], &mut |add| batches.try_for_each(&mut *add)).unwrap();
    assert_eq!(replaced.keys.into_values().collect::<Vec<_>>(), [1000, 1000]);
    assert!(replaced.table_bytes > 0 && levels.stat().trees[0].runs <= 16, "{:?}", levels.stat());
    levels.flush(replaced.tree, Lsn::new(60), &[edit(17, b"new", 55, Some(b"v"))], 2001).unwrap();
    levels.compact(replaced.tree).unwrap();
    drop(levels);
    let (levels, found) = open(&env, dir.path());
    assert_eq!(found.deleted_dirs, Vec::<String>::new(), "the old tree's directory was removed at once");
    let rows = load(&levels, replaced.tree).unwrap();
    assert_eq!(rows.len(), 2001);
    assert_eq!(rows.get(&(16, 7_u32.to_be_bytes().to_vec())), Some(&(b"value".to_vec(), 45)));
}

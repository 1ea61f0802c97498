//! Checkpoints, backups and restores: under writers, ended at every call to the disk, with each file damaged, to every
//! position.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use collie_base::{CfId, Lsn};
use collie_engine::{BackupFault, CopyPhase, Db, EngineError, Env, ErrorKind, Options, restore, verify_backup};
use collie_env::{Access, File, FileLock, Files, LockError, RealFiles};
use collie_wal::{CutRefusal, WalError, inspect};
use common::copies::{COPY, LINK, Rows, go_on, open, open_in, rows};
use common::{begin, put, put_one, tiny};

/// Returns the rows of a family in the database in `dir`; closes it again.
fn rows_in(dir: &Path, cf: CfId) -> Rows {
    let db = open(dir);
    let found = rows(&db, cf);
    db.close().unwrap();
    found
}

/// Commits one row and returns its CSN.
fn put_at(db: &Db, cf: CfId, key: &[u8], value: &[u8]) -> Lsn {
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &db.family(cf), key, value);
    session.commit(true).unwrap().block().unwrap().csn.unwrap()
}

/// Replaces the directory `to` by a copy of `from`.
fn copy_dir(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to); // from an earlier round
    for (path, bytes) in files_in(from) {
        let to = to.join(path);
        // Only its owner may read a data directory.
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
            .create(to.parent().unwrap())
            .unwrap();
        fs::write(to, bytes).unwrap();
    }
}

/// Returns all files below a directory, by their relative paths.
fn files_in(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the temporary names in a directory.
fn leftovers(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("partial")).collect()
}

/// Returns a database with LSM levels, a log of several files behind them, and a family that was flushed twice.
fn sample(dir: &Path, env: Env) -> (Db, CfId) {
    let db = open_in(dir, env);
    let cf = db.create_family();
    let f = db.family(cf);
    for n in 0..30_u8 {
        put_one(&db, &f, &[n], &[n; 3000]);
        if n % 10 == 9 {
            db.flush_cf(&[cf]).unwrap();
        }
    }
    for n in 20..45_u8 {
        put_one(&db, &f, &[n], &[n; 2500]);
    }
    (db, cf)
}

/// Returns a database with LSM levels and a log behind them, as short as possible.
fn short_sample(dir: &Path) -> (Db, CfId) {
    let db = open(dir);
    let cf = db.create_family();
    (0..14_u8).for_each(|n| put_one(&db, &db.family(cf), &[n], &[n; 3000]));
    db.flush_cf(&[cf]).unwrap();
    (10..16_u8).for_each(|n| put_one(&db, &db.family(cf), &[n], &[n; 2500]));
    (db, cf)
}

/// Goal: a copy made under writers opens and holds exactly the commits below its end, including those that returned
/// before the call, even without waiting for the disk. Method: two threads commit rows to two families at once and note
/// the positions; copies of both kinds are made meanwhile, between flushes; each is opened, compared with the notes,
/// and checked.
#[test]
fn copy_under_writers_holds_exactly_the_commits_below_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { write_buffer_size: 20_000, ..Options::small() };
    let (db, _) = Db::open(&dir.path().join("db"), options, Env::real(), &mut |_| ()).unwrap();
    let cfs = [db.create_family(), db.create_family()];
    let (stop, returned) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut copies = Vec::new();
    let notes: Vec<(Lsn, Vec<u8>)> = std::thread::scope(|scope| {
        let write = |thread: u8| {
            let (db, stop, returned) = (&db, &stop, &returned);
            move || {
                let (mut session, mut notes) = (db.session().unwrap(), Vec::new());
                let families = cfs.map(|cf| db.family(cf));
                for n in 0_u32.. {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let key = [&[thread][..], &n.to_be_bytes()].concat();
                    begin(&mut session);
                    families.iter().for_each(|f| put(&mut session, f, &key, &[thread; 200]));
                    let receipt = session.commit(n % 2 == 0).unwrap().block().unwrap();
                    notes.push((receipt.csn.unwrap(), key));
                    returned.fetch_add(1, Ordering::Release);
                }
                notes
            }
        };
        let writers: Vec<_> = (0..2).map(|thread| scope.spawn(write(thread))).collect();
        for (number, options) in [LINK, COPY, LINK].into_iter().enumerate() {
            while returned.load(Ordering::Acquire) < 50 * (number as u64 + 1) {
                std::thread::yield_now();
            }
            let before = returned.load(Ordering::Acquire);
            let to = dir.path().join(format!("copy {number}"));
            let made = db.checkpoint(&to, options, &mut go_on).unwrap();
            copies.push((to, made, before));
            db.flush_cf(&cfs[..1]).unwrap();
        }
        stop.store(true, Ordering::Release);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let all_rows: Vec<Rows> = cfs.iter().map(|cf| rows(&db, *cf)).collect();
    for (to, made, before) in copies {
        let (checked, faults) = verify_backup(&to, &Env::real(), &mut go_on).unwrap();
        assert_eq!((checked, faults), (made, Vec::new()));
        let expected: BTreeSet<&Vec<u8>> =
            notes.iter().filter(|(csn, _)| *csn < made.end).map(|(_, key)| key).collect();
        assert!(expected.len() as u64 >= before, "{} of {before} that had returned", expected.len());
        let (copy, _) = Db::open(&to, Options::small(), Env::real(), &mut |_| ()).unwrap();
        for (cf, all) in cfs.iter().zip(&all_rows) {
            let found = rows(&copy, *cf);
            assert_eq!(found.keys().collect::<BTreeSet<_>>(), expected, "{}", to.display());
            assert!(found.iter().all(|(key, value)| all[key] == *value));
        }
        assert_eq!(copy.cluster_id(), db.cluster_id());
        copy.close().unwrap();
    }
    db.close().unwrap();
}

/// Goal: K1: a large transaction that is open while the copy is made is whole in it if it commits in time, and absent
/// if not, although log is released below. Method: chunks in the log, flushes, a copy; then a copy in which it commits
/// while the LSM levels are copied.
#[test]
fn large_transaction_is_whole_in_a_copy_or_absent() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (cf, other) = (db.create_family(), db.create_family());
    let mut large = db.session().unwrap();
    begin(&mut large);
    (0..4_u8).for_each(|n| put(&mut large, &db.family(cf), &[n], &[n; 20_000]));
    (0..30_u8).for_each(|n| put_one(&db, &db.family(other), &[n], &[n; 3000]));
    db.flush_all().unwrap();
    db.checkpoint(&dir.path().join("without"), LINK, &mut go_on).unwrap();
    let mut large = Some(large);
    db.checkpoint(&dir.path().join("with"), COPY, &mut |progress| {
        if let Some(mut session) = large.take_if(|_| progress.phase == CopyPhase::Levels && progress.bytes_done > 0) {
            session.commit(true).unwrap().block().unwrap();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(large.is_none(), "it was committed");
    (0..30_u8).for_each(|n| put_one(&db, &db.family(other), &[n], &[n; 3001]));
    db.flush_all().unwrap();
    for (name, keys) in [("without", 0), ("with", 4)] {
        let found = rows_in(&dir.path().join(name), cf);
        assert_eq!(found.len(), keys, "{name}");
        assert!(found.iter().all(|(key, value)| value[..] == [key[0]; 20_000]));
        assert_eq!(rows_in(&dir.path().join(name), other).len(), 30);
    }
}

/// Goal: a full ring of the log does not make a copy fail: its time mark waits for a flush, as commits do. Method:
/// asynchronous commits fill the ring while the LSM levels are copied, the last ones with the smallest records.
#[test]
fn copy_waits_for_room_in_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let (cf, late) = (db.create_family(), db.create_family());
    put_one(&db, &db.family(cf), b"k", &[1; 3000]);
    db.flush_all().unwrap();
    let mut filled = false;
    db.checkpoint(&dir.path().join("copy"), COPY, &mut |progress| {
        if progress.phase == CopyPhase::Levels && progress.bytes_done > 0 && !filled {
            for value in [&[2_u8; 500][..], &[2; 20], b""] {
                let refused = (0..1000).find_map(|_| {
                    let mut session = db.session().unwrap();
                    session.set_no_slowdown(true);
                    begin(&mut session);
                    put(&mut session, &db.family(late), b"k", value);
                    session.commit(false).err()
                });
                assert_eq!(refused.expect("the ring is full").kind(), ErrorKind::Busy);
            }
            filled = true;
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(filled);
    assert_eq!(rows_in(&dir.path().join("copy"), cf).len(), 1);
}

/// Goal: a backup can be restored to every boundary of its log from `from` to its end, holds exactly the commits below,
/// and cannot be restored to any other position. Method: commits while the LSM levels are copied; each boundary is
/// restored and opened, positions next to them are refused.
#[test]
fn backup_is_restored_to_every_boundary_of_its_log_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let (db, cf) = sample(&dir.path().join("db"), Env::real());
    let late = db.create_family();
    let (mut commits, backup) = (Vec::new(), dir.path().join("backup"));
    let made = db
        .checkpoint(&backup, COPY, &mut |progress| {
            if progress.phase == CopyPhase::Levels && progress.bytes_done > 0 && commits.len() < 5 {
                let key = vec![u8::try_from(commits.len()).unwrap()];
                commits.push((put_at(&db, late, &key, b"late"), key));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(commits.len(), 5);
    assert!(commits.iter().all(|(csn, _)| (made.from..made.end).contains(csn)));
    let expected = rows(&db, cf);
    let found = inspect(&Env::real(), &backup.join("wal")).unwrap();
    let mut boundaries: BTreeSet<Lsn> = BTreeSet::from([made.from]);
    boundaries.extend(found.records(made.from).map(|record| record.unwrap().end).filter(|end| *end <= made.end));
    assert!(boundaries.len() > commits.len() && boundaries.contains(&made.end), "{boundaries:?}");
    let before = files_in(&backup);
    let to = dir.path().join("restored");
    let restore_to = |at: Lsn| restore(&backup, &to, Some(at), &Env::real(), &mut go_on);
    for at in &boundaries {
        let restored = restore_to(*at).unwrap();
        assert_eq!((restored.end, restored.backup), (*at, made));
        let below: BTreeSet<Vec<u8>> = commits.iter().filter(|(csn, _)| csn < at).map(|(_, key)| key.clone()).collect();
        for life in 0..2 {
            assert_eq!(rows_in(&to, late).into_keys().collect::<BTreeSet<_>>(), below, "to {at}, life {life}");
            assert_eq!(rows_in(&to, cf), expected);
        }
        fs::remove_dir_all(&to).unwrap();
    }
    for at in [Lsn::new(made.from.get() - 1), Lsn::new(made.end.get() + 1), Lsn::ZERO, Lsn::MAX] {
        let refused = restore_to(at).unwrap_err();
        assert!(matches!(refused, EngineError::NotInBackup { lsn, .. } if lsn == at), "{refused}");
    }
    let across = Lsn::new(commits[2].0.get() + 1);
    match restore_to(across).unwrap_err() {
        EngineError::Log(error) => {
            assert!(matches!(*error, WalError::Cut { why: CutRefusal::NotABoundary { .. }, .. }), "{error}");
        }
        other => panic!("{other}"),
    }
    assert!(!to.exists() && leftovers(dir.path()).is_empty());
    restore(&backup, &to, None, &Env::real(), &mut go_on).unwrap();
    assert_eq!(rows_in(&to, late).len(), 5);
    assert_eq!(files_in(&backup), before, "a backup is only read");
}

/// Goal: every damage to a file of a backup is found by the check, with its name and place, and a restore refuses the
/// backup and leaves nothing. Method: each file with a bit flipped at its begin, middle and end, made shorter, longer,
/// empty, and removed.
#[test]
fn every_damaged_file_of_a_backup_is_found_and_refused() {
    const PIECE: usize = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = sample(&dir.path().join("db"), Env::real());
    let backup = dir.path().join("backup");
    db.checkpoint(&backup, COPY, &mut go_on).unwrap();
    let files = files_in(&backup);
    for part in ["control", "BACKUP", "levels/MANIFEST"] {
        assert!(files.contains_key(Path::new(part)), "{:?}", files.keys());
    }
    let of = |above: &str| files.keys().filter(|path| path.starts_with(above)).count();
    assert!(of("wal") >= 3 && of("levels") >= 4, "{:?}", files.keys());
    let to = dir.path().join("restored");
    for (name, good) in &files {
        let path = backup.join(name);
        let flipped = |at: usize| {
            let mut bad = good.clone();
            bad[at] ^= 4;
            (Some(bad), Some(at / PIECE * PIECE))
        };
        let (last, len) = (good.len() - 1, good.len());
        let mut longer = good.clone();
        longer.push(0);
        let damages = [
            flipped(0),
            flipped(last / 2),
            flipped(last),
            (Some(good[..last].to_vec()), Some(last)),
            (Some(longer), Some(len)),
            (Some(Vec::new()), Some(0)),
            (None, None),
        ];
        for (bad, offset) in damages {
            match &bad {
                Some(bad) => fs::write(&path, bad).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let checked = verify_backup(&backup, &Env::real(), &mut go_on);
            let refused = restore(&backup, &to, None, &Env::real(), &mut go_on).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
            let EngineError::BadBackup { path: told, offset: told_at, .. } = refused else { panic!("{refused}") };
            assert_eq!(told, path);
            if *name == Path::new("BACKUP") {
                assert!(matches!(checked, Err(EngineError::BadBackup { .. })), "{checked:?}");
            } else {
                let offset = offset.map(|offset| offset as u64);
                assert_eq!(told_at, offset, "{}", name.display());
                let faults = checked.unwrap().1;
                let [BackupFault { path: found, offset: at, .. }] = &faults[..] else { panic!("{faults:?}") };
                assert_eq!((found, *at), (&path, offset));
            }
            assert!(!to.exists() && leftovers(dir.path()).is_empty());
        }
        fs::write(&path, good).unwrap();
    }
    assert_eq!(verify_backup(&backup, &Env::real(), &mut go_on).unwrap().1, []);
}

/// Goal: where no copy can be made the error says so in one line, and nothing is touched. Method: targets inside the
/// data directory (also by a link), in use, a file, below nothing; a directory that is no backup; a stop by request.
#[test]
fn targets_that_cannot_be_are_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let (db, cf) = sample(&data, Env::real());
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("used")).unwrap();
    fs::write(path("used/file"), b"mine").unwrap();
    fs::create_dir(path("empty")).unwrap();
    std::os::unix::fs::symlink(&data, path("link")).unwrap();
    let targets =
        ["db", "db/inside", "db/wal/inside", "link/inside", "used", "used/file", "used/file/x", "no/where", "/"];
    for target in targets {
        let refused = db.checkpoint(&path(target), LINK, &mut go_on).unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, EngineError::BadTarget { .. } | EngineError::Io { .. }), "{target}: {text}");
        assert!(
            !text.contains('\n') && (text.contains("cannot make a copy in") || text.contains("cannot look up")),
            "{text}"
        );
    }
    let mut pieces = 0;
    for options in [LINK, COPY] {
        let stopped = db.checkpoint(&path("stopped"), options, &mut |_| {
            pieces += 1;
            if pieces % 5 == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(stopped, Err(EngineError::Cancelled)), "{stopped:?}");
    }
    assert!(!path("stopped").exists() && leftovers(dir.path()).is_empty() && leftovers(&data).is_empty());
    assert_eq!(fs::read(path("used/file")).unwrap(), b"mine");
    let made = db.checkpoint(&path("empty"), LINK, &mut go_on).unwrap();
    assert!(made.files > 5 && made.bytes > 10_000);
    for target in ["used", "empty/inside"] {
        let refused = restore(&path("empty"), &path(target), None, &Env::real(), &mut go_on);
        assert!(matches!(refused, Err(EngineError::BadTarget { .. })), "{refused:?}");
    }
    for none in ["used", "nothing", "db"] {
        let refused = restore(&path(none), &path("new"), None, &Env::real(), &mut go_on);
        assert!(matches!(refused, Err(EngineError::BadBackup { .. })), "{refused:?}");
    }
    let expected = rows(&db, cf);
    db.close().unwrap();
    let closed = db.checkpoint(&path("closed"), LINK, &mut go_on);
    assert!(matches!(closed, Err(EngineError::Closed)), "{closed:?}");
    drop(db);
    assert_eq!(rows_in(&path("empty"), cf), expected);
    let (_, faults) = verify_backup(&path("empty"), &Env::real(), &mut go_on).unwrap();
    assert!(!faults.is_empty(), "a checkpoint that was opened is no backup any more");
}

/// The fault in the calls that make a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// No fault.
    None,
    /// The process dies at the call with this number: neither it nor a later one is made.
    Death(u64),
    /// The call with this number fails; later ones do not.
    Fails(u64, io::ErrorKind),
    /// No file can be linked.
    NoLinks,
}

/// The operating system's files with a fault. It counts the calls that change files below a partial copy's name.
#[derive(Clone, Debug)]
struct Troubled {
    trouble: Trouble,
    calls: Arc<AtomicU64>,
    dead: Arc<AtomicBool>,
}

impl Troubled {
    fn env(trouble: Trouble) -> (Env, Self) {
        let files = Self { trouble, calls: Arc::default(), dead: Arc::default() };
        (Env { files: Arc::new(files.clone()), ..Env::real() }, files)
    }

    /// Decides whether a call that changes `path` succeeds.
    fn change(&self, path: &Path) -> io::Result<()> {
        if path.components().any(|part| part.as_os_str().to_string_lossy().ends_with(".collie-partial")) {
            let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            match self.trouble {
                Trouble::Death(at) if call == at => self.dead.store(true, Ordering::Relaxed),
                Trouble::Fails(at, kind) if call == at => return Err(kind.into()),
                _ => {}
            }
        }
        if self.dead.load(Ordering::Relaxed) { Err(io::Error::other("the process is dead")) } else { Ok(()) }
    }

    fn wrap(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(TroubledFile { files: self.clone(), path: path.to_owned(), file })
    }
}

#[derive(Debug)]
struct TroubledFile {
    files: Troubled,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl File for TroubledFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.files.change(&self.path)?;
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.files.change(&self.path)?;
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.files.change(&self.path)?;
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Files for Troubled {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.change(dir)?;
        RealFiles.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.change(path)?;
        Ok(self.wrap(path, RealFiles.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, RealFiles.open(path, access)?))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(from)?;
        RealFiles.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(path)?;
        RealFiles.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.change(dir)?;
        RealFiles.remove_dir_all(dir)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(to)?;
        // Inside one directory links are always possible.
        let same = from.ancestors().any(|above| above.ends_with("db") && to.starts_with(above));
        if self.trouble == Trouble::NoLinks && !same {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        RealFiles.hard_link(from, to)
    }

    fn is_real(&self) -> bool {
        true
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        RealFiles.resolve(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealFiles.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change(dir)?;
        RealFiles.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        RealFiles.lock(path)
    }
}

/// Goal: K4 and K5: a process that dies at any call of a copy leaves the source whole and no copy that opens, unless it
/// is a whole one; the next opening and the next copy remove the remains. Method: a copy of each kind, dead at the
/// first call to the disk, at the second, and so on until it survives; then everything is opened.
#[test]
fn copy_that_dies_at_any_call_leaves_the_source_whole_and_no_part_that_opens() {
    for options in [LINK, COPY] {
        let dir = tempfile::tempdir().unwrap();
        let [base, data, to] = ["base", "db", "copy"].map(|name| dir.path().join(name));
        let (db, cf) = short_sample(&base);
        let expected = rows(&db, cf);
        db.close().unwrap();
        drop(db);
        for at in 1.. {
            assert!(at < 1_000, "it never lives");
            copy_dir(&base, &data);
            let (env, files) = Troubled::env(Trouble::Death(at));
            let db = open_in(&data, env);
            let made = db.checkpoint(&to, options, &mut go_on);
            drop(db);
            if !files.dead.load(Ordering::Relaxed) {
                made.unwrap();
                assert!(at > 20, "{at} calls");
                break;
            }
            assert!(made.is_err(), "a dead process cannot say that it is done");
            // The last call of all may have reached the disk.
            assert!(!to.exists() || rows_in(&to, cf) == expected, "call {at}");
            for left in leftovers(dir.path()) {
                let partial = dir.path().join(&left);
                let existing = Options { create_if_missing: false, ..tiny() };
                if let Ok((db, _)) = Db::open(&partial, existing, Env::real(), &mut |_| ()) {
                    assert_eq!(rows(&db, cf), expected, "call {at}: a part opens as if it were whole");
                }
                let restored = restore(&partial, &dir.path().join("from part"), None, &Env::real(), &mut go_on);
                assert!(restored.is_err(), "call {at}: what was opened, or has no list, is restored");
            }
            let db = open(&data);
            assert_eq!(rows(&db, cf), expected, "call {at}");
            assert!(leftovers(&data).is_empty(), "call {at}");
            db.close().unwrap();
        }
        assert!(leftovers(dir.path()).is_empty(), "the copy that was made removed what the others left");
        assert_eq!(verify_backup(&to, &Env::real(), &mut go_on).unwrap().1, []);
        assert_eq!(rows_in(&to, cf), expected);
    }
}

/// Goal: a failing call to the disk, or a full disk, ends a copy with one line that names the file, and nothing of the
/// copy is left, while the database continues. Method: each call of a copy of each kind fails once.
#[test]
fn copy_on_a_failing_disk_leaves_nothing_and_the_database_goes_on() {
    for (options, kind) in [(LINK, io::ErrorKind::StorageFull), (COPY, io::ErrorKind::Other)] {
        let dir = tempfile::tempdir().unwrap();
        let [base, data, to] = ["base", "db", "copy"].map(|name| dir.path().join(name));
        let (db, cf) = short_sample(&base);
        db.close().unwrap();
        drop(db);
        for at in 1.. {
            assert!(at < 1_000, "it never succeeds");
            copy_dir(&base, &data);
            let (env, files) = Troubled::env(Trouble::Fails(at, kind));
            let db = open_in(&data, env);
            let made = db.checkpoint(&to, options, &mut go_on);
            let failed = files.calls.load(Ordering::Relaxed) >= at;
            if let Err(error) = &made {
                let text = error.to_string();
                assert!(
                    failed && !text.contains('\n') && (text.contains("/copy") || text.contains("partial")),
                    "{text}"
                );
                // Only the removal itself may have failed.
                assert!(!to.exists() && leftovers(&data).is_empty(), "call {at}: {text}");
                assert!(leftovers(dir.path()).is_empty(), "call {at}: {text}");
            }
            put_one(&db, &db.family(cf), b"later", b"goes on");
            db.close().unwrap();
            if made.is_ok() {
                assert_eq!(verify_backup(&to, &Env::real(), &mut go_on).unwrap().1, []);
                fs::remove_dir_all(&to).unwrap();
            }
            if !failed {
                assert!(made.is_ok() && at > 20, "{at} calls");
                break;
            }
        }
    }
}

/// Goal: if the copy's file system cannot link the source's tables they are copied, and no temporary file stays; and a
/// copy that shares nothing has no table in common with its source. Method: files that cannot be linked out of the data
/// directory; then the inodes of the tables of both kinds of copy.
#[test]
fn tables_are_copied_where_they_cannot_be_linked_or_must_not_be() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("db");
    let (db, cf) = sample(&data, Troubled::env(Trouble::NoLinks).0);
    let expected = rows(&db, cf);
    db.checkpoint(&dir.path().join("elsewhere"), LINK, &mut go_on).unwrap();
    db.close().unwrap();
    drop(db);
    let db = open_in(&data, Troubled::env(Trouble::None).0);
    db.checkpoint(&dir.path().join("linked"), LINK, &mut go_on).unwrap();
    db.checkpoint(&dir.path().join("copied"), COPY, &mut go_on).unwrap();
    assert!(leftovers(&data).is_empty() && leftovers(dir.path()).is_empty());
    let tables = |name: &str| -> BTreeSet<u64> {
        let found = files_in(&dir.path().join(name));
        let tables = found.keys().filter(|path| path.parent().is_some_and(|above| above.ends_with("tables")));
        tables.map(|path| fs::metadata(dir.path().join(name).join(path)).unwrap().ino()).collect()
    };
    assert!(!tables("db").is_empty());
    assert_eq!(tables("linked"), tables("db"));
    for name in ["elsewhere", "copied"] {
        assert!(tables(name).is_disjoint(&tables("db")), "{name}");
        assert_eq!(tables(name).len(), tables("db").len());
    }
    for name in ["elsewhere", "linked", "copied"] {
        assert_eq!(rows_in(&dir.path().join(name), cf), expected, "{name}");
    }
    assert_eq!(rows(&db, cf), expected, "the copies were opened and changed nothing here");
}

//! Old versions: the versions that one old snapshot keeps, the behavior at the limits, and constant memory under a mix
//! of writes.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use collie_engine::{
    Basis, Db, EngineError, Env, Family, Insert, Isolation, KeyRange, Options, Outcome, Session, StatementKind, Write,
};
use common::{all, begin, begin_at, put, put_one};

/// Opens a new database that does nothing between calls.
fn open(old_version_memory: u64) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background: false, old_version_memory, ..Options::small() };
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    (dir, db)
}

fn is_cancelled<T: std::fmt::Debug>(result: Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::SnapshotCancelled(_)))
}

/// Goal: one old snapshot keeps one version of a row, not every one since, and its row is queued once. Method: 500
/// commits to one row under an old snapshot with rounds between them, then the end of the snapshot; bytes, rows and the
/// answer are checked.
#[test]
fn old_snapshot_keeps_one_version_of_a_hot_row() {
    let (_dir, db) = open(1 << 30);
    let f = &db.family(db.create_family());
    put_one(&db, f, b"hot", &[0; 100]);
    db.tick();
    let mut old = db.session().unwrap();
    begin_at(&mut old, Isolation::RepeatableRead);
    let held = db.snapshots();
    assert_eq!((held.len(), held[0].slot), (1, old.cancel_handle().slot()));
    for round in 1..=500_u16 {
        put_one(&db, f, b"hot", &round.to_le_bytes().repeat(50));
        if round.is_multiple_of(10) {
            db.tick();
            let stat = db.stat();
            assert!(stat.old_version_bytes < 1000, "round {round}: {stat:?}");
            assert!((stat.held_rows, stat.garbage_rows) <= (1, 1), "round {round}: {stat:?}");
        }
    }
    db.tick();
    let stat = db.stat();
    assert!((100..300).contains(&stat.old_version_bytes), "one version: {stat:?}");
    assert_eq!(db.rows_kept_for(held[0].snapshot), 1);
    assert_eq!(old.get(f, b"hot").unwrap().as_deref(), Some(&[0; 100][..]));
    old.rollback();
    db.tick();
    let stat = db.stat();
    assert_eq!((stat.old_version_bytes, stat.held_rows, stat.garbage_rows), (0, 0, 0));
}

/// Goal: at the limit the oldest snapshot is cancelled, even that of an idle session; every later answer of it fails,
/// younger snapshots and writers continue. Method: an idle old reader, a younger one, commits until the limit; each
/// kind of call.
#[test]
fn oldest_snapshot_is_cancelled_at_the_limit_and_no_writer() {
    let (_dir, db) = open(15_000);
    let f = &db.family(db.create_family());
    for key in 0..40_u8 {
        put_one(&db, f, &[key], &[0; 400]);
    }
    db.tick();
    let mut old = db.session().unwrap();
    begin_at(&mut old, Isolation::RepeatableRead);
    assert_eq!(all(&old, f).len(), 40);
    put(&mut old, f, b"own", b"written");
    for key in 0..20_u8 {
        put_one(&db, f, &[key], &[1; 400]);
    }
    let mut young = db.session().unwrap();
    begin_at(&mut young, Isolation::RepeatableRead);
    db.tick();
    assert!(old.get(f, &[0]).is_ok(), "below the limit");
    for key in 20..40_u8 {
        put_one(&db, f, &[key], &[1; 400]);
        db.tick();
    }
    for _ in 0..3 {
        db.tick();
    }
    let stat = db.stat();
    assert!(stat.old_version_bytes <= 15_000 && stat.snapshots == 1, "{stat:?}");
    assert_eq!(young.get(f, &[0]).unwrap().as_deref(), Some(&[1; 400][..]));
    assert_eq!(young.get(f, &[39]).unwrap().as_deref(), Some(&[0; 400][..]), "still kept for it");

    let error = old.get(f, &[0]).unwrap_err();
    assert!(error.to_string().contains("of old versions"), "{error}");
    assert!(is_cancelled(old.get_with(f, &[0], <[u8]>::len)));
    let mut seen = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        seen += 1;
        ControlFlow::Continue(())
    };
    assert!(is_cancelled(old.scan(f, &KeyRange::ALL, None, false, 100, &mut count)));
    assert_eq!(seen, 0, "no row of a snapshot that is not in force is shown");
    assert!(is_cancelled(old.insert(f, b"more", b"x")));
    assert!(is_cancelled(old.write(f, &[0], Basis::Snapshot, Write::Put(b"x"))));
    old.end_statement();
    assert!(is_cancelled(old.begin_statement(StatementKind::Write)));
    old.commit(true).unwrap().block().unwrap();
    begin(&mut old);
    assert_eq!(old.get(f, b"own").unwrap().as_deref(), Some(&b"written"[..]), "what it had written is committed");
    assert_eq!(old.get(f, b"more").unwrap(), None);
    assert_eq!(old.get(f, &[0]).unwrap().as_deref(), Some(&[1; 400][..]), "its write was undone");
}

/// Goal: if no snapshot can be cancelled, writes are refused, and only until there is room. Method: old versions that
/// are not durable yet, above the limit; a write; the flush; the write again.
#[test]
fn writers_are_refused_only_while_nothing_can_be_freed() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options { background: false, old_version_memory: 5_000, ..Options::small() };
    options.log.threads = false;
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    let f = &db.family(db.create_family());
    put_one(&db, f, b"k", &[0; 900]);
    let mut session = db.session().unwrap();
    let update = |session: &mut Session| {
        begin(session);
        let outcome = session.write(f, b"k", Basis::Snapshot, Write::Put(&[1; 900]));
        if outcome.is_ok() {
            drop(session.commit(false).unwrap()); // published, and not on disk
        } else {
            session.rollback();
        }
        outcome
    };
    let mut done = 0;
    let refused = loop {
        db.tick();
        match update(&mut session) {
            Ok(Outcome::Done) => done += 1,
            Err(error) => break error,
            other => panic!("{other:?}"),
        }
        assert!(done < 100, "{:?}", db.stat());
    };
    assert!(matches!(refused, EngineError::OldVersionMemory { limit_bytes: 5_000 }), "{refused}");
    assert!(done >= 5, "refused after {done} updates");
    db.try_lead_flush();
    db.tick();
    assert_eq!(update(&mut session).unwrap(), Outcome::Done);
}

/// Goal: an old snapshot that keeps versions is cancelled at its age. Method: a limit of zero, a commit above the
/// snapshot; another snapshot that keeps nothing stays.
#[test]
fn snapshot_is_cancelled_at_its_age_when_it_keeps_something() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background: false, max_snapshot_age: Some(Duration::ZERO), ..Options::small() };
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    let f = &db.family(db.create_family());
    put_one(&db, f, b"k", b"old");
    let mut reader = db.session().unwrap();
    begin_at(&mut reader, Isolation::RepeatableRead);
    db.tick();
    db.tick();
    assert!(reader.get(f, b"k").is_ok(), "nothing was committed above it");
    put_one(&db, f, b"k", b"new");
    db.tick();
    assert!(is_cancelled(reader.get(f, b"k")));
}

/// Goal: dropping a family frees its old versions. Method: updates and deletions under an old snapshot.
#[test]
fn dropped_family_takes_its_old_versions_along() {
    let (_dir, db) = open(1 << 30);
    let cf = db.create_family();
    let f = &db.family(cf);
    (0..600_u16).for_each(|key| put_one(&db, f, &key.to_be_bytes(), &[0; 50]));
    let mut old = db.session().unwrap();
    begin_at(&mut old, Isolation::RepeatableRead);
    let mut session = db.session().unwrap();
    begin(&mut session);
    for key in 0..600_u16 {
        let change = if key % 2 == 0 { Write::Put(&[1; 50]) } else { Write::Delete };
        assert_eq!(session.write(f, &key.to_be_bytes(), Basis::Snapshot, change).unwrap(), Outcome::Done);
    }
    session.commit(true).unwrap().block().unwrap();
    db.tick();
    assert!(db.stat().old_version_bytes > 600 * 50, "{:?}", db.stat());
    old.rollback();
    db.drop_family(cf);
    assert_eq!(db.stat().old_version_bytes, 0);
    db.tick();
    db.tick();
    assert_eq!((db.stat().old_version_bytes, db.stat().garbage_rows, db.stat().held_rows), (0, 0, 0));
}

/// Runs one transaction of the mix: it changes a few rows, sometimes deletes one and inserts it again, and may wait
/// until that is on disk.
fn mix(session: &mut Session, f: &Family, dice: u64, waits: bool) -> Result<(), EngineError> {
    session.begin(Isolation::ReadCommitted, false)?;
    session.begin_statement(StatementKind::Write)?;
    for step in 0..4_u32 {
        let key = (dice >> (8 * step)) % 100;
        let value = dice.to_le_bytes().repeat(16);
        let done = match session.insert(f, &key.to_be_bytes(), &value)? {
            Insert::Done => true,
            Insert::Wait(_) => false,
            Insert::Duplicate(_) => {
                let change = if dice >> 60 == 0 { Write::Delete } else { Write::Put(&value) };
                session.write(f, &key.to_be_bytes(), Basis::Snapshot, change)? == Outcome::Done
            }
        };
        if !done {
            break; // a row exists there: commit the changes so far
        }
    }
    let committed = session.commit(waits)?;
    if waits { committed.block().map(drop) } else { Ok(()) }
}

/// Goal: memory stays constant under a typical mix with one old snapshot, which keeps its answer. Method: two writers,
/// which wait for the disk now and then, a reader of short snapshots and an old one for two seconds
/// (`COLLIE_SOAK_SECONDS` for more) and a hundred commits; bytes of old versions and queued rows are checked all the
/// time and stay below a bound given by the number of rows; at the end nothing is left.
#[test]
fn memory_stays_flat_under_a_mix_beside_an_old_snapshot() {
    const ROWS: u64 = 100;
    const VERSION_BYTES: u64 = 400;
    let seconds = std::env::var("COLLIE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options { old_version_memory: 1 << 30, ..Options::small() };
    options.log.max_segments = 1 << 20;
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    let f = &db.family(db.create_family());
    (0..ROWS).for_each(|key| put_one(&db, f, &key.to_be_bytes(), &[7; 128]));
    let mut old = db.session().unwrap();
    begin_at(&mut old, Isolation::RepeatableRead);
    let first = all(&old, f);
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut most_bytes, mut most_rows) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        for seed in 1..=2_u64 {
            let (db, stop, commits) = (&db, &stop, &commits);
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                let mut dice = seed;
                for number in 1_u32.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Old versions are freed only once they are superseded durably, so writers must not outrun a slow
                    // disk.
                    let waits = number % 64 == 0;
                    if mix(&mut session, f, dice.rotate_left(31), waits).is_err() {
                        session.rollback();
                    }
                    commits.fetch_add(1, Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut session = db.session().unwrap();
            while !stop.load(Relaxed) {
                begin_at(&mut session, Isolation::RepeatableRead);
                let once = all(&session, f);
                assert_eq!(all(&session, f), once, "a snapshot does not move");
                session.rollback();
            }
        });
        let (clock, seconds) = (Env::real().clock, Duration::from_secs(seconds));
        let begun = Duration::from_nanos(clock.now_ns());
        let lasts = || Duration::from_nanos(clock.now_ns()) - begun;
        while lasts() < seconds || commits.load(Relaxed) <= 100 && lasts() < seconds + Duration::from_secs(60) {
            std::thread::park_timeout(Duration::from_millis(50));
            let stat = db.stat();
            most_bytes.push(stat.old_version_bytes);
            most_rows = most_rows.max(stat.garbage_rows + stat.held_rows);
        }
        stop.store(true, Relaxed);
    });
    let commits = commits.load(Relaxed);
    let half = most_bytes.len() / 2;
    let [early, late] = [&most_bytes[..half], &most_bytes[half..]].map(|part| part.iter().max().copied().unwrap_or(0));
    println!(
        "{commits} commits in {seconds} s; most old versions: {early} then {late} bytes; {most_rows} rows waiting"
    );
    assert!(commits > 100, "{commits} commits say little");
    assert!(most_rows <= 4 * ROWS, "{most_rows} rows waited: at most twice each, and some deleted ones");
    assert_eq!(all(&old, f), first, "the old snapshot keeps its answer");
    old.rollback();
    put_one(&db, f, &0_u64.to_be_bytes(), b"on disk, and everything before it too");
    let left = || {
        let stat = db.stat();
        (stat.old_version_bytes, stat.garbage_rows, stat.held_rows)
    };
    // The threads of the database may have rows in hand that no tick sees.
    for _ in 0..6000 {
        db.tick();
        if left() == (0, 0, 0) {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(left(), (0, 0, 0), "{:?}", db.stat());
    // A slow sync may leave many versions, but not more as time passes.
    assert!(late <= 2 * early + 4 * ROWS * VERSION_BYTES, "{early} bytes, then {late}");
}

//! A disk that the database fills with its own rows: which operations still work, and how it recovers without more
//! room.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::path::Path;
use std::sync::Arc;

use collie_base::CfId;
use collie_engine::{Basis, Db, EngineError, Env, ErrorKind, Family, Options, Outcome, Write};
use collie_env::SimFiles;
use common::{DIR, all, begin, get_one, put, put_one, tiny};

/// Number of starts of a server on a full disk: more than it has spare log files.
const STARTS: u64 = 12;

/// Returns [`tiny`] settings with a reserve log file.
fn options() -> Options {
    let mut options = tiny();
    options.log.spares = 2;
    options.log.segment_bytes = 128 << 10;
    options
}

fn open(disk: &SimFiles, seed: u64) -> Result<Db, EngineError> {
    Ok(Db::open(Path::new(DIR), options(), Env::over(disk.clone(), seed), &mut |_| ())?.0)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Runs one transaction with one row, as a server does: refused if there is no room.
fn try_put(db: &Db, f: &Family, key: &[u8]) -> Result<(), EngineError> {
    let mut session = db.session().unwrap();
    session.note_purpose(false);
    begin(&mut session);
    put(&mut session, f, key, &[7; 700]);
    session.commit(true)?.block().map(drop)
}

/// Runs one transaction that deletes rows, and declares that purpose.
fn try_delete(db: &Db, f: &Family, numbers: std::ops::Range<u32>) -> Result<(), EngineError> {
    let mut session = db.session().unwrap();
    begin(&mut session);
    session.note_purpose(true);
    for number in numbers {
        assert_eq!(session.write(f, &key(number), Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
    }
    session.commit(true)?.block().map(drop)
}

/// Does the work that a server's threads do between calls.
fn rounds(db: &Db) {
    for _ in 0..4 {
        let _no_room = db.flush_due();
        db.tick();
        let _no_room = db.log().unwrap().tick();
    }
}

/// Puts rows until no work of the database makes room for another one; returns the number of rows.
fn fill(db: &Db, f: &Family) -> u32 {
    for number in 0..20_000 {
        let Err(refused) = try_put(db, f, &key(number)) else { continue };
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        rounds(db);
        if try_put(db, f, &key(number)).is_err() {
            return number;
        }
    }
    panic!("the disk is never full");
}

/// Returns a database that has filled its disk.
fn filled(seed: u64) -> (SimFiles, Db, Arc<Family>, u32) {
    let (_, disk) = Env::simulated(seed);
    let db = open(&disk, seed).unwrap();
    let f = db.family(db.create_family());
    put_one(&db, &f, &key(0), b"");
    disk.set_capacity(Some(disk.used_bytes() + 1_500_000 + seed * 12_345));
    let count = fill(&db, &f);
    assert!(count > 100, "{count}");
    (disk, db, f, count)
}

/// Goal: a disk filled by the database's own rows recovers without a restart and without more room: rows can be
/// deleted, which uses the log's reserve, and then rows can be put again. Method: disks of several sizes are filled;
/// most rows are deleted, a hundred at a time, with rounds of the flusher between; then puts.
#[test]
fn disk_filled_by_its_own_rows_is_emptied_by_deletes() {
    for seed in 0..24 {
        let (disk, db, f, count) = filled(seed);
        let mut gone = 0;
        while gone + 100 < count {
            let deleted = try_delete(&db, &f, gone..gone + 100);
            deleted.unwrap_or_else(|error| panic!("seed {seed}: rows {gone} of {count}: {error}"));
            gone += 100;
            rounds(&db);
        }
        try_put(&db, &f, b"again").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(db.log().unwrap().full().is_none());
        let kept = u64::from(count - gone) + 1;
        let db = open(&disk.power_cut(seed), seed + 100).unwrap();
        let mut session = db.session().unwrap();
        begin(&mut session);
        assert_eq!(all(&session, &db.family(f.id())).len() as u64, kept, "seed {seed}");
    }
}

/// Goal: a process that is killed while its disk is full starts again on the same full disk, without one byte of room,
/// reads, and can delete; once there is room, the history that began then is in the control file before log is
/// released. Method: filled disks, killed and cut, limited to the bytes that they hold; opened twice, since the first
/// opening must not need anything that the second one lacks.
#[test]
fn full_disk_that_a_kill_left_behind_opens_again() {
    for seed in 0..24 {
        let (disk, db, f, count) = filled(seed);
        let cf: CfId = f.id();
        drop((db, f));
        let mut disk = if seed % 2 == 0 { disk.process_kill() } else { disk.power_cut(seed) };
        let full_bytes = disk.used_bytes();
        for start in 0..STARTS {
            disk.set_capacity(Some(full_bytes));
            let db =
                open(&disk, seed + 200 + start).unwrap_or_else(|error| panic!("seed {seed}, start {start}: {error}"));
            for number in [0, count / 2, count - 1] {
                assert!(get_one(&db, &db.family(cf), &key(number)).is_some(), "seed {seed}, start {start}: {number}");
            }
            if start + 1 < STARTS {
                disk = disk.process_kill();
                continue;
            }
            try_delete(&db, &db.family(cf), 0..50).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let newest = db.histories().1.last().unwrap().history;
            disk.set_capacity(None);
            rounds(&db);
            try_put(&db, &db.family(cf), b"again").unwrap();
            db.flush_all().unwrap();
            let db = open(&disk.power_cut(seed), seed + 300).unwrap();
            let histories = db.histories().1;
            assert!(histories.iter().any(|history| history.history == newest), "seed {seed}");
            assert_eq!(get_one(&db, &db.family(cf), &key(10)), None);
        }
    }
}

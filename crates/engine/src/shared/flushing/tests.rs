//! The work of the flusher thread, one round at a time and on the test's own thread.

use std::path::Path;

use crate::{Db, Env, Family, Insert, Isolation, Options, Session, StatementKind};

/// The smallest log files that are allowed, the lowest limit of the log, and no threads.
pub(crate) fn tiny() -> Options {
    let mut options = Options { background: false, max_total_wal_size: 1, ..Options::small() };
    let log = &mut options.log;
    (log.threads, log.chunk_bytes, log.ring_bytes, log.slots) = (false, 4 << 10, 16 << 10, 2);
    (log.segment_bytes, log.frame_bytes, log.flush_bytes) = (48 << 10, 8 << 10, 8 << 10);
    options
}

pub(crate) fn begin(db: &Db) -> Session {
    let mut session = db.session().unwrap();
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    session
}

pub(crate) fn put_one(db: &Db, f: &Family, key: &[u8], value: &[u8]) {
    let mut session = begin(db);
    assert_eq!(session.insert(f, key, value).unwrap(), Insert::Done);
    session.commit(true).unwrap().block().unwrap();
}

/// Goal: log that is kept for an open large transaction causes no flush, since no flush releases it; once the
/// transaction is over, flushes release it. Method: chunks of more than the limit, with rounds before and after
/// the transaction's end.
#[test]
fn open_large_transaction_starts_no_flushes() {
    let (env, _disk) = Env::simulated(31);
    let (db, _) = Db::open(Path::new("/db"), tiny(), env, &mut |_| ()).unwrap();
    let (f, other) = (db.family(db.create_family()), db.family(db.create_family()));
    let mut large = begin(&db);
    for n in 0..12_u8 {
        assert_eq!(large.insert(&f, &[n], &[n; 20_000]).unwrap(), Insert::Done);
    }
    put_one(&db, &other, b"a", b"");
    for _ in 0..4 {
        db.shared.flush_due().unwrap();
    }
    let held = || db.durable().bytes_since(db.flush_stat().log_start);
    assert!(held() > db.log_bytes_max(), "{} bytes: the test needs more", held());
    put_one(&db, &other, b"b", b"");
    let flushes = db.flush_stat().flushes;
    assert!(!db.shared.flush_due().unwrap());
    assert_eq!(db.flush_stat().flushes, flushes);

    large.commit(true).unwrap().block().unwrap();
    for _ in 0..4 {
        db.shared.flush_due().unwrap();
    }
    assert!(held() <= db.log_bytes_max() + tiny().log.segment_bytes, "{} bytes are kept", held());
}

/// Goal: F1: a family is flushed and log is released while the flush of another family is in progress; the log
/// that this one needs stays, including that of rows which it has taken and not written. Method: a claimed family
/// whose rows are taken, while others are flushed until the log would have been cut; then it fails, and the power
/// fails.
#[test]
fn flush_goes_on_beside_another_and_keeps_the_log_that_it_needs() {
    let (env, disk) = Env::simulated(31);
    let (db, _) = Db::open(Path::new("/db"), tiny(), env, &mut |_| ()).unwrap();
    let (slow, other) = (db.family(db.create_family()), db.family(db.create_family()));
    for n in 0..12_u8 {
        put_one(&db, &other, &[n], &[n; 10_000]);
    }
    db.flush_cf(&[other.id()]).unwrap();
    let start = db.flush_stat().log_start;
    assert!(start > collie_base::Lsn::FIRST, "the log was cut");
    put_one(&db, &slow, b"slow", b"1");
    let base = db.shared.base().unwrap();
    let since = slow.unflushed().since.unwrap();
    let under_way = base.jobs.try_claim(&[slow.id()]).unwrap();
    let taken = slow.take_unflushed();
    let flushes = db.flush_stat().flushes;
    for n in 0..12_u8 {
        put_one(&db, &other, &[n, 1], &[n; 10_000]);
    }
    db.flush_cf(&[other.id()]).unwrap();
    assert_eq!(db.flush_stat().flushes, flushes + 1);
    let kept_from = db.flush_stat().log_start;
    assert!(kept_from <= since && db.durable().bytes_since(kept_from) > db.log_bytes_max(), "{kept_from} {since}");
    slow.put_back(taken);
    drop(under_way);
    let cut = disk.power_cut(1);
    let (after, _) = Db::open(Path::new("/db"), tiny(), Env::over(cut, 2), &mut |_| ()).unwrap();
    assert_eq!(after.rows_in(slow.id()), 1);
    after.flush_cf(&[slow.id(), other.id()]).unwrap();
    assert!(after.flush_stat().log_start > since, "nobody needs it any more");
}

/// Goal: each flush is counted for its families with its cause, each re-log with its bytes, and the bytes written
/// are counted for the tree. Method: a flush of each kind that needs no thread, and another family that is left
/// alone.
#[test]
fn flushes_are_counted_by_family_and_reason() {
    let (env, _disk) = Env::simulated(31);
    let (db, _) = Db::open(Path::new("/db"), Options { write_buffer_size: 9_000, ..tiny() }, env, &mut |_| ()).unwrap();
    let (f, other) = (db.family(db.create_family()), db.family(db.create_family()));
    let figures = |family: &Family| {
        let stats = db.stats_now();
        let found = *stats.families.iter().find(|stat| stat.cf == family.id()).unwrap();
        (found, stats.tree_of(family.id()).map(|tree| tree.written))
    };
    put_one(&db, &f, b"a", b"12345");
    assert_eq!((figures(&f).0.rows.user_bytes, figures(&f).0.flush.flushes(), figures(&f).1), (6, 0, None));
    db.flush_cf(&[f.id()]).unwrap();
    put_one(&db, &f, b"b", &[0; 10_000]);
    db.shared.flush_due().unwrap();
    put_one(&db, &f, b"c", b"");
    db.flush_all().unwrap();
    let (stat, written) = figures(&f);
    assert_eq!(stat.flush.flushes(), 3);
    assert_eq!((stat.flush.by_call, stat.flush.by_size, stat.flush.by_checkpoint, stat.flush.rows), (1, 1, 1, 3));
    assert_eq!(stat.rows.user_bytes, 6 + 10_001 + 1);
    let written = written.unwrap();
    assert!(written.flushes == 3 && written.flush_bytes > 10_000, "{written:?}");
    put_one(&db, &f, b"d", b"456");
    let base = db.shared.base().unwrap();
    assert!(base.relog(&[f.id()], 1000, &db.shared.parts()).unwrap());
    let relogged = figures(&f).0.flush;
    assert_eq!((relogged.relogs, relogged.relogged_rows, relogged.relogged_bytes), (1, 1, 4));
    assert_eq!((figures(&other).0.flush, figures(&other).1), (crate::FamilyFlushStat::default(), None));
}

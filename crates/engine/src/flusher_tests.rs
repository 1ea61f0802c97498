//! What the flushing thread does in a round, one round at a time and on the test's own thread.

use std::path::Path;

use crate::{Db, Env, Family, Insert, Isolation, Options, Session, StatementKind};

/// The smallest log files there can be, the lowest limit of the log, and no thread.
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

/// Goal: log that an open large transaction holds makes nobody flush, since no flush gives it up; once it is over, flushes do.
/// Method: chunks of more than the limit, rounds before and after its end.
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

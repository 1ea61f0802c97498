//! Shared code for the tests of the engine: opening on a simulated disk, and calls that wait by themselves.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its part and may stop where it stands")]

pub(crate) mod copies;
pub(crate) mod planted;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use collie_engine::{
    Basis, Db, EngineError, Env, Family, Insert, Isolation, KeyRange, OpenReport, Options, Outcome, ScanEnd, Session,
    StatementKind, Write,
};
use collie_env::{CrashPoint, SimFiles, SimRandom};
use proptest::prelude::ProptestConfig;

/// The directory of the database on a simulated disk.
pub(crate) const DIR: &str = "/db";

/// A new database with its own directory and one family.
pub(crate) struct Fixture {
    pub(crate) _dir: tempfile::TempDir,
    pub(crate) db: Db,
    pub(crate) f: Arc<Family>,
}

/// Returns a database with rows `a` and `b` of one value.
pub(crate) fn two_rows(value: &[u8]) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let (db, report) = Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).unwrap();
    assert!(report.created);
    let f = db.family(db.create_family());
    put_one(&db, &f, b"a", value);
    put_one(&db, &f, b"b", value);
    Fixture { _dir: dir, db, f }
}

/// Returns the number of cases that a model draws. With a planted mistake cases are not shrunk, since the smallest one
/// is not needed.
pub(crate) fn drawn(cases: u32) -> ProptestConfig {
    let max_shrink_iters = if cfg!(feature = "planted-bugs") { 0 } else { 2000 };
    ProptestConfig { cases, max_shrink_iters, ..ProptestConfig::default() }
}

/// Makes the mistake in this process that the environment variable names (`planted.rs`).
pub(crate) fn plant() {
    #[cfg(feature = "planted-bugs")]
    std::env::var("COLLIE_PLANT").iter().for_each(|mistake| collie_sync::plant(mistake));
}

/// Opens the database without threads: nothing happens between calls.
pub(crate) fn open_still(env: Env) -> Result<(Db, OpenReport), EngineError> {
    let mut options = Options { background: false, ..Options::small() };
    options.log.threads = false;
    Db::open(Path::new(DIR), options, env, &mut |_| ())
}

/// Returns settings with the smallest possible log files, so that log is released often, and without threads.
pub(crate) fn tiny() -> Options {
    let mut options = Options { background: false, ..Options::small() };
    let log = &mut options.log;
    (log.threads, log.chunk_bytes, log.ring_bytes, log.slots) = (false, 4 << 10, 16 << 10, 2);
    (log.segment_bytes, log.frame_bytes, log.flush_bytes) = (48 << 10, 8 << 10, 8 << 10);
    options
}

/// Opens the database with [`tiny`] settings.
pub(crate) fn open_tiny(env: Env) -> Result<(Db, OpenReport), EngineError> {
    plant();
    Db::open(Path::new(DIR), tiny(), env, &mut |_| ())
}

/// Begins a READ COMMITTED transaction and a statement that may write.
pub(crate) fn begin(session: &mut Session) {
    begin_at(session, Isolation::ReadCommitted);
}

/// Begins a transaction at `isolation` and a statement that may write.
pub(crate) fn begin_at(session: &mut Session, isolation: Isolation) {
    session.begin(isolation, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
}

/// Ends the statement and begins the next.
pub(crate) fn next_statement(session: &mut Session) {
    session.end_statement();
    session.begin_statement(StatementKind::Write).unwrap();
}

/// Returns every visible row of the family, and checks that both directions and small batches agree.
pub(crate) fn all(session: &Session, f: &Family) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let collect = |reverse: bool, limit: usize| {
        let mut rows = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let end = session
                .scan(f, &KeyRange::ALL, after.as_deref(), reverse, limit, &mut |key, value| {
                    rows.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                })
                .unwrap();
            match end {
                ScanEnd::Exhausted => return rows,
                ScanEnd::More(key) => after = Some(key),
            }
        }
    };
    let forward = collect(false, 1000);
    let mut backward = collect(true, 3);
    backward.reverse();
    assert_eq!(forward, backward);
    for (key, value) in &forward {
        assert_eq!(session.get(f, key).unwrap().as_deref(), Some(&value[..]));
    }
    forward.into_iter().collect()
}

/// Inserts or replaces a row, in a transaction without conflicts.
pub(crate) fn put(session: &mut Session, f: &Family, key: &[u8], value: &[u8]) {
    match session.insert(f, key, value).unwrap() {
        Insert::Done => {}
        Insert::Duplicate(_) => {
            assert_eq!(session.write(f, key, Basis::Snapshot, Write::Put(value)).unwrap(), Outcome::Done);
        }
        Insert::Wait(_) => panic!("nobody else writes"),
    }
}

/// Puts one row in one committed transaction.
pub(crate) fn put_one(db: &Db, f: &Family, key: &[u8], value: &[u8]) {
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, f, key, value);
    session.commit(true).unwrap().block().unwrap();
}

/// Reads one row in a new transaction.
pub(crate) fn get_one(db: &Db, f: &Family, key: &[u8]) -> Option<Vec<u8>> {
    let mut session = db.session().unwrap();
    begin(&mut session);
    session.get(f, key).unwrap().map(|value| value.to_vec())
}

/// Runs `live` on the disk, and returns all its moments: what the disk may keep, and the progress of `live` by then.
pub(crate) fn moments_of<P: Clone + Send + 'static>(
    disk: &SimFiles,
    progress: &Arc<Mutex<P>>,
    live: impl FnOnce(),
) -> Vec<(CrashPoint, P)> {
    let moments: Arc<Mutex<Vec<(CrashPoint, P)>>> = Arc::default();
    disk.watch({
        let (progress, moments) = (Arc::clone(progress), Arc::clone(&moments));
        move |point| {
            let now = progress.lock().unwrap().clone();
            moments.lock().unwrap().push((point, now));
        }
    });
    live();
    std::mem::take(&mut *moments.lock().unwrap())
}

/// Runs `live` on the disk, and calls `check` for each of its moments with a state in which a power cut may leave the
/// disk then, the progress, and a number; returns the number of moments.
pub(crate) fn at_each_moment<P: Clone + Send + 'static>(
    disk: &SimFiles,
    progress: &Arc<Mutex<P>>,
    seed: u64,
    live: impl FnOnce(),
    check: impl Fn(&SimFiles, &P, u64),
) -> usize {
    let moments = moments_of(disk, progress, live);
    let random = SimRandom::new(seed);
    for (point, progress) in &moments {
        let picks = if random.below(3) == 0 { point.none_kept() } else { point.drawn(&random) };
        check(&point.state(&picks), progress, point.calls());
    }
    moments.len()
}

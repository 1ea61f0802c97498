//! Replicas with a log in memory: the records of a primary are given to them one by one.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use collie_base::{CfId, HistoryId, Lsn};
use collie_env::Env;
use collie_wal::{Log, Record, RecordRef, WalError};
use parking_lot::Mutex;

use super::*;
use crate::families::names;
use crate::follow::record::VisitRecord;
use crate::{Basis, HistoryState, Insert, Isolation, Outcome, Session, StatementKind, Write};

/// An own log in memory. The test decides what is durable.
#[derive(Debug, Default)]
struct MemoryLog {
    start: u64,
    records: Mutex<Vec<Record>>,
    durable: AtomicU64,
    cut: AtomicU64,
}

impl OwnLog for MemoryLog {
    fn start(&self) -> Lsn {
        Lsn::new(self.start)
    }

    fn end(&self) -> Lsn {
        self.records.lock().last().map_or(self.start(), |record| record.end)
    }

    fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(SeqCst))
    }

    fn wait_durable(&self, lsn: Lsn) -> Result<(), WalError> {
        self.durable.fetch_max(lsn.get(), SeqCst);
        Ok(())
    }

    fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError> {
        self.cut.fetch_max(lsn.get(), SeqCst);
        Ok(())
    }

    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError> {
        let records = self.records.lock();
        let wanted = records.iter().filter(|record| record.lsn >= first.since && record.lsn <= last.lsn);
        wanted.into_iter().try_for_each(|record| visit(record.lsn, record.tag, &record.body))
    }

    fn close(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn log(&self) -> Option<&Log> {
        None
    }
}

fn as_ref(record: &Record) -> RecordRef<'_> {
    let Record { lsn, end, kind, tag, body, .. } = record;
    RecordRef { lsn: *lsn, end: *end, kind: *kind, tag: *tag, body }
}

fn options() -> Options {
    Options { background: false, ..Options::small() }
}

/// A primary, and a replica that gets the primary's durable records.
struct Pair {
    env: Env,
    primary: Db,
    own: Arc<MemoryLog>,
    replica: Replica,
    /// Number of records that were given.
    given: usize,
}

const PRIMARY: &str = "/primary";
const REPLICA: &str = "/replica";

fn open_replica(env: &Env, own: &Arc<MemoryLog>) -> Replica {
    let log = Arc::clone(own);
    let read_all: &ReadAll<'_> = &move |visit| {
        let records = log.records.lock();
        records.iter().try_for_each(|record| visit(as_ref(record)))
    };
    let own = Arc::clone(own) as Arc<dyn OwnLog>;
    let replica = ReplicaOptions { apply_workers: 2 };
    let over = Over { own, log: None, read_all };
    Replica::over(Path::new(REPLICA), options(), replica, env, over, &mut |_| ()).unwrap().0
}

impl Pair {
    fn new() -> Self {
        Self::consistent_at(Lsn::ZERO)
    }

    fn consistent_at(consistent_at: Lsn) -> Self {
        let (env, _disk) = Env::simulated(7);
        let (primary, _report) = Db::open(Path::new(PRIMARY), options(), env.clone(), &mut |_| ()).unwrap();
        let (term, histories) = primary.histories();
        let seed = Seed { cluster_id: primary.cluster_id(), node_id: 77, term, histories, consistent_at };
        seed.plant(&env, Path::new(REPLICA)).unwrap();
        let own = Arc::new(MemoryLog { start: Lsn::FIRST.get(), ..MemoryLog::default() });
        let replica = open_replica(&env, &own);
        Self { env, primary, own, replica, given: 0 }
    }

    /// Gives the replica the durable records, and lets it apply but not show them.
    fn give(&mut self) {
        let log = self.primary.log().unwrap();
        log.flush_wal(true).unwrap();
        let records: Vec<Record> = log.read(Lsn::FIRST).collect::<Result<_, _>>().unwrap();
        let new: Vec<Record> = records.into_iter().skip(self.given).collect();
        self.given += new.len();
        self.own.records.lock().extend(new.iter().cloned());
        self.replica.take(|visit| new.iter().try_for_each(|record| visit(as_ref(record)))).unwrap();
        self.replica.drain().unwrap();
    }

    /// Gives the replica the durable records, and lets it show them.
    fn ship(&mut self) {
        self.give();
        self.own.durable.store(self.own.end().get(), SeqCst);
        self.replica.set_show(self.own.end());
        let Some(wait) = self.replica.wait_shown(self.own.end()) else { return };
        drop(wait);
        ShownWait::new(&self.replica.0.open.get().unwrap().followed.shown, self.own.end()).block().unwrap();
    }

    fn db(&self) -> Db {
        self.replica.db().unwrap()
    }

    /// Opens the replica's directory again, as after a kill.
    fn reopen(&mut self) {
        let phase = std::mem::replace(&mut *self.replica.0.phase.lock(), Phase::Over(EngineError::Closed));
        drop(phase);
        self.replica = open_replica(&self.env, &self.own);
    }

    fn check_equal(&self) {
        assert_eq!(self.replica.state_hash().unwrap().1, self.primary.state_hash(&[]).unwrap().1);
    }
}

fn put(db: &Db, cf: CfId, rows: &[(&[u8], Option<&[u8]>)]) {
    let (mut session, family) = (db.session().unwrap(), db.family(cf));
    session.begin(Isolation::ReadCommitted, false).unwrap();
    for (key, value) in rows {
        session.begin_statement(StatementKind::Write).unwrap();
        match value {
            Some(value) => {
                if let Insert::Duplicate(_) = session.insert(&family, key, value).unwrap() {
                    let done = session.write(&family, key, Basis::Snapshot, Write::Put(value)).unwrap();
                    assert_eq!(done, Outcome::Done);
                }
            }
            None => {
                let _gone = session.write(&family, key, Basis::Snapshot, Write::Delete).unwrap();
            }
        }
        session.end_statement();
    }
    session.commit(false).unwrap().block().unwrap();
}

fn begin_reading(db: &Db, isolation: Isolation) -> Session {
    let mut session = db.session().unwrap();
    session.begin(isolation, false).unwrap();
    session.begin_statement(StatementKind::ReadOnly).unwrap();
    session
}

fn get(db: &Db, cf: CfId, key: &[u8]) -> Option<Vec<u8>> {
    let session = begin_reading(db, Isolation::ReadCommitted);
    session.get(&db.family(cf), key).unwrap().map(|value| value.to_vec())
}

const CF: CfId = CfId::new(7);

/// Goal: a replica shows the commits of its primary, whole, in both kinds of statements, and no further than `show`; it
/// refuses writes; a wait for a position ends when it is visible. Method: commits given one after the other.
#[test]
fn replica_shows_what_was_committed_and_takes_no_writes() {
    let mut pair = Pair::new();
    put(&pair.primary, CF, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]);
    pair.ship();
    let db = pair.db();
    assert_eq!(get(&db, CF, b"a").as_deref(), Some(&b"1"[..]));
    assert!(db.is_replica() && db.is_read_only());
    assert_eq!((pair.replica.cluster_id(), pair.replica.node_id()), (pair.primary.cluster_id(), 77));
    assert_eq!(pair.replica.histories(), pair.primary.histories());
    pair.check_equal();

    let mut session = db.session().unwrap();
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    assert!(matches!(session.insert(&db.family(CF), b"c", b"1"), Err(EngineError::Replica)));
    assert_eq!(session.get(&db.family(CF), b"b").unwrap().as_deref(), Some(&b"1"[..]));
    session.rollback();

    // The primary does not raise `show`.
    let before = pair.replica.shown();
    put(&pair.primary, CF, &[(b"a", Some(b"2")), (b"b", None)]);
    let log = pair.primary.log().unwrap();
    log.flush_wal(true).unwrap();
    let new: Vec<Record> = log.read(Lsn::FIRST).map(Result::unwrap).skip(pair.given).collect();
    pair.replica.take(|visit| new.iter().try_for_each(|record| visit(as_ref(record)))).unwrap();
    pair.replica.drain().unwrap();
    let end = new.last().unwrap().end;
    assert_eq!((pair.replica.shown(), get(&db, CF, b"a").as_deref()), (before, Some(&b"1"[..])));
    let waiting = {
        let db = db.clone();
        std::thread::spawn(move || {
            db.shared.txns.log().wait_boundary(end).unwrap();
            (get(&db, CF, b"a"), get(&db, CF, b"b"))
        })
    };
    pair.replica.set_show(end);
    assert_eq!(waiting.join().unwrap(), (Some(b"2".to_vec()), None));
    assert!(db.wait_shown(end).is_none());
    pair.replica.close().unwrap();
    assert!(matches!(pair.replica.take(|_| Ok(())), Err(EngineError::Closed)));
}

/// Goal: D4: rows of a dropped table are no part of a replica's state, however the replica learned of the drop, and are
/// freed while nothing is received (T301). Method: two tables, one dropped; the drop replayed, and found at an opening
/// whose log brings the rows back.
#[test]
fn dropped_tables_do_not_count_on_a_replica_that_was_opened_after_the_drop() {
    let mut pair = Pair::new();
    let (dropped, kept) = (CfId::new(5), CfId::new(6));
    let names = [("sql:16384", dropped), ("sql:16385", kept)];
    for (name, cf) in names {
        put(&pair.primary, CfId::CATALOG, &[(&names::name_key(name), Some(&names::name_value(cf, "")))]);
        put(&pair.primary, cf, &[(b"a", Some(b"1"))]);
    }
    pair.ship();
    put(&pair.primary, CfId::CATALOG, &[(&names::name_key(names[0].0), None)]);
    pair.primary.drop_family(dropped);
    let is_there = |pair: &Pair| pair.db().shared.families.get(dropped).is_some();
    let check_freed = |pair: &Pair, why: &str| {
        assert!(is_there(pair), "{why}");
        pair.check_equal();
        for _ in 0..3 {
            pair.db().tick();
        }
        assert!(!is_there(pair), "freed, though nothing was received");
        pair.check_equal();
    };
    let reader = begin_reading(&pair.db(), Isolation::RepeatableRead);
    pair.ship();
    pair.db().tick();
    pair.check_equal();
    assert!(is_there(&pair), "a snapshot shows it");
    drop(reader);
    check_freed(&pair, "nothing has looked since");
    pair.reopen();
    check_freed(&pair, "the log has brought it back");
}

/// Goal: E5, R4: a long reader sees its snapshot while replay continues, and the versions that it needs are freed when
/// it ends. Method: a REPEATABLE READ transaction over a thousand commits to its row, with rounds of cleaning.
#[test]
fn long_reader_neither_stops_replay_nor_is_cancelled() {
    let mut pair = Pair::new();
    put(&pair.primary, CF, &[(b"a", Some(b"first")), (b"gone", Some(b"first"))]);
    pair.ship();
    let db = pair.db();
    let reader = begin_reading(&db, Isolation::RepeatableRead);
    let read = |key: &[u8]| reader.get(&db.family(CF), key).unwrap().map(|value| value.to_vec());
    for round in 0..20_u32 {
        for number in 0..50_u32 {
            put(&pair.primary, CF, &[(b"a", Some(&(round * 50 + number).to_be_bytes()))]);
        }
        put(&pair.primary, CF, &[(b"gone", None)]);
        pair.ship();
        db.tick();
        assert_eq!(read(b"a").as_deref(), Some(&b"first"[..]));
        assert_eq!(read(b"gone").as_deref(), Some(&b"first"[..]));
        assert_eq!(get(&db, CF, b"a").as_deref(), Some(&(round * 50 + 49).to_be_bytes()[..]), "others see the newest");
    }
    let family = db.family(CF);
    assert!(family.version_count(b"a") <= 3, "between the snapshots nothing stays: {}", family.version_count(b"a"));
    drop(reader);
    db.flush_all().unwrap();
    for _ in 0..3 {
        db.tick();
    }
    assert_eq!((family.version_count(b"a"), family.stat().rows, db.old_version_bytes()), (1, 1, 0));
    pair.check_equal();
}

/// A way to learn that a position is visible: by a wait for it or by a query.
type Told<'a> = &'a dyn Fn(&Replica, Lsn);

/// Goal: S4 of `shown.rs`: a caller that learned that a position is visible takes no snapshot below it, even in the
/// instant before the thread that moved the position has notified the snapshots. Method: `show` is raised without
/// notifying them, on a replica whose own disk is behind; each way to learn of the position is followed by a snapshot.
#[test]
fn who_is_told_of_a_position_takes_no_snapshot_below() {
    let mut pair = Pair::new();
    let cf = pair.primary.create_family();
    let ways: [Told<'_>; 3] = [
        &|replica, end| assert_eq!(replica.db().unwrap().shown(), end),
        &|replica, end| assert!(replica.db().unwrap().wait_shown(end).is_none()),
        &|replica, end| replica.wait_shown(end).unwrap().block().unwrap(),
    ];
    for (number, told) in (0_u8..).zip(ways) {
        put(&pair.primary, cf, &[(b"k", Some(&[number]))]);
        pair.give();
        let (db, end) = (pair.db(), pair.own.end());
        assert!(db.shown() < end, "the primary does not let it be seen yet");
        pair.replica.0.open.get().unwrap().followed.shown.raise(end);
        told(&pair.replica, end);
        let mut session = db.session().unwrap();
        session.begin(Isolation::ReadCommitted, true).unwrap();
        session.begin_statement(StatementKind::ReadOnly).unwrap();
        assert_eq!(session.snapshot(), Some(end), "way {number}");
        session.rollback();
    }
}

/// Goal: a replica knows where histories end, and the age of its state by its primary's clock. Method: the primary is
/// opened again after a kill, which begins a history, with time marks in between.
#[test]
fn replica_knows_its_histories_and_the_time() {
    let mut pair = Pair::new();
    pair.ship();
    let (db, first) = (pair.db(), pair.primary.histories().1[0].history);
    assert_eq!(db.history_state(first), HistoryState::Current);
    assert_eq!(db.history_state(HistoryId::new(!first.get())), HistoryState::Unknown);
    assert_eq!(db.replay_time_us(), None, "nothing has told it");
    let next = HistoryStart {
        term: Term::new(1),
        history: HistoryId::new(8),
        start: Lsn::new(1 << 30),
        prev_end: pair.own.end(),
    };
    let incarnation = crate::redo::Incarnation {
        term: next.term,
        history: next.history,
        previous_term: next.term,
        previous_history: first,
        reason: 1,
        wall_us: 0,
    };
    let open = pair.replica.0.open.get().unwrap();
    open.following.history_begins(next.start, next.prev_end, &incarnation).unwrap();
    assert_eq!(db.history_state(first), HistoryState::Ended { at: next.prev_end });
    assert_eq!((db.history_state(next.history), db.histories().1), (HistoryState::Current, pair.replica.histories().1));
    let shown = db.shown();
    open.following.marked(5, shown);
    open.following.marked(6, Lsn::new(shown.get() + 1));
    assert_eq!((db.replay_time_us(), pair.primary.replay_time_us()), (Some(5), None));
    assert_eq!((db.received(), pair.primary.received()), (Some(pair.own.end()), None));
}

/// Goal: E2, E3, R11: a replica flushes the visible state that is on its own disk, and no more; its log is cut behind
/// that, and nothing is appended; opened again it continues from there, with unfinished transactions. Method: own
/// durability behind, a large transaction that begins before the kill and ends after it.
#[test]
fn replica_flushes_below_its_own_disk_and_goes_on_after_a_kill() {
    let mut pair = Pair::new();
    put(&pair.primary, CF, &[(b"a", Some(b"1"))]);
    pair.ship();
    let first_end = pair.own.end();
    // A transaction large enough to have chunks in the log.
    let (mut session, family) = (pair.primary.session().unwrap(), pair.primary.family(CF));
    session.begin(Isolation::ReadCommitted, false).unwrap();
    for number in 0..40_u8 {
        session.begin_statement(StatementKind::Write).unwrap();
        assert_eq!(session.insert(&family, &[b'l', number], &vec![number; 100_000]).unwrap(), Insert::Done);
        session.end_statement();
    }
    put(&pair.primary, CF, &[(b"b", Some(b"1"))]);
    pair.ship();
    let chunks = pair.own.records.lock().iter().filter(|record| record.tag == crate::redo::tag::CHUNK).count();
    assert!(chunks > 1, "{chunks} chunks");
    pair.own.durable.store(first_end.get(), SeqCst);
    let db = pair.db();
    let base = db.shared.base().unwrap();
    base.flush(&[CF], crate::flush::figures::FlushCause::Call, &db.shared.parts()).unwrap();
    assert_eq!(db.unflushed(CF).rows, 1, "b is not on this disk");
    assert!(get(&db, CF, b"b").is_some(), "but seen");
    assert_eq!(db.shared.durable(), first_end);
    pair.own.durable.store(pair.own.end().get(), SeqCst);
    db.flush_all().unwrap();
    assert_eq!(db.unflushed(CF).rows, 0);

    pair.reopen();
    let db = pair.db();
    assert_eq!(get(&db, CF, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&db, CF, b"b").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&db, CF, &[b'l', 3]), None);
    assert!(db.shared.base().unwrap().large.lower(Lsn::MAX, |_| Lsn::MAX) < pair.own.end(), "log is kept for it");
    session.commit(false).unwrap().block().unwrap();
    pair.ship();
    assert_eq!(get(&db, CF, &[b'l', 39]).unwrap().len(), 100_000);
    pair.check_equal();
    assert!(pair.primary.node_id() != pair.replica.node_id());
}

/// Goal: E1: nothing is shown before the log is applied up to the position where a base backup is consistent, across a
/// kill; then all of it is. Method: a replica whose seed names a position in the middle of the log.
#[test]
fn nothing_is_shown_before_a_base_backup_is_consistent() {
    let mut pair = Pair::consistent_at(Lsn::MAX);
    put(&pair.primary, CF, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]);
    pair.ship();
    let middle = pair.own.end();
    assert!(pair.replica.db().is_none() && pair.replica.wait_shown(middle).is_none());
    assert_eq!((pair.replica.applied(), pair.replica.shown()), (middle, Lsn::ZERO));
    put(&pair.primary, CF, &[(b"a", None)]);
    let (term, histories) = pair.primary.histories();
    let seed = Seed { cluster_id: 1, node_id: 2, term, histories, consistent_at: Lsn::new(middle.get() + 1) };
    seed.plant(&pair.env, Path::new(REPLICA)).unwrap();
    pair.reopen();
    assert!(pair.replica.db().is_none(), "one byte is missing");
    pair.ship();
    let db = pair.db();
    assert_eq!((get(&db, CF, b"a"), get(&db, CF, b"b")), (None, Some(b"1".to_vec())));
    pair.check_equal();
    pair.reopen();
    assert!(pair.replica.db().is_some());
    pair.check_equal();
}

/// Goal: the hook is called once for each change of the catalog, when the change is in place and before a snapshot
/// shows it, together with the rows of other families. Method: a hook that reads the catalog, and sessions that look
/// for what it found.
#[test]
fn changes_of_the_catalog_are_told_before_they_are_shown() {
    let mut pair = Pair::new();
    pair.ship();
    let (db, told) = (pair.db(), Arc::new(Mutex::new(Vec::new())));
    let (seen, inside) = (Arc::clone(&told), db.clone());
    db.on_catalog_change(Arc::new(move |change| {
        let mut rows = Vec::new();
        inside.rows_at(CfId::CATALOG, change.shown_from, &mut |key, value| rows.push((key.to_vec(), value.to_vec())));
        let shown = get(&inside, CfId::CATALOG, b"\x09table");
        let written: Vec<_> =
            change.rows.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        assert_eq!(written, rows, "all that was written, and nothing else is there");
        seen.lock().push((change.shown_from, rows, shown));
    }));
    put(&pair.primary, CF, &[(b"a", Some(b"1"))]);
    put(&pair.primary, CfId::CATALOG, &[(b"\x09table", Some(b"new"))]);
    put(&pair.primary, CF, &[(b"a", Some(b"2"))]);
    pair.ship();
    let told = told.lock().clone();
    let [(shown_from, rows, shown)] = &told[..] else { panic!("told {} times", told.len()) };
    assert_eq!(rows[..], [(b"\x09table".to_vec(), b"new".to_vec())]);
    assert_eq!(*shown, None, "no snapshot shows it yet");
    assert!(pair.replica.shown() > *shown_from);
    assert_eq!(get(&db, CfId::CATALOG, b"\x09table").as_deref(), Some(&b"new"[..]));
    pair.check_equal();
}

/// Goal: a family that has a hole keeps it when the replica is opened again, also after its record is gone, and is then
/// not compared; the others are. Method: an unlogged row among logged ones of two families; opened with the record, and
/// again after the log was cut above it.
#[test]
fn holes_outlive_the_record_that_made_them() {
    let mut pair = Pair::new();
    put(&pair.primary, CF, &[(b"one", Some(b"logged"))]);
    let mut session = pair.primary.session().unwrap();
    session.set_unlogged(true);
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    assert_eq!(session.insert(&pair.primary.family(CF), b"two", b"unlogged").unwrap(), Insert::Done);
    session.commit(false).unwrap().block().unwrap();
    let other = CfId::new(8);
    put(&pair.primary, other, &[(b"one", Some(b"logged"))]);
    pair.ship();
    let holes = pair.db().holes();
    assert!(matches!(holes[..], [(cf, since)] if cf == CF && since > Lsn::FIRST), "{holes:?}");
    let expected = pair.primary.state_hash(&[CF]).unwrap().1;
    let compared = |pair: &Pair| {
        assert_eq!(pair.db().holes(), holes);
        assert_eq!(pair.replica.state_hash().unwrap().1, expected, "the family with the hole is left out");
        let held = pair.replica.hold_state(pair.own.end()).unwrap().unwrap();
        assert_eq!(held.hashes().into_iter().map(|(cf, _)| cf).collect::<Vec<_>>(), [other]);
    };
    compared(&pair);
    pair.reopen();
    pair.replica.set_show(pair.own.end());
    compared(&pair);
    pair.own.records.lock().retain(|record| record.tag != crate::redo::tag::UNLOGGED);
    pair.reopen();
    pair.replica.set_show(pair.own.end());
    compared(&pair);
}

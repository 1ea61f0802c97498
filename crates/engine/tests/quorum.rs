//! Commits that wait for replicas, at the engine: visibility, flushes and replies while replicas confirm, stay away,
//! and lost redundancy is tolerated. Replicas are positions that the test reports.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use collie_engine::{
    Ack, CommitLevel, Confirmed, Db, EngineError, Env, Family, Isolation, Options, QuorumNote, Session, StatementKind,
};
use collie_wal::Lsn;
use common::{DIR, begin, put};

/// Returns a database that can count replicas, and a family of it.
fn counted() -> (Db, Arc<Family>) {
    let (env, _disk) = Env::simulated(7);
    let db = open(&env, true);
    let f = db.family(db.create_family());
    (db, f)
}

/// Opens the database without threads: nothing is flushed by itself.
fn open(env: &Env, quorum: bool) -> Db {
    let mut options = Options { background: false, quorum, ..Options::small() };
    options.log.threads = false;
    Db::open(DIR.as_ref(), options, env.clone(), &mut |_| ()).unwrap().0
}

/// A waker that counts its wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn poll(ack: &mut Ack, woken: &Arc<Woken>) -> Poll<bool> {
    let waker = Waker::from(Arc::clone(woken));
    Pin::new(ack).poll(&mut Context::from_waker(&waker)).map(|outcome| outcome.unwrap().csn.is_some())
}

/// Commits a row and flushes the log; only replicas are missing then.
fn commit_at(db: &Db, f: &Family, key: &[u8], level: CommitLevel) -> (Session, Ack) {
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, f, key, b"v");
    let ack = session.commit_at(level).unwrap();
    db.log().unwrap().flush_wal(true).unwrap();
    (session, ack)
}

fn has(session: &mut Session, f: &Family, key: &[u8], read_only: bool) -> bool {
    session.begin(Isolation::ReadCommitted, read_only).unwrap();
    session.begin_statement(StatementKind::ReadOnly).unwrap();
    let found = session.get(f, key).unwrap().is_some();
    session.rollback();
    found
}

/// Reports these positions for all replicas.
fn confirm(db: &Db, received: Lsn, durable: Lsn, applied: Lsn) {
    db.confirm(Confirmed { received, durable, applied });
}

/// Goal: the reply at each level leaves when its condition is met and not before; commits that are not quorum-durable
/// are invisible to others. Method: commits at each level, confirmed step by step; a reader before and after.
#[test]
fn each_level_leaves_with_what_it_asks_for() {
    let (db, f) = counted();
    db.count_replicas(true);
    let woken = Arc::new(Woken::default());
    let before = db.settled();
    let levels = [CommitLevel::RemoteWrite, CommitLevel::RemoteFlush, CommitLevel::RemoteApply];
    let keys: [&[u8]; 3] = [b"w", b"f", b"a"];
    let mut commits = [0, 1, 2].map(|n: usize| commit_at(&db, &f, keys[n], levels[n]));
    let end = db.durable();
    for (_, ack) in &mut commits {
        assert!(poll(ack, &woken).is_pending() && ack.waits_for_replicas());
    }
    let mut reader = db.session().unwrap();
    assert_eq!((db.settled(), has(&mut reader, &f, b"f", true)), (before, false), "a failover may take it back");

    confirm(&db, end, before, before);
    assert_eq!(woken.0.swap(0, Relaxed), 1, "who waits for no more than that is woken, alone");
    let [(_, write), (_, flush), (_, apply)] = &mut commits;
    assert_eq!(poll(write, &woken), Poll::Ready(true));
    assert!(!write.is_unconfirmed() && poll(flush, &woken).is_pending() && poll(apply, &woken).is_pending());
    assert!(has(&mut reader, &f, b"w", true), "what was replied to is shown");
    assert_eq!(db.settled(), before);

    confirm(&db, end, end, before);
    assert_eq!((poll(flush, &woken), db.settled()), (Poll::Ready(true), end));
    assert!(poll(apply, &woken).is_pending() && has(&mut reader, &f, b"f", true));

    confirm(&db, end, end, end);
    assert_eq!(poll(apply, &woken), Poll::Ready(true));
    assert!(commits.iter().all(|(_, ack)| !ack.is_unconfirmed()));
    confirm(&db, before, before, before);
    assert_eq!((db.settled(), db.confirmed().unwrap().applied), (end, end), "nothing is taken back");
}

/// Goal: positions that replicas report beyond this node's disk make nothing quorum-durable; a position that is visible
/// there before it is on their disks confirms nothing. Method: reports of both kinds.
#[test]
fn claims_beyond_the_disk_settle_nothing() {
    let (db, f) = counted();
    db.count_replicas(true);
    let woken = Arc::new(Woken::default());
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &f, b"k", b"v");
    let _ack = session.commit_at(CommitLevel::Async).unwrap();
    confirm(&db, Lsn::MAX, Lsn::MAX, Lsn::MAX);
    assert_eq!(db.settled(), db.durable());
    let (_session, mut ack) = commit_at(&db, &f, b"l", CommitLevel::RemoteApply);
    let end = db.durable();
    confirm(&db, end, Lsn::ZERO, end);
    assert!(poll(&mut ack, &woken).is_pending());
}

/// Goal: a wait that is given up, and one that ends because replicas are no longer counted, resolve, report that, and
/// show the commit; later commits wait again once replicas are counted again. Method: each once.
#[test]
fn who_is_let_go_is_told_and_shown() {
    let (db, f) = counted();
    db.count_replicas(true);
    let woken = Arc::new(Woken::default());
    let mut reader = db.session().unwrap();
    let (_one, mut given_up) = commit_at(&db, &f, b"1", CommitLevel::RemoteFlush);
    assert!(poll(&mut given_up, &woken).is_pending());
    given_up.give_up_replicas();
    assert_eq!(poll(&mut given_up, &woken), Poll::Ready(true));
    assert!(given_up.is_unconfirmed() && has(&mut reader, &f, b"1", true));

    let (_two, mut degraded) = commit_at(&db, &f, b"2", CommitLevel::RemoteFlush);
    assert!(poll(&mut degraded, &woken).is_pending() && !has(&mut reader, &f, b"2", true));
    woken.0.store(0, Relaxed);
    db.count_replicas(false);
    assert!(woken.0.load(Relaxed) > 0);
    assert_eq!(poll(&mut degraded, &woken), Poll::Ready(true));
    assert!(degraded.is_unconfirmed() && has(&mut reader, &f, b"2", true));
    assert_eq!(db.settled(), db.durable(), "it follows the disk");

    let settled = db.settled();
    db.count_replicas(true);
    assert_eq!(db.settled(), settled, "what was shown stays");
    let (_three, mut waits) = commit_at(&db, &f, b"3", CommitLevel::RemoteFlush);
    assert!(poll(&mut waits, &woken).is_pending());
    confirm(&db, Lsn::ZERO, settled, Lsn::ZERO);
    assert!(poll(&mut waits, &woken).is_pending(), "that was before it");
    db.close().unwrap();
    let outcome = Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(outcome, Poll::Ready(Err(EngineError::Closed))), "{outcome:?}");
}

/// Goal: a commit at a lower level does not wait and is visible, as is everything before it; a session reads its own
/// writes. Method: one commit that waits, one local, one asynchronous after it.
#[test]
fn lower_levels_wait_for_no_replica() {
    let (db, f) = counted();
    db.count_replicas(true);
    let woken = Arc::new(Woken::default());
    let (_waiting, mut ack) = commit_at(&db, &f, b"remote", CommitLevel::RemoteFlush);
    assert!(poll(&mut ack, &woken).is_pending());
    for (key, level) in [(&b"local"[..], CommitLevel::Local), (b"async", CommitLevel::Async)] {
        let (mut session, mut ack) = commit_at(&db, &f, key, level);
        assert_eq!(poll(&mut ack, &woken), Poll::Ready(true));
        assert!(!ack.is_unconfirmed() && has(&mut session, &f, key, true) && has(&mut session, &f, b"remote", true));
    }
    assert!(poll(&mut ack, &woken).is_pending(), "shown to others, and still not confirmed");
}

/// Goal: a session that has seen commits above the quorum-durable position continues to read in a READ ONLY
/// transaction, whose end waits at its level. Method: a row that another commit has changed meanwhile.
#[test]
fn who_has_seen_more_reads_on_and_waits_at_the_end() {
    let (db, f) = counted();
    let (_, mut ack) = commit_at(&db, &f, b"k", CommitLevel::Local);
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut ack, &woken).is_ready());
    db.count_replicas(true);
    let mut late = db.session().unwrap();
    late.begin(Isolation::RepeatableRead, false).unwrap();
    late.begin_statement(StatementKind::Write).unwrap();
    let (_writer, mut waiting) = commit_at(&db, &f, b"k", CommitLevel::RemoteFlush);
    assert!(poll(&mut waiting, &woken).is_pending());
    let refused = late.write(&f, b"k", collie_engine::Basis::Snapshot, collie_engine::Write::Put(b"x"));
    assert!(matches!(refused, Err(EngineError::Conflict)), "{refused:?}");
    late.rollback();
    late.begin(Isolation::ReadCommitted, true).unwrap();
    late.begin_statement(StatementKind::ReadOnly).unwrap();
    assert!(late.get(&f, b"k").unwrap().is_some());
    let mut end = late.commit_at(CommitLevel::RemoteFlush).unwrap();
    assert!(poll(&mut end, &woken).is_pending(), "it has seen what a failover may take back");
    confirm(&db, Lsn::ZERO, db.durable(), Lsn::ZERO);
    assert_eq!(poll(&mut end, &woken), Poll::Ready(false));
    assert!(!end.is_unconfirmed());
}

/// Goal: the LSM levels hold nothing above the quorum-durable position, and old versions that a snapshot there may need
/// stay. Method: an overwritten row, flushes and rounds of cleaning before and after its confirmation.
#[test]
fn levels_and_garbage_keep_to_what_is_settled() {
    let (db, f) = counted();
    let (_, _ack) = commit_at(&db, &f, b"k", CommitLevel::Local);
    db.count_replicas(true);
    let settled = db.settled();
    let (_session, _waiting) = commit_at(&db, &f, b"k", CommitLevel::RemoteFlush);
    db.flush_cf(&[f.id()]).unwrap();
    assert_eq!(db.unflushed(f.id()).rows, 1, "the newer version is not in the levels");
    for _ in 0..3 {
        db.tick();
    }
    assert!(db.stat().horizon <= settled && db.old_version_bytes() > 0);
    let mut reader = db.session().unwrap();
    assert!(has(&mut reader, &f, b"k", true), "the older one is there");
    confirm(&db, Lsn::ZERO, db.durable(), Lsn::ZERO);
    for _ in 0..3 {
        db.tick();
    }
    db.flush_cf(&[f.id()]).unwrap();
    assert_eq!((db.unflushed(f.id()).rows, db.old_version_bytes()), (0, 0));
}

fn note(list: &str, before: Option<&str>, degraded: bool) -> QuorumNote {
    let (list, before) = (list.to_owned(), before.map(str::to_owned));
    QuorumNote { list, before, degraded, node: 7, configured: String::new() }
}

/// Goal: states of the quorum are in the log, and an opening finds the newest of them. Method: notes, the log in its
/// described form, and another opening after each.
#[test]
fn states_of_the_quorum_are_in_the_log() {
    let (env, _disk) = Env::simulated(8);
    let notes = [
        note("ANY 1 (a)", None, false),
        note("ANY 1 (a)", None, true),
        note("ANY 1 (b)", Some("ANY 1 (a)"), false),
        note("", None, false),
    ];
    assert_eq!(open(&env, true).quorum_note(), None);
    for expected in &notes {
        let db = open(&env, true);
        let end = db.note_quorum(expected).unwrap();
        assert_eq!(db.quorum_note().as_ref(), Some(expected));
        db.wait_durable(end).unwrap();
        drop(db); // as in a crash: only durable log is left
        assert_eq!(open(&env, true).quorum_note().as_ref(), Some(expected));
    }
    let found = collie_wal::inspect(&env, &std::path::Path::new(DIR).join("wal")).unwrap();
    let lines = found.records(Lsn::ZERO).map(|record| {
        let record = record.unwrap();
        collie_engine::describe_record(record.tag, &record.body)
    });
    let lines: Vec<String> = lines.filter(|line| line.starts_with("QUORUM ")).collect();
    let ends =
        [": ANY 1 (a)", ": done without, of ANY 1 (a)", ": ANY 1 (b), and until they have this ANY 1 (a)", ": nobody"];
    assert!(lines.len() == 4 && lines.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{lines:?}");
    assert_eq!(open(&env, false).confirmed(), None);
}

/// Goal: the quorum configuration is known when the log with its record is gone, and a newer note counts before an
/// older carried one. Method: a note, enough flushed rows to cut the log above it, two openings; then another note.
#[test]
fn who_is_asked_outlives_the_log_that_said_so() {
    let (env, _disk) = Env::simulated(9);
    let (asked, newer) = (note("ANY 1 (a)", Some("ANY 1 (b)"), false), note("ANY 1 (c)", None, false));
    let db = open(&env, false);
    let end = db.note_quorum(&asked).unwrap();
    let f = db.family(db.create_family());
    let mut rounds = 0_u32;
    while db.flush_stat().log_start <= end {
        rounds += 1;
        assert!(rounds < 1_000, "the log is never cut");
        let mut session = db.session().unwrap();
        begin(&mut session);
        put(&mut session, &f, &rounds.to_be_bytes(), &[7; 4000]);
        session.commit(true).unwrap().block().unwrap();
        drop(session);
        db.flush_cf(&[f.id()]).unwrap();
    }
    assert_eq!(db.quorum_note().as_ref(), Some(&asked));
    db.close().unwrap();
    drop((f, db));
    for _ in 0..2 {
        let db = open(&env, false);
        assert_eq!(db.quorum_note().as_ref(), Some(&asked), "MANIFEST has it");
        db.close().unwrap();
    }
    let db = open(&env, false);
    db.wait_durable(db.note_quorum(&newer).unwrap()).unwrap();
    drop(db);
    assert_eq!(open(&env, false).quorum_note(), Some(newer));
}

/// Goal: beginning to count again while replicas are already counted makes nothing quorum-durable (T91). Method: as a
/// promotion does, with an unconfirmed commit in between.
#[test]
fn counting_that_has_begun_settles_nothing_more() {
    let (db, f) = counted();
    db.count_replicas(true);
    let settled = db.settled();
    let (_session, _ack) = commit_at(&db, &f, b"k", CommitLevel::RemoteFlush);
    db.count_replicas(true);
    let mut reader = db.session().unwrap();
    assert!(db.settled() == settled && !has(&mut reader, &f, b"k", true), "a failover may take it back");
}

/// Goal: commits may begin and stop to need replicas at any moment: waiters then end without a warning, answered
/// commits stay visible, and the quorum-durable position never falls (D1, G3). Method: commits before, between and
/// after the switches, some of which wait over one; a reader after each.
#[test]
fn asking_may_begin_and_end_while_commits_wait() {
    let (db, f) = counted();
    db.ask_replicas(false);
    let woken = Arc::new(Woken::default());
    let mut reader = db.session().unwrap();
    let answered = |db: &Db, ack: &mut Ack, reader: &mut Session, key: &[u8], settled: &mut Lsn| {
        assert_eq!(poll(ack, &woken), Poll::Ready(true));
        assert!(!ack.is_unconfirmed(), "nobody is asked, so nobody is missed");
        assert!(has(reader, &f, key, true), "what was answered is shown");
        assert!(db.settled() >= *settled, "what is settled falls");
        *settled = db.settled();
    };
    let mut settled = db.settled();
    let (_one, mut alone) = commit_at(&db, &f, b"1", CommitLevel::RemoteApply);
    answered(&db, &mut alone, &mut reader, b"1", &mut settled);

    // The commit was made without a quorum and is polled after one was set: it is not confirmed yet.
    let (_two, mut over) = commit_at(&db, &f, b"2", CommitLevel::RemoteFlush);
    db.ask_replicas(true);
    db.count_replicas(true);
    assert!(poll(&mut over, &woken).is_pending(), "it waits for who is asked by now");
    let (_three, mut waits) = commit_at(&db, &f, b"3", CommitLevel::RemoteFlush);
    assert!(poll(&mut waits, &woken).is_pending() && !has(&mut reader, &f, b"3", true));
    confirm(&db, db.durable(), db.durable(), Lsn::ZERO);
    answered(&db, &mut over, &mut reader, b"2", &mut settled);
    answered(&db, &mut waits, &mut reader, b"3", &mut settled);

    let (_four, mut let_go) = commit_at(&db, &f, b"4", CommitLevel::RemoteApply);
    assert!(poll(&mut let_go, &woken).is_pending());
    woken.0.store(0, Relaxed);
    db.ask_replicas(false);
    db.count_replicas(false);
    assert!(woken.0.load(Relaxed) > 0, "who waited looks again");
    answered(&db, &mut let_go, &mut reader, b"4", &mut settled);
    let (_five, mut early) = commit_at(&db, &f, b"5", CommitLevel::Local);
    answered(&db, &mut early, &mut reader, b"5", &mut settled);
    db.count_replicas(true);
    db.ask_replicas(true);
    assert!(db.settled() >= settled && has(&mut reader, &f, b"5", true));
}

//! Replicas that become primaries in place, and the state after a power cut during a promotion.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use collie_base::{CfId, Lsn, Term};
use collie_engine::{
    Db, EngineError, Env, Isolation, QuorumNote, Replica, ReplicaOptions, Seed, Session, StatementKind,
};
use collie_env::{SimFiles, SimRandom};
use collie_wal::ShipOptions;
use common::{all, begin, get_one, moments_of, next_statement, open_tiny, put, put_one, tiny};

const CF: CfId = CfId::new(11);
const NODE: u64 = 99;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open_replica(disk: &SimFiles, seed: u64) -> Result<Replica, EngineError> {
    let mut replica = ReplicaOptions::default();
    replica.apply_workers = 2;
    Replica::open(Path::new(common::DIR), tiny(), replica, &Env::over(disk.clone(), seed), &mut |_| ())
        .map(|(replica, _)| replica)
}

fn replica_of(primary: &Db, disk: &SimFiles, node_id: u64) -> Replica {
    let (term, histories) = primary.histories();
    let seed = Seed { cluster_id: primary.cluster_id(), node_id, term, histories, consistent_at: Lsn::ZERO };
    seed.plant(&Env::over(disk.clone(), node_id), Path::new(common::DIR)).unwrap();
    open_replica(disk, node_id).unwrap()
}

/// Ships everything that is durable on the primary.
fn ship(primary: &Db, replica: &Replica) {
    let log = primary.log().unwrap();
    log.flush_wal(true).unwrap();
    let mut shipper = log.ship(&format!("node-{}", replica.node_id()), ShipOptions::from(replica.end())).unwrap();
    let mut bytes = Vec::new();
    while let Some(shipment) = shipper.try_next(1 << 12, &mut bytes).unwrap() {
        replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
        bytes.clear();
        replica.set_show(shipment.durable);
    }
    if let Some(wait) = replica.wait_shown(replica.end()) {
        wait.block().unwrap();
    }
}

fn rows(db: &Db) -> Rows {
    let mut session = db.session().unwrap();
    begin(&mut session);
    all(&session, &db.family(CF))
}

/// Returns a primary with some rows, a flush, and an unfinished transaction with chunks in the log.
fn primary() -> (Db, Session) {
    let (_, disk) = Env::simulated(1);
    let (db, _) = open_tiny(Env::over(disk, 2)).unwrap();
    let f = db.family(CF);
    (0..20_u8).for_each(|n| put_one(&db, &f, &[n], &[n; 300]));
    db.flush_all().unwrap();
    (10..30_u8).for_each(|n| put_one(&db, &f, &[n], &[n + 100; 200]));
    let mut open = db.session().unwrap();
    begin(&mut open);
    for n in 0..40_u8 {
        put(&mut open, &f, &[200, n], &[7; 600]);
        next_statement(&mut open);
    }
    db.log().unwrap().flush_wal(true).unwrap();
    (db, open)
}

/// Goal: a caller that sees that a node is no longer a replica sees the term in which it leads, never that of its
/// former primary (T146). Method: another thread reads both without a pause while replicas are promoted.
#[test]
fn promoted_replica_is_never_seen_in_its_old_term() {
    let (primary, _unfinished) = primary();
    let term = Term::new(primary.histories().0.get() + 1);
    for node in 0..20 {
        let disk = SimFiles::new();
        let replica = replica_of(&primary, &disk, NODE + node);
        ship(&primary, &replica);
        let db = replica.db().unwrap();
        let (looks, looking) = mpsc::channel();
        let looker = thread::spawn(move || {
            looks.send(()).unwrap();
            while db.is_replica() {}
            db.histories().0
        });
        looking.recv().unwrap();
        replica.promote(term).unwrap();
        assert_eq!(looker.join().unwrap(), term, "replica {node}");
        replica.close().unwrap();
    }
}

/// Goal: a replica becomes a primary in place: open sessions and snapshots continue, sessions write, unfinished
/// transactions never happened, transaction ids and positions continue above; it takes no records any more; its
/// replicas follow the jump, and its directory opens as a primary's from then on and only as a replica's before.
/// Method: a promotion in the middle of a large transaction, writes by old and new sessions, another replica over the
/// whole log, an opening.
#[test]
fn promoted_replica_goes_on_where_it_stands() {
    let (primary, unfinished) = primary();
    let disk = SimFiles::new();
    let replica = replica_of(&primary, &disk, NODE);
    ship(&primary, &replica);
    let (db, end, expected) = (replica.db().unwrap(), replica.end(), rows(&primary));
    let f = db.family(CF);
    let mut reader = db.session().unwrap();
    reader.begin(Isolation::RepeatableRead, false).unwrap();
    reader.begin_statement(StatementKind::Write).unwrap();
    let before = all(&reader, &f);
    assert_eq!(before, expected);
    let mut writer = db.session().unwrap();
    begin(&mut writer);
    assert!(matches!(writer.insert(&f, b"w", b"1"), Err(EngineError::Replica)));
    writer.rollback();

    let stale = replica.promote(primary.histories().0);
    assert!(matches!(stale, Err(EngineError::InvalidArgument { .. })), "{stale:?}");
    assert!(db.is_replica(), "a promotion that is refused changes nothing");
    let term = Term::new(primary.histories().0.get() + 3);
    let promoted = replica.promote(term).unwrap();
    assert!(!db.is_replica() && !db.is_read_only() && !promoted.is_replica());
    let (now, histories) = db.histories();
    let last = *histories.last().unwrap();
    assert_eq!((now, last.term, last.prev_end), (term, term, end));
    assert!(last.start > end && histories.len() == primary.histories().1.len() + 1);
    assert_eq!(replica.histories(), (now, histories));
    assert!(matches!(replica.receive(end, end, &[0; 8]), Err(EngineError::Closed)));
    assert!(replica.promote(Term::new(term.get() + 1)).is_err(), "it is promoted once");

    begin(&mut writer);
    put(&mut writer, &f, b"w", b"1");
    writer.commit(true).unwrap().block().unwrap();
    put_one(&db, &f, &[5], b"by the new primary");
    assert_eq!(all(&reader, &f), before, "a snapshot goes on");
    reader.rollback();
    let mut expected = expected;
    expected.insert(b"w".to_vec(), b"1".to_vec());
    expected.insert(vec![5], b"by the new primary".to_vec());
    assert_eq!(rows(&db), expected);
    assert!(db.session().unwrap().begin(Isolation::ReadCommitted, false).is_ok());

    let other = replica_of(&db, &SimFiles::new(), NODE + 1);
    ship(&db, &other);
    assert_eq!(other.state_hash().unwrap().1, db.state_hash(&[]).unwrap().1);
    assert_eq!(other.histories(), db.histories());

    db.flush_all().unwrap();
    put_one(&db, &f, b"z", b"behind the levels");
    expected.insert(b"z".to_vec(), b"behind the levels".to_vec());
    replica.close().unwrap();
    let as_replica = open_tiny(Env::over(disk.process_kill(), 7)).unwrap().0;
    assert_eq!((rows(&as_replica), as_replica.histories().0), (expected, term));
    drop(unfinished);
}

/// Goal: the quorum configuration is known from everything that a replica has on its disk, even while its replay stands
/// still (T109): a candidate that used less would be elected by the wrong list. Method: a QUORUM record behind a change
/// of the catalog whose hook waits; the configuration is read meanwhile.
#[test]
fn who_is_asked_is_known_of_all_that_was_received() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (primary, unfinished) = primary();
    drop(unfinished);
    let replica = &replica_of(&primary, &SimFiles::new(), NODE);
    ship(&primary, replica);
    assert_eq!(replica.quorum_note(), None);
    let (entered, stands) = mpsc::channel();
    let (go_on, told) = mpsc::channel::<()>();
    let ends = Mutex::new((entered, told));
    replica.db().unwrap().on_catalog_change(Arc::new(move |_| {
        let ends = ends.lock().unwrap();
        let _nobody_asks = ends.0.send(());
        let _over = ends.1.recv();
    }));
    put_one(&primary, &primary.family(CfId::CATALOG), b"\x09table", b"new");
    let note = QuorumNote { list: "ANY 1 (a)".to_owned(), ..QuorumNote::default() };
    let end = primary.note_quorum(&note).unwrap();
    thread::scope(|scope| {
        let (go_on, primary) = (go_on, &primary); // dropped here on a failure, so that replay continues
        scope.spawn(move || ship(primary, replica));
        stands.recv_timeout(PATIENCE).unwrap();
        assert!(replica.end() >= end, "it is received");
        let (asked, answer) = mpsc::channel();
        scope.spawn(move || asked.send(replica.quorum_note()));
        let early = answer.recv_timeout(Duration::from_millis(200)).ok();
        go_on.send(()).unwrap();
        let found = early.unwrap_or_else(|| answer.recv_timeout(PATIENCE).unwrap());
        assert_eq!(found.as_ref(), Some(&note));
    });
    assert_eq!(replica.promote(Term::new(9)).unwrap().quorum_note(), Some(note), "it goes on by it");
}

/// Goal: a directory that follows opens only as a replica, also a former primary's from its first record on: otherwise
/// it would write at the positions of its primary. Method: an opening as a primary, before and after a promotion; a
/// primary that follows its own replica.
#[test]
fn directory_that_follows_opens_as_nothing_else() {
    let (primary, unfinished) = primary();
    drop(unfinished);
    let disk = SimFiles::new();
    let replica = replica_of(&primary, &disk, NODE);
    ship(&primary, &replica);
    replica.close().unwrap();
    let refused = open_tiny(Env::over(disk.clone(), 5));
    assert!(matches!(&refused, Err(EngineError::Follows { .. })), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("--replica-of"), "{text}");

    // A primary that was closed in order follows a replica that was promoted from its log.
    let old_disk = SimFiles::new();
    let (old, _) = open_tiny(Env::over(old_disk.clone(), 6)).unwrap();
    put_one(&old, &old.family(CF), b"a", b"1");
    let copy = replica_of(&old, &SimFiles::new(), NODE);
    ship(&old, &copy);
    let leader = copy.promote(Term::new(old.histories().0.get() + 1)).unwrap();
    put_one(&leader, &leader.family(CF), b"b", b"2");
    let end = copy.end();
    assert_eq!(old.log().unwrap().durable(), end);
    drop(old);
    let old_disk = old_disk.process_kill();
    drop(open_replica(&old_disk, 8).unwrap());
    let old_disk = old_disk.process_kill();
    let rejoined = open_replica(&old_disk, 9).unwrap();
    assert_eq!(rejoined.end(), end);
    ship(&leader, &rejoined);
    assert_eq!(rejoined.state_hash().unwrap().1, leader.state_hash(&[]).unwrap().1);
    assert_eq!(rejoined.histories(), leader.histories());
    rejoined.close().unwrap();
    let refused = open_tiny(Env::over(old_disk, 10));
    assert!(matches!(refused, Err(EngineError::Follows { .. })), "{refused:?}");
}

/// Goal: whenever the power is cut during a promotion and the first commit after it, the directory is a replica's,
/// which has everything and can be promoted to a higher term, or a primary's, which has everything including its
/// acknowledged commits. Method: states of the disk at each call; each opened in the one way that it allows.
#[test]
fn power_cut_at_any_call_of_a_promotion_leaves_a_replica_or_a_primary() {
    let (primary, unfinished) = primary();
    drop(unfinished);
    let disk = SimFiles::new();
    let replica = replica_of(&primary, &disk, NODE);
    ship(&primary, &replica);
    replica.follower().unwrap().flush().unwrap();
    let (expected, term) = (rows(&primary), Term::new(primary.histories().0.get() + 1));
    let progress: Arc<Mutex<(bool, bool)>> = Arc::default();
    let act = {
        let progress = Arc::clone(&progress);
        move || {
            let db = replica.promote(term).unwrap();
            progress.lock().unwrap().0 = true;
            put_one(&db, &db.family(CF), b"first", b"write");
            progress.lock().unwrap().1 = true;
            drop((replica, db));
        }
    };
    let mut moments = moments_of(&disk, &progress, act);
    moments.push((disk.crash_point(), (true, true)));
    let random = SimRandom::new(3);
    let mut found = [0_u32; 2];
    for (point, (promoted, acknowledged)) in &moments {
        let drawn = (0..4).map(|_| point.drawn(&random));
        for picks in [point.none_kept(), point.all_kept()].into_iter().chain(drawn) {
            let (disk, seed) = (point.state(&picks), point.calls());
            let db = match open_tiny(Env::over(disk.clone(), seed)) {
                Ok((db, _)) => {
                    found[1] += 1;
                    db
                }
                Err(EngineError::Follows { .. }) => {
                    assert!(!promoted, "call {seed}: it was promoted");
                    found[0] += 1;
                    let replica = open_replica(&disk, seed).unwrap();
                    let db = replica.db().unwrap();
                    assert_eq!(rows(&db), expected, "call {seed}");
                    replica.promote(Term::new(replica.histories().0.get() + 1)).unwrap();
                    db
                }
                Err(error) => panic!("call {seed}: {error:?}"),
            };
            let mut rows = rows(&db);
            let first = rows.remove(&b"first"[..]);
            assert_eq!(rows, expected, "call {seed}");
            assert!(first.is_some() || !acknowledged, "call {seed}: an acknowledged commit is lost");
            let (now, histories) = db.histories();
            assert!(now >= term || !promoted);
            assert!(histories.windows(2).all(|pair| pair[0].start < pair[1].start && pair[0].term <= pair[1].term));
            put_one(&db, &db.family(CF), b"later", b"write");
            assert_eq!(get_one(&db, &db.family(CF), b"later").as_deref(), Some(&b"write"[..]));
        }
    }
    assert!(found[0] > 30 && found[1] > 10, "{found:?} states of a replica and of a primary");
}

/// Goal: once another node leads nothing commits any more, and reads continue (REPL-8). Method: a transaction that
/// wrote before.
#[test]
fn nothing_commits_once_another_node_leads() {
    let (_, disk) = Env::simulated(60);
    let (db, _) = open_tiny(Env::over(disk.clone(), 61)).unwrap();
    let f = db.family(CF);
    put_one(&db, &f, b"a", b"1");
    let mut writer = db.session().unwrap();
    begin(&mut writer);
    put(&mut writer, &f, b"b", b"2");
    let end = db.log().unwrap().glsn();
    db.refuse_commits();
    assert!(matches!(writer.commit(true), Err(EngineError::Replica)));
    begin(&mut writer);
    put(&mut writer, &f, b"c", b"3");
    assert!(matches!(writer.commit(false), Err(EngineError::Replica)));
    assert_eq!(db.log().unwrap().glsn(), end, "nothing was written");
    assert_eq!(rows(&db), Rows::from([(b"a".to_vec(), b"1".to_vec())]));
    db.close().unwrap();
    let (db, _) = open_tiny(Env::over(disk.process_kill(), 62)).unwrap();
    put_one(&db, &db.family(CF), b"b", b"after an opening");
}

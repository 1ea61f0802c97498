//! Work that must not run in parallel with a promotion.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::cell::Cell;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use collie_base::{CfId, Lsn, Term};
use collie_env::Env;
use collie_obs::Source;
use collie_wal::ShipOptions;

use crate::{Db, Insert, Isolation, Options, Replica, ReplicaOptions, Seed, Session, StatementKind, families::names};

const DIR: &str = "/data";

/// A primary of term `term`, whose log `fill` writes to, and a replica that has received all of it.
fn pair(fill: impl FnOnce(&Db)) -> (Db, Replica, Term) {
    let open = || Options { background: false, ..Options::small() };
    let (primary, _) = Db::open(Path::new(DIR), open(), Env::simulated(1).0, &mut |_| ()).unwrap();
    let (term, histories) = primary.histories();
    let seed = Seed { cluster_id: primary.cluster_id(), node_id: 9, term, histories, consistent_at: Lsn::ZERO };
    let (env, _disk) = Env::simulated(2);
    seed.plant(&env, Path::new(DIR)).unwrap();
    let (replica, _) = Replica::open(Path::new(DIR), open(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap();
    fill(&primary);
    let log = primary.log().unwrap();
    log.flush_wal(true).unwrap();
    let mut shipper = log.ship("nine", ShipOptions::from(replica.end())).unwrap();
    let mut bytes = Vec::new();
    while let Some(shipment) = shipper.try_next(1 << 12, &mut bytes).unwrap() {
        replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
        bytes.clear();
        replica.set_show(shipment.durable);
    }
    drop(shipper);
    (primary, replica, term)
}

/// Goal: a promotion ends the transactions that the old primary has not ended: no log is kept for them, and the rows
/// of a table that one of them makes are freed (T304). Method: such a transaction in the log with chunks, a
/// promotion, and a flush of everything.
#[test]
fn promotion_ends_the_transactions_of_the_old_primary() {
    let made = Cell::new(CfId::CATALOG);
    let (_primary, replica, term) = pair(|primary| {
        let insert = |session: &mut Session, cf, key: &[u8], value: &[u8]| {
            session.begin_statement(StatementKind::Write).unwrap();
            assert_eq!(session.insert(&primary.family(cf), key, value).unwrap(), Insert::Done);
            session.end_statement();
        };
        let mut session = primary.session().unwrap();
        session.begin(Isolation::ReadCommitted, false).unwrap();
        let value = names::name_value(primary.create_family(), "");
        insert(&mut session, CfId::CATALOG, &names::name_key("sql:16384"), &value);
        session.commit(false).unwrap().block().unwrap();
        made.set(primary.create_family());
        session.begin(Isolation::ReadCommitted, false).unwrap();
        (0..40_u8).for_each(|number| insert(&mut session, made.get(), &[number], &vec![number; 10_000]));
        std::mem::forget(session); // its transaction stays open
    });
    let db = replica.db().unwrap();
    assert_eq!(db.shared.sample_source(), Some(Source::Apply), "a replica's background work is replay's (T308)");
    let rows = || db.shared.families.get(made.get()).map_or(0, |family| family.stat().rows);
    let clock = Env::real().clock;
    let deadline_ns = clock.now_ns() + 120_000_000_000;
    while rows() <= 10 {
        assert!(clock.now_ns() < deadline_ns, "{} rows are applied ahead of the COMMIT", rows());
        thread::yield_now();
    }
    let large = &db.shared.base().unwrap().large;
    assert!(large.lower(Lsn::MAX, |_| Lsn::MAX) < Lsn::MAX, "log is kept for it");
    db.flush_all().unwrap();
    let promoted = replica.promote(Term::new(term.get() + 1)).unwrap();
    assert_eq!(large.lower(Lsn::MAX, |_| Lsn::MAX), Lsn::MAX, "and no longer");
    promoted.tick();
    assert_eq!(promoted.shared.sample_source(), None, "a primary's is its own");
    assert_eq!((rows(), promoted.shared.families.get(made.get()).is_some()), (0, false));
    replica.close().unwrap();
}

/// Goal: no log is released while a promotion opens it: the files that it found stay there (T147). Method: a replica is
/// promoted while a flush is about to release log; the promotion ends after that, and not before.
#[test]
fn promotion_waits_for_whoever_gives_up_log() {
    let (_primary, replica, term) = pair(|_| ());
    let db = replica.db().unwrap();
    let flush_gives_up = db.shared.writable_base().unwrap().keep_log();
    let (promotes, promoting) = mpsc::channel();
    let promotion = thread::spawn({
        let replica = replica.clone();
        move || promotes.send(replica.promote(Term::new(term.get() + 1)).map(|_| ()))
    });
    let early = promoting.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "the log was opened meanwhile: {early:?}");
    drop(flush_gives_up);
    promoting.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    promotion.join().unwrap().unwrap();
    assert!(!db.is_replica());
    replica.close().unwrap();
}

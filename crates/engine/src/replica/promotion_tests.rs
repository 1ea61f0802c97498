//! What a promotion keeps from running beside it.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use collie_base::{Lsn, Term};
use collie_env::Env;
use collie_wal::ShipOptions;

use crate::{Db, Options, Replica, ReplicaOptions, Seed};

const DIR: &str = "/data";

/// Goal: no log is given up while a promotion opens it: the files that it found are there (T147). Method: a replica is promoted while a flush is
/// about to give up log; it comes to an end after that, and not before.
#[test]
fn promotion_waits_for_whoever_gives_up_log() {
    let open = || Options { background: false, ..Options::small() };
    let (primary, _) = Db::open(Path::new(DIR), open(), Env::simulated(1).0, &mut |_| ()).unwrap();
    let (term, histories) = primary.histories();
    let seed = Seed { cluster_id: primary.cluster_id(), node_id: 9, term, histories, consistent_at: Lsn::ZERO };
    let (env, _disk) = Env::simulated(2);
    seed.plant(&env, Path::new(DIR)).unwrap();
    let (replica, _) = Replica::open(Path::new(DIR), open(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap();
    let log = primary.log().unwrap();
    log.flush_wal(true).unwrap();
    let mut shipper = log.ship("nine", ShipOptions::from(replica.end())).unwrap();
    let mut bytes = Vec::new();
    while let Some(shipment) = shipper.try_next(1 << 12, &mut bytes).unwrap() {
        replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
        bytes.clear();
        replica.set_show(shipment.durable);
    }

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

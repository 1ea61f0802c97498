//! A primary, and a replica with its own log: everything shipped is applied, whichever of them is killed.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use collie_base::{CfId, Lsn};
use collie_engine::{Basis, Db, EngineError, Env, Outcome, Replica, ReplicaOptions, Seed, Session, Write};
use collie_env::{SimFiles, SimRandom};
use collie_wal::ShipOptions;
use common::{all, begin, next_statement, open_tiny, put, tiny};

/// Draws numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's linear congruential generator.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A primary or a replica, on its own disk.
struct Node<D> {
    disk: SimFiles,
    db: D,
}

const CFS: [CfId; 3] = [CfId::new(11), CfId::new(12), CfId::new(13)];

fn open_primary(disk: &SimFiles, seed: u64) -> Db {
    open_tiny(Env::over(disk.clone(), seed)).unwrap().0
}

fn open_replica(disk: &SimFiles, seed: u64) -> Replica {
    let mut replica = ReplicaOptions::default();
    replica.apply_workers = 3;
    Replica::open(Path::new(common::DIR), tiny(), replica, &Env::over(disk.clone(), seed), &mut |_| ()).unwrap().0
}

/// Returns a primary and an empty replica of it.
fn pair(seed: u64) -> (Node<Db>, Node<Replica>) {
    let (_, disk) = Env::simulated(seed);
    let primary = Node { db: open_primary(&disk, seed), disk };
    let (env, disk) = Env::simulated(seed + 1);
    let (term, histories) = primary.db.histories();
    let (cluster_id, node_id) = (primary.db.cluster_id(), 99);
    let seeded = Seed { cluster_id, node_id, term, histories, consistent_at: Lsn::ZERO };
    seeded.plant(&env, Path::new(common::DIR)).unwrap();
    drop(env);
    let replica = Node { db: open_replica(&disk, seed + 2), disk };
    (primary, replica)
}

/// Ships durable log, in packets of up to `most_bytes`, at most `packets` of them.
fn ship(primary: &Db, replica: &Replica, most_bytes: usize, packets: usize) {
    let log = primary.log().unwrap();
    log.flush_wal(true).unwrap();
    let mut shipper = log.ship("replica", ShipOptions::from(replica.end())).unwrap();
    for _ in 0..packets {
        let mut bytes = Vec::new();
        let Some(shipment) = shipper.try_next(most_bytes, &mut bytes).unwrap() else { return };
        let end = replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
        assert_eq!((end, replica.end()), (shipment.end, shipment.end));
        replica.set_show(shipment.durable);
    }
}

fn check_equal(primary: &Db, replica: &Replica) {
    ship(primary, replica, 1 << 20, usize::MAX);
    let (position, hash) = replica.state_hash().unwrap();
    let (snapshot, expected) = primary.state_hash(&[]).unwrap();
    assert_eq!(hash, expected, "at {position} and {snapshot}");
    assert_eq!(replica.histories(), primary.histories());
    let db = replica.db().unwrap();
    for cf in CFS {
        let (mut here, mut there) = (db.session().unwrap(), primary.session().unwrap());
        begin(&mut here);
        begin(&mut there);
        assert_eq!(all(&here, &db.family(cf)), all(&there, &primary.family(cf)), "family {cf}");
    }
}

/// Writes some rows in one transaction, perhaps a large one, perhaps with a part rolled back.
fn write(db: &Db, draw: &mut Draw) {
    let mut session = db.session().unwrap();
    begin(&mut session);
    let is_large = draw.below(8) == 0;
    write_some(&mut session, db, draw, if is_large { 40 } else { 4 });
    if draw.below(6) == 0 {
        let mark = session.savepoint();
        write_some(&mut session, db, draw, if is_large { 20 } else { 2 });
        session.rollback_to(mark);
        next_statement(&mut session);
    }
    if draw.below(10) == 0 {
        return session.rollback();
    }
    session.commit(draw.below(2) == 0).unwrap().block().unwrap();
}

fn write_some(session: &mut Session, db: &Db, draw: &mut Draw, most: u64) {
    for _ in 0..=draw.below(most) {
        let family = db.family(CFS[usize::try_from(draw.below(3)).unwrap()]);
        let key = [u8::try_from(draw.below(30)).unwrap()];
        next_statement(session);
        if draw.below(4) == 0 {
            let deleted = session.write(&family, &key, Basis::Snapshot, Write::Delete).unwrap();
            assert!(matches!(deleted, Outcome::Done | Outcome::Gone), "{deleted:?}");
        } else {
            let value = vec![key[0]; usize::try_from(draw.below(600)).unwrap()];
            put(session, &family, &key, &value);
        }
    }
}

/// Goal: a replica has the same state as its primary, at the same positions, whichever of the two is killed or loses
/// its power, at any point of the stream, with flushes and cuts of the log on both sides; a new history of the primary
/// reaches the replica. Method: random steps of each kind, twenty seeds; state hash, rows and histories compared
/// repeatedly.
#[test]
fn replica_equals_its_primary_through_kills_of_either() {
    for seed in 0..20 {
        let mut draw = Draw(seed * 7 + 1);
        let (mut primary, mut replica) = pair(seed * 100);
        for step in 0..60 {
            let disk_seed = seed * 1000 + step;
            match draw.below(12) {
                0..=4 => write(&primary.db, &mut draw),
                5 | 6 => {
                    let (most, packets) = (draw.below(3000) + 1, draw.below(12) + 1);
                    ship(&primary.db, &replica.db, usize::try_from(most).unwrap(), usize::try_from(packets).unwrap());
                }
                7 => primary.db.flush_cf(&CFS[..usize::try_from(draw.below(4)).unwrap()]).unwrap(),
                8 => {
                    let db = replica.db.db().unwrap();
                    db.flush_cf(&CFS[..usize::try_from(draw.below(4)).unwrap()]).unwrap();
                    db.tick();
                }
                9 => check_equal(&primary.db, &replica.db),
                10 => {
                    let disk = match draw.below(2) {
                        0 => replica.disk.process_kill(),
                        _ => replica.disk.power_cut(disk_seed),
                    };
                    replica = Node { db: open_replica(&disk, disk_seed), disk };
                }
                _ => {
                    // Durable log is not lost, and other log was not shipped.
                    let disk = primary.disk.power_cut(disk_seed);
                    primary = Node { db: open_primary(&disk, disk_seed), disk };
                }
            }
        }
        check_equal(&primary.db, &replica.db);
        primary.db.flush_all().unwrap();
        check_equal(&primary.db, &replica.db);
        replica.db.close().unwrap();
        replica = Node { db: open_replica(&replica.disk, seed + 5000), disk: replica.disk.clone() };
        check_equal(&primary.db, &replica.db);
    }
}

/// Goal: bytes that do not continue the log are refused and change nothing; a record that is no redo stops replay,
/// across openings, and the applied state stays readable. Method: a gap; a record that is whole and cannot be decoded.
#[test]
fn stream_that_does_not_continue_or_makes_no_sense_is_refused() {
    let (primary, replica) = pair(7);
    let mut session = primary.db.session().unwrap();
    begin(&mut session);
    put(&mut session, &primary.db.family(CFS[0]), b"a", b"1");
    session.commit(true).unwrap().block().unwrap();
    ship(&primary.db, &replica.db, 1 << 20, usize::MAX);
    let end = replica.db.end();
    let gap = replica.db.receive(Lsn::new(end.get() + 64), Lsn::new(end.get() + 64), &[0; 64]);
    assert!(matches!(gap, Err(EngineError::Log(_))), "{gap:?}");
    assert_eq!((replica.db.end(), replica.db.failure().is_none()), (end, true));

    // A log that continues at the same position with a record of another kind.
    let (env, _disk) = Env::simulated(70);
    let options = collie_wal::Options { first_lsn: end, ..tiny().log };
    let (other, _) = collie_wal::Log::open(&env, Path::new("/other"), options).unwrap();
    other.writer().append(30, &[b"no redo"]).unwrap();
    other.flush_wal(true).unwrap();
    let mut bytes = Vec::new();
    let mut shipper = other.ship("replica", ShipOptions::from(end)).unwrap();
    let shipment = shipper.try_next(1 << 20, &mut bytes).unwrap().unwrap();
    let (start, prev_end) = (shipment.start, shipment.prev_end);
    for _ in 0..2 {
        let damaged = replica.db.receive(start, prev_end, &bytes);
        assert!(matches!(damaged, Err(EngineError::Corruption { .. })), "{damaged:?}");
    }
    replica.db.wait_shown(end).unwrap().block().unwrap();
    let db = replica.db.db().unwrap();
    let mut session = db.session().unwrap();
    begin(&mut session);
    assert_eq!(session.get(&db.family(CFS[0]), b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let random = SimRandom::new(3);
    replica.db.follower().unwrap().flush().unwrap();
    let point = replica.disk.crash_point();
    let disk = point.state(&point.drawn(&random));
    let options = ReplicaOptions::default();
    let again = Replica::open(Path::new(common::DIR), tiny(), options, &Env::over(disk, 9), &mut |_| ());
    assert!(matches!(again, Err(EngineError::Corruption { .. })), "{again:?}");
}

fn copy_dir(from: &Path, to: &Path) {
    // Only its owner may read a data directory.
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.is_dir() {
            copy_dir(&entry, &to);
        } else {
            std::fs::copy(entry, to).unwrap();
        }
    }
}

/// Goal: a replica that gets the LSM levels of a checkpoint, and the log from where they need it, has every row,
/// including those that were re-logged instead of flushed, whose commits that log does not have (T69); nothing is shown
/// before. Method: a family of one row and one that is written until the log is cut; a kill in the middle of catching
/// up.
#[test]
fn rows_that_were_relogged_come_with_a_base_backup() {
    let dir = tempfile::tempdir().unwrap();
    let (here, copy, there) = (dir.path().join("primary"), dir.path().join("copy"), dir.path().join("replica"));
    let env = Env::real();
    let (primary, _) = Db::open(&here, tiny(), env.clone(), &mut |_| ()).unwrap();
    primary.set_max_total_wal_size(128 << 10);
    let mut session = primary.session().unwrap();
    begin(&mut session);
    put(&mut session, &primary.family(CFS[0]), b"old", b"row");
    session.commit(true).unwrap().block().unwrap();
    let first = primary.durable();
    for round in 0..2000_u32 {
        begin(&mut session);
        put(&mut session, &primary.family(CFS[1]), &(round % 50).to_be_bytes(), &[7; 900]);
        session.commit(false).unwrap().block().unwrap();
        if round % 20 == 0 {
            primary.log().unwrap().flush_wal(true).unwrap();
            primary.flush_due().unwrap();
        }
        let stat = primary.flush_stat();
        if stat.relogs > 0 && stat.log_start > first {
            break;
        }
    }
    let stat = primary.flush_stat();
    assert!(stat.relogs > 0 && stat.log_start > first, "{stat:?}");
    let options = collie_engine::CheckpointOptions::default();
    let made = primary.copy_levels(&copy, options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(env.files.list(&copy).unwrap(), ["levels"], "no log is copied that nobody sends");
    assert!(made.start <= stat.log_start && made.from <= primary.durable(), "{made:?}");
    let consistent_at = made.from;
    copy_dir(&copy.join("levels"), &there.join("levels"));
    let (term, histories) = primary.histories();
    let seed = Seed { cluster_id: primary.cluster_id(), node_id: 99, term, histories, consistent_at };
    seed.plant(&env, &there).unwrap();
    let open = || Replica::open(&there, tiny(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap().0;
    let replica = open();
    assert_eq!(replica.end(), stat.log_start, "from where the levels need it");
    ship(&primary, &replica, 1, 1);
    assert!(replica.db().is_none(), "it is not consistent yet");
    replica.follower().unwrap().flush().unwrap();
    replica.close().unwrap();
    let replica = open();
    assert!(replica.db().is_none() && replica.end() > stat.log_start);
    check_equal(&primary, &replica);
    replica.close().unwrap();
    check_equal(&primary, &open());
}

/// Goal: a replica whose copy has everything that its primary has shows it at once: no record comes that would allow it
/// later (T198). Method: a primary that has flushed everything and is idle, in its first incarnation and after a crash;
/// then its later writes.
#[test]
fn copy_of_an_idle_primary_is_shown_before_it_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (here, env) = (dir.path().join("primary"), Env::real());
    for life in 0..2_u8 {
        let (primary, _) = Db::open(&here, tiny(), env.clone(), &mut |_| ()).unwrap();
        let write = |value: &[u8]| {
            let mut session = primary.session().unwrap();
            begin(&mut session);
            put(&mut session, &primary.family(CFS[0]), &[life], value);
            session.commit(true).unwrap().block().unwrap();
        };
        write(b"before");
        primary.flush_all().unwrap();
        let (copy, there) = (dir.path().join(format!("copy-{life}")), dir.path().join(format!("replica-{life}")));
        let options = collie_engine::CheckpointOptions::default();
        let made = primary.copy_levels(&copy, options, &mut |_| ControlFlow::Continue(())).unwrap();
        copy_dir(&copy.join("levels"), &there.join("levels"));
        let (term, histories) = primary.histories();
        let (cluster_id, node_id) = (primary.cluster_id(), 99);
        Seed { cluster_id, node_id, term, histories, consistent_at: made.from }.plant(&env, &there).unwrap();
        let replica = Replica::open(&there, tiny(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap().0;
        ship(&primary, &replica, 1 << 20, usize::MAX);
        assert_eq!((replica.end(), replica.shown()), (primary.durable(), primary.durable()), "life {life}");
        assert!(replica.db().is_some(), "life {life}: it waits for what is there");
        check_equal(&primary, &replica);
        write(b"after");
        check_equal(&primary, &replica);
        replica.close().unwrap();
        drop(primary); // as a kill does
    }
}

//! Measured operating units of the log and the engine, in a separate program, since a process has only one sampler.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::ops::ControlFlow;
use std::path::Path;

use collie_base::Lsn;
use collie_engine::{
    Basis, CheckpointOptions, CopyProgress, Db, Env, Family, Options, Outcome, Replica, ReplicaOptions, Seed, Session,
    Write, is_commit_record, restore,
};
use collie_env::{Clock as _, RealClock};
use collie_obs::{Batch, Drain, MEASURED_IN, RateTable, Sample, Situation, Source, UNITS, publish, set_default_source};
use collie_wal::ShipOptions;
use common::{all, begin, next_statement, open_tiny, put, tiny};

/// Units of statements, which are measured above the engine.
const OF_SQL: std::ops::RangeInclusive<u8> = 14..=19;

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// Opens a database in real files.
fn open(dir: &Path) -> Db {
    Db::open(dir, Options::small(), Env::real(), &mut |_| ()).unwrap().0
}

/// Makes a session wait twice for a row that another one has written, until that is rolled back and until that is
/// committed, and then write it. Returns an upper bound of the time that the row had been held when the first wait
/// began, in microseconds.
fn wait_for_a_row(db: &Db, f: &Family, key: &[u8]) -> u64 {
    let (mut holder, mut waiter) = (db.session().unwrap(), db.session().unwrap());
    begin(&mut waiter);
    let later = |waiter: &mut Session, basis| waiter.write(f, key, basis, Write::Put(b"later")).unwrap();
    let mut ages_us = Vec::new();
    for commits in [false, true] {
        let held_at = now_ns();
        begin(&mut holder);
        assert_eq!(holder.write(f, key, Basis::Snapshot, Write::Put(b"held")).unwrap(), Outcome::Done);
        let met = later(&mut waiter, Basis::Snapshot);
        let Outcome::Wait(blocker) = met else { panic!("nobody is in the way: {met:?}") };
        let wait = waiter.wait(blocker);
        ages_us.push((now_ns() - held_at).div_ceil(1_000));
        if commits {
            holder.commit(true).unwrap().block().unwrap();
        } else {
            holder.rollback();
        }
        wait.block(None).unwrap();
    }
    let met = later(&mut waiter, Basis::Snapshot);
    let Outcome::Changed { csn, .. } = met else { panic!("it was written: {met:?}") };
    assert_eq!(later(&mut waiter, Basis::After(csn)), Outcome::Done);
    waiter.commit(true).unwrap().block().unwrap();
    ages_us.into_iter().max().unwrap()
}

/// Inserts, reads, changes, deletes, scans, rolls back, waits for, flushes, merges, cleans and copies rows, then opens
/// the database again, which finds them. Returns the result of [`wait_for_a_row`].
fn work_of_a_primary(dir: &Path) -> u64 {
    let db = open(dir);
    let cf = db.create_family();
    let f = db.family(cf);
    let mut session = db.session().unwrap();
    for round in 0..3_u8 {
        begin(&mut session);
        for key in 0..20_u8 {
            put(&mut session, &f, &[round, key], &[key; 100]);
        }
        next_statement(&mut session);
        assert!(session.get(&f, &[round, 3]).unwrap().is_some());
        let changed = session.write(&f, &[round, 3], Basis::Snapshot, Write::Put(b"changed")).unwrap();
        let deleted = session.write(&f, &[round, 4], Basis::Snapshot, Write::Delete).unwrap();
        assert_eq!([changed, deleted], [Outcome::Done, Outcome::Done]);
        session.commit(true).unwrap().block().unwrap();
        db.log().unwrap().flush_wal(true).unwrap();
        db.flush_cf(&[cf]).unwrap();
    }
    begin(&mut session);
    put(&mut session, &f, b"undone", b"");
    session.rollback();
    begin(&mut session);
    assert_eq!(all(&session, &f).len(), 57);
    // A row that the flushes lack, for the next opening to replay.
    put(&mut session, &f, b"late", b"");
    session.commit(true).unwrap().block().unwrap();
    db.compact(cf).unwrap();
    for _ in 0..3 {
        db.tick();
    }
    let held_us = wait_for_a_row(&db, &f, &[0, 3]);
    let elsewhere = tempfile::tempdir().unwrap();
    let [copied, restored] = ["copy", "restored"].map(|name| elsewhere.path().join(name));
    let mut go_on = |_: &CopyProgress| ControlFlow::Continue(());
    db.checkpoint(&copied, CheckpointOptions { copy: true }, &mut go_on).unwrap();
    restore(&copied, &restored, None, &Env::real(), &mut go_on).unwrap();
    drop((session, f));
    db.close().unwrap();
    drop(db);
    open(dir).close().unwrap();
    held_us
}

/// Checks that a unit with probability 0 has no samples, whatever the others have.
fn unit_that_is_off_gives_none(dir: &Path, drain: &mut Drain, batch: &mut Batch) {
    const ROW_READ: u8 = 9;
    let mut table = RateTable::all(1.0);
    Source::ALL.into_iter().for_each(|source| table.set(ROW_READ, source, 0.0));
    let db = open(dir);
    drain.drain(now_ns(), Situation::default(), batch);
    assert!(publish(&table));
    let f = db.family(db.create_family());
    let mut session = db.session().unwrap();
    begin(&mut session);
    put(&mut session, &f, b"key", b"value");
    next_statement(&mut session);
    assert!(session.get(&f, b"key").unwrap().is_some());
    session.commit(true).unwrap().block().unwrap();
    drain.drain(now_ns(), Situation::default(), batch);
    publish(&RateTable::off());
    assert_eq!((batch.taken[usize::from(ROW_READ)], batch.dropped[usize::from(ROW_READ)]), ([0; 4], 0));
    for on in [5, 6, 10] {
        assert!(batch.taken[on].iter().sum::<u64>() > 0, "unit {on}");
    }
    drop((session, f));
    db.close().unwrap();
}

/// Ships a commit to a replica that applies it with three workers, then one with fewer: their number follows after the
/// next packet. Returns the number of shipped commits.
fn work_of_a_replica() -> u32 {
    let (env, _disk) = Env::simulated(1);
    let primary = open_tiny(env).unwrap().0;
    let (env, _disk) = Env::simulated(2);
    let (term, histories) = primary.histories();
    let cluster_id = primary.cluster_id();
    let dir = Path::new(common::DIR);
    Seed { cluster_id, node_id: 99, term, histories, consistent_at: Lsn::ZERO }.plant(&env, dir).unwrap();
    let mut options = ReplicaOptions::default();
    options.apply_workers = 3;
    let replica = Replica::open(dir, tiny(), options, &env, &mut |_| ()).unwrap().0;
    let f = primary.family(primary.create_family());
    let mut session = primary.session().unwrap();
    let log = primary.log().unwrap();
    let from = replica.end();
    let mut shipper = log.ship("replica", ShipOptions::from(from).commits_by(is_commit_record)).unwrap();
    let mut bytes = Vec::new();
    for keys in [0..20_u8, 20..21, 21..22] {
        begin(&mut session);
        for key in keys {
            put(&mut session, &f, &[key], b"shipped");
        }
        session.commit(false).unwrap().block().unwrap();
        log.flush_wal(true).unwrap();
        while let Some(shipment) = shipper.try_next(1 << 20, &mut bytes).unwrap() {
            replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
            replica.set_show(shipment.durable);
            bytes.clear();
        }
        replica.set_apply_workers(1).unwrap();
    }
    let (_, here) = replica.state_hash().unwrap();
    assert_eq!(here, primary.state_hash(&[]).unwrap().1);
    let commits = log.read(from).filter(|record| is_commit_record(record.as_ref().unwrap().tag)).count();
    u32::try_from(commits).unwrap()
}

/// Goal: every unit of the log and the engine that the document calls measured gives samples with numbers in them;
/// another one gives none, nor does one with probability 0. Method: a primary's work in real files and a replica's,
/// every call measured; the known figures of the work are looked for in the samples; once more with one unit off.
#[test]
fn every_measured_unit_gives_samples() {
    let mut drain = Drain::open(&now_ns).expect("nobody else drains");
    let dir = tempfile::tempdir().unwrap();
    // Opened once without samples; this offers a clock if the processor has none.
    open(dir.path()).close().unwrap();
    set_default_source(Source::Calibration);
    assert!(publish(&RateTable::all(1.0)));
    let held_us = work_of_a_primary(dir.path());
    let mut batch = Batch::new();
    drain.drain(now_ns(), Situation::default(), &mut batch);
    let mut samples = std::mem::take(&mut batch.samples);
    assert!(samples.iter().all(|sample| sample.source == Source::Calibration.number()));
    let commits = work_of_a_replica();
    drain.drain(now_ns(), Situation::default(), &mut batch);
    samples.append(&mut batch.samples);
    publish(&RateTable::off());
    unit_that_is_off_gives_none(dir.path(), &mut drain, &mut batch);

    for (unit, place) in UNITS.iter().zip(MEASURED_IN).filter(|(unit, _)| !OF_SQL.contains(&unit.id)) {
        let found = samples.iter().filter(|sample| sample.ou == unit.id).count();
        assert_eq!(found > 0, !place.is_empty(), "{}: {found} samples, measured in {place:?}", unit.name);
    }
    let of = |unit: u8| samples.iter().filter(move |sample| sample.ou == unit);
    let has = |unit: u8, is: &dyn Fn(&Sample) -> bool| {
        assert!(of(unit).any(is), "{:#?}", of(unit).take(5).collect::<Vec<_>>());
    };
    assert!(samples.iter().all(|sample| sample.ou != 0 && sample.p > 0.0 && sample.calls > 0));
    has(1, &|append| append.features[0] > 2_000 && append.lsn > 0); // a commit with twenty rows of a hundred bytes
    has(2, &|flush| {
        flush.features[0] > 2_000
            && flush.features[1] > 0
            && flush.labels[3] >= 4096
            && flush.labels[0] >= flush.labels[1]
    });
    has(4, &|scan| scan.features[0] > 0);
    // The length of ticks is known to about a thousandth.
    has(8, &|wait| wait.features[..2] == [2, 0] && (1..=held_us * 11 / 10).contains(&u64::from(wait.features[2])));
    assert!(of(8).all(|wait| wait.features[2] > 0));
    has(6, &|commit| commit.features[0] == 22 && commit.features[1] > 2_000 && commit.features[3] == 0);
    has(7, &|abort| abort.features[0] == 1);
    has(9, &|read| read.features == [2, 100, 1, 1, 0, 0, 0, 0]);
    has(10, &|insert| insert.features[..3] == [2, 100, 1] && insert.labels[1] > 100);
    has(11, &|update| update.features[..2] == [2, 7] && update.features[2] > 0);
    // Two waits and a row that was changed; no other write was repeated.
    assert_eq!(
        of(11).filter_map(|update| Some(update.features[3]).filter(|times| *times > 0)).collect::<Vec<_>>(),
        [3]
    );
    has(12, &|delete| delete.features[0] == 2);
    // Three rows have two versions, unless they were cleaned already.
    has(13, &|scan| {
        scan.features[0] >= 57 && scan.features[1] == 57 && scan.features[3] >= 57 && scan.features[4] == 0
    });
    has(20, &|round| round.features[3] > 0);
    has(21, &|flush| flush.features[0] >= 19 && flush.features[2] == 1 && flush.labels[1] > 0);
    has(22, &|merge| merge.features[0] > 0 && merge.features[2] == 1);
    has(24, &|received| received.features[1] > 0 && received.source == Source::Apply.number());
    has(23, &|shipped| shipped.features[0] > 160);
    assert!(commits >= 3);
    assert_eq!(of(23).map(|shipped| shipped.features[1]).sum::<u32>(), commits);
    has(25, &|applied| applied.features[..4] == [20, 160, 1, 3]);
    has(25, &|applied| applied.features[..4] == [1, 8, 1, 1]);
    assert!(of(25).all(|applied| applied.source == Source::Apply.number()));
    // The live rows of each of both copies: the merge flushed the late one too.
    has(27, &|piece| piece.features[1] > 0);
    assert_eq!(of(27).map(|piece| piece.features[0]).sum::<u32>(), 2 * 58);
    has(28, &|scan| scan.features[1] > 0 && scan.features[2] == 1 && scan.labels[1] > 0);
    has(26, &|run| {
        let calls = u32::from(run.calls);
        calls > 1 && run.features[2] == calls * 7 && run.features[3] >= calls && run.source == Source::Apply.number()
    });
    has(30, &|loaded| loaded.features[0] > 50);
}

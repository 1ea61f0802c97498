//! Column families by name: created, found, dropped, and their state after a crash.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;

use collie_base::CfId;
use collie_engine::{Env, ErrorKind, sql_name_row};
use collie_kv::{Batch, CfOptions, Db, Durability, Error, FlushTo, Options, TxnOptions};
use common::{begin, open_still, put, put_one};

const SYNC: Durability = Durability::Local;

fn open(env: Env) -> Db {
    Db::over(&open_still(env).unwrap().0)
}

fn names(db: &Db) -> Vec<String> {
    db.list_cfs().unwrap().into_iter().map(|(name, _)| name).collect()
}

fn kind<T>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.err().expect("it is refused").kind()
}

/// Goal: a family is there with its rows after a crash, or gone with them, and no id is used twice, whatever happened
/// in between. Method: create, fill, drop and create again under the same names; cut the power after each step,
/// sometimes twice.
#[test]
fn families_and_ids_survive_power_cuts() {
    let (mut seed, mut ids) = (0, BTreeSet::new());
    let (env, mut disk) = Env::simulated(seed);
    let mut db = open(env);
    for round in 0..12_u8 {
        let made = db.create_cf("b", CfOptions::default()).unwrap();
        assert!(ids.insert(made.id()), "id {} is used again in round {round}", made.id());
        if round % 3 == 0 {
            let kept = db.create_cf(&format!("kept {round:02}"), CfOptions::default()).unwrap();
            assert!(ids.insert(kept.id()));
            db.put(&kept, "round", [round], SYNC).unwrap();
        }
        if round % 2 == 0 {
            db.put(&made, "k", [round], SYNC).unwrap();
        }
        for _ in 0..=round % 2 {
            seed += 1;
            disk = disk.power_cut(seed);
            db = open(Env::over(disk.clone(), seed));
            let found = db.cf("b").unwrap();
            assert_eq!(found.id(), made.id());
            let expected = (round % 2 == 0).then_some([round]);
            assert_eq!(db.get(&found, "k").unwrap().as_deref(), expected.as_ref().map(<[u8; 1]>::as_slice));
        }
        db.drop_cf(&db.cf("b").unwrap()).unwrap();
        if round % 4 == 0 {
            seed += 1;
            disk = disk.power_cut(seed);
            db = open(Env::over(disk.clone(), seed));
        }
        assert_eq!(kind(db.cf("b")), ErrorKind::NotFound);
        assert!(!db.engine().families().contains(&made.id()), "its rows are freed");
        let kept: Vec<_> = (0..=round).filter(|at| at % 3 == 0).map(|at| format!("kept {at:02}")).collect();
        assert_eq!(names(&db), kept);
        for at in (0..=round).filter(|at| at % 3 == 0) {
            let kept = db.cf(&format!("kept {at:02}")).unwrap();
            assert_eq!(db.get(&kept, "round").unwrap().as_deref(), Some(&[at][..]));
        }
    }
}

/// Goal: an id is not assigned again even if only the counter in the catalog has it. Method: create and drop families
/// until the row of a dropped one is forgotten (it never had a row, so the log names it only in the catalog); reopen
/// between.
#[test]
fn dropped_family_is_forgotten_and_its_id_is_not() {
    let (env, mut disk) = Env::simulated(7);
    let mut db = open(env);
    let dropped_rows = |db: &Db| {
        let mut session = db.engine().session().unwrap();
        begin(&mut session);
        let rows = common::all(&session, &db.engine().family(CfId::CATALOG));
        rows.keys().filter(|key| key.starts_with(&[0, 3])).count()
    };
    let mut highest = CfId::CATALOG;
    for round in 0..6 {
        let cf = db.create_cf("empty", CfOptions::default()).unwrap();
        assert!(cf.id() > highest);
        highest = cf.id();
        assert_eq!(dropped_rows(&db), 0, "making a family forgets what the last opening did not find");
        db.drop_cf(&cf).unwrap();
        assert_eq!(dropped_rows(&db), 1);
        disk = disk.power_cut(round);
        db = open(Env::over(disk.clone(), round));
    }
}

/// Goal: all handles of a dropped family fail with `NotFound`, and never see the family that takes its name. Method:
/// reads, writes, a batch, a snapshot, a running scan and two transactions over a drop; then the name again.
#[test]
fn handles_of_a_dropped_family_fail() {
    let (env, _disk) = Env::simulated(1);
    let db = open(env);
    let (cf, other) =
        (db.create_cf("a", CfOptions::default()).unwrap(), db.create_cf("other", CfOptions::default()).unwrap());
    let again = cf.clone();
    for n in 0..100_u8 {
        db.put(&cf, [n], [n], Durability::Async).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let mut scan = snapshot.scan(&cf, ..);
    assert_eq!(scan.next().unwrap().unwrap().key(), [0]);
    let mut writer = db.begin(TxnOptions::default()).unwrap();
    writer.put(&cf, "late", "1").unwrap();
    writer.put(&other, "late", "1").unwrap();
    let mut reader = db.begin(TxnOptions::default()).unwrap();
    assert!(reader.get(&cf, [1]).unwrap().is_some());
    db.drop_cf(&cf).unwrap();
    let new = db.create_cf("a", CfOptions::default()).unwrap();
    assert_ne!(new.id(), cf.id());
    let mut batch = Batch::new();
    batch.put(&other, "batch", "1");
    batch.put(&cf, "batch", "1");
    assert_eq!(kind(db.write(batch, SYNC)), ErrorKind::NotFound);
    assert_eq!(kind(db.get(&again, [1])), ErrorKind::NotFound);
    assert_eq!(kind(db.put(&cf, "k", "v", SYNC)), ErrorKind::NotFound);
    assert_eq!(kind(db.delete(&cf, "k", SYNC)), ErrorKind::NotFound);
    assert_eq!(kind(snapshot.get(&cf, [1])), ErrorKind::NotFound);
    let rest: Vec<_> = scan.collect();
    assert_eq!(rest.last().unwrap().as_ref().err().map(Error::kind), Some(ErrorKind::NotFound));
    assert_eq!(kind(reader.get(&cf, [1])), ErrorKind::NotFound);
    assert_eq!(kind(writer.commit(SYNC)), ErrorKind::NotFound);
    assert_eq!(kind(db.drop_cf(&cf)), ErrorKind::NotFound);
    assert_eq!(db.get(&other, "late").unwrap(), None, "the transaction is gone as a whole");
    assert_eq!(db.get(&other, "batch").unwrap(), None);
    assert_eq!(db.snapshot().unwrap().scan(&new, ..).count(), 0);
    assert_eq!(names(&db), ["a", "other"]);
}

/// Goal: names are unique and bounded, and SQL's names are reserved. Method: each wrong name, a name twice, a family
/// that SQL named.
#[test]
fn names_are_checked() {
    let (env, disk) = Env::simulated(2);
    let db = open(env);
    let make = |name: &str| db.create_cf(name, CfOptions::default());
    let families = db.engine().families();
    for wrong in ["", "sql:1", &"n".repeat(256)] {
        assert_eq!(kind(make(wrong)), ErrorKind::InvalidArgument, "{wrong}");
    }
    assert_eq!(kind(db.create_cf("grouped", CfOptions::new().group("g".repeat(256)))), ErrorKind::InvalidArgument);
    make(&"n".repeat(255)).unwrap();
    make("taken").unwrap();
    assert_eq!(kind(make("taken")), ErrorKind::AlreadyExists);
    assert_eq!(db.engine().families().len(), families.len().max(1) + 2, "a refused one leaves nothing");
    // As SQL does, in one transaction: the definition and the name of its family.
    let table = db.engine().create_family();
    put_one(db.engine(), &db.engine().family(table), b"row", b"1");
    let mut session = db.engine().session().unwrap();
    begin(&mut session);
    let (key, value) = sql_name_row(16_384, table);
    put(&mut session, &db.engine().family(CfId::CATALOG), &key, &value);
    session.commit(true).unwrap().block().unwrap();
    let db = open(Env::over(disk.power_cut(1), 3));
    let table = db.cf("sql:16384").unwrap();
    assert!(table.is_sql());
    assert_eq!(db.get(&table, "row").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(kind(db.put(&table, "row", "2", SYNC)), ErrorKind::InvalidArgument);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(kind(txn.put(&table, "row", "2")), ErrorKind::InvalidArgument);
    assert_eq!(kind(txn.get_for_update(&table, "row")), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.drop_cf(&table)), ErrorKind::InvalidArgument);
}

/// Goal: threads that create, drop and use one name concurrently get no errors but `NotFound` and `FamilyExists`, and
/// the last state is right after a reopen. Method: threads on the real file system.
#[test]
fn threads_make_and_drop_one_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::small().open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let db = db.clone();
            scope.spawn(move || {
                for round in 0..40_u8 {
                    let made = match db.create_cf("shared", CfOptions::default()) {
                        Ok(cf) => cf,
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => match db.cf("shared") {
                            Ok(cf) => cf,
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::NotFound);
                                continue;
                            }
                        },
                        Err(error) => panic!("{error}"),
                    };
                    let put = db.put(&made, [thread], [round], Durability::Async);
                    let read = put.and_then(|_| db.get(&made, [thread]));
                    match read {
                        Ok(value) => assert_eq!(value.as_deref(), Some(&[round][..])),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    }
                    if round % 3 == thread % 3
                        && let Err(error) = db.drop_cf(&made)
                    {
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                    }
                }
            });
        }
    });
    let there = db.list_cfs().unwrap();
    db.close().unwrap();
    drop(db);
    let db = Options::small().open(dir.path()).unwrap();
    assert_eq!(db.list_cfs().unwrap(), there);
    assert_eq!(db.engine().families().len(), 1 + there.len(), "the catalog and what has a name");
}

/// Goal: of a thousand families the one with an old unflushed row keeps no log and gets no tiny table, and the busy one
/// gets no table below the minimum flush. Method: each family is created and written to once, then one is overwritten
/// until the log has passed its limit several times; the retained log, every tree, and the rows at the next opening.
#[test]
fn idle_families_keep_no_log_and_get_no_tiny_tables() {
    const FAMILIES: u32 = 1_000;
    const VALUE_BYTES: usize = 256 << 10;
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::small();
    options.set("wal.max_total_wal_size", "32MiB").unwrap();
    options.set("wal.segment_size", "8MiB").unwrap();
    options.set("store.write_buffer_size", "1GiB").unwrap();
    let db = options.clone().open(dir.path()).unwrap();
    let soon = Durability::Async;
    let idle: Vec<_> =
        (0..FAMILIES).map(|n| db.create_cf(&format!("idle-{n}"), CfOptions::default()).unwrap()).collect();
    for cf in &idle {
        db.put(cf, "row", cf.id().get().to_be_bytes(), soon).unwrap();
    }
    let busy = db.create_cf("busy", CfOptions::default()).unwrap();
    // 24 MiB that do not compress, repeatedly: their unflushed part exceeds the minimum flush (16 MiB).
    let mut random = 1_u64;
    let mut value = || -> Vec<u8> {
        let word = |_| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            random.rotate_left(29).to_le_bytes()
        };
        (0..VALUE_BYTES / 8).flat_map(word).collect()
    };
    for n in 0..600_u32 {
        db.put(&busy, (n % 96).to_be_bytes(), value(), soon).unwrap();
    }
    db.flush_wal(FlushTo::Disk).unwrap();
    let engine = db.engine();
    let limit = engine.log_bytes_max();
    assert_eq!(limit, 32 << 20);
    let clock = Env::real().clock;
    let deadline_ns = clock.now_ns() + 60_000_000_000;
    let kept = || engine.durable().bytes_since(engine.flush_stat().log_start);
    // The flusher thread gets there by itself.
    while kept() > limit + (8 << 20) {
        assert!(clock.now_ns() < deadline_ns, "{} bytes are kept: {:?}", kept(), engine.flush_stat());
        std::thread::yield_now();
    }
    let stats = db.stats();
    for family in stats.families.iter().filter(|family| family.cf != busy.id()) {
        assert_eq!(family.flush.flushes(), 0, "{family:?}");
        assert!(family.cf.get() == 0 || family.flush.relogs > 0, "{family:?}");
    }
    let of_busy = stats.families.iter().find(|family| family.cf == busy.id()).unwrap().flush;
    let trees: Vec<_> =
        stats.levels.trees.iter().map(|tree| (tree.state.cfs.clone(), tree.written.flush_bytes)).collect();
    assert_eq!(trees.len(), 1, "{trees:?}");
    assert_eq!(trees[0].0, [busy.id()]);
    assert!(of_busy.flushes() > 1, "{of_busy:?}");
    assert!(trees[0].1 / of_busy.flushes() >= 16 << 20, "{} bytes in {} flushes", trees[0].1, of_busy.flushes());
    db.close().unwrap();
    drop((db, idle, busy));
    let db = options.open(dir.path()).unwrap();
    for n in 0..FAMILIES {
        let cf = db.cf(&format!("idle-{n}")).unwrap();
        assert_eq!(db.get(&cf, "row").unwrap().as_deref(), Some(&cf.id().get().to_be_bytes()[..]));
    }
}

/// Goal: `store.compression` and `store.compaction_threads` reach the LSM levels: the disk holds fewer bytes, and
/// tables written with other settings are read. Method: the same rows with settings given as text, opened again with
/// the other settings in between.
#[test]
fn settings_of_the_levels_reach_their_tables() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &str| {
        let mut options = Options::small();
        options.set_all(text).unwrap();
        options.open(dir.path().join(name)).unwrap()
    };
    let fill = |db: &Db, from: u32| {
        let cf = db.create_cf("t", CfOptions::default()).or_else(|_| db.cf("t")).unwrap();
        let mut batch = Batch::new();
        (from..from + 1_000).for_each(|key| batch.put(&cf, key.to_be_bytes(), [9; 400]));
        db.write(batch, SYNC).unwrap();
        db.flush_cf(&[&cf]).unwrap();
        db.stats().levels.flush_bytes
    };
    let plain = "[store]\ncompression = \"none\"\ncompaction_threads = 1\n";
    let dense = "[store]\ncompression = \"lz4\"\ncompaction_threads = 7\n";
    let bytes = [("plain", plain), ("dense", dense)].map(|(name, text)| fill(&open(name, text), 0));
    assert!(bytes[0] > 400_000 && bytes[1] < 100_000, "{bytes:?}");
    for (name, text) in [("plain", dense), ("dense", plain)] {
        let db = open(name, text);
        let more = fill(&db, 1_000);
        assert_eq!(more < 100_000, text == dense, "{name}: {more}");
        drop(db);
        let db = open(name, "");
        let cf = db.cf("t").unwrap();
        assert_eq!(db.snapshot().unwrap().scan(&cf, ..).count(), 2_000);
    }
}

/// Goal: `wal.max_total_wal_size` of an open database changes at once, and the flusher uses it; an option that only an
/// opening reads is refused, and so is an unknown one, and then nothing changes. Method: a log above a limit that is
/// set later; wrong names and values.
#[test]
fn limit_of_the_log_changes_while_the_database_is_open() {
    let (env, _disk) = Env::simulated(4);
    let db = open(env);
    let cf = db.create_cf("t", CfOptions::default()).unwrap();
    for key in 0..400_u32 {
        db.put(&cf, key.to_be_bytes(), key.to_be_bytes().repeat(2_000), SYNC).unwrap();
    }
    assert!(!db.engine().flush_due().unwrap(), "far below the limit that is chosen");
    let chosen = db.engine().log_bytes_max();
    for (name, value, said) in [
        ("wal.max_total_wal_sise", "1", "did you mean wal.max_total_wal_size?"),
        ("wal.max_total_wal_size", "much", "bytes"),
        ("wal.segment_size", "2MiB", "when the database is opened"),
    ] {
        let error = db.set_option(name, value).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(said), "{error}");
    }
    assert_eq!(db.engine().log_bytes_max(), chosen);
    db.set_option("wal.max_total_wal_size", "1").unwrap();
    assert_eq!(db.engine().log_bytes_max(), 2 << 20, "two segments");
    assert!(db.engine().flush_due().unwrap());
    assert!(db.durable().bytes_since(db.engine().flush_stat().log_start) <= 2 << 20);
    db.set_option("wal.max_total_wal_size", "0").unwrap();
    assert_eq!(db.engine().log_bytes_max(), chosen);
}

/// Goal: the options that determine how often flushes and the collector run change while the database is open, and the
/// flusher uses them; a value that an opening would refuse is refused, and changes nothing. Method: each option by its
/// name; a family that is flushed once its buffer is small.
#[test]
fn buffers_and_intervals_change_while_the_database_is_open() {
    let (env, _disk) = Env::simulated(4);
    let db = open(env);
    let cf = db.create_cf("t", CfOptions::default()).unwrap();
    db.put(&cf, b"key", vec![7_u8; 20_000], SYNC).unwrap();
    assert!(!db.engine().flush_due().unwrap(), "far below a buffer");
    let log = db.engine().log().expect("it keeps a log");
    let now = || {
        (
            db.engine().write_buffer_size(),
            db.engine().gc_interval().as_micros(),
            log.flush_delay().as_micros(),
            log.flush_bytes(),
        )
    };
    let before = now();
    for (name, value) in [
        ("store.gc_interval", "900us"),
        ("store.gc_interval", "2s"),
        ("store.write_buffer_size", "many"),
        ("wal.flush_delay", "1us"),
        ("wal.flush_bytes", "1"),
        ("wal.flush_bytes", "1GiB"),
    ] {
        assert_eq!(db.set_option(name, value).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name} = {value}");
    }
    assert_eq!(now(), before);
    for (name, value) in [
        ("store.gc_interval", "8ms"),
        ("store.write_buffer_size", "16KiB"),
        ("wal.flush_delay", "3ms"),
        ("wal.flush_bytes", "8KiB"),
    ] {
        db.set_option(name, value).unwrap();
    }
    assert_eq!(now(), (16 << 10, 8000, 3000, 8 << 10));
    assert!(db.engine().flush_due().unwrap(), "above the buffer of now");
}

//! Tests of re-logging, and of each of the mistakes that it could make.

use std::path::Path;

use collie_env::{CrashPoint, SimFiles, SimRandom};
use parking_lot::Mutex;

use super::*;
use crate::planted::{with_planted, with_visit};
use crate::shared::flushing::tests::{begin, put_one, tiny};
use crate::{Basis, Db, Env, Insert, Options, Outcome, Session, Write};

fn open(env: Env, options: Options) -> Db {
    Db::open(Path::new("/db"), options, env, &mut |_| ()).unwrap().0
}

/// Opens the state of the disk after a power cut that loses everything that was not synced.
fn after_power_cut(disk: &SimFiles, seed: u64) -> Db {
    let point = disk.crash_point();
    open(Env::over(point.state(&point.none_kept()), seed), tiny())
}

fn get(db: &Db, cf: CfId, key: &[u8]) -> Option<Vec<u8>> {
    begin(db).get(&db.family(cf), key).unwrap().map(|value| value.to_vec())
}

fn write_one(db: &Db, cf: CfId, key: &[u8], what: Write<'_>) {
    let mut session: Session = begin(db);
    assert_eq!(session.write(&db.family(cf), key, Basis::Snapshot, what).unwrap(), Outcome::Done);
    session.commit(true).unwrap().block().unwrap();
}

fn relog(db: &Db, cfs: &[CfId]) {
    let base = db.shared.base().unwrap();
    assert!(base.relog(cfs, u64::MAX, &db.shared.parts()).unwrap());
}

/// Adds more than one file of log that is not needed after its flush.
fn pad(db: &Db, cf: CfId, from: u8) {
    (from..from + 20).for_each(|n| put_one(db, &db.family(cf), &[n], &[n; 3000]));
    db.flush_cf(&[cf]).unwrap();
}

/// Goal: a thousand idle families with one row each next to a busy one retain no more log than the limit and one
/// file, without a flush for each, and every row survives a power cut. Method: rounds of the flusher between the
/// writes of the busy family.
#[test]
fn thousand_idle_families_keep_no_log() {
    let (env, disk) = Env::simulated(41);
    let options = Options { max_total_wal_size: 1 << 20, ..tiny() };
    let segment = options.log.segment_bytes;
    let db = open(env, options);
    let idle: Vec<CfId> = (0..1000).map(|_| db.create_family()).collect();
    for cf in &idle {
        let mut session = begin(&db);
        assert_eq!(session.insert(&db.family(*cf), b"idle", b"row").unwrap(), Insert::Done);
        session.commit(false).unwrap().block().unwrap();
    }
    let busy = db.create_family();
    let limit = db.log_bytes_max();
    let mut relogs = 0;
    for n in 0..1600_u32 {
        put_one(&db, &db.family(busy), &n.to_be_bytes(), &[0; 3000]);
        if n % 16 == 0 {
            db.flush_due().unwrap();
            let kept = db.durable().bytes_since(db.flush_stat().log_start);
            assert!(kept <= limit + segment, "{kept} bytes are kept after {n} rows");
        }
        relogs = db.flush_stat().relogs;
    }
    assert!(relogs > 1 && relogs < 20, "{relogs} re-logs");
    let trees: Vec<_> = db.level_stat().trees.into_iter().map(|tree| tree.state.cfs).collect();
    assert_eq!(trees, [[busy]], "no table for a row");
    let again = after_power_cut(&disk, 42);
    assert!(idle.iter().all(|cf| get(&again, *cf, b"idle").as_deref() == Some(b"row")));
    assert_eq!(again.rows_in(busy), 1600);
}

/// Returns the value of a key after a power cut, where `meanwhile` ran after the re-log took its rows and before it
/// wrote them.
fn relogged_over(meanwhile: impl FnOnce(&Db, CfId) + 'static) -> Option<Vec<u8>> {
    let (env, disk) = Env::simulated(43);
    let db = open(env, tiny());
    let (cf, padding) = (db.create_family(), db.create_family());
    put_one(&db, &db.family(cf), b"k", b"old");
    pad(&db, padding, 0);
    let other = db.clone();
    with_visit("re-log has taken its rows", move || meanwhile(&other, cf), || relog(&db, &[cf]));
    pad(&db, padding, 100);
    let start = db.flush_stat().log_start;
    assert!(start > Lsn::FIRST, "the test needs log to go");
    let point = disk.crash_point();
    let left = point.state(&point.none_kept());
    let [found, again] = [44, 45].map(|seed| get(&open(Env::over(left.clone(), seed), tiny()), cf, b"k"));
    assert_eq!(found, again, "replayed once more");
    found
}

/// Goal: R3: a commit made during a re-log wins, even a deletion, although the record of the re-log comes later. It
/// would not win if entries had new positions, or if deletions were not remembered. Method: a commit between taking
/// and writing; both mistakes are made.
#[test]
fn relog_never_hides_what_was_committed_meanwhile() {
    let put = |db: &Db, cf: CfId| write_one(db, cf, b"k", Write::Put(b"new"));
    let delete = |db: &Db, cf: CfId| {
        write_one(db, cf, b"k", Write::Delete);
        db.tick(); // the row leaves memory
    };
    assert_eq!(relogged_over(|_, _| ()).as_deref(), Some(&b"old"[..]));
    assert_eq!(relogged_over(put).as_deref(), Some(&b"new"[..]));
    assert_eq!(relogged_over(delete), None);
    let with_mistake = with_planted("re-log under a new position", || relogged_over(put));
    assert_eq!(with_mistake.as_deref(), Some(&b"old"[..]), "the test sees nothing");
    let with_mistake = with_planted("re-log forgets deletions", || relogged_over(delete));
    assert_eq!(with_mistake.as_deref(), Some(&b"old"[..]), "the test sees nothing");
}

/// Goal: R2: a re-log releases log once it is durable, and not before. Method: the log is cut right after the
/// re-log, then power is cut; the mistake is made.
#[test]
fn log_goes_only_when_its_relog_is_durable() {
    let row = || {
        let (env, disk) = Env::simulated(46);
        let db = open(env, tiny());
        let (cf, padding) = (db.create_family(), db.create_family());
        put_one(&db, &db.family(cf), b"k", b"v");
        pad(&db, padding, 0);
        relog(&db, &[cf]);
        db.shared.base().unwrap().cut_log(1, &db.shared.parts()).unwrap();
        assert!(db.flush_stat().log_start > Lsn::FIRST, "the test needs log to go");
        get(&after_power_cut(&disk, 47), cf, b"k")
    };
    assert_eq!(row().as_deref(), Some(&b"v"[..]));
    assert_eq!(with_planted("re-log is not waited for", row), None, "the test sees nothing");
}

/// Goal: a re-log that begins below the needed log restores nothing, since deletions after its beginning may have
/// been cut with it. Method: during the re-log a deletion, and the first row of another family; the next re-log
/// lets the log go up to that row.
#[test]
fn relog_whose_beginning_is_cut_counts_no_more() {
    let (env, disk) = Env::simulated(48);
    let db = open(env, tiny());
    let (cf, padding, later) = (db.create_family(), db.create_family(), db.create_family());
    put_one(&db, &db.family(cf), b"k", b"deleted");
    put_one(&db, &db.family(cf), b"stays", b"v");
    pad(&db, padding, 0);
    let other = db.clone();
    let meanwhile = move || {
        write_one(&other, cf, b"k", Write::Delete);
        other.tick();
        put_one(&other, &other.family(later), b"later", b"");
    };
    with_visit("re-log has taken its rows", meanwhile, || relog(&db, &[cf]));
    let deleted = db.durable();
    relog(&db, &[cf]);
    let base = db.shared.base().unwrap();
    base.cut_log(1, &db.shared.parts()).unwrap();
    let start = db.flush_stat().log_start;
    assert!(start > Lsn::FIRST && start < deleted && db.shared.oldest() == Some(later), "{start}: cut in the midst");
    for seed in [49, 50] {
        let again = after_power_cut(&disk, seed);
        assert_eq!(get(&again, cf, b"k"), None);
        assert_eq!(get(&again, cf, b"stays").as_deref(), Some(&b"v"[..]));
        assert!(get(&again, later, b"later").is_some());
    }
    let again = with_planted("re-log counts without its beginning", || after_power_cut(&disk, 51));
    assert!(get(&again, cf, b"k").is_some(), "the test sees nothing");
}

/// Goal: re-logged rows are flushed later like any others, including deletions of values in the LSM tree, and a
/// large transaction retains log no longer than its families need it. Method: both between re-logs and flushes,
/// with openings in between.
#[test]
fn relogged_rows_are_flushed_later_and_free_large_transactions() {
    let (env, disk) = Env::simulated(51);
    let db = open(env, tiny());
    let (cf, padding) = (db.create_family(), db.create_family());
    let f = db.family(cf);
    put_one(&db, &f, b"a", b"1");
    put_one(&db, &f, b"b", b"1");
    db.flush_cf(&[cf]).unwrap();
    write_one(&db, cf, b"a", Write::Delete);
    let mut large = begin(&db);
    for n in 0..5_u8 {
        assert_eq!(large.insert(&f, &[n], &[n; 20_000]).unwrap(), Insert::Done);
    }
    large.commit(true).unwrap().block().unwrap();
    relog(&db, &[cf]);
    pad(&db, padding, 0);
    let since = db.unflushed(cf).since.unwrap();
    db.shared.base().unwrap().cut_log(1, &db.shared.parts()).unwrap();
    assert_eq!(db.flush_stat().log_start, since, "the large transaction's chunks are gone");
    let check = |db: &Db| {
        assert_eq!((get(db, cf, b"a"), get(db, cf, b"b").as_deref()), (None, Some(&b"1"[..])));
        (0..5_u8).for_each(|n| assert_eq!(get(db, cf, &[n]), Some(vec![n; 20_000])));
    };
    let again = after_power_cut(&disk, 52);
    check(&again);
    for db in [&db, &again] {
        db.flush_cf(&[cf]).unwrap();
        assert_eq!(db.unflushed(cf).since, None);
        let trees = db.level_stat().trees;
        let tree = trees.iter().find(|tree| tree.state.cfs == [cf]).unwrap();
        assert_eq!(tree.state.live_keys, 6);
    }
    check(&after_power_cut(&disk, 53));
}

/// Goal: a power cut at any call of a re-log, or of the cut after it, loses no row. Method: the states of the disk
/// at each call.
#[test]
fn power_cut_at_any_call_of_a_relog_loses_nothing() {
    let (env, disk) = Env::simulated(54);
    let db = open(env, tiny());
    let (cf, padding) = (db.create_family(), db.create_family());
    put_one(&db, &db.family(cf), b"k", b"v");
    put_one(&db, &db.family(cf), b"large", &[7; 50_000]);
    pad(&db, padding, 0);
    let moments: Arc<Mutex<Vec<CrashPoint>>> = Arc::default();
    let noted = Arc::clone(&moments);
    disk.watch(move |point| noted.lock().push(point));
    relog(&db, &[cf]);
    db.shared.base().unwrap().cut_log(1, &db.shared.parts()).unwrap();
    let moments = std::mem::take(&mut *moments.lock());
    assert!(moments.len() > 4, "{} moments", moments.len());
    let random = SimRandom::new(55);
    for point in &moments {
        for picks in [point.none_kept(), point.drawn(&random)] {
            let again = open(Env::over(point.state(&picks), 56), tiny());
            assert_eq!(get(&again, cf, b"k").as_deref(), Some(&b"v"[..]), "call {}", point.calls());
            assert_eq!(get(&again, cf, b"large"), Some(vec![7; 50_000]), "call {}", point.calls());
        }
    }
}

/// Goal: R5: small families are re-logged together, a large one is flushed, and above an eighth of the limit the
/// heaviest one is flushed. Method: direct calls of the choice.
#[test]
fn relogs_stay_within_an_eighth_of_the_limit() {
    let families = Families::with_levels();
    let [a, b, c] = [families.create(), families.create(), families.create()];
    let mut relogs = Relogs::default();
    let done = |relogs: &mut Relogs, cf, bytes| {
        relogs.0.insert(cf, Done { position: Lsn::new(5000), bytes });
    };
    assert_eq!(relogs.way(&[], 8000, &families), None);
    let all = [(a, 300), (b, 500), (c, 600)];
    assert_eq!(relogs.way(&all, 8000, &families), Some(Way::Relog(vec![a, b])), "c does not fit");
    assert_eq!(relogs.way(&[(a, FLUSH_FLOOR_BYTES)], u64::MAX, &families), Some(Way::Flush(a)));
    done(&mut relogs, b, 500);
    done(&mut relogs, c, 400);
    assert_eq!(relogs.way(&[(a, 100)], 8000, &families), Some(Way::Relog(vec![a])));
    assert_eq!(relogs.way(&[(a, 300)], 8000, &families), Some(Way::Flush(b)), "the heaviest");
    assert_eq!(relogs.way(&[(b, 600)], 8000, &families), Some(Way::Relog(vec![b])), "in place of what it was");
    relogs.flushed(b);
    assert_eq!(relogs.way(&[(a, 300)], 8000, &families), Some(Way::Relog(vec![a])));
    assert_eq!(relogs.position(c), Lsn::new(5000));
    families.remove(c);
    assert_eq!(relogs.way(&[(a, 900)], 8000, &families), Some(Way::Relog(vec![a])), "c is gone");
}

//! Families that are freed while transactions still write to them, and table locks after a change of the catalog.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use collie_base::CfId;
use collie_engine::{Env, Isolation, TableLock, TableLockMode};
use common::{all, begin, get_one, next_statement, open_still, put, put_one};

/// How the writer ends whose family was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    Rollback,
    RollbackToSavepoint,
    PowerCut,
}

/// Goal: the DROP TABLE race of Angulo's thesis (figure 3.3) at the engine, which knows no table locks: a family that
/// is freed while a transaction has staged writes to it breaks neither memory nor the log. Whatever the transaction
/// does next, other families keep their rows, the log replays, and no new family gets the old one's id and rows.
/// Method: free it between writes of many log pieces, end the writer each way, cut the power, open twice.
#[test]
fn family_freed_under_a_writer_breaks_nothing() {
    let ends = [End::Commit, End::Rollback, End::RollbackToSavepoint, End::PowerCut];
    for (seed, end) in (0..8_u64).flat_map(|seed| ends.map(|end| (seed, end))) {
        let (env, disk) = Env::simulated(seed);
        let (db, _) = open_still(env).unwrap();
        let (kept, freed) = (db.create_family(), db.create_family());
        let (f, g) = (db.family(kept), db.family(freed));
        put_one(&db, &f, b"row", b"kept");
        put_one(&db, &g, b"row", b"old");
        let mut writer = db.session().unwrap();
        begin(&mut writer);
        put(&mut writer, &f, b"beside", b"1");
        let mark = writer.savepoint();
        next_statement(&mut writer);
        for n in 0..200_u8 {
            put(&mut writer, &g, &[n], &[n; 100]);
        }
        put(&mut writer, &g, b"row", b"new");
        db.drop_family(freed);
        assert_eq!(db.rows_in(freed), 0);
        assert!(!db.families().contains(&freed), "to ask for its size does not make it");
        // A transaction that holds the old family continues, and a request for the id gives an empty family.
        put(&mut writer, &g, b"late", b"1");
        let again = db.family(freed);
        next_statement(&mut writer);
        assert!(all(&writer, &again).is_empty());
        put(&mut writer, &again, b"later", b"1");
        match end {
            End::Commit => _ = writer.commit(true).unwrap().block().unwrap(),
            End::Rollback => writer.rollback(),
            End::RollbackToSavepoint => {
                writer.rollback_to(mark);
                writer.commit(true).unwrap().block().unwrap();
            }
            End::PowerCut => put_one(&db, &f, b"other", b"1"), // makes the writer's logged chunks durable
        }
        db.tick();
        let beside = matches!(end, End::Commit | End::RollbackToSavepoint).then_some(&b"1"[..]);
        assert_eq!(get_one(&db, &f, b"beside").as_deref(), beside, "{end:?}");
        let new = db.create_family();
        put_one(&db, &db.family(new), b"row", b"new");
        let mut disk = disk.power_cut(seed);
        for open in 0..2 {
            let (db, _) = open_still(Env::over(disk.clone(), seed + 100 + open)).unwrap();
            assert_eq!(get_one(&db, &db.family(kept), b"row").as_deref(), Some(&b"kept"[..]), "{end:?}");
            assert_eq!(get_one(&db, &db.family(kept), b"beside").as_deref(), beside, "{end:?}");
            assert_eq!(get_one(&db, &db.family(new), b"row").as_deref(), Some(&b"new"[..]), "{end:?}");
            // The log still names the family: the catalog that dropped it frees it again.
            let row = get_one(&db, &db.family(freed), b"row");
            assert_eq!(row.as_deref(), Some(if end == End::Commit { &b"new"[..] } else { b"old" }), "{end:?}");
            db.drop_family(freed);
            assert!(db.create_family() > new, "{end:?}: an id is given out once");
            disk = disk.power_cut(seed + 7);
        }
    }
}

/// Goal: locks taken from the acknowledgement of a change of the catalog end when the caller drops them; otherwise with
/// it. Method: another session asks for the table at each moment.
#[test]
fn locks_of_a_changed_catalog_end_when_their_owner_says() {
    for taken in [true, false] {
        let (env, _disk) = Env::simulated(1);
        let (db, _) = open_still(env).unwrap();
        let (mut definer, mut other) = (db.session().unwrap(), db.session().unwrap());
        definer.begin(Isolation::ReadCommitted, false).unwrap();
        assert_eq!(definer.lock_table(7, TableLockMode::AccessExclusive).unwrap(), TableLock::Granted);
        next_statement(&mut definer);
        put(&mut definer, &db.family(CfId::CATALOG), b"definition", b"1");
        other.begin(Isolation::ReadCommitted, false).unwrap();
        let mut free = || other.lock_table(7, TableLockMode::AccessShare).unwrap() == TableLock::Granted;
        let mut ack = definer.commit(true).unwrap();
        assert!(!free());
        let locks = taken.then(|| ack.take_locks().unwrap());
        assert!(!free());
        ack.block().unwrap();
        assert_eq!(free(), !taken);
        drop(locks);
        assert!(free());
    }
}

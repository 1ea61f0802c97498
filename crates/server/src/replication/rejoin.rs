//! A former primary whose log goes on where that of the node that leads does not: the tail is set aside, and the node
//! follows.
//!
//! ```text
//! copied to diverged/ -> histories that begin there forgotten -> log cut -> opened as a replica
//! ```
//!
//! # Invariants
//! - J1. Nothing is cut before a copy of it is on disk, and the commits in it are counted and logged (REPL-13).
//! - J2. After a kill at any point the log is found as before or cut; running it again gives the same result.
//! - J3. If the LSM levels have rows from above the position, or the log does not reach back to it, nothing is cut: the
//!   directory is rebuilt, and keeps the copied tail.

use std::{io, path::Path};

use collie_base::Lsn;
use collie_engine::{checkpoint_of, forget_histories_from, is_commit_record, log_dir_of};
use collie_env::{Env, fault_point};
use collie_wal::{CutRefusal, Truncation, WalError, inspect};

use crate::ServeError;
use crate::log_lines;

/// The outcome for the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejoin {
    /// It was cut.
    Cut,
    /// It could not be cut: the directory has to be rebuilt (J3).
    Rebuild,
}

/// Sets aside the log of the closed database in `data` from `at` on.
///
/// # Errors
/// Those of the disk.
pub(crate) fn set_aside(data: &Path, at: Lsn, env: &Env) -> Result<Rejoin, ServeError> {
    let open = |error: collie_engine::EngineError| ServeError::Open(error.into());
    let failed =
        |error: WalError| ServeError::Replication { message: format!("the log cannot be cut at {at}: {error}") };
    let log_dir = log_dir_of(data, env).map_err(open)?;
    let plan = |at: Lsn| Truncation::plan(env, &log_dir, at, Lsn::ZERO);
    let (truncation, can_cut) = match plan(at) {
        Ok(truncation) => (truncation, true),
        Err(WalError::Cut { why, .. }) => {
            log_lines::warn(&format_args!("the log cannot be cut at {at}, where that of the primary parts: {why}"));
            // J3: everything from there on is copied, with as many records before it as necessary.
            match why {
                CutRefusal::NothingLeft { lowest } => (plan(lowest).map_err(failed)?, false),
                CutRefusal::NotABoundary { below, .. } => (plan(below).map_err(failed)?, false),
                _ => return Ok(Rejoin::Rebuild),
            }
        }
        Err(error) => return Err(failed(error)),
    };
    let end = truncation.removed().end;
    let target = data.join("diverged").join(format!("from-{:016X}-to-{:016X}", at.get(), end.get()));
    let above = data.join("diverged");
    // The new directory is durable before the copy in it counts.
    let made = env.files.create_dir_all(&above).and_then(|()| env.files.sync_dir(data));
    made.map_err(|source: io::Error| ServeError::Io {
        operation: "create",
        what: above.display().to_string(),
        source,
    })?;
    // J1
    if truncation.back_up_to(&target).map_err(failed)? {
        let found = inspect(env, &target).map_err(failed)?;
        let records = found.records(at.max(found.start())).filter_map(Result::ok).filter(|record| record.lsn >= at);
        let commits = records.filter(|record| is_commit_record(record.tag)).count();
        log_lines::warn(&format_args!(
            "set aside {commits} commits that the primary does not have, from {at} to {end}: collie wal dump {}",
            target.display()
        ));
    }
    fault_point!("truncate.copied");
    if !can_cut {
        return Ok(Rejoin::Rebuild);
    }
    // J3: rows that were flushed from above the position would survive a cut of the log.
    let flushed = checkpoint_of(data, env).map_err(open)?;
    if flushed > at {
        log_lines::warn(&format_args!("tables were flushed up to {flushed}, and the log of the primary parts at {at}"));
        return Ok(Rejoin::Rebuild);
    }
    // J2: each step from here on can be repeated after a kill.
    forget_histories_from(data, at, env).map_err(open)?;
    fault_point!("truncate.forgotten");
    truncation.cut().map_err(failed)?;
    fault_point!("truncate.cut");
    Ok(Rejoin::Cut)
}

#[cfg(test)]
mod tests {
    use collie_base::{CfId, Term};
    use collie_engine::{
        Db, DirectoryIdentity, Insert, Isolation, Options, Replica, ReplicaOptions, Seed, StatementKind,
    };
    use collie_env::{Fault, SimFiles};
    use collie_wal::ShipOptions;

    use super::*;

    const DATA: &str = "/old";
    const CF: CfId = CfId::new(11);

    fn options() -> Options {
        let mut options = Options { background: false, ..Options::small() };
        options.log.threads = false;
        options
    }

    fn put(db: &Db, key: u8) {
        let mut session = db.session().unwrap();
        session.begin(Isolation::ReadCommitted, false).unwrap();
        session.begin_statement(StatementKind::Write).unwrap();
        assert_eq!(session.insert(&db.family(CF), &[key], b"value").unwrap(), Insert::Done);
        session.commit(true).unwrap().block().unwrap();
    }

    fn ship(from: &Db, to: &Replica) {
        let log = from.log().unwrap();
        log.flush_wal(true).unwrap();
        let mut shipper = log.ship("replica.test", ShipOptions::from(to.end())).unwrap();
        let mut bytes = Vec::new();
        while let Some(shipment) = shipper.try_next(1 << 12, &mut bytes).unwrap() {
            to.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
            bytes.clear();
            to.set_show(shipment.durable);
        }
    }

    fn open_replica(env: &Env, dir: &str) -> Replica {
        Replica::open(dir.as_ref(), options(), ReplicaOptions::default(), env, &mut |_| ()).unwrap().0
    }

    /// Returns a promoted replica, the position where its history parts from the old primary's, and the old primary's
    /// disk, which was crashed and opened again by itself since, with three commits of its own, and flushed if
    /// `is_flushed`.
    fn parted(is_flushed: bool) -> (Db, Lsn, SimFiles) {
        let (env, disk) = Env::simulated(1);
        let open = |env: &Env| Db::open(DATA.as_ref(), options(), env.clone(), &mut |_| ()).unwrap().0;
        let old = open(&env);
        (0..5).for_each(|key| put(&old, key));
        let (there, _) = Env::simulated(2);
        let (term, histories) = old.histories();
        let seed = Seed { cluster_id: old.cluster_id(), node_id: 9, term, histories, consistent_at: Lsn::ZERO };
        seed.plant(&there, "/new".as_ref()).unwrap();
        let replica = open_replica(&there, "/new");
        ship(&old, &replica);
        let at = replica.end();
        let new = replica.promote(Term::new(term.get() + 1)).unwrap();
        put(&new, 100);
        put(&old, 50);
        drop(old);
        let disk = disk.process_kill();
        let old = open(&Env::over(disk.clone(), 3));
        put(&old, 51);
        put(&old, 52);
        if is_flushed {
            old.flush_all().unwrap();
        }
        old.close().unwrap();
        (new, at, disk.process_kill())
    }

    /// Opens the result as a replica and lets it follow.
    fn follows(env: &Env, new: &Db, at: Lsn) {
        let who = DirectoryIdentity::read(DATA.as_ref(), env).unwrap().unwrap();
        assert!(who.follows && who.histories.iter().all(|history| history.start < at), "{who:?}");
        let rejoined = open_replica(env, DATA);
        assert_eq!(rejoined.end(), at);
        ship(new, &rejoined);
        assert_eq!(rejoined.state_hash().unwrap().1, new.state_hash(&[]).unwrap().1);
        assert_eq!(rejoined.histories(), new.histories());
        // The histories on which views and health are based (T202).
        assert_eq!(rejoined.db().unwrap().histories(), new.histories());
        rejoined.close().unwrap();
    }

    fn commits_aside(env: &Env) -> usize {
        let names = env.files.list(format!("{DATA}/diverged").as_ref()).unwrap();
        let [name] = &names[..] else { panic!("{names:?}") };
        let found = inspect(env, format!("{DATA}/diverged/{name}").as_ref()).unwrap();
        found.records(found.start()).filter_map(Result::ok).filter(|record| is_commit_record(record.tag)).count()
    }

    /// Goal: J1, J2: the commits that only the old primary has are in the copy; it follows and has what the new one
    /// has; a power cut at any call does not change the result once it is run again. Method: each call cut, then run
    /// again; a directory that follows afterwards.
    #[test]
    fn a_former_primary_is_cut_where_it_parts_and_follows() {
        let (new, at, before) = parted(false);
        let env = Env::over(before.process_kill(), 7);
        assert_eq!(set_aside(DATA.as_ref(), at, &env).unwrap(), Rejoin::Cut);
        assert!(commits_aside(&env) >= 3);
        follows(&env, &new, at);
        let mut cut_short = 0;
        for call in 1..400 {
            let disk = before.process_kill();
            let env = Env::over(disk.clone(), 7);
            disk.fail_call(disk.calls() + call, Fault::PowerCut);
            if set_aside(DATA.as_ref(), at, &env).is_ok() {
                break;
            }
            cut_short += 1;
            let env = Env::over(disk.power_cut(call), 8);
            assert_eq!(set_aside(DATA.as_ref(), at, &env).unwrap(), Rejoin::Cut, "call {call}");
            assert!(commits_aside(&env) >= 3, "call {call}");
            follows(&env, &new, at);
        }
        assert!((10..400).contains(&cut_short), "{cut_short} calls");
    }

    /// Goal: J1, J3: if the log begins above the position where it parts, all of its commits are in the copy before the
    /// directory is rebuilt. Method: a position below the first record.
    #[test]
    fn a_former_primary_whose_log_begins_above_is_copied_whole() {
        let (_new, _at, disk) = parted(false);
        let env = Env::over(disk, 7);
        let all = {
            let found = inspect(&env, format!("{DATA}/wal").as_ref()).unwrap();
            found.records(found.start()).filter_map(Result::ok).filter(|record| is_commit_record(record.tag)).count()
        };
        assert!(all >= 8, "{all} commits");
        assert_eq!(set_aside(DATA.as_ref(), Lsn::new(1), &env).unwrap(), Rejoin::Rebuild);
        assert_eq!(commits_aside(&env), all);
    }

    /// Goal: J3: if tables have rows that are to be cut, nothing is cut, and the copy is made all the same. Method: a
    /// flush before.
    #[test]
    fn a_former_primary_with_flushed_rows_is_copied_and_not_cut() {
        let (_new, at, disk) = parted(true);
        let env = Env::over(disk, 7);
        let end = |env: &Env| inspect(env, format!("{DATA}/wal").as_ref()).unwrap().records(at).count();
        let before = end(&env);
        assert_eq!(set_aside(DATA.as_ref(), at, &env).unwrap(), Rejoin::Rebuild);
        assert_eq!(end(&env), before);
        assert!(commits_aside(&env) >= 3);
    }
}

//! Which jobs may flush which families at a time.

use std::sync::mpsc::channel;

use collie_base::CfId;
use collie_txn::Txns;

use super::*;
use crate::Options;
use crate::options::{JOBS_DEFAULT, JOBS_MAX};
use crate::shared::flushing::tests::tiny;
use crate::{Db, Env, Isolation, StatementKind, Upsert};

fn jobs_of(txns: &Txns<crate::log::EngineLog>) -> Jobs {
    Jobs::new(JOBS_DEFAULT, || txns.keep_place()).unwrap()
}

/// Goal: J1, J3: a family is in one claim at a time, other families stay free, and no more jobs than snapshot slots
/// are in progress. Method: concurrent claims; threads that wait for a family and for a slot until these are given
/// back.
#[test]
fn claim_waits_for_its_families_and_a_place_and_for_nothing_else() {
    let (env, _disk) = Env::simulated(1);
    let (db, _) = Db::open(std::path::Path::new("/db"), tiny(), env, &mut |_| ()).unwrap();
    let jobs = jobs_of(&db.shared.txns);
    let [a, b, c] = [1, 2, 3].map(CfId::new);
    let first = jobs.claim(|| vec![a, b]);
    assert!(jobs.try_claim(&[b, c]).is_none());
    drop(jobs.try_claim(&[c]).unwrap());
    let others: Vec<_> = (1..jobs.count()).map(|_| jobs.claim(Vec::new)).collect();
    assert!(jobs.inner.lock().places.is_empty());
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        for wanted in [vec![b, c], vec![c]] {
            let (tell, jobs) = (tell.clone(), &jobs);
            scope.spawn(move || {
                let claim = jobs.claim(|| wanted.clone());
                tell.send(wanted).unwrap();
                drop(claim);
            });
        }
        assert!(told.try_recv().is_err(), "there is no place");
        drop(others);
        assert_eq!(told.recv().unwrap(), [c], "the other one waits for its family");
        drop(first);
        assert_eq!(told.recv().unwrap(), [b, c]);
    });
    let inner = jobs.inner.lock();
    assert_eq!((inner.claimed.len(), inner.places.len()), (0, JOBS_DEFAULT));
}

/// Goal: as many flushes are in progress at a time as `store.compaction_threads` says, and no more, J3. Method:
/// more families than that, flushed by one call on the real file system; no flush may end before that number of
/// flushes have written their tables.
#[test]
fn as_many_flushes_run_side_by_side_as_the_options_say() {
    for count in [1, 3, 6] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { compaction_threads: count, background: false, ..Options::small() };
        let (db, _) = Db::open(&dir.path().join("db"), options, Env::real(), &mut |_| ()).unwrap();
        let mut session = db.session().unwrap();
        let cfs: Vec<CfId> = (0..8)
            .map(|number| {
                let named = session.create_named_family(&format!("cf {number}"), "").unwrap();
                session.begin(Isolation::ReadCommitted, false).unwrap();
                session.begin_statement(StatementKind::Write).unwrap();
                Upsert::new(&named.family, b"k", Some(b"v")).block(&mut session, None).unwrap();
                session.commit(true).unwrap().block().unwrap();
                named.family.id()
            })
            .collect();
        let base = db.shared.base().unwrap();
        std::thread::scope(|scope| {
            let held = base.hold_ends();
            let flushes = scope.spawn(|| db.flush_cf(&cfs));
            let at_work = || base.levels().trees().iter().filter(|tree| tree.live_keys == 1).count();
            while at_work() < count {
                std::thread::yield_now();
            }
            let inner = base.jobs.inner.lock();
            assert_eq!((inner.claimed.len(), inner.places.len()), (count, 0));
            drop(inner);
            assert_eq!(at_work(), count, "nobody has ended, so nobody else has begun");
            drop(held);
            flushes.join().unwrap().unwrap();
        });
        assert_eq!(db.flush_stat().flushes, 8);
    }
}

/// Goal: a database is not opened with zero jobs, nor with more than the maximum. Method: both ends.
#[test]
fn counts_of_jobs_out_of_bounds_are_refused() {
    for compaction_threads in [0, JOBS_MAX + 1] {
        let (env, _disk) = Env::simulated(1);
        let options = Options { compaction_threads, ..tiny() };
        let said = Db::open(std::path::Path::new("/db"), options, env, &mut |_| ()).unwrap_err().to_string();
        assert_eq!(said, format!("store.compaction_threads cannot be \"{compaction_threads}\": it takes 1 to 64"));
    }
}

//! Who may flush what at a time.

use std::sync::mpsc::channel;

use collie_base::CfId;
use collie_txn::Txns;

use super::*;
use crate::flusher::tests::tiny;
use crate::{Db, Env};

fn jobs_of(txns: &Txns<crate::log::EngineLog>) -> Jobs {
    Jobs::new(|| txns.keep_place()).unwrap()
}

/// Goal: J1, J3: a family is in one claim at a time, others are free meanwhile, and no more jobs than places are under way. Method:
/// claims beside each other; threads that wait for a family and for a place until these are given back.
#[test]
fn claim_waits_for_its_families_and_a_place_and_for_nothing_else() {
    let (env, _disk) = Env::simulated(1);
    let (db, _) = Db::open(std::path::Path::new("/db"), tiny(), env, &mut |_| ()).unwrap();
    let jobs = jobs_of(&db.shared.txns);
    let [a, b, c] = [1, 2, 3].map(CfId::new);
    let first = jobs.claim(|| vec![a, b]);
    assert!(jobs.try_claim(&[b, c]).is_none());
    drop(jobs.try_claim(&[c]).unwrap());
    let others: Vec<_> = (1..JOBS_MAX).map(|_| jobs.claim(Vec::new)).collect();
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
    assert_eq!((inner.claimed.len(), inner.places.len()), (0, JOBS_MAX));
}

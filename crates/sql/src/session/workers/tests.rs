//! Work on worker threads: bounded, cancelled, given up.

use std::{path::Path, sync::mpsc};

use collie_engine::{Db, Options};
use collie_env::{Env, SimFiles};
use collie_sync::block_on;

use super::*;
use crate::error::SqlState;

fn session() -> (Db, collie_engine::Session) {
    let mut options = Options { background: false, ..Options::small() };
    options.log.threads = false;
    let (db, _) = Db::open(Path::new("/db"), options, Env::over(SimFiles::default(), 1), &mut |_| ()).unwrap();
    let session = db.session().unwrap();
    (db, session)
}

/// Goal: each piece of work returns its result, however many there are for the threads; a panic reaches only its own
/// session (W3). Method: more work than threads, with a panic among it.
#[test]
fn work_comes_back_and_a_panic_is_its_own() {
    let (_db, session) = session();
    let (workers, cancel) = (Workers::new(2), session.cancel_handle());
    let works: Vec<_> = (0..20_u64).map(|n| workers.run(&cancel, move || n * n)).collect();
    let panics = workers.run(&cancel, || assert_eq!(1, 2, "planted"));
    for (n, work) in (0..20_u64).zip(works) {
        assert_eq!(block_on(work).unwrap(), n * n);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| block_on(panics))).is_err());
    assert_eq!(block_on(workers.run(&cancel, || 7)).unwrap(), 7);
    assert!(workers.0.queue.lock().threads <= 2);
}

/// Goal: a cancel ends the wait at once, and work that has not begun never begins (W2). Method: the only thread is held
/// by work that waits for the test; two more pieces, one of which is cancelled.
#[test]
fn cancelled_work_is_not_waited_for() {
    let (db, first) = session();
    let second = db.session().unwrap();
    let workers = Workers::new(1);
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let held = workers.run(&first.cancel_handle(), move || wait.recv().is_ok());
    let (of_second, of_first) = (tell.clone(), tell);
    let cancelled = workers.run(&second.cancel_handle(), move || of_second.send("cancelled"));
    let other = workers.run(&first.cancel_handle(), move || of_first.send("other"));
    second.cancel_handle().cancel();
    assert_eq!(block_on(cancelled).unwrap_err().state(), SqlState::QUERY_CANCELED);
    go.send(()).unwrap();
    assert!(block_on(held).unwrap());
    block_on(other).unwrap().unwrap();
    assert_eq!(told.iter().collect::<Vec<_>>(), ["other"]);
}

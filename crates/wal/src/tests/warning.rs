//! Warnings: delivered with nothing held, in order, by logs with and without threads.

use std::{
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use collie_env::{Env, Fault, SimFiles};
use parking_lot::Mutex;

use crate::{
    Level, Log, Mark, Options, WalError, Warnings,
    copies::faulty::{FaultyDirs, Trouble},
    testing::{eventually, tiny},
};

/// A log whose warnings go to a function that calls the log: figures, then a record that it waits for on disk.
struct Talking {
    log: Arc<OnceLock<Log>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Talking {
    fn open(env: &Env, options: Options) -> Self {
        let (log, said): (Arc<OnceLock<Log>>, Arc<Mutex<Vec<String>>>) = Default::default();
        let warnings = Warnings::to({
            let (log, said) = (log.clone(), said.clone());
            move |line| {
                said.lock().push(line.to_owned());
                let Some(log) = log.get() else { return };
                assert!(log.stat().segments > 0);
                let appended = log.writer().append(7, &[line.as_bytes()]);
                let durable =
                    appended.and_then(|at| log.wait(Mark::Durable, at.end)).and_then(|()| log.flush_wal(true));
                // What a thread of the log notices while the test closes the log is delivered too.
                assert!(matches!(durable, Ok(()) | Err(WalError::Closed)), "{durable:?}");
            }
        });
        let (opened, _) = Log::open(env, "/wal".as_ref(), Options { warnings, ..options }).unwrap();
        log.set(opened).unwrap();
        Self { log, said }
    }

    fn log(&self) -> &Log {
        self.log.get().unwrap()
    }

    fn has_said(&self, part: &str) -> bool {
        self.said.lock().iter().any(|line| line.contains(part))
    }
}

/// Runs `test` and fails if it does not return: then a thread waits for a lock that it holds itself.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap(),
    }
}

/// Goal: the function that takes warnings may call the log whatever the warning is about: no caller of it holds
/// anything. Method: a file that fails in a flush, a copy that fails in one and comes back, with threads and without;
/// the function waits for a record of its own each time, and all records are there.
#[test]
fn warnings_are_told_with_nothing_held() {
    within_a_minute(|| {
        for threads in [false, true] {
            let disk = SimFiles::new();
            let dirs = FaultyDirs::new(&disk);
            // Long enough that no copy is left out because the machine is busy.
            let copy_stall = Duration::from_millis(500);
            let options = Options { threads, copies: vec!["/copy".into()], copy_stall, ..tiny() };
            let talking = Talking::open(&dirs.env(3), options);
            let commit = || talking.log().writer().commit(1, b"commit", Level::Disk).unwrap();
            commit();
            dirs.set("/copy", Some(Trouble::FailsAfter(0)));
            for _ in 0..4 {
                commit();
            }
            // Another thread may be delivering it.
            eventually("the copy is said to be left out", || talking.has_said("/copy"));
            dirs.set("/copy", None);
            if !threads {
                talking.log().tick().unwrap();
            }
            eventually("the copy is said to be back", || talking.has_said("is up to date again"));
            eventually("both are told and waited for", || {
                talking.log().read(crate::Lsn::ZERO).filter(|r| r.as_ref().unwrap().tag == 7).count() >= 2
            });
            talking.log().close().unwrap();
        }
        for call in 1..6 {
            let disk = SimFiles::new();
            let talking = Talking::open(&Env::over(disk.clone(), 4), tiny());
            disk.fail_call(disk.calls() + call, Fault::Eio);
            for _ in 0..4 {
                talking.log().writer().commit(1, b"commit", Level::Disk).unwrap();
            }
            if talking.log().stat().rewrites > 0 {
                assert!(talking.has_said("that file is not used again"), "{:?}", talking.said.lock());
            }
            talking.log().close().unwrap();
        }
    });
}

/// Goal: lines come one at a time, in order, and no more wait than allowed. Method: lines noted inside the function,
/// from several threads, and 2,000 that no thread delivers.
#[test]
fn warnings_come_in_order_one_at_a_time() {
    let said: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (busy, again): (Arc<Mutex<()>>, Arc<OnceLock<Warnings>>) = Default::default();
    let warnings = Warnings::to({
        let (said, busy, again) = (said.clone(), busy.clone(), again.clone());
        move |line| {
            let _alone = busy.try_lock().expect("one at a time");
            said.lock().push(line.parse().unwrap());
            if line == "3" {
                let again = again.get().unwrap();
                again.note("1000000");
                again.tell();
            }
        }
    });
    again.set(warnings.clone()).unwrap();
    (0..5).for_each(|n: u64| warnings.note(n.to_string()));
    warnings.tell();
    assert_eq!(*said.lock(), [0, 1, 2, 3, 4, 1_000_000]);
    said.lock().clear();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let warnings = warnings.clone();
            scope.spawn(move || {
                for n in 10..110_u64 {
                    warnings.note((thread * 1_000 + n).to_string());
                    warnings.tell();
                }
            });
        }
    });
    warnings.tell();
    let said = std::mem::take(&mut *said.lock());
    assert_eq!(said.len(), 400);
    for thread in 0..4 {
        let of: Vec<u64> = said.iter().filter(|n| **n / 1_000 == thread).copied().collect();
        assert!(of.is_sorted(), "{of:?}");
    }
    let kept: Arc<Mutex<usize>> = Arc::default();
    let counted = kept.clone();
    let warnings = Warnings::to(move |_| *counted.lock() += 1);
    (0..2_000).for_each(|n| warnings.note(n.to_string()));
    warnings.tell();
    assert_eq!(*kept.lock(), 1_000);
}

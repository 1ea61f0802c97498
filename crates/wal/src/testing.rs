//! Helpers that the tests of this crate share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Wake, Waker},
    time::Duration,
};

use collie_env::{Clock, RealClock};
use parking_lot::Mutex;

pub(crate) use crate::lab::lab_options as tiny;
use crate::{Log, Lsn};

/// Returns the body of every record of the log.
pub(crate) fn bodies(log: &Log) -> Vec<Vec<u8>> {
    log.read(Lsn::ZERO).map(|record| record.unwrap().body).collect()
}

/// Waits, without a fixed sleep, for an effect of another thread; fails after two minutes.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = RealClock.now_ns();
    while !holds() {
        assert!(RealClock.now_ns() - start < 120_000_000_000, "{what} does not happen");
        std::thread::yield_now();
    }
}

/// The question that a waker asks when it is dropped, once.
struct Asks {
    question: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    answered: Arc<AtomicUsize>,
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Asks {
    fn drop(&mut self) {
        let Some(question) = self.question.lock().take() else { return };
        let (done, answer) = mpsc::channel();
        std::thread::spawn(move || {
            question();
            // No thread listens any more if it took too long.
            let _late = done.send(());
        });
        if answer.recv_timeout(Duration::from_secs(60)).is_ok() {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns a waker that, when it is dropped, has another thread run `question`, and counts in `answered` if that thread
/// finished during the drop: it does not if the dropping thread holds a mutex that `question` takes.
pub(crate) fn asks_when_dropped(answered: &Arc<AtomicUsize>, question: impl FnOnce() + Send + 'static) -> Waker {
    let question: Box<dyn FnOnce() + Send> = Box::new(question);
    Waker::from(Arc::new(Asks { question: Mutex::new(Some(question)), answered: answered.clone() }))
}

//! `Workers`: threads for work that cannot stop in between, such as parsing and planning a long text.
//!
//! A session awaits the work that it hands over, so that its own thread serves other sessions meanwhile. Work that
//! waits belongs in [`Database::block`](super::Database).
//!
//! # Invariants
//! - W1. There are at most `threads_max` threads; further work waits, first come, first served. Threads are started
//!   when they are needed.
//! - W2. A session that is cancelled or dropped does not wait for its work: work that has not begun then never begins,
//!   and the result of other work is dropped by its thread.
//! - W3. A panic of the work is passed on to the session that asked for it, and to no other.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use collie_engine::CancelHandle;
use parking_lot::{Condvar, Mutex};

use crate::{
    error::{Result, SqlError},
    exec::cancelled,
};

/// The stack of a thread, as large as that of a worker thread of the server.
const STACK_BYTES: usize = 8 << 20;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    threads_max: usize,
}

/// See the module's documentation. Dropping it ends its threads after the queued work.
pub(super) struct Workers(Arc<Shared>);

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("jobs", &self.0.queue.lock().jobs.len()).finish_non_exhaustive()
    }
}

impl Workers {
    /// Makes it for at most `threads_max` threads; at least one.
    pub(super) fn new(threads_max: usize) -> Self {
        let threads_max = threads_max.max(1);
        Self(Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), threads_max }))
    }

    /// Runs `work` for the session of `cancel`; the work begins whether the future is polled or not.
    ///
    /// # Errors
    /// From the future: 57014 and the other errors of a cancel (W2).
    pub(super) fn run<T: Send + 'static>(
        &self,
        cancel: &CancelHandle,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Work<T> {
        let slot = Arc::new(Mutex::new(Slot { done: None, waker: None, abandoned: false }));
        let filled = Arc::clone(&slot);
        self.give(Box::new(move || {
            if filled.lock().abandoned {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(work));
            let mut slot = filled.lock();
            if !slot.abandoned {
                slot.done = Some(done);
            }
            let waker = slot.waker.take();
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        Work { slot, cancel: cancel.clone() }
    }

    /// Drops a value that takes long to drop.
    pub(super) fn discard(&self, value: impl Send + 'static) {
        self.give(Box::new(move || drop(value)));
    }

    fn give(&self, job: Job) {
        let mut queue = self.0.queue.lock();
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() || queue.threads >= self.0.threads_max {
            drop(queue);
            self.0.changed.notify_one();
            return;
        }
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("collie-aside".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn(move || shared.serve()) {
            Ok(_) => queue.threads += 1,
            Err(_) if queue.threads == 0 => {
                // Without any thread, the caller's does the work.
                let job = queue.jobs.pop_back();
                drop(queue);
                job.into_iter().for_each(|job| job());
            }
            Err(_) => {}
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The threads are not joined: the last owner of the database may be work that one of them has just done.
        self.0.queue.lock().stopping = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.queue.lock();
            } else if queue.stopping {
                return;
            } else {
                queue.idle += 1;
                self.changed.wait(&mut queue);
                queue.idle -= 1;
            }
        }
    }
}

struct Slot<T> {
    done: Option<std::result::Result<T, Box<dyn Any + Send>>>,
    waker: Option<Waker>,
    abandoned: bool,
}

/// Work that was handed to a worker. Dropping it gives up the result (W2).
pub(super) struct Work<T> {
    slot: Arc<Mutex<Slot<T>>>,
    cancel: CancelHandle,
}

impl<T> Future for Work<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let mut slot = self.slot.lock();
        if let Some(done) = slot.done.take() {
            return Poll::Ready(Ok(done.unwrap_or_else(|panic| resume_unwind(panic))));
        }
        slot.waker = Some(cx.waker().clone());
        drop(slot);
        self.cancel.poll_cancelled(cx).map(|reason| Err::<T, SqlError>(cancelled(reason)))
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        let mut slot = self.slot.lock();
        slot.abandoned = true;
        slot.waker = None;
    }
}

#[cfg(test)]
mod tests;

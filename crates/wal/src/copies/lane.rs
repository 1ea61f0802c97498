//! `Lane`: a thread that makes one copy's calls one after the other, so that a copy that stalls delays only itself.
//!
//! Without a thread (`Options::threads` off) a lane makes each call at once, on the calling thread.
//!
//! # Invariants
//! - N1. Calls of a lane run in the order in which they were submitted.
//! - N2. The lane's thread keeps the copy's directory lock until its last call has returned: no other process opens the
//!   directory while a stalled call may still reach it.

use std::{collections::VecDeque, fmt, io, sync::Arc};

use collie_env::FileLock;
use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    /// Number of calls submitted so far; below, of calls done.
    given: u64,
    done: u64,
    stop: bool,
    ended: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The calls of one copy, see the module.
pub(super) struct Lane(Option<Arc<Shared>>);

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane({} waiting)", self.waiting())
    }
}

impl Lane {
    /// Creates a lane that makes its calls on the calling thread.
    pub(super) fn inline() -> Self {
        Self(None)
    }

    /// Starts a lane with a thread that holds `lock`.
    pub(super) fn start(name: &str, lock: Option<Arc<dyn FileLock>>) -> io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let here = shared.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            here.run();
            drop(lock);
            here.queue.lock().ended = true;
            here.changed.notify_all();
        })?;
        Ok(Self(Some(shared)))
    }

    /// Runs `job` after those submitted before it.
    pub(super) fn submit(&self, job: Job) {
        match &self.0 {
            None => job(),
            Some(shared) => {
                let mut queue = shared.queue.lock();
                queue.jobs.push_back(job);
                queue.given += 1;
                drop(queue);
                shared.changed.notify_all();
            }
        }
    }

    /// Returns the number of calls that are not done.
    pub(super) fn waiting(&self) -> usize {
        self.0.as_ref().map_or(0, |shared| {
            let queue = shared.queue.lock();
            queue.jobs.len() + usize::from(queue.running)
        })
    }

    /// Waits until the calls submitted so far are done; returns `false` if none completes for as long as `limit`.
    pub(super) fn drain(&self, limit: std::time::Duration) -> bool {
        let Some(shared) = &self.0 else { return true };
        let mut queue = shared.queue.lock();
        let given = queue.given;
        while queue.done < given && !queue.ended {
            let done = queue.done;
            if shared.changed.wait_for(&mut queue, limit).timed_out() && queue.done == done {
                return false;
            }
        }
        true
    }

    /// Returns the number of calls done, if a call is running.
    pub(super) fn moves(&self) -> Option<u64> {
        let queue = self.0.as_ref()?.queue.lock();
        queue.running.then_some(queue.done)
    }

    /// Ends the thread after the calls submitted so far. Waits for the end, but at most `limit` without a change.
    pub(super) fn stop(&self, limit: std::time::Duration) {
        let Some(shared) = &self.0 else { return };
        let mut queue = shared.queue.lock();
        queue.stop = true;
        shared.changed.notify_all();
        while !queue.ended && !shared.changed.wait_for(&mut queue, limit).timed_out() {}
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.queue.lock().stop = true;
            shared.changed.notify_all();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            match queue.jobs.pop_front() {
                Some(job) => {
                    queue.running = true;
                    drop(queue);
                    job();
                    queue = self.queue.lock();
                    (queue.running, queue.done) = (false, queue.done + 1);
                    self.changed.notify_all();
                }
                None if queue.stop => return,
                None => self.changed.wait(&mut queue),
            }
        }
    }
}

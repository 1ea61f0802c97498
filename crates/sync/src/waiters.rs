//! `Waiters`: wakers parked until a growing number passes them, in buckets so that registrations do not contend.
//!
//! It is not a queue: wake-ups have no order, and a wake-up is only a hint to check the condition again.
//!
//! # Invariants
//! - W1. A bucket's `lowest` is at most the lowest key registered in it (`u64::MAX` if it is empty); written under its
//!   lock.
//! - W2. No wake-up is lost: a waiter registers, then checks its condition; a waker changes the condition, then calls
//!   [`Waiters::wake_through`]. The fences at the end of the first and at the start of the second call are SeqCst: each
//!   stops the store before it from passing the load after it, so at least one side sees the other.
//!
//! Checked by a loom model (leaving out either fence makes it fail) and by the tests below.

use crate::{
    Mutex, Padded,
    atomic::{AtomicU64, Ordering, fence},
    mutant,
};
use std::task::Waker;

#[cfg(not(loom))]
const BUCKETS: usize = 16;
#[cfg(loom)]
const BUCKETS: usize = 1;

/// Wakers that wait for a number to reach their key.
#[derive(Debug)]
pub struct Waiters {
    buckets: Box<[Padded<Bucket>]>,
    next_id: Padded<AtomicU64>,
}

#[derive(Debug)]
struct Bucket {
    lowest: AtomicU64,
    parked: Mutex<Vec<Parked>>,
}

#[derive(Debug)]
struct Parked {
    key: u64,
    id: u64,
    waker: Waker,
}

/// A registration; pass it to [`Waiters::forget`] if the wait ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiters {
    /// Creates a set without waiters.
    #[must_use]
    pub fn new() -> Self {
        let bucket = || Padded::new(Bucket { lowest: AtomicU64::new(u64::MAX), parked: Mutex::new(Vec::new()) });
        Self { buckets: (0..BUCKETS).map(|_| bucket()).collect(), next_id: Padded::new(AtomicU64::new(0)) }
    }

    fn bucket(&self, id: u64) -> &Bucket {
        let index = usize::try_from(id % BUCKETS as u64).expect("below BUCKETS");
        &self.buckets[index]
    }

    /// Parks `waker` until the number reaches `key`. Check the condition once more afterwards (W2).
    pub fn register(&self, key: u64, waker: Waker) -> Ticket {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let bucket = self.bucket(id);
        let mut parked = bucket.parked.lock();
        parked.push(Parked { key, id, waker });
        // Relaxed: written under the lock, and read through the fences of W2.
        if key < bucket.lowest.load(Ordering::Relaxed) {
            bucket.lowest.store(key, Ordering::Relaxed);
        }
        drop(parked);
        // Stops the store above from passing the caller's load of its condition.
        if !mutant!("NO_REGISTER_FENCE") {
            fence(Ordering::SeqCst);
        }
        Ticket(id)
    }

    /// Replaces the waker of a registration; `false` if the registration is gone because it was woken.
    pub fn replace(&self, ticket: Ticket, waker: &Waker) -> bool {
        let mut parked = self.bucket(ticket.0).parked.lock();
        match parked.iter_mut().find(|p| p.id == ticket.0) {
            Some(found) => {
                found.waker.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Ends a registration without waking it. Does nothing if it is already gone.
    pub fn forget(&self, ticket: Ticket) {
        let bucket = self.bucket(ticket.0);
        let mut parked = bucket.parked.lock();
        parked.retain(|p| p.id != ticket.0);
        bucket.lowest.store(parked.iter().map(|p| p.key).min().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Wakes every waiter whose key is at most `key`; returns how many.
    pub fn wake_through(&self, key: u64) -> usize {
        // Stops the loads of `lowest` from passing the caller's store of the condition.
        if !mutant!("NO_WAKE_FENCE") {
            fence(Ordering::SeqCst);
        }
        let mut woken = 0;
        for bucket in &self.buckets {
            if bucket.lowest.load(Ordering::Relaxed) > key {
                continue;
            }
            let mut parked = bucket.parked.lock();
            let due: Vec<Parked> = parked.extract_if(.., |p| p.key <= key).collect();
            bucket.lowest.store(parked.iter().map(|p| p.key).min().unwrap_or(u64::MAX), Ordering::Relaxed);
            drop(parked);
            woken += due.len();
            // Outside the lock: a waker may run the waiter at once, which may register again.
            due.into_iter().for_each(|p| p.waker.wake());
        }
        woken
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::thread_waker;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        task::Wake,
    };

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Goal: exactly the waiters at or below the key are woken, each once. Method: keys 0..100, wake through 49, forget
    /// one.
    #[test]
    fn wake_through_wakes_each_key_at_or_below_once() {
        let waiters = Waiters::new();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let tickets: Vec<_> = (0..100).map(|key| waiters.register(key, Waker::from(Arc::clone(&count)))).collect();
        waiters.forget(tickets[7]);
        assert_eq!(waiters.wake_through(49), 49);
        assert_eq!(waiters.wake_through(49), 0);
        assert!(!waiters.replace(tickets[3], Waker::noop()), "woken, so gone");
        assert!(waiters.replace(tickets[60], Waker::noop()));
        assert_eq!(waiters.wake_through(u64::MAX), 50);
        assert_eq!(count.0.load(Relaxed), 98, "all but the forgotten and the replaced one");
    }

    /// Goal: no wake-up is lost between the check and the park. Method: a thread raises a number 20,000 times while
    /// another waits for each.
    #[test]
    fn waiter_is_woken_however_the_race_falls() {
        let (waiters, number) = (Arc::new(Waiters::new()), Arc::new(AtomicU64::new(0)));
        let seen = Arc::new(AtomicU64::new(0));
        let raiser = std::thread::spawn({
            let (waiters, number, seen) = (Arc::clone(&waiters), Arc::clone(&number), Arc::clone(&seen));
            move || {
                for n in 1..=20_000 {
                    while seen.load(Ordering::Acquire) < n - 1 {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                    number.store(n, Ordering::Release);
                    waiters.wake_through(n);
                }
            }
        });
        let waker = thread_waker();
        for n in 1..=20_000 {
            let ticket = waiters.register(n, waker.clone());
            while number.load(Ordering::Acquire) < n {
                std::thread::park();
            }
            waiters.forget(ticket);
            seen.store(n, Ordering::Release);
        }
        raiser.join().unwrap();
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::{
        model::{Explored, explore},
        thread,
    };
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::Relaxed},
        },
        task::Wake,
    };

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    /// One thread raises the number and wakes, another registers and checks.
    fn look_and_park() {
        let (waiters, number) = (Arc::new(Waiters::new()), Arc::new(AtomicU64::new(0)));
        let raiser = thread::spawn({
            let (waiters, number) = (Arc::clone(&waiters), Arc::clone(&number));
            move || {
                number.store(5, Ordering::Release);
                waiters.wake_through(5);
            }
        });
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        waiters.register(5, Waker::from(Arc::clone(&flag)));
        let parks = number.load(Ordering::Acquire) < 5;
        raiser.join().unwrap();
        assert!(!parks || flag.0.load(Relaxed), "parked and never woken");
    }

    /// Goal: no wake-up is lost between the check and the park. Method: one waiter, one waker, every interleaving.
    #[test]
    fn loom_waiter_that_parks_is_woken() {
        match explore(None, 3, look_and_park) {
            Explored::Passed(executions) => {
                eprintln!("{executions} executions");
                assert!(executions >= 8, "only {executions} executions: the model hides an access from loom");
            }
            Explored::Failed(message) => panic!("{message}"),
        }
        for mistake in ["NO_REGISTER_FENCE", "NO_WAKE_FENCE"] {
            let explored = explore(Some(mistake), 3, look_and_park);
            assert!(matches!(explored, Explored::Failed(_)), "{mistake} goes unnoticed");
        }
    }
}

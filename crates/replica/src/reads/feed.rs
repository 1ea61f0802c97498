//! [`ReadFeed`]: passes reads from a primary's sessions to its connections.
//!
//! # Invariants
//! - G1. Reads are requested as long as there is a connection that wants them, and no longer.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use collie_env::Env;
use parking_lot::Mutex;
use tokio::{select, sync::Notify, time::sleep};

use super::{
    Read, ReadQueue,
    queue::{Batch, Counts, Due},
};

/// The numbers of sent and dropped reads, since the feed was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsSent {
    /// Passed to a socket, once for each connection.
    pub shipped: u64,
    /// Dropped because they were a second old.
    pub late: u64,
    /// Dropped because too many waited.
    pub full: u64,
}

/// The part of the feed that one connection uses.
struct Subscriber {
    queue: Mutex<ReadQueue>,
    changed: Notify,
}

/// Called at each change with whether reads are wanted.
type Wanted = Box<dyn Fn(bool) + Send + Sync>;

/// See the module's documentation.
pub struct ReadFeed {
    subscribers: Mutex<Vec<Arc<Subscriber>>>,
    counts: Arc<Counts>,
    wanted: Wanted,
}

impl fmt::Debug for ReadFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFeed").field("sent", &self.stat()).finish_non_exhaustive()
    }
}

impl ReadFeed {
    /// Creates a feed without connections; `wanted` is called when the first connection subscribes, and when the
    /// last one ends (G1).
    pub fn new(wanted: impl Fn(bool) + Send + Sync + 'static) -> Arc<Self> {
        let (subscribers, counts) = (Mutex::default(), Arc::default());
        Arc::new(Self { subscribers, counts, wanted: Box::new(wanted) })
    }

    /// Passes a read to every connection, at the time `now_us` of the clock of its arrival.
    ///
    /// Progress: short locks, one for each connection.
    pub fn publish(&self, read: &Read, now_us: u64) {
        for subscriber in &*self.subscribers.lock() {
            subscriber.queue.lock().push(read.clone(), now_us);
            subscriber.changed.notify_one();
        }
    }

    /// Returns the numbers of sent and dropped reads.
    pub fn stat(&self) -> ReadsSent {
        let Counts { shipped, late, full } = &*self.counts;
        ReadsSent { shipped: shipped.load(Relaxed), late: late.load(Relaxed), full: full.load(Relaxed) }
    }

    /// Subscribes a connection to reads until the returned value is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, env: &Env) -> Subscription {
        let queue = Mutex::new(ReadQueue::new(self.counts.clone(), now_us(env)));
        let subscriber = Arc::new(Subscriber { queue, changed: Notify::new() });
        let mut subscribers = self.subscribers.lock();
        subscribers.push(subscriber.clone());
        if subscribers.len() == 1 {
            (self.wanted)(true);
        }
        Subscription { feed: self.clone(), subscriber, env: env.clone() }
    }
}

fn now_us(env: &Env) -> u64 {
    env.clock.now_ns() / 1000
}

/// A connection's end of a feed.
pub(crate) struct Subscription {
    feed: Arc<ReadFeed>,
    subscriber: Arc<Subscriber>,
    env: Env,
}

impl Subscription {
    /// Waits until there is something to send.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn ready(&self) {
        loop {
            let changed = self.subscriber.changed.notified();
            let now_us = now_us(&self.env);
            let due = self.subscriber.queue.lock().due(now_us);
            match due {
                Due::Now => return,
                Due::Never => changed.await,
                Due::At(at_us) => select! {
                    () = changed => {}
                    () = sleep(Duration::from_micros(at_us.saturating_sub(now_us))) => {}
                },
            }
        }
    }

    /// Takes the reads to send now.
    pub(crate) fn take(&self) -> Batch {
        self.subscriber.queue.lock().take(now_us(&self.env))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = self.feed.subscribers.lock();
        subscribers.retain(|other| !Arc::ptr_eq(other, &self.subscriber));
        if subscribers.is_empty() {
            (self.feed.wanted)(false);
        }
    }
}

//! [`ReadInbox`]: received reads, until they are run.
//!
//! # Invariants
//! - X1. At most [`QUEUE_BYTES_MAX`] wait: reads beyond that are dropped. The task that takes a primary's packets
//!   never waits here.
//! - X2. A returned read is due, and not late; how long the one before took changes neither.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use collie_base::Lsn;
use collie_env::Env;
use parking_lot::Mutex;
use tokio::{select, sync::Notify, time::sleep};

use super::{LATE_US, Pacing, QUEUE_BYTES_MAX, Templates};
use crate::packet::{Sample, SampledRead};

/// The approximate bytes that a read takes up in addition to its parameters.
const READ_BYTES: usize = 80;

/// A read that is to be run here. Without `Debug`: it contains text that users wrote (Q4).
#[derive(Clone)]
pub struct DueRead {
    /// When it is due, on this node's monotonic clock, in microseconds.
    pub due_us: u64,
    /// Its text.
    pub text: Arc<str>,
    /// Its parameters.
    pub parameters: Vec<u8>,
    /// The read must see every commit below.
    pub snapshot: Lsn,
    /// Its latency on the primary.
    pub latency_ns: u32,
    /// The number of rows that it returned there.
    pub rows: u32,
}

impl DueRead {
    /// Returns the time until which it is useful. It could not arrive before it had run on the primary, so its own
    /// latency does not make it late.
    pub fn late_at_us(&self) -> u64 {
        self.due_us.saturating_add(u64::from(self.latency_ns) / 1000).saturating_add(LATE_US)
    }

    fn bytes(&self) -> usize {
        READ_BYTES + self.parameters.len()
    }
}

/// The next action.
pub enum Next {
    /// Run this read, which is due.
    Run(DueRead),
    /// Nothing before this time, in microseconds.
    At(u64),
    /// Nothing before another read arrives.
    Nothing,
}

/// The numbers of received and dropped reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsCame {
    /// All received reads.
    pub came: u64,
    /// Dropped because they were a second late.
    pub late: u64,
    /// Dropped because too many waited.
    pub full: u64,
    /// Dropped because their text was not known.
    pub unknown: u64,
}

#[derive(Default)]
struct Inner {
    templates: Templates<Arc<str>>,
    pacing: Pacing,
    /// In the order in which they are due.
    waiting: VecDeque<DueRead>,
    bytes: usize,
    is_closed: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub struct ReadInbox {
    inner: Mutex<Inner>,
    changed: Notify,
    came: AtomicU64,
    late: AtomicU64,
    full: AtomicU64,
    unknown: AtomicU64,
}

impl fmt::Debug for ReadInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadInbox").field("stat", &self.stat()).finish_non_exhaustive()
    }
}

impl ReadInbox {
    /// Records that a connection begins: texts and times of the one before are no longer valid.
    pub fn connected(&self) {
        let mut inner = self.inner.lock();
        (inner.templates, inner.pacing) = Default::default();
    }

    /// Takes a packet that arrived at `now_us`; reads that wait already stay.
    pub fn take(&self, sample: &Sample<'_>, now_us: u64) {
        let mut inner = self.inner.lock();
        match sample {
            Sample::Template { hash, text } => inner.templates.put(*hash, text.len(), (*text).into()),
            Sample::Reads(reads) => {
                // The time from which the read could be sent: its own latency is no part of the time in transit.
                let ended_us =
                    |read: &SampledRead<'_>| read.arrival_us.saturating_add(u64::from(read.latency_ns) / 1000);
                let Some(newest_us) = reads.iter().map(ended_us).max() else { return };
                inner.pacing.came(newest_us, now_us);
                for read in reads {
                    self.came.fetch_add(1, Relaxed);
                    let Some(text) = inner.templates.get(read.hash).cloned() else {
                        self.unknown.fetch_add(1, Relaxed);
                        continue;
                    };
                    let due = DueRead {
                        due_us: inner.pacing.due_us(read.arrival_us),
                        text,
                        parameters: read.parameters.to_vec(),
                        snapshot: read.snapshot,
                        latency_ns: read.latency_ns,
                        rows: read.rows,
                    };
                    // Such a time comes from a faulty clock.
                    if due.due_us > now_us.saturating_add(2 * LATE_US) {
                        self.late.fetch_add(1, Relaxed);
                        continue;
                    }
                    // X1
                    if inner.is_closed || inner.bytes + due.bytes() > QUEUE_BYTES_MAX {
                        self.full.fetch_add(1, Relaxed);
                        continue;
                    }
                    inner.bytes += due.bytes();
                    // Reads arrive in the order in which they ended.
                    let at = inner.waiting.partition_point(|other| other.due_us <= due.due_us);
                    inner.waiting.insert(at, due);
                }
            }
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Returns the action at `now_us` (X2).
    pub fn poll(&self, now_us: u64) -> Next {
        let mut inner = self.inner.lock();
        while let Some(first) = inner.waiting.front() {
            if first.due_us > now_us {
                return Next::At(first.due_us);
            }
            let Some(read) = inner.waiting.pop_front() else { break };
            inner.bytes -= read.bytes();
            if now_us <= read.late_at_us() {
                return Next::Run(read);
            }
            self.late.fetch_add(1, Relaxed);
        }
        Next::Nothing
    }

    /// Waits until a read is due, and returns it.
    ///
    /// # Cancel safety
    /// Dropping the future loses no read.
    pub async fn next(&self, env: &Env) -> DueRead {
        loop {
            let changed = self.changed.notified();
            let now_us = env.clock.now_ns() / 1000;
            match self.poll(now_us) {
                Next::Run(read) => return read,
                Next::Nothing => changed.await,
                Next::At(at_us) => select! {
                    () = changed => {}
                    () = sleep(Duration::from_micros(at_us.saturating_sub(now_us))) => {}
                },
            }
        }
    }

    /// Records that a returned read has become late before it could run.
    pub fn became_late(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    /// Closes the inbox: waiting reads are dropped, and so are those that arrive later.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        let dropped = u64::try_from(inner.waiting.len()).unwrap_or(0);
        self.late.fetch_add(dropped, Relaxed);
        *inner = Inner { is_closed: true, ..Inner::default() };
    }

    /// Returns the numbers of received and dropped reads.
    pub fn stat(&self) -> ReadsCame {
        let load = |count: &AtomicU64| count.load(Relaxed);
        ReadsCame {
            came: load(&self.came),
            late: load(&self.late),
            full: load(&self.full),
            unknown: load(&self.unknown),
        }
    }
}

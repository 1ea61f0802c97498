//! [`ReadQueue`]: the reads that wait for one connection, and which are sent next. A state machine without I/O.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use collie_base::Lsn;

use super::{BATCH_BYTES, BURST_BYTES, BYTES_PER_S, LATE_US, QUEUE_BYTES_MAX, Templates, TokenBucket};
use crate::packet::{Packet, Sample, SampledRead};

/// Bytes of a packet around its payload, and of the fields before the reads or the text.
const PACKET_BYTES: usize = 18;

/// Bytes of a read in addition to its parameters.
const READ_BYTES: usize = 36;

/// A read that a primary has sampled. Without `Debug`: it contains text that users wrote (Q4).
#[derive(Clone)]
pub struct Read {
    /// The hash of its text.
    pub hash: u64,
    /// Its text.
    pub text: Arc<str>,
    /// Its parameters, in the form in which the replica reads them.
    pub parameters: Arc<[u8]>,
    /// The snapshot at which it ran.
    pub snapshot: Lsn,
    /// The time of its arrival, on the primary's clock, in microseconds.
    pub arrival_us: u64,
    /// Its latency.
    pub latency_ns: u32,
    /// The number of rows that it returned.
    pub rows: u32,
}

impl Read {
    fn bytes(&self) -> usize {
        READ_BYTES + self.parameters.len()
    }

    fn text_bytes(&self) -> usize {
        PACKET_BYTES + self.text.len()
    }

    /// Returns the time from which it could be sent, on the clock of its arrival, in microseconds.
    fn ended_us(&self) -> u64 {
        self.arrival_us.saturating_add(u64::from(self.latency_ns) / 1000)
    }

    fn is_late(&self, now_us: u64) -> bool {
        self.ended_us().saturating_add(LATE_US) < now_us
    }
}

/// The numbers of sent and dropped reads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) shipped: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) full: AtomicU64,
}

/// When there is something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Now.
    Now,
    /// Not before this time, in microseconds.
    At(u64),
    /// Not before another read arrives.
    Never,
}

/// The texts and reads of one sending; the texts are new to the other side.
#[derive(Default)]
pub(crate) struct Batch {
    templates: Vec<(u64, Arc<str>)>,
    reads: Vec<Read>,
}

impl Batch {
    /// Returns the batch as packets, in order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        let templates = self.templates.iter().map(|(hash, text)| Sample::Template { hash: *hash, text });
        let reads = self.reads.iter().map(|read| SampledRead {
            hash: read.hash,
            snapshot: read.snapshot,
            arrival_us: read.arrival_us,
            latency_ns: read.latency_ns,
            rows: read.rows,
            parameters: &read.parameters,
        });
        let reads = (!self.reads.is_empty()).then(|| Sample::Reads(reads.collect()));
        templates.chain(reads).map(Packet::Sample)
    }
}

/// See the module's documentation.
pub struct ReadQueue {
    waiting: VecDeque<Read>,
    /// Bytes of the waiting reads, without their texts, which are shared with their statements.
    bytes: usize,
    bucket: TokenBucket,
    templates: Templates<()>,
    counts: Arc<Counts>,
}

impl ReadQueue {
    /// Creates an empty queue for a connection that begins at `now_us`.
    pub(super) fn new(counts: Arc<Counts>, now_us: u64) -> Self {
        let bucket = TokenBucket::new(BYTES_PER_S, BURST_BYTES, now_us);
        Self { waiting: VecDeque::new(), bytes: 0, bucket, templates: Templates::default(), counts }
    }

    /// Returns how many bytes are sent for a read, if it is the next.
    fn packet_bytes(&self, read: &Read) -> usize {
        read.bytes() + if self.templates.get(read.hash).is_some() { 0 } else { read.text_bytes() }
    }

    fn pop(&mut self) -> Option<Read> {
        let read = self.waiting.pop_front()?;
        self.bytes -= read.bytes();
        Some(read)
    }

    fn drop_late(&mut self, now_us: u64) {
        while self.waiting.front().is_some_and(|read| read.is_late(now_us)) {
            self.pop();
            self.counts.late.fetch_add(1, Relaxed);
        }
    }

    /// Adds a read, unless too many wait (Q2).
    pub fn push(&mut self, read: Read, now_us: u64) {
        self.drop_late(now_us);
        if self.bytes + read.bytes() > QUEUE_BYTES_MAX {
            self.counts.full.fetch_add(1, Relaxed);
            return;
        }
        self.bytes += read.bytes();
        self.waiting.push_back(read);
    }

    /// Returns when there is something to send.
    pub(crate) fn due(&mut self, now_us: u64) -> Due {
        self.drop_late(now_us);
        let Some(first) = self.waiting.front() else { return Due::Never };
        let bytes = PACKET_BYTES + self.packet_bytes(first);
        match self.bucket.there_at_us(u64::try_from(bytes).unwrap_or(u64::MAX), now_us) {
            at_us if at_us <= now_us => Due::Now,
            at_us => Due::At(at_us),
        }
    }

    /// Takes the reads to send now; an empty batch if none is due.
    pub(crate) fn take(&mut self, now_us: u64) -> Batch {
        self.drop_late(now_us);
        let (mut batch, mut bytes) = (Batch::default(), 0);
        while let Some(read) = self.waiting.front() {
            let is_new = self.templates.get(read.hash).is_none();
            let is_first = batch.reads.is_empty();
            let more = self.packet_bytes(read) + if is_first { PACKET_BYTES } else { 0 };
            // A text that makes the other side forget all texts would precede reads that need a forgotten one.
            let forgets = is_new && self.templates.is_full_for(read.text.len());
            if !is_first && (bytes + more > BATCH_BYTES || forgets) {
                break;
            }
            if !self.bucket.take(u64::try_from(more).unwrap_or(u64::MAX), now_us) {
                break;
            }
            bytes += more;
            let Some(read) = self.pop() else { break };
            if is_new {
                self.templates.put(read.hash, read.text.len(), ());
                batch.templates.push((read.hash, read.text.clone()));
            }
            batch.reads.push(read);
        }
        self.counts.shipped.fetch_add(u64::try_from(batch.reads.len()).unwrap_or(0), Relaxed);
        batch
    }

    /// Returns how many bytes wait.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes
    }
}

//! [`TakenRead`]: a sampled read, from the choice before it runs until it is handed to the sink that ships it.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use collie_base::Lsn;
use collie_engine::Isolation;

use super::{fit::is_fit, parameters, share::ReadShare};
use crate::{
    catalog::system::{ReadsRow, ReadsShipped},
    session::{
        Database, Session,
        prepared::{Planned, Prepared, Verb},
    },
    types::Value,
};

/// Longest text that is sampled, in bytes: it has to fit a packet with room to spare.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Limit of the parameters of a sampled read, in bytes.
const PARAMETER_BYTES_MAX: usize = 8 << 10;

/// A read with everything that another node needs to run it again, and its figures on this node. Without `Debug`, since
/// it holds users' text (S3).
#[derive(Clone)]
pub struct TakenRead {
    /// Hash of the text and the parameter types, which stays the same while this process runs.
    pub hash: u64,
    /// The statement, with `$1` and so on for its parameters.
    pub text: Arc<str>,
    /// Types and values of the parameters, encoded.
    pub parameters: Vec<u8>,
    /// The snapshot: every commit below it was visible to the read.
    pub snapshot: Lsn,
    /// The time when it began, on this node's monotonic clock, in microseconds.
    pub arrival_us: u64,
    /// Its duration from then on, in nanoseconds, at most 4.29 s: locks, snapshot, and its rows up to the output
    /// buffer.
    pub latency_ns: u32,
    /// The number of rows that it returned.
    pub rows: u32,
}

/// A sampled read that is running.
pub(in crate::session) struct Reading {
    pub(in crate::session) snapshot: Option<Lsn>,
    hash: u64,
    text: Arc<str>,
    parameters: Vec<u8>,
    began_ns: u64,
}

/// The receiver of sampled reads. It is called on the session's thread and must not block.
pub type ReadSink = Box<dyn Fn(TakenRead) + Send + Sync>;

/// The state of sampling that the sessions of a database share.
#[derive(Default)]
pub(in crate::session) struct Sampling {
    pub(in crate::session) share: ReadShare,
    hasher: RandomState,
    sink: OnceLock<ReadSink>,
    taken: AtomicU64,
    rows: AtomicU64,
    unfit: AtomicU64,
}

impl Sampling {
    /// Returns the row that views show for a primary; `shipped` counts what became of the sampled reads.
    pub(in crate::session) fn row(&self, shipped: ReadsShipped) -> ReadsRow {
        ReadsRow {
            side: "primary",
            taken: self.taken.load(Relaxed),
            shipped: Some(shipped.shipped),
            run: None,
            rows: self.rows.load(Relaxed),
            primary_rows: None,
            spent_us: None,
            late: shipped.late,
            full: shipped.full,
            unfit: self.unfit.load(Relaxed),
            unknown: None,
            failed: None,
        }
    }
}

impl Database {
    /// Sets `sink` as the receiver of sampled reads. Only the first call counts; no read is sampled before
    /// [`Database::read_share`] is set.
    pub fn ship_reads(&self, sink: ReadSink) {
        let _already_there = self.sampling.sink.set(sink);
    }

    /// Returns the share of reads that are sampled; the component that ships them sets it.
    pub fn read_share(&self) -> &ReadShare {
        &self.sampling.share
    }
}

impl Session {
    /// Decides whether to sample the statement that is about to run.
    #[inline]
    pub(in crate::session) fn begin_read(&mut self, prepared: &Prepared, planned: &Planned, params: &[Value]) {
        let sampling = &self.database.sampling;
        if planned.verb == Verb::Select && self.skip.takes(&sampling.share, || self.database.env.random.u64()) {
            self.reading = self.take_read(prepared, planned, params).map(Box::new);
            if self.reading.is_none() {
                self.database.sampling.unfit.fetch_add(1, Relaxed);
            }
        }
    }

    #[cold]
    fn take_read(&self, prepared: &Prepared, planned: &Planned, params: &[Value]) -> Option<Reading> {
        let types = &planned.analyzed.parameters;
        let is_here = self.settings.effective().reads_as_anywhere
            && self.isolation() != Isolation::Serializable
            && self.transaction.overlay.is_none()
            && self.engine.xid().is_none();
        let is_short = prepared.text.len() <= TEXT_BYTES_MAX && types.len() == params.len();
        if !is_here || !is_short || !*planned.fit.get_or_init(|| is_fit(&planned.analyzed)) {
            return None;
        }
        let parameters = parameters::encode(types, params);
        (parameters.len() <= PARAMETER_BYTES_MAX).then(|| Reading {
            snapshot: None,
            hash: self.database.sampling.hasher.hash_one((&*prepared.text, types)),
            text: prepared.text.clone(),
            parameters,
            began_ns: self.database.env.clock.now_ns(),
        })
    }

    /// Hands the statement that has run to the sink, if it was sampled.
    #[inline]
    pub(in crate::session) fn end_read(&mut self, rows: u64) {
        if let Some(reading) = self.reading.take() {
            self.ship_read(*reading, rows);
        }
    }

    #[cold]
    fn ship_read(&self, reading: Reading, rows: u64) {
        let Reading { snapshot, hash, text, parameters, began_ns } = reading;
        let sampling = &self.database.sampling;
        let (Some(snapshot), Some(sink)) = (snapshot, sampling.sink.get()) else { return };
        let latency_ns = self.database.env.clock.now_ns().saturating_sub(began_ns);
        let Ok(latency_ns) = u32::try_from(latency_ns) else {
            // It took longer than a replica would let it run.
            sampling.unfit.fetch_add(1, Relaxed);
            return;
        };
        sampling.taken.fetch_add(1, Relaxed);
        sampling.rows.fetch_add(rows, Relaxed);
        sink(TakenRead {
            hash,
            text,
            parameters,
            snapshot,
            arrival_us: began_ns / 1000,
            latency_ns,
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
        });
    }
}

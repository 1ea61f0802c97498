//! `Model`: what a run appended and what it was promised. `Expectation`: the same at one moment, for the comparison
//! with the records of an opened log.
//!
//! # Oracles
//! - E1. Every acknowledged record is there, with its bytes, unless it was freed.
//! - E2. The records are a prefix of what was appended: nothing behind a gap, nothing from an earlier incarnation or an
//!   earlier use of a file, nothing that an opening had left out.
//! - E3. No position is handed out twice, and no incarnation is used twice.
//! - E4. A closed log opens clean and whole.
//! - E5. Every later opening yields what the first one yields.
//! - E6. A kill of the process alone takes nothing that was written, synced or not.
//! - E7. A consumer that was created is still known, is nowhere beyond the position that it reached, and has the
//!   records that it needs.

use std::sync::Arc;

use collie_env::SimRandom;

use crate::{
    Ending, Log, Lsn, Recovered,
    lab::{
        payload::{STAMP_BYTES, Stamp},
        workload::CONSUMER,
    },
};

/// A record that was appended.
#[derive(Clone, Debug)]
pub(crate) struct Appended {
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
    pub(crate) body: Vec<u8>,
    /// Start of its first piece.
    first_piece: Lsn,
    stamp: Stamp,
}

/// What the incarnations appended, one after the other, and what they were promised.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The promises noted so far; those of the running log since then are read from it.
    promised: Expectation,
    /// Start of the running log.
    start: Lsn,
    /// The running log: its durable position must be true at every moment, whether it is read or not.
    log: Option<Log>,
}

/// The conditions that must hold after a crash at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    /// Records that may be there, in order.
    records: Vec<Arc<Appended>>,
    /// The record of a running append. It may be on disk before that append returns; its positions are not known.
    intended: Option<Arc<Appended>>,
    /// Everything below was acknowledged.
    acknowledged: Lsn,
    /// Everything below was handed to the kernel since the last power cut.
    written: Lsn,
    /// The largest end ever handed out.
    highest: Lsn,
    closed: bool,
    /// Everything below may have been freed.
    freed: Lsn,
    incarnation: u64,
    /// The position that the consumer has reached, once it exists.
    consumed: Option<Lsn>,
}

/// The content of an opened log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Yield {
    pub(crate) start: Lsn,
    pub(crate) next: Lsn,
    pub(crate) incarnation: u64,
    pub(crate) clean: bool,
    pub(crate) records: Vec<(Lsn, Lsn, Vec<u8>)>,
}

impl Yield {
    /// Reads all records of `log`.
    pub(crate) fn of(log: &Log, found: &Recovered) -> Result<Self, String> {
        let read: Result<Vec<_>, _> =
            log.read(Lsn::ZERO).map(|record| record.map(|record| (record.lsn, record.end, record.body))).collect();
        Ok(Self {
            start: found.start,
            next: found.next,
            incarnation: found.incarnation,
            clean: found.ending == Ending::Clean,
            records: read.map_err(|error| format!("reading after opening: {error}"))?,
        })
    }

    /// Describes record `at` by its stamp.
    fn describe(&self, at: usize) -> String {
        let (lsn, _, body) = &self.records[at];
        match Stamp::of(body) {
            Some(stamp) => format!(
                "record {at} at {lsn} was written as number {} of incarnation {} at {}",
                stamp.number,
                stamp.incarnation,
                Lsn::new(stamp.position)
            ),
            None => format!("record {at} at {lsn} of {} bytes has no stamp that fits", body.len()),
        }
    }
}

impl Model {
    /// Notes that an opening has begun: an earlier close no longer counts.
    pub(crate) fn opens(&mut self) {
        self.promised.closed = false;
    }

    /// Takes the content of an opened log as the new state.
    pub(crate) fn opened(&mut self, log: &Log, found: &Recovered) -> Result<(), String> {
        let expectation = self.expectation();
        let yielded = Yield::of(log, found)?;
        expectation.check(&yielded)?;
        let promised = &mut self.promised;
        promised.records.retain(|record| record.first_piece >= yielded.start);
        promised.records.truncate(yielded.records.len());
        // An append that failed may have left its record all the same.
        let intended = promised.intended.take().filter(|_| promised.records.len() < yielded.records.len());
        if let (Some(intended), Some((start, end, _))) = (intended, yielded.records.last()) {
            promised.records.push(Arc::new(Appended { start: *start, end: *end, ..Appended::clone(&intended) }));
        }
        promised.acknowledged = promised.acknowledged.max(found.end);
        promised.highest = promised.highest.max(found.next);
        promised.incarnation = found.incarnation;
        self.start = found.start;
        self.log = Some(log.clone());
        Ok(())
    }

    /// Returns the stamp and the body of the next record, of `len` bytes; an empty body if there is no room for a
    /// stamp.
    pub(crate) fn next_body(&self, position: Lsn, len: usize) -> (Stamp, Vec<u8>) {
        let last = self.promised.records.last().map(|record| record.stamp).unwrap_or_default();
        if len < STAMP_BYTES {
            return (last, Vec::new());
        }
        let stamp = last.next(self.promised.incarnation, position.get(), len);
        (stamp, stamp.body(len))
    }

    /// Notes a record that is about to be appended.
    pub(crate) fn intends(&mut self, first_piece: Lsn, stamp: Stamp, body: &[u8]) {
        let (start, end) = (first_piece, first_piece);
        self.promised.intended = Some(Arc::new(Appended { start, end, body: body.to_vec(), first_piece, stamp }));
    }

    /// Notes that the intended record was appended.
    pub(crate) fn appended(&mut self, at: crate::Appended) {
        let promised = &mut self.promised;
        let Some(intended) = promised.intended.take() else { return };
        promised.highest = promised.highest.max(at.end);
        promised.records.push(Arc::new(Appended { start: at.start, end: at.end, ..Appended::clone(&intended) }));
    }

    /// Notes that everything below `lsn` may be freed.
    pub(crate) fn frees(&mut self, lsn: Lsn) {
        self.promised.freed = self.promised.freed.max(lsn);
    }

    /// Returns the start of the running log.
    pub(crate) fn started_at(&self) -> Lsn {
        self.start
    }

    /// Sets the start of the running log.
    pub(crate) fn starts_at(&mut self, start: Lsn) {
        self.start = start;
    }

    /// Notes that the consumer exists at `lsn`, or moves there.
    pub(crate) fn consumes_to(&mut self, lsn: Lsn) {
        self.promised.consumed = self.promised.consumed.max(Some(lsn));
    }

    /// Returns the end of a random record.
    pub(crate) fn some_end(&self, random: &SimRandom) -> Option<Lsn> {
        let count = self.promised.records.len() as u64;
        let at = (count > 0).then(|| usize::try_from(random.below(count)).expect("below a length"))?;
        Some(self.promised.records[at].end)
    }

    /// Notes that the log is being cut at `lsn`: records above may be gone or not. Returns the state before, for
    /// `was_not_cut`.
    pub(crate) fn cuts(&mut self, lsn: Lsn) -> Expectation {
        let before = self.promised.clone();
        let promised = &mut self.promised;
        promised.acknowledged = promised.acknowledged.min(lsn);
        promised.written = promised.written.min(lsn);
        promised.closed = false;
        before
    }

    /// Notes that the log was cut at `lsn`.
    pub(crate) fn was_cut(&mut self, lsn: Lsn) {
        self.promised.records.retain(|record| record.end <= lsn);
        self.promised.intended = None;
    }

    /// Notes that the log was not cut.
    pub(crate) fn was_not_cut(&mut self, before: Expectation) {
        self.promised = before;
    }

    /// Notes that the log was closed, which acknowledges everything.
    pub(crate) fn closed(&mut self) {
        let promised = &mut self.promised;
        promised.closed = true;
        promised.acknowledged = promised.highest.max(promised.acknowledged);
    }

    /// Drops the log at the end of its incarnation.
    pub(crate) fn ended(&mut self) {
        self.promised = self.expectation();
        self.log = None;
    }

    /// Notes that bytes that were only written may be gone.
    pub(crate) fn power_lost(&mut self) {
        self.promised.written = Lsn::ZERO;
    }

    /// Returns the conditions that must hold after a crash now.
    pub(crate) fn expectation(&self) -> Expectation {
        let mut now = self.promised.clone();
        if let Some(log) = &self.log {
            now.acknowledged = now.acknowledged.max(log.durable());
            now.written = now.written.max(log.written());
        }
        now
    }
}

impl Expectation {
    /// Returns the conditions that must hold after a kill of the process alone (E6).
    pub(crate) fn of_a_kill(&self) -> Self {
        Self { acknowledged: self.acknowledged.max(self.written), ..self.clone() }
    }

    /// Compares the content of an opened log with the promises (E1 to E4).
    pub(crate) fn check(&self, yielded: &Yield) -> Result<(), String> {
        let whole = |record: &&Arc<Appended>| record.first_piece >= yielded.start;
        let lost = |record: &&Arc<Appended>| {
            record.first_piece < yielded.start && record.end <= self.acknowledged && record.first_piece >= self.freed
        };
        if let Some(lost) = self.records.iter().find(lost) {
            let (start, freed) = (yielded.start, self.freed);
            return Err(format!(
                "acknowledged record {} is lost; the log starts at {start}, freed to {freed}",
                lost.start
            ));
        }
        // A record that began in a freed file is not whole any more.
        let mut expected = self.records.iter().filter(whole);
        for (at, (lsn, end, body)) in yielded.records.iter().enumerate() {
            let Some(record) = expected.next() else {
                let last = at + 1 == yielded.records.len();
                if last && self.intended.as_ref().is_some_and(|next| next.body == *body && *lsn >= next.first_piece) {
                    break;
                }
                return Err(format!("a record that was not written: {}", yielded.describe(at)));
            };
            if (*lsn, *end, body) != (record.start, record.end, &record.body) {
                return Err(format!("instead of the record at {}: {}", record.start, yielded.describe(at)));
            }
        }
        if let Some(lost) = expected.next().filter(|lost| lost.end <= self.acknowledged) {
            return Err(format!("acknowledged record {} is lost; durable to {}", lost.start, self.acknowledged));
        }
        if self.closed && (!yielded.clean || expected.next().is_some()) {
            return Err("a closed log did not come back clean and whole".to_owned());
        }
        if yielded.next < self.highest {
            return Err(format!("position {} is handed out again, up to {} was used", yielded.next, self.highest));
        }
        if yielded.incarnation <= self.incarnation {
            return Err(format!("incarnation {} is used again, {} was", yielded.incarnation, self.incarnation));
        }
        Ok(())
    }

    /// Checks that the consumer of an opened log is at an allowed position (E7).
    pub(crate) fn check_consumer(&self, log: &Log, yielded: &Yield) -> Result<(), String> {
        let stat = log.stat().consumers.into_iter().find(|consumer| consumer.name == CONSUMER);
        let Some(consumed) = self.consumed else { return Ok(()) };
        let Some(stat) = stat else { return Err("the consumer is forgotten".to_owned()) };
        if stat.lsn > consumed {
            return Err(format!("the consumer stands at {}, it had come to {consumed}", stat.lsn));
        }
        if stat.lost || stat.restart < yielded.start {
            return Err(format!("the consumer needs {} and the log starts at {}", stat.restart, yielded.start));
        }
        Ok(())
    }

    /// Returns the body of a record to append after `yielded`.
    pub(crate) fn next_body(&self, yielded: &Yield) -> Vec<u8> {
        let last = self.records.get(yielded.records.len().wrapping_sub(1)).map(|record| record.stamp);
        last.unwrap_or_default().next(yielded.incarnation, yielded.next.get(), 777).body(777)
    }
}

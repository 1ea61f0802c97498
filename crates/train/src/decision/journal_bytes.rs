//! The journal of decisions as bytes (docs/format.md section 15).
//!
//! A journal is read as a whole. The reader trusts no byte: reading always ends, and a record with a wrong checksum or
//! an impossible value is not accepted, nor is anything after it.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use collie_base::{checksum::crc32c, codec::Reader};

use super::{Entry, Gain, Guard, Moved, Row, Setting, Verdict};
use crate::{TrainError, UnitId};

/// The name of a node's journal in its data directory.
pub const JOURNAL_NAME: &str = "decisions";

const MAGIC: &[u8; 8] = b"COLLIEDJ";
const VERSION: u32 = 1;
/// Magic, version, and the checksum of both.
const HEADER_BYTES: usize = 16;
/// The length and the checksum of a record.
const PREFIX_BYTES: usize = 8;
/// Most units in a record.
const MOVED_MAX: usize = 16;
/// Most features of a unit.
const FEATURES_MAX: usize = 16;
/// More than the longest record.
const BODY_BYTES_MAX: usize = 8 << 10;

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// Its rows, oldest first.
    pub entries: Vec<Entry>,
    /// The length of the header and these rows.
    pub bytes: usize,
    /// The number of bytes after them that are not a row: damage, or a part of one.
    pub left_out: usize,
}

fn malformed(what: &'static str) -> TrainError {
    TrainError::Malformed { what }
}

fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_pair(out: &mut Vec<u8>, (before, after): (f64, f64)) {
    put_f64(out, before);
    put_f64(out, after);
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.push(u8::try_from(count).expect("a count that was cut to its limit"));
}

fn read_f64(reader: &mut Reader<'_>) -> Result<f64, TrainError> {
    let value = f64::from_bits(reader.u64()?);
    if value.is_finite() { Ok(value) } else { Err(malformed("a number")) }
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(f64, f64), TrainError> {
    Ok((read_f64(reader)?, read_f64(reader)?))
}

fn read_count(reader: &mut Reader<'_>, most: usize) -> Result<usize, TrainError> {
    let count = usize::from(reader.u8()?);
    if count <= most { Ok(count) } else { Err(malformed("a count")) }
}

/// The guards in the order of their numbers, which are never reused.
const GUARDS: [Guard; 7] =
    [Guard::Errors, Guard::ReplicaDelay, Guard::Memory, Guard::Disk, Guard::SetByHand, Guard::Blind, Guard::Refused];

/// Returns a verdict's number and its detail.
fn numbers_of(verdict: Verdict) -> (u8, u64) {
    match verdict {
        Verdict::Proposed => (0, 0),
        Verdict::Trial => (1, 0),
        Verdict::Canary { until_s } => (2, until_s),
        Verdict::Kept { gain } => (3, gain.to_bits()),
        Verdict::Rejected { p } => (4, p.to_bits()),
        Verdict::RejectedLate => (5, 0),
        Verdict::Worse => (6, 0),
        Verdict::Loss => (7, 0),
        Verdict::Guarded(guard) => {
            let place = GUARDS.iter().position(|other| *other == guard).unwrap_or(0);
            (8, u64::try_from(place).unwrap_or(0))
        }
        Verdict::Interrupted => (9, 0),
    }
}

fn verdict_of(number: u8, detail: u64) -> Result<Verdict, TrainError> {
    let bad = malformed("a verdict");
    let finite = |value: f64| if value.is_finite() { Ok(value) } else { Err(malformed("a verdict")) };
    Ok(match (number, detail) {
        (0, 0) => Verdict::Proposed,
        (1, 0) => Verdict::Trial,
        (2, until_s) => Verdict::Canary { until_s },
        (3, bits) => Verdict::Kept { gain: finite(f64::from_bits(bits))? },
        (4, bits) => Verdict::Rejected { p: finite(f64::from_bits(bits))? },
        (5, 0) => Verdict::RejectedLate,
        (6, 0) => Verdict::Worse,
        (7, 0) => Verdict::Loss,
        (8, place) => {
            let guard = usize::try_from(place).ok().and_then(|place| GUARDS.get(place));
            Verdict::Guarded(*guard.ok_or(bad)?)
        }
        (9, 0) => Verdict::Interrupted,
        _ => return Err(bad),
    })
}

/// Returns the header of a journal.
pub fn journal_header() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

impl Entry {
    /// Returns the entry as a record of a journal. It writes at most 16 units, and at most 16 features of each.
    pub fn encode(&self) -> Vec<u8> {
        let Row { id, at_s, setting, old, new, model_hash, gain, trial_p, verdict } = self.row;
        let (number, detail) = numbers_of(verdict);
        let mut body = Vec::new();
        for word in [id, at_s, model_hash, detail] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&[setting.number(), number, u8::from(trial_p.is_some())]);
        for value in [old, new, gain.low, gain.expected, gain.high, trial_p.unwrap_or(0.0)] {
            put_f64(&mut body, value);
        }
        put_count(&mut body, self.moved.len().min(MOVED_MAX));
        for moved in self.moved.iter().take(MOVED_MAX) {
            body.push(moved.unit.get());
            put_pair(&mut body, moved.calls_per_s);
            put_pair(&mut body, moved.cost);
            put_count(&mut body, moved.features.len().min(FEATURES_MAX));
            moved.features.iter().take(FEATURES_MAX).for_each(|feature| put_pair(&mut body, *feature));
        }
        let length = u32::try_from(body.len()).expect("a record is short");
        [&length.to_le_bytes()[..], &crc32c(&body).to_le_bytes(), &body].concat()
    }

    fn decode(body: &[u8]) -> Result<Self, TrainError> {
        let mut reader = Reader::new(body);
        let [id, at_s, model_hash, detail] = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let setting = Setting::numbered(reader.u8()?).ok_or(malformed("a setting"))?;
        let number = reader.u8()?;
        let has_trial = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(malformed("a flag")),
        };
        let (old, new) = read_pair(&mut reader)?;
        let gain = Gain { low: read_f64(&mut reader)?, expected: read_f64(&mut reader)?, high: read_f64(&mut reader)? };
        let p = read_f64(&mut reader)?;
        if !has_trial && p.to_bits() != 0 {
            return Err(malformed("a flag"));
        }
        let mut moved = Vec::new();
        for _ in 0..read_count(&mut reader, MOVED_MAX)? {
            let unit = UnitId::new(reader.u8()?);
            let (calls_per_s, cost) = (read_pair(&mut reader)?, read_pair(&mut reader)?);
            let count = read_count(&mut reader, FEATURES_MAX)?;
            let features: Result<_, _> = (0..count).map(|_| read_pair(&mut reader)).collect();
            moved.push(Moved { unit, calls_per_s, cost, features: features? });
        }
        reader.finish()?;
        let trial_p = has_trial.then_some(p);
        let verdict = verdict_of(number, detail)?;
        Ok(Self { row: Row { id, at_s, setting, old, new, model_hash, gain, trial_p, verdict }, moved })
    }
}

/// Returns the first record of `rest` with its length; `None` if it is cut off, fails its checksum, or has impossible
/// values.
fn first_record(rest: &[u8]) -> Option<(Entry, usize)> {
    let mut reader = Reader::new(rest);
    let length = usize::try_from(reader.u32().ok()?).ok().filter(|length| *length <= BODY_BYTES_MAX)?;
    let stored = reader.u32().ok()?;
    let body = reader.bytes(length).ok().filter(|body| crc32c(body) == stored)?;
    Some((Entry::decode(body).ok()?, length.checked_add(PREFIX_BYTES)?))
}

/// Reads a journal: every row up to the end, or up to the first bytes that are not a row.
///
/// # Errors
/// [`TrainError::Malformed`], [`TrainError::Checksum`] or [`TrainError::Version`] if it does not begin like a journal.
/// A journal whose header was not written completely is an empty one.
pub fn read_journal(bytes: &[u8]) -> Result<Journal, TrainError> {
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        let is_begun = journal_header().starts_with(bytes);
        let nothing = Journal { left_out: bytes.len(), ..Journal::default() };
        return if is_begun { Ok(nothing) } else { Err(malformed("magic")) };
    };
    let mut reader = Reader::new(header);
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(malformed("magic"));
    }
    // The checksum is checked before the version, so that damage is not reported as a newer format.
    let (version, stored) = (reader.u32()?, reader.u32()?);
    let computed = crc32c(header.get(..HEADER_BYTES.saturating_sub(4)).unwrap_or_default());
    if stored != computed {
        return Err(TrainError::Checksum { stored, computed });
    }
    if version != VERSION {
        return Err(TrainError::Version { found: version });
    }
    let mut journal = Journal { bytes: HEADER_BYTES, ..Journal::default() };
    while let Some((entry, length)) = bytes.get(journal.bytes..).and_then(first_record) {
        journal.entries.push(entry);
        journal.bytes = journal.bytes.saturating_add(length);
    }
    journal.left_out = bytes.len().saturating_sub(journal.bytes);
    Ok(journal)
}

/// Returns a journal of three rows, as a seed for the fuzz target.
pub fn sample_journal() -> Vec<u8> {
    let gain = Gain { low: 0.05, expected: 0.1, high: 0.2 };
    let (setting, old, new, model_hash) = (Setting::FlushDelay, 10_000.0, 5000.0, 7);
    let row = Row { id: 1, at_s: 9, setting, old, new, model_hash, gain, trial_p: None, verdict: Verdict::Trial };
    let moved = Moved {
        unit: UnitId::new(2),
        calls_per_s: (100.0, 200.0),
        cost: (9000.0, 4000.0),
        features: vec![(1000.0, 500.0); 6],
    };
    let canary = Row { trial_p: Some(0.01), verdict: Verdict::Canary { until_s: 900 }, ..row };
    let ended = Row { verdict: Verdict::Guarded(Guard::Memory), ..canary };
    let rows = [Entry { row, moved: vec![moved] }, canary.into(), ended.into()];
    rows.iter().fold(journal_header(), |bytes, entry| [bytes, entry.encode()].concat())
}

/// Entry point of the fuzz target: for any `bytes`, reading ends without a panic, and the accepted records have one
/// form.
///
/// # Panics
/// If an accepted record has another form.
pub fn fuzz_journal(bytes: &[u8]) {
    let Ok(journal) = read_journal(bytes) else { return };
    let taken: Vec<u8> = journal.entries.iter().flat_map(Entry::encode).collect();
    let expected = bytes.get(HEADER_BYTES..journal.bytes).unwrap_or_default();
    assert_eq!(taken, expected, "a record has one form");
}

#[cfg(test)]
mod tests;

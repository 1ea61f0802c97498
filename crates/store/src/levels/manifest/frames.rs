//! Frames of MANIFEST: records under checksums, and where they end.
//!
//! File: a header of 32 bytes, then frames without gaps.
//!
//! | offset | size | header |
//! |---|---|---|
//! | 0 | 8 | magic `COLLIEMF` |
//! | 8 | 4 | CRC-32C of bytes 12 to 31 |
//! | 12 | 4 | format version, 1 |
//! | 16 | 8 | salt, random, new each time the file is rewritten |
//! | 24 | 4 | how many frames the file was written with |
//! | 28 | 4 | zeros |
//!
//! | offset | size | frame |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of: the low 4 bytes of the salt, then bytes 4 to the end of the payload |
//! | 4 | 4 | payload bytes, at most 1 MiB |
//! | 8 | 8 | number of the frame in the file, from 0 |
//! | 16 | | payload: a record |
//!
//! # Invariants
//! - B1. The frames counted in the header were synced before the file got its name: a bad one is damage.
//! - B2. Each later frame was synced before the next was written: a bad one with a good one behind it is damage; any
//!   other bad one is an incomplete append, which was never reported as successful.
//! - B3. Nothing is appended behind bad bytes: every open rewrites the file.
//!
//! A rotten last frame cannot be distinguished from an incomplete append. If the log was cut because of that frame, the
//! open finds the log too short.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::ops::RangeInclusive;

use collie_base::{
    checksum::{Crc32c, crc32c},
    codec::Reader,
};

use crate::{
    levels::manifest::record::RECORD_BYTES_MAX, levels::manifest::record::Record, levels::manifest::state::State,
};

pub(crate) const MAGIC: &[u8; 8] = b"COLLIEMF";
pub(crate) const FORMAT_VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_HEADER_BYTES: usize = 16;

/// Why the bytes of a MANIFEST are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A newer program wrote the file.
    Newer(u32),
    /// A check failed, at this offset in the file.
    Damaged { what: &'static str, offset: usize },
}

/// The contents of a MANIFEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) state: State,
    /// Bytes behind the last good frame, from an incomplete append.
    pub(crate) torn_bytes: usize,
}

/// Returns a whole file of `records`.
pub(crate) fn encode_file(salt: u64, records: &[Record]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    body.extend_from_slice(&salt.to_le_bytes());
    let count = u32::try_from(records.len()).expect("trees are counted in u32 and flushes in doubt are few");
    body.extend_from_slice(&count.to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    let mut file = [&MAGIC[..], &crc32c(&body).to_le_bytes(), &body].concat();
    for (number, record) in (0..).zip(records) {
        file.extend_from_slice(&encode_frame(salt, number, record));
    }
    file
}

/// Returns one frame.
pub(crate) fn encode_frame(salt: u64, number: u64, record: &Record) -> Vec<u8> {
    let payload = record.encode();
    let len = u32::try_from(payload.len()).expect("callers bound records");
    let body = [&len.to_le_bytes()[..], &number.to_le_bytes(), &payload].concat();
    [&checksum(salt, &body).to_le_bytes()[..], &body].concat()
}

fn checksum(salt: u64, body: &[u8]) -> u32 {
    let [a, b, c, d, ..] = salt.to_le_bytes();
    let mut crc = Crc32c::with_seed(u32::from_le_bytes([a, b, c, d]));
    crc.update(body);
    crc.finish()
}

/// Reads a whole file.
///
/// # Errors
/// [`Refused`]: see B1 and B2. The bytes of an incomplete append are not an error.
pub(crate) fn decode_file(file: &[u8]) -> Result<Contents, Refused> {
    let (salt, written_with) = decode_header(file)?;
    let mut state = State::default();
    let mut offset = HEADER_BYTES;
    for number in 0_u64.. {
        let rest = file.get(offset..).unwrap_or(&[]);
        let Some(payload) = frame_at(salt, rest, &(number..=number)) else {
            if number < u64::from(written_with) {
                return Err(Refused::Damaged { what: "a frame it was written with", offset });
            }
            let most = u64::try_from(rest.len()).unwrap_or(u64::MAX);
            let later = number.saturating_add(1)..=number.saturating_add(most);
            if (1..rest.len()).any(|skip| frame_at(salt, rest.get(skip..).unwrap_or(&[]), &later).is_some()) {
                return Err(Refused::Damaged { what: "a frame with a good one behind it", offset });
            }
            return Ok(Contents { state, torn_bytes: rest.len() });
        };
        let record = Record::decode(payload).map_err(|error| Refused::Damaged { what: error.what, offset })?;
        state.apply(&record).map_err(|what| Refused::Damaged { what, offset })?;
        offset = offset.saturating_add(FRAME_HEADER_BYTES).saturating_add(payload.len());
    }
    Err(Refused::Damaged { what: "numbers without end", offset })
}

/// Returns the salt and the frame count.
fn decode_header(file: &[u8]) -> Result<(u64, u32), Refused> {
    let bad = |what| move |_| Refused::Damaged { what, offset: 0 };
    let header = file.get(..HEADER_BYTES).ok_or(Refused::Damaged { what: "length", offset: 0 })?;
    let mut reader = Reader::new(header);
    if reader.bytes(MAGIC.len()).map_err(bad("magic"))? != MAGIC {
        return Err(Refused::Damaged { what: "magic", offset: 0 });
    }
    let stored = reader.u32().map_err(bad("checksum"))?;
    let computed = crc32c(reader.rest());
    let version = reader.u32().map_err(bad("version"))?;
    if stored != computed {
        return Err(Refused::Damaged { what: "checksum of the header", offset: 0 });
    }
    if version != FORMAT_VERSION {
        return Err(Refused::Newer(version));
    }
    let (salt, count, zeros) =
        (reader.u64().map_err(bad("salt"))?, reader.u32().map_err(bad("count"))?, reader.u32().map_err(bad("zeros"))?);
    if zeros != 0 {
        return Err(Refused::Damaged { what: "zeros", offset: 28 });
    }
    Ok((salt, count))
}

/// Returns the payload of the frame at the start of `bytes`, if the frame is good and has one of `numbers`.
fn frame_at<'a>(salt: u64, bytes: &'a [u8], numbers: &RangeInclusive<u64>) -> Option<&'a [u8]> {
    let mut reader = Reader::new(bytes);
    let stored = reader.u32().ok()?;
    let body = reader.rest();
    let len = usize::try_from(reader.u32().ok()?).ok().filter(|len| (1..=RECORD_BYTES_MAX).contains(len))?;
    let _number = reader.u64().ok().filter(|number| numbers.contains(number))?;
    let payload = reader.bytes(len).ok()?;
    let covered = body.get(..len.checked_add(FRAME_HEADER_BYTES.checked_sub(4)?)?)?;
    (checksum(salt, covered) == stored).then_some(payload)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "the bytes are the test's own")]
mod tests {
    use super::*;
    use crate::{levels::TreeId, levels::manifest::record::Flush, levels::manifest::record::Tree};
    use collie_base::{CfId, Lsn};

    const SALT: u64 = 0x1122_3344_5566_7788;

    fn flush(lsn: u64, live_keys: u64) -> Flush {
        Flush { lsn: Lsn::new(lsn), live_keys }
    }

    /// Returns a file written with three frames, and two appended.
    fn file() -> (Vec<u8>, Vec<Record>) {
        let id = TreeId::new(1);
        let tree = Tree::empty(id, vec![CfId::new(16)]);
        let records = vec![
            Record::Tree(tree),
            Record::Next(TreeId::new(2)),
            Record::LogStart(Lsn::FIRST, Vec::new()),
            Record::Begin(id, flush(8192, 1)),
            Record::Done(id, flush(8192, 1)),
        ];
        let mut file = encode_file(SALT, &records[..3]);
        file.extend(encode_frame(SALT, 3, &records[3]));
        file.extend(encode_frame(SALT, 4, &records[4]));
        (file, records)
    }

    fn fold(records: &[Record]) -> State {
        let mut state = State::default();
        records.iter().for_each(|record| state.apply(record).unwrap());
        state
    }

    /// Goal: B1, B2 for a truncated file: the reader gets the complete frames before the cut, or refuses a cut within
    /// those that the file was written with. Method: every length.
    #[test]
    fn file_cut_at_any_byte_gives_the_frames_before_or_is_refused() {
        let (file, records) = file();
        let ends: Vec<usize> = records
            .iter()
            .scan(HEADER_BYTES, |end, record| {
                *end += FRAME_HEADER_BYTES + record.encode().len();
                Some(*end)
            })
            .collect();
        assert_eq!(*ends.last().unwrap(), file.len());
        for len in 0..=file.len() {
            let whole = ends.iter().filter(|end| **end <= len).count();
            match decode_file(&file[..len]) {
                Ok(contents) => {
                    assert!(whole >= 3, "cut to {len}");
                    assert_eq!(contents.state, fold(&records[..whole]), "cut to {len}");
                    assert_eq!(contents.torn_bytes, len - ends[whole - 1], "cut to {len}");
                }
                Err(_) => assert!(whole < 3, "cut to {len}"),
            }
        }
    }

    /// Goal: a flipped bit anywhere but in the last frame is refused; in the last frame it is taken for an incomplete
    /// append. Method: every bit.
    #[test]
    fn flipped_bit_is_refused_unless_it_is_in_the_last_frame() {
        let (file, records) = file();
        let last = file.len() - FRAME_HEADER_BYTES - records[4].encode().len();
        for bit in 0..file.len() * 8 {
            let mut bad = file.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match decode_file(&bad) {
                Ok(contents) => {
                    assert!(bit / 8 >= last, "bit {bit}");
                    assert_eq!(contents.state, fold(&records[..4]), "bit {bit}");
                }
                Err(_) => assert!(bit / 8 < last, "bit {bit}"),
            }
        }
    }

    /// Goal: frames of another file, and a newer version, are not accepted. Method: append a frame under another salt;
    /// write version 2.
    #[test]
    fn frame_of_another_salt_is_a_torn_tail_and_a_newer_version_is_named() {
        let (file, _) = file();
        let foreign = encode_frame(SALT + 1, 5, &Record::Next(TreeId::new(9)));
        let contents = decode_file(&[&file[..], &foreign].concat()).unwrap();
        assert_eq!(contents.torn_bytes, foreign.len());
        let mut newer = file;
        newer[12] = 2;
        let crc = crc32c(&newer[12..32]);
        newer[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode_file(&newer), Err(Refused::Newer(2)));
    }

    /// Goal: the written bytes are the documented ones. Method: the worked example of docs/format.md.
    #[test]
    fn manifest_has_its_documented_bytes() {
        let record = Record::Done(TreeId::new(1), flush(8192, 3));
        let bytes = encode_frame(SALT, 4, &record);
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex[4..].join(" "),
            "12 00 00 00 04 00 00 00 00 00 00 00 04 01 00 20 00 00 00 00 00 00 03 00 00 00 00 00 00 00"
        );
    }
}

//! Journals as bytes: every verdict, every cut, every flipped bit.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "tests may panic")]

use super::*;

fn rows() -> Vec<Entry> {
    let gain = Gain { low: -0.5, expected: 0.1, high: 3.0 };
    let mut verdicts = vec![
        Verdict::Proposed,
        Verdict::Trial,
        Verdict::Canary { until_s: u64::MAX },
        Verdict::Kept { gain: -0.25 },
        Verdict::Rejected { p: 0.5 },
        Verdict::RejectedLate,
        Verdict::Worse,
        Verdict::Loss,
        Verdict::Interrupted,
    ];
    verdicts.extend(GUARDS.map(Verdict::Guarded));
    let row = |(id, verdict): (u64, Verdict)| {
        let setting = Setting::ALL[usize::try_from(id).unwrap() % Setting::ALL.len()];
        let trial_p = (id % 2 == 1).then_some(0.03);
        let moved =
            Moved { unit: UnitId::new(20), calls_per_s: (1.0, 0.5), cost: (7.0, 9.0), features: vec![(1.0, 2.0)] };
        let count = usize::try_from(id % 3).unwrap();
        let row = Row { id, at_s: 50 + id, setting, old: 1.0, new: 2.0, model_hash: id << 40, gain, trial_p, verdict };
        Entry { row, moved: vec![moved; count] }
    };
    (0..).zip(verdicts).map(row).collect()
}

fn written(entries: &[Entry]) -> Vec<u8> {
    entries.iter().fold(journal_header(), |bytes, entry| [bytes, entry.encode()].concat())
}

/// Goal: a journal reads back as it was written. Method: every verdict and guard, with and without a trial, with none
/// to two units.
#[test]
fn a_journal_reads_back() {
    let entries = rows();
    let bytes = written(&entries);
    assert_eq!(read_journal(&bytes), Ok(Journal { entries, bytes: bytes.len(), left_out: 0 }));
    assert!(rows().iter().all(|entry| Verdict::WORDS.contains(&entry.row.verdict.word())));
    fuzz_journal(&sample_journal());
    assert_eq!(read_journal(&sample_journal()).unwrap().entries.len(), 3);
}

/// Goal: a crash during an append loses that row only, at any byte. Method: the bytes are cut at every place.
#[test]
fn a_row_that_was_not_written_wholly_is_left_out() {
    let entries = rows();
    let bytes = written(&entries);
    for cut in 0..bytes.len() {
        let journal = read_journal(&bytes[..cut]).unwrap();
        assert_eq!(journal.entries, entries[..journal.entries.len()], "cut at {cut}");
        assert_eq!(journal.bytes + journal.left_out, cut);
        let whole = journal.bytes.max(HEADER_BYTES) + entries[journal.entries.len()].encode().len();
        assert!(cut < whole, "cut at {cut}, and the next row ends at {whole}");
    }
}

/// Goal: damage is not accepted as a row. Method: each bit is flipped: the rows before it are read, and no other ones.
#[test]
fn damage_is_no_row() {
    let entries: Vec<Entry> = rows().into_iter().take(3).collect();
    let bytes = written(&entries);
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            fuzz_journal(&damaged);
            match read_journal(&damaged) {
                Ok(journal) => {
                    assert!(place >= HEADER_BYTES && journal.bytes <= place, "{place}.{bit}");
                    assert_eq!(journal.entries, entries[..journal.entries.len()], "{place}.{bit}");
                }
                Err(_) => assert!(place < HEADER_BYTES, "{place}.{bit}"),
            }
        }
    }
}

/// Goal: the bytes are the documented ones. Method: the offsets of docs/format.md are checked in a journal of one row
/// without units.
#[test]
fn journals_have_their_documented_bytes() {
    let row = Row { id: 1, verdict: Verdict::Guarded(Guard::Memory), ..rows().remove(0).row };
    let bytes = written(&[row.into()]);
    assert_eq!(&bytes[..8], b"COLLIEDJ");
    assert_eq!(bytes[8..12], [1, 0, 0, 0]);
    assert_eq!(bytes[12..16], crc32c(&bytes[..12]).to_le_bytes());
    let body = &bytes[24..];
    assert_eq!(bytes[16..20], u32::try_from(body.len()).unwrap().to_le_bytes());
    assert_eq!(bytes[20..24], crc32c(body).to_le_bytes());
    assert_eq!(body[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(body[24..32], 2_u64.to_le_bytes(), "the guard");
    assert_eq!((body[32], body[33], body[34]), (1, 8, 0));
    assert_eq!(body[35..43], 1.0_f64.to_bits().to_le_bytes());
    assert_eq!((body.len(), body[body.len() - 1]), (84, 0));
}

/// Goal: impossible numbers and a newer version are refused. Method: records with each of them and a right checksum; a
/// header of version 2.
#[test]
fn what_cannot_be_is_refused() {
    let good = rows().remove(0);
    let read = |entry: &Entry| read_journal(&written(std::slice::from_ref(entry))).unwrap().entries.len();
    assert_eq!(read(&good), 1);
    for row in [
        Row { old: f64::NAN, ..good.row },
        Row { new: f64::INFINITY, ..good.row },
        Row { gain: Gain { low: f64::NEG_INFINITY, ..good.row.gain }, ..good.row },
        Row { trial_p: Some(f64::NAN), ..good.row },
        Row { verdict: Verdict::Kept { gain: f64::NAN }, ..good.row },
    ] {
        assert_eq!(read(&Entry::from(row)), 0, "{row:?}");
    }
    let mut newer = MAGIC.to_vec();
    newer.extend_from_slice(&2_u32.to_le_bytes());
    let crc = crc32c(&newer);
    newer.extend_from_slice(&crc.to_le_bytes());
    assert_eq!(read_journal(&newer), Err(TrainError::Version { found: 2 }));
    assert_eq!(read_journal(b"COLLIEMP"), Err(TrainError::Malformed { what: "magic" }));
}

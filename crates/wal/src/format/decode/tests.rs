//! Tests of the decoder: it inverts the writer and never panics on garbage.
#![allow(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "test code")]

use proptest::prelude::*;

use super::*;
use crate::format::{RecordHead, piece_head};
use crate::fuzz_reader;

fn put_record(out: &mut Vec<u8>, kind: u8, tag: u8, payload: &[u8]) {
    out.extend_from_slice(RecordHead::new(payload.len(), kind, tag).as_slice());
    out.extend_from_slice(payload);
}

fn any_header() -> impl Strategy<Value = FrameHeader> {
    let copies = (1..u16::MAX, 1..u16::MAX, any::<bool>(), any::<u32>());
    let copies =
        copies.prop_map(|(required, configured, quorum, change)| CopyCounts { required, configured, quorum, change });
    let link = prop::option::of((any::<u64>(), 0..LSN_LIMIT, 0..LSN_LIMIT, 1..7_u16, copies));
    let link = link.prop_map(|link| {
        link.map(|(incarnation, end, skip, reason, copies)| {
            let previous_end = Lsn::new(end);
            Link { incarnation, previous_end, skip, reason, copies }
        })
    });
    (any::<(u64, u64, u32, bool)>(), 0..LSN_LIMIT, 0..LSN_LIMIT, link).prop_map(
        |((salt, number, previous_crc, end_mark), start, durable, link)| {
            let (start, durable) = (Lsn::new(start), Lsn::new(durable));
            FrameHeader { salt, number, start, durable, payload_bytes: 0, previous_crc, end_mark, link }
        },
    )
}

proptest! {
    /// Goal: reading a frame inverts writing it. Method: random headers and records through both; one flipped bit among
    /// the bytes that the checksum covers is noticed.
    #[test]
    fn frame_reads_back_as_written(header in any_header(), bodies: Vec<(u8, Vec<u8>)>, flip: prop::sample::Index) {
        let mut header = header;
        let mut frame = vec![0; header.header_bytes()];
        for (tag, body) in &bodies {
            put_record(&mut frame, KIND_DATA, tag & 31, body);
        }
        header.payload_bytes = u32::try_from(frame.len() - header.header_bytes()).unwrap();
        let covered = frame.len();
        let crc = header.seal(&mut frame);
        prop_assert_eq!(frame.len() as u64, header.padded_bytes());
        let claim = frame_claim(&frame).unwrap();
        prop_assert_eq!(claim.header, header);
        prop_assert_eq!(claim.stored, crc);
        let mut payload = frame_payload(&claim, &frame).unwrap();
        prop_assert_eq!(whole_records(payload), Some(payload.len()));
        for (tag, body) in &bodies {
            let raw = record(payload).unwrap();
            prop_assert_eq!((raw.tag, raw.payload), (tag & 31, &body[..]));
            payload = &payload[usize::try_from(raw.bytes).unwrap()..];
        }
        prop_assert!(payload.is_empty());

        let bit = flip.index(covered * 8);
        frame[bit / 8] ^= 1 << (bit % 8);
        let read = frame_claim(&frame).filter(|claim| frame_payload(claim, &frame).is_ok());
        prop_assert!(read.is_none_or(|claim| claim.header != header), "bit {bit} unnoticed");
        prop_assert!(frame_claim(&frame).is_none_or(|claim| frame_payload(&claim, &frame).is_err()), "bit {bit}");
    }

    /// Goal: no bytes panic the reader. Method: random bytes, and random bytes behind a valid magic.
    #[test]
    fn garbage_never_panics(mut data: Vec<u8>, magic: bool) {
        if magic && data.len() > 4 {
            data[..4].copy_from_slice(FRAME_MAGIC);
        }
        fuzz_reader(&data);
    }
}

/// Goal: pieces of interleaved payloads are joined for each slot, incomplete ones are dropped. Method: two slots, one
/// without its first piece, one restarted.
#[test]
fn joiner_joins_pieces_per_slot_and_drops_incomplete_ones() {
    let mut joiner = Joiner::new(100);
    let mut take = |kind, slot, piece, body: &[u8]| {
        let mut payload = piece_head(slot, piece);
        payload.extend_from_slice(body);
        joiner
            .take(&RawRecord { kind, tag: 0, payload: &payload, bytes: 0 }, Lsn::FIRST)
            .map(|joined| joined.body.into_owned())
    };
    assert_eq!(take(KIND_PART, 0, 0, b"a"), None);
    assert_eq!(take(KIND_PART, 1, 0, b"x"), None);
    assert_eq!(take(KIND_PART, 0, 1, b"b"), None);
    assert_eq!(take(KIND_LAST, 1, 1, b"y"), Some(b"xy".to_vec()));
    assert_eq!(take(KIND_LAST, 0, 2, b"c"), Some(b"abc".to_vec()));
    assert_eq!(take(KIND_LAST, 0, 1, b"c"), None, "no piece 0");
    assert_eq!(take(KIND_PART, 0, 0, b"old"), None);
    assert_eq!(take(KIND_PART, 0, 0, b"new"), None);
    assert_eq!(take(KIND_LAST, 0, 1, b"!"), Some(b"new!".to_vec()));
    assert_eq!(take(KIND_PART, 0, 0, &[0; 60]), None);
    assert_eq!(take(KIND_LAST, 0, 1, &[0; 60]), None, "above the limit");
}

/// Goal: the joiner knows the position from which it must get records again. Method: begin two payloads, restart one,
/// finish them.
#[test]
fn joiner_names_its_oldest_unfinished_piece() {
    let mut joiner = Joiner::new(100);
    let mut take = |kind, slot, piece, at: u64| {
        let payload = piece_head(slot, piece);
        joiner.take(&RawRecord { kind, tag: 0, payload: &payload, bytes: 0 }, Lsn::new(at));
        joiner.oldest().map(Lsn::get)
    };
    assert_eq!(take(KIND_DATA, 9, 9, 10), None);
    assert_eq!(take(KIND_PART, 0, 0, 20), Some(20));
    assert_eq!(take(KIND_PART, 1, 0, 30), Some(20));
    assert_eq!(take(KIND_PART, 0, 0, 40), Some(30), "the first try is given up");
    assert_eq!(take(KIND_LAST, 1, 1, 50), Some(40));
    assert_eq!(take(KIND_LAST, 0, 1, 60), None);
}

/// Goal: a header block reads back, a newer format is named, a flipped bit is noticed. Method: one of each.
#[test]
fn segment_header_reads_back_and_a_newer_format_is_named() {
    let header = SegmentHeader { log_id: [7; 16], number: 3, salt: 99, segment_bytes: 1 << 20 };
    let mut block = header.encode();
    assert_eq!(segment_header(&block), HeaderBlock::Segment(header));
    block[100] ^= 1;
    assert!(matches!(segment_header(&block), HeaderBlock::Bad(bad) if bad.stored != bad.computed));
    block[100] ^= 1;
    block[12] = 2;
    let crc = crc32c(&block[12..]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(segment_header(&block), HeaderBlock::Newer(2));
    assert!(matches!(segment_header(&[]), HeaderBlock::Bad(_)));
}

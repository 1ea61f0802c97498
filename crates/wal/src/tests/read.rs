//! The readers of a log's files: every source yields what was written, and no file disappears under a reader.

use collie_env::{Env, Random, SimRandom};
use proptest::prelude::*;

use crate::{
    Level, Log, Lsn, Options, ReadMode, Record, RecordKind, RecordRef, WalError, flush::recent::HeldFrame, inspect,
    read::source::FrameSource, testing::tiny,
};

/// Opens a log on the real file system with small files and without threads of its own.
fn open(dir: &std::path::Path) -> Log {
    Log::open(&Env::real(), dir, tiny()).unwrap().0
}

fn all(records: crate::Records) -> Vec<Record> {
    records.map(Result::unwrap).collect()
}

/// One record to append: tag, size of the payload, and the action that follows.
fn any_appends() -> impl Strategy<Value = Vec<(u8, usize, u8)>> {
    let size = prop_oneof![6 => 0..600_usize, 2 => 4_000..4_200_usize, 1 => 4_200..30_000_usize];
    prop::collection::vec((0..32_u8, size, 0..6_u8), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Goal: reading is the inverse of writing, whatever the source (N1, LOG-13). Method: random records in files of 40
    /// KiB with random flushes between them, read back by file, by mapping and by inspection, from the front and from
    /// each record on.
    #[test]
    fn reader_is_the_inverse_of_the_writer_through_every_source(appends in any_appends(), seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let (log, random) = (open(dir.path()), SimRandom::new(seed));
        let (mut writer, mut written) = (log.writer(), Vec::new());
        for (tag, size, then) in appends {
            let mut body = vec![0; size];
            random.fill(&mut body);
            let at = writer.append(tag, &[&body]).unwrap();
            written.push((at.start, at.end, tag, body));
            match then {
                0 => log.flush_wal(true).unwrap(),
                1 => log.flush_wal(false).unwrap(),
                2 => log.tick().unwrap(),
                _ => {}
            }
        }
        log.flush_wal(true).unwrap();
        let from_file = all(log.read_with(Lsn::ZERO, ReadMode::File).unwrap());
        let came_back: Vec<_> = from_file.iter().map(|r| (r.lsn, r.end, r.tag, r.body.clone())).collect();
        prop_assert_eq!(&came_back, &written);
        prop_assert_eq!(&all(log.read_with(Lsn::ZERO, ReadMode::Map).unwrap()), &from_file);
        for (mode, begun) in [(ReadMode::File, 0), (ReadMode::File, written.len() / 2), (ReadMode::Map, 1)] {
            let (mut records, mut visited) = (log.read_with(Lsn::ZERO, mode).unwrap(), Vec::new());
            prop_assert_eq!(records.by_ref().take(begun).count(), begun);
            let visit = |r: RecordRef<'_>| -> Result<(), WalError> {
                visited.push((r.lsn, r.end, r.tag, r.body.to_vec()));
                Ok(())
            };
            records.visit(visit).unwrap();
            prop_assert_eq!(&visited[..], &written[begun..], "visited after {}", begun);
        }
        let middle = written[written.len() / 2].0;
        for from in [middle, middle.plus(1), written[0].1, log.durable()] {
            let expected: Vec<_> = from_file.iter().filter(|record| record.lsn >= from).cloned().collect();
            for mode in [ReadMode::File, ReadMode::Map] {
                let read = all(log.read_with(from, mode).unwrap());
                // Pieces in an earlier file are not searched for.
                let whole: Vec<_> = expected.iter().filter(|r| read.contains(r) || r.body.len() <= 4_096).cloned().collect();
                prop_assert_eq!(&read, &whole, "{:?} from {}", mode, from);
            }
        }
        log.abandon();
        let found = inspect(&Env::real(), dir.path()).unwrap();
        prop_assert!(found.damage().is_none());
        prop_assert_eq!(&all(found.records(Lsn::ZERO)), &from_file);
    }
}

/// Goal: a visitor that fails is not called again, and its error is returned. Method: fail at the fifth of many records
/// that share a frame.
#[test]
fn visitor_stops_at_its_own_error() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let mut writer = log.writer();
    for number in 0..20_u8 {
        writer.append(0, &[&[number]]).unwrap();
    }
    log.flush_wal(true).unwrap();
    let mut seen = Vec::new();
    let outcome = log.read(Lsn::ZERO).visit(|record| {
        seen.push(record.body[0]);
        if seen.len() == 5 { Err(WalError::Closed) } else { Ok(()) }
    });
    assert!(matches!(outcome, Err(WalError::Closed)));
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

/// Goal: a log can be read while it is written: every iterator ends at the position that was durable when it was made.
/// Method: an iterator made before each of 60 commits is read only after all of them.
#[test]
fn iterator_ends_at_what_was_durable_when_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let mut writer = log.writer();
    let mut iterators = Vec::new();
    for number in 0..60_u8 {
        for mode in [ReadMode::File, ReadMode::Map] {
            iterators.push((number, log.read_with(Lsn::ZERO, mode).unwrap()));
        }
        writer.commit(0, &[number; 1_500], Level::Disk).unwrap();
        writer.append(0, &[b"not durable"]).unwrap();
        writer.log().flush_wal(false).unwrap();
    }
    assert!(log.stat().segments > 4);
    for (count, iterator) in iterators {
        let read = all(iterator).into_iter().filter(|record| record.body.len() == 1_500);
        assert!(read.map(|record| record.body[0]).eq(0..count), "made before commit {count}");
    }
}

/// Goal: a mapped file is neither removed nor used again under its reader, and is freed once the reader has gone on
/// (T3, G7). Method: free everything while a mapped iterator stands in the first file, then read on.
#[test]
fn mapped_files_are_held_until_the_reader_has_gone_on() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let mut writer = log.writer();
    let ends: Vec<Lsn> = (0..100_u8).map(|n| writer.commit(0, &[n; 1_500], Level::Disk).unwrap().end).collect();
    let start = log.read(Lsn::ZERO).next().unwrap().unwrap().lsn;
    let mut mapped = log.read_with(Lsn::ZERO, ReadMode::Map).unwrap();
    assert_eq!(mapped.next().unwrap().unwrap().body[0], 0);
    let kept = log.truncate_before(Lsn::MAX).unwrap();
    assert_eq!((kept.start, kept.held_by.as_deref()), (start, Some("a mapped reader from 0/0")));

    let read: Vec<u8> = mapped.by_ref().take(59).map(|record| record.unwrap().body[0]).collect();
    assert!(read.into_iter().eq(1..60));
    let kept = log.truncate_before(Lsn::MAX).unwrap();
    assert!(kept.start > ends[30] && kept.start < ends[60] && kept.held_by.is_some(), "{kept:?}");
    assert!(mapped.map(|record| record.unwrap().body[0]).eq(60..100));
    let kept = log.truncate_before(Lsn::MAX).unwrap();
    assert!(kept.start > ends[70] && kept.held_by.is_none(), "{kept:?}");
}

/// Goal: a reader by file whose files were freed gets `CursorLost`, not damage. Method: free while it stands in the
/// first file and while it has not opened any.
#[test]
fn freed_files_end_a_reader_by_file_with_cursor_lost() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let mut writer = log.writer();
    for number in 0..100_u8 {
        writer.commit(0, &[number; 1_500], Level::Disk).unwrap();
    }
    let (mut begun, fresh) = (log.read(Lsn::ZERO), log.read(Lsn::ZERO));
    begun.next().unwrap().unwrap();
    let kept = log.truncate_before(Lsn::MAX).unwrap();
    for reader in [begun, fresh] {
        let outcome: Result<Vec<Record>, WalError> = reader.collect();
        let error = outcome.unwrap_err();
        assert!(matches!(error, WalError::CursorLost { oldest } if oldest == kept.start), "{error}");
    }
    assert_eq!(log.read(Lsn::ZERO).next().unwrap().unwrap().lsn, kept.start);
}

/// Goal: a frame kept in memory reads like the one in its file. Method: keep the frames of a run and read each from
/// memory and from its file.
#[test]
fn frames_in_memory_read_as_those_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let recent = log.recent();
    recent.attach();
    let mut writer = log.writer();
    for size in 0..80_usize {
        writer.commit(7, &vec![1; size * 40], Level::Disk).unwrap();
    }
    let (mut position, mut frames) = (Lsn::FIRST, 0);
    while position < log.durable() {
        let held = recent.at(position, log.durable()).unwrap();
        let mut window =
            crate::read::window::Window::open(&collie_env::RealFiles, held.place.path.to_path_buf()).unwrap();
        let mut held: &HeldFrame = &held;
        let offset = held.place.offset;
        let from_file = window.frame_at(offset, None).unwrap().unwrap();
        let from_memory = held.frame_at(offset, None).unwrap().unwrap();
        assert_eq!(from_memory.header, from_file.header);
        assert_eq!(from_memory.payload, from_file.payload);
        assert_eq!(from_memory.next_offset, from_file.next_offset);
        (position, frames) = (from_memory.header.end(), frames + 1);
    }
    assert_eq!(frames, 80);
    recent.detach();
}

/// Goal: a hole is yielded as one. Method: put an UNLOGGED record into a frame by hand.
#[test]
fn unlogged_records_are_yielded_as_holes() {
    let frame = |payload: Vec<u8>| {
        let header = crate::format::FrameHeader {
            salt: 1,
            number: 1,
            start: Lsn::FIRST,
            durable: Lsn::FIRST,
            payload_bytes: u32::try_from(payload.len()).unwrap(),
            previous_crc: 0,
            end_mark: false,
            link: None,
        };
        let mut bytes = vec![0; 64];
        bytes.extend_from_slice(&payload);
        header.seal(&mut bytes);
        bytes
    };
    let head = |kind| crate::format::RecordHead::new(1, kind, 9).as_slice().to_vec();
    let (data, hole) = (crate::format::KIND_DATA, crate::format::KIND_UNLOGGED);
    let bytes = frame([head(data), vec![5], head(hole), vec![6], head(data), vec![7]].concat());
    let mut source = &bytes[..];
    let frame = source.frame_at(0, None).unwrap().unwrap();
    let mut assembler = crate::read::assemble::Assembler::new(Lsn::ZERO, 100);
    let place = crate::read::assemble::Place { path: std::path::Path::new("/x").into(), offset: 0 };
    assembler.take(&frame, &place, Lsn::MAX).unwrap();
    let kinds: Vec<_> = std::iter::from_fn(|| assembler.next()).map(|r| (r.kind, r.tag, r.body)).collect();
    let (data, hole) = (RecordKind::Data, RecordKind::Unlogged);
    assert_eq!(kinds, [(data, 9, vec![5]), (hole, 9, vec![6]), (data, 9, vec![7])]);
}

/// Goal: the bound of the frames kept in memory is checked. Method: one above.
#[test]
fn recent_size_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { recent_bytes: (1 << 30) + 1, ..tiny() };
    let refused = Log::open(&Env::real(), dir.path(), options).unwrap_err();
    assert_eq!(refused.to_string(), "wal: wal.recent_size = 1073741825 is out of bounds: use 0 to 1GiB");
}

//! Shipping: the stream as it is, whatever frames, files, failures and incarnations it went through; shippers that lose
//! their place; and the effect of a shipper on flushes.

use std::{
    collections::BTreeMap,
    future::Future,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use collie_base::checksum::Crc32c;
use collie_env::{Clock as _, Env, Fault, RealClock, SimFiles, SimRandom};

use crate::{
    Level, Log, Lsn, Mark, Options, Records, Recovered, ShipOptions, Shipment, Shipper, TAIL_CHECK_BYTES, Unpacker,
    WalError,
    flush::FLUSHER_SILENT,
    format::decode,
    read::frame_reader::FrameReader,
    read::walk,
    scan::inspect::inspect_resting,
    testing::{eventually, tiny},
};

const DIR: &str = "/wal";
/// Tag of the record in front of which positions jump.
pub(crate) const JUMP_TAG: u8 = 31;

/// A run of records as it was shipped.
pub(crate) type Run = (Shipment, Vec<u8>);

pub(crate) fn open(disk: &SimFiles, options: Options) -> (Log, Recovered) {
    let first_record = Some((JUMP_TAG, b"a life begins".to_vec()));
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), Options { first_record, ..options }).unwrap()
}

pub(crate) fn ship_from(log: &Log, from: Lsn) -> Shipper {
    log.ship("slot", ShipOptions::from(from)).unwrap()
}

/// Takes all shipments that are ready now.
pub(crate) fn drain(shipper: &mut Shipper, most_bytes: usize) -> Vec<Run> {
    let mut out = Vec::new();
    std::iter::from_fn(|| {
        out.clear();
        shipper.try_next(most_bytes, &mut out).unwrap().map(|shipment| (shipment, out.clone()))
    })
    .collect()
}

/// Returns the bytes of the stream that a log at rest holds, by their positions: one entry per frame.
pub(crate) fn stream_of(disk: &SimFiles, dir: &str) -> BTreeMap<Lsn, Vec<u8>> {
    let found = inspect_resting(&Env::over(disk.clone(), 1), dir.as_ref()).unwrap();
    let mut stream = BTreeMap::new();
    walk::frames(disk, &found.scan.spans, found.durable(), |_, frame| {
        if !frame.payload.is_empty() {
            stream.insert(frame.header.start, frame.payload.to_vec());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    stream
}

/// Joins runs that follow each other without a jump, so that streams that were cut differently compare equal.
pub(crate) fn joined(runs: impl IntoIterator<Item = (Lsn, Vec<u8>)>) -> Vec<(Lsn, Vec<u8>)> {
    let mut joined: Vec<(Lsn, Vec<u8>)> = Vec::new();
    for (start, bytes) in runs {
        match joined.last_mut() {
            Some((at, before)) if at.plus(before.len() as u64) == start => before.extend(bytes),
            _ => joined.push((start, bytes)),
        }
    }
    joined
}

/// Does something random to a log, mostly an append; a body begins with the record's number.
pub(crate) fn disturb(log: &Log, random: &SimRandom, number: u32) {
    let mut writer = log.writer();
    let size = [4, 300, 4_090, 9_000, 40_000][usize::try_from(random.below(5)).unwrap()];
    let mut body = vec![u8::try_from(number % 251).unwrap(); size];
    body[..4].copy_from_slice(&number.to_le_bytes());
    match random.below(12) {
        0 => drop(writer.append_unlogged(3, b"cf", |_| ())),
        1 => drop(log.tick()),
        2 => drop(log.flush_wal(false)),
        3 | 4 => drop(log.flush_wal(true)),
        _ => drop(writer.append(u8::try_from(number % 31).unwrap(), &[&body])),
    }
}

/// Goal: the shipments are the stream, byte for byte and once, with jumps only where an incarnation of the log begins,
/// in front of its first record, and with nothing that a power cut takes back (X1 to X3). Method: seeded incarnations
/// of one log, with failed writes and syncs in some, each ended by a close, a kill or a power cut; the shipper is made
/// again where it was; runs of random sizes; compared with the frames that the last incarnation left, and with the
/// records that a reader yields.
#[test]
fn shipped_is_the_stream_byte_for_byte_over_crashes_and_failed_writes() {
    let (mut jumps, mut rewrites) = (0, 0);
    for seed in 0..16 {
        let random = SimRandom::new(seed);
        let recent_bytes = [0, 5_000, 40_000, 1 << 20][usize::try_from(seed % 4).unwrap()];
        let options = Options { recent_bytes, ring_bytes: 64 << 10, segment_bytes: 256 << 10, ..tiny() };
        let mut disk = SimFiles::new();
        let (mut runs, mut position): (Vec<Run>, Lsn) = (Vec::new(), Lsn::FIRST);
        let mut expected_jumps = BTreeMap::new();
        let lives = 2 + random.below(4);
        for life in 0..lives {
            let (log, recovered) = open(&disk, options.clone());
            assert!(position <= recovered.end, "seed {seed}: {position} was shipped, {recovered:?}");
            if recovered.next > recovered.end {
                expected_jumps.insert(recovered.next, recovered.end);
            }
            let mut shipper = ship_from(&log, position);
            if random.below(3) == 0 {
                let fails = disk.writes_and_syncs() + random.below(25);
                disk.fail_write_or_sync(fails, Fault::Eio);
            }
            for number in 0..60 {
                disturb(&log, &random, number);
                if random.below(4) == 0 {
                    let most = [1, 700, 10_000, 1 << 20][usize::try_from(random.below(4)).unwrap()];
                    let durable = log.durable();
                    runs.extend(drain(&mut shipper, most));
                    assert_eq!(shipper.position().max(recovered.next), durable.max(recovered.next), "seed {seed}");
                    // The file of the cursors may meet the fault: then the cursor is stored later.
                    let advanced = shipper.advance(shipper.position());
                    assert!(matches!(advanced, Ok(()) | Err(WalError::Io { .. })), "seed {seed}: {advanced:?}");
                }
            }
            rewrites += log.stat().rewrites;
            position = shipper.position();
            drop(shipper);
            match random.below(3) {
                _ if life + 1 == lives => {
                    log.flush_wal(true).unwrap();
                    runs.extend(drain(&mut ship_from(&log, position), 1 << 20));
                    log.close().unwrap();
                }
                0 => log.close().unwrap(),
                1 => {
                    log.abandon();
                    disk = disk.process_kill();
                }
                _ => {
                    disk = disk.power_cut(random.below(1 << 30));
                    log.abandon();
                }
            }
            disk.clear_faults();
        }
        let mut before = Lsn::FIRST;
        for (Shipment { prev_end, start, end, durable }, bytes) in &runs {
            assert_eq!((*prev_end, *end), (before, start.plus(bytes.len() as u64)), "seed {seed}");
            assert!(end <= durable && !bytes.is_empty(), "seed {seed}");
            if prev_end < start {
                jumps += 1;
                assert_eq!(decode::record(bytes).unwrap().tag, JUMP_TAG, "seed {seed}: at {start}");
                assert!(expected_jumps.contains_key(start), "seed {seed}: {expected_jumps:?}, at {start}");
            }
            before = *end;
        }
        let shipped = joined(runs.iter().map(|(shipment, bytes)| (shipment.start, bytes.clone())));
        assert_eq!(shipped, joined(stream_of(&disk, DIR)), "seed {seed}");
        // B1, with the runs as they were shipped.
        let (log, _) = open(&disk, options.clone());
        let read: Vec<_> = log.read(Lsn::ZERO).map(|record| record.unwrap()).collect();
        let mut unpacker = Unpacker::new(Lsn::FIRST, &options);
        let mut unpacked = Vec::new();
        for (shipment, bytes) in &runs {
            let visit = |record: crate::RecordRef<'_>| {
                unpacked.push((record.lsn, record.end, record.kind, record.tag, record.body.to_vec()));
                Ok::<(), WalError>(())
            };
            unpacker.take(shipment.start, shipment.prev_end, bytes, visit).unwrap();
        }
        let read: Vec<_> = read.into_iter().map(|r| (r.lsn, r.end, r.kind, r.tag, r.body)).collect();
        assert_eq!(unpacked, read, "seed {seed}");
    }
    assert!(jumps > 8 && rewrites > 0, "the runs have {jumps} jumps and {rewrites} failed files");
}

/// Goal: nothing above `durable` is shipped, whether appended or written (REPL-1). Method: try at each step.
#[test]
fn nothing_is_shipped_before_it_is_durable() {
    let (log, _) = open(&SimFiles::new(), tiny());
    let mut shipper = ship_from(&log, Lsn::ZERO);
    let end = log.writer().append(1, &[b"not yet"]).unwrap().end;
    assert_eq!(drain(&mut shipper, 1 << 20), []);
    log.flush_wal(false).unwrap();
    assert_eq!((log.written(), drain(&mut shipper, 1 << 20)), (end, vec![]));
    log.flush_wal(true).unwrap();
    let runs = drain(&mut shipper, 1 << 20);
    assert_eq!(runs.iter().map(|(shipment, _)| shipment.end).collect::<Vec<_>>(), [end]);
}

/// Goal: shipping begins at any end of a record and nowhere else: not inside a record, and not where no record ends
/// because positions jump. Method: three incarnations; every position around every record, from memory and from files.
#[test]
fn shipping_begins_at_every_end_of_a_record_and_nowhere_else() {
    let disk = SimFiles::new();
    let mut ends = vec![Lsn::FIRST];
    for life in 0..3 {
        let (log, recovered) = open(&disk, tiny());
        let mut writer = log.writer();
        for size in [3, 5_000, 900, 1] {
            log.flush_wal(true).unwrap();
            writer.append(1, &[&vec![7; size]]).unwrap();
        }
        log.flush_wal(true).unwrap();
        if life < 2 {
            log.abandon();
            continue;
        }
        let all = joined(stream_of(&disk, DIR));
        for (start, bytes) in &all {
            let mut at = 0;
            ends.push(*start);
            while let Some(raw) = decode::record(&bytes[at..]) {
                at += usize::try_from(raw.bytes).unwrap();
                ends.push(start.plus(at as u64));
            }
        }
        for end in &ends {
            let shipped = drain(&mut ship_from(&log, *end), 1 << 20);
            let expected: Vec<_> = all
                .iter()
                .filter_map(|(start, bytes)| {
                    let skipped = usize::try_from(end.bytes_since(*start)).unwrap();
                    Some((*start.max(end), bytes.get(skipped..)?.to_vec())).filter(|(_, bytes)| !bytes.is_empty())
                })
                .collect();
            assert_eq!(joined(shipped.into_iter().map(|(run, bytes)| (run.start, bytes))), expected, "from {end}");
        }
        let inside_a_jump = recovered.next.get() - 1;
        for wrong in ends.iter().map(|end| end.get() + 1).chain([inside_a_jump]) {
            let wrong = Lsn::new(wrong);
            if wrong >= log.durable() || ends.contains(&wrong) {
                continue;
            }
            let refused = ship_from(&log, wrong).try_next(1 << 20, &mut Vec::new());
            assert!(matches!(refused, Err(WalError::InvalidOptions { .. })), "from {wrong}: {refused:?}");
        }
    }
}

/// Goal: a replica that is too far behind gets an error, by its own bound or because the files are gone, and never
/// stops an append; the files with the last bytes before its cursor stay as long as it has its place (X5). Method:
/// small files, more records than the bound.
#[test]
fn shipper_that_fell_behind_its_bound_loses_its_place_and_stops_nobody() {
    let (log, _) = open(&SimFiles::new(), tiny());
    let commit = |count: u32| {
        for _ in 0..count {
            log.writer().commit(1, &[5; 3_000], Level::Disk).unwrap();
            log.tick().unwrap();
        }
    };
    let mut shipper = log.ship("slot", ShipOptions::from(Lsn::ZERO).bound_bytes(200_000)).unwrap();
    commit(50);
    drain(&mut shipper, 1 << 20);
    let done = shipper.position();
    shipper.advance(done).unwrap();
    let freed = log.truncate_before(log.durable()).unwrap();
    assert!(freed.start > Lsn::FIRST && freed.start.plus(u64::from(TAIL_CHECK_BYTES)) <= done, "{freed:?}, {done}");
    assert!(log.crc_before(done, TAIL_CHECK_BYTES).unwrap().is_some());
    // Also for a shipper that starts again further on.
    drop(shipper);
    commit(20);
    let done = log.durable();
    let mut shipper = log.ship("slot", ShipOptions::from(done).bound_bytes(200_000)).unwrap();
    commit(10);
    log.truncate_before(log.durable()).unwrap();
    assert!(log.crc_before(done, TAIL_CHECK_BYTES).unwrap().is_some());
    assert_eq!(drain(&mut shipper, 1 << 20).first().map(|(run, _)| run.prev_end), Some(done));
    commit(100);
    assert!(log.stat().consumers[0].lost);
    let lost = |result: Result<_, WalError>| matches!(result, Err(WalError::CursorLost { .. }));
    assert!(lost(shipper.try_next(1 << 20, &mut Vec::new()).map(|_| ())));
    drop(shipper);
    log.truncate_before(log.durable()).unwrap();
    assert!(lost(log.ship("slot", ShipOptions::from(done)).map(|_| ())));
    assert_eq!(log.crc_before(done, 100).unwrap(), None);
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Goal: a future of the next shipment wakes once a record is durable, loses nothing when dropped, and ends with the
/// log; so does a blocking call. Method: polled by hand; then a blocking call during a commit and a close.
#[test]
fn waiting_for_a_shipment_ends_with_what_is_durable_or_with_the_log() {
    let (log, _) = open(&SimFiles::new(), tiny());
    let (mut writer, mut shipper) = (log.writer(), ship_from(&log, Lsn::ZERO));
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    for number in 0..12_u8 {
        let mut out = Vec::new();
        let mut next = Box::pin(shipper.next_async(1 << 20, &mut out));
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let before = wakes.0.load(Ordering::Relaxed);
        let end = writer.append(0, &[&[number]]).unwrap().end;
        log.wait(Mark::Durable, end).unwrap();
        assert!(wakes.0.load(Ordering::Relaxed) > before);
        if number % 3 > 0 {
            let Poll::Ready(shipment) = next.as_mut().poll(&mut Context::from_waker(&waker)) else { panic!("ready") };
            assert_eq!(shipment.unwrap().end, end);
        }
        drop(next);
        if number % 3 == 0 {
            assert_eq!(shipper.next(1 << 20, &mut out).unwrap().end, end);
        }
        assert_eq!(decode::record(&out).unwrap().payload, [number]);
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut out = Vec::new();
            let first = shipper.next(1 << 20, &mut out).map(|shipment| shipment.end);
            (first, shipper.next(1 << 20, &mut out))
        });
        let end = writer.commit(0, b"news", Level::Disk).unwrap().end;
        eventually("the news is shipped", || waiting.is_finished() || log.stat().recent_bytes > 0);
        log.close().unwrap();
        let (first, last) = waiting.join().unwrap();
        assert_eq!(first.unwrap(), end);
        assert!(matches!(last, Err(WalError::Closed)), "{last:?}");
    });
}

/// Goal: two logs with the same stream have the same checksum over any stretch of it, however they cut it into frames;
/// a log with another byte in it, or with other jumps, has another; none is returned for bytes that are not there or
/// were freed. Method: stretches before, over and behind a byte that differs, between records and inside them; logs
/// with one more incarnation, one of which began further on; files that are freed.
#[test]
fn checksum_of_a_stretch_tells_equal_bytes_from_equal_positions() {
    let fill = |disk: &SimFiles, flush_every: u8, other: u8| {
        let (log, _) = open(disk, tiny());
        let mut ends = vec![Lsn::FIRST];
        for number in 0..60_u8 {
            let body = if number == 40 { [other; 2_000] } else { [number; 2_000] };
            ends.push(log.writer().append(1, &[&body]).unwrap().end);
            if number % flush_every == 0 {
                log.tick().unwrap();
            }
        }
        log.flush_wal(true).unwrap();
        (log, ends)
    };
    let disk = SimFiles::new();
    let ((log, ends), (same, _)) = (fill(&disk, 1, 40), fill(&SimFiles::new(), 7, 40));
    let (other, _) = fill(&SimFiles::new(), 1, 41);
    let end = ends[60];
    for (from, to, has_the_byte) in [
        (ends[0], end, true),
        (ends[0], ends[40], false),
        (ends[40], ends[41], true),
        (ends[10].plus(7), ends[40].plus(500), true),
        (ends[41], end, false),
        (ends[59].plus(1), ends[59].plus(2), false),
    ] {
        let crc = log.crc_between(from, to).unwrap();
        assert!(crc.is_some(), "{from} to {to}");
        assert_eq!(same.crc_between(from, to).unwrap(), crc, "{from} to {to}");
        assert_eq!(other.crc_between(from, to).unwrap() != crc, has_the_byte, "{from} to {to}");
    }
    for (from, to) in [(end, end), (ends[2], ends[1]), (ends[1], end.plus(1)), (Lsn::ZERO, end)] {
        assert_eq!(log.crc_between(from, to).unwrap(), None, "{from} to {to}");
    }

    log.abandon();
    let (log, recovered) = open(&disk, tiny());
    assert!(recovered.next > end);
    let last = log.writer().commit(1, &[1; 100], Level::Disk).unwrap().end;
    let over = log.crc_between(ends[59], last).unwrap();
    log.abandon();
    let mut expected = Crc32c::new();
    for (start, bytes) in stream_of(&disk, DIR) {
        for (byte, at) in bytes.iter().zip(start.get()..).filter(|(_, at)| (ends[59].get()..last.get()).contains(at)) {
            if at == recovered.next.get() {
                expected.update(&at.to_le_bytes());
            }
            expected.update(&[*byte]);
        }
    }
    assert_eq!(over, Some(expected.finish()), "the position that the jump leads to counts");

    let start = same.truncate_before(end).unwrap().start;
    assert!(start > ends[0]);
    assert_eq!(same.crc_between(ends[0], end).unwrap(), None);
    assert!(same.crc_between(start, end).unwrap().is_some());
}

/// Goal: the check over the last bytes shows whether two logs hold the same stream, however they cut it into frames,
/// and never covers bytes that the log does not have. Method: two logs with the same records flushed differently, a
/// third with one byte changed, positions around their ends and over a jump.
#[test]
fn tail_check_tells_equal_bytes_from_equal_positions() {
    let fill = |flush_every: u8, other: u8| {
        let (log, _) = open(&SimFiles::new(), tiny());
        for number in 0..60_u8 {
            let body = if number == 40 { [other; 2_000] } else { [number; 2_000] };
            log.writer().append(1, &[&body]).unwrap();
            if number % flush_every == 0 {
                log.tick().unwrap();
            }
        }
        log.flush_wal(true).unwrap();
        log
    };
    let (log, same, other) = (fill(1, 40), fill(7, 40), fill(1, 41));
    let check = log.tail_check().unwrap();
    assert_eq!((check.end, check.bytes), (log.durable(), TAIL_CHECK_BYTES));
    assert_eq!(same.tail_check().unwrap(), check);
    assert_eq!(same.crc_before(check.end, check.bytes).unwrap(), Some(check.crc32c));
    assert_eq!(other.durable(), check.end);
    assert_ne!(other.crc_before(check.end, check.bytes).unwrap(), Some(check.crc32c));
    // The changed record lies above this one, and the last bytes before it are equal.
    let early = Lsn::FIRST.plus(40 * 2_003);
    assert_eq!(other.crc_before(early, 5_000).unwrap(), log.crc_before(early, 5_000).unwrap());
    assert!(log.crc_before(early, 5_000).unwrap().is_some());
    for (end, bytes) in [(check.end.plus(1), 1), (Lsn::FIRST.plus(10), 11), (check.end, TAIL_CHECK_BYTES + 1)] {
        assert_eq!(log.crc_before(end, bytes).unwrap(), None, "{bytes} before {end}");
    }
    assert_eq!(log.crc_before(check.end, 0).unwrap(), Some(0));

    let disk = SimFiles::new();
    let (log, _) = open(&disk, tiny());
    log.writer().commit(1, &[1; 100], Level::Disk).unwrap();
    log.abandon();
    let (log, recovered) = open(&disk, tiny());
    log.flush_wal(true).unwrap();
    let check = log.tail_check().unwrap();
    assert_eq!(u64::from(check.bytes), check.end.bytes_since(recovered.next), "back to the jump");
    assert_eq!(log.crc_before(check.end, check.bytes + 1).unwrap(), None, "over the jump");
    assert!(log.crc_before(recovered.end, 100).unwrap().is_some());
}

/// Goal: an unpacker that continues behind a reader has the pieces that the reader left incomplete. Method: a record in
/// pieces between short ones, cut at every end of a piece: read up to there, unpack the rest.
#[test]
fn unpacker_goes_on_behind_a_reader_with_its_unfinished_pieces() {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, tiny());
    let (mut long, mut short) = (log.writer(), log.writer());
    short.append(1, &[b"before"]).unwrap();
    long.append(2, &[&[9; 30_000]]).unwrap();
    short.append(3, &[b"after"]).unwrap();
    log.flush_wal(true).unwrap();
    let runs = drain(&mut ship_from(&log, Lsn::ZERO), 1);
    let all: Vec<_> = log.read(Lsn::ZERO).map(|record| (record.as_ref().unwrap().lsn, record.unwrap().body)).collect();
    assert!(runs.len() > 8 && all.len() == 3, "{} runs, {} records", runs.len(), all.len());
    let found = inspect_resting(&Env::over(disk.clone(), 1), DIR.as_ref()).unwrap();
    for at in stream_of(&disk, DIR).into_keys() {
        let frames = FrameReader::new(Arc::new(disk.clone()), found.scan.spans.clone(), Lsn::ZERO, None);
        let mut records = Records::new(frames, Lsn::ZERO, at, 1 << 20);
        let mut yielded: Vec<_> = records.by_ref().map(|record| record.unwrap()).map(|r| (r.lsn, r.body)).collect();
        let mut unpacker = records.into_unpacker().unwrap();
        for (run, bytes) in runs.iter().filter(|(run, _)| run.start >= at) {
            let visit = |record: crate::RecordRef<'_>| {
                yielded.push((record.lsn, record.body.to_vec()));
                Ok::<(), WalError>(())
            };
            unpacker.take(run.start, run.prev_end, bytes, visit).unwrap();
        }
        assert_eq!((unpacker.position(), &yielded), (log.durable(), &all), "read up to {at}");
    }
    // Bytes that do not continue, or are no record, are refused and change nothing.
    let mut unpacker = Unpacker::new(Lsn::FIRST, &tiny());
    let none = |_: crate::RecordRef<'_>| -> Result<(), WalError> { panic!("nothing is yielded") };
    let (run, bytes) = &runs[0];
    let wrong = unpacker.take(run.start.plus(8), run.prev_end.plus(8), bytes, none);
    assert!(matches!(wrong, Err(WalError::Gap { .. })), "{wrong:?}");
    for bad in [&bytes[..bytes.len() - 1], &[][..], &[2, 0, 1, 1]] {
        let wrong = unpacker.take(run.start, run.prev_end, bad, none);
        assert!(matches!(wrong, Err(WalError::BadStream { .. })), "{wrong:?}");
    }
    assert_eq!(unpacker.position(), Lsn::FIRST);
}

/// Goal: while a shipper exists, records that no caller waits for become durable after its delay, not after
/// `wal.flush_delay`, also if that wait had begun. Method: a `wal.flush_delay` of 10 s; on a busy machine one try may
/// take as long, but not each one.
#[test]
fn shipper_shortens_the_delay_of_unwaited_records() {
    assert!((0..3).any(|_| is_shortened()), "the flush waited for wal.flush_delay");
}

fn is_shortened() -> bool {
    let options = Options { threads: true, flush_delay: Duration::from_secs(10), ..Options::small() };
    let (log, _) = open(&SimFiles::new(), options);
    let mut writer = log.writer();
    let begun = RealClock.now_ns();
    let first = writer.append(1, &[b"before it came"]).unwrap().end;
    log.flush_soon();
    let mut shipper = log.ship("slot", ShipOptions::from(Lsn::ZERO).flush_delay(Duration::from_millis(1))).unwrap();
    eventually("the first is durable", || log.durable() >= first);
    for _ in 0..3 {
        let end = writer.append(1, &[b"while it is here"]).unwrap().end;
        log.flush_soon();
        assert!(shipper.next(1 << 20, &mut Vec::new()).unwrap().end <= end);
        eventually("the next is durable", || log.durable() >= end);
    }
    RealClock.now_ns() - begun < 9_000_000_000
}

/// Goal: an asynchronous commit in the silence after a flush begins its delay at once; it used to wait for the end of
/// the silence first, 100 ms. Method: append once the background flusher is in the silence; it has left it when the
/// call returns.
#[test]
fn append_in_a_silence_does_not_wait_for_its_end() {
    let (log, _) = open(&SimFiles::new(), Options { threads: true, ..Options::small() });
    let mut writer = log.writer();
    let silent = || log.background_state().load(Ordering::Relaxed) == FLUSHER_SILENT;
    for _ in 0..5 {
        writer.commit(1, b"flushed", Level::Disk).unwrap();
        // The commit flushed by itself; the background flusher needs records to flush before a silence can begin.
        let async_end = writer.append(1, &[b"flushed in the background"]).unwrap().end;
        log.flush_soon();
        eventually("the background flusher waits for a silence", || log.durable() >= async_end && silent());
        let end = writer.append(1, &[b"into the silence"]).unwrap().end;
        log.flush_soon();
        let still_silent = silent();
        assert!(!still_silent || log.durable() >= end, "the background flusher was not woken");
        eventually("it is durable", || log.durable() >= end);
    }
}

//! Following: the same records at the same positions, whatever the runs, crashes, faults and reopenings; refused input;
//! taking over and coming back.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use collie_env::{Env, Fault, SimFiles, SimRandom};
use parking_lot::Mutex;

use crate::{
    Follower, Level, Log, Lsn, Mark, Options, Recovered, TailOptions, TruncateOptions, Truncation, Unpacker, WalError,
    format::decode,
    inspect, mistakes,
    testing::{eventually, tiny},
    tests::ship::{self, JUMP_TAG, disturb, drain, joined, ship_from, stream_of},
    truncate_at,
};

const DIR: &str = "/replica";

fn options() -> Options {
    Options { ring_bytes: 32 << 10, segment_bytes: 128 << 10, max_record_bytes: 256 << 10, ..tiny() }
}

fn follow(disk: &SimFiles, options: Options) -> Result<(Follower, Recovered), WalError> {
    Follower::open(&Env::over(disk.clone(), 2), DIR.as_ref(), options, JUMP_TAG)
}

/// A record as it lies in the stream; there is a jump before it if `start` is above `prev_end`.
#[derive(Clone, Debug)]
struct Raw {
    prev_end: Lsn,
    start: Lsn,
    bytes: Vec<u8>,
}

/// Runs a primary through several incarnations, each ended by a kill, and returns its disk and its stream, record by
/// record.
fn primary(seed: u64, lives: u64) -> (SimFiles, Vec<Raw>) {
    let (disk, random) = (SimFiles::new(), SimRandom::new(seed));
    let mut stream = Vec::new();
    for _ in 0..lives {
        let (log, _) = ship::open(&disk, options());
        (0..40).for_each(|number| disturb(&log, &random, number));
        log.flush_wal(true).unwrap();
        let from = stream.last().map_or(Lsn::FIRST, |raw: &Raw| raw.start.plus(raw.bytes.len() as u64));
        // The limit of one byte makes each run a single record.
        let runs = drain(&mut ship_from(&log, from), 1);
        stream.extend(runs.into_iter().map(|(run, bytes)| Raw { prev_end: run.prev_end, start: run.start, bytes }));
        log.abandon();
    }
    (disk, stream)
}

/// Gives the follower the next run of the stream behind its end, up to `most` records; returns whether there was one.
fn feed(follower: &Follower, stream: &[Raw], most: usize) -> Result<bool, WalError> {
    let end = follower.end();
    let at = stream.partition_point(|raw| raw.prev_end < end);
    let Some(first) = stream.get(at) else { return Ok(false) };
    assert_eq!(first.prev_end, end, "the end of a follower is the end of a record");
    let mut records = Vec::new();
    for (number, raw) in stream[at..].iter().take(most).enumerate() {
        if number > 0 && raw.start > raw.prev_end {
            break;
        }
        records.extend_from_slice(&raw.bytes);
    }
    let received = follower.receive(first.start, first.prev_end, &records)?;
    assert_eq!(received, first.start.plus(records.len() as u64));
    assert_eq!(received, follower.end());
    Ok(true)
}

/// Returns the records that readers find in a closed log.
fn records_of(disk: &SimFiles, dir: &str) -> Vec<(Lsn, Lsn, u8, Vec<u8>)> {
    let found = inspect(&Env::over(disk.clone(), 3), dir.as_ref()).unwrap();
    assert!(found.damage().is_none());
    found.records(Lsn::ZERO).map(|record| record.unwrap()).map(|r| (r.lsn, r.end, r.tag, r.body)).collect()
}

/// Goal: a follower ends up with the primary's stream, byte for byte and position for position, and everything that it
/// reported durable is there after every crash (F1, F3, F4). Method: seeded primaries with kills; the stream in runs
/// cut anywhere, to followers that are flushed or not; in between they are closed, killed, lose power or get I/O
/// errors, and continue from where they are.
#[test]
fn follower_holds_the_stream_byte_for_byte_over_splits_crashes_and_faults() {
    let (mut jumps, mut torn, mut rewrites) = (0, 0, 0);
    for seed in 0..14 {
        let random = SimRandom::new(1_000 + seed);
        let (source, stream) = primary(seed, 1 + random.below(3));
        let ends: BTreeSet<Lsn> = stream.iter().map(|raw| raw.start.plus(raw.bytes.len() as u64)).collect();
        jumps += stream.iter().filter(|raw| raw.prev_end < raw.start).count();
        let mut disk = SimFiles::new();
        let (mut follower, mut recovered) = follow(&disk, options()).unwrap();
        assert_eq!(recovered.next, Lsn::FIRST);
        loop {
            let most = [1, 2, 7, 1_000][usize::try_from(random.below(4)).unwrap()];
            if random.below(15) == 0 {
                disk.fail_write_or_sync(disk.writes_and_syncs() + random.below(6), Fault::Eio);
            }
            let fed = feed(&follower, &stream, most);
            let poisoned = matches!(fed, Err(WalError::Poisoned { .. } | WalError::Io { .. }));
            assert!(poisoned || fed.is_ok(), "seed {seed}: {fed:?}");
            if !poisoned {
                // A failure is repaired or has poisoned the log.
                let _poisoned = match random.below(6) {
                    0 => follower.log().tick(),
                    1 | 2 => follower.log().flush_wal(false),
                    _ => Ok(()),
                };
            }
            assert!(follower.durable() <= follower.received() && follower.received() <= follower.end());
            if matches!(fed, Ok(false)) && follower.flush().is_ok() {
                break;
            }
            let ends_now = random.below(12);
            if !poisoned && ends_now > 2 {
                continue;
            }
            rewrites += follower.log().stat().rewrites;
            let (durable, end) = (follower.durable(), follower.end());
            disk.clear_faults();
            match ends_now {
                0 if !poisoned => drop(follower.clone().close()),
                1 => {
                    follower.log().abandon();
                    disk = disk.process_kill();
                }
                _ => {
                    disk = disk.power_cut(random.below(1 << 30));
                    follower.log().abandon();
                }
            }
            (follower, recovered) = follow(&disk, options()).unwrap();
            torn += u64::from(recovered.torn_bytes > 0);
            let at = recovered.end;
            // A run behind a jump whose write failed may or may not be there.
            assert!(
                durable <= at && (at <= end || poisoned),
                "seed {seed}: {durable} durable, {end} taken, {at} found"
            );
            assert_eq!((recovered.next, follower.end(), follower.durable()), (at, at, at), "seed {seed}");
            assert!(at == Lsn::FIRST || ends.contains(&at), "seed {seed}: {at} is inside a record");
        }
        let check = follower.tail_check().unwrap();
        let (log, _) = ship::open(&source, options());
        assert_eq!(log.crc_before(check.end, check.bytes).unwrap(), Some(check.crc32c), "seed {seed}");
        // Across every jump, however the two logs cut the stream into frames.
        let whole = |log: &Log| log.crc_between(Lsn::FIRST, check.end).unwrap();
        assert!(whole(&log).is_some() && whole(&log) == whole(follower.log()), "seed {seed}");
        log.abandon();
        follower.close().unwrap();
        let mut theirs = joined(stream_of(&source, "/wal"));
        // The primary's last opening added an incarnation.
        theirs.retain(|(start, _)| stream.iter().any(|raw| raw.start == *start));
        assert_eq!(joined(stream_of(&disk, DIR)), theirs, "seed {seed}");
        let mut records = records_of(&source, "/wal");
        records.truncate(records_of(&disk, DIR).len());
        assert_eq!(records_of(&disk, DIR), records, "seed {seed}");
    }
    assert!(jumps > 5 && torn > 0 && rewrites > 0, "{jumps} jumps, {torn} torn tails, {rewrites} failed files");
}

/// Goal: a run that does not continue, is not whole records, or jumps where no jump is allowed is refused with its own
/// error, and nothing of it is taken (F2, F5). Method: each kind of wrong run at every record of a stream, before the
/// right one.
#[test]
fn wrong_runs_are_refused_and_nothing_of_them_is_taken() {
    let (_, stream) = primary(3, 3);
    let disk = SimFiles::new();
    let (follower, _) = follow(&disk, options()).unwrap();
    for raw in &stream {
        let Raw { prev_end, start, bytes } = raw;
        let gap = |start: Lsn, prev_end: Lsn| {
            let refused = follower.receive(start, prev_end, bytes);
            assert!(matches!(refused, Err(WalError::Gap { .. })), "{refused:?}");
        };
        gap(start.plus(1), prev_end.plus(1));
        gap(Lsn::new(start.get() - 1), Lsn::new(prev_end.get() - 1));
        let bad = |start: Lsn, bytes: &[u8]| {
            let refused = follower.receive(start, *prev_end, bytes);
            assert!(matches!(refused, Err(WalError::BadStream { .. })), "{refused:?}");
        };
        bad(*start, &bytes[..bytes.len() - 1]);
        bad(*start, &[]);
        bad(*start, &[bytes, &[0, 0][..]].concat());
        bad(Lsn::new(prev_end.get() - 1), bytes);
        bad(Lsn::new(u64::MAX - 1), bytes);
        if start == prev_end && decode::record(bytes).unwrap().tag != JUMP_TAG {
            bad(start.plus(4_096), bytes);
        }
        assert_eq!(follower.end(), *prev_end);
        follower.receive(*start, *prev_end, bytes).unwrap();
    }
    // A record that is larger than this log's frames.
    let large = [&[0x80, 0xA0, 0x01, 1][..], &vec![0; 20_480]].concat();
    assert_eq!(decode::record(&large).unwrap().bytes, large.len() as u64);
    let refused = follower.receive(follower.end(), follower.end(), &large);
    assert!(matches!(refused, Err(WalError::BadStream { .. })), "{refused:?}");
    follower.close().unwrap();
    assert_eq!(joined(stream_of(&disk, DIR)), joined(stream.into_iter().map(|raw| (raw.start, raw.bytes))));
}

/// Goal: a follower's log takes no appends, also while it checks for room, and does everything else that a log does: it
/// reads, tails, keeps and frees files. Method: one call of each kind.
#[test]
fn follower_refuses_appends_and_does_what_logs_do() {
    let (_, stream) = primary(5, 2);
    let (follower, _) = follow(&SimFiles::new(), options()).unwrap();
    let log = follower.log().clone();
    let refuses = || {
        let mut writer = log.writer();
        for refused in [
            writer.append(1, &[b"mine"]),
            writer.append(1, &[&vec![0; 100_000]]),
            writer.append_with(1, b"mine", |_| panic!("not published")),
            writer.append_unlogged(1, b"cf", |_| panic!("not published")),
            writer.commit(1, b"mine", Level::Disk),
        ] {
            assert!(matches!(refused, Err(WalError::Follows)), "{refused:?}");
        }
    };
    refuses();
    let mut tail = log.tail("apply", TailOptions::from(Lsn::ZERO)).unwrap();
    while feed(&follower, &stream, 5).unwrap() {
        refuses();
        log.tick().unwrap();
    }
    let read: Vec<_> = log.read(Lsn::ZERO).map(|record| record.unwrap()).collect();
    let tailed: Vec<_> = std::iter::from_fn(|| tail.try_next().unwrap()).collect();
    assert!(read.len() > 20);
    assert_eq!(
        read.iter().map(|r| (r.lsn, &r.body)).collect::<Vec<_>>(),
        tailed.iter().map(|r| (r.lsn, &r.body)).collect::<Vec<_>>()
    );
    let freed = log.truncate_before(follower.durable()).unwrap();
    assert_eq!((freed.start, freed.held_by.as_deref()), (Lsn::FIRST, Some("consumer apply")));
    tail.advance(tail.position()).unwrap();
    assert!(log.truncate_before(follower.durable()).unwrap().start > Lsn::FIRST);
    assert_eq!((log.boundary(), log.glsn()), (follower.end(), follower.end()));
}

/// Goal: a follower whose disk is full takes no more records, can still be read, and continues from its end once there
/// is room. Method: a small disk; the stream until it refuses; more room.
#[test]
fn follower_with_a_full_disk_stops_and_resumes_at_its_end() {
    let (_, stream) = primary(7, 4);
    let disk = SimFiles::new();
    let (follower, _) = follow(&disk, options()).unwrap();
    // Prepare its spares.
    (0..3).for_each(|_| follower.log().tick().unwrap());
    disk.set_capacity(Some(disk.used_bytes() + 100_000));
    let refused = loop {
        match feed(&follower, &stream, 3) {
            Ok(true) => drop(follower.log().tick()),
            Ok(false) => panic!("the disk holds everything"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, WalError::Full { .. }), "{refused:?}");
    follower.flush().unwrap();
    let end = follower.end();
    assert_eq!(follower.durable(), end);
    let held = joined(stream.iter().filter(|raw| raw.start < end).map(|raw| (raw.start, raw.bytes.clone())));
    let read = |follower: &Follower| {
        joined(
            drain(&mut ship_from(follower.log(), Lsn::ZERO), 1 << 20)
                .into_iter()
                .map(|(run, bytes)| (run.start, bytes)),
        )
    };
    assert_eq!(read(&follower), held);
    disk.set_capacity(None);
    // The preparer thread does this if there are threads.
    follower.log().tick().unwrap();
    while feed(&follower, &stream, 3).unwrap() {
        follower.log().tick().unwrap();
    }
    follower.flush().unwrap();
    assert_eq!(read(&follower), joined(stream.into_iter().map(|raw| (raw.start, raw.bytes))));
}

/// Goal: a sync that fails once costs nothing; a device that keeps failing poisons the log, and everything reported
/// durable is there when it is opened again. The same at a jump, which cannot be rewritten elsewhere, and at the sync
/// of an empty frame before it (T311). Method: every write and sync of a short stream with one jump and with silences
/// fails once, then also all after it.
#[test]
fn failing_syncs_are_mended_or_poison_and_lose_nothing_durable() {
    let (_, mut stream) = primary(11, 2);
    // A few records around the jump.
    let jump = stream.iter().rposition(|raw| raw.prev_end < raw.start).unwrap();
    let stream: Vec<Raw> = stream.drain(jump - 5..jump + 6).collect();
    let first_lsn = stream[0].start;
    let run = |disk: &SimFiles| -> Result<Follower, WalError> {
        let (follower, _) = follow(disk, Options { first_lsn, ..options() })?;
        loop {
            // If a file could not be prepared, the log tries again; a failed write is repaired or has poisoned the log.
            let fed = feed(&follower, &stream, 3);
            follower.flush()?;
            let _skipped_or_poisoned = follower.log().heartbeat();
            match fed {
                Ok(true) | Err(WalError::Io { .. } | WalError::Full { .. }) => {}
                Ok(false) => return Ok(follower),
                Err(error) => return Err(error),
            }
        }
    };
    let whole = SimFiles::new();
    let calls = run(&whole).map(|follower| (follower.close().unwrap(), whole.writes_and_syncs()).1).unwrap();
    let (mut mended, mut poisoned) = (0, 0);
    for call in 0..calls {
        for more in [1, 400] {
            let disk = SimFiles::new();
            (call..call + more).for_each(|call| disk.fail_write_or_sync(call, Fault::Eio));
            match run(&disk) {
                Ok(follower) => {
                    mended += follower.log().stat().rewrites;
                    drop(follower.close());
                }
                Err(WalError::Poisoned { .. } | WalError::Io { .. }) => poisoned += 1,
                Err(error) => panic!("call {call}: {error}"),
            }
            disk.clear_faults();
            let disk = disk.power_cut(call);
            let follower = run(&disk).unwrap_or_else(|error| panic!("call {call}: {error}"));
            follower.close().unwrap();
            assert_eq!(joined(stream_of(&disk, DIR)), joined(stream_of(&whole, DIR)), "call {call}");
        }
    }
    assert!(mended > 3 && poisoned > 3, "{mended} mended, {poisoned} poisoned");
}

/// Goal: if the sync before a jump fails, the next flush, that of a close or of other records, leaves that file: what
/// it held unsynced, the empty frame of a silence, is no gap in the log (T311). Method: such a failure, either flush, a
/// power cut, and an opening.
#[test]
fn a_failed_sync_before_a_jump_is_repaired_by_the_next_flush() {
    let (_, stream) = primary(11, 2);
    let jump = stream.iter().rposition(|raw| raw.prev_end < raw.start).unwrap();
    for closes in [true, false] {
        let disk = SimFiles::new();
        let (follower, _) = follow(&disk, Options { first_lsn: stream[jump - 5].start, ..options() }).unwrap();
        while follower.end() < stream[jump].prev_end {
            assert!(feed(&follower, &stream[jump - 5..jump], 1).unwrap());
        }
        follower.flush().unwrap();
        follower.log().heartbeat().unwrap();
        disk.fail_write_or_sync(disk.writes_and_syncs() + 1, Fault::Eio);
        let refused = feed(&follower, &stream[jump..], 1);
        assert!(matches!(refused, Err(WalError::Io { .. })), "{refused:?}");
        let end = follower.end();
        if closes {
            follower.close().unwrap();
        } else {
            follower.log().heartbeat().unwrap();
            assert!(feed(&follower, &stream[jump..], 1).unwrap());
            follower.log().abandon();
        }
        let disk = disk.power_cut(3);
        let (follower, found) = follow(&disk, options()).unwrap();
        assert!(found.end >= end, "{} was durable, the log ends at {}", end, found.end);
        follower.close().unwrap();
    }
}

/// Follows a short stream with a jump and long records, over kills, and opens the log in states of the disk at each
/// moment. Returns the number of states, or an error that says what is wrong in one.
fn explore(seed: u64) -> Result<usize, String> {
    let (_, mut stream) = primary(seed, 2);
    let jump = stream.iter().rposition(|raw| raw.prev_end < raw.start).expect("two lives");
    let stream: Vec<Raw> = stream.drain(jump - 9..stream.len().min(jump + 9)).collect();
    let first_lsn = stream[0].start;
    let options = || Options { first_lsn, ..options() };
    let (random, disk) = (SimRandom::new(seed), SimFiles::new());
    let (promised, moments) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (promise, noted) = (promised.clone(), moments.clone());
    disk.watch(move |point| noted.lock().push((point, promise.load(Ordering::Relaxed))));
    let mut follower = follow(&disk, options()).map_err(|error| error.to_string())?.0;
    loop {
        let end = follower.end();
        if end > first_lsn && !stream.iter().any(|raw| raw.start.plus(raw.bytes.len() as u64) == end) {
            return Err(format!("seed {seed}: opened again, it ends at {end}"));
        }
        let fed = feed(&follower, &stream, 2).map_err(|error| error.to_string())?;
        if random.below(2) == 0 || !fed {
            follower.flush().map_err(|error| error.to_string())?;
        }
        promised.store(follower.durable().get(), Ordering::Relaxed);
        if !fed {
            break;
        }
        if random.below(5) == 0 {
            follower.log().abandon();
            follower = follow(&disk, options()).map_err(|error| error.to_string())?.0;
            promised.fetch_max(follower.durable().get(), Ordering::Relaxed);
        }
    }
    follower.log().abandon();
    disk.watch(|_| {});
    let mut unpacker = Unpacker::new(first_lsn, &options());
    let mut expected = Vec::new();
    for raw in &stream {
        let visit = |record: crate::RecordRef<'_>| {
            expected.push((record.lsn, record.end, record.tag, record.body.to_vec()));
            Ok::<(), WalError>(())
        };
        unpacker.take(raw.start, raw.prev_end, &raw.bytes, visit).map_err(|error| error.to_string())?;
    }
    let whole = joined(stream.iter().map(|raw| (raw.start, raw.bytes.clone())));
    let mut visited = 0;
    for (point, promised) in moments.lock().iter() {
        for picks in [point.all_kept(), point.none_kept(), point.drawn(&random)] {
            let state = point.state(&picks);
            let wrong =
                |what: String| format!("seed {seed}, call {}: {what}; {}", point.calls(), point.describe(&picks));
            let (follower, _) = follow(&state, options()).map_err(|error| wrong(error.to_string()))?;
            let end = follower.end();
            let known = end == first_lsn || stream.iter().any(|raw| raw.start.plus(raw.bytes.len() as u64) == end);
            if !known || end.get() < *promised {
                return Err(wrong(format!("it ends at {end}, and was durable to {}", Lsn::new(*promised))));
            }
            while feed(&follower, &stream, 7).map_err(|error| wrong(error.to_string()))? {}
            follower.close().map_err(|error| wrong(error.to_string()))?;
            if joined(stream_of(&state, DIR)) != whole || records_of(&state, DIR) != expected {
                return Err(wrong("it holds something else".to_owned()));
            }
            visited += 1;
        }
    }
    Ok(visited)
}

/// Goal: whatever a power cut leaves, at any moment of following and of opening again, a follower opens at the end of a
/// record that is not below what it promised, and continues to the whole stream and the same records. Method: states of
/// the disk at every changing call.
#[test]
fn follower_keeps_its_promises_in_every_crash_state() {
    let visited: usize = (30..38).map(|seed| explore(seed).unwrap_or_else(|wrong| panic!("{wrong}"))).sum();
    assert!(visited > 300, "{visited} states");
}

/// Goal: the test above can fail. Method: plant one mistake at a time.
#[test]
fn mistakes_in_following_are_caught() {
    for mistake in ["FOLLOWER_SKIPS", "FOLLOWER_ENDS_RECORDS", "JUMP_UNSYNCED"] {
        let caught = (30..42).any(|seed| mistakes::with(mistake, || explore(seed)).is_err());
        assert!(caught, "{mistake} goes unnoticed");
    }
}

/// Goal: a follower that takes over begins an incarnation above its end, with the given first record. The old primary,
/// whose log goes beyond that position, is cut there with a backup of the removed records, follows, and holds the same.
/// Method: the whole sequence, with commits that only the old primary had.
#[test]
fn promoted_follower_goes_on_above_its_end_and_the_old_primary_follows_it() {
    let (old_disk, stream) = primary(13, 2);
    let new_disk = SimFiles::new();
    let (follower, _) = follow(&new_disk, options()).unwrap();
    while feed(&follower, &stream, 9).unwrap() {}
    let fork = follower.clone().promote().unwrap();
    assert!(matches!(follower.receive(fork, fork, &[0, 1]), Err(WalError::Closed)));
    let env = Env::over(new_disk.clone(), 4);
    let first_record = Some((JUMP_TAG, b"a new history".to_vec()));
    let (log, recovered) = Log::open(&env, DIR.as_ref(), Options { first_record, ..options() }).unwrap();
    assert!(recovered.end == fork && recovered.next > fork, "{recovered:?}");
    log.writer().commit(4, b"by the new primary", Level::Disk).unwrap();

    // The old primary comes back with an incarnation above the fork, and closes in order.
    let (old, _) = ship::open(&old_disk, options());
    old.writer().commit(4, b"nobody else has this", Level::Disk).unwrap();
    old.close().unwrap();
    let env = Env::over(old_disk.clone(), 5);
    let truncation = Truncation::plan(&env, "/wal".as_ref(), fork, Lsn::ZERO).unwrap();
    assert!(truncation.back_up_to("/diverged".as_ref()).unwrap() && truncation.removed().records > 0);
    truncation.cut().unwrap();
    let aside = inspect(&env, "/diverged".as_ref()).unwrap();
    assert!(aside.records(Lsn::ZERO).any(|record| record.unwrap().body == b"nobody else has this"));
    for round in 0..2 {
        // In the second round the earlier opening was cut short.
        let (rejoined, recovered) = Follower::open(&env, "/wal".as_ref(), options(), JUMP_TAG).unwrap();
        assert_eq!((recovered.end, recovered.next, rejoined.end()), (fork, fork, fork), "round {round}");
        let check = rejoined.tail_check().unwrap();
        assert_eq!(log.crc_before(check.end, check.bytes).unwrap(), Some(check.crc32c));
        if round == 0 {
            rejoined.log().abandon();
            continue;
        }
        for (run, bytes) in drain(&mut ship_from(&log, rejoined.end()), 1 << 20) {
            rejoined.receive(run.start, run.prev_end, &bytes).unwrap();
        }
        rejoined.close().unwrap();
    }
    log.close().unwrap();
    assert_eq!(joined(stream_of(&old_disk, "/wal")), joined(stream_of(&new_disk, DIR)));
    let bodies: Vec<_> = records_of(&old_disk, "/wal").into_iter().rev().take(2).map(|(.., body)| body).collect();
    assert_eq!(bodies, [&b"by the new primary"[..], b"a new history"]);
}

/// Goal: a fault at any call of an opening after a cut, and a power cut then, leave a follower that opens at the fork,
/// or beyond it at the end of a record (O3, O4). Method: every second write and sync of opening and receiving fails,
/// then a power cut.
#[test]
fn power_cut_while_a_cut_log_begins_to_follow_is_harmless() {
    let (old_disk, stream) = primary(17, 2);
    let fork = stream[stream.len() / 2].start;
    let env = |disk: &SimFiles| Env::over(disk.clone(), 6);
    truncate_at(
        &env(&old_disk),
        "/wal".as_ref(),
        fork,
        TruncateOptions { backup: false, ..TruncateOptions::default() },
    )
    .unwrap();
    let go_on = |disk: &SimFiles| {
        let (follower, recovered) = Follower::open(&env(disk), "/wal".as_ref(), options(), JUMP_TAG)?;
        while feed(&follower, &stream, 4)? {
            follower.flush()?;
        }
        follower.close().map(|()| recovered.end)
    };
    let before = old_disk.crash_point();
    let calls = {
        let disk = before.state(&before.all_kept());
        let first = disk.writes_and_syncs();
        assert_eq!(go_on(&disk).unwrap(), fork);
        disk.writes_and_syncs() - first
    };
    for call in (0..calls).step_by(2) {
        let trial = before.state(&before.all_kept());
        trial.fail_write_or_sync(trial.writes_and_syncs() + call, Fault::Eio);
        let _may_fail = go_on(&trial);
        let after = trial.power_cut(call);
        let end = go_on(&after).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert!(end >= fork, "call {call}: {end}");
        let expected = joined(stream.iter().map(|raw| (raw.start, raw.bytes.clone())));
        assert_eq!(joined(stream_of(&after, "/wal")), expected, "call {call}");
    }
}

/// Goal: with its threads a follower flushes received records without a call, at once and not after `wal.flush_delay`.
/// Method: a `wal.flush_delay` of 10 s; the stream in small runs from a thread that never flushes but sometimes waits
/// for a mark. A busy machine may take that long once, but not each time.
#[test]
fn follower_flushes_greedily_by_itself() {
    assert!((0..3).any(|_| flushes_before_its_delay()), "somebody waited for wal.flush_delay");
}

fn flushes_before_its_delay() -> bool {
    let (_, stream) = primary(19, 2);
    let options = Options { threads: true, flush_delay: Duration::from_secs(10), ..options() };
    let (follower, _) = follow(&SimFiles::new(), options).unwrap();
    let begun = follower.log().core().env.clock.now_ns();
    while feed(&follower, &stream, 2).unwrap() {
        if follower.end().get() % 3 == 0 {
            let end = follower.end();
            eventually("it is durable", || follower.durable() >= end);
        }
    }
    follower.log().wait(Mark::Written, follower.end()).unwrap();
    assert_eq!(follower.received(), follower.end());
    eventually("all of it is durable", || follower.durable() == follower.end());
    follower.log().core().env.clock.now_ns() - begun < 9_000_000_000
}

/// Goal: a primary with writers, its sender and a replica that flushes with its threads, all in parallel on real files,
/// end up with the same stream. Method: four writers of short and long records at three levels, two in-flight flushes,
/// small files and few frames in memory; one thread ships in runs of random sizes until the primary is closed.
#[test]
fn primary_and_follower_run_side_by_side() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let env = Env::real();
    let options = Options { recent_bytes: 100_000, ..Options::small() };
    let first_record = Some((JUMP_TAG, b"a life".to_vec()));
    let (log, _) = Log::open(&env, dirs[0].path(), Options { first_record, ..options.clone() }).unwrap();
    let (follower, _) = Follower::open(&env, dirs[1].path(), options, JUMP_TAG).unwrap();
    let mut shipper = ship_from(&log, follower.end());
    std::thread::scope(|scope| {
        let ships = scope.spawn(|| {
            let (random, mut out) = (SimRandom::new(1), Vec::new());
            loop {
                out.clear();
                let most = usize::try_from(random.below(60_000)).unwrap();
                match shipper.next(most, &mut out) {
                    Ok(run) => drop(follower.receive(run.start, run.prev_end, &out).unwrap()),
                    Err(WalError::Closed) => return,
                    Err(error) => panic!("{error}"),
                }
                if random.below(20) == 0 {
                    // Once the log is closed, the cursor is not stored any more.
                    let advanced = shipper.advance(follower.durable().min(shipper.position()));
                    assert!(matches!(advanced, Ok(()) | Err(WalError::Closed)), "{advanced:?}");
                }
            }
        });
        let writers: [_; 4] = std::array::from_fn(|thread| {
            let log = &log;
            scope.spawn(move || {
                let (mut writer, random) = (log.writer(), SimRandom::new(thread as u64));
                for number in 0..80_u32 {
                    let size = [10, 10, 900, 40_000][usize::try_from(random.below(4)).unwrap()];
                    let level = [Level::Disk, Level::Process, Level::Memory][usize::try_from(random.below(3)).unwrap()];
                    let mut body = vec![u8::try_from(thread).unwrap(); size];
                    body[..4].copy_from_slice(&number.to_le_bytes());
                    writer.commit(1, &body, level).unwrap();
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        log.close().unwrap();
        ships.join().unwrap();
    });
    follower.close().unwrap();
    let records = |at: usize| {
        let found = inspect(&env, dirs[at].path()).unwrap();
        assert!(found.damage().is_none() && found.is_clean());
        found
            .records(Lsn::ZERO)
            .map(|record| record.unwrap())
            .map(|r| (r.lsn, r.end, r.tag, r.body))
            .collect::<Vec<_>>()
    };
    assert_eq!(records(0).len(), 320);
    assert!(records(0) == records(1));
}

/// Goal: no bytes make a follower or an unpacker panic, take something, or move (B2). Method: random bytes and cut
/// records, at and behind a follower's end.
#[test]
fn no_bytes_move_a_follower_that_are_not_its_stream() {
    let (_, stream) = primary(29, 1);
    let (follower, _) = follow(&SimFiles::new(), options()).unwrap();
    let (random, end) = (SimRandom::new(7), follower.end());
    let mut unpacker = Unpacker::new(end, &options());
    for round in 0..4_000 {
        let mut bytes = stream[round % stream.len()].bytes.clone();
        if round % 2 == 0 {
            bytes = (0..random.below(40)).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
            // The length byte counts the kind byte too, so the record is never whole.
            bytes.insert(0, u8::try_from(bytes.len()).unwrap());
        } else {
            bytes.pop();
        }
        let start = Lsn::new(end.get() + random.below(2) * random.below(1 << 62));
        assert!(follower.receive(start, end, &bytes).is_err());
        let visit = |_: crate::RecordRef<'_>| -> Result<(), WalError> { panic!("nothing is whole") };
        assert!(unpacker.take(start, end, &bytes, visit).is_err());
    }
    assert_eq!((follower.end(), unpacker.position()), (end, end));
}

/// Goal: an opening refuses options that a follower does not support. Method: copies; a tag out of range.
#[test]
fn follower_says_what_it_does_not_take() {
    let copies = vec!["/other".into()];
    for (options, tag) in [(Options { copies, ..options() }, JUMP_TAG), (options(), 32)] {
        let refused = Follower::open(&Env::over(SimFiles::new(), 1), DIR.as_ref(), options, tag);
        assert!(matches!(refused, Err(WalError::InvalidOptions { .. })));
    }
}

/// Goal: a follower may begin at any position, as the stream of a backup does. Method: one that begins in the middle of
/// a stream.
#[test]
fn new_follower_begins_where_it_is_told() {
    let (_, stream) = primary(23, 2);
    let from = stream[stream.len() / 3].start;
    let disk = SimFiles::new();
    for _ in 0..2 {
        let (follower, recovered) = follow(&disk, Options { first_lsn: from, ..options() }).unwrap();
        assert_eq!((recovered.end, follower.end()), (from, from));
        follower.log().abandon();
    }
    let (follower, _) = follow(&disk, Options { first_lsn: from, ..options() }).unwrap();
    while feed(&follower, &stream, 3).unwrap() {}
    follower.close().unwrap();
    let expected = joined(stream.into_iter().filter(|raw| raw.start >= from).map(|raw| (raw.start, raw.bytes)));
    assert_eq!(joined(stream_of(&disk, DIR)), expected);
}

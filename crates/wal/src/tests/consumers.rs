//! Consumers: cursors that survive crashes, what each policy does at its bound, and which consumer keeps which files.

use collie_env::{Access, Env, Fault, Files, SimFiles, SimRandom};

use crate::{
    LagLimit, LagPolicy, Level, Log, Lsn, Options, Protocol, ReadMode, RecoveryMode, Tail, TailOptions, WalError,
    Warnings, Writer, inspect, testing::tiny,
};

const DIR: &str = "/wal";

fn open(disk: &SimFiles) -> Log {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), tiny()).unwrap().0
}

/// Commits `count` records, numbered from `first`, about ten of which fill a file; returns their ends.
fn commit(writer: &mut Writer, first: u8, count: u8) -> Vec<Lsn> {
    let one = |number| writer.commit(0, &[number; 3_000], Level::Disk).unwrap().end;
    (first..first + count).map(one).collect()
}

fn numbers(tail: &mut Tail) -> Vec<u8> {
    std::iter::from_fn(|| tail.try_next().unwrap()).map(|record| record.body[0]).collect()
}

fn options_with(policy: LagPolicy) -> TailOptions {
    TailOptions::resume().policy(policy).bound_segments(2)
}

/// Goal: a cursor is where it was left after a close, and after a kill or a power cut at worst where it was when it
/// last came to another file. Method: one consumer over a close, a kill and power cuts.
#[test]
fn cursor_survives_close_kill_and_power_cut() {
    let disk = SimFiles::new();
    let log = open(&disk);
    commit(&mut log.writer(), 0, 30);
    let mut tail = log.tail("feed", TailOptions::resume()).unwrap();
    let middle = (0..12).map(|_| tail.next().unwrap().end).last().unwrap();
    tail.advance(middle).unwrap();
    drop(tail);
    log.close().unwrap();
    let log = open(&disk);
    let mut tail = log.tail("feed", TailOptions::resume()).unwrap();
    assert_eq!(numbers(&mut tail), (12..30).collect::<Vec<_>>());
    tail.advance(tail.position()).unwrap();
    log.abandon();
    let disk = disk.process_kill();
    let log = open(&disk);
    let mut tail = log.tail("feed", TailOptions::resume()).unwrap();
    let again = numbers(&mut tail);
    assert!(again.is_empty() || again.ends_with(&[29]) && again.len() < 11, "{again:?}: at most a file's worth");
    tail.advance(tail.position()).unwrap();
    commit(&mut log.writer(), 30, 30);
    assert_eq!(numbers(&mut tail), (30..60).collect::<Vec<_>>());
    tail.advance(tail.position()).unwrap();
    log.abandon();
    for seed in 0..20 {
        let log = open(&disk.process_kill().power_cut(seed));
        let mut tail = log.tail("feed", TailOptions::resume()).unwrap();
        let again = numbers(&mut tail);
        assert!(again.is_empty() || again.ends_with(&[59]) && again.len() < 11, "seed {seed}: {again:?}");
    }
}

/// Goal: freeing stops at the lowest cursor, names its consumer, and continues when the cursor moves; figures name the
/// files. Method: two consumers at different positions.
#[test]
fn truncate_before_stops_at_the_lowest_cursor_and_names_it() {
    let disk = SimFiles::new();
    let log = open(&disk);
    let mut writer = log.writer();
    let ends = commit(&mut writer, 0, 60);
    let mut slow = log.tail("slow", TailOptions::from(ends[4])).unwrap();
    let _fast = log.tail("fast", TailOptions::from(ends[50])).unwrap();
    let freed = log.truncate_before(ends[55]).unwrap();
    assert_eq!((freed.start < ends[4], freed.held_by.as_deref()), (true, Some("consumer slow")));
    let stat = log.stat();
    let pins = |name: &str| stat.consumers.iter().find(|consumer| consumer.name == name).unwrap().pins.len();
    assert_eq!(pins("slow"), stat.segments - 1);
    assert!(pins("fast") < pins("slow"), "{stat:?}");
    assert_eq!(inspect(&Env::over(disk, 1), DIR.as_ref()).unwrap().consumers().unwrap().len(), 2);

    while slow.position() < ends[40] {
        slow.next().unwrap();
    }
    slow.advance(ends[40]).unwrap();
    let freed = log.truncate_before(ends[55]).unwrap();
    assert!(freed.start > ends[25] && freed.start <= ends[40] && freed.held_by.is_some(), "{freed:?}");
    drop(slow);
    assert!(log.remove_consumer("slow").unwrap());
    assert!(!log.remove_consumer("slow").unwrap());
    let freed = log.truncate_before(ends[55]).unwrap();
    assert!(freed.start > ends[40] && freed.start <= ends[50], "{freed:?}");
}

/// Goal: the policy `Hold` closes admission at the bound before anything is reserved, names the consumer, and
/// opens it again once the consumer moves on or is removed. Method: commit until refused, twice.
#[test]
fn hold_closes_admission_at_its_bound_and_opens_it_again() {
    let log = open(&SimFiles::new());
    let mut writer = log.writer();
    let mut tail = log.tail("archive", options_with(LagPolicy::Hold)).unwrap();
    for round in 0..2 {
        let refused = (0..100).find_map(|_| writer.commit(0, &[7; 3_000], Level::Disk).err()).unwrap();
        let WalError::Full { pinned_by } = &refused else { panic!("{refused}") };
        assert!(pinned_by.starts_with("consumer archive has fallen behind by its bound of 2 files"), "{pinned_by}");
        let boundary = log.boundary();
        assert!(writer.append(0, &[b"no"]).is_err());
        assert_eq!(log.boundary(), boundary, "nothing was reserved");
        assert!(log.stat().consumers[0].pins.len() >= 2);
        if round == 0 {
            numbers(&mut tail);
            tail.advance(tail.position()).unwrap();
            writer.commit(0, b"again", Level::Disk).unwrap();
        }
    }
    drop(tail);
    assert!(writer.append(0, &[b"no"]).is_err(), "the cursor stays when its tail goes");
    log.remove_consumer("archive").unwrap();
    writer.commit(0, b"yes", Level::Disk).unwrap();
}

/// Goal: the policy Invalidate never stops an append: the consumer loses its place, its files are freed, and it can be
/// placed again. Method: fall behind, get the error, reopen the log, place the consumer again.
#[test]
fn invalidate_loses_the_place_at_its_bound_and_frees_the_files() {
    let disk = SimFiles::new();
    let log = open(&disk);
    let mut writer = log.writer();
    let mut tail = log.tail("feed", options_with(LagPolicy::Invalidate)).unwrap();
    commit(&mut writer, 0, 8);
    assert_eq!(tail.next().unwrap().body[0], 0);
    let ends = commit(&mut writer, 8, 40);
    let lost = std::iter::from_fn(|| tail.try_next().transpose()).find_map(Result::err).unwrap();
    assert!(matches!(lost, WalError::CursorLost { .. }), "{lost}");
    assert!(matches!(tail.advance(tail.position()), Err(WalError::CursorLost { .. }) | Ok(())));
    let freed = log.truncate_before(log.durable()).unwrap();
    assert!(freed.start > ends[20] && freed.held_by.is_none(), "{freed:?}");
    let stat = log.stat();
    assert!(stat.consumers[0].lost && stat.consumers[0].pins.is_empty(), "{stat:?}");
    drop(tail);
    log.close().unwrap();
    let log = open(&disk);
    assert!(matches!(log.tail("feed", TailOptions::resume()), Err(WalError::CursorLost { .. })));
    let mut tail = log.tail("feed", TailOptions::from(freed.start)).unwrap();
    assert!(numbers(&mut tail).ends_with(&[46, 47]));
    assert!(!log.stat().consumers[0].lost);
}

/// Goal: a consumer with the policy Files releases its files at the bound, reads on while they last, and holds files
/// again once it has caught up. Method: fall behind without freeing, catch up, fall behind with freeing.
#[test]
fn files_reads_on_beyond_its_bound_while_they_last() {
    let options = Options { recent_bytes: 0, ..tiny() };
    let (log, _) = Log::open(&Env::over(SimFiles::new(), 1), DIR.as_ref(), options).unwrap();
    let mut writer = log.writer();
    let mut tail = log.tail("feed", options_with(LagPolicy::Files)).unwrap();
    commit(&mut writer, 0, 60);
    assert!(log.stat().consumers[0].pins.is_empty(), "it let go");
    assert_eq!(numbers(&mut tail), (0..60).collect::<Vec<_>>());
    tail.advance(tail.position()).unwrap();
    commit(&mut writer, 60, 12);
    assert!(!log.stat().consumers[0].pins.is_empty(), "it holds again");
    let held = log.truncate_before(log.durable()).unwrap();
    assert_eq!(held.held_by, None, "the last two files are not freed anyway");
    commit(&mut writer, 72, 60);
    log.truncate_before(log.durable()).unwrap();
    let lost = std::iter::from_fn(|| tail.try_next().transpose()).find_map(Result::err).unwrap();
    assert!(matches!(lost, WalError::CursorLost { .. }), "{lost}");
}

/// Goal: a consumer that reaches its bound is announced once, with the consequence, and again only after it was below
/// the bound. Method: one consumer of each policy, twice at its bound.
#[test]
fn consumer_at_its_bound_is_announced_once() {
    let lines = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let taken = lines.clone();
    let warnings = Warnings::to(move |line| taken.lock().push(line.to_owned()));
    let (log, _) = Log::open(&Env::over(SimFiles::new(), 1), DIR.as_ref(), Options { warnings, ..tiny() }).unwrap();
    let mut writer = log.writer();
    let mut files = log.tail("files", options_with(LagPolicy::Files)).unwrap();
    let mut hold = log.tail("hold", options_with(LagPolicy::Hold).bound_segments(3)).unwrap();
    let lost = log.tail("lost", options_with(LagPolicy::Invalidate)).unwrap();
    let mut expected = vec!["files", "lost", "hold", "files", "hold"].into_iter();
    for round in 0..2 {
        let refused = (0..100).find_map(|_| writer.commit(0, &[7; 3_000], Level::Disk).err()).unwrap();
        assert!(matches!(&refused, WalError::Full { .. }), "{refused}");
        let alarm = log.stat().alarm.unwrap();
        assert!(alarm.starts_with("consumer hold has fallen behind by its bound of 3 files"), "{alarm}");
        for line in std::mem::take(&mut *lines.lock()) {
            let name = expected.next().unwrap();
            assert!(line.starts_with(&format!("wal: consumer {name} has fallen behind by its bound of ")), "{line}");
        }
        for tail in [&mut files, &mut hold] {
            numbers(tail);
            tail.advance(tail.position()).unwrap();
        }
        assert_eq!((log.stat().alarm, lines.lock().len()), (None, 0), "round {round}");
    }
    assert_eq!(expected.next(), None);
    drop(lost);
}

/// Goal: a bound in bytes counts too. Method: a large bound in files, a small one in bytes.
#[test]
fn bound_in_bytes_counts_too() {
    let log = open(&SimFiles::new());
    let options = TailOptions::resume().policy(LagPolicy::Hold).bound_segments(900).bound_bytes(40_000);
    let _tail = log.tail("archive", options).unwrap();
    let mut writer = log.writer();
    let refused = (0..100).find_map(|_| writer.commit(0, &[7; 3_000], Level::Disk).err()).unwrap();
    assert!(
        refused.to_string().contains("consumer archive has fallen behind by its bound of 40000 bytes"),
        "{refused}"
    );
    assert!((2..5).contains(&log.stat().segments));
}

/// Goal: a tail that attaches above its bound gets an error at once, holds nothing, and can be placed elsewhere. With a
/// wider bound the same position is held, and the bound can be narrowed once the consumer has caught up. Method: a log
/// of many files that are not freed; a bound of two files' bytes, at the beginning of the log.
#[test]
fn attaching_beyond_the_bound_is_an_error_and_a_wider_bound_holds() {
    let log = open(&SimFiles::new());
    let mut writer = log.writer();
    let ends = commit(&mut writer, 0, 60);
    let options = || TailOptions::from(Lsn::FIRST).bound_bytes(2 * tiny().segment_bytes);
    let lost = log.tail("feed", options()).unwrap_err();
    assert!(matches!(lost, WalError::CursorLost { .. }), "{lost}");
    let stat = log.consumers().remove(0);
    assert!(stat.lost && !stat.attached && (stat.kept_bytes, stat.lost_by) == (0, Some(LagLimit::Bytes)), "{stat:?}");

    let mut tail = log.tail("feed", TailOptions::from(Lsn::FIRST).bound_bytes(u64::MAX)).unwrap();
    let stat = log.consumers().remove(0);
    assert!(!stat.lost && stat.kept_bytes > 3 * tiny().segment_bytes, "{stat:?}");
    assert_eq!(log.truncate_before(log.durable()).unwrap().start, Lsn::FIRST);
    numbers(&mut tail);
    tail.advance(ends[58]).unwrap();
    assert!(log.bound_consumer("feed", Some(2 * tiny().segment_bytes)).unwrap());
    let stat = log.consumers().remove(0);
    assert!(!stat.lost && stat.kept_bytes < 2 * tiny().segment_bytes, "{stat:?}");
    commit(&mut writer, 60, 60);
    assert!(log.consumers()[0].lost, "the narrow bound counts");
    assert!(!log.bound_consumer("nobody", None).unwrap());
}

/// Goal: positions that crashes skip are no bytes that a consumer keeps, and do not take it to its bound. Method: a log
/// that is killed again and again, with a consumer that does not move and whose bound is below the number of skipped
/// positions.
#[test]
fn skipped_positions_are_no_bytes_of_a_bound() {
    let mut disk = SimFiles::new();
    let log = open(&disk);
    commit(&mut log.writer(), 0, 1);
    let most = 40 * tiny().skip_bytes();
    drop(log.tail("feed", TailOptions::from(Lsn::FIRST).bound_bytes(most)).unwrap());
    log.abandon();
    for life in 0..40 {
        disk = disk.process_kill();
        let log = open(&disk);
        commit(&mut log.writer(), life, 1);
        log.abandon();
    }
    let log = open(&disk.process_kill());
    let stat = log.consumers().remove(0);
    assert!(!stat.lost && stat.lag_bytes > most && (1..most).contains(&stat.kept_bytes), "{most}: {stat:?}");
}

/// Goal: every cursor has a bound, and refused calls say what to do. Method: one call of each kind.
#[test]
fn bounds_names_and_second_tails_are_refused() {
    let disk = SimFiles::new();
    let log = open(&disk);
    let tail = log.tail("feed", TailOptions::resume()).unwrap();
    let by_default = &log.stat().consumers[0];
    assert_eq!((by_default.policy, by_default.bound_segments), (LagPolicy::Invalidate, 256));
    let message = |refused: Result<Tail, WalError>| refused.unwrap_err().to_string();
    let from = || TailOptions::from(Lsn::ZERO);
    assert_eq!(
        message(log.tail("x", from().bound_segments(1_020))),
        "wal: a consumer bound of 1020 files is out of bounds under wal.max_segments = 1024: use 1 to 1019"
    );
    assert!(message(log.tail("x", from().bound_segments(0))).contains("use 1 to 1019"));
    assert_eq!(
        message(log.tail("x", from().bound_bytes(0))),
        "wal: a consumer bound of 0 bytes holds nothing: use 1 or more"
    );
    for name in ["", "a b", "\u{e4}", &"x".repeat(64)] {
        assert!(message(log.tail(name, from())).contains("cannot be called"));
    }
    assert_eq!(message(log.tail("feed", from())), "wal: consumer feed is being read by another tail");
    assert!(log.remove_consumer("feed").unwrap_err().to_string().contains("drop its tail first"));
    assert_eq!(log.stat().consumers.len(), 1, "nothing refused left a cursor");
    let mut tail = tail;
    let beyond = tail.advance(log.durable().plus(1)).unwrap_err().to_string();
    assert_eq!(beyond, "wal: consumer feed cannot advance to 0/1001: it has come to 0/1000");
    log.close().unwrap();
    drop(tail);
    assert!(matches!(log.tail("late", from()), Err(WalError::Closed)));
}

/// Goal: a record over many files that was not finished at the cursor is yielded whole after a restart, and its first
/// files stay until then (J3). Method: a long record behind short ones that are consumed one by one.
#[test]
fn long_record_around_the_cursor_comes_whole_after_a_restart() {
    let disk = SimFiles::new();
    let options = || Options { max_record_bytes: 256 << 10, recent_bytes: 0, ..tiny() };
    let reopen = |disk: &SimFiles| Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options()).unwrap().0;
    let log = reopen(&disk);
    let mut writer = log.writer();
    let before = commit(&mut writer, 1, 3);
    let long = writer.append(9, &[&[200; 200_000]]).unwrap();
    log.flush_wal(true).unwrap();
    let mut tail = log.tail("feed", TailOptions::resume()).unwrap();
    for _ in 0..3 {
        tail.next().unwrap();
    }
    // The tail has read the whole record by now, but only the records before it are consumed.
    assert_eq!(tail.next().unwrap().lsn, long.start);
    tail.advance(long.start).unwrap();
    let freed = log.truncate_before(log.durable()).unwrap();
    assert!(freed.start <= before[2], "{freed:?}: the first piece is needed");
    drop(tail);
    log.abandon();
    let log = reopen(&disk.process_kill());
    let mut tail = log.tail("feed", TailOptions::resume()).unwrap();
    let records: Vec<_> = std::iter::from_fn(|| tail.try_next().unwrap()).collect();
    let seen: Vec<_> = records.iter().filter(|r| r.lsn >= long.start).map(|r| (r.lsn, r.body.len())).collect();
    assert_eq!(seen, [(long.start, 200_000)]);
    tail.advance(tail.position()).unwrap();
    assert!(log.truncate_before(log.durable()).unwrap().start > before[2]);
}

/// Goal: a record that the bound of a consumer cut short does not keep that consumer at its bound forever. Method: a
/// record of several files under a bound of one, with each protocol; the consumer catches up, and then the same record
/// fits.
#[test]
fn record_cut_short_by_a_bound_does_not_keep_the_consumer_there() {
    for protocol in [Protocol::Mutex, Protocol::Base, Protocol::Help] {
        let options = Options { protocol, max_record_bytes: 256 << 10, recent_bytes: 0, ..tiny() };
        let (log, _) = Log::open(&Env::over(SimFiles::new(), 1), DIR.as_ref(), options).unwrap();
        let hold = TailOptions::resume().policy(LagPolicy::Hold).bound_segments(1);
        let (mut writer, mut tail) = (log.writer(), log.tail("archive", hold).unwrap());
        writer.commit(0, b"before", Level::Disk).unwrap();
        let refused = writer.append(0, &[&[1; 200_000]]).unwrap_err();
        assert!(refused.to_string().contains("consumer archive"), "{refused}");
        log.flush_wal(true).unwrap();
        assert_eq!(numbers(&mut tail), [b'b'], "{protocol:?}");
        tail.advance(tail.position()).unwrap();
        assert!(log.stat().consumers[0].pins.is_empty(), "{protocol:?}");
        writer.commit(0, b"after", Level::Disk).unwrap();
        assert_eq!(numbers(&mut tail), [b'a']);
        drop(tail);
        log.remove_consumer("archive").unwrap();
        writer.append(0, &[&[2; 200_000]]).unwrap();
        log.flush_wal(true).unwrap();
        assert_eq!(log.read(Lsn::ZERO).last().unwrap().unwrap().body, vec![2; 200_000]);
    }
}

/// Goal: whatever is freed, a crash at any call leaves every cursor with all its records (U1, U2). Method: seeded runs
/// of commits, consumption, advancing and freeing, cut at a random call; after the cut the consumer continues where it
/// was or earlier, and misses nothing.
#[test]
fn no_crash_takes_a_cursor_below_what_was_freed() {
    let (mut resumed, mut moved) = (0, 0);
    for seed in 0..150 {
        let (random, mut disk) = (SimRandom::new(seed), SimFiles::new());
        let (mut consumed, mut acknowledged) = (0_u64, 0_u64);
        for life in 0..4_u64 {
            disk.fail_call(disk.calls() + 20 + random.below(150), Fault::PowerCut);
            let outcome = (|| -> Result<(), WalError> {
                let (log, _) = Log::open(&Env::over(disk.clone(), seed ^ life << 32), DIR.as_ref(), tiny())?;
                let mut tail = log.tail("feed", TailOptions::resume().policy(LagPolicy::Hold))?;
                let mut writer = log.writer();
                let mut next = None;
                for _ in 0..60 {
                    while let Some(record) = tail.try_next()? {
                        let number = u64::from_le_bytes(record.body[..8].try_into().unwrap());
                        assert!(next.is_some() || number <= consumed, "seed {seed}: {number} after {consumed}");
                        assert_eq!(number, next.unwrap_or(number), "seed {seed}");
                        next = Some(number + 1);
                        if random.below(2) == 0 {
                            // If this call fails, the cursor may or may not have moved.
                            (consumed, moved) = (consumed.max(number + 1), moved + 1);
                            tail.advance(record.end)?;
                        }
                    }
                    let mut body = vec![1; 2_500];
                    body[..8].copy_from_slice(&acknowledged.to_le_bytes());
                    acknowledged += 1;
                    writer.commit(0, &body, Level::Disk)?;
                    if random.below(4) == 0 {
                        log.truncate_before(log.durable())?;
                    }
                }
                log.close()
            })();
            match outcome {
                Ok(()) | Err(WalError::Io { .. } | WalError::Poisoned { .. }) => {}
                Err(error) => panic!("seed {seed} life {life}: {error}"),
            }
            disk = disk.power_cut(random.below(u64::MAX));
            let (log, _) = Log::open(&Env::over(disk.clone(), seed), DIR.as_ref(), tiny())
                .unwrap_or_else(|error| panic!("seed {seed} life {life}: {error}"));
            let tail = log.tail("feed", TailOptions::resume().policy(LagPolicy::Hold));
            let mut tail = tail.unwrap_or_else(|error| panic!("seed {seed} life {life}: {error}"));
            let mut left = Vec::new();
            while let Some(record) = tail.try_next().unwrap_or_else(|error| panic!("seed {seed}: {error}")) {
                left.push(u64::from_le_bytes(record.body[..8].try_into().unwrap()));
            }
            // The last commit may or may not be in the log.
            let last = log.read(Lsn::ZERO).last().map(|record| record.unwrap().body);
            let end = last.map_or(0, |body| u64::from_le_bytes(body[..8].try_into().unwrap()) + 1);
            let first = left.first().copied().unwrap_or(end);
            assert!(left.iter().copied().eq(first..end), "seed {seed} life {life}: {left:?}");
            assert!(first <= consumed && end + 1 >= acknowledged, "seed {seed} life {life}: {first} to {end}");
            (acknowledged, resumed) = (end, resumed + 1);
            consumed = consumed.min(end);
            drop(tail);
            log.close().unwrap();
        }
    }
    assert!(resumed == 600 && moved > 1_000, "{resumed} lives, {moved} moves");
}

/// Goal: a log whose very first opening was cut short lacks nothing, however little of that opening's file is on disk:
/// it starts where it did, and a consumer that was created before the first record has its place (track record T28).
/// Method: each write and sync of the first opening fails in turn; open again, create the consumer and commit; cut the
/// power with any choice of what was not synced; open with `known_start` at the first position.
#[test]
fn log_whose_first_opening_was_cut_short_keeps_its_start_and_its_consumers() {
    let options = || Options { known_start: Some(Lsn::FIRST), ..tiny() };
    let (mut cut_short, mut without_the_file) = (0, 0);
    for call in 1.. {
        let disk = SimFiles::new();
        disk.fail_write_or_sync(call, Fault::Eio);
        let env = || Env::over(disk.clone(), call);
        if Log::open(&env(), DIR.as_ref(), tiny()).is_ok() {
            break;
        }
        cut_short += 1;
        disk.clear_faults();
        let (log, _) = Log::open(&env(), DIR.as_ref(), options()).unwrap();
        drop(log.tail("feed", TailOptions::resume()).unwrap());
        let ends = commit(&mut log.writer(), 0, 3);
        log.abandon();
        let point = disk.crash_point();
        let states = (0..20).map(|seed| disk.power_cut(seed)).chain([point.state(&point.none_kept())]);
        for (state, disk) in states.enumerate() {
            let chain = inspect(&Env::over(disk.clone(), 3), DIR.as_ref()).unwrap().segments();
            without_the_file += u32::from(!chain[0].path.ends_with("00000000000000000001.wal"));
            let opened = Log::open(&Env::over(disk, 2), DIR.as_ref(), options());
            let (log, found) = opened.unwrap_or_else(|error| panic!("call {call} state {state}: {error}"));
            let tail = log.tail("feed", TailOptions::resume());
            let mut tail = tail.unwrap_or_else(|error| panic!("call {call} state {state}: {error}"));
            assert_eq!((found.start, found.end), (Lsn::FIRST, ends[2]), "call {call} state {state}");
            assert_eq!(numbers(&mut tail), [0, 1, 2], "call {call} state {state}");
        }
    }
    assert!(cut_short > 3 && without_the_file > 10, "{cut_short} openings, {without_the_file} states");
}

/// Goal: a consumer that had passed the damage loses its place when the log is opened without its damaged end, in that
/// incarnation and in later ones; other consumers continue, unless no record is left of the log. Method: three
/// consumers; flip a byte in the middle, and one at the beginning of the oldest file.
#[test]
fn consumer_beyond_damage_loses_its_place_for_good() {
    for at_the_beginning in [false, true] {
        let disk = SimFiles::new();
        let log = open(&disk);
        let ends = commit(&mut log.writer(), 0, 30);
        for (name, from) in [("new", Lsn::FIRST), ("slow", ends[4]), ("fast", ends[25])] {
            drop(log.tail(name, TailOptions::from(from)).unwrap());
        }
        log.abandon();
        let disk = disk.process_kill();
        let files = inspect(&Env::over(disk.clone(), 1), DIR.as_ref()).unwrap().segments();
        let (file, left) = if at_the_beginning { (&files[0], 0) } else { (&files[2], 2) };
        let left: Vec<u8> = (0..30).filter(|at| left > 0 && ends[usize::from(*at)] <= files[left].first).collect();
        assert!(at_the_beginning || (5..25).contains(&left.len()), "{left:?}");
        disk.flip(&file.path, 4_096 + 100, 1).unwrap();
        assert!(Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), tiny()).is_err());
        let options = Options { recovery_mode: RecoveryMode::PointInTime, ..tiny() };
        let (log, found) = Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options).unwrap();
        assert_eq!(found.start, Lsn::FIRST);
        log.abandon();
        let disk = disk.crash_point();
        let disk = disk.state(&disk.none_kept());
        let options = Options { known_start: Some(Lsn::FIRST), ..tiny() };
        let (log, found) = Log::open(&Env::over(disk, 1), DIR.as_ref(), options).unwrap();
        assert_eq!(found.start, Lsn::FIRST);
        commit(&mut log.writer(), 90, 1);
        let read = |name: &str| log.tail(name, TailOptions::resume()).map(|mut tail| numbers(&mut tail));
        let expected = |from: u8| left.iter().copied().filter(|at| *at >= from).chain([90]).collect::<Vec<_>>();
        assert_eq!(read("new").unwrap(), expected(0));
        assert!(matches!(read("fast"), Err(WalError::CursorLost { .. })));
        match read("slow") {
            Ok(yielded) => assert!(!at_the_beginning && yielded == expected(5), "{yielded:?}"),
            Err(error) => assert!(at_the_beginning && matches!(error, WalError::CursorLost { .. }), "{error}"),
        }
    }
}

/// Goal: a damaged or foreign file of cursors refuses the open before anything is written, with an error that names the
/// file. Method: flip a byte; copy another log's file.
#[test]
fn damaged_or_foreign_cursors_refuse_the_open() {
    let (disk, other) = (SimFiles::new(), SimFiles::new());
    for (disk, seed) in [(&disk, 1), (&other, 2)] {
        let (log, _) = Log::open(&Env::over(disk.clone(), seed), DIR.as_ref(), tiny()).unwrap();
        drop(log.tail("feed", TailOptions::resume()).unwrap());
        log.close().unwrap();
    }
    let path = std::path::Path::new("/wal/consumers");
    disk.flip(path, 40, 1).unwrap();
    let calls = disk.calls();
    let error = Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), tiny()).unwrap_err();
    assert!(error.to_string().starts_with("wal: /wal/consumers is damaged: crc "), "{error}");
    assert_eq!(disk.calls(), calls);
    let foreign = collie_env::read_all(&other, path, 1 << 20).unwrap();
    disk.open(path, Access::ReadWrite).unwrap().write_at(0, &foreign).unwrap();
    let error = Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), tiny()).unwrap_err();
    assert!(matches!(&error, WalError::ForeignLog { path: found } if found == path), "{error}");
    disk.remove(path).unwrap();
    assert!(open(&disk).stat().consumers.is_empty());
}

/// Goal: at the limit on files the error names the holder, a mapped reader too. Method: eight files, an idle mapped
/// reader.
#[test]
fn limit_on_files_names_the_holder() {
    let disk = SimFiles::new();
    let options = Options { max_segments: 8, ..tiny() };
    let (log, _) = Log::open(&Env::over(disk, 1), DIR.as_ref(), options).unwrap();
    let mut writer = log.writer();
    let first = writer.commit(0, b"first", Level::Disk).unwrap();
    let mut mapped = log.read_with(first.start, ReadMode::Map).unwrap();
    mapped.next().unwrap().unwrap();
    let refused = (0..200).find_map(|_| {
        log.truncate_before(log.durable()).unwrap();
        writer.commit(0, &[7; 3_000], Level::Disk).err()
    });
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("a mapped reader from 0/1000 holds all from 0/1000"), "{refused}");
    drop(mapped);
    log.truncate_before(log.durable()).unwrap();
    log.tick().unwrap();
    writer.commit(0, b"again", Level::Disk).unwrap();
}

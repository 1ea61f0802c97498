//! Copying a running log: the content of the copy, what it must not hold, and that it opens alone.

use std::path::Path;

use collie_env::{Env, Files as _, SimFiles};

use crate::{Level, Log, Lsn, Mark, Options, WalError, give_new_id, inspect, testing::tiny};

const DIR: &str = "/wal";
const TO: &str = "/copy";

fn env(disk: &SimFiles) -> Env {
    Env::over(disk.clone(), 77)
}

fn open(disk: &SimFiles, dir: &str, options: Options) -> Log {
    Log::open(&env(disk), dir.as_ref(), options).unwrap().0
}

/// Returns the position and the content of the log's records below `limit`, without opening it.
fn content(disk: &SimFiles, dir: &str, limit: Lsn) -> Vec<(Lsn, Vec<u8>)> {
    let found = inspect(&env(disk), dir.as_ref()).unwrap();
    let records = found.records(Lsn::ZERO).map(Result::unwrap);
    records.filter(|record| record.lsn < limit).map(|record| (record.lsn, record.body)).collect()
}

fn copy(log: &Log, disk: &SimFiles, from: Lsn) -> (Lsn, Lsn) {
    disk.create_dir_all(TO.as_ref()).unwrap();
    let pin = log.pin(from, "the test");
    // The seed differs from the source's; otherwise the copy would draw the same id.
    let copied = pin.copy_to::<WalError>(&Env::over(disk.clone(), 99), TO.as_ref(), &mut |_| Ok(())).unwrap();
    (copied.start, copied.end)
}

/// Goal: a copy holds the durable records and nothing else, survives a power cut at once, and opens alone with
/// positions above all of its source. Method: a log of several files and incarnations with records that are written and
/// not durable; power cut right after the copy, compare record by record, open, append.
#[test]
fn copy_of_a_running_log_ends_where_its_source_was_durable() {
    let disk = SimFiles::new();
    let first = open(&disk, DIR, tiny());
    let mut writer = first.writer();
    for n in 0..40_u8 {
        writer.commit(1, &[n; 900], Level::Disk).unwrap();
    }
    drop(writer);
    first.abandon();
    drop(first);
    let disk = disk.process_kill();
    let log = open(&disk, DIR, tiny());
    let mut writer = log.writer();
    for n in 0..40_u8 {
        writer.commit(2, &[n; 1_500], Level::Disk).unwrap();
    }
    // Turning to the next file makes records durable, so append until one is only written.
    while log.durable() == log.written() {
        let at = writer.append(3, &[&[7; 700]]).unwrap();
        log.wait(Mark::Written, at.end).unwrap();
    }
    let durable = log.durable();
    assert!(log.stat().segments > 3, "{} files", log.stat().segments);
    let (start, end) = copy(&log, &disk, Lsn::FIRST);
    assert_eq!((start, end), (Lsn::FIRST, durable));
    let expected = content(&disk, DIR, durable);
    assert!((80..85).contains(&expected.len()), "{}", expected.len());
    let highest = log.glsn();
    let after = disk.power_cut(3);
    assert_eq!(content(&after, TO, Lsn::MAX), expected);
    let (again, found) = Log::open(&env(&after), TO.as_ref(), tiny()).unwrap();
    assert_eq!(found.torn_bytes, 0);
    let at = again.writer().commit(4, b"goes on", Level::Disk).unwrap();
    assert!(at.start >= highest, "position {} was handed out by the source, which came to {highest}", at.start);
    assert_eq!(again.read(Lsn::ZERO).count(), expected.len() + 1);
}

/// Goal: D3, and the copy begins at the pinned position, with whole files. Method: a pin in the middle of a log that is
/// cut below the pin and would be cut above it; the copy is made after that.
#[test]
fn pin_keeps_its_files_and_the_copy_begins_with_them() {
    let disk = SimFiles::new();
    let log = open(&disk, DIR, tiny());
    let mut writer = log.writer();
    let ends: Vec<Lsn> = (0..60_u8).map(|n| writer.commit(1, &[n; 1_500], Level::Disk).unwrap().end).collect();
    let pin = log.pin(ends[30], "the test");
    let freed = log.truncate_before(ends[55]).unwrap();
    assert_eq!(freed.held_by.as_deref(), Some("the test"));
    assert!(freed.start > Lsn::FIRST && freed.start <= ends[30], "{freed:?}");
    disk.create_dir_all(TO.as_ref()).unwrap();
    let copied = pin.copy_to::<WalError>(&env(&disk), TO.as_ref(), &mut |_| Ok(())).unwrap();
    assert!(copied.start <= ends[30] && copied.end == log.durable(), "{copied:?}");
    drop(pin);
    assert!(log.truncate_before(ends[55]).unwrap().start > ends[30], "the pin is gone");
    let kept = content(&disk, TO, Lsn::MAX);
    assert_eq!(kept.last().unwrap().1, [59; 1_500]);
    assert!(kept.iter().any(|(_, body)| *body == [31; 1_500]), "{:?}", kept.first());
}

/// Goal: a copy of a log in two directories opens alone, and D2: it is never joined with its source's directories.
/// Method: open the copy with each of its source's directories, then alone.
#[test]
fn copy_of_a_log_with_copies_stands_alone_and_is_another_log() {
    let disk = SimFiles::new();
    let with = |copies: &[&str]| Options { copies: copies.iter().map(Into::into).collect(), ..tiny() };
    disk.create_dir_all("/second".as_ref()).unwrap();
    let log = open(&disk, DIR, with(&["/second"]));
    for n in 0..20_u8 {
        log.writer().commit(1, &[n; 900], Level::Disk).unwrap();
    }
    copy(&log, &disk, Lsn::FIRST);
    let before = content(&disk, TO, Lsn::MAX);
    assert_eq!(before.len(), 20);
    log.close().unwrap();
    drop(log);
    for dir in ["/second", DIR] {
        let refused = Log::open(&env(&disk), TO.as_ref(), with(&[dir])).err().unwrap();
        assert!(matches!(refused, WalError::ForeignLog { .. }), "{refused}");
    }
    let id = |disk: &SimFiles| {
        let name = disk.list(TO.as_ref()).unwrap().into_iter().find(|name| name.ends_with(".wal")).unwrap();
        collie_env::read_all(disk, &Path::new(TO).join(name), 1 << 20).unwrap()[16..32].to_vec()
    };
    let first = id(&disk);
    give_new_id(&Env::over(disk.clone(), 78), TO.as_ref()).unwrap();
    assert_ne!(id(&disk), first);
    assert_eq!(content(&disk, TO, Lsn::MAX), before);
    let alone = open(&disk, TO, tiny());
    assert_eq!(alone.read(Lsn::ZERO).count(), 20);
}

/// Goal: an error of the caller ends the copy, and damage of the source is not copied as if it were whole. Method: a
/// step that fails; a flipped byte in the middle of the source.
#[test]
fn copy_ends_when_it_is_told_to_and_at_damage() {
    let disk = SimFiles::new();
    let log = open(&disk, DIR, tiny());
    let mut writer = log.writer();
    for n in 0..60_u8 {
        writer.commit(1, &[n; 1_500], Level::Disk).unwrap();
    }
    disk.create_dir_all("/stopped".as_ref()).unwrap();
    let pin = log.pin(Lsn::FIRST, "the test");
    let stopped = pin.copy_to(&env(&disk), "/stopped".as_ref(), &mut |_| Err(WalError::Closed));
    assert!(matches!(stopped, Err(WalError::Closed)), "{stopped:?}");
    let oldest = disk.list(DIR.as_ref()).unwrap().into_iter().find(|name| name.ends_with(".wal")).unwrap();
    disk.flip(&Path::new(DIR).join(oldest), 8192 + 100, 1).unwrap();
    disk.create_dir_all(TO.as_ref()).unwrap();
    let damaged = pin.copy_to::<WalError>(&env(&disk), TO.as_ref(), &mut |_| Ok(()));
    assert!(matches!(damaged, Err(WalError::Damaged { .. })), "{damaged:?}");
}

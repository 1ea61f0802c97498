//! Files that are missing, shortened, copied or renamed: each is named, and none is taken for a torn tail.

use std::path::{Path, PathBuf};

use collie_env::{Access, Env, Files, SimFiles, read_all};

use crate::{
    Level, Log, Lsn, Options, Recovered, RecoveryMode, WalError, format::segment_name, inspect, testing::tiny,
};

const DIR: &str = "/wal";

fn env(disk: &SimFiles) -> Env {
    Env::over(disk.clone(), 1)
}

fn open(disk: &SimFiles, options: Options) -> Result<(Log, Recovered), WalError> {
    Log::open(&env(disk), DIR.as_ref(), options)
}

/// Makes a log of several files, left open or closed; returns its disk, its files and the ends of its records.
fn make_log(close: bool) -> (SimFiles, Vec<PathBuf>, Vec<Lsn>) {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, tiny()).unwrap();
    let mut writer = log.writer();
    let ends = (0..60_u8).map(|number| writer.commit(0, &[number; 2_500], Level::Disk).unwrap().end).collect();
    if close {
        log.close().unwrap()
    } else {
        log.abandon()
    }
    let disk = disk.process_kill();
    let segments = inspect(&env(&disk), DIR.as_ref()).unwrap().segments();
    (disk, segments.into_iter().map(|segment| segment.path).collect(), ends)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Opens the log before its damage, and returns the number of records that can be read.
fn open_before(disk: &SimFiles) -> usize {
    let options = Options { recovery_mode: RecoveryMode::PointInTime, ..tiny() };
    let (log, found) = open(disk, options).unwrap();
    assert!(found.notes.iter().any(|note| note.contains("point_in_time")), "{:?}", found.notes);
    log.read(Lsn::ZERO).map(Result::unwrap).count()
}

/// Goal: a file that is missing in the middle is named, with the extent of the loss. Method: remove one, then three.
#[test]
fn missing_file_is_named_with_what_is_lost() {
    let (disk, files, ends) = make_log(false);
    assert!(files.len() > 5);
    disk.remove(&files[3]).unwrap();
    let error = open(&disk, tiny()).unwrap_err();
    let WalError::MissingSegment { missing, lsn, durable } = &error else { panic!("{error}") };
    assert_eq!(missing, &format!("segment {} is missing", name(&files[3])));
    assert!(ends.contains(lsn) && lsn < durable);
    assert!(error.to_string().starts_with(&format!("wal: {missing}: the log reads to LSN {lsn} and was durable to ")));
    assert_eq!(inspect(&env(&disk), DIR.as_ref()).unwrap().damage().unwrap().to_string(), error.to_string());
    disk.remove(&files[2]).unwrap();
    disk.remove(&files[4]).unwrap();
    let error = open(&disk, tiny()).unwrap_err();
    let WalError::MissingSegment { missing, lsn, .. } = &error else { panic!("{error}") };
    assert_eq!(missing, &format!("segments {} to {} are missing", name(&files[2]), name(&files[4])));
    assert_eq!(open_before(&disk), ends.iter().filter(|end| *end <= lsn).count());
}

/// Goal: bytes that rotted at the end of a file are not taken for a missing file. Method: flip a bit in the last frame
/// of a file, once in its first byte and once further on.
#[test]
fn rotten_end_of_a_file_is_not_a_missing_one() {
    for at in [0, 70] {
        let (disk, files, _) = make_log(false);
        let used = inspect(&env(&disk), DIR.as_ref()).unwrap().segments()[2].used_bytes;
        disk.flip(&files[2], used - 4096 + at, 1).unwrap();
        let error = open(&disk, tiny()).unwrap_err();
        assert!(matches!(&error, WalError::Damaged { path, .. } if *path == files[2]), "{error}");
    }
}

/// Goal: a log that starts above the position that the checkpoint needs is refused, in the words of the manual. Method:
/// remove the oldest file, and open with and without the need.
#[test]
fn missing_start_is_noticed_by_who_needs_it() {
    let (disk, files, _) = make_log(true);
    disk.remove(&files[0]).unwrap();
    let start = inspect(&env(&disk), DIR.as_ref()).unwrap().start();
    let needed = Lsn::new(5_000);
    let error = open(&disk, Options { known_start: Some(needed), ..tiny() }).unwrap_err();
    let expected =
        format!("wal: starts at {start} but the checkpoint needs {needed}: segment {} is missing", name(&files[0]));
    assert_eq!(error.to_string(), expected);
    let (log, found) = open(&disk, Options { known_start: Some(start), ..tiny() }).unwrap();
    assert_eq!(found.start, start);
    log.close().unwrap();
    open(&disk, tiny()).unwrap();
}

/// Goal: a shortened file is named, in the middle and at the end, in a closed log and an open one, even if no frame
/// proves it. Method: cut each file in turn to each whole number of blocks.
#[test]
fn shortened_file_is_named_wherever_it_is_cut() {
    for close in [true, false] {
        let (disk, files, _) = make_log(close);
        let segments = inspect(&env(&disk), DIR.as_ref()).unwrap().segments();
        let (mut named, mut harmless) = (0, 0);
        for (at, path) in files.iter().enumerate() {
            for blocks in 2..10 {
                let copy = disk.process_kill();
                let bytes = blocks * 4096;
                copy.open(path, Access::ReadWrite).unwrap().set_len(bytes).unwrap();
                let case = format!("{} cut to {bytes}", path.display());
                match inspect(&env(&copy), DIR.as_ref()).unwrap().damage() {
                    Some(WalError::Shortened { path: found, bytes: size, segment_bytes, .. }) => {
                        assert_eq!((&found, size, segment_bytes), (path, bytes, segments[at].segment_bytes), "{case}");
                        assert!(matches!(open(&copy, tiny()), Err(WalError::Shortened { .. })), "{case}");
                        named += 1;
                        if blocks == 5 {
                            open_before(&copy);
                        }
                    }
                    None => {
                        // Only zeros were cut off, and the next file joins.
                        assert!(bytes >= segments[at].used_bytes && at + 1 < files.len(), "{case}");
                        harmless += 1;
                    }
                    Some(other) => panic!("{case}: {other}"),
                }
            }
        }
        assert!(named > files.len() * 4, "{named} named, {harmless} harmless");
    }
}

/// Goal: a copy of a segment under a free number and a renamed one are refused by name, and removing or renaming it
/// repairs the log. Method: both, on the current segment and on an old one.
#[test]
fn copied_and_renamed_files_are_refused_by_name() {
    let (disk, files, ends) = make_log(false);
    let free = Path::new(DIR).join(segment_name(77));
    for path in [&files[1], &files[files.len() - 1]] {
        let bytes = read_all(&disk, path, 1 << 20).unwrap();
        disk.create(&free).unwrap().write_at(0, &bytes).unwrap();
        let error = open(&disk, tiny()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "wal: {} is segment {} by its header: rename it, or remove it if that file is there too",
                free.display(),
                name(path)
            )
        );
        disk.remove(&free).unwrap();
        disk.replace(path, &free).unwrap();
        assert!(matches!(open(&disk, tiny()), Err(WalError::WrongName { .. })));
        disk.replace(&free, path).unwrap();
    }
    let (log, _) = open(&disk, tiny()).unwrap();
    assert_eq!(log.read(Lsn::ZERO).map(Result::unwrap).count(), ends.len());
}

/// Goal: empty files and files of zeros among the segments do no harm. Method: one of each, under free numbers.
#[test]
fn empty_files_and_files_of_zeros_are_no_harm() {
    let (disk, _, ends) = make_log(true);
    disk.create(&Path::new(DIR).join(segment_name(70))).unwrap();
    disk.create(&Path::new(DIR).join(segment_name(71))).unwrap().write_at(0, &[0; 9_000]).unwrap();
    let (log, _) = open(&disk, tiny()).unwrap();
    assert_eq!(log.read(Lsn::ZERO).map(Result::unwrap).count(), ends.len());
}

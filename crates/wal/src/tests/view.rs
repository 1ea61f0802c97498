//! The view of a log and an opening of the same files: both find the same, and the view writes nothing.

use collie_env::{Env, Random, SimFiles, SimRandom};

use crate::{
    CopiesRequired, Level, Log, LogView, Lsn, Options, ReadLock, RecoveryMode, RingKind, WalError, inspect,
    testing::tiny,
};

const DIR: &str = "/wal";
const COPY: &str = "/copy";

type Seen = (Lsn, Lsn, u8, Vec<u8>);

fn env(disk: &SimFiles) -> Env {
    Env::over(disk.clone(), 1)
}

fn view(env: &Env, options: &Options) -> Result<(Vec<Seen>, LogView), WalError> {
    let lock = ReadLock::take(env, DIR.as_ref(), &options.copies)?;
    let view = LogView::of(env, DIR.as_ref(), options, &lock)?;
    let mut seen = Vec::new();
    view.visit(|record| -> Result<(), WalError> {
        seen.push((record.lsn, record.end, record.tag, record.body.to_vec()));
        Ok(())
    })?;
    lock.release(env)?;
    Ok((seen, view))
}

/// Views the disk, then opens the log on it; both must find the same, and only the opening may write. Returns whether
/// the log was opened.
fn check(case: &str, disk: &SimFiles, options: &Options) -> bool {
    let (before, regions) = (disk.writes_and_syncs(), disk.regions().len());
    let viewed = view(&env(disk), options);
    assert_eq!((disk.writes_and_syncs(), disk.regions().len()), (before, regions), "{case}: a view writes nothing");
    match (viewed, Log::open(&env(disk), DIR.as_ref(), options.clone())) {
        (Ok((seen, view)), Ok((log, found))) => {
            log.flush_wal(true).unwrap();
            let read: Vec<Seen> = log
                .read(Lsn::ZERO)
                .map(|record| record.unwrap())
                .map(|record| (record.lsn, record.end, record.tag, record.body))
                .collect();
            assert!(seen == read, "{case}: {} records seen, {} read", seen.len(), read.len());
            assert_eq!((view.start(), view.end()), (found.start, found.end), "{case}");
            assert_eq!(view.incarnation() + 1, found.incarnation, "{case}");
            log.abandon();
            true
        }
        (Err(viewed), Err(opened)) => {
            assert_eq!(viewed.to_string(), opened.to_string(), "{case}");
            false
        }
        (viewed, opened) => panic!("{case}: {:?} against {:?}", viewed.map(|_| ()), opened.map(|_| ())),
    }
}

/// Appends to a log on `disk`, some records durably, and ends it in some way.
fn live(disk: SimFiles, options: &Options, random: &SimRandom) -> SimFiles {
    let (log, _) = Log::open(&env(&disk), DIR.as_ref(), options.clone()).unwrap();
    let mut writer = log.writer();
    for _ in 0..random.below(40) {
        let body = vec![7; usize::try_from(random.below(12)).unwrap().pow(4)];
        let level = [Level::Memory, Level::Process, Level::Disk][usize::try_from(random.below(3)).unwrap()];
        writer.commit(u8::try_from(random.below(9)).unwrap(), &body, level).unwrap();
    }
    drop(writer);
    match random.below(4) {
        0 => log.close().unwrap(),
        1 => {
            log.abandon();
            return disk.power_cut(random.u64());
        }
        _ => log.abandon(),
    }
    disk.process_kill()
}

/// Goal: E1, E2: a view has every record that an opening of the same files has, and no other, wherever the last
/// incarnation ended, with records of one piece and of several, in files and in a shared ring, in one directory and in
/// two. Method: incarnations of random length and ending; before each next one a view and an opening are compared.
#[test]
fn view_finds_what_an_opening_finds() {
    for seed in 0..40 {
        let (random, mut disk) = (SimRandom::new(seed), SimFiles::new());
        let ring = if seed % 2 == 0 { RingKind::Shared } else { RingKind::Private };
        let copies = if seed % 5 == 4 { vec![COPY.into()] } else { vec![] };
        let options = Options { ring, copies, copies_required: CopiesRequired::All, ..tiny() };
        for life in 0..4 {
            disk = live(disk, &options, &random);
            assert!(check(&format!("seed {seed}, life {life}"), &disk, &options));
            disk = disk.process_kill();
        }
    }
}

/// Goal: E2: a view refuses what an opening refuses, in the same words; under `point_in_time` both continue without it.
/// Method: a bit in every eighth block of a log damaged in turn, in each mode.
#[test]
fn view_refuses_what_an_opening_refuses() {
    let options = tiny();
    let make = || {
        let random = SimRandom::new(5);
        (0..3).fold(SimFiles::new(), |disk, _| live(disk, &options, &random))
    };
    let disk = make();
    let segments: Vec<_> = inspect(&env(&disk), DIR.as_ref())
        .unwrap()
        .segments()
        .iter()
        .map(|segment| (segment.path.clone(), segment.used_bytes))
        .collect();
    let (mut refused, mut opened) = (0, 0);
    for (path, used) in segments {
        for at in (100..used).step_by(8 * 512) {
            for mode in [
                RecoveryMode::TolerateCorruptedTailRecords,
                RecoveryMode::AbsoluteConsistency,
                RecoveryMode::PointInTime,
            ] {
                let disk = make();
                disk.flip(&path, at, 3).unwrap();
                let options = Options { recovery_mode: mode, ..options.clone() };
                let case = format!("{} offset {at}, {mode:?}", path.display());
                *(if check(&case, &disk, &options) { &mut opened } else { &mut refused }) += 1;
            }
        }
    }
    assert!(refused > 10 && opened > 10, "{refused} refused, {opened} opened");
}

/// Goal: E3: no process opens a log that is being read, and none reads one that is open; any number may read. Method:
/// locks taken in every order.
#[test]
fn log_is_read_or_open_and_never_both() {
    let disk = live(SimFiles::new(), &tiny(), &SimRandom::new(1));
    let open = || Log::open(&env(&disk), DIR.as_ref(), tiny());
    let take = || ReadLock::take(&env(&disk), DIR.as_ref(), &[]);
    let (one, two) = (take().unwrap(), take().unwrap());
    one.release(&env(&disk)).unwrap();
    assert!(matches!(open(), Err(WalError::Locked { pid: None })));
    two.release(&env(&disk)).unwrap();
    let (log, _) = open().unwrap();
    assert!(matches!(take(), Err(WalError::Locked { pid: Some(_) })));
    log.close().unwrap();
    take().unwrap().release(&env(&disk)).unwrap();
    assert!(matches!(ReadLock::take(&env(&disk), "/none".as_ref(), &[]), Err(WalError::Io { .. })));
}

/// Goal: E3: a log without a lock file is read without making one, and an opening in the meantime is noticed. Method: a
/// real directory without its `LOCK`.
#[test]
fn opening_meanwhile_is_noticed_where_there_is_no_lock_file() {
    let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
    let lock = dir.path().join("LOCK");
    let (log, _) = Log::open(&env, dir.path(), tiny()).unwrap();
    log.close().unwrap();
    drop(log);
    std::fs::remove_file(&lock).unwrap();
    ReadLock::take(&env, dir.path(), &[]).unwrap().release(&env).unwrap();
    assert!(!lock.exists());
    let reading = ReadLock::take(&env, dir.path(), &[]).unwrap();
    let (log, _) = Log::open(&env, dir.path(), tiny()).unwrap();
    log.close().unwrap();
    drop(log);
    assert!(matches!(reading.release(&env), Err(WalError::Locked { pid: None })));
}

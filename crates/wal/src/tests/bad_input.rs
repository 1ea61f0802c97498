//! Bad input that no other test file covers: records of impossible sizes and unusable directories. docs/recovery.md has
//! the table of all cases and their tests.

use collie_env::{Env, SimFiles};

use crate::{
    Level, Log, Lsn, Options, WalError,
    copies::faulty::{FaultyDirs, Trouble},
    testing::tiny,
};

/// Goal: a record of any size up to the limit reads back unchanged, an empty one too; a larger one is refused with an
/// error that names both sizes, and leaves nothing behind. Method: sizes around each bound of pieces, frames and
/// records; reopen.
#[test]
fn records_of_every_size_up_to_the_limit_come_back_and_larger_ones_leave_nothing() {
    let (env, disk) = Env::simulated(5);
    let options = Options { max_record_bytes: 20_000, ..tiny() };
    let (log, _) = Log::open(&env, "/wal".as_ref(), options.clone()).unwrap();
    let mut writer = log.writer();
    let (chunk, most) = (usize::try_from(options.chunk_bytes).unwrap(), 20_000);
    let mut sizes = vec![0, 1, 127, 128];
    sizes.extend([chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 1, most - 1, most]);
    for (n, size) in sizes.iter().enumerate() {
        let body = vec![u8::try_from(n).unwrap(); *size];
        writer.commit(1, &body, Level::Disk).unwrap();
        for above in [most + 1, 3 * most] {
            let (glsn, frames) = (log.glsn(), log.stat().frames);
            let refused = writer.append(1, &[&vec![9; above]]).unwrap_err();
            let named = matches!(refused, WalError::TooLarge { bytes, limit_bytes } if (bytes, limit_bytes)
                == (above as u64, most as u64));
            assert!(named, "{refused}");
            assert_eq!((log.glsn(), log.stat().frames), (glsn, frames), "something was reserved");
        }
    }
    assert!(matches!(writer.append_with(1, &vec![9; chunk + 1], |_| ()), Err(WalError::TooLarge { .. })));
    log.close().unwrap();
    let (log, _) = Log::open(&Env::over(disk.process_kill(), 6), "/wal".as_ref(), options).unwrap();
    let read: Vec<Vec<u8>> = log.read(Lsn::ZERO).map(|record| record.unwrap().body).collect();
    assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
    assert!(read.iter().enumerate().all(|(n, body)| body.iter().all(|byte| usize::from(*byte) == n)));
    log.close().unwrap();
}

/// Goal: a directory that cannot be read, made or written gives one error that names it, and the failed opening adds
/// nothing. Method: each kind of trouble with the directory of a new log and with that of an existing one.
#[test]
fn directory_that_refuses_is_named_and_left_as_it_is() {
    for trouble in [Trouble::Gone, Trouble::FailsAfter(0)] {
        for exists in [false, true] {
            let disk = SimFiles::new();
            let dirs = FaultyDirs::new(&disk);
            if exists {
                let (log, _) = Log::open(&dirs.env(1), "/wal".as_ref(), tiny()).unwrap();
                log.writer().commit(1, b"kept", Level::Disk).unwrap();
                log.close().unwrap();
            }
            dirs.set("/wal", Some(trouble));
            let Err(refused) = Log::open(&dirs.env(2), "/wal".as_ref(), tiny()) else { panic!("must be refused") };
            let text = refused.to_string();
            assert!(matches!(refused, WalError::Io { .. }) && text.contains("/wal"), "{text}");
            dirs.set("/wal", None);
            let (log, found) = Log::open(&dirs.env(3), "/wal".as_ref(), tiny()).unwrap();
            assert_eq!(log.read(found.start).count(), usize::from(exists));
            log.close().unwrap();
        }
    }
}

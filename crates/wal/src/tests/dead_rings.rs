//! Rings of killed processes when another log is opened: which are removed, and which stay.

use std::{
    fs,
    path::{Path, PathBuf},
};

use collie_env::{Env, Files, SimFiles};

use crate::{
    Level, Log, Options, Recovered, RingKind,
    append::ring_file::Header,
    testing::{bodies, tiny},
};

const DIR: &str = "/wal";
const OTHER: &str = "/other";

fn shared() -> Options {
    Options { ring: RingKind::Shared, ..tiny() }
}

fn open(disk: &SimFiles, dir: &str, options: Options) -> (Log, Recovered) {
    Log::open(&Env::over(disk.clone(), 1), dir.as_ref(), options).unwrap()
}

/// Returns the disk of a machine on which a log was killed with one record on disk and, if `more`, another one only in
/// its ring; also returns the path of the ring.
fn killed(more: bool) -> (SimFiles, PathBuf) {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, DIR, shared());
    log.writer().commit(0, b"on disk", Level::Disk).unwrap();
    if more {
        log.writer().commit(0, b"in the ring", Level::Process).unwrap();
    }
    let [ring] = &disk.regions()[..] else { panic!("{:?}", disk.regions()) };
    (disk.process_kill(), ring.clone())
}

/// Returns whether the ring still exists after another log was opened.
fn stays(disk: &SimFiles, ring: &Path) -> bool {
    let (other, _) = open(disk, OTHER, shared());
    let stays = disk.regions().iter().any(|path| path == ring);
    assert_eq!(disk.regions().len(), 1 + usize::from(stays), "the other log has its own");
    other.close().unwrap();
    stays
}

/// Goal: the ring of a killed process is removed when any log is opened after its directory was deleted; not before,
/// and not if it has records that no file has. Method: with and without such records, with and without the directory; a
/// log whose directory exists gets its records back afterwards.
#[test]
fn ring_of_a_deleted_directory_is_removed_by_the_next_log_that_opens() {
    for more in [false, true] {
        let (disk, ring) = killed(more);
        assert!(stays(&disk, &ring), "its directory is there");
        let disk = disk.process_kill();
        let (log, _) = open(&disk, DIR, shared());
        assert_eq!(bodies(&log).len(), 1 + usize::from(more));

        let (disk, ring) = killed(more);
        disk.remove_dir_all(DIR.as_ref()).unwrap();
        assert_eq!(stays(&disk, &ring), more);
    }
}

/// Goal: D3: a ring is removed once its directory has begun a later incarnation, to which the ring does not belong.
/// Method: a directory that is opened with another `wal.ring_dir`, and another log in the former one.
#[test]
fn ring_of_a_life_that_is_over_is_removed() {
    let (disk, ring) = killed(true);
    let (log, found) = open(&disk, DIR, Options { ring_dir: "/rings".into(), ..shared() });
    assert_eq!((bodies(&log).len(), found.recovered_from_ring), (1, 0));
    assert!(disk.regions().contains(&ring));
    let (_other, _) = open(&disk, OTHER, shared());
    assert!(!disk.regions().contains(&ring) && disk.regions().len() == 2, "{:?}", disk.regions());
    log.writer().commit(0, b"it runs", Level::Process).unwrap();
    let disk = disk.process_kill();
    let (log, _) = open(&disk, DIR, Options { ring_dir: "/rings".into(), ..shared() });
    assert_eq!(bodies(&log).len(), 2);
}

/// Goal: D1, D2: a file is left alone if it is no ring, is of another boot, has another name, does not store its
/// directory, or is of a running process. Method: one change at a time to the ring of a deleted directory, which is
/// removed without the change.
#[test]
fn what_is_not_certain_to_be_a_dead_ring_is_left_alone() {
    let header_with = |change: fn(&mut Header)| {
        move |bytes: &mut Vec<u8>| {
            let mut header = Header::decode(bytes).unwrap();
            change(&mut header);
            bytes[..4096].copy_from_slice(&header.encode());
        }
    };
    type Change = Box<dyn Fn(&mut Vec<u8>)>;
    let rows: Vec<(Change, bool)> = vec![
        (Box::new(|_| ()), false),
        (Box::new(header_with(|header| header.dir = None)), true),
        (Box::new(header_with(|header| header.owner.log_id[3] ^= 1)), true),
        (Box::new(header_with(|header| header.owner.directory_id ^= 1)), true),
        (Box::new(header_with(|header| header.owner.boot_id[15] ^= 1)), true),
        (Box::new(header_with(|header| header.layout.slots = 0)), true),
        (Box::new(|bytes| bytes[12] = 9), true),
        (Box::new(|bytes| bytes.truncate(4095)), true),
        (Box::new(|bytes| bytes.truncate(8192)), true),
        (Box::new(|bytes| bytes.clear()), true),
    ];
    for (number, (change, expected)) in rows.iter().enumerate() {
        let (disk, ring) = killed(false);
        disk.remove_dir_all(DIR.as_ref()).unwrap();
        disk.change_region(&ring, change);
        assert_eq!(stays(&disk, &ring), *expected, "row {number}");
    }
    let (disk, ring) = killed(false);
    disk.remove_dir_all(DIR.as_ref()).unwrap();
    let (elsewhere, mut bytes) = (PathBuf::from("/dev/shm/collie-notes.ring"), Vec::new());
    disk.change_region(&ring, |ring| bytes.clone_from(ring));
    disk.change_region(&elsewhere, |copy| *copy = bytes);
    let (_log, _) = open(&disk, OTHER, shared());
    assert!(disk.regions().contains(&elsewhere) && !disk.regions().contains(&ring), "{:?}", disk.regions());

    let disk = SimFiles::new();
    let (log, _) = open(&disk, DIR, shared());
    let ring = disk.regions()[0].clone();
    disk.remove_dir_all(DIR.as_ref()).unwrap();
    assert!(stays(&disk, &ring), "it runs");
    drop(log);
}

/// Goal: on the real machine, a directory that was moved gets its records back, even if another log was opened in
/// between, and a running log whose directory was moved keeps its ring. Method: a killed log with records only in its
/// ring, and one without, moved; another log; the moved one.
#[test]
fn directory_that_was_moved_loses_nothing() {
    let (dir, env) = (tempfile::tempdir().unwrap(), Env::real());
    let rings = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = || Options { ring_dir: rings.path().to_owned(), ..shared() };
    let open = |name: &str| Log::open(&env, &dir.path().join(name), options()).unwrap();
    let others = |but: usize| assert_eq!(fs::read_dir(rings.path()).unwrap().count(), but);
    for more in [false, true] {
        let (from, to) = (format!("from-{more}"), format!("to-{more}"));
        let (log, _) = open(&from);
        log.writer().commit(0, b"on disk", Level::Disk).unwrap();
        if more {
            log.writer().commit(0, b"in the ring", Level::Process).unwrap();
        }
        log.abandon();
        drop(log);
        env.files.replace(&dir.path().join(&from), &dir.path().join(&to)).unwrap();
        let (other, _) = open("other");
        others(1 + usize::from(more));
        let (log, found) = open(&to);
        assert_eq!((bodies(&log).len(), found.recovered_from_ring > 0), (1 + usize::from(more), more));
        others(2);
        env.files.replace(&dir.path().join(&to), &dir.path().join(&from)).unwrap();
        other.close().unwrap();
        drop(other);
        let (other, _) = open("other");
        others(2);
        log.close().unwrap();
        other.close().unwrap();
        others(0);
    }
}

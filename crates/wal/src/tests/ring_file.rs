//! The shared ring over several incarnations of a log: what is back after a kill and after a power cut, which rings
//! count, and what happens if no ring can be made. `append::dead_scan_tests` covers the steps inside an append.

use std::path::{Path, PathBuf};

use collie_env::{Env, Fault, Random, SharedMemory, SimFiles, SimRandom};
use collie_sync::Padded;

use crate::{
    Ending, Level, Log, Lsn, Mark, Options, Protocol, Recovered, RecoveryMode, RingKind, WalError,
    append::ring_file::{Header, LINE, Layout, Owner, WordAt},
    inspect, mistakes,
    testing::{bodies, tiny},
};

const DIR: &str = "/wal";
const PROTOCOLS: [Protocol; 3] = [Protocol::Mutex, Protocol::Base, Protocol::Help];

fn shared(protocol: Protocol) -> Options {
    Options { ring: RingKind::Shared, protocol, ..tiny() }
}

fn open(disk: &SimFiles, options: Options) -> Result<(Log, Recovered), WalError> {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options)
}

/// Returns the only ring of a machine.
fn only_ring(disk: &SimFiles) -> PathBuf {
    let regions = disk.regions();
    assert_eq!(regions.len(), 1, "{regions:?}");
    regions[0].clone()
}

/// Makes a log with one record on disk and three that only the ring has, and kills it.
fn killed(protocol: Protocol) -> SimFiles {
    let disk = SimFiles::new();
    let (log, found) = open(&disk, shared(protocol)).unwrap();
    assert_eq!((found.ring, log.ring()), (RingKind::Shared, RingKind::Shared));
    let mut writer = log.writer();
    writer.commit(0, b"on disk", Level::Disk).unwrap();
    let before = disk.writes_and_syncs();
    for body in [&b"memory"[..], b"process", &[7; 4_000]] {
        let level = if body == b"memory" { Level::Memory } else { Level::Process };
        writer.commit(0, body, level).unwrap();
    }
    assert_eq!(disk.writes_and_syncs(), before, "with a shared ring no commit short of the disk calls it");
    assert!(log.written() < log.boundary());
    disk.process_kill()
}

/// Goal: after a kill every acknowledged record is back from the ring, durably, also if the next incarnation has a
/// private ring; the report says so, and the old ring is gone. Method: each protocol and each kind of ring afterwards;
/// then a power cut right after the open.
#[test]
fn killed_log_gets_back_from_its_ring_what_no_file_has() {
    for protocol in PROTOCOLS {
        for ring in [RingKind::Private, RingKind::Shared, RingKind::Auto] {
            let disk = killed(protocol);
            let (log, found) = open(&disk, Options { ring, ..tiny() }).unwrap();
            assert_eq!(bodies(&log), [&b"on disk"[..], b"memory", b"process", &[7; 4_000]], "{protocol:?}");
            assert_eq!((found.ending, found.torn_bytes), (Ending::Unclean, 0));
            assert_eq!(found.recovered_from_ring, 4_000 + 3 + 6 + 2 + 7 + 2);
            assert!(found.notes.len() == 1 && found.notes[0].contains("from the shared ring"), "{:?}", found.notes);
            assert_eq!(disk.regions().len(), usize::from(ring != RingKind::Private));
            drop(log);
            let (log, found) = open(&disk.power_cut(3), tiny()).unwrap();
            assert_eq!((bodies(&log).len(), found.recovered_from_ring), (4, 0), "what was opened is on disk");
        }
    }
}

/// Goal: the test above can fail. Method: a recovery that ignores rings.
#[test]
fn ring_that_is_not_looked_for_loses_acknowledged_records() {
    let disk = killed(Protocol::Help);
    let (log, _) = mistakes::with("RING_NOT_READ", || open(&disk, tiny())).unwrap();
    assert_eq!(bodies(&log), [b"on disk"]);
}

/// Goal: a power cut leaves no ring, and the log opens with the durable records. Method: the killed log, cut instead.
#[test]
fn power_cut_leaves_what_was_durable() {
    let disk = killed(Protocol::Base).power_cut(5);
    assert!(disk.regions().is_empty());
    let (log, found) = open(&disk, shared(Protocol::Base)).unwrap();
    assert_eq!((bodies(&log), found.recovered_from_ring), (vec![b"on disk".to_vec()], 0));
}

/// Goal: only a clean close removes the ring; a close that fails, or none, leaves it. Method: close, close twice,
/// poison, abandon.
#[test]
fn ring_goes_with_a_clean_close_only() {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, shared(Protocol::Base)).unwrap();
    log.writer().commit(0, b"one", Level::Process).unwrap();
    log.close().unwrap();
    log.close().unwrap();
    assert!(disk.regions().is_empty());
    drop(log);
    let (log, found) = open(&disk, shared(Protocol::Base)).unwrap();
    assert_eq!((found.ending, found.notes.len()), (Ending::Clean, 0));
    log.writer().commit(0, b"two", Level::Process).unwrap();
    log.abandon();
    drop(log);
    only_ring(&disk);
    let (log, found) = open(&disk, shared(Protocol::Base)).unwrap();
    assert_eq!((found.ending, bodies(&log).len()), (Ending::Unclean, 2));
    let end = log.writer().commit(0, b"three", Level::Process).unwrap().end;
    for call in 1..=20 {
        disk.fail_write_or_sync(disk.writes_and_syncs() + call, Fault::Eio);
    }
    assert!(log.wait(Mark::Durable, end).is_err() && log.close().is_err());
    drop(log);
    only_ring(&disk);
    let (log, _) = open(&disk.process_kill(), shared(Protocol::Base)).unwrap();
    assert_eq!(bodies(&log).len(), 3, "what a poisoned log had in memory is back too");
}

/// Goal: a ring counts only if it is whole and of the same log, directory, boot and incarnation; any other is ignored
/// with a line that says why, and removed. Method: change one property of a good ring at a time.
#[test]
fn ring_that_does_not_fit_is_ignored_with_a_line() {
    let header_with = |change: fn(&mut Header)| {
        move |bytes: &mut Vec<u8>| {
            let mut header = Header::decode(bytes).unwrap();
            change(&mut header);
            bytes[..4096].copy_from_slice(&header.encode());
        }
    };
    type Change = Box<dyn Fn(&mut Vec<u8>)>;
    let rows: Vec<(Change, &str)> = vec![
        (Box::new(header_with(|header| header.owner.log_id[3] ^= 1)), "of another log"),
        (Box::new(header_with(|header| header.owner.directory_id ^= 1)), "of another log"),
        (Box::new(header_with(|header| header.owner.incarnation += 1)), "it is of incarnation 2, the log is at 1"),
        (Box::new(header_with(|header| header.owner.incarnation = 0)), "it is of incarnation 0"),
        (Box::new(header_with(|header| header.owner.boot_id[15] ^= 1)), "another boot"),
        (Box::new(header_with(|header| header.layout.ring_bytes *= 2)), "bytes instead of"),
        (Box::new(header_with(|header| header.layout.ring_bytes += 1)), "its sizes are none"),
        (Box::new(header_with(|header| header.layout.slots = 0)), "its sizes are none"),
        (Box::new(|bytes| bytes[12] = 9), "the checksum of its header"),
        (Box::new(|bytes| bytes[0] = 0), "it has no header"),
        (Box::new(|bytes| bytes.truncate(4095)), "its header is cut off"),
        (Box::new(|bytes| bytes.truncate(0)), "its header is cut off"),
        (Box::new(|bytes| bytes.truncate(8192)), "it has 8192 bytes instead of"),
        (Box::new(|bytes| bytes.push(0)), "bytes instead of"),
    ];
    for (change, why) in rows {
        let disk = killed(Protocol::Base);
        let ring = only_ring(&disk);
        disk.change_region(&ring, change);
        let (log, found) = open(&disk, tiny()).unwrap();
        assert!(found.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", found.notes);
        assert_eq!((bodies(&log), found.recovered_from_ring), (vec![b"on disk".to_vec()], 0), "{why}");
        assert!(disk.regions().is_empty(), "{why}: still there");
    }
    let disk = killed(Protocol::Base);
    disk.set_boot(77);
    let (_log, found) = open(&disk, tiny()).unwrap();
    assert!(found.notes.iter().any(|note| note.contains("another boot")), "{:?}", found.notes);
}

/// Goal: the ring of an incarnation before the last one, put back, restores nothing. Method: keep a ring's bytes over a
/// whole incarnation.
#[test]
fn ring_of_an_earlier_incarnation_is_ignored() {
    let disk = killed(Protocol::Help);
    let ring = only_ring(&disk);
    let mut kept = Vec::new();
    disk.change_region(&ring, |bytes| kept.clone_from(bytes));
    let (log, _) = open(&disk, tiny()).unwrap();
    log.writer().commit(0, b"later", Level::Disk).unwrap();
    log.abandon();
    let disk = disk.process_kill();
    disk.change_region(&ring, |bytes| bytes.clone_from(&kept));
    let (log, found) = open(&disk, tiny()).unwrap();
    assert!(found.notes[0].contains("it is of incarnation 1, the log is at 2"), "{:?}", found.notes);
    assert_eq!((bodies(&log).len(), bodies(&log)[4].as_slice()), (5, &b"later"[..]));
}

/// Goal: a ring that fits but cannot be read is damage, since acknowledged records are lost: the log is refused, and
/// opens without them under point_in_time. No content panics. Method: each word made impossible, a record overwritten,
/// then every byte of words and flags and much of the ring.
#[test]
fn unreadable_ring_is_refused_as_damage() {
    let layout = Layout::of(&shared(Protocol::Help));
    let put =
        |at: usize, value: u64| move |bytes: &mut Vec<u8>| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    type Change<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;
    let rows: Vec<Change<'_>> = vec![
        Box::new(put(WordAt::Boundary.offset(), 0)),
        Box::new(put(WordAt::Boundary.offset(), u64::MAX)),
        Box::new(put(WordAt::Boundary.offset(), 1 << 40)),
        Box::new(put(WordAt::Durable.offset(), 1 << 40)),
        Box::new(put(WordAt::Next.offset(), 1 << 61)),
        Box::new(put(WordAt::Used.offset(), 1 << 20)),
        Box::new(put(layout.flag_at(0), u64::MAX)),
        // The records behind the durable one: positions start at 4096.
        Box::new(|bytes| bytes[layout.ring_at() + 4096 + 9..][..2048].fill(0)),
    ];
    for (number, change) in rows.iter().enumerate() {
        let disk = killed(Protocol::Help);
        let ring = only_ring(&disk);
        disk.change_region(&ring, change);
        let refused = open(&disk, tiny()).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, WalError::Damaged { path, .. } if *path == ring), "row {number}: {refused}");
        only_ring(&disk);
    }
    let random = SimRandom::new(1);
    let disk = killed(Protocol::Help);
    let (ring, mut good) = (only_ring(&disk), Vec::new());
    disk.change_region(&ring, |bytes| good.clone_from(bytes));
    let words = (4096..layout.flag_at(layout.slots)).filter(|at| at % LINE < 8);
    let others = (0..300).map(|_| usize::try_from(random.below(good.len() as u64)).unwrap());
    let (mut opened, mut refused) = (0, 0);
    for at in words.chain(others) {
        let disk = killed(Protocol::Help);
        disk.change_region(&ring, |bytes| bytes[at] ^= 1 << random.below(8));
        match open(&disk, tiny()) {
            Ok((log, _)) => {
                opened += 1;
                assert_eq!(bodies(&log)[0], b"on disk");
            }
            Err(WalError::Damaged { .. }) => {
                refused += 1;
                let point_in_time = Options { recovery_mode: RecoveryMode::PointInTime, ..tiny() };
                let (log, found) = open(&disk, point_in_time).unwrap();
                assert_eq!((bodies(&log).len(), found.notes.is_empty()), (1, false));
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(opened > 20 && refused > 20, "{opened} opened, {refused} refused");
}

/// Goal: a ring that names durable records which the files do not have proves damage, where the files alone would look
/// torn. Method: cut the last frame off a killed log's segment.
#[test]
fn ring_proves_damage_below_what_it_knows_to_be_durable() {
    for keep in [true, false] {
        let disk = SimFiles::new();
        let (log, _) = open(&disk, shared(Protocol::Base)).unwrap();
        let mut writer = log.writer();
        writer.commit(0, b"first", Level::Disk).unwrap();
        writer.commit(0, b"second", Level::Disk).unwrap();
        let disk = disk.process_kill();
        let found = inspect(&Env::over(disk.clone(), 1), DIR.as_ref()).unwrap();
        let segments = found.segments();
        let tail = segments.last().expect("a segment");
        disk.flip(&tail.path, tail.used_bytes - 4096, 1).unwrap();
        if !keep {
            disk.remove(&only_ring(&disk)).unwrap();
        }
        match open(&disk, tiny()) {
            Err(WalError::Damaged { durable, .. }) if keep => assert_eq!(durable, log.durable()),
            Ok((log, _)) if !keep => assert_eq!(bodies(&log), [b"first"], "looks torn without the ring"),
            other => panic!("{}", other.map(|_| "opened").unwrap_or("another error")),
        }
        let point_in_time = Options { recovery_mode: RecoveryMode::PointInTime, ..tiny() };
        let (log, found) = open(&disk.process_kill(), point_in_time).unwrap();
        assert_eq!(bodies(&log), [b"first"]);
        assert_eq!(found.recovered_from_ring, 0);
    }
}

/// Goal: if there is no room, `shared` refuses and `auto` goes on with a private ring and a line; both keep the records
/// that the killed incarnation left. Method: a memory without room.
#[test]
fn full_memory_refuses_shared_and_makes_auto_private() {
    let disk = killed(Protocol::Base);
    disk.set_memory_capacity(Some(1 << 12));
    let refused = open(&disk, shared(Protocol::Base)).map(|_| ()).unwrap_err();
    assert!(refused.to_string().starts_with("wal: cannot make the shared ring /dev/shm/collie-"), "{refused}");
    assert!(refused.to_string().contains("No space left"), "{refused}");
    let (log, found) = open(&disk, Options { ring: RingKind::Auto, ..tiny() }).unwrap();
    assert_eq!((found.ring, log.ring(), bodies(&log).len()), (RingKind::Private, RingKind::Private, 4));
    let line = found.notes.iter().find(|note| note.contains("the ring is private")).expect("a line");
    assert!(line.contains("No space left"), "{line}");
    let written = disk.writes_and_syncs();
    log.writer().commit(0, b"x", Level::Process).unwrap();
    assert!(disk.writes_and_syncs() > written, "a private ring hands it to the kernel");
}

/// Goal: the lock comes first: a second opener touches no ring, and a copy of the directory has its own ring. Method:
/// open twice; open the same log's files under another name.
#[test]
fn second_opener_and_copied_directory_leave_the_ring_alone() {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, shared(Protocol::Help)).unwrap();
    log.writer().commit(0, b"mine", Level::Process).unwrap();
    let ring = only_ring(&disk);
    assert!(matches!(open(&disk, shared(Protocol::Help)), Err(WalError::Locked { .. })));
    assert_eq!(only_ring(&disk), ring);
    log.flush_wal(true).unwrap();
    let names = collie_env::Files::list(&disk, DIR.as_ref()).unwrap();
    collie_env::Files::create_dir_all(&disk, "/copy".as_ref()).unwrap();
    for name in names.iter().filter(|name| name.ends_with(".wal")) {
        let bytes = collie_env::read_all(&disk, &Path::new(DIR).join(name), 1 << 20).unwrap();
        let copy = collie_env::Files::create(&disk, &Path::new("/copy").join(name)).unwrap();
        copy.write_at(0, &bytes).unwrap();
    }
    let (copy, _) = Log::open(&Env::over(disk.clone(), 2), "/copy".as_ref(), shared(Protocol::Help)).unwrap();
    assert_eq!(disk.regions().len(), 2);
    copy.close().unwrap();
    assert_eq!(only_ring(&disk), ring);
}

/// Goal: a kill loses no record that an append has returned and the boundary has passed, and a power cut none that was
/// durable; nothing comes back that was not appended, and no position is used twice; also when openings are cut short.
/// Method: seeds of six incarnations, killed at any call of the disk or between calls, each with its own protocol, ring
/// and sizes.
#[test]
fn lives_with_shared_rings_lose_nothing_acknowledged() {
    let (mut kills, mut from_ring) = (0, 0);
    for seed in 0..400 {
        run(seed, &mut kills, &mut from_ring).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(kills > 800 && from_ring > 400, "{kills} kills, {from_ring} openings took records from a ring");
}

/// Goal: the test above can fail. Method: rings that are not read.
#[test]
fn lives_without_their_rings_lose_something() {
    let lost = |seed| mistakes::with("RING_NOT_READ", || run(seed, &mut 0, &mut 0)).is_err();
    assert!((0..40).filter(|seed| lost(*seed)).count() > 20);
}

fn run(seed: u64, kills: &mut u64, from_ring: &mut u64) -> Result<(), String> {
    let random = SimRandom::new(seed);
    let mut disk = SimFiles::new();
    // (end, body); the first `complete` of them must be back after a kill, and the first `durable` after a power cut.
    let (mut records, mut complete, mut durable) = (Vec::<(Lsn, Vec<u8>)>::new(), 0, 0);
    let mut highest = Lsn::ZERO;
    for life in 0..6 {
        if random.below(3) == 0 {
            disk.fail_call(disk.calls() + 1 + random.below(60), Fault::PowerCut);
        }
        let pick = |bound| usize::try_from(random.below(bound)).unwrap();
        let options = Options {
            protocol: PROTOCOLS[pick(3)],
            ring: [RingKind::Shared, RingKind::Shared, RingKind::Auto, RingKind::Private][pick(4)],
            ring_bytes: [16 << 10, 32 << 10][pick(2)],
            slots: 1 + u32::try_from(pick(3)).unwrap(),
            segment_bytes: 96 << 10,
            ..tiny()
        };
        let env = Env::over(disk.clone(), seed ^ life << 32);
        match Log::open(&env, DIR.as_ref(), options) {
            Err(WalError::Io { .. }) => {}
            Err(error) => return Err(format!("life {life}: {error}")),
            Ok((log, found)) => {
                *from_ring += u64::from(found.recovered_from_ring > 0);
                let back = log.read(Lsn::ZERO).collect::<Result<Vec<_>, _>>();
                // The power may go during this reading.
                if let Ok(back) = back {
                    if back.len() < complete || back.len() > records.len() {
                        return Err(format!("life {life}: {} of {complete} to {} are back", back.len(), records.len()));
                    }
                    records.truncate(back.len());
                    if let Some(at) =
                        (0..back.len()).find(|at| (back[*at].end, &back[*at].body) != (records[*at].0, &records[*at].1))
                    {
                        return Err(format!(
                            "life {life}: record {at} is another: {} {} for {} {}",
                            back[at].end,
                            back[at].body.len(),
                            records[at].0,
                            records[at].1.len()
                        ));
                    }
                    if found.ending == Ending::Unclean && found.next < highest {
                        return Err(format!("life {life}: {} is used again below {highest}", found.next));
                    }
                    (durable, complete) = (records.len(), records.len());
                    let closed = work(&log, &random, &mut records, &mut highest);
                    durable = durable.max(records.iter().filter(|(end, _)| *end <= log.durable()).count());
                    // Every record that an append returned lies below the boundary: there is one thread.
                    complete = if log.ring() == RingKind::Shared {
                        records.len()
                    } else {
                        complete.max(records.iter().filter(|(end, _)| *end <= log.written()).count())
                    };
                    if !closed {
                        log.abandon();
                    }
                }
            }
        }
        let power_cut = random.below(5) == 0;
        complete = if power_cut { durable } else { complete };
        *kills += u64::from(!power_cut);
        disk = if power_cut { disk.power_cut(random.u64()) } else { disk.process_kill() };
    }
    Ok(())
}

/// Appends until done or until the disk fails; returns whether it closed the log.
fn work(log: &Log, random: &SimRandom, records: &mut Vec<(Lsn, Vec<u8>)>, highest: &mut Lsn) -> bool {
    let mut writers = [log.writer(), log.writer(), log.writer()];
    for number in 0..random.below(40) {
        let writer = &mut writers[usize::try_from(random.below(3)).unwrap()];
        let size = if random.below(8) == 0 { random.below(9_000) } else { random.below(700) };
        let mut body = vec![u8::try_from(number).unwrap(); usize::try_from(size).unwrap()];
        random.fill(&mut body);
        let Ok(at) = writer.append(1, &[&body]) else { return false };
        *highest = at.end;
        records.push((at.end, body));
        let waited = match random.below(12) {
            0 => log.wait(Mark::Durable, at.end),
            1 => log.flush_wal(false),
            2 => log.tick(),
            _ => log.wait(Mark::Boundary, at.end),
        };
        if waited.is_err() {
            return false;
        }
    }
    let closes = random.below(6) == 0;
    if closes {
        // A close that the disk cuts short is one more kind of end.
        let _closed = log.close();
    }
    closes
}

/// Goal: the header has the bytes that docs/format.md states, and every flipped bit in it is noticed. Method: one
/// header.
#[test]
fn ring_header_has_its_documented_bytes() {
    let layout = Layout { ring_bytes: 1 << 24, slots: 66, staging_bytes: 65_664 };
    let owner = Owner { log_id: [1; 16], incarnation: 2, boot_id: [3; 16], directory_id: 4 };
    let dir = Some(PathBuf::from("/srv/wal"));
    let header = Header { protocol: Protocol::Help, owner, layout, pid: 5, dir };
    let bytes = header.encode();
    assert_eq!((bytes.len(), &bytes[..8], &bytes[12..16]), (4096, &b"COLLIERG"[..], &[1, 0, 3, 0][..]));
    assert_eq!((bytes[16], bytes[32], bytes[40], bytes[56]), (1, 2, 3, 4));
    assert_eq!(bytes[64..88], [0, 0, 0, 1, 0, 0, 0, 0, 128, 0, 1, 0, 0, 0, 0, 0, 66, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(bytes[88..100], *b"\x08\0/srv/wal\0\0");
    assert_eq!(Header::decode(&bytes).as_ref(), Ok(&header));
    for (path, read) in [(None, None), (Some("d".repeat(4006)), Some("d".repeat(4006))), (Some("d".repeat(4007)), None)]
    {
        let header = Header { dir: path.map(PathBuf::from), ..header.clone() };
        assert_eq!(Header::decode(&header.encode()).unwrap().dir, read.map(PathBuf::from));
    }
    for bit in 0..98 * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&flipped).is_err(), "bit {bit}");
    }
    assert_eq!(layout.staging_at(0), 20_480);
    assert_eq!(layout.ring_at(), (20_480_usize + 66 * (128 + 65_664)).next_multiple_of(4096));
    assert_eq!(size_of::<Padded<u64>>(), LINE);
}

/// Goal: the same on the real machine. Method: a log in a temporary directory with its ring on the tmpfs, abandoned,
/// opened.
#[test]
fn real_memory_keeps_a_ring_over_lives() {
    let (dir, env) = (tempfile::tempdir().unwrap(), Env::real());
    let rings = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = |ring| Options { ring, ring_dir: rings.path().to_owned(), ..shared(Protocol::Help) };
    let (log, found) = Log::open(&env, dir.path(), options(RingKind::Auto)).unwrap();
    assert_eq!((found.ring, &found.notes[..]), (RingKind::Shared, &[][..]));
    log.writer().commit(0, b"in memory only", Level::Process).unwrap();
    log.abandon();
    drop(log);
    let (log, found) = Log::open(&env, dir.path(), options(RingKind::Shared)).unwrap();
    assert_eq!((bodies(&log), found.recovered_from_ring), (vec![b"in memory only".to_vec()], 16));
    log.close().unwrap();
    assert!(rings.path().read_dir().unwrap().next().is_none());
    let elsewhere = Options { ring_dir: "/proc".into(), ..options(RingKind::Shared) };
    drop(log);
    let refused = Log::open(&env, dir.path(), elsewhere).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("cannot make the shared ring /proc/collie-"), "{refused}");
    assert!(env.memory.boot_id().is_ok());
}

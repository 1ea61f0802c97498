//! Tests of slots over restarts, at their limits, and dropped, with a list in place of a log.

use std::{path::Path, sync::Arc, time::Duration};

use collie_base::{Lsn, Term, checksum::crc32c};
use collie_env::{Access, Env, read_all};
use parking_lot::Mutex;

use super::{
    BackupFiles, DropError, Expiry, HeldSlot, NewerSlots, Progress, Ship, Shipment, SlotStat, SlotState, Slots, Source,
    SourceError, slots::Busy,
};
use crate::{Event, Keep, identity::Identity, packet::Ack};

const DATA: &str = "/data";
const HOUR: Duration = Duration::from_secs(3600);

/// A log that has only its list of slots.
#[derive(Debug, Default)]
struct List {
    held: Mutex<Vec<HeldSlot>>,
    dropped: Mutex<Vec<String>>,
    refuses: Mutex<bool>,
}

impl List {
    fn of(names: &[(&str, u64, bool)]) -> Self {
        let held = |&(name, at, is_lost): &(&str, u64, bool)| HeldSlot {
            name: name.to_owned(),
            lsn: Lsn::new(at),
            restart: Lsn::new(at),
            kept_bytes: 7,
            is_within: true,
            lost: is_lost.then_some(Expiry::Bytes),
        };
        Self { held: Mutex::new(names.iter().map(held).collect()), ..Self::default() }
    }
}

/// A reader that reads nothing.
struct Nothing;

impl Ship for Nothing {
    async fn next<'a>(&'a mut self, _bytes_max: usize, _out: &'a mut Vec<u8>) -> Result<Shipment, SourceError> {
        Err(SourceError::Gone)
    }

    fn advance(&mut self, _durable: Lsn) -> Result<(), SourceError> {
        Ok(())
    }
}

impl Source for List {
    type Shipper = Nothing;

    fn identity(&self) -> Identity {
        Identity { cluster: 1, node: 1, term: Term::new(0), histories: Vec::new(), end: Lsn::FIRST }
    }

    fn durable(&self) -> Lsn {
        Lsn::FIRST
    }

    fn show(&self) -> Lsn {
        Lsn::FIRST
    }

    fn commits(&self) -> u64 {
        0
    }

    fn crc_before(&self, _end: Lsn, _bytes: u32) -> Result<Option<u32>, SourceError> {
        Ok(None)
    }

    fn ship(&self, _slot: &str, _from: Lsn, _keep: Keep) -> Result<Nothing, SourceError> {
        Err(SourceError::Gone)
    }

    fn backup(&self, _slot: &str) -> Result<BackupFiles, SourceError> {
        Err(SourceError::Gone)
    }

    fn held(&self) -> Vec<HeldSlot> {
        self.held.lock().clone()
    }

    fn drop_slot(&self, slot: &str) -> Result<(), SourceError> {
        if *self.refuses.lock() {
            return Err(SourceError::Failed("the disk is full".to_owned()));
        }
        self.held.lock().retain(|held| held.name != slot);
        self.dropped.lock().push(slot.to_owned());
        Ok(())
    }
}

/// Opens the slots of a data directory on a simulated disk, after creating it.
fn open(env: &Env, list: &List) -> Arc<Slots> {
    env.files.create_dir_all(Path::new(DATA)).unwrap();
    let (slots, notice) = Slots::open(env.clone(), Path::new(DATA), list.held()).unwrap();
    assert_eq!(notice, None);
    Arc::new(slots)
}

fn stat(slots: &Slots, now_ns: u64) -> Vec<SlotStat> {
    slots.stat(Lsn::FIRST, now_ns)
}

fn states(slots: &Slots) -> Vec<(String, SlotState, Option<Expiry>)> {
    stat(slots, 0).into_iter().map(|stat| (stat.name, stat.state, stat.expired)).collect()
}

/// Returns the progress of a replica that has everything below 5000, and shows everything below 4900.
fn progress() -> Progress {
    let mut progress = Progress::new(Term::new(0), Lsn::FIRST, 1 << 20, 0);
    progress.on_sent(Lsn::new(5000));
    let ack = Ack {
        term: Term::new(0),
        received: Lsn::new(5000),
        durable: Lsn::new(5000),
        applied: Lsn::new(4900),
        echo_mono_ns: 0,
        hold_ns: 0,
        replica_mono_ns: 0,
        queue_bytes: 0,
        marks: Vec::new(),
    };
    progress.on_ack(&ack, 10).unwrap();
    progress
}

/// Goal: S1: two nodes and two names. Method: every combination that must be refused, and then after one has left.
#[test]
fn one_connection_has_a_slot_and_a_node_connects_once() {
    let slots = Arc::new(Slots::new());
    let attach = |name: &str, node: u64| slots.attach(name, node, "127.0.0.1", 2, 5);
    let north = attach("north", 1).unwrap();
    north.admit();
    assert_eq!(attach("north", 2).unwrap_err(), Busy::Slot);
    assert_eq!(attach("south", 1).unwrap_err(), Busy::Node("north".to_owned()));
    let south = attach("south", 2).unwrap();
    south.admit();
    south.on(Event::Stream, 6);
    assert_eq!(attach("east", 3).unwrap_err(), Busy::TooMany);
    north.on(Event::Stream, 6);
    north.caught_up(&List::of(&[("north", 5000, false)]), 6);
    drop(north);
    let both = [("north".to_owned(), SlotState::Away, None), ("south".to_owned(), SlotState::CatchingUp, None)];
    assert_eq!(states(&slots), both);
    let _again = attach("north", 1).unwrap();
}

/// Goal: S3: a refused connection costs no replica its slot. Method: connections that end before they are
/// admitted, under an existing name, whose slot stays as it was, and under a new one.
#[test]
fn a_refused_connection_leaves_slots_as_they_were() {
    let slots = Arc::new(Slots::new());
    let north = slots.attach("north", 1, "here", 1, 5).unwrap();
    north.admit();
    north.show(&progress());
    drop(north);
    let before = stat(&slots, 50);
    drop(slots.attach("north", 9, "elsewhere", 1, 40).unwrap());
    assert_eq!(stat(&slots, 50), before);
    drop(slots.attach("south", 9, "elsewhere", 2, 40).unwrap());
    assert_eq!(stat(&slots, 50), before);
}

/// Goal: S2: a restarted node knows its replicas before any connects, and for how long each has been silent.
/// Method: a slot that was connected, one that only the log knows, and one that only the file knows; a restart
/// over the content of the disk.
#[test]
fn slots_are_known_after_a_restart() {
    let (env, disk) = Env::simulated(3);
    let list = List::of(&[("north", 4096, false), ("unknown", 4700, false)]);
    let slots = open(&env, &list);
    let now_ns = env.clock.now_ns();
    for (name, node) in [("north", 17), ("dropped", 18)] {
        let attached = slots.attach(name, node, "127.0.0.1:99", 5, now_ns).unwrap();
        attached.admit();
        attached.show(&progress());
    }
    assert_eq!(slots.keep(&list, None, now_ns), [""; 0], "what changed is written");
    let after = Env::over(disk.power_cut(1), 1);
    let slots = open(&after, &list);
    let now_ns = after.clock.now_ns();
    let all = stat(&slots, now_ns + 1_000_000_000);
    let [north, unknown] = &all[..] else { panic!("{all:?}") };
    assert_eq!(
        (&*north.name, north.node, &*north.address, north.state),
        ("north", 17, "127.0.0.1:99", SlotState::Away)
    );
    assert_eq!((north.positions.durable, north.positions.applied), (Lsn::new(5000), Lsn::new(4900)));
    assert!(north.unheard_ns >= 1_000_000_000 && north.heard_wall_us != 0, "{north:?}");
    assert_eq!((&*unknown.name, unknown.node, unknown.positions.durable), ("unknown", 0, Lsn::new(4700)));
}

/// Goal: a damaged file costs figures, not slots, and is reported. Method: a flipped byte.
#[test]
fn a_damaged_file_costs_figures_only() {
    let (env, _disk) = Env::simulated(3);
    let list = List::of(&[("north", 4096, false)]);
    let slots = open(&env, &list);
    slots.save().unwrap();
    env.files.open(&Path::new(DATA).join("slots"), Access::ReadWrite).unwrap().write_at(20, b"?").unwrap();
    Slots::check(&env, Path::new(DATA)).unwrap();
    let (slots, notice) = Slots::open(env, Path::new(DATA), list.held()).unwrap();
    assert!(notice.is_some_and(|notice| notice.contains("cannot be read")));
    assert_eq!(states(&slots), [("north".to_owned(), SlotState::Away, None)]);
}

/// Goal: F1 of `slots_file.rs`: the slots of a newer program are refused by name, whatever else is in the file,
/// and stay as they are. Method: a raised version, without and with a matching checksum; the bytes afterwards.
#[test]
fn slots_of_a_newer_program_are_refused_and_kept() {
    let (env, _disk) = Env::simulated(3);
    let list = List::of(&[("north", 4096, false)]);
    open(&env, &list).save().unwrap();
    let path = Path::new(DATA).join("slots");
    let bytes = || read_all(&*env.files, &path, 1 << 20).unwrap();
    let write = |at, bytes: &[u8]| env.files.open(&path, Access::ReadWrite).unwrap().write_at(at, bytes).unwrap();
    write(12, &7_u32.to_le_bytes());
    for checksum in [None, Some(crc32c(&bytes()[12..]))] {
        checksum.iter().for_each(|checksum| write(8, &checksum.to_le_bytes()));
        let newer = bytes();
        let refused = Slots::check(&env, Path::new(DATA)).unwrap_err();
        assert_eq!(refused, NewerSlots { path: path.clone(), version: 7 });
        assert_eq!(Slots::open(env.clone(), Path::new(DATA), list.held()).unwrap_err(), refused);
        let said = refused.to_string();
        for part in ["/slots has format version 7", "use that program", "move the file away"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(bytes(), newer, "nothing is written over it");
    }
}

/// Goal: S4: a slot beyond its bytes or its age expires, once, and is reported; a connected one does not expire,
/// and one whose replica returns starts over. Method: the log reports a lost position; time passes.
#[test]
fn slots_expire_by_bytes_and_by_age() {
    let (env, disk) = Env::simulated(3);
    let list = List::of(&[("age", 4096, false), ("bytes", 4096, true), ("here", 4096, false)]);
    let slots = open(&env, &list);
    let now_ns = env.clock.now_ns();
    let here = slots.attach("here", 1, "here", 5, now_ns).unwrap();
    here.admit();
    here.on(Event::Stream, now_ns);
    let later_ns = now_ns + u64::try_from(HOUR.as_nanos()).unwrap();
    let news = slots.keep(&list, Some(HOUR), now_ns + 1);
    assert!(news.len() == 1 && news[0].contains("slot bytes is expired"), "{news:?}");
    let news = slots.keep(&list, Some(HOUR), later_ns);
    assert!(news.len() == 1 && news[0].contains("slot age is expired"), "{news:?}");
    assert_eq!(slots.keep(&list, Some(HOUR), later_ns + 1), [""; 0], "it is said once");
    assert_eq!(*list.dropped.lock(), ["age"], "its log is given up");
    let expired = [
        ("age".to_owned(), SlotState::Expired, Some(Expiry::Age)),
        ("bytes".to_owned(), SlotState::Expired, Some(Expiry::Bytes)),
        ("here".to_owned(), SlotState::CatchingUp, None),
    ];
    assert_eq!(states(&slots), expired);
    assert_eq!(slots.keep(&list, None, later_ns * 2), [""; 0], "no age, no limit");

    // A restart knows it, and frees the log that a crash left (S5).
    let after = Env::over(disk.power_cut(1), 1);
    let left = List::of(&[("age", 4096, false), ("bytes", 4096, true), ("here", 4096, false)]);
    let again = open(&after, &left);
    assert_eq!(states(&again)[..2], expired[..2]);
    assert_eq!(again.keep(&left, None, after.clock.now_ns()), [""; 0]);
    assert_eq!(*left.dropped.lock(), ["age"]);
    let back = again.attach("age", 5, "there", 5, 0).unwrap();
    back.admit();
    back.on(Event::Stream, 0);
    drop(back);
    assert_eq!(states(&again)[0], ("age".to_owned(), SlotState::Away, None));
}

/// Goal: S5 and every answer to a drop. Method: a slot that does not exist, one in use, a disk that refuses, and
/// one that is dropped; then a restart.
#[test]
fn a_dropped_slot_is_gone_for_good() {
    let (env, _disk) = Env::simulated(3);
    let list = List::of(&[("north", 4096, false)]);
    let slots = open(&env, &list);
    assert_eq!(slots.drop_slot("west", &list), Err(DropError::Unknown));
    let attached = slots.attach("north", 1, "here", 5, 1).unwrap();
    attached.admit();
    assert_eq!(slots.drop_slot("north", &list), Err(DropError::InUse));
    drop(attached);
    *list.refuses.lock() = true;
    assert!(matches!(slots.drop_slot("north", &list), Err(DropError::Source(_))));
    assert_eq!(states(&slots).len(), 1);
    *list.refuses.lock() = false;
    assert_eq!(slots.drop_slot("north", &list), Ok(()));
    assert_eq!(states(&slots), []);
    assert_eq!(states(&open(&env, &list)), []);
}

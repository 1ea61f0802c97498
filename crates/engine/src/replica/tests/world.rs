//! `World`: a database that follows a log, without files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use collie_base::{CfId, Lsn, Map, Xid};
use collie_store::{Family, Row};
use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;

use super::log::{Log, Made, START, rows_at};
use crate::EngineError;
use crate::families::Families;
use crate::follow::followed::CatalogRows;
use crate::follow::lanes::{Applying, Lanes, QUEUE_BYTES, Target};
use crate::follow::record::{RecordAt, VisitRecord};
use crate::gc::dropped::DroppedFamilies;
use crate::gc::garbage::Garbage;
use crate::log::large::LargeTransactions;
use crate::redo::Incarnation;
use crate::replica::live::{Begin, Follow, Live};
use crate::replica::unfinished::{HELD_BYTES_MAX, Unfinished};

/// A database that follows a log, without files.
#[derive(Debug)]
pub(super) struct World {
    pub(super) families: Families,
    pub(super) garbage: Garbage,
    pub(super) large: LargeTransactions,
    pub(super) log: Log,
    pub(super) applying: Arc<Applying>,
    /// Workers wait here after a batch while the gate is shut.
    pub(super) gate: Mutex<bool>,
    pub(super) opened: Condvar,
    /// Makes a worker panic at the next row with a superseded version.
    pub(super) panics: AtomicBool,
    pub(super) applied: AtomicU64,
    pub(super) is_stopped: AtomicBool,
    pub(super) xid_limit: AtomicU64,
    pub(super) read_back: AtomicUsize,
    pub(super) catalogs: Mutex<Vec<Lsn>>,
    pub(super) histories: Mutex<Vec<(Lsn, Lsn)>>,
    pub(super) holes: Mutex<Vec<(Vec<CfId>, Lsn)>>,
    pub(super) dropped: DroppedFamilies,
    pub(super) freed: Mutex<Vec<CfId>>,
    pub(super) horizon: AtomicU64,
    pub(super) clock_ns: AtomicU64,
}

impl Target for World {
    fn families(&self) -> &Families {
        &self.families
    }

    fn garbage(&self) -> &Garbage {
        &self.garbage
    }

    fn prune(&self, _: &Family, _: &Row) {
        assert!(!self.panics.load(SeqCst), "the test wants a worker to end");
    }

    fn applied(&self, applied: Lsn) {
        self.applied.fetch_max(applied.get(), SeqCst);
        let mut is_open = self.gate.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
    }

    fn stopped(&self) {
        self.is_stopped.store(true, SeqCst);
    }

    /// Returns a time one microsecond later at each call.
    fn now_ns(&self) -> u64 {
        self.clock_ns.fetch_add(1000, SeqCst)
    }
}

impl Follow for World {
    fn large(&self) -> &LargeTransactions {
        &self.large
    }

    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError> {
        assert!(first.since <= first.lsn && first.lsn <= last.lsn);
        self.read_back.fetch_add(1, SeqCst);
        let records =
            self.log.records.iter().filter(|made| made.lsn >= first.since.get() && made.lsn <= last.lsn.get());
        records.into_iter().try_for_each(|made| visit(Lsn::new(made.lsn), made.tag, &made.body))
    }

    fn catalog_changed(&self, end: Lsn, _: CatalogRows) {
        let commit = self.log.commits.iter().rev().find(|(csn, _)| Lsn::new(*csn) < end).unwrap();
        assert!(self.applying.applied() <= Lsn::new(commit.0), "a snapshot may show it already");
        assert_eq!(rows_at(&self.families, end), self.log.rows_at(end), "the catalog at {end}");
        self.catalogs.lock().push(end);
    }

    fn history_begins(&self, start: Lsn, previous_end: Lsn, _: &Incarnation) -> Result<(), EngineError> {
        self.histories.lock().push((start, previous_end));
        Ok(())
    }

    fn note_holes(&self, families: &[CfId], since: Lsn) -> Result<(), EngineError> {
        self.holes.lock().push((families.to_vec(), since));
        Ok(())
    }

    fn xid_limit(&self, limit: Xid) {
        self.xid_limit.fetch_max(limit.get(), SeqCst);
    }

    fn marked(&self, _: i64, _: Lsn) {}

    fn quorum_noted(&self, _: Lsn, _: crate::QuorumNote) {}

    fn note_dropped(&self, cf: CfId, end: Lsn) {
        self.dropped.note(cf, end);
    }

    fn free_dropped(&self) {
        self.dropped.free_below(Lsn::new(self.horizon.load(SeqCst)));
        while let Some(cf) = self.dropped.due() {
            self.garbage.freed(self.families.remove(cf).unwrap().clear());
            self.freed.lock().push(cf);
            self.dropped.gone(cf);
        }
    }
}

/// How a log is replayed.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) workers: usize,
    pub(super) queue_bytes: usize,
    pub(super) held_bytes_max: usize,
    /// Records of each packet, in a cycle.
    pub(super) packets: Vec<u8>,
    /// The number of lanes to use after each packet, in a cycle.
    pub(super) spread: Vec<u8>,
}

impl Way {
    pub(super) fn plain(workers: usize) -> Self {
        let spread = vec![u8::MAX];
        Self { workers, queue_bytes: QUEUE_BYTES, held_bytes_max: HELD_BYTES_MAX, packets: vec![1], spread }
    }
}

pub(super) fn follow(log: &Log, way: &Way, flushed: Map<CfId, Lsn>) -> (Arc<World>, Live<World>) {
    let start = Lsn::new(START);
    let (applying, hands) = Applying::new(start, way.workers, way.queue_bytes);
    let world = Arc::new(World {
        families: Families::with_levels(),
        garbage: Garbage::default(),
        large: LargeTransactions::default(),
        log: log.clone(),
        applying: Arc::clone(&applying),
        gate: Mutex::new(true),
        opened: Condvar::new(),
        panics: AtomicBool::new(false),
        applied: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
        xid_limit: AtomicU64::new(0),
        read_back: AtomicUsize::new(0),
        catalogs: Mutex::default(),
        histories: Mutex::default(),
        holes: Mutex::default(),
        dropped: DroppedFamilies::default(),
        freed: Mutex::default(),
        horizon: AtomicU64::new(0),
        clock_ns: AtomicU64::new(0),
    });
    let lanes = Lanes::start(applying, hands, Arc::clone(&world) as Arc<dyn Target>).unwrap();
    let unfinished = Unfinished::new(Lsn::FIRST, way.held_bytes_max);
    let (xid_limit, holes, unlogged) = (Xid::new(1), Map::default(), Vec::new());
    let begin = Begin { position: start, unfinished, flushed, xid_limit, time_us: 0, holes, unlogged };
    let live = Live::new(Arc::clone(&world), lanes, begin).unwrap();
    (world, live)
}

pub(super) fn take(live: &mut Live<World>, made: &Made) -> Result<(), EngineError> {
    live.take(made.as_record())?;
    live.flush();
    Ok(())
}

/// Waits for the work that the last worker does after it has announced the end of its batch.
pub(super) fn settle(world: &World, live: &Live<World>) {
    while world.applying.applied() < live.position() || world.applying.queued_bytes() > 0 {
        std::thread::yield_now();
    }
}

pub(super) fn way() -> impl Strategy<Value = Way> {
    let queue_bytes = prop_oneof![Just(0), 1..2000_usize, Just(QUEUE_BYTES)];
    let held = prop_oneof![Just(0), 1..200_usize, Just(HELD_BYTES_MAX)];
    let some = |each: std::ops::Range<u8>| proptest::collection::vec(each, 1..5);
    (1..5_usize, queue_bytes, held, some(0..6), some(1..5)).prop_map(
        |(workers, queue_bytes, held_bytes_max, packets, spread)| Way {
            workers,
            queue_bytes,
            held_bytes_max,
            packets,
            spread,
        },
    )
}

//! `Appliers`: several threads that put the row writes of a log into families, each thread with keys of its own.
//!
//! The reader of the log passes on the writes in log order, and a hash of family and key decides which applier
//! gets each one. An applier takes its writes in the order in which they were passed on, so writes to one key stay
//! in order; writes to different keys need no order. Rows that are new to a family are staged in a table by the
//! same hash, and enter the family's index at the end, in order of their keys. An applier gets a thread only once
//! it has a full batch of writes.
//!
//! # Invariants
//! - A1. All writes of a key go to one applier, in the order given.
//! - A2. A deletion is forgotten only once no later write can have an earlier commit, or at the end. So the latest
//!   commit of a key wins, although writes of large transactions precede those of older commits.
//! - A3. In addition to the rows, memory holds [`BATCHES`] batches and a copy of one batch's places for each
//!   applier, some words for each staged row, in place of its share of the index, and the deletions that wait for
//!   A2: those of large transactions whose COMMIT is still to come, and those read within a re-log.
//! - A4. No thread reads the families before [`Appliers::finish`] has returned.
//!
//! Checked by `replay/tests.rs` against a map, with random numbers of appliers and random orders among them.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use collie_base::{CfId, KeyHash, Lsn, Map};
use collie_store::{LoggedWrite, Row, Staged, WARMED, pin};

use crate::families::Families;
use crate::open::gather::{StagedRows, gather};
use crate::redo::Op;

/// The bytes of keys and values, and the number of writes, at which a batch goes to its applier. A batch of this
/// size has enough writes at random keys that, taken in order of the keys where an index is searched, they reach
/// the same parts of it while these are in the processor's cache.
const BATCH_BYTES: usize = 2 << 20;
const BATCH_WRITES: usize = 16_384;
/// The most batches that one applier has: one being filled, some waiting, one being applied.
const BATCHES: usize = 4;
/// Writes under one pin: after so many, the versions that they supersede can be freed.
const PIN_WRITES: usize = 256;

/// The most appliers there are: with more of them, reading the log would take longer than applying it.
pub(crate) const APPLIERS_MAX: usize = 16;

/// Returns the number of appliers for a setting of `wanted`; 0 stands for one per core.
pub(crate) fn appliers_for(wanted: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if wanted == 0 { cores() } else { wanted }.clamp(1, APPLIERS_MAX)
}

/// A write of a batch, with its offsets in the bytes of the batch.
#[derive(Clone, Copy, Debug)]
struct Place {
    cf: CfId,
    hash: u64,
    is_put: bool,
    is_settled: bool,
    csn: Lsn,
    since: Lsn,
    key: usize,
    value: usize,
    end: usize,
}

/// Writes that are being collected for an applier.
#[derive(Debug, Default)]
struct Batch {
    places: Vec<Place>,
    bytes: Vec<u8>,
    /// No later write was committed below this.
    settled: Lsn,
}

impl Batch {
    fn push(&mut self, op: &Op<'_>, hash: u64, at: &At) {
        let key = self.bytes.len();
        self.bytes.extend_from_slice(op.key);
        let value = self.bytes.len();
        self.bytes.extend_from_slice(op.value.unwrap_or_default());
        let (is_put, is_settled, end) = (op.value.is_some(), at.csn <= at.settled, self.bytes.len());
        self.places.push(Place { cf: op.cf, hash, is_put, is_settled, csn: at.csn, since: at.since, key, value, end });
    }

    fn is_full(&self, limit: Limit) -> bool {
        self.bytes.len() >= limit.bytes || self.places.len() >= limit.writes
    }

    fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH_BYTES); // one large value is no reason to keep its space
    }
}

/// The position of a write's commit, and the consequences for other writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// The CSN of the write.
    pub(crate) csn: Lsn,
    /// The write needs the log from here on.
    pub(crate) since: Lsn,
    /// No later write was committed below this.
    pub(crate) settled: Lsn,
}

/// The size at which a batch is full.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes: usize,
    writes: usize,
}

/// Remembered deletions by CSN: index of the family in `here`, hash of the key, row.
type Kept = BTreeMap<Lsn, Vec<(usize, u64, Arc<Row>)>>;

/// Applies the writes of its share of the keys.
#[derive(Debug)]
struct Applier {
    families: Arc<Families>,
    /// The staged rows of each family that it has met.
    here: Vec<StagedRows>,
    /// The index of a family in `here`.
    places: Map<CfId, usize>,
    kept: Kept,
    old_bytes: i64,
    /// The current batch, in the order in which it is applied.
    order: Vec<Place>,
}

impl Applier {
    fn apply(&mut self, batch: &Batch) {
        self.order.clone_from(&batch.places);
        if self.here.iter().any(|one| one.staged.is_over_rows()) {
            // A stable sort: the writes of one key keep their order (A1).
            self.order.sort_by(|one, other| {
                let key = |place: &Place| &batch.bytes[place.key..place.value];
                one.cf.cmp(&other.cf).then_with(|| key(one).cmp(key(other)))
            });
        }
        // The family written last: the next write is usually to the same one.
        let mut recent = None;
        let order = std::mem::take(&mut self.order);
        for places in order.chunks(PIN_WRITES) {
            let pin = pin();
            for (number, place) in places.iter().enumerate() {
                let at = match recent {
                    Some((cf, at)) if cf == place.cf => at,
                    _ => recent.insert((place.cf, self.place_of(place.cf))).1,
                };
                let StagedRows { family, staged } = &mut self.here[at];
                if number.is_multiple_of(WARMED) {
                    let next = places[number..].iter().take_while(|next| next.cf == place.cf);
                    std::hint::black_box(staged.warm(next.map(|place| place.hash).take(WARMED), &pin));
                }
                let write = LoggedWrite {
                    key: &batch.bytes[place.key..place.value],
                    value: place.is_put.then(|| &batch.bytes[place.value..place.end]),
                    csn: place.csn,
                    since: place.since,
                    is_settled: place.is_settled,
                };
                let loaded = family.stage(&write, place.hash, staged, &pin);
                self.old_bytes += loaded.old_bytes;
                if let Some(row) = loaded.kept {
                    self.kept.entry(place.csn).or_default().push((at, place.hash, row));
                }
            }
        }
        self.order = order;
        self.settle(batch.settled);
    }

    /// Returns the index of the family in `here`; creates the entry if the family is new.
    fn place_of(&mut self, cf: CfId) -> usize {
        let next = self.here.len();
        let at = *self.places.entry(cf).or_insert(next);
        if at == next {
            let family = self.families.get_or_make(cf);
            let staged = Staged::new(&*family);
            self.here.push(StagedRows { family, staged });
        }
        at
    }

    /// Forgets deletions that were committed at or below `settled` (A2).
    fn settle(&mut self, settled: Lsn) {
        while let Some(first) = self.kept.first_entry().filter(|first| *first.key() <= settled) {
            let (csn, rows) = first.remove_entry();
            let pin = pin();
            for (at, hash, row) in rows {
                let StagedRows { family, staged } = &mut self.here[at];
                self.old_bytes += family.settle_staged(&row, csn, hash, staged, &pin);
            }
        }
    }

    /// Settles the remaining deletions; returns the staged rows.
    fn end(mut self) -> Left {
        self.settle(Lsn::MAX);
        Left { old_bytes: self.old_bytes, staged: self.here }
    }
}

/// The result of an applier: the growth of old versions in bytes, and the rows that are in no index yet.
#[derive(Debug)]
struct Left {
    old_bytes: i64,
    staged: Vec<StagedRows>,
}

/// Where an applier runs.
#[derive(Debug)]
enum Work {
    /// On the thread that reads the log.
    Here(Applier),
    /// On a thread of its own. Batches return to the reader to be filled again.
    Apart { full: SyncSender<Batch>, empty: Receiver<Batch>, thread: JoinHandle<Option<Left>> },
    /// Only when a test lets it.
    #[cfg(all(test, not(any(loom, shuttle))))]
    Held(std::collections::VecDeque<Batch>, Applier),
}

impl Work {
    /// Gives the applier a thread. If none can be started, the applier stays on this thread.
    fn start(applier: Applier, number: usize) -> Self {
        let (full, batches) = sync_channel::<Batch>(BATCHES - 2);
        let (back, empty): (Sender<Batch>, _) = channel();
        // The thread receives the applier through a channel, so that it is not lost if no thread can be started.
        let (hand, handed) = channel::<Applier>();
        let thread = std::thread::Builder::new().name(format!("collie-open-{number}")).spawn(move || {
            let mut applier = handed.recv().ok()?;
            for mut batch in batches {
                applier.apply(&batch);
                batch.clear();
                let _ = back.send(batch); // the reader may have ended
            }
            Some(applier.end())
        });
        match thread {
            Ok(thread) => match hand.send(applier) {
                Ok(()) => Self::Apart { full, empty, thread },
                Err(refused) => Self::Here(refused.0),
            },
            Err(_) => Self::Here(applier),
        }
    }
}

#[derive(Debug)]
struct Lane {
    batch: Batch,
    /// `None` only while it is being changed.
    work: Option<Work>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Appliers {
    lanes: Vec<Lane>,
    limit: Limit,
    hash: KeyHash,
    #[cfg(all(test, not(any(loom, shuttle))))]
    schedule: Option<tests::Schedule>,
}

impl Appliers {
    /// Creates `count` appliers. `seed` is random, so that no client can choose keys that are slow to find.
    pub(crate) fn new(families: &Arc<Families>, count: usize, seed: u64) -> Self {
        let applier = || Applier {
            families: Arc::clone(families),
            here: Vec::new(),
            places: Map::default(),
            kept: Kept::new(),
            old_bytes: 0,
            order: Vec::new(),
        };
        let lane = |_| Lane { batch: Batch::default(), work: Some(Work::Here(applier())) };
        Self {
            lanes: (0..count.max(1)).map(lane).collect(),
            limit: Limit { bytes: BATCH_BYTES, writes: BATCH_WRITES },
            hash: KeyHash::new(seed),
            #[cfg(all(test, not(any(loom, shuttle))))]
            schedule: None,
        }
    }

    /// Takes a write. It is applied soon, and is in its index once [`Appliers::finish`] returns.
    pub(crate) fn put(&mut self, op: &Op<'_>, at: &At) {
        let hash = self.hash.of(op.cf, op.key);
        let number = self.lane_of(hash);
        let lane = &mut self.lanes[number];
        lane.batch.push(op, hash, at);
        if lane.batch.is_full(self.limit) {
            lane.batch.settled = at.settled;
            self.hand_over(number);
        }
    }

    /// Returns the lane of the keys with this hash (A1).
    fn lane_of(&self, hash: u64) -> usize {
        if self.lanes.len() == 1 {
            return 0;
        }
        let lanes = u64::try_from(self.lanes.len()).unwrap_or(1);
        usize::try_from(hash % lanes).unwrap_or(0)
    }

    /// Has the lane's batch applied, on a thread if there are other lanes.
    fn hand_over(&mut self, number: usize) {
        let is_alone = self.lanes.len() == 1;
        let lane = &mut self.lanes[number];
        let mut work = lane.work.take().expect("it is put back below");
        if let Work::Here(applier) = work {
            work = if is_alone { Work::Here(applier) } else { Work::start(applier, number) };
        }
        match &mut work {
            Work::Here(applier) => {
                applier.apply(&lane.batch);
                lane.batch.clear();
            }
            Work::Apart { full, empty, .. } => {
                let next = empty.try_recv().unwrap_or_default();
                let batch = std::mem::replace(&mut lane.batch, next);
                if full.send(batch).is_err() {
                    end(work); // it ended early, so it panicked, and so does this thread
                    unreachable!("an applier ends when no more batches can come");
                }
            }
            #[cfg(all(test, not(any(loom, shuttle))))]
            Work::Held(batches, _) => batches.push_back(std::mem::take(&mut lane.batch)),
        }
        lane.work = Some(work);
        #[cfg(all(test, not(any(loom, shuttle))))]
        self.run_some();
    }

    /// Applies every write that was taken and puts the rows into the indexes. Returns the growth of old versions
    /// in bytes.
    ///
    /// # Panics
    /// If an applier panicked.
    pub(crate) fn finish(mut self) -> i64 {
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            match lane.work.as_mut() {
                // Too few writes came for a thread, or there is only one lane.
                Some(Work::Here(applier)) => applier.apply(&lane.batch),
                _ => self.hand_over(number),
            }
        }
        let (threads, mut old_bytes, mut staged) = (self.lanes.len(), 0, Vec::new());
        for left in self.lanes.into_iter().filter_map(|lane| lane.work).map(end) {
            old_bytes += left.old_bytes;
            staged.extend(left.staged);
        }
        gather(staged, threads);
        old_bytes
    }
}

/// Ends an applier.
fn end(work: Work) -> Left {
    match work {
        Work::Here(applier) => applier.end(),
        Work::Apart { full, thread, .. } => {
            drop(full);
            let left = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            left.expect("it was handed its applier when it was started")
        }
        #[cfg(all(test, not(any(loom, shuttle))))]
        Work::Held(batches, mut applier) => {
            batches.iter().for_each(|batch| applier.apply(batch));
            applier.end()
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests {
    use super::*;

    /// Decides which applier works next, by numbers from a simple generator.
    #[derive(Debug)]
    pub(crate) struct Schedule {
        state: u64,
    }

    impl Appliers {
        /// Creates `count` appliers that take batches of up to `writes` writes and apply them in an order among
        /// the appliers that `seed` decides.
        pub(crate) fn scheduled(families: &Arc<Families>, count: usize, writes: usize, seed: u64) -> Self {
            let mut appliers = Self::new(families, count, 7);
            appliers.limit.writes = writes;
            appliers.schedule = Some(Schedule { state: seed });
            for lane in &mut appliers.lanes {
                let Some(Work::Here(applier)) = lane.work.take() else { unreachable!("none has a thread yet") };
                lane.work = Some(Work::Held(std::collections::VecDeque::new(), applier));
            }
            appliers
        }

        /// Creates `count` appliers, each of which gets a thread at its `writes`th write.
        pub(crate) fn threaded(families: &Arc<Families>, count: usize, writes: usize) -> Self {
            let mut appliers = Self::new(families, count, 7);
            appliers.limit.writes = writes;
            appliers
        }

        /// Lets some appliers do some of their work.
        pub(super) fn run_some(&mut self) {
            let Some(schedule) = &mut self.schedule else { return };
            loop {
                // Knuth's linear congruential generator.
                schedule.state =
                    schedule.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let drawn = usize::try_from(schedule.state >> 33).expect("31 bits");
                let count = self.lanes.len();
                let Some(Work::Held(batches, applier)) = &mut self.lanes[drawn % count].work else {
                    unreachable!("all are held")
                };
                if let Some(batch) = batches.pop_front() {
                    applier.apply(&batch);
                }
                if (drawn / count).is_multiple_of(3) {
                    return;
                }
            }
        }
    }

    /// Goal: an average log gives each of several appliers a share. Method: a thousand keys of three families over
    /// every number of appliers.
    #[test]
    fn each_applier_has_keys() {
        let families = Arc::new(Families::new());
        for count in 1..=APPLIERS_MAX {
            let appliers = Appliers::new(&families, count, 7);
            let mut shares = vec![0_usize; count];
            for number in 0..1000_u32 {
                let (cf, key) = (CfId::new(number % 3), number.to_be_bytes());
                shares[appliers.lane_of(appliers.hash.of(cf, &key))] += 1;
            }
            assert!(shares.iter().all(|share| *share > 500 / count), "{count} appliers: {shares:?}");
        }
    }

    /// Goal: there is at least one applier, and their number is bounded. Method: the function is called with
    /// several settings.
    #[test]
    fn number_of_appliers_is_at_least_one_and_bounded() {
        assert!((1..=APPLIERS_MAX).contains(&appliers_for(0)));
        assert_eq!([1, 5, 1000].map(appliers_for), [1, 5, APPLIERS_MAX]);
    }
}

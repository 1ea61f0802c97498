//! Tests that every replica streams in the end, or reports in one line the action that an operator has to take,
//! whatever its primary does: primaries that write, flush, free log, restart and lose connections at random, with
//! slow replicas, over in-memory connections.
//!
//! The log is bytes with bounds of its own, as in `wal`: the log kept for a slot is counted in existing bytes, and
//! jumps of positions do not count.

use collie_env::SimRandom;

use super::*;
use crate::{
    primary::{Expiry, HeldSlot},
    standby::TO_BE_FILLED,
};

/// The most bytes that may be kept for a slot.
const BOUND: u64 = 1_500;

/// The most bytes that the log may have in all.
const MOST: u64 = 1 << 20;

/// Bytes in a copy: a few chunks.
const COPY_BYTES: usize = 200_000;

#[derive(Debug)]
struct Cursor {
    at: Lsn,
    keep: Keep,
    lost: Option<Expiry>,
    is_attached: bool,
}

/// A primary that frees the log that the bounds of its slots do not keep.
#[derive(Debug)]
struct Bounded {
    node: Arc<Node>,
    cursors: Mutex<BTreeMap<String, Cursor>>,
    /// The levels have everything below.
    flushed: Mutex<Lsn>,
    most: u64,
    copies: AtomicUsize,
    env: Env,
}

impl Bounded {
    fn new(env: &Env, most: u64) -> Arc<Self> {
        let node = Node::primary();
        let path = Path::new("/primary/levels/MANIFEST");
        env.files.create_dir_all(path.parent().unwrap()).unwrap();
        env.files.create(path).unwrap().write_at(0, &vec![7; COPY_BYTES]).unwrap();
        let flushed = Mutex::new(node.log.lock().end);
        Arc::new(Self { node, cursors: Mutex::default(), flushed, most, copies: AtomicUsize::new(0), env: env.clone() })
    }

    /// Returns the bytes of records at or above `at`.
    fn kept(&self, at: Lsn) -> u64 {
        let log = self.node.log.lock();
        let above = log.records.iter().rev().take_while(|(_, start, _)| *start >= at);
        above.map(|(_, _, bytes)| bytes.len() as u64).sum()
    }

    fn enforce(&self) {
        for cursor in self.cursors.lock().values_mut().filter(|cursor| cursor.lost.is_none()) {
            let kept = self.kept(cursor.at);
            if kept >= self.most {
                cursor.lost = Some(Expiry::Files);
            } else if cursor.keep != Keep::Whatever && kept >= BOUND {
                cursor.lost = Some(Expiry::Bytes);
            }
        }
    }

    fn write(&self, bytes: &[u8]) {
        self.node.append(0, bytes);
        self.enforce();
        // Wakes a reader that has lost its place.
        self.node.grown.notify_waiters();
    }

    /// Flushes, and frees the log that no slot needs.
    fn checkpoint(&self) {
        let end = self.node.log.lock().end;
        *self.flushed.lock() = end;
        let cursors = self.cursors.lock();
        let held = cursors.values().filter(|cursor| cursor.lost.is_none()).map(|cursor| cursor.at).min();
        let mut log = self.node.log.lock();
        log.oldest = log.oldest.max(held.unwrap_or(end).min(end));
    }

    fn is_lost(&self, slot: &str) -> bool {
        self.cursors.lock().get(slot).is_none_or(|cursor| cursor.lost.is_some())
    }
}

/// Reads the log for one slot.
struct SlotReader {
    source: Arc<Bounded>,
    slot: String,
    reader: Reader,
}

impl Ship for SlotReader {
    async fn next<'a>(&'a mut self, bytes_max: usize, out: &'a mut Vec<u8>) -> Result<Shipment, SourceError> {
        loop {
            let grown = self.source.node.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            if self.source.is_lost(&self.slot) {
                return Err(SourceError::Gone);
            }
            tokio::select! {
                shipment = self.reader.next(bytes_max, out) => return shipment,
                () = grown => {}
            }
        }
    }

    fn advance(&mut self, durable: Lsn) -> Result<(), SourceError> {
        let mut cursors = self.source.cursors.lock();
        match cursors.get_mut(&self.slot) {
            Some(cursor) if cursor.lost.is_none() => {
                cursor.at = cursor.at.max(durable);
                Ok(())
            }
            _ => Err(SourceError::Gone),
        }
    }
}

impl Drop for SlotReader {
    fn drop(&mut self) {
        self.source.cursors.lock().get_mut(&self.slot).into_iter().for_each(|cursor| cursor.is_attached = false);
    }
}

/// The primary as a `Source`.
#[derive(Clone, Debug)]
struct Face(Arc<Bounded>);

impl Source for Face {
    type Shipper = SlotReader;

    fn identity(&self) -> Identity {
        identity(&self.0.node)
    }

    fn durable(&self) -> Lsn {
        self.0.node.log.lock().end
    }

    fn show(&self) -> Lsn {
        self.durable()
    }

    fn commits(&self) -> u64 {
        0
    }

    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError> {
        let is_there = end.get() - u64::from(bytes) >= self.0.node.log.lock().oldest.get();
        Ok(is_there.then(|| self.0.node.crc(end, u64::from(bytes))))
    }

    fn ship(&self, slot: &str, from: Lsn, keep: Keep) -> Result<SlotReader, SourceError> {
        {
            let mut cursors = self.0.cursors.lock();
            if cursors.get(slot).is_some_and(|cursor| cursor.is_attached) {
                return Err(SourceError::Taken("somebody reads".to_owned()));
            }
            // Some bytes below are kept too, as in `wal`, for the comparison of the ends of the logs.
            if from < self.0.node.log.lock().oldest {
                return Err(SourceError::Gone);
            }
            let at = Lsn::new(from.get().saturating_sub(64)).max(self.0.node.log.lock().oldest);
            cursors.insert(slot.to_owned(), Cursor { at, keep, lost: None, is_attached: true });
        }
        self.0.enforce();
        let reader = SlotReader {
            source: self.0.clone(),
            slot: slot.to_owned(),
            reader: Reader { node: self.0.node.clone(), at: from },
        };
        if self.0.is_lost(slot) { Err(SourceError::Gone) } else { Ok(reader) }
    }

    fn keep(&self, slot: &str, keep: Keep) -> Result<(), SourceError> {
        self.0.cursors.lock().get_mut(slot).into_iter().for_each(|cursor| cursor.keep = keep);
        self.0.enforce();
        Ok(())
    }

    fn backup(&self, slot: &str) -> Result<BackupFiles, SourceError> {
        self.0.copies.fetch_add(1, Ordering::Relaxed);
        let log_start = *self.0.flushed.lock();
        let cursor = Cursor { at: log_start, keep: Keep::Whatever, lost: None, is_attached: false };
        self.0.cursors.lock().insert(slot.to_owned(), cursor);
        let file = BackupFile { name: "levels/MANIFEST".to_owned(), bytes: COPY_BYTES as u64 };
        Ok(BackupFiles {
            root: "/primary".into(),
            files: vec![file],
            log_start,
            consistent: self.durable(),
            cleanup: None,
        })
    }

    fn held(&self) -> Vec<HeldSlot> {
        let held = |(name, cursor): (&String, &Cursor)| {
            let kept_bytes = self.0.kept(cursor.at);
            let (lsn, is_within) = (cursor.at, kept_bytes < BOUND);
            HeldSlot { name: name.clone(), lsn, restart: lsn, kept_bytes, is_within, lost: cursor.lost }
        };
        self.0.cursors.lock().iter().map(held).collect()
    }

    fn drop_slot(&self, slot: &str) -> Result<(), SourceError> {
        let mut cursors = self.0.cursors.lock();
        if cursors.get(slot).is_some_and(|cursor| cursor.is_attached) {
            return Err(SourceError::Taken("somebody reads".to_owned()));
        }
        cursors.remove(slot);
        Ok(())
    }
}

/// A primary that is restarted now and then, and replicas that connect to it.
struct Cluster {
    face: Face,
    slots: Mutex<Arc<Slots>>,
    /// Ends the connections of the running process.
    stop: Mutex<watch::Sender<bool>>,
    /// Ends the replicas.
    over: watch::Sender<bool>,
    random: SimRandom,
    /// One of this many connections is cut.
    cuts: AtomicU64,
    news: Mutex<Vec<String>>,
}

const DATA: &str = "/primary/data";

impl Cluster {
    fn new(seed: u64, most: u64) -> Arc<Self> {
        let (env, _disk) = Env::simulated(seed);
        env.files.create_dir_all(Path::new(DATA)).unwrap();
        let face = Face(Bounded::new(&env, most));
        let (slots, stop) = (Mutex::new(Self::open(&face)), Mutex::new(watch::channel(false).0));
        let (over, random, cuts, news) =
            (watch::channel(false).0, SimRandom::new(seed), AtomicU64::new(u64::MAX), Mutex::default());
        Arc::new(Self { face, slots, stop, over, random, cuts, news })
    }

    fn open(face: &Face) -> Arc<Slots> {
        Arc::new(Slots::open(face.0.env.clone(), Path::new(DATA), face.held()).unwrap().0)
    }

    fn slots(&self) -> Arc<Slots> {
        self.slots.lock().clone()
    }

    /// Ends every connection, and possibly the process: then positions jump, and the slots are read from the disk.
    fn interrupt(&self, is_restart: bool, id: u64) {
        let stop = std::mem::replace(&mut *self.stop.lock(), watch::channel(false).0);
        stop.send_replace(true);
        if is_restart {
            self.face.0.node.begin(0, 40_000, id);
            *self.slots.lock() = Self::open(&self.face);
        }
    }

    /// Does the work of a primary that is due every second.
    fn keep(&self) {
        let slots = self.slots();
        let news = slots.keep(&self.face, None, self.face.0.env.clock.now_ns());
        self.news.lock().extend(news);
    }

    fn connection(&self) -> Trusted<Faulty> {
        let (near, far) = duplex(1 << 12);
        let (near, far) = trusted(near, far);
        let (stop, env) = (self.stop.lock().subscribe(), self.face.0.env.clone());
        let options = StreamOptions {
            heartbeat: Duration::from_millis(5),
            timeout: PATIENCE,
            backup_bytes_per_s: 100 << 20,
            ..StreamOptions::default()
        };
        let served = (Arc::new(self.face.clone()), self.slots());
        let mut cut = stop.clone();
        tokio::spawn(async move {
            // The connection is cut, not ended in order: no error is sent.
            tokio::select! {
                _ended = serve(far, "here", served, options, env, stop) => {}
                () = crate::link::stopping(&mut cut) => {}
            }
        });
        let cuts = self.cuts.load(Ordering::Relaxed);
        let is_cut = cuts < u64::MAX && self.random.below(cuts) == 0;
        let fault = if is_cut { Fault::Cut(self.random.below(2 * COPY_BYTES as u64)) } else { Fault::None };
        near.map(|io| Faulty { io, fault, read: 0, pause: None })
    }
}

/// A replica as a server runs one: filled when it is empty or has lost its place, if that is allowed.
#[derive(Debug)]
struct Runs {
    name: String,
    may_copy: bool,
    node: Mutex<Option<Arc<Node>>>,
    /// The last reported reason why it does not follow; `None` while it follows.
    said: Arc<Mutex<Option<String>>>,
    takes: Duration,
}

impl Runs {
    fn new(name: &str, may_copy: bool, takes: Duration) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), may_copy, node: Mutex::default(), said: Arc::default(), takes })
    }

    async fn run(self: Arc<Self>, cluster: Arc<Cluster>, id: u64) {
        let options = FollowOptions { slot: self.name.clone(), timeout: PATIENCE, may_copy: self.may_copy };
        let env = cluster.face.0.env.clone();
        let mut tries = 0;
        loop {
            let over = cluster.over.subscribe();
            if *over.borrow() {
                return;
            }
            let node = self.node.lock().clone();
            let Some(node) = node else {
                tries += 1;
                let dir = format!("/{}/{tries}", self.name);
                env.files.create_dir_all(Path::new(&dir)).unwrap();
                match clone(cluster.connection(), Path::new(&dir), id, &options, &env, &mut |_, _| ()).await {
                    Ok(cloned) => {
                        let node = Node::new(7, id);
                        *node.takes.lock() = self.takes;
                        let mut log = node.log.lock();
                        log.histories = cloned.primary.histories;
                        (log.end, log.oldest) = (cloned.log_start, cloned.log_start);
                        drop(log);
                        *self.node.lock() = Some(node);
                    }
                    Err(_again) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
                continue;
            };
            let said = self.said.clone();
            let tell = move |told| match told {
                Told::Following { .. } => *said.lock() = None,
                Told::Lost { why, .. } => *said.lock() = Some(why),
                Told::CaughtUp { .. } => {}
            };
            let connect = || std::future::ready(Ok::<_, LinkError>(cluster.connection()));
            match follow(connect, node, options.clone(), env.clone(), over, tell).await {
                Ended::Stopped => return,
                Ended::Rebuild => *self.node.lock() = None,
                ended => panic!("{}: {ended:?}", self.name),
            }
        }
    }

    /// Returns whether it has everything, with the bytes of its primary.
    fn has_all(&self, cluster: &Cluster) -> bool {
        let Some(node) = self.node.lock().clone() else { return false };
        let (from, end) = {
            let log = node.log.lock();
            (log.oldest, log.end)
        };
        if end != cluster.face.durable() {
            return false;
        }
        let own = node.bytes();
        assert!(cluster.face.0.node.bytes().range(from.get()..).eq(own.iter()), "{} has other bytes", self.name);
        true
    }

    /// Returns whether it reports the action that an operator has to take.
    fn says(&self) -> bool {
        self.said.lock().as_deref() == Some(TO_BE_FILLED)
    }
}

/// Goal: whatever a primary does, its replicas stream in the end with its bytes, without repeated copies; a
/// replica that may not be filled again streams, or reports the action to take. Method: many primaries at random,
/// each with a quick and a slow replica that may be filled and one that may not once it has a copy; then quiet.
/// The seed is in the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_replica_streams_in_the_end_or_says_what_to_do() {
    let outcomes: Vec<_> = (0..24).map(|seed| tokio::spawn(one_cluster(seed))).collect();
    let (mut copies, mut said) = (0, 0);
    for outcome in outcomes {
        let (copied, has_said) = outcome.await.unwrap();
        (copies, said) = (copies + copied, said + usize::from(has_said));
    }
    assert!(copies > 24 * 3 && said > 0, "nothing lost its place: {copies} copies, {said} said what to do");
}

async fn one_cluster(seed: u64) -> (usize, bool) {
    let cluster = Cluster::new(seed, MOST);
    let replicas = [
        Runs::new("quick", true, Duration::ZERO),
        Runs::new("slow", true, Duration::from_millis(2)),
        Runs::new("by-hand", false, Duration::ZERO),
    ];
    let mut tasks = Vec::new();
    for (replica, id) in replicas.iter().zip(10..) {
        tasks.push(tokio::spawn(replica.clone().run(cluster.clone(), id)));
    }
    let (random, source) = (&cluster.random, cluster.face.0.clone());
    cluster.cuts.store(4, Ordering::Relaxed);
    for step in 0..60_u64 {
        match random.below(12) {
            0..6 => {
                for n in 0..=random.below(12) {
                    source.write(format!("record {step}.{n} {}", "x".repeat(40)).as_bytes());
                }
            }
            6..9 => source.checkpoint(),
            9 => cluster.interrupt(true, 100 + step),
            10 => cluster.interrupt(false, 0),
            _ => tokio::time::sleep(Duration::from_millis(random.below(40))).await,
        }
        cluster.keep();
        tokio::task::yield_now().await;
    }
    cluster.cuts.store(u64::MAX, Ordering::Relaxed);
    let before = source.copies.load(Ordering::Relaxed);
    until(&format!("seed {seed}: everybody to stream or to say what to do"), || {
        cluster.keep();
        replicas.iter().all(|replica| replica.has_all(&cluster) || !replica.may_copy && replica.says())
    })
    .await;
    let copies = source.copies.load(Ordering::Relaxed);
    assert!(copies - before <= 2 * replicas.len(), "seed {seed}: {} copies of a quiet primary", copies - before);
    // Looked at again each time: what it said may have been the last word before a connection that streams.
    let mut said = false;
    until(&format!("seed {seed}: slots to say so too"), || {
        cluster.keep();
        said = replicas[2].says();
        let stat = cluster.slots().stat(cluster.face.durable(), cluster.face.0.env.clock.now_ns());
        let expected = |stat: &crate::primary::SlotStat| match stat.name == "by-hand" && said {
            true => matches!(stat.state, SlotState::Expired | SlotState::Away),
            false => stat.state == SlotState::Streaming,
        };
        stat.len() >= 2 && stat.iter().all(expected)
    })
    .await;
    cluster.over.send_replace(true);
    for task in tasks {
        timeout(PATIENCE, task).await.expect("it stops").unwrap();
    }
    (copies, said)
}

/// Goal: a new replica of a primary whose log is far above the bound of a slot, and grows while the copy is made,
/// is filled once, and the log that it needs is kept until it follows; then the bound applies again. Method: a log
/// of many times the bound, written to during the transfer of the copy and before the replica connects with it;
/// then a replica that does not connect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_is_filled_once_whatever_the_bound() {
    let cluster = Cluster::new(1, MOST);
    let (source, env) = (cluster.face.0.clone(), cluster.face.0.env.clone());
    let much = || (0..60).for_each(|n| source.write(format!("record {n} {}", "x".repeat(60)).as_bytes()));
    let life = || {
        let stat = cluster.slots().stat(Lsn::ZERO, env.clock.now_ns());
        stat.first().map(|stat| stat.state)
    };
    much();
    env.files.create_dir_all(Path::new("/new/1")).unwrap();
    let options = FollowOptions { slot: "new".to_owned(), timeout: PATIENCE, may_copy: true };
    let mut grows = |_, _| {
        source.write(&[b'y'; 1_000]);
        source.checkpoint();
        cluster.keep();
    };
    let cloned = clone(cluster.connection(), Path::new("/new/1"), 9, &options, &env, &mut grows).await.unwrap();
    until("the slot to be of a copy", || life() == Some(SlotState::Copied)).await;
    much();
    source.checkpoint();
    cluster.keep();
    cluster.interrupt(true, 50);
    cluster.keep();
    assert_eq!(life(), Some(SlotState::Copied), "a restart forgets no copy");
    assert!(source.kept(cloned.log_start) > 4 * BOUND && !source.is_lost("new"));

    let replica = Runs::new("new", true, Duration::ZERO);
    let node = Node::new(7, 9);
    {
        let mut log = node.log.lock();
        log.histories = cloned.primary.histories;
        (log.end, log.oldest) = (cloned.log_start, cloned.log_start);
    }
    *replica.node.lock() = Some(node);
    let task = tokio::spawn(replica.clone().run(cluster.clone(), 9));
    until("it to stream", || {
        let streams = replica.has_all(&cluster) && life() == Some(SlotState::Streaming);
        cluster.keep(); // finds it within the bound, which applies from here on
        streams
    })
    .await;
    assert_eq!(source.copies.load(Ordering::Relaxed), 1);
    cluster.over.send_replace(true);
    timeout(PATIENCE, task).await.expect("it stops").unwrap();
    cluster.interrupt(false, 0);
    until("the slot to be away", || life() == Some(SlotState::Away)).await;
    cluster.keep();
    much();
    cluster.keep();
    assert_eq!(life(), Some(SlotState::Expired), "{:?}", cluster.news.lock());
}

/// Goal: a copy for which the log has no room is given up, so that commits continue, and the primary reports the
/// action to take. Method: a log with a limit, written beyond it during the transfer of the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_the_log_has_no_room_for_says_what_to_do() {
    let cluster = Cluster::new(1, 20_000);
    let (source, env) = (cluster.face.0.clone(), cluster.face.0.env.clone());
    env.files.create_dir_all(Path::new("/new/1")).unwrap();
    let options = FollowOptions { slot: "new".to_owned(), timeout: PATIENCE, may_copy: true };
    let mut grows = |_, _| {
        (0..30).for_each(|_| source.write(&[b'y'; 1_000]));
        cluster.keep();
    };
    // Paced, so that the primary sends no chunk ahead of the ones that this side has received.
    let slow = cluster.connection().map(|io| Faulty { fault: Fault::Slow(1 << 14), ..io });
    let cloned = clone(slow, Path::new("/new/1"), 9, &options, &env, &mut grows).await;
    assert!(cloned.is_err(), "{cloned:?}");
    let news = cluster.news.lock().join("\n");
    assert!(news.contains("replication slot new is expired") && news.contains("wal.max_segments"), "{news}");
}

//! Primary and replica of this crate against each other, over in-memory connections that are cut and whose bits
//! flip; the log and the database that follows it are plain bytes.

mod backup;
mod handover;
mod liveness;
mod reads;

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use collie_base::{HistoryId, Lsn, Term, checksum::crc32c};
use collie_env::{Access, Env};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex},
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    Keep, LinkError,
    compare::{Differing, Held},
    identity::Identity,
    key::{Trusted, trusted},
    packet::History,
    primary::{
        BackupFile, BackupFiles, DrawnCommit, Ship, Shipment, SlotState, Slots, Source, SourceError, StreamOptions,
        Switchover, serve,
    },
    reads::{ReadFeed, ReadInbox},
    standby::{Ended, FollowOptions, Positions, Succession, Target, TargetError, Told, clone, follow},
};

/// How long a test waits for an expected event: far longer than it takes on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Log {
    cluster: u128,
    node: u64,
    histories: Vec<History>,
    /// Each record: the end of the one before, its start, its bytes.
    records: Vec<(Lsn, Lsn, Vec<u8>)>,
    end: Lsn,
    /// Everything below was freed.
    oldest: Lsn,
    show: Lsn,
    advanced: Lsn,
    full: bool,
}

/// A log in memory, of a primary or of a replica.
#[derive(Debug)]
struct Node {
    log: Mutex<Log>,
    grown: Notify,
    received_packets: AtomicUsize,
    /// On a replica: the term that it has promised. On a primary: the term that was reported to it.
    promised: AtomicU64,
    /// Added to the sum of its bytes.
    mistake: AtomicU64,
    /// Bits that are flipped in the checksum of a stretch.
    log_mistake: AtomicU32,
    /// The position of bytes that it cannot apply; zero: there are none.
    stops_at: AtomicU64,
    /// How long it takes to receive a packet.
    takes: Mutex<Duration>,
    /// On a primary: its records, each a commit.
    drawn: Mutex<Vec<DrawnCommit>>,
    handing: Arc<Switchover>,
    succession: Arc<Succession>,
    /// On a primary that samples reads.
    feed: OnceLock<Arc<ReadFeed>>,
    /// On a replica that asks for them.
    inbox: OnceLock<Arc<ReadInbox>>,
}

/// The sums of the bytes of a log in memory: of those at odd positions, and of those at even ones.
#[derive(Debug)]
struct Sums(Lsn, Vec<(u32, u64)>);

impl Held for Sums {
    fn at(&self) -> Lsn {
        self.0
    }

    fn sums(&self) -> Vec<(u32, u64)> {
        self.1.clone()
    }
}

impl Node {
    fn new(cluster: u128, node: u64) -> Arc<Self> {
        let log = Log {
            cluster,
            node,
            histories: Vec::new(),
            records: Vec::new(),
            end: Lsn::FIRST,
            oldest: Lsn::FIRST,
            show: Lsn::ZERO,
            advanced: Lsn::ZERO,
            full: false,
        };
        Arc::new(Self {
            log: Mutex::new(log),
            grown: Notify::new(),
            received_packets: AtomicUsize::new(0),
            promised: AtomicU64::new(0),
            mistake: AtomicU64::new(0),
            log_mistake: AtomicU32::new(0),
            stops_at: AtomicU64::new(0),
            takes: Mutex::default(),
            drawn: Mutex::default(),
            handing: Arc::new(Switchover::new(None)),
            succession: Arc::default(),
            feed: OnceLock::new(),
            inbox: OnceLock::new(),
        })
    }

    fn primary() -> Arc<Self> {
        let node = Self::new(7, 1);
        node.begin(0, 0, 1);
        node
    }

    /// Creates a replica with the primary's database and nothing of its log, as after a base backup.
    fn replica(node: u64) -> Arc<Self> {
        let replica = Self::new(7, node);
        let (term, id) = (Term::new(0), HistoryId::new(1));
        replica.log.lock().histories.push(History { term, id, start: Lsn::FIRST, prev_end: Lsn::FIRST });
        replica
    }

    fn begin(&self, term: u64, skip: u64, id: u64) {
        {
            let mut log = self.log.lock();
            let prev_end = log.end;
            let history =
                History { term: Term::new(term), id: HistoryId::new(id), start: prev_end.plus(skip), prev_end };
            log.histories.push(history);
        }
        self.append(skip, format!("history {id}").as_bytes());
    }

    fn append(&self, skip: u64, bytes: &[u8]) -> Lsn {
        let mut log = self.log.lock();
        let (prev_end, start) = (log.end, log.end.plus(skip));
        self.drawn.lock().push(DrawnCommit { csn: start, at_ns: now_ns(), stands_for: 1 });
        log.records.push((prev_end, start, bytes.to_vec()));
        log.end = start.plus(bytes.len() as u64);
        drop(log);
        self.grown.notify_waiters();
        self.log.lock().end
    }

    /// Returns every byte with its position.
    fn bytes(&self) -> BTreeMap<u64, u8> {
        let log = self.log.lock();
        let of = |(_, start, bytes): &(Lsn, Lsn, Vec<u8>)| {
            bytes.iter().zip(start.get()..).map(|(byte, at)| (at, *byte)).collect::<Vec<_>>()
        };
        log.records.iter().flat_map(of).collect()
    }

    /// Takes a snapshot of the present bytes.
    fn hold_all(&self) -> Box<dyn Held> {
        let end = self.log.lock().end;
        let bytes = self.bytes();
        let sum = |odd: u64| {
            let of = bytes.range(..end.get()).filter(|(at, _)| **at % 2 == odd);
            of.map(|(at, byte)| at.wrapping_mul(31).wrapping_add(u64::from(*byte))).fold(1, u64::wrapping_add)
        };
        Box::new(Sums(end, vec![(0, sum(0)), (7, sum(1).wrapping_add(self.mistake.load(Ordering::Relaxed)))]))
    }

    /// Returns the checksum of a stretch; `None` when it is not there, or some of it was freed.
    fn crc_of(&self, from: Lsn, to: Lsn) -> Option<u32> {
        let (oldest, end) = {
            let log = self.log.lock();
            (log.oldest, log.end)
        };
        let bytes: Vec<u8> = self.bytes().range(from.get()..to.get()).map(|(_, byte)| *byte).collect();
        (oldest <= from && to <= end).then(|| crc32c(&bytes) ^ self.log_mistake.load(Ordering::Relaxed))
    }

    fn crc(&self, end: Lsn, bytes: u64) -> u32 {
        let all = self.bytes();
        let below: Vec<u8> = all.range(..end.get()).map(|(_, byte)| *byte).collect();
        crc32c(&below[below.len() - usize::try_from(bytes).unwrap()..])
    }
}

/// Reads a log in memory.
struct Reader {
    node: Arc<Node>,
    at: Lsn,
}

impl Ship for Reader {
    async fn next<'a>(&'a mut self, bytes_max: usize, out: &'a mut Vec<u8>) -> Result<Shipment, SourceError> {
        loop {
            let grown = self.node.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            {
                let log = self.node.log.lock();
                let from = log.records.iter().position(|(prev_end, _, _)| *prev_end >= self.at);
                let mut records = log.records[from.unwrap_or(log.records.len())..].iter();
                if let Some((prev_end, start, bytes)) = records.next() {
                    assert_eq!(*prev_end, self.at, "a shipper stands at a boundary");
                    out.extend_from_slice(bytes);
                    let mut end = start.plus(bytes.len() as u64);
                    for (_, start, bytes) in records.take_while(|(prev_end, start, _)| prev_end == start) {
                        if out.len() + bytes.len() > bytes_max.min(100) {
                            break;
                        }
                        out.extend_from_slice(bytes);
                        end = start.plus(bytes.len() as u64);
                    }
                    self.at = end;
                    return Ok(Shipment { prev_end: *prev_end, start: *start, end });
                }
            }
            grown.await;
        }
    }

    fn advance(&mut self, durable: Lsn) -> Result<(), SourceError> {
        let mut log = self.node.log.lock();
        log.advanced = log.advanced.max(durable);
        Ok(())
    }
}

/// A log in memory as a `Source`.
#[derive(Debug)]
struct Followed(Arc<Node>);

impl Source for Followed {
    type Shipper = Reader;

    fn identity(&self) -> Identity {
        identity(&self.0)
    }

    fn heard(&self, term: Term) {
        self.0.promised.store(term.get(), Ordering::Relaxed);
    }

    fn durable(&self) -> Lsn {
        self.0.log.lock().end
    }

    fn show(&self) -> Lsn {
        self.durable()
    }

    fn handing(&self) -> Option<&Arc<Switchover>> {
        Some(&self.0.handing)
    }

    fn reads(&self) -> Option<&Arc<ReadFeed>> {
        self.0.feed.get()
    }

    fn commits(&self) -> u64 {
        0
    }

    fn take_drawn(&self, out: &mut Vec<DrawnCommit>) {
        out.append(&mut self.0.drawn.lock());
    }

    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError> {
        Ok(Some(self.0.crc(end, u64::from(bytes))))
    }

    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, SourceError> {
        Ok(self.0.crc_of(from, to))
    }

    fn ship(&self, _slot: &str, from: Lsn, _keep: Keep) -> Result<Reader, SourceError> {
        if from < self.0.log.lock().oldest {
            return Err(SourceError::Gone);
        }
        Ok(Reader { node: self.0.clone(), at: from })
    }

    fn backup(&self, _slot: &str) -> Result<BackupFiles, SourceError> {
        Err(SourceError::Failed("no files here".to_owned()))
    }

    fn hold(&self) -> Option<Box<dyn Held>> {
        Some(self.0.hold_all())
    }

    fn drop_slot(&self, _slot: &str) -> Result<(), SourceError> {
        Ok(())
    }
}

fn identity(node: &Node) -> Identity {
    let log = node.log.lock();
    let term = log.histories.last().map_or(Term::new(0), |history| history.term);
    Identity { cluster: log.cluster, node: log.node, term, histories: log.histories.clone(), end: log.end }
}

impl Target for Node {
    fn identity(&self) -> Identity {
        let identity = identity(self);
        Identity { term: identity.term.max(self.promised()), ..identity }
    }

    fn promised(&self) -> Term {
        Term::new(self.promised.load(Ordering::Relaxed))
    }

    fn succession(&self) -> Option<&Arc<Succession>> {
        Some(&self.succession)
    }

    fn reads(&self) -> Option<&Arc<ReadInbox>> {
        self.inbox.get()
    }

    fn positions(&self) -> Positions {
        let log = self.log.lock();
        Positions { received: log.end, durable: log.end, applied: log.end.min(log.show) }
    }

    fn tail(&self) -> Result<(u32, u32), TargetError> {
        let bytes = self.bytes().len().min(64);
        let end = self.log.lock().end;
        Ok((u32::try_from(bytes).unwrap(), self.crc(end, bytes as u64)))
    }

    fn receive(&self, start: Lsn, prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError> {
        self.received_packets.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(*self.takes.lock());
        let mut log = self.log.lock();
        if log.full {
            return Err(TargetError::Full("no room".to_owned()));
        }
        if prev_end != log.end {
            return Err(TargetError::Stream(format!("{prev_end} does not continue {}", log.end)));
        }
        // Records of this test that begin a history state its id.
        if let Some(id) = records.strip_prefix(b"history ") {
            let digits: String =
                id.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte)).collect();
            let (id, term) = (digits.parse::<u64>().unwrap(), Term::new(0));
            let history = History { term, id: HistoryId::new(id), start, prev_end };
            if !log.histories.contains(&history) {
                log.histories.push(history);
            }
        }
        log.records.push((prev_end, start, records.to_vec()));
        log.end = start.plus(records.len() as u64);
        let stops_at = Lsn::new(self.stops_at.load(Ordering::Relaxed));
        if (start..log.end).contains(&stops_at) {
            return Err(TargetError::Damaged { at: stops_at, why: format!("a record at {stops_at} that is none") });
        }
        Ok(log.end)
    }

    fn set_show(&self, show: Lsn) {
        let mut log = self.log.lock();
        log.show = log.show.max(show);
    }

    fn queue_bytes(&self) -> u64 {
        0
    }

    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, TargetError> {
        Ok(self.crc_of(from, to))
    }

    fn hold(&self, at: Lsn) -> Option<Box<dyn Held>> {
        Some(self.hold_all()).filter(|held| held.at() == at)
    }
}

/// A fault in the bytes that a replica reads.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The connection ends after this many bytes.
    Cut(u64),
    /// A bit of the byte at this place is flipped.
    Flip(u64),
    /// This many bytes arrive per hundredth of a second.
    Slow(usize),
}

/// A connection with a fault.
struct Faulty {
    io: DuplexStream,
    fault: Fault,
    read: u64,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl AsyncRead for Faulty {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Not beyond the end of the connection.
        let left = match self.fault {
            Fault::Cut(at) => usize::try_from(at - self.read).unwrap(),
            _ => usize::MAX,
        };
        if left == 0 {
            return Poll::Ready(Ok(()));
        }
        let left = match self.fault {
            Fault::Slow(bytes) => bytes,
            _ => left,
        };
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let before = buf.filled().len();
        let mut piece = vec![0; left.min(buf.remaining()).min(1 << 16)];
        let mut into = ReadBuf::new(&mut piece);
        let read = Pin::new(&mut self.io).poll_read(cx, &mut into);
        let count = into.filled().len() as u64;
        buf.put_slice(into.filled());
        if let Fault::Flip(at) = self.fault
            && (self.read..self.read + count).contains(&at)
        {
            let at = before + usize::try_from(at - self.read).unwrap();
            buf.filled_mut()[at] ^= 4;
        }
        self.read += count;
        if matches!(self.fault, Fault::Slow(_)) && count > 0 {
            self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(10))));
        }
        read
    }
}

impl AsyncWrite for Faulty {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A primary that serves every connection, and the reasons why connections ended.
struct Setting {
    primary: Arc<Node>,
    slots: Arc<Slots>,
    stop: watch::Sender<bool>,
    ended: Arc<Mutex<Vec<String>>>,
    verify: Option<Duration>,
    timeout: Duration,
}

impl Setting {
    fn new(primary: &Arc<Node>) -> Arc<Self> {
        Self::with(primary, None, PATIENCE)
    }

    fn comparing(primary: &Arc<Node>, verify: Option<Duration>) -> Arc<Self> {
        Self::with(primary, verify, PATIENCE)
    }

    fn with_timeout(primary: &Arc<Node>, timeout: Duration) -> Arc<Self> {
        Self::with(primary, None, timeout)
    }

    fn with(primary: &Arc<Node>, verify: Option<Duration>, timeout: Duration) -> Arc<Self> {
        let (stop, _) = watch::channel(false);
        let (slots, ended) = (Arc::default(), Arc::default());
        Arc::new(Self { primary: primary.clone(), slots, stop, ended, verify, timeout })
    }

    /// Makes a connection to the primary.
    fn connection(&self, fault: Fault) -> Trusted<Faulty> {
        let (near, far) = duplex(1 << 12);
        let (near, far) = trusted(near, far);
        let (source, slots) = (Arc::new(Followed(self.primary.clone())), self.slots.clone());
        let options = StreamOptions {
            heartbeat: Duration::from_millis(5),
            timeout: self.timeout,
            verify: self.verify,
            ..StreamOptions::default()
        };
        let (stop, ended) = (self.stop.subscribe(), self.ended.clone());
        tokio::spawn(async move {
            let result = serve(far, "here", (source, slots), options, Env::real(), stop).await;
            let line = result.map_or_else(|error| error.to_string(), |()| "over".to_owned());
            ended.lock().push(line);
        });
        near.map(|io| Faulty { io, fault, read: 0, pause: None })
    }

    /// Starts `replica` as a follower, until it ends by itself or is asked to stop.
    fn follow(
        self: &Arc<Self>,
        replica: &Arc<Node>,
        fault: impl Fn() -> Fault + Send + Sync + 'static,
    ) -> (JoinHandle<Ended>, Arc<Mutex<Vec<Told>>>) {
        let (setting, replica, told) = (self.clone(), replica.clone(), Arc::new(Mutex::new(Vec::new())));
        let (stop, tells) = (self.stop.subscribe(), told.clone());
        let following = tokio::spawn(async move {
            let connect = || std::future::ready(Ok::<_, LinkError>(setting.connection(fault())));
            let tell = move |told| tells.lock().push(told);
            let options = FollowOptions { timeout: setting.timeout, ..options() };
            follow(connect, replica, options, Env::real(), stop, tell).await
        });
        (following, told)
    }

    async fn stop(&self, following: JoinHandle<Ended>) {
        self.stop.send_replace(true);
        assert_eq!(timeout(PATIENCE, following).await.expect("it stops").unwrap(), Ended::Stopped);
    }
}

fn now_ns() -> u64 {
    Env::real().clock.now_ns()
}

fn options() -> FollowOptions {
    FollowOptions { slot: "north".to_owned(), timeout: PATIENCE, may_copy: true }
}

/// Waits until `done` returns `true`.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// Goal: once a replica has promised a higher term it takes and acknowledges nothing of a lower one, and the
/// primary of the lower term learns of the higher one (R8). Method: a promise in the middle of a stream, records
/// after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_lower_term_is_taken_once_a_higher_one_is_promised() {
    let primary = Node::primary();
    let end = primary.append(0, b"before the promise");
    let (setting, replica) = (Setting::new(&primary), Node::replica(2));
    let (following, _told) = setting.follow(&replica, || Fault::None);
    let acknowledged = || setting.slots.stat(end, now_ns()).remove(0).positions.durable;
    until("the ack", || replica.bytes() == primary.bytes() && acknowledged() == end).await;
    replica.promised.store(5, Ordering::Relaxed);
    primary.append(0, b"behind it");
    until("the primary hears of it", || primary.promised.load(Ordering::Relaxed) == 5).await;
    assert_eq!((replica.log.lock().end, acknowledged()), (end, end));
    setting.stop(following).await;
}

/// Goal: a replica has every byte at its position, shows it, and the primary knows that; later records follow,
/// over a jump to a new history too. Method: records before and during the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_gets_every_byte_at_its_position() {
    let primary = Node::primary();
    for n in 0..50 {
        primary.append(0, format!("record {n}").as_bytes());
    }
    let (setting, replica) = (Setting::new(&primary), Node::replica(2));
    let (following, told) = setting.follow(&replica, || Fault::None);
    until("what was there", || replica.bytes() == primary.bytes()).await;
    primary.begin(0, 1000, 2);
    let end = primary.append(0, b"behind the jump");
    until("what came", || replica.bytes() == primary.bytes()).await;
    until("the acks", || {
        let stat = setting.slots.stat(end, now_ns()).remove(0);
        stat.state == SlotState::Streaming
            && stat.positions.applied == end
            && stat.rtt_min_ns < u64::MAX
            && stat.owed_ns == 0
    })
    .await;
    until("the cursor", || primary.log.lock().advanced == end).await;
    assert_eq!(identity(&replica).histories.len(), 2);
    // Records that it had or caught up with have no delay; those committed now do.
    let totals = || setting.slots.stat(end, now_ns()).remove(0).totals;
    let before = totals().commits;
    assert!(before <= 2, "of {before} commits the delay was measured");
    primary.append(0, b"in time");
    until("its delay", || totals().commits == before + 1 && u128::from(totals().sum_ns) < PATIENCE.as_nanos()).await;
    setting.stop(following).await;
    assert!(matches!(told.lock()[0], Told::Following { from: Lsn::FIRST, node: 1 }), "{told:?}");
    until("the slot to be away", || setting.slots.stat(end, now_ns())[0].state == SlotState::Away).await;
}

/// Goal: however a connection ends, and whichever bit flips, the replica resumes where it was and ends with the
/// same bytes. Method: each connection is cut or has a bit flipped at a place that moves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_and_flipped_bits_lose_nothing() {
    let primary = Node::primary();
    for n in 0..80 {
        primary.append(u64::from(n == 40) * 77, format!("record number {n}").as_bytes());
    }
    let (setting, replica) = (Setting::new(&primary), Node::replica(2));
    let turn = AtomicU64::new(0);
    let (following, told) = setting.follow(&replica, move || {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        match turn {
            0..3 => Fault::Cut(40 + turn * 150),
            3..6 => Fault::Flip(120 + turn * 61),
            _ => Fault::None,
        }
    });
    until("everything", || replica.bytes() == primary.bytes()).await;
    setting.stop(following).await;
    let lost = told.lock().iter().filter(|told| matches!(told, Told::Lost { .. })).count();
    assert!(lost >= 3, "faults were met: {told:?}");
}

/// Goal: a link on which a packet takes longer than the timeout is slow, not silent: neither side gives up the
/// other. Method: a record that takes three times the timeout, at a rate at which pieces of it arrive every
/// hundredth of a second; then a replica that takes as long to receive one, repeated for a while, since a busy
/// machine may be silent too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_that_takes_longer_than_the_timeout_arrives() {
    let silence = Duration::from_millis(500);
    let primary = Node::primary();
    primary.append(0, &vec![b'x'; 150 * 256]);
    let (setting, replica) = (Setting::with_timeout(&primary, silence), Node::replica(2));
    let (following, told) = setting.follow(&replica, || Fault::Slow(256));
    until("everything", || replica.bytes() == primary.bytes()).await;
    *replica.takes.lock() = 3 * silence;
    let (mut kept, begun) = (false, tokio::time::Instant::now());
    while !kept && begun.elapsed() < PATIENCE {
        told.lock().clear();
        let end = primary.append(0, b"slow to take");
        until("what is slow to take", || setting.slots.stat(end, now_ns())[0].positions.applied == end).await;
        kept = !told.lock().iter().any(|told| matches!(told, Told::Lost { .. }));
    }
    assert!(kept, "it was given up for being slow, each time: {told:?}");
    setting.stop(following).await;
}

/// Goal: a full disk stops a replica, loses nothing, and the replica resumes once there is room. Method: a target
/// that refuses for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_replica_resumes_when_there_is_room() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::new(&primary), Node::replica(2));
    replica.log.lock().full = true;
    let (following, told) = setting.follow(&replica, || Fault::None);
    until("a refusal", || {
        told.lock().iter().any(|told| matches!(told, Told::Lost { why, .. } if why.contains("no room")))
    })
    .await;
    assert_eq!(replica.bytes().len(), 0);
    until("the primary to hear", || setting.ended.lock().iter().any(|line| line.contains("no room"))).await;
    replica.log.lock().full = false;
    until("everything", || replica.bytes() == primary.bytes()).await;
    setting.stop(following).await;
}

/// Goal: each decision has its result: a cut, a rebuild, or a reason, and no record is received. Method: a replica
/// of each kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_reach_the_replica() {
    let primary = Node::primary();
    primary.append(0, b"common");
    let base = primary.log.lock().records.clone();
    let like = |node: u64| {
        let replica = Node::replica(node);
        {
            let mut log = replica.log.lock();
            (log.records, log.histories) = (base.clone(), primary.log.lock().histories.clone());
            log.end = primary.log.lock().end;
        }
        replica
    };
    let fork = primary.log.lock().end;
    // An old primary with a tail of its own; one with other bytes at the same place; one of another database; one
    // whose log was freed.
    let (old, other, foreign, gone) = (like(2), like(3), like(4), like(6));
    old.append(0, b"never sent");
    other.log.lock().records[1].2 = b"COMMON".to_vec();
    foreign.log.lock().cluster = 8;
    primary.begin(1, 500, 2);
    let setting = Setting::new(&primary);
    let end = |replica: &Arc<Node>| {
        let (following, told) = setting.follow(replica, || Fault::None);
        async move { (timeout(PATIENCE, following).await.expect("it ends").unwrap(), told) }
    };
    assert_eq!(end(&old).await.0, Ended::Truncate { at: fork, term: Term::new(1) });
    assert_eq!(end(&other).await.0, Ended::Rebuild);
    primary.log.lock().oldest = fork.plus(1);
    assert_eq!(end(&gone).await.0, Ended::Rebuild);
    let refused = |replica: Arc<Node>, why: &'static str| {
        let (following, told) = setting.follow(&replica, || Fault::None);
        async move {
            until(why, || {
                told.lock().iter().any(|told| {
                    matches!(told, Told::Lost { why: text, wait } if text.contains(why) && *wait >= Duration::from_secs(30))
                })
            })
            .await;
            following.abort();
        }
    };
    refused(foreign, "belongs to database").await;
    let ahead = like(5);
    ahead.log.lock().histories = primary.log.lock().histories.clone();
    ahead.log.lock().end = primary.log.lock().end.plus(9);
    refused(ahead, "it has lost what it had confirmed").await;
    assert_eq!(old.received_packets.load(Ordering::Relaxed) + other.received_packets.load(Ordering::Relaxed), 0);
}

/// Goal: a replica is compared with its primary at positions that both had, while the log grows, and one with
/// other rows ends with both sums, which it reports to the primary; the primary continues. Method: sums of bytes,
/// every few milliseconds, over records and a jump; then one of the replica's sums is changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_other_rows_is_found_and_ends() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::comparing(&primary, Some(Duration::from_millis(3))), Node::replica(2));
    let (following, _) = setting.follow(&replica, || Fault::None);
    let verified = || setting.slots.stat(Lsn::ZERO, now_ns()).first().map_or(Lsn::ZERO, |stat| stat.verified);
    for round in 0..20_u64 {
        let before = verified();
        primary.append(u64::from(round == 10) * 77, format!("record number {round}").as_bytes());
        until("a comparison above", || verified() > before).await;
    }
    until("all to be compared", || verified() == primary.log.lock().end).await;
    replica.mistake.store(5, Ordering::Relaxed);
    primary.append(0, b"the last");
    let ended = timeout(PATIENCE, following).await.expect("it ends").unwrap();
    let Ended::Differs(difference) = ended else { panic!("{ended:?}") };
    let Differing::Rows { family, own, primary: primarys } = difference.what else { panic!("{difference:?}") };
    assert_eq!((family, own), (7, primarys + 5), "{difference:?}");
    until("the primary to hear", || setting.ended.lock().iter().any(|line| line.contains("rows of family 7 differ")))
        .await;
    let again = Node::replica(3);
    let (following, _) = setting.follow(&again, || Fault::None);
    until("another replica", || again.bytes() == primary.bytes()).await;
    setting.stop(following).await;
}

/// Goal: R2: a replica whose log has another byte than its primary's is found, with the stretch, its slot and both
/// checksums, which it reports to the primary and its slot displays; it ends, and the primary continues. Log that
/// one of them has freed is not a difference. Method: comparisons every few milliseconds, over records and a jump,
/// with the oldest log freed on either side; then the replica reads back another byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_another_byte_in_its_log_is_found_and_ends() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::comparing(&primary, Some(Duration::from_millis(3))), Node::replica(2));
    let (following, _) = setting.follow(&replica, || Fault::None);
    let stat = || setting.slots.stat(Lsn::ZERO, now_ns()).into_iter().next();
    let verified = || stat().map_or(Lsn::ZERO, |stat| stat.log_verified);
    for round in 0..20_u64 {
        let before = verified();
        primary.append(u64::from(round == 10) * 77, format!("record number {round}").as_bytes());
        until("a comparison above", || verified() > before).await;
        let freeing = if round % 2 == 0 { &primary } else { &replica };
        freeing.log.lock().oldest = verified();
    }
    assert!(!following.is_finished());
    let from = verified();
    replica.log_mistake.store(1, Ordering::Relaxed);
    primary.append(0, b"another record there");
    let ended = timeout(PATIENCE, following).await.expect("it ends").unwrap();
    let Ended::Differs(difference) = ended else { panic!("{ended:?}") };
    let Differing::Log { from: at, own, primary: primarys } = difference.what else { panic!("{difference:?}") };
    assert_eq!((at, own), (from, primarys ^ 1), "{difference:?}");
    assert_eq!(difference.at, primary.log.lock().end);
    until("the primary to hear", || setting.ended.lock().iter().any(|line| line.contains("slot north: "))).await;
    until("the slot to be marked", || stat().is_some_and(|stat| stat.state == SlotState::Stopped)).await;
    assert!(stat().unwrap().problem.is_some_and(|problem| problem.contains("slot north")));
    primary.append(0, b"the primary goes on");
}

/// Goal: a replica that cannot apply a received record ends, once, with the position and the reason, which it
/// reports to the primary and its slot displays; nothing is requested again. Method: a record in the middle of a
/// stream that a target refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_cannot_apply_what_came_ends() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::new(&primary), Node::replica(2));
    let (following, told) = setting.follow(&replica, || Fault::None);
    until("what was there", || replica.bytes() == primary.bytes()).await;
    let at = primary.log.lock().end;
    replica.stops_at.store(at.get(), Ordering::Relaxed);
    primary.append(0, b"no record");
    let ended = timeout(PATIENCE, following).await.expect("it ends").unwrap();
    assert_eq!(ended, Ended::Damaged { at, why: format!("a record at {at} that is none") });
    assert!(!told.lock().iter().any(|told| matches!(told, Told::Lost { .. })), "{told:?}");
    let stat = || setting.slots.stat(Lsn::ZERO, now_ns()).remove(0);
    until("the slot to be marked", || stat().state == SlotState::Stopped).await;
    let stat = stat();
    assert!(!stat.is_connected && stat.problem.is_some_and(|why| why.contains("replay has stopped")));
}

/// Goal: streams that end at one position again and again mark their slot and are reported once; a replica that
/// gets further clears the mark. Method: a bit flipped at the same place of every connection, until the mark is
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_at_one_position_mark_the_slot_until_it_is_passed() {
    let primary = Node::primary();
    primary.append(0, b"a record that does not arrive");
    let (setting, replica) = (Setting::new(&primary), Node::replica(2));
    let is_bad = Arc::new(AtomicU64::new(1));
    let bad = is_bad.clone();
    // After `I`, in the first packet of records.
    let faults = move || if bad.load(Ordering::Relaxed) == 1 { Fault::Flip(200) } else { Fault::None };
    let (following, _) = setting.follow(&replica, faults);
    let stat = || setting.slots.stat(Lsn::ZERO, now_ns()).into_iter().next();
    until("the mark", || stat().is_some_and(|stat| stat.state == SlotState::Failing)).await;
    assert!(stat().unwrap().problem.is_some_and(|why| why.contains("checksum")), "{:?}", stat());
    let news = setting.slots.keep(&Followed(primary.clone()), None, now_ns());
    assert!(news.iter().filter(|line| line.contains("slot north is failing")).count() == 1, "{news:?}");
    // The mark is set before the third stream has ended.
    until("three streams to end", || setting.ended.lock().len() >= 3).await;
    is_bad.store(0, Ordering::Relaxed);
    until("the record", || replica.bytes() == primary.bytes()).await;
    until("the mark to go", || stat().is_some_and(|stat| stat.state == SlotState::Streaming)).await;
    assert_eq!(setting.slots.keep(&Followed(primary.clone()), None, now_ns()), [""; 0]);
    setting.stop(following).await;
}

/// Goal: a slot has one replica at a time. Method: two replicas under one name; the second gets the slot when the
/// first has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_replica_waits_for_the_slot() {
    let primary = Node::primary();
    let (setting, first, second) = (Setting::new(&primary), Node::replica(2), Node::replica(3));
    let (one, _) = setting.follow(&first, || Fault::None);
    until("the first", || first.bytes() == primary.bytes()).await;
    let (two, told) = setting.follow(&second, || Fault::None);
    until("a refusal", || {
        told.lock().iter().any(|told| matches!(told, Told::Lost { why, .. } if why.contains("in use")))
    })
    .await;
    one.abort();
    until("the second", || second.bytes() == primary.bytes()).await;
    setting.stop(two).await;
}

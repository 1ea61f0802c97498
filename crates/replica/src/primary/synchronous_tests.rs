//! A primary and two replicas that count, over in-memory connections: confirmed positions are on the disks that
//! reported them. Logs are lengths, and the test moves the disks of the replicas.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use collie_base::{HistoryId, Lsn, Term};
use collie_env::Env;
use parking_lot::Mutex;
use tokio::{
    io::duplex,
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    BackupFiles, Change, Degrade, QuorumConfig, QuorumList, Sent, Ship, Shipment, Slots, Source, SourceError,
    StreamOptions, Synchronous, serve,
};
use crate::{
    Keep, LinkError,
    identity::Identity,
    key::trusted,
    packet::History,
    standby::{Ended, FollowOptions, Positions, Target, TargetError, follow},
};

/// How long a test waits for an expected event: far longer than it takes on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn identity(node: u64, end: Lsn) -> Identity {
    let term = Term::new(1);
    let histories = vec![History { term, id: HistoryId::new(1), start: Lsn::FIRST, prev_end: Lsn::FIRST }];
    Identity { cluster: 7, node, term, histories, end }
}

/// A primary whose records are single bytes.
#[derive(Debug)]
struct Primary {
    end: Mutex<Lsn>,
    grown: Notify,
    synchronous: Arc<Synchronous>,
    /// The confirmed positions that it was notified of, which must only grow.
    confirmed: Mutex<Sent>,
}

impl Primary {
    fn new(quorum: &str) -> Arc<Self> {
        let list = QuorumList::parse(quorum).unwrap().unwrap();
        let synchronous = Synchronous::new(list, Degrade::Wait);
        let (end, confirmed) = (Mutex::new(Lsn::FIRST), Mutex::default());
        Arc::new(Self { end, grown: Notify::new(), synchronous, confirmed })
    }

    fn append(&self, bytes: u64) -> Lsn {
        let end = {
            let mut end = self.end.lock();
            *end = end.plus(bytes);
            *end
        };
        self.grown.notify_waiters();
        end
    }
}

struct Reader {
    primary: Arc<Primary>,
    at: Lsn,
}

impl Ship for Reader {
    async fn next<'a>(&'a mut self, bytes_max: usize, out: &'a mut Vec<u8>) -> Result<Shipment, SourceError> {
        loop {
            let grown = self.primary.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            let (start, end) = (self.at, *self.primary.end.lock());
            if end > start {
                let bytes = usize::try_from(end.bytes_since(start)).unwrap().min(bytes_max).min(100);
                out.resize(bytes, b'.');
                self.at = start.plus(bytes as u64);
                return Ok(Shipment { prev_end: start, start, end: self.at });
            }
            grown.await;
        }
    }

    fn advance(&mut self, _durable: Lsn) -> Result<(), SourceError> {
        Ok(())
    }
}

/// The primary as a source.
#[derive(Debug)]
struct Followed(Arc<Primary>);

impl Source for Followed {
    type Shipper = Reader;

    fn identity(&self) -> Identity {
        identity(1, self.durable())
    }

    fn durable(&self) -> Lsn {
        *self.0.end.lock()
    }

    fn show(&self) -> Lsn {
        self.0.confirmed.lock().durable
    }

    fn synchronous(&self) -> Option<&Arc<Synchronous>> {
        Some(&self.0.synchronous)
    }

    fn confirm(&self, confirmed: Sent) {
        let mut before = self.0.confirmed.lock();
        let grows = confirmed.received >= before.received && confirmed.durable >= before.durable;
        assert!(grows && confirmed.applied >= before.applied, "Y2: {before:?}, then {confirmed:?}");
        *before = confirmed;
    }

    fn commits(&self) -> u64 {
        0
    }

    fn crc_before(&self, _end: Lsn, _bytes: u32) -> Result<Option<u32>, SourceError> {
        Ok(None)
    }

    fn ship(&self, _slot: &str, from: Lsn, _keep: Keep) -> Result<Reader, SourceError> {
        Ok(Reader { primary: self.0.clone(), at: from })
    }

    fn backup(&self, _slot: &str) -> Result<BackupFiles, SourceError> {
        Err(SourceError::Failed("no files here".to_owned()))
    }

    fn drop_slot(&self, _slot: &str) -> Result<(), SourceError> {
        Ok(())
    }
}

/// A replica: its received, durable and visible positions.
#[derive(Debug)]
struct Replica {
    node: u64,
    at: Mutex<Positions>,
    show: Mutex<Lsn>,
    /// Whether it reports received bytes as durable: the mistake.
    lies: AtomicBool,
}

impl Replica {
    fn new(node: u64) -> Arc<Self> {
        let at = Positions { received: Lsn::FIRST, durable: Lsn::FIRST, applied: Lsn::FIRST };
        let (at, show) = (Mutex::new(at), Mutex::new(Lsn::ZERO));
        Arc::new(Self { node, at, show, lies: AtomicBool::new(false) })
    }

    fn flush(&self) {
        let mut at = self.at.lock();
        at.durable = at.received;
    }
}

impl Target for Replica {
    fn identity(&self) -> Identity {
        identity(self.node, self.at.lock().received)
    }

    fn positions(&self) -> Positions {
        let at = *self.at.lock();
        let durable = if self.lies.load(Ordering::Relaxed) { at.received } else { at.durable };
        Positions { durable, applied: at.received.min(*self.show.lock()), ..at }
    }

    fn tail(&self) -> Result<(u32, u32), TargetError> {
        Ok((0, 0))
    }

    fn receive(&self, start: Lsn, _prev_end: Lsn, records: &[u8]) -> Result<Lsn, TargetError> {
        let mut at = self.at.lock();
        at.received = start.plus(records.len() as u64);
        Ok(at.received)
    }

    fn set_show(&self, show: Lsn) {
        let mut before = self.show.lock();
        *before = show.max(*before);
    }

    fn queue_bytes(&self) -> u64 {
        0
    }
}

/// A serving primary, with the channel that stops all tasks.
struct Setting {
    primary: Arc<Primary>,
    slots: Arc<Slots>,
    heartbeat: Duration,
    stop: watch::Sender<bool>,
}

impl Setting {
    /// Heartbeats are so rare that nothing may wait for one.
    fn new(quorum: &str) -> Self {
        let heartbeat = Duration::from_secs(3600);
        Self { primary: Primary::new(quorum), slots: Arc::default(), heartbeat, stop: watch::Sender::new(false) }
    }

    /// Starts `replica` as a follower under the name of `slot`.
    fn follow(&self, slot: &str, replica: &Arc<Replica>) -> JoinHandle<Ended> {
        let (primary, slots, stopping) = (self.primary.clone(), self.slots.clone(), self.stop.clone());
        let options = StreamOptions { heartbeat: self.heartbeat, timeout: PATIENCE, ..StreamOptions::default() };
        let connect = move || {
            let (near, far) = duplex(1 << 12);
            let (near, far) = trusted(near, far);
            let served = (Arc::new(Followed(primary.clone())), slots.clone());
            let stop = stopping.subscribe();
            tokio::spawn(async move { serve(far, "here", served, options, Env::real(), stop).await });
            std::future::ready(Ok::<_, LinkError>(near))
        };
        let follows = FollowOptions { slot: slot.to_owned(), timeout: PATIENCE, may_copy: true };
        let (replica, stop) = (replica.clone(), self.stop.subscribe());
        tokio::spawn(async move { follow(connect, replica, follows, Env::real(), stop, |_| ()).await })
    }

    fn confirmed(&self) -> Sent {
        *self.primary.confirmed.lock()
    }
}

/// Waits until `done`.
///
/// # Errors
/// It has not happened in time.
async fn until(what: &str, mut done: impl FnMut() -> bool) -> io::Result<()> {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waiting).await.map_err(|_| io::Error::other(format!("waited in vain: {what}")))
}

/// Goal: each position is confirmed when enough members have reached it, `applied` after `show` has come back to
/// them, which waits for no heartbeat. Method: two of three members, whose disks stand still until the test moves
/// them; the third is absent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_confirmed_is_on_enough_disks() -> io::Result<()> {
    let setting = Setting::new("ANY 2 (a, b, c)");
    let [a, b] = [2, 3].map(Replica::new);
    let tasks = [setting.follow("a", &a), setting.follow("b", &b)];
    let end = setting.primary.append(250);
    until("both receive it", || setting.confirmed().received == end).await?;
    assert_eq!(setting.primary.synchronous.stat().connected, 2);
    a.flush();
    until("one has it on its disk", || setting.slots.stat(end, 0).iter().any(|slot| slot.positions.durable == end))
        .await?;
    assert_eq!((setting.confirmed().durable, setting.confirmed().applied), (Lsn::FIRST, Lsn::FIRST));
    b.flush();
    until("both have it on their disks", || setting.confirmed().durable == end).await?;
    until("both show it", || setting.confirmed().applied == end).await?;
    setting.stop.send_replace(true);
    for task in tasks {
        assert_eq!(timeout(PATIENCE, task).await??, Ended::Stopped);
    }
    until("they are away", || setting.primary.synchronous.stat().connected == 0).await?;
    assert_eq!(setting.confirmed().applied, end, "what they have they have");
    Ok(())
}

/// Goal: a change that cannot be noted does not begin, and one in progress is not noted again. Method: a log that
/// refuses, with another change in the middle of a change, and with the same change again.
#[test]
fn a_change_that_cannot_be_noted_is_none() {
    let list = |text: &str| QuorumList::parse(text).unwrap();
    let primary = Primary::new("a");
    let (synchronous, source) = (primary.synchronous.clone(), Followed(primary));
    let changed = |to: &str, noted: Result<Lsn, &'static str>| {
        let choose = |asked: &QuorumConfig| Some(asked.changed_to(list(to))).filter(|changed| changed != asked);
        synchronous.ask(&source, choose, |_, _| noted)
    };
    assert_eq!(changed("b", Ok(Lsn::new(9))), Ok(Some(Lsn::new(9))));
    let before = synchronous.stat();
    assert_eq!(before.asked.to_string(), "ANY 1 (b), and until both have this ANY 1 (a)");
    assert_eq!(changed("c", Err("full")), Err("full"));
    assert_eq!((changed("b", Err("it is not asked")), synchronous.stat()), (Ok(None), before));
    assert_eq!(changed("a", Ok(Lsn::new(12))), Ok(Some(Lsn::new(12))));
    assert_eq!(synchronous.stat().asked.to_string(), "ANY 1 (a)");
}

/// Goal: a change whose end cannot be noted is not complete, and completes at the next tick that can note it
/// (T108): until then the log names both lists, and promotions use them. Method: both lists have the record; a log
/// that refuses the end, then accepts it.
#[test]
fn a_change_whose_end_cannot_be_noted_goes_on() {
    let primary = Primary::new("a");
    let (synchronous, source) = (primary.synchronous.clone(), Followed(primary));
    let [a, b] = ["a", "b"].map(|slot| synchronous.connected(slot));
    let to_b = |asked: &QuorumConfig| Some(asked.changed_to(QuorumList::parse("b").unwrap()));
    let (begin, end) = (Lsn::new(Lsn::FIRST.get() + 9), Lsn::new(Lsn::FIRST.get() + 20));
    assert_eq!(synchronous.ask(&source, to_b, |_, _| Ok::<_, &str>(begin)), Ok(Some(begin)));
    let over = |noted: Result<Lsn, &'static str>| synchronous.tick(&source, 0, |_| true, |_, _| noted);
    assert_eq!(over(Err("it is not asked")), None);
    let reported = Sent { sent: begin, received: begin, durable: begin, applied: begin };
    [&a, &b].into_iter().for_each(|member| member.report(&source, reported));
    let before = synchronous.stat();
    assert_eq!(over(Err("held")), Some((Change::Changed, Err("held"))));
    assert_eq!(synchronous.stat(), before);
    assert_eq!(over(Ok(end)), Some((Change::Changed, Ok(end))));
    assert_eq!(synchronous.stat().asked.to_string(), "ANY 1 (b)");
    assert_eq!(over(Err("it is not asked")), None);
}

/// Returns whether a replica that lost power would still have everything that was confirmed to its primary.
async fn keeps_what_was_confirmed(lies: bool) -> io::Result<bool> {
    let setting = Setting::new("ANY 1 (a)");
    let a = Replica::new(2);
    a.lies.store(lies, Ordering::Relaxed);
    let task = setting.follow("a", &a);
    setting.primary.append(40);
    until("it receives that", || setting.confirmed().received > Lsn::FIRST).await?;
    let end = setting.primary.append(60);
    until("it receives it", || setting.confirmed().received == end).await?;
    // One more round, after which its report of its disk has arrived.
    setting.primary.append(1);
    until("another ack", || setting.confirmed().received > end).await?;
    let kept = setting.confirmed().durable <= a.at.lock().durable;
    setting.stop.send_replace(true);
    timeout(PATIENCE, task).await??;
    Ok(kept)
}

/// Goal: the test detects a replica that acknowledges before its flush: the mistake of a remote flush that is
/// none. Method: an honest replica and one that lies, neither of which flushes; the confirmed position is compared
/// with the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_before_the_flush_is_noticed() -> io::Result<()> {
    assert!(keeps_what_was_confirmed(false).await?);
    assert!(!keeps_what_was_confirmed(true).await?, "the mistake goes unnoticed");
    Ok(())
}

//! `Load`: clients that write through whoever leads, each at one level of `synchronous_commit`, and clients that read on replicas.
//!
//! A session is one connection to one node: what it was told is in its journal, outside of every server. Where a node leads that was cut
//! off, its sessions stay with it until it lets them go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_engine::kv::Token;
use parking_lot::Mutex;
use postgres::{Client, Config, NoTls};

use super::nodes::COUNT;
use crate::{
    bank,
    journal::{Journal, Outcome},
    random::Random,
};

/// A statement that fails so changed nothing: the transaction is not there. After any other error it may be.
const SURE: [&str; 3] = ["40001", "40P01", "25006"];

/// How soon a client looks for another node.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Of how many transactions the youngest sessions are that a reader looks at.
const RECENT_SESSIONS: u64 = 24;

/// What a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Off,
    Local,
    Write,
    Flush,
    Apply,
}

impl Level {
    /// In the order in which writers take them.
    pub(crate) const ALL: [Self; 5] = [Self::Flush, Self::Local, Self::Apply, Self::Off, Self::Write];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Local => "local",
            Self::Write => "remote_write",
            Self::Flush => "on",
            Self::Apply => "remote_apply",
        }
    }

    /// Whether what was answered survives any failover. That which replicas have only written does as long as no machine loses power,
    /// and none does here.
    const fn is_kept(self) -> bool {
        matches!(self, Self::Write | Self::Flush | Self::Apply)
    }
}

/// One connection to a node, and what it was told.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) node: usize,
    pub(crate) level: Level,
    pub(crate) journal: Journal,
    /// Of the acknowledged ones, by sequence number: not of one after which the connection broke.
    pub(crate) tokens: Vec<(u64, Token)>,
}

/// A transaction that somebody saw on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) node: usize,
    pub(crate) client: u64,
    pub(crate) seq: u64,
}

/// What all clients share.
#[derive(Debug, Default)]
struct Shared {
    ports: Mutex<[Option<u16>; COUNT]>,
    stop: AtomicBool,
    /// The number of the last session.
    sessions: AtomicU64,
    acknowledged: AtomicU64,
}

/// Clients at work.
pub(crate) struct Load {
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<Vec<Session>>>,
    readers: Vec<JoinHandle<Vec<Seen>>>,
}

impl Load {
    /// Starts a reader for each node; sessions get numbers from `first` on.
    pub(crate) fn start(ports: [Option<u16>; COUNT], first: u64, random: &mut Random) -> Self {
        let shared = Arc::new(Shared::default());
        *shared.ports.lock() = ports;
        shared.sessions.store(first, Ordering::SeqCst);
        let readers = (0..COUNT).map(|node| {
            let (shared, random) = (shared.clone(), Random::new(random.next()));
            thread::spawn(move || read(&shared, node, random))
        });
        Self { readers: readers.collect(), shared, writers: Vec::new() }
    }

    /// Adds writers, one for each level in turn, that look for whoever leads.
    pub(crate) fn add_writers(&mut self, count: usize, random: &mut Random) {
        for number in 0..count {
            let level = Level::ALL[(self.writers.len() + number) % Level::ALL.len()];
            let (shared, random) = (self.shared.clone(), Random::new(random.next()));
            self.writers.push(thread::spawn(move || write(&shared, level, random)));
        }
    }

    /// Tells where nodes are now.
    pub(crate) fn look_at(&self, ports: [Option<u16>; COUNT]) {
        *self.shared.ports.lock() = ports;
    }

    /// Returns how many commits were answered.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// Has no transaction begin any more.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }

    /// Returns whether all of them have come to an end.
    pub(crate) fn has_ended(&self) -> bool {
        self.writers.iter().all(JoinHandle::is_finished) && self.readers.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all; returns what writers were told and readers saw, and the number of the last session.
    ///
    /// # Errors
    /// A client panicked.
    pub(crate) fn end(self) -> anyhow::Result<(Vec<Session>, Vec<Seen>, u64)> {
        let (mut sessions, mut seen) = (Vec::new(), Vec::new());
        let panicked = || anyhow::anyhow!("a client panicked");
        for writer in self.writers {
            sessions.extend(writer.join().map_err(|_| panicked())?);
        }
        for reader in self.readers {
            seen.extend(reader.join().map_err(|_| panicked())?);
        }
        Ok((sessions, seen, self.shared.sessions.load(Ordering::SeqCst)))
    }
}

fn config(port: u16) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("collie").dbname("collie").connect_timeout(Duration::from_secs(5));
    config
}

/// Writes in one session after the other.
fn write(shared: &Arc<Shared>, level: Level, mut random: Random) -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut node = usize::try_from(random.below(COUNT as u64)).unwrap_or_default();
    while !shared.stop.load(Ordering::SeqCst) {
        let port = shared.ports.lock()[node];
        match port.and_then(|port| session(shared, port, node, level, &mut random)) {
            Some(session) => sessions.push(session),
            None => thread::sleep(LOOK_EVERY),
        }
        node = (node + 1) % COUNT;
    }
    sessions
}

/// Writes to one node until it breaks off; `None`: it does not lead.
fn session(shared: &Shared, port: u16, node: usize, level: Level, random: &mut Random) -> Option<Session> {
    let unconfirmed = Arc::new(AtomicBool::new(false));
    let warned = unconfirmed.clone();
    let mut config = config(port);
    config.notice_callback(move |notice| warned.store(notice.code().code() == "01000", Ordering::SeqCst));
    let mut client = config.connect(NoTls).ok()?;
    if client.query_one("SELECT pg_is_in_recovery()", &[]).ok()?.get(0) {
        return None;
    }
    client.batch_execute(&format!("SET synchronous_commit = {}", level.name())).ok()?;
    let number = shared.sessions.fetch_add(1, Ordering::SeqCst) + 1;
    let mut session = Session { node, level, journal: Journal::new(number, level.is_kept()), tokens: Vec::new() };
    while !shared.stop.load(Ordering::SeqCst) {
        let seq = session.journal.intend();
        let roll_back = random.below(16) == 0;
        match bank::transaction(&mut client, number, seq, roll_back, random) {
            Ok(()) if roll_back => session.journal.settle(Outcome::Aborted),
            // It may be lost if this server is: it was told so.
            Ok(()) if unconfirmed.load(Ordering::SeqCst) => break,
            Ok(()) => {
                session.journal.settle(Outcome::Acknowledged);
                shared.acknowledged.fetch_add(1, Ordering::SeqCst);
                let Ok(row) = client.query_one("SELECT collie_last_commit()", &[]) else { break };
                let token = row.get::<_, Option<&str>>(0).and_then(|text| text.parse().ok());
                session.tokens.extend(token.map(|token| (seq, token)));
            }
            Err(error) if error.code().is_some_and(|code| SURE.contains(&code.code())) => {
                session.journal.settle(Outcome::Aborted);
                // A node that follows by now takes nothing more.
                let follows = error.code().is_some_and(|code| code.code() == "25006");
                if follows || client.batch_execute("ROLLBACK").is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    Some(session)
}

/// Reads on a node while it follows, over one connection: that of a process which has heard of who leads. One that was just opened shows what
/// its own log has, of which it does not know yet how much others have.
fn read(shared: &Arc<Shared>, node: usize, mut random: Random) -> Vec<Seen> {
    let mut seen = Vec::new();
    let port = shared.ports.lock()[node];
    let Some(mut client) = port.and_then(|port| config(port).connect(NoTls).ok()) else { return seen };
    while !shared.stop.load(Ordering::SeqCst) && look(shared, &mut client, node, &mut seen, &mut random).is_ok() {
        thread::sleep(LOOK_EVERY / 4);
    }
    seen
}

/// Notes the newest transaction of a session, if the node follows still when the statement ends: its snapshot is older.
fn look(
    shared: &Shared,
    client: &mut Client,
    node: usize,
    seen: &mut Vec<Seen>,
    random: &mut Random,
) -> Result<(), postgres::Error> {
    let last = shared.sessions.load(Ordering::SeqCst);
    let number = last.saturating_sub(random.below(RECENT_SESSIONS));
    let row = client.query_one(
        &format!("SELECT pg_is_in_recovery(), coalesce(max(seq), 0) FROM receipts WHERE client = {number}"),
        &[],
    )?;
    let (follows, seq): (bool, i32) = (row.get(0), row.get(1));
    if follows && seq > 0 {
        seen.push(Seen { node, client: number, seq: u64::from(seq.unsigned_abs()) });
    }
    Ok(())
}

//! `Load`: clients that write through the leader, each at one level of `synchronous_commit`, and clients that read on
//! replicas.
//!
//! A session is one connection to one node; its answers are in its journal, outside of every server. If a leader is cut
//! off, its sessions stay with it until it ends them.
//!
//! One more client checks snapshots on all nodes: an inconsistent one ends the run. Another, optional one creates,
//! fills and drops tables on the first node that leads, until a step is not answered.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_engine::Token;
use parking_lot::Mutex;
use postgres::{Client, Config, NoTls};

use crate::{
    bank,
    definitions::Definitions,
    journal::{Journal, Outcome},
    random::Random,
    trio::{COUNT, NAMES},
};

/// The errors after which a transaction is certainly not committed. After any other error it may be.
const SURE: [&str; 3] = ["40001", "40P01", "25006"];

/// The pause before a client looks for another node.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The longest time that a pausing client takes to notice the stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);

/// A reader looks at a random one of this many newest sessions.
const RECENT_SESSIONS: u64 = 24;

/// The `synchronous_commit` of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Off,
    Local,
    Write,
    Flush,
    Apply,
}

impl Level {
    /// All levels, in the order in which writers take them.
    pub(crate) const ALL: [Self; 5] = [Self::Flush, Self::Local, Self::Apply, Self::Off, Self::Write];

    /// The levels whose commits survive any fault.
    pub(crate) const KEPT: [Self; 2] = [Self::Flush, Self::Apply];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Local => "local",
            Self::Write => "remote_write",
            Self::Flush => "on",
            Self::Apply => "remote_apply",
        }
    }

    /// Returns whether an acknowledged commit survives any failover. One that replicas have only written survives if no
    /// machine loses power.
    const fn is_kept(self, power_fails: bool) -> bool {
        match self {
            Self::Flush | Self::Apply => true,
            Self::Write => !power_fails,
            Self::Off | Self::Local => false,
        }
    }
}

/// A connection to a node, and the answers that it got.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) node: usize,
    pub(crate) level: Level,
    pub(crate) journal: Journal,
    /// The tokens of acknowledged transactions, by sequence number; one is missing if the connection broke right after
    /// the commit.
    pub(crate) tokens: Vec<(u64, Token)>,
    /// The number of transactions that a leader without its quorum acknowledged with the leave of a witness.
    pub(crate) alone: u64,
}

/// A transaction that a reader saw on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) node: usize,
    pub(crate) client: u64,
    pub(crate) seq: u64,
}

/// How clients work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// The average pause of a writer after a transaction, and of a reader after a look. Pauses come in bursts of short
    /// ones, so that transactions overlap however long the average is.
    pub(crate) pause: Duration,
    /// Whether machines lose power.
    pub(crate) power_fails: bool,
    /// Whether a commit with the warning that the leader acknowledges alone survives all the same: a witness has noted
    /// that before, and lets no other node lead.
    pub(crate) alone_is_kept: bool,
    /// The levels that writers use in turn.
    pub(crate) levels: &'static [Level],
}

impl Habits {
    /// No pauses, no loss of power, and all levels.
    pub(crate) const RESTLESS: Self =
        Self { pause: Duration::ZERO, power_fails: false, alone_is_kept: false, levels: &Level::ALL };

    /// Pauses, at most until `stop`.
    pub(crate) fn pause(&self, stop: &AtomicBool, random: &mut Random) {
        let mean_us = u64::try_from(self.pause.as_micros()).unwrap_or(u64::MAX);
        let most_us = if random.below(16) == 0 { mean_us.saturating_mul(28) } else { mean_us / 4 };
        sleep(Duration::from_micros(random.below(most_us)), stop);
    }
}

/// Sleeps, at most until `stop`.
fn sleep(mut time: Duration, stop: &AtomicBool) {
    while !time.is_zero() && !stop.load(Ordering::SeqCst) {
        let piece = time.min(STOPPED_WITHIN);
        thread::sleep(piece);
        time -= piece;
    }
}

/// The state that all clients share.
#[derive(Debug)]
struct Shared {
    habits: Habits,
    places: Mutex<[Option<SocketAddr>; COUNT]>,
    /// The first inconsistent snapshot, if one was found.
    wrong: Mutex<Option<String>>,
    /// The reason why the last session of a writer ended.
    refusal: Mutex<String>,
    /// The number of snapshots that were checked.
    snapshots: AtomicU64,
    stop: AtomicBool,
    /// The number of the last session.
    sessions: AtomicU64,
    acknowledged: AtomicU64,
}

impl Shared {
    fn refuse(&self, node: usize, error: &postgres::Error) {
        let words = error.as_db_error().map_or(error.to_string(), ToString::to_string);
        *self.refusal.lock() = format!("{}: {words}", NAMES[node]);
    }
}

/// Clients at work.
pub(crate) struct Load {
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<Vec<Session>>>,
    readers: Vec<JoinHandle<Vec<Seen>>>,
    auditor: JoinHandle<()>,
    definer: Option<JoinHandle<Definitions>>,
}

/// The answers that clients got.
pub(crate) struct Told {
    pub(crate) sessions: Vec<Session>,
    /// The transactions that readers saw on replicas.
    pub(crate) seen: Vec<Seen>,
    /// Those of the client that defines tables, if there was one.
    pub(crate) definitions: Option<Definitions>,
    /// The number of the last session.
    pub(crate) last_session: u64,
}

impl Load {
    /// Starts a reader for each node and the client that checks snapshots; sessions get numbers above `first`.
    pub(crate) fn start(places: [Option<SocketAddr>; COUNT], habits: Habits, first: u64, random: &mut Random) -> Self {
        let (wrong, refusal, snapshots, stop, acknowledged) = Default::default();
        let (places, sessions) = (Mutex::new(places), AtomicU64::new(first));
        let shared = Arc::new(Shared { habits, places, wrong, refusal, snapshots, stop, sessions, acknowledged });
        let readers = (0..COUNT).map(|node| {
            let (shared, random) = (shared.clone(), Random::new(random.next()));
            thread::spawn(move || read(&shared, node, random))
        });
        let readers = readers.collect();
        let auditor = {
            let (shared, random) = (shared.clone(), Random::new(random.next()));
            thread::spawn(move || audit(&shared, random))
        };
        Self { readers, auditor, definer: None, shared, writers: Vec::new() }
    }

    /// Adds a client that continues with `definitions`.
    pub(crate) fn add_definer(&mut self, definitions: Definitions, random: &mut Random) {
        let (shared, random) = (self.shared.clone(), Random::new(random.next()));
        self.definer = Some(thread::spawn(move || define(&shared, definitions, random)));
    }

    /// Adds writers, one for each of the habits' levels in turn, which look for the leader.
    pub(crate) fn add_writers(&mut self, count: usize, random: &mut Random) {
        for _ in 0..count {
            let levels = self.shared.habits.levels;
            let level = levels[self.writers.len() % levels.len()];
            let (shared, random) = (self.shared.clone(), Random::new(random.next()));
            self.writers.push(thread::spawn(move || write(&shared, level, random)));
        }
    }

    /// Sets the current addresses of the nodes.
    pub(crate) fn look_at(&self, places: [Option<SocketAddr>; COUNT]) {
        *self.shared.places.lock() = places;
    }

    /// Returns the number of acknowledged commits.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// Returns the reason why the last session of a writer ended.
    pub(crate) fn refusal(&self) -> String {
        self.shared.refusal.lock().clone()
    }

    /// Lets no further transaction begin.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }

    /// Returns whether all clients have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.writers.iter().all(JoinHandle::is_finished)
            && self.readers.iter().all(JoinHandle::is_finished)
            && self.auditor.is_finished()
            && self.definer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the number of snapshots that were checked.
    pub(crate) fn snapshots(&self) -> u64 {
        self.shared.snapshots.load(Ordering::SeqCst)
    }

    /// Waits for all clients; returns their answers.
    ///
    /// # Errors
    /// A client panicked; a snapshot was inconsistent.
    pub(crate) fn end(self) -> anyhow::Result<Told> {
        let (mut sessions, mut seen) = (Vec::new(), Vec::new());
        let panicked = || anyhow::anyhow!("a client panicked");
        for writer in self.writers {
            sessions.extend(writer.join().map_err(|_| panicked())?);
        }
        for reader in self.readers {
            seen.extend(reader.join().map_err(|_| panicked())?);
        }
        self.auditor.join().map_err(|_| panicked())?;
        let definitions = self.definer.map(|definer| definer.join().map_err(|_| panicked())).transpose()?;
        if let Some(wrong) = self.shared.wrong.lock().take() {
            anyhow::bail!("{wrong}");
        }
        Ok(Told { sessions, seen, definitions, last_session: self.shared.sessions.load(Ordering::SeqCst) })
    }
}

/// Returns a client's configuration for a node.
pub(crate) fn config(place: SocketAddr) -> Config {
    let mut config = Config::new();
    config
        .host(&place.ip().to_string())
        .port(place.port())
        .user("collie")
        .dbname("collie")
        .connect_timeout(Duration::from_secs(5));
    config
}

/// Writes in one session after the other, until the stop.
fn write(shared: &Arc<Shared>, level: Level, mut random: Random) -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut node = usize::try_from(random.below(COUNT as u64)).unwrap_or_default();
    while !shared.stop.load(Ordering::SeqCst) {
        let place = shared.places.lock()[node];
        match place.and_then(|place| session(shared, place, node, level, &mut random)) {
            Some(session) => sessions.push(session),
            None => thread::sleep(LOOK_EVERY),
        }
        node = (node + 1) % COUNT;
    }
    sessions
}

/// Connects to a node. The returned flag is set once a commit may be lost with the node.
pub(crate) fn connect(place: SocketAddr) -> Option<(Client, Arc<AtomicBool>)> {
    let unconfirmed = Arc::new(AtomicBool::new(false));
    let warned = unconfirmed.clone();
    let mut config = config(place);
    config.notice_callback(move |notice| warned.store(notice.code().code() == "01000", Ordering::SeqCst));
    Some((config.connect(NoTls).ok()?, unconfirmed))
}

/// Connects as [`connect`] does; returns `None` if the node does not lead.
pub(crate) fn connect_to_leader(place: SocketAddr) -> Option<(Client, Arc<AtomicBool>)> {
    let (mut client, unconfirmed) = connect(place)?;
    let follows: bool = client.query_one("SELECT pg_is_in_recovery()", &[]).ok()?.get(0);
    (!follows).then_some((client, unconfirmed))
}

/// Creates, fills and drops tables on the first node that leads, until a step is not answered; whether that step was
/// committed is determined later from the tables.
fn define(shared: &Shared, mut definitions: Definitions, mut random: Random) -> Definitions {
    let mut node = usize::try_from(random.below(COUNT as u64)).unwrap_or_default();
    while !shared.stop.load(Ordering::SeqCst) {
        let place = shared.places.lock()[node];
        if let Some((mut client, unconfirmed)) = place.and_then(connect_to_leader) {
            while !shared.stop.load(Ordering::SeqCst)
                && definitions.step(&mut client, &mut random).is_ok()
                && (shared.habits.alone_is_kept || !unconfirmed.load(Ordering::SeqCst))
            {
                definitions.settle();
                sleep(LOOK_EVERY + shared.habits.pause, &shared.stop);
            }
            return definitions;
        }
        thread::sleep(LOOK_EVERY);
        node = (node + 1) % COUNT;
    }
    definitions
}

/// Writes to one node until its session ends; returns `None` if the node does not lead.
fn session(shared: &Shared, place: SocketAddr, node: usize, level: Level, random: &mut Random) -> Option<Session> {
    let (mut client, unconfirmed) = connect_to_leader(place)?;
    client.batch_execute(&format!("SET synchronous_commit = {}", level.name())).ok()?;
    let number = shared.sessions.fetch_add(1, Ordering::SeqCst) + 1;
    let mut session = Session {
        node,
        level,
        journal: Journal::new(number, level.is_kept(shared.habits.power_fails)),
        tokens: Vec::new(),
        alone: 0,
    };
    while !shared.stop.load(Ordering::SeqCst) {
        shared.habits.pause(&shared.stop, random);
        let seq = session.journal.intend();
        let roll_back = random.below(16) == 0;
        match bank::transaction(&mut client, number, seq, roll_back, random) {
            Ok(()) if roll_back => session.journal.settle(Outcome::Aborted),
            // A warning said that the commit may be lost with this server, so its outcome stays unknown.
            Ok(()) if unconfirmed.load(Ordering::SeqCst) && !shared.habits.alone_is_kept => break,
            Ok(()) => {
                session.journal.settle(Outcome::Acknowledged);
                session.alone += u64::from(unconfirmed.swap(false, Ordering::SeqCst));
                shared.acknowledged.fetch_add(1, Ordering::SeqCst);
                let Ok(row) = client.query_one("SELECT collie_last_commit()", &[]) else { break };
                let token = row.get::<_, Option<&str>>(0).and_then(|text| text.parse().ok());
                session.tokens.extend(token.map(|token| (seq, token)));
            }
            Err(error) if error.code().is_some_and(|code| SURE.contains(&code.code())) => {
                session.journal.settle(Outcome::Aborted);
                // A node that follows now accepts no more writes.
                let follows = error.code().is_some_and(|code| code.code() == "25006");
                shared.refuse(node, &error);
                if follows || client.batch_execute("ROLLBACK").is_err() {
                    break;
                }
            }
            Err(error) => {
                shared.refuse(node, &error);
                break;
            }
        }
    }
    Some(session)
}

/// Reads on a node while it follows, over a single connection, so that the node's process knows the leader. A node that
/// was just opened shows its whole log, without knowing how much of it other nodes have.
fn read(shared: &Arc<Shared>, node: usize, mut random: Random) -> Vec<Seen> {
    let mut seen = Vec::new();
    let place = shared.places.lock()[node];
    let Some(mut client) = place.and_then(|place| config(place).connect(NoTls).ok()) else { return seen };
    while !shared.stop.load(Ordering::SeqCst) && look(shared, &mut client, node, &mut seen, &mut random).is_ok() {
        thread::sleep(LOOK_EVERY / 4);
        shared.habits.pause(&shared.stop, &mut random);
    }
    seen
}

/// Four sums that are equal in every snapshot, since each transaction adds its amount to all of them.
const SUMS: &str = "SELECT (SELECT sum(abalance)::bigint FROM accounts), (SELECT sum(tbalance)::bigint FROM tellers), \
                    (SELECT sum(bbalance)::bigint FROM branches), coalesce((SELECT sum(delta)::bigint FROM history), 0)";

/// Checks one snapshot after the other, on every node, leader or replica: four tables agree in each, and still do when
/// they are read again.
fn audit(shared: &Shared, mut random: Random) {
    while !shared.stop.load(Ordering::SeqCst) {
        let node = usize::try_from(random.below(COUNT as u64)).unwrap_or_default();
        let place = shared.places.lock()[node];
        let sums = place.and_then(|place| sums_of_a_snapshot(place, &mut random).ok());
        if let Some([first, second]) = sums {
            shared.snapshots.fetch_add(1, Ordering::SeqCst);
            if first != second || first.iter().any(|sum| *sum != first[0]) {
                let text = format!("{} shows a snapshot with the sums {first:?}, then {second:?}", NAMES[node]);
                shared.wrong.lock().get_or_insert(text);
            }
        }
        // Each check reads everything that was ever written, so the pause is longer.
        sleep(LOOK_EVERY + shared.habits.pause * 4, &shared.stop);
    }
}

fn sums_of_a_snapshot(place: SocketAddr, random: &mut Random) -> Result<[[i64; 4]; 2], postgres::Error> {
    let mut client = config(place).connect(NoTls)?;
    client.batch_execute("SET statement_timeout = '20s'; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let mut sums = || {
        let row = client.query_one(SUMS, &[])?;
        Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?])
    };
    let first = sums()?;
    thread::sleep(Duration::from_millis(random.below(20)));
    Ok([first, sums()?])
}

/// Records the newest transaction of a session, if the node still follows when the statement ends, since then its
/// snapshot is a replica's.
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

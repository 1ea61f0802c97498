//! `Slots`: the replicas of a primary, by name.
//!
//! The log itself keeps the position of a slot (as a consumer of that name, which survives a crash); a connection
//! adds the rest, which is here: the node, its reported positions, and the time since it last sent something.
//!
//! # Invariants
//! - S1. A slot has one connection at a time, and one node id is connected once: a copied directory is refused.
//! - S2. The figures of a slot stay when its connection ends, until the slot is dropped. They are in the file
//!   `slots` too, at most [`SAVE_EVERY`] old at a crash: a node that starts again knows its replicas before any of
//!   them connects.
//! - S3. A connection that is refused leaves its slot as it was: no slot of another replica is lost by it, and
//!   none is made.
//! - S4. A slot keeps log as its [`Life`] says: up to a number of bytes, which the log enforces, and for a time,
//!   which [`Slots::keep`] enforces; beyond either it is expired, and keeps none. Time counts while this node
//!   runs: only then is log written.
//! - S5. A slot is dropped in the log first, then in the file: after a crash between the two it is dropped. It
//!   expires in the file first: after a crash between the two the next [`Slots::keep`] frees the log that it kept.
//! - S6. Commits are sampled while a replica is connected, about [`DRAWN_PER_S`] per second, and all if there are
//!   fewer.

use std::{collections::BTreeMap, io, path::Path, sync::Arc, time::Duration};

use collie_base::Lsn;
use collie_env::Env;
use parking_lot::Mutex;
use thiserror::Error;

use super::{
    DrawnCommit, HeldSlot, Marks, Source, SourceError,
    delay::{Delay, Lags},
    delay_history::{DelayHistory, DelaySecond, DelayTotals, Standing},
    progress::{Progress, Sent},
    replica_fault::ReplicaFault,
    slots_file::{NewerSlots, SlotsFile, StoredSlot, Unread},
};
use crate::{
    Event, Keep, Life, LinkError,
    packet::{Ack, DelayWindow},
};

/// How old the file may be while positions change.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// The least time that a filled replica is given to open its copy; the time is twice that of its copy if that is
/// longer.
const OPENING_NS: u64 = 600_000_000_000;

/// The target of S6.
const DRAWN_PER_S: u64 = 1000;

/// A connection number that marks a slot which is being dropped.
const DROPPING: u64 = 0;

/// Why a slot no longer keeps log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// More log would be kept for it than `replication.slot_bytes` allows.
    Bytes,
    /// Its replica was absent for `replication.slot_age`.
    Age,
    /// The log has reached `wal.max_segments`.
    Files,
}

impl Expiry {
    /// Returns the word in views.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Age => "age",
            Self::Files => "files",
        }
    }
}

/// The state of a slot's replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It has everything that is durable here, or nearly everything.
    Streaming,
    /// It is being sent the log that it missed.
    CatchingUp,
    /// It is being filled.
    Backup,
    /// It was filled, and has not connected since.
    Copied,
    /// It is not connected.
    Away,
    /// It is not connected, and the log that it needs is no longer kept: it has to be rebuilt.
    Expired,
    /// Its streams end at one position, again and again.
    Failing,
    /// It reported that it has stopped: its log cannot be applied, or its rows or log differ from this node's.
    Stopped,
}

impl SlotState {
    /// Returns the word in views, PostgreSQL's where there is one.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::CatchingUp => "catchup",
            Self::Backup => "backup",
            Self::Copied => "copied",
            Self::Away => "away",
            Self::Expired => "expired",
            Self::Failing => "failing",
            Self::Stopped => "stopped",
        }
    }
}

/// A slot, as views display it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStat {
    /// Its name.
    pub name: String,
    /// The id of its replica's directory.
    pub node: u64,
    /// The address from which its replica connected.
    pub address: String,
    /// The state of its replica.
    pub state: SlotState,
    /// Whether its replica is connected.
    pub is_connected: bool,
    /// Why it is failing or stopped, if it is.
    pub problem: Option<String>,
    /// Its reported positions.
    pub positions: Sent,
    /// Its shortest round trip, in nanoseconds; `u64::MAX` before the first.
    pub rtt_min_ns: u64,
    /// Bytes that wait on the replica to be applied.
    pub queue_bytes: u32,
    /// When its last ack arrived, on this node's clock; if it has not connected in this process, when the process
    /// began.
    pub heard_ns: u64,
    /// When it last sent something, in microseconds since 1970; 0 if that is not known.
    pub heard_wall_us: i64,
    /// The time since then while this node ran, at the call, in nanoseconds.
    pub unheard_ns: u64,
    /// Why it is expired, if it is.
    pub expired: Option<Expiry>,
    /// How much later its readers saw commits, in the newest second with a measurement; `None` if that ended ten
    /// or more seconds ago, or if the replica does not keep up.
    pub delay: Option<DelayWindow>,
    /// The position at which its rows were last found to be the primary's; zero before the first comparison of its
    /// connection.
    pub verified: Lsn,
    /// The position below which its log was found to have this node's bytes, as far as both had them; zero before
    /// the first comparison of its connection.
    pub log_verified: Lsn,
    /// The same for the last minute or two, over its connections.
    pub summary: Option<DelayWindow>,
    /// The totals of its delays.
    pub totals: DelayTotals,
    /// For how long it has owed the oldest position that its readers do not see, in nanoseconds, at most since its
    /// slot was made.
    pub owed_ns: u64,
    /// How long it takes to catch up at the present rates, in nanoseconds; `None` when it is not gaining.
    pub drain_ns: Option<u64>,
    /// The times until its acks report that it has a commit.
    pub lags: Lags,
}

#[derive(Clone, Debug)]
struct Slot {
    /// Its `unheard_ns` is the count of an earlier process, until the replica sends something. Its `state` is
    /// computed from `life`.
    stat: SlotStat,
    life: Life,
    /// The time of the last change of `life`, on this node's clock.
    life_ns: u64,
    /// The duration of its last copy.
    copy_ns: u64,
    /// Whether its readers see everything that was durable when its stream began.
    is_caught_up: bool,
    delay: Delay,
    history: DelayHistory,
    /// When it was made, or this node started.
    since_ns: u64,
    trouble: ReplicaFault,
    connection: Option<u64>,
}

impl Slot {
    fn new(stat: SlotStat) -> Self {
        let (delay, history, trouble) = Default::default();
        let (since_ns, life, life_ns) = (stat.heard_ns, Life::default(), stat.heard_ns);
        let (copy_ns, is_caught_up, connection) = (0, false, None);
        Self { stat, life, life_ns, copy_ns, is_caught_up, delay, history, since_ns, trouble, connection }
    }

    /// Creates a slot whose replica has not connected.
    fn away(name: String, now_ns: u64) -> Self {
        Self::new(SlotStat::away(name, now_ns))
    }

    fn unheard_ns(&self, now_ns: u64) -> u64 {
        self.stat.unheard_ns.saturating_add(now_ns.saturating_sub(self.stat.heard_ns))
    }

    fn is_connected(&self) -> bool {
        self.connection.is_some_and(|connection| connection != DROPPING)
    }

    /// Returns for how long the replica has owed the oldest position that its readers do not see.
    fn owed_ns(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> u64 {
        let owed_ns = marks.owed_ns(self.stat.positions.applied, durable, now_ns);
        owed_ns.min(now_ns.saturating_sub(self.since_ns))
    }

    /// Records sampled commits.
    fn on_drawn(&mut self, drawn: &[DrawnCommit]) {
        let Self { delay, history, .. } = self;
        delay.on_drawn(drawn, &mut |measured| history.note(measured));
    }

    /// Returns the state to display: that of a mark, unless the replica is being filled or has to be.
    fn shown_state(&self) -> SlotState {
        let state = match self.life {
            Life::Lost if self.stat.expired.is_some() => SlotState::Expired,
            Life::Lost | Life::Away => SlotState::Away,
            Life::Copying => SlotState::Backup,
            Life::Copied => SlotState::Copied,
            Life::Joining | Life::Following if !self.is_caught_up => SlotState::CatchingUp,
            Life::Joining | Life::Following => SlotState::Streaming,
        };
        let mark = self.trouble.mark().map(|(state, _)| state);
        mark.filter(|_| !matches!(state, SlotState::Backup | SlotState::Copied | SlotState::Expired)).unwrap_or(state)
    }

    /// Steps its `life` at `now_ns`.
    fn on(&mut self, event: Event, now_ns: u64) {
        let (before, next) = (self.life, self.life.on(event));
        if before == next {
            return;
        }
        if before == Life::Copying {
            self.copy_ns = now_ns.saturating_sub(self.life_ns);
        }
        (self.life, self.life_ns) = (next, now_ns);
        if !matches!(next, Life::Lost) {
            self.stat.expired = None;
        }
        if !matches!(next, Life::Joining | Life::Following) {
            self.is_caught_up = false;
        }
        if next == Life::Copying {
            self.trouble = ReplicaFault::default();
        }
    }

    fn expire(&mut self, why: Expiry, now_ns: u64) {
        self.on(if why == Expiry::Age { Event::TooOld } else { Event::Beyond }, now_ns);
        self.stat.expired = Some(why);
    }

    /// Returns why it expires at `now_ns`, if it does; `lost` is why the log has dropped its position.
    fn expires(&self, lost: Option<Expiry>, age_max: Option<Duration>, now_ns: u64) -> Option<Expiry> {
        if self.life == Life::Lost && self.stat.expired.is_some() {
            return None;
        }
        let is_too_old = age_max.is_some_and(|most| u128::from(self.unheard_ns(now_ns)) >= most.as_nanos());
        lost.or((is_too_old && self.connection.is_none() && self.life != Life::Lost).then_some(Expiry::Age))
    }

    /// Applies the events that come from the time and the log.
    fn look(&mut self, is_within: bool, now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.life_ns);
        if self.connection.is_none() && waited_ns >= OPENING_NS.max(self.copy_ns.saturating_mul(2)) {
            self.on(Event::Waited, now_ns);
        }
        if is_within && self.life == Life::Joining {
            self.on(Event::WithinBounds, now_ns);
        }
    }
}

/// Returns the line that a slot has expired, for `why`, when its state was `before` and its replica had been
/// silent for `unheard_ns`.
fn expiry_line(name: &str, why: Expiry, before: Life, unheard_ns: u64) -> String {
    let limit = match why {
        Expiry::Bytes => "more log would be kept for its replica than replication.slot_bytes allows".to_owned(),
        Expiry::Files if before.keeps() == Keep::Whatever => {
            "the log has come to wal.max_segments files before its replica, which was filled, had caught up: raise wal.max_segments or \
             replication.backup_rate, or write less until it has"
                .to_owned()
        }
        Expiry::Files => "the log has come to wal.max_segments files".to_owned(),
        Expiry::Age => {
            let seconds = unheard_ns / 1_000_000_000;
            format!("its replica was not heard of for {seconds} s, and replication.slot_age is less")
        }
    };
    format!(
        "replication slot {name} is expired: {limit}. The log that it kept is given up, and its replica is rebuilt when it comes \
         (replication.auto_rebuild there); SELECT pg_drop_replication_slot('{name}') forgets the slot"
    )
}

#[derive(Debug, Default)]
struct Inner {
    slots: BTreeMap<String, Slot>,
    connections: u64,
    /// Lines for the operator that have not been returned yet.
    news: Vec<String>,
    /// Whether the file is out of date, and whether it should be written soon.
    changed: bool,
    urgent: bool,
    saved_ns: u64,
    /// The newest time that was passed in.
    now_ns: u64,
    /// The number of commits when the sampling rate was last decided, and the time of that.
    committed: (u64, u64),
}

/// The slots of a primary.
#[derive(Debug, Default)]
pub struct Slots {
    inner: Mutex<Inner>,
    /// When this node passed positions.
    marks: Mutex<Marks>,
    /// Constant after opening.
    env: Option<Env>,
    /// Locked while the file is written.
    file: Mutex<Option<SlotsFile>>,
}

/// A connection's claim to its slot: when it is dropped, the slot is away.
#[derive(Debug)]
pub(super) struct Attached {
    slots: Arc<Slots>,
    name: String,
    connection: u64,
    /// The slot as it was, until the connection is known to be that of its replica (S3).
    before: Mutex<Option<Option<Slot>>>,
}

/// Why a slot was not dropped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DropError {
    /// There is no slot of that name.
    #[error("there is no such slot")]
    Unknown,
    /// Its replica is connected.
    #[error("its replica is connected")]
    InUse,
    /// The log's list of consumers cannot be written.
    #[error("{0}")]
    Source(SourceError),
}

/// Why a slot is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// This node is connected already, as that slot.
    Node(String),
    /// Another node has the slot.
    Slot,
    /// There are too many.
    TooMany,
}

impl Slots {
    /// Creates a list without slots that is in no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses the data directory `dir` if a newer program has written its slots. A caller that opens the database
    /// there checks this first, while nothing has been written.
    ///
    /// # Errors
    /// [`NewerSlots`]. A file that cannot be read is no error here: [`Slots::open`] reports it.
    pub fn check(env: &Env, dir: &Path) -> Result<(), NewerSlots> {
        match SlotsFile::new(env.clone(), dir).read() {
            Err(Unread::Newer(newer)) => Err(newer),
            _ => Ok(()),
        }
    }

    /// Reads the slots of the data directory `dir`, whose log keeps the positions in `held`. Also returns a notice
    /// for the operator.
    ///
    /// # Errors
    /// [`NewerSlots`], which [`Slots::check`] finds before a database is opened.
    pub fn open(env: Env, dir: &Path, held: Vec<HeldSlot>) -> Result<(Self, Option<String>), NewerSlots> {
        let now_ns = env.clock.now_ns();
        let file = SlotsFile::new(env.clone(), dir);
        let (stored, notice) = match file.read() {
            Ok(stored) => (stored, None),
            Err(Unread::Newer(newer)) => return Err(newer),
            Err(error) => {
                let text = format!("the list of replication slots in {} cannot be read: {error}; ", dir.display());
                (Vec::new(), Some(text + "names and places are the log's, who the replicas are shows when they come"))
            }
        };
        let mut slots = BTreeMap::new();
        for held in held {
            let at = held.lsn;
            let mut slot = Slot::away(held.name.clone(), now_ns);
            // More log than the bounds allow is kept only for a filled replica.
            slot.life = if held.is_within || held.lost.is_some() { Life::Away } else { Life::Copied };
            slot.stat.positions = Sent { sent: at, received: at, durable: at, applied: Lsn::ZERO };
            slots.insert(held.name, slot);
        }
        for stored in stored {
            let StoredSlot { name, node, received, durable, applied, unheard_ns, heard_wall_us, expired, address } =
                stored;
            // S5: not in the log, and not expired: dropped.
            if !slots.contains_key(&name) && expired.is_none() {
                continue;
            }
            let slot = slots.entry(name.clone()).or_insert_with(|| Slot::away(name, now_ns));
            // The position in the log may be later than the one in the file, or earlier: both were true.
            let durable = durable.max(slot.stat.positions.durable);
            let received = received.max(durable);
            slot.stat.positions = Sent { sent: received, received, durable, applied };
            (slot.stat.node, slot.stat.address) = (node, address);
            (slot.stat.unheard_ns, slot.stat.heard_wall_us) = (unheard_ns, heard_wall_us);
            if let Some(why) = expired {
                slot.expire(why, now_ns);
            }
        }
        let slots = Self {
            inner: Mutex::new(Inner { slots, saved_ns: now_ns, ..Inner::default() }),
            marks: Mutex::default(),
            env: Some(env),
            file: Mutex::new(Some(file)),
        };
        Ok((slots, notice))
    }

    /// Returns all slots, by name, at `now_ns`, when this node has everything below `durable` on disk.
    pub fn stat(&self, durable: Lsn, now_ns: u64) -> Vec<SlotStat> {
        let (inner, marks) = (self.inner.lock(), self.marks.lock());
        let stat = |slot: &Slot| SlotStat {
            state: slot.shown_state(),
            is_connected: slot.is_connected(),
            problem: slot.trouble.mark().map(|(_, why)| why.to_owned()),
            delay: slot.history.newest(now_ns).filter(|_| slot.shown_state() == SlotState::Streaming),
            summary: slot.history.summary(),
            totals: slot.history.totals(),
            owed_ns: slot.owed_ns(&marks, durable, now_ns),
            drain_ns: slot.history.drain_ns(durable.bytes_since(slot.stat.positions.applied)),
            unheard_ns: slot.unheard_ns(now_ns),
            lags: slot.delay.lags(&marks, durable, now_ns),
            ..slot.stat.clone()
        };
        inner.slots.values().map(stat).collect()
    }

    /// Returns the seconds of each slot, by name, oldest first.
    pub fn seconds(&self) -> Vec<(String, Vec<DelaySecond>)> {
        let inner = self.inner.lock();
        inner.slots.iter().map(|(name, slot)| (name.clone(), slot.history.seconds().copied().collect())).collect()
    }

    /// Does the periodic work of a primary: records this node's durable position, and how far each replica is
    /// behind. The server calls this every [`StreamOptions::heartbeat`](super::StreamOptions::heartbeat), even
    /// while no replica is connected: the time that an absent replica owes is counted here.
    pub fn beat<S: Source>(&self, source: &S, now_ns: u64) {
        let durable = source.durable();
        self.pass(durable, now_ns);
        let mut inner = self.inner.lock();
        inner.now_ns = now_ns.max(inner.now_ns);
        inner.take_drawn(source);
        if let Some(one_in) = inner.one_in(source.commits(), now_ns) {
            source.draw(one_in);
        }
        let marks = self.marks.lock();
        for slot in inner.slots.values_mut() {
            let (state, applied) = (slot.shown_state(), slot.stat.positions.applied);
            let standing = Standing { state, owed_ns: slot.owed_ns(&marks, durable, now_ns), durable, applied };
            slot.history.tick(now_ns, &slot.delay, standing);
        }
    }

    /// Records that everything below `durable` is on this node's disk.
    pub(super) fn pass(&self, durable: Lsn, now_ns: u64) {
        self.marks.lock().pass(durable, now_ns);
    }

    /// Gives a slot to a connection (S1).
    pub(super) fn attach(
        self: &Arc<Self>,
        name: &str,
        node: u64,
        address: &str,
        slots_max: usize,
        now_ns: u64,
    ) -> Result<Attached, Busy> {
        let mut inner = self.inner.lock();
        let connected = |slot: &&Slot| slot.connection.is_some();
        if let Some(slot) = inner.slots.values().filter(connected).find(|slot| slot.stat.node == node) {
            return Err(Busy::Node(slot.stat.name.clone()));
        }
        let before = inner.slots.get(name).cloned();
        if before.as_ref().is_some_and(|slot| slot.connection.is_some()) {
            return Err(Busy::Slot);
        }
        if before.is_none() && inner.slots.len() >= slots_max {
            return Err(Busy::TooMany);
        }
        inner.connections += 1;
        inner.now_ns = now_ns.max(inner.now_ns);
        let connection = inner.connections;
        let stat = SlotStat {
            node,
            address: address.to_owned(),
            positions: before.as_ref().map(|slot| slot.stat.positions).unwrap_or_default(),
            expired: before.as_ref().and_then(|slot| slot.stat.expired),
            ..SlotStat::away(name.to_owned(), now_ns)
        };
        let mut slot = Slot { connection: Some(connection), since_ns: now_ns, ..Slot::new(stat) };
        if let Some(before) = &before {
            (slot.history, slot.trouble) = (before.history.clone(), before.trouble.clone());
            slot.since_ns = before.since_ns;
            (slot.life, slot.life_ns, slot.copy_ns) = (before.life, before.life_ns, before.copy_ns);
        }
        inner.slots.insert(name.to_owned(), slot);
        let before = Mutex::new(Some(before));
        Ok(Attached { slots: self.clone(), name: name.to_owned(), connection, before })
    }

    /// Lets slots expire that keep more log, or have been away longer, than they may (S4), sets the bounds in the
    /// log by the states of the slots, and writes the file when it is due. Returns lines for the operator. To be
    /// called every second or more often.
    ///
    /// # Progress
    /// Short mutexes, and at times a small file written and synced.
    pub fn keep<S: Source>(&self, source: &S, age_max: Option<Duration>, now_ns: u64) -> Vec<String> {
        let (mut news, mut give_up) = (Vec::new(), Vec::new());
        let save = {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            // Read under the lock, so that the positions in the log belong to the present states.
            let held: BTreeMap<String, HeldSlot> =
                source.held().into_iter().map(|held| (held.name.clone(), held)).collect();
            news.append(&mut inner.news);
            inner.now_ns = now_ns.max(inner.now_ns);
            for (name, slot) in inner.slots.iter_mut().filter(|(_, slot)| slot.connection != Some(DROPPING)) {
                let held = held.get(name);
                let before = slot.life;
                if let Some(why) = slot.expires(held.and_then(|held| held.lost), age_max, now_ns) {
                    news.push(expiry_line(name, why, before, slot.unheard_ns(now_ns)));
                    slot.expire(why, now_ns);
                    inner.urgent = true;
                }
                slot.look(held.is_some_and(|held| held.is_within), now_ns);
                match slot.life.keeps() {
                    // S5: includes the log that a crash left, and that of a copy that was cut short.
                    Keep::Nothing if slot.connection.is_none() && held.is_some_and(|held| held.lost.is_none()) => {
                        give_up.push(name.clone());
                    }
                    Keep::Nothing => {}
                    keep => {
                        // Writes only where the bound has changed; a failure is retried in a second.
                        if held.is_some()
                            && let Err(error) = source.keep(name, keep)
                        {
                            news.push(format!("what is kept for replication slot {name} cannot be stored: {error}"));
                        }
                    }
                }
            }
            let since = Duration::from_nanos(now_ns.saturating_sub(inner.saved_ns));
            inner.urgent || inner.changed && since >= SAVE_EVERY
        };
        if save && let Err(error) = self.save() {
            news.push(format!("the list of replication slots cannot be written: {error}"));
        }
        for name in give_up {
            let inner = self.inner.lock();
            let is_lost = |slot: &Slot| slot.life == Life::Lost && slot.connection.is_none();
            // The replica may have connected again by now, and must not do so during the removal.
            if !inner.slots.get(&name).is_some_and(is_lost) {
                continue;
            }
            if let Err(error @ SourceError::Failed(_)) = source.drop_slot(&name) {
                news.push(format!("the log that replication slot {name} keeps cannot be given up: {error}"));
            }
        }
        news
    }

    /// Drops the slot, and its position in the log.
    ///
    /// # Errors
    /// [`DropError`]; the slot is still there, or in the log's list.
    ///
    /// # Durability
    /// Dropped once this returns.
    pub fn drop_slot<S: Source>(&self, name: &str, source: &S) -> Result<(), DropError> {
        {
            let mut inner = self.inner.lock();
            let slot = inner.slots.get_mut(name).ok_or(DropError::Unknown)?;
            if slot.connection.is_some() {
                return Err(DropError::InUse);
            }
            slot.connection = Some(DROPPING);
        }
        let dropped = source.drop_slot(name);
        {
            let mut inner = self.inner.lock();
            match (&dropped, inner.slots.get_mut(name)) {
                (Err(_), Some(slot)) => slot.connection = None,
                _ => drop(inner.slots.remove(name)),
            }
        }
        dropped.map_err(DropError::Source)?;
        // S5: an entry that remains in the file has no effect.
        let _best_effort = self.save();
        Ok(())
    }

    fn wall_us(&self) -> i64 {
        self.env.as_ref().map_or(0, |env| env.clock.wall_us())
    }

    /// Writes the file, if there is one, with the present slots.
    ///
    /// # Errors
    /// The file could not be written; the next save tries again.
    ///
    /// # Durability
    /// On disk when it returns.
    pub fn save(&self) -> io::Result<()> {
        // Locked first, so that a later caller writes newer contents.
        let file = self.file.lock();
        let Some(file) = &*file else { return Ok(()) };
        let (now_ns, wall_us) = (self.env.as_ref().map_or(0, |env| env.clock.now_ns()), self.wall_us());
        let slots: Vec<StoredSlot> = {
            let mut inner = self.inner.lock();
            (inner.changed, inner.urgent, inner.saved_ns) = (false, false, now_ns);
            let stored = |slot: &Slot| {
                let stat = &slot.stat;
                let is_here = slot.connection.is_some_and(|connection| connection != DROPPING);
                StoredSlot {
                    name: stat.name.clone(),
                    node: stat.node,
                    received: stat.positions.received,
                    durable: stat.positions.durable,
                    applied: stat.positions.applied,
                    unheard_ns: slot.unheard_ns(now_ns),
                    heard_wall_us: if is_here { wall_us } else { stat.heard_wall_us },
                    expired: stat.expired,
                    address: stat.address.clone(),
                }
            };
            inner.slots.values().map(stored).collect()
        };
        let written = file.write(&slots);
        if written.is_err() {
            self.inner.lock().changed = true;
        }
        written
    }
}

impl Inner {
    /// Passes the commits that were sampled since the last call to all connected slots.
    fn take_drawn<S: Source>(&mut self, source: &S) {
        let mut drawn = Vec::new();
        source.take_drawn(&mut drawn);
        if !drawn.is_empty() {
            self.slots.values_mut().filter(|slot| slot.is_connected()).for_each(|slot| slot.on_drawn(&drawn));
        }
    }

    /// Returns the sampling rate from now on, as one in so many commits, 0 for none, if it is time to decide (S6).
    /// `commits` is the number of commits at `now_ns`.
    fn one_in(&mut self, commits: u64, now_ns: u64) -> Option<u32> {
        let (before, since_ns) = self.committed;
        let time_ns = now_ns.saturating_sub(since_ns);
        if time_ns == 0 {
            return None;
        }
        self.committed = (commits, now_ns);
        if !self.slots.values().any(Slot::is_connected) {
            return Some(0);
        }
        // Commits before the first look give no rate.
        let came = if since_ns == 0 { 0 } else { commits.saturating_sub(before) };
        let per_s = u128::from(came) * 1_000_000_000 / u128::from(time_ns);
        Some(u32::try_from(per_s / u128::from(DRAWN_PER_S)).unwrap_or(u32::MAX).max(1))
    }
}

impl SlotStat {
    /// Creates the figures of a slot whose replica has not connected.
    pub fn away(name: String, now_ns: u64) -> Self {
        Self {
            name,
            node: 0,
            address: String::new(),
            state: SlotState::Away,
            is_connected: false,
            problem: None,
            positions: Sent::default(),
            rtt_min_ns: u64::MAX,
            queue_bytes: 0,
            heard_ns: now_ns,
            heard_wall_us: 0,
            unheard_ns: 0,
            expired: None,
            delay: None,
            verified: Lsn::ZERO,
            log_verified: Lsn::ZERO,
            summary: None,
            totals: DelayTotals::default(),
            owed_ns: 0,
            drain_ns: None,
            lags: Lags::default(),
        }
    }
}

impl Attached {
    /// Records an ack that arrived at `now_ns`.
    pub(super) fn acked<S: Source>(&self, source: &S, ack: &Ack, now_ns: u64) {
        let mut inner = self.slots.inner.lock();
        inner.take_drawn(source);
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection));
        let Some(Slot { delay, history, .. }) = slot else { return };
        delay.on_ack(ack, now_ns, &mut |measured| history.note(measured));
    }

    /// Returns the delays measured since the last call, to be sent to the replica; `None` if there are none, or if
    /// it does not keep up.
    pub(super) fn take_beat(&self, now_ns: u64) -> Option<DelayWindow> {
        let mut inner = self.slots.inner.lock();
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection))?;
        slot.history.take_beat(&slot.delay, now_ns)
    }

    /// Returns for how long the replica has owed the oldest position below `durable` that its readers do not see,
    /// in nanoseconds.
    pub(super) fn owed_ns(&self, durable: Lsn, now_ns: u64) -> u64 {
        let inner = self.slots.inner.lock();
        let slot = inner.slots.get(&self.name).filter(|slot| slot.connection == Some(self.connection));
        slot.map_or(0, |slot| slot.owed_ns(&self.slots.marks.lock(), durable, now_ns))
    }

    fn change(&self, change: impl FnOnce(&mut Slot)) {
        let mut inner = self.slots.inner.lock();
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection));
        if let Some(slot) = slot {
            change(slot);
        }
    }

    /// Records that the connection is that of the slot's replica: its effects on the slot last from now on (S3).
    pub(super) fn admit(&self) {
        if self.before.lock().take().is_some() {
            let mut inner = self.slots.inner.lock();
            (inner.changed, inner.urgent) = (true, true);
        }
    }

    /// Steps the slot's `life`.
    pub(super) fn on(&self, event: Event, now_ns: u64) {
        self.change(|slot| slot.on(event, now_ns));
        self.slots.inner.lock().urgent = true;
    }

    /// Returns the slot's `life`.
    pub(super) fn life(&self) -> Life {
        let mut life = Life::Lost;
        self.change(|slot| life = slot.life);
        life
    }

    /// Records that the replica's readers see everything that was durable when its stream began: delays are
    /// measured from here on.
    pub(super) fn caught_up<S: Source>(&self, source: &S, now_ns: u64) {
        // Read before the lock is taken. The bounds are applied at once, so that a replica that ends right after
        // this was following.
        let is_within = source.held().iter().any(|held| held.name == self.name && held.is_within);
        self.change(|slot| {
            slot.is_caught_up = true;
            slot.delay.begin();
            slot.look(is_within, now_ns);
        });
    }

    /// Reports to the operator that the replica is being filled, or has to be, and why.
    pub(super) fn tell(&self, what: &str, why: &str) {
        let line = format!("the replica of replication slot {} {what}: {why}", self.name);
        self.slots.inner.lock().news.push(line);
    }

    /// Records why its stream ended, when the replica had received the log up to `received`.
    pub(super) fn ended(&self, received: Lsn, error: &LinkError) {
        let mut news = None;
        self.change(|slot| news = slot.trouble.on_end(&self.name, received, error));
        self.slots.inner.lock().news.extend(news);
    }

    /// Records that its rows at `at` are the primary's.
    pub(super) fn verified(&self, at: Lsn) {
        self.change(|slot| slot.stat.verified = at.max(slot.stat.verified));
    }

    /// Records that its log below `at` is this node's.
    pub(super) fn log_verified(&self, at: Lsn) {
        self.change(|slot| slot.stat.log_verified = at.max(slot.stat.log_verified));
    }

    /// Records its positions.
    pub(super) fn show(&self, progress: &Progress) {
        self.change(|slot| {
            let stat = &mut slot.stat;
            stat.positions = progress.positions();
            (stat.rtt_min_ns, stat.queue_bytes) = (progress.rtt_min_ns(), progress.queue_bytes());
            stat.heard_ns = progress.heard_ns();
            slot.trouble.on_received(stat.positions.received);
        });
        self.slots.inner.lock().changed = true;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let before = self.before.lock().take();
        let wall_us = self.slots.wall_us();
        let mut inner = self.slots.inner.lock();
        let inner = &mut *inner;
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection));
        let Some(slot) = slot else { return };
        match before {
            None => {
                (slot.connection, slot.stat.heard_wall_us) = (None, wall_us);
                slot.delay = Delay::default();
                slot.on(Event::Ended, inner.now_ns);
                (inner.changed, inner.urgent) = (true, true);
            }
            // S3
            Some(Some(before)) => *slot = before,
            Some(None) => drop(inner.slots.remove(&self.name)),
        }
    }
}

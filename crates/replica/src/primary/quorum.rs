//! `QuorumList` and [`Quorum`]: which replicas must have a commit, which positions enough of them have reached,
//! and when a primary degrades. No I/O.
//!
//! # Invariants
//! - Q1. The confirmed positions only grow, and were reported by `needed` members of each list in force, each
//!   position for itself, at some time in this term. A member that is away keeps its reported positions; one that
//!   returns with less has the lower positions from then on.
//! - Q2. A primary degrades, that is, does without its quorum, only where that is allowed ([`Degrade::After`]),
//!   only when a position that was durable here has waited for that time, and only when the caller of
//!   [`Quorum::tick`] agrees; each change is returned once ([`Change`]).
//! - Q3. It requires its quorum again once `needed` connected members have been within [`NEAR_BYTES`] for
//!   [`NEAR_NS`] without interruption.
//! - Q4. A change of the list is complete once both lists have its record ([`Quorum::until`]), and is returned
//!   once. Positions confirmed before it stay confirmed; above them both lists are needed, and then the new one
//!   alone. Without a list the confirmed positions do not grow.
//! - Q5. The leader counts for each list that names it, with its own durable position (A4 of `quorum_config.rs`): it
//!   never waits for itself, and a list that it satisfies alone waits for no other node ([`Quorum::asks_others`]).
//!
//! Checked by `quorum_tests.rs`, against a model that remembers every report.

use std::{collections::BTreeMap, fmt, time::Duration};

use collie_base::Lsn;
use thiserror::Error;

use super::{QuorumConfig, Sent};

/// How close to the primary's end a quorum has to be before it is required again.
pub const NEAR_BYTES: u64 = 1 << 20;

/// How long it has to be that close.
pub const NEAR_NS: u64 = 5_000_000_000;

/// The longest list: the most slots that there can be.
const MEMBERS_MAX: usize = 64;

/// A number of these slots, any of which will do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumList {
    needed: usize,
    members: Vec<String>,
}

/// Why a text is not a list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuorumError {
    /// The text is invalid: 22023.
    #[error("{0}")]
    Invalid(String),
    /// The text is valid in PostgreSQL but not supported: 0A000.
    #[error("{0}")]
    Unsupported(String),
}

impl QuorumError {
    /// Returns the SQLSTATE that PostgreSQL uses.
    pub const fn sqlstate(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "22023",
            Self::Unsupported(_) => "0A000",
        }
    }
}

impl QuorumList {
    /// Creates the list of any `needed` of `members`.
    ///
    /// # Errors
    /// Fewer members than needed, none needed, too many, one named twice, or a name that no slot can have.
    pub fn new(needed: usize, members: Vec<String>) -> Result<Self, QuorumError> {
        let invalid = |text: String| Err(QuorumError::Invalid(text));
        if members.len() > MEMBERS_MAX {
            return invalid(format!("{} names, where {MEMBERS_MAX} are the most", members.len()));
        }
        if needed == 0 || needed > members.len() {
            return invalid(format!("{needed} of {} named replicas are asked for", members.len()));
        }
        for (at, name) in members.iter().enumerate() {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if name.is_empty() || name.len() > 55 || !name.bytes().all(good) {
                return invalid(format!("\"{name}\" is no slot: at most 55 letters, digits, -, _ and dots"));
            }
            if members[..at].contains(name) {
                return invalid(format!("\"{name}\" is named twice"));
            }
        }
        Ok(Self { needed, members })
    }

    /// Creates the list of more than half of `names`, sorted, so that each of these nodes creates the same list.
    ///
    /// # Errors
    /// As for [`QuorumList::new`].
    pub fn majority(mut names: Vec<String>) -> Result<Self, QuorumError> {
        names.sort_unstable();
        Self::new(names.len() / 2 + 1, names)
    }

    /// Reads `ANY n (a, b, c)`; an empty text is no list. PostgreSQL's other forms (`FIRST n`, `n` or no number)
    /// are accepted where they mean the same, that is, where all named replicas are needed.
    ///
    /// # Errors
    /// See [`QuorumError`]; [`QuorumList::new`] has the conditions on a list.
    pub fn parse(text: &str) -> Result<Option<Self>, QuorumError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let invalid = || QuorumError::Invalid(format!("\"{text}\" is no list of replicas: expected ANY n (a, b, c)"));
        let (head, names) = match text.split_once('(') {
            Some((head, rest)) => (head.trim(), rest.trim_end().strip_suffix(')').ok_or_else(invalid)?),
            None => ("1", text),
        };
        let (word, number) =
            head.split_once(char::is_whitespace).map_or(("", head), |(word, rest)| (word, rest.trim()));
        let is_any = word.eq_ignore_ascii_case("any");
        if !is_any && !word.is_empty() && !word.eq_ignore_ascii_case("first") {
            return Err(invalid());
        }
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let needed = number.parse().map_err(|_| invalid())?;
        let unquoted = |name: &str| {
            let name = name.trim();
            name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name).to_owned()
        };
        let members: Vec<String> = names.split(',').map(unquoted).collect();
        if members.iter().any(|name| name == "*") {
            let text = "\"*\" names no replica, and a promotion has to know who may have a commit: name them, as in ANY n (a, b, c)";
            return Err(QuorumError::Unsupported(text.to_owned()));
        }
        let list = Self::new(needed, members)?;
        if !is_any && list.needed < list.members.len() {
            let text = "replicas have no priorities: say ANY n (a, b, c), or ask for all that are named";
            return Err(QuorumError::Unsupported(text.to_owned()));
        }
        Ok(Some(list))
    }

    /// Returns how many members are needed.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Returns the names of the slots.
    pub fn members(&self) -> &[String] {
        &self.members
    }
}

impl fmt::Display for QuorumList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ANY {} ({})", self.needed, self.members.join(", "))
    }
}

/// The reaction when too few replicas answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Degrade {
    /// Replies wait.
    #[default]
    Wait,
    /// Once a position has waited this long, replies wait for this node's disk alone, and are marked.
    After(Duration),
}

/// A change of the quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The primary does without its replicas from now on.
    Degraded,
    /// The replicas are required again.
    Restored,
    /// The change of the list is complete: the list before is no longer in force.
    Changed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    reported: Sent,
    /// The number of its connection, while it has one.
    connection: Option<u64>,
}

/// The reports of the members of lists, and the positions that they confirm.
#[derive(Clone, Debug)]
pub struct Quorum {
    asked: QuorumConfig,
    /// The end of the record of a change.
    until: Lsn,
    /// The name of the leader, and a lower bound of its durable position (Q5).
    own: Option<(String, Lsn)>,
    degrade: Degrade,
    /// Includes connected replicas that are on no list: they may be on the next one.
    members: BTreeMap<String, Member>,
    connections: u64,
    confirmed: Sent,
    /// A position that was durable here and not confirmed, and the time since when (Q2).
    owed: Option<(Lsn, u64)>,
    degraded: bool,
    /// While degraded: the time since when enough members have been close (Q3).
    near_since: Option<u64>,
}

impl Quorum {
    /// Creates a quorum without reports.
    pub fn new(asked: impl Into<QuorumConfig>, degrade: Degrade) -> Self {
        Self {
            asked: asked.into(),
            until: Lsn::MAX,
            own: None,
            degrade,
            members: BTreeMap::new(),
            connections: 0,
            confirmed: Sent::default(),
            owed: None,
            degraded: false,
            near_since: None,
        }
    }

    /// Sets the name that the leader has in lists.
    #[must_use]
    pub fn led_by(self, name: &str) -> Self {
        Self { own: Some((name.to_owned(), Lsn::ZERO)), ..self }
    }

    /// Returns the name of the leader, if it counts for a list in force (Q5).
    pub fn own_member(&self) -> Option<&str> {
        self.own.as_ref().map(|(name, _)| &**name).filter(|name| self.asked.has(name))
    }

    /// Returns whether commits wait for any node other than the leader (Q5).
    pub fn asks_others(&self) -> bool {
        let own = self.own_member();
        let own_is_enough =
            |list: &QuorumList| list.needed == 1 && own.is_some_and(|own| list.members.iter().any(|name| name == own));
        self.asked.lists().any(|list| !own_is_enough(list))
    }

    /// Records that everything below `durable` is on the leader's disk, and was before it promised a higher term,
    /// if it has (A4 of `quorum_config.rs`). Returns whether more is confirmed now.
    pub fn on_own(&mut self, durable: Lsn) -> bool {
        self.own.iter_mut().for_each(|(_, own)| *own = durable.max(*own));
        self.count()
    }

    /// Returns the lists in force.
    pub fn asked(&self) -> &QuorumConfig {
        &self.asked
    }

    /// Returns whether the primary does without its replicas.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns whether a list in force names `slot`.
    pub fn has(&self, slot: &str) -> bool {
        self.asked.has(slot)
    }

    /// Returns how many nodes of the lists in force are connected, including the leader if it counts.
    pub fn connected_len(&self) -> usize {
        let own = usize::from(self.own_member().is_some());
        own + self.members.iter().filter(|(slot, member)| member.connection.is_some() && self.asked.has(slot)).count()
    }

    /// Puts `quorum_config` in force; a change cannot complete before [`Quorum::until`] is called. Returns whether more
    /// is confirmed now.
    pub fn ask(&mut self, asked: QuorumConfig) -> bool {
        (self.asked, self.until) = (asked, Lsn::MAX);
        self.begin_time();
        self.degraded &= self.asks_others();
        self.members.retain(|slot, member| member.connection.is_some() || self.asked.has(slot));
        self.count()
    }

    /// Sets the end of the change's record: the change is complete once both lists have everything below `end`
    /// (Q4).
    pub fn until(&mut self, end: Lsn) {
        self.until = end;
    }

    /// Returns the position that both lists must reach for a change to complete; `Lsn::MAX` before it is known.
    pub fn over_at(&self) -> Lsn {
        self.until
    }

    /// Records that a slot's replica has connected: from now on the positions that it reports on this connection
    /// count, not earlier ones (Q1). Returns the number of the connection.
    pub fn connected(&mut self, slot: &str) -> u64 {
        self.connections = self.connections.wrapping_add(1);
        let connection = self.connections;
        let member = Member { reported: Sent::default(), connection: Some(connection) };
        self.members.insert(slot.to_owned(), member);
        connection
    }

    /// Records that a connection of a slot's replica has ended; the replica may have another connection by now.
    pub fn gone(&mut self, slot: &str, connection: u64) {
        let is_asked = self.asked.has(slot);
        if let Some(member) = self.members.get_mut(slot).filter(|member| member.connection == Some(connection)) {
            member.connection = None;
            if !is_asked {
                self.members.remove(slot);
            }
        }
    }

    /// Records the positions that a slot's replica reported on this connection. Returns whether more is confirmed
    /// now.
    pub fn on_ack(&mut self, slot: &str, connection: u64, reported: Sent) -> bool {
        let member = self.members.get_mut(slot).filter(|member| member.connection == Some(connection));
        let Some(member) = member else { return false };
        member.reported = reported;
        self.count()
    }

    /// Computes the confirmed positions from the reports; returns whether more is confirmed now.
    fn count(&mut self) -> bool {
        let before = self.confirmed;
        let reached = |position: fn(&Sent) -> Lsn| {
            let reached = self.asked.reached(|list| self.nth(list, |member| Some(position(&member.reported))));
            reached.unwrap_or(Lsn::ZERO)
        };
        self.confirmed = Sent {
            received: before.received.max(reached(|sent| sent.received)),
            durable: before.durable.max(reached(|sent| sent.durable)),
            applied: before.applied.max(reached(|sent| sent.applied)),
            ..before
        };
        self.confirmed != before
    }

    /// Returns the position that as many members of a list as it needs have reached.
    fn nth(&self, list: &QuorumList, position: impl Fn(&Member) -> Option<Lsn>) -> Lsn {
        let members = list.members.iter().filter_map(|name| self.members.get(name));
        let own = self.own.as_ref().filter(|(name, _)| list.members.contains(name)).map(|(_, own)| *own);
        nth_best(list.needed, members.filter_map(position).chain(own))
    }

    /// Returns the positions that at least the needed members have: `received`, `durable` and `applied` of it.
    pub fn confirmed(&self) -> Sent {
        self.confirmed
    }

    /// Restarts the times for which replicas were waited for, or were close: the process did not run in between.
    pub fn begin_time(&mut self) {
        (self.owed, self.near_since) = (None, None);
    }

    /// Advances the time: `durable` is this node's durable position at `now_ns`. `may_degrade` is called once
    /// replicas were waited for long enough, with the time since when (Q2). To be called a few times per second.
    pub fn tick(&mut self, durable: Lsn, now_ns: u64, may_degrade: impl FnOnce(u64) -> bool) -> Option<Change> {
        if self.asked.is_changing() && self.confirmed.durable >= self.until {
            let changed = self.asked.changed();
            self.ask(changed);
            return Some(Change::Changed); // Q4
        }
        if !self.asks_others() {
            return None;
        }
        if self.degraded {
            return self.look_for_return(durable, now_ns);
        }
        self.owed = match self.owed {
            Some((owed, since_ns)) if self.confirmed.durable < owed => Some((owed, since_ns)),
            _ => (self.confirmed.durable < durable).then_some((durable, now_ns)),
        };
        let Degrade::After(limit) = self.degrade else { return None };
        let (_, since_ns) = self.owed?;
        if u128::from(now_ns.saturating_sub(since_ns)) < limit.as_nanos() || !may_degrade(since_ns) {
            return None;
        }
        (self.degraded, self.near_since, self.owed) = (true, None, None);
        Some(Change::Degraded)
    }

    fn look_for_return(&mut self, durable: Lsn, now_ns: u64) -> Option<Change> {
        let connected = |member: &Member| member.connection.map(|_| member.reported.durable);
        let reached = self.asked.reached(|list| self.nth(list, connected)).unwrap_or(Lsn::ZERO);
        // A member that has reported nothing is not close, even if there is little log.
        if reached == Lsn::ZERO || durable.get().saturating_sub(reached.get()) > NEAR_BYTES {
            self.near_since = None;
            return None;
        }
        let since_ns = *self.near_since.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) < NEAR_NS {
            return None;
        }
        (self.degraded, self.near_since) = (false, None);
        Some(Change::Restored)
    }
}

/// Returns the highest position that `needed` of `positions` have reached; zero if there are fewer.
fn nth_best(needed: usize, positions: impl Iterator<Item = Lsn>) -> Lsn {
    let mut positions: Vec<Lsn> = positions.collect();
    positions.sort_unstable_by(|a, b| b.cmp(a));
    needed.checked_sub(1).and_then(|at| positions.get(at)).copied().unwrap_or(Lsn::ZERO)
}

//! `QuorumList` and [`Quorum`]: which replicas must have a commit, how far so many of them have come, and when a primary makes do
//! without. No I/O.
//!
//! # Invariants
//! - Q1. What is confirmed only grows, and was reported by `needed` members of the list, each for itself, at some time in this
//!   term. A member that is away still has what it reported; one that comes back with less has that from then on.
//! - Q2. A primary makes do without its quorum only when it was told to ([`Degrade::After`]), and only when something that was durable
//!   here has waited for so long; each way is told once ([`Change`]).
//! - Q3. It asks for its quorum again once `needed` members that are connected have been within [`NEAR_BYTES`] for [`NEAR_NS`]
//!   without a break.
//!
//! Checked by `quorum_tests.rs`, against a model that remembers every report.

use std::{fmt, time::Duration};

use collie_base::Lsn;

use super::Sent;

/// How near to the primary's end a quorum has to be before it is asked for again.
pub const NEAR_BYTES: u64 = 1 << 20;

/// For how long.
pub const NEAR_NS: u64 = 5_000_000_000;

/// The longest list: as many replicas as there may be slots.
const MEMBERS_MAX: usize = 64;

/// So many of these slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumList {
    needed: usize,
    members: Vec<String>,
}

/// Why a text is no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuorumError {
    /// It cannot be right: 22023.
    Invalid(String),
    /// It is right, and not built: 0A000.
    Unsupported(String),
}

impl QuorumError {
    /// Returns PostgreSQL's code for it.
    pub const fn sqlstate(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "22023",
            Self::Unsupported(_) => "0A000",
        }
    }
}

impl fmt::Display for QuorumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::Unsupported(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for QuorumError {}

impl QuorumList {
    /// Makes the list of `needed` of `members`.
    ///
    /// # Errors
    /// Fewer members than are needed, none needed, too many, one twice, or one that can be no slot.
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

    /// Reads `ANY n (a, b, c)`; nothing is no list. Of PostgreSQL's other forms those that mean the same are read too: `FIRST n`, `n` or
    /// no number, when all that are named are asked for.
    ///
    /// # Errors
    /// See [`QuorumError`]; what must be right of a list is in [`QuorumList::new`].
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

    /// Returns how many are needed.
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

/// What happens when too few replicas answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Degrade {
    /// Replies wait.
    #[default]
    Wait,
    /// Once something has waited for so long, replies wait for this node's disk alone, and say so.
    After(Duration),
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replicas are made do without from now on.
    Degraded,
    /// They are asked for again.
    Restored,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    reported: Sent,
    /// The number of its connection, while it has one.
    connection: Option<u64>,
}

/// The members of a list as they report, and what follows.
#[derive(Clone, Debug)]
pub struct Quorum {
    list: QuorumList,
    degrade: Degrade,
    members: Vec<Member>,
    connections: u64,
    confirmed: Sent,
    /// What was durable here, not confirmed, and since when (Q2).
    owed: Option<(Lsn, u64)>,
    degraded: bool,
    /// While degraded: since when enough members are near (Q3).
    near_since: Option<u64>,
}

impl Quorum {
    /// Nobody has reported yet.
    pub fn new(list: QuorumList, degrade: Degrade) -> Self {
        let members = vec![Member::default(); list.members.len()];
        let confirmed = Sent::default();
        Self { list, degrade, members, connections: 0, confirmed, owed: None, degraded: false, near_since: None }
    }

    /// Returns the list.
    pub fn list(&self) -> &QuorumList {
        &self.list
    }

    /// Returns whether replicas are made do without.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns whether a slot is in the list.
    pub fn has(&self, slot: &str) -> bool {
        self.list.members.iter().any(|member| member == slot)
    }

    /// Returns how many members are connected.
    pub fn connected_len(&self) -> usize {
        self.members.iter().filter(|member| member.connection.is_some()).count()
    }

    fn member(&mut self, slot: &str) -> Option<&mut Member> {
        let at = self.list.members.iter().position(|member| member == slot)?;
        self.members.get_mut(at)
    }

    /// A slot's replica has connected: what it has is what it reports on this connection, whose number is returned, and no longer what
    /// it reported before (Q1).
    pub fn connected(&mut self, slot: &str) -> u64 {
        self.connections = self.connections.wrapping_add(1);
        let connection = self.connections;
        if let Some(member) = self.member(slot) {
            *member = Member { reported: Sent::default(), connection: Some(connection) };
        }
        connection
    }

    /// A connection of a slot's replica has ended; it may have another one by now.
    pub fn gone(&mut self, slot: &str, connection: u64) {
        if let Some(member) = self.member(slot).filter(|member| member.connection == Some(connection)) {
            member.connection = None;
        }
    }

    /// Takes note of what a slot's replica has, as it said on this connection. Returns whether more is confirmed now.
    pub fn on_ack(&mut self, slot: &str, connection: u64, reported: Sent) -> bool {
        let member = self.member(slot).filter(|member| member.connection == Some(connection));
        let Some(member) = member else { return false };
        member.reported = reported;
        let before = self.confirmed;
        self.confirmed.received = before.received.max(self.nth(|reported| reported.received));
        self.confirmed.durable = before.durable.max(self.nth(|reported| reported.durable));
        self.confirmed.applied = before.applied.max(self.nth(|reported| reported.applied));
        self.confirmed != before
    }

    /// Returns the position that `needed` members have reached.
    fn nth(&self, position: impl Fn(&Sent) -> Lsn) -> Lsn {
        nth_best(self.list.needed, self.members.iter().map(|member| position(&member.reported)))
    }

    /// Returns what so many members as are needed have, at the least: `received`, `durable` and `applied` of it.
    pub fn confirmed(&self) -> Sent {
        self.confirmed
    }

    /// Looks at the time: `durable` is what is on this node's disk at `now_ns`. Call it a few times in a second.
    pub fn tick(&mut self, durable: Lsn, now_ns: u64) -> Option<Change> {
        if self.degraded {
            return self.look_for_return(durable, now_ns);
        }
        self.owed = match self.owed {
            Some((owed, since_ns)) if self.confirmed.durable < owed => Some((owed, since_ns)),
            _ => (self.confirmed.durable < durable).then_some((durable, now_ns)),
        };
        let Degrade::After(limit) = self.degrade else { return None };
        let (_, since_ns) = self.owed?;
        if u128::from(now_ns.saturating_sub(since_ns)) < limit.as_nanos() {
            return None;
        }
        (self.degraded, self.near_since, self.owed) = (true, None, None);
        Some(Change::Degraded)
    }

    fn look_for_return(&mut self, durable: Lsn, now_ns: u64) -> Option<Change> {
        let connected = self.members.iter().filter(|member| member.connection.is_some());
        let reached = nth_best(self.list.needed, connected.map(|member| member.reported.durable));
        // Who has reported nothing is not near, however little there is.
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

/// Returns the highest position that `needed` of `positions` have reached; zero where there are not so many.
fn nth_best(needed: usize, positions: impl Iterator<Item = Lsn>) -> Lsn {
    let mut positions: Vec<Lsn> = positions.collect();
    positions.sort_unstable_by(|a, b| b.cmp(a));
    needed.checked_sub(1).and_then(|at| positions.get(at)).copied().unwrap_or(Lsn::ZERO)
}

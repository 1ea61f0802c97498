//! `QuorumList` and [`Quorum`]: which replicas must have a commit, how far so many of them have come, and when a primary makes do
//! without. No I/O.
//!
//! # Invariants
//! - Q1. What is confirmed only grows, and was reported by `needed` members of each list that is asked, each for itself, at some time
//!   in this term. A member that is away still has what it reported; one that comes back with less has that from then on.
//! - Q2. A primary makes do without its quorum only where it is allowed to ([`Degrade::After`]), only when something that was durable
//!   here has waited for so long, and only when the caller of [`Quorum::tick`] agrees; each change is returned once ([`Change`]).
//! - Q3. It asks for its quorum again once `needed` members that are connected have been within [`NEAR_BYTES`] for [`NEAR_NS`]
//!   without a break.
//! - Q4. A change of the list is over once both lists have its record ([`Quorum::until`]), and is told once. What was confirmed before it
//!   stays confirmed; above that both lists are needed, and then the new one alone. While nobody is asked nothing is confirmed.
//! - Q5. The leader counts for each list that names it, with what is on its disk (A4 of `asked.rs`): it never waits for itself, and a list
//!   that it satisfies alone waits for no other node ([`Quorum::asks_others`]).
//!
//! Checked by `quorum_tests.rs`, against a model that remembers every report.

use std::{collections::BTreeMap, fmt, time::Duration};

use collie_base::Lsn;

use super::{Asked, Sent};

/// How near to the primary's end a quorum has to be before it is asked for again.
pub const NEAR_BYTES: u64 = 1 << 20;

/// For how long.
pub const NEAR_NS: u64 = 5_000_000_000;

/// The longest list: as many replicas as there may be slots.
const MEMBERS_MAX: usize = 64;

/// So many of these slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

    /// Makes the list of more than half of `names`, in their order, so that each of these nodes makes the same one.
    ///
    /// # Errors
    /// As [`QuorumList::new`].
    pub fn majority(mut names: Vec<String>) -> Result<Self, QuorumError> {
        names.sort_unstable();
        Self::new(names.len() / 2 + 1, names)
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
    /// The list has changed: the one before is not asked any more.
    Changed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    reported: Sent,
    /// The number of its connection, while it has one.
    connection: Option<u64>,
}

/// The members of lists as they report, and what follows.
#[derive(Clone, Debug)]
pub struct Quorum {
    asked: Asked,
    /// Where the record of a change ends.
    until: Lsn,
    /// The name of who leads, and what is on its disk at the least (Q5).
    own: Option<(String, Lsn)>,
    degrade: Degrade,
    /// Also who is on no list, as long as it is connected: it may be on the next one.
    members: BTreeMap<String, Member>,
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
    pub fn new(asked: impl Into<Asked>, degrade: Degrade) -> Self {
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

    /// Of the node that has this name in lists.
    #[must_use]
    pub fn led_by(self, name: &str) -> Self {
        Self { own: Some((name.to_owned(), Lsn::ZERO)), ..self }
    }

    /// Returns the name of the leader, if it counts for a list that is asked (Q5).
    pub fn own_member(&self) -> Option<&str> {
        self.own.as_ref().map(|(name, _)| &**name).filter(|name| self.asked.has(name))
    }

    /// Returns whether commits wait for any node but the leader (Q5).
    pub fn asks_others(&self) -> bool {
        let own = self.own_member();
        let own_is_enough =
            |list: &QuorumList| list.needed == 1 && own.is_some_and(|own| list.members.iter().any(|name| name == own));
        self.asked.lists().any(|list| !own_is_enough(list))
    }

    /// Everything below `durable` is on the disk of the leader, and was before it promised a higher term, if it has (A4 of `asked.rs`).
    /// Returns whether more is confirmed now.
    pub fn on_own(&mut self, durable: Lsn) -> bool {
        self.own.iter_mut().for_each(|(_, own)| *own = durable.max(*own));
        self.count()
    }

    /// Returns who is asked.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Returns whether replicas are made do without.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns whether a slot is asked.
    pub fn has(&self, slot: &str) -> bool {
        self.asked.has(slot)
    }

    /// Returns how many of the nodes that are asked are connected, the leader among them if it counts.
    pub fn connected_len(&self) -> usize {
        let own = usize::from(self.own_member().is_some());
        own + self.members.iter().filter(|(slot, member)| member.connection.is_some() && self.asked.has(slot)).count()
    }

    /// These are asked from now on; a change is not over before [`Quorum::until`] was called. Returns whether more is confirmed now.
    pub fn ask(&mut self, asked: Asked) -> bool {
        (self.asked, self.until) = (asked, Lsn::MAX);
        self.begin_time();
        self.degraded &= self.asks_others();
        self.members.retain(|slot, member| member.connection.is_some() || self.asked.has(slot));
        self.count()
    }

    /// The change is over once both lists have everything below `end`, where its record ends (Q4).
    pub fn until(&mut self, end: Lsn) {
        self.until = end;
    }

    /// Returns where both lists have to have come for a change to be over; `Lsn::MAX` before that is known.
    pub fn over_at(&self) -> Lsn {
        self.until
    }

    /// A slot's replica has connected: what it has is what it reports on this connection, whose number is returned, and no longer what
    /// it reported before (Q1).
    pub fn connected(&mut self, slot: &str) -> u64 {
        self.connections = self.connections.wrapping_add(1);
        let connection = self.connections;
        let member = Member { reported: Sent::default(), connection: Some(connection) };
        self.members.insert(slot.to_owned(), member);
        connection
    }

    /// A connection of a slot's replica has ended; it may have another one by now.
    pub fn gone(&mut self, slot: &str, connection: u64) {
        let is_asked = self.asked.has(slot);
        if let Some(member) = self.members.get_mut(slot).filter(|member| member.connection == Some(connection)) {
            member.connection = None;
            if !is_asked {
                self.members.remove(slot);
            }
        }
    }

    /// Takes note of what a slot's replica has, as it said on this connection. Returns whether more is confirmed now.
    pub fn on_ack(&mut self, slot: &str, connection: u64, reported: Sent) -> bool {
        let member = self.members.get_mut(slot).filter(|member| member.connection == Some(connection));
        let Some(member) = member else { return false };
        member.reported = reported;
        self.count()
    }

    /// Counts who has what; returns whether more is confirmed now.
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

    /// Returns the position that so many members of a list as it needs have reached.
    fn nth(&self, list: &QuorumList, position: impl Fn(&Member) -> Option<Lsn>) -> Lsn {
        let members = list.members.iter().filter_map(|name| self.members.get(name));
        let own = self.own.as_ref().filter(|(name, _)| list.members.contains(name)).map(|(_, own)| *own);
        nth_best(list.needed, members.filter_map(position).chain(own))
    }

    /// Returns what so many members as are needed have, at the least: `received`, `durable` and `applied` of it.
    pub fn confirmed(&self) -> Sent {
        self.confirmed
    }

    /// The time for which replicas were waited for, or were near, starts again: the process did not run in between.
    pub fn begin_time(&mut self) {
        (self.owed, self.near_since) = (None, None);
    }

    /// Looks at the time: `durable` is what is on this node's disk at `now_ns`. `may_degrade` is asked once replicas were waited for long
    /// enough, with since when that is (Q2). Call it a few times in a second.
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

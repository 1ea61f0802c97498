//! `QuorumRow`: how the replicas stand that commits wait for, as `collie_quorum` shows it; `FollowingRow`: whom this database follows,
//! as `collie_following` shows it; [`Trouble`]: what somebody should know, as `collie_health` shows it. The first two relations have one
//! row, or none where there is no quorum, or nobody is followed.

use collie_base::Lsn;

use super::{SessionFacts, functions::lsn, output::Output};
use crate::types::Value;

/// How a quorum stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuorumState {
    /// As many as are needed are connected.
    #[default]
    Whole,
    /// Fewer are: what asks for them waits.
    Short,
    /// Commits do without, and say so.
    Degraded,
}

impl QuorumState {
    /// Returns the word that views show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Short => "short",
            Self::Degraded => "degraded",
        }
    }

    /// Returns what becomes of commits that ask for replicas, a word: they are `confirmed`, are `waiting`, or are answered `unconfirmed`.
    pub const fn commits(self) -> &'static str {
        match self {
            Self::Whole => "confirmed",
            Self::Short => "waiting",
            Self::Degraded => "unconfirmed",
        }
    }
}

/// The replicas that commits wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRow {
    /// Their list, as `replication.quorum` has it; empty: nobody, while the list changes to that.
    pub list: String,
    /// While the list changes, the one before, which commits wait for too.
    pub before: Option<String>,
    /// The change is over once both lists have everything below on their disks; `None` also before its record is written.
    pub until: Option<Lsn>,
    /// How they stand.
    pub state: QuorumState,
    /// For how long they have stood so, in milliseconds; longer than this server leads it is not.
    pub state_ms: u64,
    /// How many are needed; while the list changes, of the list that needs more.
    pub needed: usize,
    /// How many are connected, of both lists while the one changes to the other.
    pub connected: usize,
    /// Those that are not, by the names of their slots.
    pub missing: Vec<String>,
}

impl QuorumRow {
    /// Says who is asked: both lists while the one changes to the other.
    pub fn asked(&self) -> String {
        let name = |list: &str| if list.is_empty() { "nobody".to_owned() } else { list.to_owned() };
        match (&self.before, self.until) {
            (None, _) => name(&self.list),
            (Some(before), None) => format!("{}, and {}", name(&self.list), name(before)),
            (Some(before), Some(until)) => {
                format!("{}, and {} until both have {until}", name(&self.list), name(before))
            }
        }
    }
}

/// What a replica is doing about its primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowingState {
    /// It is not connected, and tries to be.
    #[default]
    Looking,
    /// It takes what comes.
    Following,
    /// It takes nothing more.
    Stopped,
}

impl FollowingState {
    /// Returns the word that views show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Looking => "looking",
            Self::Following => "following",
            Self::Stopped => "stopped",
        }
    }
}

/// Whom a database follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowingRow {
    /// Where the primary listens for replicas, or where it is looked for first.
    pub address: String,
    /// The name of the slot there.
    pub slot: String,
    /// What it is doing.
    pub state: FollowingState,
    /// For how long, in milliseconds; longer than the database is open it is not.
    pub state_ms: u64,
    /// When the primary was last heard, in milliseconds before now; `None`: not since the database was opened.
    pub unheard_ms: Option<u64>,
    /// What the primary had on its disk then.
    pub primary_durable: Option<Lsn>,
    /// The end of what was received.
    pub received: Lsn,
    /// Seen by readers here.
    pub applied: Lsn,
    /// How much later readers here saw commits lately, by the primary's clock, in microseconds; `None`: none was measured in ten seconds.
    pub delay_us: Option<u64>,
    /// For how long readers here have been owed the oldest of what they do not see, as the primary said last, in microseconds; `None`: it has not.
    pub oldest_us: Option<u64>,
    /// Why it is not following, if it is not.
    pub error: Option<String>,
}

impl FollowingRow {
    /// Returns how many bytes that the primary had on its disk when it was last heard were not received; `None` when that is not known.
    pub fn lacked_bytes(&self) -> Option<u64> {
        self.primary_durable.map(|durable| durable.bytes_since(self.received.min(durable)))
    }

    /// Returns how many of them readers here do not see.
    pub fn behind_bytes(&self) -> Option<u64> {
        self.primary_durable.map(|durable| durable.bytes_since(self.applied.min(durable)))
    }
}

/// How much a trouble matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Clients are not served as they may expect.
    Failure,
    /// They are, and somebody should look.
    Warning,
}

impl Severity {
    /// Returns the word that views show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Warning => "warning",
        }
    }
}

/// Something that somebody should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, a word.
    pub subject: &'static str,
    /// What is the matter, and what can be done, in a line.
    pub reason: String,
}

fn int(number: u64) -> Value {
    Value::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

fn size(number: usize) -> Value {
    int(u64::try_from(number).unwrap_or(u64::MAX))
}

/// The quorum, if there is one.
pub(super) fn quorum(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let Some(row) = facts.quorum() else { return };
    out.push([
        ("quorum", row.list.into()),
        ("state", Value::text(row.state.word())),
        ("state_ms", int(row.state_ms)),
        ("needed", size(row.needed)),
        ("connected", size(row.connected)),
        ("missing", row.missing.join(", ").into()),
        ("commits", Value::text(row.state.commits())),
        ("list_before", row.before.map_or(Value::Null, Into::into)),
        ("until_lsn", row.until.map_or(Value::Null, lsn)),
    ]);
}

/// What somebody should know, a row each.
pub(super) fn health(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for trouble in facts.health() {
        out.push([
            ("severity", Value::text(trouble.severity.word())),
            ("subject", Value::text(trouble.subject)),
            ("reason", trouble.reason.into()),
        ]);
    }
}

/// The primary, if one is followed.
pub(super) fn following(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let Some(row) = facts.following() else { return };
    let number = |number: Option<u64>| number.map_or(Value::Null, int);
    let (lacked, behind) = (row.lacked_bytes(), row.behind_bytes());
    out.push([
        ("primary_address", row.address.into()),
        ("slot", row.slot.into()),
        ("state", Value::text(row.state.word())),
        ("state_ms", int(row.state_ms)),
        ("unheard_ms", number(row.unheard_ms)),
        ("primary_durable_lsn", row.primary_durable.map_or(Value::Null, lsn)),
        ("received_lsn", lsn(row.received)),
        ("applied_lsn", lsn(row.applied)),
        ("lacked_bytes", number(lacked)),
        ("behind_bytes", number(behind)),
        ("delay_us", number(row.delay_us)),
        ("oldest_us", number(row.oldest_us)),
        ("error", row.error.map_or(Value::Null, Into::into)),
    ]);
}

//! [`QuorumRow`]: the state of the replicas that commits wait for, as `collie_quorum` shows it. [`FollowingRow`]: the
//! primary that this database follows, as `collie_following` shows it. [`Trouble`]: a problem for an operator, as
//! `collie_health` shows it. The first two relations have one row, or none without a quorum or a primary to follow.

use collie_base::Lsn;

use super::{SessionFacts, functions::lsn, output::Output};
use crate::types::Value;

/// The state of a quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuorumState {
    /// As many replicas as are needed are connected.
    #[default]
    Whole,
    /// Fewer replicas are connected; commits that need them wait.
    Short,
    /// Commits do not wait for replicas, and report that.
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

    /// Returns, in a word, the fate of commits that need replicas: they are `confirmed`, are `waiting`, or are answered
    /// `unconfirmed`.
    pub const fn commits(self) -> &'static str {
        match self {
            Self::Whole => "confirmed",
            Self::Short => "waiting",
            Self::Degraded => "unconfirmed",
        }
    }
}

/// What the witness of a primary knows about the quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WitnessState {
    /// Nothing that this server is sure of: it has just begun to lead, or a question is on its way.
    #[default]
    Unknown,
    /// The quorum has every commit.
    Whole,
    /// This server acknowledges commits without its quorum.
    Degraded,
    /// It did not answer the last question.
    Unreachable,
}

impl WitnessState {
    /// Returns the word that views show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Whole => "whole",
            Self::Degraded => "degraded",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The replicas that commits wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRow {
    /// Their list, as in `replication.quorum`; empty while the list changes to no replicas.
    pub list: String,
    /// While the list changes, the previous list, which commits wait for too.
    pub before: Option<String>,
    /// The change ends once both lists have everything below this position on their disks; `None` also before its
    /// record is
    /// written.
    pub until: Option<Lsn>,
    /// Their state.
    pub state: QuorumState,
    /// The age of this state in milliseconds; at most the time for which this server has been the primary.
    pub state_ms: u64,
    /// The number of replicas needed; while the list changes, that of the list that needs more.
    pub needed: usize,
    /// The number of replicas connected; while the list changes, of both lists.
    pub connected: usize,
    /// The slot names of the replicas that are not connected.
    pub missing: Vec<String>,
    /// What the witness knows; `None` without one.
    pub witness: Option<WitnessState>,
}

impl QuorumRow {
    /// Describes the quorum configuration: both lists while one changes to the other.
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

/// The state of a replica's connection to its primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowingState {
    /// It is not connected, and tries to connect.
    #[default]
    Looking,
    /// It receives log.
    Following,
    /// It receives no more log.
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

/// The primary that a database follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowingRow {
    /// The address at which the primary listens for replicas, or which is tried first.
    pub address: String,
    /// The name of the slot on the primary.
    pub slot: String,
    /// The state of the connection.
    pub state: FollowingState,
    /// The age of this state in milliseconds; at most the time for which the database has been open.
    pub state_ms: u64,
    /// Milliseconds since the last message of the primary; `None` if there was none since the database was opened.
    pub unheard_ms: Option<u64>,
    /// The primary's durable position as of that message.
    pub primary_durable: Option<Lsn>,
    /// The end of the received log.
    pub received: Lsn,
    /// The position up to which readers here see commits.
    pub applied: Lsn,
    /// The recent delay until readers here see a commit, on the primary's clock, in microseconds; `None` if none was
    /// measured in ten seconds.
    pub delay_us: Option<u64>,
    /// The age of the oldest commit that readers here do not see yet, as of the primary's last message, in
    /// microseconds;
    /// `None` if the primary has not sent it.
    pub oldest_us: Option<u64>,
    /// The reason why it is not following, if it is not.
    pub error: Option<String>,
}

impl FollowingRow {
    /// Returns the number of bytes that the primary had on its disk as of its last message and that were not received;
    /// `None` if that is not known.
    pub fn lacked_bytes(&self) -> Option<u64> {
        self.primary_durable.map(|durable| durable.bytes_since(self.received.min(durable)))
    }

    /// Returns the number of those bytes that readers here do not see.
    pub fn behind_bytes(&self) -> Option<u64> {
        self.primary_durable.map(|durable| durable.bytes_since(self.applied.min(durable)))
    }
}

/// The severity of a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Clients are not served as they may expect.
    Failure,
    /// Clients are served, but an operator should look into it.
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

/// A problem of the running database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its severity.
    pub severity: Severity,
    /// Its subject, in a word.
    pub subject: &'static str,
    /// The problem and its remedy, in one line.
    pub reason: String,
}

fn int(number: u64) -> Value {
    Value::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

fn size(number: usize) -> Value {
    int(u64::try_from(number).unwrap_or(u64::MAX))
}

/// Adds the quorum, if there is one.
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
        ("witness", row.witness.map_or(Value::Null, |witness| Value::text(witness.word()))),
    ]);
}

/// Adds a row for each trouble.
pub(super) fn health(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for trouble in facts.health() {
        out.push([
            ("severity", Value::text(trouble.severity.word())),
            ("subject", Value::text(trouble.subject)),
            ("reason", trouble.reason.into()),
        ]);
    }
}

/// Adds the primary, if one is followed.
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

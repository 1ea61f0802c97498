//! `Doing`: the current activity of a session, as the views of sessions show it.

/// The state of a session, in the words of `pg_stat_activity.state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It answers a message.
    Active,
    /// It waits for its client, with no open transaction.
    #[default]
    Idle,
    /// It waits for its client inside a transaction.
    InTransaction,
    /// It waits for its client inside a transaction that failed.
    InFailedTransaction,
}

impl State {
    /// Returns the state as `pg_stat_activity` shows it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::InTransaction => "idle in transaction",
            Self::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// The activity of a session that other sessions see. Times are microseconds since 2000-01-01.
#[derive(Clone, Debug, Default)]
pub struct Doing {
    /// Its state.
    pub state: State,
    /// The statement it runs, or ran last.
    pub query: String,
    /// The start of that statement; `None` before the first.
    pub query_start: Option<i64>,
    /// The time at which the state last changed; `None` before the first statement.
    pub state_change: Option<i64>,
    /// The start of its transaction; `None` outside one.
    pub transaction_start: Option<i64>,
    /// The name that its application gave.
    pub application: String,
}

//! `Doing`: what a session does now, as the views of sessions show it.

/// What a session is doing, in the words of `pg_stat_activity.state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It answers a message.
    Active,
    /// It waits for its client, with nothing open.
    #[default]
    Idle,
    /// It waits for its client inside a transaction.
    InTransaction,
    /// It waits for its client inside a transaction that failed.
    InFailedTransaction,
}

impl State {
    /// Returns the words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::InTransaction => "idle in transaction",
            Self::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// What others see of a session. Times are microseconds since 2000-01-01.
#[derive(Clone, Debug, Default)]
pub struct Doing {
    /// What it does.
    pub state: State,
    /// The statement it runs, or ran last.
    pub query: String,
    /// When that began; `None` before the first.
    pub query_start: Option<i64>,
    /// When the state last changed; `None` before the first statement.
    pub state_change: Option<i64>,
    /// When its transaction began; `None` outside one.
    pub transaction_start: Option<i64>,
    /// What its application calls itself.
    pub application: String,
}

//! What a step of an execution is given: database, session, clock, virtual tables, and where rows go.
//!
//! Holds no state of a statement: that is `Execution`'s. Everything here is borrowed for one step (SQL-8).

use std::sync::Arc;

use collie_engine::{Blocker, CancelHandle, CancelReason, Db, Session};
use collie_env::Clock;

use crate::{
    builtin::EvalContext,
    catalog::{relation::Relation, snapshot::Catalog},
    error::{Result, SqlError, SqlState},
    exec::{cte::CteState, foreign::Events, held::Held, row_ids::RowIds, subquery::SubState},
    plan::node::Plan,
    types::Value,
};

/// What built-in functions are told: text settings, times, and who answers for catalog and session.
pub type EvalParts<'a> = EvalContext<'a>;

/// What one step works with.
pub struct ExecContext<'a> {
    /// The database.
    pub db: &'a Db,
    /// The session; it has an open transaction and has begun the statement.
    pub session: &'a mut Session,
    /// The catalog the plan was made for.
    pub catalog: &'a Arc<Catalog>,
    /// What built-in functions are told.
    pub eval: EvalParts<'a>,
    /// Gives the rows of system tables.
    pub virtual_tables: &'a dyn VirtualTables,
    /// Gives row ids to tables without a primary key.
    pub row_ids: &'a RowIds,
    /// Says whether the statement was cancelled.
    pub cancel: &'a CancelHandle,
    /// Says how long a step has run.
    pub clock: &'a dyn Clock,
    /// Calls what may hold up its thread for long and cannot give way in between.
    pub aside: Aside<'a>,
}

/// Calls what it is given, while others of the thread run elsewhere.
pub type Aside<'a> = &'a dyn Fn(&mut dyn FnMut());

/// Gives the rows of system tables.
pub trait VirtualTables {
    /// Returns the rows of `relation`, each with one value per column. With `lookup`, at least those whose column at
    /// that place equals the value; others may be among them.
    ///
    /// # Errors
    /// When the rows cannot be computed.
    fn rows(&self, relation: &Relation, lookup: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>>;
}

/// Takes the rows of a result.
pub trait RowSink {
    /// Takes a row.
    ///
    /// # Errors
    /// When a value cannot be written; the statement fails with it.
    fn row(&mut self, values: &[Value]) -> Result<()>;

    /// Returns whether it wants no more rows now. The execution then returns [`Step::Yield`].
    fn is_full(&self) -> bool {
        false
    }
}

/// How a step ended.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// The statement is over. `rows` is for its command tag: rows returned since the last [`Step::Suspended`], or rows
    /// written.
    Done {
        /// Rows returned or written.
        rows: u64,
    },
    /// `max_rows` rows were returned; there may be more.
    Suspended,
    /// Somebody holds what is needed: wait for it, then step again.
    Wait(Blocker),
    /// The sink is full, or the statement has run for about a millisecond: drain, let others run, then step again.
    Yield,
}

/// A step's view of everything, for operators and expressions.
pub(crate) struct Run<'a> {
    pub(crate) db: &'a Db,
    pub(crate) session: &'a mut Session,
    pub(crate) catalog: &'a Catalog,
    pub(crate) eval: EvalContext<'a>,
    pub(crate) virtual_tables: &'a dyn VirtualTables,
    pub(crate) row_ids: &'a RowIds,
    pub(crate) cancel: &'a CancelHandle,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) aside: Aside<'a>,
    pub(crate) plan: &'a Plan,
    pub(crate) params: &'a [Value],
    /// States of `plan.subplans`.
    pub(crate) subs: &'a mut [SubState],
    /// States of `plan.ctes`.
    pub(crate) ctes: &'a mut [CteState],
    /// What foreign keys ask about, of the rows written so far.
    pub(crate) events: &'a mut Events,
    /// How much is kept of rows.
    pub(crate) held: &'a mut Held,
    /// Operands of the simple CASEs being evaluated.
    pub(crate) operands: Vec<Value>,
    /// How much the step has done.
    pub(crate) share: &'a mut Share,
}

/// How much a step has done.
#[derive(Debug)]
pub(crate) struct Share {
    /// When it began, by a clock that only goes on.
    began_ns: u64,
    /// Work since then, in rows that are read.
    ticks: u32,
    /// Whether its time is over.
    is_late: bool,
    /// Whether it is on a thread where it holds nobody up.
    pub(crate) is_aside: bool,
    /// Rows that the step's operators took in.
    rows: u64,
}

impl Share {
    /// Begins one.
    pub(crate) fn begin(clock: &dyn Clock) -> Self {
        Self { began_ns: clock.now_ns(), ticks: 0, is_late: false, is_aside: false, rows: 0 }
    }

    /// Returns how many rows the step's operators took in.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }
}

impl Run<'_> {
    /// Counts a row; every [`LOOK_TICKS`] rows, fails when the statement was cancelled.
    pub(crate) fn tick(&mut self) -> Result<()> {
        self.share.rows += 1;
        self.work(1)
    }

    /// Counts work that takes as long as reading so many rows.
    ///
    /// # Errors
    /// As of [`Run::tick`].
    pub(crate) fn work(&mut self, ticks: u32) -> Result<()> {
        let before = self.share.ticks;
        self.share.ticks = before.saturating_add(ticks);
        if before / LOOK_TICKS == self.share.ticks / LOOK_TICKS {
            return Ok(());
        }
        self.share.is_late |= self.clock.now_ns().saturating_sub(self.share.began_ns) >= STEP_NS;
        check_cancel(self.cancel)
    }

    /// Counts `items` that a value is compared with, each of which is much less work than a row.
    ///
    /// # Errors
    /// As of [`Run::tick`].
    pub(crate) fn compared(&mut self, items: usize) -> Result<()> {
        let ticks = items / COMPARISONS_PER_TICK;
        if ticks == 0 { Ok(()) } else { self.work(u32::try_from(ticks).unwrap_or(u32::MAX)) }
    }

    /// Counts a row that was read by its key: no part of a share, for it is one row.
    pub(crate) fn note_row(&mut self) {
        self.share.rows += 1;
    }

    /// Returns whether this step has done its share: the caller should let others run.
    pub(crate) fn is_spent(&self) -> bool {
        self.share.is_late || self.share.ticks >= STEP_TICKS
    }

    /// Takes another share in the same step, where the work cannot stop: inside an expression or a shared subquery.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        (self.share.began_ns, self.share.ticks, self.share.is_late) = (self.clock.now_ns(), 0, false);
        check_cancel(self.cancel)
    }
}

/// A step's time, in nanoseconds.
const STEP_NS: u64 = 1_000_000;
/// Rows handled in one step, about a millisecond of work if they are only read.
const STEP_TICKS: u32 = 8_192;
/// Work between two looks at the clock and for a cancel.
const LOOK_TICKS: u32 = 64;
/// Comparisons with items of a list that take as long as reading a row.
const COMPARISONS_PER_TICK: usize = 8;
/// What writing a row takes, in rows that are read: so a step of writes looks at the clock every few rows.
pub(crate) const WRITE_TICKS: u32 = 16;

/// Fails when the statement was cancelled.
pub(crate) fn check_cancel(cancel: &CancelHandle) -> Result<()> {
    match cancel.reason() {
        None => Ok(()),
        Some(reason) => Err(cancelled(reason)),
    }
}

/// Makes the error of a cancelled statement.
pub(crate) fn cancelled(reason: CancelReason) -> SqlError {
    let (state, message) = match reason {
        CancelReason::User => (SqlState::QUERY_CANCELED, "canceling statement due to user request"),
        CancelReason::StatementTimeout => (SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"),
        CancelReason::TransactionTimeout => {
            (SqlState::TRANSACTION_TIMEOUT, "terminating connection due to transaction timeout")
        }
        // Only a commit is under this limit, and it says more.
        CancelReason::ReplicasTimeout => {
            (SqlState::QUERY_CANCELED, "canceling the wait for replicas due to its timeout")
        }
    };
    SqlError::new(state, message)
}

/// The frames an expression is evaluated over: its own level's and those around it.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) frame: &'a [Value],
    pub(crate) outer: Option<&'a Env<'a>>,
}

impl<'a> Env<'a> {
    pub(crate) fn new(frame: &'a [Value], outer: Option<&'a Env<'a>>) -> Self {
        Self { frame, outer }
    }

    /// Returns a slot of the level `up` levels out.
    pub(crate) fn outer_slot(&self, up: usize, slot: usize) -> Option<&'a Value> {
        let mut env = self.outer;
        for _ in 1..up {
            env = env?.outer;
        }
        env?.frame.get(slot)
    }
}

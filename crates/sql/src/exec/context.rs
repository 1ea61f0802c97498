//! The context of a step of an execution: the database, the session, the clock, the virtual tables and the row sink.
//!
//! It holds no state of a statement; that belongs to `Execution`. Everything here is borrowed for one step (SQL-8).

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

/// The context of built-in functions: text settings, times, and the access to catalog and session.
pub type EvalParts<'a> = EvalContext<'a>;

/// The context of one step.
pub struct ExecContext<'a> {
    /// The database.
    pub db: &'a Db,
    /// The session; it has an open transaction and has begun the statement.
    pub session: &'a mut Session,
    /// The catalog for which the plan was made.
    pub catalog: &'a Arc<Catalog>,
    /// The context of built-in functions.
    pub eval: EvalParts<'a>,
    /// Supplies the rows of system tables.
    pub virtual_tables: &'a dyn VirtualTables,
    /// Assigns row ids in tables without a primary key.
    pub row_ids: &'a RowIds,
    /// Reports whether the statement was cancelled.
    pub cancel: &'a CancelHandle,
    /// Measures how long a step has run.
    pub clock: &'a dyn Clock,
    /// Runs work that may block its thread for long and cannot yield.
    pub aside: Aside<'a>,
}

/// Runs a closure while the other tasks of the thread are moved elsewhere.
pub type Aside<'a> = &'a dyn Fn(&mut dyn FnMut());

/// A source of the rows of system tables.
pub trait VirtualTables {
    /// Returns the rows of `relation`, each with one value per column. With `lookup`, at least those whose column at
    /// that place equals the value; others may be among them.
    ///
    /// # Errors
    /// If the rows cannot be computed.
    fn rows(&self, relation: &Relation, lookup: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>>;
}

/// A consumer of the rows of a result.
pub trait RowSink {
    /// Takes a row.
    ///
    /// # Errors
    /// If a value cannot be written; the statement fails with the error.
    fn row(&mut self, values: &[Value]) -> Result<()>;

    /// Returns whether it accepts no more rows now. The execution then returns [`Step::Yield`].
    fn is_full(&self) -> bool {
        false
    }
}

/// The outcome of a step.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// The statement has ended. `rows` is for its command tag: rows returned since the last [`Step::Suspended`], or
    /// rows
    /// written.
    Done {
        /// Rows returned or written.
        rows: u64,
    },
    /// `max_rows` rows were returned; there may be more.
    Suspended,
    /// Another transaction holds what is needed: wait for it, then step again.
    Wait(Blocker),
    /// The sink is full, or the step has run for about a millisecond: drain, let other sessions run, then step again.
    Yield,
}

/// The context of a step for operators and expressions.
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
    /// The foreign key events of the rows written so far.
    pub(crate) events: &'a mut Events,
    /// The account of the rows that are kept.
    pub(crate) held: &'a mut Held,
    /// Operands of the simple CASE expressions that are being evaluated.
    pub(crate) operands: Vec<Value>,
    /// The work that the step has done.
    pub(crate) share: &'a mut Share,
}

/// The work that a step has done.
#[derive(Debug)]
pub(crate) struct Share {
    /// The start of the share, on a monotonic clock.
    began_ns: u64,
    /// The work since then, in units of reading one row.
    ticks: u32,
    /// Whether its time is used up.
    is_late: bool,
    /// Whether it runs aside, where it holds up no other session.
    pub(crate) is_aside: bool,
    /// The number of rows that the step's operators read.
    rows: u64,
}

impl Share {
    /// Begins a share.
    pub(crate) fn begin(clock: &dyn Clock) -> Self {
        Self { began_ns: clock.now_ns(), ticks: 0, is_late: false, is_aside: false, rows: 0 }
    }

    /// Returns the number of rows that the step's operators read.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }
}

impl Run<'_> {
    /// Counts a row; every [`LOOK_TICKS`] units, fails if the statement was cancelled.
    pub(crate) fn tick(&mut self) -> Result<()> {
        self.share.rows += 1;
        self.work(1)
    }

    /// Counts work that takes as long as reading the given number of rows.
    ///
    /// # Errors
    /// Those of [`Run::tick`].
    pub(crate) fn work(&mut self, ticks: u32) -> Result<()> {
        let before = self.share.ticks;
        self.share.ticks = before.saturating_add(ticks);
        if before / LOOK_TICKS == self.share.ticks / LOOK_TICKS {
            return Ok(());
        }
        self.share.is_late |= self.clock.now_ns().saturating_sub(self.share.began_ns) >= STEP_NS;
        check_cancel(self.cancel)
    }

    /// Counts `items` that a value is compared with; each is much less work than a row.
    ///
    /// # Errors
    /// Those of [`Run::tick`].
    pub(crate) fn compared(&mut self, items: usize) -> Result<()> {
        let ticks = items / COMPARISONS_PER_TICK;
        if ticks == 0 { Ok(()) } else { self.work(u32::try_from(ticks).unwrap_or(u32::MAX)) }
    }

    /// Counts a row that was read by its key. It does not count toward the share, because it is only one row.
    pub(crate) fn note_row(&mut self) {
        self.share.rows += 1;
    }

    /// Returns whether this step has used its share, so that the caller should let other sessions run.
    pub(crate) fn is_spent(&self) -> bool {
        self.share.is_late || self.share.ticks >= STEP_TICKS
    }

    /// Begins another share in the same step, where the work cannot stop: inside an expression or a shared subquery.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        (self.share.began_ns, self.share.ticks, self.share.is_late) = (self.clock.now_ns(), 0, false);
        check_cancel(self.cancel)
    }
}

/// The time of a step, in nanoseconds.
const STEP_NS: u64 = 1_000_000;
/// The rows of one step, about a millisecond of work if they are only read.
const STEP_TICKS: u32 = 8_192;
/// The work between two checks of the clock and for a cancel.
const LOOK_TICKS: u32 = 64;
/// The number of comparisons with items of a list that take as long as reading a row.
const COMPARISONS_PER_TICK: usize = 8;
/// The work of writing a row, in rows that are read; so a step of writes checks the clock every few rows.
pub(crate) const WRITE_TICKS: u32 = 16;

/// Fails if the statement was cancelled.
pub(crate) fn check_cancel(cancel: &CancelHandle) -> Result<()> {
    match cancel.reason() {
        None => Ok(()),
        Some(reason) => Err(cancelled(reason)),
    }
}

/// Returns the error of a cancelled statement.
pub(crate) fn cancelled(reason: CancelReason) -> SqlError {
    let (state, message) = match reason {
        CancelReason::User => (SqlState::QUERY_CANCELED, "canceling statement due to user request"),
        CancelReason::StatementTimeout => (SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"),
        CancelReason::TransactionTimeout => {
            (SqlState::TRANSACTION_TIMEOUT, "terminating connection due to transaction timeout")
        }
        // Only a commit has this limit, and it adds its own explanation.
        CancelReason::ReplicasTimeout => {
            (SqlState::QUERY_CANCELED, "canceling the wait for replicas due to its timeout")
        }
    };
    SqlError::new(state, message)
}

/// The frames over which an expression is evaluated: that of its own level and those of the levels around it.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) frame: &'a [Value],
    pub(crate) outer: Option<&'a Env<'a>>,
}

impl<'a> Env<'a> {
    pub(crate) fn new(frame: &'a [Value], outer: Option<&'a Env<'a>>) -> Self {
        Self { frame, outer }
    }

    /// Returns a slot of the level that is `up` levels further out.
    pub(crate) fn outer_slot(&self, up: usize, slot: usize) -> Option<&'a Value> {
        let mut env = self.outer;
        for _ in 1..up {
            env = env?.outer;
        }
        env?.frame.get(slot)
    }
}

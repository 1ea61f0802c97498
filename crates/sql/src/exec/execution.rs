//! `Execution`: one run of a plan with its parameters, advanced step by step.
//!
//! It owns all state of the run; a step borrows the rest. It can be reset and run again with other parameters, keeping
//! its buffers.
//!
//! # Invariants
//! - X1. Between steps it holds no borrow, latch or pin; it can be moved to another thread or dropped (SQL-8).
//! - X2. With a row limit, a statement that writes, in WITH too, writes all of its rows before the first is returned.
//! - X3. The caller that runs it to its end takes its events and has them answered before the statement counts as done.
//!   A reset keeps them, because several runs may be one statement.

use std::{collections::VecDeque, sync::Arc};

use collie_base::Lsn;
use collie_engine::Db;
use collie_obs::{Ended, ExecuteRow, word};

use crate::{
    error::Result,
    exec::{
        context::{ExecContext, RowSink, Run, Share, Step, WRITE_TICKS},
        cte::{self, CteState},
        foreign::{Event, Events},
        held::{Held, Kept},
        machine::Machine,
        op::Pull,
        query_memory::QueryMemory,
        subquery::SubState,
    },
    plan::{
        self,
        node::{Plan, Root},
    },
    types::Value,
};

const _: () = {
    const fn moves_between_threads<T: Send>() {}
    const fn shared_between_threads<T: Send + Sync>() {}
    moves_between_threads::<Execution>(); // X1
    shared_between_threads::<Plan>(); // node.rs P3
};

/// One run of a plan.
pub struct Execution {
    plan: Arc<Plan>,
    params: Vec<Value>,
    subs: Vec<SubState>,
    ctes: Vec<CteState>,
    /// The number of entries of `plan.ahead` that are computed.
    prepared: usize,
    /// The number of entries of `plan.modifying`, counted from the last one, that were run to their end after the rest.
    finished: usize,
    machine: Machine,
    out: Vec<Value>,
    /// Rows of RETURNING that are to be returned later (X2).
    returned: VecDeque<Box<[Value]>>,
    /// Rows returned since the last suspension.
    emitted: u64,
    /// Rows written, or returned by a query with data-modifying expressions.
    written: u64,
    /// The foreign key events (X3).
    events: Events,
    held: Held,
    /// The part of `held` that `returned` accounts for.
    kept: Kept,
    /// The number of rows that its operators read, in all steps of all runs.
    handled: u64,
    done: bool,
}

/// The number of rows after which an execution may hold so much that dropping it takes longer than a step.
const MANY_ROWS: u64 = 1 << 14;

impl Execution {
    /// Creates a run of `plan`; nothing happens before the first step.
    pub fn new(plan: Arc<Plan>, params: Vec<Value>) -> Self {
        let machine = Machine::new(&plan.root);
        let subs = plan.subplans.iter().map(|_| SubState::default()).collect();
        let ctes = plan.ctes.iter().map(|_| CteState::default()).collect();
        Self {
            plan,
            params,
            subs,
            ctes,
            prepared: 0,
            finished: 0,
            machine,
            out: Vec::new(),
            returned: VecDeque::new(),
            emitted: 0,
            written: 0,
            events: Events::default(),
            held: Held::default(),
            kept: Kept::by("RETURNING"),
            handled: 0,
            done: false,
        }
    }

    /// Limits the bytes of rows that it keeps in memory, and those of all statements by `server`; it fails with 53200
    /// beyond either limit.
    #[must_use]
    pub fn keeping_at_most(self, bytes_max: u64, server: Arc<QueryMemory>) -> Self {
        Self { held: Held::of(server, bytes_max), ..self }
    }

    /// Starts over with other parameters, keeping its buffers. Returns the vector of the old parameters for reuse.
    pub fn reset(&mut self, params: Vec<Value>) -> Vec<Value> {
        self.machine.rewind();
        self.subs.iter_mut().for_each(SubState::reset);
        self.ctes.iter_mut().for_each(CteState::reset);
        self.prepared = 0;
        self.finished = 0;
        self.returned.clear();
        self.emitted = 0;
        self.written = 0;
        self.held.reset();
        self.done = false;
        std::mem::replace(&mut self.params, params)
    }

    /// Takes the foreign key events, once the statement has ended (X3).
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.take()
    }

    /// Returns whether it may hold so much that it should not be dropped on a thread that other sessions wait for.
    pub(crate) fn is_heavy(&self) -> bool {
        self.handled > MANY_ROWS
    }

    /// Returns the plan it runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Runs until something stops it. At most `max_rows` rows are returned before [`Step::Suspended`]; 0 means no
    /// limit.
    ///
    /// # Errors
    /// The error of the statement. Its writes stay in the transaction until the caller rolls it back.
    pub fn step(&mut self, cx: &mut ExecContext<'_>, sink: &mut dyn RowSink, max_rows: u64) -> Result<Step> {
        let (span, before, mut share) = (collie_obs::start::<ExecuteRow>(), self.written, Share::begin(cx.clock));
        let step = self.advance(cx, sink, max_rows, &mut share);
        self.handled += share.rows();
        let step = step?;
        if let Some(span) = span {
            self.tell(span.end(), cx.db, &share, self.written.saturating_sub(before));
        }
        Ok(step)
    }

    /// Records the sample of a measured step.
    #[cold]
    fn tell(&self, ended: Ended<ExecuteRow>, db: &Db, share: &Share, written: u64) {
        let kind = match &self.plan.root {
            Root::Query(_) => 0,
            Root::Insert(_) => 1,
            Root::Update(_) => 2,
            Root::Delete(_) => 3,
        };
        let mut index_depth: u32 = 0;
        plan::indexes_of(&self.plan, &mut |index| index_depth = index_depth.saturating_add(db.index_depth(index)));
        let (rows_examined, rows_written) = (word(share.rows()), word(written));
        ended.tell(Lsn::ZERO, ExecuteRow { kind, rows_examined, rows_written, index_depth }, []);
    }

    /// Implements [`Execution::step`]; `share` counts the work that was done.
    fn advance(
        &mut self,
        cx: &mut ExecContext<'_>,
        sink: &mut dyn RowSink,
        max_rows: u64,
        share: &mut Share,
    ) -> Result<Step> {
        let Self {
            plan,
            params,
            subs,
            ctes,
            prepared,
            finished,
            machine,
            out,
            returned,
            emitted,
            written,
            events,
            held,
            kept,
            done,
            ..
        } = self;
        let mut run = Run {
            db: cx.db,
            session: &mut *cx.session,
            catalog: cx.catalog,
            eval: cx.eval,
            virtual_tables: cx.virtual_tables,
            row_ids: cx.row_ids,
            cancel: cx.cancel,
            clock: cx.clock,
            aside: cx.aside,
            plan,
            params,
            subs,
            ctes,
            events,
            held,
            operands: Vec::new(),
            share,
        };
        super::context::check_cancel(run.cancel)?;
        // Before anything else: rows that expressions read, since expressions cannot wait (cte W3).
        while let Some(ahead) = plan.ahead.get(*prepared) {
            match cte::compute(*ahead, &mut run)? {
                Pull::Wait(blocker) => return Ok(Step::Wait(blocker)),
                Pull::Yield => return Ok(Step::Yield),
                Pull::Row | Pull::End => *prepared += 1,
            }
        }
        // A query without writes passes its rows to the sink as they come.
        if plan.modifying.is_empty()
            && let (Machine::Query(state), Root::Query(query)) = (&mut *machine, &plan.root)
        {
            loop {
                if *done {
                    return Ok(Step::Done { rows: std::mem::take(emitted) });
                }
                if max_rows > 0 && *emitted >= max_rows {
                    *emitted = 0;
                    return Ok(Step::Suspended);
                }
                if sink.is_full() || run.is_spent() {
                    return Ok(Step::Yield);
                }
                match state.pull(query, None, &mut run)? {
                    Pull::Row => {
                        sink.row(state.row(query))?;
                        *emitted += 1;
                    }
                    Pull::End => *done = true,
                    Pull::Wait(blocker) => return Ok(Step::Wait(blocker)),
                    Pull::Yield => return Ok(Step::Yield),
                }
            }
        }
        let returns = match &plan.root {
            Root::Query(_) => true,
            Root::Insert(insert) => !insert.returning.is_empty(),
            Root::Update(update) => !update.returning.is_empty(),
            Root::Delete(delete) => !delete.returning.is_empty(),
        };
        // With a row limit all rows are written before the first is returned (X2).
        let keeps = returns && max_rows > 0;
        while !*done {
            if run.is_spent() || (returns && !keeps && sink.is_full()) {
                return Ok(Step::Yield);
            }
            match machine.next(&plan.root, &mut run, out)? {
                Pull::Row => {
                    *written += 1;
                    run.work(WRITE_TICKS)?;
                    if keeps {
                        kept.row(run.held, out)?;
                        returned.push_back(out.as_slice().into());
                    } else if returns {
                        sink.row(out)?;
                    }
                }
                Pull::End => *done = true,
                Pull::Wait(blocker) => return Ok(Step::Wait(blocker)),
                Pull::Yield => return Ok(Step::Yield),
            }
        }
        // Last to first, as in PostgreSQL: a later expression may read an earlier one.
        while let Some(cte) = plan.modifying.len().checked_sub(*finished + 1).map(|at| plan.modifying[at]) {
            match cte::finish(cte, &mut run)? {
                Pull::Wait(blocker) => return Ok(Step::Wait(blocker)),
                Pull::Yield => return Ok(Step::Yield),
                Pull::Row | Pull::End => *finished += 1,
            }
        }
        while !returned.is_empty() {
            if max_rows > 0 && *emitted >= max_rows {
                *emitted = 0;
                return Ok(Step::Suspended);
            }
            if sink.is_full() {
                return Ok(Step::Yield);
            }
            if let Some(row) = returned.pop_front() {
                sink.row(&row)?;
                *emitted += 1;
            }
        }
        Ok(Step::Done { rows: *written })
    }
}

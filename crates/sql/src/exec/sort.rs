//! Sort, top-N and LIMIT.
//!
//! # Invariants
//! - T1. Rows with equal keys keep the order in which they arrived.
//! - T2. With a bound of n, at most 2n + 64 rows are held.
//! - T3. Between two checks for a cancel, at most one run is sorted, or one bounded set of rows is cut in linear time.
//!   Rows
//!   are sorted in runs as they arrive, and the runs are merged as rows are read.

use std::{cmp::Ordering, collections::BinaryHeap, vec::IntoIter};

use crate::{
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        eval::eval,
        held::Kept,
        op::{Op, Pull, restore, save},
        rowkey,
    },
    plan::{
        code::Code,
        node::{Limit, Sort},
    },
    types::Value,
};

/// Key, order of arrival, slots.
type SortRow = (Box<[u8]>, u64, Box<[Value]>);

/// The rows that are sorted at one time: about a millisecond of work.
const RUN_ROWS: usize = 1 << 12;
/// The work of sorting a run, in rows that are read.
const RUN_TICKS: u32 = 1 << 13;

/// The state of a sort.
pub(crate) struct SortState {
    child: Op,
    /// Rows that arrived since the last run was sorted.
    rows: Vec<SortRow>,
    runs: Vec<IntoIter<SortRow>>,
    /// The first remaining row of each run.
    heads: BinaryHeap<Head>,
    arrived: u64,
    bound: Option<usize>,
    started: bool,
    /// Whether the input has ended.
    ended: bool,
    built: bool,
    kept: Kept,
}

/// The first row of a run; the greatest `Head` comes first in the order of the sort.
struct Head {
    row: SortRow,
    run: usize,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&other.row, &self.row)
    }
}

/// Orders by key, then by arrival (T1).
fn order(left: &SortRow, right: &SortRow) -> Ordering {
    left.0.cmp(&right.0).then(left.1.cmp(&right.1))
}

impl SortState {
    pub(crate) fn new(sort: &Sort) -> Self {
        Self {
            child: Op::new(&sort.child),
            rows: Vec::new(),
            runs: Vec::new(),
            heads: BinaryHeap::new(),
            arrived: 0,
            bound: None,
            started: false,
            ended: false,
            built: false,
            kept: Kept::by("a sort"),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.child.rewind();
        self.rows.clear();
        self.runs.clear();
        self.heads.clear();
        self.kept.drop_all();
        self.arrived = 0;
        self.started = false;
        self.ended = false;
        self.built = false;
    }

    pub(crate) fn pull(
        &mut self,
        sort: &Sort,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        if !self.started {
            self.bound = match &sort.bound {
                None => None,
                Some((limit, offset)) => {
                    let env = Env::new(frame, outer);
                    let skip = count(offset.as_ref(), Clause::Offset, run, &env)?.unwrap_or(0);
                    count(limit.as_ref(), Clause::Limit, run, &env)?
                        .and_then(|limit| usize::try_from(limit.saturating_add(skip)).ok())
                        .filter(|&rows| rows < 1 << 24)
                }
            };
            self.started = true;
        }
        while !self.built {
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            if self.ended {
                if self.rows.is_empty() {
                    let firsts = self.runs.iter_mut().enumerate();
                    self.heads = firsts.filter_map(|(run, rows)| Some(Head { row: rows.next()?, run })).collect();
                    self.built = true;
                } else {
                    self.end_run(self.rows.len().min(RUN_ROWS), run)?;
                }
                continue;
            }
            match self.child.pull(&sort.child, frame, outer, run)? {
                Pull::Row => {
                    run.tick()?;
                    let mut key = Vec::new();
                    for (slot, order) in &sort.keys {
                        rowkey::push_ordered(&mut key, &frame[*slot], *order)?;
                    }
                    let row = save(&sort.saved, frame);
                    // T2: beyond these, each row replaces another.
                    if self.bound.is_none_or(|bound| self.arrived < 2 * bound as u64 + 64) {
                        self.kept.key(run.held, &key)?;
                        self.kept.row(run.held, &row)?;
                    }
                    self.rows.push((key.into_boxed_slice(), self.arrived, row));
                    self.arrived += 1;
                    match self.bound {
                        Some(bound) if self.rows.len() >= 2 * bound + 64 => self.keep_first(bound),
                        None if self.rows.len() == RUN_ROWS => self.end_run(RUN_ROWS, run)?,
                        _ => {}
                    }
                }
                Pull::End => {
                    if let Some(bound) = self.bound {
                        self.keep_first(bound);
                    }
                    self.ended = true;
                }
                wait @ (Pull::Wait(_) | Pull::Yield) => return Ok(wait),
            }
        }
        let Some(Head { row: (_, _, row), run }) = self.heads.pop() else { return Ok(Pull::End) };
        self.heads.extend(self.runs[run].next().map(|row| Head { row, run }));
        restore(&sort.saved, &row, frame);
        Ok(Pull::Row)
    }

    /// Drops all rows except the first `bound`; the rest is unordered.
    fn keep_first(&mut self, bound: usize) {
        if self.rows.len() > bound {
            self.rows.select_nth_unstable_by(bound, order);
            self.rows.truncate(bound);
        }
    }

    /// Sorts the last `count` rows into a run.
    fn end_run(&mut self, count: usize, run: &mut Run<'_>) -> Result<()> {
        let mut rows = self.rows.split_off(self.rows.len() - count);
        rows.sort_unstable_by(order);
        self.runs.push(rows.into_iter());
        run.work(RUN_TICKS)
    }
}

/// The state of LIMIT and OFFSET.
pub(crate) struct LimitState {
    child: Op,
    started: bool,
    skip: u64,
    left: Option<u64>,
}

impl LimitState {
    pub(crate) fn new(limit: &Limit) -> Self {
        Self { child: Op::new(&limit.child), started: false, skip: 0, left: None }
    }

    pub(crate) fn rewind(&mut self) {
        self.child.rewind();
        self.started = false;
    }

    pub(crate) fn pull(
        &mut self,
        limit: &Limit,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        if !self.started {
            let env = Env::new(frame, outer);
            self.skip = count(limit.offset.as_ref(), Clause::Offset, run, &env)?.unwrap_or(0);
            self.left = count(limit.limit.as_ref(), Clause::Limit, run, &env)?;
            self.started = true;
        }
        loop {
            if self.left == Some(0) {
                return Ok(Pull::End);
            }
            match self.child.pull(&limit.child, frame, outer, run)? {
                Pull::Row if self.skip > 0 => self.skip -= 1,
                Pull::Row => {
                    if let Some(left) = &mut self.left {
                        *left -= 1;
                    }
                    return Ok(Pull::Row);
                }
                other => return Ok(other),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Clause {
    Limit,
    Offset,
}

/// Evaluates a row count; NULL means no limit.
fn count(code: Option<&Code>, clause: Clause, run: &mut Run<'_>, env: &Env<'_>) -> Result<Option<u64>> {
    let Some(code) = code else { return Ok(None) };
    let Some(number) = eval(code, run, env)?.as_i64() else { return Ok(None) };
    u64::try_from(number).map(Some).map_err(|_| match clause {
        Clause::Limit => SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT must not be negative"),
        Clause::Offset => SqlError::new(SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET must not be negative"),
    })
}

//! Sort, top-N and LIMIT.
//!
//! # Invariants
//! - T1. Rows with equal keys keep the order in which they came.
//! - T2. With a bound of n, at most 2n + 64 rows are held.

use crate::{
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        eval::eval,
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

/// The state of a sort.
pub(crate) struct SortState {
    child: Op,
    rows: Vec<SortRow>,
    arrived: u64,
    bound: Option<usize>,
    started: bool,
    built: bool,
    next: usize,
}

impl SortState {
    pub(crate) fn new(sort: &Sort) -> Self {
        Self {
            child: Op::new(&sort.child),
            rows: Vec::new(),
            arrived: 0,
            bound: None,
            started: false,
            built: false,
            next: 0,
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.child.rewind();
        self.rows.clear();
        self.arrived = 0;
        self.started = false;
        self.built = false;
        self.next = 0;
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
            match self.child.pull(&sort.child, frame, outer, run)? {
                Pull::Row => {
                    run.tick()?;
                    let mut key = Vec::new();
                    for (slot, order) in &sort.keys {
                        rowkey::push_ordered(&mut key, &frame[*slot], *order)?;
                    }
                    self.rows.push((key.into_boxed_slice(), self.arrived, save(&sort.saved, frame)));
                    self.arrived += 1;
                    if let Some(bound) = self.bound
                        && self.rows.len() >= 2 * bound + 64
                    {
                        self.order();
                        self.rows.truncate(bound);
                    }
                }
                Pull::End => {
                    self.order();
                    self.built = true;
                }
                wait @ (Pull::Wait(_) | Pull::Yield) => return Ok(wait),
            }
        }
        let Some((_, _, row)) = self.rows.get(self.next) else { return Ok(Pull::End) };
        self.next += 1;
        restore(&sort.saved, row, frame);
        Ok(Pull::Row)
    }

    fn order(&mut self) {
        self.rows.sort_unstable_by(|left, right| left.0.cmp(&right.0).then(left.1.cmp(&right.1)));
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

/// Evaluates a row count; NULL is none.
fn count(code: Option<&Code>, clause: Clause, run: &mut Run<'_>, env: &Env<'_>) -> Result<Option<u64>> {
    let Some(code) = code else { return Ok(None) };
    let Some(number) = eval(code, run, env)?.as_i64() else { return Ok(None) };
    u64::try_from(number).map(Some).map_err(|_| match clause {
        Clause::Limit => SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT must not be negative"),
        Clause::Offset => SqlError::new(SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET must not be negative"),
    })
}

//! Grouping by hash, with DISTINCT, FILTER and ORDER BY inside aggregates.
//!
//! Groups are returned in the order in which their first rows arrived.

use collie_base::{Map, Set};

use crate::{
    builtin::Accumulator,
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        eval::{eval, holds},
        held::Kept,
        op::{Op, Pull},
        rowkey,
    },
    plan::node::{AggregateCall, Aggregation},
    types::Value,
};

/// Arguments with their sort key, for ORDER BY inside the call.
type OrderedArguments = (Box<[u8]>, Box<[Value]>);

/// Approximate size of a group in addition to its key and its aggregates.
const GROUP_BYTES: usize = size_of::<Group>() + 32;

/// See [`GROUP_BYTES`].
const CELL_BYTES: usize = size_of::<Cell>() + 48;

/// One aggregate of one group.
struct Cell {
    state: Box<dyn Accumulator + Send>,
    seen: Set<Box<[u8]>>,
    ordered: Vec<OrderedArguments>,
}

struct Group {
    keys: Box<[Value]>,
    cells: Box<[Cell]>,
}

/// The state of a grouping.
pub(crate) struct AggregateState {
    child: Op,
    index: Map<Box<[u8]>, u32>,
    groups: Vec<Group>,
    built: bool,
    next: usize,
    key: Vec<u8>,
    kept: Kept,
}

impl AggregateState {
    pub(crate) fn new(group: &Aggregation) -> Self {
        Self {
            child: Op::new(&group.child),
            index: Map::default(),
            groups: Vec::new(),
            built: false,
            next: 0,
            key: Vec::new(),
            kept: Kept::by("GROUP BY"),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.child.rewind();
        self.index.clear();
        self.groups.clear();
        self.kept.drop_all();
        self.built = false;
        self.next = 0;
    }

    pub(crate) fn pull(
        &mut self,
        plan: &Aggregation,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        while !self.built {
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            match self.child.pull(&plan.child, frame, outer, run)? {
                Pull::Row => {
                    run.tick()?;
                    self.add(plan, run, &Env::new(frame, outer))?;
                }
                Pull::End => {
                    // Without GROUP BY there is one group, even if there are no rows.
                    if plan.keys.is_empty() && self.groups.is_empty() {
                        self.groups.push(Group { keys: Box::new([]), cells: cells(plan) });
                    }
                    self.built = true;
                }
                wait @ (Pull::Wait(_) | Pull::Yield) => return Ok(wait),
            }
        }
        while let Some(group) = self.groups.get_mut(self.next) {
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            run.work(1)?;
            self.next += 1;
            for (i, value) in group.keys.iter().enumerate() {
                frame[plan.key_base + i] = value.clone();
            }
            for (i, (cell, call)) in group.cells.iter_mut().zip(&plan.calls).enumerate() {
                frame[plan.call_base + i] = cell.finish(call)?;
            }
            if holds(plan.having.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
        Ok(Pull::End)
    }

    fn add(&mut self, plan: &Aggregation, run: &mut Run<'_>, env: &Env<'_>) -> Result<()> {
        let mut keys = Vec::with_capacity(plan.keys.len());
        self.key.clear();
        for (code, &oid) in plan.keys.iter().zip(&plan.types) {
            let value = eval(code, run, env)?;
            rowkey::push_equal(&mut self.key, &value, oid)?;
            keys.push(value);
        }
        let at = match self.index.get(self.key.as_slice()) {
            Some(&at) => at as usize,
            None => {
                let at = self.groups.len();
                let number = u32::try_from(at)
                    .map_err(|_| SqlError::new(SqlState::OUT_OF_MEMORY, "too many groups for one query"))?;
                self.kept.key(run.held, &self.key)?;
                self.kept.row(run.held, &keys)?;
                self.kept.bytes(run.held, GROUP_BYTES + plan.calls.len() * CELL_BYTES)?;
                self.index.insert(self.key.clone().into_boxed_slice(), number);
                self.groups.push(Group { keys: keys.into_boxed_slice(), cells: cells(plan) });
                at
            }
        };
        for (cell, call) in self.groups[at].cells.iter_mut().zip(&plan.calls) {
            cell.add(call, &mut self.kept, run, env)?;
        }
        Ok(())
    }
}

fn cells(plan: &Aggregation) -> Box<[Cell]> {
    plan.calls
        .iter()
        .map(|call| Cell { state: (call.make)(&call.types), seen: Set::default(), ordered: Vec::new() })
        .collect()
}

impl Cell {
    fn add(&mut self, call: &AggregateCall, kept: &mut Kept, run: &mut Run<'_>, env: &Env<'_>) -> Result<()> {
        if call.filter.is_some() && !holds(call.filter.as_ref(), run, env)? {
            return Ok(());
        }
        if let ([code], false, true) = (&*call.args, call.distinct, call.order_by.is_empty()) {
            let value = eval(code, run, env)?;
            return self.take(std::slice::from_ref(&value), kept, run);
        }
        let mut args = Vec::with_capacity(call.args.len());
        for code in &call.args {
            args.push(eval(code, run, env)?);
        }
        if call.distinct {
            let mut key = Vec::new();
            for (value, &oid) in args.iter().zip(&call.types) {
                rowkey::push_equal(&mut key, value, oid)?;
            }
            if self.seen.contains(key.as_slice()) {
                return Ok(());
            }
            kept.key(run.held, &key)?;
            self.seen.insert(key.into_boxed_slice());
        }
        if call.order_by.is_empty() {
            return self.take(&args, kept, run);
        }
        let mut key = Vec::new();
        for (code, order) in &call.order_by {
            let value = eval(code, run, env)?;
            rowkey::push_ordered(&mut key, &value, *order)?;
        }
        kept.key(run.held, &key)?;
        kept.row(run.held, &args)?;
        self.ordered.push((key.into_boxed_slice(), args.into_boxed_slice()));
        Ok(())
    }

    /// Adds a row to the aggregate.
    fn take(&mut self, args: &[Value], kept: &mut Kept, run: &mut Run<'_>) -> Result<()> {
        if self.state.keeps_rows() {
            kept.values(run.held, args)?;
        }
        self.state.add(args)
    }

    fn finish(&mut self, call: &AggregateCall) -> Result<Value> {
        if !call.order_by.is_empty() {
            self.ordered.sort_by(|(left, _), (right, _)| left.cmp(right));
            for (_, args) in std::mem::take(&mut self.ordered) {
                self.state.add(&args)?;
            }
        }
        self.state.finish()
    }
}

//! `Op`: the state of a running operator, which returns one row per call.
//!
//! A node of the plan and its `Op` are traversed together; the node is shared and constant, and the `Op` belongs to one
//! run.
//!
//! # Invariants
//! - O1. An `Op` was made by `Op::new` from the same node with which it is pulled.
//! - O2. `pull` leaves the row in the frame's slots of the node. After `Wait`, the same call continues where it was.
//! - O3. `rewind` makes the next `pull` return the first row again, with the slots and parameters of that time.

use collie_engine::Blocker;

use crate::{
    error::Result,
    exec::{
        aggregate::AggregateState,
        context::{Env, Run},
        eval::{eval, holds},
        hash_join::HashJoinState,
        lock::LockState,
        nest_loop::NestLoopState,
        scan::ScanState,
        set_operation::{DistinctState, SetOperationState},
        sort::{LimitState, SortState},
        source::{FunctionState, SubqueryState, ValuesState, VirtualState},
    },
    plan::node::{Kind, Node},
    types::Value,
};

/// The outcome of a pull.
#[must_use]
pub(crate) enum Pull {
    /// A row, in the frame.
    Row,
    /// No more rows.
    End,
    /// A lock is not free.
    Wait(Blocker),
    /// The step has done enough work; pull again to continue.
    Yield,
}

/// The state of an operator.
pub(crate) enum Op {
    Once(bool),
    Scan(Box<ScanState>),
    Virtual(Box<VirtualState>),
    Function(Box<FunctionState>),
    Subquery(Box<SubqueryState>),
    Values(ValuesState),
    Filter(Box<Op>),
    Project(Box<Op>),
    NestLoop(Box<NestLoopState>),
    HashJoin(Box<HashJoinState>),
    Aggregate(Box<AggregateState>),
    Sort(Box<SortState>),
    Distinct(Box<DistinctState>),
    Limit(Box<LimitState>),
    Append(Vec<Op>, usize),
    SetOperation(Box<SetOperationState>),
    Lock(Box<LockState>),
}

impl Op {
    /// Creates the state of `node` before its first row.
    pub(crate) fn new(node: &Node) -> Self {
        match &node.kind {
            Kind::Once => Self::Once(false),
            Kind::Scan(scan) => Self::Scan(Box::new(ScanState::new(scan))),
            Kind::Virtual(_) => Self::Virtual(Box::default()),
            Kind::Function(_) => Self::Function(Box::default()),
            Kind::Subquery(scan) => Self::Subquery(Box::new(SubqueryState::new(scan))),
            Kind::Values(_) => Self::Values(ValuesState::default()),
            Kind::Filter(filter) => Self::Filter(Box::new(Self::new(&filter.child))),
            Kind::Project(project) => Self::Project(Box::new(Self::new(&project.child))),
            Kind::NestLoop(join) => Self::NestLoop(Box::new(NestLoopState::new(join))),
            Kind::HashJoin(join) => Self::HashJoin(Box::new(HashJoinState::new(join))),
            Kind::Aggregate(group) => Self::Aggregate(Box::new(AggregateState::new(group))),
            Kind::Sort(sort) => Self::Sort(Box::new(SortState::new(sort))),
            Kind::Distinct(distinct) => Self::Distinct(Box::new(DistinctState::new(distinct))),
            Kind::Limit(limit) => Self::Limit(Box::new(LimitState::new(limit))),
            Kind::Append(children) => Self::Append(children.iter().map(Self::new).collect(), 0),
            Kind::SetOperation(both) => Self::SetOperation(Box::new(SetOperationState::new(both))),
            Kind::Lock(lock) => Self::Lock(Box::new(LockState::new(lock))),
        }
    }

    /// Starts over (O3).
    pub(crate) fn rewind(&mut self) {
        match self {
            Self::Once(done) => *done = false,
            Self::Scan(state) => state.rewind(),
            Self::Virtual(state) => state.rewind(),
            Self::Function(state) => state.rewind(),
            Self::Subquery(state) => state.rewind(),
            Self::Values(state) => state.rewind(),
            Self::Filter(child) | Self::Project(child) => child.rewind(),
            Self::NestLoop(state) => state.rewind(),
            Self::HashJoin(state) => state.rewind(),
            Self::Aggregate(state) => state.rewind(),
            Self::Sort(state) => state.rewind(),
            Self::Distinct(state) => state.rewind(),
            Self::Limit(state) => state.rewind(),
            Self::Append(children, at) => {
                children.iter_mut().for_each(Self::rewind);
                *at = 0;
            }
            Self::SetOperation(state) => state.rewind(),
            Self::Lock(state) => state.rewind(),
        }
    }

    /// Returns the next row (O2).
    pub(crate) fn pull(
        &mut self,
        node: &Node,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        match (&node.kind, self) {
            (Kind::Once, Self::Once(done)) => Ok(if std::mem::replace(done, true) { Pull::End } else { Pull::Row }),
            (Kind::Scan(scan), Self::Scan(state)) => state.pull(scan, frame, outer, run),
            (Kind::Virtual(scan), Self::Virtual(state)) => state.pull(scan, frame, outer, run),
            (Kind::Function(scan), Self::Function(state)) => state.pull(scan, frame, outer, run),
            (Kind::Subquery(scan), Self::Subquery(state)) => state.pull(scan, frame, outer, run),
            (Kind::Values(scan), Self::Values(state)) => state.pull(scan, frame, outer, run),
            (Kind::Filter(filter), Self::Filter(child)) => loop {
                match child.pull(&filter.child, frame, outer, run)? {
                    Pull::Row => {}
                    other => return Ok(other),
                }
                if holds(Some(&filter.condition), run, &Env::new(frame, outer))? {
                    return Ok(Pull::Row);
                }
            },
            (Kind::Project(project), Self::Project(child)) => {
                let pulled = child.pull(&project.child, frame, outer, run)?;
                if matches!(pulled, Pull::Row) {
                    for (i, code) in project.targets.iter().enumerate() {
                        frame[project.first + i] = eval(code, run, &Env::new(frame, outer))?;
                    }
                }
                Ok(pulled)
            }
            (Kind::NestLoop(join), Self::NestLoop(state)) => state.pull(join, frame, outer, run),
            (Kind::HashJoin(join), Self::HashJoin(state)) => state.pull(join, frame, outer, run),
            (Kind::Aggregate(group), Self::Aggregate(state)) => state.pull(group, frame, outer, run),
            (Kind::Sort(sort), Self::Sort(state)) => state.pull(sort, frame, outer, run),
            (Kind::Distinct(distinct), Self::Distinct(state)) => state.pull(distinct, frame, outer, run),
            (Kind::Limit(limit), Self::Limit(state)) => state.pull(limit, frame, outer, run),
            (Kind::Append(nodes), Self::Append(children, at)) => {
                while let (Some(node), Some(child)) = (nodes.get(*at), children.get_mut(*at)) {
                    match child.pull(node, frame, outer, run)? {
                        Pull::End => *at += 1,
                        other => return Ok(other),
                    }
                }
                Ok(Pull::End)
            }
            (Kind::SetOperation(both), Self::SetOperation(state)) => state.pull(both, frame, outer, run),
            (Kind::Lock(lock), Self::Lock(state)) => state.pull(lock, frame, outer, run),
            _ => unreachable!("an operator is pulled with the node it was made from (O1)"),
        }
    }
}

/// Copies slots from a frame.
pub(crate) fn save(slots: &[usize], frame: &[Value]) -> Box<[Value]> {
    slots.iter().map(|&slot| frame[slot].clone()).collect()
}

/// Copies slots back into a frame.
pub(crate) fn restore(slots: &[usize], values: &[Value], frame: &mut [Value]) {
    for (&slot, value) in slots.iter().zip(values) {
        frame[slot] = value.clone();
    }
}

//! `Machine`: the state of one statement, or of a data-modifying part of one, which returns one row per call.

use crate::{
    error::Result,
    exec::{
        context::Run, delete::DeleteState, dml::Advance, insert::InsertState, op::Pull, source::QueryState,
        update::UpdateState,
    },
    plan::node::Root,
    types::Value,
};

/// The state of a statement.
pub(crate) enum Machine {
    Query(QueryState),
    Insert(Box<InsertState>),
    Update(Box<UpdateState>),
    Delete(Box<DeleteState>),
}

impl Machine {
    /// Creates the state of `root` before its first row.
    pub(crate) fn new(root: &Root) -> Self {
        match root {
            Root::Query(query) => Self::Query(QueryState::new(query)),
            Root::Insert(insert) => Self::Insert(Box::new(InsertState::new(insert))),
            Root::Update(update) => Self::Update(Box::new(UpdateState::new(update))),
            Root::Delete(delete) => Self::Delete(Box::new(DeleteState::new(delete))),
        }
    }

    /// Starts over.
    pub(crate) fn rewind(&mut self) {
        match self {
            Self::Query(state) => state.op.rewind(),
            Self::Insert(state) => state.rewind(),
            Self::Update(state) => state.rewind(),
            Self::Delete(state) => state.rewind(),
        }
    }

    /// Returns the next row in `out`: that of a query, or the RETURNING values of a row that was just written.
    pub(crate) fn next(&mut self, root: &Root, run: &mut Run<'_>, out: &mut Vec<Value>) -> Result<Pull> {
        let advance = match (self, root) {
            (Self::Query(state), Root::Query(query)) => {
                let pulled = state.pull(query, None, run)?;
                if matches!(pulled, Pull::Row) {
                    out.clear();
                    out.extend_from_slice(state.row(query));
                }
                return Ok(pulled);
            }
            (Self::Insert(state), Root::Insert(plan)) => state.advance(plan, run, out)?,
            (Self::Update(state), Root::Update(plan)) => state.advance(plan, run, out)?,
            (Self::Delete(state), Root::Delete(plan)) => state.advance(plan, run, out)?,
            _ => unreachable!("a machine runs the root it was made for"),
        };
        Ok(match advance {
            Advance::Row => Pull::Row,
            Advance::End => Pull::End,
            Advance::Wait(blocker) => Pull::Wait(blocker),
            Advance::Yield => Pull::Yield,
        })
    }
}

//! `Computed`: the values that the indexes of a table compute from one row, for the entries of the row in them.
//!
//! The entries are encoded by `entry`; INSERT, UPDATE and DELETE decide when to write them.
//!
//! # Invariants
//! - C1. After `compute` it holds, for every wanted index with code, whether the row is in the index and with which
//!   key. For
//!   an index without code the row itself gives the key.
//! - C2. If the predicate of an index is not true of a row, no key of the index is computed from the row, so that an
//!   expression may rely on the predicate.
//!
//! Checked by `tests::computed`.

use crate::{
    error::Result,
    exec::{
        context::{Env, Run},
        entry::Keyed,
        eval::{eval, holds},
    },
    plan::node::{IndexCode, Target},
    types::Value,
};

/// The values that the indexes compute from one row.
#[derive(Default)]
pub(crate) struct Computed {
    /// By place in `Relation::indexes`: the values of the key's columns; `None` if the row is not in the index, or the
    /// index computes nothing.
    keys: Vec<Option<Box<[Value]>>>,
}

impl Computed {
    /// Computes what the `wanted` indexes need, from the row in the slots of the table (C1).
    pub(crate) fn compute(
        &mut self,
        target: &Target,
        wanted: impl Fn(usize) -> bool,
        frame: &[Value],
        run: &mut Run<'_>,
    ) -> Result<()> {
        let Some(codes) = &target.computed else { return Ok(()) };
        self.keys.resize(codes.len(), None);
        for (place, code) in codes.iter().enumerate().filter(|(place, _)| wanted(*place)) {
            if let Some(code) = code {
                self.keys[place] = key_of(code, frame, run)?;
            }
        }
        Ok(())
    }

    /// Returns the row as the index at `place` sees it; `None` if it is not in the index. `row` holds its columns.
    pub(crate) fn keyed<'a>(&'a self, target: &Target, place: usize, row: &'a [Value]) -> Option<Keyed<'a>> {
        match target.computed.as_deref().and_then(|codes| codes[place].as_ref()) {
            None => Some(Keyed::Row(row)),
            Some(_) => self.keys[place].as_deref().map(Keyed::Computed),
        }
    }
}

/// Computes the values of an index key from the row in the frame; `None` if the row is not in the index (C2).
pub(crate) fn key_of(code: &IndexCode, frame: &[Value], run: &mut Run<'_>) -> Result<Option<Box<[Value]>>> {
    let env = Env::new(frame, None);
    if !holds(code.predicate.as_ref(), run, &env)? {
        return Ok(None);
    }
    code.columns.iter().map(|column| eval(column, run, &env)).collect::<Result<_>>().map(Some)
}

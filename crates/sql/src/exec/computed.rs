//! `Computed`: what the indexes of a table compute of one row, for the entries that the row has in them.
//!
//! Not the entries (`entry`), and not when they are written: that is INSERT's, UPDATE's and DELETE's to say.
//!
//! # Invariants
//! - C1. After `compute` it says of every wanted index with code whether the row is in it, and with which key; of indexes
//!   without code the row itself does.
//! - C2. An index whose predicate is not true of a row computes no key of it, so that an expression may rely on the
//!   predicate.
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

/// What the indexes compute of one row.
#[derive(Default)]
pub(crate) struct Computed {
    /// By place in `Relation::indexes`: the values of the key's columns; `None` when the row is not in the index, or the
    /// index computes nothing.
    keys: Vec<Option<Box<[Value]>>>,
}

impl Computed {
    /// Computes for the row in the slots of the table what the indexes at the places that are `wanted` need (C1).
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

    /// Returns the row as the index at `place` sees it; `None` when it is not in the index. `row` are its columns.
    pub(crate) fn keyed<'a>(&'a self, target: &Target, place: usize, row: &'a [Value]) -> Option<Keyed<'a>> {
        match target.computed.as_deref().and_then(|codes| codes[place].as_ref()) {
            None => Some(Keyed::Row(row)),
            Some(_) => self.keys[place].as_deref().map(Keyed::Computed),
        }
    }
}

/// Computes the values of an index key for the row in the frame; `None` when the row is not in the index (C2).
pub(crate) fn key_of(code: &IndexCode, frame: &[Value], run: &mut Run<'_>) -> Result<Option<Box<[Value]>>> {
    let env = Env::new(frame, None);
    if !holds(code.predicate.as_ref(), run, &env)? {
        return Ok(None);
    }
    code.columns.iter().map(|column| eval(column, run, &env)).collect::<Result<_>>().map(Some)
}

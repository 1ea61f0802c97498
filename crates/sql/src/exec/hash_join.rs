//! Hash join: inner, left, full. The right input is read first and hashed by its keys.
//!
//! # Invariants
//! - H1. A key with a NULL matches nothing.

use collie_base::Map;

use crate::{
    error::Result,
    exec::{
        context::{Env, Run},
        eval::{eval, holds},
        held::Kept,
        op::{Op, Pull, restore, save},
        rowkey,
    },
    plan::{code::Code, node::HashJoin},
    types::Value,
};

/// The state of a hash join.
pub(crate) struct HashJoinState {
    left: Op,
    right: Op,
    built: bool,
    rows: Vec<Box<[Value]>>,
    /// Whether each right row had a match, for an outer join that returns the others.
    matched: Vec<bool>,
    table: Map<Box<[u8]>, Vec<u32>>,
    key: Vec<u8>,
    has_left: bool,
    left_matched: bool,
    /// Right rows with the key of the current left row.
    candidates: Vec<u32>,
    next: usize,
    /// Once the left input has ended: the next right row to check for having had no match.
    rest: Option<usize>,
    kept: Kept,
}

impl HashJoinState {
    pub(crate) fn new(join: &HashJoin) -> Self {
        Self {
            left: Op::new(&join.left),
            right: Op::new(&join.right),
            built: false,
            rows: Vec::new(),
            matched: Vec::new(),
            table: Map::default(),
            key: Vec::new(),
            has_left: false,
            left_matched: false,
            candidates: Vec::new(),
            next: 0,
            rest: None,
            kept: Kept::by("a hash join"),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.left.rewind();
        self.right.rewind();
        self.built = false;
        self.rows.clear();
        self.matched.clear();
        self.table.clear();
        self.kept.drop_all();
        self.has_left = false;
        self.rest = None;
    }

    pub(crate) fn pull(
        &mut self,
        join: &HashJoin,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        while !self.built {
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            match self.right.pull(&join.right, frame, outer, run)? {
                Pull::Row => {
                    run.tick()?;
                    let usable = make_key(&join.right_keys, &join.types, &mut self.key, run, &Env::new(frame, outer))?;
                    let row = u32::try_from(self.rows.len()).expect("a hash join holds fewer than 2^32 rows");
                    if usable {
                        match self.table.get_mut(self.key.as_slice()) {
                            Some(rows) => rows.push(row),
                            None => {
                                self.table.insert(self.key.clone().into_boxed_slice(), vec![row]);
                            }
                        }
                    }
                    if usable || join.right_outer {
                        let kept = save(&join.saved, frame);
                        self.kept.key(run.held, &self.key)?;
                        self.kept.row(run.held, &kept)?;
                        self.rows.push(kept);
                        self.matched.push(false);
                    }
                }
                Pull::End => self.built = true,
                wait @ (Pull::Wait(_) | Pull::Yield) => return Ok(wait),
            }
        }
        // Without right rows and without an outer side, the left input need not be read.
        if self.rows.is_empty() && !join.left_outer {
            return Ok(Pull::End);
        }
        loop {
            // A left row may have many candidates that all fail ON (SQL-21).
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            if let Some(at) = self.rest {
                return self.pull_rest(join, at, frame, outer, run);
            }
            if !self.has_left {
                match self.left.pull(&join.left, frame, outer, run)? {
                    Pull::Row => {}
                    Pull::End if join.right_outer => {
                        self.rest = Some(0);
                        continue;
                    }
                    other => return Ok(other),
                }
                self.has_left = true;
                self.left_matched = false;
                self.next = 0;
                self.candidates.clear();
                if make_key(&join.left_keys, &join.types, &mut self.key, run, &Env::new(frame, outer))?
                    && let Some(rows) = self.table.get(self.key.as_slice())
                {
                    self.candidates.extend_from_slice(rows);
                }
            }
            run.tick()?;
            match self.candidates.get(self.next) {
                // A row counts as matched by ON alone; the filter applies to the joined row afterwards.
                Some(&row) => {
                    self.next += 1;
                    restore(&join.saved, &self.rows[row as usize], frame);
                    if !holds(join.on.as_ref(), run, &Env::new(frame, outer))? {
                        continue;
                    }
                    self.left_matched = true;
                    self.matched[row as usize] = true;
                }
                None => {
                    self.has_left = false;
                    if self.left_matched || !join.left_outer {
                        continue;
                    }
                    for &slot in &join.saved {
                        frame[slot] = Value::Null;
                    }
                }
            }
            if holds(join.filter.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
    }

    /// Returns the right rows that had no match.
    fn pull_rest(
        &mut self,
        join: &HashJoin,
        mut at: usize,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        while let Some(row) = self.rows.get(at) {
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            run.tick()?;
            at += 1;
            self.rest = Some(at);
            if self.matched[at - 1] {
                continue;
            }
            for &slot in &join.left_slots {
                frame[slot] = Value::Null;
            }
            restore(&join.saved, row, frame);
            if holds(join.filter.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
        Ok(Pull::End)
    }
}

/// Computes a key into `out`; returns false if it has a NULL (H1).
fn make_key(codes: &[Code], types: &[u32], out: &mut Vec<u8>, run: &mut Run<'_>, env: &Env<'_>) -> Result<bool> {
    out.clear();
    for (code, &oid) in codes.iter().zip(types) {
        let value = eval(code, run, env)?;
        if value.is_null() {
            return Ok(false);
        }
        rowkey::push_equal(out, &value, oid)?;
    }
    Ok(true)
}

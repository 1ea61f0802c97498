//! Nested loop join: reads the right input for each left row, with an index look-up by left values if there is an
//! index.

use crate::{
    error::Result,
    exec::{
        context::{Env, Run},
        eval::holds,
        held::Kept,
        op::{Op, Pull, restore, save},
    },
    plan::node::NestLoop,
    types::Value,
};

/// The state of a nested loop.
pub(crate) struct NestLoopState {
    left: Op,
    right: Op,
    has_left: bool,
    matched: bool,
    /// Right rows, if they do not depend on the left ones.
    kept: Vec<Box<[Value]>>,
    /// Whether `kept` holds all of them.
    complete: bool,
    next: usize,
    account: Kept,
}

impl NestLoopState {
    pub(crate) fn new(join: &NestLoop) -> Self {
        Self {
            left: Op::new(&join.left),
            right: Op::new(&join.right),
            has_left: false,
            matched: false,
            kept: Vec::new(),
            complete: false,
            next: 0,
            account: Kept::by("a nested loop"),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.left.rewind();
        self.right.rewind();
        self.has_left = false;
        self.kept.clear();
        self.account.drop_all();
        self.complete = false;
        self.next = 0;
    }

    pub(crate) fn pull(
        &mut self,
        join: &NestLoop,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        loop {
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            if !self.has_left {
                match self.left.pull(&join.left, frame, outer, run)? {
                    Pull::Row => {}
                    other => return Ok(other),
                }
                self.has_left = true;
                self.matched = false;
                self.next = 0;
                if !self.complete {
                    self.right.rewind();
                    self.kept.clear();
                    self.account.drop_all();
                }
            }
            run.tick()?;
            match self.pull_right(join, frame, outer, run)? {
                Pull::Row => {
                    if !holds(join.on.as_ref(), run, &Env::new(frame, outer))? {
                        continue;
                    }
                    self.matched = true;
                }
                Pull::End => {
                    self.has_left = false;
                    if !join.outer || self.matched {
                        continue;
                    }
                    for &slot in &join.saved {
                        frame[slot] = Value::Null;
                    }
                }
                wait @ (Pull::Wait(_) | Pull::Yield) => return Ok(wait),
            }
            if holds(join.filter.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
    }

    fn pull_right(
        &mut self,
        join: &NestLoop,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        if self.complete {
            let Some(row) = self.kept.get(self.next) else { return Ok(Pull::End) };
            self.next += 1;
            restore(&join.saved, row, frame);
            return Ok(Pull::Row);
        }
        let pulled = self.right.pull(&join.right, frame, outer, run)?;
        if join.keep {
            match pulled {
                Pull::Row => {
                    let kept = save(&join.saved, frame);
                    self.account.row(run.held, &kept)?;
                    self.kept.push(kept);
                }
                Pull::End => self.complete = true,
                Pull::Wait(_) | Pull::Yield => {}
            }
        }
        Ok(pulled)
    }
}

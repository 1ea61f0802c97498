//! DISTINCT, DISTINCT ON, INTERSECT and EXCEPT.

use collie_base::{Map, Set};

use crate::{
    error::Result,
    exec::{
        context::{Env, Run},
        held::Kept,
        op::{Op, Pull},
        rowkey,
    },
    plan::node::{Distinct, SetOperationNode},
    types::Value,
};

fn key(keys: &[(usize, u32)], frame: &[Value], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    for &(slot, oid) in keys {
        rowkey::push_equal(out, &frame[slot], oid)?;
    }
    Ok(())
}

/// The state of DISTINCT.
pub(crate) struct DistinctState {
    child: Op,
    seen: Set<Box<[u8]>>,
    key: Vec<u8>,
    kept: Kept,
}

impl DistinctState {
    pub(crate) fn new(distinct: &Distinct) -> Self {
        Self { child: Op::new(&distinct.child), seen: Set::default(), key: Vec::new(), kept: Kept::by("DISTINCT") }
    }

    pub(crate) fn rewind(&mut self) {
        self.child.rewind();
        self.seen.clear();
        self.kept.drop_all();
    }

    pub(crate) fn pull(
        &mut self,
        distinct: &Distinct,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        loop {
            match self.child.pull(&distinct.child, frame, outer, run)? {
                Pull::Row => {}
                other => return Ok(other),
            }
            key(&distinct.keys, frame, &mut self.key)?;
            if !self.seen.contains(self.key.as_slice()) {
                self.kept.key(run.held, &self.key)?;
                self.seen.insert(self.key.clone().into_boxed_slice());
                return Ok(Pull::Row);
            }
        }
    }
}

/// The state of INTERSECT or EXCEPT.
pub(crate) struct SetOperationState {
    left: Op,
    right: Op,
    /// How often each row occurred on the right and was not yet used up.
    counts: Map<Box<[u8]>, u64>,
    built: bool,
    key: Vec<u8>,
    kept: Kept,
}

impl SetOperationState {
    pub(crate) fn new(both: &SetOperationNode) -> Self {
        Self {
            left: Op::new(&both.left),
            right: Op::new(&both.right),
            counts: Map::default(),
            built: false,
            key: Vec::new(),
            kept: Kept::by(if both.except { "EXCEPT" } else { "INTERSECT" }),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.left.rewind();
        self.right.rewind();
        self.counts.clear();
        self.kept.drop_all();
        self.built = false;
    }

    pub(crate) fn pull(
        &mut self,
        both: &SetOperationNode,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        while !self.built {
            match self.right.pull(&both.right, frame, outer, run)? {
                Pull::Row => {
                    key(&both.keys, frame, &mut self.key)?;
                    match self.counts.get_mut(self.key.as_slice()) {
                        Some(count) => *count += 1,
                        None => {
                            self.kept.key(run.held, &self.key)?;
                            self.counts.insert(self.key.clone().into_boxed_slice(), 1);
                        }
                    }
                }
                Pull::End => self.built = true,
                wait @ (Pull::Wait(_) | Pull::Yield) => return Ok(wait),
            }
        }
        loop {
            match self.left.pull(&both.left, frame, outer, run)? {
                Pull::Row => {}
                other => return Ok(other),
            }
            run.tick()?;
            key(&both.keys, frame, &mut self.key)?;
            let count = self.counts.get_mut(self.key.as_slice());
            let passes = match (both.except, both.all, count) {
                // ALL: each right row uses up one equal left row.
                (except, true, Some(count)) if *count > 0 => {
                    *count -= 1;
                    !except
                }
                (except, true, _) => except,
                // Without ALL a row is returned once: INTERSECT uses the entry up, EXCEPT adds one.
                (false, false, Some(count)) => std::mem::replace(count, 0) > 0,
                (false, false, None) => false,
                (true, false, Some(_)) => false,
                (true, false, None) => {
                    self.kept.key(run.held, &self.key)?;
                    self.counts.insert(self.key.clone().into_boxed_slice(), 1);
                    true
                }
            };
            if passes {
                return Ok(Pull::Row);
            }
        }
    }
}

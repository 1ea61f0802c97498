//! Row locks: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE, FOR KEY SHARE. They stand above filter and sort and below
//! LIMIT.
//!
//! A row that changed while the statement waited for it is checked again and, if it still matches, its targets are
//! computed again. It keeps its place in the order, as in PostgreSQL.

use std::sync::Arc;

use collie_engine::{Basis, Family, LockStrength, Outcome, Write};

use crate::{
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        dml::look_again,
        error::from_engine,
        eval::eval,
        op::{Op, Pull},
    },
    parse::ast,
    plan::node::LockRows,
    types::Value,
};

/// The state of row locking.
pub(crate) struct LockState {
    child: Op,
    families: Vec<Option<Arc<Family>>>,
    /// The lock that the row in the frame needs next; `None` without a row.
    at: Option<usize>,
    basis: Basis,
    /// The key under which the row lives now, if it has moved since it was read.
    moved: Option<Vec<u8>>,
}

impl LockState {
    pub(crate) fn new(lock: &LockRows) -> Self {
        Self {
            child: Op::new(&lock.child),
            families: lock.locks.iter().map(|_| None).collect(),
            at: None,
            basis: Basis::Snapshot,
            moved: None,
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.child.rewind();
        self.at = None;
    }

    pub(crate) fn pull(
        &mut self,
        lock: &LockRows,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        'rows: loop {
            if self.at.is_none() {
                match self.child.pull(&lock.child, frame, outer, run)? {
                    Pull::Row => {}
                    other => return Ok(other),
                }
                self.start(0);
            }
            while let Some(one) = self.at.and_then(|at| lock.locks.get(at)) {
                let at = self.at.unwrap_or_default();
                let target = &one.target;
                let key_slot = target.key_slot.expect("a locked table has a slot for its key");
                let key = match (&self.moved, &frame[key_slot]) {
                    (Some(key), _) => key.clone(),
                    (None, Value::Bytea(key)) => key.to_vec(),
                    // On the NULL side of an outer join there is no row to lock.
                    _ => {
                        self.start(at + 1);
                        continue;
                    }
                };
                let family = self.families[at].get_or_insert_with(|| run.db.family(target.relation.family()));
                let what = Write::Lock(strength(one.strength));
                match run.session.write(family, &key, self.basis, what).map_err(from_engine)? {
                    Outcome::Done | Outcome::SelfModified => self.start(at + 1),
                    Outcome::Wait(blocker) => match one.wait {
                        ast::LockWait::Block => return Ok(Pull::Wait(blocker)),
                        ast::LockWait::Skip => {
                            self.at = None;
                            continue 'rows;
                        }
                        ast::LockWait::Error => {
                            return Err(SqlError::new(
                                SqlState::LOCK_NOT_AVAILABLE,
                                format!("could not obtain lock on row in relation \"{}\"", target.relation.name),
                            ));
                        }
                    },
                    Outcome::Changed { csn, row } => {
                        if !look_again(target, &row, lock.recheck.as_ref(), frame, outer, run)? {
                            self.at = None;
                            continue 'rows;
                        }
                        for (i, code) in lock.targets.iter().enumerate() {
                            frame[lock.first + i] = eval(code, run, &Env::new(frame, outer))?;
                        }
                        self.basis = Basis::After(csn);
                    }
                    Outcome::Moved(key) => {
                        self.moved = Some(key);
                        self.basis = Basis::Snapshot;
                    }
                    Outcome::Gone => {
                        self.at = None;
                        continue 'rows;
                    }
                }
            }
            self.at = None;
            return Ok(Pull::Row);
        }
    }

    fn start(&mut self, at: usize) {
        self.at = Some(at);
        self.basis = Basis::Snapshot;
        self.moved = None;
    }
}

fn strength(strength: ast::LockStrength) -> LockStrength {
    match strength {
        ast::LockStrength::KeyShare => LockStrength::KeyShare,
        ast::LockStrength::Share => LockStrength::Share,
        ast::LockStrength::NoKeyUpdate => LockStrength::NoKeyUpdate,
        ast::LockStrength::Update => LockStrength::Update,
    }
}

//! `ConflictRow`: the live row that a claim of INSERT ... ON CONFLICT DO UPDATE met. It is locked, checked against the
//! WHERE of DO UPDATE, and rewritten.
//!
//! It is locked first, so that WHERE and SET are computed from the version that they apply to, whether the snapshot
//! shows that version or not.
//!
//! # Invariants
//! - C1. From `Stage::Judge` on the row is locked, `basis` names the version under the lock, and the frame's slots of
//!   the
//!   table hold that version; `excluded` is in the slots after them.
//! - C2. A row that is gone, has moved, or has another key than the claimed one, or none, does not conflict: the caller
//!   claims again. The transaction that changed the row has committed, so the claim is free or meets a later entry.
//! - C3. If this command wrote the newest version of a row, it never writes the row again: 21000.
//!
//! Checked by `tests::upsert`.

use collie_base::Lsn;
use collie_engine::{Basis, Blocker, Existing, LockStrength, Origin, Outcome, RowBytes, Write};

use crate::{
    catalog::relation::Index,
    error::{Result, SqlError, SqlState},
    exec::{
        computed::key_of,
        context::{Env, Run},
        dml,
        entry::{self, Keyed},
        error::from_engine,
        eval::holds,
        families::Families,
        row_update::{Followed, OldRow, RowUpdate},
    },
    plan::node::{ConflictUpdate, Target},
    types::Value,
};

#[derive(Clone, Copy)]
enum Stage {
    Lock,
    Judge,
    Write,
    Follow,
}

/// The outcome of resolving a conflict.
#[must_use]
pub(crate) enum Resolved {
    /// The row is rewritten, and the new row is in the frame.
    Updated,
    /// WHERE is not true of the row; the row stays locked and unchanged.
    Unwanted,
    /// Another transaction holds the row; resolve again after the wait.
    Wait(Blocker),
    /// The row no longer conflicts (C2).
    Gone,
}

/// A claim that met an existing entry.
pub(crate) struct Met<'a> {
    /// The arbiter.
    pub(crate) index: &'a Index,
    /// The claimed key.
    pub(crate) claimed: &'a [u8],
    /// The existing entry.
    pub(crate) existing: Existing,
}

/// The conflicting row, while it is resolved.
pub(crate) struct ConflictRow {
    stage: Stage,
    /// Its key.
    key: Vec<u8>,
    basis: Basis,
    /// Its bytes on that basis, if they are known.
    bytes: Option<RowBytes>,
    /// The entry that led to it: its key, and the position of its commit. Empty if the row's own key was claimed.
    entry: Vec<u8>,
    entry_csn: Option<Lsn>,
    /// The commit position of the entry that last led to no row.
    dangling: Option<Lsn>,
    /// Scratch: the entry of the row as it is now.
    present: Vec<u8>,
    new: RowUpdate,
}

impl ConflictRow {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Lock,
            key: Vec::new(),
            basis: Basis::Snapshot,
            bytes: None,
            entry: Vec::new(),
            entry_csn: None,
            dangling: None,
            present: Vec::new(),
            new: RowUpdate::new(),
        }
    }

    /// Forgets the conflicts of the previous row.
    pub(crate) fn forget(&mut self) {
        self.dangling = None;
    }

    /// Begins to resolve a conflict with the row that a claim met.
    pub(crate) fn meet(&mut self, met: Met<'_>, run: &mut Run<'_>) -> Result<()> {
        let Met { index, claimed, existing } = met;
        if existing.origin == Origin::ThisCommand {
            return Err(second_time()); // C3
        }
        self.stage = Stage::Lock;
        self.basis = run.session.basis_on(&existing).map_err(from_engine)?;
        self.key.clear();
        self.entry.clear();
        self.entry_csn = None;
        if index.primary {
            self.key.extend_from_slice(claimed);
            self.bytes = Some(existing.row);
            return Ok(());
        }
        if let Origin::Committed(csn) = existing.origin {
            if self.dangling == Some(csn) {
                return Err(dml::disagree());
            }
            self.entry_csn = Some(csn);
        }
        self.key.extend_from_slice(&existing.row);
        self.entry.extend_from_slice(claimed);
        // The entry does not tell the version of the row itself.
        (self.basis, self.bytes) = (Basis::Snapshot, None);
        Ok(())
    }

    /// Locks, checks and rewrites the row that the index at `place` led to; after a wait it continues where it was.
    /// After
    /// [`Resolved::Gone`] the caller releases the locks that it took.
    pub(crate) fn resolve(
        &mut self,
        target: &Target,
        place: usize,
        update: &ConflictUpdate,
        frame: &mut [Value],
        families: &mut Families,
        run: &mut Run<'_>,
    ) -> Result<Resolved> {
        loop {
            let what = match self.stage {
                Stage::Lock => {
                    let strength = if update.change.keys { LockStrength::Update } else { LockStrength::NoKeyUpdate };
                    Write::Lock(strength)
                }
                Stage::Judge => {
                    // Under the lock: a row that moved or has another key does not conflict (C2).
                    if !self.load(target, families, frame, run)? || !self.is_meant(target, place, frame, run)? {
                        return Ok(self.gone());
                    }
                    if !holds(update.filter.as_ref(), run, &Env::new(frame, None))? {
                        return Ok(Resolved::Unwanted);
                    }
                    self.new.compute(OldRow { target, key: &self.key }, &update.change, frame, run)?;
                    self.stage = Stage::Write;
                    continue;
                }
                Stage::Write => self.new.write(),
                Stage::Follow => {
                    let old = OldRow { target, key: &self.key };
                    return Ok(match self.new.follow(old, &update.change, frame, families, run)? {
                        Followed::Wait(blocker) => Resolved::Wait(blocker),
                        Followed::Done => {
                            self.new.show(target, frame);
                            Resolved::Updated
                        }
                    });
                }
            };
            let table = families.table(&target.relation, run);
            match run.session.write(table, &self.key, self.basis, what).map_err(from_engine)? {
                Outcome::Done => {
                    self.stage = if matches!(self.stage, Stage::Lock) { Stage::Judge } else { Stage::Follow };
                }
                Outcome::Wait(blocker) => return Ok(Resolved::Wait(blocker)),
                Outcome::Changed { csn, row } => {
                    (self.basis, self.bytes) = (Basis::After(csn), Some(row));
                    self.stage = Stage::Lock;
                }
                Outcome::Gone | Outcome::Moved(_) => return Ok(self.gone()),
                Outcome::SelfModified => return Err(second_time()), // C3
            }
        }
    }

    /// Loads the version under the lock into the frame (C1).
    fn load(&mut self, target: &Target, families: &mut Families, frame: &mut [Value], run: &Run<'_>) -> Result<bool> {
        if self.bytes.is_none() {
            // Locked on the basis of the snapshot: the snapshot shows the newest version, or this transaction's own.
            let table = families.table(&target.relation, run);
            self.bytes = run.session.get(table, &self.key).map_err(from_engine)?;
        }
        let Some(bytes) = self.bytes.take() else { return Ok(false) };
        entry::load_row(target, &bytes, frame)?;
        Ok(true)
    }

    /// Returns whether the row in the frame has the claimed key.
    fn is_meant(&mut self, target: &Target, place: usize, frame: &[Value], run: &mut Run<'_>) -> Result<bool> {
        let index = &target.relation.indexes[place];
        if index.primary {
            return Ok(true);
        }
        let computed;
        let keyed = match target.computed.as_deref().and_then(|codes| codes[place].as_ref()) {
            None => Keyed::Row(&frame[target.base..target.base + target.relation.columns.len()]),
            Some(code) => {
                computed = key_of(code, frame, run)?;
                let Some(values) = &computed else { return Ok(false) };
                Keyed::Computed(values)
            }
        };
        self.present.clear();
        entry::entry_key(index, keyed, &self.key, &mut self.present)?;
        Ok(self.present == self.entry)
    }

    fn gone(&mut self) -> Resolved {
        self.dangling = self.entry_csn;
        Resolved::Gone
    }
}

/// Returns the error for a row that one command would write twice.
fn second_time() -> SqlError {
    let text = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, text)
        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}

//! `ConflictRow`: the live row that a claim of INSERT ... ON CONFLICT DO UPDATE met. It is locked, judged by the WHERE of
//! DO UPDATE, and rewritten.
//!
//! Locked first, so that WHERE and SET are computed on the version they apply to, whether the snapshot shows it or not.
//!
//! # Invariants
//! - C1. From `Stage::Judge` on the row is locked, `basis` names the version under the lock and the frame's slots of the
//!   table hold it; `excluded` stands in the slots after them.
//! - C2. A row that is gone, lives elsewhere, or has another key than the one that was claimed, or none, is no conflict:
//!   the caller claims again. Whoever changed it has committed, so that the claim is free or meets a later entry.
//! - C3. A row whose newest version this command wrote is never written again: 21000.
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

/// What became of the row.
#[must_use]
pub(crate) enum Resolved {
    /// It is rewritten, and the new row is in the frame.
    Updated,
    /// WHERE is not true of it: it stays locked as it is.
    Unwanted,
    /// Somebody else holds it; resolve again afterwards.
    Wait(Blocker),
    /// It does not conflict any more (C2).
    Gone,
}

/// A claim that met a row.
pub(crate) struct Met<'a> {
    /// The arbiter.
    pub(crate) index: &'a Index,
    /// The key that was claimed.
    pub(crate) claimed: &'a [u8],
    /// What stands there.
    pub(crate) existing: Existing,
}

/// The row.
pub(crate) struct ConflictRow {
    stage: Stage,
    /// Where it is.
    key: Vec<u8>,
    basis: Basis,
    /// Its bytes on that basis, if they are known.
    bytes: Option<RowBytes>,
    /// The entry that led to it: key, and where it was committed. Empty when the row's own key was claimed.
    entry: Vec<u8>,
    entry_csn: Option<Lsn>,
    /// The entry that led to no row the last time.
    dangling: Option<Lsn>,
    /// Scratch: the entry of the row as it is.
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

    /// Forgets the conflicts of the row before.
    pub(crate) fn forget(&mut self) {
        self.dangling = None;
    }

    /// Takes the row that a claim met.
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
        // The entry says nothing about the row's own version.
        (self.basis, self.bytes) = (Basis::Snapshot, None);
        Ok(())
    }

    /// Locks, judges and rewrites the row that the index at `place` led to; goes on where it waited. On
    /// [`Resolved::Gone`] whatever it locked is the caller's to release.
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

    /// Puts the version under the lock into the frame (C1).
    fn load(&mut self, target: &Target, families: &mut Families, frame: &mut [Value], run: &Run<'_>) -> Result<bool> {
        if self.bytes.is_none() {
            // Locked on the basis of the snapshot: what it shows is the newest version, or our own.
            let table = families.table(&target.relation, run);
            self.bytes = run.session.get(table, &self.key).map_err(from_engine)?;
        }
        let Some(bytes) = self.bytes.take() else { return Ok(false) };
        entry::load_row(target, &bytes, frame)?;
        Ok(true)
    }

    /// Returns whether the row in the frame has the key that was claimed.
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

/// Makes the error for a row that one command would write twice.
fn second_time() -> SqlError {
    let text = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, text)
        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}

//! `RowUpdate`: the update of one row. The new row is computed from the old one and written in its place or under a new
//! key, and the entries of the indexes with a changed column are replaced.
//!
//! UPDATE and INSERT ... ON CONFLICT DO UPDATE share it. The caller chooses the row and its version, and checks whether
//! it
//! still matches; the caller also writes the row itself, since only it knows what to do if another transaction was
//! first.
//!
//! # Invariants
//! - W1. The frame's slots of the table hold the old row from `compute` until `show`; the new row is kept separately.
//! - W2. After a wait, the same write is tried again; what is already written of the row stays (E3).
//! - W3. An update that changes no column of a unique index to which a foreign key can refer locks the row as FOR NO
//!   KEY
//!   UPDATE does; any other locks it as FOR UPDATE does.
//! - W4. The values of indexes are computed from both rows together, before anything is written; those of the old row
//!   from
//!   the version that is in the frame at that time.
//!
//! Checked by `tests::writes`, `tests::conflict`, `tests::upsert` and `tests::computed`.

use collie_engine::{Blocker, Insert, Write};

use crate::{
    error::Result,
    exec::{
        computed::Computed,
        context::{Env, Run},
        dml::{self, Removal, write_entry},
        entry::{self, Keyed},
        error::from_engine,
        eval::eval,
        families::Families,
    },
    plan::node::{RowChange, Target},
    types::Value,
};

#[derive(Clone, Copy)]
enum Stage {
    /// Insert the row at its new key.
    Arrive,
    /// Remove the old entry of the index at this place in the list.
    Remove(usize),
    /// Insert the new one.
    Add(usize),
}

/// The progress of the writes that follow the row.
#[must_use]
pub(crate) enum Followed {
    /// Row and entries are written.
    Done,
    /// A lock is not free; follow again to continue.
    Wait(Blocker),
}

/// The old row: its table and key.
#[derive(Clone, Copy)]
pub(crate) struct OldRow<'a> {
    /// The table, and the slots of the row.
    pub(crate) target: &'a Target,
    /// The key of the row.
    pub(crate) key: &'a [u8],
}

/// The new row, and the progress of writing it.
pub(crate) struct RowUpdate {
    stage: Stage,
    /// The new row.
    new: Vec<Value>,
    /// Its key.
    new_key: Vec<u8>,
    /// Its bytes.
    row: Vec<u8>,
    /// Whether a column of a unique index changes; then row locks of referencing rows conflict with the update (W3).
    changes_keys: bool,
    /// The values that the indexes computed from the old row (W4).
    before: Computed,
    /// The values that they computed from the new row.
    after: Computed,
    old_entry: Vec<u8>,
    new_entry: Vec<u8>,
}

/// Whether the old and the new row are in an index.
struct Presence {
    old: bool,
    new: bool,
}

impl RowUpdate {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Remove(0),
            new: Vec::new(),
            new_key: Vec::new(),
            row: Vec::new(),
            changes_keys: false,
            before: Computed::default(),
            after: Computed::default(),
            old_entry: Vec::new(),
            new_entry: Vec::new(),
        }
    }

    /// Computes the new row from the one in the frame, and checks it.
    pub(crate) fn compute(
        &mut self,
        old: OldRow<'_>,
        change: &RowChange,
        frame: &mut [Value],
        run: &mut Run<'_>,
    ) -> Result<()> {
        let OldRow { target, key } = old;
        let relation = &target.relation;
        let slots = target.base..target.base + relation.columns.len();
        self.new.clear();
        self.new.extend_from_slice(&frame[slots]);
        for (column, code) in &change.assignments {
            self.new[*column] = eval(code, run, &Env::new(frame, None))?;
        }
        dml::check_not_null(relation, &self.new, run)?;
        // CHECKs and index expressions read the frame, so the new row is exchanged into it for their time (W1).
        if !change.checks.is_empty() {
            self.exchange(target, frame);
            let checked = dml::check_conditions(target, &change.checks, frame, run);
            self.exchange(target, frame);
            checked?;
        }
        if target.computed.is_some() && !change.indexes.is_empty() {
            let wanted = |place| change.indexes.contains(&place);
            self.before.compute(target, wanted, frame, run)?;
            self.exchange(target, frame);
            let computed = self.after.compute(target, wanted, frame, run);
            self.exchange(target, frame);
            computed?;
        }
        self.row.clear();
        relation.layout.encode(&self.new, &mut self.row)?;
        self.new_key.clear();
        match relation.primary_key() {
            Some(index) if change.moves => entry::primary_key(index, &self.new, &mut self.new_key)?,
            _ => self.new_key.extend_from_slice(key),
        }
        self.changes_keys = false;
        for &place in &change.indexes {
            if relation.indexes[place].is_referable() && !self.changes_keys {
                self.make_entry_keys(old, place, frame)?;
                self.changes_keys = self.old_entry != self.new_entry;
            }
        }
        self.stage = if self.new_key == key { Stage::Remove(0) } else { Stage::Arrive };
        Ok(())
    }

    /// Returns the write that the old row needs.
    pub(crate) fn write(&self) -> Write<'_> {
        match self.stage {
            Stage::Arrive => Write::MoveTo { new_key: &self.new_key },
            Stage::Remove(_) | Stage::Add(_) if self.changes_keys => Write::PutKeys(&self.row),
            Stage::Remove(_) | Stage::Add(_) => Write::Put(&self.row),
        }
    }

    /// Writes what follows once the old row is written: the row at its new key, and the index entries (W2).
    pub(crate) fn follow(
        &mut self,
        old: OldRow<'_>,
        change: &RowChange,
        frame: &[Value],
        families: &mut Families,
        run: &mut Run<'_>,
    ) -> Result<Followed> {
        let relation = &old.target.relation;
        loop {
            match self.stage {
                Stage::Arrive => {
                    let table = families.table(relation, run);
                    match run.session.insert(table, &self.new_key, &self.row).map_err(from_engine)? {
                        Insert::Done => self.stage = Stage::Remove(0),
                        Insert::Wait(blocker) => return Ok(Followed::Wait(blocker)),
                        Insert::Duplicate(_) => {
                            let index = relation.primary_key().expect("only a primary key moves rows");
                            return Err(dml::duplicate_key(relation, index, Keyed::Row(&self.new), run));
                        }
                    }
                }
                Stage::Remove(at) => {
                    let Some(&place) = change.indexes.get(at) else {
                        let width = self.new.len();
                        let before = &frame[old.target.base..old.target.base + width];
                        change.foreign.updated(before, &self.new, run.events);
                        return Ok(Followed::Done);
                    };
                    match self.remove(old, place, frame, families, run)? {
                        Some(Removal::Wait(blocker)) => return Ok(Followed::Wait(blocker)),
                        Some(Removal::Done) => self.stage = Stage::Add(at),
                        None => self.stage = Stage::Remove(at + 1),
                    }
                }
                Stage::Add(at) => {
                    let place = change.indexes[at];
                    let index = &relation.indexes[place];
                    let family = families.entries(relation, place, run);
                    let value = entry::entry_value(index, &self.new_key);
                    match run.session.insert(family, &self.new_entry, value).map_err(from_engine)? {
                        Insert::Done => self.stage = Stage::Remove(at + 1),
                        Insert::Wait(blocker) => return Ok(Followed::Wait(blocker)),
                        Insert::Duplicate(_) => {
                            let row = self.after.keyed(old.target, place, &self.new).expect("it is in the index");
                            return Err(dml::duplicate_key(relation, index, row, run));
                        }
                    }
                }
            }
        }
    }

    /// Exchanges the new row into the frame, for RETURNING.
    pub(crate) fn show(&mut self, target: &Target, frame: &mut [Value]) {
        self.exchange(target, frame);
    }

    /// Computes the keys of the old and the new row's entries in the index at `place`; a row that has none gives no
    /// key.
    fn make_entry_keys(&mut self, old: OldRow<'_>, place: usize, frame: &[Value]) -> Result<Presence> {
        let OldRow { target, key } = old;
        let index = &target.relation.indexes[place];
        let row = &frame[target.base..target.base + target.relation.columns.len()];
        self.old_entry.clear();
        self.new_entry.clear();
        let (old, new) = (self.before.keyed(target, place, row), self.after.keyed(target, place, &self.new));
        if let Some(old) = old {
            entry::entry_key(index, old, key, &mut self.old_entry)?;
        }
        if let Some(new) = new {
            entry::entry_key(index, new, &self.new_key, &mut self.new_entry)?;
        }
        Ok(Presence { old: old.is_some(), new: new.is_some() })
    }

    /// Exchanges the row in the frame and the one kept here.
    fn exchange(&mut self, target: &Target, frame: &mut [Value]) {
        let width = self.new.len();
        frame[target.base..target.base + width].swap_with_slice(&mut self.new);
    }

    /// Removes the old entry of an index, if there is one; returns `None` if no new one follows.
    fn remove(
        &mut self,
        old: OldRow<'_>,
        place: usize,
        frame: &[Value],
        families: &mut Families,
        run: &mut Run<'_>,
    ) -> Result<Option<Removal>> {
        let OldRow { target, key } = old;
        let relation = &target.relation;
        let index = &relation.indexes[place];
        match self.make_entry_keys(old, place, frame)? {
            Presence { old: true, new: true } => {}
            Presence { old: false, new: true } => return Ok(Some(Removal::Done)),
            Presence { old: false, new: false } => return Ok(None),
            Presence { old: true, new: false } => {
                let family = families.entries(relation, place, run);
                return Ok(match write_entry(run.session, family, &self.old_entry, Write::Delete)? {
                    Removal::Done => None,
                    wait => Some(wait),
                });
            }
        }
        let same_key = self.old_entry == self.new_entry;
        if same_key && (!index.unique || key == self.new_key) {
            return Ok(None);
        }
        let family = families.entries(relation, place, run);
        if same_key {
            // The unique key stays, but its entry must name the row's new key.
            let put = Write::Put(&self.new_key);
            return Ok(match write_entry(run.session, family, &self.old_entry, put)? {
                Removal::Done => None,
                wait => Some(wait),
            });
        }
        write_entry(run.session, family, &self.old_entry, Write::Delete).map(Some)
    }
}

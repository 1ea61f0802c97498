//! Creates, finds and drops column families by name, in transactions over the name rows (`names`).
//!
//! # Invariants
//! - Q1. One thread at a time creates or drops named families (`Families::naming`); SQL names its own under its catalog
//!   lock.
//! - Q2. A family is freed only after the commit that dropped it is on disk: a snapshot taken later does not have its
//!   name.
//! - Q3. A family is returned only if it is in memory, never one that the look-up itself would create.

use std::ops::ControlFlow;
use std::sync::Arc;

use collie_base::CfId;
use collie_txn::{Isolation, StatementKind};

use super::Session;
use crate::families::names::{self, NameRow};
use crate::session::upsert::Upsert;
use crate::{EngineError, Family, Insert, ScanEnd};

/// Maximum length of the name of a family or of an atomic group in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Names that one call of the session reads.
const BATCH: usize = 256;

/// A column family with a name.
#[derive(Clone, Debug)]
pub struct NamedFamily {
    /// The name.
    pub name: String,
    /// The name of the family's atomic group, whose families are flushed together; empty if it has none.
    pub group: String,
    /// The family.
    pub family: Arc<Family>,
}

impl Session {
    /// Creates a column family with a name, in the atomic group `group`; the empty name stands for none. To be called
    /// without an open transaction.
    ///
    /// # Durability
    /// On disk on return.
    ///
    /// # Progress
    /// Blocks on a flush, and on other threads that create or drop named families.
    ///
    /// # Errors
    /// [`EngineError::FamilyExists`]; [`EngineError::InvalidArgument`] for a name that is empty, longer than 255 bytes
    /// or begins with `sql:`, or for a longer name of a group; errors of the log.
    pub fn create_named_family(&mut self, name: &str, group: &str) -> Result<NamedFamily, EngineError> {
        check_name(name)?;
        if group.len() > NAME_BYTES_MAX {
            return Err(EngineError::InvalidArgument { what: "the name of an atomic group is at most 255 bytes long" });
        }
        let shared = Arc::clone(&self.shared);
        let mut forgotten = shared.families.naming(); // Q1
        let cf = shared.families.create_in(group);
        let made = self.write_name((name, group), cf, &forgotten);
        if let Err(error) = made {
            self.rollback();
            shared.families.remove(cf);
            return Err(error);
        }
        forgotten.clear();
        shared.keep_names()?;
        let family = shared.families.get(cf).ok_or_else(|| no_family(name))?;
        Ok(NamedFamily { name: name.to_owned(), group: group.to_owned(), family })
    }

    /// Runs the transaction that names `cf` and records its group; it also deletes the catalog's notes of the dropped
    /// families in `forgotten`, whose rows are gone.
    fn write_name(&mut self, (name, group): (&str, &str), cf: CfId, forgotten: &[CfId]) -> Result<(), EngineError> {
        let catalog = self.shared.families.get_or_make(CfId::CATALOG);
        self.begin_naming()?;
        let (key, value) = (names::name_key(name), names::name_value(cf, group));
        loop {
            match self.insert(&catalog, &key, &value)? {
                Insert::Done => break,
                Insert::Duplicate(_) => return Err(EngineError::FamilyExists { name: name.to_owned() }),
                Insert::Wait(blocker) => self.wait(blocker).block(None)?,
            }
        }
        let mut put = |key: &[u8], value: Option<&[u8]>| Upsert::new(&catalog, key, value).block(self, None);
        put(&names::next_id_key(), Some(&names::next_id_value(cf.get().saturating_add(1))))?;
        forgotten.iter().try_for_each(|cf| put(&names::dropped_key(*cf), None))?;
        self.commit_naming()
    }

    /// Begins a transaction over name rows. It is logged, and waits where it has to.
    fn begin_naming(&mut self) -> Result<(), EngineError> {
        self.set_no_slowdown(false);
        self.set_unlogged(false);
        self.begin(Isolation::ReadCommitted, false)?;
        self.begin_statement(StatementKind::Write)
    }

    fn commit_naming(&mut self) -> Result<(), EngineError> {
        self.end_statement();
        let has_log = !self.shared.has_no_log();
        self.commit(has_log)?.block()?;
        Ok(())
    }

    /// Returns the column family with this name. To be called without an open transaction.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`], [`EngineError::BadName`].
    pub fn find_named_family(&mut self, name: &str) -> Result<NamedFamily, EngineError> {
        let named = self.read_name(name);
        self.rollback();
        let Some((cf, group)) = named? else { return Err(no_family(name)) };
        let family = self.shared.families.get(cf).ok_or_else(|| no_family(name))?; // Q3
        Ok(NamedFamily { name: name.to_owned(), group, family })
    }

    /// Reads the id and the group of the family with this name. Leaves its transaction open.
    fn read_name(&mut self, name: &str) -> Result<Option<(CfId, String)>, EngineError> {
        self.begin(Isolation::ReadCommitted, true)?;
        self.begin_statement(StatementKind::ReadOnly)?;
        let key = names::name_key(name);
        let catalog = self.shared.families.get_or_make(CfId::CATALOG);
        let Some(value) = self.get(&catalog, &key)? else { return Ok(None) };
        match names::read(&key, &value)? {
            NameRow::Named { cf, group, .. } => Ok(Some((cf, group))),
            _ => Ok(None),
        }
    }

    /// Drops a column family with a name and frees its rows. To be called without an open transaction.
    ///
    /// # Durability
    /// On disk on return.
    ///
    /// # Progress
    /// As of [`Session::create_named_family`].
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`] if it was dropped before; [`EngineError::InvalidArgument`] for a family of SQL;
    /// errors of the log.
    pub fn drop_named_family(&mut self, named: &NamedFamily) -> Result<(), EngineError> {
        check_name(&named.name)?;
        let shared = Arc::clone(&self.shared);
        let _naming = shared.families.naming(); // Q1
        if named.family.is_cleared() {
            return Err(no_family(&named.name));
        }
        let dropped = self.delete_name(&named.name, named.family.id());
        if dropped.is_err() {
            self.rollback();
        }
        dropped?;
        shared.keep_names()?;
        shared.drop_family(named.family.id()); // Q2
        Ok(())
    }

    /// Runs the transaction that deletes the name of `cf` and records that it was dropped.
    fn delete_name(&mut self, name: &str, cf: CfId) -> Result<(), EngineError> {
        let catalog = self.shared.families.get_or_make(CfId::CATALOG);
        self.begin_naming()?;
        self.note_purpose(true);
        let rows = [(names::name_key(name), None), (names::dropped_key(cf), Some(names::dropped_value()))];
        for (key, value) in &rows {
            Upsert::new(&catalog, key, value.as_deref()).block(self, None)?;
        }
        self.commit_naming()
    }

    /// Returns the names and ids of all families that have a name, including SQL's, in order of the names. To be called
    /// without an open transaction.
    ///
    /// # Errors
    /// [`EngineError::BadName`].
    pub fn list_named_families(&mut self) -> Result<Vec<(String, CfId)>, EngineError> {
        let found = self.read_names();
        self.rollback();
        found
    }

    fn read_names(&mut self) -> Result<Vec<(String, CfId)>, EngineError> {
        self.begin(Isolation::ReadCommitted, true)?;
        self.begin_statement(StatementKind::ReadOnly)?;
        let (catalog, range) = (self.shared.families.get_or_make(CfId::CATALOG), names::name_rows());
        let (mut found, mut bad) = (Vec::new(), None);
        let mut after: Option<Vec<u8>> = None;
        loop {
            let end = self.scan(&catalog, &range, after.as_deref(), false, BATCH, &mut |key, value| {
                match names::read(key, value) {
                    Ok(NameRow::Named { name, cf, .. }) => found.push((name, cf)),
                    Ok(_) => {}
                    Err(error) => bad = Some(error),
                }
                ControlFlow::Continue(())
            })?;
            match end {
                ScanEnd::More(key) => after = Some(key),
                ScanEnd::Exhausted => break,
            }
        }
        bad.map_or(Ok(found), Err)
    }
}

/// Fails if no family can be created or dropped under this name.
fn check_name(name: &str) -> Result<(), EngineError> {
    let what = if name.is_empty() || name.len() > NAME_BYTES_MAX {
        "the name of a column family is 1 to 255 bytes long"
    } else if names::is_sql_name(name) {
        "names that begin with sql: are those of SQL's tables: make and drop them with SQL"
    } else {
        return Ok(());
    };
    Err(EngineError::InvalidArgument { what })
}

fn no_family(name: &str) -> EngineError {
    EngineError::NoSuchFamily { name: name.to_owned() }
}

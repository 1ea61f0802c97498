//! Creates, finds and drops column families by name, in transactions over the name rows (`names`).
//!
//! # Invariants
//! - Q1. One thread at a time creates or drops named families (`Families::naming`); SQL names its own under its catalog
//!   lock.
//! - Q2. A family is freed only after the commit that dropped it is on disk: a snapshot taken later does not have its
//!   name.
//! - Q3. A handle is returned only for a family that is in memory, never for one that the look-up itself would create.

use std::ops::ControlFlow;

use collie_base::CfId;

use super::batch::Put;
use super::cf::check_name;
use super::write::{self, Upsert};
use super::{Cf, CfOptions, WriteOptions};
use crate::families::names::{self, NameRow};
use crate::{Db, EngineError, Insert, Isolation, ScanEnd, Session, StatementKind};

/// Names that one call of the session reads.
const BATCH: usize = 256;

/// Creates a family.
pub(crate) fn create(db: &Db, session: &mut Session, name: &str, options: &CfOptions) -> Result<Cf, EngineError> {
    check_name(name)?;
    options.check()?;
    let families = &db.shared.families;
    let mut forgotten = families.naming(); // Q1
    let cf = families.create_in(&options.group);
    let made = write_name(db, session, (name, &options.group), cf, &forgotten);
    if let Err(error) = made {
        families.remove(cf);
        return Err(error);
    }
    forgotten.clear();
    db.shared.keep_names()?;
    let family = families.get(cf).ok_or_else(|| no_family(name))?;
    Ok(Cf::in_group(name, &options.group, family))
}

/// Runs the transaction that names `cf` and records its group; it also deletes the catalog's notes of the
/// dropped families in `forgotten`, whose rows are gone.
fn write_name(
    db: &Db,
    session: &mut Session,
    (name, group): (&str, &str),
    cf: CfId,
    forgotten: &[CfId],
) -> Result<(), EngineError> {
    let catalog = Cf::new("", db.family(CfId::CATALOG));
    write::begin(session, WriteOptions::sync())?;
    let (key, value) = (names::name_key(name), names::name_value(cf, group));
    loop {
        match session.insert(catalog.family(), &key, &value)? {
            Insert::Done => break,
            Insert::Duplicate(_) => return Err(EngineError::FamilyExists { name: name.to_owned() }),
            Insert::Wait(blocker) => session.wait(blocker).block(None)?,
        }
    }
    let mut put = |key: &[u8], value: Option<&[u8]>| Upsert::new(Put { cf: &catalog, key, value }).block(session, None);
    put(&names::next_id_key(), Some(&names::next_id_value(cf.get().saturating_add(1))))?;
    forgotten.iter().try_for_each(|cf| put(&names::dropped_key(*cf), None))?;
    session.end_statement();
    session.commit(!db.shared.has_no_log())?.block()?;
    Ok(())
}

/// Returns the family with this name.
pub(crate) fn find(db: &Db, session: &mut Session, name: &str) -> Result<Cf, EngineError> {
    let named = read_name(db, session, name)?;
    session.rollback();
    let found = named.and_then(|(cf, group)| Some(Cf::in_group(name, &group, db.shared.families.get(cf)?))); // Q3
    found.ok_or_else(|| no_family(name))
}

/// Reads the id and the group of the family with this name. Leaves its transaction open.
fn read_name(db: &Db, session: &mut Session, name: &str) -> Result<Option<(CfId, String)>, EngineError> {
    session.begin(Isolation::ReadCommitted, true)?;
    session.begin_statement(StatementKind::ReadOnly)?;
    let key = names::name_key(name);
    let Some(value) = session.get(&db.family(CfId::CATALOG), &key)? else { return Ok(None) };
    match decode(&key, &value)? {
        NameRow::Named { cf, group, .. } => Ok(Some((cf, group))),
        _ => Ok(None),
    }
}

/// Drops a family and frees its rows.
pub(crate) fn drop(db: &Db, session: &mut Session, cf: &Cf) -> Result<(), EngineError> {
    check_name(cf.name())?;
    let _naming = db.shared.families.naming(); // Q1
    cf.check()?;
    let catalog = Cf::new("", db.family(CfId::CATALOG));
    write::begin(session, WriteOptions::sync())?;
    session.note_purpose(true);
    let rows = [(names::name_key(cf.name()), None), (names::dropped_key(cf.id()), Some(names::dropped_value()))];
    for (key, value) in &rows {
        Upsert::new(Put { cf: &catalog, key, value: value.as_deref() }).block(session, None)?;
    }
    session.end_statement();
    session.commit(!db.shared.has_no_log())?.block()?;
    db.shared.keep_names()?;
    db.drop_family(cf.id()); // Q2
    Ok(())
}

/// Returns the names and ids of all families that have a name, including SQL's, in order of the names.
pub(crate) fn list(db: &Db, session: &mut Session) -> Result<Vec<(String, CfId)>, EngineError> {
    session.begin(Isolation::ReadCommitted, true)?;
    session.begin_statement(StatementKind::ReadOnly)?;
    let (catalog, range) = (db.family(CfId::CATALOG), names::name_rows());
    let (mut found, mut bad) = (Vec::new(), None);
    let mut after: Option<Vec<u8>> = None;
    loop {
        let end = session.scan(&catalog, &range, after.as_deref(), false, BATCH, &mut |key, value| {
            match decode(key, value) {
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
    session.rollback();
    bad.map_or(Ok(found), Err)
}

fn decode(key: &[u8], value: &[u8]) -> Result<NameRow, EngineError> {
    names::decode(key, value).map_err(|error| EngineError::BadName { key: key.to_vec(), what: error.what })
}

fn no_family(name: &str) -> EngineError {
    EngineError::NoSuchFamily { name: name.to_owned() }
}

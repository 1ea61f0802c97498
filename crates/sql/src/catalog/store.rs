//! Reads the catalog from family 0 and writes changes to it, inside the caller's transaction.
//!
//! There is no concurrency control here: the caller holds the catalog lock, so only one transaction at a time changes
//! definitions.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, RangeBounds},
};

use collie_base::{CfId, Lsn, Map};
use collie_engine::{Basis, Db, Insert, Outcome, ScanEnd, Session, Write, foreign_rows, sql_name_row};

use crate::{
    catalog::{
        record::{self, Part, Record, Row},
        relation::{Check, Column, ForeignKey, Index, Oid, Relation},
        snapshot::{Catalog, FIRST_USER_OID, PUBLIC, Schema},
    },
    error::{Result, SqlError, SqlState},
};

/// Rows read per engine call.
const BATCH: usize = 256;

/// The content of family 0.
#[derive(Debug)]
pub struct Loaded {
    /// User definitions; the caller adds the system tables.
    pub catalog: Catalog,
    /// The first OID that was never given to an object.
    pub next_oid: u32,
    /// One line for each row or relation that could not be read; such a relation is left out of the catalog.
    pub damaged: Vec<String>,
}

/// Rows of definitions by their keys.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads every definition. The session must have an open statement.
///
/// # Errors
/// If the engine cannot be read. A row that does not decode leaves its relation out and is reported in `damaged`.
pub fn load(db: &Db, session: &Session) -> Result<Loaded> {
    load_from(|visit| scan(db, session, visit))
}

/// Returns every row of a definition as the commits below `position` have left it. The caller holds a snapshot at or
/// below `position` ([`Db::rows_at`]).
pub fn rows_at(db: &Db, position: Lsn) -> Rows {
    let (mut rows, range) = (Rows::new(), foreign_rows());
    let range = (range.start, range.end);
    db.rows_at(CfId::CATALOG, position, &mut |key, value| {
        let key = key.to_vec();
        if range.contains(&key) {
            rows.insert(key, value.to_vec());
        }
    });
    rows
}

fn scan(db: &Db, session: &Session, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    let family = db.family(CfId::CATALOG);
    let mut visit = |key: &[u8], value: &[u8]| {
        visit(key, value);
        ControlFlow::Continue(())
    };
    let (range, mut after) = (foreign_rows(), None::<Vec<u8>>);
    while let ScanEnd::More(last) = session.scan(&family, &range, after.as_deref(), false, BATCH, &mut visit)? {
        after = Some(last);
    }
    Ok(())
}

/// Builds the definitions of all `rows`.
///
/// # Errors
/// None today. Rows that do not decode are reported as by [`load`].
pub fn load_rows(rows: &Rows) -> Result<Loaded> {
    load_from(|visit| {
        rows.iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    })
}

/// Applies the rows that a commit has `changed` to `rows`, and updates `catalog`, which was built from the rows before,
/// to match. Returns the tables that may have changed, and the first OID that was never given to an object. The cost is
/// proportional to the change, plus a copy of the lists of `catalog`.
///
/// # Errors
/// None today. Definitions that do not decode are left out.
pub fn load_changed(
    rows: &mut Rows,
    changed: &[(Vec<u8>, Option<Vec<u8>>)],
    catalog: &mut Catalog,
) -> Result<(Vec<Oid>, u32)> {
    let (mut tables, mut schemas) = (Vec::new(), Vec::new());
    // Keys that begin with byte 0 are the engine's (`foreign_rows`).
    for (key, value) in changed.iter().filter(|(key, _)| key.first().is_some_and(|first| *first > 0)) {
        match value {
            Some(value) => drop(rows.insert(key.clone(), value.clone())),
            None => drop(rows.remove(key)),
        }
        match record::part_of(key) {
            Some(Part::Table(oid)) => tables.push(oid),
            Some(Part::Schema(oid)) => schemas.push(oid),
            None => {}
        }
    }
    tables.sort_unstable();
    tables.dedup();
    let loaded = load_from(|visit| {
        let keys = tables.iter().flat_map(|oid| record::table_prefixes(*oid));
        let keys = keys.chain(schemas.iter().map(|oid| record::schema_key(*oid))).chain([record::next_oid_key()]);
        for prefix in keys {
            let from = rows.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            from.for_each(|(key, value)| visit(key, value));
        }
        Ok(())
    })?;
    for oid in schemas {
        match loaded.catalog.schemas.get(&oid) {
            Some(schema) => drop(catalog.schemas.insert(oid, schema.clone())),
            None => drop(catalog.schemas.remove(&oid)),
        }
    }
    // All tables are removed before the first is added, because they may have exchanged names.
    tables.iter().for_each(|oid| catalog.remove_relation(*oid));
    loaded.catalog.relations.into_values().for_each(|relation| catalog.put_relation(relation));
    Ok((tables, loaded.next_oid))
}

/// Builds the definitions of the rows that `scan` visits.
fn load_from(scan: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])) -> Result<()>) -> Result<Loaded> {
    let mut damaged = Vec::new();
    let mut catalog = Catalog::default();
    let mut next_oid = FIRST_USER_OID;
    let mut relations: Map<Oid, Relation> = Map::default();
    let mut columns: Map<Oid, Vec<Column>> = Map::default();
    let mut indexes: Map<Oid, Vec<Index>> = Map::default();
    let mut checks: Map<Oid, Vec<Check>> = Map::default();
    let mut foreign_keys: Map<Oid, Vec<ForeignKey>> = Map::default();
    let mut unreadable: Vec<Oid> = Vec::new();
    scan(&mut |key, value| match record::decode(key, value) {
        Ok(Record::Schema(schema)) => {
            catalog.schemas.insert(schema.oid, schema.into());
        }
        Ok(Record::Relation(relation)) => {
            relations.insert(relation.oid, *relation);
        }
        Ok(Record::Column(oid, column)) => columns.entry(oid).or_default().push(column),
        Ok(Record::Index(oid, index)) => indexes.entry(oid).or_default().push(index),
        Ok(Record::Check(oid, check)) => checks.entry(oid).or_default().push(check),
        Ok(Record::ForeignKey(oid, foreign)) => foreign_keys.entry(oid).or_default().push(foreign),
        Ok(Record::NextOid(next)) => next_oid = next_oid.max(next),
        Err(error) => {
            damaged.push(format!("catalog row {key:02x?}: {error}; its relation is left out"));
            unreadable.extend(key.get(1..5).and_then(|id| id.try_into().ok()).map(u32::from_be_bytes));
        }
    })?;
    // A row that does not decode makes its whole relation unreadable: a table without one of its parts would be wrong.
    for (oid, relation) in relations {
        if unreadable.contains(&oid) {
            continue;
        }
        let name = relation.name.clone();
        let parts = (columns.remove(&oid), indexes.remove(&oid), checks.remove(&oid));
        let (columns, indexes, checks) =
            (parts.0.unwrap_or_default(), parts.1.unwrap_or_default(), parts.2.unwrap_or_default());
        let foreign_keys = foreign_keys.remove(&oid).unwrap_or_default();
        match record::assemble(relation, columns, indexes, checks, foreign_keys) {
            Ok(relation) => catalog.put_relation(relation.into()),
            Err(error) => damaged.push(format!("table {name} (oid {oid}): {error}; it is left out")),
        }
    }
    Ok(Loaded { catalog, next_oid, damaged })
}

/// Writes the initial definitions of a new database. The session must have an open statement that may write.
///
/// # Errors
/// If the engine refuses the write.
pub fn bootstrap(db: &Db, session: &mut Session) -> Result<()> {
    put(db, session, record::schema_row(&public_schema()))
}

/// Returns the schema that every database initially has.
pub fn public_schema() -> Schema {
    Schema { oid: PUBLIC, name: "public".into() }
}

/// Writes a schema.
///
/// # Errors
/// As [`bootstrap`].
pub fn put_schema(db: &Db, session: &mut Session, schema: &Schema) -> Result<()> {
    put(db, session, record::schema_row(schema))
}

/// Removes a schema.
///
/// # Errors
/// As [`bootstrap`].
pub fn remove_schema(db: &Db, session: &mut Session, schema: &Schema) -> Result<()> {
    delete(db, session, &record::schema_row(schema).0)
}

/// Records that OIDs below `next` may be in use.
///
/// # Errors
/// As [`bootstrap`].
pub fn put_next_oid(db: &Db, session: &mut Session, next: u32) -> Result<()> {
    put(db, session, record::next_oid_row(next))
}

/// Returns every row that defines a relation: the catalog's own, and the engine's names of its families.
fn rows_of(relation: &Relation) -> Vec<Row> {
    let mut rows = record::relation_rows(relation);
    rows.push(sql_name_row(relation.oid, relation.family()));
    rows.extend(relation.indexes.iter().map(|index| sql_name_row(index.oid, index.cf)));
    rows
}

/// Names the families of relations that have no name in the engine, as in a directory of an older version.
///
/// # Errors
/// As [`bootstrap`].
pub fn name_families(db: &Db, session: &mut Session, catalog: &Catalog) -> Result<()> {
    let named = db.named_families()?;
    for relation in catalog.relations.values() {
        let families = relation.indexes.iter().map(|index| (index.oid, index.cf));
        for (oid, cf) in families.chain([(relation.oid, relation.family())]) {
            if named.iter().all(|(_, known)| *known != cf) {
                put(db, session, sql_name_row(oid, cf))?;
            }
        }
    }
    Ok(())
}

/// Replaces the definition `old` (or nothing) by `new` (or nothing), touching only rows that differ.
///
/// # Errors
/// As [`bootstrap`].
pub fn replace_relation(db: &Db, session: &mut Session, old: Option<&Relation>, new: Option<&Relation>) -> Result<()> {
    let before: Map<Vec<u8>, Vec<u8>> = old.map(rows_of).unwrap_or_default().into_iter().collect();
    let after: Map<Vec<u8>, Vec<u8>> = new.map(rows_of).unwrap_or_default().into_iter().collect();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        delete(db, session, key)?;
    }
    for (key, value) in after {
        if before.get(&key) != Some(&value) {
            put(db, session, (key, value))?;
        }
    }
    Ok(())
}

fn put(db: &Db, session: &mut Session, (key, value): Row) -> Result<()> {
    let family = db.family(CfId::CATALOG);
    match session.insert(&family, &key, &value)? {
        Insert::Done => Ok(()),
        Insert::Duplicate(_) => finish(session.write(&family, &key, Basis::Snapshot, Write::Put(&value))?),
        Insert::Wait(_) => Err(contended()),
    }
}

fn delete(db: &Db, session: &mut Session, key: &[u8]) -> Result<()> {
    let family = db.family(CfId::CATALOG);
    finish(session.write(&family, key, Basis::Snapshot, Write::Delete)?)
}

fn finish(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        _ => Err(contended()),
    }
}

/// Returns the error for a definition that was changed after this transaction's snapshot; under the catalog lock only
/// an older snapshot can meet it.
fn contended() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .hint("Another transaction changed the same definition; run the transaction again.")
}

//! Filling the family of a new index, and rewriting a table under a new key.
//!
//! Runs inside the transaction of the DDL statement, under a table lock that keeps writers out; so nothing here waits.
//!
//! # Invariants
//! - B1. Afterwards every row visible to the statement has one entry in the family, and no entry lacks its row.

use std::{ops::ControlFlow, sync::Arc};

use collie_base::CfId;
use collie_engine::{CancelHandle, Db, Family, Insert, KeyRange, ScanEnd, Session};

use crate::{
    catalog::relation::{Index, Relation, TableKey},
    error::{Result, SqlError, SqlState},
    exec::{context::check_cancel, dml::key_text, entry, error::from_engine},
    types::{TextContext, Value},
};

/// Rows read before any is written.
const BATCH: usize = 256;

/// Fills the family `index.cf` with an entry for each row of `relation`. The session has begun a writing statement.
///
/// # Errors
/// 23505 when the index is unique and two rows have the same key; 57014; whatever the engine fails with.
pub fn build_index(
    db: &Db,
    session: &mut Session,
    cancel: &CancelHandle,
    relation: &Relation,
    index: &Index,
) -> Result<()> {
    let family = db.family(index.cf);
    let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
    let mut key = Vec::new();
    let from = Source { db, cancel, relation, cf: relation.family(), columns: &columns };
    for_each_row(session, &from, |session, table_key, row| {
        key.clear();
        entry::entry_key(index, row, table_key, &mut key)?;
        put(session, relation, index, &family, &key, entry::entry_value(index, table_key), row)
    })
}

/// Copies every row of `old` into the families of `new` under its key, and fills all indexes of `new`. The session has
/// begun a writing statement.
///
/// For ADD PRIMARY KEY and for dropping one: `new` has the new key and new families, and the same columns.
///
/// # Errors
/// 23502 when a NOT NULL column, such as one of the new key, holds NULL; else as [`build_index`].
pub fn rewrite_table(
    db: &Db,
    session: &mut Session,
    cancel: &CancelHandle,
    old: &Relation,
    new: &Relation,
) -> Result<()> {
    let table = db.family(new.family());
    let families: Vec<Arc<Family>> = new.indexes.iter().map(|index| db.family(index.cf)).collect();
    let columns: Vec<usize> = old.live_columns().map(|(place, _)| place).collect();
    let (mut key, mut entry, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut last_id = 0_u64;
    let from = Source { db, cancel, relation: old, cf: old.family(), columns: &columns };
    for_each_row(session, &from, |session, _, row| {
        refuse_null(new, row)?;
        bytes.clear();
        new.layout.encode(row, &mut bytes)?;
        key.clear();
        match (&new.key, new.primary_key()) {
            (TableKey::Primary, Some(primary)) => {
                entry::primary_key(primary, row, &mut key)?;
                put(session, new, primary, &table, &key, &bytes, row)?;
            }
            _ => {
                // The family is new, so ids from 1 are free in it.
                last_id += 1;
                key.extend_from_slice(&last_id.to_be_bytes());
                match session.insert(&table, &key, &bytes).map_err(from_engine)? {
                    Insert::Done => {}
                    Insert::Duplicate(_) | Insert::Wait(_) => return Err(not_alone(new)),
                }
            }
        }
        for (index, family) in new.indexes.iter().zip(&families).filter(|(index, _)| !index.primary) {
            entry.clear();
            entry::entry_key(index, row, &key, &mut entry)?;
            put(session, new, index, family, &entry, entry::entry_value(index, &key), row)?;
        }
        Ok(())
    })
}

/// Fails when a NOT NULL column of `relation` holds NULL in some row: for SET NOT NULL.
///
/// # Errors
/// 23502; else as [`build_index`].
pub fn check_not_null(db: &Db, session: &mut Session, cancel: &CancelHandle, relation: &Relation) -> Result<()> {
    let columns: Vec<usize> =
        relation.live_columns().filter(|(_, column)| column.not_null).map(|(place, _)| place).collect();
    let from = Source { db, cancel, relation, cf: relation.family(), columns: &columns };
    for_each_row(session, &from, |_, _, row| refuse_null(relation, row))
}

fn refuse_null(relation: &Relation, row: &[Value]) -> Result<()> {
    for (place, column) in relation.live_columns() {
        if column.not_null && row[place].is_null() {
            let message = format!("column \"{}\" of relation \"{}\" contains null values", column.name, relation.name);
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message).column(&*column.name));
        }
    }
    Ok(())
}

fn put(
    session: &mut Session,
    relation: &Relation,
    index: &Index,
    family: &Family,
    key: &[u8],
    value: &[u8],
    row: &[Value],
) -> Result<()> {
    match session.insert(family, key, value).map_err(from_engine)? {
        Insert::Done => Ok(()),
        Insert::Duplicate(_) => {
            let message = format!("could not create unique index \"{}\"", index.name);
            let key = key_text(relation, index, row, &TextContext::default());
            Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message)
                .detail(format!("{key} is duplicated."))
                .constraint(&*index.name))
        }
        Insert::Wait(_) => Err(not_alone(relation)),
    }
}

fn not_alone(relation: &Relation) -> SqlError {
    SqlError::new(
        SqlState::INTERNAL_ERROR,
        format!("somebody writes to the new families of \"{}\" while they are built", relation.name),
    )
}

/// Which rows are read.
struct Source<'a> {
    db: &'a Db,
    cancel: &'a CancelHandle,
    /// How they are laid out.
    relation: &'a Relation,
    cf: CfId,
    /// Columns to decode.
    columns: &'a [usize],
}

/// Calls `visit` with the key and the decoded columns of every visible row.
fn for_each_row(
    session: &mut Session,
    from: &Source<'_>,
    mut visit: impl FnMut(&mut Session, &[u8], &[Value]) -> Result<()>,
) -> Result<()> {
    let family = from.db.family(from.cf);
    let width = from.relation.columns.len();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let mut batch: Vec<(Vec<u8>, Vec<Value>)> = Vec::with_capacity(BATCH);
        let mut failed = None;
        let end = session.scan(&family, &KeyRange::ALL, after.as_deref(), false, BATCH, &mut |key, bytes| {
            let mut row = vec![Value::Null; width];
            match entry::decode_row(from.relation, bytes, from.columns, &mut row) {
                Ok(()) => {
                    batch.push((key.to_vec(), row));
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        check_cancel(from.cancel)?;
        for (key, row) in &batch {
            visit(session, key, row)?;
        }
        match end.map_err(from_engine)? {
            ScanEnd::Exhausted => return Ok(()),
            ScanEnd::More(last) => after = Some(last),
        }
    }
}

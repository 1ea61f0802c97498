//! Filling the family of a new index, and rewriting a table under a new key.
//!
//! Runs inside the transaction of the DDL statement, under a table lock that keeps writers out; so nothing here waits.
//!
//! # Invariants
//! - B1. Afterwards every row visible to the statement that the index is over has one entry in the family, and no entry
//!   lacks its row.

use std::{ops::ControlFlow, sync::Arc};

use collie_base::CfId;
use collie_engine::{Family, Insert, KeyRange, ScanEnd};

use crate::{
    catalog::relation::{Index, Relation, TableKey},
    error::{Result, SqlError, SqlState},
    exec::{
        computed::key_of,
        context::{ExecContext, Run, Share, check_cancel},
        dml::key_text,
        entry::{self, Keyed},
        error::from_engine,
        foreign::Events,
        held::Held,
    },
    plan::{
        self,
        node::{IndexCode, Plan},
    },
    types::{TextContext, Value},
};

/// Rows read before any is written.
const BATCH: usize = 256;

/// Fills the family `index.cf` with an entry for each row of `relation` that is in the index. The session has begun a
/// writing statement.
///
/// # Errors
/// 23505 when the index is unique and two rows have the same key; 57014; whatever the engine or an expression of the index
/// fails with.
pub fn build_index(cx: &mut ExecContext<'_>, relation: &Arc<Relation>, index: &Arc<Index>) -> Result<()> {
    let filled = Filled::new(cx, relation, index)?;
    let columns: Vec<usize> = match &filled.code {
        None => index.key_places().collect(),
        Some(_) => relation.live_columns().map(|(place, _)| place).collect(),
    };
    let mut key = Vec::new();
    let from = Source { relation, cf: relation.family(), columns: &columns };
    for_each_row(cx, &from, |run, table_key, row| filled.put(table_key, row, &mut key, run))
}

/// Copies every row of `old` into the families of `new` under its key, and fills all indexes of `new`. The session has
/// begun a writing statement.
///
/// For ADD PRIMARY KEY and for dropping one: `new` has the new key and new families, and the same columns.
///
/// # Errors
/// 23502 when a NOT NULL column, such as one of the new key, holds NULL; else as [`build_index`].
pub fn rewrite_table(cx: &mut ExecContext<'_>, old: &Relation, new: &Arc<Relation>) -> Result<()> {
    let table = cx.db.family(new.family());
    let secondary = new.indexes.iter().filter(|index| !index.primary);
    let filled = secondary.map(|index| Filled::new(cx, new, index)).collect::<Result<Vec<_>>>()?;
    let columns: Vec<usize> = old.live_columns().map(|(place, _)| place).collect();
    let (mut key, mut entry, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut last_id = 0_u64;
    let from = Source { relation: old, cf: old.family(), columns: &columns };
    for_each_row(cx, &from, |run, _, row| {
        refuse_null(new, row)?;
        bytes.clear();
        new.layout.encode(row, &mut bytes)?;
        key.clear();
        match (&new.key, new.primary_key()) {
            (TableKey::Primary, Some(primary)) => {
                entry::primary_key(primary, row, &mut key)?;
                let inserted = run.session.insert(&table, &key, &bytes).map_err(from_engine)?;
                check_inserted(&inserted, new, primary, Keyed::Row(row))?;
            }
            _ => {
                // The family is new, so ids from 1 are free in it.
                last_id += 1;
                key.extend_from_slice(&last_id.to_be_bytes());
                match run.session.insert(&table, &key, &bytes).map_err(from_engine)? {
                    Insert::Done => {}
                    Insert::Duplicate(_) | Insert::Wait(_) => return Err(not_alone(new)),
                }
            }
        }
        filled.iter().try_for_each(|index| index.put(&key, row, &mut entry, run))
    })
}

/// Fails when a NOT NULL column of `relation` holds NULL in some row: for SET NOT NULL.
///
/// # Errors
/// 23502; else as [`build_index`].
pub fn check_not_null(cx: &mut ExecContext<'_>, relation: &Relation) -> Result<()> {
    let columns: Vec<usize> =
        relation.live_columns().filter(|(_, column)| column.not_null).map(|(place, _)| place).collect();
    let from = Source { relation, cf: relation.family(), columns: &columns };
    for_each_row(cx, &from, |_, _, row| refuse_null(relation, row))
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

/// An index that is filled.
struct Filled<'a> {
    relation: &'a Arc<Relation>,
    index: &'a Arc<Index>,
    family: Arc<Family>,
    /// What it computes of a row.
    code: Option<IndexCode>,
}

impl<'a> Filled<'a> {
    fn new(cx: &ExecContext<'_>, relation: &'a Arc<Relation>, index: &'a Arc<Index>) -> Result<Self> {
        let code = plan::index_code(relation, index, cx.catalog)?;
        Ok(Self { relation, index, family: cx.db.family(index.cf), code })
    }

    /// Writes the entry of the row at `table_key`, if it has one. `key` is scratch.
    fn put(&self, table_key: &[u8], row: &[Value], key: &mut Vec<u8>, run: &mut Run<'_>) -> Result<()> {
        let computed;
        let keyed = match &self.code {
            None => Keyed::Row(row),
            Some(code) => {
                computed = key_of(code, row, run)?;
                let Some(values) = &computed else { return Ok(()) };
                Keyed::Computed(values)
            }
        };
        key.clear();
        entry::entry_key(self.index, keyed, table_key, key)?;
        let value = entry::entry_value(self.index, table_key);
        let inserted = run.session.insert(&self.family, key, value).map_err(from_engine)?;
        check_inserted(&inserted, self.relation, self.index, keyed)
    }
}

/// Fails when a key of a unique index was there already.
fn check_inserted(inserted: &Insert, relation: &Relation, index: &Index, row: Keyed<'_>) -> Result<()> {
    match inserted {
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
    /// How they are laid out.
    relation: &'a Relation,
    cf: CfId,
    /// Columns to decode.
    columns: &'a [usize],
}

/// Calls `visit` with the key and the decoded columns of every visible row.
fn for_each_row(
    cx: &mut ExecContext<'_>,
    from: &Source<'_>,
    mut visit: impl FnMut(&mut Run<'_>, &[u8], &[Value]) -> Result<()>,
) -> Result<()> {
    let family = cx.db.family(from.cf);
    let width = from.relation.columns.len();
    // Expressions of an index call immutable functions only: they need no statement around them.
    let (plan, mut events, mut held, mut share) =
        (Plan::nothing(), Events::default(), Held::default(), Share::default());
    let mut run = Run {
        db: cx.db,
        session: &mut *cx.session,
        catalog: cx.catalog,
        eval: cx.eval,
        virtual_tables: cx.virtual_tables,
        row_ids: cx.row_ids,
        cancel: cx.cancel,
        plan: &plan,
        params: &[],
        subs: &mut [],
        ctes: &mut [],
        events: &mut events,
        held: &mut held,
        operands: Vec::new(),
        share: &mut share,
    };
    let mut after: Option<Vec<u8>> = None;
    loop {
        let mut batch: Vec<(Vec<u8>, Vec<Value>)> = Vec::with_capacity(BATCH);
        let mut failed = None;
        let end = run.session.scan(&family, &KeyRange::ALL, after.as_deref(), false, BATCH, &mut |key, bytes| {
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
        check_cancel(run.cancel)?;
        for (key, row) in &batch {
            visit(&mut run, key, row)?;
        }
        match end.map_err(from_engine)? {
            ScanEnd::Exhausted => return Ok(()),
            ScanEnd::More(last) => after = Some(last),
        }
    }
}

//! Fills the family of a new index, and rewrites a table under a new key.
//!
//! This runs inside the transaction of the DDL statement, under a table lock that excludes writers, so nothing here
//! waits. It works in steps of about a millisecond; between them other sessions run and a cancel is noticed.
//!
//! # Invariants
//! - B1. Afterwards every row that is visible to the statement and belongs to the index has one entry in the family,
//!   and
//!   every entry has its row.
//! - B2. Between two steps it holds the key of the last row it read, and no borrow, latch or pin.

use std::{ops::ControlFlow, sync::Arc};

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

/// The rows of one step: about a millisecond of work.
const STEP_ROWS: usize = 256;

/// A pass over all rows of a table, in steps: it fills an index, or rewrites the table.
pub struct Pass {
    /// The table whose rows are read, with their layout.
    relation: Arc<Relation>,
    /// Columns to decode.
    columns: Vec<usize>,
    work: Work,
    /// The key of the last row that was read.
    after: Option<Vec<u8>>,
}

enum Work {
    Fill(Filled),
    Rewrite(Box<Rewritten>),
}

impl Pass {
    /// Creates a pass that fills the family `index.cf` with an entry for each row of `relation` that is in the index.
    ///
    /// # Errors
    /// Errors in the definition of the index.
    pub fn over_index(cx: &ExecContext<'_>, relation: &Arc<Relation>, index: &Arc<Index>) -> Result<Self> {
        let filled = Filled::new(cx, relation, index)?;
        let columns = match &filled.code {
            None => index.key_places().collect(),
            Some(_) => relation.live_columns().map(|(place, _)| place).collect(),
        };
        Ok(Self { relation: relation.clone(), columns, work: Work::Fill(filled), after: None })
    }

    /// Creates a pass that copies every row of `old` into the families of `new` under its key, and fills all indexes of
    /// `new`.
    ///
    /// It serves ADD PRIMARY KEY and dropping a primary key: `new` has the new key, new families, and the same columns.
    ///
    /// # Errors
    /// Those of [`Pass::over_index`].
    pub fn over_table(cx: &ExecContext<'_>, old: &Arc<Relation>, new: &Arc<Relation>) -> Result<Self> {
        let secondary = new.indexes.iter().filter(|index| !index.primary);
        let indexes = secondary.map(|index| Filled::new(cx, new, index)).collect::<Result<_>>()?;
        let rewritten = Rewritten { new: new.clone(), table: cx.db.family(new.family()), indexes, last_id: 0 };
        let columns = old.live_columns().map(|(place, _)| place).collect();
        Ok(Self { relation: old.clone(), columns, work: Work::Rewrite(Box::new(rewritten)), after: None })
    }

    /// Processes the next rows, about a millisecond of them; returns whether these were the last. The session has begun
    /// a
    /// writing statement, which is the same for all steps.
    ///
    /// # Errors
    /// 23505 if an index is unique and two rows have the same key; 23502 if a NOT NULL column of a new key holds NULL;
    /// 57014; errors of the engine or of an expression of an index. What was written stays until it is rolled back.
    pub fn step(&mut self, cx: &mut ExecContext<'_>) -> Result<bool> {
        let family = cx.db.family(self.relation.family());
        // Expressions of an index call only immutable functions, so they need no statement's context.
        let (plan, mut events, mut held, mut share) =
            (Plan::nothing(), Events::default(), Held::default(), Share::begin(cx.clock));
        let mut run = Run {
            db: cx.db,
            session: &mut *cx.session,
            catalog: cx.catalog,
            eval: cx.eval,
            virtual_tables: cx.virtual_tables,
            row_ids: cx.row_ids,
            cancel: cx.cancel,
            clock: cx.clock,
            aside: cx.aside,
            plan: &plan,
            params: &[],
            subs: &mut [],
            ctes: &mut [],
            events: &mut events,
            held: &mut held,
            operands: Vec::new(),
            share: &mut share,
        };
        check_cancel(run.cancel)?;
        let width = self.relation.columns.len();
        let mut batch: Vec<(Vec<u8>, Vec<Value>)> = Vec::with_capacity(STEP_ROWS);
        let (mut failed, after) = (None, self.after.as_deref());
        let end = run.session.scan(&family, &KeyRange::ALL, after, false, STEP_ROWS, &mut |key, bytes| {
            let mut row = vec![Value::Null; width];
            match entry::decode_row(&self.relation, bytes, &self.columns, &mut row) {
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
        let (mut key, mut entry, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for (table_key, row) in &batch {
            match &mut self.work {
                Work::Fill(filled) => filled.put(table_key, row, &mut key, &mut run)?,
                Work::Rewrite(rewritten) => rewritten.put(row, [&mut key, &mut entry, &mut bytes], &mut run)?,
            }
        }
        match end.map_err(from_engine)? {
            ScanEnd::Exhausted => Ok(true),
            ScanEnd::More(last) => {
                self.after = Some(last);
                Ok(false)
            }
        }
    }
}

/// A table that is rewritten.
struct Rewritten {
    new: Arc<Relation>,
    table: Arc<Family>,
    indexes: Vec<Filled>,
    last_id: u64,
}

impl Rewritten {
    /// Writes a row and its entries; the buffers are scratch.
    fn put(&mut self, row: &[Value], [key, entry, bytes]: [&mut Vec<u8>; 3], run: &mut Run<'_>) -> Result<()> {
        let new = &self.new;
        refuse_null(new, row)?;
        bytes.clear();
        new.layout.encode(row, bytes)?;
        key.clear();
        match (&new.key, new.primary_key()) {
            (TableKey::Primary, Some(primary)) => {
                entry::primary_key(primary, row, key)?;
                let inserted = run.session.insert(&self.table, key, bytes).map_err(from_engine)?;
                check_inserted(&inserted, new, primary, Keyed::Row(row))?;
            }
            _ => {
                // The family is new, so the ids from 1 are free in it.
                self.last_id += 1;
                key.extend_from_slice(&self.last_id.to_be_bytes());
                match run.session.insert(&self.table, key, bytes).map_err(from_engine)? {
                    Insert::Done => {}
                    Insert::Duplicate(_) | Insert::Wait(_) => return Err(not_alone(new)),
                }
            }
        }
        self.indexes.iter().try_for_each(|index| index.put(key, row, entry, run))
    }
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

/// An index that is being filled.
struct Filled {
    relation: Arc<Relation>,
    index: Arc<Index>,
    family: Arc<Family>,
    /// The code that computes its key and predicate from a row.
    code: Option<IndexCode>,
}

impl Filled {
    fn new(cx: &ExecContext<'_>, relation: &Arc<Relation>, index: &Arc<Index>) -> Result<Self> {
        let code = plan::index_code(relation, index, cx.catalog)?;
        Ok(Self { relation: relation.clone(), index: index.clone(), family: cx.db.family(index.cf), code })
    }

    /// Writes the entry of the row at `table_key`, if the row has one. `key` is scratch.
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
        entry::entry_key(&self.index, keyed, table_key, key)?;
        let value = entry::entry_value(&self.index, table_key);
        let inserted = run.session.insert(&self.family, key, value).map_err(from_engine)?;
        check_inserted(&inserted, &self.relation, &self.index, keyed)
    }
}

/// Fails if the key of a unique index already exists.
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

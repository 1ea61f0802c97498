//! Scans of tables: point get, index ranges, full scan.
//!
//! Rows are read in batches; between batches only the last key is held (the engine's `scan` re-seeks).
//!
//! # Invariants
//! - C1. Rows are returned in the order of the index that is read (or of the table's key), backward if asked for.
//! - C2. The key slot, if there is one, holds the key of the row in the frame.

use std::{ops::ControlFlow, sync::Arc};

use collie_engine::{Family, KeyRange, ScanEnd};

use crate::{
    error::{Result, SqlError},
    exec::{
        context::{Env, Run},
        entry::{self, TableKeyPlace},
        error::from_engine,
        eval::holds,
        keyspan,
        op::Pull,
    },
    plan::node::{Access, IndexAccess, Scan},
    types::Value,
};

/// Rows of the first batch; each following batch is four times as large, up to the largest.
const FIRST_BATCH: usize = 16;
/// Rows of the largest batch.
const LARGEST_BATCH: usize = 256;

/// The state of a scan.
pub(crate) struct ScanState {
    table: Option<Arc<Family>>,
    /// Family of the entries if a secondary index is read.
    entries: Option<Arc<Family>>,
    place: TableKeyPlace,
    started: bool,
    spans: Vec<KeyRange>,
    span: usize,
    /// The key after which the current span continues.
    after: Option<Vec<u8>>,
    batch: usize,
    /// The number of rows of this batch that were returned.
    next: usize,
    /// The number of rows of this batch.
    count: usize,
    /// Decoded columns of this batch, row by row (when the table itself is read).
    values: Vec<Value>,
    /// Keys of the table's rows of this batch, concatenated.
    keys: Vec<u8>,
    ends: Vec<usize>,
    /// One row of the table, by column.
    scratch: Vec<Value>,
    key: Vec<u8>,
}

impl ScanState {
    pub(crate) fn new(scan: &Scan) -> Self {
        let relation = &scan.target.relation;
        let place = match &scan.access {
            Access::Index(access) => TableKeyPlace::of(relation, &relation.indexes[access.index]),
            Access::Full { .. } => TableKeyPlace::Value,
        };
        Self {
            table: None,
            entries: None,
            place,
            started: false,
            spans: Vec::new(),
            span: 0,
            after: None,
            batch: FIRST_BATCH,
            next: 0,
            count: 0,
            values: Vec::new(),
            keys: Vec::new(),
            ends: Vec::new(),
            scratch: Vec::new(),
            key: Vec::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.started = false;
        self.spans.clear();
        self.span = 0;
        self.after = None;
        self.batch = FIRST_BATCH;
        self.next = 0;
        self.count = 0;
    }

    pub(crate) fn pull(
        &mut self,
        scan: &Scan,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        if let Access::Index(access) = &scan.access
            && access.point
            && access.is_single()
        {
            if std::mem::replace(&mut self.started, true) {
                return Ok(Pull::End);
            }
            return self.get(scan, access, frame, outer, run);
        }
        if !self.started {
            self.start(scan, frame, outer, run)?;
        }
        loop {
            while self.next < self.count {
                let row = self.next;
                self.next += 1;
                run.tick()?;
                if self.show(scan, row, frame, run)? && holds(scan.filter.as_ref(), run, &Env::new(frame, outer))? {
                    return Ok(Pull::Row);
                }
            }
            if run.is_spent() {
                return Ok(Pull::Yield);
            }
            if !self.read_batch(scan, run)? {
                return Ok(Pull::End);
            }
        }
    }

    /// Reads the one row with a unique key.
    fn get(
        &mut self,
        scan: &Scan,
        access: &IndexAccess,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        let mut key = std::mem::take(&mut self.key);
        let found = keyspan::single_prefix(access, run, &Env::new(frame, outer), &mut key);
        self.key = key;
        if !found? {
            return Ok(Pull::End);
        }
        let target = &scan.target;
        let index = &target.relation.indexes[access.index];
        if !index.primary {
            let entries = self.entries.get_or_insert_with(|| run.db.family(index.cf));
            match run.session.get(entries, &self.key).map_err(from_engine)? {
                None => return Ok(Pull::End),
                Some(entry) => {
                    self.key.clear();
                    self.key.extend_from_slice(&entry);
                }
            }
        }
        let table = self.table.get_or_insert_with(|| run.db.family(target.relation.family()));
        let read = run.session.get_with(table, &self.key, |bytes| entry::load_row(target, bytes, frame));
        match read.map_err(from_engine)? {
            None => return Ok(Pull::End),
            Some(loaded) => loaded?,
        }
        run.note_row();
        if let Some(slot) = target.key_slot {
            frame[slot] = Value::bytea(&self.key);
        }
        Ok(if holds(scan.filter.as_ref(), run, &Env::new(frame, outer))? { Pull::Row } else { Pull::End })
    }

    fn start(&mut self, scan: &Scan, frame: &[Value], outer: Option<&Env<'_>>, run: &mut Run<'_>) -> Result<()> {
        let relation = &scan.target.relation;
        if self.table.is_none() {
            self.table = Some(run.db.family(relation.family()));
        }
        self.spans = match &scan.access {
            Access::Full { .. } => vec![KeyRange::ALL],
            Access::Index(access) => {
                let index = &relation.indexes[access.index];
                if !index.primary && self.entries.is_none() {
                    self.entries = Some(run.db.family(index.cf));
                }
                let mut spans = keyspan::spans(access, run, &Env::new(frame, outer))?;
                if access.reverse {
                    spans.reverse();
                }
                spans
            }
        };
        self.started = true;
        Ok(())
    }

    /// Reads rows or index entries until there are some; returns false at the end.
    fn read_batch(&mut self, scan: &Scan, run: &mut Run<'_>) -> Result<bool> {
        let target = &scan.target;
        let reverse = match &scan.access {
            Access::Full { reverse } => *reverse,
            Access::Index(access) => access.reverse,
        };
        self.values.clear();
        self.keys.clear();
        self.ends.clear();
        self.next = 0;
        self.count = 0;
        while let Some(span) = self.spans.get(self.span) {
            let Self { table, entries, place, values, keys, ends, scratch, .. } = self;
            let mut count = 0;
            let mut failed: Option<SqlError> = None;
            let end = if let Some(entries) = entries {
                run.session.scan(entries, span, self.after.as_deref(), reverse, self.batch, &mut |key, value| {
                    count += 1;
                    if let Err(error) = place.read(key, value, keys) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                    ends.push(keys.len());
                    ControlFlow::Continue(())
                })
            } else {
                let Some(table) = table else { return Ok(false) };
                let relation = &target.relation;
                scratch.resize(relation.columns.len(), Value::Null);
                let wants_key = target.key_slot.is_some();
                run.session.scan(table, span, self.after.as_deref(), reverse, self.batch, &mut |key, value| {
                    count += 1;
                    if let Err(error) = entry::decode_row(relation, value, &target.columns, scratch) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                    values.extend(
                        target.columns.iter().map(|&column| std::mem::replace(&mut scratch[column], Value::Null)),
                    );
                    if wants_key {
                        keys.extend_from_slice(key);
                        ends.push(keys.len());
                    }
                    ControlFlow::Continue(())
                })
            };
            if let Some(error) = failed {
                return Err(error);
            }
            match end.map_err(from_engine)? {
                ScanEnd::Exhausted => {
                    self.span += 1;
                    self.after = None;
                }
                ScanEnd::More(last) => self.after = Some(last),
            }
            self.count = count;
            self.batch = (self.batch * 4).min(LARGEST_BATCH);
            if count > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Loads row `row` of the batch into the frame; returns false if the row of an entry is not visible.
    fn show(&mut self, scan: &Scan, row: usize, frame: &mut [Value], run: &mut Run<'_>) -> Result<bool> {
        let target = &scan.target;
        if self.entries.is_some() {
            let key = &self.keys[self.key_start(row)..self.ends[row]];
            let Some(table) = &self.table else { return Ok(false) };
            let read = run.session.get_with(table, key, |bytes| entry::load_row(target, bytes, frame));
            match read.map_err(from_engine)? {
                None => return Ok(false),
                Some(loaded) => loaded?,
            }
            if let Some(slot) = target.key_slot {
                frame[slot] = Value::bytea(key);
            }
            return Ok(true);
        }
        let width = target.columns.len();
        for (i, &column) in target.columns.iter().enumerate() {
            frame[target.base + column] = std::mem::replace(&mut self.values[row * width + i], Value::Null);
        }
        if let Some(slot) = target.key_slot {
            frame[slot] = Value::bytea(&self.keys[self.key_start(row)..self.ends[row]]);
        }
        Ok(true)
    }

    fn key_start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

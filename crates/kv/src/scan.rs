//! `Scan`: the rows of a range of keys in order, in either direction; `Item`: one of them.
//!
//! Rows are copied out in batches, and between two batches the scan holds nothing of the engine. A scan may pause for
//! any time and costs only its snapshot.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use collie_engine::{KeyRange, RowBytes, ScanEnd, Session};

use crate::{Cf, Error};

/// Rows of the first batch: most scans of an OLTP workload need only a few.
const FIRST_ROWS: usize = 16;
/// Rows of a later batch.
const ROWS: usize = 256;
/// A batch ends once it has this many bytes.
const BYTES: usize = 256 << 10;

/// One row.
#[derive(Clone, Debug)]
pub struct Item {
    batch: Arc<[u8]>,
    key: (usize, usize),
    value_end: usize,
}

impl Item {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.batch[self.key.0..self.key.1]
    }

    /// Returns the value.
    pub fn value(&self) -> &[u8] {
        &self.batch[self.key.1..self.value_end]
    }

    /// Returns copies of key and value.
    pub fn to_pair(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key().to_vec(), self.value().to_vec())
    }
}

/// The rows of a range of keys: an iterator, ascending unless [`Scan::rev`] reverses it. It ends after its first error.
///
/// An item shares the memory of its batch of at most 256 rows, which is freed with the last of its items.
#[derive(Debug)]
#[must_use = "a scan reads nothing until it is iterated"]
pub struct Scan<'s> {
    session: &'s Session,
    cf: Cf,
    range: KeyRange,
    reverse: bool,
    /// The last key that was read from the family.
    after: Option<Vec<u8>>,
    batch: Arc<[u8]>,
    /// Places in `batch` of the rows that were not yielded yet: start of the key, its end, end of the value.
    rows: VecDeque<(usize, usize, usize)>,
    batch_rows: usize,
    ended: bool,
}

impl<'s> Scan<'s> {
    pub(crate) fn new(session: &'s Session, cf: &Cf, range: KeyRange) -> Self {
        Self {
            session,
            cf: cf.clone(),
            range,
            reverse: false,
            after: None,
            batch: Arc::default(),
            rows: VecDeque::new(),
            batch_rows: FIRST_ROWS,
            ended: false,
        }
    }

    /// Reverses the direction: from the upper end of the range down. To be called before the first row is read.
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// Continues strictly after `key` in the scan's direction, for instance where an earlier scan of the same range
    /// stopped. To be called before the first row is read.
    pub fn after(mut self, key: &[u8]) -> Self {
        self.after = Some(key.to_vec());
        self
    }

    /// Passes the remaining rows to `visit`, without the reference counts that items have. Faster for many small rows.
    ///
    /// # Errors
    /// As of [`Snapshot::get`](crate::Snapshot::get).
    pub fn visit(mut self, mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<(), Error> {
        loop {
            for (start, middle, end) in &self.rows {
                if visit(&self.batch[*start..*middle], &self.batch[*middle..*end]).is_break() {
                    return Ok(());
                }
            }
            if self.ended {
                return Ok(());
            }
            self.read()?;
        }
    }

    /// Reads the next batch.
    fn read(&mut self) -> Result<(), Error> {
        self.rows.clear();
        let (rows, mut bytes) = (&mut self.rows, Vec::new());
        let mut keep = |key: &[u8], value: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            let middle = bytes.len();
            bytes.extend_from_slice(value);
            rows.push_back((start, middle, bytes.len()));
            if bytes.len() < BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let end = self.session.scan(
            self.cf.family(),
            &self.range,
            self.after.as_deref(),
            self.reverse,
            self.batch_rows,
            &mut keep,
        );
        let end = end
            .map_err(Error::from)
            .and_then(|end| self.cf.check().map(|()| end))
            .inspect_err(|_| self.rows.clear())?;
        match end {
            ScanEnd::Exhausted => self.ended = true,
            ScanEnd::More(key) => self.after = Some(key),
        }
        (self.batch, self.batch_rows) = (bytes.into(), ROWS);
        Ok(())
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rows.is_empty() {
            if self.ended {
                return None;
            }
            if let Err(error) = self.read() {
                self.ended = true;
                return Some(Err(error));
            }
        }
        let (start, middle, end) = self.rows.pop_front()?;
        Some(Ok(Item { batch: Arc::clone(&self.batch), key: (start, middle), value_end: end }))
    }
}

impl std::iter::FusedIterator for Scan<'_> {}

/// Reads one key in the session's current statement.
pub(crate) fn get(session: &Session, cf: &Cf, key: &[u8]) -> Result<Option<RowBytes>, Error> {
    let value = session.get(cf.family(), key)?;
    cf.check()?;
    Ok(value)
}

//! A family while its directory is opened: rows from its LSM tree, then the writes of the log. No thread reads
//! during that time. Several threads load in parallel; all writes of one key come from one thread.

use std::sync::Arc;

use collie_base::Lsn;

use super::{Family, signed};
use crate::epoch::{Pin, pin};
use crate::index::OrderedIndex;
use crate::key::Key;
use crate::row::Row;

/// A committed write as it is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedWrite<'a> {
    /// The key.
    pub key: &'a [u8],
    /// `None` deletes.
    pub value: Option<&'a [u8]>,
    /// Where it was committed.
    pub csn: Lsn,
    /// The write needs the log from this position on.
    pub since: Lsn,
    /// No write that comes later was committed earlier, so a deletion need not be remembered.
    pub is_settled: bool,
}

/// The effect of [`Family::replay`].
#[derive(Debug, Default)]
#[must_use]
pub struct Loaded {
    /// Growth of old versions in bytes: a deletion stays until it is flushed.
    pub old_bytes: i64,
    /// A deletion that is remembered because older commits may follow; the caller passes it to [`Family::settle`].
    pub kept: Option<Arc<Row>>,
}

impl<I: OrderedIndex> Family<I> {
    /// Applies a committed write. For each key the write of the latest commit stays, in whatever order the writes
    /// come, and within one commit the write that comes last. Call it after the LSM tree was loaded.
    pub fn replay(&self, write: &LoggedWrite<'_>, pin: &Pin) -> Loaded {
        let LoggedWrite { key, value, csn, is_settled, .. } = *write;
        let made = if value.is_none() && is_settled {
            let Some(row) = self.index.with(key, Arc::clone) else { return Loaded::default() };
            Err(row)
        } else {
            self.index.get_or_insert(key, |key: Key| {
                let row = match value {
                    Some(value) => Row::committed(key, value, csn),
                    None => Row::deleted(key, csn),
                };
                (Arc::clone(&row), row)
            })
        };
        match made {
            Ok(row) => {
                self.count(signed(row.loaded_bytes()));
                let deleted = if value.is_none() { row.old_version_bytes(pin) } else { 0 };
                self.replayed(row, write, i64::try_from(deleted).unwrap_or(i64::MAX))
            }
            Err(row) => self.replay_over(row, write, pin),
        }
    }

    /// Does what [`Family::replay`] does when the index has a row.
    pub(super) fn replay_over(&self, row: Arc<Row>, write: &LoggedWrite<'_>, pin: &Pin) -> Loaded {
        let Some(grown) = row.load(write.value, write.csn, write.is_settled, pin) else { return Loaded::default() };
        self.count(grown.all);
        self.replayed(row, write, grown.old)
    }

    fn replayed(&self, row: Arc<Row>, write: &LoggedWrite<'_>, old_bytes: i64) -> Loaded {
        if row.is_dead() {
            self.leave_index(&row);
            return Loaded { old_bytes, kept: None };
        }
        if write.value.is_none() && !row.is_on_disk() {
            return Loaded { old_bytes, kept: Some(row) }; // nothing to be flushed
        }
        self.mark(&row, write.value.map_or(0, <[u8]>::len), write.since);
        Loaded { old_bytes, kept: None }
    }

    /// Forgets a deletion at `csn` that was kept in case older commits followed, now that none can. It stays if
    /// the LSM tree still needs it. Returns by how many bytes old versions grew; the number is never positive.
    pub fn settle(&self, row: &Arc<Row>, csn: Lsn, pin: &Pin) -> i64 {
        let grown = row.settle(csn, pin);
        self.count(grown.all);
        if row.is_dead() {
            self.leave_index(row);
        }
        grown.old
    }

    /// Applies a committed write of a family without an LSM tree: in commit order, before any thread reads.
    pub fn load(&self, key: &[u8], value: Option<&[u8]>, csn: Lsn) {
        let _no_tombstone_stays = self.replay(&LoggedWrite { key, value, csn, since: csn, is_settled: true }, &pin());
    }

    /// Adds a row that the LSM tree holds, before anything else is loaded. Returns `false` if the key came twice.
    #[must_use]
    pub fn load_from_levels(&self, key: &[u8], value: &[u8], csn: Lsn) -> bool {
        self.load_all_from_levels([(key, value, csn)].into_iter())
    }

    /// Does what [`Family::load_from_levels`] does for rows in ascending key order, each with key, value and
    /// commit position. Threads may call it in parallel. Returns `false` if a key came twice or the rows are not
    /// in order.
    #[must_use]
    pub fn load_all_from_levels<'a>(&self, entries: impl Iterator<Item = (&'a [u8], &'a [u8], Lsn)>) -> bool {
        let rows: Vec<Arc<Row>> = entries
            .map(|(key, value, csn)| {
                let row = Row::committed(Key::new(key), value, csn);
                row.note_on_disk();
                row
            })
            .collect();
        let (count, bytes) = (rows.len(), rows.iter().map(|row| row.loaded_bytes()).sum());
        let is_ascending = rows.windows(2).all(|two| two[0].key() < two[1].key());
        let is_new = is_ascending && self.index.load_sorted(rows) == count;
        self.count(if is_new { signed(bytes) } else { 0 });
        is_new
    }
}

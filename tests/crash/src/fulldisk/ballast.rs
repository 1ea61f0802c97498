//! [`Ballast`]: tables of rows that fill a disk, and the journal of what they hold.
//!
//! Rows come in batches, each put by one statement. The text of a row is random, so that no compression makes it small.

use std::{collections::BTreeMap, fmt::Write as _, thread, time::Duration};

use anyhow::{Context, bail, ensure};
use collie_env::{Clock, RealClock};
use postgres::{Client, error::SqlState};

use super::PAUSE;
use crate::random::Random;

/// The number of tables.
const TABLES: usize = 3;

/// The number of rows of a batch, and the length of their text.
const ROWS: u32 = 100;
const TEXT: usize = 1_000;

/// The largest number of batches that one DELETE takes: the log's reserve is a file, and has to be enough.
const DELETED: u64 = 20;

/// The result of a batch that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Taken,
    /// With 53100.
    Refused,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Ballast {
    /// The batches of each table.
    batches: [Vec<u32>; TABLES],
    /// The number of the last batch.
    last: u32,
    /// A table that was dropped.
    dropped: Option<usize>,
}

/// Returns whether the server has no room for a statement.
///
/// # Errors
/// Any other error (V1).
fn is_refused(sent: Result<(), postgres::Error>) -> anyhow::Result<bool> {
    match sent {
        Ok(()) => Ok(false),
        Err(error) if error.code() == Some(&SqlState::DISK_FULL) => Ok(true),
        Err(error) => Err(error).context("V1: a write is answered with another error than 53100"),
    }
}

impl Ballast {
    /// Creates the tables.
    pub(super) fn create(client: &mut Client) -> anyhow::Result<()> {
        (0..TABLES).try_for_each(|table| Ok(client.batch_execute(&create(table))?))
    }

    /// Puts a batch of rows into one of the tables.
    ///
    /// # Errors
    /// An answer other than 53100.
    pub(super) fn put(&mut self, client: &mut Client, random: &mut Random) -> anyhow::Result<Put> {
        let table = usize::try_from(random.below(TABLES as u64))?;
        let batch = self.last + 1;
        let mut sql = format!("INSERT INTO ballast_{table} VALUES ");
        for row in 0..ROWS {
            _ = write!(sql, "{}({}, '{}')", if row > 0 { "," } else { "" }, batch * ROWS + row, text(random));
        }
        if is_refused(client.batch_execute(&sql))? {
            return Ok(Put::Refused);
        }
        self.last = batch;
        self.batches[table].push(batch);
        Ok(Put::Taken)
    }

    /// Makes room: truncates or drops the largest table, and may delete some of its rows first.
    ///
    /// # Errors
    /// The server refuses a statement.
    pub(super) fn make_room(&mut self, client: &mut Client, random: &mut Random) -> anyhow::Result<()> {
        let table = (0..TABLES).max_by_key(|table| self.batches[*table].len()).context("there are tables")?;
        let batches = &mut self.batches[table];
        if random.below(2) == 0 {
            let count = usize::try_from(1 + random.below(DELETED))?.min(batches.len());
            let gone: Vec<u32> = batches.drain(..count).collect();
            if let (Some(first), Some(last)) = (gone.first(), gone.last()) {
                let deleted = client.execute(
                    &format!("DELETE FROM ballast_{table} WHERE n >= {} AND n < {}", first * ROWS, (last + 1) * ROWS),
                    &[],
                );
                let (deleted, expected) = (deleted.context("DELETE")?, gone.len() as u64 * u64::from(ROWS));
                ensure!(deleted == expected, "{deleted} rows were deleted, {expected} were there");
            }
            self.verify(client).context("after a DELETE")?;
        }
        self.batches[table].clear();
        if random.below(2) == 0 {
            return client.batch_execute(&format!("TRUNCATE ballast_{table}")).context("TRUNCATE");
        }
        self.dropped = Some(table);
        client.batch_execute(&format!("DROP TABLE ballast_{table}")).context("DROP")
    }

    /// Creates a table that was dropped again, once there is room for that.
    ///
    /// # Errors
    /// There is none within `patience`; an answer other than 53100.
    pub(super) fn create_dropped(&mut self, client: &mut Client, patience: Duration) -> anyhow::Result<()> {
        let Some(table) = self.dropped.take() else { return Ok(()) };
        let start_ns = RealClock.now_ns();
        while is_refused(client.batch_execute(&create(table)))? {
            let waited = Duration::from_nanos(RealClock.now_ns() - start_ns);
            ensure!(waited < patience, "no table can be made {patience:?} after another was dropped");
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Compares the tables with the journal.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn verify(&self, client: &mut Client) -> anyhow::Result<()> {
        for (table, batches) in self.batches.iter().enumerate().filter(|(table, _)| self.dropped != Some(*table)) {
            let sql = format!("SELECT n / {ROWS}, count(*), min(length(t)) FROM ballast_{table} GROUP BY n / {ROWS}");
            let rows = client.query(&sql, &[]).with_context(|| sql.clone())?;
            let found: BTreeMap<u32, (i64, i32)> =
                rows.iter().map(|row| (row.get::<_, i32>(0).unsigned_abs(), (row.get(1), row.get(2)))).collect();
            if let Some(lost) = batches.iter().find(|batch| !found.contains_key(batch)) {
                bail!("acknowledged batch {lost} of table {table} is lost");
            }
            let whole = (i64::from(ROWS), i32::try_from(TEXT)?);
            if let Some((batch, rows)) = found.iter().find(|(batch, rows)| !batches.contains(batch) || **rows != whole)
            {
                bail!("of batch {batch} table {table} has {rows:?}");
            }
        }
        Ok(())
    }
}

fn create(table: usize) -> String {
    format!("CREATE TABLE ballast_{table} (n int PRIMARY KEY, t text NOT NULL)")
}

/// Returns a text that no compression makes much smaller.
fn text(random: &mut Random) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(TEXT);
    while text.len() < TEXT {
        let mut bits = random.next();
        for _ in 0..10 {
            text.push(char::from(LETTERS[usize::try_from(bits % 64).unwrap_or_default()]));
            bits /= 64;
        }
    }
    text.truncate(TEXT);
    text
}

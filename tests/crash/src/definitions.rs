//! Definitions under faults: one client creates, fills, indexes, truncates and drops tables, one step after the other.
//! Some tables are filled in the transaction that creates them, with more rows than one record of the log holds, and
//! some of those rows are rolled back to a savepoint.
//!
//! # Oracles
//! - D1. An answered step is there whole, and so are all before it.
//! - D2. The step in progress is there whole or not at all, however many tables it changes.
//! - D3. A state that was found once is there the next time, too.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use postgres::Client;

use crate::random::Random;

/// The number of table names that the client uses.
const NAMES: u64 = 6;

/// The rows of a large fill, which needs several records of the log.
const LARGE_ROWS: u64 = 3000;

/// The number of rows by table.
type Tables = BTreeMap<String, i64>;

/// The client's model of its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions {
    known: Tables,
    /// The tables as they will be if the step without an answer was committed.
    pending: Option<Tables>,
    pub(crate) answered: u64,
}

/// Appends statements for one table, and updates the model.
fn step(sql: &mut Vec<String>, tables: &mut Tables, random: &mut Random) {
    let name = format!("d_{}", random.below(NAMES));
    let fill = |first: i64, last: i64| {
        format!("INSERT INTO {name} SELECT n, repeat('x', 40) FROM generate_series({first}, {last}) n")
    };
    let Some(rows) = tables.get_mut(&name) else {
        sql.push(format!("CREATE TABLE {name} (a int PRIMARY KEY, b text)"));
        if random.below(2) == 0 {
            sql.push(format!("CREATE INDEX ON {name} (b)"));
        }
        let rows = if random.below(3) == 0 { (LARGE_ROWS + random.below(LARGE_ROWS)).cast_signed() } else { 0 };
        if rows > 0 {
            sql.push(fill(1, rows));
        }
        if rows > 0 && random.below(3) == 0 {
            sql.extend(["SAVEPOINT s".to_owned(), fill(rows + 1, 2 * rows), "ROLLBACK TO s".to_owned()]);
        }
        tables.insert(name, rows);
        return;
    };
    match random.below(8) {
        0..=3 => {
            let to = *rows + 1 + random.below(200).cast_signed();
            sql.push(fill(*rows + 1, to));
            *rows = to;
        }
        4 => sql.push(format!("CREATE INDEX ON {name} (b)")),
        5 => {
            sql.push(format!("TRUNCATE {name}"));
            *rows = 0;
        }
        _ => {
            sql.push(format!("DROP TABLE {name}"));
            tables.remove(&name);
        }
    }
}

impl Definitions {
    /// Takes steps until the connection breaks.
    ///
    /// # Errors
    /// A step was answered with an error; no statement of it can fail.
    pub(crate) fn work(&mut self, client: &mut Client, random: &mut Random) -> anyhow::Result<()> {
        loop {
            match self.step(client, random) {
                Ok(()) => self.settle(),
                Err(error) if error.as_db_error().is_some() && !client.is_closed() => {
                    return Err(anyhow::Error::new(error).context("a step of definitions"));
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Runs a step, which is pending until [`Definitions::settle`].
    ///
    /// # Errors
    /// Those of the connection or the server.
    pub(crate) fn step(&mut self, client: &mut Client, random: &mut Random) -> Result<(), postgres::Error> {
        let (mut sql, mut after) = (Vec::new(), self.known.clone());
        for _ in 0..=random.below(3) {
            step(&mut sql, &mut after, random);
        }
        self.pending = Some(after);
        client.batch_execute(&format!("BEGIN; {}; COMMIT", sql.join("; ")))
    }

    /// Records that the pending step was answered.
    pub(crate) fn settle(&mut self) {
        if let Some(after) = self.pending.take() {
            self.known = after;
            self.answered += 1;
        }
    }

    /// Compares the tables with the model, and makes their state the known one.
    pub(crate) fn verify(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let names = "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'd\\_%'";
        let mut found = Tables::new();
        for row in client.query(names, &[]).context(names)? {
            let name: String = row.get(0);
            let sql = format!(
                "SELECT count(*), coalesce(max(a), 0)::bigint, coalesce(sum(length(b)), 0)::bigint FROM {name}"
            );
            let row = client.query_one(&sql, &[]).context(sql)?;
            let [count, last, bytes] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
            ensure!(count == last && bytes == 40 * count, "{name}: {count} rows, the last is {last}, {bytes} bytes");
            let sql = format!("SELECT count(*) FROM {name} WHERE b = repeat('x', 40)");
            let indexed: i64 = client.query_one(&sql, &[]).context(sql)?.get(0);
            ensure!(indexed == count, "{name}: {count} rows, {indexed} by b, which may have an index");
            found.insert(name, count);
        }
        let fits = found == self.known || Some(&found) == self.pending.as_ref();
        ensure!(fits, "tables {found:?}, answered {:?}, under way {:?}", self.known, self.pending);
        self.known = found;
        self.pending = None;
        Ok(())
    }
}

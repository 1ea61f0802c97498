//! `UserTable`: the rows of YCSB on a server.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use collie_base::checksum::Crc32c;
use collie_workload::Chance;
use postgres::Client;

/// The number of fields of a row; `FIELD_BYTES` is the size of each.
pub(crate) const FIELDS: u8 = 10;
pub(crate) const FIELD_BYTES: u32 = 100;
/// Rows of one loading transaction, and of one statement of a full read: about 10 MiB.
const PIECE_ROWS: u32 = 10_000;
/// The stream of the rows among the streams of a seed.
const STREAM: u32 = u32::MAX;

/// Table `usertable` with `rows` rows, filled from `seed`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserTable {
    pub(crate) rows: u32,
    pub(crate) seed: u64,
}

/// Returns the key of an item; keys have the order of the items.
pub(super) fn key_of(item: u32) -> String {
    format!("user{item:010}")
}

impl UserTable {
    /// Returns its pieces: the first and the last item of each.
    fn pieces(self) -> impl Iterator<Item = (u32, u32)> {
        let pieces = self.rows.div_ceil(PIECE_ROWS);
        (0..pieces).map(move |piece| (piece * PIECE_ROWS + 1, self.rows.min((piece + 1) * PIECE_ROWS)))
    }

    /// Creates and fills the table.
    ///
    /// # Errors
    /// Those of the driver; the table exists already.
    pub(crate) fn fill(self, session: &mut Client) -> anyhow::Result<()> {
        let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field} text NOT NULL")).collect();
        let fields = fields.join(", ");
        session.batch_execute(&format!("CREATE TABLE usertable (ycsb_key varchar(255) PRIMARY KEY, {fields})"))?;
        let (mut chance, mut line) = (Chance::new(self.seed, STREAM), String::new());
        for (from, to) in self.pieces() {
            let mut writer = session.copy_in("COPY usertable FROM STDIN")?;
            for item in from..=to {
                line.clear();
                line.push_str(&key_of(item));
                for _ in 0..FIELDS {
                    write!(line, "\t{}", chance.text(FIELD_BYTES, FIELD_BYTES))?;
                }
                line.push('\n');
                writer.write_all(line.as_bytes())?;
            }
            writer.finish()?;
        }
        Ok(())
    }

    /// Reads all rows while no session writes, and returns their CRC-32C, which is equal on nodes with equal rows.
    ///
    /// # Errors
    /// Those of the driver; a row is missing, is too many, or has a field of another length.
    pub(crate) fn checksum(self, session: &mut Client) -> anyhow::Result<u32> {
        let all: i64 = session.query_one("SELECT count(*) FROM usertable", &[])?.get(0);
        anyhow::ensure!(all == i64::from(self.rows), "usertable has {all} rows, not {}", self.rows);
        let read =
            session.prepare("SELECT * FROM usertable WHERE ycsb_key >= $1 AND ycsb_key <= $2 ORDER BY ycsb_key")?;
        let mut crc = Crc32c::new();
        for (from, to) in self.pieces() {
            let mut items = from..=to;
            for row in session.query(&read, &[&key_of(from), &key_of(to)])? {
                let item = items.next().context("usertable has a row between two of its own")?;
                let key: &str = row.get(0);
                anyhow::ensure!(key == key_of(item), "usertable has {key} in place of {}", key_of(item));
                crc.update(key.as_bytes());
                for field in 1..=usize::from(FIELDS) {
                    let value: &str = row.get(field);
                    let bytes = value.len();
                    anyhow::ensure!(bytes == FIELD_BYTES as usize, "{key}: field {field} has {bytes} bytes");
                    crc.update(value.as_bytes());
                }
            }
            anyhow::ensure!(items.next().is_none(), "usertable lacks rows up to {}", key_of(to));
        }
        Ok(crc.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pieces cover the whole table, and keys have equal length and the order of the items. Method: tables at
    /// the ends of a piece; the largest item.
    #[test]
    fn pieces_are_the_whole_table() {
        let of = |rows| UserTable { rows, seed: 1 }.pieces().collect::<Vec<_>>();
        assert_eq!(of(7), [(1, 7)]);
        assert_eq!(of(10_000), [(1, 10_000)]);
        assert_eq!(of(20_001), [(1, 10_000), (10_001, 20_000), (20_001, 20_001)]);
        assert!(key_of(9) < key_of(10) && key_of(10).len() == key_of(u32::MAX).len());
    }
}

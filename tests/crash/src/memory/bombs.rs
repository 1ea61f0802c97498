//! `Bomb`: work that asks for more memory than there is, one for each place where a statement or a session keeps
//! something.

use std::io::Write as _;

use anyhow::{Context, ensure};
use postgres::{Client, fallible_iterator::FallibleIterator as _};

/// Runs a bomb on a client's connection. The error is the server's refusal.
type Work = fn(&mut Client, &Size) -> Result<(), postgres::Error>;

/// How much a bomb asks for; each amount is several times a statement's limit.
pub(super) struct Size {
    /// The number of rows, which take at least 50 bytes each in memory.
    pub(super) rows: u64,
    /// The length of a long message: about the longest that the server accepts, if it has the memory.
    pub(super) message_bytes: usize,
    /// The number of items that a session leaves behind.
    pub(super) things: u64,
}

impl Size {
    /// Returns the sizes for a server with this memory limit.
    pub(super) fn of(limit_bytes: u64) -> Self {
        // A statement may have a tenth of the memory by default. The parser's memory for a message is not charged yet:
        // an IN list of half a million literals, 4 MB, ends a server with 400 MiB. Hence [`LITERALS`].
        let message_bytes = usize::try_from(limit_bytes / 100).unwrap_or(usize::MAX).min(60 << 20);
        Self { rows: limit_bytes / 128, message_bytes, things: limit_bytes / 4096 }
    }
}

/// The length of an IN list, limited while its memory is not charged.
const LITERALS: usize = 100_000;

/// See the module's documentation.
pub(super) struct Bomb {
    pub(super) name: &'static str,
    pub(super) work: Work,
}

/// The outcome of a bomb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It succeeded: it got all the memory that it asked for, or never needed much at one time.
    Done,
    /// It was refused, with an SQLSTATE for lack of memory or for a limit.
    Refused,
    /// The server does not support the statement yet.
    Unknown,
}

impl Bomb {
    /// Runs the bomb on a connection.
    ///
    /// # Errors
    /// It was refused with another SQLSTATE than that of a limit.
    pub(super) fn explode(&self, client: &mut Client, size: &Size) -> anyhow::Result<End> {
        let Err(error) = (self.work)(client, size) else { return Ok(End::Done) };
        let Some(refused) = error.as_db_error() else {
            return Err(error).with_context(|| format!("{}: the connection ended", self.name));
        };
        let state = refused.code().code();
        let is_limit = state.starts_with("53") || state.starts_with("54");
        let is_unknown = state == "0A000" || state == "42883";
        ensure!(is_limit || is_unknown, "{}: refused with {state}: {}", self.name, refused.message());
        Ok(if is_limit { End::Refused } else { End::Unknown })
    }
}

/// A bomb of one statement on `size.rows` rows of `generate_series` as `n`.
macro_rules! on_rows {
    ($name:literal, $before:literal, $after:literal) => {
        Bomb {
            name: $name,
            work: |client, size| {
                client.batch_execute(&format!(concat!($before, " generate_series(1, {}) n", $after), size.rows))
            },
        }
    };
}

/// A bomb of one fixed statement.
macro_rules! plain {
    ($name:literal, $sql:literal) => {
        Bomb { name: $name, work: |client, _| client.batch_execute($sql) }
    };
}

/// All bombs.
pub(super) const ALL: &[Bomb] = &[
    on_rows!("sort", "SELECT n FROM", " ORDER BY -n OFFSET 1000000000"),
    on_rows!("sort of wide rows", "SELECT n FROM", " ORDER BY repeat('x', 200) || n OFFSET 1000000000"),
    on_rows!("hash join", "SELECT count(*) FROM generate_series(1, 2) m JOIN", " ON n = m"),
    on_rows!("GROUP BY", "SELECT n, count(*) FROM", " GROUP BY n OFFSET 1000000000"),
    on_rows!("count(DISTINCT)", "SELECT count(DISTINCT n) FROM", ""),
    on_rows!("DISTINCT", "SELECT DISTINCT n FROM", " OFFSET 1000000000"),
    on_rows!("UNION", "SELECT 1 UNION SELECT n FROM", " OFFSET 1000000000"),
    on_rows!("EXCEPT", "SELECT 1 EXCEPT SELECT n FROM", ""),
    on_rows!("INTERSECT", "SELECT 1 INTERSECT SELECT n FROM", ""),
    on_rows!("string_agg", "SELECT length(string_agg(repeat('x', 100) || n, ',')) FROM", ""),
    on_rows!("array_agg", "SELECT cardinality(array_agg(n)) FROM", ""),
    on_rows!("json_agg", "SELECT length(json_agg(n)::text) FROM", ""),
    on_rows!("window function", "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY -n) r FROM", ") s"),
    on_rows!("array of a subquery", "SELECT cardinality(array(SELECT n FROM", "))"),
    on_rows!("ANY of a subquery", "SELECT 0 = ANY (SELECT n FROM", ")"),
    on_rows!("WITH", "WITH w AS MATERIALIZED (SELECT n FROM", ") SELECT count(*) FROM w, w v WHERE w.n = 1"),
    on_rows!("INSERT", "INSERT INTO bombed SELECT n, repeat('x', 500) FROM", ""),
    on_rows!("INSERT that returns", "INSERT INTO bombed SELECT n, repeat('x', 500) FROM", " RETURNING n"),
    on_rows!("advisory locks", "SELECT count(pg_advisory_lock(n)) FROM", ""),
    on_rows!("advisory locks of a transaction", "SELECT count(pg_advisory_xact_lock(n)) FROM", ""),
    on_rows!("answer of one string", "SELECT n, repeat('x', 1000) FROM", " WHERE n % 50 = 0"),
    Bomb {
        name: "recursive WITH",
        work: |client, size| {
            let rows = size.rows;
            client.batch_execute(&format!(
                "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT n + 1 FROM w WHERE n < {rows}) SELECT count(*) FROM w"
            ))
        },
    },
    plain!("repeat", "SELECT length(repeat('x', 900000000))"),
    plain!("repeat of repeat", "SELECT length(repeat(repeat('x', 1000000), 900))"),
    plain!("lpad", "SELECT length(lpad('x', 900000000, 'ab'))"),
    plain!("replace", "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 900)))"),
    plain!("regexp_replace", "SELECT length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 900), 'g'))"),
    plain!("string_to_array", "SELECT cardinality(string_to_array(repeat('x,', 15000000), ','))"),
    plain!("array_fill", "SELECT cardinality(array_fill(1, ARRAY[120000000]))"),
    plain!("nested JSON", "SELECT repeat('[', 10000000)::jsonb"),
    plain!("large JSON", "SELECT length((('[' || repeat('[],', 9000000) || '1]')::jsonb)::text)"),
    plain!("to_char", "SELECT length(to_char(1, repeat('9', 20000000)))"),
    Bomb {
        name: "many long values in a row",
        work: |client, _| {
            let columns: Vec<String> = (0..200).map(|n| format!("repeat('{n}', 5000000) c{n}")).collect();
            client.batch_execute(&format!(
                "SELECT count(*) FROM (SELECT {} OFFSET 0) s WHERE c0 < c1",
                columns.join(", ")
            ))
        },
    },
    Bomb {
        name: "long values in an array",
        work: |client, _| {
            let values: Vec<&str> = (0..200).map(|_| "repeat('x', 5000000)").collect();
            client.batch_execute(&format!("SELECT cardinality(ARRAY[{}])", values.join(", ")))
        },
    },
    Bomb {
        name: "IN list",
        work: |client, size| {
            let values: Vec<String> = (0..(size.message_bytes / 8).min(LITERALS)).map(|n| n.to_string()).collect();
            client.batch_execute(&format!("SELECT count(*) FROM safe WHERE n IN ({})", values.join(",")))
        },
    },
    Bomb {
        name: "VALUES",
        work: |client, size| {
            let values: Vec<String> = (0..size.message_bytes / 10).map(|n| format!("({n})")).collect();
            client.batch_execute(&format!("SELECT count(*) FROM (VALUES {}) v", values.join(",")))
        },
    },
    Bomb {
        name: "long expression",
        work: |client, size| client.batch_execute(&format!("SELECT 1{}", "+1".repeat(size.message_bytes / 2 - 64))),
    },
    Bomb {
        name: "nested parentheses",
        work: |client, _| client.batch_execute(&format!("SELECT {}1{}", "(".repeat(1_000_000), ")".repeat(1_000_000))),
    },
    Bomb {
        name: "long literal",
        work: |client, size| client.batch_execute(&format!("SELECT length('{}')", "x".repeat(size.message_bytes))),
    },
    Bomb {
        name: "long parameter",
        work: |client, size| {
            let value = "x".repeat(size.message_bytes);
            client.query("SELECT length($1::text || $1::text || $1::text)", &[&value]).map(drop)
        },
    },
    Bomb {
        name: "many statements in a message",
        work: |client, size| client.batch_execute(&"SELECT 1;".repeat(size.message_bytes / 9)),
    },
    Bomb {
        name: "prepared statements",
        work: |client, size| {
            let all = (0..size.things).try_for_each(|n| {
                client.batch_execute(&format!("PREPARE p{n} AS SELECT n, s FROM safe WHERE n IN ({n}, 1, 2, 3)"))
            });
            client.batch_execute("DEALLOCATE ALL")?;
            all
        },
    },
    Bomb {
        name: "savepoints",
        work: |client, size| {
            let hundred: String = (0..100).map(|n| format!("SAVEPOINT s{n};")).collect();
            client.batch_execute("BEGIN")?;
            let all = (0..size.things / 100).try_for_each(|_| client.batch_execute(&hundred));
            client.batch_execute("ROLLBACK")?;
            all
        },
    },
    Bomb {
        name: "suspended portals",
        work: |client, size| {
            let mut all = client.transaction()?;
            let mut portals = Vec::new();
            for _ in 0..200 {
                let portal = all.bind(&format!("SELECT n FROM generate_series(1, {}) n", size.rows / 20), &[])?;
                all.query_portal_raw(&portal, 1)?.count()?;
                portals.push(portal);
            }
            Ok(())
        },
    },
    Bomb {
        name: "COPY of a long line",
        work: |client, _| {
            let mut copy = client.copy_in("COPY bombed FROM STDIN")?;
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..500 {
                if copy.write_all(&piece).is_err() {
                    break;
                }
            }
            copy.finish().map(drop)
        },
    },
    Bomb {
        name: "COPY of many lines",
        work: |client, size| {
            let mut copy = client.copy_in("COPY bombed FROM STDIN")?;
            let piece = format!("1\t{}\n", "y".repeat(500)).repeat(2000);
            for _ in 0..size.rows / 2000 {
                if copy.write_all(piece.as_bytes()).is_err() {
                    break;
                }
            }
            copy.finish().map(drop)
        },
    },
    Bomb {
        name: "old versions of a row",
        work: |client, size| {
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM safe")?;
            let update = "UPDATE safe SET filler = repeat('z', 1000)";
            let all = (0..size.things / 1000).try_for_each(|_| client.batch_execute(update));
            client.batch_execute("ROLLBACK")?;
            all
        },
    },
];

//! Hermitage: which anomalies each isolation level allows, statement by statement, and which session waits for which.
//!
//! The ten anomalies are those of Kleppmann's Hermitage, in the notation of Adya's thesis; each is a script of two or
//! three sessions, run at three levels. A script expects what PostgreSQL does: where its server is installed, the same
//! test run plays every script on it too. A statement waits if `pg_blocking_pids` says so; no test depends on timing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use collie_clients_tests::{
    Place, Server, Stopwatch, not_run,
    reference::{PACKAGE, Reference},
    simple_query, state,
};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// How long a statement may take until it ends or waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// The levels, in the order of [`Step::expected`].
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Stands for an answer: the statement waits.
const WAITS: &str = "waits";
/// The answer of a statement without rows and counts.
const OK: &str = "ok";
/// The answer of a SELECT without rows.
const NONE: &str = "none";
/// The error of a statement that conflicts with an earlier change of another transaction.
const CONFLICT: &str = "40001";
/// The error of a statement after one that failed.
const FAILED: &str = "25P02";

/// A statement of a script with its answer at each level: rows as `id=value`, a count, a SQLSTATE, or a constant above.
struct Step {
    session: usize,
    /// If empty, the session's waiting statement ends now.
    sql: &'static str,
    expected: [&'static str; LEVELS.len()],
}

/// A statement with the same answer at all levels.
const fn same(session: usize, sql: &'static str, expected: &'static str) -> Step {
    Step { session, sql, expected: [expected; LEVELS.len()] }
}

/// A statement that READ COMMITTED answers differently from the levels with one snapshot.
const fn by_snapshot(session: usize, sql: &'static str, committed: &'static str, others: &'static str) -> Step {
    Step { session, sql, expected: [committed, others, others] }
}

/// A statement that only SERIALIZABLE answers differently.
const fn by_serial(session: usize, sql: &'static str, others: &'static str, serializable: &'static str) -> Step {
    Step { session, sql, expected: [others, others, serializable] }
}

/// The session outside any transaction block; every other session begins with BEGIN.
const OUTSIDE: usize = 0;
/// The sessions of a script: one outside, three inside a transaction.
const SESSIONS: usize = 4;

/// The scripts: the name of an anomaly, with its variant, and the steps between BEGIN and the last query of the table.
const SCRIPTS: &[(&str, &[Step])] = &[
    (
        "G0, dirty write",
        &[
            same(1, "UPDATE test SET value = 11 WHERE id = 1", "1"),
            same(2, "UPDATE test SET value = 12 WHERE id = 1", WAITS),
            same(1, "UPDATE test SET value = 21 WHERE id = 2", "1"),
            same(1, "COMMIT", OK),
            by_snapshot(2, "", "1", CONFLICT),
            same(OUTSIDE, "SELECT * FROM test ORDER BY id", "1=11 2=21"),
            by_snapshot(2, "UPDATE test SET value = 22 WHERE id = 2", "1", FAILED),
            same(2, "COMMIT", OK),
            by_snapshot(OUTSIDE, "SELECT * FROM test ORDER BY id", "1=12 2=22", "1=11 2=21"),
        ],
    ),
    (
        "G1a, aborted read",
        &[
            same(1, "UPDATE test SET value = 101 WHERE id = 1", "1"),
            same(2, "SELECT * FROM test ORDER BY id", "1=10 2=20"),
            same(1, "ROLLBACK", OK),
            same(2, "SELECT * FROM test ORDER BY id", "1=10 2=20"),
            same(2, "COMMIT", OK),
        ],
    ),
    (
        "G1b, intermediate read",
        &[
            same(1, "UPDATE test SET value = 101 WHERE id = 1", "1"),
            same(2, "SELECT * FROM test ORDER BY id", "1=10 2=20"),
            same(1, "UPDATE test SET value = 11 WHERE id = 1", "1"),
            same(1, "COMMIT", OK),
            by_snapshot(2, "SELECT * FROM test ORDER BY id", "1=11 2=20", "1=10 2=20"),
            same(2, "COMMIT", OK),
        ],
    ),
    (
        "G1c, circular information flow",
        &[
            same(1, "UPDATE test SET value = 11 WHERE id = 1", "1"),
            same(2, "UPDATE test SET value = 22 WHERE id = 2", "1"),
            same(1, "SELECT * FROM test WHERE id = 2", "2=20"),
            same(2, "SELECT * FROM test WHERE id = 1", "1=10"),
            same(1, "COMMIT", OK),
            by_serial(2, "COMMIT", OK, CONFLICT),
            by_serial(OUTSIDE, "SELECT * FROM test ORDER BY id", "1=11 2=22", "1=11 2=20"),
        ],
    ),
    (
        "OTV, observed transaction vanishes",
        &[
            same(1, "UPDATE test SET value = 11 WHERE id = 1", "1"),
            same(1, "UPDATE test SET value = 19 WHERE id = 2", "1"),
            same(2, "UPDATE test SET value = 12 WHERE id = 1", WAITS),
            same(1, "COMMIT", OK),
            by_snapshot(2, "", "1", CONFLICT),
            same(3, "SELECT * FROM test WHERE id = 1", "1=11"),
            by_snapshot(2, "UPDATE test SET value = 18 WHERE id = 2", "1", FAILED),
            same(3, "SELECT * FROM test WHERE id = 2", "2=19"),
            same(2, "COMMIT", OK),
            by_snapshot(3, "SELECT * FROM test WHERE id = 2", "2=18", "2=19"),
            by_snapshot(3, "SELECT * FROM test WHERE id = 1", "1=12", "1=11"),
            same(3, "COMMIT", OK),
        ],
    ),
    (
        "PMP, predicate-many-preceders",
        &[
            same(1, "SELECT * FROM test WHERE value = 30", NONE),
            same(2, "INSERT INTO test VALUES (3, 30)", "1"),
            same(2, "COMMIT", OK),
            by_snapshot(1, "SELECT * FROM test WHERE value % 3 = 0", "3=30", NONE),
            same(1, "COMMIT", OK),
        ],
    ),
    (
        "PMP, by a write",
        &[
            same(1, "UPDATE test SET value = value + 10", "2"),
            same(2, "DELETE FROM test WHERE value = 20", WAITS),
            same(1, "COMMIT", OK),
            // The row that had 20 has 30 now, and the row that has 20 did not when the statement chose its rows.
            by_snapshot(2, "", "0", CONFLICT),
            by_snapshot(2, "SELECT * FROM test WHERE value = 20", "1=20", FAILED),
            same(2, "COMMIT", OK),
        ],
    ),
    (
        "P4, lost update",
        &[
            same(1, "SELECT * FROM test WHERE id = 1", "1=10"),
            same(2, "SELECT * FROM test WHERE id = 1", "1=10"),
            same(1, "UPDATE test SET value = 11 WHERE id = 1", "1"),
            same(2, "UPDATE test SET value = 12 WHERE id = 1", WAITS),
            same(1, "COMMIT", OK),
            by_snapshot(2, "", "1", CONFLICT),
            same(2, "COMMIT", OK),
            by_snapshot(OUTSIDE, "SELECT * FROM test WHERE id = 1", "1=12", "1=11"),
        ],
    ),
    (
        "G-single, read skew",
        &[
            same(1, "SELECT * FROM test WHERE id = 1", "1=10"),
            same(2, "SELECT * FROM test ORDER BY id", "1=10 2=20"),
            same(2, "UPDATE test SET value = 12 WHERE id = 1", "1"),
            same(2, "UPDATE test SET value = 18 WHERE id = 2", "1"),
            same(2, "COMMIT", OK),
            by_snapshot(1, "SELECT * FROM test WHERE id = 2", "2=18", "2=20"),
            same(1, "COMMIT", OK),
        ],
    ),
    (
        "G-single, by predicates",
        &[
            same(1, "SELECT * FROM test WHERE value % 5 = 0 ORDER BY id", "1=10 2=20"),
            same(2, "UPDATE test SET value = 12 WHERE value = 10", "1"),
            same(2, "COMMIT", OK),
            by_snapshot(1, "SELECT * FROM test WHERE value % 3 = 0", "1=12", NONE),
            same(1, "COMMIT", OK),
        ],
    ),
    (
        "G-single, by a write",
        &[
            same(1, "SELECT * FROM test WHERE id = 1", "1=10"),
            same(2, "SELECT * FROM test ORDER BY id", "1=10 2=20"),
            same(2, "UPDATE test SET value = 12 WHERE id = 1", "1"),
            same(2, "UPDATE test SET value = 18 WHERE id = 2", "1"),
            same(2, "COMMIT", OK),
            by_snapshot(1, "DELETE FROM test WHERE value = 20", "0", CONFLICT),
            same(1, "ROLLBACK", OK),
        ],
    ),
    (
        "G2-item, write skew",
        &[
            same(1, "SELECT * FROM test WHERE id IN (1, 2) ORDER BY id", "1=10 2=20"),
            same(2, "SELECT * FROM test WHERE id IN (1, 2) ORDER BY id", "1=10 2=20"),
            same(1, "UPDATE test SET value = 11 WHERE id = 1", "1"),
            same(2, "UPDATE test SET value = 21 WHERE id = 2", "1"),
            same(1, "COMMIT", OK),
            by_serial(2, "COMMIT", OK, CONFLICT),
            by_serial(OUTSIDE, "SELECT * FROM test ORDER BY id", "1=11 2=21", "1=11 2=20"),
        ],
    ),
    (
        "G2, anti-dependency cycle by predicates",
        &[
            same(1, "SELECT * FROM test WHERE value % 3 = 0", NONE),
            same(2, "SELECT * FROM test WHERE value % 3 = 0", NONE),
            same(1, "INSERT INTO test VALUES (3, 30)", "1"),
            same(2, "INSERT INTO test VALUES (4, 42)", "1"),
            same(1, "COMMIT", OK),
            by_serial(2, "COMMIT", OK, CONFLICT),
            by_serial(OUTSIDE, "SELECT * FROM test WHERE value % 3 = 0 ORDER BY id", "3=30 4=42", "3=30"),
        ],
    ),
];

/// A session on its own thread.
struct Actor {
    pid: i32,
    statements: Sender<String>,
    answers: Receiver<String>,
}

impl Actor {
    fn start(config: &Config) -> Self {
        let mut client = config.connect(NoTls).unwrap();
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let (statements, asked) = mpsc::channel::<String>();
        let (answer, answers) = mpsc::channel();
        thread::spawn(move || {
            for sql in asked {
                if answer.send(answer_of(&mut client, &sql)).is_err() {
                    return;
                }
            }
        });
        Self { pid, statements, answers }
    }

    fn ask(&self, sql: &str) {
        self.statements.send(sql.to_owned()).unwrap();
    }

    /// Returns the answer, or [`WAITS`] once the server says that other sessions block the statement.
    fn answer(&self, control: &mut Client) -> String {
        let watch = Stopwatch::start();
        loop {
            match self.answers.recv_timeout(Duration::from_millis(2)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => panic!("the session's thread ended"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let row = control.query_one("SELECT pg_blocking_pids($1)", &[&self.pid]).unwrap();
            if !row.get::<_, Vec<i32>>(0).is_empty() {
                return WAITS.to_owned();
            }
            assert!(watch.elapsed() < PATIENCE, "the statement neither ends nor waits");
        }
    }

    /// Returns the answer of the statement that waited.
    fn late_answer(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the statement that waited ends")
    }
}

fn answer_of(client: &mut Client, sql: &str) -> String {
    let messages = match simple_query(client, sql) {
        Ok(messages) => messages,
        Err(error) => return state(&error),
    };
    let mut rows = Vec::new();
    let mut count = 0;
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => rows.push(format!("{}={}", row.get(0).unwrap(), row.get(1).unwrap())),
            SimpleQueryMessage::CommandComplete(rows) => count = rows,
            _ => {}
        }
    }
    match sql.split(' ').next() {
        Some("SELECT") if rows.is_empty() => NONE.to_owned(),
        Some("SELECT") => rows.join(" "),
        Some("INSERT" | "UPDATE" | "DELETE") => count.to_string(),
        _ => OK.to_owned(),
    }
}

/// Plays a script at a level and returns the first difference from the expected answers.
fn play(config: &Config, steps: &[Step], level: usize) -> Result<(), String> {
    let mut control = config.connect(NoTls).unwrap();
    control
        .batch_execute(
            "DROP TABLE IF EXISTS test; CREATE TABLE test (id int PRIMARY KEY, value int);
             INSERT INTO test VALUES (1, 10), (2, 20)",
        )
        .unwrap();
    let actors: [Actor; SESSIONS] = std::array::from_fn(|_| Actor::start(config));
    for actor in &actors[1..] {
        actor.ask(&format!("BEGIN ISOLATION LEVEL {}", LEVELS[level]));
        let begun = actor.answer(&mut control);
        if begun != OK {
            return Err(format!("BEGIN answers {begun}"));
        }
    }
    for (place, step) in steps.iter().enumerate() {
        let actor = &actors[step.session];
        let answer = if step.sql.is_empty() {
            actor.late_answer()
        } else {
            actor.ask(step.sql);
            actor.answer(&mut control)
        };
        let (who, expected) = (step.session, step.expected[level]);
        if answer != expected {
            return Err(format!("step {place}, session {who}, {:?}: {answer}, not {expected}", step.sql));
        }
    }
    Ok(())
}

fn play_all(config: &Config, levels: std::ops::Range<usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, steps) in SCRIPTS {
        for level in levels.clone() {
            if let Err(what) = play(config, steps, level) {
                wrong.push(format!("{name}, {}: {what}", LEVELS[level]));
            }
        }
    }
    wrong
}

/// Goal: each level allows exactly what PostgreSQL's does, with the same waits. Method: every script at every level.
#[test]
fn each_level_allows_and_forbids_what_postgresqls_does() {
    let server = Server::fresh();
    let wrong = play_all(&server.config(), 0..LEVELS.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: no level depends on how high the database's numbers are. Method: the same scripts on databases whose log
/// positions and transaction ids begin short of 2^32 and of 2^52, which the scripts pass, and of 2^60, where the line
/// ends. Each database is opened again, and its new ids are above those before.
#[test]
fn each_level_is_the_same_where_numbers_are_high() {
    for (line, before_lsn, before_xid) in [(1_u64 << 32, 4096, 50), (1 << 52, 4096, 50), (1 << 60, 1 << 32, 1 << 32)] {
        let place = Place::new();
        let (lsn, xid) = (line - before_lsn, line - before_xid);
        let arguments = [format!("wal.first_lsn={lsn}"), format!("txn.first_xid={xid}")];
        let arguments = arguments.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
        let server = Server::start_with(&place, &arguments);
        let wrong = play_all(&server.config(), 0..LEVELS.len());
        assert!(wrong.is_empty(), "short of {line}:\n{}", wrong.join("\n"));
        let mut client = server.connect();
        let (last, left) = (numbers(&mut client), rows(&mut client));
        let passed = if line < 1 << 60 { (line, line) } else { (xid, lsn) };
        assert!(last.0 > passed.0 && last.1 > passed.1, "short of {line}: {last:?}");
        drop(client);
        assert!(server.stop().success());
        let server = Server::start(&place);
        let mut client = server.connect();
        let next = numbers(&mut client);
        assert!(next.0 > last.0 && next.1 >= last.1, "short of {line}: {last:?}, then {next:?}");
        assert_eq!(rows(&mut client), left, "short of {line}");
    }
}

fn rows(client: &mut Client) -> String {
    client.query_one("SELECT array_agg((id, value) ORDER BY id)::text FROM test", &[]).unwrap().get(0)
}

/// Returns a transaction's id and the current position of the log.
fn numbers(client: &mut Client) -> (u64, u64) {
    let row = client.query_one("SELECT txid_current(), pg_current_wal_lsn()::text", &[]).unwrap();
    let (xid, lsn): (i64, String) = (row.get(0), row.get(1));
    let (high, low) = lsn.split_once('/').unwrap();
    let lsn = [high, low].map(|half| u64::from_str_radix(half, 16).unwrap());
    (u64::try_from(xid).unwrap(), lsn[0] << 32 | lsn[1])
}

/// Goal: the scripts expect what PostgreSQL does. Method: every script at every level on PostgreSQL itself.
#[test]
fn the_scripts_expect_what_postgresql_does() {
    let Some(reference) = Reference::start() else {
        return not_run(&format!("PostgreSQL's server is not installed: apt-get install {PACKAGE}"));
    };
    let wrong = play_all(&reference.config(), 0..LEVELS.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

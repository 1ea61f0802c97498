//! Row locks of several sessions, on Collie and on PostgreSQL 15: the same statements in the same order, compared by what
//! each answers. Nobody waits here: whether a row is free is asked with NOWAIT and SKIP LOCKED.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use collie_clients_tests::{
    Server, message, not_run,
    reference::{PACKAGE, Reference},
    simple_query, state,
};
use postgres::{Client, SimpleQueryMessage};

const SESSIONS: usize = 3;
const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, n int, u int UNIQUE); \
     CREATE TABLE o (id int PRIMARY KEY, n int)";
const ROWS: &str = "DELETE FROM t; INSERT INTO t VALUES (1, 10, 1), (2, 20, 2); \
     DELETE FROM o; INSERT INTO o VALUES (1, 10), (2, 20)";
const PROBES: [&str; 4] = ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"];

/// What a session runs, and which.
type Step<'a> = (usize, &'a str);

/// Runs the steps, each as far as it goes; returns what each answers.
fn play(sessions: &mut [Client], steps: &[Step<'_>]) -> Vec<String> {
    sessions[0].batch_execute(ROWS).unwrap();
    let answers =
        steps.iter().map(|(who, sql)| format!("{who}: {sql}: {}", answer(&mut sessions[*who], sql))).collect();
    sessions.iter_mut().for_each(|session| session.batch_execute("ROLLBACK").unwrap());
    answers
}

fn answer(session: &mut Client, sql: &str) -> String {
    match simple_query(session, sql) {
        Err(error) => format!("{} {}", state(&error), message(&error)),
        Ok(messages) => {
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| row.get(at).unwrap_or("null"));
                    Some(values.collect::<Vec<_>>().join(","))
                }
                _ => None,
            });
            rows.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Plays each on both and compares.
fn compare(all: &[Vec<Step<'_>>]) {
    let Some(reference) = Reference::start() else {
        not_run(&format!("PostgreSQL's server is not installed: apt-get install {PACKAGE}"));
        return;
    };
    let server = Server::fresh();
    let mut ours: [Client; SESSIONS] = std::array::from_fn(|_| server.connect());
    let mut theirs: [Client; SESSIONS] = std::array::from_fn(|_| reference.connect());
    for session in [&mut ours[0], &mut theirs[0]] {
        session.batch_execute(TABLES).unwrap();
    }
    for steps in all {
        let (ours, theirs) = (play(&mut ours, steps), play(&mut theirs, steps));
        assert_eq!(ours, theirs);
    }
}

/// Goal: every statement holds rows as strongly as PostgreSQL's does. Method: each beside a probe of each strength, and
/// two of those that go together beside a third probe.
#[test]
fn strengths_are_those_of_postgresql() {
    let holders = [
        "SELECT * FROM t WHERE id = 1 FOR KEY SHARE",
        "SELECT * FROM t WHERE id = 1 FOR SHARE",
        "SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE",
        "SELECT * FROM t WHERE id = 1 FOR UPDATE",
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "UPDATE t SET u = u, id = id WHERE id = 1",
        "UPDATE t SET u = 100 WHERE id = 1",
        "UPDATE t SET id = 100 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
        "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (id) DO UPDATE SET n = 0 WHERE false",
        "INSERT INTO t VALUES (9, 0, 1) ON CONFLICT (u) DO UPDATE SET n = 0",
        "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (id) DO UPDATE SET u = t.u",
        "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (id) DO UPDATE SET id = 100",
    ];
    let probes = PROBES.map(|strength| format!("SELECT * FROM t WHERE id = 1 FOR {strength} NOWAIT"));
    let mut all = Vec::new();
    for held in holders {
        for asked in &probes {
            all.push(vec![(0, "BEGIN"), (0, held), (1, "BEGIN"), (1, asked)]);
            for third in &probes {
                all.push(vec![(0, "BEGIN"), (0, held), (1, "BEGIN"), (1, asked), (2, "BEGIN"), (2, third)]);
            }
        }
    }
    compare(&all);
}

/// Goal: locks go up, come back down with ROLLBACK TO, and end, as in PostgreSQL. Method: scripts with savepoints, several
/// clauses and both levels, after each step of which all strengths are probed.
#[test]
fn locks_go_up_and_down_as_in_postgresql() {
    let scripts: [&[Step<'_>]; 9] = [
        &[
            (0, "BEGIN"),
            (0, "SELECT * FROM t WHERE id = 1 FOR KEY SHARE"),
            (0, "SAVEPOINT a"),
            (0, "SELECT * FROM t WHERE id = 1 FOR SHARE"),
            (0, "SAVEPOINT b"),
            (0, "UPDATE t SET n = 11 WHERE id = 1"),
            (0, "ROLLBACK TO b"),
            (0, "ROLLBACK TO a"),
            (0, "DELETE FROM t WHERE id = 1"),
            (0, "ROLLBACK TO a"),
            (0, "COMMIT"),
        ],
        &[
            (0, "BEGIN"),
            (0, "SELECT * FROM t WHERE id = 1 FOR UPDATE"),
            (0, "SAVEPOINT a"),
            (0, "DELETE FROM t WHERE id = 1"),
            (0, "ROLLBACK TO a"),
            (0, "COMMIT"),
        ],
        &[
            (0, "BEGIN"),
            (0, "SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE"),
            (1, "BEGIN"),
            (1, "SELECT * FROM t WHERE id = 1 FOR KEY SHARE"),
            (0, "UPDATE t SET n = n + 1 WHERE id = 1"),
            (0, "SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT"),
            (0, "ROLLBACK"),
            (1, "SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT"),
            (1, "COMMIT"),
        ],
        &[
            (0, "BEGIN"),
            (0, "SELECT * FROM t WHERE id = 1 FOR SHARE"),
            (1, "BEGIN"),
            (1, "SELECT * FROM t WHERE id = 1 FOR SHARE"),
            (0, "SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE SKIP LOCKED"),
            (0, "COMMIT"),
            (1, "UPDATE t SET n = 5 WHERE id = 1"),
            (1, "COMMIT"),
        ],
        &[
            (0, "BEGIN"),
            (0, "SELECT t.id FROM t JOIN o ON t.id = o.id WHERE t.id = 1 FOR SHARE OF t FOR UPDATE OF o"),
            (0, "COMMIT"),
            (0, "BEGIN"),
            (0, "SELECT t.id FROM t JOIN o ON t.id = o.id WHERE t.id = 1 FOR KEY SHARE FOR SHARE OF t"),
            (1, "SELECT o.id FROM t JOIN o ON t.id = o.id FOR UPDATE OF o SKIP LOCKED FOR SHARE OF t SKIP LOCKED"),
            (1, "SELECT id FROM t FOR SHARE NOWAIT FOR UPDATE SKIP LOCKED"),
            (1, "SELECT id FROM t FOR SHARE FOR UPDATE SKIP LOCKED"),
            (0, "SELECT id FROM t FOR UPDATE OF x"),
        ],
        &[
            (0, "BEGIN"),
            (0, "SELECT * FROM t WHERE id = 1 FOR KEY SHARE"),
            (1, "UPDATE t SET n = n + 1 WHERE id = 1"),
            (0, "SELECT * FROM t WHERE id = 1 FOR KEY SHARE"),
            (0, "UPDATE t SET n = n + 1, u = 50 WHERE id = 1"),
            (0, "COMMIT"),
            (1, "SELECT * FROM t ORDER BY id"),
        ],
        &[
            (0, "BEGIN ISOLATION LEVEL REPEATABLE READ"),
            (0, "SELECT * FROM t ORDER BY id"),
            (1, "UPDATE t SET n = n + 1 WHERE id = 1"),
            (0, "SELECT * FROM t WHERE id = 1 FOR KEY SHARE"),
            (1, "UPDATE t SET n = n + 1 WHERE id = 1"),
            (0, "SELECT * FROM t WHERE id = 1 FOR SHARE"),
        ],
        &[
            (0, "BEGIN ISOLATION LEVEL REPEATABLE READ"),
            (0, "SELECT * FROM t ORDER BY id"),
            (1, "UPDATE t SET u = 77 WHERE id = 1"),
            (0, "SELECT * FROM t WHERE id = 1 FOR KEY SHARE"),
        ],
        &[
            (0, "BEGIN READ ONLY"),
            (0, "SELECT * FROM t FOR KEY SHARE"),
            (0, "ROLLBACK"),
            (0, "BEGIN READ ONLY"),
            (0, "SELECT * FROM t FOR NO KEY UPDATE"),
            (0, "ROLLBACK"),
        ],
    ];
    let probes = PROBES.map(|strength| format!("SELECT id FROM t ORDER BY id FOR {strength} SKIP LOCKED"));
    let mut all = Vec::new();
    for script in scripts {
        let mut steps = Vec::new();
        for step in script {
            steps.push(*step);
            steps.extend(probes.iter().map(|probe| (2, probe.as_str())));
        }
        all.push(steps);
    }
    compare(&all);
}

//! Row locks with several sessions, on Collie and on PostgreSQL 15: the same statements in the same order, with equal
//! answers. No statement waits: the tests probe rows with NOWAIT and SKIP LOCKED.
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

/// A statement, and the number of the session that runs it.
type Step<'a> = (usize, &'a str);

/// Runs the steps; returns the answer to each.
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

/// Plays each script on both servers and compares the answers.
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
        let differing: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
        assert!(differing.is_empty(), "{differing:#?}");
    }
}

/// Goal: every statement locks rows as strongly as in PostgreSQL. Method: each against a probe of each strength, and
/// compatible pairs against a third probe.
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

/// Goal: locks are upgraded, downgraded by ROLLBACK TO, and released as in PostgreSQL. Method: scripts with savepoints,
/// several clauses and both levels; all strengths are probed after each step.
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

/// Goal: queries inside queries lock rows as in PostgreSQL: the same rows, as strongly, in the same order, and they are
/// refused where PostgreSQL refuses them. Method: each query, then probes of both tables at all strengths; and queues
/// that several sessions take rows from at once.
#[test]
fn queries_inside_queries_lock_what_they_lock_in_postgresql() {
    let queries = [
        // Subqueries in FROM with their own clause.
        "SELECT * FROM (SELECT * FROM t FOR UPDATE) s",
        "SELECT * FROM (SELECT * FROM t FOR UPDATE) s WHERE id = 1",
        "SELECT * FROM (SELECT id + 1 AS k, n FROM t FOR SHARE) s WHERE k = 2 AND n > 0",
        "SELECT count(*) FROM (SELECT * FROM t FOR UPDATE) s WHERE n = 20",
        "SELECT * FROM (SELECT * FROM t ORDER BY id LIMIT 1 FOR UPDATE) s WHERE id = 2",
        "SELECT * FROM (SELECT * FROM t ORDER BY id DESC FOR KEY SHARE) s LIMIT 1",
        "SELECT * FROM (SELECT * FROM t WHERE id = 2 FOR UPDATE) s JOIN o ON s.id = o.id",
        "SELECT * FROM o LEFT JOIN (SELECT * FROM t WHERE id = 2 FOR UPDATE) s ON s.id = o.id ORDER BY o.id",
        "SELECT * FROM o, LATERAL (SELECT * FROM t WHERE t.id = o.id AND o.id = 1 FOR NO KEY UPDATE) s",
        "SELECT * FROM (SELECT DISTINCT n FROM t FOR UPDATE) s",
        "SELECT * FROM (SELECT n FROM t GROUP BY n FOR UPDATE) s",
        "SELECT * FROM (SELECT generate_series(1, 2), n FROM t FOR UPDATE) s",
        "SELECT * FROM (SELECT 1 UNION SELECT 2 FOR UPDATE) s",
        // Subqueries in FROM inside a query with a clause.
        "SELECT * FROM (SELECT * FROM t) s WHERE id = 1 FOR UPDATE",
        "SELECT * FROM (SELECT id + 1 AS k FROM t WHERE n < 15) s FOR SHARE",
        "SELECT * FROM (SELECT * FROM t) s JOIN o ON s.id = o.id AND o.n = 20 FOR UPDATE OF s",
        "SELECT * FROM (SELECT t.id, o.n FROM t JOIN o ON t.id = o.id) s WHERE n = 20 FOR NO KEY UPDATE",
        "SELECT * FROM (SELECT * FROM (SELECT * FROM t WHERE n > 10) a WHERE n > 1) b FOR UPDATE",
        "SELECT (SELECT max(o.n) FROM o WHERE o.id = s.id) FROM (SELECT * FROM t WHERE n > 10) s FOR UPDATE",
        "SELECT * FROM (SELECT t.*, (SELECT max(o.n) FROM o WHERE o.id = t.id) m FROM t) s WHERE m = 10 FOR UPDATE",
        "SELECT * FROM (SELECT * FROM t ORDER BY id LIMIT 1) s FOR UPDATE",
        "SELECT * FROM (SELECT * FROM t ORDER BY id OFFSET 1) s FOR KEY SHARE",
        "SELECT * FROM (SELECT * FROM t FOR KEY SHARE) s WHERE id = 2 FOR UPDATE",
        "SELECT * FROM (SELECT * FROM t) s LEFT JOIN o ON s.id = o.id WHERE s.id = 1 FOR UPDATE OF s",
        "SELECT * FROM o LEFT JOIN (SELECT * FROM t) s ON s.id = o.id FOR UPDATE",
        "SELECT * FROM (SELECT DISTINCT n FROM t) s FOR UPDATE",
        "SELECT * FROM (SELECT count(*) FROM t) s FOR SHARE",
        "SELECT * FROM (SELECT n FROM t GROUP BY n) s FOR UPDATE",
        "SELECT * FROM (SELECT 1 FROM t HAVING true) s FOR UPDATE",
        "SELECT * FROM (SELECT generate_series(1, 2), n FROM t) s FOR UPDATE",
        "SELECT generate_series(1, 2), n FROM t FOR UPDATE",
        "SELECT * FROM (SELECT id FROM t UNION ALL SELECT id FROM o) s FOR UPDATE",
        "SELECT * FROM (VALUES (1), (2)) s FOR UPDATE",
        "SELECT * FROM (SELECT 1 AS a) s FOR UPDATE OF s",
        "SELECT * FROM generate_series(1, 2) s FOR UPDATE OF s",
        // WITH.
        "WITH q AS (SELECT * FROM t FOR UPDATE) SELECT * FROM q",
        "WITH q AS (SELECT * FROM t FOR UPDATE) SELECT * FROM q WHERE id = 1",
        "WITH q AS (SELECT * FROM t ORDER BY id FOR UPDATE) SELECT * FROM q LIMIT 1",
        "WITH q AS (SELECT * FROM t FOR UPDATE) SELECT * FROM o",
        "WITH q AS (SELECT * FROM t FOR SHARE) SELECT * FROM q a JOIN q b ON a.id = b.id ORDER BY a.id",
        "WITH q AS (SELECT * FROM t) SELECT * FROM q FOR UPDATE",
        "WITH q AS (SELECT * FROM t) SELECT * FROM q FOR UPDATE OF q",
        "WITH q AS (SELECT * FROM t WHERE id = 1 FOR UPDATE) SELECT (SELECT n FROM q), id FROM o ORDER BY id",
        "WITH q AS (SELECT * FROM t FOR UPDATE) SELECT id FROM o WHERE EXISTS (SELECT 1 FROM q WHERE q.id = o.id)",
        "WITH q AS (SELECT * FROM t WHERE id = 2 FOR UPDATE) UPDATE o SET n = q.n + 1 FROM q WHERE q.id = o.id RETURNING o.*",
        "WITH q AS (SELECT * FROM t WHERE id = 2 FOR UPDATE) DELETE FROM o USING q WHERE q.id = o.id RETURNING o.*",
        "WITH q AS (SELECT * FROM t WHERE id = 2 FOR SHARE) INSERT INTO o SELECT id + 5, n FROM q RETURNING *",
        // Subqueries of expressions.
        "SELECT * FROM o WHERE id IN (SELECT id FROM t WHERE n = 10 FOR UPDATE)",
        "SELECT * FROM o WHERE id = (SELECT id FROM t ORDER BY id DESC LIMIT 1 FOR UPDATE)",
        "SELECT * FROM o WHERE id = ANY (ARRAY(SELECT id FROM t WHERE id = 1 FOR SHARE))",
        "SELECT * FROM o WHERE EXISTS (SELECT 1 FROM t WHERE id = 1 FOR KEY SHARE) ORDER BY id",
        "SELECT * FROM o WHERE id <> ALL (SELECT id FROM t WHERE n = 10 FOR UPDATE)",
        "SELECT (SELECT n FROM t WHERE id = 2 FOR UPDATE) AS n FROM o WHERE id = 1",
        "SELECT (SELECT n FROM t FOR UPDATE)",
        "SELECT (SELECT s.n FROM (SELECT * FROM t FOR UPDATE) s WHERE s.id = 1)",
        "UPDATE o SET n = (SELECT n FROM t WHERE id = 2 FOR UPDATE) WHERE id = 1 RETURNING *",
        "UPDATE o SET (id, n) = (SELECT id, n FROM t WHERE id = 2 FOR UPDATE) WHERE id = 2 RETURNING *",
        "INSERT INTO o VALUES (7, (SELECT n FROM t WHERE id = 1 FOR UPDATE)) RETURNING *",
        "INSERT INTO o SELECT id + 7, n FROM t WHERE id = 1 FOR UPDATE RETURNING *",
        "DELETE FROM o WHERE id IN (SELECT id FROM t WHERE n = 20 FOR UPDATE) RETURNING *",
    ];
    let probes: Vec<String> = ["t", "o"]
        .iter()
        .flat_map(|table| {
            PROBES.map(|strength| format!("SELECT id FROM {table} ORDER BY id FOR {strength} SKIP LOCKED"))
        })
        .collect();
    let mut all = Vec::new();
    for query in queries {
        let mut steps = vec![(0, "BEGIN"), (0, query)];
        steps.extend(probes.iter().map(|probe| (1, probe.as_str())));
        all.push(steps);
    }
    let read_only = [
        "SELECT * FROM (SELECT * FROM t FOR SHARE) s",
        "SELECT * FROM (SELECT * FROM t) s FOR KEY SHARE",
        "SELECT * FROM (SELECT * FROM t FOR KEY SHARE) s, o FOR UPDATE OF o",
        "WITH q AS (SELECT * FROM t FOR NO KEY UPDATE) SELECT * FROM q",
        "SELECT (SELECT n FROM t FOR UPDATE)",
        "UPDATE o SET n = 1 WHERE id IN (SELECT id FROM t FOR UPDATE)",
    ];
    for query in read_only {
        all.push(vec![(0, "BEGIN READ ONLY"), (0, query)]);
    }
    let queues = [
        "UPDATE t SET n = 0 WHERE id = (SELECT id FROM t WHERE n > 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
        "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, n",
        "WITH q AS (SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) \
         UPDATE t SET n = 1 FROM q WHERE t.id = q.id RETURNING t.id",
        "UPDATE t SET n = 2 FROM (SELECT id AS k FROM t ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) s WHERE id = k RETURNING id",
        "SELECT * FROM (SELECT id FROM t FOR UPDATE NOWAIT) s WHERE id = 1",
    ];
    for query in queues {
        all.push(vec![
            (0, "BEGIN"),
            (0, query),
            (1, "BEGIN"),
            (1, query),
            (2, "BEGIN"),
            (2, query),
            (1, "ROLLBACK"),
            (2, query),
        ]);
    }
    compare(&all);
}

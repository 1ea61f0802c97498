//! Foreign keys with several sessions: which session waits for which, and with what result, as in PostgreSQL; and no
//! row is ever left without the row that it refers to.
//!
//! The scripts run on both servers. The server says whether a step waits (`pg_blocking_pids`), so that no time limit
//! decides; the step's answer is read once the other session has ended its transaction.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use collie_clients_tests::{
    Place, Server, Stopwatch, message, not_run,
    reference::{PACKAGE, Reference},
    session::PATIENCE,
    simple_query, state,
};
use postgres::{Client, SimpleQueryMessage};

/// How long the test waits for an answer before it asks the server whether the step is blocked.
const LOOK: Duration = Duration::from_millis(2);

/// A session on its own thread.
struct Player {
    ask: Sender<String>,
    answers: Receiver<String>,
    pid: i32,
    /// The statement that waits.
    waits: Option<String>,
}

impl Player {
    fn new(mut client: Client) -> Self {
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let (ask, asked) = mpsc::channel::<String>();
        let (answer, answers) = mpsc::channel();
        thread::spawn(move || {
            for sql in asked {
                if answer.send(answer_of(&mut client, &sql)).is_err() {
                    return;
                }
            }
        });
        Self { ask, answers, pid, waits: None }
    }

    /// Runs a step; returns its answer, or that it waits.
    fn play(&mut self, sql: &str, keeper: &mut Client) -> String {
        self.ask.send(sql.to_owned()).unwrap();
        let watch = Stopwatch::start();
        loop {
            if let Ok(answer) = self.answers.recv_timeout(LOOK) {
                return answer;
            }
            let blocked = keeper.query_one("SELECT pg_blocking_pids($1) <> '{}'", &[&self.pid]).unwrap();
            if blocked.get(0) {
                self.waits = Some(sql.to_owned());
                return "waits".to_owned();
            }
            assert!(watch.elapsed() < PATIENCE, "{sql}: no answer, and nothing in its way");
        }
    }

    /// Returns the step that waits with its answer, which must come now.
    fn end(&mut self) -> Option<String> {
        let sql = self.waits.take()?;
        Some(format!("{sql}: {}", self.answers.recv_timeout(PATIENCE).expect("nothing is in its way")))
    }
}

fn answer_of(client: &mut Client, sql: &str) -> String {
    match simple_query(client, sql) {
        Err(error) => {
            let detail = error.as_db_error().and_then(|error| error.detail()).unwrap_or_default().to_owned();
            format!("{} {} {detail}", state(&error), message(&error))
        }
        Ok(messages) => {
            let parts = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| row.get(at).unwrap_or("null"));
                    Some(values.collect::<Vec<_>>().join(","))
                }
                SimpleQueryMessage::CommandComplete(rows) => Some(format!("({rows})")),
                _ => None,
            });
            parts.collect::<Vec<_>>().join(" ")
        }
    }
}

const TABLES: &str = "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE, n int); \
     CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES p, n int); \
     CREATE TABLE k (id int PRIMARY KEY, pid int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, n int); \
     CREATE TABLE z (id int PRIMARY KEY, pid int REFERENCES p ON DELETE SET NULL ON UPDATE SET NULL, n int); \
     CREATE TABLE w (id int PRIMARY KEY, pu int REFERENCES p (u) DEFERRABLE INITIALLY DEFERRED); \
     CREATE INDEX k_pid ON k (pid)";
const ROWS: &str = "DELETE FROM w; DELETE FROM c; DELETE FROM k; DELETE FROM z; DELETE FROM p; \
     INSERT INTO p SELECT i, i * 10, 0 FROM generate_series(1, 5) i; INSERT INTO c VALUES (5, 5, 0); \
     INSERT INTO k VALUES (4, 4, 0); INSERT INTO z VALUES (3, 3, 0)";
const STATE: &str = "SELECT 'p', id, u, n FROM p UNION ALL SELECT 'c', id, pid, n FROM c \
     UNION ALL SELECT 'k', id, pid, n FROM k UNION ALL SELECT 'z', id, pid, n FROM z \
     UNION ALL SELECT 'w', id, pu, 0 FROM w ORDER BY 1, 2";

/// A server with two players and an observing session.
struct Stage {
    keeper: Client,
    players: [Player; 2],
}

impl Stage {
    fn new(connect: impl Fn() -> Client) -> Self {
        let mut keeper = connect();
        keeper.batch_execute(TABLES).unwrap();
        Self { keeper, players: [Player::new(connect()), Player::new(connect())] }
    }
}

/// Runs the steps of two sessions; returns the answer to each, and the final rows.
fn play(stage: &mut Stage, level: &str, steps: &[(usize, String)]) -> Vec<String> {
    let Stage { keeper, players } = stage;
    keeper.batch_execute(ROWS).unwrap();
    let mut said = Vec::new();
    for player in players.iter_mut() {
        player.play(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM p WHERE id = 1"), keeper);
    }
    let ends = ["COMMIT", "COMMIT"].iter().enumerate().map(|(who, sql)| (who, (*sql).to_owned()));
    for (who, sql) in steps.iter().cloned().chain(ends) {
        if players[who].waits.is_some() {
            continue; // This session is blocked until its partner ends.
        }
        said.push(format!("{who}: {sql}: {}", players[who].play(&sql, keeper)));
        let other = 1 - who;
        if matches!(sql.as_str(), "COMMIT" | "ROLLBACK")
            && let Some(answer) = players[other].end()
        {
            said.push(format!("{other}: {answer}"));
        }
    }
    for (who, player) in players.iter_mut().enumerate() {
        said.push(format!("{who}: {}", player.play("ROLLBACK", keeper)));
    }
    said.push(answer_of(keeper, STATE));
    said
}

/// Returns whether Collie answered as PostgreSQL did. Collie has one message for a row that was changed and one that
/// was removed, and at REPEATABLE READ it may go on where PostgreSQL fails with 40001, because another key of the
/// referenced row may have changed, or the referencing row may be gone (docs/compatibility.md).
fn agree(level: &str, ours: &[String], theirs: &[String]) -> bool {
    let theirs: Vec<String> =
        theirs.iter().map(|line| line.replace("concurrent delete", "concurrent update")).collect();
    if ours == theirs {
        return true;
    }
    let first = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    let Some((ours, theirs)) = first else { return false };
    level == "REPEATABLE READ" && theirs.contains(": 40001 ") && (ours.ends_with(": (1)") || ours.ends_with(": (0)"))
}

/// Goal: two sessions, one that writes referencing rows and one that writes the referenced rows, wait for each other
/// and end as in PostgreSQL. Method: every pair of statements in both orders, the first transaction committed or rolled
/// back before the second goes on, at two levels, on both servers.
#[test]
fn who_refers_and_who_removes_meet_as_in_postgresql() {
    let Some(reference) = Reference::start() else {
        not_run(&format!("PostgreSQL's server is not installed: apt-get install {PACKAGE}"));
        return;
    };
    let server = Server::fresh();
    let (mut ours_on, mut theirs_on) = (Stage::new(|| server.connect()), Stage::new(|| reference.connect()));
    let referring = [
        "INSERT INTO c VALUES (1, 1, 0)",
        "INSERT INTO k VALUES (1, 1, 0)",
        "INSERT INTO z VALUES (1, 1, 0)",
        "INSERT INTO w VALUES (1, 10)",
        "UPDATE c SET pid = 1 WHERE id = 5",
        "UPDATE k SET pid = 1, n = 1 WHERE id = 4",
    ];
    let removing = [
        "DELETE FROM p WHERE id = 1",
        "UPDATE p SET id = 11 WHERE id = 1",
        "UPDATE p SET u = 11 WHERE id = 1",
        "UPDATE p SET n = n + 1 WHERE id = 1",
        "SELECT 1 FROM p WHERE id = 1 FOR UPDATE",
        "SELECT 1 FROM p WHERE id = 1 FOR NO KEY UPDATE",
    ];
    let mut pairs: Vec<[&str; 2]> = Vec::new();
    for refers in referring {
        pairs.extend(removing.iter().flat_map(|removes| [[refers, *removes], [*removes, refers]]));
    }
    // Referencing rows are changed or deleted while the rows that they refer to are deleted.
    let child = ["UPDATE c SET pid = 2 WHERE id = 5", "UPDATE c SET n = 1 WHERE id = 5", "DELETE FROM c WHERE id = 5"];
    for first in child {
        pairs.extend([[first, "DELETE FROM p WHERE id = 5"], ["DELETE FROM p WHERE id = 5", first]]);
    }
    for first in ["UPDATE k SET n = 1 WHERE id = 4", "UPDATE k SET pid = 2 WHERE id = 4", "DELETE FROM k WHERE id = 4"]
    {
        for second in ["DELETE FROM p WHERE id = 4", "UPDATE p SET id = 44 WHERE id = 4"] {
            pairs.extend([[first, second], [second, first]]);
        }
    }
    for first in ["UPDATE z SET n = 1 WHERE id = 3", "INSERT INTO z VALUES (33, 3, 0)"] {
        pairs.extend([[first, "DELETE FROM p WHERE id = 3"], ["DELETE FROM p WHERE id = 3", first]]);
    }
    let mut wrong = Vec::new();
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        for [first, second] in &pairs {
            for scheme in 0..3 {
                let end = if scheme == 1 { "ROLLBACK" } else { "COMMIT" };
                let (a, b, end) = ((0, (*first).to_owned()), (1, (*second).to_owned()), (0, end.to_owned()));
                // In the last scheme, the first session has ended before the second one begins.
                let steps = if scheme == 2 { vec![a, end, b] } else { vec![a, b, end] };
                let ours = play(&mut ours_on, level, &steps);
                let theirs = play(&mut theirs_on, level, &steps);
                let orphans: i64 = ours_on.keeper.query_one(ORPHANS, &[]).unwrap().get(0);
                assert_eq!(orphans, 0, "{}", ours.join("\n"));
                if !agree(level, &ours, &theirs) {
                    wrong.push(format!(
                        "{level}\n  ours   {}\n  theirs {}",
                        ours.join("\n         "),
                        theirs.join("\n         ")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

/// A generator of pseudo-random numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

const ORPHANS: &str = "SELECT (SELECT count(*) FROM c LEFT JOIN p ON p.id = c.pid WHERE c.pid IS NOT NULL AND p.id IS NULL) \
     + (SELECT count(*) FROM k LEFT JOIN p ON p.id = k.pid WHERE k.pid IS NOT NULL AND p.id IS NULL) \
     + (SELECT count(*) FROM z LEFT JOIN p ON p.id = z.pid WHERE z.pid IS NOT NULL AND p.id IS NULL) \
     + (SELECT count(*) FROM w LEFT JOIN p ON p.u = w.pu WHERE w.pu IS NOT NULL AND p.u IS NULL)";

/// Returns a random statement over few keys, so that sessions conflict.
fn statement(draw: &mut Draw) -> String {
    let (key, other, row) = (draw.below(6), draw.below(6), draw.below(40));
    let table = ["c", "k", "z"][usize::try_from(draw.below(3)).unwrap()];
    match draw.below(12) {
        0 | 1 => format!("INSERT INTO p VALUES ({key}, {other}, 0) ON CONFLICT DO NOTHING"),
        2 => format!("DELETE FROM p WHERE id = {key}"),
        3 => format!("UPDATE p SET id = {other} WHERE id = {key}"),
        4 => format!("UPDATE p SET u = {other} WHERE id = {key}"),
        5 => format!("UPDATE p SET n = n + 1 WHERE id = {key}"),
        6 => format!("INSERT INTO w VALUES ({row}, {other}) ON CONFLICT (id) DO UPDATE SET pu = {key}"),
        7 => format!("DELETE FROM {table} WHERE id = {row}"),
        8 => format!("UPDATE {table} SET pid = {key}, id = {row} + 100 WHERE id = {row}"),
        9 => format!("UPDATE {table} SET pid = {key} WHERE pid = {other}"),
        _ => format!("INSERT INTO {table} VALUES ({row}, {key}, 0) ON CONFLICT (id) DO UPDATE SET pid = {other}"),
    }
}

/// Goal: no row is ever left without the row that it refers to, whichever statements conflict. Method: three sessions
/// run random short transactions at random levels over five tables with every action, some with savepoints, while a
/// fourth counts orphans, for some seconds and, on a slow machine, until enough were committed. Any error but those of
/// constraints, conflicts and deadlocks fails the test.
#[test]
fn no_row_is_ever_left_without_its_row() {
    let server = Server::fresh();
    server.connect().batch_execute(TABLES).unwrap();
    let (over, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = Stopwatch::start();
    let seconds = std::env::var("COLLIE_FOREIGN_KEY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    thread::scope(|scope| {
        let sessions: Vec<_> = (1..=3_u64)
            .map(|seed| {
                let (server, over, commits) = (&server, &over, &commits);
                scope.spawn(move || {
                    let mut client = server.connect();
                    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    while !over.load(Ordering::Relaxed) {
                        let level = ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
                        let level = level[usize::try_from(draw.below(4)).unwrap()];
                        client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SAVEPOINT a")).unwrap();
                        for _ in 0..=draw.below(4) {
                            let sql = statement(&mut draw);
                            if let Err(error) = client.batch_execute(&sql) {
                                let code = state(&error);
                                let known = ["23503", "23505", "40001", "40P01", "27000"];
                                assert!(known.contains(&code.as_str()), "seed {seed}: {sql}: {error:?}");
                                client.batch_execute("ROLLBACK TO a").unwrap();
                            } else if draw.below(3) == 0 {
                                client.batch_execute("SAVEPOINT a").unwrap();
                            }
                        }
                        match client.batch_execute("COMMIT") {
                            Ok(()) => _ = commits.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                let code = state(&error);
                                let known = ["23503", "40001", "40P01"];
                                assert!(known.contains(&code.as_str()), "seed {seed}: COMMIT: {error:?}");
                            }
                        }
                    }
                })
            })
            .collect();
        let mut client = server.connect();
        let is_enough = || commits.load(Ordering::Relaxed) > 50;
        while watch.elapsed().as_secs() < seconds || !is_enough() {
            let orphans: i64 = client.query_one(ORPHANS, &[]).unwrap().get(0);
            if orphans != 0 {
                over.store(true, Ordering::Relaxed);
                panic!("{orphans} orphans: {}", answer_of(&mut client, STATE));
            }
            if sessions.iter().any(|session| session.is_finished())
                || watch.elapsed() > PATIENCE.max(Duration::from_secs(2 * seconds))
            {
                break; // the assertions below report it
            }
            thread::sleep(Duration::from_millis(5));
        }
        over.store(true, Ordering::Relaxed);
        sessions.into_iter().for_each(|session| session.join().unwrap());
        assert!(is_enough(), "only {commits:?} transactions committed");
        let orphans: i64 = client.query_one(ORPHANS, &[]).unwrap().get(0);
        assert_eq!(orphans, 0);
    });
}

/// Goal: foreign keys survive a restart as they were declared, and one that was rolled back does not exist. Method:
/// declare, stop or kill the server, compare what the catalog prints; then, for each key, a statement that it must
/// refuse or act on.
#[test]
fn keys_survive_both_ends_of_the_server() {
    const SHOW: &str =
        "SELECT conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY 1";
    for kill in [false, true] {
        let place = Place::new();
        let server = Server::start(&place);
        let mut client = server.connect();
        client.batch_execute(TABLES).unwrap();
        client
            .batch_execute(
                "ALTER TABLE c ADD CONSTRAINT late FOREIGN KEY (n) REFERENCES p (u) MATCH FULL NOT VALID; \
                 INSERT INTO p VALUES (1, 10, 0); INSERT INTO k VALUES (1, 1, 0); INSERT INTO c VALUES (1, 1, 10)",
            )
            .unwrap();
        client
            .batch_execute("BEGIN; ALTER TABLE z ADD CONSTRAINT never FOREIGN KEY (n) REFERENCES p; ROLLBACK")
            .unwrap();
        let before = answer_of(&mut client, SHOW);
        assert!(before.contains("late,f,FOREIGN KEY (n) REFERENCES p(u) MATCH FULL NOT VALID"), "{before}");
        assert!(!before.contains("never"), "{before}");
        drop(client);
        if kill {
            server.kill();
        } else {
            assert_eq!(server.stop().code(), Some(0));
        }
        let server = Server::start(&place);
        let mut client = server.connect();
        assert_eq!(answer_of(&mut client, SHOW), before);
        assert!(answer_of(&mut client, "INSERT INTO c VALUES (2, 2, 10)").starts_with("23503"));
        assert!(answer_of(&mut client, "INSERT INTO c VALUES (2, 1, 11)").starts_with("23503"));
        assert!(answer_of(&mut client, "DELETE FROM p").starts_with("23503"));
        assert_eq!(answer_of(&mut client, "DELETE FROM c"), "(1)");
        assert_eq!(answer_of(&mut client, "DELETE FROM p"), "(1)");
        assert_eq!(answer_of(&mut client, "SELECT count(*) FROM k"), "0 (1)");
    }
}

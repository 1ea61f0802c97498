//! Several real sessions at once: what isolation promises, and which session waits for which.
//!
//! A statement that must wait runs on its own thread. The test goes on only once the server says that the statement
//! waits (`pg_blocking_pids`), however slow the machine is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use collie_clients_tests::{
    Server, Stopwatch, message,
    session::{PATIENCE, pid, value},
    state,
};
use postgres::{Client, Error};

/// A statement on another thread, with its session.
struct Running {
    pid: i32,
    answer: Receiver<(Client, Result<u64, Error>)>,
}

impl Running {
    fn start(mut client: Client, sql: &str) -> Self {
        let (pid, sql) = (pid(&mut client), sql.to_owned());
        let (send, answer) = mpsc::channel();
        thread::spawn(move || {
            let result = client.execute(sql.as_str(), &[]);
            let _ = send.send((client, result));
        });
        Self { pid, answer }
    }

    /// Returns once other sessions block the statement.
    fn must_wait(&self, server: &Server) {
        let (mut look, watch) = (server.connect(), Stopwatch::start());
        let others = format!("SELECT cardinality(pg_blocking_pids({}))", self.pid);
        while value::<i32>(&mut look, &others) == 0 {
            let answer = self.answer.try_recv();
            assert!(answer.is_err(), "it did not wait: {:?}", answer.map(|(_, result)| result));
            assert!(watch.elapsed() < PATIENCE, "it neither waits nor ends");
        }
    }

    fn end(self) -> (Client, Result<u64, Error>) {
        self.answer.recv_timeout(PATIENCE).expect("the statement ends")
    }
}

fn accounts(server: &Server) -> Client {
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int, u int UNIQUE); INSERT INTO t VALUES (1, 0, 10), (2, 0, 20)",
        )
        .unwrap();
    client
}

fn number(client: &mut Client, sql: &str) -> i32 {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

/// Goal: no increment is lost. Method: four sessions increment one row 100 times each, in autocommit and in transaction
/// blocks.
#[test]
fn concurrent_increments_are_all_counted() {
    let server = Server::fresh();
    let mut client = accounts(&server);
    thread::scope(|scope| {
        for session in 0..4 {
            let mut client = server.connect();
            scope.spawn(move || {
                for _ in 0..100 {
                    if session % 2 == 0 {
                        client.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]).unwrap();
                    } else {
                        let mut transaction = client.transaction().unwrap();
                        let n: i32 =
                            transaction.query_one("SELECT n FROM t WHERE id = 1 FOR UPDATE", &[]).unwrap().get(0);
                        transaction.execute("UPDATE t SET n = $1 WHERE id = 1", &[&(n + 1)]).unwrap();
                        transaction.commit().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(number(&mut client, "SELECT n FROM t WHERE id = 1"), 400);
}

/// Goal: under READ COMMITTED an UPDATE that waited goes on with the newest version of the row and checks its condition
/// again. Method: one session changes a row and the other's UPDATE waits; after COMMIT it changes the new value, or
/// nothing if its condition no longer holds.
#[test]
fn read_committed_waits_and_checks_the_condition_again() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    first.batch_execute("BEGIN; UPDATE t SET n = n + 1").unwrap();
    let adds = Running::start(server.connect(), "UPDATE t SET n = n + 10 WHERE id = 1");
    let misses = Running::start(server.connect(), "UPDATE t SET n = n + 100 WHERE id = 2 AND n = 0");
    adds.must_wait(&server);
    misses.must_wait(&server);
    first.batch_execute("COMMIT").unwrap();
    assert_eq!(adds.end().1.unwrap(), 1);
    assert_eq!(misses.end().1.unwrap(), 0);
    assert_eq!(number(&mut first, "SELECT n FROM t WHERE id = 1"), 11);
    assert_eq!(number(&mut first, "SELECT n FROM t WHERE id = 2"), 1);
    // A deleted row is skipped.
    first.batch_execute("BEGIN; DELETE FROM t WHERE id = 1").unwrap();
    let gone = Running::start(server.connect(), "UPDATE t SET n = 5 WHERE id = 1");
    gone.must_wait(&server);
    first.batch_execute("COMMIT").unwrap();
    assert_eq!(gone.end().1.unwrap(), 0);
}

/// Goal: REPEATABLE READ reads one snapshot and refuses to overwrite a change that it did not see. Method: 40001 at
/// once for a committed change, and after a wait for one in progress; a change that is rolled back is no conflict.
#[test]
fn repeatable_read_keeps_its_snapshot_and_ends_conflicts_with_40001() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    let mut second = server.connect();
    second.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(number(&mut second, "SELECT n FROM t WHERE id = 1"), 0);
    first.batch_execute("UPDATE t SET n = 7 WHERE id = 1").unwrap();
    assert_eq!(number(&mut second, "SELECT n FROM t WHERE id = 1"), 0);
    let conflict = second.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]).unwrap_err();
    assert_eq!(state(&conflict), "40001");
    assert_eq!(message(&conflict), "could not serialize access due to concurrent update");
    second.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(number(&mut second, "SELECT n FROM t WHERE id = 1"), 7);
    first.batch_execute("BEGIN; UPDATE t SET n = 8 WHERE id = 1").unwrap();
    let waits = Running::start(second, "UPDATE t SET n = n + 1 WHERE id = 1");
    waits.must_wait(&server);
    first.batch_execute("ROLLBACK").unwrap();
    let (mut second, result) = waits.end();
    assert_eq!(result.unwrap(), 1);
    second.batch_execute("COMMIT").unwrap();
    assert_eq!(number(&mut first, "SELECT n FROM t WHERE id = 1"), 8);
    second.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t").unwrap();
    first.batch_execute("BEGIN; UPDATE t SET n = 9 WHERE id = 1").unwrap();
    let waits = Running::start(second, "DELETE FROM t WHERE id = 1");
    waits.must_wait(&server);
    first.batch_execute("COMMIT").unwrap();
    assert_eq!(state(&waits.end().1.unwrap_err()), "40001");
}

/// Goal: a deadlock is broken within a second, by an error in one session only, whichever began. Method: two sessions
/// update two rows in opposite order. The assertion is about the fastest of at least four rounds, since a slow machine
/// delays any single one.
#[test]
fn deadlock_is_found_within_a_second() {
    let server = Server::fresh();
    drop(accounts(&server));
    let (all, mut fastest) = (Stopwatch::start(), Duration::MAX);
    for (round, (mine, other)) in [(1, 2), (2, 1)].into_iter().cycle().enumerate() {
        if round >= 4 && fastest < Duration::from_secs(1) {
            break;
        }
        assert!(all.elapsed() < PATIENCE, "found after {fastest:?}");
        let mut first = server.connect();
        let mut second = server.connect();
        first.batch_execute(&format!("BEGIN; UPDATE t SET n = n + 1 WHERE id = {mine}")).unwrap();
        second.batch_execute(&format!("BEGIN; UPDATE t SET n = n + 1 WHERE id = {other}")).unwrap();
        let waits = Running::start(first, &format!("UPDATE t SET n = n + 1 WHERE id = {other}"));
        waits.must_wait(&server);
        let watch = Stopwatch::start();
        let result = second.execute(&format!("UPDATE t SET n = n + 1 WHERE id = {mine}"), &[]);
        fastest = fastest.min(watch.elapsed());
        // Either session may get the error; the other goes on.
        let (mut winner, loser_error) = match result {
            Err(error) => {
                second.batch_execute("ROLLBACK").unwrap();
                let (first, result) = waits.end();
                assert_eq!(result.unwrap(), 1);
                (first, error)
            }
            Ok(_) => {
                let (mut first, result) = waits.end();
                first.batch_execute("ROLLBACK").unwrap();
                (second, result.unwrap_err())
            }
        };
        assert_eq!(state(&loser_error), "40P01");
        assert_eq!(message(&loser_error), "deadlock detected");
        winner.batch_execute("COMMIT").unwrap();
    }
}

/// Goal: a row lock passes to the waiter when its holder rolls back or disconnects. Method: both.
#[test]
fn row_lock_is_released_by_rollback_and_by_a_lost_connection() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    first.batch_execute("BEGIN; UPDATE t SET n = 100 WHERE id = 1").unwrap();
    let waits = Running::start(server.connect(), "UPDATE t SET n = n + 1 WHERE id = 1");
    waits.must_wait(&server);
    first.batch_execute("ROLLBACK").unwrap();
    assert_eq!(waits.end().1.unwrap(), 1);
    assert_eq!(number(&mut first, "SELECT n FROM t WHERE id = 1"), 1);
    first.batch_execute("BEGIN; UPDATE t SET n = 100 WHERE id = 1").unwrap();
    let waits = Running::start(server.connect(), "UPDATE t SET n = n + 1 WHERE id = 1");
    waits.must_wait(&server);
    drop(first);
    let (mut client, result) = waits.end();
    assert_eq!(result.unwrap(), 1);
    assert_eq!(number(&mut client, "SELECT n FROM t WHERE id = 1"), 2);
}

/// Goal: FOR UPDATE locks rows, NOWAIT and SKIP LOCKED do not wait, and plain reads never wait. Method: one holder;
/// each kind of reader.
#[test]
fn for_update_locks_and_plain_reads_do_not_wait() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    let mut reader = server.connect();
    first.batch_execute("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE").unwrap();
    assert_eq!(number(&mut reader, "SELECT n FROM t WHERE id = 1"), 0);
    assert_eq!(number(&mut reader, "SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED"), 2);
    let busy = reader.query("SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT", &[]).unwrap_err();
    assert_eq!(state(&busy), "55P03");
    assert_eq!(message(&busy), "could not obtain lock on row in relation \"t\"");
    let waits = Running::start(server.connect(), "SELECT n FROM t WHERE id = 1 FOR UPDATE");
    waits.must_wait(&server);
    first.batch_execute("COMMIT").unwrap();
    assert_eq!(waits.end().1.unwrap(), 1);
}

/// Goal: several sessions can hold a row in shared strength, writers wait for all of them, and an upgrade that cannot
/// succeed is refused at once. Method: two sessions with FOR SHARE; NOWAIT, SKIP LOCKED and a writer next to them; then
/// both update, and the second gets 40P01.
#[test]
fn share_locks_are_held_together_and_deadlock_when_both_write() {
    let server = Server::fresh();
    let (mut first, mut second, mut reader) = (accounts(&server), server.connect(), server.connect());
    for client in [&mut first, &mut second] {
        client.batch_execute("BEGIN; SELECT * FROM t WHERE id = 1 FOR SHARE").unwrap();
    }
    assert_eq!(number(&mut reader, "SELECT id FROM t WHERE id = 1 FOR KEY SHARE NOWAIT"), 1);
    assert_eq!(number(&mut reader, "SELECT id FROM t ORDER BY id FOR NO KEY UPDATE SKIP LOCKED"), 2);
    let busy = reader.query("SELECT n FROM t WHERE id = 1 FOR NO KEY UPDATE NOWAIT", &[]).unwrap_err();
    assert_eq!(state(&busy), "55P03");
    let read_only = reader.batch_execute("BEGIN READ ONLY; SELECT n FROM t FOR KEY SHARE").unwrap_err();
    assert_eq!(message(&read_only), "cannot execute SELECT FOR KEY SHARE in a read-only transaction");
    let waits = Running::start(first, "UPDATE t SET n = n + 1 WHERE id = 1");
    waits.must_wait(&server);
    let refused = second.batch_execute("UPDATE t SET n = n + 1 WHERE id = 1").unwrap_err();
    assert_eq!(state(&refused), "40P01");
    second.batch_execute("ROLLBACK").unwrap();
    let (mut first, updated) = waits.end();
    assert_eq!(updated.unwrap(), 1);
    first.batch_execute("COMMIT").unwrap();
    assert_eq!(number(&mut second, "SELECT n FROM t WHERE id = 1"), 1);
}

/// Goal: a unique violation is decided only when the other transaction has ended. Method: the same key twice; after
/// ROLLBACK the second insert succeeds, after COMMIT it fails with 23505; by primary key and by a secondary index.
#[test]
fn unique_violation_waits_for_the_other_transaction() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    for (sql, other) in [
        ("INSERT INTO t VALUES (3, 0, 30)", "INSERT INTO t VALUES (3, 1, 31)"),
        ("INSERT INTO t VALUES (4, 0, 40)", "INSERT INTO t VALUES (5, 1, 40)"),
    ] {
        first.batch_execute(&format!("BEGIN; {sql}")).unwrap();
        let waits = Running::start(server.connect(), other);
        waits.must_wait(&server);
        first.batch_execute("ROLLBACK").unwrap();
        assert_eq!(waits.end().1.unwrap(), 1, "{other}");
        first.batch_execute("DELETE FROM t WHERE id > 2").unwrap();
        first.batch_execute(&format!("BEGIN; {sql}")).unwrap();
        let waits = Running::start(server.connect(), other);
        waits.must_wait(&server);
        first.batch_execute("COMMIT").unwrap();
        assert_eq!(state(&waits.end().1.unwrap_err()), "23505", "{other}");
    }
}

/// Goal: synchronous_commit is a setting of the session, and other sessions see commits of both kinds at once. Method:
/// on, off, SET LOCAL.
#[test]
fn synchronous_commit_is_chosen_per_session() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    let mut second = server.connect();
    first.batch_execute("SET synchronous_commit = off").unwrap();
    for n in 1..=50 {
        first.execute("UPDATE t SET n = $1 WHERE id = 1", &[&n]).unwrap();
        assert_eq!(number(&mut second, "SELECT n FROM t WHERE id = 1"), n);
        second.execute("UPDATE t SET n = $1 WHERE id = 2", &[&n]).unwrap();
        assert_eq!(number(&mut first, "SELECT n FROM t WHERE id = 2"), n);
    }
    let shown = |client: &mut Client| client.query_one("SHOW synchronous_commit", &[]).unwrap().get::<_, String>(0);
    assert_eq!(shown(&mut first), "off");
    assert_eq!(shown(&mut second), "on");
    second.batch_execute("BEGIN; SET LOCAL synchronous_commit = off; UPDATE t SET n = 0; COMMIT").unwrap();
    assert_eq!(shown(&mut second), "on");
    let bad = second.batch_execute("SET synchronous_commit = maybe").unwrap_err();
    assert_eq!(state(&bad), "22023");
}

/// Goal: DDL waits for the sessions that use the table, and they wait for it, without harm to other sessions. Method:
/// TRUNCATE behind an open reader; a writer behind an uncommitted CREATE INDEX.
#[test]
fn ddl_and_users_of_a_table_wait_for_each_other() {
    let server = Server::fresh();
    let mut first = accounts(&server);
    first.batch_execute("BEGIN; SELECT * FROM t").unwrap();
    let waits = Running::start(server.connect(), "TRUNCATE t");
    waits.must_wait(&server);
    first.batch_execute("COMMIT").unwrap();
    waits.end().1.unwrap();
    assert_eq!(first.query("SELECT * FROM t", &[]).unwrap().len(), 0);
    first.batch_execute("BEGIN; CREATE INDEX t_n ON t (n)").unwrap();
    let waits = Running::start(server.connect(), "INSERT INTO t VALUES (1, 5, 1)");
    waits.must_wait(&server);
    let mut other = server.connect();
    assert_eq!(other.query("SELECT * FROM t", &[]).unwrap().len(), 0);
    first.batch_execute("COMMIT").unwrap();
    assert_eq!(waits.end().1.unwrap(), 1);
    assert_eq!(number(&mut other, "SELECT id FROM t WHERE n = 5"), 1);
}

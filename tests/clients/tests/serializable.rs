//! SERIALIZABLE through the server: the examples that users of PostgreSQL know, run by two or three sessions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use collie_clients_tests::{Server, message, state};
use postgres::{Client, Error};

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

fn session(server: &Server, begin: &str) -> Client {
    let mut client = server.connect();
    client.batch_execute(begin).unwrap();
    client
}

fn number(client: &mut Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

fn refused(result: Result<(), Error>) {
    let error = result.unwrap_err();
    assert_eq!(state(&error), "40001");
    assert_eq!(message(&error), "could not serialize access due to read/write dependencies among transactions");
    let hint = error.as_db_error().and_then(|error| error.hint().map(str::to_owned));
    assert_eq!(hint.as_deref(), Some("The transaction might succeed if retried."));
}

/// Goal: at least one doctor stays on call. Method: two go off call at the same time, each after counting two; one
/// commits, the other is refused and, when it is retried, counts one and stays. At REPEATABLE READ both go, which shows
/// that the test can fail.
#[test]
fn one_doctor_stays_on_call() {
    let server = Server::fresh();
    let mut setup = server.connect();
    setup
        .batch_execute(
            "CREATE TABLE doctors (name text PRIMARY KEY, on_call bool NOT NULL);
             INSERT INTO doctors VALUES ('Alice', true), ('Bob', true)",
        )
        .unwrap();
    let count = "SELECT count(*) FROM doctors WHERE on_call";
    let leave = |client: &mut Client, name: &str| {
        assert_eq!(number(client, count), 2);
        client.execute("UPDATE doctors SET on_call = false WHERE name = $1", &[&name]).unwrap();
    };
    for (level, left) in [("REPEATABLE READ", 0), ("SERIALIZABLE", 1)] {
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let (mut alice, mut bob) = (session(&server, &begin), session(&server, &begin));
        leave(&mut alice, "Alice");
        leave(&mut bob, "Bob");
        alice.batch_execute("COMMIT").unwrap();
        let ended = bob.batch_execute("COMMIT");
        if left == 0 {
            ended.unwrap();
        } else {
            refused(ended);
            bob.batch_execute(&begin).unwrap();
            assert_eq!(number(&mut bob, count), 1, "the next try sees who left");
            bob.batch_execute("COMMIT").unwrap();
        }
        assert_eq!(number(&mut setup, count), left);
        setup.batch_execute("UPDATE doctors SET on_call = true").unwrap();
    }
}

/// Goal: the example of PostgreSQL's manual: two transactions that each sum one class and insert the sum into the other
/// cannot both commit. Method: with a scan of the table, then with an index on the class, where a third transaction
/// over another class commits.
#[test]
fn sums_of_two_classes_cannot_pass_each_other() {
    let server = Server::fresh();
    let mut setup = server.connect();
    setup.batch_execute("CREATE TABLE mytab (class int, value int)").unwrap();
    for indexed in [false, true] {
        if indexed {
            setup.batch_execute("CREATE INDEX ON mytab (class)").unwrap();
        }
        setup
            .batch_execute("DELETE FROM mytab; INSERT INTO mytab VALUES (1, 10), (1, 20), (2, 100), (2, 200)")
            .unwrap();
        let start = |class: i32, sum: i64, other: i32| {
            let mut client = session(&server, BEGIN);
            let found: i64 =
                client.query_one("SELECT sum(value) FROM mytab WHERE class = $1", &[&class]).unwrap().get(0);
            assert_eq!(found, sum);
            let value = i32::try_from(sum).unwrap();
            client.execute("INSERT INTO mytab VALUES ($1, $2)", &[&other, &value]).unwrap();
            client
        };
        let (mut one, mut two) = (start(1, 30, 2), start(2, 300, 1));
        if indexed {
            setup.batch_execute("INSERT INTO mytab VALUES (3, 1)").unwrap();
        }
        one.batch_execute("COMMIT").unwrap();
        refused(two.batch_execute("COMMIT"));
        assert_eq!(number(&mut setup, "SELECT sum(value) FROM mytab WHERE class = 2"), 330);
        assert_eq!(number(&mut setup, "SELECT sum(value) FROM mytab WHERE class = 1"), 30);
    }
}

/// Goal: the report of a closed batch stays valid and is never refused: PostgreSQL's example of an anomaly with a
/// read-only transaction. Method: a receipt is begun in the open batch, the batch is closed, the report sums it, and
/// the receipt must not commit; the reader is READ WRITE, READ ONLY, and READ ONLY DEFERRABLE in turn.
#[test]
fn report_of_a_closed_batch_stands() {
    let server = Server::fresh();
    let mut setup = server.connect();
    setup
        .batch_execute(
            "CREATE TABLE control (id int PRIMARY KEY, batch int NOT NULL); INSERT INTO control VALUES (1, 1);
             CREATE TABLE receipt (id int PRIMARY KEY, batch int NOT NULL, amount int NOT NULL);
             CREATE INDEX ON receipt (batch); INSERT INTO receipt VALUES (1, 1, 10)",
        )
        .unwrap();
    for (round, mode) in ["", " READ ONLY", " READ ONLY DEFERRABLE"].into_iter().enumerate() {
        let closed = number(&mut setup, "SELECT batch::int8 FROM control");
        let mut receipt = session(&server, BEGIN);
        receipt.batch_execute(&format!("INSERT INTO receipt SELECT {}, batch, 5 FROM control", round + 2)).unwrap();
        setup
            .batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE control SET batch = batch + 1; COMMIT")
            .unwrap();
        let mut report = session(&server, &format!("{BEGIN}{mode}"));
        assert_eq!(number(&mut report, "SELECT batch::int8 FROM control"), closed + 1);
        let sum = format!("SELECT coalesce(sum(amount), 0) FROM receipt WHERE batch = {closed}");
        let reported = number(&mut report, &sum);
        refused(receipt.batch_execute("COMMIT"));
        report.batch_execute("COMMIT").unwrap();
        assert_eq!(number(&mut setup, &sum), reported);
    }
}

/// Goal: a transaction that looks for a key before it inserts the key gets a serialization failure, not a unique
/// violation. Method: the check that many programs make instead of ON CONFLICT; without it the insert fails with 23505.
#[test]
fn insert_after_a_look_is_a_serialization_failure() {
    let server = Server::fresh();
    let mut setup = server.connect();
    setup.batch_execute("CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)").unwrap();
    let mut client = session(&server, BEGIN);
    assert_eq!(number(&mut client, "SELECT count(*) FROM t WHERE id = 1"), 0);
    setup.batch_execute("INSERT INTO t VALUES (1, 1)").unwrap();
    refused(client.batch_execute("INSERT INTO t VALUES (1, 5)"));
    client.batch_execute("ROLLBACK").unwrap();
    client.batch_execute(BEGIN).unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM t WHERE u = 7"), 0);
    setup.batch_execute("INSERT INTO t VALUES (2, 7)").unwrap();
    refused(client.batch_execute("INSERT INTO t VALUES (3, 7)"));
    client.batch_execute("ROLLBACK").unwrap();
    client.batch_execute(BEGIN).unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM t"), 2);
    assert_eq!(state(&client.batch_execute("INSERT INTO t VALUES (2, 8)").unwrap_err()), "23505");
    client.batch_execute("ROLLBACK").unwrap();
}

/// Goal: "first updater wins" has its own message. Method: both transactions update one row.
#[test]
fn update_of_a_changed_row_says_concurrent_update() {
    let server = Server::fresh();
    let mut setup = server.connect();
    setup.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)").unwrap();
    let mut client = session(&server, BEGIN);
    assert_eq!(number(&mut client, "SELECT count(*) FROM t"), 1);
    setup.batch_execute("UPDATE t SET n = 1").unwrap();
    let error = client.batch_execute("UPDATE t SET n = n + 1").unwrap_err();
    assert_eq!(state(&error), "40001");
    assert_eq!(message(&error), "could not serialize access due to concurrent update");
}

/// Goal: a refused transaction that created a table leaves no table, neither for its own session nor for others.
/// Method: CREATE TABLE in a transaction with write skew.
#[test]
fn refused_transaction_leaves_no_definition() {
    let server = Server::fresh();
    let mut setup = server.connect();
    setup.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)").unwrap();
    let mut client = session(&server, BEGIN);
    assert_eq!(number(&mut client, "SELECT count(*) FROM t WHERE n = 0"), 2);
    client.batch_execute("CREATE TABLE made (id int PRIMARY KEY); INSERT INTO made VALUES (1)").unwrap();
    client.batch_execute("UPDATE t SET n = 1 WHERE id = 1").unwrap();
    setup.batch_execute("UPDATE t SET n = 1 WHERE id = 2").unwrap();
    refused(client.batch_execute("COMMIT"));
    for client in [&mut client, &mut setup] {
        assert_eq!(state(&client.batch_execute("SELECT * FROM made").unwrap_err()), "42P01");
    }
    setup.batch_execute("CREATE TABLE made (other text); INSERT INTO made VALUES ('x')").unwrap();
    assert_eq!(number(&mut client, "SELECT count(*) FROM made WHERE other = 'x'"), 1);
}

/// Goal: the level can be set and shown in every way that PostgreSQL has. Method: SHOW after each; a statement outside
/// a block commits at the default level; a level after the first query is refused.
#[test]
fn serializable_is_asked_for_and_named() {
    let server = Server::fresh();
    let mut client = server.connect();
    let shown =
        |client: &mut Client, name: &str| -> String { client.query_one(&format!("SHOW {name}"), &[]).unwrap().get(0) };
    for begin in [
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
        "BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "BEGIN; SET LOCAL transaction_isolation = 'serializable'",
    ] {
        client.batch_execute(begin).unwrap();
        assert_eq!(shown(&mut client, "transaction_isolation"), "serializable", "{begin}");
        client.batch_execute("ROLLBACK").unwrap();
        assert_eq!(shown(&mut client, "transaction_isolation"), "read committed");
    }
    client.batch_execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE").unwrap();
    assert_eq!(shown(&mut client, "default_transaction_isolation"), "serializable");
    assert_eq!(shown(&mut client, "transaction_isolation"), "serializable");
    client.batch_execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1); UPDATE t SET n = n + 1").unwrap();
    assert_eq!(number(&mut client, "SELECT n::int8 FROM t"), 2);
    client.batch_execute("SET default_transaction_isolation = 'read committed'; BEGIN; SELECT 1").unwrap();
    let error = client.batch_execute(BEGIN.replace("BEGIN", "SET TRANSACTION").as_str()).unwrap_err();
    assert_eq!(state(&error), "25001");
    client.batch_execute("ROLLBACK").unwrap();
}

/// Goal: a refused BEGIN leaves no open block. Method: an isolation level for the transaction that the previous query
/// in the same text has begun.
#[test]
fn refused_begin_leaves_no_block() {
    let server = Server::fresh();
    let mut client = server.connect();
    let error = client.simple_query("SELECT 1; BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap_err();
    assert_eq!(state(&error), "25001");
    assert_eq!(message(&error), "SET TRANSACTION ISOLATION LEVEL must be called before any query");
    client.simple_query("SELECT 1").unwrap();
}

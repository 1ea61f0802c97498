//! Time limits and cancelling as users of PostgreSQL know them: which statement ends when, with which SQLSTATE and
//! message, and what is left of its session.

use std::{thread, time::Duration};

use collie_clients_tests::{
    Server, Stopwatch, Wire, message, state,
    wire::{Message, bind, execute, kinds, parse, query, sync},
};
use postgres::Client;

const TEXT: u16 = 0;
/// How long a statement may run beyond its limit: enough for a slow machine, and far less than these statements would
/// take.
const SLACK: Duration = Duration::from_secs(30);

/// Runs `sql` and returns SQLSTATE and message of the error that ends it, which must come within [`SLACK`].
fn fails(client: &mut Client, sql: &str) -> (String, String) {
    let watch = Stopwatch::start();
    let error = client.batch_execute(sql).expect_err(sql);
    let elapsed = watch.elapsed();
    assert!(elapsed < SLACK, "{sql}: {elapsed:?}");
    (state(&error), message(&error))
}

/// Returns severity, SQLSTATE and message of the only error among `messages`.
fn error_of(messages: &[Message]) -> (String, String, String) {
    let mut errors = messages.iter().filter(|message| message.kind == b'E');
    let error = errors.next().unwrap_or_else(|| panic!("no error in {messages:?}"));
    assert!(errors.next().is_none(), "{messages:?}");
    let field = |code| error.field(code).unwrap_or_default();
    (field(b'S'), field(b'C'), field(b'M'))
}

/// Runs a short statement, and repeats it if the short limit in force ends it, as may happen on a busy machine.
fn runs(client: &mut Client, sql: &str) {
    let watch = Stopwatch::start();
    while let Err(error) = client.batch_execute(sql) {
        assert_eq!(state(&error), "57014", "{sql}: {error:?}");
        assert!(watch.elapsed() < SLACK, "{sql} never comes to its end");
    }
}

fn fatal(state: &str, what: &str) -> (String, String, String) {
    ("FATAL".to_owned(), state.to_owned(), format!("terminating connection due to {what} timeout"))
}

/// Goal: a statement of any kind checks its time within a bounded number of rows. Method: a list of long statements,
/// each with a limit of 50 ms; the session goes on after each.
#[test]
fn statement_timeout_ends_every_long_statement() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int)").unwrap();
    client.batch_execute("INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 200000) g").unwrap();
    client.batch_execute("SET statement_timeout = 50").unwrap();
    for sql in [
        "SELECT pg_sleep(60)",
        "SELECT pg_sleep(0.01) FROM generate_series(1, 6000)",
        "SELECT count(*) FROM generate_series(1, 1000000000)",
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
        "SELECT count(*) FROM t a, t b WHERE a.n < b.n",
        "SELECT g FROM generate_series(1, 1000000000) g ORDER BY -g",
        "SELECT g FROM generate_series(1, 1000000000) g ORDER BY -g LIMIT 3",
        "SELECT count(*) FROM generate_series(1, 1000000000) a JOIN generate_series(1, 1000000000) b ON a = b",
        "SELECT DISTINCT g % 1000 FROM generate_series(1, 1000000000) g",
        "SELECT g % 10, count(*) FROM generate_series(1, 1000000000) g GROUP BY 1",
        "SELECT g FROM generate_series(1, 1000000000) g EXCEPT SELECT g FROM generate_series(1, 1000000000) g",
        "SELECT (SELECT count(*) FROM generate_series(1, 1000000000) g WHERE g <> t.n) FROM t WHERE id = 1",
        "INSERT INTO t SELECT g, 1 FROM generate_series(1000000, 1000000000) g",
        "UPDATE t SET n = 1 WHERE (SELECT count(*) FROM generate_series(1, 100000) g WHERE g <> t.n) > 0",
        "DELETE FROM t WHERE (SELECT count(*) FROM generate_series(1, 100000) g WHERE g <> t.n) > 0",
    ] {
        let expected = ("57014".to_owned(), "canceling statement due to statement timeout".to_owned());
        assert_eq!(fails(&mut client, sql), expected, "{sql}");
        runs(&mut client, "SELECT 1");
    }
    let mut wire = Wire::session(server.address());
    wire.query("SET statement_timeout = 50");
    let watch = Stopwatch::start();
    let (_, code, words) =
        error_of(&wire.query("COPY (SELECT g FROM generate_series(1, 1000000000) g WHERE g < 0) TO STDOUT"));
    assert_eq!((&*code, &*words), ("57014", "canceling statement due to statement timeout"));
    assert!(watch.elapsed() < SLACK);
    client.batch_execute("SET statement_timeout = 1").unwrap();
    let expected = ("57014".to_owned(), "canceling statement due to statement timeout".to_owned());
    assert_eq!(fails(&mut client, "CREATE INDEX ON t (n, id)"), expected);
    runs(&mut client, "RESET statement_timeout");
    assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0), 200_000);
}

/// Goal: a commit is never cancelled after the fact, and a late timer hits no later statement. Method: hundreds of
/// durable inserts under the shortest limit; exactly the acknowledged rows are there.
#[test]
fn statement_timeout_takes_no_commit_back() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY); SET statement_timeout = 1").unwrap();
    let mut answered = 0;
    for id in 0..400 {
        match client.batch_execute(&format!("INSERT INTO t VALUES ({id})")) {
            Ok(()) => answered += 1,
            Err(error) => assert_eq!(state(&error), "57014"),
        }
    }
    runs(&mut client, "SET statement_timeout = 0");
    assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0), answered);
}

/// Goal: in the extended protocol each Execute has its own time, and so has each statement of a query string. Method:
/// eight sleeps of 0.4 s under a limit of 2.8 s, in one pipeline and in one string; then one that is too long.
#[test]
fn each_statement_has_a_time_of_its_own() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.query("SET statement_timeout = '2800ms'");
    let sleep = [bind("", "s", TEXT, &[], TEXT), execute("", 0)].concat();
    wire.send(&[parse("s", "SELECT pg_sleep(0.4)", &[]), sleep.repeat(8), sync()].concat());
    assert_eq!(kinds(&wire.until_ready()), format!("1{}Z", "2DC".repeat(8)));
    let messages = wire.query(&"SELECT pg_sleep(0.4);".repeat(8));
    assert_eq!(kinds(&messages), format!("{}Z", "TDC".repeat(8)));
    wire.send(&[parse("", "SELECT pg_sleep(25)", &[]), bind("", "", TEXT, &[], TEXT), execute("", 0), sync()].concat());
    let (severity, code, words) = error_of(&wire.until_ready());
    assert_eq!((&*severity, &*code), ("ERROR", "57014"), "{words}");
}

/// Goal: a limit that expires while the server waits for the next message of a pipeline fails that message, whatever it
/// is, and the next pipeline has all of its time; no time runs once an Execute is complete. Method: a pause longer than
/// the limit between Bind and Execute, between Parse and Sync, and between a complete Execute and the next one.
#[test]
fn a_limit_that_runs_out_between_messages_fails_the_next() {
    let server = Server::fresh();
    let mut clock = server.connect();
    let mut wire = Wire::session(server.address());
    wire.query("SET statement_timeout = '2s'");
    let statement = |name| [parse(name, "SELECT 1", &[]), bind("", name, TEXT, &[], TEXT)].concat();
    for (before, after, answer) in [
        (statement(""), [execute("", 0), sync()].concat(), "12EZ"),
        (parse("kept", "SELECT 1", &[]), sync(), "1EZ"),
        ([statement(""), execute("", 0)].concat(), [statement(""), execute("", 0), sync()].concat(), "12DC12DCZ"),
    ] {
        wire.send(&before);
        clock.batch_execute("SELECT pg_sleep(2.2)").unwrap();
        wire.send(&after);
        let messages = wire.until_ready();
        assert_eq!(kinds(&messages), answer);
        if answer.contains('E') {
            let words = "canceling statement due to statement timeout";
            assert_eq!(error_of(&messages), ("ERROR".to_owned(), "57014".to_owned(), words.to_owned()));
        }
    }
    wire.query("SET statement_timeout = 0");
}

/// Goal: an answer is sent before a later statement of the same pipeline waits for a row, for a lock that a function
/// takes, or for a table. Method: in one write, a statement with its Sync and one that waits for another session; the
/// first answer is read while that session holds the lock.
#[test]
fn answers_leave_before_a_statement_that_waits() {
    let server = Server::fresh();
    let mut holder = server.connect();
    holder.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)").unwrap();
    for (held, waits) in [
        ("UPDATE t SET n = 1", "UPDATE t SET n = 2"),
        ("SELECT pg_advisory_xact_lock(7)", "SELECT pg_advisory_lock(7)"),
        ("LOCK TABLE t", "SELECT * FROM t"),
        ("LOCK TABLE t", "DROP TABLE t"),
    ] {
        let mut transaction = holder.transaction().unwrap();
        transaction.batch_execute(held).unwrap();
        let mut wire = Wire::session(server.address());
        let first = [parse("", "SELECT 1", &[]), bind("", "", TEXT, &[], TEXT), execute("", 0), sync()].concat();
        wire.send(&[first, query(waits)].concat());
        assert_eq!(kinds(&wire.until_ready()), "12DCZ", "{waits}");
        transaction.rollback().unwrap();
        assert!(kinds(&wire.until_ready()).ends_with("CZ"), "{waits}");
    }
}

/// Goal: the server's configuration gives every session its limits, and a session can change them. Method: limits for
/// all by `--set`; wait for a lock; then with the session's own limit, and with the default again.
#[test]
fn limits_of_the_server_are_every_sessions_defaults() {
    let server = Server::fresh_with(&["--set", "sql.lock_timeout=40ms", "--set", "sql.statement_timeout=1min"]);
    let (mut holder, mut client) = (server.connect(), server.connect());
    let shown =
        |client: &mut Client, name: &str| -> String { client.query_one(&format!("SHOW {name}"), &[]).unwrap().get(0) };
    assert_eq!([shown(&mut client, "lock_timeout"), shown(&mut client, "statement_timeout")], ["40ms", "1min"]);
    holder.batch_execute("SET lock_timeout = 0; SELECT pg_advisory_lock(1)").unwrap();
    assert_eq!(fails(&mut client, "SELECT pg_advisory_lock(1)").0, "55P03");
    runs(&mut client, "SET lock_timeout = 0; SET statement_timeout = 20");
    assert_eq!(fails(&mut client, "SELECT pg_advisory_lock(1)").0, "57014");
    runs(&mut client, "RESET ALL");
    assert_eq!([shown(&mut client, "lock_timeout"), shown(&mut client, "statement_timeout")], ["40ms", "1min"]);
}

/// Goal: the earlier of lock_timeout and statement_timeout is reported, for table locks and for row locks; a limit that
/// is not reached changes nothing. Method: a holder, and a second session under each pair of limits.
#[test]
fn earlier_of_lock_timeout_and_statement_timeout_is_reported() {
    let server = Server::fresh();
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    holder.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)").unwrap();
    let lock = ("55P03".to_owned(), "canceling statement due to lock timeout".to_owned());
    let statement = ("57014".to_owned(), "canceling statement due to statement timeout".to_owned());
    for (held, wanted) in [
        ("UPDATE t SET n = 1 WHERE id = 1", "UPDATE t SET n = 2 WHERE id = 1"),
        ("UPDATE t SET n = 1 WHERE id = 1", "SELECT * FROM t FOR UPDATE"),
        ("INSERT INTO t VALUES (2, 0)", "INSERT INTO t VALUES (2, 0)"),
        ("TRUNCATE t", "SELECT * FROM t"),
        ("UPDATE t SET n = 1 WHERE id = 1", "DROP TABLE t"),
    ] {
        holder.batch_execute(&format!("BEGIN; {held}")).unwrap();
        for (lock_ms, statement_ms, expected) in
            [(20, 0, &lock), (0, 20, &statement), (20, 60_000, &lock), (60_000, 20, &statement)]
        {
            let limits = format!("SET lock_timeout = {lock_ms}; SET statement_timeout = {statement_ms}");
            runs(&mut waiter, &limits);
            assert_eq!(&fails(&mut waiter, wanted), expected, "{wanted} under {limits}");
        }
        holder.batch_execute("ROLLBACK").unwrap();
    }
    runs(&mut waiter, "SET lock_timeout = '60s'; SET statement_timeout = '60s'");
    waiter.batch_execute("UPDATE t SET n = 3 WHERE id = 1").unwrap();
}

/// Goal: a limit of SET LOCAL ends with its transaction, one of the start-up packet holds for the session, and both are
/// shown as in PostgreSQL. Method: set, show, sleep longer than the limit after the transaction.
#[test]
fn limits_have_the_life_that_set_gives_them() {
    let server = Server::fresh();
    let mut client = server.config().options("-c statement_timeout=2min").connect(postgres::NoTls).unwrap();
    let show =
        |client: &mut Client, name: &str| -> String { client.query_one(&format!("SHOW {name}"), &[]).unwrap().get(0) };
    assert_eq!(show(&mut client, "statement_timeout"), "2min");
    client.batch_execute("BEGIN; SET LOCAL statement_timeout = '1s'").unwrap();
    assert_eq!(show(&mut client, "statement_timeout"), "1s");
    assert_eq!(fails(&mut client, "SELECT pg_sleep(25)").0, "57014");
    assert_eq!(fails(&mut client, "SELECT 1").0, "25P02");
    client.batch_execute("ROLLBACK").unwrap();
    assert_eq!(show(&mut client, "statement_timeout"), "2min");
    client.batch_execute("SELECT pg_sleep(1.1)").unwrap();
    assert_eq!(show(&mut client, "deadlock_timeout"), "1s");
    assert_eq!(fails(&mut client, "SET lock_timeout = -1").0, "22023");
    assert_eq!(fails(&mut client, "SET lock_timeout = '5 parsecs'").0, "22023");
}

/// Goal: a client that stays idle too long gets the reason, its connection is closed, and its locks are free. Method:
/// each idle limit; the first ones under a row lock that another session then takes.
#[test]
fn idle_clients_are_ended() {
    let server = Server::fresh();
    let mut other = server.connect();
    other.batch_execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    for (limits, state, what) in [
        ("SET idle_in_transaction_session_timeout = '100ms'", "25P03", "idle-in-transaction"),
        ("SET transaction_timeout = '1s'", "25P04", "transaction"),
        ("SET transaction_timeout = '1s'; SET idle_in_transaction_session_timeout = '60s'", "25P04", "transaction"),
    ] {
        let mut wire = Wire::session(server.address());
        wire.query(limits);
        // Both are sent at once: on a busy machine the limit might expire between two messages.
        wire.send(&[query("BEGIN"), query("DELETE FROM t WHERE id = 1")].concat());
        assert_eq!([kinds(&wire.until_ready()), kinds(&wire.until_ready())], ["CZ", "CZ"]);
        other.batch_execute("SET lock_timeout = '60s'").unwrap();
        other.batch_execute("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE; COMMIT").unwrap();
        assert_eq!(error_of(&wire.until_closed()), fatal(state, what));
        assert_eq!(other.query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0), 1);
    }
    let mut wire = Wire::session(server.address());
    wire.query("SET idle_session_timeout = '100ms'; SET idle_in_transaction_session_timeout = '1min'");
    assert_eq!(error_of(&wire.until_closed()), fatal("57P05", "idle-session"));
    // Neither limit applies in the other state.
    let mut wire = Wire::session(server.address());
    wire.query("SET idle_in_transaction_session_timeout = '100ms'");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(kinds(&wire.query("SELECT 1")), "TDCZ");
    wire.query("SET idle_in_transaction_session_timeout = 0; SET idle_session_timeout = '300ms'; BEGIN");
    thread::sleep(Duration::from_millis(600));
    assert_eq!(kinds(&wire.query("SELECT 1")), "TDCZ");
    server.serves_after("idle clients");
}

/// Goal: a transaction that takes too long ends its session, also in the middle of a statement, in a block or not; one
/// that ends in time has no after-effect. Method: a sleep in each; then many short transactions for longer than the
/// limit.
#[test]
fn transaction_timeout_ends_the_session() {
    let server = Server::fresh();
    for prelude in ["SELECT 1", "BEGIN"] {
        let mut wire = Wire::session(server.address());
        wire.query("SET transaction_timeout = '1s'");
        wire.query(prelude);
        wire.send(&query("SELECT pg_sleep(30)"));
        assert_eq!(error_of(&wire.until_closed()), fatal("25P04", "transaction"));
    }
    let mut client = server.connect();
    client.batch_execute("SET transaction_timeout = '3s'").unwrap();
    for _ in 0..12 {
        client.batch_execute("BEGIN; SELECT pg_sleep(0.3); COMMIT").unwrap();
    }
}

/// Goal: sleeping sessions block no thread of the others, and a cancel wakes them. Method: more sleeping sessions than
/// worker threads; another session is served meanwhile; each one is cancelled and gets the error.
#[test]
fn sleepers_leave_the_server_free_and_can_be_cancelled() {
    let server = Server::fresh();
    let sleepers: Vec<_> = (0..24)
        .map(|_| {
            let mut client = server.connect();
            let token = client.cancel_token();
            (token, thread::spawn(move || client.batch_execute("SELECT pg_sleep(60)").expect_err("it is cancelled")))
        })
        .collect();
    thread::sleep(Duration::from_millis(200));
    server.serves_after("24 sleepers");
    for (token, sleeper) in sleepers {
        while !sleeper.is_finished() {
            token.cancel_query(postgres::NoTls).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        let error = sleeper.join().unwrap();
        let expected = ("57014".to_owned(), "canceling statement due to user request".to_owned());
        assert_eq!((state(&error), message(&error)), expected);
    }
}

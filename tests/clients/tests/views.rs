//! Views of sessions, locks and snapshots, and functions that end another session's work: over the wire, with real
//! waits.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::thread::{self, JoinHandle};

use collie_clients_tests::{
    Server, Stopwatch, Wire,
    session::{PATIENCE, pid, value},
    state,
    wire::{query, states},
};
use postgres::{Client, Error, types::FromSqlOwned};

/// Repeats a query until it returns `wanted`.
fn until<T: FromSqlOwned + PartialEq + std::fmt::Debug>(client: &mut Client, sql: &str, wanted: &T) {
    let watch = Stopwatch::start();
    loop {
        let found: T = value(client, sql);
        if found == *wanted {
            return;
        }
        assert!(watch.elapsed() < PATIENCE, "{sql}: {found:?}, not {wanted:?}");
    }
}

/// Runs a statement that will wait, on another thread, which returns the session and the result.
fn start(mut client: Client, sql: &'static str) -> JoinHandle<(Client, Result<(), Error>)> {
    thread::spawn(move || {
        let result = client.batch_execute(sql);
        (client, result)
    })
}

fn table(server: &Server) -> Client {
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)").unwrap();
    client
}

/// Goal: all views agree on which sessions wait, for what and for which session. Method: one holder, two sessions that
/// wait for its row, and one that waits for its table; then the same views after the holder committed.
#[test]
fn waits_are_seen_in_the_views() {
    let server = Server::fresh();
    let mut holder = table(&server);
    let mut look = server.connect();
    holder.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").unwrap();
    let mut others: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    let pids: Vec<i32> = others.iter_mut().map(pid).collect();
    let holder_pid = pid(&mut holder);
    let mut running = Vec::new();
    let blocking = |pid: i32| format!("SELECT pg_blocking_pids({pid})");
    let statements = ["UPDATE t SET n = 2 WHERE id = 1", "DELETE FROM t WHERE id = 1", "TRUNCATE t"];
    // All of them block the table lock: a session that waits for a row has locked its table before.
    let in_the_way = [vec![holder_pid], vec![holder_pid, pids[0]], vec![holder_pid, pids[0], pids[1]]];
    for ((client, sql), (pid, wanted)) in others.drain(..).zip(statements).zip(pids.iter().zip(&in_the_way)) {
        running.push(start(client, sql));
        until(&mut look, &blocking(*pid), wanted);
    }
    let blocked = |pid: i32, by: i32| format!("SELECT pg_isolation_test_session_is_blocked({pid}, ARRAY[{by}])");
    assert!(value::<bool>(&mut look, &blocked(pids[0], holder_pid)));
    assert!(!value::<bool>(&mut look, &blocked(pids[0], pids[1])), "one that waits behind is in nobody's way");
    assert!(!value::<bool>(&mut look, &blocked(holder_pid, pids[0])));
    let seen = |pid: i32| {
        format!("SELECT concat_ws(' ', state, wait_event_type, wait_event) FROM pg_stat_activity WHERE pid = {pid}")
    };
    for (pid, wanted) in [
        (holder_pid, "idle in transaction Client ClientRead"),
        (pids[0], "active Lock transactionid"),
        (pids[1], "active Lock tuple"),
        (pids[2], "active Lock relation"),
    ] {
        assert_eq!(value::<String>(&mut look, &seen(pid)), wanted, "pid {pid}");
    }
    let ungranted = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ";
    for pid in &pids {
        assert_eq!(value::<i64>(&mut look, &format!("{ungranted}{pid}")), 1, "pid {pid}");
    }
    let same_xid = format!(
        "SELECT count(*) FROM pg_locks h JOIN pg_locks w ON h.transactionid::text = w.transactionid::text
         WHERE h.pid = {holder_pid} AND h.granted AND w.pid = {} AND NOT w.granted",
        pids[0]
    );
    assert_eq!(value::<i64>(&mut look, &same_xid), 1);
    assert_eq!(
        value::<String>(&mut look, "SELECT string_agg(DISTINCT relation::regclass::text, ' ') FROM pg_locks"),
        "t"
    );
    holder.batch_execute("COMMIT").unwrap();
    for running in running {
        running.join().unwrap().1.unwrap();
    }
    assert_eq!(value::<i64>(&mut look, "SELECT count(*) FROM pg_locks WHERE NOT granted"), 0);
}

/// Goal: `pg_stat_activity` follows a session's work. Method: read it from another session between the statements,
/// through both protocols.
#[test]
fn activity_follows_the_statements() {
    let server = Server::fresh();
    let mut look = server.connect();
    let mut client = server.config().application_name("app").connect(postgres::NoTls).unwrap();
    let pid = pid(&mut client);
    let seen = format!(
        "SELECT concat_ws(' | ', application_name, state, query, xact_start IS NULL, query_start >= backend_start,
         client_port > 0) FROM pg_stat_activity WHERE pid = {pid}"
    );
    let mut check = |wanted: &str| assert_eq!(value::<String>(&mut look, &seen), wanted);
    check("app | idle | SELECT pg_backend_pid() | t | t | t");
    client.batch_execute("SET application_name = 'other'; BEGIN").unwrap();
    check("other | idle in transaction | SET application_name = 'other'; BEGIN | f | t | t");
    client.query("SELECT $1::int", &[&1]).unwrap();
    check("other | idle in transaction | SELECT $1::int | f | t | t");
    client.batch_execute("SELECT 1/0").unwrap_err();
    check("other | idle in transaction (aborted) | SELECT 1/0 | f | t | t");
    client.batch_execute("ROLLBACK").unwrap();
    check("app | idle | ROLLBACK | t | t | t");
    let address = format!("SELECT client_addr FROM pg_stat_activity WHERE pid = {pid}");
    assert_eq!(value::<std::net::IpAddr>(&mut look, &address), server.address().ip());
}

/// Goal: a session can cancel another session's statement by SQL, and that session goes on; a cancel has no effect
/// while no statement runs, also between two runs of a prepared statement. Method: cancel a statement that waits for a
/// row; then cancel the idle session.
#[test]
fn another_session_cancels_a_statement() {
    let server = Server::fresh();
    let mut holder = table(&server);
    holder.batch_execute("BEGIN; UPDATE t SET n = 1").unwrap();
    let mut client = server.connect();
    let prepared = client.prepare("SELECT 1").unwrap();
    let pid = pid(&mut client);
    let running = start(client, "UPDATE t SET n = 2");
    until(&mut holder, &format!("SELECT cardinality(pg_blocking_pids({pid}))"), &1);
    let cancel = format!("SELECT pg_cancel_backend({pid})");
    assert!(value::<bool>(&mut holder, &cancel));
    let (mut client, result) = running.join().unwrap();
    assert_eq!(state(&result.unwrap_err()), "57014");
    assert!(value::<bool>(&mut holder, &cancel));
    assert_eq!(client.query_one(&prepared, &[]).unwrap().get::<_, i32>(0), 1);
    assert!(!value::<bool>(&mut holder, "SELECT pg_cancel_backend(999999)"));
}

/// Goal: a session can end another one by SQL, with exactly PostgreSQL's message, and its locks are free. Method: end a
/// session that is idle in a transaction, one that waits for a row, and the caller's own.
#[test]
fn another_session_ends_a_session() {
    let server = Server::fresh();
    let mut look = table(&server);
    let mut holder = Wire::session(server.address());
    holder.query("BEGIN");
    holder.query("UPDATE t SET n = 1 WHERE id = 1");
    let mut waiter = Wire::session(server.address());
    waiter.send(&query("UPDATE t SET n = 2 WHERE id = 1"));
    until(&mut look, &format!("SELECT cardinality(pg_blocking_pids({}))", waiter.key.0), &1);
    for mut session in [waiter, holder] {
        assert!(value::<bool>(&mut look, &format!("SELECT pg_terminate_backend({})", session.key.0)));
        let last = session.until_closed();
        assert_eq!(states(&last), ["57P01"], "{last:?}");
        assert_eq!(last[0].field(b'S').as_deref(), Some("FATAL"));
        assert_eq!(last[0].field(b'M').as_deref(), Some("terminating connection due to administrator command"));
    }
    assert_eq!(look.execute("UPDATE t SET n = n + 10", &[]).unwrap(), 2, "the row is free");
    assert_eq!(value::<i32>(&mut look, "SELECT n FROM t WHERE id = 1"), 10, "both were rolled back");
    let mut own = Wire::session(server.address());
    own.send(&query("SELECT pg_terminate_backend(pg_backend_pid())"));
    assert_eq!(states(&own.until_closed()), ["57P01"]);
    server.serves_after("a session ended itself");
}

/// Goal: the views show the holder of an old snapshot and how much it retains. Method: a REPEATABLE READ reader during
/// a hundred updates, before and after it ends.
#[test]
fn the_holder_of_an_old_snapshot_is_seen_with_what_it_keeps() {
    let server = Server::fresh();
    let mut writer = table(&server);
    let mut reader = server.connect();
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM t").unwrap();
    let pid = pid(&mut reader);
    for _ in 0..100 {
        writer.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]).unwrap();
    }
    let oldest = "SELECT pid FROM collie_snapshots ORDER BY snapshot::text, pid LIMIT 1";
    assert_eq!(value::<i32>(&mut writer, oldest), pid);
    let kept = format!("SELECT rows_kept FROM collie_snapshots WHERE pid = {pid}");
    let rows = value::<i64>(&mut writer, &kept);
    assert!((1..=2).contains(&rows), "one row, however often it was written, which may be in both queues: {rows}");
    let rest = "log_bytes_since > 0 AND xact_start IS NOT NULL AND age_ms >= 0 AND bytes_kept > 0";
    assert!(value::<bool>(&mut writer, &format!("SELECT {rest} FROM collie_snapshots WHERE pid = {pid}")));
    reader.batch_execute("COMMIT").unwrap();
    until(&mut writer, &format!("SELECT count(*) FROM collie_snapshots WHERE pid = {pid}"), &0_i64);
}

/// Goal: the store's figures are shown per table and for the log, and they grow with the work. Method: a table with an
/// index, a CHECKPOINT between two reads, joined with `pg_class` as an operator would.
#[test]
fn store_figures_are_shown_as_rows() {
    const OF_T: &str = "collie_stat_families f JOIN pg_class c ON c.oid = f.relid WHERE c.relname = 't'";
    let server = Server::fresh();
    let mut client = server.connect();
    client
        .batch_execute("CREATE TABLE t (id int, n int); INSERT INTO t SELECT g, g FROM generate_series(1, 100) g")
        .unwrap();
    let mut of_t = |column: &str| value::<i64>(&mut client, &format!("SELECT {column} FROM {OF_T}"));
    let read = ["rows", "unflushed_rows", "flushes_by_checkpoint", "rows_flushed"].map(&mut of_t);
    assert_eq!(read, [100, 100, 0, 0]);
    assert!(of_t("user_bytes") > 800, "two numbers a row");
    server.connect().batch_execute("CHECKPOINT").unwrap();
    let read = ["rows", "unflushed_rows", "flushes_by_checkpoint", "rows_flushed", "tables"].map(&mut of_t);
    assert_eq!(read, [100, 0, 1, 100, 1]);
    let log = "durable IS NOT NULL AND bytes_kept <= bytes_limit AND syncs > 0 AND writes_stopped = 0 AND flushes > 0";
    assert!(value::<bool>(&mut client, &format!("SELECT {log} FROM collie_stat_log")));
}

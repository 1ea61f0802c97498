//! Definitions that change concurrently with transactions: which session waits for which, in which order the log has
//! them, what an older snapshot may still read, and what is left after a crash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use collie_clients_tests::{
    Place, Server, Stopwatch,
    session::{PATIENCE, run, start, value},
    state,
};
use postgres::Client;

/// Kills the server and opens its directory again. The catalog must be whole, with the names of foo in it iff `there`.
fn crash(place: &Place, server: Server, there: bool, rows: i64) -> Server {
    server.kill();
    let server = Server::start(place);
    let mut client = server.connect();
    let found: i64 = value(&mut client, "SELECT count(*) FROM pg_class WHERE relname IN ('foo', 'foo_pkey', 'foo_n')");
    assert_eq!(found, if there { 3 } else { 0 }, "{}", place.log());
    if there {
        assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM foo"), rows);
        assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM foo WHERE n = 7"), rows, "by the index");
    } else {
        assert_eq!(state(&client.batch_execute("SELECT 1 FROM foo").unwrap_err()), "42P01");
        // A table under the old name has none of the old rows: family ids are never reused.
        run(&mut client, "CREATE TABLE foo (id int PRIMARY KEY, n int); CREATE INDEX foo_n ON foo (n)");
        assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM foo"), 0);
        run(&mut client, "INSERT INTO foo VALUES (1, 1); DROP TABLE foo");
    }
    server
}

/// Enough rows for chunks in the log before the commit.
const MANY: &str = "INSERT INTO foo SELECT n, 7 FROM generate_series(1, 20000) AS n";

/// Goal: the DROP TABLE race of Angulo's thesis (figure 3.3: T1 writes foo, T2 drops it and commits first, and replay
/// meets the write after the drop) cannot happen: T2 waits for T1, and the log's records of foo break no opening.
/// Method: T1 commits or rolls back a write of many chunks while T2 waits; T2 then commits, or is open at the crash; a
/// kill after each.
#[test]
fn drop_waits_for_a_writer_and_the_log_has_them_in_that_order() {
    for synchronous in ["on", "off"] {
        for (end, rows) in [("COMMIT", 20_000), ("ROLLBACK", 0)] {
            for dropped in [true, false] {
                let place = Place::new();
                let server = Server::start(&place);
                let (mut t1, mut t2) = (server.connect(), server.connect());
                run(&mut t1, "CREATE TABLE foo (id int PRIMARY KEY, n int); CREATE INDEX foo_n ON foo (n)");
                for client in [&mut t1, &mut t2] {
                    run(client, &format!("SET synchronous_commit = {synchronous}; BEGIN"));
                }
                run(&mut t1, MANY);
                let dropping = start(&server, t2, "DROP TABLE foo");
                // A new statement queues behind the drop, although it does not conflict with the writer's lock.
                let behind = start(&server, server.connect(), "INSERT INTO foo VALUES (0, 7)");
                run(&mut t1, end);
                let (mut t2, result) = dropping.join().unwrap();
                result.unwrap();
                if dropped {
                    run(&mut t2, "COMMIT");
                    let (_, result) = behind.join().unwrap();
                    assert_eq!(state(&result.unwrap_err()), "42P01");
                    // An acknowledged commit survives a kill; an asynchronous one does thanks to the shared ring.
                    crash(&place, server, false, 0);
                } else {
                    let server = crash(&place, server, true, rows);
                    assert!(behind.join().unwrap().1.is_err(), "its server was killed");
                    drop((t2, server));
                }
            }
        }
    }
}

/// Goal: the opposite order, where T2 has dropped foo and T1 wants to write. Method: T1 waits; if T2 commits, T1 gets
/// 42P01 and the table is gone after a crash; if T2 rolls back, T1 writes and the row is there.
#[test]
fn writer_waits_for_a_drop_and_finds_the_table_gone_or_there() {
    for (end, there) in [("COMMIT", false), ("ROLLBACK", true)] {
        let place = Place::new();
        let server = Server::start(&place);
        let (mut t1, mut t2) = (server.connect(), server.connect());
        run(&mut t1, "CREATE TABLE foo (id int PRIMARY KEY, n int); CREATE INDEX foo_n ON foo (n)");
        run(&mut t1, "BEGIN");
        run(&mut t2, "BEGIN; DROP TABLE foo");
        let writing = start(&server, t1, "INSERT INTO foo VALUES (1, 7)");
        run(&mut t2, end);
        let (mut t1, result) = writing.join().unwrap();
        if there {
            result.unwrap();
            run(&mut t1, "COMMIT");
        } else {
            assert_eq!(state(&result.unwrap_err()), "42P01");
        }
        crash(&place, server, there, 1);
    }
}

/// Goal: a snapshot older than the rewrite of a table does not read that table as empty, as in PostgreSQL, but gets
/// 40001, which is retryable. A table that was created since is empty, and an index that was created since is not read.
/// Method: each definition after the first statement of a REPEATABLE READ and a SERIALIZABLE transaction; the same
/// statements in READ COMMITTED.
#[test]
fn older_snapshot_meets_a_changed_definition() {
    let server = Server::fresh();
    let mut other = server.connect();
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "REPEATABLE READ READ ONLY"] {
        let keeps = level != "READ COMMITTED";
        let mut client = server.connect();
        run(
            &mut other,
            "DROP TABLE IF EXISTS t, made, one; CREATE TABLE one (x int); INSERT INTO one VALUES (1);
             CREATE TABLE t (id int, n int); INSERT INTO t SELECT n, n FROM generate_series(1, 100) AS n",
        );
        let begin = |client: &mut Client| {
            run(client, &format!("ROLLBACK; BEGIN ISOLATION LEVEL {level}"));
            assert_eq!(value::<i64>(client, "SELECT count(*) FROM one"), 1);
        };
        let count = "SELECT count(*) FROM t";
        for definition in [
            "TRUNCATE t; INSERT INTO t SELECT n, n FROM generate_series(1, 100) AS n",
            "ALTER TABLE t ADD PRIMARY KEY (id)",
        ] {
            begin(&mut client);
            run(&mut other, definition);
            match client.query_one(count, &[]) {
                Ok(row) => assert_eq!((row.get::<_, i64>(0), keeps), (100, false), "{level}: {definition}"),
                Err(error) => assert_eq!((&*state(&error), keeps), ("40001", true), "{level}: {definition}"),
            }
            begin(&mut client);
            assert_eq!(value::<i64>(&mut client, count), 100, "{level}: retried after {definition}");
        }
        begin(&mut client);
        run(&mut other, "CREATE INDEX t_n ON t (n); UPDATE t SET n = 0 WHERE n = 50");
        let by_index = "SELECT count(*) FROM t WHERE n = 50";
        assert_eq!(value::<i64>(&mut client, by_index), i64::from(keeps), "{level}");
        assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM t WHERE n = 60"), 1, "{level}");
        begin(&mut client);
        assert_eq!(value::<i64>(&mut client, by_index), 0, "{level}: with a newer snapshot");
        begin(&mut client);
        run(&mut other, "CREATE TABLE made (x int); INSERT INTO made VALUES (1)");
        assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM made"), i64::from(!keeps), "{level}");
        run(&mut client, "ROLLBACK");
    }
}

/// Goal: an index, a key or a check that a transaction with an older snapshot adds also covers the rows that were
/// committed since: it is refused (40001) and succeeds when retried, and is never created without those rows. Method:
/// another session commits a row in between.
#[test]
fn definition_made_from_rows_reads_them_all() {
    let server = Server::fresh();
    let (mut client, mut other) = (server.connect(), server.connect());
    run(&mut other, "CREATE TABLE one (x int); CREATE TABLE t (id int, n int); INSERT INTO t VALUES (1, 1)");
    let mut id = 1;
    for definition in [
        "CREATE INDEX t_n ON t (n)",
        "ALTER TABLE t ADD CONSTRAINT u UNIQUE (n)",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0)",
        "ALTER TABLE t ADD PRIMARY KEY (id)",
    ] {
        run(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM one");
        id += 1;
        run(&mut other, &format!("INSERT INTO t VALUES ({id}, {id})"));
        assert_eq!(state(&client.batch_execute(definition).unwrap_err()), "40001", "{definition}");
        run(&mut client, &format!("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; {definition}; COMMIT"));
        assert_eq!(value::<i64>(&mut other, &format!("SELECT count(*) FROM t WHERE n = {id}")), 1, "{definition}");
        assert_eq!(value::<i64>(&mut other, "SELECT count(*) FROM t"), i64::from(id), "{definition}");
    }
}

/// Goal: no session reads an index before all its entries are visible, and no index is built without a committed row.
/// Method: two sessions read rows by the indexed column and two insert, while a third creates and drops the index.
#[test]
fn index_appears_to_readers_and_writers_with_all_its_rows() {
    const ROUNDS: u32 = 60;
    let server = Server::fresh();
    let mut definer = server.connect();
    run(
        &mut definer,
        "CREATE TABLE t (id bigint PRIMARY KEY, n int); INSERT INTO t SELECT n, n FROM generate_series(1, 50) AS n",
    );
    let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 0..2 {
            let (mut client, over, reads) = (server.connect(), &over, &reads);
            scope.spawn(move || {
                let sql = if reader == 0 {
                    "SELECT id FROM t WHERE n = 17"
                } else {
                    "SELECT id FROM t WHERE n = 18 FOR KEY SHARE"
                };
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(client.query(sql, &[]).unwrap().len(), 1, "a row is not found by its index");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for writer in 1..=2_i64 {
            let (mut client, over) = (server.connect(), &over);
            scope.spawn(move || {
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    client.execute("INSERT INTO t VALUES ($1, 1000)", &[&(writer * 1_000_000 + n)]).unwrap();
                }
            });
        }
        for _ in 0..ROUNDS {
            run(&mut definer, "CREATE INDEX t_n ON t (n)");
            let (before, watch) = (reads.load(Ordering::Relaxed), Stopwatch::start());
            let counts = "SELECT count(*) FILTER (WHERE n = 1000) = (SELECT count(*) FROM t WHERE n = 1000) FROM t";
            run(&mut definer, "BEGIN ISOLATION LEVEL REPEATABLE READ");
            assert!(value::<bool>(&mut definer, counts), "the index and the table have different rows");
            run(&mut definer, "COMMIT");
            // Two reads may have begun before the index was there.
            while reads.load(Ordering::Relaxed) < before + 3 {
                assert!(watch.elapsed() < PATIENCE, "nobody reads by the index");
                thread::yield_now();
            }
            run(&mut definer, "DROP INDEX t_n");
        }
        over.store(true, Ordering::Relaxed);
    });
}

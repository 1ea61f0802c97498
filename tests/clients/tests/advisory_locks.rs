//! Advisory locks over the wire: which session waits, what views show, what ends a wait, and which locks the end of a
//! session releases.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use collie_clients_tests::{
    Server, Stopwatch, message,
    session::{PATIENCE, run, start, value},
    state,
};
use postgres::NoTls;

/// Goal: every function behaves as in PostgreSQL: counts, modes, scopes, both key spaces, the warning for a lock that
/// is not held, and `pg_locks` shows all locks. Method: two sessions; the expected values are PostgreSQL's answers.
#[test]
fn functions_lock_count_and_show() {
    let server = Server::fresh();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let mut config = server.config();
    let heard = Arc::clone(&warnings);
    config.notice_callback(move |notice| {
        heard.lock().unwrap().push(format!("{} {}", notice.code().code(), notice.message()));
    });
    let (mut a, mut b) = (config.connect(NoTls).unwrap(), server.connect());
    run(&mut a, "SELECT pg_advisory_lock(1), pg_advisory_lock(1), pg_advisory_lock_shared(-1), pg_advisory_lock(0, 1)");
    run(&mut a, "BEGIN; SELECT pg_advisory_xact_lock(7), pg_advisory_xact_lock_shared(1, -2)");
    let shown =
        "SELECT string_agg(concat_ws(' ', classid, objid, objsubid, mode, granted), ', ' ORDER BY objsubid, objid)
        FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(
        value::<String>(&mut b, shown),
        "0 1 1 ExclusiveLock t, 0 7 1 ExclusiveLock t, 4294967295 4294967295 1 ShareLock t, 0 1 2 ExclusiveLock t, \
         1 4294967294 2 ShareLock t"
    );
    let tries =
        "SELECT concat_ws(' ', pg_try_advisory_lock(1), pg_try_advisory_lock_shared(-1), pg_try_advisory_lock(-1),
        pg_try_advisory_lock(0, 1), pg_try_advisory_lock(1, 0), pg_try_advisory_xact_lock(7),
        pg_try_advisory_xact_lock_shared(1, -2), pg_try_advisory_lock_shared(NULL))";
    assert_eq!(value::<String>(&mut b, tries), "f t f f t f t");
    run(&mut b, "SELECT pg_advisory_unlock_all()");
    run(&mut a, "ROLLBACK");
    assert_eq!(value::<String>(&mut b, tries), "f t f f t t t", "the transaction's are gone, the session's are not");
    run(&mut b, "SELECT pg_advisory_unlock_all()");
    let unlock = "SELECT pg_advisory_unlock(1)";
    assert_eq!([value::<bool>(&mut a, unlock), value(&mut a, unlock), value(&mut a, unlock)], [true, true, false]);
    assert!(!value::<bool>(&mut a, "SELECT pg_advisory_unlock_shared(0, 1)"));
    assert_eq!(
        *warnings.lock().unwrap(),
        ["01000 you don't own a lock of type ExclusiveLock", "01000 you don't own a lock of type ShareLock"]
    );
    assert!(value::<bool>(&mut b, "SELECT pg_try_advisory_lock(1)"));
    drop(a);
    let watch = Stopwatch::start();
    while !value::<bool>(&mut b, "SELECT pg_try_advisory_lock(0, 1)") {
        assert!(watch.elapsed() < PATIENCE, "the end of a session gives its locks back");
    }
    run(&mut b, "DISCARD ALL");
    assert_eq!(value::<i64>(&mut b, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
}

/// Goal: a wait for an advisory lock ends when the lock is granted, by `lock_timeout`, by `statement_timeout` and by a
/// cancel; a wait that failed leaves no lock behind. Method: each case against one holder, whose session lock survives
/// its transactions.
#[test]
fn waits_end_as_other_waits_do() {
    let server = Server::fresh();
    let mut holder = server.connect();
    run(&mut holder, "BEGIN; SELECT pg_advisory_lock(1)");
    run(&mut holder, "ROLLBACK");
    for (set, code, text) in [
        ("SET lock_timeout = 50", "55P03", "canceling statement due to lock timeout"),
        ("SET statement_timeout = 50", "57014", "canceling statement due to statement timeout"),
    ] {
        let mut client = server.connect();
        run(&mut client, set);
        let error = client.batch_execute("SELECT pg_advisory_lock_shared(1)").unwrap_err();
        assert_eq!((&*state(&error), &*message(&error)), (code, text));
        assert!(!value::<bool>(&mut client, "SELECT pg_advisory_unlock_shared(1)"));
    }
    let cancelled = start(&server, server.connect(), "SELECT pg_advisory_lock(1)");
    let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'";
    let found: i32 = value(&mut holder, waiting);
    assert!(value::<bool>(&mut holder, &format!("SELECT pg_cancel_backend({found})")));
    assert_eq!(state(&cancelled.join().unwrap().1.unwrap_err()), "57014");
    // There are more waiters than server threads, and the holder can still run to release the lock.
    let waiters: Vec<_> =
        (0..12).map(|_| start(&server, server.connect(), "BEGIN; SELECT pg_advisory_xact_lock(1); COMMIT")).collect();
    assert!(value::<bool>(&mut holder, "SELECT pg_advisory_unlock(1)"));
    for waiter in waiters {
        waiter.join().unwrap().1.unwrap();
    }
    assert!(value::<bool>(&mut holder, "SELECT pg_try_advisory_lock(1)"));
}

/// Goal: advisory locks and row locks are in one wait-for graph: a cycle over both is found at once, and the other
/// session goes on after it is broken. Method: one session holds the number and wants the row, the other the reverse;
/// either may be the last to wait. The assertion is about the fastest of at least four rounds, since a slow machine
/// delays any single one.
#[test]
fn deadlock_of_a_number_and_a_row_is_found() {
    let server = Server::fresh();
    run(&mut server.connect(), "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)");
    let (all, mut fastest) = (Stopwatch::start(), Duration::MAX);
    for (round, row_first) in [true, false].into_iter().cycle().enumerate() {
        if round >= 4 && fastest < Duration::from_millis(900) {
            break;
        }
        assert!(all.elapsed() < PATIENCE, "no timer has to run out: {fastest:?}");
        let (mut a, mut b) = (server.connect(), server.connect());
        run(&mut a, "SELECT pg_advisory_lock(1); BEGIN");
        run(&mut b, "BEGIN; UPDATE t SET n = n + 1");
        let wants_row = "UPDATE t SET n = n + 10";
        let wants_number = "SELECT pg_advisory_xact_lock(1)";
        let (first, mut last, last_sql) = if row_first {
            (start(&server, a, wants_row), b, wants_number)
        } else {
            (start(&server, b, wants_number), a, wants_row)
        };
        let watch = Stopwatch::start();
        assert_eq!(state(&last.batch_execute(last_sql).unwrap_err()), "40P01");
        fastest = fastest.min(watch.elapsed());
        run(&mut last, "ROLLBACK; SELECT pg_advisory_unlock_all()");
        let (mut first, result) = first.join().unwrap();
        result.unwrap();
        run(&mut first, "COMMIT; SELECT pg_advisory_unlock_all()");
    }
}

/// Goal: a session that gets a lock sees in its next statement what the previous holder committed. Method: two sessions
/// increment one row under a transaction's lock at READ COMMITTED, by reading a value and then writing its successor.
#[test]
fn counter_under_a_lock_loses_no_count() {
    const ROUNDS: i32 = 200;
    let server = Server::fresh();
    let mut client = server.connect();
    run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)");
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let mut client = server.connect();
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let sync = if round % 2 == 0 { "on" } else { "off" };
                    run(
                        &mut client,
                        &format!("BEGIN; SET LOCAL synchronous_commit = {sync}; SELECT pg_advisory_xact_lock(42)"),
                    );
                    let n: i32 = value(&mut client, "SELECT n FROM t WHERE id = 1");
                    client.execute("UPDATE t SET n = $1 WHERE id = 1", &[&(n + 1)]).unwrap();
                    run(&mut client, "COMMIT");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(value::<i32>(&mut client, "SELECT n FROM t"), 2 * ROUNDS);
}

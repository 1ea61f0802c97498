//! Replication from end to end: two real servers, real clients on both, and kills of either.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use collie_clients_tests::{Place, Server, Stopwatch, program, session::value, state};
use collie_netlab::Port;
use postgres::{Client, NoTls};

/// How long a replica is waited for, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a primary that listens for replicas at `address`; port 0 is any port.
fn primary(place: &Place, address: &str) -> Server {
    Server::start_with(place, &["--replica-listen", address])
}

fn replica(place: &Place, primary: &str) -> Server {
    Server::start_with(place, &["--replica-of", primary])
}

/// Returns every row, or sums over the rows, of the tables that these tests use, as text.
fn contents(client: &mut Client) -> Result<Vec<String>, postgres::Error> {
    let mut all = Vec::new();
    for sql in [
        "SELECT bid || ' ' || bbalance FROM pgbench_branches ORDER BY bid",
        "SELECT tid || ' ' || tbalance FROM pgbench_tellers ORDER BY tid",
        "SELECT count(*) || ' ' || sum(delta) || ' ' || sum(aid) FROM pgbench_history",
        "SELECT count(*) || ' ' || sum(abalance) || ' ' || sum(abalance * (aid % 1009)) FROM pgbench_accounts",
        "SELECT n || ' ' || t FROM notes ORDER BY n",
    ] {
        let rows = client.query(sql, &[])?;
        all.extend(rows.iter().map(|row| row.get::<_, Option<String>>(0).unwrap_or_else(|| "NULL".to_owned())));
    }
    Ok(all)
}

/// Waits until the replica shows what the primary has; nothing is written meanwhile.
fn until_equal(primary: &Server, replica: &Server, what: &str, places: [&Place; 2]) {
    let expected = contents(&mut primary.connect()).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let mut client = replica.connect();
    let start = Stopwatch::start();
    loop {
        // A table that has not arrived yet is an error that goes away.
        let found = contents(&mut client);
        if found.as_ref().is_ok_and(|found| *found == expected) {
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{what}: the replica shows {found:?}, the primary {expected:?}\n--- primary:\n{}--- replica:\n{}",
            places[0].log(),
            places[1].log()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the primary shows that its only replica, which is disconnected, lacks log for more than `owed_us`. That
/// time grows without any message from the replica, and no delay is measured.
fn until_owed(client: &mut Client, owed_us: i64) {
    let start = Stopwatch::start();
    loop {
        let (state, bytes, oldest_us, delay_us): (String, i64, i64, Option<i64>) = (
            value(client, "SELECT state FROM collie_replication"),
            value(client, "SELECT behind_bytes FROM collie_replication"),
            value(client, "SELECT oldest_us FROM collie_replication"),
            value(client, "SELECT delay_us FROM collie_replication WHERE state = 'away' UNION ALL SELECT NULL LIMIT 1"),
        );
        if state == "away" && bytes > 0 && oldest_us > owed_us {
            assert_eq!(delay_us, None);
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{state}, {bytes} bytes and {oldest_us} us behind");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether pgbench's books balance, in one statement and thus one snapshot: each transaction is there whole or
/// not at all.
fn books_balance(client: &mut Client) -> Result<bool, postgres::Error> {
    let row = client.query_one(
        "SELECT (SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches)
              = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
            AND (SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers)
              = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
        &[],
    )?;
    Ok(row.get(0))
}

fn bench(server: &Server) {
    let done = program::pgbench(server, &["-n", "-c", "4", "-j", "2", "-t", "100", "-M", "prepared"]);
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
}

/// Goal: `pg_stat_replication` has lags as intervals, in PostgreSQL's form for monitoring. Method: writes until the
/// replica's readers have seen some; the lags are there, not negative, and below an hour.
#[test]
fn lags_of_a_replica_are_intervals() {
    let (here, there) = (Place::new(), Place::new());
    let server = primary(&here, "127.0.0.1:0");
    let _copy = replica(&there, &Server::replica_address(&here));
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text)").unwrap();
    let shown = "SELECT write_lag >= interval '0' AND flush_lag >= '0' AND replay_lag < interval '1 hour' AND \
         extract(epoch FROM write_lag) < 3600 AND replay_lag::text LIKE '00:%' FROM pg_stat_replication WHERE replay_lag IS NOT NULL \
         AND flush_lag IS NOT NULL AND write_lag IS NOT NULL";
    let start = Stopwatch::start();
    for n in 0.. {
        client.execute("INSERT INTO notes VALUES ($1, 'some')", &[&n]).unwrap();
        let rows = client.query(shown, &[]).unwrap();
        if let [row] = rows.as_slice() {
            assert!(row.get::<_, bool>(0));
            return;
        }
        assert!(start.elapsed() < PATIENCE, "no lags: {}", here.log());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Goal: delays are those of commits: each commit is measured once while the replica keeps up, and a second without
/// commits has no delay, which is not 0; the replica is sent the same figure. Method: a pair that keeps up; a number of
/// commits, one after the other; the seconds before and after them.
#[test]
fn a_second_without_commits_has_no_delay() {
    let (here, there) = (Place::new(), Place::new());
    let server = primary(&here, "127.0.0.1:0");
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text)").unwrap();
    let copy = replica(&there, &Server::replica_address(&here));
    let until = |client: &mut Client, what: &str| {
        let start = Stopwatch::start();
        while !client
            .query(what, &[])
            .is_ok_and(|rows| rows.iter().any(|row| row.get::<_, Option<bool>>(0) == Some(true)))
        {
            assert!(start.elapsed() < PATIENCE, "{what}\n--- primary:\n{}--- replica:\n{}", here.log(), there.log());
            thread::sleep(Duration::from_millis(20));
        }
    };
    let idle = "SELECT count(*) FILTER (WHERE state = 'streaming') > 1 FROM collie_replication_delay";
    until(&mut client, idle);
    let nothing = "SELECT bool_and(commits = 0 AND mean_us IS NULL AND p50_us IS NULL AND max_us IS NULL) FROM collie_replication_delay";
    assert!(value::<bool>(&mut client, nothing), "filling it is no delay");
    assert!(value::<bool>(&mut client, "SELECT delay_us IS NULL AND delay_p99_us IS NULL FROM collie_replication"));
    for n in 0..40 {
        client.execute("INSERT INTO notes VALUES ($1, 'some')", &[&n]).unwrap();
    }
    until(&mut client, "SELECT measured_commits = 40 AND measured_us >= 0 FROM collie_replication");
    until(
        &mut client,
        "SELECT delay_us >= 0 AND delay_p50_us <= delay_p99_us AND delay_commits = 40 FROM collie_replication",
    );
    let counted =
        "SELECT sum(commits) = 40 AND bool_and((commits > 0) = (mean_us IS NOT NULL)) FROM collie_replication_delay";
    until(&mut client, counted);
    until(&mut copy.connect(), "SELECT delay_us >= 0 AND oldest_us = 0 FROM collie_following");
    until(&mut client, "SELECT delay_us IS NULL AND delay_commits = 40 FROM collie_replication");
}

/// Goal: a replica fills its empty directory, follows, shows whole transactions only, refuses writes, and has the same
/// rows as the primary after a kill of either; while it is disconnected, the time that it lags grows too. Method:
/// pgbench on the primary while the replica is read; SIGKILL of the replica and of the primary, with writes before and
/// after; every row compared.
#[test]
fn replica_has_the_primarys_rows_after_kills_of_either() {
    let (here, there) = (Place::new(), Place::new());
    // The primary gets the same address after a restart, where its replica looks for it.
    let port = Port::keep().unwrap();
    let address = port.address().to_string();
    let server = primary(&here, &address);
    let made = program::pgbench(&server, &["-i", "-s", "1", "-q"]);
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text); CHECKPOINT").unwrap();
    client.batch_execute("INSERT INTO notes VALUES (1, 'in the log behind the levels')").unwrap();
    let places = [&here, &there];

    let copy = replica(&there, &address);
    until_equal(&server, &copy, "after the base backup", places);
    let refused = copy.connect().batch_execute("INSERT INTO notes VALUES (2, 'no')").unwrap_err();
    assert_eq!(state(&refused), "25006", "{refused:?}");

    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = copy.connect();
            while !done.load(Ordering::Relaxed) {
                assert!(books_balance(&mut client).unwrap(), "half a transaction is shown");
                begun.store(true, Ordering::Relaxed);
            }
        });
        let start = Stopwatch::start();
        while !begun.load(Ordering::Relaxed) {
            assert!(start.elapsed() < PATIENCE, "the replica is not read: {}", there.log());
            thread::sleep(Duration::from_millis(1));
        }
        bench(&server);
        done.store(true, Ordering::Relaxed);
    });
    client
        .batch_execute(
            "CREATE INDEX ON notes (t); INSERT INTO notes SELECT n, 'row ' || n FROM generate_series(10, 99) AS n",
        )
        .unwrap();
    until_equal(&server, &copy, "after pgbench", places);

    copy.kill();
    bench(&server);
    until_owed(&mut client, 2_000_000);
    let copy = replica(&there, &address);
    until_equal(&server, &copy, "after a kill of the replica", places);

    server.kill();
    assert!(books_balance(&mut copy.connect()).unwrap(), "without its primary a replica answers");
    let server = primary(&here, &address);
    server.connect().batch_execute("UPDATE notes SET t = 'after the kill' WHERE n < 20").unwrap();
    bench(&server);
    until_equal(&server, &copy, "after a kill of the primary", places);
    assert_eq!(copy.stop().code(), Some(0), "{}", there.log());
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Goal: a directory with another database is refused as a replica, with a reason, and does not change. Method: an
/// independent database started as the replica of another one.
#[test]
fn a_foreign_directory_is_refused_with_a_reason() {
    let (here, there) = (Place::new(), Place::new());
    let server = primary(&here, "127.0.0.1:0");
    let address = Server::replica_address(&here);
    let other = Server::start(&there);
    other.connect().batch_execute("CREATE TABLE mine (n int)").unwrap();
    assert_eq!(other.stop().code(), Some(0));
    let copy = Server::start_with(&there, &["--replica-of", &address]);
    let start = Stopwatch::start();
    while !there.log().contains("the replica belongs to database") {
        assert!(start.elapsed() < PATIENCE, "{}", there.log());
        thread::sleep(Duration::from_millis(20));
    }
    drop(copy);
    let other = Server::start(&there);
    assert_eq!(other.connect().query("SELECT * FROM mine", &[]).unwrap().len(), 0);
    drop(server);
}

/// Goal: only replicas can use the port for replicas. Method: a plain client.
#[test]
fn a_client_on_the_port_for_replicas_is_refused() {
    let place = Place::new();
    let _server = primary(&place, "127.0.0.1:0");
    let address = Server::replica_address(&place);
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(port).user("collie").dbname("collie");
    let error = config.connect(NoTls).err().expect("it is refused");
    assert_eq!(state(&error), "0A000", "{error:?}");
}

//! Replication slots from end to end: how much log a primary keeps for a disconnected replica, and for how long.

use std::{thread, time::Duration};

use collie_clients_tests::{Place, Server, Stopwatch, session::value, state};
use postgres::{Client, NoTls};

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Small log files, so that a slot's limit is soon reached; 9 MiB is the minimum for the number of sessions that can
/// write.
const SMALL: [&str; 8] = [
    "--set",
    "wal.ring_size=256KiB",
    "--set",
    "wal.flush_bytes=128KiB",
    "--set",
    "wal.segment_size=9MiB",
    "--set",
    "replication.slot_bytes=10MiB",
];

fn primary(place: &Place, address: &str, more: &[&str]) -> Server {
    Server::start_with(place, &[&["--replica-listen", address], &SMALL[..], more].concat())
}

fn replica(place: &Place, primary: &str) -> Server {
    let arguments = ["--replica-of", primary, "--set", "replication.slot=north", "--set", "replication.timeout=1s"];
    Server::start_with(place, &arguments)
}

/// Opens a session on a server that may still be opening its database.
fn session(server: &Server, place: &Place) -> Client {
    let start = Stopwatch::start();
    loop {
        match server.config().connect(NoTls) {
            Ok(client) => return client,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error:?}\n{}", place.log()),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until `sql` returns `expected`; errors are retried.
fn until(client: &mut Client, sql: &str, expected: &str, places: [&Place; 2]) {
    let start = Stopwatch::start();
    loop {
        let found = client.query_one(sql, &[]).map(|row| row.get::<_, Option<String>>(0));
        if found.as_ref().is_ok_and(|found| found.as_deref() == Some(expected)) {
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{sql}: {found:?} instead of {expected}\n--- primary:\n{}--- replica:\n{}",
            places[0].log(),
            places[1].log()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Writes about 10 MB.
fn write_much(client: &mut Client, from: i32) {
    let sql =
        format!("INSERT INTO notes SELECT n, repeat('x', 99000) FROM generate_series({from}, {}) AS n", from + 99);
    client.batch_execute(&sql).expect("the primary writes");
}

/// Returns the number of bytes in the files of the log.
fn log_bytes(place: &Place) -> u64 {
    let names = std::fs::read_dir(place.data().join("wal")).expect("the log is there");
    let segments = names.flatten().filter(|name| name.path().extension().is_some_and(|extension| extension == "wal"));
    segments.map(|name| name.metadata().map_or(0, |metadata| metadata.len())).sum()
}

/// Goal: a replica that does not return costs its primary no more disk than its slot may keep. After a restart of the
/// primary the slot is known, with its replica, before the replica connects. The slot expires, which is shown and
/// logged; once dropped it is gone. Method: a replica that is killed, restarts of the primary, and several times as
/// much log as a slot may keep, with checkpoints that release it.
#[test]
fn a_dead_replica_never_fills_its_primarys_disk() {
    let (here, there) = (Place::new(), Place::new());
    let places = [&here, &there];
    let server = primary(&here, "127.0.0.1:0", &[]);
    let address = Server::replica_address(&here);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text)").unwrap();
    let copy = replica(&there, &address);
    until(&mut client, "SELECT state FROM collie_slots", "streaming", places);
    let used = client.query("SELECT pg_drop_replication_slot('north')", &[]).unwrap_err();
    assert_eq!(state(&used), "55006", "{used:?}");
    let shown = "SELECT slot || ' ' || node || ' ' || (durable_lsn IS NOT NULL) FROM collie_slots";
    let before: String = value(&mut client, shown);
    copy.kill();
    until(&mut client, "SELECT state FROM collie_slots", "away", places);
    // A kill might lose the newest changes of the state of slots.
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());

    let server = primary(&here, "127.0.0.1:0", &[]);
    let mut client = server.connect();
    assert_eq!(value::<String>(&mut client, shown), before);
    assert_eq!(value::<String>(&mut client, "SELECT state FROM collie_slots"), "away");
    assert_eq!(
        value::<String>(&mut client, "SELECT wal_status FROM pg_replication_slots WHERE NOT active"),
        "reserved"
    );
    for part in 0..8 {
        write_much(&mut client, part * 100);
        client.batch_execute("CHECKPOINT").unwrap();
    }
    until(&mut client, "SELECT expired_by FROM collie_slots", "bytes", places);
    assert_eq!(value::<String>(&mut client, "SELECT wal_status FROM pg_replication_slots"), "lost");
    here.until_said("replication slot north is expired");
    // Only the log that a slot may keep, the current file, the prepared ones and the one in which the limit is reached
    // remain.
    client.batch_execute("CHECKPOINT; CHECKPOINT").unwrap();
    let start = Stopwatch::start();
    while log_bytes(&here) > 56 << 20 {
        assert!(start.elapsed() < PATIENCE, "{} bytes of log are kept", log_bytes(&here));
        write_much(&mut client, 1000);
        client.batch_execute("DELETE FROM notes WHERE n >= 1000; CHECKPOINT").unwrap();
    }
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());

    let server = primary(&here, "127.0.0.1:0", &[]);
    let mut client = server.connect();
    assert_eq!(value::<String>(&mut client, "SELECT state FROM collie_slots"), "expired");
    client.batch_execute("SELECT pg_drop_replication_slot('north')").unwrap();
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM collie_slots"), 0);
    let gone = client.query("SELECT pg_drop_replication_slot('north')", &[]).unwrap_err();
    assert_eq!(state(&gone), "42704", "{gone:?}");
    server.kill();
    let server = primary(&here, "127.0.0.1:0", &[]);
    assert_eq!(value::<i64>(&mut server.connect(), "SELECT count(*) FROM pg_replication_slots"), 0);
}

/// Goal: a slot that is unused for its age expires although little is written. Method: an age that is long enough for
/// the replica to follow; then a kill of the replica.
#[test]
fn an_unused_slot_expires_by_its_age() {
    let (here, there) = (Place::new(), Place::new());
    let places = [&here, &there];
    let server = primary(&here, "127.0.0.1:0", &["--set", "replication.slot_age=5s"]);
    let copy = replica(&there, &Server::replica_address(&here));
    let mut client = server.connect();
    until(&mut client, "SELECT state FROM collie_slots", "streaming", places);
    copy.kill();
    until(&mut client, "SELECT expired_by FROM collie_slots", "age", places);
    let kept = "SELECT kept_bytes || ' ' || (restart_lsn IS NULL) FROM collie_slots";
    until(&mut client, kept, "0 true", places);
}

/// Goal: a replica whose log its primary no longer keeps is rebuilt without a person, at the same address, under the
/// same name, and without leftovers of the previous database; so is one whose new process finds this at its start.
/// Method: a replica that is stopped (SIGSTOP) while its slot expires, and resumed; then one that is killed meanwhile
/// and started again.
#[test]
fn a_replica_that_lost_its_place_is_filled_anew_by_itself() {
    let (here, there) = (Place::new(), Place::new());
    let places = [&here, &there];
    let server = primary(&here, "127.0.0.1:0", &["--set", "replication.timeout=1s"]);
    let address = Server::replica_address(&here);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text)").unwrap();
    let copy = replica(&there, &address);
    let sum = "SELECT count(*) || ' ' || sum(n) || ' ' || sum(length(t)) FROM notes";
    let until_equal = |client: &mut Client, copy: &Server| {
        let expected: String = value(client, sum);
        let start = Stopwatch::start();
        loop {
            // During a rebuild the replica accepts no session.
            let asked = copy.config().connect(postgres::NoTls).and_then(|mut client| client.query_one(sum, &[]));
            match asked.map(|row| row.get::<_, Option<String>>(0)) {
                Ok(Some(found)) if found == expected => return,
                Err(error) if error.as_db_error().is_some() => {
                    let state = state(&error);
                    assert!(["57P03", "57P01", "42P01"].contains(&&*state), "{error:?}");
                }
                _ => {}
            }
            assert!(start.elapsed() < PATIENCE, "--- primary:\n{}--- replica:\n{}", here.log(), there.log());
            thread::sleep(Duration::from_millis(20));
        }
    };
    let expire = |client: &mut Client, part: i32| {
        until(client, "SELECT state FROM collie_slots", "away", places);
        for part in part..part + 3 {
            write_much(client, part * 100);
            client.batch_execute("CHECKPOINT").unwrap();
        }
        until(client, "SELECT expired_by FROM collie_slots", "bytes", places);
    };
    client.batch_execute("INSERT INTO notes VALUES (-1, 'first')").unwrap();
    until_equal(&mut client, &copy);
    let node: String = value(&mut client, "SELECT node FROM collie_slots");

    copy.pause();
    expire(&mut client, 0);
    copy.go_on();
    until_equal(&mut client, &copy);
    there.until_said("rebuilding it");
    until(&mut client, "SELECT state FROM collie_slots WHERE expired_by IS NULL", "streaming", places);

    copy.kill();
    expire(&mut client, 10);
    let copy = replica(&there, &address);
    until_equal(&mut client, &copy);
    assert_eq!(value::<String>(&mut client, "SELECT node FROM collie_slots"), node, "it is the same node");
    client.batch_execute("INSERT INTO notes VALUES (-2, 'last')").unwrap();
    until_equal(&mut client, &copy);
    let names = std::fs::read_dir(there.data()).unwrap().flatten().map(|name| name.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("copy-")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(copy.stop().code(), Some(0), "{}", there.log());
}

/// Goal: log above a slot's bound, which the primary keeps for itself, causes a single copy, and the copied replica
/// streams although its own log may be as long (T195, T196). Method: four times the bound, without a checkpoint; a
/// replica that returns, and a new one.
#[test]
fn log_beyond_a_slots_bound_ends_in_one_copy() {
    let (here, there, new) = (Place::new(), Place::new(), Place::new());
    let places = [&here, &there];
    let server = primary(&here, "127.0.0.1:0", &["--set", "wal.max_total_wal_size=1GiB"]);
    let address = Server::replica_address(&here);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text)").unwrap();
    let copy = replica(&there, &address);
    until(&mut client, "SELECT state FROM collie_slots", "streaming", places);
    copy.kill();
    until(&mut client, "SELECT state FROM collie_slots", "away", places);
    for part in 0..4 {
        write_much(&mut client, part * 100);
    }
    until(&mut client, "SELECT expired_by FROM collie_slots", "bytes", places);
    let _copy = replica(&there, &address);
    until(&mut client, "SELECT state FROM collie_slots WHERE expired_by IS NULL", "streaming", places);
    let _other = Server::start_with(&new, &["--replica-of", &address, "--set", "replication.slot=south"]);
    until(&mut client, "SELECT state FROM collie_slots WHERE slot = 'south'", "streaming", [&here, &new]);
    for (place, copies) in [(&there, 2), (&new, 1)] {
        assert_eq!(place.log().matches("copied ").count(), copies, "{}", place.log());
    }
    here.until_said(
        "replication slot north is expired: more log would be kept for its replica than replication.slot_bytes",
    );
}

/// Goal: a replica that may not rebuild itself goes on answering from the data that it has, and says in one line what
/// to do. Method: a replica that is killed until its slot has expired, and started without permission to rebuild; then
/// with permission.
#[test]
fn a_replica_without_leave_to_be_filled_answers_and_says_what_to_do() {
    let (here, there) = (Place::new(), Place::new());
    let places = [&here, &there];
    let server = primary(&here, "127.0.0.1:0", &[]);
    let address = Server::replica_address(&here);
    let mut client = server.connect();
    client
        .batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text); INSERT INTO notes VALUES (-1, 'first')")
        .unwrap();
    let copy = replica(&there, &address);
    until(&mut client, "SELECT state FROM collie_slots", "streaming", places);
    until(&mut copy.connect(), "SELECT t FROM notes", "first", places);
    copy.kill();
    until(&mut client, "SELECT state FROM collie_slots", "away", places);
    for part in 0..3 {
        write_much(&mut client, part * 100);
        client.batch_execute("CHECKPOINT").unwrap();
    }
    until(&mut client, "SELECT expired_by FROM collie_slots", "bytes", places);
    let by_hand =
        ["--replica-of", &*address, "--set", "replication.slot=north", "--set", "replication.auto_rebuild=false"];
    let copy = Server::start_with(&there, &by_hand);
    there.until_said("replication.auto_rebuild is off: start it with replication.auto_rebuild=true");
    assert_eq!(value::<String>(&mut session(&copy, &there), "SELECT t FROM notes"), "first");
    assert_eq!(copy.stop().code(), Some(0), "{}", there.log());
    let copy = replica(&there, &address);
    until(&mut client, "SELECT state FROM collie_slots WHERE expired_by IS NULL", "streaming", places);
    until(&mut session(&copy, &there), "SELECT count(*)::text FROM notes", "301", places);
}

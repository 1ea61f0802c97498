//! Commits that wait for replicas, from end to end: real servers and clients, replicas killed one after the other.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use collie_clients_tests::{Place, Server, Stopwatch, session::value, state};
use postgres::{Client, NoTls, error::DbError};

/// How long anything is waited for: far beyond what it takes on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done`.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Stopwatch::start();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a primary that asks for `quorum`, with a table that no replica was waited for.
fn primary(place: &Place, quorum: &str, more: &[&str]) -> (Server, String) {
    let quorum = format!("replication.quorum={quorum}");
    let arguments = [&["--replica-listen", "127.0.0.1:0", "--set", &quorum], more].concat();
    let server = Server::start_with(place, &arguments);
    let address = Server::replica_address(place);
    server
        .connect()
        .batch_execute("SET synchronous_commit = local; CREATE TABLE t (n int PRIMARY KEY)")
        .expect("no replica is waited for");
    (server, address)
}

fn replica(place: &Place, primary: &str, slot: &str) -> Server {
    Server::start_with(place, &["--replica-of", primary, "--set", &format!("replication.slot={slot}")])
}

/// A client, and the warnings that it gets.
fn warned(server: &Server) -> (Client, Arc<Mutex<Vec<DbError>>>) {
    let warnings: Arc<Mutex<Vec<DbError>>> = Arc::default();
    let kept = warnings.clone();
    let mut config = server.config();
    config.notice_callback(move |notice| kept.lock().expect("nobody panics").push(notice));
    (config.connect(NoTls).expect("it serves"), warnings)
}

/// Inserts a row; returns the code of the warning that came with the reply, if one did.
fn insert(client: &mut Client, warnings: &Mutex<Vec<DbError>>, n: i32) -> Option<String> {
    warnings.lock().expect("nobody panics").clear();
    client.batch_execute(&format!("INSERT INTO t VALUES ({n})")).expect("a warning is no error");
    let came = std::mem::take(&mut *warnings.lock().expect("nobody panics"));
    assert!(came.len() <= 1, "{came:?}");
    came.first().map(|warning| warning.code().code().to_owned())
}

fn rows(server: &Server) -> i64 {
    // Of a replica that has not come to the table yet.
    server.connect().query_one("SELECT count(*) FROM t", &[]).map_or(-1, |row| row.get(0))
}

/// Goal: a commit waits for as many of the named replicas as are asked for, at each level; with too few it waits, is shown to nobody,
/// and a cancel replies COMMIT with a warning and shows it. Method: two replicas, one needed; one is killed, then the other; a session
/// that waits is cancelled by another.
#[test]
fn a_commit_waits_for_its_quorum_and_a_cancel_says_what_it_lacks() {
    let (here, one, other) = (Place::new(), Place::new(), Place::new());
    let (server, address) = primary(&here, "ANY 1 (a, b)", &[]);
    let (a, b) = (replica(&one, &address, "a"), replica(&other, &address, "b"));
    let (mut client, warnings) = warned(&server);
    let shown: String = value(&mut client, "SHOW synchronous_standby_names");
    assert_eq!(shown, "ANY 1 (a, b)");
    for (n, level) in ["off", "local", "remote_write", "on", "remote_flush", "remote_apply"].iter().enumerate() {
        client.batch_execute(&format!("SET synchronous_commit = {level}")).unwrap();
        assert_eq!(insert(&mut client, &warnings, i32::try_from(n).unwrap()), None, "{level}");
    }
    assert!(rows(&a) == 6 || rows(&b) == 6, "a replica shows what remote_apply has replied to");
    client.batch_execute("SET synchronous_commit = on").unwrap();

    a.kill();
    assert_eq!(insert(&mut client, &warnings, 10), None, "the other one is enough");
    b.kill();
    let pid: i32 = value(&mut client, "SELECT pg_backend_pid()");
    let waiting = thread::spawn(move || {
        let came = insert(&mut client, &warnings, 11);
        (client, warnings, came)
    });
    let mut reader = server.connect();
    let is_waiting = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT%(11)'";
    until("the commit begins", || value::<i64>(&mut reader, is_waiting) == 1);
    thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "nobody has confirmed it");
    assert_eq!(rows(&server), 7, "a failover may take it back: it is shown to nobody");
    let (mut local, silent) = warned(&server);
    local.batch_execute("SET synchronous_commit = local").unwrap();
    assert!(value::<bool>(&mut reader, &format!("SELECT pg_cancel_backend({pid})")));
    let (mut client, warnings, came) = waiting.join().expect("it is answered");
    assert_eq!(came.as_deref(), Some("01000"));
    assert_eq!(rows(&server), 8, "it was answered, so it is shown");
    assert_eq!(insert(&mut local, &silent, 12), None, "who asks for no replica waits for none");

    let a = replica(&one, &address, "a");
    assert_eq!(insert(&mut client, &warnings, 13), None, "the session goes on, and so does the quorum");
    until("the replica has all of it", || rows(&a) == 10);
    // A replica that gives up its connection at each commit and comes again looks well from outside.
    for place in [&here, &one, &other] {
        assert!(!place.log().contains("panicked"), "{}", place.log());
    }
    assert_eq!(a.stop().code(), Some(0), "{}", one.log());
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Goal: a commit that has waited long enough for replicas is answered with 08007 and its token, and stands; the session goes on.
/// Method: no replica ever comes.
#[test]
fn a_commit_whose_time_for_replicas_is_over_stands() {
    let place = Place::new();
    let (server, _) = primary(&place, "ANY 2 (a, b)", &["--set", "replication.sync_timeout=50ms"]);
    let mut client = server.connect();
    for n in [1, 2] {
        let error = client.batch_execute(&format!("INSERT INTO t VALUES ({n})")).unwrap_err();
        assert_eq!(state(&error), "08007", "{error:?}");
        let detail = error.as_db_error().and_then(DbError::detail).unwrap_or_default();
        assert!(detail.contains("Token ") && detail.contains("is committed"), "{detail}");
        assert_eq!(rows(&server), i64::from(n));
    }
    client.batch_execute("BEGIN; SELECT * FROM t; COMMIT").unwrap();
    assert_eq!(server.stop().code(), Some(0), "{}", place.log());
}

/// Goal: lost redundancy is made do without only in the open: a line, the view, a warning with each commit; it comes back by itself.
/// Method: no replica at first, then one.
#[test]
fn degraded_commits_say_so_until_the_quorum_is_back() {
    let (here, there) = (Place::new(), Place::new());
    let (server, address) = primary(&here, "a", &["--set", "replication.degrade=after 200ms"]);
    let (mut client, warnings) = warned(&server);
    for n in [1, 2, 3] {
        assert_eq!(insert(&mut client, &warnings, n).as_deref(), Some("01000"), "{}", here.log());
    }
    here.until_said("replication is degraded: 0 of ANY 1 (a) are connected");
    client.batch_execute("SET synchronous_commit = local").unwrap();
    assert_eq!(insert(&mut client, &warnings, 4), None, "it asked for no replica");
    client.batch_execute("SET synchronous_commit = on").unwrap();
    let copy = replica(&there, &address, "a");
    until("the quorum is back", || here.log().contains("replication is whole again"));
    assert_eq!(insert(&mut client, &warnings, 5), None);
    until("the replica has all of it", || rows(&copy) == 5);
    let changes = |log: &str| log.matches("replication is ").count();
    assert_eq!(changes(&here.log()), 2, "{}", here.log());
    drop(copy);
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Goal: what cannot be is refused at the start with a reason. Method: a quorum of a server that serves no replicas; more than are named.
#[test]
fn a_quorum_that_cannot_be_is_refused_at_the_start() {
    for (arguments, part) in [
        (&["--set", "replication.quorum=a"][..], "none are served: give --replica-listen"),
        (&["--replica-listen", "127.0.0.1:0", "--set", "replication.quorum=ANY 2 (a)"], "SQLSTATE 22023"),
    ] {
        let place = Place::new();
        let refused = Server::refused(&place.data(), arguments);
        assert!(refused.line().contains(part), "{}", refused.line());
    }
}

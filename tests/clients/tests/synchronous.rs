//! Commits that wait for replicas, from end to end: real servers and clients, and replicas that are killed one after
//! the other.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use collie_clients_tests::{Place, Server, Stopwatch, program, session::value, state};
use collie_netlab::Port;
use postgres::{Client, NoTls, error::DbError};

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done` returns true.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Stopwatch::start();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a primary with the list `quorum` and creates a table without waiting for replicas. The port is the one where
/// it listens for replicas.
fn primary(place: &Place, quorum: &str, more: &[&str]) -> (Server, Port) {
    let port = Port::keep().expect("a free port");
    let (address, quorum) = (port.address().to_string(), format!("replication.quorum={quorum}"));
    let arguments = [&["--replica-listen", &address, "--set", &quorum], more].concat();
    let server = Server::start_with(place, &arguments);
    server
        .connect()
        .batch_execute("SET synchronous_commit = local; CREATE TABLE t (n int PRIMARY KEY)")
        .expect("no replica is waited for");
    (server, port)
}

fn replica(place: &Place, primary: &Port, slot: &str) -> Server {
    let (primary, slot) = (primary.address().to_string(), format!("replication.slot={slot}"));
    Server::start_with(place, &["--replica-of", &primary, "--set", &slot])
}

/// Returns a client, and the warnings that it gets.
fn warned(server: &Server) -> (Client, Arc<Mutex<Vec<DbError>>>) {
    let warnings: Arc<Mutex<Vec<DbError>>> = Arc::default();
    let kept = warnings.clone();
    let mut config = server.config();
    config.notice_callback(move |notice| kept.lock().expect("nobody panics").push(notice));
    (config.connect(NoTls).expect("it serves"), warnings)
}

/// Inserts a row; returns the SQLSTATE of the warning that came with the reply, if any.
fn insert(client: &mut Client, warnings: &Mutex<Vec<DbError>>, n: i32) -> Option<String> {
    warnings.lock().expect("nobody panics").clear();
    client.batch_execute(&format!("INSERT INTO t VALUES ({n})")).expect("a warning is no error");
    let came = std::mem::take(&mut *warnings.lock().expect("nobody panics"));
    assert!(came.len() <= 1, "{came:?}");
    came.first().map(|warning| warning.code().code().to_owned())
}

fn rows(server: &Server) -> i64 {
    // -1: a replica that has no such table yet.
    server.connect().query_one("SELECT count(*) FROM t", &[]).map_or(-1, |row| row.get(0))
}

/// Goal: at each level a commit waits for as many of the listed replicas as the quorum needs. With too few it waits and
/// no reader sees it; a cancel makes the server reply COMMIT with a warning and show the commit. Method: two replicas,
/// one of them needed; kill one, then the other; another session cancels the waiting one.
#[test]
fn a_commit_waits_for_its_quorum_and_a_cancel_says_what_it_lacks() {
    let (here, one, other) = (Place::new(), Place::new(), Place::new());
    let (server, port) = primary(&here, "ANY 1 (a, b)", &[]);
    let (a, b) = (replica(&one, &port, "a"), replica(&other, &port, "b"));
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

    let a = replica(&one, &port, "a");
    assert_eq!(insert(&mut client, &warnings, 13), None, "the session goes on, and so does the quorum");
    until("the replica has all of it", || rows(&a) == 10);
    // From outside, a replica that drops its connection at each commit and connects again looks healthy.
    for place in [&here, &one, &other] {
        assert!(!place.log().contains("panicked"), "{}", place.log());
    }
    assert_eq!(a.stop().code(), Some(0), "{}", one.log());
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Goal: a commit that has waited for replicas as long as allowed is answered with 08007 and its token, and stands; the
/// session goes on. Method: no replica ever connects.
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

/// Goal: a primary that degrades always says so: with a line in the log, in the view, and with a warning for each
/// commit; it recovers by itself. Method: no replica at first, then one.
#[test]
fn degraded_commits_say_so_until_the_quorum_is_back() {
    let (here, there) = (Place::new(), Place::new());
    // The limit is above the time that a replica may need for a confirmation on a busy machine, or the primary would
    // degrade again.
    let (server, port) = primary(&here, "a", &["--set", "replication.degrade=after 5s"]);
    let (mut client, warnings) = warned(&server);
    for n in [1, 2, 3] {
        assert_eq!(insert(&mut client, &warnings, n).as_deref(), Some("01000"), "{}", here.log());
    }
    here.until_said("replication is degraded: 0 of ANY 1 (a) are connected");
    client.batch_execute("SET synchronous_commit = local").unwrap();
    assert_eq!(insert(&mut client, &warnings, 4), None, "it asked for no replica");
    client.batch_execute("SET synchronous_commit = on").unwrap();
    let copy = replica(&there, &port, "a");
    until("the quorum is back", || here.log().contains("replication is whole again"));
    assert_eq!(insert(&mut client, &warnings, 5), None);
    until("the replica has all of it", || rows(&copy) == 5);
    let changes = |log: &str| log.matches("replication is ").count();
    assert_eq!(changes(&here.log()), 2, "{}", here.log());
    drop(copy);
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Returns state, list and previous list from `collie_quorum`, or `None` without a list.
fn quorum(client: &mut Client) -> Option<(String, String, Option<String>)> {
    let row = client.query_opt("SELECT state, quorum, list_before FROM collie_quorum", &[]).expect("it is served");
    row.map(|row| (row.get(0), row.get(1), row.get(2)))
}

fn standing(state: &str, list: &str, before: Option<&str>) -> Option<(String, String, Option<String>)> {
    Some((state.to_owned(), list.to_owned(), before.map(str::to_owned)))
}

fn set_quorum(client: &mut Client, list: &str) {
    client.batch_execute(&format!("CALL collie_set_option('replication.quorum', '{list}')")).expect("it is set");
}

/// Goal: the quorum list can change while the server runs, also to and from none. A commit that waits then needs the
/// old list and the new one, both of which are shown meanwhile; after the change the new list is enough; no reply has a
/// warning. Method: from none to one replica; to another one while the first is dead and a commit waits, which ends
/// when the first is back; to none without any replica.
#[test]
fn who_is_asked_changes_while_commits_wait() {
    let (here, one, other) = (Place::new(), Place::new(), Place::new());
    let (server, port) = primary(&here, "", &[]);
    let (a, b) = (replica(&one, &port, "a"), replica(&other, &port, "b"));
    let (mut client, warnings) = warned(&server);
    let mut boss = server.connect();
    assert_eq!(quorum(&mut boss), None);
    assert_eq!(insert(&mut client, &warnings, 1), None);
    for (list, code) in [("ANY 2 (a)", "22023"), ("*", "0A000"), ("FIRST 1 (a, b)", "0A000")] {
        let call = format!("CALL collie_set_option('synchronous_standby_names', '{list}')");
        assert_eq!(state(&boss.batch_execute(&call).expect_err(list)), code, "{list}");
    }
    let refused = b.connect().batch_execute("CALL collie_set_option('replication.quorum', 'a')");
    assert_eq!(refused.map_err(|error| state(&error)), Err("55000".to_owned()), "it serves no replicas");
    let waits_for = |boss: &mut Client, list: &str| {
        until(list, || quorum(boss) == standing("whole", list, None));
        assert_eq!(value::<String>(boss, "SHOW synchronous_standby_names"), list);
    };
    set_quorum(&mut boss, "ANY 1 (a)");
    waits_for(&mut boss, "ANY 1 (a)");
    assert_eq!(insert(&mut client, &warnings, 2), None);

    a.kill();
    let waiting = thread::spawn(move || {
        let came = insert(&mut client, &warnings, 3);
        (client, warnings, came)
    });
    let is_waiting = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT%(3)'";
    until("the commit begins", || value::<i64>(&mut boss, is_waiting) == 1);
    set_quorum(&mut boss, "ANY 1 (b)");
    let has_it = "SELECT bool_and(flush_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication";
    until("the new list has it", || value::<Option<bool>>(&mut boss, has_it) == Some(true));
    thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "the old list has not got it");
    let both = standing("short", "ANY 1 (b)", Some("ANY 1 (a)"));
    until("it is seen that the old one is gone", || quorum(&mut boss) == both);
    assert_eq!(rows(&server), 2, "it is shown to nobody");
    let status = program::collie(&["status", &server.url()], "");
    assert_eq!(status.code, Some(1), "commits wait");
    assert!(status.out.contains("quorum ANY 1 (b), and ANY 1 (a) until both have"), "{}", status.out);

    let a = replica(&one, &port, "a");
    waits_for(&mut boss, "ANY 1 (b)");
    let (mut client, warnings, came) = waiting.join().expect("it is answered");
    assert_eq!(came, None, "it was confirmed by both");
    a.kill();
    assert_eq!(insert(&mut client, &warnings, 4), None, "the new list is enough");
    set_quorum(&mut boss, "");
    until("nobody is asked", || quorum(&mut boss).is_none());
    assert_eq!(value::<String>(&mut boss, "SHOW synchronous_standby_names"), "");
    b.kill();
    assert_eq!((insert(&mut client, &warnings, 5), rows(&server)), (None, 5), "nobody is asked, so nobody is missed");
    assert!(!here.log().contains("panicked"), "{}", here.log());
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Goal: a change of the list survives a kill, also in the middle of the change, if the server is started with its
/// previous arguments; other arguments start another change. Method: a change to a replica that is not there, a kill
/// and the same arguments; the replica connects; other arguments.
#[test]
fn a_changed_list_outlives_a_kill_and_the_words_of_before() {
    let (here, there) = (Place::new(), Place::new());
    let (server, port) = primary(&here, "", &[]);
    set_quorum(&mut server.connect(), "ANY 1 (a)");
    let both = standing("short", "ANY 1 (a)", Some(""));
    assert_eq!(quorum(&mut server.connect()), both, "no replica has the record");
    server.kill();
    let start = |list: &str| {
        let (address, quorum) = (port.address().to_string(), format!("replication.quorum={list}"));
        Server::start_with(&here, &["--replica-listen", &address, "--set", &quorum])
    };
    let server = start("");
    assert_eq!(quorum(&mut server.connect()), both, "{}", here.log());
    let copy = replica(&there, &port, "a");
    let mut boss = server.connect();
    until("the change is over", || quorum(&mut boss) == standing("whole", "ANY 1 (a)", None));
    let (mut client, warnings) = warned(&server);
    assert_eq!(insert(&mut client, &warnings, 1), None);
    server.kill();
    let server = start("ANY 1 (a, b)");
    let mut boss = server.connect();
    until("the words were changed", || quorum(&mut boss) == standing("whole", "ANY 1 (a, b)", None));
    let (mut client, warnings) = warned(&server);
    assert_eq!((insert(&mut client, &warnings, 2), rows(&server)), (None, 2));
    drop(copy);
    assert_eq!(server.stop().code(), Some(0), "{}", here.log());
}

/// Goal: an impossible quorum is refused at the start with a reason. Method: a quorum on a server that serves no
/// replicas; more nodes than are listed.
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

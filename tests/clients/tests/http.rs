//! The HTTP port for monitoring: the figures in Prometheus' format, the reasons why a server is not ready, and the
//! answers to malformed requests.

use std::{collections::BTreeSet, io::Write as _, net::TcpListener, thread, time::Duration};

use collie_clients_tests::{
    Place, Server, Starting, Stopwatch, http,
    metrics::Metrics,
    session::{run, value},
    state,
};
use collie_netlab::Port;

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Stopwatch::start();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn metrics(place: &Place) -> Metrics {
    let answer = http::get(Server::http_address(place), "/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    Metrics::read(&answer.body).unwrap_or_else(|error| panic!("{error}\n{}", answer.body))
}

/// Goal: Prometheus accepts the figures of a primary and of a replica; counters follow the work and never go back; the
/// figures are those that `docs/http.md` lists. Method: a strict parser; transactions, a checkpoint and a replica
/// between two reads.
#[test]
fn figures_are_strict_text_and_move_with_what_is_done() {
    let (here, there) = (Place::new(), Place::new());
    let copies = format!("wal.copies={}", here.beside("copy").display());
    let quorum = ["--replica-listen", "127.0.0.1:0", "--set", "replication.quorum=north", "--set", &copies];
    let server = Server::start_with(&here, &[&HTTP[..], &quorum].concat());
    let mut client = server.connect();
    run(&mut client, "SET synchronous_commit = local; CREATE TABLE t (n int PRIMARY KEY)");
    let before = metrics(&here);
    assert_eq!([before.value("collie_primary"), before.value("collie_quorum_short")], [1.0, 1.0]);
    assert_eq!(before.value("collie_quorum_changing"), 0.0);

    let primary = Server::replica_address(&here);
    let arguments = ["--replica-of", &primary, "--set", "replication.slot=north"];
    let _copy = Server::start_with(&there, &[&HTTP[..], &arguments].concat());
    for n in 0..10 {
        run(&mut client, &format!("INSERT INTO t VALUES ({n})"));
    }
    for _ in 0..3 {
        run(&mut client, "BEGIN; INSERT INTO t VALUES (100); ROLLBACK");
    }
    run(&mut client, "CHECKPOINT");
    let slot = [("slot", "north")];
    until("the replica has all of it", || metrics(&here).labelled("collie_replica_behind_bytes", &slot) == Some(0.0));
    let after = metrics(&here);
    let grown = |name: &str| after.value(name) - before.value(name);
    assert_eq!([grown("collie_commits_total"), grown("collie_aborts_total")], [10.0, 3.0]);
    for name in [
        "collie_log_durable_lsn",
        "collie_log_boundary_lsn",
        "collie_log_next_lsn",
        "collie_log_settled_lsn",
        "collie_log_stream_bytes_total",
        "collie_log_flush_syncs_total",
        "collie_log_flush_sync_seconds_total",
        "collie_flushes_total",
        "collie_rows",
    ] {
        assert!(grown(name) > 0.0, "{name}");
    }
    for (name, counter) in before.all.iter().filter(|(_, metric)| metric.kind == "counter") {
        for (labels, value) in &counter.samples {
            let now = after.all[name].samples.get(labels);
            assert!(now.is_some_and(|now| now >= value), "{name} {labels:?}: {value} became {now:?}");
        }
    }
    assert_eq!(after.labelled("collie_sessions", &[("state", "idle")]), Some(1.0));
    assert_eq!(after.labelled("collie_replica_connected", &slot), Some(1.0));
    let applied = after.labelled("collie_replica_applied_lsn", &slot);
    assert!(applied.is_some_and(|applied| applied <= after.value("collie_log_durable_lsn")), "{applied:?}");
    let family: String = value(&mut client, "SELECT name FROM collie_stat_families WHERE name LIKE 'sql:%'");
    assert!(after.labelled("collie_family_rows", &[("family", &family)]).is_some_and(|rows| rows >= 10.0), "{family}");

    let of_replica = metrics(&there);
    let figures = ["collie_primary", "collie_following", "collie_ready"].map(|name| of_replica.value(name));
    assert_eq!(figures, [0.0, 1.0, 1.0], "{}", there.log());
    assert!(applied.is_some_and(|applied| of_replica.value("collie_log_received_lsn") >= applied));

    // These figures are absent until commits were measured.
    until("delays are measured", || {
        run(
            &mut client,
            "SET synchronous_commit = local; INSERT INTO t VALUES (1000) ON CONFLICT DO NOTHING; UPDATE t SET n = n",
        );
        let shown = ["collie_replica_delay_seconds", "collie_replica_recent_delay_seconds"];
        let here_has = shown.iter().all(|name| metrics(&here).all.contains_key(*name));
        // The bound of collection follows from delays without it, which take several commits.
        let there_shown = [
            "collie_following_delay_seconds",
            "collie_training_bound_seconds",
            "collie_training_delay_without_seconds",
        ];
        let there_has = there_shown.iter().all(|name| metrics(&there).all.contains_key(*name));
        here_has && there_has
    });
    let (after, of_replica) = (metrics(&here), metrics(&there));
    let found: BTreeSet<&str> = after.all.keys().chain(of_replica.all.keys()).map(String::as_str).collect();
    let rows = include_str!("../../../docs/http.md").lines().filter_map(|line| line.strip_prefix("| `collie_"));
    let listed: Vec<String> =
        rows.filter_map(|row| row.split(['`', '{']).next()).map(|name| format!("collie_{name}")).collect();
    let mut listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert!(listed.remove("collie_opening_percent"), "of a server that has no database yet");
    assert_eq!(found, listed);
}

/// Goal: a server that has no database yet is alive, is not ready, and says what it is doing, also to Prometheus; it is
/// ready once it serves clients. Method: start a replica before its primary.
#[test]
fn a_server_that_is_being_filled_lives_and_is_not_ready() {
    let (here, there) = (Place::new(), Place::new());
    let port = Port::keep().expect("a free port");
    let primary = port.address().to_string();
    let starting = Starting::begin(&there, &[], &[&HTTP[..], &["--replica-of", &primary]].concat());
    let address = Server::http_address(&there);
    assert_eq!(http::get(address, "/healthz").body, "ok\n");
    let filling = format!("not ready\nfailure: server: the directory is being filled by {primary}\n");
    until("it is being filled", || {
        let answer = http::get(address, "/readyz");
        assert_eq!(answer.status, 503, "{answer:?}");
        answer.body == filling
    });
    assert_eq!(metrics(&there).value("collie_ready"), 0.0);
    let _primary = Server::start_with(&here, &["--replica-listen", &primary]);
    let copy = starting.wait(&there);
    // The replica may serve clients a moment before it follows.
    until("it follows", || http::get(address, "/readyz").body == "ready\n");
    assert_eq!(copy.stop().code(), Some(0), "{}", there.log());
}

/// Goal: a server whose log is full is not ready and says why, as long as it refuses writes. Method: a log of few
/// files, and a transaction that needs all of it until it is rolled back.
#[test]
fn a_full_log_is_a_reason() {
    let place = Place::new();
    let small = ["wal.ring_size=256KiB", "wal.flush_bytes=128KiB", "wal.segment_size=9MiB", "wal.max_segments=8"];
    let small: Vec<&str> = small.iter().flat_map(|set| ["--set", set]).collect();
    let server = Server::start_with(&place, &[&HTTP[..], &small].concat());
    let address = Server::http_address(&place);
    let (mut client, mut holder) = (server.connect(), server.connect());
    run(&mut client, "CREATE TABLE t (n int PRIMARY KEY, v text)");
    assert_eq!(http::get(address, "/readyz").body, "ready\n");
    let insert = "INSERT INTO t SELECT $1::int * 10 + g, repeat('x', 100000) FROM generate_series(1, 9) g";
    run(&mut holder, "BEGIN");
    holder.execute(insert, &[&-1]).expect("there is room");
    let mut n = 0;
    // A flush in progress may free some log again.
    until("the log to be full", || {
        n += 1;
        let refused = client.execute(insert, &[&n]).err();
        assert!(refused.as_ref().is_none_or(|error| state(error) == "53100"), "{refused:?}");
        refused.is_some() && http::get(address, "/readyz").status == 503
    });
    let answer = http::get(address, "/readyz");
    assert!(answer.body.contains("\nfailure: log: writes are refused (53100): "), "{answer:?}");
    let figures = metrics(&place);
    assert_eq!(["collie_ready", "collie_log_full"].map(|name| figures.value(name)), [0.0, 1.0]);
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM collie_health WHERE severity = 'failure'"), 1);
    run(&mut holder, "ROLLBACK");
    until("there is room again", || {
        run(&mut client, "CHECKPOINT");
        http::get(address, "/readyz").status == 200
    });
    run(&mut client, "INSERT INTO t VALUES (0, 'x')");
}

/// Goal: a client that sends no request, an incomplete or oversized one, or one of an unsupported kind does not harm
/// others, and gets an error or is disconnected. Method: more slow connections than the port takes, with normal
/// requests in between; garbage of each kind.
#[test]
fn garbage_and_slow_requests_do_no_harm() {
    let place = Place::new();
    let server = Server::start_with(&place, &HTTP);
    let address = Server::http_address(&place);
    let mut client = server.connect();
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut socket = http::open(address);
        socket.write_all(&b"GET /readyz HTTP/1.1\r\nX: "[..n % 26]).expect("it is taken");
        slow.push(socket);
        if n % 50 == 49 {
            assert_eq!(http::get(address, "/readyz").status, 200, "beside {n} slow ones");
            assert_eq!(value::<i32>(&mut client, "SELECT 1"), 1);
        }
    }
    let long = format!("GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    for garbage in [
        &b"\x00\x00\x00\x08\x04\xd2\x16\x2f"[..],
        b"GET\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let mut request = garbage.to_vec();
        request.extend_from_slice(&[b'\n'; 8]);
        let answer = http::send(address, &request);
        // A reset may discard the answer.
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&answer));
    }
    let asked = |request: &str| http::Answer::read(&http::send(address, request.as_bytes()));
    let post = asked("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(asked("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 404);
    let head = asked("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let twice = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    assert_eq!(asked(&twice).body, "ok\n", "a connection has one answer");
    drop(slow.drain(..199));
    // The last open connection is closed when its time is over.
    let mut end = [0; 64];
    let read = std::io::Read::read(&mut slow[0], &mut end);
    assert!(
        read.as_ref().map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true),
        "{read:?}"
    );
    assert_eq!(http::get(address, "/healthz").status, 200);
    assert!(!place.log().contains("panicked"), "{}", place.log());
    assert_eq!(server.stop().code(), Some(0), "{}", place.log());
}

/// Goal: the port is opened on loopback only, and the error for a port in use names the option --http. Method: both.
#[test]
fn a_port_that_cannot_be_is_refused() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it has an address").to_string();
    let refused = Server::refused(&place.data(), &["--http", &address]);
    assert!(refused.line().ends_with("choose another port with --http 127.0.0.1:PORT"), "{}", refused.line());
    let refused = Server::refused(&place.data(), &["--http", "0.0.0.0:8433"]);
    assert!(refused.line().contains("use --http 127.0.0.1:8433"), "{}", refused.line());
}

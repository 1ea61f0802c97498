//! `collie status` and `/readyz` for servers that have lost something: text, exit codes and statuses.

use std::{thread, time::Duration};

use collie_clients_tests::{Done, Place, Server, Stopwatch, http, program, session::run};

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

const PRIMARY: [&str; 4] = ["--http", "127.0.0.1:0", "--replica-listen", "127.0.0.1:0"];

fn replica(place: &Place, primary: &str, slot: &str) -> Server {
    let slot = format!("replication.slot={slot}");
    let arguments = ["--http", "127.0.0.1:0", "--replica-of", primary, "--set", &slot];
    Server::start_with(place, &arguments)
}

fn status(server: &Server, more: &[&str]) -> Done {
    program::collie(&[&["status", &server.url()], more].concat(), "")
}

/// Waits until `collie status` ends with `code` and prints each of `parts`.
fn until_said(server: &Server, code: i32, parts: &[&str]) -> String {
    let start = Stopwatch::start();
    loop {
        let done = status(server, &[]);
        if done.code == Some(code) && parts.iter().all(|part| done.out.contains(part)) {
            return done.out;
        }
        assert!(start.elapsed() < PATIENCE, "{code} {parts:?}: {done:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn readyz(place: &Place, path: &str) -> (u16, String) {
    let answer = http::get(Server::http_address(place), path);
    (answer.status, answer.body)
}

/// Goal: a healthy pair is reported as healthy by both servers. A killed replica, a killed primary and a server that
/// does not answer are distinguished by the exit code and named, with an upper bound of the loss; a promotion shows.
/// Method: query both servers, with and without `--json`, and kill one after the other.
#[test]
fn a_lost_replica_and_a_lost_primary_are_told() {
    let (here, there) = (Place::new(), Place::new());
    let server = Server::start_with(&here, &PRIMARY);
    run(&mut server.connect(), "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let address = Server::replica_address(&here);
    let copy = replica(&there, &address, "north");
    let out = until_said(&server, 0, &["primary ", "term 0 since ", "north", "streaming"]);
    assert!(!out.contains("warning"), "{out}");
    until_said(&copy, 0, &["replica ", &format!("following {address} as north, heard "), " 0 bytes behind"]);
    let json = status(&copy, &["--json"]);
    assert_eq!(json.code, Some(0), "{json:?}");
    for part in ["\"problems\":[]", "\"quorum\":null", "\"state\":\"following\"", "\"role\":\"replica\""] {
        assert!(json.out.contains(part), "{part}: {json:?}");
    }

    copy.kill();
    until_said(&server, 1, &["warning: slot: the replica of north was not heard of for "]);
    assert_eq!(readyz(&here, "/readyz").0, 200, "clients are served");
    let (strict, body) = readyz(&here, "/readyz?strict");
    assert_eq!(strict, 503);
    assert!(body.starts_with("not ready\nwarning: slot: the replica of north was not heard of for "), "{body}");

    let copy = replica(&there, &address, "north");
    until_said(&server, 0, &["streaming"]);
    until_said(&copy, 0, &["following "]);
    server.kill();
    let lost = format!("warning: primary: the primary at {address} was not heard of for ");
    let out = until_said(&copy, 1, &[&lost, "all that it had on disk then is here"]);
    assert!(out.contains(&format!("looking {address} as north")), "{out}");
    assert_eq!(readyz(&there, "/readyz").0, 200, "it still answers reads");
    assert_eq!(readyz(&there, "/readyz?strict").0, 503);

    let json = status(&copy, &["--json"]);
    assert_eq!(json.code, Some(1), "{json:?}");
    for part in ["\"state\":\"looking\"", "\"severity\":\"warning\"", "\"subject\":\"primary\"", "\"lacked_bytes\":0"] {
        assert!(json.out.contains(part), "{part}: {json:?}");
    }
    program::collie(&["promote", &copy.url()], "").ok();
    until_said(&copy, 0, &["primary ", "term 1 since "]);

    let url = copy.url();
    copy.kill();
    let gone = program::collie(&["status", &url, "--json"], "");
    assert_eq!(gone.code, Some(2), "{gone:?}");
    assert!(gone.out.starts_with("{\"error\":\"cannot connect to ") && gone.err.starts_with("error: "), "{gone:?}");
}

/// Goal: a missing quorum is reported, with its duration, the missing nodes and what commits do. While commits wait for
/// it the server is not ready; where they go on without it, the server is ready, with a warning. The report ends when
/// the quorum is back. Method: a primary whose commits wait until a replica connects, and one that degrades after a
/// moment.
#[test]
fn a_quorum_that_is_missing_is_told() {
    let (here, there) = (Place::new(), Place::new());
    let waits = [&PRIMARY[..], &["--set", "replication.quorum=ANY 1 (a, b)"]].concat();
    let server = Server::start_with(&here, &waits);
    until_said(
        &server,
        1,
        &["quorum ANY 1 (a, b) short for ", "commits waiting, missing a, b", "failure: quorum: 0 of "],
    );
    let (status, body) = readyz(&here, "/readyz");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("failure: quorum: 0 of ANY 1 (a, b) are connected"), "{body}");
    let copy = replica(&there, &Server::replica_address(&here), "b");
    until_said(&server, 0, &["quorum ANY 1 (a, b) whole for ", "commits confirmed, missing a\n"]);
    assert_eq!(readyz(&here, "/readyz").0, 200);
    drop((copy, server));

    let place = Place::new();
    let degrades = ["--set", "replication.quorum=a", "--set", "replication.degrade=after 100ms"];
    let server = Server::start_with(&place, &[&PRIMARY[..], &degrades].concat());
    // The first commit waits until the primary degrades.
    run(&mut server.connect(), "CREATE TABLE t (n int PRIMARY KEY)");
    let out = until_said(&server, 1, &["quorum ANY 1 (a) degraded for ", "commits unconfirmed, missing a"]);
    assert!(out.contains("warning: quorum: for ") && out.contains("each with a warning"), "{out}");
    assert_eq!(readyz(&place, "/readyz").0, 200, "commits are answered");
    let (strict, body) = readyz(&place, "/readyz?strict");
    assert!(strict == 503 && body.contains("warning: quorum: for "), "{strict} {body}");
}

/// Goal: an expired slot is reported until it is dropped. Method: a kill of the replica, and an age that was long
/// enough for it to follow first.
#[test]
fn an_expired_slot_is_told_until_it_is_dropped() {
    let (here, there) = (Place::new(), Place::new());
    let server = Server::start_with(&here, &[&PRIMARY[..], &["--set", "replication.slot_age=5s"]].concat());
    let copy = replica(&there, &Server::replica_address(&here), "north");
    until_said(&server, 0, &["streaming"]);
    copy.kill();
    until_said(&server, 1, &["warning: slot: north is expired by its age"]);
    run(&mut server.connect(), "SELECT pg_drop_replication_slot('north')");
    let done = status(&server, &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

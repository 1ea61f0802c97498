//! A leader answers no commit that its quorum does not have, however the wait ends: real servers are frozen, deposed
//! and stopped, and sessions terminated, while commits wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use collie_clients_tests::{
    Server,
    nodes::{Nodes, numbers, put},
    program,
    session::value,
    state,
};
use postgres::{Client, NoTls, error::DbError};

/// Starts three nodes, each with a quorum of one of the two others, and a table that all of them have.
fn three(nodes: &Nodes) -> [Server; 3] {
    let a = start(nodes, 0);
    a.connect()
        .batch_execute("SET synchronous_commit = local; CREATE TABLE notes (n int PRIMARY KEY)")
        .expect("a table is made");
    let (b, c) = (start(nodes, 1), start(nodes, 2));
    put(&mut a.connect(), 0..5);
    let expected: Vec<i32> = (0..5).collect();
    nodes.until_shown("b follows", &b, &expected);
    nodes.until_shown("c follows", &c, &expected);
    [a, b, c]
}

fn start(nodes: &Nodes, node: usize) -> Server {
    let others = ["ANY 1 (b, c)", "ANY 1 (a, c)", "ANY 1 (a, b)"][node];
    let words = ["--set".to_owned(), format!("replication.quorum={others}")];
    let of_a = ["--replica-of".to_owned(), nodes.addresses[0].clone()];
    let words = if node == 0 { words.to_vec() } else { [&of_a[..], &words].concat() };
    nodes.start(node, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Begins a commit on another thread, which returns the answer.
fn committing(server: &Server, n: i32, is_simple: bool) -> JoinHandle<Result<(), postgres::Error>> {
    let mut client = server.connect();
    thread::spawn(move || match is_simple {
        true => client.batch_execute(&format!("INSERT INTO notes VALUES ({n})")),
        false => client.execute("INSERT INTO notes VALUES ($1)", &[&n]).map(|_| ()),
    })
}

/// Waits until exactly `count` sessions have their commits on the server's disk and wait for replicas.
fn until_waiting(nodes: &Nodes, look: &mut Client, count: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT INTO notes%'";
    nodes.until("commits wait", || value::<i64>(look, waiting) == count);
    // Everything that was written is on disk.
    let durable = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()";
    nodes.until("they are on the disk", || value::<bool>(look, durable));
}

/// Checks that a commit was not answered and that its client can tell. The driver may see the end of the connection
/// before it has read the error.
fn ended(answer: Result<(), postgres::Error>, nodes: &Nodes) {
    let error = answer.expect_err("a commit is answered that no quorum has");
    if error.is_closed() {
        return;
    }
    assert_eq!(state(&error), "57P01", "{error:?}\n{}", nodes.logs());
    let detail = error.as_db_error().and_then(DbError::detail).unwrap_or_default();
    assert!(detail.contains("not confirmed by") && detail.contains("Token "), "{error:?}");
}

/// Goal: a leader that was frozen while another node was promoted answers no commit that waited, not even one whose
/// cancel request had arrived when the leader resumed: it learns of the new term first. Method: kill the replicas, let
/// commits wait, stop the leader (SIGSTOP), promote a replica, send a cancel, and resume the old leader.
#[test]
fn a_leader_that_stood_still_answers_nothing_of_its_old_term() {
    let nodes = Nodes::new(3);
    let [a, b, c] = three(&nodes);
    let mut look = a.connect();
    b.kill();
    c.kill();
    let waiting: Vec<_> = [100, 101, 102].map(|n| committing(&a, n, n % 2 == 0)).into();
    let mut canceled = a.connect();
    let cancel = canceled.cancel_token();
    let to_cancel = thread::spawn(move || canceled.batch_execute("INSERT INTO notes VALUES (103)"));
    until_waiting(&nodes, &mut look, 4);
    a.pause();

    let (b, c) = (start(&nodes, 1), start(&nodes, 2));
    let (leader, other) = nodes.promote_either([&b, &c], ["b", "c"]);
    put(&mut leader.connect(), 5..10);
    // The kernel accepts the connection; the server reads the request as soon as it resumes.
    let canceling = thread::spawn(move || cancel.cancel_query(NoTls));
    a.go_on();
    for answer in waiting.into_iter().chain([to_cancel]) {
        ended(answer.join().expect("it ends"), &nodes);
    }
    let _taken_or_not = canceling.join().expect("it ends");
    let expected: Vec<i32> = (0..10).collect();
    assert_eq!(numbers(&mut leader.connect()).unwrap(), expected);
    nodes.until_shown("the other follows", other, &expected);
    nodes.until_shown("the old leader follows", &a, &expected);
}

/// Goal: under load, each answered commit, with or without a warning, is on the node that was promoted while its leader
/// was frozen. Method: clients insert as fast as they can until their session ends; the leader is stopped in the middle
/// and resumes once another node leads; the answered commits are compared with the rows there.
#[test]
fn no_answered_commit_is_lost_when_the_leader_stands_still_under_load() {
    let nodes = Nodes::new(3);
    let [a, b, c] = three(&nodes);
    let answered = Arc::new(AtomicUsize::new(0));
    let writers: Vec<JoinHandle<Vec<i32>>> = (1..=6)
        .map(|writer| {
            let (mut client, answered) = (a.connect(), answered.clone());
            thread::spawn(move || {
                let is_answered = |n: &i32| {
                    let inserted = client.execute("INSERT INTO notes VALUES ($1)", &[n]).is_ok();
                    answered.fetch_add(usize::from(inserted), Ordering::Relaxed);
                    inserted
                };
                (writer * 100_000..).take_while(is_answered).collect()
            })
        })
        .collect();
    nodes.until("commits are answered", || answered.load(Ordering::Relaxed) >= 200);
    a.pause();
    let (leader, _) = nodes.promote_either([&b, &c], ["b", "c"]);
    a.go_on();
    let heard: Vec<i32> = writers.into_iter().flat_map(|writer| writer.join().expect("it ends")).collect();
    let found = numbers(&mut leader.connect()).unwrap();
    let lost: Vec<&i32> = heard.iter().filter(|n| found.binary_search(n).is_err()).collect();
    assert!(lost.is_empty(), "answered and lost: {lost:?} of {}\n{}", heard.len(), nodes.logs());
    nodes.until_shown("the old leader follows", &a, &found);
}

/// Goal: a session that is terminated while its commit waits for replicas, and one whose server is stopped, get only
/// 57P01 with the token; the commit stands and is there after a restart. Method: a quorum that cannot be reached; a
/// commit in each protocol.
#[test]
fn a_session_that_is_ended_while_its_commit_waits_is_not_answered() {
    let nodes = Nodes::new(1);
    let words = ["--set", "replication.quorum=ANY 1 (x)"];
    let a = nodes.start(0, &words);
    let mut look = a.connect();
    look.batch_execute("SET synchronous_commit = local; CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    for (n, is_simple) in [(1, true), (2, false)] {
        let waiting = committing(&a, n, is_simple);
        until_waiting(&nodes, &mut look, 1);
        let terminate = "SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT%'";
        assert!(value::<bool>(&mut look, terminate));
        ended(waiting.join().expect("it ends"), &nodes);
    }
    let waiting = committing(&a, 3, true);
    until_waiting(&nodes, &mut look, 1);
    drop(look);
    assert_eq!(a.stop().code(), Some(0), "{}", nodes.logs());
    ended(waiting.join().expect("it ends"), &nodes);
    let a = nodes.start(0, &["--set", "replication.quorum="]);
    // No node of the previous list has the record of the change, so the change has not ended.
    let mut client = a.connect();
    client.batch_execute("SET synchronous_commit = local").unwrap();
    put(&mut client, 4..5);
    assert_eq!(program::collie(&["status", &a.url()], "").code, Some(1), "commits wait");
}

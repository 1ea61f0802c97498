//! The failures that each setting of `replication.quorum` survives: a test for each row of the table in
//! `docs/high-availability.md`, with real servers that are killed.

use collie_clients_tests::{
    Server,
    nodes::{Nodes, numbers, put},
    program,
    session::value,
    state,
};
use postgres::Client;

/// Starts a node with the list `quorum`; unless it is `a`, it follows `a`.
fn start(nodes: &Nodes, node: usize, quorum: &str) -> Server {
    let quorum = format!("replication.quorum={quorum}");
    let words = ["--set", &quorum, "--set", "replication.sync_timeout=2min"];
    let of_a = ["--replica-of", &nodes.addresses[0]];
    let words = if node == 0 { words.to_vec() } else { [&of_a[..], &words].concat() };
    nodes.start(node, &words)
}

/// Starts a node for each of `quorums`, the first one as the leader, with a table that all of them have.
fn cluster<const N: usize>(nodes: &Nodes, quorums: [&str; N]) -> [Server; N] {
    let servers = std::array::from_fn(|node| start(nodes, node, quorums[node]));
    servers[0]
        .connect()
        .batch_execute("SET synchronous_commit = local; CREATE TABLE notes (n int PRIMARY KEY)")
        .expect("a table is made");
    put(&mut servers[0].connect(), 0..5);
    let expected: Vec<i32> = (0..5).collect();
    for server in &servers[1..] {
        nodes.until_shown("they follow", server, &expected);
    }
    until_whole(nodes, &mut servers[0].connect());
    servers
}

/// Returns the list and its state from `collie_quorum`.
fn quorum(client: &mut Client) -> Option<(String, String)> {
    let row = client.query_opt("SELECT quorum, state FROM collie_quorum", &[]).expect("it is served");
    row.map(|row| (row.get(0), row.get(1)))
}

/// Waits until the quorum that commits need is connected.
fn until_whole(nodes: &Nodes, client: &mut Client) {
    nodes.until("the quorum is there", || quorum(client).is_none_or(|(_, state)| state == "whole"));
}

/// Checks that a commit waits for other nodes and is not answered without them.
fn waits(nodes: &Nodes, server: &Server, n: i32) {
    nodes.until("the quorum is short", || quorum(&mut server.connect()).is_some_and(|(_, state)| state == "short"));
    let mut client = server.connect();
    let pid: i32 = value(&mut client, "SELECT pg_backend_pid()");
    let waiting = std::thread::spawn(move || client.execute("INSERT INTO notes VALUES ($1)", &[&n]));
    let mut look = server.connect();
    let is_waiting = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND query LIKE 'INSERT%'");
    nodes.until("the commit begins", || value::<i64>(&mut look, &is_waiting) == 1);
    assert!(value::<bool>(&mut look, &format!("SELECT pg_terminate_backend({pid})")));
    let error = waiting.join().expect("it ends").expect_err("it is not answered");
    // The driver may see the end of the connection before it has read the error.
    assert!(error.is_closed() || state(&error) == "57P01", "{error:?}");
}

/// Tries to promote a node without force, which must be refused; returns the reason.
fn refused(server: &Server) -> String {
    let done = program::collie(&["promote", &server.url()], "");
    assert!(done.code != Some(0), "{}", done.out);
    done.err
}

/// Row: `majority` on three nodes. Goal: the cluster survives one failure after another, of the leader and of a
/// replica; any two nodes suffice for commits, and no commit is lost. Method: kill the leader, promote a replica, start
/// the dead node again, and kill the new leader.
#[test]
fn majority_of_three_survives_one_failure_after_another() {
    let nodes = Nodes::new(3);
    let [a, b, c] = cluster(&nodes, ["majority"; 3]);
    let list = "ANY 2 (a, b, c)".to_owned();
    assert_eq!(quorum(&mut a.connect()), Some((list.clone(), "whole".to_owned())));
    a.kill();
    let (leader, other) = nodes.promote_either([&b, &c], ["b", "c"]);
    put(&mut leader.connect(), 5..10);
    assert_eq!(quorum(&mut leader.connect()).map(|(list, _)| list), Some(list));
    let a = start(&nodes, 0, "majority");
    let expected: Vec<i32> = (0..10).collect();
    nodes.until_shown("the old leader follows", &a, &expected);
    nodes.until_shown("so does the other", other, &expected);
    let is_b = std::ptr::eq(leader, &b);
    let (leader, other) = if is_b { (b, c) } else { (c, b) };
    leader.kill();
    let names = if is_b { ["a", "c"] } else { ["a", "b"] };
    let (leader, other) = nodes.promote_either([&a, &other], names);
    put(&mut leader.connect(), 10..15);
    let expected: Vec<i32> = (0..15).collect();
    nodes.until_shown("two are enough", other, &expected);
}

/// Row: `majority` on three nodes, with a second failure. Goal: a minority answers no commit and promotes no node, and
/// says why. Method: kill both replicas; then kill the leader and start one replica again.
#[test]
fn a_minority_of_three_answers_nothing_and_promotes_no_node() {
    let nodes = Nodes::new(3);
    let [a, b, c] = cluster(&nodes, ["majority"; 3]);
    b.kill();
    put(&mut a.connect(), 5..10);
    c.kill();
    waits(&nodes, &a, 10);
    a.kill();
    let c = start(&nodes, 2, "majority");
    let why = refused(&c);
    assert!(why.contains("are needed"), "{why}");
}

/// Row: `ANY 1` of the others, on each of three nodes. Goal: the loss of the leader is survived, and the next leader
/// never waits for itself; a second loss is not survived, and the refused promotion says why. Method: kill the leader,
/// then the remaining replica, then the new leader; start that replica again and try to promote it.
#[test]
fn any_one_of_the_others_survives_the_leader_once() {
    let nodes = Nodes::new(3);
    let quorums = ["ANY 1 (b, c)", "ANY 1 (a, c)", "ANY 1 (a, b)"];
    let [a, b, c] = cluster(&nodes, quorums);
    a.kill();
    let (leader, _) = nodes.promote_either([&b, &c], ["b", "c"]);
    put(&mut leader.connect(), 5..10);
    let is_b = std::ptr::eq(leader, &b);
    let (leader, other, node) = if is_b { (b, c, 2) } else { (c, b, 1) };
    other.kill();
    put(&mut leader.connect(), 10..15);
    leader.kill();
    let other = start(&nodes, node, quorums[node]);
    let why = refused(&other);
    assert!(why.contains("are needed"), "{why}");
}

/// Row: `ANY 2 (b, c)` on a leader `a`: both replicas. Goal: each commit is on all three nodes, so that the loss of a
/// replica stops commits, while the loss of the leader leaves two nodes that go on. Method: kill a replica and start it
/// again; kill the leader.
#[test]
fn any_two_of_two_replicas_stops_with_a_replica_and_survives_the_leader() {
    let nodes = Nodes::new(3);
    let [a, b, c] = cluster(&nodes, ["ANY 2 (b, c)"; 3]);
    c.kill();
    waits(&nodes, &a, 5);
    let c = start(&nodes, 2, "ANY 2 (b, c)");
    put(&mut a.connect(), 6..10);
    a.kill();
    let (leader, other) = nodes.promote_either([&b, &c], ["b", "c"]);
    put(&mut leader.connect(), 10..12);
    let expected: Vec<i32> = (0..12).collect();
    nodes.until_shown("the other follows", other, &expected);
}

/// Row: `ANY 3 (a, b, c)`: all nodes. Goal: a promotion that would leave a list by which no commit can be answered is
/// refused with the reason. A forced one leaves no list and says so, and a majority can be set later. Method: kill the
/// leader; promote without and with force; set `majority` by a call.
#[test]
fn a_promotion_never_leaves_commits_that_wait_for_ever() {
    let nodes = Nodes::new(3);
    let [a, b, c] = cluster(&nodes, ["ANY 3 (a, b, c)"; 3]);
    a.kill();
    let why = refused(&b);
    assert!(why.contains("commits would wait for ever") && why.contains("ANY 3 (a, b, c)"), "{why}");
    let forced = program::collie(&["promote", "--force", &b.url()], "").ok();
    assert!(forced.contains("commits wait for no other node from here on"), "{forced}");
    let mut client = b.connect();
    assert_eq!(quorum(&mut client), None);
    put(&mut client, 5..10);
    let expected: Vec<i32> = (0..10).collect();
    nodes.until_shown("c follows", &c, &expected);
    client.batch_execute("CALL collie_set_option('replication.quorum', 'majority')").expect("it is set");
    nodes.until("the change is over", || {
        value::<Option<String>>(&mut client, "SELECT max(quorum) FROM collie_quorum WHERE list_before IS NULL")
            .as_deref()
            == Some("ANY 2 (a, b, c)")
    });
    put(&mut client, 10..12);
    assert_eq!(numbers(&mut client).unwrap(), (0..12).collect::<Vec<i32>>());
}

/// Row: `ANY 1 (a, b, c)`: the leader's own disk is enough. Goal: commits wait for no replica, as the server says at
/// its start, and no node is promoted while one is lost, since the lost node may be the only one with some commit.
/// Method: a leader alone; then it is killed.
#[test]
fn any_one_of_all_is_the_leaders_own_disk() {
    let nodes = Nodes::new(3);
    let [a, b, c] = cluster(&nodes, ["ANY 1 (a, b, c)"; 3]);
    assert!(nodes.places[0].log().contains("this node satisfies alone"), "{}", nodes.logs());
    b.kill();
    put(&mut a.connect(), 5..10);
    a.kill();
    let b = start(&nodes, 1, "ANY 1 (a, b, c)");
    for server in [&b, &c] {
        let why = refused(server);
        assert!(why.contains("are needed"), "{why}");
    }
}

/// Row: `majority` on two nodes. Goal: each commit is on both, so that the loss of either stops commits, and a node is
/// promoted only by force; after that commits go on. Method: kill the replica; then kill the leader and start the
/// replica again.
#[test]
fn majority_of_two_stops_with_either_and_goes_on_by_force() {
    let nodes = Nodes::new(2);
    let [a, b] = cluster(&nodes, ["majority"; 2]);
    b.kill();
    waits(&nodes, &a, 5);
    a.kill();
    let b = start(&nodes, 1, "majority");
    let why = refused(&b);
    assert!(why.contains("are needed"), "{why}");
    let forced = program::collie(&["promote", "--force", &b.url()], "").ok();
    assert!(forced.contains("commits wait for no other node from here on"), "{forced}");
    put(&mut b.connect(), 6..10);
    let found = numbers(&mut b.connect()).unwrap();
    assert!((0..5).chain(6..10).all(|n| found.contains(&n)), "{found:?}");
}

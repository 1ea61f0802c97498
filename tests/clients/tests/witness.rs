//! Two nodes and a witness, in real processes that are killed: the rows of the table in `docs/high-availability.md`
//! that have a witness.

use collie_clients_tests::{
    Server,
    nodes::{Nodes, put},
    program,
    session::value,
    witness::{self, WitnessPlace},
};

/// Starts a node of two with a witness; unless it is `a`, it follows `a`.
fn start(nodes: &Nodes, witness: &WitnessPlace, node: usize) -> Server {
    let witness = format!("replication.witness={}", witness.address());
    let words = ["--set", &witness, "--set", "replication.quorum=majority", "--set", "replication.degrade=after 500ms"];
    let of_a = ["--replica-of", &nodes.addresses[0]];
    let words = if node == 0 { words.to_vec() } else { [&of_a[..], &words].concat() };
    nodes.start(node, &words)
}

/// Starts both nodes, with a table that both have, and waits until the witness knows that both have every commit.
fn pair(nodes: &Nodes, witness: &WitnessPlace) -> (Server, Server) {
    let a = start(nodes, witness, 0);
    a.connect()
        .batch_execute("SET synchronous_commit = local; CREATE TABLE notes (n int PRIMARY KEY)")
        .expect("a table is made");
    let b = start(nodes, witness, 1);
    put(&mut a.connect(), 0..5);
    nodes.until_shown("it follows", &b, &(0..5).collect::<Vec<_>>());
    until_restored(nodes, witness, &a, 0);
    (a, b)
}

fn quorum(server: &Server) -> String {
    value(&mut server.connect(), "SELECT state FROM collie_quorum")
}

/// Returns what the leader knows of its witness.
fn known(leader: &Server) -> String {
    value(&mut leader.connect(), "SELECT witness FROM collie_quorum")
}

/// Waits until commits on `leader` wait for both nodes, and the witness has heard that both have every commit of
/// `term` and before.
fn until_restored(nodes: &Nodes, witness: &WitnessPlace, leader: &Server, term: u64) {
    nodes.until("both nodes are there", || quorum(leader) == "whole" && known(leader) == "whole");
    let restored = format!("which leads in term {term}, has every commit");
    nodes.until("the witness knows", || {
        let log = witness.log();
        log.rfind(&restored) > log.rfind("acknowledges commits alone in term")
    });
}

/// Row: the leader is lost. Goal: the replica leads with the promise of the witness, commits go on there, alone, and
/// the old leader follows once it is back; then the other way round. Method: kill, promote, write, start again; twice.
#[test]
fn two_nodes_and_a_witness_survive_one_leader_after_another() {
    let (nodes, place) = (Nodes::new(2), WitnessPlace::new());
    let _witness = place.start();
    let (a, b) = pair(&nodes, &place);
    a.kill();
    program::collie(&["promote", &b.url()], "").ok();
    put(&mut b.connect(), 5..10);
    assert_eq!(quorum(&b), "degraded");
    assert!(place.log().contains("acknowledges commits alone in term 1"), "{}", place.log());
    let a = start(&nodes, &place, 0);
    nodes.until_shown("the old leader follows", &a, &(0..10).collect::<Vec<_>>());
    put(&mut b.connect(), 10..12);
    until_restored(&nodes, &place, &b, 1);
    b.kill();
    program::collie(&["promote", &a.url()], "").ok();
    put(&mut a.connect(), 12..15);
    assert_eq!(value::<i64>(&mut a.connect(), "SELECT count(*) FROM notes"), 15);
}

/// Row: the replica is lost, then the leader. Goal: commits go on without the replica, which cannot lead without them,
/// says why, and follows once the leader is back; then it can lead. Method: kill the replica, write, kill the leader,
/// start the replica and try to promote it; start the leader.
#[test]
fn a_replica_that_lacks_commits_of_a_leader_alone_does_not_lead() {
    let (nodes, place) = (Nodes::new(2), WitnessPlace::new());
    let witness = place.start();
    let (a, b) = pair(&nodes, &place);
    b.kill();
    put(&mut a.connect(), 5..10);
    a.kill();
    drop(witness);
    let _witness = place.start();
    let b = start(&nodes, &place, 1);
    let refused = program::collie(&["promote", &b.url()], "");
    assert!(
        refused.code != Some(0) && refused.err.contains("acknowledges commits alone: start that node"),
        "{}",
        refused.err
    );
    let a = start(&nodes, &place, 0);
    nodes.until_shown("it follows the leader", &b, &(0..10).collect::<Vec<_>>());
    put(&mut a.connect(), 10..12);
    until_restored(&nodes, &place, &a, 0);
    a.kill();
    program::collie(&["promote", &b.url()], "").ok();
    assert_eq!(value::<i64>(&mut b.connect(), "SELECT count(*) FROM notes"), 12);
}

/// Row: the witness is lost. Goal: commits go on while both nodes are there; without the replica they wait until the
/// witness is back, since no node can tell whether the other one leads. Method: kill the witness, then the replica;
/// start the witness.
#[test]
fn without_its_witness_a_leader_alone_waits() {
    let (nodes, place) = (Nodes::new(2), WitnessPlace::new());
    let witness = place.start();
    let (a, b) = pair(&nodes, &place);
    drop(witness);
    put(&mut a.connect(), 5..10);
    b.kill();
    let mut client = a.connect();
    let waiting = std::thread::spawn(move || client.execute("INSERT INTO notes VALUES (10)", &[]));
    nodes.until("the witness is missed", || nodes.places[0].log().contains("does not note the state of the quorum"));
    assert!(!waiting.is_finished() && quorum(&a) == "short" && known(&a) == "unreachable");
    let status = program::collie(&["status", &a.url()], "");
    assert!(status.code == Some(1) && status.out.contains("; witness unreachable"), "{}{}", status.out, status.err);
    let _witness = place.start();
    waiting.join().expect("it ends").expect("the commit is answered");
    assert_eq!((quorum(&a), known(&a)), ("degraded".to_owned(), "degraded".to_owned()));
}

/// Goal: where commits wait for no quorum, a witness changes nothing: a replica is promoted without it. Method: two
/// nodes that name a witness and no quorum; the witness has never heard of a leader's quorum.
#[test]
fn without_a_quorum_a_witness_changes_nothing() {
    let (nodes, place) = (Nodes::new(2), WitnessPlace::new());
    let _witness = place.start();
    let witness = format!("replication.witness={}", place.address());
    let a = nodes.start(0, &["--set", &witness]);
    a.connect().batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").expect("a table is made");
    let b = nodes.start(1, &["--set", &witness, "--replica-of", &nodes.addresses[0]]);
    put(&mut a.connect(), 0..5);
    nodes.until_shown("it follows", &b, &(0..5).collect::<Vec<_>>());
    a.kill();
    program::collie(&["promote", &b.url()], "").ok();
    put(&mut b.connect(), 5..6);
}

/// Goal: mistakes with a witness are refused, in one line that says what to do. Method: no key; the directory of a
/// database; a second process on the directory; a replica that is to follow the witness.
#[test]
fn mistakes_with_a_witness_are_refused() {
    let (nodes, place) = (Nodes::new(1), WitnessPlace::new());
    let key = place.data().with_file_name("key");
    let refused = |data: &std::path::Path, key: &std::path::Path| {
        let done = witness::command(data, "127.0.0.1:0", key).output().expect("the binary starts");
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).expect("text")
    };
    let missing = refused(&place.data(), &key.with_file_name("none"));
    assert!(missing.contains("copy"), "{missing}");
    let a = nodes.start(0, &[]);
    let data = nodes.places[0].data();
    assert!(refused(&data, &key).contains("the directory of a database"), "{}", refused(&data, &key));
    let names = std::fs::read_dir(&data).expect("it can be listed");
    let names: Vec<_> = names.map(|entry| entry.expect("it can be listed").file_name()).collect();
    assert!(
        names.iter().all(|name| !name.to_string_lossy().starts_with("witness")),
        "nothing is left there: {names:?}"
    );
    drop(a);
    let _witness = place.start();
    assert!(refused(&place.data(), &key).contains("is in use by process"));
    let stream = std::net::TcpStream::connect(place.address());
    assert!(stream.is_ok(), "a stranger that only connects changes nothing");
}

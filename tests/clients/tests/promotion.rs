//! Promotion from end to end: real servers, kills, and a former primary that comes back by itself.

use std::thread;

use collie_clients_tests::{
    nodes::{Nodes, PATIENCE, numbers, put},
    program,
    session::value,
    state,
};

/// Goal: a replica is promoted while it runs, also by `collie promote`. The killed primary, started with its usual
/// arguments, learns of the promotion, sets aside the log that only it had, reports how many commits that were, and
/// follows by itself. A node that leads while another is promoted ends its sessions (57P01) and follows. No commit that
/// both had is lost. Method: a kill with commits that the replica does not have, a start with the same arguments, and a
/// promotion back while the leader runs.
#[test]
fn a_killed_primary_comes_back_as_a_replica_of_the_promoted_one() {
    let nodes = Nodes::new(2);
    let a = nodes.start(0, &[]);
    let mut client = a.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    let b = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    put(&mut client, 0..50);
    let both: Vec<i32> = (0..50).collect();
    nodes.until_shown("the replica follows", &b, &both);
    let not_now = client.query_one("SELECT pg_promote()", &[]).unwrap_err();
    assert_eq!(state(&not_now), "55000", "{not_now:?}");

    // The commits that a replica shows are on its primary's disk, and soon on its own.
    let kept = "SELECT bool_and(flush_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication";
    nodes.until("the replica has all on its disk", || value::<Option<bool>>(&mut client, kept) == Some(true));

    // These commits are on the old primary only.
    b.kill();
    put(&mut client, 100..105);
    a.kill();

    let b = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    let mut kept = b.connect();
    let refused = kept.batch_execute("INSERT INTO notes VALUES (200)").unwrap_err();
    assert_eq!(state(&refused), "25006", "{refused:?}");
    assert!(value::<bool>(&mut kept, "SELECT pg_is_in_recovery()"));
    assert!(value::<bool>(&mut kept, "SELECT pg_promote(true, 60)"));
    assert!(!value::<bool>(&mut kept, "SELECT pg_is_in_recovery()"), "{}", nodes.logs());
    put(&mut kept, 50..60);
    kept.batch_execute("CREATE TABLE more (t text); INSERT INTO more VALUES ('made by the new primary')").unwrap();
    let expected: Vec<i32> = (0..60).collect();
    assert_eq!(numbers(&mut kept).unwrap(), expected, "the session went on");

    let a = nodes.start(0, &[]);
    nodes.until_shown("the old primary follows", &a, &expected);
    assert_eq!(value::<String>(&mut a.connect(), "SELECT t FROM more"), "made by the new primary");
    let refused = a.connect().batch_execute("INSERT INTO notes VALUES (200)").unwrap_err();
    assert_eq!(state(&refused), "25006", "{refused:?}");
    let log = nodes.places[0].log();
    let told = log.lines().find_map(|line| line.split_once("WARNING:  set aside "));
    let (_, told) = told.unwrap_or_else(|| panic!("{}", nodes.logs()));
    assert!(told.starts_with("5 commits"), "{told}");
    let (_, aside) = told.split_once("collie wal dump ").expect("it says how they are read");
    let dump = program::collie(&["wal", "dump", aside], "").ok();
    assert!(dump.lines().filter(|line| line.contains("COMMIT")).count() >= 5, "{dump}");
    put(&mut kept, 60..70);
    let expected: Vec<i32> = (0..70).collect();
    nodes.until_shown("it goes on to follow", &a, &expected);

    // A promotion back, while the current leader runs.
    let promoted = program::collie(&["promote", &a.url()], "").ok();
    assert!(promoted.starts_with("promoted: leads in term 2"), "{promoted}");
    nodes.until("its session ends", || kept.is_closed() || kept.batch_execute("SELECT 1").is_err());
    put(&mut a.connect(), 70..80);
    let expected: Vec<i32> = (0..80).collect();
    nodes.until_shown("who led follows", &b, &expected);
    assert!(value::<bool>(&mut b.connect(), "SELECT pg_is_in_recovery()"));

    // After a restart of each with its own arguments, both have their roles of before.
    assert_eq!(b.stop().code(), Some(0), "{}", nodes.logs());
    a.kill();
    let a = nodes.start(0, &[]);
    let b = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    put(&mut a.connect(), 80..90);
    let expected: Vec<i32> = (0..90).collect();
    nodes.until_shown("both are what they were", &b, &expected);
    assert_eq!(b.stop().code(), Some(0), "{}", nodes.logs());
    assert_eq!(a.stop().code(), Some(0), "{}", nodes.logs());
}

/// Goal: with three nodes, one is promoted after the primary was killed; the third node and the old primary find the
/// new primary by themselves, and writes reach both. Method: a kill, a promotion of the node with the most log, a start
/// with the arguments of before.
#[test]
fn other_replicas_find_the_promoted_one_by_themselves() {
    let nodes = Nodes::new(3);
    let a = nodes.start(0, &[]);
    a.connect().batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    let of_a = ["--replica-of", &nodes.addresses[0]];
    let (b, c) = (nodes.start(1, &of_a), nodes.start(2, &of_a));
    put(&mut a.connect(), 0..20);
    let expected: Vec<i32> = (0..20).collect();
    nodes.until_shown("b follows", &b, &expected);
    nodes.until_shown("c follows", &c, &expected);
    a.kill();
    let (leader, other) = nodes.promote_either([&b, &c], ["b", "c"]);
    assert!(!value::<bool>(&mut leader.connect(), "SELECT pg_is_in_recovery()"));
    put(&mut leader.connect(), 20..40);
    let expected: Vec<i32> = (0..40).collect();
    nodes.until_shown("the other one follows it", other, &expected);
    let a = nodes.start(0, &[]);
    nodes.until_shown("a follows it", &a, &expected);
    for replica in [&a, other] {
        assert!(value::<bool>(&mut replica.connect(), "SELECT pg_is_in_recovery()"));
    }
    for server in [a, c, b] {
        assert_eq!(server.stop().code(), Some(0), "{}", nodes.logs());
    }
}

/// Goal: a commit that was answered at `remote_flush` is never lost: after a kill in the middle of commits, a replica
/// with less log than the other refuses to lead and names it, and the new leader has every answered commit (R9).
/// Method: a client commits until its server is killed; promote a replica, or the one that its refusal names; more
/// commits on the new primary, which waits for the other replica.
#[test]
fn no_commit_that_a_replica_confirmed_is_lost_in_a_promotion() {
    let nodes = Nodes::new(3);
    let quorum = ["--set", "replication.quorum=ANY 1 (b, c)"];
    let of_a = [&["--replica-of", &nodes.addresses[0]], &quorum[..]].concat();
    let a = nodes.start(0, &quorum);
    let (b, c) = (nodes.start(1, &of_a), nodes.start(2, &of_a));
    a.connect().batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    nodes.until_shown("b follows", &b, &[]);
    nodes.until_shown("c follows", &c, &[]);
    let mut client = a.connect();
    let (tell, told) = std::sync::mpsc::channel();
    let writing = thread::spawn(move || {
        let mut answered = 0;
        while client.execute("INSERT INTO notes VALUES ($1)", &[&answered]).is_ok() {
            answered += 1;
            let _nobody_counts_any_more = tell.send(answered);
        }
        answered
    });
    while told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nothing is answered\n{}", nodes.logs())) < 30 {}
    a.kill();
    let answered = writing.join().expect("it ends with its server");

    let (leader, other) = nodes.promote_either([&b, &c], ["b", "c"]);
    let found = numbers(&mut leader.connect()).unwrap();
    let expected: Vec<i32> = (0..answered).collect();
    assert_eq!(found[..expected.len()], expected, "{}", nodes.logs());
    assert!(found.len() <= expected.len() + 1, "{found:?}");
    put(&mut leader.connect(), 10_000..10_005);
    let expected = numbers(&mut leader.connect()).unwrap();
    nodes.until_shown("the other follows", other, &expected);
    let a = nodes.start(0, &quorum);
    nodes.until_shown("the old primary follows", &a, &expected);
}

/// Goal: a replica is filled by the node that leads, also if the one that it was named follows: after a promotion in
/// the middle of a fill it would otherwise wait for ever. Method: an empty replica that is sent to another replica.
#[test]
fn an_empty_replica_finds_the_node_that_leads() {
    let nodes = Nodes::new(3);
    let a = nodes.start(0, &[]);
    a.connect().batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").expect("a table is made");
    put(&mut a.connect(), 0..3);
    let b = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    nodes.until_shown("it follows", &b, &[0, 1, 2]);
    let c = nodes.start(2, &["--replica-of", &nodes.addresses[1]]);
    nodes.until_shown("it was filled by the leader", &c, &[0, 1, 2]);
}

//! Changes of the quorum list while nodes are killed, promoted and switched over: real servers.

use std::{sync::mpsc, thread};

use collie_clients_tests::{
    nodes::{Nodes, PATIENCE, numbers, put},
    program,
    session::value,
    state,
};
use postgres::Client;

fn set_quorum(client: &mut Client, list: &str) -> Result<(), postgres::Error> {
    client.batch_execute(&format!("CALL collie_set_option('replication.quorum', '{list}')"))
}

/// Returns the list from `collie_quorum` and, while it changes, the list before.
fn quorum(client: &mut Client) -> Option<(String, Option<String>)> {
    let row = client.query_opt("SELECT quorum, list_before FROM collie_quorum", &[]).expect("it is served");
    row.map(|row| (row.get(0), row.get(1)))
}

/// Waits until a change to `list` has ended.
fn until_changed(nodes: &Nodes, client: &mut Client, list: &str) {
    nodes.until(&format!("the change to {list}"), || quorum(client) == Some((list.to_owned(), None)));
}

/// Goal: a promotion goes by the newest quorum record, in the middle of a change by both lists, whatever the node's
/// arguments say, and the new leader finishes the change. Method: begin a change while the only replica of the old list
/// is dead, and kill the primary; a promotion of the other replica is refused, and succeeds once the dead replica is
/// back.
#[test]
fn a_promotion_in_the_middle_of_a_change_needs_both_lists() {
    let nodes = Nodes::new(3);
    let words = ["--set", "replication.quorum=ANY 1 (b)"];
    let of_a = [&["--replica-of", &nodes.addresses[0]], &words[..]].concat();
    let a = nodes.start(0, &words);
    let (b, c) = (nodes.start(1, &of_a), nodes.start(2, &of_a));
    let mut client = a.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    put(&mut client, 0..10);
    let expected: Vec<i32> = (0..10).collect();
    nodes.until_shown("b follows", &b, &expected);
    b.kill();
    client.batch_execute("CALL collie_set_option('replication.quorum', 'ANY 1 (b, c)')").unwrap();
    let has_it = "SELECT bool_or(flush_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication";
    nodes.until("c has the record", || value::<Option<bool>>(&mut client, has_it) == Some(true));
    assert_eq!(
        value::<Option<String>>(&mut client, "SELECT list_before FROM collie_quorum").as_deref(),
        Some("ANY 1 (b)")
    );
    a.kill();

    let refused = c.connect().query_one("SELECT collie_promote(false)", &[]).unwrap_err();
    assert_eq!(state(&refused), "55000", "{refused:?}");
    assert!(refused.to_string().contains("are needed") || format!("{refused:?}").contains("are needed"), "{refused:?}");
    let b = nodes.start(1, &of_a);
    let promoted = program::collie(&["promote", &c.url()], "").ok();
    assert!(promoted.starts_with("promoted: leads in term "), "{promoted}");
    let mut client = c.connect();
    until_changed(&nodes, &mut client, "ANY 1 (b, c)");
    assert_eq!(value::<String>(&mut client, "SHOW synchronous_standby_names"), "ANY 1 (b, c)");
    put(&mut client, 10..20);
    let expected: Vec<i32> = (0..20).collect();
    nodes.until_shown("b follows c", &b, &expected);
}

/// Goal: once a change has ended, a promotion goes by the new list, whatever a node's arguments say: a replica that
/// only the old list names needs the promise of a node of the new list. Method: a change from one replica to the other,
/// commits that waited for the new one only, a kill of all nodes; the promotion of the old one is refused, and the new
/// one is promoted.
#[test]
fn a_promotion_after_a_change_goes_by_the_new_list() {
    let nodes = Nodes::new(3);
    let words = ["--set", "replication.quorum=ANY 1 (b)"];
    let of_a = [&["--replica-of", &nodes.addresses[0]], &words[..]].concat();
    let a = nodes.start(0, &words);
    let (b, c) = (nodes.start(1, &of_a), nodes.start(2, &of_a));
    let mut client = a.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    set_quorum(&mut client, "ANY 1 (c)").unwrap();
    until_changed(&nodes, &mut client, "ANY 1 (c)");
    nodes.until("b has heard of it", || {
        value::<String>(&mut b.connect(), "SHOW synchronous_standby_names") == "ANY 1 (c)"
    });
    b.kill();
    put(&mut client, 0..10);
    c.kill();
    a.kill();

    let b = nodes.start(1, &of_a);
    let refused = program::collie(&["promote", &b.url()], "");
    assert!(refused.code != Some(0) && refused.err.contains("are needed"), "{}{}", refused.out, refused.err);
    let c = nodes.start(2, &of_a);
    let refused = program::collie(&["promote", &b.url()], "");
    assert!(refused.code != Some(0) && refused.err.contains("c has come further"), "{}{}", refused.out, refused.err);
    program::collie(&["promote", &c.url()], "").ok();
    let expected: Vec<i32> = (0..10).collect();
    assert_eq!(numbers(&mut c.connect()).unwrap(), expected, "{}", nodes.logs());
    nodes.until_shown("b follows c", &b, &expected);
}

/// Goal: no answered commit is lost when the primary is killed while the list changes all the time, in the middle of
/// whichever change. Method: one client commits, and another changes the list again and again, also before a change has
/// ended, until both lose their server; then promote a replica, or the other one if its refusal names that.
#[test]
fn no_answered_commit_is_lost_while_the_list_changes() {
    let nodes = Nodes::new(3);
    let words = ["--set", "replication.quorum=ANY 1 (b, c)"];
    let of_a = [&["--replica-of", &nodes.addresses[0]], &words[..]].concat();
    let a = nodes.start(0, &words);
    let (b, c) = (nodes.start(1, &of_a), nodes.start(2, &of_a));
    a.connect().batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    nodes.until_shown("b follows", &b, &[]);
    nodes.until_shown("c follows", &c, &[]);
    let (mut client, mut boss) = (a.connect(), a.connect());
    let (tell, told) = mpsc::channel();
    let writing = thread::spawn(move || {
        let mut answered = 0;
        while client.execute("INSERT INTO notes VALUES ($1)", &[&answered]).is_ok() {
            answered += 1;
            let _nobody_counts_any_more = tell.send(answered);
        }
        answered
    });
    let (tell_changed, changed) = mpsc::channel();
    let changing = thread::spawn(move || {
        for list in ["ANY 1 (b)", "ANY 1 (c)", "ANY 2 (b, c)", "ANY 1 (b, c)"].iter().cycle() {
            if set_quorum(&mut boss, list).is_err() {
                return;
            }
            let _nobody_counts_any_more = tell_changed.send(());
        }
    });
    for _ in 0..5 {
        changed.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nothing is changed\n{}", nodes.logs()));
    }
    while told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nothing is answered\n{}", nodes.logs())) < 60 {}
    a.kill();
    let answered = writing.join().expect("it ends with its server");
    changing.join().expect("it ends with its server");

    let (leader, other) = nodes.promote_either([&b, &c], ["b", "c"]);
    let found = numbers(&mut leader.connect()).unwrap();
    let expected: Vec<i32> = (0..answered).collect();
    assert_eq!(found[..expected.len()], expected, "{}", nodes.logs());
    // The new leader goes by the list that it finds, which may be a list of itself alone, for which it counts.
    let mut boss = leader.connect();
    // A change that the leader finds must end first; for that both lists are connected now.
    let a = nodes.start(0, &words);
    nodes.until("the change that it found is over", || set_quorum(&mut boss, "ANY 1 (a, b, c)").is_ok());
    until_changed(&nodes, &mut boss, "ANY 1 (a, b, c)");
    put(&mut boss, 10_000..10_005);
    let expected = numbers(&mut boss).unwrap();
    nodes.until_shown("the other follows", other, &expected);
    nodes.until_shown("the old primary follows", &a, &expected);
}

/// Goal: a switchover works in the middle of a change, which the new leader then continues, and nothing is lost; it is
/// refused where the promises of one of the lists cannot be had, and then the primary goes on. Method: a change from
/// the empty list to three nodes, one of which does not exist, so that it never ends; a switchover; back to the empty
/// list; a change to the node that does not exist, and a switchover.
#[test]
fn a_switchover_in_the_middle_of_a_change_hands_the_change_over() {
    let nodes = Nodes::new(3);
    let of_a = ["--replica-of", &nodes.addresses[0]];
    let a = nodes.start(0, &[]);
    let (b, c) = (nodes.start(1, &of_a), nodes.start(2, &of_a));
    let mut client = a.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").unwrap();
    put(&mut client, 0..10);
    set_quorum(&mut client, "ANY 3 (b, c, d)").unwrap();
    let both = Some(("ANY 3 (b, c, d)".to_owned(), Some(String::new())));
    assert_eq!(quorum(&mut client), both);
    client.batch_execute("SET synchronous_commit = local").unwrap();
    put(&mut client, 10..20);

    let switched = program::collie(&["promote", "--switchover", &b.url()], "");
    assert_eq!(switched.code, Some(0), "{}{}\n{}", switched.out, switched.err, nodes.logs());
    let mut client = b.connect();
    assert_eq!(numbers(&mut client).unwrap(), (0..20).collect::<Vec<i32>>(), "{}", nodes.logs());
    nodes.until("it goes on with the change", || quorum(&mut client) == both);
    set_quorum(&mut client, "").unwrap();
    assert_eq!(quorum(&mut client), None, "back at once");
    put(&mut client, 20..30);
    let expected: Vec<i32> = (0..30).collect();
    nodes.until_shown("a follows b", &a, &expected);

    set_quorum(&mut client, "ANY 1 (d)").unwrap();
    nodes.until("c has heard of it", || {
        value::<String>(&mut c.connect(), "SHOW synchronous_standby_names") == "ANY 1 (d)"
    });
    let refused = program::collie(&["promote", "--switchover", &c.url()], "");
    assert!(refused.code != Some(0) && refused.err.contains("are needed"), "{}{}", refused.out, refused.err);
    client.batch_execute("SET synchronous_commit = local").unwrap();
    put(&mut client, 30..40);
    set_quorum(&mut client, "").unwrap();
    let expected: Vec<i32> = (0..40).collect();
    nodes.until_shown("c follows b", &c, &expected);
}

//! Who is asked for commits changes while nodes are killed, promoted and hand over to one another: real servers.

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

/// What `collie_quorum` says: the list, and while it changes the one before.
fn quorum(client: &mut Client) -> Option<(String, Option<String>)> {
    let row = client.query_opt("SELECT quorum, list_before FROM collie_quorum", &[]).expect("it is served");
    row.map(|row| (row.get(0), row.get(1)))
}

/// Waits until a change to `list` is over.
fn until_changed(nodes: &Nodes, client: &mut Client, list: &str) {
    nodes.until(&format!("the change to {list}"), || quorum(client) == Some((list.to_owned(), None)));
}

/// Goal: a promotion goes by who was asked last, also in the middle of a change, by both lists then, whatever the words of its start say; and
/// the node that leads brings the change to its end. Method: a change while the only replica of the old list is dead, a kill of the primary; the
/// other replica is promoted in vain, and again with the dead one back.
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

/// Goal: once a change is over a promotion goes by the new list, whatever the words of a node's start say: a replica that only the old list
/// names leads by nobody's promise but that of the new one. Method: a change from one replica to the other, commits that only the new one was
/// waited for, both kills; the old one is promoted in vain, the new one comes back.
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

/// Goal: no commit that was answered is lost when the primary is killed while the list changes all the time, whichever change it is in the middle
/// of. Method: one client commits, another one changes the list from one to the next, also before a change is over, until both lose their
/// server; a replica is promoted, or the one that it names.
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
    // It goes by what it finds, which may be a list of itself alone: it counts for that.
    let mut boss = leader.connect();
    // A change that it finds goes on to its end first, for which both lists are there.
    let a = nodes.start(0, &words);
    nodes.until("the change that it found is over", || set_quorum(&mut boss, "ANY 1 (a, b, c)").is_ok());
    until_changed(&nodes, &mut boss, "ANY 1 (a, b, c)");
    put(&mut boss, 10_000..10_005);
    let expected = numbers(&mut boss).unwrap();
    nodes.until_shown("the other follows", other, &expected);
    nodes.until_shown("the old primary follows", &a, &expected);
}

/// Goal: the lead is handed over in the middle of a change, which the one that leads then goes on with, and nothing is lost; and it is not where
/// promises of one of both lists cannot be had: the primary goes on as one. Method: a change from nobody to three of which one does not
/// exist, so that it is never over; a switchover; back to nobody; a change to the one that does not exist, and a switchover.
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

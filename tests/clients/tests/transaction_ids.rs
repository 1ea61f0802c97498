//! Transaction ids and snapshots of them, as applications see them: which transactions have an id, what a snapshot
//! shows, and how each transaction ended.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use collie_clients_tests::{
    Place, Server,
    session::{run, value},
    state,
};
use postgres::Client;

/// Goal: a transaction that asks for its id gets one, the same until its end, also through a default; the question
/// whether it has one assigns none. Method: each function before and after; a read-only transaction cannot get an id.
#[test]
fn asking_for_an_id_assigns_one() {
    let server = Server::fresh();
    let mut client = server.connect();
    run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, by bigint NOT NULL DEFAULT txid_current())");
    run(&mut client, "BEGIN");
    let none = "SELECT txid_current_if_assigned() IS NULL AND pg_current_xact_id_if_assigned() IS NULL";
    assert!(value::<bool>(&mut client, none));
    let id: i64 = value(&mut client, "SELECT txid_current()");
    assert!(!value::<bool>(&mut client, none));
    assert_eq!(value::<String>(&mut client, "SELECT pg_current_xact_id()::text"), id.to_string());
    run(&mut client, "INSERT INTO t VALUES (1), (2); COMMIT");
    assert_eq!(value::<i64>(&mut client, "SELECT min(by) FROM t"), id);
    assert_eq!(value::<i64>(&mut client, "SELECT count(DISTINCT by) FROM t"), 1);
    run(&mut client, "INSERT INTO t VALUES (3)");
    assert!(value::<bool>(&mut client, "SELECT max(by) > min(by) FROM t"), "the first row of a statement by itself");
    assert!(value::<i64>(&mut client, "SELECT * FROM txid_current()") > id);
    run(&mut client, "BEGIN READ ONLY");
    assert_eq!(state(&client.batch_execute("SELECT txid_current()").unwrap_err()), "25006");
}

/// Goal: a snapshot in terms of ids shows exactly what the transaction sees, at each level. Method: rows that carry the
/// id of their writer, of committed, open and rolled back transactions; compare the table with
/// `txid_visible_in_snapshot`.
#[test]
fn snapshot_in_ids_agrees_with_what_is_seen() {
    let server = Server::fresh();
    let mut writers: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    run(&mut writers[0], "CREATE TABLE t (by bigint DEFAULT txid_current())");
    let mut ids = Vec::new();
    for writer in &mut writers {
        run(writer, "BEGIN; INSERT INTO t DEFAULT VALUES");
        ids.push(value::<i64>(writer, "SELECT txid_current()"));
    }
    let mut keeper = server.connect();
    run(&mut writers[2], "COMMIT");
    run(&mut keeper, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let agree = |client: &mut Client, seen: usize, asked: &[i64]| {
        assert_eq!(value::<i64>(client, "SELECT count(*) FROM t"), i64::try_from(seen).unwrap());
        let shown: Vec<bool> = asked
            .iter()
            .map(|id| value(client, &format!("SELECT txid_visible_in_snapshot({id}, txid_current_snapshot())")))
            .collect();
        let rows: Vec<bool> =
            asked.iter().map(|id| value(client, &format!("SELECT count(*) = 1 FROM t WHERE by = {id}"))).collect();
        (shown, rows)
    };
    let (shown, rows) = agree(&mut keeper, 1, &ids);
    assert_eq!(shown, [false, false, true, false, false, false]);
    assert_eq!(shown, rows);
    run(&mut writers[0], "COMMIT");
    run(&mut writers[5], "COMMIT");
    run(&mut writers[3], "ROLLBACK");
    // These transactions have ended since: only commits below the snapshot are visible, and a rolled back one left no
    // row.
    let (shown, rows) = agree(&mut keeper, 1, &[ids[0], ids[1], ids[2], ids[4], ids[5]]);
    assert_eq!(shown, [false, false, true, false, false]);
    assert_eq!(shown, rows);
    let mut fresh = server.connect();
    let (shown, rows) = agree(&mut fresh, 3, &[ids[0], ids[1], ids[2], ids[4], ids[5]]);
    assert_eq!(shown, [true, false, true, false, true]);
    assert_eq!(shown, rows);
    let open: Vec<i64> = fresh
        .query("SELECT txid_snapshot_xip(txid_current_snapshot())", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(open, [ids[1], ids[4]]);
    assert_eq!(value::<i64>(&mut fresh, "SELECT txid_snapshot_xmin(txid_current_snapshot())"), ids[1]);
    assert!(value::<bool>(&mut fresh, "SELECT pg_current_snapshot()::text = txid_current_snapshot()::text"));
    let own = "SELECT pg_visible_in_snapshot(pg_current_xact_id(), pg_current_snapshot())";
    assert!(!value::<bool>(&mut fresh, own), "one's own has not ended");
}

/// Goal: the status of each transaction is the outcome that its client got; an unknown one is NULL or refused, also
/// after a restart. Method: each kind of end, a transaction without writes, an id of the future, and one from before
/// the restart.
#[test]
fn ends_are_told_as_they_were() {
    let place = Place::new();
    let server = Server::start(&place);
    let (mut client, mut look) = (server.connect(), server.connect());
    run(&mut client, "CREATE TABLE t (n int)");
    let status = |look: &mut Client, id: i64| value::<Option<String>>(look, &format!("SELECT txid_status({id})"));
    let mut ids = Vec::new();
    for (work, end, wanted) in [
        ("INSERT INTO t VALUES (1)", "COMMIT", "committed"),
        ("INSERT INTO t VALUES (1)", "ROLLBACK", "aborted"),
        ("SELECT 1", "COMMIT", "committed"),
        ("SELECT 1", "ROLLBACK", "aborted"),
    ] {
        run(&mut client, &format!("BEGIN; {work}"));
        let id: i64 = value(&mut client, "SELECT txid_current()");
        assert_eq!(status(&mut look, id).as_deref(), Some("in progress"));
        assert_eq!(value::<String>(&mut client, "SELECT pg_xact_status(pg_current_xact_id())"), "in progress");
        run(&mut client, end);
        assert_eq!(status(&mut look, id).as_deref(), Some(wanted), "{work}; {end}");
        ids.push(id);
    }
    let error = look.batch_execute("SELECT txid_status(9000000000000000000)").unwrap_err();
    assert_eq!(state(&error), "22023");
    server.kill();
    let server = Server::start(&place);
    let mut look = server.connect();
    assert_eq!(status(&mut look, ids[0]), None);
    assert!(value::<i64>(&mut look, "SELECT txid_current()") > ids[3], "an id is given once");
}

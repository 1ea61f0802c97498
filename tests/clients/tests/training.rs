//! How much a replica may collect, and what stops the collection: real servers and `collie_training`.

use collie_clients_tests::{
    Psql, Server, message,
    nodes::{Nodes, put},
    session::{run, value},
    state,
};
use postgres::Client;

const GRANT: &str = "SELECT grant_us_per_s FROM collie_training.policy";

/// Starts a primary with the table `notes`, and a replica of it.
fn pair() -> (Nodes, Server, Server) {
    let nodes = Nodes::new(2);
    let primary = nodes.start(0, &[]);
    run(&mut primary.connect(), "CREATE TABLE notes (n int PRIMARY KEY)");
    let replica = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    (nodes, primary, replica)
}

/// Returns policy, state and grant.
fn policy(client: &mut Client) -> (String, String, i64) {
    let row =
        client.query_one("SELECT policy, state, grant_us_per_s FROM collie_training.policy", &[]).expect("it answers");
    (row.get(0), row.get(1), row.get(2))
}

/// Waits until the grant of `client`'s server is above 0, which is not so in every tick.
fn until_granted(nodes: &Nodes, client: &mut Client, when: &str) {
    nodes.until(&format!("nothing is granted {when}"), || value::<i64>(client, GRANT) > 0);
}

/// Returns the number of entries of the policy log with this change and reason.
fn said(client: &mut Client, change: &str, reason: &str) -> i64 {
    let count =
        "SELECT count(*) FROM collie_training.policy_log WHERE change = $1 AND reason LIKE '%' || $2::text || '%'";
    client.query_one(count, &[&change, &reason]).expect("it answers").get(0)
}

/// Goal: a calm replica may collect, and shows the signals of its policy; a primary may not. A replica that does not
/// hear its primary may not either, and says why; it may again once it hears it (RT5). Method: commits, then a kill of
/// the primary and its start.
#[test]
fn a_replica_may_collect_while_its_primary_is_heard() {
    let (nodes, primary, replica) = pair();
    let (mut writer, mut reader) = (primary.connect(), replica.connect());
    put(&mut writer, 0..100);
    until_granted(&nodes, &mut reader, "to a calm replica");
    let known = "SELECT policy = 'headroom' AND delay_us >= 0 AND bound_us >= delay_without_us + 1000 AND behind_us >= delay_us \
                 AND integral BETWEEN -1 AND 0 AND utilisation BETWEEN 0 AND 1 AND commit_us > 0 AND elastic_us_per_s <= grant_us_per_s \
                 FROM collie_training.policy";
    nodes.until("what it goes by is not shown", || {
        put(&mut writer, 100..101);
        run(&mut writer, "DELETE FROM notes WHERE n = 100");
        value::<Option<bool>>(&mut reader, known) == Some(true)
    });
    // A second without commits is not judged.
    nodes.until("no second is judged", || {
        put(&mut writer, 100..101);
        run(&mut writer, "DELETE FROM notes WHERE n = 100");
        value::<i64>(&mut reader, "SELECT windows FROM collie_training.policy") > 0
    });
    assert_eq!(policy(&mut writer), ("none".to_owned(), "primary".to_owned(), 0));
    let unknown = "SELECT delay_us IS NULL AND bound_us IS NULL AND elastic_us_per_s = 0 FROM collie_training.policy";
    assert!(value::<bool>(&mut writer, unknown));

    primary.kill();
    nodes.until("it goes on without its primary", || policy(&mut reader) == ("headroom".into(), "silent".into(), 0));
    assert!(value::<bool>(&mut reader, "SELECT behind_us = 'Infinity' FROM collie_training.policy"));
    assert!(said(&mut reader, "halted", "the primary was not heard of") >= 1);
    let _primary = nodes.start(0, &[]);
    until_granted(&nodes, &mut reader, "once the primary is back");
    assert!(said(&mut reader, "resumed", "") >= 1);
}

/// Goal: a promoted replica collects nothing from the moment when it leads. Method: promote a replica with a grant; for
/// a second it has none.
#[test]
fn a_promoted_replica_collects_nothing() {
    let (nodes, primary, replica) = pair();
    let mut client = replica.connect();
    put(&mut primary.connect(), 0..10);
    until_granted(&nodes, &mut client, "to a calm replica");
    primary.kill();
    assert!(value::<bool>(&mut client, "SELECT pg_promote(true, 60)"), "{}", nodes.logs());
    for _ in 0..20 {
        assert_eq!(policy(&mut client), ("none".to_owned(), "primary".to_owned(), 0));
        run(&mut client, "SELECT pg_sleep(0.1)");
    }
    assert_eq!(said(&mut client, "collects nothing", "it is promoted"), 1);
}

/// Goal: settings of collection change while a replica runs, for all sessions; settings that cannot change are refused
/// by name (22023), and so are invalid values, at start too. Switches are set one by one. Method: each kind.
#[test]
fn settings_change_while_it_runs_or_are_refused_by_name() {
    let (nodes, primary, replica) = pair();
    let mut client = replica.connect();
    put(&mut primary.connect(), 0..10);
    until_granted(&nodes, &mut client, "to a calm replica");
    run(&mut client, "CALL collie_set_option('training.collection_policy', 'none')");
    nodes.until("the policy has not changed", || policy(&mut client) == ("none".into(), "off".into(), 0));
    run(&mut client, "CALL collie_set_option('training.collection_policy', 'always')");
    until_granted(&nodes, &mut client, "by another policy");
    assert_eq!(policy(&mut replica.connect()).0, "always");
    run(&mut client, "CALL collie_set_option('training.collection_cpu', '0.01%')");
    nodes.until("the limit has not changed", || (1..1000).contains(&value::<i64>(&mut client, GRANT)));

    run(&mut client, "CALL collie_set_option('training.switch', 'SCAN:replayed_read=off')");
    let off = "SELECT unit || ':' || source FROM collie_training.switches WHERE NOT is_on";
    assert_eq!(value::<String>(&mut client, off), "SCAN:replayed_read");
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM collie_training.switches"), 120);
    for (call, part) in [
        ("'training.read_share', '0.5'", "training.read_share is read when the server starts"),
        ("'training.samples_bytes', '1GiB'", "training.samples_bytes is read when the server starts"),
        ("'training.apply', 'always'", "expected one of off, propose, canary"),
        ("'training.collection_cpu', '101%'", "training.collection_cpu = 101%: expected more than 0, at most 100%"),
        ("'training.collection_policy', 'pilot'", "expected one of none, always"),
        ("'training.colection_cpu', '1'", "did you mean training.collection_cpu?"),
        ("'training.switch', 'SKIM:local=on'", "there is no unit SKIM"),
    ] {
        let refused = client.batch_execute(&format!("CALL collie_set_option({call})")).unwrap_err();
        assert_eq!(state(&refused), "22023", "{call}: {refused:?}");
        assert!(message(&refused).contains(part), "{call}: {}", message(&refused));
    }
    let log = "SELECT count(*) FROM collie_training.policy_log WHERE subject IN ('setting', 'switch')";
    assert_eq!(value::<i64>(&mut client, log), 4, "what is refused changes nothing");
    drop(replica);
    for (set, part) in [
        ("training.collection_cpu=0", "expected more than 0, at most 100%"),
        ("training.collection_policy=pilot", "expected one of none, always"),
        ("training.read_share=2", "expected 0 to 100%"),
    ] {
        let refused = Server::refused(&nodes.places[1].data(), &["--set", set]);
        assert!(refused.line().contains(part), "{set}: {}", refused.line());
    }
}

/// Goal: the schema can be found like others: psql describes its views, no session can create or drop it, and views
/// without data are empty. Method: psql, statements that are refused, counts.
#[test]
fn the_schema_is_described_and_kept() {
    let server = Server::fresh();
    let psql = Psql::new(&server);
    let described = psql.script(&["-A", "-t"], "\\d collie_training.policy\n").ok();
    for column in ["policy|text|", "delay_us|double precision|", "grant_us_per_s|bigint|", "out_windows|bigint|"] {
        assert!(described.contains(column), "{described}");
    }
    let listed = psql.script(&["-A", "-t"], "\\dv collie_training.*\n").ok();
    for view in [
        "candidates",
        "decisions",
        "hardware",
        "models",
        "policy",
        "policy_log",
        "predictions",
        "samples",
        "switches",
        "units",
    ] {
        assert!(listed.contains(&format!("collie_training|{view}|view|")), "{view}: {listed}");
    }
    let mut client = server.connect();
    for (sql, expected) in [
        ("CREATE SCHEMA collie_training", "42P06"),
        ("DROP SCHEMA collie_training CASCADE", "2BP01"),
        ("CREATE TABLE collie_training.mine (n int)", "42501"),
    ] {
        let refused = client.batch_execute(sql).unwrap_err();
        assert_eq!(state(&refused), expected, "{sql}: {refused:?}");
    }
    // The policy log is left out: the start of collection, a second after the server's, is an entry in it.
    for view in ["candidates", "decisions", "models", "predictions"] {
        assert_eq!(value::<i64>(&mut client, &format!("SELECT count(*) FROM collie_training.{view}")), 0, "{view}");
    }
}

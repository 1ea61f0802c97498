//! Settings that change while a real server runs, by a person or by a decision, and what a crash leaves of them.

use std::fs;

use collie_clients_tests::{
    Place, Server, http,
    metrics::Metrics,
    nodes::{Nodes, numbers, put},
    session::{run, value},
    state,
};
use collie_train::decision::{Entry, JOURNAL_NAME, Row, Verdict, journal_header, read_journal, sample_journal};

const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

/// Returns the value in force of a setting that decisions may be about; `None`: the node has it not.
fn in_force(place: &Place, setting: &str) -> Option<f64> {
    let answer = http::get(Server::http_address(place), "/metrics");
    let metrics = Metrics::read(&answer.body).unwrap_or_else(|error| panic!("{error}\n{}", answer.body));
    metrics.labelled("collie_training_setting", &[("setting", setting)])
}

/// Writes a journal that ends with `verdict` of a change of `wal.flush_delay` from 10 ms to 5 ms.
fn write_journal(place: &Place, verdict: Verdict) {
    let sample = read_journal(&sample_journal()).expect("a journal");
    let [trial, canary, _] = &sample.entries[..] else { panic!("three rows") };
    let rows = [trial.clone(), canary.clone(), Entry::from(Row { verdict, ..canary.row })];
    let bytes = rows.iter().fold(journal_header(), |bytes, entry| [bytes, entry.encode()].concat());
    fs::write(place.data().join(JOURNAL_NAME), bytes).expect("it is written");
}

/// Goal: whoever runs a server changes when it flushes and collects by a call, at once and for all; what cannot be is 22023 and changes
/// nothing, as is what only a replica has. Method: each setting by its name on a primary, with the values that `/metrics` shows.
#[test]
fn settings_change_by_a_call_while_the_server_runs() {
    let place = Place::new();
    let server = Server::start_with(&place, &HTTP);
    let mut client = server.connect();
    run(&mut client, "CREATE TABLE notes (n int PRIMARY KEY)");
    for (setting, value, shown) in [
        ("wal.flush_delay", "3ms", 3000.0),
        ("wal.flush_bytes", "128KiB", 131_072.0),
        ("store.gc_interval", "8ms", 8000.0),
        ("store.write_buffer_size", "1MiB", 1_048_576.0),
    ] {
        assert_ne!(in_force(&place, setting), Some(shown));
        run(&mut client, &format!("CALL collie_set_option('{setting}', '{value}')"));
        assert_eq!(in_force(&place, setting), Some(shown), "{setting}");
    }
    for (setting, value) in [
        ("wal.flush_delay", "20us"),
        ("wal.flush_bytes", "1GiB"),
        ("store.gc_interval", "0ms"),
        ("wal.segment_size", "1MiB"),
        ("replication.apply_workers", "1"),
        ("replication.slots", "3"),
    ] {
        let error = client.batch_execute(&format!("CALL collie_set_option('{setting}', '{value}')")).unwrap_err();
        assert_eq!(state(&error), "22023", "{setting} = {value}: {error}");
    }
    assert_eq!(in_force(&place, "wal.flush_delay"), Some(3000.0));
    assert_eq!(in_force(&place, "replication.apply_workers"), None, "of replicas");
    put(&mut client, 0..50);
    assert_eq!(numbers(&mut client).expect("it answers").len(), 50);
}

/// Goal: RT10 on a real server: a change that was in flight when the process ended is not in force in the next one, and its row says how it
/// ended; one that was kept is, unless decisions are off or somebody gave the setting. Method: a server that is killed, with the journal of
/// each; a start in each way.
#[test]
fn what_was_tried_ends_with_the_process_and_what_was_kept_does_not() {
    const ROWS: &str = "SELECT verdict || ': ' || reason FROM collie_training.decisions WHERE id = 1";
    let place = Place::new();
    Server::start_with(&place, &HTTP).kill();
    let starts = |verdict: Verdict, setting: &str| {
        write_journal(&place, verdict);
        let server = Server::start_with(&place, &[&HTTP[..], &["--set", setting]].concat());
        let mut client = server.connect();
        let found = (in_force(&place, "wal.flush_delay"), value::<String>(&mut client, ROWS));
        server.kill();
        found
    };
    let canary = Verdict::Canary { until_s: u64::MAX };
    for setting in ["training.apply=propose", "training.apply=canary", "training.apply=off"] {
        for verdict in [Verdict::Trial, canary] {
            let (delay_us, row) = starts(verdict, setting);
            assert_eq!(delay_us, Some(10_000.0), "{setting}");
            assert!(row.starts_with("interrupted: rolled back: the process ended"), "{setting}: {row}");
        }
    }
    let kept = Verdict::Kept { gain: 0.25 };
    for (setting, delay_us) in [
        ("training.apply=propose", 5000.0),
        ("training.apply=canary", 5000.0),
        ("training.apply=off", 10_000.0),
        ("wal.flush_delay=7ms", 7000.0),
    ] {
        assert_eq!(starts(kept, setting), (Some(delay_us), "kept: kept, +25.0 % seen".to_owned()), "{setting}");
    }
    fs::write(place.data().join(JOURNAL_NAME), b"no journal, whoever put it here").expect("it is written");
    let server = Server::start_with(&place, &HTTP);
    assert!(place.log().contains("no decisions are made: the journal"), "{}", place.log());
    assert_eq!(value::<i64>(&mut server.connect(), "SELECT count(*) FROM collie_training.decisions"), 0);
}

/// Goal: a replica's apply workers, and how long its primary gathers for it, change while it follows, and it goes on showing what its primary
/// has; promoted, it has no workers any more. Method: one worker and all of them in turn under writes; another delay; a promotion.
#[test]
fn apply_workers_change_while_a_replica_follows() {
    const WORKERS: &str = "replication.apply_workers";
    let nodes = Nodes::new(2);
    let primary = nodes.start(0, &HTTP);
    let mut writer = primary.connect();
    run(&mut writer, "CREATE TABLE notes (n int PRIMARY KEY)");
    let more = ["--replica-of", &nodes.addresses[0], "--set", "replication.apply_workers=3"];
    let replica = nodes.start(1, &[&HTTP[..], &more].concat());
    let mut client = replica.connect();
    let mut expected = Vec::new();
    for (round, workers) in [(0, "1"), (1, "2"), (2, "0"), (3, "1")] {
        run(&mut client, &format!("CALL collie_set_option('{WORKERS}', '{workers}')"));
        let shown = if workers == "0" { 3.0 } else { workers.parse().expect("a number") };
        assert_eq!(in_force(&nodes.places[1], WORKERS), Some(shown));
        put(&mut writer, round * 100..round * 100 + 100);
        expected.extend(round * 100..round * 100 + 100);
        nodes.until_shown("the replica does not follow", &replica, &expected);
    }
    let delays = || ["replication.flush_delay", "wal.flush_delay"].map(|setting| in_force(&nodes.places[0], setting));
    assert_eq!(delays(), [Some(500.0), None], "a replica is there: the shorter of the two is in force");
    run(&mut writer, "CALL collie_set_option('replication.flush_delay', '2ms')");
    assert_eq!(delays(), [Some(2000.0), None]);
    put(&mut writer, 400..420);
    expected.extend(400..420);
    nodes.until_shown("the replica does not follow", &replica, &expected);
    let error = client.batch_execute(&format!("CALL collie_set_option('{WORKERS}', '4')")).unwrap_err();
    assert_eq!(state(&error), "22023", "{error}");
    primary.kill();
    assert!(value::<bool>(&mut client, "SELECT pg_promote(true, 60)"), "{}", nodes.logs());
    assert_eq!(in_force(&nodes.places[1], WORKERS), None);
    assert_eq!(in_force(&nodes.places[1], "wal.flush_delay"), Some(10_000.0), "its log is its own now");
}

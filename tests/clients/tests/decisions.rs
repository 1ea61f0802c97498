//! Settings that change while a real server runs, by a call or by a decision, and which values are in force after a
//! crash.

use std::{fs, time::Duration};

use collie_clients_tests::{
    Place, Server, Stopwatch, http,
    metrics::{Labels, Metrics},
    nodes::{Nodes, numbers, put},
    session::{run, value},
    state,
};
use collie_env::Env;
use collie_samples::{PackageDir, unit_of, wrong_package};
use collie_train::decision::{Entry, JOURNAL_NAME, Row, Verdict, journal_header, read_journal, sample_journal};

const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

/// A decision takes more than a minute: first the samples, then forty seconds of a trial.
const PATIENCE: Duration = Duration::from_secs(400);

fn metrics(place: &Place) -> Metrics {
    let answer = http::get(Server::http_address(place), "/metrics");
    Metrics::read(&answer.body).unwrap_or_else(|error| panic!("{error}\n{}", answer.body))
}

/// Returns the value in force of a setting that decisions can change, or `None` if the node does not have the setting.
fn in_force(place: &Place, setting: &str) -> Option<f64> {
    metrics(place).labelled("collie_training_setting", &[("setting", setting)])
}

/// Writes a decision journal that ends with `verdict` for a change of `wal.flush_delay` from 10 ms to 5 ms.
fn write_journal(place: &Place, verdict: Verdict) {
    let sample = read_journal(&sample_journal()).expect("a journal");
    let [trial, canary, _] = &sample.entries[..] else { panic!("three rows") };
    let rows = [trial.clone(), canary.clone(), Entry::from(Row { verdict, ..canary.row })];
    let bytes = rows.iter().fold(journal_header(), |bytes, entry| [bytes, entry.encode()].concat());
    fs::write(place.data().join(JOURNAL_NAME), bytes).expect("it is written");
}

/// Goal: an operator can change by a call when a server flushes and collects garbage, at once and for all sessions. An
/// invalid value gets 22023 and changes nothing, and so does a setting that only a replica has. Method: each setting by
/// its name on a primary, compared with the value in `/metrics`.
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

/// Goal: RT10 on a real server. A change on trial when the process ended is not in force in the next process, and its
/// row says how it ended. A change that was kept is in force, unless decisions are off or the configuration gives the
/// setting. Method: a killed server with the journal of each case; a start with each configuration.
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

/// Goal: the number of a replica's apply workers, and how long its primary gathers bytes for it, can change while it
/// follows, and it goes on showing what its primary has; after a promotion it has no workers. Method: one worker and
/// all of them in turn under writes; another delay; a promotion.
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

/// The units whose models decisions use.
const ASKED: [u8; 6] = [2, 9, 13, 20, 21, 22];

/// Puts models with the wrong sign into a data directory: the more work a call has, the shorter its predicted time.
fn put_wrong_models(place: &Place) {
    let packages = PackageDir::new(Env::real().files, &place.data().join("models"));
    for number in ASKED {
        let unit = unit_of(number, 1).expect("a unit");
        packages.store(&wrong_package(unit, u64::from(number)).expect("a fit")).expect("a disk that works");
    }
}

/// Returns the values in force, and a function that returns the number of changes with a verdict.
fn settings_and_verdicts(place: &Place) -> (Vec<(Labels, f64)>, impl Fn(&str) -> f64) {
    let metrics = metrics(place);
    let settings = metrics.all["collie_training_setting"].samples.clone().into_iter().collect();
    let count = move |verdict: &str| metrics.labelled("collie_training_decisions", &[("verdict", verdict)]);
    (settings, move |verdict: &str| count(verdict).expect("every verdict is there"))
}

/// Lets a server with wrong-signed models decide under a load, until a change has ended with `verdict`. `harm` gives
/// the time for which a statement of the load sleeps, from whether a canary is in progress and whether a setting is
/// changed. Then the old values are in force, also after a restart.
fn wrong_models_end_with(verdict: &str, harm: impl Fn(bool, bool) -> Option<f64>) {
    let place = Place::new();
    Server::start_with(&place, &HTTP).kill();
    put_wrong_models(&place);
    let server = Server::start_with(&place, &[&HTTP[..], &["--set", "training.apply=canary"]].concat());
    let (before, _) = settings_and_verdicts(&place);
    let (mut writer, mut reader) = (server.connect(), server.connect());
    run(&mut writer, "CREATE TABLE notes (n int PRIMARY KEY, v int)");
    run(&mut writer, "INSERT INTO notes SELECT n, 0 FROM generate_series(0, 99) n");
    // The reader's old snapshot makes it pass the versions that were written since; the collector's interval matters
    // for that.
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM notes");
    (0..10).for_each(|_| run(&mut writer, "UPDATE notes SET v = v + 1"));
    let reads = "SELECT sum((SELECT v FROM notes WHERE n = g % 100)) FROM generate_series(1, 500) g";
    let start = Stopwatch::start();
    let (mut is_changed_on_trial, mut was_canary) = (false, false);
    loop {
        let (now, count) = settings_and_verdicts(&place);
        if count(verdict) > 0.0 {
            break;
        }
        let said = "SELECT string_agg(setting || ' ' || reason, '; ') FROM collie_training.decisions";
        assert!(count("kept") == 0.0 && start.elapsed() < PATIENCE, "{:?}", value::<Option<String>>(&mut writer, said));
        was_canary |= count("canary") > 0.0;
        is_changed_on_trial |= now != before && count("trial") > 0.0;
        match harm(count("canary") > 0.0, now != before).filter(|_| count("trial") + count("canary") > 0.0) {
            Some(seconds) => run(&mut reader, &format!("SELECT pg_sleep({seconds})")),
            None => assert_eq!(value::<i64>(&mut reader, reads), 0),
        }
    }
    assert!(is_changed_on_trial, "a value was tried");
    assert_eq!(was_canary, verdict == "rolled back");
    let (after, count) = settings_and_verdicts(&place);
    assert_eq!((&after, count("kept")), (&before, 0.0));
    let ended = format!(
        "SELECT count(*) FROM collie_training.decisions WHERE verdict = '{verdict}' AND old_value <> new_value"
    );
    assert_eq!(value::<i64>(&mut writer, &ended), 1);
    server.kill();
    let server = Server::start_with(&place, &[&HTTP[..], &["--set", "training.apply=canary"]].concat());
    let (after, _) = settings_and_verdicts(&place);
    assert_eq!(after, before);
    assert_eq!(value::<i64>(&mut server.connect(), &ended), 1);
}

/// Goal: models with the wrong sign that a real server uses cause no lasting change: a proposal that performs badly on
/// trial is rejected. Method: a load that is slow while a value is changed.
#[test]
fn wrong_models_are_rejected_by_the_trial() {
    wrong_models_end_with("rejected", |_, is_changed| is_changed.then_some(0.25));
}

/// Goal: a change that performs well on trial and badly afterwards is rolled back. Method: a load that is slow under
/// the old value during the trial, and slower under the new one afterwards.
#[test]
fn wrong_models_that_pass_the_trial_are_rolled_back() {
    wrong_models_end_with("rolled back", |is_canary, is_changed| match (is_canary, is_changed) {
        (false, false) => Some(0.25),
        (true, true) => Some(0.6),
        _ => None,
    });
}

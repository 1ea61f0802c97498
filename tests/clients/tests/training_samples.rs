//! Samples of real servers: a replica takes them, keeps them in files, fits models and uses them; a primary takes some
//! of its own calls.

use std::path::Path;

use collie_clients_tests::{
    Place, Server, message,
    nodes::{Nodes, put},
    session::{run, value},
    state,
};
use collie_samples::{FileName, SampleDir, SampleRow};
use postgres::Client;

/// The number of the source `calibration`.
const CALIBRATION: u8 = 3;

/// Settings with which a replica grants all that it can, and fits and judges models every second.
const SOON: [&str; 6] = [
    "--set",
    "training.collection_policy=always",
    "--set",
    "training.fit_interval=1s",
    "--set",
    "training.shadow_time=1s",
];

/// Starts a primary with the table `notes`, and a replica that collects three units only, since a fit of all takes long
/// in an unoptimized build.
fn pair(nodes: &Nodes) -> (Server, Server) {
    let primary = nodes.start(0, &[]);
    run(&mut primary.connect(), "CREATE TABLE notes (n int PRIMARY KEY)");
    put(&mut primary.connect(), 0..100);
    let replica = nodes.start(1, &[&["--replica-of", &nodes.addresses[0]][..], &SOON].concat());
    nodes.until_shown("it follows", &replica, &(0..100).collect::<Vec<_>>());
    let mut client = replica.connect();
    for switch in ["*:*=off", "ROW_READ:local=on", "PARSE:local=on", "REPL_RECEIVE:apply=on"] {
        run(&mut client, &format!("SET collie.training_switch = '{switch}'"));
    }
    (primary, replica)
}

/// Reads rows one by one, and inserts and deletes a row.
fn work(writer: &mut Client, reader: &mut Client) {
    for n in 0..20 {
        assert_eq!(value::<i32>(reader, &format!("SELECT n FROM notes WHERE n = {n}")), n);
    }
    put(writer, 1000..1001);
    run(writer, "DELETE FROM notes WHERE n = 1000");
}

/// Returns the samples in all files under a data directory.
fn rows(data: &Path) -> Vec<(FileName, Vec<SampleRow>)> {
    let dir = SampleDir::new(collie_env::Env::real().files, data);
    let names = dir.list().expect("it can be listed").into_iter().filter(|name| name.unit != 0);
    names.map(|name| (name.clone(), dir.read(&name).expect("a whole file").rows)).collect()
}

fn count(client: &mut Client, of: &str) -> i64 {
    value(client, &format!("SELECT count(*) FROM collie_training.{of}"))
}

/// Returns the number of samples from a source.
fn samples(client: &mut Client, source: &str) -> i64 {
    value(client, &format!("SELECT sum({source})::bigint FROM collie_training.units"))
}

/// Goal: a replica's samples become files that other programs can read, models and predictions; a package from
/// elsewhere is judged before it is used; the views show all of it. Its primary samples a thousandth of its own calls
/// and nothing else. Method: reads on the replica and writes on the primary until each is there; the model's own
/// package as a foreign one; the files of both after a stop.
#[test]
fn a_replica_learns_and_its_primary_is_calibrated() {
    let nodes = Nodes::new(2);
    let (primary, replica) = pair(&nodes);
    let (mut writer, mut reader) = (primary.connect(), replica.connect());
    nodes.until("there is no model", || {
        work(&mut writer, &mut reader);
        count(&mut reader, "models WHERE state = 'active' AND unit = 'ROW_READ'") > 0
    });
    assert!(samples(&mut reader, "local") >= 50 && samples(&mut reader, "calibration") == 0);
    assert_eq!(count(&mut reader, "units WHERE p > 0 AND unit NOT IN ('ROW_READ', 'PARSE', 'REPL_RECEIVE')"), 0);
    let file = "samples WHERE unit = 'ROW_READ' AND node = 'b' AND rows > 0 AND bytes > 0 AND version = 1";
    assert!(count(&mut reader, file) > 0, "{}", nodes.logs());
    nodes.until("nothing is predicted", || {
        work(&mut writer, &mut reader);
        count(&mut reader, "predictions WHERE unit = 'ROW_READ' AND predicted > 0 AND seen > 0 AND low <= high") > 0
    });
    nodes.until("the model is not judged", || {
        count(&mut reader, "models WHERE coverage IS NOT NULL AND error_seen IS NOT NULL AND NOT is_stale") > 0
            && count(&mut reader, "units WHERE error IS NOT NULL") > 0
    });
    assert_eq!(count(&mut reader, "hardware WHERE property = 'sync_us_p50' AND value::float8 > 0"), 1);

    let models = nodes.places[1].data().join("models");
    std::fs::create_dir_all(models.join("incoming")).expect("a folder");
    std::fs::copy(models.join("ou=09-label=0.package"), models.join("incoming/a.package")).expect("a copy");
    let said = |change: &str| format!("policy_log WHERE subject = 'model' AND change = 'incoming/a.package {change}'");
    nodes.until("the package is not decided about", || {
        work(&mut writer, &mut reader);
        count(&mut reader, &said("is active")) + count(&mut reader, &said("is refused")) > 0
    });
    assert_eq!(count(&mut reader, &said("is judged")), 1);

    nodes.until("the primary is not calibrated", || {
        work(&mut writer, &mut reader);
        samples(&mut writer, "calibration") > 0
    });
    assert_eq!(samples(&mut writer, "apply + local + replayed_read"), 0);
    assert_eq!(count(&mut writer, "units WHERE p > 0.00101"), 0);
    assert_eq!(count(&mut writer, "policy_log WHERE subject = 'fit'"), 0);
    assert_eq!(replica.stop().code(), Some(0), "{}", nodes.logs());
    assert_eq!(primary.stop().code(), Some(0), "{}", nodes.logs());
    let of_primary = rows(&nodes.places[0].data());
    assert!(!of_primary.is_empty(), "what it had is written when it stops");
    for (name, rows) in &of_primary {
        let is_calibration = |row: &SampleRow| row.sample.source == CALIBRATION && row.sample.p <= 0.00101;
        assert!(name.node == "a" && rows.iter().all(is_calibration), "{name:?}");
    }
    let of_replica = rows(&nodes.places[1].data());
    let units = |unit: u8, source: u8| {
        let of_unit = of_replica.iter().filter(|(name, _)| name.unit == unit);
        of_unit.flat_map(|(_, rows)| rows).filter(|row| row.sample.source == source).count()
    };
    assert!(
        units(9, 1) >= 50 && units(24, 0) > 0 && units(14, 1) > 0,
        "reads of clients, their texts, and what was received"
    );
    let mut parsed = of_replica.iter().filter(|(name, _)| name.unit == 14).flat_map(|(_, rows)| rows);
    assert!(
        parsed.all(|row| row.sample.labels[1] >= u64::from(row.sample.features[0])),
        "a tree is larger than its text"
    );
    assert!(of_replica.iter().flat_map(|(_, rows)| rows).all(|row| row.sample.source != CALIBRATION));
}

/// Goal: a promoted replica takes no more samples than a primary does, from that moment on, and fits nothing. Method:
/// promote a replica that collects; its work afterwards.
#[test]
fn a_promoted_replica_collects_as_a_primary_does() {
    let nodes = Nodes::new(2);
    let (primary, replica) = pair(&nodes);
    let (mut writer, mut reader) = (primary.connect(), replica.connect());
    nodes.until("it does not collect", || {
        work(&mut writer, &mut reader);
        samples(&mut reader, "local") > 0 && samples(&mut reader, "apply") > 0
    });
    primary.kill();
    assert!(value::<bool>(&mut reader, "SELECT pg_promote(true, 60)"), "{}", nodes.logs());
    assert_eq!(count(&mut reader, "units WHERE p > 0.00101"), 0);
    // Samples from before are drained by the next period.
    run(&mut reader, "SELECT pg_sleep(0.5)");
    run(&mut reader, "SET collie.training_switch = '*:*=on'");
    let before = (
        samples(&mut reader, "apply + local + replayed_read"),
        count(&mut reader, "policy_log WHERE change = 'begins'"),
    );
    let mut other = replica.connect();
    nodes.until("it is not calibrated", || {
        work(&mut other, &mut reader);
        samples(&mut reader, "calibration") > 0
    });
    let after = (
        samples(&mut reader, "apply + local + replayed_read"),
        count(&mut reader, "policy_log WHERE change = 'begins'"),
    );
    assert_eq!(after, before, "{}", nodes.logs());
    assert_eq!(count(&mut reader, "units WHERE p > 0.00101"), 0);
}

/// Goal: with samples switched off none are taken or kept, as the views show, and they can be switched on while the
/// server runs; a switch cannot be set for a transaction. Method: a server started with samples off, its files, a
/// change of the setting.
#[test]
fn samples_can_be_switched_off() {
    let place = Place::new();
    let server = Server::start_with(&place, &["--set", "training.samples=off"]);
    let mut client = server.connect();
    let nodes = Nodes::new(0);
    let is =
        |client: &mut Client, what: &str| value::<String>(client, "SELECT samples FROM collie_training.policy") == what;
    nodes.until("it is not off", || is(&mut client, "off"));
    assert_eq!(
        value::<String>(&mut client, "SELECT samples_reason FROM collie_training.policy"),
        "training.samples is off"
    );
    assert_eq!(count(&mut client, "units WHERE p > 0 OR samples > 0"), 0);
    run(&mut client, "CALL collie_set_option('training.samples', 'on')");
    nodes.until("it is not on", || is(&mut client, "collecting"));
    nodes.until("nothing is sampled", || count(&mut client, "units WHERE p > 0") == 30);
    run(&mut client, "CALL collie_set_option('training.samples', 'off')");
    nodes.until("it is not off again", || is(&mut client, "off") && count(&mut client, "units WHERE p > 0") == 0);
    let refused = client.batch_execute("SET LOCAL collie.training_switch = '*:*=off'").unwrap_err();
    assert_eq!(state(&refused), "22023", "{refused:?}");
    assert!(message(&refused).contains("holds for the server"), "{}", message(&refused));
    assert_eq!(server.stop().code(), Some(0), "{}", place.log());
    let files: Vec<(FileName, Vec<SampleRow>)> = rows(&place.data());
    assert!(files.iter().all(|(_, rows)| rows.iter().all(|row| row.sample.source == CALIBRATION)));
}

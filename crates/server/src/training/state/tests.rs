//! Following periods, halts, settings and switches of [`Training`], with signals made by hand.

use std::sync::Arc;

use collie_env::SimClock;

use super::*;
use crate::training::{
    rates::{May, Rates},
    sampler::tests::Told,
};

const CALM: Signals = Signals {
    delay_us: Some(300.0),
    age_us: 0.0,
    commits_per_s: 1000.0,
    busy_us: 10_000.0,
    spent_us: 0.0,
    offered_us_per_s: 1e6,
    heartbeat_us: 50_000.0,
    run_queue_us_p99: 0.0,
    workers: 1,
};

fn training() -> Training {
    sampled().0
}

/// Returns the same, with its sampler.
fn sampled() -> (Training, Arc<Told>) {
    let clock = Arc::new(SimClock::new());
    let env = Env { clock, ..Env::simulated(1).0 };
    let told = Arc::new(Told::default());
    (Training::over(config::Training::default(), 4, "/data".as_ref(), env, told.clone()), told)
}

/// Ticks until something is granted.
fn calm(training: &Training, life: Life) {
    for _ in 0..10 {
        assert!(training.tick(life, &CALM));
    }
    assert!(granted(training).0 > 0);
}

/// Returns C and its elastic part, as the collecting threads read them.
fn granted(training: &Training) -> (u64, u64) {
    (training.granted.collect_us_per_s(), training.granted.elastic().rate_us_per_s())
}

fn said(training: &Training) -> Vec<(&'static str, String)> {
    training.changes().into_iter().map(|change| (change.subject, change.change)).collect()
}

/// Goal: A1: a calm replica is granted work, a node that leads none, and no earlier tick grants anything afterwards.
/// Method: a following period, its end, a late tick, the next period, a tick of the first.
#[test]
fn what_was_granted_ends_with_the_life() {
    let training = training();
    assert_eq!((granted(&training), training.policy().state), ((0, 0), "primary"));
    let first = training.begin();
    assert_eq!((training.policy().policy, training.policy().state), ("headroom", "starting"));
    calm(&training, first);
    let row = training.policy();
    assert_eq!((row.state, row.delay_us, row.without_us), ("collecting", Some(300.0), Some(300.0)));
    assert!(row.elastic_us_per_s > 0 && row.elastic_us_per_s < row.grant_us_per_s, "{row:?}");
    training.stop("it is promoted");
    assert_eq!(granted(&training), (0, 0));
    assert!(!training.tick(first, &CALM));
    assert_eq!((granted(&training), training.policy().policy, training.policy().state), ((0, 0), "none", "primary"));
    let second = training.begin();
    assert!(!training.tick(first, &CALM) && granted(&training) == (0, 0));
    calm(&training, second);
    training.end(first, "late");
    assert!(granted(&training).0 > 0, "the end of another life");
    training.end(second, "it follows no primary");
    assert_eq!(granted(&training), (0, 0));
    let roles = [("role", "replica"), ("role", "collects nothing")].map(|(what, change)| (what, change.to_owned()));
    assert_eq!(said(&training), [&roles[..], &roles].concat());
    assert_eq!(training.changes()[1].reason, "it is promoted");
}

/// Goal: TRAIN-5: silence, a long delay and an old commit each withdraw the grant in the tick that shows them; each is
/// counted and logged once, with its end. Method: one of each between calm ticks.
#[test]
fn reasons_to_halt_are_told_once() {
    let training = training();
    let life = training.begin();
    for (bad, word) in [
        (Signals { heartbeat_us: 2e6, ..CALM }, "silent"),
        (Signals { age_us: 1e6, ..CALM }, "far"),
        (Signals { heartbeat_us: f64::INFINITY, ..CALM }, "silent"),
    ] {
        calm(&training, life);
        for _ in 0..3 {
            training.tick(life, &bad);
            assert_eq!((granted(&training), training.policy().state), ((0, 0), word));
        }
        assert_eq!(training.policy().behind_us.is_some_and(f64::is_infinite), word == "silent");
    }
    calm(&training, life);
    let halted = ["halted", "resumed"].map(|change| ("grant", change.to_owned()));
    assert_eq!(said(&training)[1..], [&halted[..], &halted, &halted].concat());
    let halts = [("silent", 2), ("far", 1), ("above_maximum", 0), ("calming", 0)];
    assert_eq!(training.policy().halts, halts);
}

/// Goal: settings change at once or are refused by name, and a change withdraws a grant that was based on others.
/// Method: each kind of name and value, on a replica with a grant.
#[test]
fn settings_change_while_it_runs_or_are_refused() {
    let training = training();
    let life = training.begin();
    calm(&training, life);
    training.set_option("training.collection_cpu", "25%").unwrap();
    assert!(granted(&training).0 > 0, "nothing has changed");
    training.set_option("training.collection_cpu", "1%").unwrap();
    assert_eq!((granted(&training), training.policy().state), ((0, 0), "starting"));
    calm(&training, life);
    assert_eq!(granted(&training).0, 40_000, "a hundredth of four cores");
    training.set_option("training.collection_policy", "none").unwrap();
    training.tick(life, &CALM);
    assert_eq!((granted(&training), training.policy().state), ((0, 0), "off"));
    let settings = ["training.collection_cpu = 1%", "training.collection_policy = none"];
    assert_eq!(said(&training)[1..], settings.map(|setting| ("setting", setting.to_owned())));
    for (name, value, part) in [
        ("training.collection_cpu", "0", "training.collection_cpu = 0: expected more than 0"),
        ("training.collection_policy", "pilot", "expected one of none, always"),
        ("training.read_share", "0.5", "training.read_share is read when the server starts"),
        ("training.samples_bytes", "1GiB", "is read when the server starts"),
        ("training.apply", "always", "expected one of off, propose, canary"),
        ("replication.apply_workers", "17", "expected 0 to 16"),
        ("replication.apply_workers", "2", "no database is open"),
        ("replication.flush_delay", "soon", "expected a time"),
        ("replication.slots", "2", "is read when the server starts"),
        ("training.collection_cpus", "1", "did you mean training.collection_cpu?"),
        ("training.switch", "SKIM:local=on", "there is no unit SKIM"),
    ] {
        let error = training.set_option(name, value).unwrap_err();
        assert!(error.contains(part), "{name} = {value}: {error}");
    }
    assert_eq!(said(&training).len(), 3, "what is refused changes nothing");
    for mode in ["off", "canary", "canary"] {
        training.set_option("training.apply", mode).unwrap();
    }
    let modes = ["training.apply = off", "training.apply = canary"].map(|change| ("setting", change.to_owned()));
    assert_eq!(said(&training)[3..], modes);
}

/// Goal: switches are shown as they are set, whatever policy is in force, and outlast a promotion. Method: one off,
/// then the next following period.
#[test]
fn switches_outlast_a_life() {
    let training = training();
    let off = || -> Vec<(&'static str, &'static str)> {
        training.switches().into_iter().filter(|row| !row.is_on).map(|row| (row.unit, row.source)).collect()
    };
    assert_eq!((training.switches().len(), off()), (120, vec![]));
    training.set_option("training.switch", "SCAN:replayed_read=off").unwrap();
    training.begin();
    training.stop("it is promoted");
    assert_eq!(off(), [("SCAN", "replayed_read")]);
    training.set_option("training.switch", "SCAN:replayed_read=off").unwrap();
    assert_eq!(said(&training).iter().filter(|(subject, _)| *subject == "switch").count(), 1);
}

/// Goal: elastic work gets nothing while all of it is switched off, and the rest of the grant stays. Method: its source
/// off for one unit, for all, and on again, with a grant throughout.
#[test]
fn a_source_that_is_off_gets_nothing() {
    let training = training();
    let life = training.begin();
    calm(&training, life);
    for (switch, is_on) in
        [("SCAN:replayed_read=off", true), ("*:replayed_read=off", false), ("PLAN:replayed_read=on", true)]
    {
        training.set_option("training.switch", switch).unwrap();
        training.tick(life, &CALM);
        let (collect, elastic) = granted(&training);
        assert!(collect > 0 && (elastic > 0) == is_on, "{switch}: {collect}, {elastic}");
        assert_eq!(training.elastic().rate_us_per_s(), elastic);
        assert_eq!(training.may_fit(), (true, true), "a fit waits for nobody's reads");
    }
}

/// Goal: seconds out of bound are counted, over following periods too. Method: a bound from calm ticks, then ten ticks
/// a little above it.
#[test]
fn windows_out_of_bound_are_counted() {
    let training = training();
    let life = training.begin();
    calm(&training, life);
    let late = Signals { delay_us: Some(1500.0), ..CALM };
    for _ in 0..10 {
        training.tick(life, &late);
    }
    let counts = |row: PolicyRow| (row.windows, row.out_windows, row.unknown_windows);
    assert_eq!(counts(training.policy()), (2, 1, 0));
    training.stop("it is promoted");
    assert_eq!(counts(training.policy()), (2, 1, 0));
    let next = training.begin();
    calm(&training, next);
    assert_eq!(counts(training.policy()), (3, 1, 0));
}

/// Goal: files in the folder of models that are no packages are shown as refused, and without a folder there is no
/// model. Method: neither, then one.
#[test]
fn a_file_that_is_no_package_is_shown_as_refused() {
    let training = training();
    assert_eq!(training.collection().model_rows(), []);
    let files = &training.env.files;
    files.create_dir_all("/data/models".as_ref()).unwrap();
    for name in ["ou=13-label=0.package", "notes.txt"] {
        files.create(&Path::new("/data/models").join(name)).unwrap().write_at(0, b"no package").unwrap();
    }
    let rows = training.collection().model_rows();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&*row.file, &row.model), ("ou=13-label=0.package", &None));
    assert!(row.refused.is_some());
}

/// Goal: A1, A3: units are sampled within the grant, from the sources of the role; a halt, a control window, a
/// promotion and a withdrawal of the grant stop sampling at once, and no decision for a replica outlasts it. Method:
/// decisions of [`Rates`] between ticks, on a replica, through each of these, and in its next role.
#[test]
fn sampling_ends_with_what_was_granted() {
    let (training, told) = sampled();
    let mut rates = Rates::default();
    let mut decide = |is_kept| {
        let mut seen = None;
        training.decide_rates(is_kept, |may, switches| {
            seen = Some(may);
            rates.decide(may, switches, &|_| (1.0, 1.0))
        });
        seen
    };
    let p = |source| told.table().get(13, source);
    assert_eq!((decide(true), told.source()), (Some(May::Calibrate), Source::Calibration));
    assert!(p(Source::Calibration) > 0.0 && p(Source::Local) == 0.0);
    let life = training.begin();
    assert_eq!((told.table(), told.source()), (RateTable::off(), Source::Local));
    calm(&training, life);
    let half = granted(&training).0 as f64 / 2.0;
    assert_eq!(decide(true), Some(May::Collect { us_per_s: half }));
    assert!(p(Source::Local) > 0.0 && p(Source::Apply) > 0.0 && p(Source::Calibration) == 0.0);
    training.tick(life, &Signals { heartbeat_us: 2e6, ..CALM });
    assert_eq!(told.table(), RateTable::off(), "in the tick that shows it");
    calm(&training, life);
    assert_eq!((decide(false), told.table()), (Some(May::Nothing), RateTable::off()), "nobody keeps samples");
    decide(true);
    training.set_option("training.collection_cpu", "10%").unwrap();
    assert_eq!(told.table(), RateTable::off(), "other rules");
    calm(&training, life);
    decide(true);
    assert_ne!(told.table(), RateTable::off());
    training.stop("it is promoted");
    assert_eq!((told.table(), told.source()), (RateTable::off(), Source::Calibration));
    decide(true);
    assert!(p(Source::Calibration) > 0.0 && p(Source::Local) == 0.0 && p(Source::Apply) == 0.0);
    training.stop_sampling();
    assert_eq!(told.table(), RateTable::off());
    training.sample_everything();
    assert_eq!(decide(true), Some(May::Everything), "a benchmark's, on a primary");
    assert_eq!((decide(false), told.table()), (Some(May::Nothing), RateTable::off()), "nobody keeps samples");
    training.begin();
    assert!(matches!(decide(true), Some(May::Collect { .. })), "not on a replica");
}

/// Goal: context rows have the state of the policy and the version of the settings; a changed setting is a new version,
/// and one that no policy depends on withdraws nothing. Method: a replica before and after its first grant; settings of
/// both kinds.
#[test]
fn context_says_what_the_policy_does() {
    let training = training();
    assert_eq!(training.situation(), None, "a primary's is for others to say");
    let life = training.begin();
    let code = || training.situation().expect("a replica").policy_state;
    assert_eq!(code(), 1);
    calm(&training, life);
    let situation = training.situation().expect("a replica");
    assert_eq!((situation.policy_state, situation.commits_per_s, situation.delay_us), (4, 1000.0, 300.0));
    training.set_option("training.fit_interval", "10min").unwrap();
    let after = training.situation().expect("a replica");
    assert!(granted(&training).0 > 0 && after.policy_state == 4 && after.config_epoch > situation.config_epoch);
    training.tick(life, &Signals { heartbeat_us: 2e6, ..CALM });
    assert_eq!(code(), 6);
}

//! Recorded signals give the recorded grants, from every policy (RT7).
//!
//! `recorded/signals.tsv` has one tick per line: the signals, then the grant of each policy of [`PolicyKind::ALL`]
//! under its guards. `COLLIE_RECORD=1` rewrites the file; only a decision to change a policy justifies that.

use std::{cell::RefCell, fmt::Write as _, fs, path::Path, rc::Rc};

use collie_train::{
    policy::{Governor, PolicyKind, Settings, Signals},
    queue,
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/signals.tsv");

fn fields(signals: &Signals) -> [f64; 9] {
    [
        signals.delay_us.unwrap_or(f64::NAN),
        signals.age_us,
        signals.commits_per_s,
        signals.busy_us,
        signals.spent_us,
        signals.offered_us_per_s,
        signals.heartbeat_us,
        signals.run_queue_us_p99,
        f64::from(signals.workers),
    ]
}

fn signals_of(fields: &[f64]) -> Signals {
    Signals {
        delay_us: Some(fields[0]).filter(|us| !us.is_nan()),
        age_us: fields[1],
        commits_per_s: fields[2],
        busy_us: fields[3],
        spent_us: fields[4],
        offered_us_per_s: fields[5],
        heartbeat_us: fields[6],
        run_queue_us_p99: fields[7],
        workers: if fields[8] == 1.0 { 1 } else { 2 },
    }
}

fn governors() -> Vec<Governor> {
    PolicyKind::ALL.map(|kind| Governor::new(kind, Settings::default(), 4)).into()
}

/// Records a burst, as P6 sees it, followed by heartbeats of a growing age up to 2.4 s and by fresh ones.
fn record() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    queue::table(&[1], 40.0, 1, &|_| {
        let mut governor = Governor::new(PolicyKind::Headroom, Settings::default(), 4);
        let seen = seen.clone();
        Box::new(move |signals| {
            seen.borrow_mut().push(*signals);
            governor.tick(signals)
        })
    });
    let ticks_per_run = 1200;
    let mut signals = seen.borrow()[ticks_per_run + 280..ticks_per_run + 520].to_vec();
    let last = *signals.last().expect("ticks were recorded");
    signals.extend((1..=12).map(|tick| Signals { heartbeat_us: f64::from(tick) * 2e5, ..last }));
    signals.extend([last; 10]);
    let mut text =
        "# delay_us age_us commits_per_s busy_us spent_us offered_us_per_s heartbeat_us run_queue_us_p99 workers"
            .to_owned();
    PolicyKind::ALL.iter().for_each(|kind| text += &format!(" {}", kind.name()));
    text.push('\n');
    let mut governors = governors();
    for signals in &signals {
        let grants = governors.iter_mut().map(|governor| governor.tick(signals).collect_us_per_s);
        let columns = fields(signals).into_iter().chain(grants);
        for (column, value) in columns.enumerate() {
            write!(text, "{}{value:?}", if column > 0 { "\t" } else { "" }).expect("a string takes everything");
        }
        text.push('\n');
    }
    fs::create_dir_all(Path::new(FILE).parent().expect("a file has a folder"))
        .expect("the tests' folder can be written");
    fs::write(FILE, text).expect("the tests' folder can be written");
}

/// Goal: the same signals give the same grants as when they were recorded. Method: the recorded ticks go through new
/// policies; grants may differ by as much as the logarithms of two machines.
#[test]
fn recorded_signals_give_the_recorded_grants() {
    if std::env::var_os("COLLIE_RECORD").is_some() {
        record();
    }
    let text = fs::read_to_string(FILE).expect("the recorded signals");
    let mut governors = governors();
    let mut on = vec![0; governors.len()];
    for (line, text) in text.lines().enumerate().skip(1) {
        let row: Vec<f64> = text.split('\t').map(|field| field.parse().expect("a number")).collect();
        let (fields, grants) = row.split_at(9);
        assert_eq!(grants.len(), governors.len(), "line {}", line + 1);
        for (which, (governor, recorded)) in governors.iter_mut().zip(grants).enumerate() {
            let granted = governor.tick(&signals_of(fields)).collect_us_per_s;
            let name = PolicyKind::ALL[which].name();
            assert!((granted - recorded).abs() <= 1e-6 * recorded.abs(), "line {}, {name}: {granted}", line + 1);
            on[which] += usize::from(granted > 0.0);
        }
    }
    let ticks = text.lines().count() - 1;
    assert!(ticks > 200 && on[0] == 0 && on[1..].iter().all(|on| (1..ticks).contains(on)), "{on:?} of {ticks}");
}

//! An appender stops in the middle of an append: how does that affect the others?
//!
//! The hook, which runs after the append has its position and before its record is complete (W3), sleeps. Of the other
//! two appenders one only appends, and one also waits until the boundary has passed its record. Both begin an append
//! every 20 microseconds and measure from the time at which it was due, so a stop counts for every append that it
//! delayed. If the position is taken and the record copied under one mutex, the append itself waits; otherwise only the
//! boundary does.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{FLUSH_BYTES, NOT_BUILT, RING, RING_BYTES, float, micros};
use crate::{
    Latencies, Plan, Section,
    report::{Figure, Row},
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
};

const FREEZES_MS: [u64; 3] = [1, 10, 100];
const TIME: Duration = Duration::from_millis(1500);
/// The appenders that go on: one only appends, one waits for the boundary.
const OTHERS: usize = 2;
/// Time between the starts of two appends.
const EVERY_NS: u64 = 20_000;

/// Times of the appenders that were not stopped.
struct Seen {
    appends: Latencies,
    boundary: Latencies,
}

/// Stops one appender repeatedly for so long, and after each stop lets it run for the same time; 0: does not stop it.
struct Freeze<'a> {
    plan: &'a Plan,
    freeze_ms: u64,
}

/// Appends every [`EVERY_NS`] until `stop` is set; if `waits`, also waits for the boundary.
fn go_on<S: Subject>(plan: &Plan, subject: &S, waits: bool, stop: &AtomicBool) -> Latencies {
    let (mut writer, mut latencies) = (subject.writer(usize::from(waits)), Latencies::default());
    let mut due = plan.now_ns();
    while !stop.load(Ordering::Relaxed) {
        while plan.now_ns() < due {
            std::thread::yield_now();
        }
        let end = writer.append(&[0xA5; 64]);
        if waits {
            writer.wait_boundary(end);
        }
        latencies.record(plan.now_ns() - due);
        due += EVERY_NS;
    }
    latencies
}

impl Visit for Freeze<'_> {
    type Out = Seen;

    fn visit<S: Subject>(self, subject: &S) -> Seen {
        let Self { plan, freeze_ms } = self;
        let (stop, freeze) = (&AtomicBool::new(false), Duration::from_millis(freeze_ms));
        let mut writer = subject.writer(OTHERS);
        std::thread::scope(|scope| {
            let others = [false, true].map(|waits| scope.spawn(move || go_on(plan, subject, waits, stop)));
            let begun = plan.now_ns();
            let limit_ns = plan.time(TIME).max(4 * freeze).as_nanos();
            while u128::from(plan.now_ns() - begun) < limit_ns {
                if freeze_ms == 0 {
                    std::thread::sleep(Duration::from_millis(10));
                } else {
                    writer.append_with(&[0x5A; 64], || std::thread::sleep(freeze));
                    std::thread::sleep(freeze);
                }
            }
            stop.store(true, Ordering::Relaxed);
            let [appends, boundary] = others.map(|other| other.join().expect("appending does not fail"));
            Seen { appends, boundary }
        })
    }
}

/// The other appenders' times without a stop.
#[derive(Clone, Copy)]
struct Calm {
    append_p99_us: f64,
    boundary_p99_us: f64,
}

/// Returns the row with the other appenders' times in several runs.
fn row_of(kind: Kind, case: String, freeze_ms: u64, seen: &[Seen]) -> Row {
    let of = |figure: fn(&Seen) -> u64| seen.iter().map(|seen| micros(figure(seen))).collect::<Vec<_>>();
    Row::new(kind.name(), case, "memory", RING)
        .at(float(freeze_ms))
        .runs("append_p50_us", &of(|seen| seen.appends.at_per_mille(500)))
        .runs("append_p99_us", &of(|seen| seen.appends.at_per_mille(990)))
        .runs("append_p999_us", &of(|seen| seen.appends.at_per_mille(999)))
        .runs("append_max_us", &of(|seen| seen.appends.max_ns()))
        .runs("boundary_p50_us", &of(|seen| seen.boundary.at_per_mille(500)))
        .runs("boundary_p99_us", &of(|seen| seen.boundary.at_per_mille(990)))
        .runs("boundary_p999_us", &of(|seen| seen.boundary.at_per_mille(999)))
        .runs("boundary_max_us", &of(|seen| seen.boundary.max_ns()))
}

/// Compares a row with that of its kind without a stop.
fn beside(row: Row, kind: Kind, calm: Calm) -> Row {
    let ratio = |key: &str, calm: f64| row.median(key).map_or(f64::INFINITY, |found| found / calm);
    let appends = ratio("append_p99_us", calm.append_p99_us);
    let boundary = ratio("boundary_p99_us", calm.boundary_p99_us);
    let row = row.beside("append p99 without a stop", appends).beside("boundary p99 without a stop", boundary);
    if OWN.contains(&kind) { row.target("append p99 <= 2x", appends <= 2.0) } else { row }
}

/// Runs one case several times; without results if the protocol is not built.
fn run(plan: &Plan, kind: Kind, freeze_ms: u64) -> anyhow::Result<Vec<Seen>> {
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let dir = scratch.path().to_owned();
    let setup = Setup { threads: OTHERS + 1, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
    let mut seen = Vec::new();
    for _ in 0..plan.runs() {
        seen.extend(with_subject(kind, &setup, Freeze { plan, freeze_ms })?);
    }
    Ok(seen)
}

/// Measures every protocol with a ring.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "one appender stops in the midst of an append: what do others see? (peer: no stop)";
    let mut section = Section::new("frozen", question);
    for kind in ALL.into_iter().filter(|kind| *kind != Kind::WriteEach) {
        plan.say(&format!("frozen: {}, no stop", kind.name()));
        let seen = run(plan, kind, 0)?;
        if seen.is_empty() {
            let row = Row::new(kind.name(), "no stop", "memory", RING).at(0.0);
            section.rows.push(row.figure("append_p99_us", Figure::Absent(NOT_BUILT)));
            continue;
        }
        let row = row_of(kind, "no stop".to_owned(), 0, &seen);
        let p99 = |key: &str| row.median(key).expect("just put there");
        let calm = Calm { append_p99_us: p99("append_p99_us"), boundary_p99_us: p99("boundary_p99_us") };
        section.rows.push(row);
        for freeze_ms in FREEZES_MS {
            plan.say(&format!("frozen: {}, W3, {freeze_ms} ms", kind.name()));
            let row = row_of(kind, format!("W3, {freeze_ms} ms"), freeze_ms, &run(plan, kind, freeze_ms)?);
            section.rows.push(beside(row, kind, calm));
        }
    }
    Ok(section)
}

//! An appender stops in the middle of an append: what do the others see?
//!
//! Stopped by the benchmark, at one step: after it has its position and before its record is complete (W3), where the hook
//! that runs there sleeps. One other appends, another also waits until the boundary has passed its record. Both begin
//! every 20 microseconds and are timed from when they should have begun, so a stop counts for everything it held up.
//! Where the position is taken and the record copied under one mutex, the append itself waits; elsewhere only the
//! boundary does.
//!
//! Stopped by the scheduler, anywhere: 64 appenders on a few processors, each waiting for the boundary after each record.
//! Large records are mostly copying, so most stops fall there.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{FLUSH_BYTES, NOT_BUILT, RING, RING_BYTES, float, median, micros};
use crate::{
    Plan, Section,
    latency::Latencies,
    report::{Figure, Row},
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
};

const FREEZES_MS: [u64; 4] = [0, 1, 10, 100];
const TIME: Duration = Duration::from_millis(1500);
/// Appenders that go on: one that only appends, one that waits for the boundary.
const OTHERS: usize = 2;
/// One begins so often.
const EVERY_NS: u64 = 20_000;

/// Times of the appenders that were not stopped.
struct Seen {
    appends: Latencies,
    boundary: Latencies,
}

/// Stops one appender again and again, for as long as it then runs.
struct Freeze<'a> {
    plan: &'a Plan,
    freeze: Duration,
}

impl Visit for Freeze<'_> {
    type Out = Seen;

    fn visit<S: Subject>(self, subject: &S) -> Seen {
        let Self { plan, freeze } = self;
        let stop = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others = [false, true].map(|waits| {
                scope.spawn(move || {
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
                })
            });
            let begun = plan.now_ns();
            let mut writer = subject.writer(OTHERS);
            let limit_ns = plan.time(TIME).max(4 * freeze).as_nanos();
            while u128::from(plan.now_ns() - begun) < limit_ns {
                if freeze.is_zero() {
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

/// Many appenders that wait for the boundary after each record.
struct Crowd<'a> {
    plan: &'a Plan,
    size: usize,
}

/// Appenders of a crowd.
const CROWD: usize = 64;
const CROWD_SIZES: [usize; 2] = [256, 4096];
/// A wait longer than this is one for somebody who lost the processor.
const LONG_NS: u64 = 1_000_000;

/// Times of a crowd.
#[derive(Default)]
struct Waits {
    latencies: Latencies,
    long: u64,
}

impl Visit for Crowd<'_> {
    type Out = Waits;

    fn visit<S: Subject>(self, subject: &S) -> Waits {
        let Self { plan, size } = self;
        let stop = &AtomicBool::new(false);
        let run = move |thread: usize| {
            let (mut writer, mut waits, body) = (subject.writer(thread), Waits::default(), vec![0xA5; size]);
            while !stop.load(Ordering::Relaxed) {
                let begun = plan.now_ns();
                writer.commit(&body);
                let ns = plan.now_ns() - begun;
                waits.latencies.record(ns);
                waits.long += u64::from(ns > LONG_NS);
            }
            waits
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CROWD).map(|thread| scope.spawn(move || run(thread))).collect();
            std::thread::sleep(plan.time(TIME));
            stop.store(true, Ordering::Relaxed);
            let mut all = Waits::default();
            for thread in threads {
                let waits = thread.join().expect("appending does not fail");
                all.latencies.merge(&waits.latencies);
                all.long += waits.long;
            }
            all
        })
    }
}

fn crowds(plan: &Plan, dir: &std::path::Path, section: &mut Section) -> anyhow::Result<()> {
    for size in CROWD_SIZES {
        for kind in ALL.into_iter().filter(|kind| *kind != Kind::WriteEach) {
            plan.say(&format!("frozen: {}, {CROWD} appenders of {size} B", kind.name()));
            let dir = dir.to_owned();
            let setup = Setup { threads: CROWD, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
            let mut waits = Vec::new();
            for _ in 0..plan.runs() {
                waits.extend(with_subject(kind, &setup, Crowd { plan, size })?);
            }
            if waits.is_empty() {
                continue;
            }
            let of = |figure: fn(&Waits) -> f64| waits.iter().map(figure).collect::<Vec<_>>();
            let row = Row::new(kind.name(), format!("by the scheduler, {CROWD} x {size} B"), "memory", RING)
                .runs("boundary_p50_us", &of(|waits| micros(waits.latencies.at_per_mille(500))))
                .runs("boundary_p99_us", &of(|waits| micros(waits.latencies.at_per_mille(990))))
                .runs("boundary_p999_us", &of(|waits| micros(waits.latencies.at_per_mille(999))))
                .runs("boundary_max_us", &of(|waits| micros(waits.latencies.max_ns())))
                .runs(
                    "above_1ms_per_million",
                    &of(|waits| float(waits.long) * 1e6 / float(waits.latencies.count().max(1))),
                );
            section.rows.push(row);
        }
    }
    Ok(())
}

/// Measures every protocol with a ring.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "one appender stops between its position and its copy (W3), or the scheduler stops many anywhere: what do others see? (peer: no stop)";
    let mut section = Section::new("frozen", question);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    for kind in ALL.into_iter().filter(|kind| *kind != Kind::WriteEach) {
        let mut calm = None;
        for freeze_ms in FREEZES_MS {
            plan.say(&format!("frozen: {}, {freeze_ms} ms", kind.name()));
            let dir = scratch.path().to_owned();
            let setup = Setup { threads: OTHERS + 1, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
            let mut seen = Vec::new();
            for _ in 0..plan.runs() {
                let work = Freeze { plan, freeze: Duration::from_millis(freeze_ms) };
                seen.extend(with_subject(kind, &setup, work)?);
            }
            let case = if freeze_ms == 0 { "no stop".to_owned() } else { format!("W3, {freeze_ms} ms") };
            let row = Row::new(kind.name(), case, "memory", RING).at(float(freeze_ms));
            if seen.is_empty() {
                section.rows.push(row.figure("append_p99_us", Figure::Absent(NOT_BUILT)));
                break;
            }
            let of = |figure: fn(&Seen) -> u64| seen.iter().map(|seen| micros(figure(seen))).collect::<Vec<_>>();
            let p99 = of(|seen| seen.appends.at_per_mille(990));
            let mut row = row
                .runs("append_p50_us", &of(|seen| seen.appends.at_per_mille(500)))
                .runs("append_p99_us", &p99)
                .runs("append_p999_us", &of(|seen| seen.appends.at_per_mille(999)))
                .runs("append_max_us", &of(|seen| seen.appends.max_ns()))
                .runs("boundary_p50_us", &of(|seen| seen.boundary.at_per_mille(500)))
                .runs("boundary_p99_us", &of(|seen| seen.boundary.at_per_mille(990)))
                .runs("boundary_p999_us", &of(|seen| seen.boundary.at_per_mille(999)))
                .runs("boundary_max_us", &of(|seen| seen.boundary.max_ns()));
            match calm {
                None => calm = Some(median(&p99)),
                Some(calm) => {
                    let ratio = median(&p99) / calm;
                    row = row.beside("append p99 without a stop", ratio);
                    if OWN.contains(&kind) {
                        row = row.target("append p99 <= 2x", ratio <= 2.0);
                    }
                }
            }
            section.rows.push(row);
        }
    }
    crowds(plan, scratch.path(), &mut section)?;
    section.notes.push(
        "W2, STAGED, mid-copy and before-white are left out: the log has no pause points there outside its own tests"
            .to_owned(),
    );
    Ok(section)
}

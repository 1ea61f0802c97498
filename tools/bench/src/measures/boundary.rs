//! How far does the boundary lag behind the appenders, and what does a check of the boundary cost?

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{FLUSH_BYTES, NOT_BUILT, RING, RING_BYTES, float};
use crate::{
    Latencies, Plan, Section,
    report::{Figure, Row},
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
};

const SLOTS: [usize; 3] = [16, 64, 256];
const APPENDERS: [usize; 2] = [2, 32];
const TIME: Duration = Duration::from_millis(500);
/// Checks per burst: few enough that the sink is not woken.
const LOOKS: u32 = 1_000;
const BURSTS: u32 = 50;

/// Checks the boundary of a log with `slots` writers after each append of one of them, since a check without an append
/// in between has nothing to scan.
struct Scans<'a> {
    plan: &'a Plan,
    slots: usize,
}

impl Visit for Scans<'_> {
    type Out = f64;

    fn visit<S: Subject>(self, subject: &S) -> f64 {
        let mut writers: Vec<_> = (0..self.slots).map(|thread| subject.writer(thread)).collect();
        for writer in &mut writers {
            writer.append(&[0xA5; 64]);
        }
        subject.drain();
        let writer = &mut writers[0];
        let mut costs = Vec::new();
        for _ in 0..BURSTS {
            let alone_ns = self.time(|| {
                writer.append(&[0xA5; 64]);
            });
            let both_ns = self.time(|| {
                writer.append(&[0xA5; 64]);
                std::hint::black_box(subject.boundary());
            });
            subject.drain();
            costs.push((both_ns - alone_ns).max(0.0));
        }
        // The median burst, since one that lost the processor says nothing about the check.
        super::median(&costs)
    }
}

impl Scans<'_> {
    fn time(&self, mut act: impl FnMut()) -> f64 {
        let begun = self.plan.now_ns();
        (0..LOOKS).for_each(|_| act());
        float(self.plan.now_ns() - begun) / f64::from(LOOKS)
    }
}

/// Measures, every 100 microseconds, how far the boundary is behind while other threads append.
struct Lag<'a> {
    plan: &'a Plan,
    threads: usize,
}

impl Visit for Lag<'_> {
    /// Bytes, recorded in place of nanoseconds.
    type Out = Latencies;

    fn visit<S: Subject>(self, subject: &S) -> Latencies {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let stop = &stop;
                scope.spawn(move || {
                    let mut writer = subject.writer(thread);
                    while !stop.load(Ordering::Relaxed) {
                        writer.append(&[0xA5; 64]);
                    }
                });
            }
            let mut lags = Latencies::default();
            let begun = self.plan.now_ns();
            let limit_ns = self.plan.time(TIME).as_nanos();
            while u128::from(self.plan.now_ns() - begun) < limit_ns {
                std::thread::sleep(Duration::from_micros(100));
                // In this order, bytes that are appended in between do not count as lag.
                let reserved = subject.reserved();
                lags.record(reserved.saturating_sub(subject.boundary()));
            }
            stop.store(true, Ordering::Relaxed);
            lags
        })
    }
}

/// Measures the protocols whose boundary can lag, and for comparison one whose boundary cannot.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "how far is the boundary behind the next free position, and what does asking for it cost?";
    let mut section = Section::new("boundary", question);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let kinds = ALL.into_iter().filter(|kind| *kind != Kind::WriteEach);
    for kind in kinds {
        for slots in SLOTS {
            plan.say(&format!("boundary: {}, {slots} writers", kind.name()));
            let dir = scratch.path().to_owned();
            let setup = Setup { threads: slots, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
            let mut costs = Vec::new();
            for _ in 0..plan.runs() {
                costs.extend(with_subject(kind, &setup, Scans { plan, slots })?);
            }
            let row =
                Row::new(kind.name(), format!("{slots} writers, 1 at work"), "memory", RING).at(float(slots as u64));
            if costs.is_empty() {
                section.rows.push(row.figure("look_ns", Figure::Absent(NOT_BUILT)));
                continue;
            }
            let mut row = row.runs("look_ns", &costs);
            let limit_ns = if slots <= 16 { 1_000.0 } else { 10_000.0 };
            if OWN.contains(&kind) {
                let text = if slots <= 16 { "<= 1 us" } else { "<= 10 us" };
                row = row.target(text, super::median(&costs) <= limit_ns);
            }
            section.rows.push(row);
        }
        for threads in APPENDERS {
            plan.say(&format!("boundary: {}, {threads} appending", kind.name()));
            let dir = scratch.path().to_owned();
            let setup = Setup { threads, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
            let mut lags = Vec::new();
            for _ in 0..plan.runs() {
                lags.extend(with_subject(kind, &setup, Lag { plan, threads })?);
            }
            if lags.is_empty() {
                continue;
            }
            let of = |figure: fn(&Latencies) -> u64| lags.iter().map(|lag| float(figure(lag))).collect::<Vec<_>>();
            let row = Row::new(kind.name(), format!("{threads} appending"), "memory", RING)
                .runs("lag_p50_bytes", &of(|lag| lag.at_per_mille(500)))
                .runs("lag_p99_bytes", &of(|lag| lag.at_per_mille(990)))
                .runs("lag_max_bytes", &of(Latencies::max_ns));
            section.rows.push(row);
        }
    }
    section
        .notes
        .push("with one mutex there is no lag to be seen: the position moves when the record is complete".to_owned());
    Ok(section)
}

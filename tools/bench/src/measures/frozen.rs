//! An appender stops in the middle of an append: how does that affect the others?
//!
//! The benchmark stops it at one step after another. The hook, which runs after the append has its position and before
//! its record is complete (W3), sleeps. At the other steps a tracer (`trace`) stops it: right after it has taken the
//! position, after it has shown STAGED, half-way through the copy, and right before white. Of the other two appenders
//! one only appends, and one also waits until the boundary has passed its record. Both begin an append every 20
//! microseconds and measure from the time at which it was due, so a stop counts for every append that it delayed. If
//! the position is taken and the record copied under one mutex, the append itself waits; otherwise only the boundary
//! does.
//!
//! The scheduler stops appenders anywhere: 64 of them on a few processors, each waiting for the boundary after each
//! record. Large records spend most of their time in the copy, so most stops fall there.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{FLUSH_BYTES, NOT_BUILT, RING, RING_BYTES, float, micros};
use crate::{
    Latencies, Pace, Plan, Section,
    report::{Figure, Row},
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
    trace::{Hold, Place, Tracer},
};

const FREEZES_MS: [u64; 3] = [1, 10, 100];
const TIME: Duration = Duration::from_millis(1500);
/// The appenders that go on: one only appends, one waits for the boundary.
const OTHERS: usize = 2;
/// Time between the starts of two appends.
const EVERY_NS: u64 = 20_000;

/// The protocols that the tracer stops, at every place that they have.
const TRACED: [Kind; 4] = [Kind::OneMutex, Kind::Mutex, Kind::Base, Kind::Help];
const TRACED_TIME: Duration = Duration::from_millis(700);
/// Body of a record that the tracer stops: long enough that the copy is most of the way from W2 to white, and short
/// enough to be copied by a loop (the C library may copy longer ones by one instruction, which steps byte by byte).
const TRACED_SIZE: usize = 2048;

/// Returns the length of the body of a record that the tracer stops; shorter at the pace Touch, so that there are few
/// steps.
fn traced_size(plan: &Plan) -> usize {
    if plan.pace == Pace::Touch { 256 } else { TRACED_SIZE }
}

/// Times of the appenders that were not stopped.
struct Seen {
    appends: Latencies,
    boundary: Latencies,
}

/// How an appender is stopped.
#[derive(Clone, Copy)]
enum How<'a> {
    /// It is not stopped.
    Never,
    /// It sleeps in the hook.
    Hook,
    /// The tracer stops it.
    Traced(&'a Tracer, Place),
}

/// Stops one appender repeatedly, and after each stop lets it run for the same time.
struct Freeze<'a> {
    plan: &'a Plan,
    freeze_ms: u64,
    how: How<'a>,
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
    /// `None`: the append has no such place.
    type Out = anyhow::Result<Option<Seen>>;

    fn visit<S: Subject>(self, subject: &S) -> Self::Out {
        let Self { plan, freeze_ms, how } = self;
        let (stop, freeze) = (&AtomicBool::new(false), Duration::from_millis(freeze_ms));
        let time = if matches!(how, How::Traced(..)) { TRACED_TIME } else { TIME };
        let body = vec![0x5A; traced_size(plan)];
        let mut writer = subject.writer(OTHERS);
        if let How::Traced(tracer, place) = how {
            // Shows the tracer the path of an undisturbed append. The same code runs below: `once` is one function.
            tracer.count(1, &mut once(&mut writer, &body))?;
            if !tracer.has(place)? {
                return Ok(None);
            }
        }
        std::thread::scope(|scope| {
            let others = [false, true].map(|waits| scope.spawn(move || go_on(plan, subject, waits, stop)));
            let (begun, mut held) = (plan.now_ns(), Ok(0_u64));
            let limit_ns = plan.time(time).max(4 * freeze).as_nanos();
            while held.is_ok() && u128::from(plan.now_ns() - begun) < limit_ns {
                match how {
                    How::Never => std::thread::sleep(Duration::from_millis(10)),
                    How::Hook => {
                        writer.append_with(&[0x5A; 64], || std::thread::sleep(freeze));
                        std::thread::sleep(freeze);
                    }
                    How::Traced(tracer, place) => {
                        let hold = Hold { place, millis_max: u32::try_from(freeze_ms).unwrap_or(u32::MAX) };
                        let was_held = tracer.hold(hold, &mut once(&mut writer, &body));
                        held = held.and_then(|held| was_held.map(|was_held| held + u64::from(was_held)));
                        std::thread::sleep(freeze);
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            let [appends, boundary] = others.map(|other| other.join().expect("appending does not fail"));
            anyhow::ensure!(held? > 0 || !matches!(how, How::Traced(..)), "no append passed the place");
            Ok(Some(Seen { appends, boundary }))
        })
    }
}

/// Returns one append as work for the tracer. It has the same type, and so the same code, wherever it is called.
fn once<A: Append>(writer: &mut A, body: &[u8]) -> impl FnMut() {
    move || {
        std::hint::black_box(writer.append(std::hint::black_box(body)));
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
/// A longer wait is taken as one for a thread that lost the processor.
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

/// Compares a row with that of its kind without a stop. `staged`: adds the target for a record that others need not
/// wait for.
fn beside(row: Row, kind: Kind, calm: Calm, staged: bool) -> Row {
    let ratio = |key: &str, calm: f64| row.median(key).map_or(f64::INFINITY, |found| found / calm);
    let appends = ratio("append_p99_us", calm.append_p99_us);
    let boundary = ratio("boundary_p99_us", calm.boundary_p99_us);
    let mut row = row.beside("append p99 without a stop", appends).beside("boundary p99 without a stop", boundary);
    if OWN.contains(&kind) {
        row = row.target("append p99 <= 2x", appends <= 2.0);
    }
    if staged {
        row = row.target("boundary p99 <= 2x", boundary <= 2.0);
    }
    row
}

/// Runs one case several times; `None` if the protocol is not built or has no such place.
fn run(plan: &Plan, kind: Kind, freeze_ms: u64, how: How<'_>) -> anyhow::Result<Option<Vec<Seen>>> {
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let dir = scratch.path().to_owned();
    let setup = Setup { threads: OTHERS + 1, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
    let mut seen = Vec::new();
    for _ in 0..plan.runs() {
        match with_subject(kind, &setup, Freeze { plan, freeze_ms, how })?.transpose()?.flatten() {
            Some(of_run) => seen.push(of_run),
            None => return Ok(None),
        }
    }
    Ok(Some(seen))
}

/// Measures with the tracer, which stops appenders where there is no hook.
fn traced(plan: &Plan, calm: &[(Kind, Calm)], section: &mut Section) -> anyhow::Result<()> {
    let tracer = plan.tracer().map_err(|why| anyhow::anyhow!(why))?;
    // Short paces have no time for long stops.
    let freezes_ms: &[u64] = match plan.pace {
        Pace::Full => &FREEZES_MS,
        Pace::Quick => &[10],
        Pace::Touch => &[1],
    };
    for (kind, calm) in calm.iter().filter(|(kind, _)| TRACED.contains(kind)) {
        for place in Place::ALL {
            for freeze_ms in freezes_ms {
                plan.say(&format!("frozen: {}, {}, {freeze_ms} ms", kind.name(), place.name()));
                let Some(seen) = run(plan, *kind, *freeze_ms, How::Traced(&tracer, place))? else { continue };
                let row = row_of(*kind, format!("{}, {freeze_ms} ms", place.name()), *freeze_ms, &seen);
                let staged = *kind == Kind::Help && place != Place::Taken;
                section.rows.push(beside(row, *kind, *calm, staged));
            }
        }
    }
    Ok(())
}

/// Measures every protocol with a ring.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "one appender stops in the midst of an append, or the scheduler stops many anywhere: what do others see? (peer: no stop)";
    let mut section = Section::new("frozen", question);
    let mut calms = Vec::new();
    for kind in ALL.into_iter().filter(|kind| *kind != Kind::WriteEach) {
        plan.say(&format!("frozen: {}, no stop", kind.name()));
        let Some(seen) = run(plan, kind, 0, How::Never)? else {
            let row = Row::new(kind.name(), "no stop", "memory", RING).at(0.0);
            section.rows.push(row.figure("append_p99_us", Figure::Absent(NOT_BUILT)));
            continue;
        };
        let row = row_of(kind, "no stop".to_owned(), 0, &seen);
        let p99 = |key: &str| row.median(key).expect("just put there");
        let calm = Calm { append_p99_us: p99("append_p99_us"), boundary_p99_us: p99("boundary_p99_us") };
        section.rows.push(row);
        calms.push((kind, calm));
        for freeze_ms in FREEZES_MS {
            plan.say(&format!("frozen: {}, W3, {freeze_ms} ms", kind.name()));
            let seen = run(plan, kind, freeze_ms, How::Hook)?.unwrap_or_default();
            let row = row_of(kind, format!("W3, {freeze_ms} ms"), freeze_ms, &seen);
            section.rows.push(beside(row, kind, calm, false));
        }
    }
    match traced(plan, &calms, &mut section) {
        Ok(()) => section.notes.push(format!(
            "W2, STAGED, mid-copy, before-white: stopped from outside in an append of {} B; with a mutex W2 is right \
             behind taking it, before-white right before leaving it",
            traced_size(plan)
        )),
        Err(why) => {
            section.notes.push(format!("W2, STAGED, mid-copy and before-white are left out, not traced: {why}"))
        }
    }
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    crowds(plan, scratch.path(), &mut section)?;
    Ok(section)
}

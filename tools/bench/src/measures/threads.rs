//! What rate do many appenders reach together, and how long does one append take then? Meanwhile the sink empties the
//! ring on the same processors: copies into a frame, checksums, drops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use collie_sync::Padded;

use super::{FLUSH_BYTES, NOT_BUILT, RING, RING_BYTES, float, median, micros};
use crate::together::{Load, TIMED, lasting, together};
use crate::{
    Plan, Section,
    record::Head,
    report::{Figure, Row},
    ring::Ring,
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
};

const THREADS: [usize; 5] = [1, 2, 8, 32, 128];
const SIZE: usize = 64;
const TIME: Duration = Duration::from_millis(800);
/// Memory into which a thread of the floor copies: about its share of a ring.
const OWN_BYTES: u64 = 256 << 10;

/// One shared counter and a copy into the thread's own memory: the floor for every log with one number line. It empties
/// no ring, and no thread waits.
struct SharedAdd(Padded<AtomicU64>);

impl Append for (&SharedAdd, Ring) {
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64 {
        let head = Head::new(body.len());
        let bytes = (head.as_slice().len() + body.len()) as u64;
        let start = self.0.0.fetch_add(bytes, Ordering::AcqRel);
        hook();
        // SAFETY: ring R1: one thread has this ring, and no thread reads it.
        unsafe { self.1.write_record(start, &head, body) };
        start + bytes
    }

    fn wait_boundary(&mut self, _end: u64) {}
}

impl Subject for SharedAdd {
    type Writer<'a> = (&'a SharedAdd, Ring);

    fn writer(&self, _thread: usize) -> (&SharedAdd, Ring) {
        (self, Ring::new(OWN_BYTES))
    }

    fn drain(&self) {}
}

/// Appends on many threads for a while.
struct Together<'a> {
    plan: &'a Plan,
    threads: usize,
}

impl Visit for Together<'_> {
    type Out = anyhow::Result<Load>;

    fn visit<S: Subject>(self, subject: &S) -> Self::Out {
        let worker = |thread: usize| {
            let mut writer = subject.writer(thread);
            move || {
                std::hint::black_box(writer.append(std::hint::black_box(&[0xA5; SIZE])));
                Ok(())
            }
        };
        let workers = (0..self.threads).map(worker).collect();
        Ok(together(self.plan, workers, lasting(self.plan, TIME))?.0)
    }
}

/// Measures every protocol at every number of threads.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "what do many appenders reach together, 64 B records, null sink? (peers: the mutex logs; floor: one shared fetch-add and the copy)";
    let mut section = Section::new("threads", question);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let mut rates_at_2 = ALL.map(|_| None);
    for threads in THREADS {
        let dir = scratch.path().to_owned();
        let setup = Setup { threads, ring_bytes: RING_BYTES, flush_bytes: FLUSH_BYTES, dir };
        let (mut floor, mut loads) = (Vec::new(), ALL.map(|_| Vec::new()));
        for run in 0..plan.runs() {
            plan.say(&format!("threads: {threads} threads, run {}", run + 1));
            floor.push(Together { plan, threads }.visit(&SharedAdd(Padded::new(AtomicU64::new(0))))?);
            for (kind, loads) in ALL.into_iter().zip(&mut loads) {
                loads.extend(with_subject(kind, &setup, Together { plan, threads })?.transpose()?);
            }
        }
        let rates = |loads: &[Load]| loads.iter().map(Load::rate).collect::<Vec<_>>();
        let (each, buffered) = (median(&rates(&loads[0])), median(&rates(&loads[1])));
        let (floor, floor_rate) = (rates(&floor), median(&rates(&floor)));
        let case = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        let row = Row::new("fetch-add and copy (floor)", &case, "none", "none").at(float(threads as u64));
        section.rows.push(row.runs("appends_per_s", &floor));
        for (at, (kind, loads)) in ALL.into_iter().zip(&loads).enumerate() {
            let ring = if kind == Kind::WriteEach { "none, a file" } else { RING };
            let row = Row::new(kind.name(), &case, "memory", ring).at(float(threads as u64));
            if loads.is_empty() {
                section.rows.push(row.figure("appends_per_s", Figure::Absent(NOT_BUILT)));
                continue;
            }
            let rate = median(&rates(loads));
            let mut row = row
                .runs("appends_per_s", &rates(loads))
                .each("p50_us", loads, |load| micros(load.latencies.at_per_mille(500)))
                .each("p99_us", loads, |load| micros(load.latencies.at_per_mille(990)))
                .each("p999_us", loads, |load| micros(load.latencies.at_per_mille(999)))
                .each("max_us", loads, |load| micros(load.latencies.max_ns()));
            if OWN.contains(&kind) {
                row = row.beside("floor", rate / floor_rate);
            }
            if kind != Kind::WriteEach {
                row = row.beside("a write per record", rate / each);
            }
            if kind != Kind::OneMutex {
                row = row.beside("mutex, buffered", rate / buffered);
            }
            if threads == 2 {
                rates_at_2[at] = Some(rate);
            }
            if OWN.contains(&kind) && threads == 32 {
                row = row.target(">= 10x a write per record", rate >= 10.0 * each);
                row = row.target(">= 3x mutex, buffered", rate >= 3.0 * buffered);
            }
            if let Some(at_2) = rates_at_2[at].filter(|_| OWN.contains(&kind) && threads == 128) {
                row = row.beside("itself at 2 threads", rate / at_2).target(">= 0.90x itself at 2", rate >= 0.9 * at_2);
            }
            section.rows.push(row);
        }
    }
    section.notes.push(format!("one append in {TIMED} is timed; max_us is the longest of those"));
    Ok(section)
}

//! What does appending one record cost on an otherwise idle log? Appends run in bursts that fit into the ring, which is
//! emptied between them outside the measured time. So the figure contains neither the sink nor the disk.

use std::time::Duration;

use super::{NOT_BUILT, RING, RING_BYTES, float, median};
use crate::{
    Plan, Section,
    report::{Figure, Row},
    ring::Ring,
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
};

/// Lengths of bodies in bytes.
const SIZES: [usize; 3] = [64, 256, 1024];
/// Approximate length of a burst: far below half the ring, where the log starts to flush, and short enough that most
/// bursts end before the scheduler takes the processor away.
const BURST_BYTES: usize = 1 << 20;
/// The number of bursts that go once around the ring.
const WARM_BURSTS: usize = 17;
const TIME: Duration = Duration::from_millis(400);

/// Only copies the bytes of records into a ring: the floor for every log.
struct CopyAlone(Ring);

impl Append for (&CopyAlone, u64) {
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64 {
        let (copy, at) = self;
        let head = crate::record::Head::new(body.len());
        hook();
        // SAFETY: ring R1: one thread has this ring, and no thread reads it.
        unsafe { copy.0.write_record(*at, &head, body) };
        *at += (head.as_slice().len() + body.len()) as u64;
        *at
    }

    fn wait_boundary(&mut self, _end: u64) {}
}

impl Subject for CopyAlone {
    type Writer<'a> = (&'a CopyAlone, u64);

    fn writer(&self, _thread: usize) -> (&CopyAlone, u64) {
        (self, 0)
    }

    fn drain(&self) {}
}

/// Bursts of appends of one size on one thread.
struct Bursts<'a> {
    plan: &'a Plan,
    size: usize,
}

impl Visit for Bursts<'_> {
    /// The nanoseconds of an append.
    type Out = f64;

    fn visit<S: Subject>(self, subject: &S) -> f64 {
        let Self { plan, size } = self;
        let body = vec![0xA5; size];
        let burst = BURST_BYTES / (size + 4);
        let mut writer = subject.writer(0);
        let limit_ns = plan.time(TIME).as_nanos();
        // The first bursts touch the whole ring and are not counted.
        for _ in 0..WARM_BURSTS {
            for _ in 0..burst {
                writer.append(&body);
            }
            subject.drain();
        }
        let (mut times_ns, mut spent_ns) = (Vec::new(), 0);
        while spent_ns < limit_ns {
            let begun = plan.now_ns();
            for _ in 0..burst {
                std::hint::black_box(writer.append(std::hint::black_box(&body)));
            }
            let ns = plan.now_ns() - begun;
            subject.drain();
            spent_ns += u128::from(ns);
            times_ns.push(float(ns) / float(burst as u64));
        }
        // The median burst, since one that lost the processor says nothing about the append.
        median(&times_ns)
    }
}

/// Measures every protocol at every size.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "what does one append cost, alone, in memory? (floor: copying the same bytes and nothing else)";
    let mut section = Section::new("append", question);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let setup =
        Setup { threads: 1, ring_bytes: RING_BYTES, flush_bytes: RING_BYTES / 2, dir: scratch.path().to_owned() };
    for size in SIZES {
        let case = format!("{size} B, 1 thread");
        let (mut floor, mut costs) = (Vec::new(), ALL.map(|_| Vec::new()));
        for run in 0..plan.runs() {
            plan.say(&format!("append: {size} B, run {}", run + 1));
            floor.push(Bursts { plan, size }.visit(&CopyAlone(Ring::new(RING_BYTES))));
            for (kind, costs) in ALL.into_iter().zip(&mut costs) {
                costs.extend(with_subject(kind, &setup, Bursts { plan, size })?);
            }
        }
        let (floor_ns, mutex_ns) = (median(&floor), median(&costs[1]));
        let row = Row::new("copy alone (floor)", &case, "none", "16 MiB").at(float(size as u64));
        section.rows.push(row.runs("append_ns", &floor).figure("shared_rmws_per_append", Figure::Count(0)));
        for (kind, costs) in ALL.into_iter().zip(&costs) {
            let ring = if kind == Kind::WriteEach { "none, a file" } else { RING };
            let row = Row::new(kind.name(), &case, "memory", ring).at(float(size as u64));
            if costs.is_empty() {
                section.rows.push(row.figure("append_ns", Figure::Absent(NOT_BUILT)));
                continue;
            }
            let mine = median(costs);
            let mut row = row
                .runs("append_ns", costs)
                .figure("shared_rmws_per_append", Figure::Count(kind.shared_rmws().into()))
                .beside("floor", mine / floor_ns);
            if OWN.contains(&kind) {
                row = row.beside("mutex, buffered", mine / mutex_ns);
                if size == SIZES[0] {
                    row = row.target("<= 20 ns", mine <= 20.0);
                    row = row.target("1 shared RMW", kind.shared_rmws() == 1);
                }
            }
            section.rows.push(row);
        }
    }
    section.notes.push("shared_rmws_per_append is counted in the code of each protocol, without contention".to_owned());
    Ok(section)
}

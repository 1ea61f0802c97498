//! What does appending one record cost on an otherwise idle log? Appends run in bursts that fit into the ring, which is
//! emptied between them outside the measured time. So the figure contains neither the sink nor the disk.
//!
//! Separately, a tracer counts the instructions of an append one at a time; the count is the same in every run. If
//! tracing is not permitted, the processor's counter of instructions is used, if there is one.

use std::time::Duration;

use super::{NOT_BUILT, RING, RING_BYTES, float, median};
use crate::{
    Plan, Section,
    counters::Instructions,
    report::{Figure, Row},
    ring::Ring,
    subject::{Append, Subject},
    subjects::{ALL, Kind, OWN, Setup, Visit, with_subject},
    trace::{Counts, Tracer},
};

/// Lengths of bodies in bytes.
const SIZES: [usize; 3] = [64, 256, 1024];
/// Approximate length of a burst: far below half the ring, where the log starts to flush, and short enough that most
/// bursts end before the scheduler takes the processor away.
const BURST_BYTES: usize = 1 << 20;
/// The number of bursts that go once around the ring.
const WARM_BURSTS: usize = 17;
const TIME: Duration = Duration::from_millis(400);
/// The number of appends that are traced instruction by instruction.
const TRACED: u64 = 100;

/// The cost of an append in one run.
struct Cost {
    ns: f64,
    instructions: Option<f64>,
}

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

    fn reserved(&self) -> u64 {
        0
    }

    fn boundary(&self) -> u64 {
        0
    }

    fn drain(&self) {}
}

/// Bursts of appends of one size on one thread.
struct Bursts<'a> {
    plan: &'a Plan,
    size: usize,
}

impl Visit for Bursts<'_> {
    type Out = Cost;

    fn visit<S: Subject>(self, subject: &S) -> Cost {
        let Self { plan, size } = self;
        let body = vec![0xA5; size];
        let burst = BURST_BYTES / (size + 4);
        let mut writer = subject.writer(0);
        let mut instructions = Instructions::new();
        let limit_ns = plan.time(TIME).as_nanos();
        // The first bursts touch the whole ring and are not counted.
        for _ in 0..WARM_BURSTS {
            for _ in 0..burst {
                writer.append(&body);
            }
            subject.drain();
        }
        let (mut times_ns, mut counts, mut spent_ns) = (Vec::new(), Vec::new(), 0);
        while spent_ns < limit_ns {
            let (ns, count) = instructions.of(|| {
                let begun = plan.now_ns();
                for _ in 0..burst {
                    std::hint::black_box(writer.append(std::hint::black_box(&body)));
                }
                plan.now_ns() - begun
            });
            subject.drain();
            spent_ns += u128::from(ns);
            times_ns.push(float(ns) / float(burst as u64));
            counts.push(count.map(|count| float(count) / float(burst as u64)));
        }
        // The median burst, since one that lost the processor says nothing about the append.
        let counts: Option<Vec<f64>> = counts.into_iter().collect();
        Cost { ns: median(&times_ns), instructions: counts.map(|counts| median(&counts)) }
    }
}

/// Appends of one size, traced instruction by instruction.
struct Traced<'a> {
    tracer: &'a Tracer,
    count: usize,
    size: usize,
}

impl Visit for Traced<'_> {
    type Out = std::io::Result<Vec<Counts>>;

    fn visit<S: Subject>(self, subject: &S) -> Self::Out {
        let (body, mut writer) = (vec![0xA5; self.size], subject.writer(0));
        let mut append = || {
            std::hint::black_box(writer.append(std::hint::black_box(&body)));
        };
        // The first appends cover all one-time work.
        (0..self.count).for_each(|_| append());
        self.tracer.count(self.count, &mut append)
    }
}

/// Counts the instructions of appends: first of the floor, then of every protocol that is built.
fn trace(plan: &Plan, tracer: &Tracer, setup: &Setup, size: usize) -> anyhow::Result<[Option<Vec<Counts>>; 11]> {
    let count = usize::try_from(plan.amount(TRACED).max(3))?;
    let mut all = [const { None }; 11];
    all[0] = Some(Traced { tracer, count, size }.visit(&CopyAlone(Ring::new(RING_BYTES)))?);
    for (counts, kind) in all[1..].iter_mut().zip(ALL) {
        plan.say(&format!("append: {size} B, {}, instruction by instruction", kind.name()));
        *counts = with_subject(kind, setup, Traced { tracer, count, size })?.transpose()?;
    }
    Ok(all)
}

/// Returns the median of a count over all appends.
fn middle(counts: &[Counts], of: fn(&Counts) -> u64) -> u64 {
    let mut sorted: Vec<u64> = counts.iter().map(of).collect();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Adds the traced counts, or else the processor's count, if there is one.
fn with_counts(row: Row, traced: Option<&[Counts]>, costs: &[Cost]) -> Row {
    const NOT_AVAILABLE: Figure = Figure::Absent("not available");
    let Some(traced) = traced else {
        let counted: Option<Vec<f64>> = costs.iter().map(|cost| cost.instructions).collect();
        let row = match &counted {
            Some(counts) => row.runs("instructions_per_append", counts),
            None => row.figure("instructions_per_append", NOT_AVAILABLE),
        };
        return row.figure("locked_per_append", NOT_AVAILABLE);
    };
    row.figure("instructions_per_append", Figure::Count(middle(traced, |counts| counts.instructions)))
        .figure("locked_per_append", Figure::Count(middle(traced, Counts::locked)))
}

/// Measures every protocol at every size.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "what does one append cost, alone, in memory? (floor: copying the same bytes and nothing else)";
    let mut section = Section::new("append", question);
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let setup =
        Setup { threads: 1, ring_bytes: RING_BYTES, flush_bytes: RING_BYTES / 2, dir: scratch.path().to_owned() };
    let tracer = plan.tracer();
    let mut refusal = tracer.as_ref().err().cloned();
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
        let traced = match tracer.as_ref().ok().filter(|_| refusal.is_none()) {
            Some(tracer) => trace(plan, tracer, &setup, size).unwrap_or_else(|error| {
                refusal = Some(error.to_string());
                [const { None }; 11]
            }),
            None => [const { None }; 11],
        };
        let ns = |costs: &[Cost]| costs.iter().map(|cost| cost.ns).collect::<Vec<_>>();
        let (floor_ns, mutex_ns) = (ns(&floor), ns(&costs[1]));
        let with_costs = |row: Row, costs: &[Cost], rmws, traced: &Option<Vec<Counts>>| {
            with_counts(row.runs("append_ns", &ns(costs)), traced.as_deref(), costs)
                .figure("shared_rmws_per_append", Figure::Count(rmws))
        };
        section.rows.push(with_costs(
            Row::new("copy alone (floor)", &case, "none", "16 MiB").at(float(size as u64)),
            &floor,
            0,
            &traced[0],
        ));
        for ((kind, costs), traced) in ALL.into_iter().zip(&costs).zip(&traced[1..]) {
            let ring = if kind == Kind::WriteEach { "none, a file" } else { RING };
            let row = Row::new(kind.name(), &case, "memory", ring).at(float(size as u64));
            if costs.is_empty() {
                section.rows.push(row.figure("append_ns", Figure::Absent(NOT_BUILT)));
                continue;
            }
            let mine = median(&ns(costs));
            let mut row = with_costs(row, costs, kind.shared_rmws().into(), traced);
            row = row.beside("floor", mine / median(&floor_ns));
            if OWN.contains(&kind) {
                row = row.beside("mutex, buffered", mine / median(&mutex_ns));
                if size == SIZES[0] {
                    row = row.target("<= 20 ns", mine <= 20.0);
                    row = row.target("1 shared RMW", kind.shared_rmws() == 1);
                    if let Some(traced) = traced {
                        let one_each = |counts: &Counts| (counts.adds, counts.exchanges, counts.others) == (1, 1, 0);
                        row = row.target("1 locked add, 1 exchange", traced.iter().all(one_each));
                    }
                }
            }
            section.rows.push(row);
        }
    }
    match refusal {
        Some(why) => section.notes.push(format!("instructions and locked instructions were not traced: {why}")),
        None => section.notes.push(format!(
            "instructions are those in user mode, counted one at a time; the middle of {} appends",
            plan.amount(TRACED).max(3)
        )),
    }
    section.notes.push("shared_rmws_per_append is counted in the code of each protocol, without contention".to_owned());
    Ok(section)
}

//! How much does a sample cost the thread that takes it, and how much does a call that is not sampled?
//!
//! A call site with nothing between its start and its stop runs in bursts whose samples fit into a lane, which is
//! drained between them, outside the measured time. For comparison the same run measures an empty loop, the two
//! readings of the processor's counter that every sample needs, and a sampler that makes six system calls.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context as _;
use collie_base::Lsn;
use collie_env::{Clock as _, RealClock};
use collie_obs::{
    ApplyRow, Batch, CALLS_MAX, Drain, LogFlush, Parse, RateTable, RowRead, Situation, Span, offer_clock, publish,
    start, start_run,
};
use collie_sync::{has_invariant_ticks, ticks};

use super::six_calls::SixCalls;
use crate::replication::PairSettings;
use crate::{
    Plan, Section,
    measures::{float, median},
    report::{Figure, Row},
};

/// Samples of a burst; a lane holds 4096.
const BURST_SAMPLES: f32 = 3_000.0;
/// The largest number of calls of a burst: short enough that most complete before the scheduler takes the processor
/// away.
const BURST_CALLS_MAX: f32 = 400_000.0;
/// Uncounted bursts that warm the caches.
const WARM_BURSTS: usize = 3;
const TIME: Duration = Duration::from_millis(300);
/// The target for the cost of a sample, in nanoseconds.
const SAMPLE_NS_MAX: f64 = 150.0;

const READINGS: &str = "two readings of the counter (floor)";
const SIX_CALLS: &str = "six system calls";

/// The work of each round of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Readings,
    /// A call with features.
    Call,
    /// One with features and the maximum number of labels.
    Labels,
    /// One with its allocations, if the program counts them.
    Allocations,
    /// A run of the maximum number of calls.
    Run,
    SixCalls,
}

/// The parameters of a row.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    subject: &'static str,
    what: &'static str,
    /// The probability with which Collie takes a sample.
    p: f32,
}

static CASES: [Case; 12] = [
    Case { kind: Kind::Nothing, subject: "empty loop (floor)", what: "one round", p: 0.0 },
    Case { kind: Kind::Readings, subject: READINGS, what: "both", p: 0.0 },
    Case { kind: Kind::Call, subject: "collie", what: "off", p: 0.0 },
    Case { kind: Kind::Call, subject: "collie", what: "p = 0.0001", p: 0.0001 },
    Case { kind: Kind::Call, subject: "collie", what: "p = 0.001", p: 0.001 },
    Case { kind: Kind::Call, subject: "collie", what: "p = 0.01", p: 0.01 },
    Case { kind: Kind::Call, subject: "collie", what: "p = 0.1", p: 0.1 },
    Case { kind: Kind::Call, subject: "collie", what: "p = 1", p: 1.0 },
    Case { kind: Kind::Labels, subject: "collie, four labels", what: "p = 1", p: 1.0 },
    Case { kind: Kind::Allocations, subject: "collie, what it allocates", what: "p = 1", p: 1.0 },
    Case { kind: Kind::Run, subject: "collie, a run of 16 calls", what: "p = 1", p: 1.0 },
    Case { kind: Kind::SixCalls, subject: SIX_CALLS, what: "every call", p: 1.0 },
];

impl Case {
    /// Returns the number of calls of a burst: about as many samples as a lane holds, and not more.
    fn burst_calls(&self) -> u32 {
        let calls = if self.p > 0.0 { (BURST_SAMPLES / self.p).min(BURST_CALLS_MAX) } else { BURST_CALLS_MAX };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two small constants")]
        {
            calls as u32
        }
    }

    fn is_every_call_sampled(&self) -> bool {
        self.p >= 1.0 && self.kind != Kind::SixCalls
    }
}

/// An operation on the calls of a case.
trait Visit {
    type Out;

    /// Takes `call`, which expects the number of its round.
    fn visit(self, call: impl FnMut(u32)) -> Self::Out;
}

/// Calls `visit` with the work of each round of the case. Each case is monomorphized, so nothing is called through a
/// pointer.
fn with_call<V: Visit>(kind: Kind, six: Option<&mut SixCalls>, visit: V) -> Option<V::Out> {
    Some(match kind {
        Kind::Nothing => visit.visit(|number| {
            black_box(number);
        }),
        Kind::Readings => visit.visit(|number| {
            black_box((number, ticks(), ticks()));
        }),
        Kind::Call => visit.visit(|number| {
            if let Some(span) = start::<RowRead>() {
                span.stop(RowRead { key_bytes: black_box(number), value_bytes: 100, chain_steps: 1, found: 1 });
            }
        }),
        Kind::Labels => visit.visit(|number| {
            if let Some(span) = start::<LogFlush>() {
                let flush = LogFlush { stream_bytes: black_box(number), flights: 1, copies: 1, ..LogFlush::default() };
                span.stop_with(Lsn::new(4096), flush, [1, 2, 3]);
            }
        }),
        Kind::Allocations => visit.visit(|number| {
            if let Some(span) = start::<Parse>().map(Span::with_allocations) {
                let (ended, alloc_bytes) = span.end();
                ended.tell(Lsn::ZERO, Parse { text_bytes: black_box(number), tokens: 1 }, [alloc_bytes]);
            }
        }),
        Kind::Run => visit.visit(|number| {
            if let Some(mut run) = start_run::<ApplyRow>() {
                for call in 0..u32::from(CALLS_MAX) {
                    let _is_full =
                        run.add(ApplyRow { key_bytes: black_box(number), kind: call, ..ApplyRow::default() });
                }
                run.stop();
            }
        }),
        Kind::SixCalls => {
            let six = six?;
            visit.visit(|_| six.sample().expect("it was asked before"))
        }
    })
}

/// Drains the samples of bursts between them.
struct Emptied {
    drain: Drain,
    batch: Batch,
    taken: u64,
    dropped: u64,
}

impl Emptied {
    fn empty(&mut self) {
        self.drain.drain(now_ns(), Situation::default(), &mut self.batch);
        self.taken += self.batch.samples.len() as u64;
        self.dropped += self.batch.dropped.iter().sum::<u64>();
    }
}

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// Runs bursts for a while; returns the nanoseconds per call of the median burst.
struct Bursts<'a> {
    plan: &'a Plan,
    case: &'a Case,
    emptied: &'a mut Emptied,
}

impl Visit for Bursts<'_> {
    type Out = f64;

    fn visit(self, mut call: impl FnMut(u32)) -> f64 {
        let Self { plan, case, emptied } = self;
        let (calls, limit_ns) = (case.burst_calls(), plan.time(TIME).as_nanos());
        let mut burst = || {
            let begun_ns = plan.now_ns();
            for number in 0..calls {
                call(black_box(number));
            }
            let took_ns = plan.now_ns() - begun_ns;
            emptied.empty();
            took_ns
        };
        for _ in 0..WARM_BURSTS {
            burst();
        }
        let (mut spent_ns, mut bursts_ns) = (0_u128, Vec::new());
        while spent_ns < limit_ns || bursts_ns.is_empty() {
            let took_ns = burst();
            spent_ns += u128::from(took_ns);
            bursts_ns.push(float(took_ns) / f64::from(calls));
        }
        median(&bursts_ns)
    }
}

/// Measures the cases in turn, run by run.
///
/// # Errors
/// Another part of this process takes samples.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let plan = &settings.plan;
    let question =
        "what does a sample cost the thread that takes it, and a call that none is taken of? (a call of nothing)";
    let mut section = Section::new("sample", question);
    offer_clock(now_ns);
    let drain = Drain::open(&now_ns).context("somebody else in this process takes samples")?;
    let mut emptied = Emptied { drain, batch: Batch::new(), taken: 0, dropped: 0 };
    let mut six = SixCalls::new();
    let mut costs = CASES.map(|_| Vec::new());
    for run in 0..settings.runs {
        for (case, costs) in CASES.iter().zip(&mut costs) {
            plan.say(&format!("sample: {}, {}, run {}", case.subject, case.what, run + 1));
            publish(&RateTable::all(case.p));
            let bursts = Bursts { plan, case, emptied: &mut emptied };
            costs.extend(with_call(case.kind, six.as_mut(), bursts));
        }
    }
    publish(&RateTable::off());
    let floor =
        |kind: Kind| CASES.iter().zip(&costs).find(|(case, _)| case.kind == kind).map(|(_, costs)| median(costs));
    let (nothing_ns, readings_ns) = (floor(Kind::Nothing).unwrap_or(0.0), floor(Kind::Readings).unwrap_or(0.0));
    for (case, costs) in CASES.iter().zip(&costs) {
        let row = Row::new(case.subject, case.what, "memory", "none").at(f64::from(case.p));
        if costs.is_empty() {
            section.rows.push(row.figure("call_ns", Figure::Absent("not available")));
            continue;
        }
        let mut row = row.runs("call_ns", costs);
        let ns = median(costs);
        match case.kind {
            Kind::Nothing | Kind::Readings => {}
            _ if case.p < 1.0 => row = row.beside("empty loop", ns / nothing_ns),
            _ => row = row.beside(READINGS, ns / readings_ns),
        }
        if case.is_every_call_sampled() {
            row = row.target("<= 150 ns", ns <= SAMPLE_NS_MAX);
        }
        section.rows.push(row);
    }
    note(&mut section, &emptied, six.is_some());
    Ok(section)
}

/// Adds the notes that are needed to interpret the figures.
fn note(section: &mut Section, emptied: &Emptied, has_six: bool) {
    let notes = &mut section.notes;
    let Emptied { drain, taken, dropped, .. } = emptied;
    notes.push(format!(
        "{taken} samples were taken out, {dropped} dropped; the drain's own estimate is {:.1} ns a sample",
        drain.sample_ns()
    ));
    notes.push("samples are taken out by the same thread, between bursts: their memory stays in its cache".to_owned());
    if !has_invariant_ticks() {
        notes.push("the processor's counter is of no use here: samples read the system's clock".to_owned());
    }
    if !has_six {
        notes.push(format!("{SIX_CALLS}: the system gives this process no counter of its own thread"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every case has a row with its cost, its comparison and its targets, and the sampler is off afterwards; an
    /// unknown question's error names the known ones. Method: a touch; no figure is judged.
    #[test]
    fn every_case_has_a_row_and_the_sampler_is_off_afterwards() {
        use crate::{Pace, training_bench};
        let asked = |question: &str| {
            let only = vec![question.to_owned()];
            let plan = Plan { only, ..Plan::new(&std::env::temp_dir(), Pace::Touch) };
            let settings = PairSettings { plan, runs: 1, ..PairSettings::training(&std::env::temp_dir()) };
            training_bench(&settings)
        };
        let wrong = asked("samples").unwrap_err().to_string();
        assert!(wrong.starts_with("no section samples: use sample"), "{wrong}");
        let report = asked("sample").unwrap();
        assert!(start::<RowRead>().is_none(), "it is off");
        let rows = report.rows("sample").expect("it was asked");
        assert_eq!((rows.len(), report.failed()), (CASES.len(), vec![]), "{rows:?}");
        for (row, case) in rows.iter().zip(&CASES) {
            let Some(ns) = row.median("call_ns") else {
                assert!(case.kind == Kind::SixCalls, "{row:?}");
                continue;
            };
            assert!(
                ns > 0.0 && row.beside.is_empty() == matches!(case.kind, Kind::Nothing | Kind::Readings),
                "{row:?}"
            );
            assert_eq!(row.targets.len(), usize::from(case.is_every_call_sampled()), "{row:?}");
        }
    }

    /// Goal: a burst leaves no more samples than a lane holds, allowing for chance. Method: every case, six standard
    /// errors above the mean.
    #[test]
    fn bursts_fit_into_a_lane() {
        const LANE_SAMPLES: f64 = 4096.0;
        for case in &CASES {
            let (calls, p) = (f64::from(case.burst_calls()), f64::from(case.p));
            let most = calls * p + 6.0 * (calls * p * (1.0 - p)).sqrt();
            assert!(calls >= 1_000.0 && most <= LANE_SAMPLES, "{case:?}: {calls} calls, {most} samples");
        }
    }
}

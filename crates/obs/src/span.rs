//! Spans: what a call site does. [`start`] before the work, [`Span::stop`] after it with what is known by then.
//!
//! A span stays on its thread and is not held over an await: the compiler sees to it. One that is dropped without `stop`, on an
//! error's way out, leaves no sample: units describe work that was done.

use std::marker::PhantomData;

use collie_base::Lsn;

use crate::local;
use crate::measured::{Started, Told};
use crate::sample::CALLS_MAX;
use crate::schema::{FEATURES_MAX, Features};
use crate::source::Source;

/// Keeps what it is in on its thread.
type OnThisThread = PhantomData<*const ()>;

/// A call that is measured.
#[derive(Debug)]
#[must_use = "a span that is not stopped leaves no sample"]
pub struct Span<F> {
    started: Started,
    of: PhantomData<F>,
    here: OnThisThread,
}

/// Begins to measure a call of the unit `F`, if it is this call's turn.
///
/// # Progress
/// Wait-free: one load and a branch for a unit that is off; two loads, two branches and a store for a call that is passed over; else no
/// lock, system call or allocation, but for a thread's first sample, which makes its lane.
#[inline]
pub fn start<F: Features>() -> Option<Span<F>> {
    let started = local::begin(F::ID)?;
    Some(Span { started, of: PhantomData, here: PhantomData })
}

impl<F: Features> Span<F> {
    /// Has the time of the call begin now: for what is to be told of it and had to be asked for before.
    #[inline]
    pub fn restart(&mut self) {
        self.started.ticks = local::now();
    }

    /// Ends the call.
    #[inline]
    pub fn stop(self, features: F)
    where
        F: Features<Labels = [u64; 0]>,
    {
        self.stop_with(Lsn::ZERO, features, []);
    }

    /// Ends the call, which is about the position `at` of the log; `labels` are those beyond elapsed time.
    #[inline]
    pub fn stop_with(self, at: Lsn, features: F, labels: F::Labels) {
        self.end().tell(at, features, labels);
    }

    /// Ends the call, and leaves for later what is to be told of it: for features that take time to find out.
    #[inline]
    pub fn end(self) -> Ended<F> {
        Ended { started: self.started, ended: local::now(), of: PhantomData, here: PhantomData }
    }
}

/// A call that is over.
#[derive(Debug)]
#[must_use = "a call that nothing is told of leaves no sample"]
pub struct Ended<F> {
    started: Started,
    ended: u64,
    of: PhantomData<F>,
    here: OnThisThread,
}

impl<F: Features> Ended<F> {
    /// Tells of it, as [`Span::stop_with`].
    #[inline]
    pub fn tell(self, at: Lsn, features: F, labels: F::Labels) {
        record::<F>(self.started, self.ended, at, 1, features.words(), &labels);
    }

    /// Tells of it as a run of `calls`, one after the other with nothing between them: as many as are counted, at most [`CALLS_MAX`].
    /// One without calls leaves no sample. Progress: allocates nothing that `calls` does not.
    pub fn tell_run(self, at: Lsn, calls: impl Iterator<Item = F>, labels: F::Labels) {
        let mut run = Sums::default();
        for call in calls.take(usize::from(CALLS_MAX)) {
            run.add(call);
        }
        if run.calls > 0 {
            record::<F>(self.started, self.ended, at, run.calls, run.words, &labels);
        }
    }
}

/// What the calls of a run add up to.
#[derive(Debug, Default)]
struct Sums {
    calls: u16,
    words: [u32; FEATURES_MAX],
}

impl Sums {
    #[inline]
    fn add<F: Features>(&mut self, features: F) {
        for ((sum, word), is_summed) in self.words.iter_mut().zip(features.words()).zip(F::SUMMED) {
            *sum = if is_summed { sum.saturating_add(word) } else { word };
        }
        self.calls = self.calls.saturating_add(1).min(CALLS_MAX);
    }
}

/// A run of short calls that is measured as one: up to [`CALLS_MAX`], one after the other with nothing between them.
#[derive(Debug)]
#[must_use = "a run that is not stopped leaves no sample"]
pub struct Run<F> {
    span: Span<F>,
    sums: Sums,
}

/// Begins to measure a run of calls, if it is this run's turn: the probability is that of runs. Progress: as [`start`].
#[inline]
pub fn start_run<F: Features>() -> Option<Run<F>> {
    Some(Run { span: start::<F>()?, sums: Sums::default() })
}

impl<F: Features> Run<F> {
    /// Adds a call. `true`: the run is as long as it may be, and has to be stopped before the next one.
    #[inline]
    #[must_use = "a run has an end"]
    pub fn add(&mut self, features: F) -> bool {
        self.sums.add(features);
        self.sums.calls == CALLS_MAX
    }

    /// Ends the run. One without calls leaves no sample.
    #[inline]
    pub fn stop(self)
    where
        F: Features<Labels = [u64; 0]>,
    {
        self.stop_with(Lsn::ZERO, []);
    }

    /// Ends the run, the last call of which is about the position `at` of the log. One without calls leaves no sample.
    #[inline]
    pub fn stop_with(self, at: Lsn, labels: F::Labels) {
        if self.sums.calls > 0 {
            let Ended { started, ended, .. } = self.span.end();
            record::<F>(started, ended, at, self.sums.calls, self.sums.words, &labels);
        }
    }
}

/// Out of line: of what a call site has inlined nothing but the look whether it is its turn.
#[cold]
#[inline(never)]
pub(crate) fn record<F: Features>(
    started: Started,
    ended: u64,
    at: Lsn,
    calls: u16,
    features: [u32; FEATURES_MAX],
    labels: &F::Labels,
) {
    let (unit, version) = (F::ID, F::VERSION);
    local::record(started, ended, &Told { unit, version, calls, lsn: at.get(), features, labels: labels.as_ref() });
}

/// While it lives the thread works for one source.
#[derive(Debug)]
#[must_use = "the thread works for the source as long as this lives"]
pub struct SourceScope {
    before: usize,
    here: OnThisThread,
}

/// Has the calling thread work for `source` until the scope is dropped. Scopes may lie in each other; the innermost counts.
///
/// # Progress
/// Wait-free: one store.
#[inline]
pub fn work_for(source: Source) -> SourceScope {
    SourceScope { before: local::with_countdown(|countdown| countdown.work_for(Some(source))), here: PhantomData }
}

impl Drop for SourceScope {
    fn drop(&mut self) {
        local::with_countdown(|countdown| countdown.back_to(self.before));
    }
}

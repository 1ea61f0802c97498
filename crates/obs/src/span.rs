//! Spans: the measurement of a call. A call site calls [`start`] before the work, and [`Span::stop`] after it with
//! the values known by then.
//!
//! The compiler keeps a span on its thread, so that it is not held over an await. A span that is dropped without
//! `stop`, for instance on an error, leaves no sample: units describe work that was completed.

use std::marker::PhantomData;

use collie_base::Lsn;

use crate::local;
use crate::measured::{Started, Told};
use crate::sample::CALLS_MAX;
use crate::schema::{FEATURES_MAX, Features};
use crate::source::Source;

/// Keeps the type that contains it on its thread.
type OnThisThread = PhantomData<*const ()>;

/// A measured call.
#[derive(Debug)]
#[must_use = "a span that is not stopped leaves no sample"]
pub struct Span<F> {
    started: Started,
    of: PhantomData<F>,
    here: OnThisThread,
}

/// Begins to measure a call of the unit `F`, if this call is drawn.
///
/// # Progress
/// Wait-free: one load and a branch for a unit that is off; two loads, two branches and a store for a call that is
/// passed over; otherwise no lock, system call or allocation, except that a thread's first sample makes its lane.
#[inline]
pub fn start<F: Features>() -> Option<Span<F>> {
    let started = local::begin(F::ID)?;
    Some(Span { started, of: PhantomData, here: PhantomData })
}

impl<F: Features> Span<F> {
    /// Restarts the time of the call, after values were collected that describe it.
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

    /// Ends the call, which concerns the position `at` of the log; `labels` are those beyond elapsed time.
    #[inline]
    pub fn stop_with(self, at: Lsn, features: F, labels: F::Labels) {
        self.end().tell(at, features, labels);
    }

    /// Stops the clock and leaves the features for later, for those that take time to find.
    #[inline]
    pub fn end(self) -> Ended<F> {
        Ended { started: self.started, ended: local::now(), of: PhantomData, here: PhantomData }
    }
}

/// A call that has ended.
#[derive(Debug)]
#[must_use = "a call that nothing is told of leaves no sample"]
pub struct Ended<F> {
    started: Started,
    ended: u64,
    of: PhantomData<F>,
    here: OnThisThread,
}

impl<F: Features> Ended<F> {
    /// Records the call, as [`Span::stop_with`] does.
    #[inline]
    pub fn tell(self, at: Lsn, features: F, labels: F::Labels) {
        record::<F>(self.started, self.ended, at, 1, features.words(), &labels);
    }

    /// Records the call as a run of `calls`, one after the other with nothing between them; counts at most
    /// [`CALLS_MAX`] of them. A run without calls leaves no sample. Progress: allocates nothing unless `calls`
    /// does.
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

/// The sums over the calls of a run.
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

/// A run of short calls that is measured as one: up to [`CALLS_MAX`], one after the other with nothing between
/// them.
#[derive(Debug)]
#[must_use = "a run that is not stopped leaves no sample"]
pub struct Run<F> {
    span: Span<F>,
    sums: Sums,
}

/// Begins to measure a run of calls, if this run is drawn: the probability is that of runs. Progress: as [`start`].
#[inline]
pub fn start_run<F: Features>() -> Option<Run<F>> {
    Some(Run { span: start::<F>()?, sums: Sums::default() })
}

impl<F: Features> Run<F> {
    /// Adds a call. Returns `true` when the run has its greatest length and has to be stopped before the next call.
    #[inline]
    #[must_use = "a run has an end"]
    pub fn add(&mut self, features: F) -> bool {
        self.sums.add(features);
        self.sums.calls == CALLS_MAX
    }

    /// Ends the run. A run without calls leaves no sample.
    #[inline]
    pub fn stop(self)
    where
        F: Features<Labels = [u64; 0]>,
    {
        self.stop_with(Lsn::ZERO, []);
    }

    /// Ends the run, whose last call concerns the position `at` of the log. A run without calls leaves no sample.
    #[inline]
    pub fn stop_with(self, at: Lsn, labels: F::Labels) {
        if self.sums.calls > 0 {
            let Ended { started, ended, .. } = self.span.end();
            record::<F>(started, ended, at, self.sums.calls, self.sums.words, &labels);
        }
    }
}

/// Kept out of line, so that a call site inlines only the check whether its call is drawn.
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

/// While it lives, the thread works for one source.
#[derive(Debug)]
#[must_use = "the thread works for the source as long as this lives"]
pub struct SourceScope {
    before: usize,
    here: OnThisThread,
}

/// Makes the calling thread work for `source` until the scope is dropped. Scopes may be nested; the innermost
/// applies.
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

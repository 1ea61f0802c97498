//! `LogTimes`: how long one thread worked in the log during a piece of work, and in which parts.
//!
//! It serves benchmarks, which look at a few operations of many: it exists under the feature `bench-hooks`, and nothing
//! is measured unless the thread asks for it.
//!
//! # Invariants
//! - Y1. Only the thread that asked is measured, and only while its work runs, even when the work panics.
//! - Y2. Time that counts under one part does not count under another: a part inside another one counts under the
//!   outer one.
//!
//! Checked by the tests below.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use collie_env::Clock;
use collie_wal::Mark;

use crate::log::part::Part;

/// Nanoseconds that a thread spent in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTimes {
    /// Reserving positions and copying records, including waits for room in the log's ring.
    pub append_ns: u64,
    /// Waiting until the appended records were visible to all.
    pub boundary_ns: u64,
    /// Waiting until the appended records were on disk.
    pub durable_ns: u64,
}

/// The measurement of a thread.
struct Sample {
    clock: Arc<dyn Clock>,
    times: LogTimes,
}

std::thread_local! {
    /// Whether the thread has a sample. Separate from it, since a const-initialized thread-local without a
    /// destructor needs no check of its state.
    static ASKED: Cell<bool> = const { Cell::new(false) };
    static SAMPLE: RefCell<Option<Sample>> = const { RefCell::new(None) };
}

/// Ends the measurement when it is dropped.
struct Measuring {
    before: Option<Sample>,
}

impl Measuring {
    fn begin(clock: &Arc<dyn Clock>) -> Self {
        let sample = Sample { clock: Arc::clone(clock), times: LogTimes::default() };
        let before = SAMPLE.replace(Some(sample));
        ASKED.set(true);
        Self { before }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let before = self.before.take();
        ASKED.set(before.is_some()); // Y1
        SAMPLE.set(before);
    }
}

impl LogTimes {
    /// Runs `work` on this thread and returns the time that it spent in the logs of any database, by `clock`.
    /// Futures are measured as far as they run here. Work measured inside `work` counts only in the inner
    /// measurement.
    ///
    /// Cost: two readings of the clock for each append, check of a mark, or wait.
    pub fn of<R>(clock: &Arc<dyn Clock>, work: impl FnOnce() -> R) -> (R, Self) {
        let measuring = Measuring::begin(clock);
        let result = work();
        let times = SAMPLE.with_borrow(|sample| sample.as_ref().map_or_else(Self::default, |sample| sample.times));
        drop(measuring);
        (result, times)
    }

    /// Returns the sum of the parts.
    pub const fn total_ns(&self) -> u64 {
        self.append_ns + self.boundary_ns + self.durable_ns
    }
}

/// Runs a part of the log's work, and counts its time if the thread asked for it.
#[inline]
pub(crate) fn counted<R>(part: Part, work: impl FnOnce() -> R) -> R {
    if ASKED.get() { counted_by_clock(part, work) } else { work() }
}

#[cold]
fn counted_by_clock<R>(part: Part, work: impl FnOnce() -> R) -> R {
    // Not borrowed during the work, which may get here again: a wait that leads a flush.
    let Some(clock) = SAMPLE.with_borrow(|sample| sample.as_ref().map(|sample| Arc::clone(&sample.clock))) else {
        return work();
    };
    let began_ns = clock.now_ns();
    ASKED.set(false); // Y2
    let result = work();
    ASKED.set(true);
    let spent_ns = clock.now_ns().saturating_sub(began_ns);
    SAMPLE.with_borrow_mut(|sample| {
        if let Some(Sample { times, .. }) = sample {
            *match part {
                Part::Append => &mut times.append_ns,
                Part::Wait(Mark::Boundary) => &mut times.boundary_ns,
                Part::Wait(_) => &mut times.durable_ns, // written is a step towards durable
            } += spent_ns;
        }
    });
    result
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use collie_env::SimClock;

    use super::*;

    fn clock() -> (Arc<SimClock>, Arc<dyn Clock>) {
        let clock = Arc::new(SimClock::new());
        (Arc::clone(&clock), clock)
    }

    /// Goal: each part is counted once and under its own name, and nothing is counted unless the thread asks (Y1,
    /// Y2). Method: a clock that the work advances; parts inside of parts; work that panics.
    #[test]
    fn parts_are_counted_once_and_only_for_who_asks() {
        let (time, clock) = clock();
        let step = |part, ns| counted(part, || time.advance_ns(ns));
        step(Part::Append, 1_000);
        let (result, times) = LogTimes::of(&clock, || {
            time.advance_ns(7);
            step(Part::Append, 10);
            step(Part::Append, 20);
            counted(Part::Wait(Mark::Durable), || step(Part::Append, 300));
            step(Part::Wait(Mark::Boundary), 4_000);
            let (_, inner) = LogTimes::of(&clock, || step(Part::Append, 50_000));
            inner.append_ns
        });
        assert_eq!(result, 50_000);
        assert_eq!(times, LogTimes { append_ns: 30, boundary_ns: 4_000, durable_ns: 300 });
        assert_eq!(times.total_ns(), 4_330);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            LogTimes::of(&clock, || panic!("as planned"));
        }));
        assert!(panicked.is_err() && !ASKED.get());
        let other = std::thread::scope(|scope| {
            let asked = LogTimes::of(&clock, || scope.spawn(|| ASKED.get()).join());
            asked.0.expect("it does not panic")
        });
        assert!(!other, "only the thread that asked");
    }

    /// Goal: a write is divided into append and waits. Method: a write with `sync` and one without, each measured.
    #[test]
    fn writes_are_told_apart() {
        use crate::{Db, EngineError, Isolation, Options, StatementKind, Upsert};
        let dir = tempfile::tempdir().expect("a directory");
        let env = crate::Env::real();
        let (db, _) = Db::open(dir.path(), Options::small(), env.clone(), &mut |_| ()).expect("opens");
        let (family, mut session) = (db.family(db.create_family()), db.session().expect("has a slot"));
        let mut put = |value: &[u8], sync| -> Result<(), EngineError> {
            session.begin(Isolation::ReadCommitted, false)?;
            session.begin_statement(StatementKind::Write)?;
            Upsert::new(&family, b"k", Some(value)).block(&mut session, None)?;
            session.commit(sync)?.block().map(|_| ())
        };
        let (written, synced) = LogTimes::of(&env.clock, || put(b"v", true));
        written.expect("writes");
        assert!(synced.append_ns > 0 && synced.durable_ns > 0, "{synced:?}");
        let (written, lazy) = LogTimes::of(&env.clock, || put(b"w", false));
        written.expect("writes");
        assert!(lazy.append_ns > 0 && lazy.durable_ns == 0, "{lazy:?}");
        db.close().expect("closes");
    }
}

//! Tests of the driver, on a database that only answers requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use collie_env::Env;

use crate::drive::{Course, drive, drive_until};
use crate::pace::Pacing;
use crate::population::Population;
use crate::request::{Kind, Request};
use crate::scale::Scale;
use crate::target::{Answer, Failure, Session, Target, middle, total};

/// A database that only answers requests.
#[derive(Debug, Default)]
struct Fake {
    /// Whether each request fails once before it ends.
    refuses: bool,
    /// The kind that always fails.
    fails: Option<Kind>,
    /// Set at the first request.
    stops: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
struct FakeSession {
    refuses: bool,
    fails: Option<Kind>,
    stops: Option<Arc<AtomicBool>>,
    refused: bool,
}

impl Session for FakeSession {
    fn run(&mut self, request: &Request) -> Result<Answer, Failure> {
        if self.fails == Some(request.kind()) {
            return Err(Failure::Other(anyhow::anyhow!("it is broken")));
        }
        if let Some(stop) = &self.stops {
            stop.store(true, Relaxed);
        }
        self.refused = self.refuses && !self.refused;
        match (self.refused, request.kind()) {
            (true, Kind::NewOrder) => Err(Failure::Deadlock),
            (true, _) => Err(Failure::Conflict),
            (false, _) => Ok(Answer::default()),
        }
    }
}

impl Target for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn level(&self) -> &'static str {
        "memory"
    }

    fn ring(&self) -> &'static str {
        "-"
    }

    fn load(&self, _: &Population, _: usize, _: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        Ok(())
    }

    fn connect(&self) -> anyhow::Result<Box<dyn Session>> {
        let Self { refuses, fails, stops } = self;
        Ok(Box::new(FakeSession { refuses: *refuses, fails: *fails, stops: stops.clone(), refused: false }))
    }

    fn log_position(&self) -> anyhow::Result<u64> {
        Ok(7)
    }
}

fn course(pacing: Pacing, deferred: bool) -> Course {
    Course {
        scale: Scale::small(2),
        seed: 11,
        run: 0,
        clients: 3,
        warm_up: Duration::from_millis(20),
        time: Duration::from_millis(200),
        pacing,
        deferred,
    }
}

/// Goal: failed attempts are repeated and counted by reason (R2); deferred deliveries end too. Method: a target that
/// fails each request once.
#[test]
fn refused_transactions_are_run_again_and_counted() {
    let clock = Env::real().clock;
    for deferred in [false, true] {
        let run = drive(&Fake { refuses: true, ..Fake::default() }, course(Pacing::FlatOut, deferred), &clock).unwrap();
        for kind in Kind::ALL {
            let of = run.tally.of(kind);
            let (ended, refused) = (of.latencies.count(), [of.conflicts, of.deadlocks]);
            assert!(ended > 0, "{}", kind.name());
            assert_eq!(refused, if kind == Kind::NewOrder { [0, ended] } else { [ended, 0] }, "{}", kind.name());
        }
        assert_eq!(run.tally.by_second.iter().sum::<u64>(), run.tally.ended());
        assert_eq!((run.tally.retried(), run.log_bytes), (run.tally.ended(), 0));
    }
}

/// Goal: a run ends with the error of its transaction and does not hang. Method: a target that fails payments, one
/// that fails deliveries, in line and deferred.
#[test]
fn failing_transaction_ends_the_run() {
    let clock = Env::real().clock;
    for (kind, deferred) in [(Kind::Payment, true), (Kind::Delivery, false), (Kind::Delivery, true)] {
        let target = Fake { fails: Some(kind), ..Fake::default() };
        let error = drive(&target, course(Pacing::FlatOut, deferred), &clock).unwrap_err();
        assert_eq!(format!("{error:#}"), format!("{} failed: it is broken", kind.name()));
    }
}

/// Goal: a run requests at its rate and no faster, regardless of the target. Method: a fast target; nothing ends
/// beyond what was due.
#[test]
fn rate_is_what_was_asked_for() {
    let run = drive(&Fake::default(), course(Pacing::Rate(1_000.0), false), &Env::real().clock).unwrap();
    assert!(run.tally.ended() <= 220, "{} ended of 220 that were due", run.tally.ended());
}

/// Goal: a run without an end ends when it is stopped, and its figures cover the time that it took. Method: a target
/// that stops it at its first request.
#[test]
fn stopped_run_is_over() {
    let stop = Arc::new(AtomicBool::new(false));
    let target = Fake { stops: Some(Arc::clone(&stop)), ..Fake::default() };
    let years = Duration::from_secs(1 << 28);
    let course = Course { warm_up: Duration::ZERO, time: years, ..course(Pacing::Rate(50.0), false) };
    let run = drive_until(&target, course, &Env::real().clock, &stop).unwrap();
    assert!((1..=u64::from(course.clients)).contains(&run.tally.ended()), "{run:?}");
    assert!(u128::from(run.ns) < years.as_nanos(), "{run:?}");
    let due = 1 + run.ns / 20_000_000;
    assert!(run.backlog <= due, "{run:?}: {due} were due");
}

/// Goal: displayed results are computed as specified. Method: numbers by hand.
#[test]
fn answers_are_computed_as_specified() {
    assert_eq!(total(10_000, 1_000, 500, 500), 9_900);
    assert_eq!([1, 2, 3, 4, 5].map(middle), [0, 0, 1, 1, 2]);
}

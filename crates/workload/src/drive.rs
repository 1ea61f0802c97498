//! `drive`: clients run requests on a target for a time; every transaction is counted.
//!
//! # Invariants
//! - R1. A transaction counts if it ends within the measured time; those that end in the warm-up or later do not.
//! - R2. A transaction refused with 40001 or 40P01 is run again with the same input until it ends; any other error ends
//!   the run.
//! - R3. A deferred delivery waits in a queue for a separate session, and its latency counts from its request. A full
//!   queue makes the client wait, so that no run ends with an uncounted backlog.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use collie_env::Clock;
use parking_lot::Mutex;

use crate::chance::Constants;
use crate::pace::{Arrivals, Pacing, sleep_until, terminal_times};
use crate::request::{Request, Terminal};
use crate::scale::Scale;
use crate::tally::Tally;
use crate::target::{Failure, Session, Target};

/// Attempts before a transaction is given up, far more than bad luck explains.
const ATTEMPTS: u64 = 10_000;
/// Clients per delivering session.
const CLIENTS_PER_DELIVERER: u32 = 16;
const SECOND_NS: u64 = 1_000_000_000;

/// The description of one run.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// The number of rows of each kind.
    pub scale: Scale,
    /// The seed of the population and, together with `run`, of the draws.
    pub seed: u64,
    /// The number of the run.
    pub run: u32,
    /// The clients, in addition to those that deliver.
    pub clients: u32,
    /// The time before the measured time.
    pub warm_up: Duration,
    /// The measured time.
    pub time: Duration,
    /// When transactions begin.
    pub pacing: Pacing,
    /// Whether deliveries are queued.
    pub deferred: bool,
}

impl Course {
    /// Returns the seed for the draws of this run: inputs and moments.
    const fn drawn(&self) -> u64 {
        self.seed ^ (self.run as u64 + 1) << 40
    }
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The counters.
    pub tally: Tally,
    /// The begin of the measured time, on the clock of the run.
    pub from_ns: u64,
    /// The measured time.
    pub ns: u64,
    /// Bytes by which the log grew during the measured time.
    pub log_bytes: u64,
    /// With a rate: transactions that were due and not begun at the end.
    pub backlog: u64,
}

/// The state that the threads of a run share.
struct Shared<'a> {
    course: Course,
    clock: &'a dyn Clock,
    /// Set when the run fails or is over, or when the caller wants to end it: no transaction is begun any more.
    stop: &'a AtomicBool,
    ready: Barrier,
    /// Set once all threads are ready.
    began_ns: OnceLock<u64>,
    go: Barrier,
    arrivals: Arrivals,
}

struct Deferred {
    asked_ns: u64,
    request: Request,
}

impl Shared<'_> {
    fn warm_ns(&self) -> u64 {
        self.began_ns() + nanos(self.course.warm_up)
    }

    fn end_ns(&self) -> u64 {
        self.warm_ns() + nanos(self.course.time)
    }

    fn began_ns(&self) -> u64 {
        *self.began_ns.get().expect("set before anybody goes")
    }

    /// Waits for all threads. A thread that cannot begin waits too, so that the others start and notice that the run is
    /// over.
    fn start(&self) {
        self.ready.wait();
        self.go.wait();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Runs one course on `target`.
///
/// # Errors
/// The first error of a transaction, except those that are run again.
pub fn drive(target: &dyn Target, course: Course, clock: &Arc<dyn Clock>) -> anyhow::Result<Run> {
    drive_until(target, course, clock, &AtomicBool::new(false))
}

/// Runs one course on `target`, to its end or until `stop` is set, which takes effect within a tenth of a second, the
/// longest rest of a thread. At the end `stop` is set in any case.
///
/// # Errors
/// Those of [`drive`].
pub fn drive_until(
    target: &dyn Target,
    course: Course,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
) -> anyhow::Result<Run> {
    let deliverers = if course.deferred { course.clients.div_ceil(CLIENTS_PER_DELIVERER) } else { 0 };
    let threads = usize::try_from(course.clients + deliverers)? + 1;
    let shared = Shared {
        course,
        clock: &**clock,
        stop,
        ready: Barrier::new(threads),
        began_ns: OnceLock::new(),
        go: Barrier::new(threads),
        arrivals: Arrivals::new(course.pacing, course.drawn()),
    };
    let (asked, queue) = sync_channel(2 * usize::try_from(course.clients)?);
    let queue = Mutex::new(queue);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for number in 0..course.clients {
            let (shared, asked) = (&shared, course.deferred.then(|| asked.clone()));
            running.push(scope.spawn(move || client(shared, target, number, asked.as_ref())));
        }
        drop(asked);
        for _ in 0..deliverers {
            let (shared, queue) = (&shared, &queue);
            running.push(scope.spawn(move || deliverer(shared, target, queue)));
        }
        shared.ready.wait();
        let _first = shared.began_ns.set(clock.now_ns());
        shared.go.wait();
        let position = |due_ns: u64| {
            while !shared.stop.load(Relaxed) && clock.now_ns() < due_ns {
                sleep_until(&**clock, due_ns.min(clock.now_ns() + SECOND_NS / 10));
            }
            target.log_position()
        };
        let log = position(shared.warm_ns()).and_then(|from| Ok(position(shared.end_ns())? - from));
        shared.stop.store(true, Relaxed);
        let ended_ns = shared.end_ns().min(clock.now_ns());
        let ns = ended_ns.saturating_sub(shared.warm_ns());
        let mut run = Run { from_ns: shared.warm_ns(), ns, ..Run::default() };
        run.backlog = shared.arrivals.left(ended_ns - shared.began_ns());
        let mut failed = None;
        for thread in running {
            match thread.join() {
                Ok(Ok(tally)) => run.tally.merge(&tally),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(_) => failed = failed.or(Some(anyhow::anyhow!("a client panicked"))),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        run.log_bytes = log?;
        Ok(run)
    })
}

/// Runs one client to the end of the run.
fn client(
    shared: &Shared<'_>,
    target: &dyn Target,
    number: u32,
    asked: Option<&SyncSender<Deferred>>,
) -> anyhow::Result<Tally> {
    let Course { scale, seed, clients, pacing, .. } = shared.course;
    let session = target.connect().inspect_err(|_| shared.stop.store(true, Relaxed));
    shared.start();
    let (mut session, mut tally) = (session?, Tally::default());
    let mut terminal = Terminal::new(scale, Constants::draw(seed), shared.course.drawn(), number, clients);
    while !shared.stop.load(Relaxed) {
        let mut asked_ns = shared.clock.now_ns();
        if pacing.rate().is_some() {
            asked_ns = shared.began_ns() + shared.arrivals.next_ns();
            if asked_ns >= shared.end_ns() {
                break;
            }
            rest_until(shared, asked_ns);
            if shared.stop.load(Relaxed) {
                break;
            }
        }
        let request = terminal.draw();
        let mut think = Duration::ZERO;
        if pacing == Pacing::Terminals {
            let [keying, thinking] = terminal_times(request.kind(), &mut terminal.chance);
            pause(shared, keying);
            (asked_ns, think) = (shared.clock.now_ns(), thinking);
        }
        match asked.filter(|_| matches!(request, Request::Delivery(_))) {
            // The deliverer empties the queue to its end.
            Some(asked) => drop(asked.send(Deferred { asked_ns, request })),
            None => finish(shared, &mut *session, &request, asked_ns, &mut tally)?,
        }
        pause(shared, think);
    }
    Ok(tally)
}

/// Runs deferred deliveries until no client can request more.
fn deliverer(shared: &Shared<'_>, target: &dyn Target, queue: &Mutex<Receiver<Deferred>>) -> anyhow::Result<Tally> {
    let session = target.connect().inspect_err(|_| shared.stop.store(true, Relaxed));
    shared.start();
    let (mut tally, mut failed) = (Tally::default(), None);
    let mut session = session.map_err(|error| failed = Some(error)).ok();
    loop {
        let next = queue.lock().recv();
        let Ok(Deferred { asked_ns, request }) = next else { break };
        // After a failure the queue is still emptied, since its clients wait for room in it.
        if let Some(open) = &mut session
            && let Err(error) = finish(shared, &mut **open, &request, asked_ns, &mut tally)
        {
            (failed, session) = (Some(error), None);
        }
    }
    failed.map_or(Ok(tally), Err)
}

/// Pauses, but not beyond the end of the run.
fn pause(shared: &Shared<'_>, time: Duration) {
    if !time.is_zero() {
        rest_until(shared, shared.clock.now_ns() + nanos(time));
    }
}

/// Rests until `due_ns`, or the end of the run.
fn rest_until(shared: &Shared<'_>, due_ns: u64) {
    while !shared.stop.load(Relaxed) && shared.clock.now_ns() < due_ns {
        sleep_until(shared.clock, due_ns.min(shared.clock.now_ns() + SECOND_NS / 10));
    }
}

/// Runs a request until it ends (R2), and counts it (R1).
fn finish(
    shared: &Shared<'_>,
    session: &mut dyn Session,
    request: &Request,
    asked_ns: u64,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let (mut conflicts, mut deadlocks) = (0, 0);
    let answer = loop {
        let failed = match session.run(request) {
            Ok(answer) => break answer,
            Err(Failure::Conflict) => {
                conflicts += 1;
                None
            }
            Err(Failure::Deadlock) => {
                deadlocks += 1;
                None
            }
            Err(Failure::Other(error)) => Some(error),
        };
        let failed = failed.or_else(|| {
            (conflicts + deadlocks >= ATTEMPTS).then(|| anyhow::anyhow!("{ATTEMPTS} attempts were refused"))
        });
        if let Some(error) = failed {
            shared.stop.store(true, Relaxed);
            return Err(error.context(format!("{} failed", request.kind().name())));
        }
    };
    let now = shared.clock.now_ns();
    if (shared.warm_ns()..shared.end_ns()).contains(&now) {
        let at_ns = now - shared.warm_ns();
        tally.count(request.kind(), answer, now.saturating_sub(asked_ns), at_ns, [conflicts, deadlocks]);
    }
    Ok(())
}

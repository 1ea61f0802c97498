//! `ClosedLoop`: clients that each send the next request as soon as the previous one is answered. They are measured for
//! a set time after a warm-up.
//!
//! This is not an open loop: a slow server gets fewer requests, so its latencies are those at as many concurrent
//! requests as there are clients.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use collie_env::Clock;
use collie_workload::sleep_until;

use crate::Latencies;

/// See the module's documentation.
#[derive(Clone, Copy)]
pub(crate) struct ClosedLoop<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) clients: u32,
    /// Runs before the measurement starts.
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
}

/// The answers that all clients received in the measured time.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The time from each request to its answer.
    pub(crate) latencies: Latencies,
    /// Length of the measured time.
    pub(crate) ns: u64,
}

impl ClosedLoop<'_> {
    /// Lets every client, numbered from 0 on, call repeatedly the function that `open` returned for it, once all are
    /// open. Blocks for the warm-up and the measured time.
    ///
    /// # Errors
    /// The first client's in the order of numbers. Once one client fails, all stop.
    pub(crate) fn run<A>(&self, open: impl Fn(u32) -> anyhow::Result<A> + Sync) -> anyhow::Result<Answered>
    where
        A: FnMut() -> anyhow::Result<()>,
    {
        let clock = self.clock;
        let (ready, stop) = (Barrier::new(usize::try_from(self.clients)? + 1), AtomicBool::new(false));
        let measured = AtomicBool::new(false);
        let client = |number: u32| -> anyhow::Result<Latencies> {
            let opened = open(number);
            // A client that cannot open also reaches the barrier, so that the others do not wait for it forever.
            ready.wait();
            let mut ask = opened.inspect_err(|_| stop.store(true, Relaxed))?;
            let mut latencies = Latencies::default();
            while !stop.load(Relaxed) {
                let begun = clock.now_ns();
                ask().inspect_err(|_| stop.store(true, Relaxed))?;
                if measured.load(Relaxed) {
                    latencies.record(clock.now_ns() - begun);
                }
            }
            Ok(latencies)
        };
        std::thread::scope(|scope| {
            let client = &client;
            let running: Vec<_> = (0..self.clients).map(|number| scope.spawn(move || client(number))).collect();
            ready.wait();
            sleep_until(clock, clock.now_ns() + u64::try_from(self.warm_up.as_nanos())?);
            let from = clock.now_ns();
            measured.store(true, Relaxed);
            sleep_until(clock, from + u64::try_from(self.time.as_nanos())?);
            measured.store(false, Relaxed);
            let mut all = Answered { ns: clock.now_ns() - from, ..Answered::default() };
            stop.store(true, Relaxed);
            for one in running {
                all.latencies.merge(&one.join().ok().context("a client panicked")??);
            }
            Ok(all)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use collie_env::RealClock;

    use super::*;

    fn of(clients: u32) -> ClosedLoop<'static> {
        let short = Duration::from_millis(30);
        ClosedLoop { clock: &RealClock, clients, warm_up: short, time: short }
    }

    /// Goal: every client calls its own function, and calls in the warm-up are not counted. Method: three clients that
    /// count by number; compare the answers with the calls.
    #[test]
    fn all_clients_ask_and_the_warm_up_is_not_counted() {
        let asked: [AtomicU64; 3] = Default::default();
        let of_client = |number: u32| {
            let asked = &asked[number as usize];
            move || {
                asked.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
        };
        let answered = of(3).run(|number| Ok(of_client(number))).unwrap();
        let asked = asked.map(|count| count.load(Relaxed));
        assert!(asked.iter().all(|count| *count > 0), "{asked:?}");
        assert!(answered.ns >= 30_000_000 && answered.latencies.count() < asked.iter().sum(), "{asked:?}");
    }

    /// Goal: a client that cannot open, and one that fails, end the run with their error and stop the other client.
    /// Method: one failing client of two.
    #[test]
    fn a_client_that_fails_ends_the_run() {
        let nothing = || -> anyhow::Result<()> { Ok(()) };
        let error =
            of(2).run(|number| if number == 1 { anyhow::bail!("no session") } else { Ok(nothing) }).unwrap_err();
        assert_eq!(error.to_string(), "no session");
        let fails = |number: u32| move || if number == 1 { anyhow::bail!("no answer") } else { Ok(()) };
        let error = of(2).run(|number| Ok(fails(number))).unwrap_err();
        assert_eq!(error.to_string(), "no answer");
    }
}

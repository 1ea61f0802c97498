//! `Stalls`: detects what holds up all commits: a flush that does not return from the device, or a writer that stops
//! between its reservation and the end of its copy.
//!
//! Waiting threads and the preparer check about once a second, never on the path of a commit that goes well. The only
//! effect is a warning: commits wait, and continue by themselves.
//!
//! Checked by the tests below, which move the clock.

use std::path::Path;

use collie_base::Lsn;

/// The age at which a wait gets a warning; it gets another at each tenfold.
pub(crate) const STALL_NS: u64 = 1_000_000_000;

/// The start of the in-flight flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) number: u64,
    pub(crate) began_ns: u64,
}

/// A slot between reservation and copy, and the bound that it holds.
pub(crate) type Blocker = (usize, Lsn);

/// The stalls that were seen and reported.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// The flush reported last, and the age at which it is reported next.
    flush: Option<(Started, u64)>,
    /// The slot seen last, since when, and the age at which it is reported next.
    slot: Option<(Blocker, u64, u64)>,
}

impl Stalls {
    /// Takes what holds up commits at `now_ns`; returns the lines to report about it, and about a flush that no longer
    /// does.
    pub(crate) fn look(
        &mut self,
        dir: &Path,
        now_ns: u64,
        started: Option<Started>,
        blocker: Option<Blocker>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if self.flush.is_some_and(|(said, _)| Some(said) != started) {
            self.flush = None;
            lines.push(format!("wal: the device of {} goes on", dir.display()));
        }
        if let Some(started) = started {
            let (age, due) = (now_ns.saturating_sub(started.began_ns), self.flush.map_or(STALL_NS, |(_, due)| due));
            if age >= due {
                self.flush = Some((started, next_age(age)));
                lines.push(format!(
                    "wal: a flush to {} has been on its way for {}; commits wait for the device",
                    dir.display(),
                    seconds(age)
                ));
            }
        }
        let seen = self.slot.filter(|(seen, ..)| Some(*seen) == blocker);
        self.slot = blocker.map(|blocker| seen.unwrap_or((blocker, now_ns, STALL_NS)));
        if let Some(((slot, bound), since_ns, due)) = &mut self.slot {
            let age = now_ns.saturating_sub(*since_ns);
            if age >= *due {
                *due = next_age(age);
                lines.push(format!(
                    "wal: slot {slot} has stood between its reservation and its copy for {} at LSN {bound} or above; \
                     acknowledgements wait for its thread",
                    seconds(age)
                ));
            }
        }
        lines
    }
}

/// Returns the age at which a stall that is `age_ns` old is reported next.
fn next_age(age_ns: u64) -> u64 {
    let mut next = STALL_NS;
    while next <= age_ns {
        next = next.saturating_mul(10);
    }
    next
}

fn seconds(ns: u64) -> String {
    format!("{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use collie_env::{Env, SimClock, SimFiles};
    use parking_lot::Mutex;

    use crate::{
        Level, Log, Options, Protocol, Warnings,
        testing::{eventually, tiny},
    };

    const DIR: &str = "/wal";

    /// Opens a log on a disk and a clock that the test controls; also returns the list of its warnings.
    fn open(options: Options) -> (Log, SimFiles, Arc<SimClock>, Arc<Mutex<Vec<String>>>) {
        let (disk, clock, said) = (SimFiles::new(), Arc::new(SimClock::new()), Arc::new(Mutex::new(Vec::new())));
        let warnings = Warnings::to({
            let said = said.clone();
            move |line| said.lock().push(line.to_owned())
        });
        let env = Env { clock: clock.clone(), ..Env::over(disk.clone(), 1) };
        let (log, _) = Log::open(&env, DIR.as_ref(), Options { warnings, ..options }).unwrap();
        (log, disk, clock, said)
    }

    /// Goal: a device that stalls is reported after a second, with the age, again after ten, and when it goes on;
    /// nothing is reported before, nor twice. Method: a stalled simulated disk under a commit, the clock moved by hand.
    #[test]
    fn stalled_device_is_named_with_the_age_of_the_flush() {
        let (log, disk, clock, said) = open(tiny());
        disk.set_stalled(true);
        std::thread::scope(|scope| {
            let mut writer = log.writer();
            let commit = scope.spawn(move || writer.commit(0, b"x", Level::Disk).unwrap());
            eventually("a flush in flight", || log.stat().in_flight_age.is_some());
            for (tenths, lines) in [(9, 0), (3, 1), (50, 1), (40, 2), (800, 2), (200, 3)] {
                clock.advance_ns(tenths * 100_000_000);
                log.look_for_stalls();
                assert_eq!(said.lock().len(), lines, "{said:?}");
            }
            assert!(log.stat().in_flight_age.unwrap() >= std::time::Duration::from_secs(110));
            disk.set_stalled(false);
            commit.join().unwrap();
        });
        log.look_for_stalls();
        log.look_for_stalls();
        assert_eq!(
            *said.lock(),
            [
                "wal: a flush to /wal has been on its way for 1.2 s; commits wait for the device",
                "wal: a flush to /wal has been on its way for 10.2 s; commits wait for the device",
                "wal: a flush to /wal has been on its way for 110.2 s; commits wait for the device",
                "wal: the device of /wal goes on",
            ]
        );
        assert_eq!(log.stat().in_flight_age, None);
    }

    /// Goal: a slot that stays black for a second is reported, one that moves on is not. Method: a publish hook that
    /// does not return, under both lock-free protocols.
    #[test]
    fn slot_that_stays_black_is_named() {
        for protocol in [Protocol::Base, Protocol::Help] {
            let (log, _, clock, said) = open(Options { protocol, ..tiny() });
            let (hold, go_on) = (Mutex::new(()), Mutex::new(false));
            let held = hold.lock();
            std::thread::scope(|scope| {
                let mut writer = log.writer();
                let (hold, go_on) = (&hold, &go_on);
                scope.spawn(move || {
                    let hook = |_| {
                        *go_on.lock() = true;
                        drop(hold.lock());
                    };
                    writer.append_with(0, b"x", hook).unwrap()
                });
                eventually("the hook", || *go_on.lock());
                let look = |ns| {
                    clock.advance_ns(ns);
                    log.look_for_stalls();
                };
                look(0);
                look(900_000_000);
                assert!(said.lock().is_empty());
                look(200_000_000);
                look(0);
                drop(held);
            });
            assert_eq!(
                *said.lock(),
                ["wal: slot 0 has stood between its reservation and its copy for 1.1 s at LSN 0/0 or above; \
                  acknowledgements wait for its thread"],
                "{protocol:?}"
            );
            clock.advance_ns(5_000_000_000);
            log.look_for_stalls();
            log.writer().commit(0, b"y", Level::Disk).unwrap();
            clock.advance_ns(5_000_000_000);
            log.look_for_stalls();
            assert_eq!(said.lock().len(), 1);
        }
    }
}

//! `Stopped`: a process that is stopped (SIGSTOP), and is always continued (D3).

use std::process::Command;
use std::time::Duration;

use collie_env::Clock;
use collie_workload::sleep_until;

/// A process that is stopped until this is dropped.
pub(super) struct Stopped(u32);

fn signal(name: &str, process: u32) -> anyhow::Result<()> {
    let status = Command::new("kill").args([name, &process.to_string()]).status()?;
    anyhow::ensure!(status.success(), "kill {name} {process}: {status}");
    Ok(())
}

impl Stopped {
    /// Stops a process.
    ///
    /// # Errors
    /// There is no such process.
    pub(super) fn stop(process: u32) -> anyhow::Result<Self> {
        signal("-STOP", process)?;
        Ok(Self(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // If the process is gone, there is nothing to continue.
        let _gone = signal("-CONT", self.0);
    }
}

/// How long a process is stopped, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stutter {
    pub(super) still: Duration,
    /// The time from one stop to the next.
    pub(super) every: Duration,
}

impl Stutter {
    /// Repeatedly stops a process until `due_ns`; the process runs when this returns.
    ///
    /// # Errors
    /// There is no such process.
    pub(super) fn disturb(self, clock: &dyn Clock, process: u32, due_ns: u64) -> anyhow::Result<()> {
        let [still_ns, every_ns] = [self.still, self.every].map(|time| u64::try_from(time.as_nanos()));
        let (still_ns, every_ns) = (still_ns?, every_ns?);
        let mut begun_ns = clock.now_ns();
        while begun_ns < due_ns {
            let stopped = Stopped::stop(process)?;
            sleep_until(clock, due_ns.min(begun_ns + still_ns));
            drop(stopped);
            begun_ns += every_ns;
            sleep_until(clock, due_ns.min(begun_ns));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use collie_env::RealClock;

    use super::*;

    /// Returns the kernel's state of a process: R, S, T and so on; `None` if it is gone.
    fn state(process: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..3_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}");
    }

    /// A process that only sleeps; dropping this kills it.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Self {
            let mut command = Command::new("sleep");
            Self(command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ended = self.0.kill().and_then(|()| self.0.wait());
        }
    }

    fn is_still(process: u32) -> bool {
        state(process) == Some('T')
    }

    fn goes_on(process: u32) -> bool {
        matches!(state(process), Some('R' | 'S'))
    }

    /// Goal: D3. Method: a process is stopped, and continued by the end of a scope that failed; one that does not
    /// exist.
    #[test]
    fn what_was_stopped_goes_on() {
        let sleeper = Sleeper::start();
        let process = sleeper.0.id();
        let fail = || -> anyhow::Result<()> {
            let _stopped = Stopped::stop(process)?;
            until("it stands still", || is_still(process));
            anyhow::bail!("something fails meanwhile")
        };
        assert!(fail().is_err());
        until("it goes on", || goes_on(process));
        assert!(Stopped::stop(u32::MAX / 2).is_err(), "there is no such process");
    }

    /// Goal: a process is stopped repeatedly, runs in between and at the end. Method: it is disturbed until a watcher
    /// has seen it stopped, running, and stopped again; each call of a tenth of a second returns with a running
    /// process.
    #[test]
    fn a_stutter_stops_and_goes_on() {
        let (sleeper, enough) = (Sleeper::start(), AtomicBool::new(false));
        let process = sleeper.0.id();
        let stutter = Stutter { still: Duration::from_millis(20), every: Duration::from_millis(40) };
        let sees = |is_so: fn(u32) -> bool| {
            (0..30_000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                is_so(process)
            })
        };
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let all: [fn(u32) -> bool; 3] = [is_still, goes_on, is_still];
                let seen = all.into_iter().all(sees);
                enough.store(true, Relaxed);
                seen
            });
            while !enough.load(Relaxed) {
                stutter.disturb(&RealClock, process, RealClock.now_ns() + 100_000_000).unwrap();
                until("it goes on", || goes_on(process));
            }
            assert!(watcher.join().unwrap(), "it was not seen still, going on, and still again");
        });
    }
}

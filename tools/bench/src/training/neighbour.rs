//! `Neighbour`: a process that competes for a core all the time, so that other processes there get only a part of it.

use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A process that spins on one core until it is dropped, or until this process ends.
pub(crate) struct Neighbour(Child);

impl Neighbour {
    /// Starts one on `core`, or on any core without one.
    ///
    /// # Errors
    /// `setpriv`, `taskset` or `sh` is missing.
    pub(crate) fn start(core: Option<usize>) -> anyhow::Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]);
        if let Some(core) = core {
            command.args(["taskset", "--cpu-list", &core.to_string()]);
        }
        command.args(["sh", "-c", "while :; do :; done"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().context("cannot start a neighbour by setpriv and taskset")?))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have exited by itself; the result does not matter.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use collie_env::{Clock as _, RealClock};

    use super::*;
    use crate::training::cores::two_cores;

    /// Goal: it uses processor time on the named core until it is dropped. Method: its ticks in /proc grow; the list
    /// of its cores is that one; afterwards there is no such process.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_neighbour_takes_time_until_it_goes() {
        let core = two_cores().map(|[first, _]| first);
        let neighbour = Neighbour::start(core).unwrap();
        let dir = format!("/proc/{}", neighbour.0.id());
        let read = |file: &str| std::fs::read_to_string(format!("{dir}/{file}")).unwrap_or_default();
        let ticks = || read("stat").rsplit(')').next()?.split_whitespace().nth(11)?.parse::<u64>().ok();
        let begun_ns = RealClock.now_ns();
        // It uses a tick of 10 ms once it has become the loop.
        while ticks().is_none_or(|ticks| ticks < 2) {
            assert!(RealClock.now_ns() - begun_ns < 30_000_000_000, "it takes no time: {}", read("stat"));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if let Some(core) = core {
            let is_alone =
                |line: &str| line.strip_prefix("Cpus_allowed_list:").map(str::trim) == Some(&core.to_string());
            assert!(read("status").lines().any(is_alone), "{}", read("status"));
        }
        drop(neighbour);
        assert!(!std::path::Path::new(&dir).exists());
    }
}

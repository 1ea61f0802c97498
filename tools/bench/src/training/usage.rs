//! `Usage`: the resources that a process has used so far, as reported by Linux.

use anyhow::Context;

/// Resource usage. See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time of its current threads; that of threads that have exited is not included.
    pub(crate) cpu_ns: u64,
    /// The resident memory now.
    pub(crate) resident_bytes: u64,
    /// Bytes that it made the kernel write to disks.
    pub(crate) written_bytes: u64,
}

impl Usage {
    /// Reads the usage of the process with this id, which is the caller's child.
    ///
    /// # Errors
    /// The process has exited; the kernel does not report its usage.
    pub(crate) fn of(process: u32) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = format!("/proc/{process}/{name}");
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let mut cpu_ns = 0;
        for task in std::fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
            // A thread may have ended since it was listed.
            let ran = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            cpu_ns += ran.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        anyhow::ensure!(cpu_ns > 0, "the kernel does not say how long process {process} ran");
        let resident = field(&read("status")?, "VmRSS:").context("no VmRSS")?;
        let written_bytes = field(&read("io")?, "write_bytes:").context("no write_bytes")?;
        Ok(Self { cpu_ns, resident_bytes: resident << 10, written_bytes })
    }

    /// Returns the usage since `before`; of memory the current value.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            resident_bytes: self.resident_bytes,
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// Returns the number after `name` in lines such as `VmRSS:     123 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the usage of a process grows with its work, and fields match their names. Method: this process, before
    /// and after a loop that runs until the kernel has counted it; lines by hand; a process that does not exist.
    #[test]
    #[cfg(target_os = "linux")]
    fn usage_grows_with_work() {
        let before = Usage::of(std::process::id()).unwrap();
        assert!(before.resident_bytes > 1 << 20, "{before:?}");
        let mut used = Usage::default();
        for _ in 0..10_000 {
            std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum::<u64>());
            used = Usage::of(std::process::id()).unwrap().since(before);
            if used.cpu_ns > 0 {
                break;
            }
        }
        assert!(used.cpu_ns > 0, "{used:?}");
        assert_eq!((field("VmHWM:\t 7 kB\nVmRSS:\t 12 kB\n", "VmRSS:"), field("a: 1", "b:")), (Some(12), None));
        assert!(Usage::of(u32::MAX).is_err());
    }
}

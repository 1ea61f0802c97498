//! The kernel's counts for a thread: context switches.

/// Returns how often the calling thread has left the processor, voluntarily or not; 0 if the kernel does not report it.
pub(crate) fn context_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
    counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a thread that waits leaves the processor, and that is counted. Method: a sleep.
    #[test]
    fn a_sleep_is_a_context_switch() {
        let before = context_switches();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = context_switches();
        assert!(after > before || after == 0, "{before} to {after}");
    }
}

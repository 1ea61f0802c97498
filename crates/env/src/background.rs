//! `become_background`: limits a process to idle processor time and bounded memory; `end_with_parent`: ends a
//! process together with the thread that started it.
#![allow(unsafe_code, reason = "one system call that rustix does not offer")]

use std::io;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

/// Gives this thread, and the threads that it starts from now on, processor time only while no other thread wants
/// it (`SCHED_IDLE`), and limits the private memory of the process to `memory_bytes`. Allocations beyond the limit
/// fail, which ends a Rust program. The change cannot be undone, so only a process made for background work calls
/// this.
///
/// # Errors
/// Returns the error of the operating system. The memory limit is set first and stays if the second call fails.
pub fn become_background(memory_bytes: u64) -> io::Result<()> {
    // The limit counts private writable memory such as the heap. It does not count code and files mapped for
    // reading.
    setrlimit(Resource::Data, Rlimit { current: Some(memory_bytes), maximum: Some(memory_bytes) })?;
    let idle = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one structure that lives across it, and 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks the kernel to kill this process when the thread that started it ends, for whatever reason.
///
/// # Errors
/// Returns the error of the operating system.
pub fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the thread gets only idle processor time, the memory limit is in force, and other threads are
    /// unchanged. Method: call it on a thread of its own with a limit that no test reaches, and read the kernel's
    /// figures.
    #[test]
    fn a_background_thread_is_idle_class() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Takes the 41st field. The second field is a name in brackets, which may contain spaces.
            let (_, rest) = stat.rsplit_once(") ").unwrap();
            rest.split(' ').nth(38).unwrap().parse::<i32>().unwrap()
        };
        let before = policy();
        let there = std::thread::spawn(move || {
            become_background(1 << 46).unwrap();
            policy()
        });
        assert_eq!(there.join().unwrap(), libc::SCHED_IDLE);
        assert_eq!(policy(), before);
        assert_eq!(rustix::process::getrlimit(Resource::Data).current, Some(1 << 46));
    }
}

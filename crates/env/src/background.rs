//! `become_background`: a process that takes only what nobody else wants; `end_with_parent`: one that does not outlive who started it.
#![allow(unsafe_code, reason = "one system call that rustix does not offer")]

use std::io;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

/// Gives this thread, and those that it starts from now on, processor time only where nobody else wants it (`SCHED_IDLE`), and the process
/// no more than `memory_bytes` of memory of its own; past that allocations fail, which ends a Rust program. There is no way back, which is
/// why only a process made for it calls this.
///
/// # Errors
/// What the operating system says; the limit of memory is set first.
pub fn become_background(memory_bytes: u64) -> io::Result<()> {
    // What is allocated, not what is mapped from files: the program itself is not counted.
    setrlimit(Resource::Data, Rlimit { current: Some(memory_bytes), maximum: Some(memory_bytes) })?;
    let idle = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one structure that lives across it, and 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has this process killed when the thread that started it ends, however that ends.
///
/// # Errors
/// What the operating system says.
pub fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the thread runs only where nobody else wants to, the limit is in force, and other threads are as they were. Method: a thread of
    /// its own, a limit that no test reaches, and what the kernel says of it.
    #[test]
    fn a_background_thread_is_idle_class() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // The 41st field; the second is a name in brackets, which may hold spaces.
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

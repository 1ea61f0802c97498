//! Traces one thread from outside: which instructions an append executes, and what other threads see while it is
//! stopped within one. The traced code needs no hook.
//!
//! A child process, the same program again, attaches to one thread of this one as a debugger does. To count, it
//! single-steps the thread from one mark to the next and looks at the bytes of each instruction. To stop the thread at
//! a place, it uses a run that it has counted before: it sets a hardware breakpoint at the address and lets the thread
//! run at full speed until it arrives. Only within a copy does it single-step the last part.
//!
//! # What always holds
//! - X1. The traced process never stays stopped: the tracer holds a thread for a bounded time, and when a tracer dies
//!   the kernel detaches its threads. Nothing is killed with the tracer.
//! - X2. A trap that arrives after the tracer has died is harmless: its handler does nothing. The traced code does not
//!   block signals.
//! - X3. Counts cover instructions in user mode between the two marks, without the marks; an instruction that repeats
//!   (`rep movsb`) counts once.
//! - X4. The allocator's figure counts steps at addresses that one allocation executed when it was learned. Every
//!   allocation begins like that one, so zero proves that none was made; other numbers do not count allocations.
//!
//! Works on Linux on x86-64 only; on other systems, or if the kernel refuses, the figures say so.
//!
//! | file          | holds                                                     |
//! |---------------|-----------------------------------------------------------|
//! | `tracer`      | this side: the child, the requests to it, the marks       |
//! | `process`     | the child's side: requests and answers                    |
//! | `tracee`      | a thread under ptrace; with the marks, the unsafe code    |
//! | `window`      | the steps between two marks, and the places among them    |
//! | `instruction` | the relevant properties of an instruction                 |

mod tracer;
mod window;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod instruction;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod process;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracee;

#[cfg(test)]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trace_tests;

#[cfg(test)]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use trace_tests::{program as tracer_of_tests, tracer as tracer_of_tests_or_not_run};
pub use tracer::TracerProgram;
pub(crate) use tracer::{Hold, Tracer};
pub(crate) use window::{Counts, Place};

/// Serves as the tracer of the process that started this one: reads requests from standard input, answers on standard
/// output, and returns at the end of the input. A [`TracerProgram`] runs this.
///
/// # Errors
/// The system is not Linux on x86-64, or the input does not come from [`Tracer`].
pub fn trace_thread() -> anyhow::Result<()> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return process::serve();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    anyhow::bail!("threads are traced on Linux on x86-64 only");
}

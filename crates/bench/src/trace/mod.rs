//! One thread looked at from outside: what an append executes, and what others see while it is stopped in the midst of
//! one. Without a hook in the code that is looked at.
//!
//! A child process, the same program again, attaches to one thread of this one as a debugger does. To count, it executes
//! the thread an instruction at a time from one mark to the next and looks at the bytes of each. To stop it at a place, it
//! has seen such a run before, sets a hardware breakpoint at the address, and lets the thread run at full speed until it
//! is there; only in the midst of a copy it goes the last part step by step.
//!
//! # What always holds
//! - X1. The traced process never stays stopped: the tracer holds a thread for a bounded time, and the kernel detaches
//!   what a tracer that died had attached. Nothing is killed with the tracer.
//! - X2. A trap that arrives after the tracer has died is borne, not deadly: it has a handler that does nothing. What is
//!   traced does not block signals.
//! - X3. Counts are of instructions in user mode between the two marks, the marks left out; an instruction that repeats
//!   (`rep movsb`) counts once.
//! - X4. What is told of the allocator are steps at addresses that one allocation ran through when it was learned. Every allocation
//!   begins as that one did, so zero says that none was made; other numbers are no count of allocations.
//!
//! Linux on x86-64 only; where there is something else, or the kernel refuses, the figures say so.
//!
//! | file          | holds                                                     |
//! |---------------|-----------------------------------------------------------|
//! | `tracer`      | this side: the child, what is asked of it, the marks      |
//! | `process`     | the child's side: what it is asked and answers            |
//! | `tracee`      | a thread under ptrace; with the marks, the unsafe code    |
//! | `window`      | the steps between two marks, and the places among them    |
//! | `instruction` | what is to be known of the bytes of an instruction        |

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
/// output, and returns at the end of the input. What a [`TracerProgram`] runs.
///
/// # Errors
/// Another system than Linux on x86-64; an input that nobody but [`Tracer`] should send.
pub fn trace_thread() -> anyhow::Result<()> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return process::serve();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    anyhow::bail!("threads are traced on Linux on x86-64 only");
}

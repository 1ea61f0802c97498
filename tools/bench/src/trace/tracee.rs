//! `Tracee`: a thread of another process under ptrace, stopped whenever one of these functions is called. Also the
//! parts that run in the traced process: the mark in its code, and the handler for stray traps.
//!
//! # Invariants
//! - E1. `PTRACE_O_EXITKILL` is never set: the kernel detaches and resumes the thread when this process ends.
//! - E2. No breakpoint is left behind: dropping clears them before it detaches.

use std::{collections::BTreeMap, io, mem::offset_of};

use nix::{
    errno::Errno,
    libc::{c_long, user, user_regs_struct},
    sys::{
        ptrace,
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use super::instruction::{BYTES_MAX, Instruction, Operand};

/// Two of the processor's four breakpoints.
const BREAKPOINTS: usize = 2;

/// A thread that this one traces. Dropping detaches it.
pub(super) struct Tracee {
    thread: Pid,
    /// A signal that was sent to the thread and intercepted by tracing; delivered when the thread continues.
    signal: Option<Signal>,
    /// Decoded instructions; code does not change.
    seen: BTreeMap<u64, Instruction>,
}

fn error(what: &str, errno: Errno) -> io::Error {
    io::Error::new(io::Error::from(errno).kind(), format!("{what}: {}", errno.desc()))
}

fn address(at: usize) -> ptrace::AddressType {
    std::ptr::without_provenance_mut(at)
}

impl Tracee {
    /// Attaches to a thread and stops it.
    ///
    /// # Errors
    /// Those of the kernel; in most containers, missing permissions.
    pub(super) fn attach(thread: i32) -> io::Result<Self> {
        let thread = Pid::from_raw(thread);
        ptrace::seize(thread, ptrace::Options::empty()).map_err(|errno| error("attaching", errno))?;
        let mut tracee = Self { thread, signal: None, seen: BTreeMap::new() };
        ptrace::interrupt(thread).map_err(|errno| error("stopping", errno))?;
        tracee.wait(ptrace::cont)?;
        Ok(tracee)
    }

    /// Waits until the thread has stopped for us. Other stops are passed on, and `resume` is repeated.
    fn wait(&mut self, resume: impl Fn(Pid, Option<Signal>) -> nix::Result<()>) -> io::Result<()> {
        loop {
            match waitpid(self.thread, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _)) => {
                    return Ok(());
                }
                Ok(WaitStatus::Stopped(_, signal)) => self.signal = Some(signal),
                // The whole process was stopped from outside; this thread must continue, or the requesting thread
                // waits forever.
                Ok(WaitStatus::PtraceEvent(..)) | Err(Errno::EINTR) => {}
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
                    return Err(io::Error::other("the thread has ended"));
                }
                Ok(_) => continue,
                Err(errno) => return Err(error("waiting", errno)),
            }
            let _running = resume(self.thread, self.signal.take());
        }
    }

    /// Executes one instruction, or one iteration of a repeating one.
    pub(super) fn step(&mut self) -> io::Result<()> {
        ptrace::step(self.thread, self.signal.take()).map_err(|errno| error("stepping", errno))?;
        self.wait(ptrace::step)
    }

    /// Lets the thread run to one of the breakpoints.
    pub(super) fn run(&mut self) -> io::Result<()> {
        ptrace::cont(self.thread, self.signal.take()).map_err(|errno| error("resuming", errno))?;
        self.wait(ptrace::cont)
    }

    /// Returns the address of the next instruction.
    pub(super) fn at(&self) -> io::Result<u64> {
        self.user(offset_of!(user, regs) + offset_of!(user_regs_struct, rip))
    }

    fn user(&self, offset: usize) -> io::Result<u64> {
        let word =
            ptrace::read_user(self.thread, address(offset)).map_err(|errno| error("reading a register", errno))?;
        Ok(word.cast_unsigned())
    }

    fn set_user(&self, offset: usize, value: u64) -> io::Result<()> {
        ptrace::write_user(self.thread, address(offset), value.cast_signed() as c_long)
            .map_err(|errno| error("setting a breakpoint", errno))
    }

    /// Returns the eight bytes at `at`.
    pub(super) fn word(&self, at: u64) -> io::Result<u64> {
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let word = ptrace::read(self.thread, address(at)).map_err(|errno| error("reading memory", errno))?;
        Ok(word.cast_unsigned())
    }

    /// Returns the instruction at `at`.
    pub(super) fn instruction(&mut self, at: u64) -> io::Result<Instruction> {
        if let Some(instruction) = self.seen.get(&at) {
            return Ok(*instruction);
        }
        let mut bytes = self.word(at)?.to_le_bytes().to_vec();
        // The second half may be on an unmapped page; then the instruction is in the first half.
        bytes.extend(self.word(at + 8).unwrap_or(0).to_le_bytes());
        let instruction = Instruction::decode(&bytes[..=BYTES_MAX]);
        self.seen.insert(at, instruction);
        Ok(instruction)
    }

    /// Returns the address of an operand of the instruction at `at`, which must be the next one.
    pub(super) fn operand(&self, at: u64, operand: Operand) -> io::Result<u64> {
        let registers = ptrace::getregs(self.thread).map_err(|errno| error("reading registers", errno))?;
        let r = &registers;
        let numbered = [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15,
        ];
        Ok(operand.address(at, |number| numbered[usize::from(number & 15)]))
    }

    /// Makes [`Tracee::run`] stop before the instructions at these addresses, and at no others.
    pub(super) fn break_at(&self, addresses: &[u64]) -> io::Result<()> {
        assert!(addresses.len() <= BREAKPOINTS, "the processor has four, two are used");
        let register = |number: usize| offset_of!(user, u_debugreg) + number * size_of::<u64>();
        self.set_user(register(7), 0)?;
        let mut control = 0;
        for (number, at) in addresses.iter().enumerate() {
            self.set_user(register(number), *at)?;
            // Locally enabled; kind and length are zero: execution.
            control |= 1 << (2 * number);
        }
        self.set_user(register(7), control)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // E2. If the thread is gone or running, both calls fail; then it ends, or our exit detaches it.
        let _cleared = self.break_at(&[]);
        let _detached = ptrace::detach(self.thread, self.signal.take());
    }
}

/// Marks a place for [`Tracee`]: an instruction that does nothing.
#[inline(always)]
pub(super) fn mark() {
    // SAFETY: the register is exchanged with itself and keeps its value; no memory, stack or flags are touched. The
    // options do not say `nomem`, so the compiler moves no measured memory access across.
    unsafe { std::arch::asm!("xchg bx, bx", options(nostack, preserves_flags)) };
}

extern "C" fn bear(_signal: i32) {}

/// Installs a handler for the trap that arrives when a tracer dies between two steps; the step is complete by then.
/// Must be called before each tracing: a step while signals are blocked (as they are while a thread is started)
/// removes the handler.
pub(super) fn bear_traps() -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(bear), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing, so it may interrupt anything; no other code of this program handles traps.
    unsafe { sigaction(Signal::SIGTRAP, &action) }.map(drop).map_err(|errno| error("handling SIGTRAP", errno))
}

/// Copies with an instruction that repeats.
#[cfg(test)]
pub(super) fn copy_repeating(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: both ranges are `from.len()` bytes long and disjoint, since one of them is exclusive; the direction flag
    // is clear by the calling convention.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") from.len() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags)
        );
    }
}

//! Ticks: the processor's own counter, the cheapest clock available.
//!
//! Not a time: the length of a tick is unknown, and ticks of two machines cannot be compared. Ticks of two processors
//! of one machine form one count if [`has_invariant_ticks`] holds.

/// Returns whether the counter runs at one rate in every state of the processor. `false` if there is no such counter.
#[must_use]
pub fn has_invariant_ticks() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const HIGHEST: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        use core::arch::x86_64::__cpuid;
        __cpuid(HIGHEST).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Returns the counter; 0 if there is none. Not ordered with surrounding instructions: off by a few either way.
///
/// # Progress
/// Wait-free: one instruction, no system call.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter that every x86-64 has and Linux leaves readable; accesses no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        0
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: if ticks are reported invariant, they advance and never move back, on one thread. Method: read until they
    /// have moved.
    #[test]
    fn invariant_ticks_go_on() {
        if !has_invariant_ticks() {
            return;
        }
        let first = ticks();
        let mut last = first;
        while last == first {
            let now = ticks();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }
}

//! Ticks: the processor's own counter, the cheapest clock there is.
//!
//! Not a time: how long a tick is, and whether ticks of two machines mean the same, nobody says. Ticks of two processors of a
//! machine are one count where [`has_invariant_ticks`] holds.

/// Returns whether the counter runs at one rate in every state of the processor. `false` where there is no such counter.
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

/// Returns the counter; 0 where there is none. Not ordered with what stands before and after it: a few instructions either way.
///
/// # Progress
/// Wait-free: one instruction, no system call.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter that every x86-64 has and Linux leaves readable; it touches no memory.
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

    /// Goal: where ticks are said to be of use they go on and never back, on one thread. Method: read until they have moved.
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

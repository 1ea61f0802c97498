//! `SixCalls`: a sampler that makes six system calls for each sample, as the first system with replicated training did
//! (Angulo, CMU-CS-19-129): it resets, starts, stops and reads a counter of the thread, and reads the thread's
//! resource usage twice.
//!
//! It is not a copy of that system: a sample is stored in a preallocated ring, so that only the calls are measured.

use perf_event::{Builder, Counter, events::Software};

/// The number of stored samples: a power of two, as in a lane of Collie's.
const KEPT: usize = 4096;

/// One sample: the counter's value, and the increase of the thread's system time.
type Kept = [u64; 2];

/// The sampler. See the module's documentation.
pub(crate) struct SixCalls {
    /// If `None`, the resource usage is read instead, equally often.
    counter: Option<Counter>,
    /// The system time at the begin of the sample.
    before_us: u64,
    kept: Box<[Kept]>,
    taken: usize,
}

impl SixCalls {
    /// Sets the counter up; returns `None` if the system has none for this process, or does not report a thread's
    /// resources.
    pub(crate) fn new() -> Option<Self> {
        let counter = Builder::new().kind(Software::TASK_CLOCK).build().ok()?;
        system_us()?;
        Some(Self::with(Some(counter)))
    }

    /// Does the same; if the system has no counter for this process, uses six reads of the resource usage.
    pub(crate) fn of_any_kind() -> Self {
        Self::new().unwrap_or_else(|| Self::with(None))
    }

    fn with(counter: Option<Counter>) -> Self {
        Self { counter, before_us: 0, kept: vec![[0; 2]; KEPT].into(), taken: 0 }
    }

    /// Takes a sample of nothing: its values are the cost of measuring.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn sample(&mut self) -> std::io::Result<()> {
        self.begin()?;
        self.end()
    }

    /// Makes the three calls before the measured work.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn begin(&mut self) -> std::io::Result<()> {
        match &mut self.counter {
            Some(counter) => {
                counter.reset()?;
                counter.enable()?;
            }
            None => {
                let _two_calls = [system_us(), system_us()];
            }
        }
        self.before_us = system_us().unwrap_or(0);
        Ok(())
    }

    /// Makes the three calls after it, and stores their values.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn end(&mut self) -> std::io::Result<()> {
        let passed_us = system_us().unwrap_or(0).saturating_sub(self.before_us);
        let counted = match &mut self.counter {
            Some(counter) => {
                counter.disable()?;
                counter.read()?
            }
            None => {
                let [counted, _one_more] = [system_us(), system_us()];
                counted.unwrap_or(0)
            }
        };
        self.kept[self.taken % KEPT] = [counted, passed_us];
        self.taken = self.taken.wrapping_add(1);
        Ok(())
    }

    /// Returns how many samples were taken.
    #[cfg(test)]
    pub(crate) const fn taken(&self) -> usize {
        self.taken
    }
}

/// Returns the calling thread's time in the kernel, in microseconds.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn system_us() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let time = getrusage(UsageWho::RUSAGE_THREAD).ok()?.system_time();
    u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).ok()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn system_us() -> Option<u64> {
    None
}

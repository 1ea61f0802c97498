//! `SixCalls`: a sampler that asks the kernel six times for each sample, as the one does that replicated training was first tried with
//! (Angulo, CMU-CS-19-129): a counter of the thread is reset, begun, ended and read, and its use of resources asked for twice.
//!
//! Not a copy of that one: what is kept of a sample goes into a ring that is there already, so that the calls are what is measured.

use perf_event::{Builder, Counter, events::Software};

/// Samples kept: a power of two, as many as a lane of Collie's has.
const KEPT: usize = 4096;

/// One sample: what the counter said, and by how much the thread's time of the system has grown.
type Kept = [u64; 2];

/// See the module's documentation.
pub(crate) struct SixCalls {
    /// `None`: the use of resources is asked for in its place, as often.
    counter: Option<Counter>,
    /// When the sample began.
    before_us: u64,
    kept: Box<[Kept]>,
    taken: usize,
}

impl SixCalls {
    /// Sets the counter up; `None` where the system has none for this process, or says nothing of a thread's resources.
    pub(crate) fn new() -> Option<Self> {
        let counter = Builder::new().kind(Software::TASK_CLOCK).build().ok()?;
        system_us()?;
        Some(Self::with(Some(counter)))
    }

    /// The same, where the system has no counter for this process with six questions about resources.
    pub(crate) fn of_any_kind() -> Self {
        Self::new().unwrap_or_else(|| Self::with(None))
    }

    fn with(counter: Option<Counter>) -> Self {
        Self { counter, before_us: 0, kept: vec![[0; 2]; KEPT].into(), taken: 0 }
    }

    /// Takes a sample of nothing: what is told of it is what measuring costs.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sample(&mut self) -> std::io::Result<()> {
        self.begin()?;
        self.end()
    }

    /// Makes the three calls before what is measured.
    ///
    /// # Errors
    /// The system's.
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

    /// Makes the three calls after it, and keeps what they said.
    ///
    /// # Errors
    /// The system's.
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

/// Returns for how long the calling thread was in the kernel, in microseconds.
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

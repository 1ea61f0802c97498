//! `Naive`: while it exists, every call of an operating unit in this process is sampled with six system calls, as by a
//! replica that measures itself like the thesis' system.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use collie_env::{Clock as _, RealClock};
use collie_obs::{Batch, Drain, RateTable, Situation, offer_clock, publish};

use super::beside::beside_samples;

/// The interval at which samples are drained: a lane holds some thousands.
const EVERY: Duration = Duration::from_millis(20);

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// A running sampler. See the module's documentation. Dropping it turns the sampler off and releases it.
#[derive(Debug)]
pub(super) struct Naive {
    stop: Arc<AtomicBool>,
    /// Returns the numbers of samples taken and lost.
    thread: Option<JoinHandle<(u64, u64)>>,
    /// A description of the extra work for each sample.
    pub(super) what: String,
}

impl Naive {
    /// Begins to sample.
    ///
    /// # Errors
    /// Another part of this process already takes samples.
    pub(super) fn start() -> anyhow::Result<Self> {
        offer_clock(now_ns);
        let mut drain = Drain::open(&now_ns).context("somebody else in this process takes samples")?;
        let what = beside_samples("six-calls:1")?;
        let stop = Arc::<AtomicBool>::default();
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut batch, mut taken, mut lost) = (Batch::new(), 0, 0);
            while !stopping.load(Relaxed) {
                std::thread::sleep(EVERY);
                drain.drain(now_ns(), Situation::default(), &mut batch);
                taken += batch.samples.len() as u64;
                lost += batch.dropped.iter().sum::<u64>();
            }
            (taken, lost)
        });
        publish(&RateTable::all(1.0));
        Ok(Self { stop, thread: Some(thread), what })
    }

    /// Stops; returns how many samples were taken, and how many more were lost since they were not drained in time.
    pub(super) fn end(mut self) -> (u64, u64) {
        self.finish()
    }

    fn finish(&mut self) -> (u64, u64) {
        publish(&RateTable::off());
        let _off = beside_samples("six-calls:0");
        self.stop.store(true, Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Naive {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.finish();
        }
    }
}

//! `LiveOptions`: options of the store that can change while the database is open.
//!
//! The numbers are independent of each other and publish nothing else, so all accesses are Relaxed; the next round
//! of the thread that uses a number sees a change.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Options;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LiveOptions {
    /// [`Options::write_buffer_size`].
    write_buffer_bytes: AtomicU64,
    /// [`Options::gc_interval`].
    gc_interval_us: AtomicU64,
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl LiveOptions {
    /// Takes the values with which a database is opened.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            write_buffer_bytes: AtomicU64::new(options.write_buffer_size),
            gc_interval_us: AtomicU64::new(us(options.gc_interval)),
        }
    }

    pub(crate) fn write_buffer_bytes(&self) -> u64 {
        self.write_buffer_bytes.load(Relaxed)
    }

    pub(crate) fn set_write_buffer_bytes(&self, bytes: u64) {
        self.write_buffer_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn set_gc_interval(&self, interval: Duration) {
        self.gc_interval_us.store(us(interval), Relaxed);
    }

    pub(crate) fn gc_interval(&self) -> Duration {
        Duration::from_micros(self.gc_interval_us.load(Relaxed))
    }
}

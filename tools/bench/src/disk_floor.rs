//! `DiskFloor`: the limit of the disk: overwrites 4 KiB of a filled file and syncs it, repeatedly.

use std::{io, path::Path, sync::Arc, time::Duration};

use collie_env::{Env, File};

use crate::Latencies;

/// Length of the file: long enough that a run does not soon overwrite the same block again.
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 4096;

/// The file that is overwritten.
#[derive(Debug)]
pub struct DiskFloor {
    env: Env,
    file: Arc<dyn File>,
    offset: u64,
}

/// The result of one slice of time.
#[derive(Clone, Debug, Default)]
pub struct FloorSlice {
    /// The duration of each write and sync.
    pub latencies: Latencies,
    /// The duration of the whole slice.
    pub ns: u64,
}

impl FloorSlice {
    /// Returns writes with sync per second.
    pub fn per_s(&self) -> f64 {
        crate::measures::per_s(self.latencies.count(), self.ns)
    }

    /// Returns the median time of a write and sync.
    pub fn p50_us(&self) -> f64 {
        crate::measures::micros(self.latencies.at_per_mille(500))
    }

    /// Adds the result of another slice.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.latencies.merge(&other.latencies);
        self.ns += other.ns;
        self
    }
}

impl DiskFloor {
    /// Creates and fills the file in `dir`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn create(env: &Env, dir: &Path) -> io::Result<Self> {
        let file = crate::files::filled(env, &dir.join("floor"), FILE_BYTES)?;
        Ok(Self { env: env.clone(), file, offset: 0 })
    }

    /// Writes and syncs repeatedly for `time`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn slice(&mut self, time: Duration) -> io::Result<FloorSlice> {
        let block = vec![0xA5; usize::try_from(BLOCK_BYTES).expect("4 KiB")];
        let (mut slice, begun) = (FloorSlice::default(), self.env.clock.now_ns());
        let mut now = begun;
        while u128::from(now - begun) < time.as_nanos() {
            self.file.write_at(self.offset, &block)?;
            self.file.sync_data()?;
            self.offset = (self.offset + BLOCK_BYTES) % FILE_BYTES;
            let after = self.env.clock.now_ns();
            slice.latencies.record(after - now);
            now = after;
        }
        slice.ns = now - begun;
        Ok(slice)
    }
}

//! `DiskFloor`: what the disk can do at all: write 4 KiB over a filled file and sync it, again and again.

use std::{io, path::Path, sync::Arc, time::Duration};

use collie_env::{Env, File};

use crate::Latencies;

/// Bytes of the file: long enough that a run does not write one place twice in a row.
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 4096;

/// The file to write over.
#[derive(Debug)]
pub struct DiskFloor {
    env: Env,
    file: Arc<dyn File>,
    offset: u64,
}

/// What a slice of time gave.
#[derive(Clone, Debug, Default)]
pub struct FloorSlice {
    /// Time of each write and sync.
    pub latencies: Latencies,
    /// All of them.
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

    /// Adds what another slice gave.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.latencies.merge(&other.latencies);
        self.ns += other.ns;
        self
    }
}

impl DiskFloor {
    /// Makes and fills the file in `dir`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(env: &Env, dir: &Path) -> io::Result<Self> {
        let file = crate::files::filled(env, &dir.join("floor"), FILE_BYTES)?;
        Ok(Self { env: env.clone(), file, offset: 0 })
    }

    /// Writes and syncs for `time`.
    ///
    /// # Errors
    /// What the operating system says.
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

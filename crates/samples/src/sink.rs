//! `SampleSink`: writes drained samples into files, within its bounds of memory and disk.
//!
//! One thread of the lowest priority calls it. No failure here is an error for the caller (S3): rows that cannot be
//! written are dropped and counted, collection stops with a reason, and once a minute the sink checks whether it can
//! continue.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use collie_env::Env;
use collie_obs::{ContextRow, Sample};

use crate::{
    CONTEXT_UNIT, CONTEXT_VERSION, FileName, Origin, SampleDir, SampleRow, SamplesError,
    columns::unit_of,
    context::{self, Drained},
    file, footer,
    name::{day_of, safe_node},
    publish::publish,
    stock::Stock,
};

/// The bounds of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkOptions {
    /// Rows at which a file is closed [default: 65,536].
    pub file_rows_max: usize,
    /// Age of a file's first row at which the file is closed, and the interval between checks of the disk, in ns
    /// [default: 60 s].
    pub file_age_max_ns: u64,
    /// Rows of all units that wait in memory, about 110 bytes each; at this number the unit with the most rows is
    /// written [default: 131,072].
    pub waiting_rows_max: usize,
    /// Bytes of all files; above it the oldest are removed [default: 4 GiB, `training.samples_bytes`].
    pub bytes_max: u64,
    /// Collection stops while the disk has fewer free bytes than this, or than a twentieth of its size if that is less
    /// [default: 2 GiB].
    pub free_bytes_min: u64,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            file_rows_max: 65_536,
            file_age_max_ns: 60_000_000_000,
            waiting_rows_max: 131_072,
            bytes_max: 4 << 30,
            free_bytes_min: 2 << 30,
        }
    }
}

/// Whether a sink accepts samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkState {
    /// It accepts them.
    Collecting,
    /// It drops them, so the caller should not sample.
    Stopped {
        /// The reason, in words for a person.
        reason: String,
    },
}

/// Rows that wait for their file.
#[derive(Debug)]
struct Waiting<R> {
    since_ns: u64,
    rows: Vec<R>,
}

/// Writes the samples of a process into its data directory.
#[derive(Debug)]
pub struct SampleSink {
    // Constant after open.
    env: Env,
    data: PathBuf,
    origin: Origin,
    node: String,
    options: SinkOptions,
    // Rows that wait for their file.
    samples: BTreeMap<(u8, u8), Waiting<SampleRow>>,
    contexts: Waiting<Drained>,
    config_epoch: u64,
    // Files on disk.
    stock: Stock,
    next_seq: u64,
    // State and counters.
    state: SinkState,
    looked_ns: u64,
    written_rows: u64,
    dropped_rows: u64,
    removed_files: u64,
}

impl SampleSink {
    /// Opens the samples of the existing data directory `data`: counts the files, and removes those that a dead process
    /// left unfinished.
    ///
    /// # Errors
    /// [`SamplesError::Io`] when the files cannot be listed.
    pub fn open(env: &Env, data: &Path, origin: Origin, options: SinkOptions) -> Result<Self, SamplesError> {
        let dir = SampleDir::new(env.files.clone(), data);
        for path in dir.unfinished()? {
            // A file that stays does no harm: no reader accepts its name.
            let _ = env.files.remove(&path);
        }
        let stock = Stock::of(&dir)?;
        let node = safe_node(&origin.node);
        let mut sink = Self {
            data: data.to_owned(),
            next_seq: stock.last_seq(&node) + 1,
            origin,
            node,
            options,
            samples: BTreeMap::new(),
            contexts: Waiting { since_ns: 0, rows: Vec::new() },
            config_epoch: 0,
            stock,
            state: SinkState::Collecting,
            looked_ns: env.clock.now_ns(),
            written_rows: 0,
            dropped_rows: 0,
            removed_files: 0,
            env: env.clone(),
        };
        sink.look_at_disk();
        Ok(sink)
    }

    /// Accepts samples. It drops those of a unit or version that this program does not declare.
    pub fn add(&mut self, samples: &[Sample]) {
        let time_us = u64::try_from(self.env.clock.wall_us()).unwrap_or(0);
        let now_ns = self.env.clock.now_ns();
        for sample in samples {
            if self.is_stopped() || unit_of(sample.ou, sample.version).is_none() {
                self.dropped_rows += 1;
                continue;
            }
            let key = (sample.ou, sample.version);
            let waiting = self.samples.entry(key).or_insert_with(|| Waiting { since_ns: now_ns, rows: Vec::new() });
            waiting.rows.push(SampleRow { time_us, sample: *sample });
            if waiting.rows.len() >= self.options.file_rows_max {
                self.close_samples(key);
            } else if self.waiting_rows() >= self.options.waiting_rows_max {
                self.close_longest();
            }
        }
    }

    /// Accepts the context rows of a period that has just ended.
    pub fn add_contexts(&mut self, rows: &[ContextRow]) {
        if self.is_stopped() {
            self.dropped_rows += count(rows.len());
            return;
        }
        if self.contexts.rows.is_empty() {
            self.contexts.since_ns = self.env.clock.now_ns();
        }
        let time_us = u64::try_from(self.env.clock.wall_us()).unwrap_or(0);
        self.contexts.rows.extend(rows.iter().map(|row| Drained { time_us, row: *row }));
        if self.contexts.rows.len() >= self.options.file_rows_max {
            self.close_contexts();
        }
    }

    /// Sets the configuration that is in force from now on; it first writes the samples that were taken under another
    /// one.
    pub fn set_config_epoch(&mut self, config_epoch: u64) {
        if config_epoch != self.config_epoch {
            self.finish();
            self.config_epoch = config_epoch;
        }
    }

    /// Writes the files that are old enough, and checks the disk as often as a file may be old (once a minute). The
    /// caller calls it about ten times a second.
    pub fn tick(&mut self) {
        let now_ns = self.env.clock.now_ns();
        let age_max_ns = self.options.file_age_max_ns;
        if now_ns.saturating_sub(self.looked_ns) >= age_max_ns {
            self.looked_ns = now_ns;
            self.look_at_disk();
        }
        let is_due = |since_ns: u64| now_ns.saturating_sub(since_ns) >= age_max_ns;
        let due: Vec<(u8, u8)> =
            self.samples.iter().filter(|(_, waiting)| is_due(waiting.since_ns)).map(|(key, _)| *key).collect();
        due.into_iter().for_each(|key| self.close_samples(key));
        if is_due(self.contexts.since_ns) {
            self.close_contexts();
        }
    }

    /// Writes all waiting rows.
    ///
    /// # Durability
    /// Written rows survive a power cut; rows that could not be written are counted as dropped.
    pub fn finish(&mut self) {
        let keys: Vec<(u8, u8)> = self.samples.keys().copied().collect();
        keys.into_iter().for_each(|key| self.close_samples(key));
        self.close_contexts();
    }

    /// Returns whether the sink accepts samples, and otherwise the reason.
    pub const fn state(&self) -> &SinkState {
        &self.state
    }

    /// Returns the number of rows that this process has written into files.
    pub const fn written_rows(&self) -> u64 {
        self.written_rows
    }

    /// Returns the number of dropped rows: the sink was stopped, a write failed, or the unit is not declared.
    pub const fn dropped_rows(&self) -> u64 {
        self.dropped_rows
    }

    /// Returns the number of files that were removed because there were too many bytes.
    pub const fn removed_files(&self) -> u64 {
        self.removed_files
    }

    /// Returns the bytes of all files.
    pub const fn bytes(&self) -> u64 {
        self.stock.bytes()
    }

    fn is_stopped(&self) -> bool {
        self.state != SinkState::Collecting
    }

    fn waiting_rows(&self) -> usize {
        self.samples.values().map(|waiting| waiting.rows.len()).sum()
    }

    fn close_longest(&mut self) {
        let longest = self.samples.iter().max_by_key(|(_, waiting)| waiting.rows.len());
        if let Some(key) = longest.map(|(key, _)| *key) {
            self.close_samples(key);
        }
    }

    fn close_samples(&mut self, key: (u8, u8)) {
        let Some(waiting) = self.samples.remove(&key) else { return };
        let unit = unit_of(key.0, key.1).expect("only samples of declared units wait");
        let bytes = file::encode(unit, &waiting.rows, &self.origin, self.config_epoch);
        self.write(key, waiting.rows.len(), bytes);
    }

    fn close_contexts(&mut self) {
        if self.contexts.rows.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut self.contexts.rows);
        let table = context::table(&rows, footer::pairs(&self.origin, self.config_epoch, None));
        let bytes = table.encode().map_err(|error| error.to_string());
        self.write((CONTEXT_UNIT, CONTEXT_VERSION), rows.len(), bytes);
    }

    /// Writes a file of `rows` rows; on a failure it drops them and stops the sink.
    fn write(&mut self, (unit, version): (u8, u8), rows: usize, bytes: Result<Vec<u8>, String>) {
        if self.is_stopped() {
            self.dropped_rows += count(rows);
            return;
        }
        let day = day_of(self.env.clock.wall_us());
        let name = FileName { day, seq: self.next_seq, node: self.node.clone(), unit, version };
        let written = bytes.and_then(|bytes| {
            publish(&*self.env.files, &name.path(&self.data), &bytes).map_err(|error| error.to_string())?;
            Ok(count(bytes.len()))
        });
        match written {
            Ok(bytes) => {
                // A number is used once, even if it is unknown whether the file exists (S2).
                self.next_seq += 1;
                self.written_rows += count(rows);
                self.stock.add(name, bytes);
                self.remove_above_limit();
            }
            Err(reason) => {
                self.next_seq += 1;
                self.dropped_rows += count(rows);
                self.state = SinkState::Stopped { reason };
            }
        }
    }

    fn remove_above_limit(&mut self) {
        while let Some(oldest) = self.stock.pop_oldest_above(self.options.bytes_max) {
            // A file that cannot be removed is no longer counted; the next open counts it again.
            let _ = self.env.files.remove(&oldest.path(&self.data));
            self.removed_files += 1;
        }
    }

    /// Stops the sink while the disk is low. Otherwise it forgets the reason of an earlier stop, so that the next write
    /// is tried.
    fn look_at_disk(&mut self) {
        let free = self.env.files.free_bytes(&self.data);
        let twentieth = self.env.files.disk_bytes(&self.data).map_or(u64::MAX, |bytes| bytes / 20);
        let least = self.options.free_bytes_min.min(twentieth);
        self.state = match free {
            Some(free) if free < least => {
                let mib = |bytes: u64| bytes >> 20;
                let path = self.data.display();
                let reason =
                    format!("{path} has {} MiB left, samples need {}: free space there", mib(free), mib(least));
                SinkState::Stopped { reason }
            }
            _ => SinkState::Collecting,
        };
        if self.is_stopped() {
            // The waiting rows are dropped and counted, so that a stopped sink takes no memory.
            self.finish();
        }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).expect("a count fits 64 bits")
}

#[cfg(test)]
mod sink_tests;

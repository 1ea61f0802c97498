//! `Workload`: one benchmark of db_bench, as one thread runs it over a database.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use collie_engine::LogTimes;
use collie_env::Clock;
use collie_kv::{Batch, Cf, Db, Durability, TxnOptions};

use super::draw::{Values, key_into};
use super::flags::KvFlags;
use super::line::{Figures, SAMPLED_ONE_IN};
use super::pace::Pace;
use super::transactions::Rows;
use crate::Latencies;
use collie_workload::Random;

/// Operations between two checks of the clock in a benchmark with a duration.
const LOOK_EVERY: u64 = 1_000;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    FillSeq,
    FillRandom,
    FillUniqueRandom,
    FillSync,
    Fill100K,
    Overwrite,
    ReadSeq,
    ReadReverse,
    ReadRandom,
    ReadMissing,
    MultiReadRandom,
    SeekRandom,
    ReadWhileWriting,
    ReadRandomWriteRandom,
    UpdateRandom,
    DeleteSeq,
    DeleteRandom,
    RandomTransaction,
    /// Not a load: the database is closed and opened again.
    Recover,
    Flush,
    Compact,
    Stats,
    LevelStats,
}

impl Workload {
    /// All benchmarks by name.
    pub(super) const ALL: &[(&str, Self)] = &[
        ("fillseq", Self::FillSeq),
        ("fillrandom", Self::FillRandom),
        ("filluniquerandom", Self::FillUniqueRandom),
        ("fillsync", Self::FillSync),
        ("fill100K", Self::Fill100K),
        ("overwrite", Self::Overwrite),
        ("readseq", Self::ReadSeq),
        ("readreverse", Self::ReadReverse),
        ("readrandom", Self::ReadRandom),
        ("readmissing", Self::ReadMissing),
        ("multireadrandom", Self::MultiReadRandom),
        ("seekrandom", Self::SeekRandom),
        ("readwhilewriting", Self::ReadWhileWriting),
        ("readrandomwriterandom", Self::ReadRandomWriteRandom),
        ("updaterandom", Self::UpdateRandom),
        ("deleteseq", Self::DeleteSeq),
        ("deleterandom", Self::DeleteRandom),
        ("randomtransaction", Self::RandomTransaction),
        ("recover", Self::Recover),
        ("flush", Self::Flush),
        ("compact", Self::Compact),
        ("stats", Self::Stats),
        ("levelstats", Self::LevelStats),
    ];

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    /// Returns whether it begins with an empty database.
    pub(super) const fn is_fresh(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom | Self::FillUniqueRandom | Self::FillSync | Self::Fill100K)
    }

    /// Returns whether it writes rows.
    pub(super) const fn writes(self) -> bool {
        matches!(
            self,
            Self::Overwrite
                | Self::ReadWhileWriting
                | Self::ReadRandomWriteRandom
                | Self::UpdateRandom
                | Self::DeleteSeq
                | Self::DeleteRandom
                | Self::RandomTransaction
        ) || self.is_fresh()
    }

    /// Returns whether threads run it with their own keys and values.
    #[cfg(test)]
    pub(super) const fn is_load(self) -> bool {
        !matches!(self, Self::Recover | Self::Flush | Self::Compact | Self::Stats | Self::LevelStats)
    }

    /// Returns the flags as db_bench changes them for this benchmark.
    pub(super) fn flags(self, flags: &KvFlags) -> KvFlags {
        let mut own = flags.clone();
        match self {
            Self::FillSync => (own.sync, own.num) = (true, (flags.num / 1_000).max(1)),
            Self::Fill100K => (own.value_size, own.num) = (100_000, (flags.num / 1_000).max(1)),
            _ => {}
        }
        own
    }
}

/// The state that the threads of one benchmark share.
pub(super) struct Shared<'a> {
    pub(super) db: &'a Db,
    pub(super) cfs: &'a [Cf],
    pub(super) flags: &'a KvFlags,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// Operations done so far by all threads; counted only if they are reported at intervals.
    pub(super) done: &'a AtomicU64,
    /// Set when the readers are done, for a concurrent writer.
    pub(super) over: &'a AtomicBool,
}

impl Shared<'_> {
    fn cf(&self, number: u64) -> &Cf {
        let place = number % self.flags.column_families;
        &self.cfs[usize::try_from(place).unwrap_or_default()]
    }

    const fn durability(&self) -> Durability {
        match (self.flags.disable_wal, self.flags.sync) {
            (true, _) => Durability::Unlogged,
            (false, true) => Durability::Local,
            (false, false) => Durability::Async,
        }
    }
}

/// One thread of a benchmark.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    random: Random,
    values: Values,
    key: Vec<u8>,
    started_ns: u64,
    last_ns: u64,
    /// Writes so far.
    writes: u64,
    pace: Pace,
    figures: Figures,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, thread: u32) -> Self {
        let flags = shared.flags;
        let mut random = Random::new(flags.seed, thread);
        let values = Values::new(flags.compression_ratio, flags.value_size, &mut random);
        let latencies = flags.histogram.then(Latencies::default);
        let figures = Figures { latencies, ..Figures::default() };
        let (key, pace) = (vec![0; flags.key_size], Pace::new(flags.write_rate, flags.threads));
        Self { shared, random, values, key, started_ns: 0, last_ns: 0, writes: 0, pace, figures }
    }

    /// Runs the benchmark. `writes`: as the writer of `readwhilewriting`.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn run(mut self, workload: Workload, writes: bool) -> anyhow::Result<Figures> {
        self.started_ns = self.shared.clock.now_ns();
        self.last_ns = self.started_ns;
        let flags = self.shared.flags;
        let (reads, written) = (flags.reads.unwrap_or(flags.num), flags.writes.unwrap_or(flags.num));
        match workload {
            _ if writes => {
                self.pace = Pace::new(flags.write_rate, 1); // no other thread writes
                self.write_until_over()?;
            }
            Workload::FillSeq => self.write(written, |_, at| at)?,
            Workload::FillRandom | Workload::FillSync | Workload::Fill100K | Workload::Overwrite => {
                self.write(written, |random, _| random.below(flags.num))?;
            }
            Workload::FillUniqueRandom => {
                let order = self.shuffled(flags.num);
                self.write(written.min(flags.num), |_, at| order[usize::try_from(at).unwrap_or_default()])?;
            }
            Workload::DeleteSeq => self.delete(written, |_, at| at)?,
            Workload::DeleteRandom => self.delete(written, |random, _| random.below(flags.num))?,
            Workload::ReadSeq => self.scan(reads, false)?,
            Workload::ReadReverse => self.scan(reads, true)?,
            Workload::ReadRandom | Workload::ReadWhileWriting => self.read(reads, false)?,
            Workload::ReadMissing => self.read(reads, true)?,
            Workload::MultiReadRandom => self.multi_read(reads)?,
            Workload::SeekRandom => self.seek(reads)?,
            Workload::ReadRandomWriteRandom => self.read_and_write(reads)?,
            Workload::UpdateRandom => self.update(reads)?,
            Workload::RandomTransaction => self.transactions(reads)?,
            Workload::Recover | Workload::Flush | Workload::Compact | Workload::Stats | Workload::LevelStats => {
                unreachable!("no load: `Ours` does it by itself")
            }
        }
        self.figures.thread_ns = self.shared.clock.now_ns() - self.started_ns;
        Ok(self.figures)
    }

    /// Returns whether to go on: up to `count` operations, or until the time is over.
    fn goes_on(&self, at: u64, count: u64) -> bool {
        let seconds = self.shared.flags.duration_seconds;
        if seconds == 0 {
            return at < count;
        }
        !at.is_multiple_of(LOOK_EVERY) || self.shared.clock.now_ns() - self.started_ns < seconds * 1_000_000_000
    }

    fn finished(&mut self, operations: u64, bytes: usize) {
        self.figures.operations += operations;
        self.figures.bytes += bytes as u64;
        if self.shared.flags.report_interval_seconds > 0 {
            self.shared.done.fetch_add(operations, Relaxed);
        }
        if let Some(latencies) = &mut self.figures.latencies {
            let now = self.shared.clock.now_ns();
            latencies.record(now - self.last_ns);
            self.last_ns = now;
        }
    }

    /// Does one write of `bytes`; samples one in [`SAMPLED_ONE_IN`] and the first.
    fn written<R>(&mut self, bytes: usize, work: impl FnOnce(&mut Self) -> anyhow::Result<R>) -> anyhow::Result<R> {
        self.writes += 1;
        self.figures.written += bytes as u64;
        let clock = self.shared.clock;
        self.pace.take(bytes as u64, &**clock);
        if !self.writes.is_multiple_of(SAMPLED_ONE_IN) && self.writes > 1 {
            return work(self);
        }
        let began_ns = clock.now_ns();
        let (result, log) = LogTimes::of(clock, || work(self));
        self.figures.writes.record(clock.now_ns() - began_ns, log);
        result
    }

    fn found(&mut self, found: bool) {
        let (before, wanted) = self.figures.found.unwrap_or_default();
        self.figures.found = Some((before + u64::from(found), wanted + 1));
    }

    fn shuffled(&mut self, count: u64) -> Vec<u64> {
        let mut order: Vec<u64> = (0..count).collect();
        for at in (1..order.len()).rev() {
            let other = self.random.below(at as u64 + 1);
            order.swap(at, usize::try_from(other).unwrap_or_default());
        }
        order
    }

    fn put(&mut self, number: u64) -> anyhow::Result<usize> {
        let shared = self.shared;
        key_into(&mut self.key, number);
        let bytes = self.key.len() + shared.flags.value_size;
        self.written(bytes, |this| {
            let value = this.values.next(shared.flags.value_size);
            Ok(shared.db.put(shared.cf(number), &this.key, value, shared.durability())?)
        })?;
        Ok(bytes)
    }

    fn write(&mut self, count: u64, mut number: impl FnMut(&mut Random, u64) -> u64) -> anyhow::Result<()> {
        let (shared, mut at) = (self.shared, 0);
        let flags = shared.flags;
        while self.goes_on(at, count) {
            if flags.batch_size == 1 {
                let number = number(&mut self.random, at);
                let bytes = self.put(number)?;
                self.finished(1, bytes);
                at += 1;
                continue;
            }
            let mut batch = Batch::new();
            for entry in 0..flags.batch_size {
                let number = number(&mut self.random, at + entry);
                key_into(&mut self.key, number);
                batch.put(shared.cf(number), &self.key, self.values.next(flags.value_size));
            }
            let bytes = usize::try_from(flags.batch_size)? * (flags.key_size + flags.value_size);
            self.written(bytes, |_| Ok(shared.db.write(batch, shared.durability())?))?;
            self.finished(flags.batch_size, bytes);
            at += flags.batch_size;
        }
        Ok(())
    }

    fn delete(&mut self, count: u64, mut number: impl FnMut(&mut Random, u64) -> u64) -> anyhow::Result<()> {
        let (shared, mut at) = (self.shared, 0);
        while self.goes_on(at, count) {
            let mut batch = Batch::new();
            for entry in 0..shared.flags.batch_size {
                let number = number(&mut self.random, at + entry);
                key_into(&mut self.key, number);
                batch.delete(shared.cf(number), &self.key);
            }
            let keys = usize::try_from(shared.flags.batch_size)? * shared.flags.key_size;
            self.written(keys, |_| Ok(shared.db.write(batch, shared.durability())?))?;
            self.finished(shared.flags.batch_size, 0);
            at += shared.flags.batch_size;
        }
        Ok(())
    }

    fn write_until_over(&mut self) -> anyhow::Result<()> {
        loop {
            let number = self.random.below(self.shared.flags.num);
            self.put(number)?;
            if self.shared.over.load(Relaxed) {
                return Ok(());
            }
        }
    }

    fn scan(&mut self, count: u64, reverse: bool) -> anyhow::Result<()> {
        let (shared, mut at) = (self.shared, 0);
        let snapshot = shared.db.snapshot()?;
        let scan = snapshot.scan(shared.cf(0), ..);
        let scan = if reverse { scan.rev() } else { scan };
        scan.visit(|key, value| {
            self.finished(1, key.len() + value.len());
            at += 1;
            if self.goes_on(at, count) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(())
    }

    fn get(&mut self, number: u64) -> anyhow::Result<usize> {
        key_into(&mut self.key, number);
        let value = self.shared.db.get(self.shared.cf(number), &self.key)?;
        self.found(value.is_some());
        Ok(value.map_or(0, |value| value.len() + self.key.len()))
    }

    fn read(&mut self, count: u64, missing: bool) -> anyhow::Result<()> {
        let mut at = 0;
        if missing {
            self.key.push(b'.'); // as db_bench: a key that was never written
        }
        while self.goes_on(at, count) {
            let number = self.random.below(self.shared.flags.num);
            let bytes = if missing {
                let key = self.shared.flags.key_size;
                key_into(&mut self.key[..key], number);
                let value = self.shared.db.get(self.shared.cf(number), &self.key)?;
                self.found(value.is_some());
                0
            } else {
                self.get(number)?
            };
            self.finished(1, bytes);
            at += 1;
        }
        Ok(())
    }

    fn multi_read(&mut self, count: u64) -> anyhow::Result<()> {
        let (shared, mut at) = (self.shared, 0);
        while self.goes_on(at, count) {
            let snapshot = shared.db.snapshot()?;
            let mut bytes = 0;
            for _ in 0..shared.flags.batch_size {
                let number = self.random.below(shared.flags.num);
                key_into(&mut self.key, number);
                let value = snapshot.get(shared.cf(number), &self.key)?;
                self.found(value.is_some());
                bytes += value.map_or(0, |value| value.len() + self.key.len());
            }
            self.finished(shared.flags.batch_size, bytes);
            at += shared.flags.batch_size;
        }
        Ok(())
    }

    fn seek(&mut self, count: u64) -> anyhow::Result<()> {
        let (shared, mut at) = (self.shared, 0);
        while self.goes_on(at, count) {
            let number = self.random.below(shared.flags.num);
            key_into(&mut self.key, number);
            let (mut bytes, mut found, mut seen) = (0, false, 0);
            let snapshot = shared.db.snapshot()?;
            snapshot.scan(shared.cf(number), &self.key..).visit(|key, value| {
                bytes += key.len() + value.len();
                found |= key == self.key;
                seen += 1;
                if seen <= shared.flags.seek_nexts { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            self.found(found);
            self.finished(1, bytes);
            at += 1;
        }
        Ok(())
    }

    fn read_and_write(&mut self, count: u64) -> anyhow::Result<()> {
        let mut at = 0;
        while self.goes_on(at, count) {
            let number = self.random.below(self.shared.flags.num);
            let bytes = if self.random.below(100) < self.shared.flags.read_percent {
                self.get(number)?
            } else {
                self.put(number)?
            };
            self.finished(1, bytes);
            at += 1;
        }
        Ok(())
    }

    fn update(&mut self, count: u64) -> anyhow::Result<()> {
        let mut at = 0;
        while self.goes_on(at, count) {
            let number = self.random.below(self.shared.flags.num);
            let bytes = self.get(number)? + self.put(number)?;
            self.finished(1, bytes);
            at += 1;
        }
        Ok(())
    }

    fn transactions(&mut self, count: u64) -> anyhow::Result<()> {
        let (shared, mut at) = (self.shared, 0);
        let options = TxnOptions::new().isolation(shared.flags.isolation);
        while self.goes_on(at, count) {
            let amount = self.random.below(100) + 1;
            let rows = Rows::draw(shared.flags, &mut self.random);
            let committed = self.written(rows.bytes(), |_| {
                Ok(rows.add(shared.db, shared.cf(0), amount, options, shared.durability())?)
            })?;
            let (before, failed) = self.figures.transactions.unwrap_or_default();
            self.figures.transactions = Some((before + u64::from(committed), failed + u64::from(!committed)));
            self.finished(1, rows.bytes());
            at += 1;
        }
        Ok(())
    }
}

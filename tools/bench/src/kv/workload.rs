//! `Workload`: one benchmark of db_bench, as one thread runs it over a database.

use std::ops::ControlFlow;
use std::sync::Arc;

use collie_engine::LogTimes;
use collie_env::Clock;
use collie_kv::{Cf, Db, Durability};
use collie_workload::Random;

use super::draw::{Values, key_into};
use super::figures::{Figures, SAMPLED_ONE_IN};
use super::load::{KEY_BYTES, Load, VALUE_BYTES};
use crate::Latencies;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    FillSeq,
    FillRandom,
    FillUniqueRandom,
    Overwrite,
    ReadSeq,
    ReadReverse,
    ReadRandom,
    /// Not a load, as those below: the database is closed and opened again.
    Recover,
    Flush,
    Compact,
}

impl Workload {
    /// Returns db_bench's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::FillUniqueRandom => "filluniquerandom",
            Self::Overwrite => "overwrite",
            Self::ReadSeq => "readseq",
            Self::ReadReverse => "readreverse",
            Self::ReadRandom => "readrandom",
            Self::Recover => "recover",
            Self::Flush => "flush",
            Self::Compact => "compact",
        }
    }

    /// Returns whether it writes rows.
    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom | Self::FillUniqueRandom | Self::Overwrite)
    }
}

/// The state that the threads of one benchmark share.
pub(super) struct Shared<'a> {
    pub(super) db: &'a Db,
    pub(super) cfs: &'a [Cf],
    pub(super) load: &'a Load,
    pub(super) clock: &'a Arc<dyn Clock>,
}

impl Shared<'_> {
    fn cf(&self, number: u64) -> &Cf {
        let place = number % self.load.families;
        &self.cfs[usize::try_from(place).unwrap_or_default()]
    }
}

/// One thread of a benchmark.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    random: Random,
    values: Values,
    key: [u8; KEY_BYTES],
    last_ns: u64,
    /// Writes so far.
    writes: u64,
    figures: Figures,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, thread: u32) -> Self {
        let mut random = Random::new(shared.load.seed, thread);
        let values = Values::new(&mut random);
        let latencies = shared.load.latencies.then(Latencies::default);
        let figures = Figures { latencies, ..Figures::default() };
        Self { shared, random, values, key: [0; KEY_BYTES], last_ns: 0, writes: 0, figures }
    }

    /// Runs the benchmark.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn run(mut self, workload: Workload) -> anyhow::Result<Figures> {
        self.last_ns = self.shared.clock.now_ns();
        let num = self.shared.load.num;
        match workload {
            Workload::FillSeq => (0..num).try_for_each(|number| self.put(number))?,
            Workload::FillRandom | Workload::Overwrite => (0..num).try_for_each(|_| {
                let number = self.random.below(num);
                self.put(number)
            })?,
            Workload::FillUniqueRandom => self.shuffled().into_iter().try_for_each(|number| self.put(number))?,
            Workload::ReadSeq => self.scan(false)?,
            Workload::ReadReverse => self.scan(true)?,
            Workload::ReadRandom => (0..num).try_for_each(|_| self.get())?,
            Workload::Recover | Workload::Flush | Workload::Compact => {
                unreachable!("no load: `Ours` does it by itself")
            }
        }
        Ok(self.figures)
    }

    fn finished(&mut self) {
        self.figures.operations += 1;
        if let Some(latencies) = &mut self.figures.latencies {
            let now = self.shared.clock.now_ns();
            latencies.record(now - self.last_ns);
            self.last_ns = now;
        }
    }

    fn shuffled(&mut self) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.shared.load.num).collect();
        for at in (1..order.len()).rev() {
            let other = self.random.below(at as u64 + 1);
            order.swap(at, usize::try_from(other).unwrap_or_default());
        }
        order
    }

    /// Writes the row of `number`; samples one write in [`SAMPLED_ONE_IN`] and the first.
    fn put(&mut self, number: u64) -> anyhow::Result<()> {
        let Shared { db, load, clock, .. } = self.shared;
        let durability = match (load.disable_wal, load.sync) {
            (true, _) => Durability::Unlogged,
            (false, true) => Durability::Local,
            (false, false) => Durability::Async,
        };
        key_into(&mut self.key, number);
        self.writes += 1;
        self.figures.written += (KEY_BYTES + VALUE_BYTES) as u64;
        let is_sampled = self.writes.is_multiple_of(SAMPLED_ONE_IN) || self.writes == 1;
        let cf = self.shared.cf(number);
        if is_sampled {
            let began_ns = clock.now_ns();
            let (done, log) = LogTimes::of(clock, || db.put(cf, self.key, self.values.next(), durability));
            done?;
            self.figures.writes.record(clock.now_ns() - began_ns, log);
        } else {
            db.put(cf, self.key, self.values.next(), durability)?;
        }
        self.finished();
        Ok(())
    }

    fn scan(&mut self, reverse: bool) -> anyhow::Result<()> {
        let (shared, mut left) = (self.shared, self.shared.load.num);
        let snapshot = shared.db.snapshot()?;
        let scan = snapshot.scan(shared.cf(0), ..);
        let scan = if reverse { scan.rev() } else { scan };
        scan.visit(|_key, _value| {
            self.finished();
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(())
    }

    fn get(&mut self) -> anyhow::Result<()> {
        let number = self.random.below(self.shared.load.num);
        key_into(&mut self.key, number);
        let value = self.shared.db.get(self.shared.cf(number), self.key)?;
        self.figures.found += u64::from(value.is_some());
        self.finished();
        Ok(())
    }
}

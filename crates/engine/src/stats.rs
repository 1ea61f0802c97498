//! `Stats`: the figures of a database, in total and per family.

use collie_base::CfId;

use crate::{Db, EngineStat, FamilyFlushStat, FamilyStat, FlushStat, LevelStat, StallStat, TreeStat, UnflushedStat};

/// The figures of a database. Each is correct by itself; they are not taken at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Rows, versions, memory, snapshots, waits.
    pub engine: EngineStat,
    /// Flushes since the database was opened, and the start of the needed log.
    pub flush: FlushStat,
    /// The LSM levels: bytes that flushes and compactions wrote since the database was opened, and each tree with its
    /// families, tables and runs. Empty in a database opened read-only.
    pub levels: LevelStat,
    /// How writers waited for flushes, in total and by the family whose flush they waited for.
    pub stalls: StallStat,
    /// The log: frames, syncs, bytes, files; `None` in a database opened read-only or without a log.
    pub log: Option<collie_wal::Stat>,
    /// The figures of each family, ordered by id.
    pub families: Vec<CfStats>,
}

/// The figures of one family.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CfStats {
    /// The family.
    pub cf: CfId,
    /// Its rows, the writes since the database was opened and their bytes of keys and values, and memory.
    pub rows: FamilyStat,
    /// Its rows that are not in its LSM levels yet.
    pub unflushed: UnflushedStat,
    /// Its flushes with their causes, and its re-logs.
    pub flush: FamilyFlushStat,
}

impl Db {
    /// Returns the figures of the database, family by family.
    ///
    /// # Progress
    /// Waits for running flushes and compactions.
    pub fn stats(&self) -> Stats {
        self.stats_with(self.level_stat())
    }

    /// Returns the figures of the database, family by family, as [`Db::stats`] does, but without waiting for flushes
    /// and compactions: a tree with a job in progress has the figures of the last request that found it without one.
    pub fn stats_now(&self) -> Stats {
        let levels = self.shared.base().map_or_else(LevelStat::default, |base| base.levels().stat_now());
        self.stats_with(levels)
    }

    fn stats_with(&self, levels: LevelStat) -> Stats {
        let base = self.shared.base();
        let flush = |cf| base.map_or_else(FamilyFlushStat::default, |base| base.figures.lock().of(cf));
        let mut families: Vec<CfStats> = self
            .shared
            .families
            .all()
            .iter()
            .map(|family| CfStats {
                cf: family.id(),
                rows: family.stat(),
                unflushed: family.unflushed(),
                flush: flush(family.id()),
            })
            .collect();
        families.sort_unstable_by_key(|family| family.cf);
        Stats {
            engine: self.stat(),
            flush: self.flush_stat(),
            levels,
            stalls: self.stall_stat(),
            log: self.log().map(collie_wal::Log::stat),
            families,
        }
    }
}

impl Stats {
    /// Returns the tree of a family: its tables and runs, and the bytes that flushes and compactions wrote to it. The
    /// families of an atomic group share one tree.
    pub fn tree_of(&self, cf: CfId) -> Option<&TreeStat> {
        self.levels.trees.iter().find(|tree| tree.state.cfs.contains(&cf))
    }
}

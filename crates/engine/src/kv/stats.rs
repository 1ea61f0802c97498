//! `Stats`: the figures of a database, in all and family by family.

use collie_base::CfId;

use crate::{EngineStat, FamilyStat, FlushStat, LevelStat, UnflushedStat};

/// The figures of a database. Each is right by itself; they are not taken at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Rows, versions, memory, snapshots, waits.
    pub engine: EngineStat,
    /// Flushes since the database was opened, and from where on the log is needed.
    pub flush: FlushStat,
    /// The levels: bytes that flushes and compactions wrote since the database was opened, and each tree with its families, tables
    /// and runs. Empty in a database opened read-only.
    pub levels: LevelStat,
    /// The log: frames, syncs, bytes, files; `None` in a database opened read-only.
    pub log: Option<collie_wal::Stat>,
    /// Family by family, by id.
    pub families: Vec<CfStats>,
}

/// The figures of one family.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CfStats {
    /// The family.
    pub cf: CfId,
    /// Its rows, writes since the database was opened, and memory.
    pub rows: FamilyStat,
    /// What its levels lack.
    pub unflushed: UnflushedStat,
}

impl Stats {
    pub(crate) fn of(db: &crate::Db) -> Self {
        let families = db.shared.families.all();
        let mut families: Vec<CfStats> = families
            .iter()
            .map(|family| CfStats { cf: family.id(), rows: family.stat(), unflushed: family.unflushed() })
            .collect();
        families.sort_unstable_by_key(|family| family.cf);
        Self {
            engine: db.stat(),
            flush: db.flush_stat(),
            levels: db.level_stat(),
            log: db.log().map(collie_wal::Log::stat),
            families,
        }
    }
}

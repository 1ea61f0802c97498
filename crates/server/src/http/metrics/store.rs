//! Memory, rows, flushes and LSM levels, by family.

use collie_base::{CfId, Map};
use collie_engine::{CfStats, ScrubStat, Stats};
use collie_sql::{catalog::system::StoreFigures, exec::QueryMemory};

use super::super::exposition::{Exposition, Figure, Kind};

/// The number of families with samples of their own, those that use most memory; the others are added up under the name
/// `others`.
const FAMILIES_MAX: usize = 100;

/// Adds the memory of rows, and the waits for locks.
pub(super) fn memory(out: &mut Exposition, stats: &Stats) {
    let engine = &stats.engine;
    let mut gauge = |name: &str, help: &str, figure: u64| out.one(name, Kind::Gauge, help, figure);
    gauge("collie_memory_bytes", "Approximate memory of rows and their versions.", engine.memory_bytes);
    if let Some(limit) = engine.memory_limit_bytes {
        gauge(
            "collie_memory_limit_bytes",
            "Limit of the memory of rows and their versions (store.memory_limit).",
            limit,
        );
    }
    gauge("collie_old_version_bytes", "Approximate memory of old row versions.", engine.old_version_bytes);
    gauge("collie_rows", "Rows in memory, including deleted ones not removed yet.", engine.rows);
    gauge("collie_rows_to_clean", "Rows with old versions to be pruned.", engine.garbage_rows);
    gauge("collie_rows_held", "Rows with old versions that a snapshot needs.", engine.held_rows);
    gauge("collie_families", "Tables and indexes in memory.", engine.families);
    gauge("collie_snapshots", "Snapshots in use.", engine.snapshots);
    gauge("collie_lock_waits", "Sessions that wait for a lock.", engine.waiting);
    let refused = engine.memory_refused;
    out.one("collie_memory_refused_total", Kind::Counter, "Writes refused for lack of memory.", refused);
}

/// Adds the memory of rows that statements keep while they run.
pub(super) fn queries(out: &mut Exposition, memory: &QueryMemory) {
    out.one(
        "collie_query_memory_bytes",
        Kind::Gauge,
        "Memory for the rows that running statements keep.",
        memory.used_bytes(),
    );
    if memory.bytes_max() < u64::MAX {
        out.one(
            "collie_query_memory_limit_bytes",
            Kind::Gauge,
            "Limit of the memory for rows of running statements (server.query_memory).",
            memory.bytes_max(),
        );
    }
    let refused = memory.refused();
    out.one(
        "collie_query_memory_refused_total",
        Kind::Counter,
        "Statements refused for lack of query memory.",
        refused,
    );
}

/// Adds flushes and merges.
pub(super) fn levels(out: &mut Exposition, stats: &Stats) {
    let (flush, levels) = (&stats.flush, &stats.levels);
    let mut count = |name: &str, help: &str, count: u64| out.one(name, Kind::Counter, help, count);
    count("collie_flushes_total", "Flushes of tables and indexes to the levels.", flush.flushes);
    count("collie_flush_failures_total", "Failed flushes of tables and indexes.", flush.failures);
    let help = "Trees rewritten from memory after one of their writes or syncs failed.";
    count("collie_trees_written_anew_total", help, flush.trees_written_anew);
    count("collie_flush_rows_total", "Rows written by flushes.", flush.rows);
    count("collie_flush_bytes_total", "Bytes of tables written by flushes.", levels.flush_bytes);
    count("collie_relogs_total", "Number of times that rows were logged again instead of flushed.", flush.relogs);
    count("collie_compactions_total", "Compactions of levels.", levels.compactions);
    count("collie_compaction_bytes_total", "Bytes of tables written by compactions.", levels.compaction_bytes);
    let bytes: u64 = levels.trees.iter().map(|tree| tree.bytes).sum();
    out.one("collie_level_bytes", Kind::Gauge, "Bytes of the tables in the levels.", bytes);
}

/// Adds the bytes of the LSM levels that were checked for rot, and the findings.
pub(super) fn rot(out: &mut Exposition, scrub: ScrubStat) {
    let mut count = |name: &str, help: &str, count: u64| out.one(name, Kind::Counter, help, count);
    count("collie_scrub_passes_total", "Complete passes of the scrubber over the tables of the levels.", scrub.passes);
    count("collie_scrub_bytes_total", "Bytes read by the scrubber.", scrub.bytes);
    count("collie_rot_found_total", "Damaged files of the levels found by the scrubber.", scrub.rotten);
    count(
        "collie_rot_mended_total",
        "Damaged files of the levels whose content was rewritten from memory.",
        scrub.mended,
    );
}

/// The figures of a family, or of several.
#[derive(Clone, Copy, Default)]
struct Shown {
    rows: u64,
    memory_bytes: u64,
    writes: u64,
    unflushed_bytes: u64,
}

impl Shown {
    fn of(family: &CfStats) -> Self {
        let rows = &family.rows;
        let writes = rows.inserts.saturating_add(rows.writes);
        Self { rows: rows.rows, memory_bytes: rows.memory_bytes, writes, unflushed_bytes: family.unflushed.bytes }
    }

    fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            writes: self.writes.saturating_add(other.writes),
            unflushed_bytes: self.unflushed_bytes.saturating_add(other.unflushed_bytes),
        }
    }
}

/// Returns the figures by name: at most [`FAMILIES_MAX`], and the sum of the others.
fn by_name(families: &[CfStats], names: &[(String, CfId)]) -> Vec<(String, Shown)> {
    let names: Map<CfId, &str> = names.iter().map(|(name, cf)| (*cf, &**name)).collect();
    let mut families: Vec<(CfId, Shown)> = families.iter().map(|family| (family.cf, Shown::of(family))).collect();
    families.sort_by_key(|(cf, shown)| (std::cmp::Reverse(shown.memory_bytes), *cf));
    let others = families.split_off(families.len().min(FAMILIES_MAX));
    let name = |cf: CfId| names.get(&cf).map_or_else(|| format!("family {}", cf.get()), |name| (*name).to_owned());
    let mut shown: Vec<(String, Shown)> = families.into_iter().map(|(cf, shown)| (name(cf), shown)).collect();
    if !others.is_empty() {
        let sum = others.into_iter().fold(Shown::default(), |sum, (_, shown)| sum.and(shown));
        shown.push(("others".to_owned(), sum));
    }
    shown
}

/// Adds the figures of tables and indexes.
pub(super) fn families(out: &mut Exposition, figures: &StoreFigures) {
    let shown = by_name(&figures.stats.families, &figures.names);
    let mut each = |name: &str, kind, help: &str, figure: fn(&Shown) -> u64| {
        let samples = shown.iter().map(|(name, shown)| ([("family", &**name)], Figure::from(figure(shown))));
        out.each(name, kind, help, samples);
    };
    each("collie_family_rows", Kind::Gauge, "Rows of a table or index in memory.", |shown| shown.rows);
    each("collie_family_memory_bytes", Kind::Gauge, "Approximate memory of the rows of a table or index.", |shown| {
        shown.memory_bytes
    });
    each("collie_family_writes_total", Kind::Counter, "Writes to a table or index.", |shown| shown.writes);
    each(
        "collie_family_unflushed_bytes",
        Kind::Gauge,
        "Bytes of rows of a table or index that are not flushed.",
        |shown| shown.unflushed_bytes,
    );
}

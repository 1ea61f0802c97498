//! Rows of the relations that show the engine's store: `collie_stat_families`, one for each column family, and
//! `collie_stat_log`, one for the log, which also shows how long writers waited for flushes.
//!
//! Counters start at zero when the database is opened. The figures of a tree (`tables` and the columns behind it) cover
//! all
//! families in it and are repeated for each. While a flush or a compaction works on the tree, the last known figures
//! are
//! shown: reading them never waits.
//!
//! Checked by `system_tests` and by `store_figures_are_shown_as_rows` (`tests/clients`).

use std::time::Duration;

use collie_base::{CfId, Lsn, Map};
use collie_engine::{CfStats, Stats};

use super::{SessionFacts, functions::lsn, output::Output};
use crate::{
    catalog::{
        relation::{Oid, Storage},
        snapshot::PG_CATALOG,
    },
    types::Value,
};

/// The engine's figures of its store.
#[derive(Debug)]
pub struct StoreFigures {
    /// Its figures.
    pub stats: Stats,
    /// The named families, with their names.
    pub names: Vec<(String, CfId)>,
    /// The durable and the visible position of the log.
    pub positions: (Lsn, Lsn),
    /// The length of log, in bytes, above which families are flushed.
    pub log_bytes_max: u64,
}

/// Adds the rows if the relation is one of these.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != PG_CATALOG || !matches!(out.name(), "collie_stat_families" | "collie_stat_log") {
        return false;
    }
    let Some(figures) = facts.store_figures() else { return true };
    match out.name() {
        "collie_stat_log" => log(&figures, out),
        _ => families(facts, &figures, out),
    }
    true
}

fn count(count: u64) -> Value {
    Value::Int8(i64::try_from(count).unwrap_or(i64::MAX))
}

fn size(size: usize) -> Value {
    count(u64::try_from(size).unwrap_or(u64::MAX))
}

fn ms(time: Duration) -> Value {
    count(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn families(facts: &dyn SessionFacts, figures: &StoreFigures, out: &mut Output<'_>) {
    let names: Map<CfId, &str> = figures.names.iter().map(|(name, cf)| (*cf, &**name)).collect();
    let mut relations: Map<CfId, Oid> = Map::default();
    for relation in facts.catalog().relations.values().filter(|relation| relation.storage != Storage::Virtual) {
        relations.insert(relation.family(), relation.oid);
        relations.extend(relation.indexes.iter().map(|index| (index.cf, index.oid)));
    }
    for CfStats { cf, rows, unflushed, flush, .. } in &figures.stats.families {
        let tree = figures.stats.tree_of(*cf);
        let of_tree = |figure: &dyn Fn(&collie_engine::TreeStat) -> Value| tree.map_or(Value::Null, figure);
        let stalls = figures.stats.stalls.by_family.get(cf).copied().unwrap_or_default();
        out.push([
            ("family", Value::Oid(cf.get())),
            ("relid", relations.get(cf).map_or(Value::Null, |oid| Value::Oid(*oid))),
            ("name", names.get(cf).map_or(Value::Null, |name| Value::text(name))),
            ("tree", of_tree(&|tree| count(u64::from(tree.state.id.get())))),
            ("rows", count(rows.rows)),
            ("memory_bytes", count(rows.memory_bytes)),
            ("inserts", count(rows.inserts)),
            ("writes", count(rows.writes)),
            ("user_bytes", count(rows.user_bytes)),
            ("unflushed_rows", count(unflushed.rows)),
            ("unflushed_bytes", count(unflushed.bytes)),
            ("unflushed_since", unflushed.since.map_or(Value::Null, lsn)),
            ("flushes", count(flush.flushes())),
            ("flushes_by_size", count(flush.by_size)),
            ("flushes_by_log_limit", count(flush.by_log_limit)),
            ("flushes_by_memory", count(flush.by_memory)),
            ("flushes_by_call", count(flush.by_call)),
            ("flushes_by_checkpoint", count(flush.by_checkpoint)),
            ("flushes_by_close", count(flush.by_close)),
            ("flushes_by_drop", count(flush.by_drop)),
            ("rows_flushed", count(flush.rows)),
            ("relogs", count(flush.relogs)),
            ("rows_relogged", count(flush.relogged_rows)),
            ("bytes_relogged", count(flush.relogged_bytes)),
            ("stalls", count(stalls.count)),
            ("stall_ms", ms(stalls.time)),
            ("tables", of_tree(&|tree| size(tree.tables))),
            ("runs", of_tree(&|tree| size(tree.runs))),
            ("table_bytes", of_tree(&|tree| count(tree.bytes))),
            ("flush_bytes", of_tree(&|tree| count(tree.written.flush_bytes))),
            ("compactions", of_tree(&|tree| count(tree.written.compactions))),
            ("compaction_bytes", of_tree(&|tree| count(tree.written.compaction_bytes))),
            ("failed", of_tree(&|tree| tree.failed.as_ref().map_or(Value::Null, |why| Value::text(why)))),
            ("flushes_by_failure", count(flush.by_failure)),
        ]);
    }
}

fn log(figures: &StoreFigures, out: &mut Output<'_>) {
    let Stats { flush, stalls, log: Some(log), families, .. } = &figures.stats else { return };
    let (durable, visible) = figures.positions;
    let start = flush.log_start.max(Lsn::FIRST);
    let oldest = families.iter().filter_map(|family| Some((family.unflushed.since?, family.cf))).min();
    out.push([
        ("durable", lsn(durable)),
        ("visible", lsn(visible)),
        ("log_start", lsn(start)),
        ("bytes_kept", count(durable.get().saturating_sub(start.get()))),
        ("bytes_limit", count(figures.log_bytes_max)),
        ("oldest_family", oldest.map_or(Value::Null, |(_, cf)| Value::Oid(cf.get()))),
        ("writers_waiting", count(stalls.waiting)),
        ("writes_slowed", count(stalls.slowed.count)),
        ("slowed_ms", ms(stalls.slowed.time)),
        ("writes_stopped", count(stalls.stopped.count)),
        ("stopped_ms", ms(stalls.stopped.time)),
        ("writes_refused", count(stalls.refused)),
        ("files", size(log.segments)),
        ("files_ahead", size(log.spares)),
        ("frames", count(log.frames)),
        ("syncs", count(log.syncs)),
        ("bytes_written", count(log.file_bytes)),
        ("ring_full", count(log.ring_full)),
        ("flushes", count(flush.flushes)),
        ("flushes_failed", count(flush.failures)),
        ("relogs", count(flush.relogs)),
        ("trees_written_anew", count(flush.trees_written_anew)),
        ("flush_error", stalls.trouble.as_ref().map_or(Value::Null, |why| Value::text(why))),
        ("stall_cause", stalls.cause.as_ref().map_or(Value::Null, |why| Value::text(why))),
    ]);
}

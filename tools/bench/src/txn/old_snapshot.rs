//! How much does one old snapshot cost the writers? Hot rows are updated all the time, first without other sessions,
//! then with a session that keeps its snapshot, then without it again, so that a machine that gets faster or slower
//! meanwhile shows in the spread and not as a cost. Reports rate, versions per row and memory; in the engine, and over
//! the wire compared with PostgreSQL.

use std::time::Duration;

use collie_engine::{Isolation, Session, StatementKind};

use super::{
    ENGINE,
    embedded::{Embedded, key, update_alone},
    wire,
};
use crate::together::{during, together};
use crate::{
    Plan, Section,
    measures::{RING, float, median, micros},
    report::{Figure, Row},
    servers::{Length, Load, PEER, Script, Server, Servers, pgbench},
};

/// Hot rows.
const ROWS: u64 = 100;
const WRITERS: u64 = 2;
/// The number of consecutive runs while the snapshot exists; the time before and after it has as many.
const WINDOWS: u32 = 5;
/// The time without a snapshot, before and again after.
const BASELINE: Duration = Duration::from_secs(5);
/// The memory that old versions may take before the benchmark gives up and reports it.
const GROWTH_MAX: u64 = 3 << 30;
/// The variation of a process's memory that counts as flat.
const FLAT: u64 = 16 << 20;

const CLIENTS: usize = 8;
const SCRIPT: &str = "\\set id random(1, 100)\nUPDATE hot SET n = n + 1 WHERE id = :id;\n";
const OLD_READ: &str = "SELECT n FROM hot WHERE id = 1";

/// The results with an old snapshot.
#[derive(Default)]
struct Found {
    /// By window.
    rates: Vec<f64>,
    /// Versions of a hot row at the end of each window, right after the writers stopped; empty where they are not
    /// counted.
    versions: Vec<f64>,
    /// The same without an old snapshot.
    versions_without: Vec<f64>,
    /// The maximum of a row once everything is durable and collected: the versions kept for the snapshot.
    at_rest_max: u64,
    /// Resident bytes before the snapshot, after the first window (`first`), and at the end (`last`).
    before: u64,
    first: u64,
    last: u64,
    /// The engine's count of bytes in old versions at the end.
    old_version_bytes: u64,
    old_read_us: f64,
    gave_up: bool,
}

/// Returns the resident bytes of a process; 0 if the system does not report them.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the number of versions of a hot row: the average and the maximum.
fn versions(db: &Embedded) -> (f64, u64) {
    let count = |number| u64::try_from(db.family.version_count(&key(number))).unwrap_or(u64::MAX);
    let counts: Vec<u64> = (0..ROWS).map(count).collect();
    (float(counts.iter().sum()) / float(ROWS), counts.into_iter().max().unwrap_or(0))
}

/// Returns the maximum number of versions of a hot row when no session writes, all is durable and the collector has
/// finished.
fn versions_at_rest(db: &Embedded) -> anyhow::Result<u64> {
    if let Some(log) = db.db.log() {
        log.flush_wal(true)?;
    }
    while db.db.tick() > 0 {}
    Ok(versions(db).1)
}

/// Returns the number of versions of a hot row of PostgreSQL, by its own statistics.
fn versions_of_peer(client: &mut postgres::Client) -> anyhow::Result<f64> {
    let dead: i64 = client.query_one("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'hot'", &[])?.get(0);
    Ok(1.0 + float(u64::try_from(dead)?) / float(ROWS))
}

/// Measures the engine: returns the rates without an old snapshot, and the results with one.
fn engine(plan: &Plan, section: &mut Section) -> anyhow::Result<(Vec<f64>, Found)> {
    let (db, me) = (Embedded::in_memory()?, std::process::id());
    db.fill(ROWS)?;
    let worker = |writer: u64, mut session: Session| {
        let (own, mut turn) = (ROWS / WRITERS, 0);
        let db = &db;
        move || {
            turn = (turn + 1) % own;
            update_alone(&mut session, &db.family, writer * own + turn)
        }
    };
    let sessions = (0..WRITERS).map(|_| db.db.session()).collect::<Result<Vec<_>, _>>()?;
    let mut workers: Vec<_> = (0..).zip(sessions).map(|(writer, session)| worker(writer, session)).collect();
    let alone = |mut workers: Vec<_>, baseline: &mut Vec<f64>, counts: &mut Vec<f64>| -> anyhow::Result<_> {
        for window in 0..WINDOWS {
            plan.say(&format!("old-snapshot: engine without one, window {}", window + 1));
            let (load, back) = together(plan, workers, during(plan, plan.time(BASELINE) / WINDOWS))?;
            baseline.push(load.rate());
            counts.push(versions(&db).0);
            workers = back;
        }
        Ok(workers)
    };
    let (mut baseline, mut found) = (Vec::new(), Found::default());
    workers = alone(workers, &mut baseline, &mut found.versions_without)?;
    let mut old = db.db.session()?;
    old.begin(Isolation::RepeatableRead, true)?;
    old.begin_statement(StatementKind::ReadOnly)?;
    let seen = old.get(&db.family, &key(0))?;
    found.before = resident(me);
    let limit = found.before + GROWTH_MAX;
    for window in 0..WINDOWS {
        plan.say(&format!("old-snapshot: engine, window {} of {:?}", window + 1, plan.old_snapshot / WINDOWS));
        let mut go_on = during(plan, plan.old_snapshot / WINDOWS);
        let (load, back) = together(plan, workers, || go_on() && resident(me) < limit)?;
        found.rates.push(load.rate());
        workers = back;
        found.versions.push(versions(&db).0);
        found.old_version_bytes = db.db.stat().old_version_bytes;
        found.at_rest_max = found.at_rest_max.max(versions_at_rest(&db)?);
        found.last = resident(me);
        if window == 0 {
            found.first = found.last;
        }
        found.gave_up = found.last >= limit;
        if found.gave_up {
            break;
        }
    }
    let begun = plan.now_ns();
    match old.get(&db.family, &key(0)) {
        Ok(value) => anyhow::ensure!(value == seen, "the old snapshot shows something new"),
        Err(error) => section.notes.push(format!("the old snapshot of the engine was cancelled: {error}")),
    }
    found.old_read_us = micros(plan.now_ns() - begun);
    drop(old);
    alone(workers, &mut baseline, &mut found.versions_without)?;
    Ok((baseline, found))
}

/// Returns the bytes of a server's hot rows: for PostgreSQL those of its files, which it keeps in memory; for Collie
/// those of the process.
fn bytes(server: &Server, client: &mut postgres::Client) -> anyhow::Result<u64> {
    if !server.is_peer() {
        return Ok(resident(server.process()));
    }
    let bytes: i64 = client.query_one("SELECT pg_total_relation_size('hot')", &[])?.get(0);
    Ok(u64::try_from(bytes)?)
}

/// Runs one window over the wire.
fn window(plan: &Plan, server: &Server, time: Duration) -> anyhow::Result<f64> {
    let settings = "-c synchronous_commit=off";
    let length = Length::Time(time);
    let script = Script::Text(SCRIPT);
    Ok(pgbench(plan, server, &Load { script, clients: CLIENTS, length, protocol: "prepared", settings })?.tps)
}

/// Measures one server.
fn over_the_wire(plan: &Plan, server: &Server, section: &mut Section) -> anyhow::Result<(Vec<f64>, Found)> {
    let mut client = server.connect()?;
    client.batch_execute(
        "CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL); INSERT INTO hot SELECT g, 0 FROM generate_series(1, 100) g",
    )?;
    let alone = |baseline: &mut Vec<f64>| -> anyhow::Result<()> {
        for number in 0..WINDOWS {
            plan.say(&format!("old-snapshot: {} without one, window {}", server.name(), number + 1));
            baseline.push(window(plan, server, plan.time(BASELINE) / WINDOWS)?);
        }
        Ok(())
    };
    let mut baseline = Vec::new();
    alone(&mut baseline)?;
    let mut holder = server.connect()?;
    let mut old = holder.build_transaction().isolation_level(postgres::IsolationLevel::RepeatableRead).start()?;
    let seen: i32 = old.query_one(OLD_READ, &[])?.get(0);
    let mut found = Found { before: bytes(server, &mut client)?, ..Found::default() };
    for number in 0..WINDOWS {
        let time = plan.old_snapshot / WINDOWS;
        plan.say(&format!("old-snapshot: {}, window {} of {time:?}", server.name(), number + 1));
        found.rates.push(window(plan, server, time)?);
        found.last = bytes(server, &mut client)?;
        if server.is_peer() {
            found.versions.push(versions_of_peer(&mut client)?);
        }
        if number == 0 {
            found.first = found.last;
        }
        found.gave_up = found.last >= found.before + GROWTH_MAX;
        if found.gave_up {
            break;
        }
    }
    let begun = plan.now_ns();
    match old.query_one(OLD_READ, &[]) {
        Ok(row) => {
            anyhow::ensure!(row.get::<_, i32>(0) == seen, "{}: the old snapshot shows something new", server.name())
        }
        Err(error) => section.notes.push(format!("the old snapshot of {} was cancelled: {error}", server.name())),
    }
    found.old_read_us = micros(plan.now_ns() - begun);
    old.rollback()?;
    alone(&mut baseline)?;
    Ok((baseline, found))
}

/// Returns the rows of a subject, without and with an old snapshot, and the share of the rate that remains.
fn rows(plan: &Plan, names: (&str, &str, &str), baseline: &[f64], found: &Found) -> ([Row; 2], f64) {
    let (subject, ring, load) = names;
    let kept = median(&found.rates) / median(baseline);
    let mut without =
        Row::new(subject, format!("{load}, no old snapshot"), "memory", ring).runs("commits_per_s", baseline);
    let age = plan.old_snapshot.as_secs_f64();
    let mut with = Row::new(subject, format!("{load}, a snapshot of {age} s"), "memory", ring)
        .runs("commits_per_s", &found.rates)
        .figure("growth_bytes", Figure::Count(found.last.saturating_sub(found.before)))
        .figure("growth_after_first_fifth_bytes", Figure::Count(found.last.saturating_sub(found.first)))
        .runs("old_read_us", &[found.old_read_us])
        .beside("no old snapshot", kept);
    if !found.versions.is_empty() {
        with = with.runs("versions_per_row", &found.versions);
    }
    if !found.versions_without.is_empty() {
        without = without.runs("versions_per_row", &found.versions_without);
    }
    ([without, with], kept)
}

/// Adds a note if the memory limit was reached before the end.
fn gave_up(section: &mut Section, subject: &str, found: &Found) {
    if found.gave_up {
        let windows = found.rates.len();
        section.notes.push(format!("{subject}: given up in window {windows} of {WINDOWS}: old versions took 3 GiB"));
    }
}

/// Measures the engine, then both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "old-snapshot",
        "what does one old snapshot cost those who write? (100 hot rows, not waiting for the disk; runs are fifths of its life)",
    );
    let (baseline, found) = engine(plan, &mut section)?;
    let ([without, with], kept) = rows(plan, (ENGINE, RING, "2 threads"), &baseline, &found);
    let flat = !found.gave_up && found.last.saturating_sub(found.first) <= FLAT;
    let with = with
        .figure("at_rest_versions_per_row_max", Figure::Count(found.at_rest_max))
        .figure("old_version_bytes", Figure::Count(found.old_version_bytes))
        .target(">= 0.95x without", kept >= 0.95)
        .target("memory flat", flat)
        .target("<= 2 extra versions per hot row", found.at_rest_max <= 3);
    section.rows.extend([without, with]);
    gave_up(&mut section, ENGINE, &found);
    let servers = Servers::start(plan, &mut section)?;
    let mut all = Vec::new();
    for server in &servers.running {
        all.push(over_the_wire(plan, server, &mut section)?);
    }
    let peer = servers.peer().map(|at| median(&all[at].1.rates));
    for (server, (baseline, found)) in servers.running.iter().zip(&all) {
        let load = wire::clients(CLIENTS);
        let ([without, mut with], kept) = rows(plan, (server.name(), server.ring(), &load), baseline, found);
        if let Some(ratio) = server.by_peer(median(&found.rates), peer) {
            with = with.beside(PEER, ratio);
        }
        if !server.is_peer() {
            with = with.target(">= 0.95x without", kept >= 0.95);
        }
        section.rows.extend([without, with]);
        gave_up(&mut section, server.name(), found);
    }
    section.notes.push("growth: memory of the process; of PostgreSQL the size of the table and its index".to_owned());
    section
        .notes
        .push("versions_per_row: of PostgreSQL what its statistics count as dead, and the live one; here counted at the end of a window, most of them a few milliseconds old and not collected yet, with a snapshot or without".to_owned());
    let rest = "at_rest_versions_per_row_max: of any row once all is durable and collected; the newest is one, the rest is extra";
    section.notes.push(rest.to_owned());
    section.notes.push("flat: at most 16 MiB more at the end than after the first fifth".to_owned());
    Ok(section)
}

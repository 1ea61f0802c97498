//! Does replay keep up with the primary's peak? A log is written at full rate and then replayed at full rate with 1..n
//! workers, on the cores that wrote it, one after the other.
//!
//! A replay gets the input of a sender of replication: shipments of durable records, read from the files. It writes its
//! own log of them, as a replica does. No network lies between them; the other questions measure its cost.
//!
//! # What always holds
//! - A1. In the end the replayed database has the primary's rows, or the question fails.
//! - A2. The peak is the number of commits between two positions of the log, divided by the time for which the clients
//!   wrote. The rate of a replay counts the same commits.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use collie_base::{CfId, Lsn};
use collie_engine::{
    Basis, Db, Insert, Isolation, KeyRange, Options, Outcome, Replica, ReplicaOptions, Seed, StatementKind, Write,
    is_commit_record,
};
use collie_wal::{ShipOptions, Shipper};
use collie_workload::{Course, Pacing, Population, drive, sleep_until, target::Target as _};

use super::PairSettings;
use crate::measures::{median, per_s};
use crate::report::{Row, Section};
use crate::tpcc::Embedded;
use crate::txn::{count_of, counted};
use crate::{Plan, Scratch};

/// Bytes of one shipment, as replication sends them.
const SHIPMENT_BYTES: u64 = 1 << 20;
/// The row that all clients of the hot-row load change.
const HOT: (CfId, &[u8]) = (CfId::new(16), b"hot");

/// A log that was written at full rate.
struct Recorded {
    db: Db,
    /// The measured log is from here to `to`.
    from: Lsn,
    to: Lsn,
    commits: u64,
    /// How long writing took.
    ns: u64,
    /// Keeps the files of the log.
    _holder: Shipper,
    /// Owns the directory of the log.
    _target: Option<Embedded>,
}

impl Recorded {
    fn peak(&self) -> f64 {
        per_s(self.commits, self.ns)
    }

    fn bytes(&self) -> u64 {
        self.to.bytes_since(self.from)
    }
}

/// The load that writes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Tpcc,
    HotRow,
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "capacity",
        format!(
            "does replay keep up with the peak that wrote the log? (engine in this process, {} clients, {} s a run, commits that do not \
             wait for the disk)",
            settings.clients,
            settings.time.as_secs_f64()
        ),
    );
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    for load in [Load::Tpcc, Load::HotRow] {
        let (mut peaks, mut log, mut rates) = (Vec::new(), Vec::new(), vec![Vec::new(); cores]);
        for run in 0..settings.runs {
            let (recorded, replays_ns) = one_run(settings, load, run, cores)?;
            peaks.push(recorded.peak());
            log.push(per_s(recorded.bytes(), recorded.commits.saturating_mul(1_000_000_000)));
            for (rates, ns) in rates.iter_mut().zip(replays_ns) {
                rates.push(per_s(recorded.commits, ns));
            }
        }
        rows(load, settings, (&peaks, &log), &rates, &mut section);
    }
    section.notes.push("each replayed database had the primary's rows in the end".to_owned());
    Ok(section)
}

/// Records one log and replays it with 1..=`cores` workers. Returns the log, and how long each replay took.
fn one_run(settings: &PairSettings, load: Load, run: u32, cores: usize) -> anyhow::Result<(Recorded, Vec<u64>)> {
    let plan = &settings.plan;
    let scratch = Scratch::new(&plan.env, &plan.dir)?;
    plan.say(&format!("{load:?}: writing a log, run {}", run + 1));
    let recorded = match load {
        Load::Tpcc => record_tpcc(settings, run, scratch.path())?,
        Load::HotRow => {
            let dir = scratch.path().join("primary");
            record_hot_row(settings, Db::open(&dir, options(), plan.env.clone(), &mut |_| ())?.0)?
        }
    };
    let expected = contents(&recorded.db)?;
    let mut replays_ns = Vec::new();
    for workers in 1..=cores {
        plan.say(&format!("{load:?}: replay, {}, run {}", counted(workers, "worker"), run + 1));
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        replays_ns.push(replay(plan, &recorded, scratch.path(), workers, expected)?);
    }
    recorded.db.close()?;
    Ok((recorded, replays_ns))
}

/// Returns the defaults, with limits that prevent any flush meanwhile: neither the primary nor a replay pays for
/// flushes.
fn options() -> Options {
    Options { max_total_wal_size: 64 << 30, write_buffer_size: 64 << 30, ..Options::default() }
}

/// Calls `write`, which returns the time for which the clients wrote, and returns the log of `db` between the positions
/// before and after it.
fn recording(db: Db, write: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<Recorded> {
    let log = db.log().context("the primary's log is open")?;
    let holder = log.ship("capacity", ShipOptions::from(Lsn::FIRST))?;
    log.flush_wal(true)?;
    let from = db.durable();
    let ns = write()?;
    log.flush_wal(true)?;
    let to = db.durable();
    let (mut commits, mut bytes) = (0, Vec::new());
    let mut reader = log.ship("capacity-count", ShipOptions::from(from))?;
    let mut unpacker = collie_wal::Unpacker::new(from, &options().log);
    while let Some(shipment) = reader.try_next(usize::try_from(SHIPMENT_BYTES)?, &mut bytes)? {
        unpacker.take(shipment.start, shipment.prev_end, &bytes, |record| {
            commits += u64::from(record.lsn < to && is_commit_record(record.tag));
            Ok::<(), anyhow::Error>(())
        })?;
        bytes.clear();
        if shipment.end >= to {
            break;
        }
    }
    Ok(Recorded { db, from, to, commits, ns, _holder: holder, _target: None })
}

fn record_tpcc(settings: &PairSettings, run: u32, dir: &Path) -> anyhow::Result<Recorded> {
    let (plan, scale) = (&settings.plan, settings.scale());
    let target = Embedded::open(&plan.env, dir, options(), false)?;
    let population = Population::new(scale, settings.seed, plan.env.clock.wall_us());
    let threads = usize::try_from(settings.clients)?;
    target.load(&population, threads, &|what: &str| plan.say(what))?;
    let recorded = recording(target.db().clone(), || {
        let course = Course {
            scale,
            seed: settings.seed,
            run,
            clients: settings.clients,
            warm_up: Duration::ZERO,
            time: settings.time,
            pacing: Pacing::FlatOut,
            deferred: false,
        };
        Ok(drive(&target, course, &plan.env.clock)?.ns)
    })?;
    Ok(Recorded { _target: Some(target), ..recorded })
}

/// Records the log of clients that all change one row.
fn record_hot_row(settings: &PairSettings, db: Db) -> anyhow::Result<Recorded> {
    let (plan, stop) = (&settings.plan, AtomicBool::new(false));
    let clock = &*plan.env.clock;
    let family = db.family(HOT.0);
    let mut session = db.session()?;
    session.begin(Isolation::ReadCommitted, false)?;
    session.begin_statement(StatementKind::Write)?;
    anyhow::ensure!(
        session.insert(&family, HOT.1, &0_u64.to_le_bytes())? == Insert::Done,
        "a new database has no rows"
    );
    session.commit(true)?.block()?;
    drop(session);
    let sessions: Vec<_> = (0..settings.clients).map(|_| db.session()).collect::<Result<_, _>>()?;
    recording(db, || {
        std::thread::scope(|scope| {
            let begun = clock.now_ns();
            let (stop, family) = (&stop, &family);
            let client = |session| move || change_hot_row(session, family, stop);
            let running: Vec<_> = sessions.into_iter().map(|session| scope.spawn(client(session))).collect();
            sleep_until(clock, begun + u64::try_from(settings.time.as_nanos())?);
            stop.store(true, Relaxed);
            for one in running {
                one.join().ok().context("a client panicked")??;
            }
            Ok(clock.now_ns() - begun)
        })
    })
}

fn change_hot_row(
    mut session: collie_engine::Session,
    family: &Arc<collie_engine::Family>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut number = 0_u64;
    while !stop.load(Relaxed) {
        session.begin(Isolation::ReadCommitted, false)?;
        session.begin_statement(StatementKind::Write)?;
        let mut basis = Basis::Snapshot;
        loop {
            number += 1;
            match session.write(family, HOT.1, basis, Write::Put(&number.to_le_bytes()))? {
                Outcome::Done => break,
                Outcome::Wait(blocker) => session.wait(blocker).block(None)?,
                Outcome::Changed { csn, .. } => basis = Basis::After(csn),
                other => anyhow::bail!("the hot row is {other:?}"),
            }
        }
        session.end_statement();
        session.commit(false)?.block()?;
    }
    Ok(())
}

/// Ships the log up to `until`, whole records at a time.
fn ship(
    shipper: &mut Shipper,
    until: Lsn,
    take: &mut dyn FnMut(collie_wal::Shipment, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    while shipper.position() < until {
        let most = until.bytes_since(shipper.position()).min(SHIPMENT_BYTES);
        let shipment = shipper.try_next(usize::try_from(most)?, &mut bytes)?.context("what was recorded is durable")?;
        take(shipment, &bytes)?;
        bytes.clear();
    }
    Ok(())
}

/// Replays the log; returns how long that took.
fn replay(plan: &Plan, recorded: &Recorded, dir: &Path, workers: usize, expected: u64) -> anyhow::Result<u64> {
    let (db, env) = (&recorded.db, &plan.env);
    let (term, histories) = db.histories();
    let node_id = env.random.u64();
    Seed { cluster_id: db.cluster_id(), node_id, term, histories, consistent_at: Lsn::ZERO }.plant(env, dir)?;
    let mut how = ReplicaOptions::default();
    how.apply_workers = workers;
    let replica = Replica::open(dir, options(), how, env, &mut |_| ())?.0;
    let log = db.log().context("the primary's log is open")?;
    let mut shipper = log.ship("capacity-rows", ShipOptions::from(Lsn::FIRST))?;
    let mut until = |until| {
        ship(&mut shipper, until, &mut |shipment, bytes| {
            replica.receive(shipment.start, shipment.prev_end, bytes)?;
            replica.set_show(shipment.durable);
            Ok(())
        })?;
        let shown = replica.wait_shown(until).context("everything may be shown")?;
        anyhow::Ok(shown.block()?)
    };
    until(recorded.from)?;
    let begun = plan.now_ns();
    until(recorded.to)?;
    let ns = plan.now_ns() - begun;
    let replayed = replica.db().context("everything may be shown")?;
    anyhow::ensure!(contents(&replayed)? == expected, "the replayed rows are not the primary's");
    replica.close()?;
    Ok(ns)
}

/// Returns one number for all rows, regardless of their commits. Two databases with the same rows have the same number.
fn contents(db: &Db) -> anyhow::Result<u64> {
    let mut session = db.session()?;
    session.begin(Isolation::RepeatableRead, false)?;
    session.begin_statement(StatementKind::Write)?;
    let mut families = db.families();
    families.sort_unstable();
    let mut hash = 0_u64;
    for cf in families {
        let mut mix = |bytes: &[u8]| {
            hash = (hash ^ bytes.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                hash ^= hash >> 32;
            }
        };
        session.scan(&db.family(cf), &KeyRange::ALL, None, false, usize::MAX, &mut |key, value| {
            mix(&cf.get().to_le_bytes());
            mix(key);
            mix(value);
            ControlFlow::Continue(())
        })?;
    }
    Ok(hash)
}

fn rows(
    load: Load,
    settings: &PairSettings,
    (peaks, bytes): (&[f64], &[f64]),
    rates: &[Vec<f64>],
    section: &mut Section,
) {
    let (subject, what, least) = match load {
        Load::Tpcc => ("collie, TPC-C", format!("TPC-C, {} warehouses", settings.warehouses), 1.2),
        Load::HotRow => ("collie, one hot row", "one hot row".to_owned(), 1.0),
    };
    let peak = format!("{what}: the peak that wrote the log");
    section.rows.push(
        Row::new(subject, peak.clone(), "memory", "private 16 MiB")
            .runs("commits_per_s", peaks)
            .runs("log_bytes_per_commit", bytes),
    );
    for (at, replays) in rates.iter().enumerate() {
        let ratios: Vec<f64> = replays.iter().zip(peaks).map(|(rate, peak)| rate / peak).collect();
        let ratio = median(&ratios);
        let mut row =
            Row::new(subject, format!("{what}: replay by rows, {}", counted(at + 1, "worker")), "memory", "-")
                .at(count_of(at + 1))
                .runs("commits_per_s", replays)
                .runs("peak_ratio", &ratios)
                .beside(peak.clone(), ratio);
        if at + 1 == rates.len() {
            row = row.target(format!(">= {least:.1}x the peak that wrote it"), ratio >= least);
        }
        section.rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: A1: the question is answered for both loads and every number of workers, with the same rows everywhere.
    /// Method: the shortest case.
    #[test]
    fn capacity_is_measured_by_every_number_of_workers() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = PairSettings::replication(dir.path()).quick();
        settings.time = Duration::from_millis(200);
        let section = measure(&settings).unwrap();
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        assert_eq!(section.rows.len(), 2 * (1 + cores));
        for row in &section.rows {
            assert!(row.median("commits_per_s").unwrap() > 0.0, "{row:?}");
            // The rows that are drawn.
            assert_eq!(row.at.is_some(), row.median("peak_ratio").is_some(), "{row:?}");
        }
        assert_eq!(settings.plan.env.files.list(dir.path()).unwrap(), Vec::<String>::new());
    }
}

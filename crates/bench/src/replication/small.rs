//! `run_rows`: clients that each read or update a row of their own, one transaction after the other: what a level of `synchronous_commit`, or
//! something else that every transaction passes, costs, and little else.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context;

use super::pair::Pair;
use super::settings::ReplicationSettings;
use crate::Latencies;
use crate::tpcc::sleep_until;

/// What all clients together did in the measured time.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) latencies: Latencies,
    pub(crate) ns: u64,
}

/// Makes a row for each of so many clients.
///
/// # Errors
/// The driver's.
pub(crate) fn prepare(pair: &Pair, clients: u32) -> anyhow::Result<()> {
    let mut primary = pair.connect()?;
    primary.batch_execute("CREATE TABLE small (id int PRIMARY KEY, n bigint NOT NULL)")?;
    primary.batch_execute(&format!("INSERT INTO small SELECT n, 0 FROM generate_series(1, {clients}) AS n"))?;
    Ok(())
}

/// Lets `clients` write at `level`, as `synchronous_commit` names it.
///
/// # Errors
/// As of [`run_rows`].
pub(super) fn write_rows(
    pair: &Pair,
    settings: &ReplicationSettings,
    clients: u32,
    level: &str,
) -> anyhow::Result<Written> {
    run_rows(pair, settings, clients, level, &["UPDATE small SET n = n + 1 WHERE id = $1"])
}

/// Lets `clients` run `statements` in turn, each of which is given the client's row, at `level`.
///
/// # Errors
/// The driver's; the server has no such level. The first of all; the others then stop.
pub(crate) fn run_rows(
    pair: &Pair,
    settings: &ReplicationSettings,
    clients: u32,
    level: &str,
    statements: &[&str],
) -> anyhow::Result<Written> {
    let clock = &*settings.plan.env.clock;
    let (ready, stop) = (Barrier::new(usize::try_from(clients)? + 1), AtomicBool::new(false));
    let measured = AtomicBool::new(false);
    let client = |id: u32| -> anyhow::Result<Latencies> {
        let open = || -> anyhow::Result<_> {
            let mut session = pair.connect()?;
            session.batch_execute(&format!("SET synchronous_commit = {level}"))?;
            let prepared = statements.iter().map(|text| session.prepare(text)).collect::<Result<Vec<_>, _>>()?;
            Ok((session, prepared))
        };
        let opened = open();
        // One that cannot begin lets the others go.
        ready.wait();
        let (mut session, prepared) = opened.inspect_err(|_| stop.store(true, Relaxed))?;
        let (id, mut latencies) = (id.cast_signed(), Latencies::default());
        for statement in prepared.iter().cycle() {
            if stop.load(Relaxed) {
                break;
            }
            let begun = clock.now_ns();
            session.execute(statement, &[&id]).inspect_err(|_| stop.store(true, Relaxed))?;
            if measured.load(Relaxed) {
                latencies.record(clock.now_ns() - begun);
            }
        }
        Ok(latencies)
    };
    std::thread::scope(|scope| {
        let client = &client;
        let running: Vec<_> = (1..=clients).map(|id| scope.spawn(move || client(id))).collect();
        ready.wait();
        sleep_until(clock, clock.now_ns() + u64::try_from(settings.warm_up.as_nanos())?);
        let from = clock.now_ns();
        measured.store(true, Relaxed);
        sleep_until(clock, from + u64::try_from(settings.time.as_nanos())?);
        measured.store(false, Relaxed);
        let mut all = Written { ns: clock.now_ns() - from, ..Written::default() };
        stop.store(true, Relaxed);
        for one in running {
            all.latencies.merge(&one.join().ok().context("a client panicked")??);
        }
        Ok(all)
    })
}

//! `Study`: loads each target, checks it, runs on all in turn, checks again, and reports.

use std::sync::Arc;

use anyhow::Context;
use collie_engine::Options;
use collie_workload::{Course, DISTRICTS, Kind, KindTally, Pacing, Population, Run, Tables, Wire, drive};

use super::audit::Audited;
use super::books;
use super::embedded::Embedded;
use super::own::{self, OwnSql};
use super::settings::{TpccSettings, TpccTarget};
use crate::Machine;
use crate::measures::{float, micros, per_s};
use crate::report::{Figure, Report, Row, Section};
use crate::servers::{PEER, Servers};
use crate::txn::counted;

/// Name of the embedded engine in tables.
const ENGINE: &str = "collie engine";
/// The number of clients of a target with SQL, unless the settings give one.
const CLIENTS: u32 = 8;
/// The same for the engine if commits wait for the disk: many share a flush.
const ENGINE_CLIENTS: u32 = 64;
/// The isolation level of transactions that write, on targets with SQL; those that only read use REPEATABLE READ.
const ISOLATION: &str = "READ COMMITTED";
/// The name of this level in `Target::level`.
const IN_MEMORY: &str = "memory";

/// A target and its runs.
struct Ran<'t> {
    target: &'t dyn Audited,
    clients: u32,
    runs: Vec<Run>,
}

/// Runs TPC-C with `settings`. Each target is loaded, unless it is a server that already has the tables, and checked
/// for the twelve consistency conditions. Then the targets take turns, and each is checked again.
///
/// # Errors
/// A target does not answer or has other tables; a transaction fails; a condition does not hold, in which case all
/// figures are worthless and none is reported.
pub fn tpcc_bench(settings: &TpccSettings) -> anyhow::Result<Report> {
    settings.check()?;
    let plan = &settings.plan;
    plan.env.files.create_dir_all(&plan.dir)?;
    let mut section = Section::new("tpcc", question(settings));
    let servers = match settings.targets.contains(&TpccTarget::Servers) {
        true => Some(Servers::start(plan, &mut section)?),
        false => None,
    };
    let mut targets: Vec<(Box<dyn Audited>, u32)> = Vec::new();
    for target in &settings.targets {
        match target {
            TpccTarget::Embedded | TpccTarget::EmbeddedAsync => {
                let sync = *target == TpccTarget::Embedded;
                let engine = Embedded::open(&plan.env, &plan.dir, options(settings), sync)?;
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let clients = if sync { ENGINE_CLIENTS } else { u32::try_from(cores)? };
                targets.push((Box::new(engine), clients));
            }
            TpccTarget::EmbeddedSql => {
                let own = OwnSql::open(plan, options(settings))?;
                targets.push((Box::new(Tables::of(own::NAME, "private 16 MiB", own, ISOLATION, true)), CLIENTS));
            }
            TpccTarget::Servers => {
                for server in servers.iter().flat_map(|servers| &servers.running) {
                    let wire = Wire::new(server.name(), server.ring(), server.config(), ISOLATION, true);
                    targets.push((Box::new(wire), CLIENTS));
                }
            }
            TpccTarget::Url(url) => targets.push((Box::new(at_url(url)?), CLIENTS)),
        }
    }
    let mut ran: Vec<Ran<'_>> = Vec::new();
    for (target, clients) in &targets {
        load(&**target, settings)?;
        let clients = settings.clients.unwrap_or(match settings.pacing {
            Pacing::Terminals => settings.warehouses * DISTRICTS,
            _ => *clients,
        });
        ran.push(Ran { target: &**target, clients, runs: Vec::new() });
    }
    for run in 0..settings.runs {
        for of in &mut ran {
            plan.say(&format!("{}: run {} of {}", of.target.name(), run + 1, settings.runs));
            let done = drive(of.target, course(settings, run, of.clients), &plan.env.clock);
            of.runs.push(done.with_context(|| format!("on {}", of.target.name()))?);
        }
    }
    for of in &ran {
        plan.say(&format!("{}: consistency", of.target.name()));
        let verdict = books::check(of.target, &settings.scale())?;
        verdict.ensure(of.target.name(), "after the runs")?;
        section.notes.push(format!(
            "{} ({}): all twelve consistency conditions hold before and after, of {} things",
            of.target.name(),
            of.target.level(),
            verdict.checked.iter().sum::<u64>()
        ));
    }
    rows(settings, &ran, &mut section);
    Ok(Report { machine: Machine::of(&plan.dir), runs: usize::try_from(settings.runs)?, sections: vec![section] })
}

/// Returns the defaults; small files in small runs, with as many sessions.
fn options(settings: &TpccSettings) -> Options {
    let options = if settings.small { Options::small() } else { Options::default() };
    Options { sessions_max: Options::default().sessions_max, ..options }
}

fn at_url(url: &str) -> anyhow::Result<Wire> {
    let config: postgres::Config = url.parse().with_context(|| format!("{url} is no URL of a server"))?;
    let at = url.rsplit('@').next().unwrap_or(url).trim_start_matches("postgresql://");
    let name = at.trim_start_matches("postgres://").to_owned();
    Ok(Wire::new(&name, "-", config, ISOLATION, true))
}

fn course(settings: &TpccSettings, run: u32, clients: u32) -> Course {
    Course {
        scale: settings.scale(),
        seed: settings.seed,
        run,
        clients,
        warm_up: settings.warm_up,
        time: settings.time,
        pacing: settings.pacing,
        deferred: true,
    }
}

/// Ensures that the tables exist, have the right scale and are consistent.
fn load(target: &dyn Audited, settings: &TpccSettings) -> anyhow::Result<()> {
    let (plan, scale, name) = (&settings.plan, settings.scale(), target.name());
    match target.holds()? {
        Some(there) => {
            anyhow::ensure!(
                there == scale,
                "{name} has tables of {} with {} customers each: ask for these",
                counted(usize::try_from(there.warehouses)?, "warehouse"),
                there.customers * DISTRICTS
            );
            plan.say(&format!("{name}: consistency"));
            books::check(target, &scale)?.ensure(name, "before the runs")
        }
        None => {
            let population = Population::new(scale, settings.seed, plan.env.clock.wall_us());
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let on_progress = Arc::clone(&plan.on_progress);
            target.load(&population, threads, &|what| on_progress(&format!("{name}: {what}")))?;
            plan.say(&format!("{name}: consistency"));
            books::check_loaded(target, &population)
        }
    }
}

fn question(settings: &TpccSettings) -> String {
    let pace = match settings.pacing {
        Pacing::FlatOut => "flat out".to_owned(),
        Pacing::Rate(per_s) => format!("{per_s} transactions asked for a second, latency from when each was to begin"),
        Pacing::Poisson(per_s) => {
            format!("{per_s} transactions a second asked for by chance, latency from when each was to begin")
        }
        Pacing::Rising(per_s, within) => {
            format!(
                "more and more asked for by chance, up to {per_s} transactions a second within {} s",
                within.as_secs_f64()
            )
        }
        Pacing::Terminals => "with keying and think times".to_owned(),
    };
    let small = if settings.small { ", a hundredth of the rows: NOT TPC-C" } else { "" };
    format!(
        "what does TPC-C's mix reach? ({}{small}, {pace}, {}, deliveries deferred, {} s a run)",
        counted(settings.warehouses as usize, "warehouse"),
        ISOLATION.to_lowercase(),
        settings.time.as_secs_f64()
    )
}

/// Returns the transactions of a run that ended, per second.
fn rate(run: &Run) -> f64 {
    per_s(run.tally.ended(), run.ns)
}

/// Returns the transactions that ended in the worst whole second of a run, which shows stalls.
fn slowest_second(run: &Run, seconds: u64) -> u64 {
    let of = |second: u64| run.tally.by_second.get(usize::try_from(second).ok()?).copied();
    (0..seconds).map(|second| of(second).unwrap_or(0)).min().unwrap_or(0)
}

fn rows(settings: &TpccSettings, ran: &[Ran<'_>], section: &mut Section) {
    let rates = |of: &Ran<'_>| of.runs.iter().map(rate).collect::<Vec<_>>();
    let peer = ran.iter().find(|of| of.target.name() == PEER).map(|of| crate::measures::median(&rates(of)));
    let full = !settings.small && settings.pacing == Pacing::FlatOut;
    for of in ran {
        let new_orders = |run: &Run| run.tally.of(Kind::NewOrder).latencies.count();
        let case = format!("all, {}", counted(of.clients as usize, "client"));
        let mut row = Row::new(of.target.name(), case, of.target.level(), of.target.ring())
            .at(of.clients.into())
            .runs("txn_per_s", &rates(of))
            .each("tpmc", &of.runs, |run| 60.0 * per_s(new_orders(run), run.ns))
            .each("log_bytes_per_txn", &of.runs, |run| float(run.log_bytes) / float(run.tally.ended().max(1)))
            .each("retried_percent", &of.runs, |run| {
                100.0 * float(run.tally.retried()) / float((run.tally.ended() + run.tally.retried()).max(1))
            });
        if settings.time.as_secs() > 1 {
            row = row.each("slowest_second_txns", &of.runs, |run| float(slowest_second(run, settings.time.as_secs())));
        }
        if settings.pacing.rate().is_some() {
            row = row.figure("backlog_txns", Figure::Count(of.runs.iter().map(|run| run.backlog).max().unwrap_or(0)));
        }
        let ours = crate::measures::median(&rates(of));
        if let Some(peer) = peer.filter(|_| ![PEER, ENGINE, own::NAME].contains(&of.target.name())) {
            row = row.beside(PEER, ours / peer);
            if full {
                row = row.target(">= 2x PostgreSQL", ours >= 2.0 * peer);
            }
        }
        if full && of.target.name() == ENGINE && of.target.level() == IN_MEMORY {
            row = row.target(">= 100k txn/s", ours >= 1e5);
        }
        section.rows.push(row);
        for kind in Kind::ALL {
            section.rows.push(kind_row(settings, of, kind));
        }
        let skipped: u64 = of.runs.iter().map(|run| run.tally.skipped).sum();
        if skipped > 0 {
            section.notes.push(format!("{}: {skipped} districts had nothing to deliver", of.target.name()));
        }
    }
}

fn kind_row(settings: &TpccSettings, of: &Ran<'_>, kind: Kind) -> Row {
    let each =
        |figure: &dyn Fn(&KindTally) -> f64| of.runs.iter().map(|run| figure(run.tally.of(kind))).collect::<Vec<_>>();
    let at = |per_mille: u64| each(&|of| micros(of.latencies.at_per_mille(per_mille)));
    let case = match kind {
        Kind::Delivery => "Delivery, from its queueing".to_owned(),
        kind => kind.name().to_owned(),
    };
    let counts: Vec<f64> = of.runs.iter().map(|run| per_s(run.tally.of(kind).latencies.count(), run.ns)).collect();
    let row = Row::new(of.target.name(), case, of.target.level(), of.target.ring())
        .runs("txn_per_s", &counts)
        .runs("p50_us", &at(500))
        .runs("p90_us", &at(900))
        .runs("p99_us", &at(990))
        .runs("max_us", &each(&|of| micros(of.latencies.max_ns())))
        .runs("conflicts", &each(&|of| float(of.conflicts)))
        .runs("deadlocks", &each(&|of| float(of.deadlocks)));
    let row = if kind == Kind::NewOrder { row.runs("rolled_back", &each(&|of| float(of.rolled_back))) } else { row };
    // Clauses 2.7.2.2 and 5.2.5.3: the response times that terminals require.
    let (within_s, text) = match kind {
        Kind::Delivery => (80.0, "p90 <= 80 s"),
        Kind::StockLevel => (20.0, "p90 <= 20 s"),
        _ => (5.0, "p90 <= 5 s"),
    };
    let terminals = settings.pacing == Pacing::Terminals && !settings.small;
    if terminals { row.target(text, crate::measures::median(&at(900)) <= within_s * 1e6) } else { row }
}

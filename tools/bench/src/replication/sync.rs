//! What does a replica cost, and what does waiting for it cost? Small writes at each level of `synchronous_commit`:
//! without a replica, with one for which no commit waits, and with one for which commits wait.

use super::PairSettings;
use super::floors::Floors;
use super::pair::{Pair, Waiting, collie, peer};
use super::small::{prepare, write_rows};
use crate::closed_loop::Answered;
use crate::measures::{median, micros, per_s};
use crate::report::{Row, Section};
use crate::txn::counted;

/// A level with and without a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    level: &'static str,
    /// Whether a replica follows.
    follows: bool,
    /// Whether commits may wait for it.
    waited_for: bool,
}

const fn case(level: &'static str, follows: bool, waited_for: bool) -> Case {
    Case { level, follows, waited_for }
}

/// In this order, so that the replica is stopped once per run.
const CASES: [Case; 7] = [
    case("off", false, false),
    case("local", false, false),
    case("off", true, false),
    case("local", true, false),
    case("remote_write", true, true),
    case("on", true, true),
    case("remote_apply", true, true),
];

/// The baseline of the rates: durable, without a replica.
pub(super) const ALONE: &str = "local, no replica";

/// The number of clients to which targets apply.
const TARGET_CLIENTS: u32 = 32;

impl Case {
    fn name(self) -> String {
        let replica = match (self.follows, self.waited_for) {
            (false, _) => "no replica",
            (true, false) => "a replica, not waited for",
            (true, true) => "a replica, waited for",
        };
        format!("{}, {replica}", self.level)
    }

    /// Returns the lower bound of its latency: one flush, or one on each side in sequence and a round trip.
    fn floor(self, floors: &Floors) -> Option<(&'static str, f64)> {
        match self.level {
            "off" | "remote_write" => None,
            "local" => Some(("p50: a flush", floors.commit_us(false))),
            _ => Some(("p50: two flushes and a round trip", floors.commit_us(true))),
        }
    }

    /// Returns its target, relative to the rate of a durable commit without a replica.
    fn target(self) -> Option<(f64, &'static str)> {
        match (self.level, self.waited_for) {
            ("local", false) if self.follows => Some((0.9, ">= 90 % of no replica")),
            ("remote_apply", true) => Some((0.8, ">= 80 % of no replica")),
            _ => None,
        }
    }
}

/// The pairs of one product.
struct Product {
    /// No commit waits for its replica.
    plain: Pair,
    /// Commits may wait for its replica; `None` if there is no such pair.
    waiting: Option<Pair>,
    /// By clients, case and run.
    all: Vec<Vec<Vec<Answered>>>,
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "sync",
        format!(
            "what does a replica cost, and what does waiting for it? (one row by its key a commit, rows of their own, {} s a run)",
            settings.time.as_secs_f64()
        ),
    );
    let mut floors = Floors::new(&settings.plan)?;
    let mut products = products(settings, &mut section)?;
    for product in &mut products {
        let most = settings.small_clients.iter().copied().max().unwrap_or(1);
        for pair in [Some(&product.plain), product.waiting.as_ref()].into_iter().flatten() {
            prepare(pair, most)?;
            pair.until_even(settings)?;
        }
        product.all = settings.small_clients.iter().map(|_| CASES.iter().map(|_| Vec::new()).collect()).collect();
    }
    for run in 0..settings.runs {
        floors.slice(&settings.plan, settings.time / 4)?;
        for product in &mut products {
            one_run(product, settings, run)?;
        }
    }
    for product in &products {
        for pair in [Some(&product.plain), product.waiting.as_ref()].into_iter().flatten() {
            compare(pair, settings)?;
        }
    }
    section.notes.push("afterwards every row was the same on primary and replica".to_owned());
    floors.rows(&mut section);
    for product in &products {
        rows(product, settings, &floors, &mut section);
    }
    Ok(section)
}

fn products(settings: &PairSettings, section: &mut Section) -> anyhow::Result<Vec<Product>> {
    let mut products = Vec::new();
    let plain = collie(settings, Waiting::No)?;
    let waiting = collie(settings, Waiting::Yes);
    let waiting = waiting
        .inspect_err(|error| section.notes.push(format!("no rows of Collie where a replica is waited for: {error:#}")))
        .ok();
    products.push(Product { plain, waiting, all: Vec::new() });
    if settings.peer {
        let both = peer(settings, Waiting::No).and_then(|plain| Ok((plain, peer(settings, Waiting::Yes)?)));
        match both {
            Ok((plain, waiting)) => products.push(Product { plain, waiting: Some(waiting), all: Vec::new() }),
            Err(error) => section.notes.push(format!("no rows of PostgreSQL: {error:#}")),
        }
    }
    Ok(products)
}

/// Runs every case once with each number of clients.
fn one_run(product: &mut Product, settings: &PairSettings, run: u32) -> anyhow::Result<()> {
    product.plain.stop_replica()?;
    for (at, case) in CASES.iter().enumerate() {
        if case.follows && product.plain.is_alone() {
            product.plain.start_replica(settings)?;
            product.plain.until_even(settings)?;
        }
        let pair = if case.waited_for { product.waiting.as_ref() } else { Some(&product.plain) };
        let Some(pair) = pair else { continue };
        for (clients, all) in settings.small_clients.iter().zip(&mut product.all) {
            let name = case.name();
            settings.plan.say(&format!("{}: {name}, {clients} clients, run {}", pair.name(), run + 1));
            all[at].push(write_rows(pair, settings, *clients, case.level)?);
        }
    }
    Ok(())
}

/// Checks that both have the same rows.
fn compare(pair: &Pair, settings: &PairSettings) -> anyhow::Result<()> {
    pair.until_even(settings)?;
    let rows = |mut client: postgres::Client| -> anyhow::Result<Vec<(i32, i64)>> {
        let rows = client.query("SELECT id, n FROM small ORDER BY id", &[])?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    };
    let same = rows(pair.connect()?)? == rows(pair.connect_replica()?)?;
    anyhow::ensure!(same, "{}: the replica's rows are not the primary's", pair.name());
    Ok(())
}

fn rows(product: &Product, settings: &PairSettings, floors: &Floors, section: &mut Section) {
    for (clients, all) in settings.small_clients.iter().zip(&product.all) {
        let rates = |at: usize| all[at].iter().map(|of| per_s(of.latencies.count(), of.ns)).collect::<Vec<_>>();
        // The durable rate without a replica.
        let alone = CASES.iter().position(|of| *of == case("local", false, false)).map(rates);
        let alone = alone.filter(|rates| !rates.is_empty()).map(|rates| median(&rates));
        for (at, of) in CASES.iter().enumerate().filter(|(at, _)| !all[*at].is_empty()) {
            let p =
                |per_mille| all[at].iter().map(|of| micros(of.latencies.at_per_mille(per_mille))).collect::<Vec<_>>();
            let case = format!("{}, {}", of.name(), counted(*clients as usize, "client"));
            let mut row = Row::new(product.plain.name(), case, of.level, product.plain.ring())
                .at((*clients).into())
                .runs("commits_per_s", &rates(at))
                .runs("p50_us", &p(500))
                .runs("p99_us", &p(990));
            if let Some((what, floor_us)) = of.floor(floors).filter(|(_, floor_us)| *floor_us > 0.0) {
                row = row.beside(what, median(&p(500)) / floor_us);
            }
            if let Some(alone) = alone.filter(|alone| *alone > 0.0 && (of.follows || of.level == "off")) {
                let ratio = median(&rates(at)) / alone;
                row = row.beside(ALONE, ratio);
                let asked = of.target().filter(|_| *clients == TARGET_CLIENTS && !product.plain.is_peer());
                if let Some((least, text)) = asked {
                    row = row.target(text, ratio >= least);
                }
            }
            section.rows.push(row);
        }
    }
}

//! How long does a failover take, and what does it lose? The primary is killed under load, its replica is promoted and
//! written to, and the old primary is brought back as a replica of the new one. This is repeated, and the two change
//! places each time.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;

use super::PairSettings;
use super::floors::Floors;
use super::pair::{Pair, Waiting, collie, peer};
use super::small::prepare;
use crate::measures::float;
use crate::report::{Figure, Row, Section};

/// The number of writers; each has its own row, which counts its commits.
pub(crate) const WRITERS: u32 = 8;
/// The row that is written first after a promotion.
const FIRST: i32 = WRITERS.cast_signed() + 1;
/// How long the writers run before each kill.
const LOAD: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two attempts at the first write.
const AGAIN: Duration = Duration::from_millis(5);
/// How long to wait after a failure for the servers' output.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Target.
const WITHIN_S: f64 = 3.0;

/// The result of one cycle.
pub(crate) struct FailedOver {
    /// The seconds from the kill to the end of the promotion, from the kill to the first write, and from the start of
    /// the return until both have caught up.
    promoted_s: f64,
    written_s: f64,
    rejoined_s: f64,
    pub(crate) acknowledged: i64,
    pub(crate) lost: i64,
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "failover",
        format!(
            "how long does a failover take, and what does it lose? ({} cycles: kill the primary under {WRITERS} writers at \
             synchronous_commit = on, promote, write, bring the old one back)",
            settings.cycles
        ),
    );
    let mut floors = Floors::new(&settings.plan)?;
    floors.slice(&settings.plan, settings.time / 4)?;
    let mut pairs = vec![collie(settings, Waiting::Yes)?];
    if settings.peer {
        match peer(settings, Waiting::Yes) {
            Ok(pair) => pairs.push(pair),
            Err(error) => section.notes.push(format!("no rows of PostgreSQL: {error:#}")),
        }
    }
    let mut all = Vec::new();
    for pair in &mut pairs {
        prepare(pair, WRITERS + 1)?;
        pair.until_even(settings)?;
        let mut cycles = Vec::new();
        for cycle in 0..settings.cycles {
            settings.plan.say(&format!("{}: failover {} of {}", pair.name(), cycle + 1, settings.cycles));
            let done = cycle_of(pair, settings);
            // The servers' output is lost when this returns, so a server that is about to print gets time for it.
            let words = || {
                std::thread::sleep(LAST_WORDS);
                format!("failover {} of {}: {}", cycle + 1, pair.name(), pair.words())
            };
            cycles.push(done.with_context(words)?);
        }
        all.push(cycles);
    }
    floors.slice(&settings.plan, settings.time / 4)?;
    floors.rows(&mut section);
    for (pair, cycles) in pairs.iter().zip(&all) {
        section.rows.push(row(pair, cycles));
    }
    Ok(section)
}

/// Kills the primary under writers, promotes its replica, writes there, and brings the old primary back until it has
/// caught up. The rows of [`prepare`] for [`WRITERS`] and one more must exist.
///
/// # Errors
/// Those of the driver and the operating system; no write succeeds within a minute.
pub(crate) fn cycle_of(pair: &mut Pair, settings: &PairSettings) -> anyhow::Result<FailedOver> {
    let clock = &settings.plan.env.clock;
    let stop = AtomicBool::new(false);
    let rows = pair.connect()?.query("SELECT n FROM small WHERE id < $1 ORDER BY id", &[&FIRST])?;
    let acknowledged: Vec<AtomicI64> = rows.iter().map(|row| AtomicI64::new(row.get(0))).collect();
    let sum = || acknowledged.iter().map(|of| of.load(Relaxed)).sum::<i64>();
    let before = sum();
    let config = pair.primary_config();
    let killed_ns = std::thread::scope(|scope| -> anyhow::Result<u64> {
        for (id, acknowledged) in (1..).zip(&acknowledged) {
            let (config, stop) = (config.clone(), &stop);
            scope.spawn(move || {
                // The writer ends when the server does; an unanswered commit does not count.
                let _gone = write_until_gone(&config, id, acknowledged, stop);
            });
        }
        std::thread::sleep(LOAD);
        let killed_ns = clock.now_ns();
        let killed = pair.kill_primary();
        stop.store(true, Relaxed);
        killed.map(|()| killed_ns)
    })?;
    pair.promote()?;
    let promoted_s = float(clock.now_ns() - killed_ns) / 1e9;
    let written_ns = loop {
        // The new primary has no replica yet for which a commit could wait.
        let written = pair.connect().and_then(|mut session| {
            session.batch_execute("SET synchronous_commit = local")?;
            Ok(session.execute("UPDATE small SET n = n + 1 WHERE id = $1", &[&FIRST])?)
        });
        let now = clock.now_ns();
        match written {
            Ok(1) => break now,
            Ok(count) => anyhow::bail!("{count} rows were written in place of one"),
            Err(error) if u128::from(now - killed_ns) > PATIENCE.as_nanos() => return Err(error),
            Err(_) => std::thread::sleep(AGAIN),
        }
    };
    let rows = pair.connect()?.query("SELECT id, n FROM small WHERE id < $1", &[&FIRST])?;
    let mut lost = 0;
    for row in &rows {
        let (id, found): (i32, i64) = (row.get(0), row.get(1));
        let answered = acknowledged[usize::try_from(id - 1)?].load(Relaxed);
        lost += (answered - found).max(0);
    }
    let rejoining_ns = clock.now_ns();
    pair.rejoin(settings)?;
    pair.until_even(settings)?;
    let rejoined_s = float(clock.now_ns() - rejoining_ns) / 1e9;
    Ok(FailedOver {
        promoted_s,
        written_s: float(written_ns - killed_ns) / 1e9,
        rejoined_s,
        acknowledged: sum() - before,
        lost,
    })
}

/// Increments a row repeatedly, and notes the acknowledged values.
fn write_until_gone(
    config: &postgres::Config,
    id: i32,
    acknowledged: &AtomicI64,
    stop: &AtomicBool,
) -> Result<(), postgres::Error> {
    let mut session = config.connect(postgres::NoTls)?;
    session.batch_execute("SET synchronous_commit = on")?;
    let write = session.prepare("UPDATE small SET n = n + 1 WHERE id = $1 RETURNING n")?;
    while !stop.load(Relaxed) {
        acknowledged.store(session.query_one(&write, &[&id])?.get(0), Relaxed);
    }
    Ok(())
}

fn row(pair: &Pair, cycles: &[FailedOver]) -> Row {
    let count =
        |figure: &dyn Fn(&FailedOver) -> i64| Figure::Count(cycles.iter().map(figure).sum::<i64>().unsigned_abs());
    let row = Row::new(pair.name(), format!("{} cycles", cycles.len()), "on", pair.ring())
        .each("promoted_s", cycles, |of| of.promoted_s)
        .each("written_s", cycles, |of| of.written_s)
        .each("rejoined_s", cycles, |of| of.rejoined_s)
        .figure("acknowledged_commits", count(&|of| of.acknowledged))
        .figure("lost_commits", count(&|of| of.lost));
    if pair.is_peer() {
        return row;
    }
    let longest = cycles.iter().map(|of| of.written_s).fold(0.0, f64::max);
    row.target("first write within 3 s, every time", longest <= WITHIN_S)
        .target("no acknowledged commit lost", cycles.iter().all(|of| of.lost == 0))
}

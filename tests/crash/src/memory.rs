//! `memory`: statements and sessions that ask for more memory than a control group has, one kind after the other and
//! many at once.
//!
//! Statements have the server's default limit, a share of the group's limit. Rows may have [`ROWS_SHARE`] of it, half
//! of the default: rows of 500 bytes that one transaction inserts take some 1.6 bytes of memory for each byte that is
//! counted, so the default's 60 % and the fifth for statements would be more than there is.
//!
//! # Oracles
//! - M1. The server lives: the process is the same, and has not panicked.
//! - M2. Each bomb succeeds, or is refused with an SQLSTATE of class 53 or 54; its session goes on.
//! - M3. A client that reads single rows meanwhile is never refused, and sees what was committed.
//! - M4. No row is damaged, also after the next start.
//! - M5. Once all bombs are over, memory use returns to near its level before. The rest is memory that the program
//!   keeps using, and the allocator's records about the pages of its peak memory: 2.7 % of memory in blocks of 32
//!   bytes, which it never returns but reuses. Neither grows with the number of rounds.

mod bombs;
mod cgroup;
mod reader;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use collie_env::{Clock as _, RealClock};
use postgres::{Client, Config, NoTls};

use crate::{
    random::Random,
    report::{Figures, Report},
    server::Server,
};
use bombs::{ALL, Bomb, End, Size};
use cgroup::Cgroup;
use reader::Reader;

/// The arguments of the command.
pub(crate) struct Plan {
    /// Each round explodes every bomb once, in its own order.
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// The limit of the control group.
    pub(crate) limit_mib: u64,
    /// The number of bombs at one time, in every second round.
    pub(crate) at_once: u64,
    /// The largest number of bombs in a round.
    pub(crate) bombs: usize,
    /// Only bombs with this in their name.
    pub(crate) only: Option<String>,
    pub(crate) server: PathBuf,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, seed, limit_mib, at_once, bombs, only, server } = self;
        let server = server.display();
        write!(
            f,
            "memory --rounds {rounds} --seed {seed} --limit-mib {limit_mib} --at-once {at_once} --bombs {bombs} --server {server}"
        )?;
        only.iter().try_for_each(|only| write!(f, " --only '{only}'"))
    }
}

/// The percentage of the group's limit that rows may have.
const ROWS_SHARE: u64 = 30;
/// Bytes that the process keeps after their first use: thread stacks, plan caches, indexes of empty tables.
const KEPT_BYTES: u64 = 48 << 20;
/// The allocator keeps one byte for this many bytes of the peak memory, for its records of pages.
const KEPT_SHARE: u64 = 32;
/// How long memory may take to come back: the allocator keeps freed memory for ten seconds.
const PATIENCE_NS: u64 = 120_000_000_000;

/// The outcomes of the bombs.
#[derive(Default)]
struct Counts {
    done: u64,
    refused: u64,
    unknown: Vec<&'static str>,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let limit_bytes = plan.limit_mib << 20;
    let group = match Cgroup::make(limit_bytes) {
        Ok(group) => group,
        Err(why) => return Ok(format!("memory: skipped: no control group can be made ({why})").into()),
    };
    let dir = tempfile::Builder::new().prefix("collie-memory-").tempdir()?;
    let outcome = explode_all(plan, &group, dir.path());
    if outcome.is_err() {
        let kept = dir.keep();
        return outcome.with_context(|| format!("data and what the server said are kept in {}", kept.display()));
    }
    outcome
}

fn explode_all(plan: &Plan, group: &Cgroup, dir: &Path) -> anyhow::Result<Report> {
    let (data, said) = (dir.join("data"), dir.join("said"));
    let rows = format!("store.memory_limit={}MiB", plan.limit_mib * ROWS_SHARE / 100);
    let settings = ["wal.ring=private".to_owned(), rows];
    let (program, arguments) = group.enter(&plan.server);
    let mut server = Server::start_logged(&program, &arguments, &data, &settings, &said)?;
    let mut client = server.connect()?;
    reader::create(&mut client)?;
    client.batch_execute("CREATE TABLE bombed (n int, s text)")?;
    let (mut counts, mut random) = (Counts::default(), Random::new(plan.seed));
    let reader = Reader::start(server.config(), random.next());
    let before = group.used()?;
    for round in 0..plan.rounds {
        let mut left: Vec<&Bomb> = ALL.iter().filter(|bomb| is_wanted(plan, bomb)).collect();
        for _ in 0..plan.bombs.min(left.len()) {
            let bomb = left.swap_remove(usize::try_from(random.below(left.len() as u64))?);
            let at_once = if round % 2 == 0 { 1 } else { plan.at_once };
            let outcome = explode(bomb, at_once, &server.config(), plan.limit_mib << 20, &mut counts);
            // M1 is checked first, since the other failures follow from it.
            ensure!(
                !server.has_ended(),
                "M1: {}, {at_once} at once, ended the server: {}",
                bomb.name,
                last_line(&said)?
            );
            outcome?;
            reader::verify(&mut client).with_context(|| format!("M4: after {}", bomb.name))?;
            client.batch_execute("TRUNCATE bombed").with_context(|| format!("after {}", bomb.name))?;
        }
    }
    let reads = reader.reads();
    reader.stop().context("M3")?;
    // Nothing but the idle server is left, so its memory can be compared with that before the bombs.
    let after = comes_back(group, before + KEPT_BYTES + (plan.limit_mib << 20) / KEPT_SHARE).context("M5")?;
    ensure!(!fs::read_to_string(&said)?.contains("panicked at"), "M1: a panic, see {}", said.display());
    drop(client);
    server.stop()?;
    let server = Server::start_logged(&program, &arguments, &data, &settings, &said).context("the next start")?;
    reader::verify(&mut server.connect()?).context("M4: after the next start")?;
    let unknown =
        if counts.unknown.is_empty() { String::new() } else { format!(" (not known: {})", counts.unknown.join(", ")) };
    let words = format!(
        "memory: {} MiB, {} bombs refused and {} that went well{unknown}, {reads} reads meanwhile; {} MiB before, {} after: all oracles hold",
        plan.limit_mib,
        counts.refused,
        counts.done,
        before >> 20,
        after >> 20
    );
    Ok(Report::new(words, Figures { cycles: plan.rounds, ..Figures::default() }))
}

fn is_wanted(plan: &Plan, bomb: &Bomb) -> bool {
    plan.only.as_ref().is_none_or(|only| bomb.name.contains(only.as_str()))
}

/// Explodes a bomb on `at_once` connections at one time, and checks M2.
fn explode(
    bomb: &'static Bomb,
    at_once: u64,
    config: &Config,
    limit_bytes: u64,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let all: Vec<_> = (0..at_once)
        .map(|_| {
            let config = config.clone();
            thread::spawn(move || {
                let mut client = config.connect(NoTls).context("cannot connect")?;
                let end = bomb.explode(&mut client, &Size::of(limit_bytes))?;
                goes_on(&mut client).with_context(|| format!("the session after {}", bomb.name))?;
                anyhow::Ok(end)
            })
        })
        .collect();
    let ends: Vec<_> = all
        .into_iter()
        .map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
        .collect::<Result<_, _>>()
        .context("M2")?;
    for end in ends {
        match end {
            End::Done => counts.done += 1,
            End::Refused => counts.refused += 1,
            End::Unknown if counts.unknown.contains(&bomb.name) => {}
            End::Unknown => counts.unknown.push(bomb.name),
        }
    }
    Ok(())
}

fn goes_on(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute("ROLLBACK; SELECT pg_advisory_unlock_all()")?;
    ensure!(client.query_one("SELECT 1", &[])?.get::<_, i32>(0) == 1);
    Ok(())
}

/// Waits until at most `allowed_bytes` of memory are used.
fn comes_back(group: &Cgroup, allowed_bytes: u64) -> anyhow::Result<u64> {
    let start_ns = RealClock.now_ns();
    loop {
        let used = group.used()?;
        if used <= allowed_bytes {
            return Ok(used);
        }
        if RealClock.now_ns() - start_ns > PATIENCE_NS {
            bail!("{} MiB long after the bombs, where {} are allowed", used >> 20, allowed_bytes >> 20);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn last_line(said: &Path) -> anyhow::Result<String> {
    Ok(fs::read_to_string(said)?.lines().last().unwrap_or("it said nothing").to_owned())
}

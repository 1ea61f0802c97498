//! How much does a snapshot cost: alone, on many threads, and with many idle sessions?
//!
//! Measures the cost for a statement: its begin registers the session and loads the boundary, its end releases it.
//! Both for a statement that cannot write (it uses the quorum-durable boundary) and for one that may (it uses the
//! boundary itself).

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    time::Duration,
};

use collie_engine::{Isolation, Session, StatementKind};
use collie_sync::Padded;

use super::{
    ENGINE, count_of, counted,
    embedded::{Embedded, update_alone},
};
use crate::together::{cost_ns, lasting, together};
use crate::{
    Pace, Plan, Section,
    measures::{RING, median},
    report::{Figure, Row},
    thread_time::ThreadTime,
};

const THREADS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const IDLE_SESSIONS: u64 = 10_000;
/// Statements of one burst, which takes at most a millisecond.
const BURST: u64 = 20_000;
const TIME: Duration = Duration::from_millis(150);
const COMMIT_TIME: Duration = Duration::from_millis(400);
const NEVER: &str = "a disk that keeps nothing never fails";

/// Returns the cost of one snapshot on `threads` threads in parallel.
fn run_once(plan: &Plan, db: &Embedded, threads: usize, kind: StatementKind) -> anyhow::Result<f64> {
    let worker = |mut session: Session| {
        session.begin(Isolation::ReadCommitted, false)?;
        Ok(move || {
            for _ in 0..BURST {
                session.begin_statement(kind).expect(NEVER);
                session.end_statement();
            }
        })
    };
    let workers = (0..threads).map(|_| worker(db.db.session()?)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(cost_ns(plan, workers, BURST, TIME))
}

/// Returns the minimum cost of a registered snapshot: announce, fence, load the boundary, publish it, release.
fn floor_once(plan: &Plan) -> f64 {
    let (own, boundary) = (Padded::new(AtomicU64::new(u64::MAX)), Padded::new(AtomicU64::new(4096)));
    let work = || {
        for _ in 0..BURST {
            own.store(0, Relaxed);
            fence(SeqCst);
            own.store(boundary.load(Acquire), Release);
            own.store(u64::MAX, Release);
        }
    };
    cost_ns(plan, vec![work], BURST, TIME)
}

/// Returns commits per second of one thread.
fn commits_once(plan: &Plan, db: &Embedded) -> anyhow::Result<f64> {
    let mut session = db.db.session()?;
    let family = &db.family;
    let work = move || update_alone(&mut session, family, 0);
    let (load, _) = together(plan, vec![work], lasting(plan, COMMIT_TIME))?;
    Ok(load.rate())
}

/// Measures snapshots on many threads, then with idle sessions.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "snapshot",
        "what does a statement pay for its snapshot? (processor time of begin and end; floor: the stores, the fence and the load)",
    );
    let db = Embedded::in_memory()?;
    db.fill(1)?;
    let floors: Vec<f64> = (0..plan.runs()).map(|_| floor_once(plan)).collect();
    section
        .rows
        .push(Row::new("announce, fence, load (floor)", "1 thread", "none", "none").runs("snapshot_ns", &floors));
    let mut alone = None;
    for threads in THREADS {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for run in 0..plan.runs() {
            plan.say(&format!("snapshot: {}, run {}", counted(threads, "thread"), run + 1));
            reads.push(run_once(plan, &db, threads, StatementKind::ReadOnly)?);
            writes.push(run_once(plan, &db, threads, StatementKind::Write)?);
        }
        let mut row = Row::new(ENGINE, counted(threads, "thread"), "memory", RING)
            .at(count_of(threads))
            .runs("snapshot_ns", &reads)
            .runs("snapshot_to_write_ns", &writes);
        let alone = *alone.get_or_insert(median(&reads));
        let ratio = median(&reads) / alone;
        row = match threads {
            1 => row.beside("floor", alone / median(&floors)).target("<= 10 ns", alone <= 10.0),
            16 => row.beside("1 thread", ratio).target("<= 1.2x 1 thread", ratio <= 1.2),
            _ => row.beside("1 thread", ratio),
        };
        section.rows.push(row);
    }
    section.rows.extend(idle(plan)?);
    if ThreadTime::new().is_elapsed() {
        section
            .notes
            .push("processor time cannot be had here: elapsed time, with that of other threads in it".to_owned());
    }
    section.notes.push("commits: of one thread, one row each, not waiting for the disk".to_owned());
    Ok(section)
}

/// Measures one thread with and without idle sessions, in turn.
fn idle(plan: &Plan) -> anyhow::Result<[Row; 2]> {
    let (quiet, crowded) = (Embedded::in_memory()?, Embedded::in_memory()?);
    quiet.fill(1)?;
    crowded.fill(1)?;
    let count = if plan.pace == Pace::Touch { IDLE_SESSIONS / 100 } else { IDLE_SESSIONS };
    let _sessions = (0..count).map(|_| crowded.db.session()).collect::<Result<Vec<_>, _>>()?;
    let mut costs = [Vec::new(), Vec::new()];
    let mut rates = [Vec::new(), Vec::new()];
    for run in 0..plan.runs() {
        plan.say(&format!("snapshot: beside idle sessions, run {}", run + 1));
        for (at, db) in [&quiet, &crowded].into_iter().enumerate() {
            costs[at].push(run_once(plan, db, 1, StatementKind::ReadOnly)?);
            rates[at].push(commits_once(plan, db)?);
        }
    }
    let row = |at: usize, case: String| {
        Row::new(ENGINE, case, "memory", RING).runs("snapshot_ns", &costs[at]).runs("commits_per_s", &rates[at])
    };
    let ratio = median(&costs[1]) / median(&costs[0]);
    let slower = median(&rates[0]) / median(&rates[1]);
    let crowded = row(1, format!("1 thread, {count} idle sessions"))
        .figure("idle_sessions", Figure::Count(count))
        .beside("no idle sessions", ratio)
        .beside("no idle sessions, time of a commit", slower)
        .target("< 2 % change", (ratio - 1.0).abs() < 0.02);
    Ok([row(0, "1 thread, no idle sessions".to_owned()), crowded])
}

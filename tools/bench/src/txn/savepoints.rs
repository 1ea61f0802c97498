//! How much do savepoints cost? Sixty-four sessions write a thousand rows each in a transaction, with a savepoint
//! before every row or with none, while a reader holds a snapshot that is older than all of them. In the engine, and
//! over the wire compared with PostgreSQL, which looks up the parents of sub-transactions once there are more than 64
//! of them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use collie_engine::{Isolation, Session, StatementKind};

use super::{
    ENGINE,
    embedded::{Embedded, begin, key, update},
    wire,
};
use crate::together::{lasting, together};
use crate::{
    Pace, Plan, Section,
    measures::{RING, float, median, per_s},
    report::Row,
    servers::{Length, Load, PEER, Script, Server, Servers, in_turn, pgbench},
};

const SESSIONS: u64 = 64;
const SAVEPOINTS: u64 = 1_000;
const TIME: Duration = Duration::from_millis(1500);
/// The number of rows that the reader reads before it pauses.
const READ_ROWS: u64 = 100;
const READ_PAUSE: Duration = Duration::from_millis(10);
/// Without and with savepoints; the first is the baseline.
const CASES: [&str; 2] = ["no savepoints", "1,000 savepoints a transaction"];

/// The results of one run.
struct Rates {
    updates: f64,
    reads: f64,
}

/// Returns the numbers of sessions and rows at this pace.
fn sizes(plan: &Plan) -> (u64, u64) {
    if plan.pace == Pace::Touch { (4, 50) } else { (SESSIONS, SAVEPOINTS) }
}

/// Reads rows with one old snapshot until `stop` is set; returns the reads per second.
fn read(plan: &Plan, db: &Embedded, stop: &AtomicBool) -> anyhow::Result<f64> {
    let mut session = db.db.session()?;
    session.begin(Isolation::RepeatableRead, true)?;
    session.begin_statement(StatementKind::ReadOnly)?;
    let (sessions, rows) = sizes(plan);
    let (begun, mut count) = (plan.now_ns(), 0);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..READ_ROWS {
            let number = (count * 7919) % (sessions * rows);
            anyhow::ensure!(session.get_with(&db.family, &key(number), |_| ())?.is_some(), "row {number} is there");
            count += 1;
        }
        std::thread::sleep(READ_PAUSE);
    }
    Ok(per_s(count, plan.now_ns() - begun))
}

/// Lets all sessions write for a while in parallel with the reader.
fn run_once(plan: &Plan, db: &Embedded, with_savepoints: bool) -> anyhow::Result<Rates> {
    let (sessions, rows) = sizes(plan);
    let worker = |number: u64, mut session: Session| {
        move || {
            begin(&mut session, Isolation::ReadCommitted)?;
            for row in 0..rows {
                if with_savepoints {
                    std::hint::black_box(session.savepoint());
                }
                update(&mut session, &db.family, number * rows + row)?;
            }
            session.commit(false)?.block()?;
            Ok(())
        }
    };
    let opened = (0..sessions).map(|_| db.db.session()).collect::<Result<Vec<_>, _>>()?;
    let workers = (0..).zip(opened).map(|(number, session)| worker(number, session)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(plan, db, &stop));
        let load = together(plan, workers, lasting(plan, TIME));
        stop.store(true, Ordering::Relaxed);
        let reads = reader.join().expect("the reader returns its error")?;
        Ok(Rates { updates: load?.0.rate() * float(rows), reads })
    })
}

/// Returns the script of one transaction, sent as one message, so that both cases have the same cost of the wire.
fn script(plan: &Plan, with_savepoints: bool) -> String {
    let mut text = "BEGIN".to_owned();
    for row in 0..sizes(plan).1 {
        if with_savepoints {
            text.push_str(" \\; SAVEPOINT s");
        }
        text.push_str(&format!(" \\; UPDATE stairs SET n = n + 1 WHERE client = :client_id AND stair = {row}"));
    }
    text + " \\; COMMIT;\n"
}

/// Runs one case over the wire, in parallel with a session that reads with one old snapshot.
fn wire_once(plan: &Plan, server: &Server, with_savepoints: bool) -> anyhow::Result<Rates> {
    let (sessions, rows) = sizes(plan);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> anyhow::Result<f64> {
            let mut client = server.connect()?;
            let mut t = client.build_transaction().isolation_level(postgres::IsolationLevel::RepeatableRead).start()?;
            let (begun, mut count) = (plan.now_ns(), 0);
            while !stop.load(Ordering::Relaxed) {
                t.query("SELECT sum(n) FROM stairs WHERE client = 0 AND stair < 100", &[])?;
                count += READ_ROWS;
                std::thread::sleep(READ_PAUSE);
            }
            Ok(per_s(count, plan.now_ns() - begun))
        });
        let text = script(plan, with_savepoints);
        let done = pgbench(
            plan,
            server,
            &Load {
                script: Script::Text(&text),
                clients: usize::try_from(sessions)?,
                // One per client; a time limit could be over before the first one ends.
                length: Length::Transactions(1),
                protocol: "simple",
                settings: "-c synchronous_commit=off",
            },
        );
        stop.store(true, Ordering::Relaxed);
        let reads = reader.join().expect("the reader returns its error")?;
        Ok(Rates { updates: done?.tps * float(rows), reads })
    })
}

/// Returns the two rows of a subject, without and with savepoints.
fn rows(plan: &Plan, subject: &str, ring: &str, cases: &[Vec<Rates>]) -> [Row; 2] {
    let of = |case: usize, figure: fn(&Rates) -> f64| cases[case].iter().map(figure).collect::<Vec<_>>();
    let row = |case: usize| {
        Row::new(subject, format!("{} sessions, {}", sizes(plan).0, CASES[case]), "memory", ring)
            .runs("updates_per_s", &of(case, |rates| rates.updates))
            .runs("old_reads_per_s", &of(case, |rates| rates.reads))
    };
    [row(0), row(1).beside(CASES[0], ratio(cases))]
}

fn ratio(cases: &[Vec<Rates>]) -> f64 {
    let updates = |case: usize| median(&cases[case].iter().map(|rates| rates.updates).collect::<Vec<_>>());
    updates(1) / updates(0)
}

/// Measures the engine, then both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "savepoints",
        "what do savepoints cost? (64 sessions, 1,000 rows a transaction, beside a reader with a snapshot older than all)",
    );
    let (sessions, count) = sizes(plan);
    let db = Embedded::in_memory()?;
    db.fill(sessions * count)?;
    let mut cases = vec![Vec::new(), Vec::new()];
    for run in 0..plan.runs() {
        for (case, name) in CASES.into_iter().enumerate() {
            plan.say(&format!("savepoints: {name}, run {}", run + 1));
            cases[case].push(run_once(plan, &db, case == 1)?);
        }
    }
    let kept = ratio(&cases);
    let [without, with] = rows(plan, ENGINE, RING, &cases);
    section.rows.extend([without, with.target(">= 0.95x without", kept >= 0.95)]);
    let servers = Servers::start(plan, &mut section)?;
    for server in &servers.running {
        server.connect()?.batch_execute(&format!(
            "CREATE TABLE stairs (client int, stair int, n int NOT NULL, PRIMARY KEY (client, stair));\
             INSERT INTO stairs SELECT c, r, 0 FROM generate_series(0, {}) c, generate_series(0, {}) r",
            sessions - 1,
            count - 1
        ))?;
    }
    let all = in_turn(plan, &servers, CASES.len(), |server, case| {
        plan.say(&format!("savepoints: {}, {}", server.name(), CASES[case]));
        wire_once(plan, server, case == 1)
    })?;
    let peer = servers.peer().map(|at| ratio(&all[at]));
    for (server, cases) in servers.running.iter().zip(&all) {
        let [without, with] = rows(plan, server.name(), server.ring(), cases);
        let beside = server.by_peer(ratio(cases), peer);
        let with = match beside {
            Some(beside) => with.beside(format!("{PEER}, share of the speed that stays"), beside),
            None => with,
        };
        section.rows.extend([without, with]);
    }
    if !servers.running.is_empty() {
        section.notes.push(format!(
            "over the wire PostgreSQL has max_locks_per_transaction = 1024: by default it runs out of shared memory here; a transaction is one message, and the SAVEPOINT statements in it are parsed and run too; {} a run",
            wire::clients(usize::try_from(sessions)?)
        ));
    }
    Ok(section)
}

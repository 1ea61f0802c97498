//! How soon is a deadlock found? Measured from the request that closes the cycle to the error. Compared with
//! PostgreSQL, which looks once a session has waited for `deadlock_timeout`.

use std::time::Duration;

use collie_engine::{Basis, EngineError, Isolation, LockStrength, Outcome, Session, WaitFuture, Write};
use postgres::{Client, error::SqlState};

use super::{
    ENGINE, count_of, counted,
    embedded::{Embedded, begin, key, update},
};
use crate::{
    Plan, Section,
    measures::{RING, median, micros},
    report::Row,
    servers::{PEER, Server, Servers, in_turn},
};

/// Transactions in the cycle.
const SIZES: [usize; 3] = [2, 8, 64];
/// Cycles of one run.
const CYCLES: u64 = 200;
/// The time after which a cycle counts as not found.
const LIMIT: Duration = Duration::from_secs(5);
/// The time that the first of two clients has to begin its wait.
const SETTLE: Duration = Duration::from_millis(20);
const TABLE: &str = "CREATE TABLE pair (id int PRIMARY KEY, n int NOT NULL); INSERT INTO pair VALUES (1, 0), (2, 0)";

/// Requests a row that another transaction holds; returns the wait.
fn ask(session: &mut Session, db: &Embedded, number: u64) -> anyhow::Result<WaitFuture> {
    let lock = Write::Lock(LockStrength::Update);
    match session.write(&db.family, &key(number), Basis::Snapshot, lock)? {
        Outcome::Wait(blocker) => Ok(session.wait(blocker)),
        other => anyhow::bail!("row {number} is held: {other:?}"),
    }
}

/// Builds one cycle: each session holds its row and waits for the next one's. Returns the microseconds from the last
/// request to its refusal.
fn cycle_us(plan: &Plan, db: &Embedded, sessions: &mut [Session]) -> anyhow::Result<f64> {
    let count = u64::try_from(sessions.len())?;
    for (number, session) in (0..).zip(sessions.iter_mut()) {
        begin(session, Isolation::ReadCommitted)?;
        update(session, &db.family, number)?;
    }
    let Some((last, others)) = sessions.split_last_mut() else { anyhow::bail!("a cycle needs somebody") };
    let waits = (1..)
        .zip(others.iter_mut())
        .map(|(next, session)| ask(session, db, next))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let begun = plan.now_ns();
    let found = ask(last, db, 0)?.block(Some(LIMIT));
    let us = micros(plan.now_ns() - begun);
    anyhow::ensure!(matches!(found, Err(EngineError::Deadlock)), "a cycle of {count} was not found: {found:?}");
    drop(waits);
    sessions.iter_mut().for_each(Session::rollback);
    Ok(us)
}

/// Returns the time of the median cycle of a run.
fn run_once(plan: &Plan, db: &Embedded, sessions: &mut [Session]) -> anyhow::Result<f64> {
    let cycles =
        (0..plan.amount(CYCLES).max(3)).map(|_| cycle_us(plan, db, sessions)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(median(&cycles))
}

/// Lets two clients lock two rows crosswise; returns the microseconds from the request that closes the cycle to the
/// first error.
fn crosswise_us(plan: &Plan, server: &Server) -> anyhow::Result<f64> {
    let mut clients = [server.connect()?, server.connect()?];
    for (client, id) in clients.iter_mut().zip([1, 2]) {
        client.batch_execute(&format!("BEGIN; UPDATE pair SET n = n + 1 WHERE id = {id}"))?;
    }
    let [first, second] = clients;
    // Returns the time of the answer, and whether it was the refusal. Dropping the client ends its transaction.
    let cross = |mut client: Client, id: u32| -> anyhow::Result<(u64, bool)> {
        let answer = client.batch_execute(&format!("UPDATE pair SET n = n + 1 WHERE id = {id}"));
        let now = plan.now_ns();
        match answer {
            Ok(()) => Ok((now, false)),
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => Ok((now, true)),
            Err(error) => Err(error.into()),
        }
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cross(first, 2));
        std::thread::sleep(SETTLE);
        let begun = plan.now_ns();
        let (ours, refused) = cross(second, 1)?;
        let (theirs, theirs_refused) = waiting.join().expect("a client returns its error")?;
        anyhow::ensure!(refused != theirs_refused, "{}: one of the two is refused", server.name());
        Ok(micros((if refused { ours } else { theirs }).saturating_sub(begun)))
    })
}

/// Measures cycles in the engine, then two clients of each server.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "deadlock",
        "how soon is a deadlock found? (from the request that closes the cycle to its refusal)",
    );
    let db = Embedded::in_memory()?;
    db.fill(u64::try_from(SIZES[SIZES.len() - 1])?)?;
    for count in SIZES {
        let mut sessions = (0..count).map(|_| db.db.session()).collect::<Result<Vec<_>, _>>()?;
        let mut times = Vec::new();
        for run in 0..plan.runs() {
            plan.say(&format!("deadlock: cycle of {count}, run {}", run + 1));
            times.push(run_once(plan, &db, &mut sessions)?);
        }
        let row = Row::new(ENGINE, format!("cycle of {}", counted(count, "transaction")), "memory", RING);
        let row = row.at(count_of(count)).runs("found_us", &times);
        section.rows.push(row.target("< 1 ms", median(&times) < 1000.0));
    }
    let servers = Servers::start(plan, &mut section)?;
    for server in &servers.running {
        server.connect()?.batch_execute(TABLE)?;
    }
    let all = in_turn(plan, &servers, 1, |server, _case| {
        plan.say(&format!("deadlock: {}", server.name()));
        crosswise_us(plan, server)
    })?;
    for (server, cases) in servers.running.iter().zip(&all) {
        let times = &cases[0];
        let row = Row::new(server.name(), "cycle of 2 transactions, 2 clients", "memory", server.ring());
        let row = row.at(2.0).runs("found_us", times);
        let peer = servers.peer().map(|at| median(&all[at][0]));
        section.rows.push(match server.by_peer(median(times), peer) {
            Some(ratio) => row.beside(PEER, ratio).target("< 1 ms", median(times) < 1000.0),
            None if server.is_peer() => row,
            None => row.target("< 1 ms", median(times) < 1000.0),
        });
    }
    Ok(section)
}

//! How many commits per second are possible without waiting for the disk? Each thread has its own rows. Measured in
//! the engine on a disk that keeps nothing, and over the wire with `synchronous_commit` off, compared with PostgreSQL.

use std::time::Duration;

use collie_engine::Session;

use super::{
    ENGINE, count_of, counted,
    embedded::{Embedded, update_alone},
    wire,
};
use crate::together::{Load, lasting, together};
use crate::{
    Plan, Section,
    measures::{RING, median, micros},
    report::Row,
    servers::{self, Length, Script, Servers, in_turn, pgbench},
};

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Rows of each thread.
const OWN_ROWS: u64 = 64;
const TIME: Duration = Duration::from_millis(500);

const CLIENTS: usize = 8;
const WIRE_TIME: Duration = Duration::from_secs(1);
/// Clients have their own rows here too.
const SCRIPT: &str = "\\set id :client_id * 64 + random(0, 63)\nUPDATE own SET n = n + 1 WHERE id = :id;\n";

/// Lets `threads` threads commit for a while.
fn run_once(plan: &Plan, db: &Embedded, threads: usize) -> anyhow::Result<Load> {
    let worker = |thread: u64, mut session: Session| {
        let mut turn = 0;
        move || {
            turn = (turn + 1) % OWN_ROWS;
            update_alone(&mut session, &db.family, thread * OWN_ROWS + turn)
        }
    };
    let sessions = (0..threads).map(|_| db.db.session()).collect::<Result<Vec<_>, _>>()?;
    let workers = (0..).zip(sessions).map(|(thread, session)| worker(thread, session)).collect();
    Ok(together(plan, workers, lasting(plan, TIME))?.0)
}

/// Measures the engine, then both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "commits",
        "how many commits a second without waiting for the disk? (one row each, rows of their own; null sink in the engine)",
    );
    let db = Embedded::in_memory()?;
    db.fill(count_to(OWN_ROWS))?;
    for threads in THREADS {
        let mut loads = Vec::new();
        for run in 0..plan.runs() {
            plan.say(&format!("commits: {}, run {}", counted(threads, "thread"), run + 1));
            loads.push(run_once(plan, &db, threads)?);
        }
        let of = |figure: fn(&Load) -> f64| loads.iter().map(figure).collect::<Vec<_>>();
        let rates = of(Load::rate);
        let mut row = Row::new(ENGINE, counted(threads, "thread"), "memory", RING)
            .at(count_of(threads))
            .runs("commits_per_s", &rates)
            .runs("p50_us", &of(|load| micros(load.latencies.at_per_mille(500))))
            .runs("p99_us", &of(|load| micros(load.latencies.at_per_mille(990))));
        if threads == 2 {
            row = row.target(">= 3 M/s", median(&rates) >= 3e6);
        }
        section.rows.push(row);
    }
    over_the_wire(plan, &mut section)?;
    Ok(section)
}

/// Returns the number of rows for the most threads.
fn count_to(each: u64) -> u64 {
    each * u64::try_from(THREADS[THREADS.len() - 1]).unwrap_or(u64::MAX)
}

fn over_the_wire(plan: &Plan, section: &mut Section) -> anyhow::Result<()> {
    let servers = Servers::start(plan, section)?;
    for server in &servers.running {
        let rows = CLIENTS * 64;
        server.connect()?.batch_execute(&format!(
            "CREATE TABLE own (id int PRIMARY KEY, n int NOT NULL);\
             INSERT INTO own SELECT g, 0 FROM generate_series(0, {}) g",
            rows - 1
        ))?;
    }
    let runs = in_turn(plan, &servers, 1, |server, _case| {
        plan.say(&format!("commits: {} over the wire", server.name()));
        pgbench(plan, server, &wire_load(plan))
    })?;
    let peer = wire::peer_rate(&servers, &runs, 0);
    for (server, runs) in servers.running.iter().zip(&runs) {
        let row = wire::row(server, wire::clients(CLIENTS), "memory", &runs[0]);
        section.rows.push(wire::beside_peer(row, server, &runs[0], peer).0);
    }
    Ok(())
}

fn wire_load(plan: &Plan) -> servers::Load<'static> {
    servers::Load {
        script: Script::Text(SCRIPT),
        clients: CLIENTS,
        length: Length::Time(plan.time(WIRE_TIME)),
        protocol: "prepared",
        settings: "-c synchronous_commit=off",
    }
}

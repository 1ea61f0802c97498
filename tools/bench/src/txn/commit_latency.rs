//! How long does a commit take, by the number of rows it wrote? Measured from COMMIT to the answer, until every
//! version carries its commit, and for the whole transaction. All but the last piece of its writes is in the log by
//! then, so the answer should not depend on the number of rows.

use std::time::Duration;

use collie_engine::{Isolation, Session};

use super::{
    ENGINE, counted,
    embedded::{Embedded, begin, update},
};
use crate::{
    Pace, Plan, Section,
    disk_floor::DiskFloor,
    measures::{RING, float, median, micros},
    report::Row,
    servers::{Done, Length, Load, PEER, Script, Servers, in_turn, pgbench},
};

const SIZES: [u64; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// The time of a case in one run; at least `TRANSACTIONS_MIN` transactions.
const TIME: Duration = Duration::from_millis(150);
const TRANSACTIONS_MIN: usize = 3;
/// The interval of looks at whether all is stamped.
const LOOK: Duration = Duration::from_micros(20);

/// Rows over the wire; each statement writes all of them.
const WIRE_SIZES: [u64; 3] = [1, 1_000, 100_000];
const WIRE_TRANSACTIONS: u64 = 3;

/// The times of the median transaction of a run.
struct Times {
    acknowledged_us: f64,
    stamped_us: f64,
    whole_us: f64,
}

/// Returns the largest number of rows that one transaction writes at this pace.
fn rows_max(plan: &Plan) -> u64 {
    if plan.pace == Pace::Touch { 1_000 } else { SIZES[SIZES.len() - 1] }
}

/// Lets one session repeatedly write `rows` rows and commit.
fn run_once(plan: &Plan, db: &Embedded, session: &mut Session, rows: u64, sync: bool) -> anyhow::Result<Times> {
    let (mut acknowledged, mut stamped, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    let (from, limit) = (plan.now_ns(), plan.time(TIME).as_nanos());
    while acknowledged.len() < TRANSACTIONS_MIN || u128::from(plan.now_ns() - from) < limit {
        let begun = plan.now_ns();
        begin(session, Isolation::ReadCommitted)?;
        for number in 0..rows {
            update(session, &db.family, number)?;
        }
        let committing = plan.now_ns();
        session.commit(sync)?.block()?;
        let answered = plan.now_ns();
        while db.db.stat().unstamped_versions > 0 {
            std::thread::sleep(LOOK);
        }
        acknowledged.push(micros(answered - committing));
        stamped.push(micros(plan.now_ns() - committing));
        whole.push(micros(answered - begun));
    }
    let [acknowledged_us, stamped_us, whole_us] = [acknowledged, stamped, whole].map(|times| median(&times));
    Ok(Times { acknowledged_us, stamped_us, whole_us })
}

/// Measures one level of the engine.
fn engine(plan: &Plan, section: &mut Section, sync: bool) -> anyhow::Result<()> {
    let db = if sync { Embedded::on_disk(plan)? } else { Embedded::in_memory()? };
    db.fill(rows_max(plan))?;
    let mut session = db.db.session()?;
    let sizes: Vec<u64> = SIZES.into_iter().filter(|rows| *rows <= rows_max(plan)).collect();
    let mut times: Vec<Vec<Times>> = sizes.iter().map(|_| Vec::new()).collect();
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let (mut disk, mut floors) = (DiskFloor::create(&plan.env, scratch.path())?, Vec::new());
    let level = if sync { "disk" } else { "memory" };
    for run in 0..plan.runs() {
        for (rows, times) in sizes.iter().zip(&mut times) {
            plan.say(&format!("commit-latency: {rows} rows, {level}, run {}", run + 1));
            times.push(run_once(plan, &db, &mut session, *rows, sync)?);
        }
        if sync {
            floors.push(disk.slice(plan.time(TIME))?.p50_us());
        }
    }
    if sync {
        let floor = Row::new("write + fdatasync (floor)", "4 KiB", "disk", "none, a file");
        section.rows.push(floor.runs("acknowledged_us", &floors));
    }
    let mut one = None;
    for (rows, times) in sizes.into_iter().zip(&times) {
        let of = |figure: fn(&Times) -> f64| times.iter().map(figure).collect::<Vec<_>>();
        let acknowledged = of(|times| times.acknowledged_us);
        let mut row = Row::new(ENGINE, rows_of(rows), level, RING)
            .at(float(rows))
            .runs("acknowledged_us", &acknowledged)
            .runs("stamped_us", &of(|times| times.stamped_us))
            .runs("whole_us", &of(|times| times.whole_us));
        if sync {
            row = row.beside("floor", median(&acknowledged) / median(&floors));
        }
        let one = *one.get_or_insert(median(&acknowledged));
        let ratio = median(&acknowledged) / one;
        if rows > 1 {
            row = row.beside("1 row", ratio);
        }
        if rows == SIZES[SIZES.len() - 1] {
            row = row.target("answered within 2x of 1 row", ratio <= 2.0);
        }
        section.rows.push(row);
    }
    Ok(())
}

fn rows_of(rows: u64) -> String {
    usize::try_from(rows).map_or_else(|_| format!("{rows} rows"), |rows| counted(rows, "row"))
}

/// Measures the engine at both levels, then both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "commit-latency",
        "how long does a commit take by the number of rows it wrote? (from COMMIT to the answer; until all is stamped; whole: from BEGIN to the answer)",
    );
    engine(plan, &mut section, false)?;
    engine(plan, &mut section, true)?;
    let servers = Servers::start(plan, &mut section)?;
    for server in &servers.running {
        server.connect()?.batch_execute(&format!(
            "CREATE TABLE wide (id int PRIMARY KEY, n int NOT NULL);\
             INSERT INTO wide SELECT g, 0 FROM generate_series(1, {}) g",
            WIRE_SIZES[WIRE_SIZES.len() - 1]
        ))?;
    }
    let all = in_turn(plan, &servers, WIRE_SIZES.len(), |server, case| {
        let rows = WIRE_SIZES[case];
        plan.say(&format!("commit-latency: {}, {rows} rows", server.name()));
        let text = format!("BEGIN;\nUPDATE wide SET n = n + 1 WHERE id <= {rows};\nCOMMIT;\n");
        let length = Length::Transactions(if rows < 10_000 { 100 * WIRE_TRANSACTIONS } else { WIRE_TRANSACTIONS });
        let settings = "-c synchronous_commit=off";
        pgbench(plan, server, &Load { script: Script::Text(&text), clients: 1, length, protocol: "simple", settings })
    })?;
    for (server, cases) in servers.running.iter().zip(&all) {
        for (case, rows) in WIRE_SIZES.into_iter().enumerate() {
            let peer = servers.peer().map(|at| median(&acknowledged(&all[at][case])));
            let ours = acknowledged(&cases[case]);
            let row = Row::new(server.name(), rows_of(rows), "memory", server.ring())
                .at(float(rows))
                .runs("acknowledged_us", &ours)
                .runs("whole_us", &cases[case].iter().map(Done::p50_us).collect::<Vec<_>>());
            section.rows.push(match server.by_peer(median(&ours), peer) {
                Some(ratio) => row.beside(PEER, ratio),
                None => row,
            });
        }
    }
    if !servers.running.is_empty() {
        section.notes.push("over the wire: one UPDATE of so many rows, synchronous_commit off; the mean of COMMIT, as pgbench tells it".to_owned());
    }
    Ok(section)
}

/// Returns the time of COMMIT in each run.
fn acknowledged(runs: &[Done]) -> Vec<f64> {
    runs.iter()
        .map(|done| done.statement_us("COMMIT").expect("the script has one, and pgbench tells of each"))
        .collect()
}

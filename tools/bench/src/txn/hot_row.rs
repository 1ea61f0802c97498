//! How many commits per second can one row sustain when every client updates it and waits for the disk? Compared with
//! PostgreSQL, which holds the row until it is on disk, and with the disk itself.

use std::time::Duration;

use super::{count_of, wire};
use crate::{
    Plan, Section,
    disk_floor::{DiskFloor, FloorSlice},
    measures::median,
    report::Row,
    servers::{Done, Length, Load, Script, Servers, in_turn, pgbench},
};

const CLIENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const TIME: Duration = Duration::from_secs(1);
const FLOOR_TIME: Duration = Duration::from_millis(500);
const TABLE: &str = "CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL); INSERT INTO hot VALUES (1, 0)";
const SCRIPT: &str = "UPDATE hot SET n = n + 1 WHERE id = 1;\n";

/// Measures both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "hot-row",
        "how many commits a second does one row bear, each on disk before it is answered? (floor: write 4 KiB and sync)",
    );
    let servers = Servers::start(plan, &mut section)?;
    if servers.running.is_empty() {
        return Ok(section);
    }
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let mut disk = DiskFloor::create(&plan.env, scratch.path())?;
    for server in &servers.running {
        server.connect()?.batch_execute(TABLE)?;
    }
    let mut slices = Vec::new();
    let all = in_turn(plan, &servers, CLIENTS.len(), |server, case| {
        plan.say(&format!("hot-row: {}, {}", server.name(), wire::clients(CLIENTS[case])));
        if case == 0 {
            slices.push(disk.slice(plan.time(FLOOR_TIME))?);
        }
        let length = Length::Time(plan.time(TIME));
        let settings = "-c synchronous_commit=on";
        let script = Script::Text(SCRIPT);
        pgbench(plan, server, &Load { script, clients: CLIENTS[case], length, protocol: "prepared", settings })
    })?;
    let floors: Vec<f64> = slices.iter().map(FloorSlice::per_s).collect();
    let floor = "write + fdatasync (floor)";
    let row = Row::new(floor, "1 client", "disk", "none, a file").at(1.0).runs("commits_per_s", &floors);
    section.rows.push(row.runs("p50_us", &slices.iter().map(FloorSlice::p50_us).collect::<Vec<_>>()));
    for (server, cases) in servers.running.iter().zip(&all) {
        for (case, clients) in CLIENTS.into_iter().enumerate() {
            let runs = &cases[case];
            let row = wire::row(server, wire::clients(clients), "disk", runs).at(count_of(clients));
            let row = row.beside("floor", median(&wire::rates(runs)) / median(&floors));
            let (row, ratio) = wire::beside_peer(row, server, runs, wire::peer_rate(&servers, &all, case));
            section.rows.push(match ratio {
                Some(ratio) if clients == 64 => row.target(">= 20x PostgreSQL", ratio >= 20.0),
                _ => row,
            });
        }
        let committed: u64 = cases.iter().flatten().map(|done: &Done| done.committed).sum();
        let n: i32 = server.connect()?.query_one("SELECT n FROM hot", &[])?.get(0);
        anyhow::ensure!(i64::from(n) == i64::try_from(committed)?, "{}: {committed} commits, n = {n}", server.name());
    }
    section.notes.push(
        "no update is lost: the row's value is compared with the commits, and a difference ends the benchmark"
            .to_owned(),
    );
    Ok(section)
}

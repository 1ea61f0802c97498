//! What throughput do read-only clients reach? Reported although a cheap snapshot gains little here: PostgreSQL has
//! had one too since version 14.

use std::time::Duration;

use super::{count_of, wire};
use crate::{
    Plan, Section,
    servers::{Length, Load, Script, Servers, in_turn, pgbench, pgbench_tables},
};

const CLIENTS: [usize; 3] = [1, 2, 8];
const TIME: Duration = Duration::from_secs(1);
const SCALE: u32 = 10;

/// Measures both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "read-only",
        "what do readers reach that do nothing else? (pgbench select-only, scale 10, prepared)",
    );
    let servers = Servers::start(plan, &mut section)?;
    for server in &servers.running {
        plan.say(&format!("read-only: tables of {}", server.name()));
        pgbench_tables(server, SCALE)?;
    }
    let all = in_turn(plan, &servers, CLIENTS.len(), |server, case| {
        plan.say(&format!("read-only: {}, {}", server.name(), wire::clients(CLIENTS[case])));
        let length = Length::Time(plan.time(TIME));
        let script = Script::Builtin("select-only");
        pgbench(plan, server, &Load { script, clients: CLIENTS[case], length, protocol: "prepared", settings: "" })
    })?;
    for (server, cases) in servers.running.iter().zip(&all) {
        for (case, clients) in CLIENTS.into_iter().enumerate() {
            let row = wire::row(server, wire::clients(clients), "none", &cases[case]).at(count_of(clients));
            let (row, ratio) = wire::beside_peer(row, server, &cases[case], wire::peer_rate(&servers, &all, case));
            section.rows.push(match ratio {
                Some(ratio) if clients == 8 => row.target(">= 1.5x PostgreSQL", ratio >= 1.5),
                _ => row,
            });
        }
    }
    Ok(section)
}

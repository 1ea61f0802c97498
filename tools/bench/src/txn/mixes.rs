//! What throughput do mixed loads reach at each isolation level, how many transactions fail with a conflict, and which
//! anomalies occur?
//!
//! There are two loads: pgbench's TPC-B, where every transaction updates one of ten rows; and pairs of doctors on
//! call, each of which leaves only after seeing that the other one stays, so that two that leave at once leave a shift
//! empty. Nothing is retried.

use std::time::Duration;

use super::wire;
use crate::{
    Plan, Section,
    report::Figure,
    servers::{Done, Length, Load, Script, Server, Servers, in_turn, pgbench, pgbench_tables},
};

/// The name of a level, and the setting that makes it the default.
const LEVELS: [(&str, &str); 3] = [
    ("READ COMMITTED", "-c default_transaction_isolation=read\\ committed"),
    ("REPEATABLE READ", "-c default_transaction_isolation=repeatable\\ read"),
    ("SERIALIZABLE", "-c default_transaction_isolation=serializable"),
];
/// Level and clients of the TPC-B loads.
const TPCB: [(usize, usize); 4] = [(0, 8), (0, 32), (1, 8), (2, 8)];
const SCALE: u32 = 10;
/// The time of one run of either load.
const TIME: Duration = Duration::from_secs(1);
const SKEW_CLIENTS: usize = 8;

/// Fifty shifts of two doctors.
const DUTY: &str = "CREATE TABLE duty (shift int, doctor int, on_call boolean NOT NULL, PRIMARY KEY (shift, doctor));\
    CREATE TABLE skew (shift int NOT NULL);\
    INSERT INTO duty SELECT s, d, true FROM generate_series(1, 50) s, generate_series(0, 1) d";
/// A shift without a doctor is recorded, and both are called back.
const SKEW: &str = "\\set shift random(1, 50)\n\\set doctor random(0, 1)\nBEGIN;\n\
    SELECT count(*) AS present FROM duty WHERE shift = :shift AND on_call \\gset\n\
    \\if :present = 2\n\
    UPDATE duty SET on_call = false WHERE shift = :shift AND doctor = :doctor;\n\
    \\else\n\
    UPDATE duty SET on_call = true WHERE shift = :shift;\n\
    \\if :present = 0\n\
    INSERT INTO skew VALUES (:shift);\n\
    \\endif\n\
    \\endif\n\
    COMMIT;\n";

/// Measures both loads on both servers.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "mixes",
        "what do mixed loads reach by isolation level, and how many transactions are refused? (on disk; nothing tried again)",
    );
    let servers = Servers::start(plan, &mut section)?;
    for server in &servers.running {
        plan.say(&format!("mixes: tables of {}", server.name()));
        pgbench_tables(server, SCALE)?;
        server.connect()?.batch_execute(DUTY)?;
    }
    tpcb(plan, &servers, &mut section)?;
    skew(plan, &servers, &mut section)?;
    Ok(section)
}

fn tpcb(plan: &Plan, servers: &Servers, section: &mut Section) -> anyhow::Result<()> {
    let all = in_turn(plan, servers, TPCB.len(), |server, case| {
        let ((name, settings), clients) = (LEVELS[TPCB[case].0], TPCB[case].1);
        plan.say(&format!("mixes: TPC-B, {}, {name}, {}", server.name(), wire::clients(clients)));
        let script = Script::Builtin("tpcb-like");
        let length = Length::Time(plan.time(TIME));
        pgbench(plan, server, &Load { script, clients, length, protocol: "prepared", settings })
    })?;
    for (server, cases) in servers.running.iter().zip(&all) {
        for (case, (level, clients)) in TPCB.into_iter().enumerate() {
            let name = format!("TPC-B, {}, {}", LEVELS[level].0, wire::clients(clients));
            let row = wire::row(server, name, "disk", &cases[case]).runs("refused_percent", &refused(&cases[case]));
            let (mut row, ratio) = wire::beside_peer(row, server, &cases[case], wire::peer_rate(servers, &all, case));
            if let Some(ratio) = ratio.filter(|_| level == 0) {
                let (text, least) =
                    if clients == 8 { (">= 2.2x PostgreSQL", 2.2) } else { (">= 2.6x PostgreSQL", 2.6) };
                row = row.target(text, ratio >= least);
            }
            section.rows.push(row);
        }
        books(server)?;
    }
    Ok(())
}

/// Checks that the sums of accounts, tellers, branches and history agree.
fn books(server: &Server) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    let mut sum = |column: &str, table: &str| -> Result<i64, postgres::Error> {
        Ok(client.query_one(&format!("SELECT sum({column})::bigint FROM pgbench_{table}"), &[])?.get(0))
    };
    let sums = [
        sum("abalance", "accounts")?,
        sum("tbalance", "tellers")?,
        sum("bbalance", "branches")?,
        sum("delta", "history")?,
    ];
    anyhow::ensure!(
        sums.iter().all(|found| *found == sums[0]),
        "{}: the books do not balance: {sums:?}",
        server.name()
    );
    Ok(())
}

fn skew(plan: &Plan, servers: &Servers, section: &mut Section) -> anyhow::Result<()> {
    let all = in_turn(plan, servers, LEVELS.len(), |server, case| {
        let (name, settings) = LEVELS[case];
        plan.say(&format!("mixes: write skew, {}, {name}", server.name()));
        let mut client = server.connect()?;
        client.batch_execute("DELETE FROM skew; UPDATE duty SET on_call = true WHERE NOT on_call")?;
        let length = Length::Time(plan.time(TIME));
        let script = Script::Text(SKEW);
        let done =
            pgbench(plan, server, &Load { script, clients: SKEW_CLIENTS, length, protocol: "prepared", settings })?;
        let skewed: i64 = client.query_one("SELECT count(*) FROM skew", &[])?.get(0);
        Ok((done, u64::try_from(skewed)?))
    })?;
    for (server, cases) in servers.running.iter().zip(all) {
        for (case, runs) in cases.into_iter().enumerate() {
            let (done, skewed): (Vec<Done>, Vec<u64>) = runs.into_iter().unzip();
            let skewed: u64 = skewed.into_iter().sum();
            let name = format!("write skew, {}, {}", LEVELS[case].0, wire::clients(SKEW_CLIENTS));
            let row = wire::row(server, name, "disk", &done)
                .runs("refused_percent", &refused(&done))
                .figure("skewed", Figure::Count(skewed));
            section.rows.push(if LEVELS[case].0 == "SERIALIZABLE" {
                row.target("none skewed", skewed == 0)
            } else {
                row
            });
        }
    }
    section
        .notes
        .push("skewed: how often, in all runs, a transaction found that two others had left nobody on call".to_owned());
    Ok(())
}

fn refused(runs: &[Done]) -> Vec<f64> {
    runs.iter().map(Done::failed_percent).collect()
}

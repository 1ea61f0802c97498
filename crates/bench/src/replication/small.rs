//! `run_rows`: clients that each read or update a row of their own, one transaction after the other: what a level of `synchronous_commit`, or
//! something else that every transaction passes, costs, and little else.

use super::pair::Pair;
use super::settings::ReplicationSettings;
use crate::closed_loop::Answered;

/// Makes a row for each of so many clients.
///
/// # Errors
/// The driver's.
pub(crate) fn prepare(pair: &Pair, clients: u32) -> anyhow::Result<()> {
    let mut primary = pair.connect()?;
    primary.batch_execute("CREATE TABLE small (id int PRIMARY KEY, n bigint NOT NULL)")?;
    primary.batch_execute(&format!("INSERT INTO small SELECT n, 0 FROM generate_series(1, {clients}) AS n"))?;
    Ok(())
}

/// Lets `clients` write at `level`, as `synchronous_commit` names it.
///
/// # Errors
/// As of [`run_rows`].
pub(super) fn write_rows(
    pair: &Pair,
    settings: &ReplicationSettings,
    clients: u32,
    level: &str,
) -> anyhow::Result<Answered> {
    run_rows(pair, settings, clients, level, &["UPDATE small SET n = n + 1 WHERE id = $1"])
}

/// Lets `clients` run `statements` in turn, each of which is given the client's row, at `level`.
///
/// # Errors
/// The driver's; the server has no such level. The first of all; the others then stop.
pub(crate) fn run_rows(
    pair: &Pair,
    settings: &ReplicationSettings,
    clients: u32,
    level: &str,
    statements: &[&str],
) -> anyhow::Result<Answered> {
    settings.closed_loop(clients).run(|client| {
        let mut session = pair.connect()?;
        session.batch_execute(&format!("SET synchronous_commit = {level}"))?;
        let prepared = statements.iter().map(|text| session.prepare(text)).collect::<Result<Vec<_>, _>>()?;
        let (id, mut turn) = (client.cast_signed() + 1, 0);
        Ok(move || {
            session.execute(&prepared[turn], &[&id])?;
            turn = (turn + 1) % prepared.len();
            Ok(())
        })
    })
}

//! `run_rows`: clients that each read or update their own row, one transaction after the other. They measure the cost
//! of a level of `synchronous_commit`, or of another step that every transaction takes, and little else.

use super::PairSettings;
use super::pair::Pair;
use crate::closed_loop::Answered;

/// Creates a row for each of `clients` clients.
///
/// # Errors
/// Those of the driver.
pub(crate) fn prepare(pair: &Pair, clients: u32) -> anyhow::Result<()> {
    let mut primary = pair.connect()?;
    primary.batch_execute("CREATE TABLE small (id int PRIMARY KEY, n bigint NOT NULL)")?;
    primary.batch_execute(&format!("INSERT INTO small SELECT n, 0 FROM generate_series(1, {clients}) AS n"))?;
    Ok(())
}

/// Lets `clients` write at `level`, a value of `synchronous_commit`.
///
/// # Errors
/// Those of [`run_rows`].
pub(super) fn write_rows(pair: &Pair, settings: &PairSettings, clients: u32, level: &str) -> anyhow::Result<Answered> {
    run_rows(pair, settings, clients, level, &["UPDATE small SET n = n + 1 WHERE id = $1"])
}

/// Lets `clients` run `statements` in turn at `level`; the parameter of each is the client's row.
///
/// # Errors
/// The first one of the driver, also if the server has no such level; the other clients then stop.
pub(crate) fn run_rows(
    pair: &Pair,
    settings: &PairSettings,
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

//! `Servers`: Collie and PostgreSQL side by side, for loads that go over the wire.
//!
//! Each is the program itself, as a child, on a directory of its own in the directory of the plan, with the same
//! durability. PostgreSQL is set up by `bench/pg_cluster.sh`. The load is pgbench, which is PostgreSQL's and runs unmodified
//! on both, so that the client costs both the same. Runs take turns: first each server once, then each again.
//!
//! # What always holds
//! - P1. What was started is stopped, and its directory removed, when [`Servers`] goes; a child also goes with its parent.
//! - P2. A server that is not there costs its rows and leaves a note. One that fails under a load is an error.

mod load;
mod server;

pub(crate) use load::{Done, Length, Load, Script, pgbench, pgbench_tables};
pub(crate) use server::{PEER, Server, free_port, postgresql_programs};

use crate::{Plan, Section};

/// What runs.
pub(crate) struct Servers {
    /// Collie first.
    pub(crate) running: Vec<Server>,
}

impl Servers {
    /// Starts what there is; says in the notes of `section` what there is not, and that those rows are missing.
    ///
    /// # Errors
    /// Collie's program was named and does not serve.
    pub(crate) fn start(plan: &Plan, section: &mut Section) -> anyhow::Result<Self> {
        Self::start_with(plan, section, &[])
    }

    /// The same, Collie with further `arguments`.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub(crate) fn start_with(plan: &Plan, section: &mut Section, arguments: &[&str]) -> anyhow::Result<Self> {
        let Some(program) = &plan.server else {
            section.notes.push("no rows over the wire: no program was named that serves".to_owned());
            return Ok(Self { running: Vec::new() });
        };
        let Some(bin) = server::postgresql_programs() else {
            section
                .notes
                .push("no rows over the wire: neither pgbench nor PostgreSQL under /usr/lib/postgresql".to_owned());
            return Ok(Self { running: Vec::new() });
        };
        let mut running = vec![Server::collie(plan, program, &bin, arguments)?];
        match Server::postgresql(plan, &bin) {
            Ok(server) => running.push(server),
            Err(error) => section.notes.push(format!("no rows of PostgreSQL: {error:#}")),
        }
        Ok(Self { running })
    }

    /// Returns which one is the peer, if it runs.
    pub(crate) fn peer(&self) -> Option<usize> {
        self.running.iter().position(Server::is_peer)
    }
}

/// Runs each of `cases` on each server once before any again. Returns what came of it by server, case and run.
///
/// # Errors
/// The first of `run`.
pub(crate) fn in_turn<T>(
    plan: &Plan,
    servers: &Servers,
    cases: usize,
    mut run: impl FnMut(&Server, usize) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<Vec<Vec<T>>>> {
    let mut all: Vec<Vec<Vec<T>>> = servers.running.iter().map(|_| (0..cases).map(|_| Vec::new()).collect()).collect();
    for _ in 0..plan.runs() {
        for case in 0..cases {
            for (server, all) in servers.running.iter().zip(&mut all) {
                all[case].push(run(server, case)?);
            }
        }
    }
    Ok(all)
}

//! `Servers`: Collie and PostgreSQL, for comparison under loads over the wire.
//!
//! Each server is a child process with the same durability in its own directory inside the plan's.
//! `bench/pg_cluster.sh` sets up PostgreSQL. The load is pgbench, which is PostgreSQL's and runs unmodified against
//! both, so that the client costs both the same. Runs alternate: each server once, then each again.
//!
//! # What always holds
//! - P1. When [`Servers`] is dropped, the servers are stopped and their directories removed. A child also ends with its
//!   parent.
//! - P2. If a server is not installed, its rows are missing and a note says so. A server that fails under a load is an
//!   error.

mod change;
mod load;
mod server;

pub(crate) use change::{SAMPLE_EVERYTHING, SIX_CALLS};
pub(crate) use load::{Done, Length, Load, Script, pgbench, pgbench_tables};
pub(crate) use server::{PEER, Server, free_port, postgresql_programs};

use crate::{Plan, Section};

/// The running servers.
pub(crate) struct Servers {
    /// Collie first.
    pub(crate) running: Vec<Server>,
}

impl Servers {
    /// Starts the available servers. The notes of `section` name the missing ones, whose rows are missing.
    ///
    /// # Errors
    /// Collie's program was named and does not serve.
    pub(crate) fn start(plan: &Plan, section: &mut Section) -> anyhow::Result<Self> {
        Self::start_with(plan, section, &[])
    }

    /// Starts the servers like [`Self::start`], Collie with further `arguments`.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub(crate) fn start_with(plan: &Plan, section: &mut Section, arguments: &[&str]) -> anyhow::Result<Self> {
        if plan.server.is_none() {
            section.notes.push("no rows over the wire: no program was named that serves".to_owned());
            return Ok(Self { running: Vec::new() });
        }
        let Some(bin) = server::postgresql_programs() else {
            section
                .notes
                .push("no rows over the wire: neither pgbench nor PostgreSQL under /usr/lib/postgresql".to_owned());
            return Ok(Self { running: Vec::new() });
        };
        let mut running = vec![Server::collie(plan, &bin, arguments)?];
        match Server::postgresql(plan, &bin) {
            Ok(server) => running.push(server),
            Err(error) => section.notes.push(format!("no rows of PostgreSQL: {error:#}")),
        }
        Ok(Self { running })
    }

    /// Returns the index of the peer, if it runs.
    pub(crate) fn peer(&self) -> Option<usize> {
        self.running.iter().position(Server::is_peer)
    }
}

/// Runs each of `cases` on each server once before any runs again. Returns the results by server, case and run.
///
/// # Errors
/// The first error of `run`.
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

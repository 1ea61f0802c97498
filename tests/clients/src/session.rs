//! Helpers for one session of the driver: statements that must not fail, and statements that must wait.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use postgres::{Client, Error, types::FromSqlOwned};

use crate::{server::Server, stopwatch::Stopwatch};

/// The limit of every wait for a condition, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the single value that a query yields.
///
/// # Panics
/// If the query fails, or yields another number of rows or another type.
pub fn value<T: FromSqlOwned>(client: &mut Client, sql: &str) -> T {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

/// Runs statements.
///
/// # Panics
/// When one of them fails.
pub fn run(client: &mut Client, sql: &str) {
    client.batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// Returns the number that identifies the session in views and functions.
///
/// # Panics
/// If the query fails.
pub fn pid(client: &mut Client) -> i32 {
    value(client, "SELECT pg_backend_pid()")
}

/// A statement that runs on another thread, and its session.
pub type Waiting = JoinHandle<(Client, Result<(), Error>)>;

/// Runs a statement that must wait for another session, on another thread, and returns once it waits.
///
/// # Panics
/// When it does not wait within [`PATIENCE`].
pub fn start(server: &Server, mut client: Client, sql: &'static str) -> Waiting {
    let pid = pid(&mut client);
    let running = thread::spawn(move || {
        let result = client.batch_execute(sql);
        (client, result)
    });
    let (mut look, watch) = (server.connect(), Stopwatch::start());
    while value::<i32>(&mut look, &format!("SELECT cardinality(pg_blocking_pids({pid}))")) == 0 {
        assert!(watch.elapsed() < PATIENCE, "{sql} does not wait");
    }
    running
}

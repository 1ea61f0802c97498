//! Test harness: the real server binary, and real clients that connect to it.
//!
//! It holds what the tests in `tests/` share. [`Place`] is a data directory that is removed when the test ends,
//! [`Server`] a running server; [`program`] runs psql, pgbench and Python; [`session`] has helpers for a driver's
//! session; [`nodes`] starts servers that know each other; [`http`] asks for health and figures, and [`metrics`] parses
//! the figures strictly; [`Browser`] reads pages; [`Demo`] is `collie demo`; [`Wire`] speaks the protocol byte by byte;
//! [`isolation`] runs PostgreSQL's isolation specs; [`reference`] is a private PostgreSQL to compare with. No server
//! runs in the test's process: nothing here links the database.
//!
//! # Invariants
//! - H1. Every server is killed when its value is dropped, and after [`server::LIFE`] in any case, so that a hung
//!   statement fails its test instead of stopping the run.
//! - H2. A missing program fails the test with the name of the Debian package that contains it. Only Python's driver,
//!   Chromium, PostgreSQL's server binaries, the isolation tester with its specs, and the right to mount a tmpfs in a
//!   namespace may be missing, and they may not under `COLLIE_REQUIRE_LAB=1`.
#![forbid(unsafe_code)]

pub mod browser;
pub mod demo;
pub mod http;
pub mod isolation;
pub mod metrics;
pub mod nodes;
pub mod program;
pub mod reference;
pub mod server;
pub mod session;
pub mod stopwatch;
pub mod wire;
pub mod witness;

pub use browser::Browser;
pub use demo::Demo;
pub use program::{Done, Psql};
pub use server::{Place, Refused, Server, Starting};
pub use stopwatch::Stopwatch;
pub use wire::{Message, Wire};

/// Returns the SQLSTATE of a driver's error, or the error's text when the server did not send it.
pub fn state(error: &postgres::Error) -> String {
    error.code().map_or_else(|| format!("no SQLSTATE: {error}"), |code| code.code().to_owned())
}

/// Returns the message of a driver's error as the server sent it.
pub fn message(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// Returns the position of a driver's error, counted in characters from 1.
pub fn position(error: &postgres::Error) -> Option<u32> {
    match error.as_db_error()?.position()? {
        postgres::error::ErrorPosition::Original(at) => Some(*at),
        postgres::error::ErrorPosition::Internal { .. } => None,
    }
}

/// Sends a simple query and waits until its session is ready for the next one, also after an error. Like PostgreSQL, a
/// server may send the error before it releases the transaction's locks, and the driver does not wait for
/// ReadyForQuery; without this wait, what another session meets would depend on the machine's load.
///
/// # Errors
/// Those of the query.
pub fn simple_query(
    client: &mut postgres::Client,
    sql: &str,
) -> Result<Vec<postgres::SimpleQueryMessage>, postgres::Error> {
    let answer = client.simple_query(sql);
    if answer.is_err() {
        // The server answers this after the failed query is over. Without a connection there is nothing to wait for.
        let _ended = client.simple_query("");
    }
    answer
}

/// Reports that a part of the suite did not run because of `what`.
///
/// # Panics
/// Under `COLLIE_REQUIRE_LAB=1`, where everything must run.
pub fn not_run(what: &str) {
    assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none_or(|value| value != "1"), "COLLIE_REQUIRE_LAB=1 and {what}");
    println!("NOT RUN: {what}");
}

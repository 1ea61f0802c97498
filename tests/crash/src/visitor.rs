//! `visit`: a replica that is filled from a primary and then removed, so that the primary's directory has a slot, a
//! consumer of its log and a key.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use collie_env::{Clock as _, RealClock};
use collie_netlab::Port;
use postgres::Client;

use crate::server::Server;

/// How long the replica may take to connect.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Fills a replica next to `data`, the directory of a primary with these settings that listens for replicas at `port`,
/// and removes the replica. `client` is a session of the primary.
///
/// # Errors
/// The replica does not connect in time.
pub(crate) fn visit(
    binary: &Path,
    data: &Path,
    settings: &[String],
    port: &Port,
    client: &mut Client,
) -> anyhow::Result<()> {
    let replica: PathBuf = data.with_extension("replica");
    let own = [
        format!("server.replica_of={}", port.address()),
        format!("replication.key_file={}", data.join("replication.key").display()),
    ];
    let settings = [settings, &own].concat();
    let said = data.with_extension("replica-said");
    let running = Server::start_logged(binary, &[], &replica, &settings, &said)?;
    let start_ns = RealClock.now_ns();
    loop {
        let slots = client.query_one("SELECT count(*) FROM pg_replication_slots", &[]).context("slots")?;
        if slots.get::<_, i64>(0) > 0 && data.join("slots").exists() {
            break;
        }
        ensure!(RealClock.now_ns() - start_ns < PATIENCE_NS, "no replica came");
        thread::sleep(Duration::from_millis(20));
    }
    running.kill()?;
    fs::remove_dir_all(&replica)?;
    Ok(())
}

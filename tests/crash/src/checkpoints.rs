//! Checkpoints during a load.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use postgres::{Config, NoTls};

/// Runs one CHECKPOINT after the other, on a thread, until the connection breaks.
pub(crate) fn repeat(config: Config, pause: Duration) -> JoinHandle<()> {
    thread::spawn(move || {
        let Ok(mut client) = config.connect(NoTls) else { return };
        while client.batch_execute("CHECKPOINT").is_ok() {
            thread::sleep(pause);
        }
    })
}

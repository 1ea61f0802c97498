//! `Reader`: a client that reads and writes single rows while bombs explode, and must never get an error or a wrong
//! row.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context, anyhow, ensure};
use postgres::{Client, Config, NoTls};

use crate::random::Random;

/// The number of rows; no bomb changes any of them.
pub(super) const ROWS: i32 = 1000;

/// See the module's documentation.
pub(super) struct Reader {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

/// Makes the reader's table.
pub(super) fn create(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE safe (n int PRIMARY KEY, s text, filler text);
         INSERT INTO safe SELECT n, 'row ' || n, '' FROM generate_series(1, {ROWS}) n"
    ))?;
    Ok(())
}

/// Checks that every row is there, as it was made.
pub(super) fn verify(client: &mut Client) -> anyhow::Result<()> {
    let sql = "SELECT count(*), count(*) FILTER (WHERE s = 'row ' || n AND filler = '') FROM safe";
    let row = client.query_one(sql, &[])?;
    let (all, good): (i64, i64) = (row.get(0), row.get(1));
    ensure!(all == good && all == i64::from(ROWS), "{all} rows of {ROWS}, {good} of them as they were made");
    Ok(())
}

impl Reader {
    /// Starts the reader.
    pub(super) fn start(config: Config, seed: u64) -> Self {
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stopped) = (Arc::clone(&done), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut random = Random::new(seed);
            let mut client = config.connect(NoTls).context("the reader cannot connect")?;
            while !stopped.load(Ordering::Relaxed) {
                let n = i32::try_from(random.below(u64::from(ROWS.unsigned_abs())))? + 1;
                let row = client.query_one("SELECT s FROM safe WHERE n = $1", &[&n]).context("a point read failed")?;
                let found: String = row.get(0);
                ensure!(found == format!("row {n}"), "row {n} is {found}");
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { done, stop, thread }
    }

    /// Returns the number of rows that it has read.
    pub(super) fn reads(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Stops the reader.
    ///
    /// # Errors
    /// A read failed, or was wrong.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the reader panicked"))?
    }
}

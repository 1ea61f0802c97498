//! `Standby`: a replica that is read while the primary is written to, behind a bad network, and killed now and then.
//!
//! Connections to one process of the replica see states that never go back. The directory is kept between processes.
//! The replica is filled before the round begins, so that it can open while its primary is dead.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use collie_netlab::{Direction, Port, Proxy, Weather, plant_key};
use postgres::NoTls;

use super::{
    PATIENCE,
    client::{Client, Shared},
    history::Transaction,
};
use crate::{random::Random, server::Server};

/// The number of connections to a replica at one time.
const READERS: u64 = 3;

/// The numbers of readers' connections begin here, above all others of a round.
pub(super) const SESSIONS: u64 = 1 << 32;

/// `replication.timeout` of both servers, the shortest that is allowed.
const TIMEOUT: &str = "replication.timeout=1 s";

/// The pause between two checks of a condition.
const TICK: Duration = Duration::from_millis(5);

/// A replica.
pub(crate) struct Standby {
    binary: PathBuf,
    /// Arguments that precede the server's own.
    arguments: Vec<String>,
    data: PathBuf,
    log: PathBuf,
    settings: Vec<String>,
    proxy: Proxy,
    server: Option<Server>,
    life: u64,
    sessions: u64,
    pub(crate) kills: u64,
}

/// Returns further settings of a primary that listens for replicas at `port` in all its runs; its files are below
/// `dir`.
pub(super) fn settings_of_primary(port: &Port, dir: &Path) -> anyhow::Result<[String; 3]> {
    Ok([format!("server.replica_listen={}", port.address()), TIMEOUT.to_owned(), key_below(dir)?])
}

/// Makes the key of both servers, and returns the setting that names it.
fn key_below(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("replication.key");
    plant_key(&path).context("the servers' key")?;
    Ok(format!("replication.key_file={}", path.display()))
}

impl Standby {
    /// Fills a replica in `dir` and waits until it has what `primary` has.
    pub(crate) fn start(
        (binary, arguments): (&Path, Vec<String>),
        [dir, rings]: [&Path; 2],
        port: &Port,
        seed: u64,
        primary: &Server,
    ) -> anyhow::Result<Self> {
        let proxy = Proxy::start(port.address(), seed)?;
        let (ring_dir, follow) = (rings.display(), proxy.address());
        let settings = [
            format!("wal.ring_dir={ring_dir}"),
            format!("server.replica_of={follow}"),
            TIMEOUT.to_owned(),
            key_below(dir)?,
        ];
        let mut standby = Self {
            binary: binary.to_owned(),
            arguments,
            data: dir.join("replica"),
            log: dir.join("replica.log"),
            settings: settings.to_vec(),
            proxy,
            server: None,
            life: 0,
            sessions: SESSIONS,
            kills: 0,
        };
        standby.open()?;
        standby.until_equal(primary)?;
        Ok(standby)
    }

    fn open(&mut self) -> anyhow::Result<()> {
        let server = Server::start_logged(&self.binary, &self.arguments, &self.data, &self.settings, &self.log);
        self.server = Some(server.with_context(|| format!("the replica, see {}", self.log.display()))?);
        self.life += 1;
        Ok(())
    }

    /// Reads on it, in one process after the other, until `over`; returns the readers' transactions.
    pub(crate) fn read(
        &mut self,
        shared: &Shared,
        mut random: Random,
        over: &AtomicBool,
    ) -> anyhow::Result<Vec<Transaction>> {
        let mut history = Vec::new();
        while !over.load(Ordering::SeqCst) {
            if self.server.is_none() {
                self.open()?;
            }
            let server = self.server.take().context("it was just opened")?;
            let stop = Arc::new(AtomicBool::new(false));
            let mut readers = Vec::new();
            for _ in 0..READERS {
                self.sessions += 1;
                let connection = server.config().connect(NoTls).context("cannot connect to the replica")?;
                let random = Random::new(random.next());
                let client = Client::reading(connection, self.sessions, random, shared, self.life, &stop)?;
                readers.push(thread::spawn(move || client.run()));
            }
            self.weather(&mut random, over);
            let dies = random.below(2) == 0;
            self.server = if dies {
                server.kill()?;
                self.kills += 1;
                None
            } else {
                Some(server)
            };
            stop.store(true, Ordering::SeqCst);
            for reader in readers {
                history.extend(reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??);
            }
        }
        self.proxy.heal();
        Ok(history)
    }

    /// Applies one random kind of network fault for a while.
    fn weather(&self, random: &mut Random, over: &AtomicBool) {
        let ms = |low: u64, random: &mut Random| Duration::from_millis(low + random.below(800));
        let slow = Weather { bytes_per_second: Some(100_000), delay: Duration::from_millis(20), ..Weather::default() };
        match random.below(6) {
            0 => self.proxy.reset(),
            1 => self.proxy.cut_both(),
            2 => self.proxy.cut(Direction::Out),
            3 => self.proxy.cut(Direction::Back),
            4 => self.proxy.set_both(slow),
            _ => {}
        }
        let mut left = ms(100, random);
        while !left.is_zero() && !over.load(Ordering::SeqCst) {
            thread::sleep(TICK);
            left = left.saturating_sub(TICK);
        }
        self.proxy.heal();
        let mut left = ms(100, random);
        while !left.is_zero() && !over.load(Ordering::SeqCst) {
            thread::sleep(TICK);
            left = left.saturating_sub(TICK);
        }
    }

    /// Waits until it equals `primary`; nothing is written meanwhile.
    ///
    /// # Errors
    /// It does not become equal in time.
    pub(crate) fn until_equal(&mut self, primary: &Server) -> anyhow::Result<()> {
        if self.server.is_none() {
            self.open()?;
        }
        let hash = |client: &mut postgres::Client| -> Result<String, postgres::Error> {
            let state: String = client.query_one("SELECT collie_state_hash()", &[])?.get(0);
            Ok(state.rsplit(':').next().unwrap_or_default().to_owned())
        };
        let expected = hash(&mut primary.connect()?)?;
        let mut client = self.server.as_ref().context("it was just opened")?.connect()?;
        let mut waited = Duration::ZERO;
        while hash(&mut client)? != expected {
            ensure!(waited < PATIENCE, "the replica does not come to what the primary has: see {}", self.log.display());
            thread::sleep(TICK);
            waited += TICK;
        }
        Ok(())
    }
}

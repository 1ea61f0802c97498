//! The kill loop: start, load, SIGKILL at a random moment, start again, compare, and so on with the same directory.
//! Half of the loads also create, fill and drop tables, and half also make checkpoints. A third of the loads make a
//! backup; if the server has acknowledged it before the kill, it is restored, opened, and compared with the journals:
//! it has everything that was there before its load began, and each transaction of that load whole or not at all.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Context;
use postgres::NoTls;
use tempfile::TempDir;

use crate::{
    backups, bank, checkpoints,
    definitions::Definitions,
    journal::{Journal, Outcome},
    random::Random,
    report::{Figures, Report},
    server::Server,
};

/// The arguments of the command.
pub(crate) struct Plan {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    pub(crate) clients: u64,
    pub(crate) server: PathBuf,
    /// The server's `wal.ring`.
    pub(crate) ring: String,
}

impl Plan {
    /// Starts the server, with the log's protocols in turn: a ring can be recovered whatever protocol the next server
    /// uses. Every second server flushes tables to the LSM levels, and releases log, as often as possible.
    fn start(&self, [data, rings]: [&Path; 2], cycle: u64) -> anyhow::Result<Server> {
        Server::start(&self.server, data, &self.settings(rings, cycle)?)
    }

    fn settings(&self, rings: &Path, cycle: u64) -> anyhow::Result<Vec<String>> {
        let protocol = ["help", "mutex", "base"][usize::try_from(cycle % 3)?];
        let pairs = [("ring", self.ring.as_str()), ("ring_dir", &rings.display().to_string()), ("protocol", protocol)];
        let mut settings = pairs.map(|(name, value)| format!("wal.{name}={value}")).to_vec();
        if cycle % 2 == 1 {
            let small = [
                "store.write_buffer_size=16KiB",
                "wal.ring_size=256KiB",
                "wal.flush_bytes=64KiB",
                "wal.segment_size=9MiB",
                "wal.max_total_wal_size=1",
            ];
            settings.extend(small.map(str::to_owned));
        }
        Ok(settings)
    }

    /// Restores a backup of `cycle` and compares it with the journals that had ended before its load began, and with
    /// those of the load.
    fn check_backup(
        &self,
        name: &str,
        data: &Path,
        cycle: u64,
        (before, during): (&[Journal], &[Journal]),
    ) -> anyhow::Result<()> {
        let (place, restored) = (data.join("copies").join(name), data.with_extension("restored"));
        backups::bring_back(&place, &restored)?;
        // The ring of the killed server is that of its own directory.
        let rings = rings()?;
        let server = self.start([&restored, rings.path()], cycle)?;
        let during = during.iter().cloned().map(|mut journal| {
            let acknowledged = journal.outcomes.iter_mut().filter(|outcome| **outcome == Outcome::Acknowledged);
            acknowledged.for_each(|outcome| *outcome = Outcome::Unknown); // perhaps after the backup
            journal
        });
        let journals: Vec<Journal> = before.iter().cloned().chain(during).collect();
        bank::verify(&mut server.connect()?, &journals, self.ring == "shared")?;
        server.stop()?;
        fs::remove_dir_all(&restored)?;
        Ok(fs::remove_dir_all(&place)?)
    }
}

/// The client numbers of a cycle start at a multiple of this, so that transactions of different cycles are distinct.
const CLIENTS_PER_CYCLE: u64 = 1_000;

/// How often the command checks whether a backup is made, and the pause between two checks: for 10 s.
const BACKUP_LOOKS: u32 = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Returns a directory for rings: a killed server leaves its ring, which must not outlive this program.
fn rings() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix("collie-killloop-").tempdir_in("/dev/shm")
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let dir = tempfile::Builder::new().prefix("collie-killloop-").tempdir()?;
    let data = dir.path().join("data");
    let rings = rings()?;
    let places = [data.as_path(), rings.path()];
    let mut random = Random::new(plan.seed);
    let mut journals: Vec<Journal> = Vec::new();
    let server = plan.start(places, 0)?;
    bank::create(&mut server.connect()?).context("cannot make the tables")?;
    let (mut server, mut kills, mut definitions, mut backups) = (Some(server), 0, Definitions::default(), 0);
    for cycle in 1..=plan.cycles {
        let running = server.take().context("no server")?;
        let before = journals.len();
        let (heard, backup) = load_and_kill(plan, running, cycle, &mut definitions, &mut random)?;
        journals.extend(heard);
        kills += 1 + u64::from(cycle.is_multiple_of(2));
        // In every second cycle the server is killed again, while it recovers or right after that, since recovery must
        // be repeatable.
        match cycle % 4 {
            0 => drop(plan.start(places, cycle + 1)),
            2 => {
                let after = Duration::from_micros(random.below(30_000));
                Server::start_and_kill(&plan.server, &data, &plan.settings(rings.path(), cycle + 1)?, after)?;
            }
            _ => {}
        }
        if let Some(name) = backup {
            let checked = plan.check_backup(&name, &data, cycle, (&journals[..before], &journals[before..]));
            if let Err(error) = checked {
                let kept = dir.keep();
                return Err(error.context(format!("cycle {cycle}, backup {name}, data kept in {}", kept.display())));
            }
            backups += 1;
        }
        let again = plan.start(places, cycle).with_context(|| format!("cycle {cycle}: reopening"))?;
        let mut client = again.connect()?;
        let verified = definitions.verify(&mut client);
        if let Err(error) = verified.and_then(|()| bank::verify(&mut client, &journals, plan.ring == "shared")) {
            // Keep the evidence.
            let kept = dir.keep();
            return Err(error.context(format!("cycle {cycle}, data kept in {}", kept.display())));
        }
        server = Some(again);
    }
    let count = |outcome: Outcome| journals.iter().flat_map(|j| &j.outcomes).filter(|o| **o == outcome).count() as u64;
    let [acknowledged, unknown, aborted] = [Outcome::Acknowledged, Outcome::Unknown, Outcome::Aborted].map(count);
    let words = format!(
        "killloop: {} cycles, ring {}, {acknowledged} acknowledged, {unknown} unknown, {aborted} aborted transactions, {} definitions, \
         {backups} backups restored: all oracles hold",
        plan.cycles, plan.ring, definitions.answered
    );
    let checked = acknowledged + unknown + aborted;
    Ok(Report::new(words, Figures { cycles: plan.cycles, kills, checked, acknowledged, ..Figures::default() }))
}

/// Returns the answers that clients got, and the name of a backup if one was acknowledged.
fn load_and_kill(
    plan: &Plan,
    server: Server,
    cycle: u64,
    definitions: &mut Definitions,
    random: &mut Random,
) -> anyhow::Result<(Vec<Journal>, Option<String>)> {
    let workers: Vec<_> = (0..plan.clients)
        .map(|number| {
            let id = cycle * CLIENTS_PER_CYCLE + number;
            let mut random = Random::new(random.next());
            let config = server.config();
            thread::spawn(move || {
                let mut journal = Journal::new(id, number % 4 != 3);
                if let Ok(mut client) = config.connect(NoTls) {
                    bank::work(&mut client, &mut journal, &mut random);
                }
                journal
            })
        })
        .collect();
    let definer = (random.below(2) == 0).then(|| {
        let (config, mut random, mut definitions) = (server.config(), Random::new(random.next()), definitions.clone());
        thread::spawn(move || {
            let Ok(mut client) = config.connect(NoTls) else { return Ok(definitions) };
            definitions.work(&mut client, &mut random).map(|()| definitions)
        })
    });
    let checkpoints = (random.below(2) == 0).then(|| checkpoints::repeat(server.config(), Duration::ZERO));
    let backup = (random.below(3) == 0).then(|| backups::make(server.config(), format!("b{cycle}")));
    // In half of these loads the kill comes after the backup, in the others perhaps in the middle of it.
    let awaited = backup.iter().filter(|_| random.below(2) == 0);
    awaited.for_each(|backup| {
        (0..BACKUP_LOOKS).take_while(|_| !backup.is_finished()).for_each(|_| thread::sleep(LOOK_EVERY));
    });
    // The random moment of the kill is what the experiment varies; otherwise it waits for nothing.
    thread::sleep(Duration::from_millis(20 + random.below(400)));
    server.kill()?;
    let panicked = |_| anyhow::anyhow!("a client panicked");
    if let Some(definer) = definer {
        *definitions = definer.join().map_err(panicked)??;
    }
    checkpoints.map_or(Ok(()), |thread| thread.join().map_err(panicked))?;
    let backup = backup.map_or(Ok(None), |thread| thread.join().map_err(panicked))?;
    let heard: anyhow::Result<_> = workers.into_iter().map(|worker| worker.join().map_err(panicked)).collect();
    Ok((heard?, backup))
}

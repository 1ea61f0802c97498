//! A database of the engine as [`Source`]: a primary ships its log unchanged, and copies of its levels.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_base::{Lsn, Term};
use collie_engine::{CheckpointOptions, Confirmed, Db, EngineError, is_commit_record};
use collie_env::{Access, Env};
use collie_sync::mutant;
use collie_wal::{ConsumerStat, LagLimit, Log, ShipOptions, Shipper, TailOptions, WalError};

use super::history_of;
use crate::{
    Keep,
    compare::Held,
    identity::Identity,
    primary::{
        BackupFile, BackupFiles, DrawnCommit, Expiry, HeldSlot, Sent, Ship, Shipment, Source, SourceError, Switchover,
        Synchronous,
    },
    reads::ReadFeed,
    term::Terms,
};

/// Precedes the name of a slot in the list of the log's consumers.
pub const CONSUMER_PREFIX: &str = "replica.";

/// How much log is kept for a slot, and how soon bytes for which no session waits are flushed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotOptions {
    /// `replication.slot_bytes`: a slot that would keep more log than this in files loses its place.
    pub slot_bytes: u64,
    /// `replication.flush_delay`.
    pub flush_delay: Duration,
}

/// A database with replicas.
#[derive(Debug)]
pub struct EngineSource {
    db: Db,
    data: PathBuf,
    env: Env,
    options: SlotOptions,
    terms: Option<Arc<Terms>>,
    synchronous: Option<Arc<Synchronous>>,
    handing: Option<Arc<Switchover>>,
    reads: Option<Arc<ReadFeed>>,
    show_applied: bool,
}

impl EngineSource {
    /// Creates a source for the database that is open in `data`. Removes the leftovers of base backups by earlier
    /// processes.
    pub fn new(db: Db, data: &Path, env: Env, options: SlotOptions) -> Self {
        let (synchronous, handing, reads) = (None, None, None);
        let (data, terms, show_applied) = (data.to_owned(), None, false);
        let source = Self { db, data, env, options, terms, synchronous, handing, reads, show_applied };
        source.remove_leftovers();
        source
    }

    /// Reports higher terms of other nodes to `terms`.
    #[must_use]
    pub fn going_by(self, terms: Arc<Terms>) -> Self {
        Self { terms: Some(terms), ..self }
    }

    /// Makes replies wait for the replicas that [`Synchronous::ask`] selected. With `show_applied` the readers of
    /// replicas see everything applied there, although a failover may take it back; otherwise only commits that
    /// the quorum has on its disks.
    #[must_use]
    pub fn with_quorum(self, synchronous: Arc<Synchronous>, show_applied: bool) -> Self {
        Self { synchronous: Some(synchronous), show_applied, ..self }
    }

    /// Performs switchovers through `switchover`.
    #[must_use]
    pub fn handing_over(self, handing: Arc<Switchover>) -> Self {
        Self { handing: Some(handing), ..self }
    }

    /// Sends the reads that `reads` supplies to replicas that ask for them.
    #[must_use]
    pub fn sampling(self, reads: Arc<ReadFeed>) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// Returns the database.
    pub fn database(&self) -> &Db {
        &self.db
    }

    fn log(&self) -> Result<&Log, SourceError> {
        self.db.log().ok_or_else(|| SourceError::Ended("the database is open for reading only".to_owned()))
    }

    /// Returns the directory in which the copy for a slot is made: next to the data directory, so that tables can
    /// be linked.
    fn copy_dir(&self, slot: &str) -> PathBuf {
        let mut name = self.data.file_name().unwrap_or_default().to_owned();
        name.push(format!(".clone-{slot}"));
        self.data.with_file_name(name)
    }

    fn remove_leftovers(&self) {
        let name = self.copy_dir("");
        let (Some(above), Some(prefix)) = (name.parent(), name.file_name().and_then(|name| name.to_str())) else {
            return;
        };
        for found in self.env.files.list(above).unwrap_or_default() {
            if found.starts_with(prefix) {
                // The next start tries again.
                let _best_effort = self.env.files.remove_dir_all(&above.join(found));
            }
        }
    }

    /// Returns the most bytes of log that may be kept.
    fn bytes_of(&self, keep: Keep) -> u64 {
        match keep {
            Keep::Nothing | Keep::WithinBounds if !mutant!("SLOT_CAP_IGNORED") => self.options.slot_bytes.max(1),
            _ => u64::MAX,
        }
    }

    fn ship_options(&self, from: Lsn, keep: Keep) -> ShipOptions {
        let options = ShipOptions::from(from).bound_bytes(self.bytes_of(keep)).flush_delay(self.options.flush_delay);
        options.commits_by(is_commit_record)
    }

    /// Lists the files below `dir`, with `prefix` in front of their names.
    fn list(&self, dir: &Path, prefix: &str, found: &mut Vec<BackupFile>) -> std::io::Result<()> {
        for name in self.env.files.list(dir)? {
            let (path, name) = (dir.join(&name), format!("{prefix}/{name}"));
            if self.env.files.list(&path).is_ok() {
                self.list(&path, &name, found)?;
            } else {
                let bytes = self.env.files.open(&path, Access::Read)?.len()?;
                found.push(BackupFile { name, bytes });
            }
        }
        Ok(())
    }
}

impl Source for EngineSource {
    type Shipper = EngineShipper;

    fn identity(&self) -> Identity {
        let (term, histories) = self.db.histories();
        Identity {
            cluster: self.db.cluster_id(),
            node: self.db.node_id(),
            term,
            histories: histories.into_iter().map(history_of).collect(),
            end: self.db.durable(),
        }
    }

    fn heard(&self, term: Term) {
        // A promise that cannot be written applies in this process all the same (T3 of `terms.rs`).
        let _counts = self.terms.as_ref().map(|terms| terms.promise(term, 0));
    }

    fn leads(&self) -> bool {
        self.terms.as_ref().is_none_or(|terms| terms.leads())
    }

    fn durable(&self) -> Lsn {
        self.db.durable()
    }

    fn show(&self) -> Lsn {
        if self.show_applied || mutant!("SHOW_IGNORED") { self.db.durable() } else { self.db.settled() }
    }

    fn synchronous(&self) -> Option<&Arc<Synchronous>> {
        self.synchronous.as_ref()
    }

    fn handing(&self) -> Option<&Arc<Switchover>> {
        self.handing.as_ref()
    }

    fn reads(&self) -> Option<&Arc<ReadFeed>> {
        self.reads.as_ref()
    }

    fn confirm(&self, confirmed: Sent) {
        let Sent { received, durable, applied, .. } = confirmed;
        self.db.confirm(Confirmed { received, durable, applied });
    }

    fn ask_replicas(&self, asked: bool) {
        self.db.ask_replicas(asked);
    }

    fn count_replicas(&self, counted: bool) {
        self.db.count_replicas(counted);
    }

    fn commits(&self) -> u64 {
        self.db.commits()
    }

    fn draw(&self, one_in: u32) {
        self.db.draw_commits(one_in);
    }

    fn take_drawn(&self, out: &mut Vec<DrawnCommit>) {
        let mut drawn = Vec::new();
        self.db.take_drawn(&mut drawn);
        out.extend(drawn.into_iter().map(|collie_engine::DrawnCommit { csn, at_ns, stands_for }| DrawnCommit {
            csn,
            at_ns,
            stands_for,
        }));
    }

    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError> {
        self.log()?.crc_before(end, bytes).map_err(source_error)
    }

    fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, SourceError> {
        self.log()?.crc_between(from, to).map_err(source_error)
    }

    fn ship(&self, slot: &str, from: Lsn, keep: Keep) -> Result<EngineShipper, SourceError> {
        let name = format!("{CONSUMER_PREFIX}{slot}");
        self.log()?.ship(&name, self.ship_options(from, keep)).map(EngineShipper).map_err(source_error)
    }

    fn keep(&self, slot: &str, keep: Keep) -> Result<(), SourceError> {
        let bytes = Some(self.bytes_of(keep));
        let bounded = self.log()?.bound_consumer(&format!("{CONSUMER_PREFIX}{slot}"), bytes);
        bounded.map(|_is_there| ()).map_err(source_error)
    }

    fn backup(&self, slot: &str) -> Result<BackupFiles, SourceError> {
        let log = self.log()?;
        let name = format!("{CONSUMER_PREFIX}{slot}");
        let engine = |error: EngineError| SourceError::Failed(error.to_string());
        // The backup does not start from a lost position.
        let _was_there = log.remove_consumer(&name).map_err(source_error)?;
        // The consumer exists before the copy is made, so it keeps all the log that the copy needs. A new consumer
        // starts at the oldest record of the log; it retains the log without being read, whatever the bounds (A2
        // of `life.rs`).
        drop(log.tail(&name, TailOptions::resume().bound_bytes(self.bytes_of(Keep::Whatever))).map_err(source_error)?);
        let dir = self.copy_dir(slot);
        let files = self.env.files.clone();
        let _left_by_an_earlier_try = files.remove_dir_all(&dir);
        let copy = CheckpointOptions { copy: false };
        let made = self.db.copy_levels(&dir, copy, &mut |_| ControlFlow::Continue(())).map_err(engine)?;
        let removed = dir.clone();
        let mut backup = BackupFiles {
            root: dir.clone(),
            files: Vec::new(),
            log_start: made.start,
            consistent: made.from,
            cleanup: Some(Box::new(move || {
                // The next start removes any remaining files.
                let _best_effort = files.remove_dir_all(&removed);
            })),
        };
        let listed = self.list(&dir.join("levels"), "levels", &mut backup.files);
        listed.map_err(|error| SourceError::Failed(format!("cannot list {}: {error}", dir.display())))?;
        // Log below `made.start` is no longer needed: the replica's stream begins there.
        drop(log.ship(&name, self.ship_options(made.start, Keep::Whatever)).map_err(source_error)?);
        Ok(backup)
    }

    fn held(&self) -> Vec<HeldSlot> {
        let Ok(log) = self.log() else { return Vec::new() };
        let held = |consumer: ConsumerStat| {
            let name = consumer.name.strip_prefix(CONSUMER_PREFIX)?.to_owned();
            let ConsumerStat { lsn, restart, kept_bytes, .. } = consumer;
            let lost = consumer.lost.then_some(match consumer.lost_by {
                Some(LagLimit::Files) => Expiry::Files,
                _ => Expiry::Bytes,
            });
            let is_within = kept_bytes < self.options.slot_bytes;
            Some(HeldSlot { name, lsn, restart, kept_bytes, is_within, lost })
        };
        log.consumers().into_iter().filter_map(held).collect()
    }

    fn hold(&self) -> Option<Box<dyn Held>> {
        let held: Box<dyn Held> = Box::new(self.db.hold_state().ok()?);
        Some(held)
    }

    fn drop_slot(&self, slot: &str) -> Result<(), SourceError> {
        let removed = self.log()?.remove_consumer(&format!("{CONSUMER_PREFIX}{slot}"));
        removed.map(|_was_there| ()).map_err(source_error)
    }
}

/// Reads the log of a database for one replica.
#[derive(Debug)]
pub struct EngineShipper(Shipper);

impl Ship for EngineShipper {
    async fn next<'a>(&'a mut self, bytes_max: usize, out: &'a mut Vec<u8>) -> Result<Shipment, SourceError> {
        let collie_wal::Shipment { prev_end, start, end, .. } =
            self.0.next_async(bytes_max, out).await.map_err(source_error)?;
        Ok(Shipment { prev_end, start, end })
    }

    fn advance(&mut self, durable: Lsn) -> Result<(), SourceError> {
        if durable == Lsn::ZERO {
            return Ok(());
        }
        self.0.advance(durable).map_err(source_error)
    }
}

fn source_error(error: WalError) -> SourceError {
    match error {
        WalError::CursorLost { .. } => SourceError::Gone,
        WalError::Poisoned { .. } | WalError::Closed => SourceError::Ended(error.to_string()),
        WalError::InvalidOptions { .. } => SourceError::Taken(error.to_string()),
        error => SourceError::Failed(error.to_string()),
    }
}

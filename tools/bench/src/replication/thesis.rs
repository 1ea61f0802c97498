//! `Thesis`: replays a log as the thesis' system does: one thread, one transaction after the other, in the order in
//! which they began.
//!
//! In that system's log the order of the commits means nothing. Each commit names the begin of its transaction, and the
//! begin of the oldest transaction that was open about then; a transaction is deferred until a commit says that no
//! older one is left. Here the log is in commit order and nothing would have to be deferred: this exists for
//! comparison, over the same records (`collie_engine::Logged`).
//!
//! # Invariants
//! - H1. Transactions are replayed in the order of their begins, those with the same begin in the order of their
//!   commits.
//! - H2. A transaction is replayed once none that began before it can still arrive. Writes without times are replayed
//!   on arrival.
//! - H3. The writers of the log ran under snapshot isolation: then no two overlapping transactions wrote the same row,
//!   and any order that keeps the other pairs is correct. A log of READ COMMITTED would be replayed wrongly.
//! - H4. `applied` is a position below which no commit is deferred. Its Release pairs with the Acquire of
//!   [`Applied::position`].
//!
//! Unlike the other replayer, it keeps no copy of the log that it reads. Like that one, it runs each transaction as one
//! transaction of its own database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use collie_base::{CfId, Lsn, Map, Xid};
use collie_engine::{Basis, Db, Family, Insert, Isolation, Logged, Options, Outcome, Session, StatementKind, Write};
use collie_env::Env;
use collie_wal::{RecordRef, Shipment, Unpacker};

/// See the module's documentation.
pub(super) struct Thesis {
    unpacker: Unpacker,
    replayer: Replayer,
}

/// The progress of a [`Thesis`], for other threads to read (H4).
#[derive(Clone, Debug)]
pub(super) struct Applied(Arc<AtomicU64>);

impl Applied {
    /// Returns the position below which every commit is replayed.
    pub(super) fn position(&self) -> Lsn {
        Lsn::new(self.0.load(Ordering::Acquire))
    }
}

struct Replayer {
    // Dropped before the database.
    session: Session,
    db: Db,
    families: Map<CfId, Arc<Family>>,
    /// Earlier writes of transactions that have not ended.
    chunks: Map<Xid, Vec<u8>>,
    /// The writes of deferred transactions, by begin and commit.
    deferred: BTreeMap<(Lsn, Lsn), Vec<u8>>,
    /// The commits of the deferred transactions.
    deferred_commits: BTreeSet<Lsn>,
    deferred_most: usize,
    /// The position below which all records were received.
    taken: Lsn,
    applied: Applied,
}

impl Thesis {
    /// Opens a replayer into a new database in `dir`, from the beginning of a log.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn open(env: &Env, dir: &Path, options: &Options) -> anyhow::Result<Self> {
        let unpacker = Unpacker::new(Lsn::FIRST, &options.log);
        let (db, _report) = Db::open(dir, options.clone(), env.clone(), &mut |_| ())?;
        let replayer = Replayer {
            session: db.session()?,
            db,
            families: Map::default(),
            chunks: Map::default(),
            deferred: BTreeMap::new(),
            deferred_commits: BTreeSet::new(),
            deferred_most: 0,
            taken: Lsn::FIRST,
            applied: Applied(Arc::new(AtomicU64::new(Lsn::FIRST.get()))),
        };
        Ok(Self { unpacker, replayer })
    }

    /// Processes a shipment.
    ///
    /// # Errors
    /// Those of the engine; a record that cannot be read or that this replayer does not support.
    pub(super) fn take(&mut self, shipment: Shipment, records: &[u8]) -> anyhow::Result<()> {
        self.take_run(shipment.start, shipment.prev_end, records)
    }

    /// Processes whole records that begin at `start` and continue `prev_end`.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub(super) fn take_run(&mut self, start: Lsn, prev_end: Lsn, records: &[u8]) -> anyhow::Result<()> {
        let Self { unpacker, replayer } = self;
        unpacker.take(start, prev_end, records, |record: RecordRef<'_>| {
            replayer.taken = record.lsn;
            replayer.take(record)
        })?;
        replayer.taken = start.plus(u64::try_from(records.len())?);
        replayer.publish();
        Ok(())
    }

    /// Returns a handle to its progress.
    pub(super) fn applied(&self) -> Applied {
        self.replayer.applied.clone()
    }

    /// Replays all deferred transactions, since the log has ended.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.replayer.replay_up_to(Lsn::MAX)
    }

    /// Returns the database.
    pub(super) const fn db(&self) -> &Db {
        &self.replayer.db
    }

    /// Returns the largest number of transactions that were deferred at once.
    pub(super) const fn deferred_most(&self) -> usize {
        self.replayer.deferred_most
    }
}

impl Replayer {
    fn take(&mut self, record: RecordRef<'_>) -> anyhow::Result<()> {
        let RecordRef { lsn, tag, body, .. } = record;
        match Logged::read(lsn, tag, body)? {
            Logged::Chunk { xid, writes } => self.chunks.entry(xid).or_default().extend_from_slice(writes),
            Logged::Abort { xid } => drop(self.chunks.remove(&xid)),
            Logged::RollbackTo => anyhow::bail!("savepoints are not replayed by begin (at {lsn})"),
            Logged::Commit { xid, times, writes } => {
                let mut all = self.chunks.remove(&xid).unwrap_or_default();
                all.extend_from_slice(writes);
                let Some((begin, oldest)) = times else { return self.replay(lsn, &all) };
                self.deferred.insert((begin, lsn), all);
                self.deferred_commits.insert(lsn);
                self.deferred_most = self.deferred_most.max(self.deferred.len());
                self.replay_up_to(oldest)?;
            }
            Logged::Other => {}
        }
        Ok(())
    }

    /// Replays every transaction that began at or below `oldest` (H1, H2).
    fn replay_up_to(&mut self, oldest: Lsn) -> anyhow::Result<()> {
        while let Some(first) = self.deferred.first_entry().filter(|first| first.key().0 <= oldest) {
            let ((_, lsn), writes) = first.remove_entry();
            self.replay(lsn, &writes)?;
            self.deferred_commits.remove(&lsn);
            self.publish();
        }
        Ok(())
    }

    /// Publishes the progress (H4).
    fn publish(&self) {
        let position = self.deferred_commits.first().copied().unwrap_or(self.taken).min(self.taken);
        self.applied.0.store(position.get(), Ordering::Release);
    }

    fn replay(&mut self, lsn: Lsn, writes: &[u8]) -> anyhow::Result<()> {
        let Self { session, db, families, .. } = self;
        if let Some(wait) = session.wait_for_room()? {
            wait.block()?;
        }
        session.begin(Isolation::ReadCommitted, false)?;
        session.begin_statement(StatementKind::Write)?;
        Logged::writes(lsn, writes, |cf, key, value| {
            let family = families.entry(cf).or_insert_with(|| db.family(cf));
            put(session, family, key, value)
        })?;
        session.end_statement();
        session.commit(false)?.block()?;
        Ok(())
    }
}

/// Writes or deletes a row; the log does not say whether it exists.
fn put(session: &mut Session, family: &Family, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
    let what = value.map_or(Write::Delete, Write::Put);
    for _ in 0..2 {
        match session.write(family, key, Basis::Snapshot, what)? {
            Outcome::Done => return Ok(()),
            Outcome::SelfModified => {
                session.end_statement();
                session.begin_statement(StatementKind::Write)?;
            }
            Outcome::Gone => {
                let Some(value) = value else { return Ok(()) };
                match session.insert(family, key, value)? {
                    Insert::Done => return Ok(()),
                    other => anyhow::bail!("row {key:?} comes and goes: {other:?}"),
                }
            }
            other => anyhow::bail!("somebody else writes row {key:?}: {other:?}"),
        }
    }
    anyhow::bail!("row {key:?} was written by this statement still")
}

#[cfg(test)]
mod tests {
    use collie_wal::ShipOptions;

    use super::*;

    const CF: CfId = CfId::new(9);

    /// Goal: H1, H2. Method: a transaction that begins first and commits last, and others meanwhile, one of which
    /// writes a row that the long one overwrites. The log is replayed record by record: transactions that began later
    /// than the long one are not visible before it, those that began with it may be, and in the end the rows are the
    /// primary's.
    #[test]
    fn transactions_are_replayed_in_the_order_of_their_begins() {
        let dir = tempfile::tempdir().unwrap();
        let (env, options) = (Env::real(), Options { background: false, ..Options::small() });
        let (db, _) = Db::open(&dir.path().join("primary"), options.clone(), env.clone(), &mut |_| ()).unwrap();
        let family = db.family(CF);
        let begin = || {
            let mut session = db.session().unwrap();
            session.begin(Isolation::RepeatableRead, false).unwrap();
            session.begin_statement(StatementKind::Write).unwrap();
            session
        };
        let write = |mut session: Session, key: &[u8], value: Option<&[u8]>| {
            put(&mut session, &family, key, value).unwrap();
            session.end_statement();
            session.commit(true).unwrap().block().unwrap();
            db.tick();
        };
        write(begin(), b"loaded", Some(b"1"));
        write(begin(), b"gone", Some(b"1"));
        db.note_commit_times();
        let long = begin();
        write(begin(), b"loaded", Some(b"2"));
        write(begin(), b"gone", None);
        write(begin(), b"loaded", Some(b"3"));
        write(long, b"late", Some(b"1"));
        write(begin(), b"late", Some(b"2"));
        write(begin(), b"last", Some(b"1"));

        let mut thesis = Thesis::open(&env, &dir.path().join("replayed"), &options).unwrap();
        let mut shipper = db.log().unwrap().ship("thesis", ShipOptions::from(Lsn::FIRST)).unwrap();
        let (mut bytes, mut states) = (Vec::new(), Vec::new());
        while let Some(shipment) = shipper.try_next(1, &mut bytes).unwrap() {
            thesis.take(shipment, &bytes).unwrap();
            bytes.clear();
            let rows = rows_of(thesis.db());
            if states.last() != Some(&rows) {
                states.push(rows);
            }
        }
        let before = states.clone();
        thesis.finish().unwrap();
        assert_eq!(rows_of(thesis.db()), rows_of(&db));
        let shows = |rows: &[(String, String)], key: &str, value: &str| rows.contains(&(key.into(), value.into()));
        let long_at = before.iter().position(|rows| shows(rows, "late", "1") || shows(rows, "late", "2"));
        let first_young = before.iter().position(|rows| shows(rows, "loaded", "3"));
        let long_at = long_at.expect("a commit behind it lets it go");
        assert!(first_young.is_none_or(|young| young >= long_at), "deferred behind the long one: {before:?}");
        assert!(thesis.deferred_most() >= 3, "{}", thesis.deferred_most());
    }

    /// Goal: H4: `applied` stops before the oldest deferred commit, and reaches the end with it. Method: a commit while
    /// an older transaction is open, then that transaction's commit; the position is checked after each record and
    /// after all.
    #[test]
    fn applied_stops_before_what_is_deferred() {
        let dir = tempfile::tempdir().unwrap();
        let (env, options) = (Env::real(), Options { background: false, ..Options::small() });
        let (db, _) = Db::open(&dir.path().join("primary"), options.clone(), env.clone(), &mut |_| ()).unwrap();
        let family = db.family(CF);
        let begin = || {
            let mut session = db.session().unwrap();
            session.begin(Isolation::RepeatableRead, false).unwrap();
            session.begin_statement(StatementKind::Write).unwrap();
            session
        };
        let write = |mut session: Session, key: &[u8]| {
            put(&mut session, &family, key, Some(b"1")).unwrap();
            session.end_statement();
            session.commit(true).unwrap().block().unwrap();
            db.tick();
        };
        write(begin(), b"loaded");
        db.note_commit_times();
        let long = begin();
        let before = db.durable();
        write(begin(), b"young");
        write(long, b"old");
        let mut thesis = Thesis::open(&env, &dir.path().join("replayed"), &options).unwrap();
        let applied = thesis.applied();
        let mut shipper = db.log().unwrap().ship("thesis", ShipOptions::from(Lsn::FIRST)).unwrap();
        let (mut bytes, mut seen, mut end) = (Vec::new(), Vec::new(), Lsn::FIRST);
        while let Some(shipment) = shipper.try_next(1, &mut bytes).unwrap() {
            thesis.take(shipment, &bytes).unwrap();
            bytes.clear();
            end = shipment.end;
            assert!(applied.position() <= end);
            seen.push(applied.position());
        }
        assert!(seen.is_sorted(), "{seen:?}");
        assert!(seen.iter().any(|position| *position < end && *position >= before), "never deferred: {seen:?}");
        thesis.finish().unwrap();
        assert_eq!(applied.position(), end);
        assert_eq!(rows_of(thesis.db()), rows_of(&db));
    }

    fn rows_of(db: &Db) -> Vec<(String, String)> {
        let mut session = db.session().unwrap();
        session.begin(Isolation::RepeatableRead, false).unwrap();
        session.begin_statement(StatementKind::Write).unwrap();
        let mut rows = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        session
            .scan(&db.family(CF), &collie_engine::KeyRange::ALL, None, false, usize::MAX, &mut |key, value| {
                rows.push((text(key), text(value)));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        rows
    }
}

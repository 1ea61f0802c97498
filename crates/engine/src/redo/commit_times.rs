//! Commits with times, for replayers that order by the begin of transactions; replay in this engine does not need them.
//!
//! They serve benchmarks: with the feature `bench-hooks`, and after
//! [`Db::note_commit_times`](crate::Db::note_commit_times), commits are logged as COMMIT_TIMED records: the snapshot as
//! an LSN varint, the horizon as an LSN varint, and the fields behind the version byte of a COMMIT. A program without
//! the feature writes none, and does not read a log with them. A replayer reads them through [`Logged`].
//!
//! # Invariants
//! - C1. `begin` is the snapshot on which the transaction's writes were based, and `oldest` is the horizon that
//!   the last tick found some milliseconds ago: no snapshot is below it, now or later. So every commit after this
//!   record began at or above `oldest`, and a replayer that orders by begin may apply all transactions that began
//!   below.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use collie_base::codec::{DecodeError, Reader, put_varint};
use collie_base::{CfId, Lsn, Xid};
use collie_txn::CommitRecord;

use crate::EngineError;
use crate::redo::{Op, REDO_VERSION, Redo, tag};

/// The tag of a COMMIT with the snapshot of its transaction and the horizon.
pub(crate) const COMMIT_TIMED: u8 = 12;

/// Whether commits carry times.
#[derive(Debug, Default)]
pub(crate) struct CommitTimes(AtomicBool);

impl CommitTimes {
    /// Makes commits carry times.
    pub(crate) fn turn_on(&self) {
        self.0.store(true, Relaxed);
    }

    /// Returns the tag and the payload of a COMMIT_TIMED record made from `commit`, if commits carry times.
    pub(crate) fn of(&self, commit: &CommitRecord<'_>, begin: Option<Lsn>, oldest: Lsn) -> Option<(u8, Vec<u8>)> {
        if !self.0.load(Relaxed) || commit.tag != tag::COMMIT {
            return None;
        }
        let mut record = vec![REDO_VERSION];
        put_varint(&mut record, begin.unwrap_or_default().get());
        put_varint(&mut record, oldest.get());
        record.extend_from_slice(commit.bytes.get(1..).unwrap_or_default());
        Some((COMMIT_TIMED, record))
    }
}

/// Reads over the times of a COMMIT_TIMED record, behind its version; returns the tag of a record with the rest.
pub(crate) fn skip(record_tag: u8, reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    if record_tag != COMMIT_TIMED {
        return Ok(record_tag);
    }
    let _times = (reader.varint()?, reader.varint()?);
    Ok(tag::COMMIT)
}

/// A record of the log, reduced to what it states about a transaction's writes, for replayers in benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged<'a> {
    /// The last writes of a transaction, and its end.
    Commit {
        /// The transaction.
        xid: Xid,
        /// The snapshot on which its writes were based, and a lower bound of those of all later commits; `None` if
        /// times were off.
        times: Option<(Lsn, Lsn)>,
        /// Its last writes, to be read with [`Logged::writes`].
        writes: &'a [u8],
    },
    /// Earlier writes of a transaction.
    Chunk {
        /// The transaction.
        xid: Xid,
        /// The writes, to be read with [`Logged::writes`].
        writes: &'a [u8],
    },
    /// The transaction has changed nothing.
    Abort {
        /// The transaction.
        xid: Xid,
    },
    /// Some of the transaction's earlier writes are void.
    RollbackTo,
    /// Any other record.
    Other,
}

impl<'a> Logged<'a> {
    /// Decodes the payload of a record.
    ///
    /// # Errors
    /// The payload makes no sense.
    pub fn read(lsn: Lsn, record_tag: u8, payload: &'a [u8]) -> Result<Self, EngineError> {
        let damage = |what| EngineError::Corruption { lsn, what };
        let times = if record_tag == COMMIT_TIMED {
            let mut reader = Reader::new(payload.get(1..).unwrap_or_default());
            let mut word = || reader.varint().map_err(|error| damage(error.what));
            Some((Lsn::new(word()?), Lsn::new(word()?)))
        } else {
            None
        };
        Ok(match Redo::decode(record_tag, payload).map_err(|error| damage(error.what))? {
            Redo::Commit { xid, ops: writes, .. } => Self::Commit { xid, times, writes },
            Redo::Chunk { xid, ops: writes } => Self::Chunk { xid, writes },
            Redo::Abort { xid } => Self::Abort { xid },
            Redo::RollbackTo { .. } => Self::RollbackTo,
            _ => Self::Other,
        })
    }

    /// Calls `visit` with the family, the key and the value of each write; a deletion has no value.
    ///
    /// # Errors
    /// The first that occurs: a write cannot be decoded, or `visit` fails.
    pub fn writes<E: From<EngineError>>(
        lsn: Lsn,
        writes: &[u8],
        mut visit: impl FnMut(CfId, &[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut reader = Reader::new(writes);
        while !reader.is_empty() {
            let op = Op::decode(&mut reader).map_err(|error| EngineError::Corruption { lsn, what: error.what })?;
            visit(op.cf, op.key, op.value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::path::Path;

    use collie_env::Env;

    use super::*;
    use crate::{Basis, Db, Insert, Isolation, Options, StatementKind, Write};

    /// Goal: C1, and a log with times is replayed like any other. Method: transactions that overlap; their
    /// records; the database is opened again.
    #[test]
    fn commits_carry_their_begin_and_the_oldest_one() {
        let (env, disk) = Env::simulated(3);
        let options = Options { background: false, ..Options::small() };
        let open = |env| Db::open(Path::new("/db"), options.clone(), env, &mut |_| ()).unwrap().0;
        let db = open(env);
        db.note_commit_times();
        let family = db.family(CfId::new(7));
        let begin = || {
            let mut session = db.session().unwrap();
            session.begin(Isolation::RepeatableRead, false).unwrap();
            session.begin_statement(StatementKind::Write).unwrap();
            let at = session.snapshot().unwrap();
            (session, at)
        };
        let commit = |session: &mut crate::Session, key: &[u8]| {
            assert_eq!(session.insert(&family, key, b"v").unwrap(), Insert::Done);
            session.commit(false).unwrap().block().unwrap().csn.unwrap()
        };
        let (mut long, first) = begin();
        let (mut short, second) = begin();
        let short = commit(&mut short, b"short");
        let (mut later, third) = begin();
        assert!(third > second);
        db.log().unwrap().flush_wal(true).unwrap();
        db.tick(); // the durable position bounds the horizon
        let later = commit(&mut later, b"later");
        let long = commit(&mut long, b"long");
        db.log().unwrap().flush_wal(true).unwrap();
        let mut found = Vec::new();
        for record in db.log().unwrap().read(Lsn::FIRST) {
            let record = record.unwrap();
            if let Logged::Commit { times, writes, .. } = Logged::read(record.lsn, record.tag, &record.body).unwrap() {
                let mut keys = Vec::new();
                Logged::writes(record.lsn, writes, |cf, key, value| {
                    keys.push((cf, key.to_vec(), value.map(<[u8]>::to_vec)));
                    Ok::<(), EngineError>(())
                })
                .unwrap();
                found.push((record.lsn, times, keys));
            }
        }
        let wrote = |key: &[u8]| vec![(CfId::new(7), key.to_vec(), Some(b"v".to_vec()))];
        let found = &found[found.len() - 3..];
        for ((lsn, begin, key), found) in
            [(short, second, &b"short"[..]), (later, third, b"later"), (long, first, b"long")].into_iter().zip(found)
        {
            let (at, times, writes) = found;
            let (began, oldest) = times.unwrap();
            assert_eq!((*at, began, writes.clone()), (lsn, begin, wrote(key)));
            assert!(oldest <= first, "the long one was there at each look");
            assert!(*at < later || oldest == first, "a tick has found it");
        }
        let db = open(Env::over(disk.power_cut(1), 4));
        let mut session = db.session().unwrap();
        session.begin(Isolation::ReadCommitted, false).unwrap();
        session.begin_statement(StatementKind::Write).unwrap();
        for key in [&b"short"[..], b"later", b"long"] {
            let done = session.write(&db.family(CfId::new(7)), key, Basis::Snapshot, Write::Put(b"w")).unwrap();
            assert_eq!(done, crate::Outcome::Done);
        }
    }
}

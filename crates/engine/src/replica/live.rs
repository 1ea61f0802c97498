//! `Live`: the dispatcher, which replays the log of another database while sessions read. One thread at a time gives it
//! records.
//!
//! ```text
//! record -> check -> redo -> lanes by hash(family, key) -> watermark -> min(applied, show) = visible position
//! ```
//!
//! | record | action |
//! |---|---|
//! | COMMIT | its writes go to the lanes, under its position; those of its chunks go first, as ROLLBACK_TO left them |
//! | COMMIT of the catalog | the same, alone (see below) |
//! | CHUNK | [`Unfinished`]; rows of a table or an index that the transaction makes go to the lanes (D7) |
//! | ROLLBACK_TO, ABORT | [`Unfinished`] |
//! | INCARNATION | a new history: unfinished transactions never happened |
//! | RELOG | skipped: its rows came with their own commits |
//! | UNLOGGED | holes (see below) |
//! | QUORUM | remembered for a promotion (`quorum_note.rs`) |
//! | XID_LIMIT, TIME | remembered for a promotion; [`ReplayTime`](crate::follow::replay_time::ReplayTime) too |
//!
//! A commit of the catalog is applied after everything before it is in place, and is in place before anything after it;
//! users of the catalog are notified before a snapshot shows it. An UNLOGGED record makes a hole in its family from
//! there on, and in those of its atomic group with lower ids, unless their LSM levels have the written rows.
//!
//! # Invariants
//! - D1. Records come in the order of the log; one below the end of the record before it is refused.
//! - D2. The watermark moves past a commit after all its writes were handed over (W1 of `watermark.rs`). It never stops
//!   inside a record or a transaction.
//! - D3. A write of a commit strictly below the flush position of its family is not applied, since the LSM levels have
//!   it.
//! - D4. A family whose drop was replayed is freed once no snapshot here is at or below the drop. A later write to it
//!   is damage if it belonged to SQL, whose tables are locked until the drop. Other families may be written until their
//!   handles notice the drop, and such a write is ignored. The families of tables that were dropped before replay began
//!   are freed too.
//! - D5. After an error nothing more is taken: a replica never skips a record.
//! - D6. The catalog is read once. Later changes are taken from the rows that commits write, so that the cost of a
//!   definition does not grow with the number of tables.
//! - D7. Rows of a table or an index that an open transaction makes are applied as its chunks come, so that neither
//!   the COMMIT of a large definition nor a commit behind it waits for them. No other transaction writes to such a
//!   family, and no snapshot knows it, before that COMMIT. Until then the family is uncommitted (A2 of the store's
//!   `family.rs`), so no flush takes its rows. If the transaction aborts, the family is freed as if it were dropped
//!   (D4), and so is one that the COMMIT leaves without a name; if ROLLBACK_TO voids a part of those rows, the COMMIT
//!   deletes them and applies the rows that count.
//!
//! Checked by `tests/agreement.rs` (parallel replay, replay by one worker and a map agree, whatever the number of
//! workers and the packets) and `tests/rules.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use collie_base::codec::Reader;
use collie_base::{CfId, Lsn, Map, Xid};
use collie_wal::RecordRef;

use crate::families::Families;
use crate::families::names::{self, NameRow};
use crate::follow::followed::CatalogRows;
use crate::follow::lanes::{Lanes, Target};
use crate::follow::record::{RecordAt, VisitRecord};
use crate::log::large::LargeTransactions;
use crate::redo::{Incarnation, Op, Redo};
use crate::replica::unfinished::{Ahead, Chunk, Open, Unfinished};
use crate::{EngineError, QuorumNote};

/// A callback that gets replay, a chunk and the chunk's operations.
type VisitChunk<'v, L> = dyn FnMut(&mut L, &Chunk, &[u8]) -> Result<(), EngineError> + 'v;

/// The database that [`Live`] replays into.
pub(crate) trait Follow: Target {
    /// Returns the transactions with chunks, for which log is kept.
    fn large(&self) -> &LargeTransactions;

    /// Calls `visit` with the tag and the payload of the records from `first` to `last` of the own log, which has them.
    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError>;

    /// Notifies of a commit that changed the catalog and whose record ends at `end`: all its writes are in place, and
    /// no snapshot shows it yet.
    fn catalog_changed(&self, end: Lsn, rows: CatalogRows);

    /// Records that a history begins at `start`; the record before it ends at `previous_end`.
    ///
    /// # Errors
    /// If it could not be recorded on disk.
    fn history_begins(&self, start: Lsn, previous_end: Lsn, incarnation: &Incarnation) -> Result<(), EngineError>;

    /// Records that rows of these families are missing here, from the record at `since` on.
    ///
    /// # Errors
    /// If it could not be recorded on disk.
    fn note_holes(&self, families: &[CfId], since: Lsn) -> Result<(), EngineError>;

    /// Notes that every transaction id in the records taken so far is below `limit`.
    fn xid_limit(&self, limit: Xid);

    /// Notes a time mark in a record that ends at `end`: everything below was appended before this time, in
    /// microseconds since 1970.
    fn marked(&self, wall_us: i64, end: Lsn);

    /// Notes that the record at `lsn` sets the quorum configuration from there on.
    fn quorum_noted(&self, lsn: Lsn, note: QuorumNote);

    /// Notes that a record that ends at `end` drops a family, which is freed once no snapshot shows it.
    fn note_dropped(&self, cf: CfId, end: Lsn);

    /// Frees the dropped families that no snapshot shows any more.
    fn free_dropped(&self);
}

/// The state in which replay begins.
#[derive(Debug)]
pub(crate) struct Begin {
    /// Everything below this position is applied.
    pub(crate) position: Lsn,
    /// Transactions that the log below has not ended.
    pub(crate) unfinished: Unfinished,
    /// The last flush of each family with LSM levels (D3).
    pub(crate) flushed: Map<CfId, Lsn>,
    /// Above every transaction id in the log before.
    pub(crate) xid_limit: Xid,
    /// The time of the newest mark before, in microseconds since 1970.
    pub(crate) time_us: i64,
    /// Families with known holes, each with the position where its hole begins.
    pub(crate) holes: Map<CfId, Lsn>,
    /// UNLOGGED records of the log before: their family and position.
    pub(crate) unlogged: Vec<(CfId, Lsn)>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Live<F: Follow> {
    target: Arc<F>,
    lanes: Lanes,
    position: Lsn,
    unfinished: Unfinished,
    flushed: Map<CfId, Lsn>,
    /// The highest position of `flushed`; no look-up is needed at or above it.
    flushed_max: Lsn,
    xid_limit: Xid,
    time_us: i64,
    /// Families with a name.
    named: Named,
    /// Named families by the keys of their name rows: the catalog is read once, and then changes by commits are
    /// followed (D6).
    names: BTreeMap<Vec<u8>, CfId>,
    /// Families that were dropped since replay began.
    gone: Named,
    /// Families with holes, each with the position of its first one.
    holes: Map<CfId, Lsn>,
    row_writes: u64,
    failed: Option<EngineError>,
}

impl<F: Follow> Live<F> {
    /// Returns a dispatcher that continues at `begin` with workers that were started there.
    ///
    /// # Errors
    /// If a name in the catalog cannot be read.
    pub(crate) fn new(target: Arc<F>, lanes: Lanes, begin: Begin) -> Result<Self, EngineError> {
        let Begin { position, unfinished, flushed, xid_limit, time_us, holes, unlogged } = begin;
        let flushed_max = flushed.values().copied().max().unwrap_or(Lsn::ZERO);
        let (named, names) = named_in(target.families())?;
        let mut live = Self {
            target,
            lanes,
            position,
            unfinished,
            flushed,
            flushed_max,
            xid_limit,
            time_us,
            named,
            names,
            gone: Named::new(),
            holes,
            row_writes: 0,
            failed: None,
        };
        unlogged.into_iter().try_for_each(|(cf, lsn)| live.note_hole(cf, lsn))?; // now that groups are known
        live.note_left();
        Ok(live)
    }

    /// Notes the families that a table left when it was dropped before replay began, and that the log below has brought
    /// back (D4). Only SQL names all of its families; without a family of SQL, one without a name may belong to a
    /// program.
    fn note_left(&mut self) {
        if !has_sql(&self.named) {
            return;
        }
        let all = self.target.families().all();
        let left = all.iter().map(|family| family.id());
        let left: Vec<CfId> = left.filter(|cf| *cf != CfId::CATALOG && !self.named.contains_key(cf)).collect();
        left.iter().for_each(|cf| self.target.note_dropped(*cf, self.position));
        self.gone.extend(left.into_iter().map(|cf| (cf, Owner::Sql)));
    }

    /// Takes a record. Its commit becomes visible some time after [`Live::flush`].
    ///
    /// # Errors
    /// `Corruption`, with its position: the replica must be rebuilt. Later calls return the first error again (D5).
    ///
    /// # Progress
    /// Waits while the lanes' queues are full, at a change of the catalog until they are empty, and for the disk where
    /// a large transaction is read back.
    pub(crate) fn take(&mut self, record: RecordRef<'_>) -> Result<(), EngineError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let taken = self.lanes.check().and_then(|()| self.take_record(record));
        taken.inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Lets everything taken become visible as soon as it is in place; after an error, the transactions that were whole
    /// before it.
    pub(crate) fn flush(&mut self) {
        self.dispatch(self.position);
        self.target.free_dropped(); // D4
    }

    /// Records that every write of the commits below `end` was taken.
    fn dispatch(&mut self, end: Lsn) {
        self.target.xid_limit(self.xid_limit); // known before log below the read horizon can be released
        self.lanes.dispatch(end);
    }

    fn take_record(&mut self, record: RecordRef<'_>) -> Result<(), EngineError> {
        let RecordRef { lsn, end, tag, body, .. } = record;
        let at = RecordAt { since: self.position, lsn };
        let damage = |what| EngineError::Corruption { lsn, what };
        if lsn < self.position || end <= lsn {
            return Err(damage("a record out of its order")); // D1
        }
        match Redo::decode(tag, body).map_err(|error| damage(error.what))? {
            Redo::Commit { xid, chunks, first_chunk, ops } => {
                self.lanes.begin_commit();
                self.note_xid(xid);
                let open = self.unfinished.take(xid);
                if chunks > 0 || open.is_some() || first_chunk != Lsn::ZERO {
                    let none = Open::default();
                    open.as_ref().unwrap_or(&none).course.check_whole(chunks, first_chunk).map_err(damage)?;
                }
                let writes_catalog = open.as_ref().is_some_and(|open| open.writes_catalog) || is_on_catalog(ops);
                if writes_catalog || open.as_ref().is_some_and(|open| !open.ahead.is_empty()) {
                    // All earlier commits are in place before the first write to the catalog, and all rows that were
                    // applied ahead before they get their CSN (D7).
                    self.dispatch(self.position);
                    self.lanes.drain()?;
                }
                let first = open.as_ref().and_then(|open| open.chunks.first()).map_or(at, |chunk| chunk.at);
                let mut writing =
                    Writing { at, since: at.since, families: Vec::new(), catalog: Vec::new(), ahead: Vec::new() };
                let mut made = Vec::new();
                if let Some(open) = open.filter(|open| !open.chunks.is_empty()) {
                    made.clone_from(&open.ahead);
                    self.write_chunks(open, &mut writing)?;
                    self.write(ops, &mut writing)?;
                    // Already noted with its first chunk, or when the log was opened with the transaction unfinished.
                    self.target.large().begin(xid, first.since);
                    self.target.large().commit(xid, first_chunk, lsn, &writing.families);
                } else {
                    self.write(ops, &mut writing)?;
                }
                self.lanes.note_commit(lsn, writes_catalog);
                if writes_catalog {
                    // The change is in place and users of the catalog are notified before the watermark can pass it.
                    self.lanes.drain()?;
                    self.rename(end, &writing.catalog)?;
                    self.target.catalog_changed(end, writing.catalog);
                    self.position = end;
                    self.dispatch(end);
                }
                // ROLLBACK_TO may have voided the row that names a family.
                made.retain(|cf| ![&self.named, &self.gone].iter().any(|known| known.contains_key(cf)));
                self.give_up(made, end);
            }
            Redo::Chunk { xid, ops } => {
                self.note_xid(xid);
                self.take_chunk(at, xid, ops)?;
            }
            Redo::Abort { xid } => {
                self.note_xid(xid);
                let ahead = self.unfinished.abort(xid, self.target.large());
                self.give_up(ahead, end);
            }
            Redo::RollbackTo { xid, first_void } => self.unfinished.roll_back_to(xid, first_void).map_err(damage)?,
            Redo::Relog { .. } => {}
            Redo::Quorum(quorum) => quorum.note().into_iter().for_each(|note| self.target.quorum_noted(lsn, note)),
            Redo::Time { wall_us, .. } => {
                self.time_us = self.time_us.max(wall_us);
                self.target.marked(wall_us, end);
            }
            Redo::Unlogged { cf } => {
                self.target.families().note_used(cf);
                self.note_hole(cf, lsn)?;
            }
            Redo::XidLimit { limit } => self.xid_limit = self.xid_limit.max(limit),
            Redo::Incarnation(incarnation) => {
                let ahead = self.unfinished.clear(self.target.large());
                self.give_up(ahead, end);
                self.target.history_begins(lsn, self.position, &incarnation)?;
            }
        }
        self.position = end;
        Ok(())
    }

    /// Notes that a commit at `lsn` wrote rows of `cf` that are not in the log, and perhaps rows of families of its
    /// group with lower ids.
    fn note_hole(&mut self, cf: CfId, lsn: Lsn) -> Result<(), EngineError> {
        let mut missing = self.target.families().members_with(cf);
        let has = |member: &CfId| self.flushed.get(member).is_some_and(|flushed| lsn < *flushed); // as D3
        missing.retain(|member| *member <= cf && !self.holes.contains_key(member) && !has(member));
        if missing.is_empty() {
            return Ok(());
        }
        self.target.note_holes(&missing, lsn)?;
        self.holes.extend(missing.into_iter().map(|member| (member, lsn)));
        Ok(())
    }

    fn note_xid(&mut self, xid: Xid) {
        self.xid_limit = self.xid_limit.max(Xid::new(xid.get().saturating_add(1)));
    }

    /// Takes a chunk: its operations on families that the transaction makes are applied, the others are kept (D7).
    fn take_chunk(&mut self, at: RecordAt, xid: Xid, ops: &[u8]) -> Result<(), EngineError> {
        let damage = |what| EngineError::Corruption { lsn: at.lsn, what };
        let Self { target, lanes, unfinished, named, gone, holes, row_writes, .. } = self;
        let families = target.families();
        // Only SQL names each family in the transaction that makes it; a program writes to one without a name.
        let has_sql = has_sql(named);
        let is_new = |cf: CfId| {
            has_sql
                && cf != CfId::CATALOG
                && ![&*named, &*gone].iter().any(|known| known.contains_key(&cf))
                && !holes.contains_key(&cf)
                && families.get(cf).is_none()
        };
        let ahead = unfinished.chunk(at, xid, ops, target.large(), Some(&is_new)).map_err(damage)?;
        for cf in ahead.iter().filter(|cf| families.get(**cf).is_none()) {
            families.get_or_make(*cf).set_first_commit(Lsn::MAX); // before its first row
        }
        let mut last = CfId::CATALOG;
        each_op(ops, at.lsn, &mut |op| {
            if op.cf != last {
                // Also if it never commits: a node that is promoted gives the id to no other family.
                families.note_used(op.cf);
                last = op.cf;
            }
            if ahead.contains(&op.cf) {
                lanes.put(&op, at.lsn, at.since);
                *row_writes += 1;
            }
            Ok(())
        })
    }

    /// Gives up families with rows that were applied ahead of a COMMIT, which never comes: the record that says so ends
    /// at `end`.
    fn give_up(&mut self, ahead: Vec<CfId>, end: Lsn) {
        ahead.iter().for_each(|cf| self.target.note_dropped(*cf, end));
        self.gone.extend(ahead.into_iter().map(|cf| (cf, Owner::Sql)));
    }

    /// Takes the transactions out that are not over, at the end of replay.
    pub(crate) fn take_unfinished(&mut self) -> Unfinished {
        std::mem::replace(&mut self.unfinished, Unfinished::new(self.position, 0))
    }

    /// Hands over the operations of chunks that are not void and were not applied ahead, reading back the chunks that
    /// are not in memory.
    fn write_chunks(&mut self, open: Open, writing: &mut Writing) -> Result<(), EngineError> {
        let csn = writing.at.lsn;
        let is_void = open.is_ahead_void();
        let Open { course, chunks, ahead, .. } = open;
        for cf in &ahead {
            self.target.families().get_or_make(*cf).set_first_commit(csn);
        }
        if is_void {
            // D7: the rows that were applied ahead are deleted, and those that count are written again.
            self.visit_chunks(&chunks, &|chunk| chunk.ahead() != Ahead::None, &mut |live, _, ops| {
                each_op(ops, csn, &mut |op| {
                    let is_ahead = ahead.contains(&op.cf);
                    if is_ahead { live.put(&Op { value: None, ..op }, writing) } else { Ok(()) }
                })
            })?;
        } else {
            writing.families.clone_from(&ahead);
            writing.ahead = ahead;
        }
        let committed = course.into_committed(csn);
        let is_wanted = |chunk: &Chunk| is_void || chunk.ahead() != Ahead::All;
        self.visit_chunks(&chunks, &is_wanted, &mut |live, chunk, ops| {
            let mut number = chunk.first_number();
            each_op(ops, csn, &mut |op| {
                let counts = committed.has(number);
                number += 1;
                match counts {
                    false => live.target.families().note_used(op.cf),
                    true if writing.ahead.contains(&op.cf) => {}
                    true => live.put(&op, writing)?,
                }
                Ok(())
            })
        })
    }

    /// Calls `visit` with each wanted chunk and its operations, in order; reads the chunks back that are not in memory.
    fn visit_chunks(
        &mut self,
        chunks: &[Chunk],
        is_wanted: &dyn Fn(&Chunk) -> bool,
        visit: &mut VisitChunk<'_, Self>,
    ) -> Result<(), EngineError> {
        let mut rest = chunks;
        while let Some((first, others)) = rest.split_first() {
            if let Some(ops) = first.ops.as_ref().filter(|_| is_wanted(first)) {
                visit(self, first, ops)?;
            }
            if first.ops.is_some() || !is_wanted(first) {
                rest = others;
                continue;
            }
            let count = rest.iter().take_while(|chunk| chunk.ops.is_none() && is_wanted(chunk)).count();
            let (absent, others) = rest.split_at(count);
            let (mut left, target) = (absent.iter().peekable(), Arc::clone(&self.target));
            target.read_back(first.at, absent[count - 1].at, &mut |lsn, tag, payload| {
                let Some(chunk) = left.next_if(|chunk| chunk.at.lsn == lsn) else {
                    return Ok(()); // a record of another transaction
                };
                match Redo::decode(tag, payload) {
                    Ok(Redo::Chunk { ops, .. }) => visit(self, chunk, ops),
                    _ => Err(EngineError::Corruption { lsn, what: "a chunk that reads back as something else" }),
                }
            })?;
            if let Some(missing) = left.next() {
                let what = "a chunk that the own log lacks";
                return Err(EngineError::Corruption { lsn: missing.at.lsn, what });
            }
            rest = others;
        }
        Ok(())
    }

    /// Hands over the operations of a COMMIT.
    fn write(&mut self, ops: &[u8], writing: &mut Writing) -> Result<(), EngineError> {
        each_op(ops, writing.at.lsn, &mut |op| self.put(&op, writing))
    }

    fn put(&mut self, op: &Op<'_>, writing: &mut Writing) -> Result<(), EngineError> {
        let RecordAt { lsn: csn, .. } = writing.at;
        if writing.families.last() != Some(&op.cf) && !writing.families.contains(&op.cf) {
            self.target.families().note_used(op.cf);
            writing.families.push(op.cf);
            if self.target.families().get(op.cf).is_some_and(|family| family.is_uncommitted()) {
                // D7
                return Err(EngineError::Corruption { lsn: csn, what: "a write to a table of another transaction" });
            }
        }
        match self.gone.get(&op.cf) {
            None => {}
            Some(Owner::Sql) => {
                return Err(EngineError::Corruption { lsn: csn, what: "a write to a table that was dropped" }); // D4
            }
            Some(Owner::Other) => return Ok(()),
        }
        if csn < self.flushed_max && self.flushed.get(&op.cf).is_some_and(|flushed| csn < *flushed) {
            return Ok(()); // D3
        }
        if op.cf == CfId::CATALOG {
            writing.catalog.push((op.key.to_vec(), op.value.map(<[u8]>::to_vec)));
        }
        self.lanes.put(op, csn, writing.since);
        self.row_writes += 1;
        Ok(())
    }

    /// Follows the families that a commit of the catalog, ending at `end`, has named and dropped by its rows (D6).
    fn rename(&mut self, end: Lsn, rows: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<(), EngineError> {
        let (mut unnamed, mut named) = (Vec::new(), Vec::new());
        for (key, value) in rows.iter().filter(|(key, _)| names::is_engines(key)) {
            unnamed.extend(self.names.remove(key));
            let Some(value) = value else { continue };
            match names::read(key, value)? {
                NameRow::Named { cf, name, group } => {
                    self.target.families().join(cf, &group);
                    self.names.insert(key.clone(), cf);
                    named.push((cf, Owner::of(&name)));
                }
                NameRow::NextId(next) => self.target.families().note_used(CfId::new(next.saturating_sub(1))),
                NameRow::Dropped(cf) => self.target.families().note_used(cf),
            }
        }
        for cf in unnamed {
            // It may have got another name, or the same one again.
            if self.names.values().any(|other| *other == cf) {
                continue;
            }
            // A family that this commit also named exists here too, with the rows that it got in between.
            let made = || named.iter().find(|(made, _)| *made == cf).map(|(_, owner)| *owner);
            if let Some(owner) = self.named.remove(&cf).or_else(made) {
                self.target.note_dropped(cf, end);
                self.gone.insert(cf, owner);
            }
        }
        for (cf, owner) in named.into_iter().filter(|(cf, _)| self.names.values().any(|other| other == cf)) {
            drop(self.target.families().get_or_make(cf));
            self.named.insert(cf, owner);
        }
        Ok(())
    }

    /// Notes a record as an opening notes it, before replay is live.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn note(&mut self, at: RecordAt, redo: &Redo<'_>, large: &LargeTransactions) {
        self.unfinished.note(at, redo, large).expect("the record makes sense");
        self.position = at.lsn;
    }

    /// Hands over all taken writes, none of which is visible yet.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn hand_over_all(&mut self) {
        self.lanes.hand_all();
    }

    /// Returns the end of the last taken record.
    pub(crate) const fn position(&self) -> Lsn {
        self.position
    }

    /// Returns the lanes.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) const fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Waits until everything taken is in place.
    ///
    /// # Errors
    /// If a worker has ended early.
    pub(crate) fn drain(&mut self) -> Result<(), EngineError> {
        self.flush();
        self.lanes.drain()
    }

    /// Returns the error that has ended replay, if there is one (D5).
    pub(crate) fn failure(&self) -> Option<EngineError> {
        self.failed.clone().or_else(|| self.lanes.check().err())
    }

    /// Returns the time of the newest mark in the log, in microseconds since 1970.
    pub(crate) const fn time_us(&self) -> i64 {
        self.time_us
    }

    /// Returns the families with holes, and the positions where these begin.
    pub(crate) const fn holes(&self) -> &Map<CfId, Lsn> {
        &self.holes
    }

    /// Returns the number of row writes that were handed over.
    pub(crate) const fn row_writes(&self) -> u64 {
        self.row_writes
    }
}

/// A commit whose writes are being handed over.
#[derive(Debug)]
struct Writing {
    at: RecordAt,
    /// Its writes need the log from here on; `large.rs` keeps the log of chunks.
    since: Lsn,
    families: Vec<CfId>,
    /// The catalog rows that it writes.
    catalog: CatalogRows,
    /// The families of which the chunks' rows are in place already (D7).
    ahead: Vec<CfId>,
}

/// Calls `visit` with each operation of a record at `lsn`, in order.
fn each_op(ops: &[u8], lsn: Lsn, visit: &mut dyn FnMut(Op<'_>) -> Result<(), EngineError>) -> Result<(), EngineError> {
    let mut reader = Reader::new(ops);
    while !reader.is_empty() {
        visit(Op::decode(&mut reader).map_err(|error| EngineError::Corruption { lsn, what: error.what })?)?;
    }
    Ok(())
}

/// Returns whether a family belongs to SQL.
fn has_sql(named: &Named) -> bool {
    named.values().any(|owner| *owner == Owner::Sql)
}

/// Returns whether an operation is on the catalog. An undecodable operation is reported later.
fn is_on_catalog(ops: &[u8]) -> bool {
    let mut reader = Reader::new(ops);
    while !reader.is_empty() {
        match Op::decode(&mut reader) {
            Ok(op) if op.cf == CfId::CATALOG => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

/// The owner of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A table or an index.
    Sql,
    /// A program that embeds the engine.
    Other,
}

impl Owner {
    fn of(name: &str) -> Self {
        if names::is_sql_name(name) { Self::Sql } else { Self::Other }
    }
}

type Named = BTreeMap<CfId, Owner>;

/// Returns the families that the catalog names in its current state, and their ids by the keys of their name rows.
fn named_in(families: &Families) -> Result<(Named, BTreeMap<Vec<u8>, CfId>), EngineError> {
    let (mut named, mut keys) = (Named::new(), BTreeMap::new());
    for row in names::rows_in(families)? {
        match row {
            NameRow::Named { cf, name, group } => {
                families.join(cf, &group);
                keys.insert(names::name_key(&name), cf);
                named.insert(cf, Owner::of(&name));
            }
            NameRow::NextId(next) => families.note_used(CfId::new(next.saturating_sub(1))),
            NameRow::Dropped(cf) => families.note_used(cf),
        }
    }
    Ok((named, keys))
}

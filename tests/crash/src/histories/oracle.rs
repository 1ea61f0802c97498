//! The oracle of histories: it decides from the recorded events alone whether every session saw exactly what its
//! snapshots had to show. It knows the rules of snapshots and nothing of how the engine implements them.
//!
//! Let `S` be a statement's snapshot, and `C` the position (CSN) of its transaction's commit.
//!
//! # Rules of a correct history
//! - P1. A read chose the transaction's own newest version of an earlier command that was not undone, else the newest
//!   commit of the row strictly below `S`, else nothing; and it returned the value that was written there.
//! - P2. A scan returned exactly the rows of its range to which P1 gives a value, in order: none is missing, none is
//!   extra.
//! - P3. For each write or lock (FOR SHARE and above) of a committed transaction, no other transaction committed to the
//!   row between the basis of the operation, which is `S` or the commit that the session learned of, and `C`. At
//!   REPEATABLE READ and above this is first-updater-wins with one `S`; an insert of READ COMMITTED found the key free
//!   whatever `S` was.
//! - P4. In the order of commits, a row that was changed existed, and a key that was inserted was free.
//! - P5. The snapshots of a session never fall, and are above every commit that it made or learned of, also by an
//!   insert that found a deleted key free. A transaction of REPEATABLE READ or above has one snapshot. `C >= S` for
//!   each of its statements.
//! - P6. The log has exactly the commits that were made, each at its `C` under its transaction's id: the order of CSNs
//!   is the order of the log.
//! - P7. For a SERIALIZABLE transaction that wrote, no other SERIALIZABLE one committed between `S` and `C` to a row
//!   that it had read or learned of, nor to a key within a range that it had scanned, whether the key existed or not. A
//!   transaction that learned of a commit at or above `S` does not commit at all, even without writes.
//!
//! P1 to P5 together are exactly snapshot isolation: a history in which one read saw one commit too few or too many
//! fails. With P7, if all transactions are SERIALIZABLE, one that wrote would have seen the same had it run alone at
//! `C`, and one that did not, at `S`: these positions are a serial order. Transactions of other levels take no part in
//! validation: one of them may get its position before a SERIALIZABLE transaction and be published after that one's
//! validation. Rolled-back transactions are checked like the others, except for P7.
//!
//! Cost: each event once, with a search among the commits of its rows; for P7 the rows of a range once more.

use std::collections::BTreeMap;
use std::ops::Bound;

use anyhow::{Context, ensure};
use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_engine::{Based, Event, Isolation, RowRead, Seen};

/// The recorded events.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The events of each session, in order.
    pub(crate) sessions: Vec<Vec<Event>>,
    /// The commits in the log, in its order.
    pub(crate) log: Vec<(Lsn, Xid)>,
}

/// The numbers of checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) transactions: u64,
    pub(crate) commits: u64,
    pub(crate) reads: u64,
    pub(crate) scans: u64,
    pub(crate) scanned_rows: u64,
    pub(crate) holds: u64,
    /// Reads and scanned rows that chose the transaction's own version.
    pub(crate) own: u64,
    /// Reads of rows with a commit at or above the snapshot, made before the read or later.
    pub(crate) old: u64,
    /// Reads, scans and rows met by writes of SERIALIZABLE transactions to which P7 was applied.
    pub(crate) lasting: u64,
    /// Transactions of REPEATABLE READ that P7 would not have let commit.
    pub(crate) skewed: u64,
}

impl Facts {
    /// Adds the numbers of another history.
    pub(crate) fn add(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.commits += other.commits;
        self.reads += other.reads;
        self.scans += other.scans;
        self.scanned_rows += other.scanned_rows;
        self.holds += other.holds;
        self.own += other.own;
        self.old += other.old;
        self.lasting += other.lasting;
        self.skewed += other.skewed;
    }
}

/// The state of a row after one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Commit {
    csn: Lsn,
    value: Option<u64>,
    isolation: Isolation,
}

/// The commits of a row, in order.
type Row = Vec<Commit>;
type Rows = BTreeMap<CfId, BTreeMap<Box<[u8]>, Row>>;

/// A write or lock of the open transaction.
#[derive(Clone, Debug)]
struct Hold {
    cf: CfId,
    key: Box<[u8]>,
    /// `None` for a lock, `Some(None)` for a deletion.
    written: Option<Option<u64>>,
    based: Based,
    snapshot: Lsn,
    command: u32,
    position: u64,
}

impl Hold {
    fn is_of(&self, cf: CfId, key: &[u8]) -> bool {
        self.cf == cf && *self.key == *key
    }
}

/// A key or a range that a transaction has looked at.
#[derive(Clone, Copy, Debug)]
enum Look<'h> {
    Key(CfId, &'h [u8]),
    Range(CfId, Bound<&'h [u8]>, Bound<&'h [u8]>),
}

/// The number of a transaction's events that a violation shows.
const EVENTS_SHOWN: usize = 40;

/// Checks a history.
///
/// # Errors
/// The first violation: the rule, the session and the event.
pub(crate) fn check(history: &History) -> anyhow::Result<Facts> {
    let rows = committed_rows(history)?;
    let mut facts = Facts::default();
    for (number, events) in history.sessions.iter().enumerate() {
        let mut session = Replay::new(&rows);
        for (at, event) in events.iter().enumerate() {
            session.step(event, &events[at + 1..]).with_context(|| {
                let began = events[..at].iter().rposition(|event| matches!(event, Event::Begin(_))).unwrap_or(0);
                let shown = &events[began.max(at.saturating_sub(EVENTS_SHOWN))..at];
                format!("session {number}, event {at}, after {shown:?}: {event:?}")
            })?;
        }
        facts.add(session.facts);
    }
    Ok(facts)
}

/// Collects the commits of every row, and checks P6.
fn committed_rows(history: &History) -> anyhow::Result<Rows> {
    let mut rows = Rows::new();
    let mut commits = Vec::new();
    for events in &history.sessions {
        let mut writes: Vec<(CfId, &[u8], Option<u64>, u64)> = Vec::new();
        let mut isolation = Isolation::default();
        for event in events {
            match event {
                Event::Write { cf, key, value, position, .. } => writes.push((*cf, &key[..], *value, *position)),
                Event::RollbackTo(mark) => writes.retain(|(.., position)| position < mark),
                Event::Begin(level) => {
                    isolation = *level;
                    writes.clear();
                }
                Event::Rollback | Event::Commit { at: None } => writes.clear(),
                Event::Commit { at: Some((csn, xid)) } => {
                    commits.push((*csn, *xid));
                    for (cf, key, value, _) in writes.drain(..) {
                        let row = rows.entry(cf).or_default().entry(key.into()).or_default();
                        match row.last_mut() {
                            // An earlier write of this transaction to the row: the session has added no other commit
                            // since.
                            Some(last) if last.csn == *csn => last.value = value,
                            _ => row.push(Commit { csn: *csn, value, isolation }),
                        }
                    }
                }
                _ => {}
            }
        }
    }
    rows.values_mut().flat_map(BTreeMap::values_mut).for_each(|row| row.sort_unstable_by_key(|commit| commit.csn));
    commits.sort_unstable();
    ensure!(history.log.is_sorted_by(|a, b| a.0 < b.0), "P6: commit records of the log are out of order");
    if commits != history.log {
        let made = commits.iter().find(|commit| history.log.binary_search(commit).is_err());
        let logged = history.log.iter().find(|commit| commits.binary_search(commit).is_err());
        anyhow::bail!(
            "P6: {made:?} was committed and is not in the log, {logged:?} is in the log and was not committed"
        );
    }
    Ok(rows)
}

/// Returns the newest commit below `snapshot`.
fn newest_below(row: &[Commit], snapshot: Lsn) -> Option<Commit> {
    let older = row.partition_point(|commit| commit.csn < snapshot);
    older.checked_sub(1).map(|at| row[at])
}

/// The replay of one session.
struct Replay<'h> {
    rows: &'h Rows,
    isolation: Isolation,
    /// The snapshot of the open transaction, if it must not change.
    fixed: Option<Lsn>,
    snapshot: Lsn,
    command: u32,
    holds: Vec<Hold>,
    /// What the open transaction has looked at, for P7.
    looks: Vec<Look<'h>>,
    /// The highest commit that the open transaction learned of from a row that it met.
    met: Option<Lsn>,
    /// Snapshots must be at or above this (P5).
    floor: Lsn,
    facts: Facts,
}

impl<'h> Replay<'h> {
    fn new(rows: &'h Rows) -> Self {
        Self {
            rows,
            isolation: Isolation::default(),
            fixed: None,
            snapshot: Lsn::ZERO,
            command: 0,
            holds: Vec::new(),
            looks: Vec::new(),
            met: None,
            floor: Lsn::ZERO,
            facts: Facts::default(),
        }
    }

    /// Processes `event`; `rest` are the events after it.
    fn step(&mut self, event: &'h Event, rest: &[Event]) -> anyhow::Result<()> {
        match event {
            Event::Begin(isolation) => {
                self.isolation = *isolation;
                self.end();
                self.facts.transactions += 1;
            }
            Event::Statement { snapshot, command } => return self.statement(*snapshot, *command),
            Event::Read { cf, key, chosen, answer } => {
                self.looks.push(Look::Key(*cf, key));
                return self.read(*cf, key, chosen.as_ref(), *answer);
            }
            Event::Scan { cf, start, end, reverse, answers, chosen } => {
                let (low, high) = (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]));
                self.looks.push(Look::Range(*cf, low, high));
                return self.scan(*cf, [start, end], *reverse, answers, chosen);
            }
            Event::Met { cf, key, made } => {
                self.looks.push(Look::Key(*cf, key));
                self.met = self.met.max(*made);
                self.floor = self.floor.max(made.map_or(Lsn::ZERO, |csn| csn.plus(1)));
            }
            Event::Write { cf, key, value, based, position } => {
                if let Some(csn) = commit_of(*position, rest).filter(|_| *based == Based::Free) {
                    let row = self.rows.get(cf).and_then(|rows| rows.get(key));
                    let freed = row.and_then(|row| newest_below(row, csn)).map_or(Lsn::ZERO, |commit| commit.csn);
                    if freed >= self.snapshot {
                        self.floor = self.floor.max(freed.plus(1));
                    }
                }
                self.hold(*cf, key, Some(*value), *based, *position);
            }
            // A holder of KEY SHARE does not block writers that keep the keys, so P3 does not apply.
            Event::Lock { strength: LockStrength::KeyShare, .. } => {}
            Event::Lock { cf, key, based, position, .. } => self.hold(*cf, key, None, *based, *position),
            Event::ActedOn(csn) => self.floor = self.floor.max(csn.plus(1)),
            Event::RollbackTo(mark) => self.holds.retain(|hold| hold.position < *mark),
            Event::Commit { at } => {
                self.stands(at.map(|(csn, _)| csn))?;
                if let Some((csn, _)) = *at {
                    self.commit(csn)?;
                }
                self.end();
            }
            Event::Rollback => self.end(),
        }
        Ok(())
    }

    fn end(&mut self) {
        self.fixed = None;
        self.holds.clear();
        self.looks.clear();
        self.met = None;
    }

    /// Checks P7, for a commit at `csn` or without writes.
    fn stands(&mut self, csn: Option<Lsn>) -> anyhow::Result<()> {
        if self.isolation == Isolation::ReadCommitted {
            return Ok(());
        }
        let changed = csn.and_then(|csn| self.looks.iter().find_map(|look| self.changed(*look, csn)));
        if self.isolation == Isolation::Serializable {
            let snapshot = self.snapshot;
            ensure!(changed.is_none(), "P7: at {snapshot} read what was changed since: {changed:?}");
            let met = self.met.filter(|met| *met >= snapshot);
            ensure!(met.is_none(), "P7: at {snapshot} was told of the commit {met:?}");
            self.facts.lasting += csn.map_or(0, |_| self.looks.len() as u64);
        } else {
            self.facts.skewed += u64::from(changed.is_some());
        }
        Ok(())
    }

    /// Returns a relevant commit to the key or range, from the snapshot up to `csn`, if there is one.
    fn changed(&self, look: Look<'h>, csn: Lsn) -> Option<(&'h [u8], Commit)> {
        let heeded = |commit: &Commit| self.isolation != Isolation::Serializable || commit.isolation == self.isolation;
        let since = |row: &Row| {
            let newer = &row[row.partition_point(|commit| commit.csn < self.snapshot)..];
            newer.iter().take_while(|commit| commit.csn < csn).copied().find(heeded)
        };
        match look {
            Look::Key(cf, key) => Some((key, since(self.rows.get(&cf)?.get(key)?)?)),
            Look::Range(_, start, end) if is_empty(start, end) => None,
            Look::Range(cf, start, end) => {
                let mut rows = self.rows.get(&cf)?.range::<[u8], _>((start, end));
                rows.find_map(|(key, row)| Some((&key[..], since(row)?)))
            }
        }
    }

    fn statement(&mut self, snapshot: Lsn, command: u32) -> anyhow::Result<()> {
        match self.fixed {
            // The transaction may have learned of newer commits meanwhile, for example by a duplicate key, and keeps
            // its snapshot.
            Some(first) => ensure!(first == snapshot, "P5: snapshot {snapshot} in a transaction that began at {first}"),
            None => ensure!(snapshot >= self.floor, "P5: snapshot {snapshot} after {} was seen", self.floor),
        }
        if self.isolation != Isolation::ReadCommitted {
            self.fixed = Some(snapshot);
        }
        self.floor = self.floor.max(snapshot);
        (self.snapshot, self.command) = (snapshot, command);
        Ok(())
    }

    /// Returns the version and the value that a read of a row must choose; `None` for nothing.
    fn expected(&self, cf: CfId, key: &[u8], row: Option<&Row>) -> Option<(Seen, Option<u64>)> {
        let own = self
            .holds
            .iter()
            .rev()
            .find(|hold| hold.written.is_some() && hold.command < self.command && hold.is_of(cf, key));
        if let Some((hold, value)) = own.and_then(|hold| Some((hold, hold.written?))) {
            return Some((Seen::Own(hold.command), value));
        }
        newest_below(row?, self.snapshot).map(|commit| (Seen::Committed(commit.csn), commit.value))
    }

    fn count(&mut self, seen: Option<Seen>, row: Option<&Row>) {
        match seen {
            Some(Seen::Own(_)) => self.facts.own += 1,
            _ if row.and_then(|row| row.last()).is_some_and(|commit| commit.csn >= self.snapshot) => {
                self.facts.old += 1;
            }
            _ => {}
        }
    }

    fn read(&mut self, cf: CfId, key: &[u8], chosen: Option<&RowRead>, answer: Option<u64>) -> anyhow::Result<()> {
        let row = self.rows.get(&cf).and_then(|rows| rows.get(key));
        let expected = self.expected(cf, key, row);
        let found = chosen.map(|read| (read.seen, read.value));
        ensure!(chosen.is_none_or(|read| *read.key == *key), "P1: another row was read");
        // A row that was deleted below every snapshot may have been removed altogether.
        let gone = found.is_none() && matches!(expected, Some((Seen::Committed(_), None)));
        ensure!(found == expected || gone, "P1: at {} chose {found:?}, must be {expected:?}", self.snapshot);
        let value = expected.and_then(|(_, value)| value);
        ensure!(answer == value, "P1: at {} answered {answer:?}, must be {value:?}", self.snapshot);
        self.count(expected.map(|(seen, _)| seen), row);
        self.facts.reads += 1;
        Ok(())
    }

    fn scan(
        &mut self,
        cf: CfId,
        [start, end]: [&Bound<Box<[u8]>>; 2],
        reverse: bool,
        answers: &[(Box<[u8]>, u64)],
        chosen: &[RowRead],
    ) -> anyhow::Result<()> {
        let (start, end) = (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]));
        let mut expected: BTreeMap<&[u8], (Seen, u64)> = BTreeMap::new();
        let committed = self.rows.get(&cf).filter(|_| !is_empty(start, end));
        for (key, row) in committed.into_iter().flat_map(|rows| rows.range::<[u8], _>((start, end))) {
            let found = self.expected(cf, key, Some(row));
            if let Some((seen, Some(value))) = found {
                expected.insert(&key[..], (seen, value));
            }
        }
        for hold in self.holds.iter().filter(|hold| hold.cf == cf && is_within(&hold.key, start, end)) {
            if let Some((seen @ Seen::Own(_), Some(value))) = self.expected(cf, &hold.key, None) {
                expected.insert(&hold.key, (seen, value));
            }
        }
        let keys_ascend = |a: &[u8], b: &[u8]| if reverse { a > b } else { a < b };
        ensure!(answers.is_sorted_by(|a, b| keys_ascend(&a.0, &b.0)), "P2: keys out of order");
        let mut sources = chosen.iter().filter(|read| read.value.is_some());
        let snapshot = self.snapshot;
        let mut own = 0;
        for (key, value) in answers {
            let must = expected.remove(&key[..]);
            ensure!(must.is_some(), "P2: at {snapshot} shows {key:?}, which is not in view");
            let source = sources.next().map(|read| (&read.key, read.seen, read.value));
            let (seen, written) = must.unzip();
            ensure!(Some(*value) == written, "P2: at {snapshot} answered {value} for {key:?}, must be {written:?}");
            ensure!(
                source == seen.map(|seen| (key, seen, Some(*value))),
                "P2: at {snapshot} chose {source:?} for {key:?}, must be {seen:?}"
            );
            own += u64::from(matches!(seen, Some(Seen::Own(_))));
        }
        if let Some((key, missing)) = expected.first_key_value() {
            anyhow::bail!("P2: at {snapshot} does not show {key:?}: {missing:?}");
        }
        self.facts.scans += 1;
        self.facts.own += own;
        self.facts.scanned_rows += u64::try_from(answers.len())?;
        Ok(())
    }

    fn hold(&mut self, cf: CfId, key: &[u8], written: Option<Option<u64>>, based: Based, position: u64) {
        let (snapshot, command) = (self.snapshot, self.command);
        self.holds.push(Hold { cf, key: key.into(), written, based, snapshot, command, position });
    }

    /// Checks P3 and P4, and `C >= S`.
    fn commit(&mut self, csn: Lsn) -> anyhow::Result<()> {
        ensure!(csn >= self.snapshot, "P5: committed below its own snapshot {}", self.snapshot);
        for (at, hold) in self.holds.iter().enumerate() {
            let row = self.rows.get(&hold.cf).and_then(|rows| rows.get(&hold.key));
            let before = row.and_then(|row| newest_below(row, csn));
            let low = match hold.based {
                Based::After(after) => after.plus(1),
                Based::Free if self.isolation == Isolation::ReadCommitted => Lsn::MAX,
                Based::Snapshot | Based::Free => hold.snapshot,
            };
            let between = before.filter(|commit| commit.csn >= low);
            ensure!(between.is_none(), "P3: {hold:?} goes over {between:?}");
            let is_first =
                !self.holds[..at].iter().any(|other| other.written.is_some() && other.is_of(hold.cf, &hold.key));
            if is_first && hold.written.is_some() {
                let was_there = before.is_some_and(|commit| commit.value.is_some());
                ensure!(was_there != (hold.based == Based::Free), "P4: {hold:?} after {before:?}");
            }
        }
        self.facts.commits += 1;
        self.facts.holds += u64::try_from(self.holds.len())?;
        self.floor = self.floor.max(csn.plus(1));
        Ok(())
    }
}

/// Returns the commit of the write at `position`; `rest` are the events after it. Returns `None` if it was undone.
fn commit_of(position: u64, rest: &[Event]) -> Option<Lsn> {
    let end = rest.iter().find(|event| match event {
        Event::RollbackTo(mark) => *mark <= position,
        Event::Commit { .. } | Event::Rollback | Event::Begin(_) => true,
        _ => false,
    });
    match end {
        Some(Event::Commit { at: Some((csn, _)) }) => Some(*csn),
        _ => None,
    }
}

/// Returns whether no key lies between the bounds.
fn is_empty(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

fn is_within(key: &[u8], start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    let above = match start {
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
        Bound::Unbounded => true,
    };
    let below = match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    };
    above && below
}

#[cfg(test)]
mod tests;

//! Histories made by hand: each has exactly one mistake, which the oracle must name.

use super::*;

const CF: CfId = CfId::new(7);

fn lsn(at: u64) -> Lsn {
    Lsn::new(at)
}

fn statement(snapshot: u64, command: u32) -> Event {
    Event::Statement { snapshot: lsn(snapshot), command }
}

fn begin() -> Event {
    Event::Begin(Isolation::RepeatableRead)
}

/// Returns a write of key 1 or 2.
fn write(key: u8, value: Option<u64>, based: Based, position: u64) -> Event {
    Event::Write { cf: CF, key: Box::new([key]), value, based, position }
}

fn commit(csn: u64) -> Event {
    Event::Commit { at: Some((lsn(csn), Xid::new(csn))) }
}

fn committed(csn: u64, value: u64) -> Option<(Seen, Option<u64>)> {
    Some((Seen::Committed(lsn(csn)), Some(value)))
}

fn row_read(key: u8, chosen: (Seen, Option<u64>)) -> RowRead {
    RowRead { key: Box::new([key]), seen: chosen.0, value: chosen.1 }
}

fn read(key: u8, chosen: Option<(Seen, Option<u64>)>) -> Event {
    let answer = chosen.and_then(|(_, value)| value);
    Event::Read { cf: CF, chosen: chosen.map(|chosen| row_read(key, chosen)), key: Box::new([key]), answer }
}

/// Returns a scan of all keys with these rows as its result.
fn scan(rows: &[(u8, u64, u64)]) -> Event {
    let chosen = rows.iter().map(|(key, csn, value)| row_read(*key, (Seen::Committed(lsn(*csn)), Some(*value))));
    let answers = rows.iter().map(|(key, _, value)| (Box::from([*key]), *value)).collect();
    let (start, end) = (Bound::Unbounded, Bound::Unbounded);
    Event::Scan { cf: CF, start, end, reverse: false, answers, chosen: chosen.collect() }
}

/// Returns a session that inserts keys 1 and 2 at 5000 with values 10 and 20; then a transaction of `level` changes key
/// 1 to 11 at 6000.
fn writers_at(level: Isolation) -> Vec<Event> {
    vec![
        begin(),
        statement(4096, 1),
        write(1, Some(10), Based::Free, 0),
        write(2, Some(20), Based::Free, 1),
        commit(5000),
        Event::Begin(level),
        statement(5500, 1),
        write(1, Some(11), Based::Snapshot, 0),
        commit(6000),
    ]
}

fn writers() -> Vec<Event> {
    writers_at(Isolation::Serializable)
}

/// Checks `events` as a session that runs along with [`writers`].
fn check_beside(events: Vec<Event>) -> anyhow::Result<Facts> {
    check_both(writers(), events)
}

fn check_both(writers: Vec<Event>, events: Vec<Event>) -> anyhow::Result<Facts> {
    let mut history = History { sessions: vec![writers, events], log: Vec::new() };
    let commits = history.sessions.iter().flatten().filter_map(|event| match event {
        Event::Commit { at } => *at,
        _ => None,
    });
    history.log = commits.collect();
    history.log.sort_unstable();
    check(&history)
}

fn passes(events: Vec<Event>) -> Facts {
    check_beside(events).expect("a clean history")
}

/// Checks that `events` violate exactly this rule.
fn fails(rule: &str, events: Vec<Event>) {
    let error = check_beside(events).expect_err("a violation").root_cause().to_string();
    assert!(error.starts_with(&format!("{rule}: ")), "{rule} is expected: {error}");
}

/// Goal: a clean history passes and is counted. Method: reads on both sides of a commit, a scan, own versions, a
/// savepoint, a deletion, another session's snapshot in between.
#[test]
fn clean_history_passes() {
    let own = |command, value| Some((Seen::Own(command), value));
    let facts = passes(vec![
        begin(),
        statement(6000, 1), // strictly below: does not show 6000
        read(1, committed(5000, 10)),
        scan(&[(1, 5000, 10), (2, 5000, 20)]),
        Event::Commit { at: None },
        begin(),
        statement(6001, 1),
        read(1, committed(6000, 11)),
        read(3, None),
        write(2, None, Based::Snapshot, 0),
        read(2, committed(5000, 20)), // not the version of its own command
        statement(6001, 2),
        read(2, own(1, None)),
        scan(&[(1, 6000, 11)]),
        write(2, Some(21), Based::Free, 1),
        statement(6001, 3),
        read(2, own(2, Some(21))),
        Event::RollbackTo(1),
        read(2, own(1, None)),
        commit(7000),
        begin(),
        statement(7001, 1),
        read(2, Some((Seen::Committed(lsn(7000)), None))),
        read(2, None), // the deleted row was removed meanwhile
        Event::Rollback,
    ]);
    assert_eq!((facts.transactions, facts.commits, facts.reads, facts.scans, facts.own, facts.old), (5, 3, 9, 2, 3, 2));
}

/// Goal: a read that is one commit too new or too old, or has another commit's value, is found. Method: each, at
/// adjacent snapshots.
#[test]
fn read_of_another_version_is_found() {
    let at = |snapshot, chosen| vec![begin(), statement(snapshot, 1), read(1, chosen), Event::Rollback];
    fails("P1", at(6000, committed(6000, 11))); // `csn <= snapshot`
    fails("P1", at(6001, committed(5000, 10)));
    fails("P1", at(6000, None)); // pruned too early
    fails("P1", at(6001, committed(6000, 10)));
    fails("P1", at(6001, Some((Seen::Own(1), Some(11)))));
    fails("P1", at(6001, Some((Seen::Committed(lsn(6000)), None))));
    let mut answered = at(6001, committed(6000, 11));
    let Event::Read { answer, .. } = &mut answered[2] else { unreachable!() };
    *answer = Some(10);
    fails("P1", answered);
}

/// Goal: own versions are seen by later commands, but not by their own command, and not if they were undone. Method:
/// one history for each.
#[test]
fn wrong_own_version_is_found() {
    let wrote = |rest: Vec<Event>| {
        let mut events = vec![begin(), statement(6001, 1), write(2, Some(21), Based::Snapshot, 0)];
        events.extend(rest);
        events
    };
    let own = Some((Seen::Own(1), Some(21)));
    fails("P1", wrote(vec![read(2, own), Event::Rollback]));
    fails("P1", wrote(vec![statement(6001, 2), read(2, committed(5000, 20)), Event::Rollback]));
    fails("P1", wrote(vec![Event::RollbackTo(0), statement(6001, 2), read(2, own), Event::Rollback]));
    fails("P1", wrote(vec![Event::Rollback, begin(), statement(6001, 2), read(2, own), Event::Rollback]));
}

/// Goal: a scan that lacks a row, or has an extra one, another version, or a wrong order is found. Method: each.
#[test]
fn scan_that_is_not_exact_is_found() {
    let at = |rows: &[(u8, u64, u64)]| vec![begin(), statement(6001, 1), scan(rows), Event::Rollback];
    passes(at(&[(1, 6000, 11), (2, 5000, 20)]));
    fails("P2", at(&[(2, 5000, 20)]));
    fails("P2", at(&[(1, 6000, 11)]));
    fails("P2", at(&[(1, 6000, 11), (2, 5000, 20), (3, 6000, 1)]));
    fails("P2", at(&[(1, 5000, 10), (2, 5000, 20)]));
    fails("P2", at(&[(1, 5000, 11), (2, 5000, 20)]));
    fails("P2", at(&[(2, 5000, 20), (1, 6000, 11)]));
    fails("P2", at(&[(1, 6000, 11), (1, 6000, 11), (2, 5000, 20)]));
}

/// Goal: a write or lock over another transaction's commit is found, at both levels. Method: a write based on a
/// snapshot below that commit, and on a commit below it; the same for a lock; and both with the right basis.
#[test]
fn write_over_another_commit_is_found() {
    let over = |level, snapshot, event: Event| {
        vec![Event::Begin(level), statement(snapshot, 1), event, write(2, Some(5), Based::Snapshot, 9), commit(7000)]
    };
    let lock = |strength, based| Event::Lock { cf: CF, key: Box::new([1]), strength, based, position: 0 };
    for level in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        fails("P3", over(level, 6000, write(1, Some(12), Based::Snapshot, 0)));
        fails("P3", over(level, 6000, write(1, Some(12), Based::After(lsn(5000)), 0)));
        fails("P3", over(level, 6000, lock(LockStrength::Share, Based::Snapshot)));
        passes(over(level, 6000, lock(LockStrength::KeyShare, Based::Snapshot)));
        passes(over(level, 6001, write(1, Some(12), Based::Snapshot, 0)));
        passes(over(level, 6000, write(1, Some(12), Based::After(lsn(6000)), 0)));
    }
}

/// Goal: a change of a row that does not exist, and an insert of a key that does, are found. Method: each, and after a
/// deletion.
#[test]
fn change_of_nothing_and_second_insert_are_found() {
    let at = |key, value, based| vec![begin(), statement(6001, 1), write(key, value, based, 0), commit(7000)];
    fails("P4", at(3, Some(30), Based::Snapshot));
    fails("P4", at(1, Some(30), Based::Free));
    passes(at(3, Some(30), Based::Free));
    let mut again = at(1, None, Based::Snapshot);
    again.extend([begin(), statement(7001, 1), write(1, Some(31), Based::Free, 0), commit(8000)]);
    passes(again);
}

/// Goal: a session never goes back. Method: a snapshot below the one before, below an own commit, and below a commit
/// that the session learned of; a second snapshot in a transaction; a commit below its snapshot.
#[test]
fn snapshot_that_falls_is_found() {
    let then =
        |event, snapshot| vec![begin(), statement(6500, 1), event, begin(), statement(snapshot, 1), Event::Rollback];
    fails("P5", then(Event::Rollback, 6499));
    passes(then(Event::Rollback, 6500));
    fails("P5", then(Event::ActedOn(lsn(6600)), 6600));
    passes(then(Event::ActedOn(lsn(6600)), 6601));
    let committed = |csn, snapshot| {
        let mut events = vec![begin(), statement(6500, 1), write(2, Some(5), Based::Snapshot, 0), commit(csn)];
        events.extend([begin(), statement(snapshot, 1), Event::Rollback]);
        events
    };
    fails("P5", committed(7000, 7000));
    passes(committed(7000, 7001));
    fails("P5", committed(6400, 7000));
    fails("P5", vec![begin(), statement(6500, 1), statement(6501, 2), Event::Rollback]);
}

/// Goal: a session that finds a deleted key free has seen the deletion. Method: key 1 is deleted at 7000 and reinserted
/// on a lower snapshot; the next statement, in the same transaction or after it, must be above 7000, unless the insert
/// was undone.
#[test]
fn snapshot_below_a_deletion_that_was_built_on_is_found() {
    let deleter = [begin(), statement(6500, 1), write(1, None, Based::Snapshot, 0), commit(7000)];
    let then = |rest: &[Event]| {
        let events = [&[Event::Begin(Isolation::ReadCommitted)], rest].concat();
        let log = [5000, 6000, 7000, 8000].map(|csn| (lsn(csn), Xid::new(csn))).to_vec();
        let history = History { sessions: vec![writers(), deleter.to_vec(), events], log };
        check(&history).map(drop).map_err(|error| error.root_cause().to_string())
    };
    let insert = write(1, Some(12), Based::Free, 0);
    let of = |snapshot, rest: &[Event]| then(&[&[statement(snapshot, 1), insert.clone()], rest].concat());
    for snapshot in [6900, 7000] {
        let error = of(snapshot, &[statement(7000, 2), commit(8000)]).expect_err("a violation");
        assert!(error.starts_with("P5: "), "{error}");
        of(snapshot, &[statement(7001, 2), commit(8000)]).expect("a clean history");
    }
    let undone = [Event::RollbackTo(0), statement(7000, 2), write(2, Some(5), Based::Snapshot, 0), commit(8000)];
    of(7000, &undone).expect("nobody knows what an insert that was undone had met");
}

/// Goal: a SERIALIZABLE transaction that wrote has read nothing that was changed before its commit. Method: a read, a
/// read of a missing key, scans with and without the key, and a row that a write met, each with the commit at 6000 and
/// with snapshots on both sides. REPEATABLE READ passes and is counted, and so does a transaction concurrent with one.
/// A transaction that wrote nothing passes, unless it learned of a newer commit.
#[test]
fn read_that_did_not_last_is_found() {
    let at = |level, snapshot, look: Event, end: Event| {
        let own = write(2, Some(21), Based::Snapshot, 0);
        let wrote = matches!(end, Event::Commit { at: Some(_) });
        let mut events = vec![Event::Begin(level), statement(snapshot, 1), look];
        events.extend(wrote.then_some(own));
        events.push(end);
        events
    };
    let met = |made| Event::Met { cf: CF, key: Box::new([1]), made };
    let ranged = |start: Bound<u8>, rows: &[(u8, u64, u64)]| {
        let mut event = scan(rows);
        let Event::Scan { start: low, .. } = &mut event else { unreachable!() };
        *low = start.map(|key| Box::from([key]));
        event
    };
    let nothing = || Event::Commit { at: None };
    for look in [
        read(1, committed(5000, 10)),
        scan(&[(1, 5000, 10), (2, 5000, 20)]),
        ranged(Bound::Included(1), &[(1, 5000, 10), (2, 5000, 20)]),
        met(None),
    ] {
        fails("P7", at(Isolation::Serializable, 6000, look.clone(), commit(7000)));
        let lower = writers_at(Isolation::RepeatableRead);
        check_both(lower, at(Isolation::Serializable, 6000, look.clone(), commit(7000))).expect("it takes no part");
        passes(at(Isolation::Serializable, 6000, look.clone(), nothing()));
        assert_eq!(passes(at(Isolation::RepeatableRead, 6000, look, commit(7000))).skewed, 1);
    }
    fails("P7", at(Isolation::Serializable, 6000, met(Some(lsn(6000))), nothing()));
    for look in [
        read(1, committed(6000, 11)),
        scan(&[(1, 6000, 11), (2, 5000, 20)]),
        ranged(Bound::Excluded(1), &[(2, 5000, 20)]),
        met(Some(lsn(6000))),
    ] {
        assert_eq!(passes(at(Isolation::Serializable, 6001, look.clone(), commit(7000))).lasting, 1);
        assert_eq!(passes(at(Isolation::RepeatableRead, 6001, look, commit(7000))).skewed, 0);
    }
    passes(at(Isolation::Serializable, 6000, ranged(Bound::Excluded(1), &[(2, 5000, 20)]), commit(7000)));
    passes(at(Isolation::Serializable, 5500, read(3, None), commit(7000)));
}

/// Goal: the log has exactly the commits, each at its position. Method: one missing, one extra, one under another id.
#[test]
fn log_with_other_commits_is_found() {
    let log = |log: &[(u64, u64)]| {
        let log = log.iter().map(|(csn, xid)| (lsn(*csn), Xid::new(*xid))).collect();
        check(&History { sessions: vec![writers()], log }).map_err(|error| error.root_cause().to_string())
    };
    assert!(log(&[(5000, 5000), (6000, 6000)]).is_ok());
    for wrong in [&[(5000, 5000)][..], &[(5000, 5000), (6000, 6000), (7000, 7000)], &[(5000, 6000), (6000, 5000)]] {
        let error = log(wrong).expect_err("a violation");
        assert!(error.starts_with("P6: "), "{error}");
    }
}

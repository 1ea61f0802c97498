//! Tests of a family against a plain model: interleaved transactions, snapshots, scans, cleaning.

use std::collections::BTreeMap;
use std::ops::Bound;

use collie_base::Xid;
use proptest::prelude::*;

use super::*;
use crate::row::tests::{TxnStatuses, rules, view};
use crate::stamp::TxnStatus;

#[derive(Clone, Debug)]
enum Step {
    Insert {
        txn: usize,
        key: u8,
        value: u8,
    },
    Put {
        txn: usize,
        key: u8,
        value: u8,
    },
    /// Puts a value, whether or not there is a row.
    Set {
        txn: usize,
        key: u8,
        value: u8,
    },
    Delete {
        txn: usize,
        key: u8,
    },
    End {
        txn: usize,
        commit: bool,
    },
    Snapshot,
    Release,
    Clean,
}

fn step() -> impl Strategy<Value = Step> {
    let (txn, key) = (0..3_usize, 0..5_u8);
    prop_oneof![
        4 => (txn.clone(), key.clone(), any::<u8>()).prop_map(|(txn, key, value)| Step::Insert { txn, key, value }),
        4 => (txn.clone(), key.clone(), any::<u8>()).prop_map(|(txn, key, value)| Step::Put { txn, key, value }),
        4 => (txn.clone(), key.clone(), any::<u8>()).prop_map(|(txn, key, value)| Step::Set { txn, key, value }),
        3 => (txn.clone(), key).prop_map(|(txn, key)| Step::Delete { txn, key }),
        3 => (txn, any::<bool>()).prop_map(|(txn, commit)| Step::End { txn, commit }),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Release),
        1 => Just(Step::Clean),
    ]
}

#[derive(Default)]
struct Txn {
    xid: u64,
    snapshot: u64,
    command: u32,
    pending: Vec<Pending>,
    writes: Vec<(u8, Option<u8>)>,
}

/// Every committed state of each key, oldest first.
type History = BTreeMap<u8, Vec<(u64, Option<u8>)>>;

fn at(history: &History, key: u8, snapshot: u64) -> Option<u8> {
    history.get(&key)?.iter().rev().find(|(csn, _)| *csn < snapshot).and_then(|(_, value)| *value)
}

/// Cleans every row that ever had garbage; of each at most one committed version more than there are snapshots
/// remains. Returns the bytes freed.
fn clean(family: &Family, garbage: &[Arc<Row>], live: &LiveSnapshots) -> u64 {
    let pending = |row: &Row| row.versions().filter(|committed| !committed).count();
    let clean = |row: &Arc<Row>| {
        let bytes = family.clean(row, live).bytes;
        let count = row.version_count() - pending(row);
        assert!(count <= live.below_up().len() + 1, "{count} versions for {live:?}");
        bytes
    };
    garbage.iter().map(clean).sum()
}

/// Checks that `changed_since` and `any_changed_since` answer exactly for the snapshot of `view`, for each key and
/// range.
fn check_changes(family: &Family, fates: &TxnStatuses, history: &History, view: &View) {
    let snapshot = view.snapshot;
    let newest = |key: u8| history.get(&key).and_then(|commits| commits.last()).map(|(csn, _)| Lsn::new(*csn));
    let changed: Vec<_> = (0..5).map(|key| newest(key).filter(|csn| *csn >= snapshot)).collect();
    for low in 0..5_u8 {
        assert_eq!(family.changed_since(&[low], snapshot, fates), changed[usize::from(low)], "key {low} at {view:?}");
        for high in low..5 {
            let span = Span { start: Bound::Included(&[low]), end: Bound::Included(&[high]), reverse: false };
            let first = changed[usize::from(low)..=usize::from(high)].iter().flatten().next();
            let found = family.any_changed_since(span, snapshot, fates);
            assert_eq!(found.as_ref(), first, "{low}..={high} at {view:?}");
        }
    }
}

fn check_reads(family: &Family, fates: &TxnStatuses, history: &History, own: &[(u8, Option<u8>)], view: &View) {
    let mut expected = BTreeMap::new();
    for key in 0..5 {
        let mine = own.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| *value);
        let value = mine.unwrap_or_else(|| at(history, key, view.snapshot.get()));
        let found = family.read(&[key], view, fates, &pin()).map(|bytes| bytes[0]);
        assert_eq!(found, value, "key {key} at {view:?}");
        value.map(|value| expected.insert(key, value));
    }
    let whole = |reverse| Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse };
    for reverse in [false, true] {
        let mut seen = Vec::new();
        let mut span = whole(reverse);
        let mut place;
        loop {
            let stop = family.scan(ScanRequest { span, limit: 2 }, view, fates, &mut |key, value| {
                seen.push((key[0], value[0]));
                ControlFlow::Continue(())
            });
            match stop {
                ScanStop::Exhausted => break,
                ScanStop::At(key) => place = key,
            }
            span = whole(reverse).after(&place);
        }
        let mut wanted: Vec<(u8, u8)> = expected.iter().map(|(k, v)| (*k, *v)).collect();
        if reverse {
            wanted.reverse();
        }
        assert_eq!(seen, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: a family equals a model with versions; pruning between live snapshots removes no version that one of
    /// them needs, and leaves at most one version more than there are snapshots. Method: three interleaved
    /// transactions, old snapshots that come and go in any order, and writers that prune and clean, compared with
    /// lists of committed states. Every outcome and every read of every live snapshot is compared after each step;
    /// at the end, the bytes counted as old must be zero, and the bytes counted in all must equal those of a
    /// family loaded with the same rows.
    #[test]
    fn family_equals_the_model_under_interleaved_transactions(steps in proptest::collection::vec(step(), 1..60)) {
        let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
        let mut history = History::new();
        let mut txns = [Txn::default(), Txn::default(), Txn::default()];
        let mut snapshots: Vec<u64> = Vec::new();
        let (mut garbage, mut old) = (Vec::new(), 0_i128);
        let (mut clock, mut xids) = (10_000_u64, 0_u64);
        for step in steps {
            let of_txns = txns.iter().filter(|t| t.xid > 0).map(|t| t.snapshot);
            let held = of_txns.chain(snapshots.iter().copied()).map(Lsn::new);
            let live = LiveSnapshots::new(Lsn::new(clock), held.collect());
            match step {
                Step::Insert { txn, .. } | Step::Put { txn, .. } | Step::Set { txn, .. } | Step::Delete { txn, .. } => {
                    let key = match step {
                        Step::Insert { key, .. } | Step::Put { key, .. } | Step::Set { key, .. } | Step::Delete { key, .. } => key,
                        _ => 0,
                    };
                    let other = txns.iter().enumerate()
                        .find(|(i, t)| *i != txn && t.writes.iter().any(|(k, _)| *k == key))
                        .map(|(_, t)| t.xid);
                    let t = &mut txns[txn];
                    if t.xid == 0 {
                        xids += 1;
                        *t = Txn { xid: xids, snapshot: clock, ..Txn::default() };
                    }
                    t.command += 1;
                    let now = view(t.xid, t.snapshot, t.command);
                    let rules = WriteRules { repeatable: txn == 0, ..rules(t.xid) };
                    let newest = history.get(&key).and_then(|states| states.last()).copied();
                    let mine = t.writes.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| *value);
                    let fresh = newest.filter(|(csn, _)| *csn >= t.snapshot && mine.is_none());
                    if let Step::Insert { value, .. } = step {
                        let live = mine.unwrap_or(newest.and_then(|(_, value)| value));
                        match family.insert(&[key], &[value], &now, &rules, &fates) {
                            InsertOutcome::Done(pending) => {
                                prop_assert!(other.is_none() && live.is_none() && fresh.is_none());
                                t.pending.push(pending);
                                t.writes.push((key, Some(value)));
                            }
                            InsertOutcome::DoneAfter { pending, csn } => {
                                prop_assert!(other.is_none() && live.is_none() && !rules.repeatable);
                                prop_assert_eq!(fresh, Some((csn.get(), None)));
                                t.pending.push(pending);
                                t.writes.push((key, Some(value)));
                            }
                            InsertOutcome::Wait(xid) => prop_assert_eq!(Some(xid.get()), other),
                            InsertOutcome::Duplicate { .. } => prop_assert!(other.is_none() && live.is_some()),
                            InsertOutcome::Conflict(_) => prop_assert!(rules.repeatable && live.is_none() && fresh.is_some()),
                            InsertOutcome::Dead => prop_assert!(false),
                        }
                    } else if let Step::Set { value, .. } = step {
                        let before = mine.unwrap_or(newest.and_then(|(_, value)| value));
                        match family.put(&[key], &[value], &now, &rules, &fates) {
                            PutOutcome::Done { pending, replaced, after } => {
                                if pending.row().is_grown() {
                                    old -= i128::from(family.prune(pending.row(), &live).map_or(0, |pruned| pruned.bytes));
                                }
                                prop_assert!(other.is_none() && (fresh.is_none() || !rules.repeatable));
                                prop_assert_eq!(replaced, before.is_some());
                                prop_assert_eq!(after, fresh.map(|(csn, _)| Lsn::new(csn)));
                                t.pending.push(pending);
                                t.writes.push((key, Some(value)));
                            }
                            PutOutcome::Wait { holder, .. } => prop_assert_eq!(Some(holder.get()), other),
                            PutOutcome::Conflict(csn) => {
                                prop_assert!(rules.repeatable && other.is_none());
                                prop_assert_eq!(fresh.map(|(newest, _)| newest), Some(csn.get()));
                            }
                            PutOutcome::Dead => prop_assert!(false),
                        }
                    } else {
                        let (change, value) = match step {
                            Step::Put { value, .. } => (vec![value], Some(value)),
                            _ => (Vec::new(), None),
                        };
                        let change = if value.is_some() { Change::Put(&change) } else { Change::Delete };
                        let base = mine.unwrap_or_else(|| at(&history, key, t.snapshot));
                        match family.write(&[key], change, Basis::Snapshot, &now, &rules, &fates) {
                            WriteOutcome::Done(pending) => {
                                if pending.row().is_grown() {
                                    old -= i128::from(family.prune(pending.row(), &live).map_or(0, |pruned| pruned.bytes));
                                }
                                prop_assert!(other.is_none() && fresh.is_none() && base.is_some());
                                t.pending.push(pending);
                                t.writes.push((key, value));
                            }
                            WriteOutcome::Wait(xid) => prop_assert_eq!(Some(xid.get()), other),
                            WriteOutcome::Changed { csn, value } => {
                                prop_assert!(!rules.repeatable);
                                prop_assert_eq!(fresh, Some((csn.get(), Some(value[0]))));
                            }
                            WriteOutcome::Conflict(csn) => {
                                prop_assert!(rules.repeatable);
                                prop_assert_eq!(fresh.map(|(c, _)| c), Some(csn.get()));
                            }
                            WriteOutcome::Gone(_) => prop_assert!(
                                other.is_none() && (fresh.is_none_or(|(_, v)| v.is_none())) && (base.is_none() || fresh.is_some())
                            ),
                            outcome => prop_assert!(false, "{outcome:?}"),
                        }
                    }
                }
                Step::End { txn, commit } => {
                    let t = std::mem::take(&mut txns[txn]);
                    if commit && !t.writes.is_empty() {
                        clock += 10;
                        fates.set(Xid::new(t.xid), TxnStatus::Committed(Lsn::new(clock)));
                        for (key, value) in &t.writes {
                            let states = history.entry(*key).or_default();
                            states.retain(|(csn, _)| *csn != clock);
                            states.push((clock, *value));
                        }
                        for pending in t.pending {
                            old += i128::from(pending.outdates());
                            garbage.push(Arc::clone(pending.row()));
                            pending.commit(Lsn::new(clock));
                        }
                        clock += 1;
                    } else {
                        t.pending.into_iter().rev().for_each(|pending| family.undo(pending));
                    }
                }
                Step::Snapshot => snapshots.push(clock),
                Step::Release => drop(snapshots.pop()),
                Step::Clean => old -= i128::from(clean(&family, &garbage, &live)),
            }
            for snapshot in &snapshots {
                check_reads(&family, &fates, &history, &[], &view(0, *snapshot, 0));
                check_changes(&family, &fates, &history, &view(0, *snapshot, 0));
            }
            for t in txns.iter().filter(|t| t.xid > 0) {
                check_reads(&family, &fates, &history, &t.writes, &view(t.xid, t.snapshot, t.command + 1));
                check_changes(&family, &fates, &history, &view(t.xid, t.snapshot, t.command));
            }
        }
        txns.into_iter().for_each(|t| t.pending.into_iter().rev().for_each(|pending| family.undo(pending)));
        old -= i128::from(clean(&family, &garbage, &LiveSnapshots::none_below(Lsn::new(clock + 1))));
        prop_assert_eq!(old, 0, "bytes of old versions");
        let same = Family::new(CfId::new(2));
        for key in history.keys() {
            if let Some(value) = at(&history, *key, clock + 1) {
                same.load(&[*key], Some(&[value]), Lsn::new(clock));
            }
        }
        prop_assert_eq!(family.memory_bytes(), same.memory_bytes(), "bytes in all");
        let live = history.keys().filter(|key| at(&history, **key, clock + 1).is_some()).count();
        prop_assert_eq!(family.stat().rows, u64::try_from(live).unwrap());
        prop_assert!(garbage.iter().all(|row| row.version_count() <= 1));
    }
}

/// Goal: no row of a long range is skipped at the end of a batch. Method: 600 rows, one of them of a later commit,
/// at places around the ends of batches; ranges that begin and end next to it.
#[test]
fn change_in_a_long_range_is_found_wherever_it_lies() {
    for place in [0, 1, 254, 255, 256, 257, 511, 512, 513, 599] {
        let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
        for row in 0..600_u32 {
            let csn = if row == place { 7000 } else { 5000 };
            family.load(&row.to_be_bytes(), Some(b"value"), Lsn::new(csn));
        }
        let key = place.to_be_bytes();
        let check = |start, end, expected: Option<u64>| {
            for reverse in [false, true] {
                let found = family.any_changed_since(Span { start, end, reverse }, Lsn::new(7000), &fates);
                assert_eq!(found, expected.map(Lsn::new), "{start:?} to {end:?}, reverse {reverse}, row {place}");
            }
        };
        check(Bound::Unbounded, Bound::Unbounded, Some(7000));
        check(Bound::Included(&key), Bound::Unbounded, Some(7000));
        check(Bound::Unbounded, Bound::Included(&key), Some(7000));
        check(Bound::Excluded(&key), Bound::Unbounded, None);
        check(Bound::Unbounded, Bound::Excluded(&key), None);
        let above = family.any_changed_since(
            Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false },
            Lsn::new(7001),
            &fates,
        );
        assert_eq!(above, None, "a commit below the snapshot is no change");
    }
}

/// Goal: U2: taken rows need the log until they are settled by a recorded flush, a failed flush, or a re-log,
/// which leaves each row listed once and takes the states that a flush would. Method: one row with a value and one
/// deleted, each way after the other.
#[test]
fn taken_rows_need_the_log_until_they_are_settled() {
    let (family, fates) = (Family::with_levels(CfId::new(1)), TxnStatuses::default());
    assert!(family.load_from_levels(b"gone", b"old", Lsn::new(4500)));
    assert_eq!(family.unflushed().since, None);
    for (key, value, lsn) in [(&b"k"[..], Some(&b"v"[..]), 5000), (b"gone", None, 6000)] {
        let (csn, since) = (Lsn::new(lsn), Lsn::new(lsn));
        let loaded = family.replay(&LoggedWrite { key, value, csn, since, is_settled: true }, &pin());
        assert!(loaded.kept.is_none(), "the levels hold it, or it is there");
    }
    let needed = || (family.unflushed().since.map(Lsn::get), family.unflushed().rows);
    let at = |position| FlushAt { position: Lsn::new(position), flushed: Lsn::new(4600), uncertain: false };
    assert_eq!(needed(), (Some(5000), 2));

    let taken = family.take_unflushed();
    assert_eq!(needed(), (Some(5000), 0));
    let entries = family.relog_entries(&taken, at(7000), &fates);
    let mut states: Vec<_> =
        entries.iter().map(|entry| (entry.row.key(), entry.csn.get(), entry.value.is_some())).collect();
    states.sort_unstable();
    assert_eq!(states, [(&b"gone"[..], 6000, false), (b"k", 5000, true)]);
    family.give_back(taken, Some(Lsn::new(6500)));
    assert_eq!(needed(), (Some(6500), 2));
    let row = &entries.iter().find(|entry| entry.value.is_some()).unwrap().row;
    assert!(!row.mark(), "it is listed and marked: nobody lists it again");

    for recorded in [false, true] {
        let taken = family.take_unflushed();
        let entries = family.flush_entries(&taken, at(8000), &fates);
        assert_eq!((entries.len(), needed()), (2, (Some(6500), 0)));
        if recorded {
            family.note_flushed(&entries);
            assert_eq!(needed(), (None, 0));
        } else {
            family.put_back(taken);
            assert_eq!(needed(), (Some(6500), 2));
        }
    }
}

/// Goal: A2: rows applied before their commit is known are hidden from flushes and states until the first commit
/// is set, and carry its CSN from then on, also where the tree was flushed between the two positions. Method: two
/// rows applied at 5000 and 5100, one written again by the commit at 6000; states and flushes below and above it.
#[test]
fn versions_applied_before_their_commit_count_from_the_first_commit() {
    let (family, fates) = (Family::with_levels(CfId::new(1)), TxnStatuses::default());
    let apply = |key: &[u8], lsn| {
        let (csn, since) = (Lsn::new(lsn), Lsn::new(lsn));
        let _superseded = family.apply(&LoggedWrite { key, value: Some(key), csn, since, is_settled: true }, &pin());
    };
    let states = |snapshot| {
        let mut states = Vec::new();
        family.states(Lsn::new(snapshot), &fates, &mut |state| states.push((state.key.to_vec(), state.csn.get())));
        states
    };
    let entries_at = |position| {
        let taken = family.take_unflushed();
        let at = FlushAt { position: Lsn::new(position), flushed: Lsn::new(5500), uncertain: false };
        let relogged: Vec<u64> = family.relog_entries(&taken, at, &fates).iter().map(|entry| entry.csn.get()).collect();
        let entries = family.flush_entries(&taken, at, &fates);
        let flushed: Vec<u64> = entries.iter().map(|entry| entry.csn.get()).collect();
        assert_eq!(relogged, flushed);
        family.note_flushed(&entries);
        flushed
    };
    family.set_first_commit(Lsn::MAX);
    apply(b"a", 5000);
    apply(b"b", 5100);
    assert!(family.is_uncommitted() && family.unflushed().since.is_none() && states(u64::MAX).is_empty());
    apply(b"b", 6000);
    family.set_first_commit(Lsn::new(6000));
    assert!(!family.is_uncommitted() && family.unflushed().since == Some(Lsn::new(5000)));
    assert!(states(6000).is_empty(), "a snapshot at the commit's start does not show it");
    assert_eq!(states(6001), [(b"a".to_vec(), 6000), (b"b".to_vec(), 6000)]);
    assert!(entries_at(5900).is_empty(), "nothing is committed below");
    assert_eq!(entries_at(6100), [6000, 6000], "and nothing was in a flush at 5500");
    assert!(entries_at(6200).is_empty());
}

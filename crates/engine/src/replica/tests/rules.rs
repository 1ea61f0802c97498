//! The rules of live replay, one by one: records, large transactions and families.

use std::sync::atomic::Ordering::SeqCst;

use collie_base::{CfId, Lsn, Map};

use super::log::{Change, Log, START, Stamped, incarnation, named, rows_at};
use super::world::{Way, follow, settle, take};
use crate::EngineError;
use crate::db::state_hash::state_hash;
use crate::families::names;
use crate::follow::record::RecordAt;
use crate::redo::{encode_integers, tag};

/// Goal: D3: writes of commits strictly below the flush position of their family are not applied again. Method: three
/// commits to two families, one of them flushed up to the second.
#[test]
fn commits_below_a_flush_are_not_applied() {
    let mut log = Log::new();
    for number in 0..3_u8 {
        let changes: Vec<Change> = [1, 2].map(|cf| Change::put(cf, &[number], b"v")).into();
        log.commit(&[u64::from(number) + 2, 0, 0], &changes, changes.clone());
    }
    let second = Lsn::new(log.commits[1].0);
    let (world, mut live) = follow(&log, &Way::plain(2), [(CfId::new(1), second)].into_iter().collect());
    log.records.iter().for_each(|made| take(&mut live, made).unwrap());
    live.drain().unwrap();
    let keys: Vec<(u32, u8)> = rows_at(&world.families, Lsn::MAX).keys().map(|(cf, key)| (*cf, key[0])).collect();
    assert_eq!(keys, [(1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
    assert_eq!(live.row_writes(), 5);
}

/// Goal: D1, D5, U3: a record out of order, an unreadable one, a commit without its chunks, and a rollback to nowhere
/// stop replay for good, and the error names their position. Method: each after a good commit, and another good one
/// after it.
#[test]
fn records_that_make_no_sense_stop_replay_for_good() {
    let good = |log: &mut Log, key: u8| {
        let changes = vec![Change::put(1, &[key], b"v")];
        log.commit(&[u64::from(key) + 2, 0, 0], &changes, changes.clone());
    };
    let cases: [(&str, u8, Vec<u8>, bool); 5] = [
        ("out of its order", tag::COMMIT, encode_integers(&[9, 0, 0]), true),
        ("record tag", 30, encode_integers(&[9]), false),
        ("a part is missing", tag::COMMIT, encode_integers(&[9, 2, 4000]), false),
        ("rollback", tag::ROLLBACK_TO, encode_integers(&[9, 1]), false),
        ("operation kind", tag::COMMIT, [&encode_integers(&[9, 0, 0])[..], &[1, 9, 1, 1]].concat(), false),
    ];
    for (meant, tag, body, is_early) in cases {
        let mut log = Log::new();
        good(&mut log, 1);
        let at = log.push(tag, body);
        good(&mut log, 2);
        if is_early {
            log.records[1].lsn = START;
        }
        let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
        take(&mut live, &log.records[0]).unwrap();
        for record in [1, 2] {
            match take(&mut live, &log.records[record]) {
                Err(EngineError::Corruption { lsn, what }) => {
                    assert!(what.contains(meant), "{what}, not {meant}");
                    assert_eq!(lsn.get(), if is_early { START } else { at });
                }
                other => panic!("{meant}: {other:?}"),
            }
        }
        live.lanes().check().unwrap();
        while world.applying.applied() < Lsn::new(log.records[0].end) {
            std::thread::yield_now();
        }
        assert_eq!(rows_at(&world.families, Lsn::MAX).len(), 1, "{meant}: what was good is there, and no more");
    }
}

/// Goal: U1, U2, U3: chunks beyond the room for them are read back, once per run of such chunks, and the log is kept
/// from the first chunk of a large transaction on, until its families are flushed above its commit. Method: a
/// transaction of six chunks with room for the first two, an abort, a new history.
#[test]
fn large_transactions_are_read_back_and_hold_the_log() {
    let mut log = Log::new();
    let chunks: Vec<Vec<Change>> = (0..6_u8).map(|number| vec![Change::put(1, &[number], &[number; 200])]).collect();
    let first = log.chunk(7, &chunks[0]);
    for chunk in &chunks[1..] {
        log.chunk(7, chunk);
    }
    let other = log.chunk(8, &chunks[0]);
    let csn = log.commit(&[7, 6, first], &[], chunks.concat());
    log.push(tag::ABORT, encode_integers(&[8]));
    log.chunk(9, &chunks[0]);
    log.push(tag::INCARNATION, incarnation().encode());
    let way = Way { held_bytes_max: 450, ..Way::plain(2) };
    let (world, mut live) = follow(&log, &way, Map::default());
    let needed = || world.large.lower(Lsn::MAX, |_| Lsn::new(csn));
    let mut records = log.records.iter();
    for made in records.by_ref().take(7) {
        take(&mut live, made).unwrap();
        assert_eq!(needed(), Lsn::new(START), "from where the first chunk may begin");
    }
    take(&mut live, records.next().unwrap()).unwrap();
    assert_eq!(world.read_back.load(SeqCst), 1, "one stretch of four chunks");
    assert_eq!(needed(), Lsn::new(START), "not flushed above its commit");
    let others = world.large.lower(Lsn::MAX, |_| Lsn::new(csn + 1));
    assert!(others > Lsn::new(first) && others < Lsn::new(other), "flushed: the other one, {others}");
    world.large.forget_below(Lsn::new(first + 1));
    take(&mut live, records.next().unwrap()).unwrap();
    assert_eq!(needed(), Lsn::MAX, "aborted");
    take(&mut live, records.next().unwrap()).unwrap();
    assert!(needed() < Lsn::MAX);
    take(&mut live, records.next().unwrap()).unwrap();
    assert_eq!(needed(), Lsn::MAX, "a new history");
    let [_, .., before, history] = &log.records[..] else { unreachable!() };
    assert_eq!(*world.histories.lock(), [(Lsn::new(history.lsn), Lsn::new(before.end))]);
    live.drain().unwrap();
    assert_eq!(rows_at(&world.families, Lsn::MAX), log.rows_at(Lsn::MAX));
}

/// Goal: D7: rows of a table that an open transaction makes are applied before its COMMIT and count from it on; they
/// go with an abort and with a new history; what ROLLBACK_TO voids never counts; rows of other tables wait for the
/// COMMIT, and so does a transaction whose first chunk came before replay was live. Method: one transaction of two
/// chunks that makes family 9, ended in each way.
#[test]
fn rows_of_a_new_table_are_applied_before_their_commit() {
    let (table, new) = (CfId::new(5), CfId::new(9));
    for ending in ["commit", "abort", "incarnation", "rollback", "unmade", "late"] {
        let mut log = Log::new();
        let names = vec![named("sql:16384", 5)];
        log.commit(&[2, 0, 0], &names, names.clone());
        let first = vec![Change::put(9, b"a", b"1"), Change::put(5, b"row", b"1"), Change::put(9, b"b", b"1")];
        let second = vec![Change::put(9, b"b", b"2"), Change::put(9, b"c", b"1")];
        let first_chunk = log.chunk(7, &first);
        log.chunk(7, &second);
        let before_end = log.records.len();
        let mut live_changes = [&first[..], &second].concat();
        let own = match ending {
            "unmade" => vec![Change::put(5, b"own", b"1")],
            _ => vec![Change::put(9, b"d", b"1"), named("sql:16385", 9)],
        };
        match ending {
            "abort" => drop(log.push(tag::ABORT, encode_integers(&[7]))),
            "incarnation" => drop(log.push(tag::INCARNATION, incarnation().encode())),
            "rollback" => {
                live_changes.truncate(3);
                log.push(tag::ROLLBACK_TO, encode_integers(&[7, 3]));
            }
            "unmade" => {
                live_changes.clear();
                log.push(tag::ROLLBACK_TO, encode_integers(&[7, 0]));
            }
            _ => {}
        }
        let commits = !matches!(ending, "abort" | "incarnation");
        if commits {
            live_changes.extend_from_slice(&own);
            log.commit(&[7, 2, first_chunk], &own, live_changes);
        }
        let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
        let mut taken = 0;
        if ending == "late" {
            take(&mut live, &log.records[0]).unwrap();
            let (made, large) = (&log.records[1], &world.large);
            let at = RecordAt { since: live.position(), lsn: Lsn::new(made.lsn) };
            live.note(at, &crate::redo::Redo::decode(made.tag, &made.body).unwrap(), large);
            taken = 2;
        }
        log.records[taken..before_end].iter().for_each(|made| take(&mut live, made).unwrap());
        live.drain().unwrap();
        settle(&world, &live);
        let rows = |cf| world.families.get(cf).map_or(0, |family| family.stat().rows);
        assert_eq!((rows(new), rows(table)), if ending == "late" { (0, 0) } else { (3, 0) }, "{ending}");
        assert_eq!(world.families.next_id(), CfId::new(10), "{ending}: the id is used, whatever becomes of it");
        assert_eq!(rows_at(&world.families, Lsn::MAX).len(), 1, "{ending}: the name of the first table");
        let hash = state_hash(&world.families, Lsn::MAX, &Stamped, &[CfId::CATALOG]);
        assert_eq!(hash, 0, "{ending}: uncommitted rows are no part of the state");
        log.records[before_end..].iter().for_each(|made| take(&mut live, made).unwrap());
        live.drain().unwrap();
        settle(&world, &live);
        let end = Lsn::new(log.end);
        assert_eq!(rows_at(&world.families, end), log.rows_at(end), "{ending}");
        assert_eq!(
            world.read_back.load(SeqCst),
            usize::from(matches!(ending, "rollback" | "unmade")) * 2,
            "{ending}: read twice"
        );
        world.horizon.store(log.end, SeqCst);
        live.flush();
        let is_made = commits && ending != "unmade";
        let found = (world.freed.lock().contains(&new), world.families.get(new).is_some());
        assert_eq!(found, (!is_made, is_made), "{ending}");
    }
}

/// Goal: D4: a dropped family is kept until no snapshot is at or below the drop, then freed once; a write to it
/// afterwards is damage if it belonged to a table, and ignored if it belonged to a program. Method: both kinds, a
/// horizon that is moved by hand.
#[test]
fn dropped_families_stay_until_no_snapshot_shows_them() {
    for (name, is_damage) in [("sql:16384", true), ("orders", false)] {
        let (mut log, cf) = (Log::new(), 5);
        let row = |value: Option<Vec<u8>>| Change { cf: 0, key: names::name_key(name), value };
        let changes = vec![row(Some(names::name_value(CfId::new(cf), "")))];
        log.commit(&[2, 0, 0], &changes, changes.clone());
        let changes = vec![Change::put(cf, b"key", b"value")];
        log.commit(&[3, 0, 0], &changes, changes.clone());
        let gone = vec![row(None)];
        log.commit(&[4, 0, 0], &gone, gone.clone());
        log.commit(&[5, 0, 0], &changes, changes.clone());
        let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
        for made in &log.records[..3] {
            take(&mut live, made).unwrap();
            assert!(world.families.get(CfId::new(cf)).is_some(), "named families are there, and dropped ones still");
        }
        let end = log.records[2].end;
        assert_eq!(rows_at(&world.families, Lsn::new(log.records[2].lsn)).len(), 2, "an old snapshot sees the row");
        world.horizon.store(end - 1, SeqCst);
        live.flush();
        assert!(world.freed.lock().is_empty(), "a snapshot may be at the drop");
        let written = take(&mut live, &log.records[3]);
        assert_eq!(matches!(written, Err(EngineError::Corruption { .. })), is_damage, "{name}: {written:?}");
        world.horizon.store(end, SeqCst);
        live.flush();
        live.flush();
        assert_eq!(*world.freed.lock(), [CfId::new(cf)]);
        assert_eq!(world.catalogs.lock().len(), 2);
        assert!(world.families.get(CfId::new(cf)).is_none());
    }
}

/// Goal: D4: a family that one transaction creates, fills and drops is freed as any other, and so is one whose name the
/// transaction gives to another family (T264). Method: both in one commit, with rows; what is left.
#[test]
fn families_that_one_commit_makes_and_drops_are_freed() {
    let mut log = Log::new();
    let row = |value: Option<Vec<u8>>| Change { cf: 0, key: names::name_key("sql:16384"), value };
    let named = |cf: u32| row(Some(names::name_value(CfId::new(cf), "")));
    let changes = [named(5), Change::put(5, b"key", b"made and dropped"), row(None)]
        .into_iter()
        .chain([named(6), Change::put(6, b"key", b"made and emptied"), named(7), Change::put(7, b"key", b"stays")])
        .collect::<Vec<_>>();
    log.commit(&[2, 0, 0], &changes, changes.clone());
    let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
    take(&mut live, &log.records[0]).unwrap();
    assert_eq!(world.dropped.hidden_from(Lsn::new(log.records[0].end)), [5, 6].map(CfId::new));
    world.horizon.store(log.records[0].end, SeqCst);
    live.flush();
    assert_eq!(*world.freed.lock(), [5, 6].map(CfId::new));
    let left: Vec<bool> = (5..8).map(|cf| world.families.get(CfId::new(cf)).is_some()).collect();
    assert_eq!(left, [false, false, true]);
}

/// Goal: a family that has an UNLOGGED commit is known to have a hole from there on, is reported once, and is left out
/// of the state hash; so are those of its atomic group with lower ids, but none whose LSM levels have the written rows.
/// Method: commits of a family and of a group of three, with rows of other families, and a family that was flushed
/// above.
#[test]
fn unlogged_commits_leave_a_hole_that_is_told() {
    let mut log = Log::new();
    let changes: Vec<Change> = (1..7).map(|cf| Change::put(cf, b"key", b"v")).collect();
    log.commit(&[2, 0, 0], &changes, changes.clone());
    let first = log.push(tag::UNLOGGED, encode_integers(&[2]));
    log.push(tag::UNLOGGED, encode_integers(&[2]));
    let second = log.push(tag::UNLOGGED, encode_integers(&[4]));
    log.push(tag::UNLOGGED, encode_integers(&[6]));
    let flushed = [(CfId::new(6), Lsn::new(log.end))].into_iter().collect();
    let (world, mut live) = follow(&log, &Way::plain(1), flushed);
    [3, 4, 5].into_iter().for_each(|cf| world.families.join(CfId::new(cf), "group"));
    log.records.iter().for_each(|made| take(&mut live, made).unwrap());
    live.drain().unwrap();
    let mut holes: Vec<(u32, u64)> = live.holes().iter().map(|(cf, lsn)| (cf.get(), lsn.get())).collect();
    holes.sort_unstable();
    assert_eq!(holes, [(2, first), (3, second), (4, second)]);
    let told: Vec<(usize, u64)> = world.holes.lock().iter().map(|(cfs, at)| (cfs.len(), at.get())).collect();
    assert_eq!(told, [(1, first), (2, second)]);
    let hash = |skipped: &[CfId]| state_hash(&world.families, Lsn::MAX, &Stamped, skipped);
    let all = hash(&[]);
    let two = CfId::new(2);
    let others: Vec<CfId> = (0..7).map(CfId::new).filter(|cf| *cf != two).collect();
    assert_ne!(hash(&[two]), all);
    assert_eq!(hash(&[two]).wrapping_add(hash(&others)), all, "a sum over rows");
}

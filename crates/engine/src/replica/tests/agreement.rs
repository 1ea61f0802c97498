//! Parallel replay, replay by one worker, recovery and a map agree on random logs.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use collie_base::{Lsn, Map};
use proptest::prelude::*;

use super::log::{Change, Log, Rows, Stamped, Step, rows_at, step};
use super::world::{Way, follow, settle, way};
use crate::db::state_hash::state_hash;
use crate::families::Families;
use crate::gc::garbage::Reach;
use crate::open::apply::Appliers;
use crate::open::replay::Replay;
use crate::redo::tag;
use crate::replica::live::Follow;

/// Replays a log and compares every position visible on the way, and the end, with the map. Returns the state hash.
fn check(log: &Log, way: &Way) -> u64 {
    let (world, mut live) = follow(log, way, Map::default());
    let (mut packets, mut spread) = (way.packets.iter().cycle(), way.spread.iter().cycle());
    let mut left = 0;
    let mut last = Lsn::ZERO;
    for made in &log.records {
        live.take(made.as_record()).unwrap();
        if left == 0 {
            left = *packets.next().unwrap();
            world.applying.spread_over(usize::from(*spread.next().unwrap()));
            live.flush();
            let applied = world.applying.applied();
            assert!(applied >= last && applied <= live.position(), "R3: {last}, then {applied}");
            assert_eq!(rows_at(&world.families, applied), log.rows_at(applied), "R4: at {applied}");
            last = applied;
        } else {
            left -= 1;
        }
    }
    live.drain().unwrap();
    let end = Lsn::new(log.end);
    assert_eq!(live.position(), end);
    settle(&world, &live);
    let ahead = live.take_unfinished().clear(&world.large);
    ahead.into_iter().for_each(|cf| world.note_dropped(cf, end));
    world.horizon.store(u64::MAX, SeqCst);
    live.flush(); // frees what transactions made that never committed
    let expected = log.rows_at(Lsn::MAX);
    assert_eq!(rows_at(&world.families, end), expected, "at the end");
    let ids = log.records.iter().filter(|made| made.tag != tag::RELOG && made.tag != tag::INCARNATION);
    let highest = ids.filter_map(|made| collie_base::codec::Reader::new(&made.body[1..]).varint().ok()).max();
    assert!(Some(world.xid_limit.load(SeqCst)) >= highest, "ids in the log are below the bound");
    let is_catalog = |(_, changes): &&(u64, Vec<Change>)| changes.iter().any(|change| change.cf == 0);
    let catalogs = log.commits.iter().filter(is_catalog).count();
    assert!(world.catalogs.lock().len() >= catalogs, "a commit of the catalog was not told");
    let hash = state_hash(&world.families, end, &Stamped, &[]);
    // Every superseded version is in the queue of rows to clean, and cleaning leaves only visible versions.
    let live_none = collie_base::LiveSnapshots::none_below(Lsn::MAX);
    for family in world.families.all() {
        let rows = family.take_unflushed();
        let at = collie_store::FlushAt { position: end, flushed: Lsn::ZERO, uncertain: false };
        let entries = family.flush_entries(&rows, at, &Stamped);
        let puts = entries.iter().filter(|entry| entry.value.is_some()).count();
        let rows_of = expected.keys().filter(|(cf, _)| *cf == family.id().get()).count();
        assert_eq!(puts, rows_of, "a flush takes every row of family {}", family.id());
        family.note_flushed(&entries);
        for entry in entries.iter().filter(|entry| entry.value.is_none()) {
            world.garbage.look_again(entry.csn, family.id(), &entry.row);
        }
    }
    world.garbage.clean(&world.families, &live_none, Reach::All);
    assert_eq!((world.garbage.bytes(), world.families.count().1), (0, expected.len() as u64), "old versions are freed");
    assert_eq!(rows_at(&world.families, end), expected, "after cleaning");
    hash
}

/// Returns the rows that an opening with this log would leave.
fn recovered(log: &Log) -> Rows {
    let families = Arc::new(Families::with_levels());
    let mut replay = Replay::new(&families, Appliers::new(&families, 1, 7));
    for made in &log.records {
        replay.apply(Lsn::new(made.lsn), made.tag, &made.body).unwrap();
    }
    replay.finish();
    rows_at(&families, Lsn::MAX)
}

/// Replays the log that `log_of` makes of these steps in parallel, by one worker and, without re-logs, as an opening
/// does, and compares them with the map.
fn all_agree(log_of: fn(&[Step]) -> Log, mut steps: Vec<Step>, way: &Way) {
    let log = log_of(&steps);
    assert_eq!(check(&log, way), check(&log, &Way::plain(1)), "the state hash");
    steps.retain(|step| !matches!(step, Step::Relog(_)));
    let log = log_of(&steps);
    assert_eq!(recovered(&log), log.rows_at(Lsn::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Goal: D1 to D3, L1, U1, U3, R3 to R5: parallel replay, replay by one worker, recovery and the map agree,
    /// whatever the number of workers, the lanes in use at each moment, the packets, the size of the queues and the
    /// chunks that are read back; every position visible on the way is a state that existed; superseded versions are
    /// freed and new ones are flushed. Method: random logs with catalog commits, large transactions, re-logs and new
    /// histories.
    #[test]
    fn parallel_replay_serial_replay_and_recovery_leave_what_was_committed(
        steps in proptest::collection::vec(step(), 1..60), way in way(),
    ) {
        all_agree(Log::of, steps, &way);
    }

    /// Goal: D7: the same as above, where large transactions make tables whose rows are applied ahead of the COMMIT.
    /// Method: the same logs with such tables.
    #[test]
    fn rows_of_new_tables_are_those_of_their_commit(
        steps in proptest::collection::vec(step(), 1..60), way in way(),
    ) {
        all_agree(Log::with_definitions, steps, &way);
    }
}

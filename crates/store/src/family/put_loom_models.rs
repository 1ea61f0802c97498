//! Models of puts that do not read the row first, over partitions of an index, run under `--cfg loom`.
//!
//! Not covered: reclamation (nothing is freed under loom); the B-tree of a partition, which is under its lock.

use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_sync::model::check;
use collie_sync::thread;

use super::Family;
use crate::index::{OrderedIndex as _, PartitionedIndex};
use crate::loom_commits::Commits;
use crate::pin;
use crate::row::Pending;
use crate::{
    row::calls::Basis, row::calls::Change, row::calls::PutOutcome, row::calls::View, row::calls::WriteOutcome,
    row::calls::WriteRules,
};

const KEY: &[u8] = b"k";
/// One family, and the commits of three transactions.
struct World {
    family: Family<PartitionedIndex<2>>,
    commits: Commits<3>,
}

impl World {
    fn new() -> collie_sync::Arc<Self> {
        let family = Family::over(CfId::new(1), PartitionedIndex::default());
        collie_sync::Arc::new(Self { family, commits: Commits::new() })
    }

    /// Returns a world in which the row has a value.
    fn with_a_row() -> collie_sync::Arc<Self> {
        let world = Self::new();
        world.put(0, 9).expect("nobody else").0.commit(world.publish(0));
        world
    }

    fn publish(&self, xid: u64) -> Lsn {
        self.commits.publish(xid)
    }

    /// Puts a value as transaction `xid`; `None` if another writer is in the way. Also returns the newer commit that
    /// the put reported.
    fn put(&self, xid: u64, value: u8) -> Option<(Pending, Option<Lsn>)> {
        let view = View { snapshot: self.commits.now(), me: Some(Xid::new(xid)), command: 1 };
        let rules = WriteRules { xid: Xid::new(xid), repeatable: false };
        match self.family.put(KEY, &[value], &view, &rules, &self.commits) {
            PutOutcome::Done { pending, after, .. } => {
                assert!(after.is_none_or(|csn| csn >= view.snapshot), "told of what is in view");
                Some((pending, after))
            }
            PutOutcome::Wait { .. } => None,
            other => panic!("{other:?}"),
        }
    }

    /// Changes or locks the row, as transaction `xid`.
    fn write(&self, xid: u64, change: Change<'_>) -> WriteOutcome {
        let view = View { snapshot: Lsn::MAX, me: Some(Xid::new(xid)), command: 1 };
        let rules = WriteRules { xid: Xid::new(xid), repeatable: false };
        self.family.write(KEY, change, Basis::Snapshot, &view, &rules, &self.commits)
    }

    fn read_at(&self, snapshot: Lsn) -> Option<u8> {
        let view = View { snapshot, me: None, command: 0 };
        self.family.read(KEY, &view, &self.commits, &pin()).map(|value| value[0])
    }
}

/// Two threads put a value over a row, a third reads: every commit is visible at its place in the order.
fn two_putters_and_a_reader() {
    let world = World::with_a_row();
    let putters = [1, 2].map(|xid| {
        let world = world.clone();
        thread::spawn(move || {
            let (pending, after) = world.put(xid, u8::try_from(xid).unwrap())?;
            let csn = world.publish(xid);
            assert!(after.is_none_or(|below| below < csn), "over what is committed later");
            pending.commit(csn);
            Some((csn, u8::try_from(xid).unwrap()))
        })
    });
    let snapshot = world.commits.now();
    let first = world.read_at(snapshot);
    assert!(first.is_some() && first == world.read_at(snapshot), "a snapshot does not move");
    let commits: Vec<(Lsn, u8)> = putters.into_iter().filter_map(|putter| putter.join().unwrap()).collect();
    for (csn, value) in commits {
        assert_eq!(world.read_at(csn.plus(1)), Some(value), "a commit is lost");
    }
}

/// One thread puts a value where there is no row and takes it back, another puts a value there and commits, a third
/// reads.
fn putter_beside_one_that_takes_back() {
    let world = World::new();
    let aborter = thread::spawn({
        let world = world.clone();
        move || world.put(1, 1).into_iter().for_each(|(pending, _)| world.family.undo(pending))
    });
    let putter = thread::spawn({
        let world = world.clone();
        move || {
            let Some((pending, _)) = world.put(2, 2) else { return false };
            pending.commit(world.publish(2));
            true
        }
    });
    let seen = world.read_at(Lsn::MAX);
    assert!(matches!(seen, None | Some(2)), "{seen:?}");
    aborter.join().unwrap();
    let committed = putter.join().unwrap();
    assert_eq!(world.read_at(Lsn::MAX), committed.then_some(2), "a put is lost");
    assert_eq!(world.family.index.len(), usize::from(committed), "a row that nobody needs stays");
    assert_eq!(world.family.memory_bytes() > 0, committed, "A1");
}

/// One thread deletes the row, another puts a value, a third locks the row to refer to it: no transaction may refer to
/// a row whose unfinished insertion may still be rolled back.
fn putter_beside_a_deletion() {
    let world = World::with_a_row();
    let deleter = thread::spawn({
        let world = world.clone();
        move || {
            let WriteOutcome::Done(deletion) = world.write(1, Change::Delete) else { return false };
            deletion.commit(world.publish(1));
            true
        }
    });
    let put = world.put(2, 2);
    let deleted = deleter.join().unwrap();
    let referring = world.write(0, Change::Lock(LockStrength::KeyShare));
    match (deleted, &put, &referring) {
        // The row was deleted, and exists again once the other transaction commits.
        (true, Some(_), WriteOutcome::Wait(holder)) => assert_eq!(*holder, Xid::new(2)),
        (true, None, WriteOutcome::Gone(_)) | (false, Some(_), WriteOutcome::Shared(_)) => {}
        other => panic!("who refers to the row is misled: {other:?}"),
    }
    if let WriteOutcome::Shared(lock) = referring {
        lock.release(&world.commits);
    }
    if let Some((pending, _)) = put {
        pending.commit(world.publish(2));
        assert_eq!(world.read_at(Lsn::MAX), Some(2), "a put is lost");
    }
}

/// Goal: puts over a row take their places in the order of commits. Method: see the model; each mistake must be caught.
#[test]
fn loom_puts_stand_in_the_order_of_commits() {
    const LOST: &str = "a commit is lost";
    let mistakes =
        [("ROW_HEAD_STORED", 2, LOST), ("ROW_UNFINISHED_IGNORED", 2, LOST), ("ROW_HEAD_CAS", 2, "Causality violation")];
    check("put, two", two_putters_and_a_reader, 2, 5000, &mistakes);
}

/// Goal: a put concurrent with one that is taken back is neither lost nor added to a row that left the index. Method:
/// see the model.
#[test]
fn loom_put_beside_one_taken_back_stays() {
    const LOST: &str = "a put is lost";
    let mistakes = [("ROW_HEAD_STORED", 3, LOST), ("ROW_DEATH_STORED", 3, LOST)];
    check("put, taken back", putter_beside_one_that_takes_back, 3, 3000, &mistakes);
}

/// Goal: a put holds the row as strongly as the state that it replaces requires. Method: see the model; a strength kept
/// from a failed exchange must be caught.
#[test]
fn loom_put_beside_a_deletion_holds_what_it_makes() {
    check(
        "put, deletion",
        putter_beside_a_deletion,
        3,
        30,
        &[("PUT_STRENGTH_KEPT", 3, "who refers to the row is misled")],
    );
}

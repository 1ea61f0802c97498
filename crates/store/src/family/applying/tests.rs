//! A family that follows a log, compared with a map: snapshots, cleaning and flushes between commits.

use std::collections::BTreeMap;

use collie_base::{CfId, LiveSnapshots, Lsn};
use proptest::prelude::*;

use super::*;
use crate::epoch::pin;
use crate::row::FlushAt;
use crate::row::calls::View;
use crate::stamp::{Resolve, TxnStatus, Word};

/// Every version is committed.
struct Stamped;

impl Resolve for Stamped {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp).expect("a follower has no unfinished version")
    }
}

type Rows = BTreeMap<u8, (u64, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(u8, Option<u8>)>),
    /// Applies the last commit once more.
    Again,
    Snapshot,
    Release(u8),
    Clean,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![3 => (0..40_u8).prop_map(Some), 2 => Just(None)];
    prop_oneof![
        8 => proptest::collection::vec((0..6_u8, value), 1..5).prop_map(Step::Commit),
        1 => Just(Step::Again),
        2 => Just(Step::Snapshot),
        1 => any::<u8>().prop_map(Step::Release),
        2 => Just(Step::Clean),
        2 => Just(Step::Flush),
    ]
}

/// A family and its expected contents.
struct World {
    family: Family,
    now: Rows,
    /// The rows at each held snapshot.
    snapshots: Vec<(u64, Rows)>,
    superseded: Vec<Arc<Row>>,
    levels: Rows,
    flushed: u64,
    /// Above every commit.
    end: u64,
}

impl World {
    fn apply(&mut self, csn: u64, writes: &[(u8, Option<u8>)]) {
        for (key, value) in writes {
            let value = value.map(|value| vec![value; usize::from(value)]);
            let (csn, since) = (Lsn::new(csn), Lsn::new(csn));
            let write = LoggedWrite { key: &[*key], value: value.as_deref(), csn, since, is_settled: true };
            let Superseded { row, .. } = self.family.apply(&write, &pin());
            self.superseded.extend(row);
            match value {
                Some(value) => drop(self.now.insert(*key, (csn.get(), value))),
                None => drop(self.now.remove(key)),
            }
        }
    }

    fn live(&self) -> LiveSnapshots {
        let held = self.snapshots.iter().map(|(snapshot, _)| Lsn::new(*snapshot)).collect();
        LiveSnapshots::new(Lsn::new(self.end), held)
    }

    fn clean(&self) -> u64 {
        self.superseded.iter().map(|row| self.family.clean(row, &self.live()).bytes).sum()
    }

    fn flush(&mut self) {
        let at = FlushAt { position: Lsn::new(self.end), flushed: Lsn::new(self.flushed), uncertain: false };
        let rows = self.family.take_unflushed();
        let entries = self.family.flush_entries(&rows, at, &Stamped);
        for entry in &entries {
            let key = entry.row.key()[0];
            match &entry.value {
                Some(value) => drop(self.levels.insert(key, (entry.csn.get(), value.to_vec()))),
                None => drop(self.levels.remove(&key)),
            }
        }
        self.family.note_flushed(&entries);
        self.flushed = self.end;
        assert_eq!(self.levels, self.now, "the levels have what was committed");
    }

    fn check(&self) {
        let newest = [(self.end, self.now.clone())];
        for (snapshot, rows) in self.snapshots.iter().chain(&newest) {
            let snapshot = Lsn::new(*snapshot);
            let mut found = Rows::new();
            self.family.states(snapshot, &Stamped, &mut |state| {
                found.insert(state.key[0], (state.csn.get(), state.value.to_vec()));
            });
            assert_eq!(&found, rows, "at {snapshot}");
            let view = View { snapshot, me: None, command: 0 };
            for key in 0..6 {
                let read = self.family.read(&[key], &view, &Stamped, &pin()).map(|value| value.to_vec());
                assert_eq!(read, rows.get(&key).map(|(_, value)| value.clone()), "key {key} at {snapshot}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: F2, F3: every snapshot sees exactly the commits below it, whatever is cleaned and flushed in between;
    /// a commit that arrives twice changes nothing; all of it reaches the LSM tree; no row stays in memory that no
    /// snapshot sees. Method: random steps, compared with maps.
    #[test]
    fn applied_commits_are_seen_at_their_snapshots_and_flushed(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World {
            family: Family::with_levels(CfId::new(1)),
            now: Rows::new(),
            snapshots: Vec::new(),
            superseded: Vec::new(),
            levels: Rows::new(),
            flushed: 0,
            end: 5000,
        };
        let mut last = (5000, Vec::new());
        for step in &steps {
            match step {
                Step::Commit(writes) => {
                    last = (world.end, writes.clone());
                    world.apply(last.0, writes);
                    world.end += 10;
                }
                // If it wrote a key twice, the last write ends up on top.
                Step::Again => world.apply(last.0, &last.1),
                Step::Snapshot => world.snapshots.push((world.end, world.now.clone())),
                Step::Release(number) => {
                    if !world.snapshots.is_empty() {
                        let number = usize::from(*number) % world.snapshots.len();
                        world.snapshots.remove(number);
                    }
                }
                Step::Clean => drop(world.clean()),
                Step::Flush => world.flush(),
            }
            world.check();
        }
        world.snapshots.clear();
        world.flush();
        world.clean();
        world.check();
        prop_assert_eq!(world.family.stat().rows, world.now.len() as u64, "deleted rows are gone");
        let empty = Family::new(CfId::new(2));
        for (key, (csn, value)) in &world.now {
            empty.load(&[*key], Some(value), Lsn::new(*csn));
        }
        prop_assert_eq!(world.family.memory_bytes(), empty.memory_bytes(), "memory is counted exactly");
    }
}

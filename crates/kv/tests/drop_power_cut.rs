//! Families that are created and dropped under power cuts: at each call to a simulated disk.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use collie_base::CfId;
use collie_engine::Env;
use collie_env::{SimFiles, SimRandom};
use collie_kv::{CfOptions, Db, Durability};
use common::{moments_of, open_tiny};

const SYNC: Durability = Durability::Local;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The rows of each existing family.
type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The progress of a run: the state after the last call that returned, and after the one in progress.
#[derive(Clone, Default)]
struct Progress {
    before: State,
    after: State,
}

fn open(disk: &SimFiles, seed: u64) -> Db {
    Db::over(&open_tiny(Env::over(disk.clone(), seed)).unwrap().0)
}

fn state(db: &Db) -> State {
    let snapshot = db.snapshot().unwrap();
    let rows = |name: &str| {
        let cf = db.cf(name).unwrap();
        snapshot.scan(&cf, ..).map(|item| item.unwrap().to_pair()).collect()
    };
    db.list_cfs().unwrap().into_iter().map(|(name, _)| (name.clone(), rows(&name))).collect()
}

/// Creates families, writes to them, flushes them and drops them.
fn live(disk: &SimFiles, seed: u64, progress: &Mutex<Progress>) {
    let random = SimRandom::new(seed);
    let below = |end: u64| usize::try_from(random.below(end)).unwrap();
    let db = open(disk, seed);
    for round in 0..50_u8 {
        let name = NAMES[below(3)];
        let mut next = progress.lock().unwrap().before.clone();
        let begin = |next: &State| progress.lock().unwrap().after = next.clone();
        match (db.cf(name), below(8)) {
            (Err(_), _) => {
                assert!(next.insert(name.to_owned(), BTreeMap::new()).is_none());
                begin(&next);
                db.create_cf(name, CfOptions::default()).unwrap();
            }
            (Ok(cf), 0 | 1) => {
                next.remove(name);
                begin(&next);
                db.drop_cf(&cf).unwrap();
            }
            (Ok(cf), 2 | 3) => db.flush_cf(&[&cf]).unwrap(),
            (Ok(_), 4) => _ = db.engine().flush_due().unwrap(), // settles drops, releases log
            (Ok(cf), _) => {
                let (key, value) = (vec![u8::try_from(below(4)).unwrap()], vec![round; [8, 6000][below(2)]]);
                next.get_mut(name).unwrap().insert(key.clone(), value.clone());
                begin(&next);
                db.put(&cf, key, value, SYNC).unwrap();
            }
        }
        db.engine().tick();
        *progress.lock().unwrap() = Progress { before: next.clone(), after: next };
    }
}

/// Goal: whenever the power is cut while families are created, flushed and dropped, each is there with all of its rows
/// or gone with all of them, and so are its LSM levels, and a family of the same name starts empty. Method: random
/// runs; some states at each call; opened twice, continued, opened again.
#[test]
fn power_cut_anywhere_leaves_families_whole_or_gone() {
    let (mut checked, mut undone) = (0, 0);
    for seed in 0..8_u64 {
        let (_, disk) = Env::simulated(seed);
        let progress = Arc::new(Mutex::new(Progress::default()));
        let moments = moments_of(&disk, &progress, || live(&disk, 100 + seed, &progress));
        let random = SimRandom::new(seed);
        for (point, progress) in &moments {
            let picks = if random.below(3) == 0 { point.none_kept() } else { point.drawn(&random) };
            let left = point.state(&picks);
            let found = state(&open(&left, point.calls()));
            let is_before = found == progress.before;
            assert!(
                is_before || found == progress.after,
                "seed {seed}, {}: {:?}",
                point.describe(&picks),
                found.keys()
            );
            undone += usize::from(is_before && progress.before != progress.after);
            let left = left.power_cut(seed);
            let db = open(&left, point.calls() + 1);
            assert!(state(&db) == found, "opening changes nothing");
            for name in NAMES.into_iter().filter(|name| !found.contains_key(*name)) {
                let cf = db.create_cf(name, CfOptions::default()).unwrap();
                db.put(&cf, [9], [9], SYNC).unwrap();
                db.flush_cf(&[&cf]).unwrap();
            }
            db.engine().flush_due().unwrap(); // settles the drops before the end
            let then = state(&db);
            let ids: Vec<_> = db.list_cfs().unwrap().into_iter().map(|(_, id)| id).collect();
            let trees = db.engine().level_stat().trees;
            let stray =
                trees.iter().flat_map(|tree| &tree.state.cfs).find(|cf| **cf != CfId::CATALOG && !ids.contains(cf));
            assert_eq!(stray, None, "levels of a family that was dropped, after a flush");
            let db = open(&left.power_cut(seed + 1), point.calls() + 2);
            assert!(state(&db) == then && then.len() == 3, "what was flushed stays");
            checked += 1;
        }
    }
    assert!(checked > 500 && undone > 50, "{checked} moments, {undone} before what was under way");
}

//! Makes the same calls on lsm-tree and on the map: after each, both hold the same entries and report the same state.

use std::{collections::BTreeMap, fs, path::Path};

use collie_base::{CfId, Lsn};
use collie_env::{Env, SimRandom};

use super::{
    Edit, Levels, TreeId, TreeState,
    levels_tests::{edit, load, open},
};

/// Families of the first tree, a group, and of the second.
const TREES: [&[u32]; 2] = [&[16, 18], &[17]];
/// Number of keys per family, the empty key among them: flushes overwrite and delete existing keys.
const KEYS: u64 = 40;
/// Bytes of the frame that records a flush of a tree with an id below 128.
const DONE_FRAME_BYTES: usize = 34;

/// Family and key.
type Key = (u32, Vec<u8>);

struct Pair {
    lsm: (Env, tempfile::TempDir, Levels),
    map: (Env, Levels),
    trees: [TreeId; 2],
    /// Where each key's value in the trees was committed.
    live: BTreeMap<Key, u64>,
    random: SimRandom,
    next: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let (env, dir) = (Env::real(), super::rules_tests::scratch());
        let levels = open(&env, dir.path()).0;
        let (simulated, _disk) = Env::simulated(seed);
        let map = open(&simulated, Path::new("/levels")).0;
        let trees = TREES.map(|cfs| {
            let cfs: Vec<CfId> = cfs.iter().copied().map(CfId::new).collect();
            let tree = levels.create_tree(&cfs).unwrap();
            assert_eq!(map.create_tree(&cfs).unwrap(), tree);
            tree
        });
        let random = SimRandom::new(seed);
        Self { lsm: (env, dir, levels), map: (simulated, map), trees, live: BTreeMap::new(), random, next: 8192 }
    }

    /// Flushes random edits to one tree of both. With `cut`, lsm-tree's side loses the record of the flush in a crash;
    /// the next load repairs it, and the same flush is repeated.
    fn flush(&mut self, at: usize, cut: bool) {
        let mut edits: BTreeMap<Key, (u64, Option<Vec<u8>>)> = BTreeMap::new();
        for _ in 0..=self.random.below(30) {
            let cf = TREES[at][usize::try_from(self.random.below(TREES[at].len() as u64)).unwrap()];
            let number = self.random.below(KEYS);
            let key = number.to_be_bytes()[usize::try_from(8 - number % 9).unwrap()..].to_vec();
            self.next += 1;
            let value = (self.random.below(4) > 0).then(|| {
                let len = usize::try_from(self.random.below(if number == 7 { 200_000 } else { 60 })).unwrap();
                self.next.to_be_bytes().iter().copied().cycle().take(len).collect()
            });
            edits.insert((cf, key), (self.next, value));
        }
        self.next += 1;
        let f = Lsn::new(self.next);
        for (key, (csn, value)) in &edits {
            match value {
                Some(_) => self.live.insert(key.clone(), *csn),
                None => self.live.remove(key),
            };
        }
        let live = self.live.keys().filter(|(cf, _)| TREES[at].contains(cf)).count() as u64;
        let list: Vec<Edit<'_>> =
            edits.iter().map(|((cf, key), (csn, value))| edit(*cf, key, *csn, value.as_deref())).collect();
        self.map.1.flush(self.trees[at], f, &list, live).unwrap();
        self.lsm.2.flush(self.trees[at], f, &list, live).unwrap();
        if cut {
            let manifest = self.lsm.1.path().join("MANIFEST");
            let bytes = fs::read(&manifest).unwrap();
            fs::write(&manifest, &bytes[..bytes.len() - DONE_FRAME_BYTES]).unwrap();
            assert_eq!(self.reopen(), [self.trees[at]]);
            let state = &self.lsm.2.trees()[at];
            assert!(state.flush_lsn == f && state.live_keys == live, "{state:?}");
            self.lsm.2.flush(self.trees[at], f, &list, live).unwrap();
        }
    }

    /// Opens lsm-tree's side again, as after a kill, and loads it; returns the trees with an interrupted flush.
    fn reopen(&mut self) -> Vec<TreeId> {
        let (levels, found) = open(&self.lsm.0, self.lsm.1.path());
        self.lsm.2 = levels;
        for tree in self.trees {
            load(&self.lsm.2, tree).unwrap();
        }
        found.interrupted
    }

    fn compare(&self, context: &str) {
        let mut all = 0;
        for tree in self.trees {
            let (lsm, map) = (load(&self.lsm.2, tree).unwrap(), load(&self.map.1, tree).unwrap());
            assert_eq!(lsm, map, "{context}");
            all += lsm.len();
            for (key, (_, csn)) in lsm {
                assert_eq!(self.live.get(&key), Some(&csn), "{context}");
            }
        }
        assert_eq!(all, self.live.len(), "{context}");
        let states = |levels: &Levels| -> Vec<TreeState> { levels.trees() };
        assert_eq!(states(&self.lsm.2), states(&self.map.1), "{context}");
    }
}

/// Goal: lsm-tree holds the same entries as a map, whatever the order of flushes, compactions, kills and records lost
/// in a crash. Method: random calls on both from several seeds, compared after each; at the end a checkpoint of each is
/// compared too.
#[test]
fn lsm_tree_holds_what_a_map_holds() {
    let mut cuts = 0;
    for seed in 1..=6 {
        let mut pair = Pair::new(seed);
        for step in 0..50 {
            let at = usize::try_from(pair.random.below(2)).unwrap();
            let kind = pair.random.below(12);
            match kind {
                0 => {
                    pair.reopen();
                }
                1 => {
                    pair.lsm.2.compact(pair.trees[at]).unwrap();
                }
                2 => {
                    pair.lsm.2.compact_due(pair.trees[at]).unwrap();
                }
                _ => {
                    cuts += usize::from(kind == 3);
                    pair.flush(at, kind == 3);
                }
            }
            pair.compare(&format!("seed {seed}, step {step}, kind {kind}"));
        }
        let copies = super::rules_tests::scratch();
        let copy = copies.path().join("copy");
        pair.lsm.2.checkpoint(&copy).unwrap();
        pair.map.1.checkpoint(Path::new("/copy")).unwrap();
        pair.lsm.2 = open(&pair.lsm.0, &copy).0;
        pair.map.1 = open(&pair.map.0, Path::new("/copy")).0;
        pair.compare(&format!("seed {seed}, checkpoint"));
    }
    assert!(cuts > 8, "{cuts} records were lost");
}

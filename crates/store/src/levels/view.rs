//! Levels opened for loading only (V9), for a database that is opened read-only.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::Env;
use parking_lot::{Mutex, RwLock};

use super::{
    Levels, LevelsError, TreeWritten,
    backend::{LevelStore, tree_of_name},
    calls::{LevelOptions, TreeId},
    lsm_view::LsmView,
    map::MapStore,
};
use crate::{levels::manifest::KnownTree, levels::manifest::Manifest, levels::manifest::Record};

impl Levels {
    /// Opens the levels in `dir`, if there are any, for loading. Neither this call nor a later one writes or deletes
    /// anything.
    ///
    /// # Errors
    /// As [`Levels::open`], except those of writes.
    pub fn open_to_read(env: &Env, dir: &Path, options: &LevelOptions) -> Result<Self, LevelsError> {
        let mut levels = Self::unopened_to_read(env, dir, options)?;
        for known in levels.all_known() {
            levels.open_known(&known).map_err(|error| Self::blame(&*levels.files, dir, &known, error))?;
        }
        Ok(levels)
    }

    /// As [`Levels::open_to_read`], but only with intact trees: each is opened and read through. Also returns the
    /// errors of the other trees, which the returned levels do not contain.
    ///
    /// # Errors
    /// `ManifestDamaged`, `NewerFormat`, `Io`.
    pub fn open_to_salvage(
        env: &Env,
        dir: &Path,
        options: &LevelOptions,
    ) -> Result<(Self, Vec<LevelsError>), LevelsError> {
        let (mut levels, mut faults) = (Self::unopened_to_read(env, dir, options)?, Vec::new());
        for known in levels.all_known() {
            let id = known.tree.id;
            let read = levels.open_known(&known).and_then(|()| levels.load(id, &mut |_| ()));
            let fault = match read {
                Ok(_) => continue,
                Err(error @ LevelsError::Io { .. }) => return Err(error),
                Err(error) => Self::blame(&*levels.files, dir, &known, error),
            };
            faults.push(fault);
            levels.backend.forget(id);
            levels.jobs.get_mut().remove(&id);
            levels.manifest.get_mut().append(&Record::TreeDropped(id))?; // in memory only (V9)
        }
        Ok((levels, faults))
    }

    fn all_known(&mut self) -> Vec<KnownTree> {
        self.manifest.get_mut().state().trees.values().cloned().collect()
    }

    fn open_known(&mut self, known: &KnownTree) -> Result<(), LevelsError> {
        let opened = self.guarded(known, |backend| backend.open(known.tree.id));
        opened.map_err(|error| self.refuse(known, error))?;
        self.jobs.get_mut().insert(known.tree.id, Arc::default());
        Ok(())
    }

    /// Reads MANIFEST without opening any tree.
    fn unopened_to_read(env: &Env, dir: &Path, options: &LevelOptions) -> Result<Self, LevelsError> {
        // Opening a map writes nothing.
        let backend: Box<dyn LevelStore> = match env.files.is_real() {
            true => Box::new(LsmView::new(env.files.clone(), dir, options)),
            false => Box::new(MapStore::new(env.files.clone(), dir)),
        };
        let names = match env.files.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|error| LevelsError::io("list", dir, error))?,
        };
        let fresh = !names.iter().any(|name| tree_of_name(name).is_some());
        let (manifest, _found) = Manifest::open_to_read(env, dir, fresh)?;
        Ok(Self {
            files: env.files.clone(),
            dir: dir.to_owned(),
            backend,
            pause: RwLock::default(),
            jobs: Mutex::default(),
            manifest: Mutex::new(manifest),
            loaded: Mutex::default(),
            counters: Mutex::new(TreeWritten::default()),
            told: Mutex::default(),
            failed: Mutex::default(),
            next: Mutex::new(TreeId::new(0)),
            to_read: true,
        })
    }

    /// Returns the files of all trees that hold entries, each with its number of entries, including deletions and older
    /// entries of a key.
    ///
    /// # Errors
    /// `TreeDamaged` if the table library panics.
    pub fn file_rows(&self) -> Result<Vec<(PathBuf, u64)>, LevelsError> {
        let trees = self.manifest.lock().state().trees.clone();
        let mut found = Vec::new();
        for known in trees.values() {
            let files = self.guarded(known, |backend| Ok(backend.file_entries(known.tree.id)));
            found.extend(files.map_err(|error| self.refuse(known, error))?);
        }
        Ok(found)
    }

    pub(super) fn check_writable(&self) -> Result<(), LevelsError> {
        if self.to_read {
            return Err(LevelsError::InvalidCall { what: "the levels were opened to be read" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use collie_base::{CfId, Lsn};
    use collie_env::{Access, Env};

    use super::*;
    use crate::{
        levels::LevelsError, levels::TreeId, levels::backend::tree_dir, levels::levels_tests::edit,
        levels::levels_tests::load, levels::levels_tests::open, levels::manifest::Flush, levels::manifest::Record,
    };

    fn to_read(env: &Env, dir: &Path) -> Result<Levels, LevelsError> {
        Levels::open_to_read(env, dir, &LevelOptions::default())
    }

    /// Goal: the number of entries of each file is known, and the files are those on disk. Method: two runs of a tree,
    /// merged, with a deletion, and again with a second tree; on both kinds of disk.
    #[test]
    fn file_rows_are_the_entries_of_each_file() {
        let (real, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let (simulated, _disk) = Env::simulated(1);
        for (env, dir, before, merged) in
            [(real, dir.path(), vec![1, 3], vec![2]), (simulated, Path::new("/levels"), vec![2], vec![2])]
        {
            let rows = |levels: &Levels| {
                let mut found = levels.file_rows().unwrap();
                assert!(found.iter().all(|(file, _)| env.files.open(file, Access::Read).is_ok()), "{found:?}");
                found.sort_unstable_by_key(|(_, rows)| *rows);
                found.into_iter().map(|(_, rows)| rows).collect::<Vec<_>>()
            };
            let (levels, _) = open(&env, dir);
            let one = levels.create_tree(&[CfId::new(16)]).unwrap();
            let first =
                [edit(16, b"a", 20, Some(b"1")), edit(16, b"b", 21, Some(b"2")), edit(16, b"c", 22, Some(b"3"))];
            levels.flush(one, Lsn::new(30), &first, 3).unwrap();
            levels.flush(one, Lsn::new(40), &[edit(16, b"a", 35, None)], 2).unwrap();
            assert_eq!(rows(&levels), before);
            levels.compact(one).unwrap();
            assert_eq!(rows(&levels), merged);
            let two = levels.create_tree(&[CfId::new(17)]).unwrap();
            levels.flush(two, Lsn::new(50), &[edit(17, b"a", 45, Some(b"1"))], 1).unwrap();
            drop(levels);
            assert_eq!(rows(&to_read(&env, dir).unwrap()), [1, 2]);
        }
    }

    /// Returns every file and directory below `dir`, with its bytes and its time of modification.
    fn files(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let changed = path.metadata().unwrap().modified().unwrap();
            if path.is_dir() {
                found.extend(files(&path));
                found.insert(path, (Vec::new(), changed));
            } else {
                found.insert(path.clone(), (std::fs::read(&path).unwrap(), changed));
            }
        }
        found
    }

    /// Goal: W2, V9: levels opened for reading load the same as an ordinary open, also after an interrupted flush or
    /// compaction, and leave every file unchanged. Method: several runs, merged ones among them, and a second tree; a
    /// flush that was begun, with tables and without; leftovers of a crash; then an ordinary open.
    #[test]
    fn levels_to_be_read_load_the_same_and_write_nothing() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        assert!(to_read(&env, dir.path()).unwrap().trees().is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let (one, two) = {
            let (levels, _) = open(&env, dir.path());
            let one = levels.create_tree(&[CfId::new(16)]).unwrap();
            let two = levels.create_tree(&[CfId::new(17), CfId::new(18)]).unwrap();
            let value = vec![7; 3_000];
            let keys: Vec<[u8; 2]> = (0..400_u16).map(u16::to_be_bytes).collect();
            let many: Vec<_> = keys.iter().map(|key| edit(16, key, 20, Some(&value))).collect();
            levels.flush(one, Lsn::new(30), &many, 400).unwrap();
            levels.flush(one, Lsn::new(40), &[edit(16, b"a", 35, Some(b"1"))], 401).unwrap();
            levels.compact(one).unwrap();
            levels.flush(one, Lsn::new(50), &[edit(16, &keys[0], 45, None)], 400).unwrap();
            levels.flush(one, Lsn::new(60), &[edit(16, b"a", 55, Some(b"2"))], 400).unwrap();
            levels.flush(two, Lsn::new(60), &[edit(17, b"x", 5, Some(b"")), edit(18, b"x", 6, Some(b"y"))], 2).unwrap();
            // One flush that is in the tables, and one that was only begun: as two crashes leave them.
            levels.flush(two, Lsn::new(70), &[edit(18, b"z", 65, Some(b"z"))], 3).unwrap();
            let begun = Record::Begin(one, Flush { lsn: Lsn::new(80), live_keys: 9 });
            levels.manifest.lock().append(&begun).unwrap();
            (one, two)
        };
        let tree = tree_dir(dir.path(), one);
        std::fs::write(tree.join("tables/99"), b"a part of a table").unwrap();
        std::fs::write(tree.join("v99"), b"a part of a list").unwrap();
        std::fs::write(tree.join(".tmp99"), b"").unwrap();
        std::fs::create_dir(tree_dir(dir.path(), TreeId::new(77))).unwrap();
        let before = files(dir.path());
        let levels = to_read(&env, dir.path()).unwrap();
        let seen = (load(&levels, one).unwrap(), load(&levels, two).unwrap());
        let states = levels.trees();
        let stat = levels.stat();
        let refused: [Result<(), LevelsError>; 5] = [
            levels.create_tree(&[CfId::new(30)]).map(drop),
            levels.flush(one, Lsn::new(90), &[edit(16, b"b", 85, Some(b"b"))], 401).map(drop),
            levels.compact(two).map(drop),
            levels.drop_cf(CfId::new(16)),
            levels.note_log_start(Lsn::new(8192), &[]),
        ];
        assert!(refused.iter().all(|refused| matches!(refused, Err(LevelsError::InvalidCall { .. }))));
        drop(levels);
        assert!(files(dir.path()) == before, "a file was changed");

        let (levels, found) = open(&env, dir.path());
        assert_eq!((found.interrupted, found.deleted_dirs.len()), (vec![one], 1));
        assert_eq!((load(&levels, one).unwrap(), load(&levels, two).unwrap()), seen);
        assert_eq!(levels.trees(), states);
        let figures = |stat: &crate::LevelStat| {
            let trees = stat.trees.iter();
            trees.map(|tree| (tree.tables, tree.runs, tree.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(figures(&stat), figures(&levels.stat()));
        assert!(seen.0.len() == 400 && seen.1.len() == 3, "{} and {}", seen.0.len(), seen.1.len());
        assert_eq!(levels.trees()[0].flush_lsn, Lsn::new(60), "what was begun is not in the tables");
        drop(levels);
        assert!(files(dir.path()) != before, "what a crash left is cleared away by an opening");
    }

    /// Goal: damage is refused as an ordinary open refuses it, and no version file causes a large allocation or a
    /// panic. Method: the version file cut and flipped everywhere; a table missing; MANIFEST missing.
    #[test]
    fn damaged_levels_are_not_read() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let (levels, _) = open(&env, dir.path());
        let tree = levels.create_tree(&[CfId::new(16)]).unwrap();
        levels.flush(tree, Lsn::new(30), &[edit(16, b"a", 20, Some(b"1"))], 1).unwrap();
        drop(levels);
        let tree = tree_dir(dir.path(), tree);
        let versions = std::fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().path());
        let version =
            versions.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with('v')).max().unwrap();
        let whole = std::fs::read(&version).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for bad in [&flipped[..], &whole[..at]] {
                std::fs::write(&version, bad).unwrap();
                assert!(matches!(to_read(&env, dir.path()), Err(LevelsError::TreeDamaged { .. })), "{at}");
                let _whatever_it_says = super::super::lsm_view::decode_version(bad);
            }
        }
        std::fs::write(&version, &whole).unwrap();
        to_read(&env, dir.path()).unwrap();
        let table = std::fs::read_dir(tree.join("tables")).unwrap().next().unwrap().unwrap().path();
        let bytes = std::fs::read(&table).unwrap();
        std::fs::remove_file(&table).unwrap();
        assert!(matches!(to_read(&env, dir.path()), Err(LevelsError::TreeDamaged { .. })));
        std::fs::write(&table, bytes).unwrap();
        std::fs::remove_file(dir.path().join("MANIFEST")).unwrap();
        assert!(matches!(to_read(&env, dir.path()), Err(LevelsError::ManifestDamaged { .. })));
    }
}

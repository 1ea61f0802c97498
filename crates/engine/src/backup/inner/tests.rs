//! Tests with backups whose list was made from files that had already rotted, as earlier versions made them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use collie_env::Env;
use collie_store::LevelSums;

use super::super::manifest::{Manifest, NAME};
use super::super::work::Work;
use super::super::{CheckpointOptions, CopyProgress, restore, verify_backup};
use crate::{Db, EngineError, Insert, Isolation, Options, StatementKind};

fn go_on(_: &CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Makes a backup of a database that has levels and a log above them.
fn backup_in(dir: &Path) -> PathBuf {
    let (data, backup) = (dir.join("db"), dir.join("backup"));
    let options = Options { background: false, ..Options::small() };
    let (db, _) = Db::open(&data, options, Env::real(), &mut |_| ()).unwrap();
    let cf = db.create_family();
    for n in 0..40_u8 {
        let mut session = db.session().unwrap();
        session.begin(Isolation::ReadCommitted, false).unwrap();
        session.begin_statement(StatementKind::Write).unwrap();
        assert_eq!(session.insert(&db.family(cf), &[n], &[n; 300]).unwrap(), Insert::Done);
        session.commit(true).unwrap().block().unwrap();
        if n == 30 {
            db.flush_cf(&[cf]).unwrap();
        }
    }
    db.checkpoint(&backup, CheckpointOptions { copy: true }, &mut go_on).unwrap();
    db.close().unwrap();
    backup
}

/// Rewrites the list of a backup from the present files, without checking the checksums inside them.
fn list_anew(backup: &Path) {
    let env = Env::real();
    let mut manifest = Manifest::read(&env, backup).unwrap();
    let mut watch = go_on;
    let mut work = Work::new(&env, &mut watch);
    for file in &mut manifest.files {
        *file = work.sum(backup, file.name.clone(), &LevelSums::default()).unwrap();
    }
    fs::remove_file(backup.join(NAME)).unwrap();
    manifest.write(&env, backup).unwrap();
}

/// Goal: rot that is older than the list is found in every file that an opening needs, and the file is named; a
/// restore refuses the backup and creates nothing. Method: flip a bit of each file of a backup in turn and make
/// the list again.
#[test]
fn rot_from_before_the_list_was_made_is_found_and_refused() {
    let dir = tempfile::tempdir().unwrap();
    let backup = backup_in(dir.path());
    let to = dir.path().join("restored");
    list_anew(&backup);
    assert_eq!(verify_backup(&backup, &Env::real(), &mut go_on).unwrap().1, []);
    let names: Vec<String> =
        Manifest::read(&Env::real(), &backup).unwrap().files.into_iter().map(|file| file.name).collect();
    let (mut met, mut passed_by) = (0, Vec::new());
    for name in names {
        let path = backup.join(&name);
        let whole = fs::read(&path).unwrap();
        // In the log, the byte behind the header and the first frame.
        let at = if name.ends_with(".wal") { 4096 + 70 } else { whole.len() / 2 };
        let Some(byte) = whole.get(at) else { continue };
        let mut bad = whole.clone();
        bad[at] = byte ^ 8;
        fs::write(&path, bad).unwrap();
        list_anew(&backup);
        let (_, faults) = verify_backup(&backup, &Env::real(), &mut go_on).unwrap();
        let restored = restore(&backup, &to, None, &Env::real(), &mut go_on);
        if faults.is_empty() {
            passed_by.push(name.clone());
            assert!(restored.is_ok(), "{name}: {restored:?}");
            fs::remove_dir_all(&to).unwrap();
        } else {
            met += 1;
            let above = path.parent().unwrap();
            // If `current` or the list that it names has rotted, nothing shows which of the two it is.
            let is_list = |other: &Path| path.ends_with("current") && other.parent() == Some(above);
            let is_named = |other: &Path| other == path || other == above || is_list(other);
            assert!(faults.iter().all(|fault| is_named(&fault.path)), "{name}: {faults:?}");
            assert!(matches!(restored, Err(EngineError::BadBackup { .. })), "{name}: {restored:?}");
            assert!(!to.exists());
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(met >= 6, "{met} found, {passed_by:?} not");
    assert!(passed_by.iter().all(|name| !name.starts_with("levels/") && name != "control"), "{passed_by:?}");
}

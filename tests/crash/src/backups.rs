//! Backups during a load, and the restore of one that was acknowledged.

use std::{
    ops::ControlFlow,
    path::Path,
    thread::{self, JoinHandle},
};

use anyhow::ensure;
use collie_engine::{RestoreTo, restore, verify_backup};
use collie_env::Env;
use postgres::{Config, NoTls};

/// Makes a backup, on a thread, which returns the name if the server has acknowledged it.
pub(crate) fn make(config: Config, name: String) -> JoinHandle<Option<String>> {
    thread::spawn(move || {
        let mut client = config.connect(NoTls).ok()?;
        client.batch_execute(&format!("CALL collie_checkpoint('{name}', true)")).ok()?;
        Some(name)
    })
}

/// Verifies the backup at `place`, and restores its end to the directory `to`.
///
/// # Errors
/// A file is not as it was made; the backup cannot be restored.
pub(crate) fn bring_back(place: &Path, to: &Path) -> anyhow::Result<()> {
    let (env, go_on) = (Env::real(), || ControlFlow::Continue(()));
    let (_, faults) = verify_backup(place, &env, &mut |_| go_on())?;
    ensure!(faults.is_empty(), "{} files are not as they were made", faults.len());
    restore(place, to, RestoreTo::End, &env, &mut |_| go_on())?;
    Ok(())
}

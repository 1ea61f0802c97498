//! The requirements of commands that mount file systems: rights, devices, programs, and a private mount namespace.
//!
//! In a private namespace no other process sees the mounts of this one, and all of them go when this process and its
//! children have ended, for whatever reason.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use nix::{
    mount::{MntFlags, MsFlags},
    sched::CloneFlags,
};

use crate::report::Report;

/// The number of attempts to unmount a file system that is still in use, and the pause between them.
const LOOKS: u32 = 500;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Enters a new mount namespace, for this thread, threads that it starts and children. Call it before there are other
/// threads.
///
/// # Errors
/// What is missing: rights, a device or one of `programs`.
pub(crate) fn enter(devices: &[&str], programs: &[&str]) -> anyhow::Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "not root");
    for device in devices {
        let opened = std::fs::File::options().read(true).write(true).open(device);
        opened.with_context(|| (*device).to_owned())?;
    }
    for program in programs {
        let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.with_context(|| (*program).to_owned())?;
    }
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).context("no mount namespace")?;
    let (nothing, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    nix::mount::mount(nothing, "/", nothing, private, nothing).context("no private mounts")
}

/// Returns a report that `command` was skipped and why, or an error if it must run (`COLLIE_REQUIRE_LAB=1`).
pub(crate) fn skip(command: &str, why: &anyhow::Error) -> anyhow::Result<Report> {
    let required = std::env::var_os("COLLIE_REQUIRE_LAB").is_some_and(|value| value == "1");
    ensure!(!required, "COLLIE_REQUIRE_LAB=1, and {command} cannot run here: {why:#}");
    Ok(format!("{command}: skipped: {why:#}").into())
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, words: &[&OsStr]) -> anyhow::Result<()> {
    let output = Command::new(program).args(words).output().with_context(|| program.to_owned())?;
    ensure!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Unmounts a file system; retries, since a killed process may still be closing its files.
pub(crate) fn unmount(place: &Path) -> anyhow::Result<()> {
    let mut left = LOOKS;
    loop {
        match nix::mount::umount2(place, MntFlags::empty()) {
            Err(nix::errno::Errno::EBUSY) if left > 0 => left -= 1,
            unmounted => return unmounted.with_context(|| format!("{} stays mounted", place.display())),
        }
        thread::sleep(LOOK_EVERY);
    }
}

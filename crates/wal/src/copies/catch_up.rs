//! Catch-up: brings a copy that was left out up to the live ones while the log runs, and lets it join again.
//!
//! A catch-up first compares everything with a live copy and writes where the two differ, segment by segment in order,
//! while the log runs and notes its changes. It then applies the noted changes until little is left. Finally it blocks
//! the log's changing calls for the rest, and the copy joins. The copy counts once the frame writer has written so
//! (`mirror` I5).
//!
//! # Invariants
//! - K1. As `repair` R2: files that are not part of the log are removed first, then each segment is durable before the
//!   next, so that after a crash on the way the copy is stale or whole. A segment that differs is written under a
//!   temporary name.
//! - K2. Nothing is written over a copy that diverged (`census` S3) or belongs to another log.
//! - K3. When it joins, the copy holds every byte of the live one, synced: a change is noted after it was made, so the
//!   next round sees it.
//! - K4. Segments from the last one that the copy knows to be durable are rewritten without a comparison: the copy's
//!   last sync may have failed, and then only the page cache has the bytes.
//!
//! Checked by `mirror_tests`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use collie_env::{Access, File, FileLock, LockError};

use super::{
    census::{Top, Witness},
    cut::{Reference, cut_above},
    members::{Shared, State},
    merge::CopyDir,
    mirror::Mirror,
    repair::{copy_file, mark},
};
use crate::{CopyState, WalError, format::segment_number, read::source::FrameSource, read::window::Window};

/// Once no more than this was left in a round, the log may be blocked for the rest.
const LITTLE_BYTES: u64 = 256 << 10;
/// Number of rounds after which the catch-up gives up until the next try.
const ROUNDS_MAX: u32 = 50;
/// How long a catch-up waits in one round for the log's running calls to end.
const GATE_PATIENCE: Duration = Duration::from_millis(100);

/// Changes since a catch-up last looked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Names created, replaced or removed.
    pub(super) names: BTreeSet<String>,
    /// Ranges written, by name: from, to.
    pub(super) writes: BTreeMap<String, (u64, u64)>,
}

impl Mirror {
    /// Tries to bring back each copy that is down; returns whether one joined, which the frame writer has to record.
    pub(crate) fn catch_up(&self) -> bool {
        let down = |state: &State| -> Vec<usize> {
            let copies = state.copies.iter().enumerate();
            copies.filter(|(_, copy)| copy.state == CopyState::Down && copy.is_idle()).map(|(index, _)| index).collect()
        };
        let down = down(&self.0.state.lock());
        let mut joined = false;
        for index in down {
            match self.0.catch_up(index) {
                Ok(()) => joined = true,
                Err(why) => {
                    let mut state = self.0.state.lock();
                    state.copies[index].changes = None;
                    state.copies[index].why = why.to_string();
                }
            }
        }
        joined
    }

    /// Waits until a copy goes down or the log closes, at most one `wal.copy_stall`; returns `false` once the log
    /// closes. Under a quorum, leaves out a copy that made no progress during the wait although it has calls in
    /// progress.
    pub(crate) fn watch(&self) -> bool {
        let before = self.0.moves();
        {
            let mut state = self.0.state.lock();
            if !self.0.stop.load(Ordering::Relaxed) {
                self.0.changed.wait_for(&mut state, self.0.rules.stall);
            }
        }
        for (index, (now, was)) in self.0.moves().into_iter().zip(before).enumerate() {
            if now.is_some() && now == was && self.0.rules.quorum {
                self.0.lose(index, "it hangs");
            }
        }
        !self.0.stop.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn catch_up(self: &Arc<Self>, index: usize) -> Result<(), WalError> {
        // If this thread hangs, it keeps the lock (`lane` N2).
        let _lock = self.take_hold(index)?;
        // Changes are noted from here on, before anything is compared (K3); until a LINK counts the copy, it is marked
        // (`census` S4).
        self.state.lock().copies[index].changes = Some(Changes::default());
        let known = self.must_be_ours(index)?;
        mark(&*self.files, &self.dirs[index]).map_err(|source| self.failed("mark", index, source))?;
        let names = self.segments_of(self.reference()?)?;
        self.remove_others(index, &names)?;
        for name in &names {
            self.equalize(index, name, known.as_ref().is_some_and(|known| *name < known.name))?;
        }
        for _ in 0..ROUNDS_MAX {
            let changes = self.take_changes(index);
            if self.apply(index, &changes)? > LITTLE_BYTES {
                continue;
            }
            // Last round: with the gate closed nothing changes any more.
            let Some(_gate) = self.gate.try_write_for(GATE_PATIENCE) else { continue };
            let reference = self.reference()?;
            if !self.state.lock().copies[reference].is_idle() {
                // Under a quorum the reference may itself lag.
                continue;
            }
            let changes = self.take_changes(index);
            self.apply(index, &changes)?;
            self.remove_others(index, &self.segments_of(reference)?)?;
            for file in self.state.lock().open_files().into_iter().filter(|file| file.is_segment()) {
                file.open_in(index).map_err(|source| self.failed("open a segment in", index, source))?;
            }
            self.join(index);
            return Ok(());
        }
        Err(self.failed("keep up with the log in", index, io::ErrorKind::TimedOut.into()))
    }

    fn failed(&self, op: &'static str, index: usize, source: io::Error) -> WalError {
        WalError::io(op, &self.dirs[index], source)
    }

    fn reference(&self) -> Result<usize, WalError> {
        let reference = self.state.lock().reference();
        reference.ok_or_else(|| self.failed("copy from", 0, io::ErrorKind::NotFound.into()))
    }

    /// Creates the directory if it is missing, takes its lock and starts its lanes, unless that is done already.
    fn take_hold(&self, index: usize) -> Result<Option<Arc<dyn FileLock>>, WalError> {
        let dir = &self.dirs[index];
        if self.state.lock().copies[index].lock.is_none() {
            self.files.create_dir_all(dir).map_err(|source| self.failed("create", index, source))?;
            let lock = self.files.lock(&dir.join("LOCK")).map_err(|error| match error {
                LockError::Held { pid } => WalError::Locked { pid },
                LockError::Io(source) => self.failed("lock", index, source),
            })?;
            self.state.lock().copies[index].lock = Some(lock.into());
        }
        let started = self.state.lock().copies[index].start_lanes(index, self.rules.threads);
        started.map_err(|source| self.failed("start a thread for", index, source))?;
        Ok(self.state.lock().copies[index].lock.clone())
    }

    /// Refuses a copy of another log and a copy that diverged from this one (K2). Returns the last frame that the copy
    /// knows to be durable.
    fn must_be_ours(&self, index: usize) -> Result<Option<Witness>, WalError> {
        let reference = self.reference()?;
        let place = |index: usize| CopyDir { index, dir: self.dirs[index].clone() };
        let (theirs, ours) = (Top::of(&*self.files, &place(index))?, Top::of(&*self.files, &place(reference))?);
        if theirs.log_id.is_some() && theirs.log_id != ours.log_id {
            return Err(WalError::ForeignLog { path: self.dirs[index].clone() });
        }
        let Some(witness) = theirs.witness else { return Ok(None) };
        let names = self.segments_of(reference)?;
        if names.first().is_none_or(|oldest| witness.name < *oldest) {
            return Ok(Some(witness));
        }
        let path = self.dirs[reference].join(&witness.name);
        if names.contains(&witness.name) {
            let mut window = Window::open(&*self.files, path.clone())?;
            let found = window.frame_at(witness.offset, Some(witness.salt))?;
            if found.is_ok_and(|frame| frame.crc == witness.crc) {
                return Ok(Some(witness));
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let log = Reference { files: &*self.files, dir: &self.dirs[reference], names: &names };
        if cut_above(&log, &*self.files, &self.dirs[index], &witness)? {
            return Ok(Some(witness));
        }
        Err(WalError::CopiesDiffer { path, other: self.dirs[index].join(&witness.name), offset: witness.offset })
    }

    /// Returns the names of the segments in a copy, oldest first.
    fn segments_of(&self, index: usize) -> Result<Vec<String>, WalError> {
        let names = self.files.list(&self.dirs[index]).map_err(|source| self.failed("list", index, source))?;
        Ok(names.into_iter().filter(|name| segment_number(name).is_some()).collect())
    }

    /// Removes segments that are not in `names`, and temporary files.
    fn remove_others(&self, index: usize, names: &[String]) -> Result<(), WalError> {
        let dir = &self.dirs[index];
        let there = self.files.list(dir).map_err(|source| self.failed("list", index, source))?;
        let ours = |name: &&String| segment_number(name).is_some() || name.ends_with(".wal.tmp");
        let others: Vec<&String> = there.iter().filter(ours).filter(|name| !names.contains(name)).collect();
        for name in &others {
            self.files.remove(&dir.join(name)).map_err(|source| self.failed("remove from", index, source))?;
        }
        if others.is_empty() {
            return Ok(());
        }
        self.files.sync_dir(dir).map_err(|source| self.failed("sync", index, source))
    }

    /// Makes one segment of a copy equal to that of the reference (K1). Unless the copy's bytes are known to be
    /// `synced`, equal bytes prove nothing (K4).
    fn equalize(&self, index: usize, name: &str, synced: bool) -> Result<(), WalError> {
        let reference = self.reference()?;
        let (source, target) = (self.dirs[reference].join(name), self.dirs[index].join(name));
        if self.stop.load(Ordering::Relaxed) {
            return Err(WalError::Closed);
        }
        let from = match self.files.open(&source, Access::Read) {
            // It was freed in the meantime, which is noted as a change.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            from => from.map_err(|error| self.failed("read", reference, error))?,
        };
        let bytes = from.len().map_err(|error| self.failed("read", reference, error))?;
        // A file that cannot be read is written again.
        if (synced || mistake!("COPY_CACHE_TRUSTED")) && self.is_equal(&*from, &target, bytes).unwrap_or(false) {
            return Ok(());
        }
        copy_file(&*from, &*self.files, &target, bytes).map_err(|error| self.failed("write", index, error))
    }

    fn is_equal(&self, from: &dyn File, target: &Path, bytes: u64) -> io::Result<bool> {
        let target = self.files.open(target, Access::Read)?;
        if target.len()? != bytes {
            return Ok(false);
        }
        let (mut one, mut other) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        let mut offset = 0;
        while offset < bytes {
            let (a, b) = (from.read_at(offset, &mut one)?, target.read_at(offset, &mut other)?);
            if a == 0 || one[..a] != other[..b] {
                return Ok(false);
            }
            offset += a as u64;
        }
        Ok(true)
    }

    /// Notes a change for each running catch-up.
    pub(super) fn note(&self, act: impl Fn(&mut Changes)) {
        self.state.lock().copies.iter_mut().filter_map(|copy| copy.changes.as_mut()).for_each(act);
    }

    pub(super) fn note_name(&self, path: &Path) {
        if let Some(name) = path.file_name() {
            let name = name.to_string_lossy();
            self.note(|changes| {
                changes.names.insert(name.clone().into_owned());
            });
        }
    }

    fn take_changes(&self, index: usize) -> Changes {
        let mut state = self.state.lock();
        state.copies[index].changes.replace(Changes::default()).unwrap_or_default()
    }

    /// Applies noted changes to a copy; returns roughly how many bytes they were.
    fn apply(&self, index: usize, changes: &Changes) -> Result<u64, WalError> {
        let reference = self.reference()?;
        // The reference was given every noted change before; under a quorum it may not have applied it yet.
        if !self.has_all(reference) {
            return Err(self.failed("copy from", reference, io::ErrorKind::TimedOut.into()));
        }
        let names = self.segments_of(reference)?;
        let mut done = 0;
        for name in changes.names.iter().filter(|name| segment_number(name).is_some()) {
            if names.contains(name) {
                self.equalize(index, name, false)?;
            } else {
                self.remove_others(index, &names)?;
            }
            done += 1;
        }
        let stretches = changes.writes.iter().filter(|(name, _)| names.contains(name));
        for (name, (from, to)) in stretches.filter(|(name, _)| !changes.names.contains(*name)) {
            done += self.copy_stretch(index, reference, name, *from, *to)?;
        }
        Ok(done)
    }

    /// Copies a range of a segment that both copies have, durably.
    fn copy_stretch(&self, index: usize, reference: usize, name: &str, from: u64, to: u64) -> Result<u64, WalError> {
        let copy = || {
            let source = self.files.open(&self.dirs[reference].join(name), Access::Read)?;
            let target = self.files.open(&self.dirs[index].join(name), Access::ReadWrite)?;
            let mut piece = vec![0; 1 << 20];
            let mut offset = from;
            while offset < to {
                let len = usize::try_from((to - offset).min(1 << 20)).expect("at most 1 MiB");
                let read = source.read_at(offset, &mut piece[..len])?;
                if read == 0 {
                    break;
                }
                target.write_at(offset, &piece[..read])?;
                offset += read as u64;
            }
            target.sync_data()
        };
        copy().map_err(|source| self.failed("write", index, source))?;
        Ok(to - from)
    }
}

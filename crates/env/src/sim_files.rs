//! `SimFiles`: a disk in memory that can lose power, fail, fill up and lie.
//!
//! Every call that changes something is counted; faults name the call by its number, so a test can try each of them.
//! What may be lost at a power cut is decided by a seed (`sim_disk`, S1 to S3). Directories themselves always survive;
//! the names in them do not.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    files::{Access, File, FileLock, Files, LockError},
    random::SimRandom,
    sim_disk::{Disk, Inode, NameChange, SECTOR},
};

/// The unit that a power cut keeps or drops as a whole.
pub const SECTOR_BYTES: u64 = SECTOR as u64;

/// What goes wrong at a chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with an I/O error. A failed write may have written half; a failed sync drops what it should have
    /// written (the process still reads it, no later sync writes it).
    Eio,
    /// The call fails because the disk is full.
    Enospc,
    /// The power goes during the call: half of a write may be in the cache, this and every later call fails.
    PowerCut,
}

/// The kinds of calls that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// `write_at`.
    Write,
    /// `sync_data`.
    Sync,
    /// `create`, `replace`, `remove`, `set_len` and `sync_dir`.
    Name,
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    calls: u64,
    writes_and_syncs: u64,
    faults: Vec<(u64, Fault)>,
    io_faults: Vec<(u64, Fault)>,
    off: bool,
    capacity_bytes: Option<u64>,
    lying_sync: bool,
}

/// A simulated disk; clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct SimFiles(Arc<Mutex<State>>);

impl SimFiles {
    /// Creates an empty disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many calls changed something or tried to.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Returns how many of them were `write_at` or `sync_data`.
    pub fn writes_and_syncs(&self) -> u64 {
        self.0.lock().writes_and_syncs
    }

    /// Lets the `call`-th changing call from the creation of the disk (1 is the first) fail with `fault`.
    pub fn fail_call(&self, call: u64, fault: Fault) {
        self.0.lock().faults.push((call, fault));
    }

    /// Lets the `call`-th `write_at` or `sync_data` from the creation of the disk (1 is the first) fail with `fault`.
    pub fn fail_write_or_sync(&self, call: u64, fault: Fault) {
        self.0.lock().io_faults.push((call, fault));
    }

    /// Bounds the bytes that all files together may hold; `None` lifts the bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity_bytes = bytes;
    }

    /// Returns the bytes that all files together hold.
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().disk.used_bytes()
    }

    /// Lets `sync_data` and `sync_dir` report success without doing anything.
    pub fn set_lying_sync(&self, lying: bool) {
        self.0.lock().lying_sync = lying;
    }

    /// Cuts the power: this disk fails every later call; returns the disk after the restart, where `seed` chose what
    /// of the unsynced survived.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Self {
        let mut state = self.0.lock();
        state.off = true;
        let disk = state.disk.after_power_cut(&SimRandom::new(seed));
        Self(Arc::new(Mutex::new(State { disk, ..State::default() })))
    }

    /// Stops the process only: this disk fails every later call; returns the disk as the next process finds it, with
    /// everything written, synced or not.
    #[must_use]
    pub fn process_kill(&self) -> Self {
        let mut state = self.0.lock();
        state.off = true;
        let mut disk = state.disk.clone();
        disk.locks.clear();
        Self(Arc::new(Mutex::new(State { disk, ..State::default() })))
    }

    /// Flips the bits of `mask` in the byte at `offset` of a file, durably: what a rotting medium does.
    ///
    /// # Errors
    /// `NotFound` when there is no such file or byte.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut state = self.0.lock();
        let inode = *state.disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let inode = state.disk.inodes.get_mut(&inode).ok_or(io::ErrorKind::NotFound)?;
        let at = usize::try_from(offset).map_err(|_| io::ErrorKind::NotFound)?;
        let byte = *inode.current.get(at).ok_or(io::ErrorKind::NotFound)?;
        inode.write(at, &[byte ^ mask]);
        inode.sync();
        Ok(())
    }
}

impl State {
    /// Counts a call and returns what is to go wrong with it.
    fn enter(&mut self, operation: Operation) -> Result<Option<Fault>, io::Error> {
        if self.off {
            return Err(io::Error::other("the power is off"));
        }
        self.calls += 1;
        let mut fault = self.faults.iter().find(|(at, _)| *at == self.calls).map(|(_, fault)| *fault);
        if operation != Operation::Name {
            self.writes_and_syncs += 1;
            let count = self.writes_and_syncs;
            fault = fault.or(self.io_faults.iter().find(|(at, _)| *at == count).map(|(_, fault)| *fault));
        }
        if fault == Some(Fault::PowerCut) {
            self.off = true;
        }
        Ok(fault)
    }

    /// Counts a call on names and lengths: it fails whole or not at all.
    fn enter_names(&mut self) -> io::Result<()> {
        self.enter(Operation::Name)?.map_or(Ok(()), |fault| Err(error_of(fault)))
    }

    /// Refuses growth beyond the capacity.
    fn reserve(&self, grow_bytes: u64) -> io::Result<()> {
        match self.capacity_bytes {
            Some(capacity) if grow_bytes > 0 && self.disk.used_bytes() + grow_bytes > capacity => {
                Err(error_of(Fault::Enospc))
            }
            _ => Ok(()),
        }
    }
}

fn error_of(fault: Fault) -> io::Error {
    match fault {
        Fault::Eio => io::Error::from(rustix::io::Errno::IO),
        Fault::Enospc => io::Error::from(rustix::io::Errno::NOSPC),
        Fault::PowerCut => io::Error::other("the power is off"),
    }
}

#[derive(Debug)]
struct SimFile {
    state: Arc<Mutex<State>>,
    inode: u64,
    access: Access,
}

impl SimFile {
    fn with<R>(&self, act: impl FnOnce(&mut Inode) -> R) -> R {
        act(self.state.lock().disk.inodes.get_mut(&self.inode).expect("files outlive their names here"))
    }

    fn writable(&self) -> io::Result<()> {
        if self.access == Access::ReadWrite { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        if self.state.lock().off {
            return Err(error_of(Fault::PowerCut));
        }
        self.with(|inode| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(inode.current.len());
            let count = bytes.len().min(inode.current.len() - from);
            bytes[..count].copy_from_slice(&inode.current[from..from + count]);
            Ok(count)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?;
        let mut state = self.state.lock();
        let fault = state.enter(Operation::Write)?;
        let at = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = at.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        let len = state.disk.inodes.get(&self.inode).map_or(0, |inode| inode.current.len());
        let grown = state.reserve(end.saturating_sub(len) as u64);
        let inode = state.disk.inodes.get_mut(&self.inode).expect("files outlive their names here");
        match fault {
            None => {
                grown?;
                inode.write(at, bytes);
                Ok(())
            }
            Some(fault) => {
                // Whether half arrives depends on the place, so that both happen in a sweep.
                let half = bytes.len() / 2 / SECTOR * SECTOR;
                if grown.is_ok() && fault != Fault::Enospc && (offset / SECTOR_BYTES).is_multiple_of(2) {
                    inode.write(at, &bytes[..half]);
                } else if fault == Fault::PowerCut && grown.is_ok() {
                    inode.write(at, bytes);
                }
                Err(error_of(fault))
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let fault = state.enter(Operation::Sync)?;
        let lying = state.lying_sync;
        let inode = state.disk.inodes.get_mut(&self.inode).expect("files outlive their names here");
        match fault {
            None if lying => Ok(()),
            None => {
                inode.sync();
                Ok(())
            }
            Some(fault) => {
                if fault != Fault::PowerCut {
                    inode.fail_sync();
                }
                Err(error_of(fault))
            }
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.writable()?;
        let mut state = self.state.lock();
        state.enter_names()?;
        let len = state.disk.inodes.get(&self.inode).map_or(0, |inode| inode.current.len());
        let new_len = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        state.reserve(new_len.saturating_sub(len) as u64)?;
        let inode = state.disk.inodes.get_mut(&self.inode).expect("files outlive their names here");
        if new_len > len {
            let zeros = vec![0; new_len - len];
            inode.write(len, &zeros);
        } else {
            inode.current.truncate(new_len);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|inode| inode.current.len() as u64))
    }
}

#[derive(Debug)]
struct SimLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.state.lock().disk.locks.remove(&self.path);
    }
}

impl Files for SimFiles {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        for above in dir.ancestors() {
            state.disk.dirs.insert(above.to_owned());
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.0.lock();
        state.enter_names()?;
        if state.disk.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.disk.next_inode;
        state.disk.next_inode += 1;
        state.disk.inodes.insert(inode, Inode::default());
        state.disk.change(NameChange::Link(path.to_owned(), inode));
        Ok(Arc::new(SimFile { state: self.0.clone(), inode, access: Access::ReadWrite }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let state = self.0.lock();
        if state.off {
            return Err(error_of(Fault::PowerCut));
        }
        let inode = *state.disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { state: self.0.clone(), inode, access }))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let fault = state.enter(Operation::Name)?;
        let inode = *state.disk.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        if let Some(fault) = fault {
            if fault == Fault::PowerCut {
                state.disk.change(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
            }
            return Err(error_of(fault));
        }
        state.disk.change(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        if let (false, Some(dir)) = (state.lying_sync, to.parent()) {
            state.disk.sync_dir(dir);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.enter_names()?;
        if !state.disk.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.disk.change(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        if state.off {
            return Err(error_of(Fault::PowerCut));
        }
        let inside = |path: &&PathBuf| path.parent() == Some(dir);
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<String> = state.disk.names.keys().filter(inside).filter_map(name).collect();
        names.extend(state.disk.dirs.iter().filter(inside).filter_map(name));
        if names.is_empty() && !state.disk.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.enter_names()?;
        if !state.lying_sync {
            state.disk.sync_dir(dir);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        let mut state = self.0.lock();
        if state.off {
            return Err(LockError::Io(error_of(Fault::PowerCut)));
        }
        if !state.disk.locks.insert(path.to_owned()) {
            return Err(LockError::Held { pid: Some(std::process::id()) });
        }
        Ok(Box::new(SimLock { state: self.0.clone(), path: path.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_all;

    const A: &str = "/d/a";

    fn disk_with_synced_file() -> (SimFiles, Arc<dyn File>) {
        let disk = SimFiles::new();
        let file = disk.create(A.as_ref()).unwrap();
        file.write_at(0, &[1; 2048]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir("/d".as_ref()).unwrap();
        (disk, file)
    }

    /// Goal: synced bytes always survive, unsynced sectors survive one by one. Method: 200 seeds over four rewritten
    /// sectors; each sector is old or new as a whole, and both mixed and pure outcomes occur.
    #[test]
    fn power_cut_keeps_any_subset_of_unsynced_sectors() {
        let (disk, file) = disk_with_synced_file();
        file.write_at(0, &[2; 2048]).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let after = read_all(&disk.power_cut(seed), A.as_ref(), 4096).unwrap();
            let sectors: Vec<u8> = after.chunks(SECTOR).map(|sector| sector[0]).collect();
            assert!(after.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "seed {seed}");
            seen.insert(sectors);
        }
        assert!(seen.contains(&vec![1; 4]) && seen.contains(&vec![2; 4]), "{seen:?}");
        assert!(seen.len() > 6, "{seen:?}");
    }

    /// Goal: a name is lost without a directory sync and kept with one. Method: both, over 50 seeds.
    #[test]
    fn power_cut_may_lose_a_name_that_was_not_synced() {
        let (disk, _file) = disk_with_synced_file();
        disk.create("/d/b".as_ref()).unwrap();
        let survived = (0..50).filter(|seed| disk.power_cut(*seed).list("/d".as_ref()).unwrap().len() == 2).count();
        assert!((1..50).contains(&survived), "{survived} of 50");
        let (disk, _file) = disk_with_synced_file();
        disk.replace(A.as_ref(), "/d/c".as_ref()).unwrap();
        assert!((0..50).all(|seed| disk.power_cut(seed).list("/d".as_ref()).unwrap() == ["c"]));
    }

    /// Goal: after a failed sync a later successful one promises nothing about the lost writes. Method: fail one,
    /// repeat it with success, cut the power.
    #[test]
    fn sync_after_a_failed_sync_does_not_bring_the_lost_writes_back() {
        let (disk, file) = disk_with_synced_file();
        file.write_at(0, &[3; 512]).unwrap();
        disk.fail_call(disk.calls() + 1, Fault::Eio);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(read_all(&disk, A.as_ref(), 4096).unwrap()[0], 3, "the process still reads what it wrote");
        assert!((0..50).any(|seed| read_all(&disk.power_cut(seed), A.as_ref(), 4096).unwrap()[0] == 1));
    }

    /// Goal: a lying sync loses, a full disk refuses, a cut stops everything. Method: one of each.
    #[test]
    fn lies_limits_and_cuts_show() {
        let (disk, file) = disk_with_synced_file();
        disk.set_lying_sync(true);
        file.write_at(0, &[4; 512]).unwrap();
        file.sync_data().unwrap();
        assert!((0..50).any(|seed| read_all(&disk.power_cut(seed), A.as_ref(), 4096).unwrap()[0] == 1));

        let (disk, file) = disk_with_synced_file();
        disk.set_capacity(Some(2048));
        assert_eq!(file.write_at(2048, &[1]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.write_at(0, &[1]).unwrap();
        disk.fail_call(disk.calls() + 1, Fault::PowerCut);
        assert!(file.write_at(0, &[9; 1024]).is_err());
        assert!(file.sync_data().is_err() && disk.list("/d".as_ref()).is_err());
        assert_eq!(disk.power_cut(0).list("/d".as_ref()).unwrap(), ["a"]);
    }
}

//! `SimFiles`: a disk in memory that can lose power, fail, stall, fill up and report syncs that did not happen.
//!
//! Calls that change or sync a file or a name are counted, except `create_dir_all` and `fill_holes`; a fault names
//! its call by the number, so that a test can try each of them. The module `crash_point` determines the changes that
//! a power cut may lose: in one state drawn by a seed ([`SimFiles::power_cut`]), or in all of them
//! ([`SimFiles::crash_point`], [`SimFiles::watch`]). The creation of a directory, and its removal once it is empty,
//! are durable at once; the names in it, and a new name for it, are not.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    files::{Access, File, FileLock, Files, LockError},
    random::SimRandom,
    sim::blocks::{BLOCK, SECTOR},
    sim::crash_point::CrashPoint,
    sim::disk::{Disk, Inode, NameChange},
    sim::memory::Memory,
};

/// The unit that a power cut keeps or drops; only a torn sector is kept in part.
pub const SECTOR_BYTES: u64 = SECTOR as u64;

/// The fault of a chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with an I/O error. A failed write may have written half. A failed sync drops its data: the
    /// process still reads it, and no later sync writes it. The next sync through each other open description of
    /// the file fails too.
    Eio,
    /// The call fails because the disk is full.
    Enospc,
    /// The power fails during the call: half or all of a write may be in the cache, and this and every later call
    /// fails.
    PowerCut,
}

/// The kinds of calls that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// `write_at`.
    Write,
    /// `sync_data`.
    Sync,
    /// A call that changes names, lengths or holes, and `sync_dir`.
    Name,
}

/// Which syncs report success without doing anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lies {
    data: bool,
    names: bool,
}

/// A callback that receives each crash point.
struct Watcher(Box<dyn FnMut(CrashPoint) + Send>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    calls: u64,
    writes_and_syncs: u64,
    largest_read_bytes: u64,
    faults: Vec<(u64, Fault)>,
    io_faults: Vec<(u64, Fault)>,
    off: bool,
    stalled: bool,
    capacity_bytes: Option<u64>,
    lies: Lies,
    watcher: Option<Watcher>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Locked after `state` where both are locked.
    memory: Mutex<Memory>,
    /// Signals the end of a stall.
    resumed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits while the device is stalled.
    fn lock_device(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.stalled && !state.off {
            self.resumed.wait(&mut state);
        }
        state
    }
}

/// A simulated disk; clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct SimFiles(Arc<Shared>);

impl SimFiles {
    /// Creates an empty disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a running disk from a state.
    pub(crate) fn over(disk: Disk) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(State { disk, ..State::default() }), ..Shared::default() }))
    }

    /// Returns the machine's named memory.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock()
    }

    /// Returns how many counted calls were made, failed ones included.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Returns how many of them were `write_at` or `sync_data`.
    pub fn writes_and_syncs(&self) -> u64 {
        self.0.lock().writes_and_syncs
    }

    /// Returns the largest buffer passed to `read_at`, in bytes. It shows how much a reader allocates for bytes on
    /// disk.
    pub fn largest_read_bytes(&self) -> u64 {
        self.0.lock().largest_read_bytes
    }

    /// Makes the `call`-th counted call since the creation of the disk (1 is the first) fail with `fault`.
    pub fn fail_call(&self, call: u64, fault: Fault) {
        self.0.lock().faults.push((call, fault));
    }

    /// Makes the `call`-th `write_at` or `sync_data` since the creation of the disk (1 is the first) fail with
    /// `fault`.
    pub fn fail_write_or_sync(&self, call: u64, fault: Fault) {
        self.0.lock().io_faults.push((call, fault));
    }

    /// Removes the faults that have not happened yet.
    pub fn clear_faults(&self) {
        let mut state = self.0.lock();
        state.faults.clear();
        state.io_faults.clear();
    }

    /// Bounds the bytes that all files together may hold; `None` lifts the bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity_bytes = bytes;
    }

    /// Returns the bytes that all files together hold.
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().disk.used_bytes()
    }

    /// Makes `sync_data` and `sync_dir` report success without doing anything.
    pub fn set_lying_sync(&self, lying: bool) {
        self.0.lock().lies = Lies { data: lying, names: lying };
    }

    /// Makes `sync_dir`, including the one in `replace`, report success without doing anything.
    pub fn set_lying_names(&self, lying: bool) {
        self.0.lock().lies.names = lying;
    }

    /// Stalls the device: writes, syncs of data and changes of holes block, before they are counted, until the
    /// stall is lifted or the power fails. Reads and changes of names continue, as from a cache.
    pub fn set_stalled(&self, stalled: bool) {
        self.0.lock().stalled = stalled;
        self.0.resumed.notify_all();
    }

    /// Calls `watcher` with the crash point before each sync of data or names, when the most unsynced changes may
    /// be lost. The caller itself looks at the end of a run ([`SimFiles::crash_point`]). `watcher` runs under the
    /// disk's lock and must not call the disk. It replaces an earlier watcher.
    pub fn watch(&self, watcher: impl FnMut(CrashPoint) + Send + 'static) {
        self.0.lock().watcher = Some(Watcher(Box::new(watcher)));
    }

    /// Returns the states that a power cut now may leave. The disk keeps running.
    pub fn crash_point(&self) -> CrashPoint {
        let state = self.0.lock();
        CrashPoint::new(&state.disk, state.calls)
    }

    /// Cuts the power: this disk fails every later call. Returns the disk after the restart, where `seed` selected
    /// the surviving unsynced changes.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Self {
        let point = self.switch_off();
        let after = point.state(&point.drawn(&SimRandom::new(seed)));
        *after.memory() = self.memory().after_power_cut();
        after
    }

    /// Stops the process only: this disk fails every later call. Returns the disk as the next process finds it,
    /// with everything written, synced or not, and a copy of the named memory. That copy is of one instant only if
    /// no thread of the process stores into a region during the call.
    #[must_use]
    pub fn process_kill(&self) -> Self {
        self.switch_off();
        let mut disk = self.0.lock().disk.clone();
        disk.locks.clear();
        disk.lock_readers.clear();
        let after = Self::over(disk);
        *after.memory() = self.memory().after_kill();
        after
    }

    fn switch_off(&self) -> CrashPoint {
        let mut state = self.0.lock();
        state.off = true;
        self.0.resumed.notify_all();
        CrashPoint::new(&state.disk, state.calls)
    }

    /// Flips the bits of `mask` in the byte at `offset` of a file, durably, as a rotting medium does.
    ///
    /// # Errors
    /// Returns `NotFound` when there is no such file or byte.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut state = self.0.lock();
        let inode = *state.disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let at = usize::try_from(offset).map_err(|_| io::ErrorKind::NotFound)?;
        let mut byte = [0];
        if state.disk.inode(inode).current.read(at, &mut byte) == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.disk.write(inode, at, &[byte[0] ^ mask]);
        state.disk.inode(inode).sync();
        Ok(())
    }
}

impl State {
    /// Counts a call and returns its fault, if it has one.
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

    /// Counts a call on names and lengths, which fails as a whole or not at all.
    fn enter_names(&mut self) -> io::Result<()> {
        self.enter(Operation::Name)?.map_or(Ok(()), |fault| Err(error_of(fault)))
    }

    /// Renames a directory to a name without a directory, or with one that holds no files.
    fn replace_dir(&mut self, fault: Option<Fault>, from: &Path, to: &Path) -> io::Result<()> {
        let taken = self.disk.names.keys().find(|path| path.starts_with(to));
        if let Some(taken) = taken {
            let is_file = &**taken == to;
            return Err(if is_file { io::ErrorKind::NotADirectory } else { io::ErrorKind::DirectoryNotEmpty }.into());
        }
        if let Some(fault) = fault {
            if fault == Fault::PowerCut {
                self.disk.move_dir(from, to);
            }
            return Err(error_of(fault));
        }
        self.disk.move_dir(from, to);
        self.show();
        if let (false, Some(dir)) = (self.lies.names, to.parent()) {
            self.disk.sync_dir(dir);
        }
        Ok(())
    }

    /// Shows the watcher the changes that a power cut may lose, before a sync makes them durable.
    fn show(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            watcher.0(CrashPoint::new(&self.disk, self.calls));
            self.watcher = Some(watcher);
        }
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
    disk: Arc<Shared>,
    inode: u64,
    access: Access,
    /// Number of failed syncs that this description has reported.
    heard: AtomicU64,
}

impl SimFile {
    fn writable(&self) -> io::Result<()> {
        if self.access == Access::ReadWrite { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        if state.off {
            return Err(error_of(Fault::PowerCut));
        }
        state.largest_read_bytes = state.largest_read_bytes.max(bytes.len() as u64);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(state.disk.inode(self.inode).current.read(from, bytes))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?;
        let mut state = self.disk.lock_device();
        let fault = state.enter(Operation::Write)?;
        let at = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = at.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        let growth = state.disk.inode(self.inode).growth(at, end) as u64;
        let grown = state.reserve(growth);
        match fault {
            None => {
                grown?;
                state.disk.write(self.inode, at, bytes);
                Ok(())
            }
            Some(fault) => {
                // The offset decides whether half arrives, so that a sweep over the calls has both cases.
                let half = bytes.len() / 2 / SECTOR * SECTOR;
                if grown.is_ok() && fault != Fault::Enospc && (offset / SECTOR_BYTES).is_multiple_of(2) {
                    state.disk.write(self.inode, at, &bytes[..half]);
                } else if fault == Fault::PowerCut && grown.is_ok() {
                    state.disk.write(self.inode, at, bytes);
                }
                Err(error_of(fault))
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.lock_device();
        let fault = state.enter(Operation::Sync)?;
        state.show();
        let lying = state.lies.data;
        let inode = state.disk.inode(self.inode);
        match fault {
            None if lying => Ok(()),
            None => {
                inode.sync();
                // This description reports data lost by another description's sync too, once (Linux's error
                // sequence).
                if self.heard.swap(inode.failed_syncs, Ordering::Relaxed) == inode.failed_syncs {
                    Ok(())
                } else {
                    Err(error_of(Fault::Eio))
                }
            }
            Some(fault) => {
                if fault != Fault::PowerCut {
                    inode.fail_sync();
                    self.heard.store(inode.failed_syncs, Ordering::Relaxed);
                }
                Err(error_of(fault))
            }
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.writable()?;
        let mut state = self.disk.lock();
        state.enter_names()?;
        let len = state.disk.inode(self.inode).current.len();
        let new_len = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        state.reserve(new_len.saturating_sub(len) as u64)?;
        state.disk.inode(self.inode).set_len(new_len);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().disk.inode(self.inode).current.len() as u64)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.writable()?;
        let mut state = self.disk.lock_device();
        state.enter_names()?;
        let end = state.disk.inode(self.inode).current.len().min(usize::try_from(offset + bytes).unwrap_or(usize::MAX));
        let first = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?.div_ceil(BLOCK);
        for block in first..end / BLOCK {
            state.disk.write(self.inode, block * BLOCK, &[0; BLOCK]);
            state.disk.inode(self.inode).holes.insert(block);
        }
        Ok(())
    }

    fn fill_holes(&self, bytes: u64) -> io::Result<()> {
        self.writable()?;
        let mut state = self.disk.lock_device();
        let end = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let growth = state.disk.inode(self.inode).growth(0, end) as u64;
        state.reserve(growth)?;
        let inode = state.disk.inode(self.inode);
        inode.holes = inode.holes.split_off(&end.div_ceil(BLOCK));
        if inode.current.len() < end {
            inode.set_len(end);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimLock {
    disk: Arc<Shared>,
    path: PathBuf,
}

impl FileLock for SimLock {}

/// A reader of a lock file.
#[derive(Debug)]
struct SimReader {
    disk: Arc<Shared>,
    path: PathBuf,
}

impl FileLock for SimReader {}

impl Drop for SimReader {
    fn drop(&mut self) {
        if let Some(readers) = self.disk.lock().disk.lock_readers.get_mut(self.path.as_path()) {
            *readers = readers.saturating_sub(1);
        }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().disk.locks.remove(self.path.as_path());
    }
}

impl Files for SimFiles {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        if dir.ancestors().any(|above| !state.disk.dirs.contains(above)) {
            Arc::make_mut(&mut state.disk.dirs).extend(dir.ancestors().map(Arc::from));
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
        state.disk.change(NameChange::Link(path.into(), inode));
        Ok(Arc::new(SimFile { disk: self.0.clone(), inode, access: Access::ReadWrite, heard: AtomicU64::new(0) }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.0.lock();
        if state.off {
            return Err(error_of(Fault::PowerCut));
        }
        let inode = *state.disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let heard = AtomicU64::new(state.disk.inode(inode).failed_syncs);
        Ok(Arc::new(SimFile { disk: self.0.clone(), inode, access, heard }))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let fault = state.enter(Operation::Name)?;
        if !state.disk.names.contains_key(from) && state.disk.dirs.contains(from) {
            return state.replace_dir(fault, from, to);
        }
        let inode = *state.disk.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        let rename = NameChange::Rename(from.into(), to.into(), inode);
        if let Some(fault) = fault {
            if fault == Fault::PowerCut {
                state.disk.change(rename);
            }
            return Err(error_of(fault));
        }
        state.disk.change(rename);
        state.show();
        if let (false, Some(dir)) = (state.lies.names, to.parent()) {
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
        state.disk.change(NameChange::Unlink(path.into()));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.enter_names()?;
        if !state.disk.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside: Vec<Arc<Path>> = state.disk.names.keys().filter(|path| path.starts_with(dir)).cloned().collect();
        for path in inside {
            state.disk.change(NameChange::Unlink(path));
        }
        Arc::make_mut(&mut state.disk.dirs).retain(|inside| !inside.starts_with(dir));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.enter_names()?;
        let inode = *state.disk.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        if state.disk.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.disk.change(NameChange::Link(to.into(), inode));
        Ok(())
    }

    fn is_real(&self) -> bool {
        false
    }

    fn free_bytes(&self, _path: &Path) -> Option<u64> {
        let state = self.0.lock();
        state.capacity_bytes.map(|capacity| capacity.saturating_sub(state.disk.used_bytes()))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        if state.off {
            return Err(error_of(Fault::PowerCut));
        }
        let inside = |path: &&Arc<Path>| path.parent() == Some(dir);
        let name = |path: &Arc<Path>| path.file_name().map(|name| name.to_string_lossy().into_owned());
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
        state.show();
        if !state.lies.names {
            state.disk.sync_dir(dir);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        let mut state = self.0.lock();
        if state.off {
            return Err(LockError::Io(error_of(Fault::PowerCut)));
        }
        if state.disk.lock_readers.get(path).is_some_and(|readers| *readers > 0) {
            return Err(LockError::Held { pid: None });
        }
        if !state.disk.locks.insert(path.into()) {
            return Err(LockError::Held { pid: Some(std::process::id()) });
        }
        Ok(Box::new(SimLock { disk: self.0.clone(), path: path.to_owned() }))
    }

    fn lock_to_read(&self, path: &Path) -> Result<Option<Box<dyn FileLock>>, LockError> {
        let mut state = self.0.lock();
        if state.off {
            return Err(LockError::Io(error_of(Fault::PowerCut)));
        }
        if state.disk.locks.contains(path) {
            return Err(LockError::Held { pid: Some(std::process::id()) });
        }
        *state.disk.lock_readers.entry(path.into()).or_insert(0) += 1;
        Ok(Some(Box::new(SimReader { disk: self.0.clone(), path: path.to_owned() })))
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

    /// Goal: synced bytes always survive, and unsynced sectors survive independently. Method: 200 seeds over four
    /// rewritten sectors; each sector is old, new, or torn once between the two, and both mixed and pure outcomes
    /// occur.
    #[test]
    fn power_cut_keeps_any_subset_of_unsynced_sectors() {
        let (disk, file) = disk_with_synced_file();
        file.write_at(0, &[2; 2048]).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let after = read_all(&disk.power_cut(seed), A.as_ref(), 4096).unwrap();
            let sectors: Vec<u8> = after.chunks(SECTOR).map(|sector| sector[0]).collect();
            let tears = |sector: &[u8]| sector.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(after.chunks(SECTOR).all(|sector| tears(sector) <= 1), "seed {seed}");
            assert!(after.iter().all(|byte| [1, 2].contains(byte)), "seed {seed}");
            seen.insert(sectors);
        }
        assert!(seen.contains(&vec![1; 4]) && seen.contains(&vec![2; 4]), "{seen:?}");
        assert!(seen.len() > 6, "{seen:?}");
    }

    /// Goal: a name may be lost without a directory sync and is kept with one. Method: both, over 50 seeds.
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

    /// Goal: a second name refers to the same file, each name is as durable as the sync of its directory, and
    /// removing a directory removes all names in it. Method: link, remove the first name, cut the power; then
    /// remove the directory.
    #[test]
    fn second_name_means_the_same_file_and_goes_with_its_directory() {
        let (disk, file) = disk_with_synced_file();
        disk.create_dir_all("/d/sub".as_ref()).unwrap();
        disk.hard_link(A.as_ref(), "/d/sub/b".as_ref()).unwrap();
        assert_eq!(disk.hard_link(A.as_ref(), A.as_ref()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        disk.sync_dir("/d/sub".as_ref()).unwrap();
        disk.remove(A.as_ref()).unwrap();
        file.write_at(0, &[7]).unwrap();
        file.sync_data().unwrap();
        let point = disk.crash_point();
        for picks in point.states(crate::Limits::default(), 1) {
            let after = point.state(&picks);
            assert_eq!(read_all(&after, "/d/sub/b".as_ref(), 4096).unwrap()[..2], [7, 1]);
        }
        disk.hard_link("/d/sub/b".as_ref(), "/d/sub/c".as_ref()).unwrap();
        file.write_at(0, &[8]).unwrap();
        let point = disk.crash_point();
        let kept = point.state(&point.all_kept());
        for name in ["/d/sub/b", "/d/sub/c"] {
            assert_eq!(read_all(&kept, name.as_ref(), 4096).unwrap()[..2], [8, 1], "{name}: one file, one content");
        }
        disk.remove_dir_all("/d".as_ref()).unwrap();
        assert_eq!(disk.list("/d/sub".as_ref()).unwrap_err().kind(), io::ErrorKind::NotFound);
        let kept = disk.crash_point();
        let lost = kept.state(&kept.none_kept());
        assert_eq!(lost.list("/d/sub".as_ref()).unwrap(), ["b"], "nobody synced the removal");
        assert_eq!(disk.remove_dir_all("/e".as_ref()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Goal: a directory moves with everything in it, in one step, and its unsynced names may be lost at either
    /// place. Method: move a directory with a synced name and an unsynced one, without a sync of names, create
    /// another name in it, and check every state; then sync.
    #[test]
    fn moved_directory_is_at_one_place_with_what_it_holds() {
        let disk = SimFiles::new();
        ["/d/old/sub", "/d/new"].iter().for_each(|dir| disk.create_dir_all(dir.as_ref()).unwrap());
        disk.create("/d/old/sub/synced".as_ref()).unwrap();
        disk.sync_dir("/d/old/sub".as_ref()).unwrap();
        disk.create("/d/old/loose".as_ref()).unwrap();
        disk.set_lying_names(true);
        disk.replace("/d/old".as_ref(), "/d/new".as_ref()).unwrap();
        disk.set_lying_names(false);
        disk.create("/d/new/late".as_ref()).unwrap();
        assert_eq!(disk.list("/d".as_ref()).unwrap(), ["new"]);
        assert_eq!(disk.list("/d/new".as_ref()).unwrap(), ["late", "loose", "sub"]);
        let point = disk.crash_point();
        let mut seen = std::collections::BTreeSet::new();
        for picks in point.states(crate::Limits::default(), 1) {
            let after = point.state(&picks);
            let at = |dir: &str| after.list(format!("/d/{dir}").as_ref()).unwrap_or_default();
            let (old, new) = (at("old"), at("new"));
            assert!(old.is_empty() || new.is_empty(), "{old:?} and {new:?}");
            let place = if old.is_empty() { "/d/new/sub" } else { "/d/old/sub" };
            assert_eq!(after.list(place.as_ref()).unwrap(), ["synced"]);
            seen.insert((old, new));
        }
        assert_eq!(seen.len(), 8, "either place, with or without each of the two: {seen:?}");
        disk.sync_dir("/d".as_ref()).unwrap();
        let point = disk.crash_point();
        let after = point.state(&point.none_kept());
        assert_eq!(after.list("/d".as_ref()).unwrap(), ["new"], "the move is durable, the names in it are not");
        assert_eq!(after.list("/d/new".as_ref()).unwrap(), ["sub"]);
        let taken = disk.replace("/d/new/sub".as_ref(), "/d/new/late".as_ref()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::NotADirectory);
        disk.create_dir_all("/d/other".as_ref()).unwrap();
        let taken = disk.replace("/d/other".as_ref(), "/d/new".as_ref()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::DirectoryNotEmpty);
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

    /// Goal: each description of the file reports a failed sync once, so that none takes data lost by another for
    /// durable. Method: two open descriptions and one opened later; the first one's sync fails.
    #[test]
    fn each_description_hears_once_of_a_failed_sync() {
        let (disk, file) = disk_with_synced_file();
        let open = || disk.open(A.as_ref(), Access::ReadWrite).unwrap();
        let other = open();
        other.write_at(0, &[3; 512]).unwrap();
        disk.fail_call(disk.calls() + 1, Fault::Eio);
        assert!(file.sync_data().is_err());
        assert!(other.sync_data().is_err(), "what it wrote is lost");
        assert!(file.sync_data().is_ok() && other.sync_data().is_ok() && open().sync_data().is_ok(), "told once");
    }

    /// Goal: holes of a simulated file behave like real ones: they take no room, read as zeros and keep the length,
    /// and need room again when they are written or filled. Method: a full disk with one file.
    #[test]
    fn holes_give_room_back_and_take_it_again() {
        let disk = SimFiles::new();
        let file = disk.create(Path::new("/f")).unwrap();
        file.write_at(0, &[7; 5 * BLOCK]).unwrap();
        disk.set_capacity(Some(disk.used_bytes()));
        file.punch_hole(100, 3 * BLOCK as u64).unwrap();
        assert_eq!(
            (disk.used_bytes(), file.len().unwrap()),
            (3 * BLOCK as u64, 5 * BLOCK as u64),
            "two whole blocks lie in there"
        );
        let mut bytes = vec![1; 5 * BLOCK];
        file.read_at(0, &mut bytes).unwrap();
        assert!(
            bytes[BLOCK..3 * BLOCK] == [0; 2 * BLOCK]
                && bytes[..BLOCK] == [7; BLOCK]
                && bytes[3 * BLOCK..] == [7; 2 * BLOCK]
        );
        let other = disk.create(Path::new("/g")).unwrap();
        other.write_at(0, &[1; BLOCK]).unwrap();
        assert!(file.fill_holes(5 * BLOCK as u64).is_err(), "there is room for one");
        file.write_at(BLOCK as u64, &[2; BLOCK]).unwrap();
        assert!(file.write_at(2 * BLOCK as u64, &[2; 10]).is_err());
        disk.remove(Path::new("/g")).unwrap();
        file.fill_holes(5 * BLOCK as u64).unwrap();
        assert_eq!(disk.used_bytes(), 5 * BLOCK as u64);
    }

    /// Goal: a lying sync loses data, a full disk refuses writes, and a power cut stops everything. Method: one of
    /// each.
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

    /// Goal: a stalled device holds writes and syncs and loses none. Method: stall, sync on a thread, lift the
    /// stall.
    #[test]
    fn stalled_device_holds_calls_until_it_goes_on() {
        let (disk, file) = disk_with_synced_file();
        disk.set_stalled(true);
        let before = disk.calls();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_at(0, &[5; 512]).and_then(|()| file.sync_data()));
            let mut byte = [0];
            file.read_at(0, &mut byte).unwrap();
            assert_eq!((byte, disk.calls(), writer.is_finished()), ([1], before, false));
            disk.set_stalled(false);
            writer.join().unwrap().unwrap();
        });
        assert_eq!(read_all(&disk.power_cut(1), A.as_ref(), 4096).unwrap()[0], 5);
    }
}

//! The simulated machine's named memory: kept when a process is killed, lost in a power cut.
//!
//! A disk ([`SimFiles`]) and its machine's memory belong together: the result of [`SimFiles::process_kill`] has a
//! copy of the memory; the result of a power cut has none, and another boot id.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    files::File,
    pages::Pages,
    shared_memory::{Region, SharedMemory},
    sim::files::SimFiles,
};

/// The memory of one boot.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: BTreeMap<PathBuf, Arc<Pages>>,
    boot: u64,
    capacity_bytes: Option<u64>,
}

impl Memory {
    /// Returns a copy for the next process; the writers of this process cannot reach it.
    pub(crate) fn after_kill(&self) -> Self {
        let copy =
            |(path, pages): (&PathBuf, &Arc<Pages>)| (path.clone(), Arc::new(Pages::from_bytes(&pages.to_bytes())));
        Self { regions: self.regions.iter().map(copy).collect(), boot: self.boot, capacity_bytes: self.capacity_bytes }
    }

    /// Returns the memory of the next boot.
    pub(crate) fn after_power_cut(&self) -> Self {
        Self { regions: BTreeMap::new(), boot: self.boot + 1, capacity_bytes: self.capacity_bytes }
    }

    fn used_bytes(&self) -> u64 {
        self.regions.values().map(|pages| pages.len() as u64).sum()
    }
}

impl SimFiles {
    /// Bounds the bytes of all regions together; `None` lifts the bound.
    pub fn set_memory_capacity(&self, bytes: Option<u64>) {
        self.memory().capacity_bytes = bytes;
    }

    /// Gives the machine's boot another number and keeps its memory, as a bug in a host could do.
    pub fn set_boot(&self, boot: u64) {
        self.memory().boot = boot;
    }

    /// Returns the names of the regions.
    pub fn regions(&self) -> Vec<PathBuf> {
        self.memory().regions.keys().cloned().collect()
    }

    /// Changes the content of a region, length included, through `change`; creates the region if there is none. A
    /// process that has it mapped keeps the old content.
    pub fn change_region(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut memory = self.memory();
        let mut bytes = memory.regions.get(path).map_or_else(Vec::new, |pages| pages.to_bytes());
        change(&mut bytes);
        memory.regions.insert(path.to_owned(), Arc::new(Pages::from_bytes(&bytes)));
    }
}

impl SharedMemory for SimFiles {
    fn boot_id(&self) -> io::Result<[u8; 16]> {
        Ok((1 + u128::from(self.memory().boot)).to_be_bytes())
    }

    fn directory_id(&self, dir: &Path) -> io::Result<u64> {
        Ok(u64::from(collie_base::checksum::crc32c(dir.as_os_str().as_encoded_bytes())))
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Region> {
        let mut memory = self.memory();
        if memory.regions.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if memory.capacity_bytes.is_some_and(|capacity| memory.used_bytes().saturating_add(bytes) > capacity) {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let len = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let pages = Arc::new(Pages::zeros(len));
        memory.regions.insert(path.to_owned(), pages.clone());
        Ok(Region::of_pages(pages))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let pages = self.memory().regions.get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(Left { bytes: pages.to_bytes(), _claimed: None }))
    }

    fn claim(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let memory = self.memory();
        let pages = memory.regions.get(path).ok_or(io::ErrorKind::NotFound)?;
        // A region or a claim holds a reference to the pages too.
        if Arc::strong_count(pages) > 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Arc::new(Left { bytes: pages.to_bytes(), _claimed: Some(pages.clone()) }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.memory().regions.keys().filter(|path| path.parent() == Some(dir)).cloned().collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory().regions.remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A region of an earlier process, opened for reading.
#[derive(Debug)]
struct Left {
    bytes: Vec<u8>,
    _claimed: Option<Arc<Pages>>,
}

impl File for Left {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let count = bytes.len().min(self.bytes.len() - from);
        bytes[..count].copy_from_slice(&self.bytes[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: memory survives a kill with its content at that moment, and does not survive a power cut; boots have
    /// their own numbers; a full memory refuses. Method: take one region through each.
    #[test]
    fn memory_survives_a_kill_and_not_a_power_cut() {
        let machine = SimFiles::new();
        let path = Path::new("/shm/region");
        let read =
            |machine: &SimFiles| crate::shared_memory::SharedMemory::open(machine, path)?.read_at(4000, &mut [0; 200]);
        machine.set_memory_capacity(Some(8192));
        assert_eq!(SharedMemory::create(&machine, path, 8193).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let region = SharedMemory::create(&machine, path, 4100).unwrap();
        assert_eq!((region.len(), read(&machine).unwrap()), (4100, 100));
        machine.change_region(path, |bytes| bytes[1] = 9);
        let killed = machine.process_kill();
        machine.change_region(path, |bytes| bytes[1] = 8);
        let mut bytes = [0; 2];
        SharedMemory::open(&killed, path).unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!((bytes, killed.regions()), ([0, 9], vec![path.to_owned()]));
        assert_eq!(killed.boot_id().unwrap(), machine.boot_id().unwrap());
        let cut = killed.power_cut(1);
        assert_eq!(read(&cut).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_ne!(cut.boot_id().unwrap(), machine.boot_id().unwrap());
    }
}

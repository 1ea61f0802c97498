//! The copies as one directory: [`Files`] and [`File`] over all of them. A file opened for writing is open in every
//! copy; a file opened for reading is read from any live copy that can.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Access, File, FileLock, Files, LockError};
use parking_lot::Mutex;

use super::{members::Shared, mirror::Mirror, repair::copy_file, round::By};
use crate::format::segment_number;

impl Files for Mirror {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.each_path(dir, |files, dir| files.create_dir_all(dir)).map(drop)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let _gate = self.0.gate.read();
        let opened = self.0.each_path(path, |files, path| files.create(path))?;
        self.0.note_name(path);
        Ok(MirrorFile::register(&self.0, path, opened))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        if access == Access::Read {
            return Ok(Arc::new(AnyFile::open(&self.0, path)?));
        }
        let _gate = self.0.gate.read();
        self.0.adopt_where_absent(path)?;
        let opened = self.0.each_path(path, |files, path| files.open(path, Access::ReadWrite))?;
        Ok(MirrorFile::register(&self.0, path, opened))
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _gate = self.0.gate.read();
        self.0.adopt_where_absent(from)?;
        let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let replaced = self.0.each_path(from, move |files, from| files.replace(from, &from.with_file_name(&name)));
        self.0.note_name(from);
        self.0.note_name(to);
        self.0.renamed(from, to);
        replaced.map(drop)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _gate = self.0.gate.read();
        let removed = self.0.each_path(path, |files, path| match files.remove(path) {
            Err(error) if is_absent(&error) => Ok(false),
            removed => removed.map(|()| true),
        })?;
        self.0.note_name(path);
        if removed.iter().any(|(_, was_there)| *was_there) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let copies = self.0.state.lock().live();
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for index in copies {
            match self.0.files.list(&self.0.path_in(index, dir)) {
                Ok(names) => return Ok(names),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn disk_bytes(&self, path: &Path) -> Option<u64> {
        let copies = self.0.state.lock().live();
        copies.into_iter().filter_map(|index| self.0.files.disk_bytes(&self.0.path_in(index, path))).min()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let _gate = self.0.gate.read();
        self.0.each_path(dir, |files, dir| files.sync_dir(dir)).map(drop)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        self.0.files.lock(path)
    }
}

impl Shared {
    /// Calls `act` with the path in each copy.
    fn each_path<R: Send + 'static>(
        self: &Arc<Self>,
        path: &Path,
        act: impl Fn(&dyn Files, &Path) -> io::Result<R> + Clone + Send + 'static,
    ) -> io::Result<Vec<(usize, R)>> {
        self.each(By::Names, |index| {
            let (files, path, act) = (self.files.clone(), self.path_in(index, path), act.clone());
            Some(Box::new(move || act(&*files, &path)))
        })
    }

    /// Gives a file to the copies that joined after it was created. Such a file has a temporary name: it was being
    /// prepared then, or waits to be prepared again.
    fn adopt_where_absent(self: &Arc<Self>, path: &Path) -> io::Result<()> {
        let found = self.each_path(path, |files, path| match files.open(path, Access::Read) {
            Err(error) if is_absent(&error) => Ok(false),
            opened => opened.map(|_| true),
        })?;
        let Some((from, _)) = found.iter().find(|(_, there)| *there) else { return Ok(()) };
        let source = self.path_in(*from, path);
        for (index, _) in found.iter().filter(|(_, there)| !there) {
            let copied = self
                .files
                .open(&source, Access::Read)
                .and_then(|from| copy_file(&*from, &*self.files, &self.path_in(*index, path), from.len()?));
            if let Err(error) = copied {
                self.lose(*index, &error.to_string());
            }
        }
        Ok(())
    }

    /// Gives open files their new name after a rename, and opens them in the copies that got the file by it.
    fn renamed(&self, from: &Path, to: &Path) {
        let (files, part) = {
            let state = self.state.lock();
            let part = state.copies.iter().enumerate().filter(|(_, copy)| copy.takes_part()).map(|(index, _)| index);
            (state.open_files(), part.collect::<Vec<usize>>())
        };
        for file in files.into_iter().filter(|file| *file.path.lock() == from) {
            *file.path.lock() = to.to_owned();
            for index in &part {
                let lacks = file.handles.lock()[*index].is_none();
                if let Err(error) = if lacks { file.open_in(*index) } else { Ok(()) } {
                    self.lose(*index, &error.to_string());
                }
            }
        }
    }
}

/// A file in every copy, for writing.
#[derive(Debug)]
pub(super) struct MirrorFile {
    mirror: Arc<Shared>,
    /// Its name in the log directory.
    path: Mutex<PathBuf>,
    /// One handle for each copy; `None` where the copy does not have the file open.
    handles: Mutex<Vec<Option<Arc<dyn File>>>>,
}

impl MirrorFile {
    fn register(mirror: &Arc<Shared>, path: &Path, opened: Vec<(usize, Arc<dyn File>)>) -> Arc<Self> {
        let mut handles = vec![None; mirror.dirs.len()];
        for (index, file) in opened {
            handles[index] = Some(file);
        }
        let path = Mutex::new(path.to_owned());
        let file = Arc::new(Self { mirror: mirror.clone(), path, handles: Mutex::new(handles) });
        let mut state = mirror.state.lock();
        state.files.retain(|file| file.strong_count() > 0);
        state.files.push(Arc::downgrade(&file));
        file
    }

    /// Calls `act` in each copy that has the file. A copy that joined while the file was being prepared gets it whole
    /// with its name.
    fn each<R: Send + 'static>(
        &self,
        act: impl Fn(&dyn File) -> io::Result<R> + Clone + Send + 'static,
    ) -> io::Result<Vec<(usize, R)>> {
        let handles = self.handles.lock().clone();
        // The frame writer writes segments; a file without a segment's name is still being prepared.
        let by = if self.is_segment() { By::Flush } else { By::Names };
        self.mirror.each(by, |index| {
            let (file, act) = (handles[index].clone()?, act.clone());
            Some(Box::new(move || act(&*file)))
        })
    }

    fn name(&self) -> String {
        self.path.lock().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Opens the file in a copy that has it now.
    pub(super) fn open_in(&self, index: usize) -> io::Result<()> {
        let path = self.mirror.path_in(index, &self.path.lock());
        let file = self.mirror.files.open(&path, Access::ReadWrite)?;
        self.handles.lock()[index] = Some(file);
        Ok(())
    }

    /// Returns whether it has a segment's name; other files are being prepared.
    pub(super) fn is_segment(&self) -> bool {
        segment_number(&self.name()).is_some()
    }

    fn first(&self) -> io::Result<Arc<dyn File>> {
        let reference = self.mirror.state.lock().reference();
        let handles = self.handles.lock();
        let file = reference.and_then(|index| handles[index].clone());
        file.or_else(|| handles.iter().flatten().next().cloned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl File for MirrorFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.first()?.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _gate = self.mirror.gate.read();
        let held: Arc<[u8]> = bytes.into();
        let written = self.each(move |file| file.write_at(offset, &held));
        let (name, end) = (self.name(), offset + bytes.len() as u64);
        self.mirror.note(|changes| {
            let stretch = changes.writes.entry(name.clone()).or_insert((offset, end));
            *stretch = (stretch.0.min(offset), stretch.1.max(end));
        });
        written.map(drop)
    }

    fn sync_data(&self) -> io::Result<()> {
        let _gate = self.mirror.gate.read();
        self.each(|file| if mistake!("COPY_SYNC_SKIPPED") { Ok(()) } else { file.sync_data() }).map(drop)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let _gate = self.mirror.gate.read();
        let cut = self.each(move |file| file.set_len(bytes));
        self.mirror.note_name(&self.path.lock());
        cut.map(drop)
    }

    fn len(&self) -> io::Result<u64> {
        self.first()?.len()
    }
}

/// A file that is read from any live copy that can.
#[derive(Debug)]
struct AnyFile {
    mirror: Arc<Shared>,
    path: PathBuf,
    current: Mutex<(usize, Arc<dyn File>)>,
}

impl AnyFile {
    fn open(mirror: &Arc<Shared>, path: &Path) -> io::Result<Self> {
        let current = Self::open_any(mirror, path, None)?;
        Ok(Self { mirror: mirror.clone(), path: path.to_owned(), current: Mutex::new(current) })
    }

    /// Opens the file in the first live copy that has it, except in `except`.
    fn open_any(mirror: &Shared, path: &Path, except: Option<usize>) -> io::Result<(usize, Arc<dyn File>)> {
        let copies = mirror.state.lock().live();
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for index in copies.into_iter().filter(|index| Some(*index) != except) {
            if !mirror.has_all(index) {
                continue;
            }
            match mirror.files.open(&mirror.path_in(index, path), Access::Read) {
                Ok(file) => return Ok((index, file)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl File for AnyFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let (index, file) = self.current.lock().clone();
        let lags = || Err(io::Error::other("this copy lags behind"));
        let read = if self.mirror.has_all(index) { file.read_at(offset, bytes) } else { lags() };
        let Err(error) = read else { return read };
        let Ok(other) = Self::open_any(&self.mirror, &self.path, Some(index)) else { return Err(error) };
        *self.current.lock() = other.clone();
        other.1.read_at(offset, bytes)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        let file = self.current.lock().1.clone();
        file.len()
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

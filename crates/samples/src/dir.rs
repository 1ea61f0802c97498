//! `SampleDir`: the sample files under a data directory.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Files, read_all};

use crate::{
    FileName, SampleFile, SamplesError, StoredFile,
    columns::unit_of,
    file,
    name::{ROOT, TEMPORARY},
    stored::rows_of,
};

/// No file is larger: 64k rows of 20 numbers are 8 MiB before compression.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A read-only view of the sample files under a data directory.
#[derive(Clone, Debug)]
pub struct SampleDir {
    files: Arc<dyn Files>,
    data: PathBuf,
}

impl SampleDir {
    /// Returns a view of the samples of the data directory `data`, which need not exist.
    pub fn new(files: Arc<dyn Files>, data: &Path) -> Self {
        Self { files, data: data.to_owned() }
    }

    /// Returns the data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns the names of the files under `samples/v1`, oldest first: by day, then by number. Other names are
    /// skipped.
    ///
    /// # Errors
    /// [`SamplesError::Io`]. A missing directory is no error.
    pub fn list(&self) -> Result<Vec<FileName>, SamplesError> {
        let mut names = Vec::new();
        self.walk(|_, name| names.extend(name))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the newest `files_max` files with their sizes, newest first.
    ///
    /// Cost: three small reads per file.
    ///
    /// # Errors
    /// As `list`.
    pub fn stored(&self, files_max: usize) -> Result<Vec<StoredFile>, SamplesError> {
        let stored = |name: FileName| {
            let file = self.files.open(&name.path(&self.data), collie_env::Access::Read).ok();
            let bytes = file.as_ref().and_then(|file| file.len().ok()).unwrap_or(0);
            StoredFile { rows: file.and_then(|file| rows_of(&*file, bytes)), name, bytes }
        };
        Ok(self.list()?.into_iter().rev().take(files_max).map(stored).collect())
    }

    /// Returns the paths of files that were never finished.
    pub(crate) fn unfinished(&self) -> Result<Vec<PathBuf>, SamplesError> {
        let mut paths = Vec::new();
        self.walk(|path, _| paths.extend(path.to_string_lossy().ends_with(TEMPORARY).then(|| path.to_owned())))?;
        Ok(paths)
    }

    /// Calls `each` with every path four levels down, and with its [`FileName`] if the path is one.
    fn walk(&self, mut each: impl FnMut(&Path, Option<FileName>)) -> Result<(), SamplesError> {
        let root = ROOT.iter().fold(self.data.clone(), |dir, part| dir.join(part));
        for unit in self.names_in(&root)? {
            for version in self.names_in(&root.join(&unit))? {
                for day in self.names_in(&root.join(&unit).join(&version))? {
                    let dir = root.join(&unit).join(&version).join(&day);
                    for file in self.names_in(&dir)? {
                        each(&dir.join(&file), FileName::of_parts(&unit, &version, &day, &file));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the names in a directory; none if it is not a directory or has been removed in the meantime.
    fn names_in(&self, dir: &Path) -> Result<Vec<String>, SamplesError> {
        match self.files.list(dir) {
            Ok(names) => Ok(names),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Vec::new())
            }
            Err(source) => Err(SamplesError::Io { op: "list", path: dir.to_owned(), source }),
        }
    }

    /// Reads a file of samples of a unit.
    ///
    /// # Errors
    /// [`SamplesError::Unit`] for context rows and for a unit or version that this program does not have; otherwise
    /// [`SamplesError::Io`], [`SamplesError::Columns`] or [`SamplesError::Damaged`].
    pub fn read(&self, name: &FileName) -> Result<SampleFile, SamplesError> {
        let unit = unit_of(name.unit, name.version)
            .ok_or_else(|| SamplesError::Unit { name: format!("{} of version {}", name.unit, name.version) })?;
        let path = name.path(&self.data);
        let bytes = read_all(&*self.files, &path, FILE_BYTES_MAX).map_err(|source| SamplesError::Io {
            op: "read",
            path: path.clone(),
            source,
        })?;
        file::decode(unit, bytes, &path)
    }

    /// Returns the length of a file in bytes; 0 if it is gone.
    pub(crate) fn bytes_of(&self, name: &FileName) -> u64 {
        let open = self.files.open(&name.path(&self.data), collie_env::Access::Read);
        open.and_then(|file| file.len()).unwrap_or(0)
    }
}

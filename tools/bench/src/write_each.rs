//! `WriteEach`: a log without a buffer: one mutex, one write into a file per record, no sync.
//!
//! Many small logs work like this; it is the opposite of a log that gathers records in memory. The file is filled once
//! and overwritten from the front, so that growing it costs nothing here.

use std::{io, path::Path, sync::Arc};

use collie_env::{Env, File};
use parking_lot::Mutex;

use crate::{
    record::Head,
    subject::{Append, Subject},
};

const FILE_BYTES: u64 = 64 << 20;

/// A log that writes each record separately.
pub(crate) struct WriteEach {
    file: Arc<dyn File>,
    next: Mutex<(u64, Vec<u8>)>,
}

impl WriteEach {
    /// Makes the file in `dir`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn create(env: &Env, dir: &Path) -> io::Result<Self> {
        let file = crate::files::filled(env, &dir.join("each"), FILE_BYTES)?;
        Ok(Self { file, next: Mutex::default() })
    }
}

impl Append for &WriteEach {
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64 {
        let mut next = self.next.lock();
        let (at, buffer) = &mut *next;
        hook();
        buffer.clear();
        buffer.extend_from_slice(Head::new(body.len()).as_slice());
        buffer.extend_from_slice(body);
        let offset = *at % (FILE_BYTES - (1 << 20));
        self.file.write_at(offset, buffer).expect("the file is there in full");
        *at += buffer.len() as u64;
        *at
    }

    /// Returns at once: a record is complete when its append returns.
    fn wait_boundary(&mut self, _end: u64) {}
}

impl Subject for WriteEach {
    type Writer<'a> = &'a WriteEach;

    fn writer(&self, _thread: usize) -> &WriteEach {
        self
    }

    fn drain(&self) {}
}

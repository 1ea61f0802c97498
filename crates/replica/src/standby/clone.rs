//! [`clone`]: receives the files of a base backup into an empty directory.
//!
//! # Invariants
//! - N1. Every byte arrives under a checksum and at its place: a file is written from its beginning to the
//!   announced length, and the numbers of chunks and files leave none out.
//! - N2. Everything is on disk when it returns. After a failure the caller removes the remaining files, which are
//!   no database: they have no control file.
//! - N3. No name leads out of the directory (the decoder refuses such names), and no file is written twice.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_base::{Lsn, Set};
use collie_env::{Env, File, fault_point};
use tokio::task::block_in_place;

use super::FollowOptions;
use crate::{
    Connection, LinkError,
    key::Trusted,
    link::{self, Reading},
    packet::{Backup, ErrorCode, From, Hello, Identify, PROTOCOL, PROTOCOL_MIN, Packet, Verdict},
};

/// How long the primary may take for its first answer: it may be busy.
const IDENTIFY_TIME: Duration = Duration::from_secs(30);

/// The bytes of a file after which it is synced: one sync at its end would delay acks for longer than a primary
/// waits for them.
const SYNC_BYTES: u64 = 8 << 20;

/// The result of a base backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// The answer of the primary.
    pub primary: Identify,
    /// The position at which the stream has to start.
    pub log_start: Lsn,
    /// The replica answers readers once everything below was applied.
    pub consistent: Lsn,
    /// The number of files.
    pub files: u32,
    /// The bytes in them.
    pub bytes: u64,
}

/// Requests a base backup over a fresh connection and writes its files below `dir`, which exists and is empty.
/// `node` is the id that the new directory will have. `progress` is called with the received bytes and their
/// total.
///
/// # Errors
/// The connection ended, or a file could not be written. The directory must then be emptied.
///
/// # Durability
/// All files are on disk when it returns; the caller makes the name of `dir` durable.
pub async fn clone<C: Connection>(
    io: Trusted<C>,
    dir: &Path,
    node: u64,
    options: &FollowOptions,
    env: &Env,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Cloned, LinkError> {
    let (mut reading, mut writing) = link::open(io, From::Primary, options.timeout);
    let hello = Hello {
        proto_min: PROTOCOL_MIN,
        proto_max: PROTOCOL,
        flags: 0,
        cluster: 0,
        node,
        promised: collie_base::Term::new(0),
        received: Lsn::ZERO,
        durable: Lsn::ZERO,
        applied: Lsn::ZERO,
        tail_bytes: 0,
        tail_crc: 0,
        histories: Vec::new(),
        slot: &options.slot,
    };
    writing.send(&Packet::Hello(hello)).await?;
    let result = take(&mut reading, &mut writing, dir, options, env, progress).await;
    writing.end(result.as_ref().err()).await;
    result
}

async fn take<C: Connection>(
    reading: &mut Reading<C>,
    writing: &mut link::Writing<C>,
    dir: &Path,
    options: &FollowOptions,
    env: &Env,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Cloned, LinkError> {
    let Packet::Identify(primary) = reading.next(IDENTIFY_TIME).await? else {
        return Err(LinkError::Unexpected { what: "packet instead of an answer to the hello" });
    };
    if primary.verdict == Verdict::Refuse {
        return match reading.next(IDENTIFY_TIME).await {
            Ok(_) => Err(LinkError::Unexpected { what: "packet instead of a reason" }),
            Err(error) => Err(error),
        };
    }
    if primary.verdict != Verdict::Backup {
        return Err(LinkError::Unexpected { what: "verdict for an empty directory" });
    }
    reading.known();
    let timeout = options.timeout.max(Duration::from_millis(u64::from(primary.timeout_ms)));
    let (log_start, consistent, files, bytes_total) = loop {
        match reading.heard(timeout).await? {
            Packet::Heartbeat(_) => {}
            Packet::Backup(Backup::Begin { log_start, consistent, files, bytes, .. }) => {
                break (log_start, consistent, files, bytes);
            }
            _ => return Err(LinkError::Unexpected { what: "packet instead of a base backup" }),
        }
    };
    let mut filling = Filling { env, dir, file: None, next_file: 0, next_chunk: 0, bytes: 0, dirs: Set::default() };
    loop {
        match reading.heard(timeout).await? {
            Packet::Backup(Backup::File { number, bytes, name }) => {
                block_in_place(|| filling.file(number, bytes, name))?;
            }
            Packet::Backup(Backup::Chunk { seq, number, offset, bytes }) => {
                block_in_place(|| filling.chunk(seq, number, offset, bytes))?;
                fault_point!("backup.chunk");
                progress(filling.bytes, bytes_total);
                writing.send(&Packet::Backup(Backup::Ack { seq })).await?;
            }
            Packet::Backup(Backup::End { chunks, bytes }) => {
                block_in_place(|| filling.end(files, chunks, bytes))?;
                return Ok(Cloned { primary, log_start, consistent, files, bytes });
            }
            _ => return Err(LinkError::Unexpected { what: "packet in a base backup" }),
        }
    }
}

/// The directory that is being filled.
struct Filling<'a> {
    env: &'a Env,
    dir: &'a Path,
    file: Option<Open>,
    next_file: u32,
    next_chunk: u64,
    bytes: u64,
    /// Directories with new names in them.
    dirs: Set<PathBuf>,
}

/// The current file.
struct Open {
    path: PathBuf,
    file: Arc<dyn File>,
    number: u32,
    offset: u64,
    bytes: u64,
}

impl Filling<'_> {
    fn failed(path: &Path, error: &std::io::Error) -> LinkError {
        let text = format!("cannot write {} of a base backup: {error}", path.display());
        LinkError::refused(ErrorCode::Storage, Lsn::ZERO, text)
    }

    /// Begins a file, and makes the one before durable.
    fn file(&mut self, number: u32, bytes: u64, name: &str) -> Result<(), LinkError> {
        self.finish()?;
        if number != self.next_file {
            return Err(LinkError::Unexpected { what: "number of a file" });
        }
        self.next_file += 1;
        let path = self.dir.join(name);
        let failed = |error: std::io::Error| Self::failed(&path, &error);
        let mut above = path.parent();
        if let Some(above) = above {
            self.env.files.create_dir_all(above).map_err(failed)?;
        }
        while let Some(dir) = above.filter(|dir| dir.starts_with(self.dir)) {
            self.dirs.insert(dir.to_owned());
            above = dir.parent();
        }
        // This refuses a second file of the same name.
        let file = self.env.files.create(&path).map_err(failed)?;
        self.file = Some(Open { path, file, number, offset: 0, bytes });
        Ok(())
    }

    fn chunk(&mut self, seq: u64, number: u32, offset: u64, bytes: &[u8]) -> Result<(), LinkError> {
        let file = self.file.as_mut().filter(|file| file.number == number && file.offset == offset);
        let Some(file) = file.filter(|_| seq == self.next_chunk) else {
            return Err(LinkError::Unexpected { what: "place of a chunk" });
        };
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if file.bytes - file.offset < count {
            return Err(LinkError::Unexpected { what: "length of a file" });
        }
        file.file.write_at(offset, bytes).map_err(|error| Self::failed(&file.path, &error))?;
        file.offset += count;
        if file.offset / SYNC_BYTES > offset / SYNC_BYTES {
            file.file.sync_data().map_err(|error| Self::failed(&file.path, &error))?;
        }
        self.next_chunk += 1;
        self.bytes += count;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LinkError> {
        let Some(Open { path, file, offset, bytes, .. }) = self.file.take() else { return Ok(()) };
        if offset != bytes {
            return Err(LinkError::Unexpected { what: "end of a file" });
        }
        file.sync_data().map_err(|error| Self::failed(&path, &error))
    }

    fn end(&mut self, files: u32, chunks: u64, bytes: u64) -> Result<(), LinkError> {
        self.finish()?;
        if (files, chunks, bytes) != (self.next_file, self.next_chunk, self.bytes) {
            return Err(LinkError::Unexpected { what: "end of a base backup" });
        }
        // N2
        self.dirs.insert(self.dir.to_owned());
        for dir in &self.dirs {
            self.env.files.sync_dir(dir).map_err(|error| Self::failed(dir, &error))?;
        }
        Ok(())
    }
}

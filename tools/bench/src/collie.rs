//! `Collie`: Collie's own log behind the same [`Subject`] trait as the protocols that it is compared with, on a disk
//! that keeps nothing.

use collie_wal::{Appended, Log, Lsn, Mark, Options, Protocol, WalError, Writer};

use crate::{
    null_files::NullFiles,
    subject::{Append, Subject},
};

/// Length of the log's files, which are prepared in the background; long, so that a switch to the next file is rare.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Collie's log without a disk.
pub(crate) struct Collie {
    log: Log,
}

impl Collie {
    /// Opens a log with `protocol` for `threads` writers and a ring of `ring_bytes`; the background flusher flushes at
    /// `flush_bytes`.
    ///
    /// # Errors
    /// `InvalidOptions` if the protocol is not built.
    pub(crate) fn open(
        protocol: Protocol,
        threads: usize,
        ring_bytes: u64,
        flush_bytes: u64,
    ) -> Result<Self, WalError> {
        let options = Options {
            protocol,
            ring_bytes,
            flush_bytes,
            slots: u32::try_from(threads.max(1)).unwrap_or(u32::MAX),
            segment_bytes: SEGMENT_BYTES,
            // Never reached: no file is cut off, and files without content cost nothing.
            max_segments: 1 << 30,
            // The other protocols have no flush timer either.
            flush_delay: std::time::Duration::from_secs(10),
            ..Options::default()
        };
        let (log, _found) = Log::open(&NullFiles::env(), "/log".as_ref(), options)?;
        Ok(Self { log })
    }
}

impl Append for Writer {
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64 {
        end(Writer::append_with(self, 1, body, |_start| hook()))
    }

    fn append(&mut self, body: &[u8]) -> u64 {
        end(Writer::append(self, 1, &[body]))
    }

    fn wait_boundary(&mut self, end: u64) {
        self.log().wait(Mark::Boundary, Lsn::new(end)).expect("a disk that keeps nothing never fails");
    }
}

fn end(appended: Result<Appended, WalError>) -> u64 {
    appended.expect("a disk that keeps nothing never fails or fills").end.get()
}

impl Subject for Collie {
    type Writer<'a> = Writer;

    fn writer(&self, _thread: usize) -> Writer {
        self.log.writer()
    }

    fn drain(&self) {
        self.log.flush_wal(true).expect("a disk that keeps nothing never fails");
    }
}

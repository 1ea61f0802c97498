//! `Output`: buffered lines on standard output.

use std::{
    fmt,
    io::{self, Write as _},
};

/// The reader of standard output has gone.
#[derive(Debug)]
pub(super) struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for Closed {}

/// Standard output, written when the buffer is full and at [`Output::finish`].
pub(super) struct Output(io::BufWriter<io::StdoutLock<'static>>);

impl Output {
    pub(super) fn new() -> Self {
        Self(io::BufWriter::new(io::stdout().lock()))
    }

    /// Writes a line.
    ///
    /// # Errors
    /// [`Closed`], or what the system says.
    pub(super) fn line(&mut self, line: impl fmt::Display) -> anyhow::Result<()> {
        writeln!(self.0, "{line}").map_err(told)
    }

    /// Writes out what is buffered; to be called before anything goes to standard error.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.0.flush().map_err(told)
    }
}

fn told(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Closed.into();
    }
    anyhow::Error::new(error).context("cannot write to standard output")
}

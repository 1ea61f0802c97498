//! `Output`: buffered lines on standard output.

use std::{
    fmt,
    io::{self, Write as _},
};

use thiserror::Error;

/// The error for a reader that has closed its end of standard output.
#[derive(Debug, Error)]
#[error("standard output is closed")]
pub(super) struct Closed;

/// Standard output, written when the buffer is full and at [`Output::finish`].
pub(super) struct Output(io::BufWriter<io::StdoutLock<'static>>);

impl Output {
    pub(super) fn new() -> Self {
        Self(io::BufWriter::new(io::stdout().lock()))
    }

    /// Writes a line.
    ///
    /// # Errors
    /// [`Closed`], or any other error of standard output.
    pub(super) fn line(&mut self, line: impl fmt::Display) -> anyhow::Result<()> {
        writeln!(self.0, "{line}").map_err(told)
    }

    /// Writes the buffered lines; must be called before anything is written to standard error.
    ///
    /// # Errors
    /// Those of [`Output::line`].
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

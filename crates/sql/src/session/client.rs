//! `Client`: the destination of a session's answers and the source of COPY input. The server writes protocol messages
//! behind it, the shell prints tables.
//!
//! It is not a socket: a session knows no bytes of any protocol.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use crate::{
    analyze::bound::ResultColumn,
    error::{Report, Result, SqlError, SqlState},
    types::{Value, io::TextContext},
};

/// The formats of result values: per column 0 (text) or 1 (binary), none for all text, one for all columns.
pub type Formats = [u16];

/// The severity of a message that is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeLevel {
    /// For information.
    Notice,
    /// The statement may not have done what the user expects.
    Warning,
}

/// The next piece of COPY input.
#[derive(Clone, Debug)]
pub enum CopyInput {
    /// Bytes, cut anywhere.
    Data(Vec<u8>),
    /// The input is complete.
    Done,
    /// The client aborts the COPY, with its reason.
    Fail(String),
}

/// The receiver of a session's answers. Calls append in order; nothing reaches the user before `drain` or the end of
/// the statement.
pub trait Client: Send {
    /// Describes the rows that follow.
    fn columns(&mut self, columns: &[ResultColumn], formats: &Formats);
    /// Appends a row of the columns described.
    ///
    /// # Errors
    /// When a value cannot be written in its format.
    fn row(&mut self, values: &[Value], columns: &[ResultColumn], formats: &Formats, text: &TextContext) -> Result<()>;
    /// Appends the end of a statement, with its command tag.
    fn complete(&mut self, tag: &str);
    /// Answers an empty query string.
    fn empty(&mut self);
    /// Says that the row limit was reached and the portal can continue.
    fn suspended(&mut self);
    /// Appends a notice or warning.
    fn notice(&mut self, level: NoticeLevel, report: &Report);
    /// Appends the error of a failed statement. `text` is the query string that its position refers to.
    fn error(&mut self, error: &SqlError, text: &str);
    /// Asks for COPY input of this many columns.
    fn copy_in(&mut self, columns: usize);
    /// Announces COPY output of this many columns.
    fn copy_out(&mut self, columns: usize);
    /// Appends a piece of COPY output.
    fn copy_data(&mut self, data: &[u8]);
    /// Ends the COPY output.
    fn copy_done(&mut self);
    /// Returns whether so much output is waiting that no more should be produced before `drain`.
    fn is_full(&self) -> bool;
    /// Sends the waiting output.
    ///
    /// # Errors
    /// When the client is gone.
    fn drain(&mut self) -> impl Future<Output = Result<()>> + Send;
    /// Sends the answers to earlier messages, if they wait: the current statement is about to wait for something, and
    /// must not hold them back. Does nothing if each answer leaves before the next message is taken.
    ///
    /// # Errors
    /// When the client is gone.
    fn drain_answered(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
    /// Returns the next piece of COPY input.
    ///
    /// # Errors
    /// When the client is gone or sent something else.
    fn next_copy(&mut self) -> impl Future<Output = Result<CopyInput>> + Send;
}

/// Waits for `work`; if it is not ready at once, first sends the answers to earlier messages.
pub(in crate::session) async fn draining<C: Client, T>(client: &mut C, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let begun = poll_fn(|cx| {
        Poll::Ready(match work.as_mut().poll(cx) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    });
    if let Some(done) = begun.await {
        return done;
    }
    // A lost client is noticed when its own answer is sent: the work may be a commit that has happened.
    let _ = client.drain_answered().await;
    work.await
}

/// Makes the error for a client that went away in the middle.
pub fn disconnected() -> SqlError {
    SqlError::new(SqlState(*b"08006"), "client connection lost")
}

//! `Client`: where a session's answers go and COPY input comes from. The server writes protocol messages behind it, the
//! shell prints tables.
//!
//! Not a socket: a session knows no bytes of any protocol.

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

/// How result values are to be written: per column 0 (text) or 1 (binary), none for all text, one for all.
pub type Formats = [u16];

/// Severity of a message that is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeLevel {
    /// For information.
    Notice,
    /// Something did not do what the user may think.
    Warning,
}

/// The next piece of COPY input.
#[derive(Clone, Debug)]
pub enum CopyInput {
    /// Bytes, cut anywhere.
    Data(Vec<u8>),
    /// No more is coming.
    Done,
    /// The client gives up, with its reason.
    Fail(String),
}

/// Where answers go. Calls append in order; nothing reaches the user before `drain` or the end of the statement.
pub trait Client: Send {
    /// Describes the rows that follow.
    fn columns(&mut self, columns: &[ResultColumn], formats: &Formats);
    /// One row of the columns described.
    ///
    /// # Errors
    /// When a value cannot be written in the format asked for.
    fn row(&mut self, values: &[Value], columns: &[ResultColumn], formats: &Formats, text: &TextContext) -> Result<()>;
    /// A statement is complete, with its command tag.
    fn complete(&mut self, tag: &str);
    /// The query string was empty.
    fn empty(&mut self);
    /// The row limit was reached; the portal can go on.
    fn suspended(&mut self);
    /// A notice or warning.
    fn notice(&mut self, level: NoticeLevel, report: &Report);
    /// The statement failed. `text` is the query string its position refers to.
    fn error(&mut self, error: &SqlError, text: &str);
    /// A setting that clients are told about has a new value.
    fn parameter(&mut self, name: &str, value: &str);
    /// COPY input of so many columns is expected.
    fn copy_in(&mut self, columns: usize);
    /// COPY output of so many columns follows.
    fn copy_out(&mut self, columns: usize);
    /// A piece of COPY output.
    fn copy_data(&mut self, data: &[u8]);
    /// COPY output is complete.
    fn copy_done(&mut self);
    /// Whether so much waits to be sent that no more should be made before `drain`.
    fn is_full(&self) -> bool;
    /// Sends what waits.
    ///
    /// # Errors
    /// When the client is gone.
    fn drain(&mut self) -> impl Future<Output = Result<()>> + Send;
    /// Sends the answers to earlier messages, if they wait: the statement that is answered now is about to wait for something,
    /// and must not keep them from the client. Does nothing where each answer leaves before the next message is taken.
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

/// Waits for `work`, and if that is not over at once, sends the answers to earlier messages first.
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
    // A client that is gone is found when its own answer is to be sent: the work may be a commit that has happened.
    let _ = client.drain_answered().await;
    work.await
}

/// The error for a client that went away in the middle.
pub fn disconnected() -> SqlError {
    SqlError::new(SqlState(*b"08006"), "client connection lost")
}

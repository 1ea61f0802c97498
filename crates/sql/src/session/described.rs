//! `Described`: a client that already knows the columns of the rows, because it sent Describe for the portal.
//!
//! Statements that are not planned describe their columns and send rows as the simple protocol needs it; this wrapper
//! leaves the columns out and sends the rows in the formats that the portal was bound with.
//!
//! Checked by the protocol tests of the clients.

use crate::{
    analyze::bound::ResultColumn,
    error::{Report, Result, SqlError},
    session::{Client, CopyInput, Formats, NoticeLevel},
    types::{Value, io::TextContext},
};

/// A client to which columns are not described again.
pub(super) struct Described<'a, C> {
    /// The receiver of the answers.
    pub(super) client: &'a mut C,
    /// Formats that the portal was bound with.
    pub(super) formats: &'a Formats,
}

impl<C: Client> Client for Described<'_, C> {
    fn columns(&mut self, _columns: &[ResultColumn], _formats: &Formats) {}

    fn row(
        &mut self,
        values: &[Value],
        columns: &[ResultColumn],
        _formats: &Formats,
        text: &TextContext,
    ) -> Result<()> {
        self.client.row(values, columns, self.formats, text)
    }

    fn complete(&mut self, tag: &str) {
        self.client.complete(tag);
    }

    fn empty(&mut self) {
        self.client.empty();
    }

    fn suspended(&mut self) {
        self.client.suspended();
    }

    fn notice(&mut self, level: NoticeLevel, report: &Report) {
        self.client.notice(level, report);
    }

    fn error(&mut self, error: &SqlError, text: &str) {
        self.client.error(error, text);
    }

    fn copy_in(&mut self, columns: usize) {
        self.client.copy_in(columns);
    }

    fn copy_out(&mut self, columns: usize) {
        self.client.copy_out(columns);
    }

    fn copy_data(&mut self, data: &[u8]) {
        self.client.copy_data(data);
    }

    fn copy_done(&mut self) {
        self.client.copy_done();
    }

    fn is_full(&self) -> bool {
        self.client.is_full()
    }

    async fn drain(&mut self) -> Result<()> {
        self.client.drain().await
    }

    async fn drain_answered(&mut self) -> Result<()> {
        self.client.drain_answered().await
    }

    async fn next_copy(&mut self) -> Result<CopyInput> {
        self.client.next_copy().await
    }
}

//! `Remote`: a client at the other end of a socket, as a session sees it.
//!
//! Writes what the session answers as protocol messages and reads what the client sends. Bytes gather in `output` and leave
//! in one write per drain.

use std::net::SocketAddr;

use collie_sql::{
    analyze::bound::ResultColumn,
    builtin,
    error::{Report, Result, SqlError, SqlState},
    session::{Client, CopyInput, Formats, NoticeLevel, disconnected},
    types::{Value, io as text_io, io::TextContext},
};
use collie_wire::{Field, Frontend, Input, Notice, Output, Severity};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Bytes that wait before a session is asked to drain.
const OUTPUT_BYTES: usize = 64 << 10;
/// Bytes read at once, at the least.
const READ_BYTES: usize = 8 << 10;

/// A client at the other end of a socket.
pub(crate) struct Remote {
    socket: TcpStream,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Least severity of notices the client wants.
    pub(crate) warnings_only: bool,
    /// Nothing was read since the client was told that its session is ready.
    pub(crate) is_ready: bool,
    /// The client was told of an error that ends its session.
    pub(crate) ended: bool,
}

impl Remote {
    pub(crate) fn new(socket: TcpStream, message_bytes_max: usize) -> Self {
        Self {
            socket,
            input: Input::new(message_bytes_max),
            output: Output::new(),
            warnings_only: false,
            is_ready: false,
            ended: false,
        }
    }

    /// Returns where the client is.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// Reads until more bytes arrived; false when the client closed its side.
    pub(crate) async fn fill(&mut self) -> std::io::Result<bool> {
        let buffer = self.input.buffer();
        buffer.reserve(READ_BYTES);
        Ok(self.socket.read_buf(buffer).await? > 0)
    }

    /// Sends what waits.
    pub(crate) async fn flush(&mut self) -> std::io::Result<()> {
        if !self.output.is_empty() {
            self.socket.write_all(self.output.bytes()).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Ends the connection in order: what was sent can still be read.
    pub(crate) async fn shut(&mut self) {
        let _ = self.flush().await;
        let _ = self.socket.shutdown().await;
    }

    pub(crate) fn report(&mut self, severity: Severity, report: &Report, text: &str) {
        let position = report.position.map(|at| {
            let at = usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
            text.char_indices().take_while(|(byte, _)| *byte < at).count() + 1
        });
        self.output.notice(&Notice {
            severity,
            sqlstate: report.state.as_str(),
            message: &report.message,
            detail: report.detail.as_deref(),
            hint: report.hint.as_deref(),
            position,
            context: report.context.as_deref(),
            object: [
                report.schema.as_deref(),
                report.table.as_deref(),
                report.column.as_deref(),
                report.constraint.as_deref(),
            ],
        });
    }

    pub(crate) fn fatal(&mut self, state: SqlState, message: &str) {
        self.report(Severity::Fatal, SqlError::new(state, message).report(), "");
    }

    /// Writes the description of rows.
    pub(crate) fn describe(&mut self, columns: &[ResultColumn], formats: &Formats) {
        let fields = columns.iter().enumerate().map(|(place, column)| Field {
            name: &column.name,
            table: column.origin.map_or(0, |(table, _)| table),
            column: column.origin.map_or(0, |(_, attnum)| attnum),
            type_oid: column.ty.oid,
            type_size: builtin::type_by_oid(column.ty.oid).map_or(-1, |ty| ty.len),
            typmod: column.ty.typmod,
            format: format_of(formats, place),
        });
        self.output.row_description(fields.collect::<Vec<_>>().into_iter());
    }
}

fn format_of(formats: &Formats, place: usize) -> u16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(place).copied().unwrap_or(0),
    }
}

impl Client for Remote {
    fn columns(&mut self, columns: &[ResultColumn], formats: &Formats) {
        self.describe(columns, formats);
    }

    fn row(&mut self, values: &[Value], columns: &[ResultColumn], formats: &Formats, text: &TextContext) -> Result<()> {
        self.output.data_row(columns.len(), |place, out| {
            let value = &values[place];
            if value.is_null() {
                return Ok(false);
            }
            let oid = columns[place].ty.oid;
            if format_of(formats, place) == 1 {
                text_io::binary_out(value, oid, out);
            } else {
                text_io::text_out(value, oid, text, out);
            }
            Ok(true)
        })
    }

    fn complete(&mut self, tag: &str) {
        self.output.command_complete(tag);
    }

    fn empty(&mut self) {
        self.output.empty_query();
    }

    fn suspended(&mut self) {
        self.output.portal_suspended();
    }

    fn notice(&mut self, level: NoticeLevel, report: &Report) {
        let severity = match level {
            NoticeLevel::Notice if self.warnings_only => return,
            NoticeLevel::Notice => Severity::Notice,
            NoticeLevel::Warning => Severity::Warning,
        };
        self.report(severity, report, "");
    }

    fn error(&mut self, error: &SqlError, text: &str) {
        self.ended |= error.ends_session();
        let severity = if error.ends_session() { Severity::Fatal } else { Severity::Error };
        self.report(severity, error.report(), text);
    }

    fn parameter(&mut self, name: &str, value: &str) {
        self.output.parameter_status(name, value);
    }

    fn copy_in(&mut self, columns: usize) {
        self.output.copy_in(columns);
    }

    fn copy_out(&mut self, columns: usize) {
        self.output.copy_out(columns);
    }

    fn copy_data(&mut self, data: &[u8]) {
        self.output.copy_data(data);
    }

    fn copy_done(&mut self) {
        self.output.copy_done();
    }

    fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_BYTES
    }

    async fn drain(&mut self) -> Result<()> {
        self.flush().await.map_err(|_| disconnected())
    }

    async fn next_copy(&mut self) -> Result<CopyInput> {
        loop {
            let message = self.input.next().map_err(|error| protocol_error(&error))?;
            match message {
                Some(Frontend::CopyData(data)) => return Ok(CopyInput::Data(data.to_vec())),
                Some(Frontend::CopyDone) => return Ok(CopyInput::Done),
                Some(Frontend::CopyFail(reason)) => return Ok(CopyInput::Fail(reason.to_owned())),
                // Drivers send these before they know that COPY began; PostgreSQL ignores them too.
                Some(Frontend::Flush | Frontend::Sync) => {}
                Some(Frontend::Terminate) => return Err(disconnected()),
                Some(_) => {
                    return Err(SqlError::new(
                        SqlState::PROTOCOL_VIOLATION,
                        "unexpected message during COPY from stdin",
                    ));
                }
                None => {
                    if !self.fill().await.map_err(|_| disconnected())? {
                        return Err(disconnected());
                    }
                }
            }
        }
    }
}

/// Turns a breach of the protocol into the error a client is told.
pub(crate) fn protocol_error(error: &collie_wire::WireError) -> SqlError {
    let mut state = *b"08P01";
    if let Ok(code) = <[u8; 5]>::try_from(error.sqlstate.as_bytes()) {
        state = code;
    }
    SqlError::new(SqlState(state), error.message.clone())
}

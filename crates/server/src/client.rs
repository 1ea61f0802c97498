//! `Remote`: a client at the other end of a socket, as its session uses it.
//!
//! Writes the session's answers as protocol messages and reads the client's messages. Bytes collect in `output`, and
//! each drain sends them in one write.

use std::net::SocketAddr;

use collie_obs::{ResultSend, Span, word};
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

/// The bytes in `output` at which a session is asked to drain.
const OUTPUT_BYTES: usize = 64 << 10;

/// How long the server waits for a client to leave after sending it the reason for the end of its session.
const LINGER: std::time::Duration = std::time::Duration::from_millis(100);
/// The least bytes that one read makes room for.
const READ_BYTES: usize = 8 << 10;

/// A client at the other end of a socket.
pub(crate) struct Remote {
    socket: TcpStream,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// The client wants no notices below a warning.
    pub(crate) warnings_only: bool,
    /// Nothing was read since ReadyForQuery was sent.
    pub(crate) is_ready: bool,
    /// The client was sent an error that ends its session.
    pub(crate) ended: bool,
    /// The bytes of `output` that are complete answers, up to a ReadyForQuery: later answers may still turn into an
    /// error.
    pub(crate) answered: usize,
    /// Rows in `output`.
    rows: u64,
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
            answered: 0,
            rows: 0,
        }
    }

    /// Returns the client's address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// Reads until more bytes arrive; returns false if the client has closed its side.
    pub(crate) async fn fill(&mut self) -> std::io::Result<bool> {
        let buffer = self.input.buffer();
        buffer.reserve(READ_BYTES);
        Ok(self.socket.read_buf(buffer).await? > 0)
    }

    /// Sends the collected bytes.
    pub(crate) async fn flush(&mut self) -> std::io::Result<()> {
        if !self.output.is_empty() {
            let sent = collie_obs::start::<ResultSend>().map_or(0, |span| self.send_measured(span));
            self.socket.write_all(&self.output.bytes()[sent..]).await?;
            self.output.clear();
            self.answered = 0;
            self.rows = 0;
        }
        Ok(())
    }

    /// Passes as many bytes to the system as it accepts at once, and returns their number. The call is measured unless
    /// it accepts none: waiting for a client that does not read is not part of the unit.
    #[cold]
    fn send_measured(&self, span: Span<ResultSend>) -> usize {
        // The next write returns any error again.
        let sent = self.socket.try_write(self.output.bytes()).unwrap_or(0);
        if sent > 0 {
            span.stop(ResultSend { rows: word(self.rows), bytes: word(sent) });
        }
        sent
    }

    /// Sends the collected bytes, which say why the session ends, and gives the client a moment to read them and to
    /// close the connection itself: some drivers report only that the connection was closed, and not why, when both
    /// arrive together.
    pub(crate) async fn linger(&mut self) {
        if self.flush().await.is_err() {
            return;
        }
        let mut unread = [0; 512];
        let leaves = async { while matches!(self.socket.read(&mut unread).await, Ok(bytes) if bytes > 0) {} };
        let _left = tokio::time::timeout(LINGER, leaves).await;
    }

    /// Ends the connection in order: the client can still read the bytes sent.
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
        let written = self.output.data_row(columns.len(), |place, out| {
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
        });
        self.rows += u64::from(written.is_ok());
        written
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

    async fn drain_answered(&mut self) -> Result<()> {
        let answered = std::mem::take(&mut self.answered);
        if answered > 0 {
            self.socket.write_all(&self.output.bytes()[..answered]).await.map_err(|_| disconnected())?;
            self.output.drop_front(answered);
        }
        Ok(())
    }

    async fn next_copy(&mut self) -> Result<CopyInput> {
        loop {
            let message = self.input.next().map_err(|error| protocol_error(&error))?;
            match message {
                Some(Frontend::CopyData(data)) => return Ok(CopyInput::Data(data.to_vec())),
                Some(Frontend::CopyDone) => return Ok(CopyInput::Done),
                Some(Frontend::CopyFail(reason)) => return Ok(CopyInput::Fail(reason.to_owned())),
                // Drivers send these before they know that COPY has begun; PostgreSQL ignores them too.
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

/// Converts a protocol violation into the error for the client.
pub(crate) fn protocol_error(error: &collie_wire::WireError) -> SqlError {
    let mut state = *b"08P01";
    if let Ok(code) = <[u8; 5]>::try_from(error.sqlstate.as_bytes()) {
        state = code;
    }
    SqlError::new(SqlState(state), error.message.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use collie_env::{Clock as _, RealClock};
    use collie_obs::{Batch, Drain, RateTable, Situation, offer_clock, publish};
    use tokio::net::TcpListener;

    use super::*;

    /// The time limit of this test, for a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn now_ns() -> u64 {
        RealClock.now_ns()
    }

    /// Goal: a measured send is a sample of RESULT_SEND with its rows and bytes, and the sent bytes arrive. Method:
    /// rows without columns over a real socket, repeated until one was sampled: the sampler is shared by the process,
    /// and a socket is not ready at once.
    #[test]
    fn measured_send_tells_its_rows_and_bytes_and_arrives() {
        const ROWS: u32 = 3;
        offer_clock(now_ns);
        let began_ns = now_ns();
        let patience = |what: &str| assert!(Duration::from_nanos(now_ns() - began_ns) < PATIENCE, "{what}");
        let mut drain = loop {
            match Drain::open(&now_ns) {
                Some(drain) => break drain,
                None => std::thread::yield_now(),
            }
            patience("another test drains");
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let mut remote = Remote::new(listener.accept().await.unwrap().0, 1 << 20);
            let mut batch = Batch::new();
            loop {
                publish(&RateTable::all(1.0));
                for _ in 0..ROWS {
                    remote.row(&[], &[], &[], &TextContext::default()).unwrap();
                }
                remote.complete("SELECT 3");
                let sent = remote.output.bytes().to_vec();
                remote.flush().await.unwrap();
                let mut arrived = vec![0; sent.len()];
                client.read_exact(&mut arrived).await.unwrap();
                assert!(arrived == sent && remote.output.is_empty() && remote.rows == 0);
                drain.drain(now_ns(), Situation::default(), &mut batch);
                let told = |features: &[u32]| features[..2] == [ROWS, word(sent.len())];
                if batch.samples.iter().any(|sample| sample.ou == 19 && told(&sample.features)) {
                    break;
                }
                patience("no sample");
            }
        });
        publish(&RateTable::off());
    }
}

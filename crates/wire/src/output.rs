//! `Output`: turns messages to a client into bytes.
#![deny(clippy::as_conversions, clippy::indexing_slicing)]

/// The transaction status that ReadyForQuery reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Not in a transaction block.
    Idle,
    /// In a transaction block.
    InBlock,
    /// In a transaction block that has failed.
    Failed,
}

/// Severity of an error or notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Ends the statement.
    Error,
    /// Ends the connection.
    Fatal,
    /// A warning.
    Warning,
    /// A notice.
    Notice,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
        }
    }
}

/// The fields of an ErrorResponse or NoticeResponse. Fields that are `None` are left out.
#[derive(Clone, Debug)]
pub struct Notice<'a> {
    /// Severity.
    pub severity: Severity,
    /// SQLSTATE, five characters.
    pub sqlstate: &'a str,
    /// The primary message, one line.
    pub message: &'a str,
    /// Detail.
    pub detail: Option<&'a str>,
    /// Hint.
    pub hint: Option<&'a str>,
    /// Position in the statement, in characters from 1.
    pub position: Option<usize>,
    /// Context.
    pub context: Option<&'a str>,
    /// The schema, table, column and constraint concerned.
    pub object: [Option<&'a str>; 4],
}

/// A column of a RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Column name.
    pub name: &'a str,
    /// OID of the table that the column comes from, or 0.
    pub table: u32,
    /// Number of the column in that table, or 0.
    pub column: i16,
    /// Type OID.
    pub type_oid: u32,
    /// Size of the type in bytes, negative when it varies.
    pub type_size: i16,
    /// Type modifier, or -1.
    pub typmod: i32,
    /// 0 text, 1 binary.
    pub format: u16,
}

/// Bytes to send.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
}

/// Encodes a count in the protocol's 16 bits. Larger counts are refused long before and would panic here.
fn count16(count: usize) -> [u8; 2] {
    u16::try_from(count).expect("limits keep columns and parameters below 65536").to_be_bytes()
}

impl Output {
    /// Makes an empty output.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes that wait to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many bytes wait to be sent.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether no bytes wait to be sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all waiting bytes, which have been sent.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 18);
    }

    /// Removes the first `len` bytes, which have been sent.
    pub fn drop_front(&mut self, len: usize) {
        self.bytes.drain(..len);
    }

    /// Removes everything after the first `len` bytes: the partial answer to a statement that failed.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        self.set_length(at);
    }

    /// Writes the 4-byte length at `at`, which counts itself and everything after it.
    fn set_length(&mut self, at: usize) {
        let length = u32::try_from(self.bytes.len() - at).expect("rows are below 1 GiB");
        if let Some(field) = self.bytes.get_mut(at..at + 4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
    }

    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend(text.bytes().filter(|byte| *byte != 0));
        out.push(0);
    }

    /// Refuses a TLS or GSSAPI request.
    pub fn encryption_refused(&mut self) {
        self.bytes.push(b'N');
    }

    /// Appends AuthenticationOk.
    pub fn authentication_ok(&mut self) {
        self.message(b'R', |out| out.extend_from_slice(&0_u32.to_be_bytes()));
    }

    /// Appends NegotiateProtocolVersion: this server speaks 3.0; `unknown` lists the options that it does not know.
    pub fn negotiate_protocol(&mut self, unknown: &[&str]) {
        self.message(b'v', |out| {
            out.extend_from_slice(&0_u32.to_be_bytes());
            out.extend_from_slice(&u32::try_from(unknown.len()).unwrap_or(0).to_be_bytes());
            for name in unknown {
                Self::text(out, name);
            }
        });
    }

    /// Appends ParameterStatus.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            Self::text(out, name);
            Self::text(out, value);
        });
    }

    /// Appends BackendKeyData.
    pub fn backend_key(&mut self, pid: u32, secret: u32) {
        self.message(b'K', |out| {
            out.extend_from_slice(&pid.to_be_bytes());
            out.extend_from_slice(&secret.to_be_bytes());
        });
    }

    /// Appends ReadyForQuery.
    pub fn ready_for_query(&mut self, status: TransactionStatus) {
        let status = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.message(b'Z', |out| out.push(status));
    }

    /// Appends ParseComplete.
    pub fn parse_complete(&mut self) {
        self.message(b'1', |_| {});
    }

    /// Appends BindComplete.
    pub fn bind_complete(&mut self) {
        self.message(b'2', |_| {});
    }

    /// Appends CloseComplete.
    pub fn close_complete(&mut self) {
        self.message(b'3', |_| {});
    }

    /// Appends NoData.
    pub fn no_data(&mut self) {
        self.message(b'n', |_| {});
    }

    /// Appends PortalSuspended.
    pub fn portal_suspended(&mut self) {
        self.message(b's', |_| {});
    }

    /// Appends EmptyQueryResponse.
    pub fn empty_query(&mut self) {
        self.message(b'I', |_| {});
    }

    /// Appends CommandComplete.
    pub fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |out| Self::text(out, tag));
    }

    /// Appends ParameterDescription.
    pub fn parameter_description(&mut self, types: &[u32]) {
        self.message(b't', |out| {
            out.extend_from_slice(&count16(types.len()));
            for oid in types {
                out.extend_from_slice(&oid.to_be_bytes());
            }
        });
    }

    /// Appends RowDescription.
    pub fn row_description<'a>(&mut self, fields: impl ExactSizeIterator<Item = Field<'a>>) {
        self.message(b'T', |out| {
            out.extend_from_slice(&count16(fields.len()));
            for field in fields {
                Self::text(out, field.name);
                out.extend_from_slice(&field.table.to_be_bytes());
                out.extend_from_slice(&field.column.to_be_bytes());
                out.extend_from_slice(&field.type_oid.to_be_bytes());
                out.extend_from_slice(&field.type_size.to_be_bytes());
                out.extend_from_slice(&field.typmod.to_be_bytes());
                out.extend_from_slice(&field.format.to_be_bytes());
            }
        });
    }

    /// Appends a DataRow of `columns` columns: `write(i, bytes)` appends column i and returns whether it is not
    /// NULL.
    ///
    /// # Errors
    /// Returns the error of `write`; the output then holds nothing of the row.
    pub fn data_row<E>(
        &mut self,
        columns: usize,
        mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let row = self.bytes.len();
        self.bytes.push(b'D');
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&count16(columns));
        for column in 0..columns {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(&[0xFF; 4]);
            match write(column, &mut self.bytes) {
                Ok(true) => {
                    let length = u32::try_from(self.bytes.len() - at - 4).expect("values are below 1 GiB");
                    if let Some(field) = self.bytes.get_mut(at..at + 4) {
                        field.copy_from_slice(&length.to_be_bytes());
                    }
                }
                Ok(false) => self.bytes.truncate(at + 4),
                Err(error) => {
                    self.bytes.truncate(row);
                    return Err(error);
                }
            }
        }
        self.set_length(row + 1);
        Ok(())
    }

    /// Appends CopyInResponse, which asks for rows in text format.
    pub fn copy_in(&mut self, columns: usize) {
        self.copy_response(b'G', columns);
    }

    /// Appends CopyOutResponse, which announces rows in text format.
    pub fn copy_out(&mut self, columns: usize) {
        self.copy_response(b'H', columns);
    }

    fn copy_response(&mut self, kind: u8, columns: usize) {
        self.message(kind, |out| {
            out.push(0);
            out.extend_from_slice(&count16(columns));
            out.extend(std::iter::repeat_n(0, columns * 2));
        });
    }

    /// Appends CopyData.
    pub fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', |out| out.extend_from_slice(data));
    }

    /// Appends CopyDone.
    pub fn copy_done(&mut self) {
        self.message(b'c', |_| {});
    }

    /// Appends ErrorResponse or NoticeResponse, by severity.
    pub fn notice(&mut self, notice: &Notice<'_>) {
        let kind = match notice.severity {
            Severity::Error | Severity::Fatal => b'E',
            Severity::Warning | Severity::Notice => b'N',
        };
        self.message(kind, |out| {
            let mut field = |code: u8, text: &str| {
                out.push(code);
                Self::text(out, text);
            };
            field(b'S', notice.severity.text());
            field(b'V', notice.severity.text());
            field(b'C', notice.sqlstate);
            field(b'M', notice.message);
            let position = notice.position.map(|position| position.to_string());
            let [schema, table, column, constraint] = notice.object;
            let optional = [
                (b'D', notice.detail),
                (b'H', notice.hint),
                (b'P', position.as_deref()),
                (b'W', notice.context),
                (b's', schema),
                (b't', table),
                (b'c', column),
                (b'n', constraint),
            ];
            for (code, text) in optional {
                if let Some(text) = text {
                    field(code, text);
                }
            }
            out.push(0);
        });
    }
}

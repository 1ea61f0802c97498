//! `Frontend`: the messages of a client, decoded in place from the bytes that arrived.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::error::WireError;

/// A message from the client.
#[derive(Clone, Debug)]
pub enum Frontend<'a> {
    /// First message of a session.
    Startup(Startup<'a>),
    /// Asks for TLS; answered by one byte.
    SslRequest,
    /// Asks for GSSAPI encryption; answered by one byte.
    GssEncRequest,
    /// Asks to cancel the running statement of another session; never answered.
    Cancel {
        /// Process id that was given to that session.
        pid: u32,
        /// Secret that was given to that session.
        secret: u32,
    },
    /// Simple query.
    Query(&'a str),
    /// Prepares a statement.
    Parse {
        /// Name of the statement; empty for the unnamed one.
        name: &'a str,
        /// Text of the statement.
        query: &'a str,
        /// Declared parameter types, 0 where the server decides.
        types: Oids<'a>,
    },
    /// Makes a portal from a prepared statement.
    Bind(Bind<'a>),
    /// Asks for the result columns of a statement or portal.
    Describe(Describe<'a>),
    /// Runs a portal.
    Execute {
        /// Name of the portal.
        portal: &'a str,
        /// Maximum number of rows to send; 0 for all.
        max_rows: u32,
    },
    /// Drops a statement or portal.
    Close(Describe<'a>),
    /// Ends a pipeline.
    Sync,
    /// Asks for the answers so far.
    Flush,
    /// A piece of COPY input.
    CopyData(&'a [u8]),
    /// End of COPY input.
    CopyDone,
    /// COPY input failed, with the client's reason.
    CopyFail(&'a str),
    /// An answer to an authentication request.
    Password(&'a [u8]),
    /// A call by function OID, an interface that this server does not offer.
    FunctionCall,
    /// End of the session.
    Terminate,
}

/// The client's description of itself at the start.
#[derive(Clone, Debug)]
pub struct Startup<'a> {
    /// Major protocol version, 3.
    pub major: u16,
    /// Minor protocol version that the client asks for.
    pub minor: u16,
    /// Names and values: user, database, options, settings.
    pub parameters: Vec<(&'a str, &'a str)>,
}

/// A statement or a portal by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Describe<'a> {
    /// A prepared statement.
    Statement(&'a str),
    /// A portal.
    Portal(&'a str),
}

/// Declared parameter types of a Parse message.
#[derive(Clone, Debug)]
pub struct Oids<'a>(&'a [u8]);

impl Iterator for Oids<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }
}

/// Format codes: none (all text), one for all, or one each.
#[derive(Clone, Copy, Debug)]
pub struct Formats<'a>(&'a [u8]);

impl Formats<'_> {
    /// Returns the number of codes sent.
    pub fn len(&self) -> usize {
        self.0.chunks_exact(2).len()
    }

    /// Returns whether no code was sent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the code for item `index`: 0 text, 1 binary. No codes mean text for all items, and a single code
    /// applies to all.
    pub fn code(&self, index: usize) -> u16 {
        let at = if self.len() == 1 { 0 } else { index };
        self.0.chunks_exact(2).nth(at).and_then(|code| code.first_chunk()).map_or(0, |code| u16::from_be_bytes(*code))
    }

    /// Returns the codes as sent.
    pub fn codes(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.len()).map(|index| self.code(index))
    }
}

/// Parameter values of a Bind message; `None` is NULL.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    fields: Fields<'a>,
    left: u16,
}

impl Values<'_> {
    /// Returns how many values are left.
    pub fn len(&self) -> usize {
        usize::from(self.left)
    }

    /// Returns whether no value is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.fields.value().ok()
    }
}

/// The content of a Bind message, which makes a portal from a prepared statement.
#[derive(Clone, Debug)]
pub struct Bind<'a> {
    /// Name of the portal; empty for the unnamed one.
    pub portal: &'a str,
    /// Name of the statement.
    pub statement: &'a str,
    /// Formats of the values.
    pub value_formats: Formats<'a>,
    /// The values.
    pub values: Values<'a>,
    /// Requested formats of the result columns.
    pub result_formats: Formats<'a>,
}

/// Fields of one message; each read is bounded by the message (W2).
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    fn short() -> WireError {
        WireError::violation("insufficient data left in message")
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(Self::short)?;
        self.rest = rest;
        Ok(head)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(Self::short)?;
        self.rest = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.chunk()?))
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.chunk()?))
    }

    fn text(&mut self) -> Result<&'a str, WireError> {
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| WireError::violation("invalid string in message"))?;
        let bytes = self.bytes(end)?;
        self.bytes(1)?;
        utf8(bytes)
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Self::short())?;
        self.bytes(length).map(Some)
    }

    fn formats(&mut self) -> Result<Formats<'a>, WireError> {
        let count = usize::from(self.u16()?);
        let bytes = self.bytes(count.saturating_mul(2))?;
        let formats = Formats(bytes);
        match formats.codes().find(|code| *code > 1) {
            Some(code) => Err(WireError::violation(format!("invalid format code: {code}"))),
            None => Ok(formats),
        }
    }

    fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::violation("invalid message format")) }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = bytes.get(error.valid_up_to()..).unwrap_or_default();
        let bad = bad.get(..error.error_len().unwrap_or(bad.len()).min(4)).unwrap_or_default();
        let codes: Vec<String> = bad.iter().map(|byte| format!("0x{byte:02x}")).collect();
        WireError {
            sqlstate: "22021",
            message: format!("invalid byte sequence for encoding \"UTF8\": {}", codes.join(" ")),
            fatal: false,
        }
    })
}

/// Decodes the body of a message of type `kind`, which the input has already checked.
pub(crate) fn decode(kind: u8, body: &[u8]) -> Result<Frontend<'_>, WireError> {
    let mut fields = Fields::new(body);
    let message = match kind {
        b'Q' => Frontend::Query(fields.text()?),
        b'P' => {
            let name = fields.text()?;
            let query = fields.text()?;
            let count = usize::from(fields.u16()?);
            Frontend::Parse { name, query, types: Oids(fields.bytes(count.saturating_mul(4))?) }
        }
        b'B' => {
            let portal = fields.text()?;
            let statement = fields.text()?;
            let value_formats = fields.formats()?;
            let left = fields.u16()?;
            let values = Values { fields: fields.clone(), left };
            for _ in 0..left {
                fields.value()?;
            }
            if value_formats.len() > 1 && value_formats.len() != usize::from(left) {
                return Err(WireError::violation(format!(
                    "bind message has {} parameter formats but {left} parameters",
                    value_formats.len()
                )));
            }
            Frontend::Bind(Bind { portal, statement, value_formats, values, result_formats: fields.formats()? })
        }
        b'D' | b'C' => {
            let [target] = fields.chunk()?;
            let name = fields.text()?;
            let what = match target {
                b'S' => Describe::Statement(name),
                b'P' => Describe::Portal(name),
                _ => {
                    let verb = if kind == b'D' { "DESCRIBE" } else { "CLOSE" };
                    return Err(WireError::violation(format!("invalid {verb} message subtype {target}")));
                }
            };
            if kind == b'D' { Frontend::Describe(what) } else { Frontend::Close(what) }
        }
        b'E' => Frontend::Execute { portal: fields.text()?, max_rows: fields.u32()? },
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'd' => return Ok(Frontend::CopyData(body)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(fields.text()?),
        b'p' => return Ok(Frontend::Password(body)),
        b'F' => return Ok(Frontend::FunctionCall),
        b'X' => return Ok(Frontend::Terminate),
        other => return Err(WireError::fatal(format!("invalid frontend message type {other}"))),
    };
    fields.end()?;
    Ok(message)
}

const CANCEL_CODE: u32 = (1234 << 16) | 5678;
const SSL_CODE: u32 = (1234 << 16) | 5679;
const GSS_CODE: u32 = (1234 << 16) | 5680;

/// Decodes the body of a message without a type byte, as sent before a session runs.
pub(crate) fn decode_startup(body: &[u8]) -> Result<Frontend<'_>, WireError> {
    let lost = |error: WireError| WireError { fatal: true, ..error };
    let mut fields = Fields::new(body);
    let code = fields.u32().map_err(lost)?;
    let message = match code {
        SSL_CODE => Frontend::SslRequest,
        GSS_CODE => Frontend::GssEncRequest,
        CANCEL_CODE => Frontend::Cancel { pid: fields.u32().map_err(lost)?, secret: fields.u32().map_err(lost)? },
        version => {
            let [high1, high2, low1, low2] = version.to_be_bytes();
            let (major, minor) = (u16::from_be_bytes([high1, high2]), u16::from_be_bytes([low1, low2]));
            if major != 3 {
                return Err(WireError {
                    sqlstate: "0A000",
                    message: format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"),
                    fatal: true,
                });
            }
            let bad = || WireError::fatal("invalid startup packet layout: expected terminator as last byte");
            let mut parameters = Vec::new();
            loop {
                let name =
                    fields.text().map_err(|error| if error.sqlstate == "08P01" { bad() } else { lost(error) })?;
                if name.is_empty() {
                    break;
                }
                let value =
                    fields.text().map_err(|error| if error.sqlstate == "08P01" { bad() } else { lost(error) })?;
                parameters.push((name, value));
            }
            fields.clone().end().map_err(|_| bad())?;
            return Ok(Frontend::Startup(Startup { major, minor, parameters }));
        }
    };
    fields.end().map_err(lost)?;
    Ok(message)
}

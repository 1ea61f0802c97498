//! `Wire`: a client that sends exactly the bytes that a test wants, and reads the answers message by message.
//!
//! It is no driver: it keeps no state of the session and checks only what a test asks for.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its type byte.
    pub kind: u8,
    /// Its bytes after the length field.
    pub body: Vec<u8>,
}

impl Message {
    /// Returns a field of an ErrorResponse or NoticeResponse.
    pub fn field(&self, code: u8) -> Option<String> {
        let mut rest = self.body.as_slice();
        while let Some((first, tail)) = rest.split_first() {
            let end = tail.iter().position(|byte| *byte == 0)?;
            if *first == code {
                return Some(String::from_utf8_lossy(&tail[..end]).into_owned());
            }
            rest = &tail[end + 1..];
        }
        None
    }

    /// Returns the columns of a DataRow.
    ///
    /// # Panics
    /// If the message is no DataRow, or is cut short.
    pub fn columns(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, b'D', "{self:?}");
        let (count, mut rest) = self.body.split_at(2);
        let count = u16::from_be_bytes([count[0], count[1]]);
        let mut columns = Vec::new();
        for _ in 0..count {
            let (length, tail) = rest.split_at(4);
            let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            rest = tail;
            columns.push(usize::try_from(length).ok().map(|length| {
                let (value, tail) = rest.split_at(length);
                rest = tail;
                value.to_vec()
            }));
        }
        assert!(rest.is_empty(), "bytes behind the last column");
        columns
    }
}

/// A raw connection.
pub struct Wire {
    socket: TcpStream,
    /// The process id and key for a cancel request, once a session was started.
    pub key: (u32, u32),
}

impl Wire {
    /// Opens a connection and sends nothing.
    ///
    /// # Panics
    /// When the server does not accept it.
    pub fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server accepts");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
        socket.set_nodelay(true).expect("a socket takes it");
        Self { socket, key: (0, 0) }
    }

    /// Opens a connection and starts a session.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn session(address: SocketAddr) -> Self {
        let mut wire = Self::open(address);
        wire.send(&startup(&[("user", "collie"), ("database", "collie")]));
        let messages = wire.until_ready();
        let key = messages.iter().find(|message| message.kind == b'K').expect("a key for cancel requests");
        let part = |at: usize| u32::from_be_bytes(key.body[at..at + 4].try_into().expect("four bytes"));
        wire.key = (part(0), part(4));
        wire
    }

    /// Sends bytes unchanged. It is no failure if the server has closed the connection: the test reads the answer.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Closes the sending side.
    pub fn end(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads exactly `count` bytes; returns `None` if the server closed the connection.
    pub fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        match self.socket.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("no answer within {PATIENCE:?}")
            }
            Err(_) => None,
        }
    }

    /// Reads a message; returns `None` if the server closed the connection.
    ///
    /// # Panics
    /// If nothing comes in time, or a length field is implausible.
    pub fn message(&mut self) -> Option<Message> {
        let head = self.bytes(5)?;
        let length = u32::from_be_bytes(head[1..5].try_into().expect("four bytes"));
        assert!((4..1 << 28).contains(&length), "a length of {length}");
        let body = self.bytes(usize::try_from(length - 4).expect("checked"))?;
        Some(Message { kind: head[0], body })
    }

    /// Reads up to and including ReadyForQuery.
    ///
    /// # Panics
    /// If the server closes the connection before.
    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.message().unwrap_or_else(|| panic!("closed after {messages:?}"));
            let last = message.kind == b'Z';
            messages.push(message);
            if last {
                return messages;
            }
        }
    }

    /// Reads to the end of the connection.
    pub fn until_closed(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.message()).collect()
    }

    /// Runs a simple query.
    pub fn query(&mut self, sql: &str) -> Vec<Message> {
        self.send(&query(sql));
        self.until_ready()
    }
}

/// Sends bytes on a new connection without a session, and returns the SQLSTATE with which the server closes it, if it
/// sends one.
///
/// # Panics
/// If the server sends anything but errors.
pub fn closed_with(address: SocketAddr, bytes: &[u8]) -> Option<String> {
    let mut wire = Wire::open(address);
    wire.send(bytes);
    wire.end();
    let messages = wire.until_closed();
    assert!(messages.iter().all(|message| message.kind == b'E'), "{}", kinds(&messages));
    states(&messages).pop()
}

/// Sends bytes in a session that the server must then end, and returns the last SQLSTATE.
pub fn ended_with(address: SocketAddr, bytes: &[u8]) -> Option<String> {
    let mut wire = Wire::session(address);
    wire.send(bytes);
    states(&wire.until_closed()).pop()
}

/// Returns the type bytes of the messages, as text.
pub fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|message| char::from(message.kind)).collect()
}

/// Returns the SQLSTATEs of the errors among messages.
pub fn states(messages: &[Message]) -> Vec<String> {
    messages.iter().filter(|message| message.kind == b'E').filter_map(|message| message.field(b'C')).collect()
}

/// Encodes a message: type, length, body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(length(body.len() + 4));
    bytes.extend(body);
    bytes
}

/// Encodes a message with `length` in its length field, whatever the length of the body is.
pub fn message_of_length(kind: u8, length: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(length.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("tests send small messages").to_be_bytes()
}

fn count(count: usize) -> [u8; 2] {
    u16::try_from(count).expect("tests send few fields").to_be_bytes()
}

/// Encodes a startup packet of protocol 3.0.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    packet(&body)
}

/// Encodes a packet without a type: length, body.
pub fn packet(body: &[u8]) -> Vec<u8> {
    [&length(body.len() + 4), body].concat()
}

/// Encodes an SSLRequest.
pub fn ssl_request() -> Vec<u8> {
    packet(&80_877_103_u32.to_be_bytes())
}

/// Encodes a CancelRequest.
pub fn cancel(pid: u32, key: u32) -> Vec<u8> {
    packet(&[80_877_102_u32.to_be_bytes(), pid.to_be_bytes(), key.to_be_bytes()].concat())
}

/// Encodes a Query.
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// Encodes a Parse.
pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
    body.extend(count(types.len()));
    for oid in types {
        body.extend(oid.to_be_bytes());
    }
    message(b'P', &body)
}

/// Encodes a Bind with all values in `format` and all results in `result_format`.
pub fn bind(portal: &str, statement: &str, format: u16, values: &[Option<&[u8]>], result_format: u16) -> Vec<u8> {
    message(b'B', &bind_body(portal, statement, &[format], values, &[result_format]))
}

/// Encodes the body of a Bind with arbitrary format codes.
pub fn bind_body(
    portal: &str,
    statement: &str,
    formats: &[u16],
    values: &[Option<&[u8]>],
    result_formats: &[u16],
) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0"].concat();
    body.extend(count(formats.len()));
    body.extend(formats.iter().flat_map(|code| code.to_be_bytes()));
    body.extend(count(values.len()));
    for value in values {
        match value {
            Some(value) => {
                body.extend(length(value.len()));
                body.extend(*value);
            }
            None => body.extend([0xff; 4]),
        }
    }
    body.extend(count(result_formats.len()));
    body.extend(result_formats.iter().flat_map(|code| code.to_be_bytes()));
    body
}

/// Encodes a Describe of a portal.
pub fn describe_portal(name: &str) -> Vec<u8> {
    message(b'D', &[b"P", name.as_bytes(), b"\0"].concat())
}

/// Encodes a Describe of a statement.
pub fn describe_statement(name: &str) -> Vec<u8> {
    message(b'D', &[b"S", name.as_bytes(), b"\0"].concat())
}

/// Encodes a Close of a statement.
pub fn close_statement(name: &str) -> Vec<u8> {
    message(b'C', &[b"S", name.as_bytes(), b"\0"].concat())
}

/// Encodes an Execute.
pub fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &rows_max.to_be_bytes()].concat())
}

/// Encodes a Sync.
pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

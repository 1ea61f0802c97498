//! HTTP requests, sent byte by byte, and their answers.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// An HTTP response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its header fields, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// Reads a whole answer.
    ///
    /// # Panics
    /// If `bytes` is not an HTTP/1.1 response.
    pub fn read(bytes: &[u8]) -> Self {
        let text = std::str::from_utf8(bytes).expect("answers are text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole head: {text:?}"));
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {first}"));
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line}"));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    /// Returns a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Opens a connection and sends nothing.
///
/// # Panics
/// If nothing listens at `address`.
pub fn open(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    socket
}

/// Sends `bytes` unchanged, and reads until the server closes or resets the connection.
///
/// # Panics
/// If nothing listens at `address`, or the server does not close the connection.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = open(address);
    // A server that refuses a request may close the connection before all of it was sent.
    let _refused = socket.write_all(bytes);
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut part) {
            Ok(0) => return answer,
            Ok(read) => answer.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return answer,
            Err(error) => panic!("no end of {} bytes: {error}", answer.len()),
        }
    }
}

/// Sends a GET for `path` and returns the answer.
///
/// # Panics
/// As [`send`], and if the answer is no HTTP response or its length differs from its Content-Length.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    let answer = Answer::read(&send(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()));
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    assert_eq!(length, Some(answer.body.len()), "{answer:?}");
    answer
}

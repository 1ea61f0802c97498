//! Requests over HTTP, byte by byte, and what comes back.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its head, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// What follows.
    pub body: String,
}

impl Answer {
    /// Reads a whole answer.
    ///
    /// # Panics
    /// When it is none, or not as long as it says.
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

/// Opens a connection and says nothing.
///
/// # Panics
/// When nobody listens.
pub fn open(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    socket
}

/// Sends bytes as they are, and reads until the other end closes, or resets.
///
/// # Panics
/// When nobody listens, or the other end does not close.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = open(address);
    // Who refuses a request may close before all of it was sent.
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

/// Asks for a path.
///
/// # Panics
/// As [`send`], and when what comes is no answer.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    let answer = Answer::read(&send(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()));
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    assert_eq!(length, Some(answer.body.len()), "{answer:?}");
    answer
}

//! Requests to a server's HTTP port.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::Context;

/// The limit for an answer, far longer than one takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the body of the server's answer to a GET of `path`.
pub(crate) fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut socket = TcpStream::connect(address).with_context(|| format!("nobody listens on {address}"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200 "), "{path}: {}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Serves one request with `answer` and returns the result of `get`.
    fn asked(answer: &'static str) -> anyhow::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let mut read = 0;
            while !request[..read].ends_with(b"\r\n\r\n") {
                read += socket.read(&mut request[read..]).unwrap();
            }
            socket.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request[..read].to_vec()).unwrap()
        });
        let got = get(&address, "/metrics");
        assert!(server.join().unwrap().starts_with("GET /metrics HTTP/1.1\r\n"));
        got
    }

    /// Goal: the result is the body without its head, and a refusal is an error. Method: a server that gives one
    /// answer.
    #[test]
    fn an_answer_is_its_body() {
        assert_eq!(asked("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nx 1").unwrap(), "x 1");
        let refused = asked("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().to_string();
        assert_eq!(refused, "/metrics: HTTP/1.1 404 Not Found");
    }
}

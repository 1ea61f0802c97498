//! `Peer`: one end of a connection that misbehaves: it sends anything, and reads only if asked to.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long a peer waits for room in the server's buffers, or for a byte, before it continues.
const PATIENCE: Duration = Duration::from_millis(50);

/// See the module's documentation. Dropping it closes the connection, with a reset if bytes from the server were not
/// read.
pub(super) struct Peer(TcpStream);

impl Peer {
    /// Connects to a port.
    pub(super) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Connects and logs in as a client of SQL; also returns the key for cancelling its statements.
    pub(super) fn log_in(to: SocketAddr) -> io::Result<(Self, Key)> {
        let mut peer = Self::connect(to)?;
        peer.0.set_read_timeout(Some(Duration::from_secs(60)))?;
        peer.0.write_all(&startup(&[("user", "collie"), ("database", "collie")]))?;
        let mut key = Key::default();
        loop {
            let mut head = [0; 5];
            peer.0.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?.saturating_sub(4)];
            peer.0.read_exact(&mut body)?;
            match head[0] {
                b'K' => key = Key(body),
                b'Z' => break,
                b'E' => return Err(io::Error::other(String::from_utf8_lossy(&body).into_owned())),
                _ => {}
            }
        }
        peer.0.set_read_timeout(Some(PATIENCE))?;
        Ok((peer, key))
    }

    /// Sends bytes as far as the other end takes them; it may have closed the connection.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        let _as_far_as_it_goes = self.0.write_all(bytes);
    }
}

/// The process id and the secret of a session, as its server sends them.
#[derive(Clone, Debug, Default)]
pub(super) struct Key(Vec<u8>);

impl Key {
    /// Returns a cancel request for the session's statement with a wrong secret.
    pub(super) fn wrong_cancel(&self, by: u64) -> Vec<u8> {
        let mut key = self.0.clone();
        // At least one bit of the secret differs.
        key.iter_mut().skip(4).zip(by.to_le_bytes()).for_each(|(byte, by)| *byte ^= by | 1);
        cancel(&key)
    }
}

/// Encodes a cancel request with a process id and a secret.
pub(super) fn cancel(key: &[u8]) -> Vec<u8> {
    packet(&[&80_877_102_u32.to_be_bytes(), key].concat())
}

/// Encodes a start-up message of protocol 3.0.
pub(super) fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (3_u32 << 16).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    packet(&body)
}

/// Encodes a message of a client that has logged in.
pub(super) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], packet(body).as_slice()].concat()
}

/// Encodes a simple query.
pub(super) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

fn packet(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("messages of the lab are short");
    [&length.to_be_bytes(), body].concat()
}

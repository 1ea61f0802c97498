//! `Wave`: many connections of one kind, which are held while the load goes on, and then dropped.

use std::net::SocketAddr;

use super::peer::{Peer, cancel, message, query, startup};
use crate::random::Random;

/// The addresses of the server's ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) sql: SocketAddr,
    pub(super) replicas: SocketAddr,
    pub(super) http: SocketAddr,
}

/// The connections that are held.
pub(super) type Held = Vec<Peer>;

/// A kind of misbehaviour.
pub(super) struct Wave {
    pub(super) name: &'static str,
    /// Whether its connections are sessions, so that a new client may be refused with 53300 while they are held.
    pub(super) has_sessions: bool,
    /// Makes the `n`th connection; the returned peer is held.
    pub(super) one: fn(Ports, n: u64, &mut Random) -> Option<Peer>,
    /// The number of connections.
    pub(super) count: u64,
}

/// Connects to one of the three ports in turn and sends bytes.
fn anywhere(ports: Ports, n: u64, bytes: &[u8]) -> Option<Peer> {
    let to = [ports.sql, ports.replicas, ports.http][usize::try_from(n % 3).unwrap_or(0)];
    let mut peer = Peer::connect(to).ok()?;
    peer.say(bytes);
    Some(peer)
}

/// Logs in and sends bytes.
fn session(ports: Ports, bytes: &[u8]) -> Option<Peer> {
    let (mut peer, _key) = Peer::log_in(ports.sql).ok()?;
    peer.say(bytes);
    Some(peer)
}

fn garbage(random: &mut Random) -> Vec<u8> {
    let length = random.below(3000) + 1;
    (0..length).map(|_| random.next().to_le_bytes()[0]).collect()
}

/// All waves.
pub(super) const ALL: &[Wave] = &[
    Wave { name: "silence", has_sessions: false, count: 900, one: |ports, n, _| anywhere(ports, n, b"") },
    Wave {
        name: "half a start-up",
        has_sessions: false,
        count: 900,
        one: |ports, n, random| {
            let whole = match n % 3 {
                2 => b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n".to_vec(),
                _ => startup(&[("user", "collie"), ("database", "collie")]),
            };
            let part = usize::try_from(random.below(whole.len() as u64 - 1)).ok()? + 1;
            anywhere(ports, n, &whole[..part])
        },
    },
    Wave {
        name: "garbage",
        has_sessions: false,
        count: 900,
        one: |ports, n, random| anywhere(ports, n, &garbage(random)),
    },
    Wave {
        name: "a start-up that is never read",
        has_sessions: true,
        count: 300,
        one: |ports, _, _| {
            let mut peer = Peer::connect(ports.sql).ok()?;
            peer.say(&startup(&[("user", "collie"), ("database", "collie")]));
            Some(peer)
        },
    },
    Wave {
        name: "strangers at the port for replicas",
        has_sessions: false,
        count: 300,
        one: |ports, n, random| {
            let kind = ["collie-stream", "collie-terms", "true", "database"][usize::try_from(n % 4).ok()?];
            let mut peer = Peer::connect(ports.replicas).ok()?;
            peer.say(&startup(&[("user", "collie"), ("replication", kind)]));
            peer.say(&garbage(random));
            Some(peer)
        },
    },
    Wave {
        name: "connections that come and go",
        has_sessions: false,
        count: 3000,
        one: |ports, n, _| {
            let bytes = if n % 2 == 0 { startup(&[("user", "collie"), ("database", "collie")]) } else { Vec::new() };
            anywhere(ports, n, &bytes).and(None)
        },
    },
    Wave {
        name: "sessions that come and go",
        has_sessions: true,
        count: 600,
        one: |ports, n, _| {
            let bytes = [query("SELECT 1"), message(b'X', b""), query("BEGIN; SELECT count(*) FROM accounts")];
            session(ports, &bytes[usize::try_from(n % 3).ok()?]).and(None)
        },
    },
    Wave {
        name: "cancels of anybody",
        has_sessions: false,
        count: 3000,
        one: |ports, _, random| {
            let mut peer = Peer::connect(ports.sql).ok()?;
            let key =
                [random.below(64).to_be_bytes()[4..].to_vec(), random.next().to_be_bytes()[4..].to_vec()].concat();
            peer.say(&cancel(&key));
            None
        },
    },
    Wave {
        name: "cancels with a wrong secret",
        has_sessions: true,
        count: 20,
        one: |ports, _, random| {
            let (held, key) = Peer::log_in(ports.sql).ok()?;
            for _ in 0..50 {
                let mut peer = Peer::connect(ports.sql).ok()?;
                peer.say(&key.wrong_cancel(random.next()));
            }
            Some(held)
        },
    },
    Wave {
        name: "answers that are never taken",
        has_sessions: true,
        count: 40,
        one: |ports, _, _| session(ports, &query("SELECT n, repeat('x', 1000) FROM generate_series(1, 10000000) n")),
    },
    Wave {
        name: "questions in a row, answers never taken",
        has_sessions: true,
        count: 40,
        one: |ports, _, _| session(ports, &query("SELECT repeat('x', 5000)").repeat(20_000)),
    },
    Wave {
        name: "half a message",
        has_sessions: true,
        count: 80,
        one: |ports, _, random| {
            // A message of the largest allowed length, of which only a small part is sent.
            let mut bytes = vec![b'Q'];
            bytes.extend((60_u32 << 20).to_be_bytes());
            bytes.extend(vec![b' '; usize::try_from(random.below(100_000)).ok()?]);
            session(ports, &bytes)
        },
    },
    Wave {
        name: "garbage after a login",
        has_sessions: true,
        count: 200,
        one: |ports, _, random| session(ports, &garbage(random)),
    },
    Wave {
        name: "transactions that are left open",
        has_sessions: true,
        count: 80,
        one: |ports, _, _| {
            session(ports, &query("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(abalance) FROM accounts"))
        },
    },
    Wave {
        name: "a COPY that never ends",
        has_sessions: true,
        count: 40,
        one: |ports, _, random| {
            let data = message(b'd', &garbage(random));
            session(ports, &[query("COPY stormed FROM STDIN"), data].concat())
        },
    },
    Wave {
        name: "HTTP answers that are never taken",
        has_sessions: false,
        count: 200,
        one: |ports, _, _| {
            let mut peer = Peer::connect(ports.http).ok()?;
            peer.say(&b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(500));
            Some(peer)
        },
    },
];

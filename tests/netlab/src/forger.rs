//! `Forger`: a proxy in front of a primary that changes replication packets in transit and seals them again, so that
//! neither checksum nor seal shows the change: the packets of a program with a bug, or with damaged memory. It has the
//! key of tests (`key.rs`), which it needs to forge.
//!
//! Packets are changed in place and keep their length. The other direction passes unchanged; the forger reads its
//! start-up, from which the keys of the seals are derived.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_base::checksum::crc32c;
use parking_lot::Mutex;

use crate::key::{hmac, key_of_listener};

/// The interval at which a waiting thread checks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The type, the length and the check byte (docs/replication-protocol.md).
const HEAD_BYTES: usize = 5;

/// The checksum at the end of a packet.
const CHECKSUM_BYTES: usize = 4;

/// The seal after a packet.
const SEAL_BYTES: usize = 16;

/// The type and length of a start-up message, and the code of an authentication message.
const MESSAGE_HEAD_BYTES: usize = 5;
const CODE_BYTES: usize = 4;

/// AuthenticationSASLContinue: the challenge.
const CHALLENGE: [u8; 4] = [0, 0, 0, 11];

/// The name of the mechanism and a length, which precede a greeting.
const GREETING_AT: usize = b"COLLIE-HMAC-SHA-256\0".len() + 4;

/// More than the length of a start-up.
const STARTUP_BYTES_MAX: usize = 4096;

/// The treatment of a packet's checksum and seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// They are computed again.
    Again,
    /// They stay as they were: the packet is damaged, and the receiver can see it.
    AsItWas,
}

/// A function that changes the payload of a packet of the given type, and decides about its checksum and seal.
pub type Forge = dyn Fn(u8, &mut [u8]) -> Sealed + Send + Sync;

/// A proxy that changes packets.
pub struct Forger {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl fmt::Debug for Forger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forger").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Forger {
    /// Starts a forger in front of the address at which `primary` serves replicas.
    ///
    /// # Errors
    /// Those of the operating system, such as that there is no free port.
    pub fn start(primary: SocketAddr, forge: Arc<Forge>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let accepting = thread::spawn(move || {
            let mut threads: Vec<JoinHandle<()>> = Vec::new();
            while !ended.load(Ordering::SeqCst) {
                threads.retain(|thread| !thread.is_finished());
                match listener.accept() {
                    Ok((near, _)) => threads.extend(pass_both(near, primary, &forge, &ended)),
                    Err(_) => thread::sleep(LOOK_EVERY),
                }
            }
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        Ok(Self { address, over, accepting: Some(accepting) })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forger {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take() {
            let _ended = accepting.join();
        }
    }
}

/// Passes bytes in both directions, on a thread each; it starts no thread if the primary cannot be reached.
fn pass_both(near: TcpStream, primary: SocketAddr, forge: &Arc<Forge>, over: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let prepared = TcpStream::connect(primary).and_then(|far| {
        for stream in [&near, &far] {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK_EVERY))?;
        }
        Ok((near.try_clone()?, far.try_clone()?, far))
    });
    let Ok((back_to, back_from, far)) = prepared else { return Vec::new() };
    let [out_over, back_over] = [over.clone(), over.clone()];
    let said: Arc<Mutex<Vec<u8>>> = Arc::default();
    let mut packets = Packets::new(forge.clone(), said.clone());
    vec![
        thread::spawn(move || {
            pass(&near, &far, &out_over, |bytes| {
                let mut said = said.lock();
                let room = STARTUP_BYTES_MAX.saturating_sub(said.len());
                said.extend_from_slice(&bytes[..bytes.len().min(room)]);
                bytes.to_vec()
            });
        }),
        thread::spawn(move || pass(&back_from, &back_to, &back_over, |bytes| packets.take(bytes))),
    ]
}

/// Passes on the result of `change` for each piece that arrives, until one side ends; then it ends both.
fn pass(mut from: &TcpStream, mut to: &TcpStream, over: &AtomicBool, mut change: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut piece = vec![0; 1 << 16];
    while !over.load(Ordering::SeqCst) {
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        if to.write_all(&change(&piece[..count])).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _gone_already = end.shutdown(Shutdown::Both);
    }
}

/// The bytes from a primary, cut into packets.
struct Packets {
    forge: Arc<Forge>,
    waiting: Vec<u8>,
    /// The first bytes that the connecting node has sent.
    said: Arc<Mutex<Vec<u8>>>,
    challenge: Vec<u8>,
    /// The key of the seals, once PostgreSQL's start-up is over and packets follow.
    key: Option<[u8; 32]>,
    /// The number of packets that have passed.
    passed: u64,
}

impl Packets {
    fn new(forge: Arc<Forge>, said: Arc<Mutex<Vec<u8>>>) -> Self {
        Self { forge, waiting: Vec::new(), said, challenge: Vec::new(), key: None, passed: 0 }
    }

    /// Takes bytes; returns those that can be passed on.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.waiting.extend_from_slice(bytes);
        let mut leave = Vec::new();
        while let Some(whole) = self.whole_bytes().filter(|whole| *whole <= self.waiting.len()) {
            let rest = self.waiting.split_off(whole);
            let mut packet = std::mem::replace(&mut self.waiting, rest);
            if self.key.is_some() {
                self.change(&mut packet);
            } else {
                self.start(&packet);
            }
            leave.extend_from_slice(&packet);
        }
        leave
    }

    /// Returns the length of the next message or packet, type and seal included; `None` until its head has arrived.
    fn whole_bytes(&self) -> Option<usize> {
        let head = self.waiting.first_chunk::<HEAD_BYTES>()?;
        let (length, seal_bytes) = match self.key {
            Some(_) => (u32::from_le_bytes([head[1], head[2], head[3], 0]), SEAL_BYTES),
            None => (u32::from_be_bytes([head[1], head[2], head[3], head[4]]), 0),
        };
        Some(1 + seal_bytes + usize::try_from(length).expect("a length of 32 bits"))
    }

    /// Processes a message of the start-up.
    fn start(&mut self, message: &[u8]) {
        let body = message.get(MESSAGE_HEAD_BYTES..).unwrap_or_default();
        match (message[0], body.split_at_checked(CODE_BYTES)) {
            (b'R', Some((code, challenge))) if code == CHALLENGE => self.challenge = challenge.to_vec(),
            (b'Z', _) => {
                let said = self.said.lock();
                // The start-up message has a length and no type; the parameters follow its version.
                let (head, _) = said.split_first_chunk().expect("it has said something");
                let (startup, more) = said.split_at(usize::try_from(u32::from_be_bytes(*head)).expect("it is short"));
                let greeting = more.get(MESSAGE_HEAD_BYTES + GREETING_AT..).expect("it has greeted");
                let key = key_of_listener(&startup[8..], greeting, &self.challenge);
                self.key = Some(key.expect("both have said all of it"));
            }
            _ => {}
        }
    }

    fn change(&mut self, packet: &mut [u8]) {
        let number = self.passed;
        self.passed += 1;
        let (Some(key), Some(sealed)) = (self.key, packet.len().checked_sub(SEAL_BYTES)) else { return };
        let (packet, seal) = packet.split_at_mut(sealed);
        let letter = packet[0];
        let Some(end) = packet.len().checked_sub(CHECKSUM_BYTES).filter(|end| *end >= HEAD_BYTES) else { return };
        if (self.forge)(letter, &mut packet[HEAD_BYTES..end]) == Sealed::Again {
            let (covered, checksum) = packet.split_at_mut(end);
            checksum.copy_from_slice(&crc32c(covered).to_le_bytes());
            seal.copy_from_slice(&hmac(&key, &[&number.to_le_bytes(), packet])[..SEAL_BYTES]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the start-up and unchanged packets pass as they are, however they are cut; a changed packet is sealed
    /// again, or left damaged. Method: a start-up, and the example packet of docs/replication-protocol.md twice, byte
    /// by byte and at once.
    #[test]
    fn packets_are_changed_and_sealed() {
        let message = |kind: &[u8], parts: &[&[u8]]| {
            let body = parts.concat();
            [kind, &u32::try_from(body.len() + 4).unwrap().to_be_bytes(), &body].concat()
        };
        let parameters = b"user\0collie\0replication\0collie\0application_name\0north\0\0";
        let (greeting, challenge) =
            ([&[1][..], &[7; 32], &[1], &[3; 8]].concat(), [[3; 8].as_slice(), &[9; 32], &[0; 32]].concat());
        let said = [
            message(b"", &[&[0, 3, 0, 0], parameters]),
            message(b"p", &[b"COLLIE-HMAC-SHA-256\0", &42_u32.to_be_bytes(), &greeting]),
            message(b"p", &[&[5; 32]]),
        ];
        let start = [
            message(b"R", &[&[0, 0, 0, 10], b"COLLIE-HMAC-SHA-256\0\0"]),
            message(b"R", &[&CHALLENGE, &challenge]),
            message(b"R", &[&[0; 4]]),
            message(b"Z", &[b"I"]),
        ]
        .concat();
        let key = key_of_listener(parameters, &greeting, &challenge).unwrap();
        let mut synced = b"s\x18\x00\x00\x2a".to_vec();
        synced.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0x32, 0xa6, 0xbf, 0x7d]);
        let seal = |number: u64, packet: &[u8]| hmac(&key, &[&number.to_le_bytes(), packet])[..SEAL_BYTES].to_vec();
        let stream = [&start[..], &synced, &seal(0, &synced), &synced, &seal(1, &synced)].concat();
        let pass = |piece: usize, forge: Arc<Forge>| {
            let mut packets = Packets::new(forge, Arc::new(Mutex::new(said.concat())));
            stream.chunks(piece).flat_map(|bytes| packets.take(bytes)).collect::<Vec<u8>>()
        };
        for piece in [1, 7, stream.len()] {
            assert_eq!(pass(piece, Arc::new(|_, _| Sealed::Again)), stream, "the same checksum and seal are computed");
            let changed = pass(
                piece,
                Arc::new(|letter, payload| {
                    assert_eq!((letter, payload.len()), (b's', 16));
                    payload[8] = 1;
                    Sealed::Again
                }),
            );
            let (one, other) = changed[start.len()..].split_at(synced.len() + SEAL_BYTES);
            let (one, its_seal) = one.split_at(synced.len());
            assert!(one == &other[..one.len()] && one[13] == 1 && one[21..] == crc32c(&one[..21]).to_le_bytes());
            assert!(its_seal == seal(0, one) && other[one.len()..] == seal(1, one));
            let broken = pass(
                piece,
                Arc::new(|_, payload| {
                    payload[8] = 1;
                    Sealed::AsItWas
                }),
            );
            assert_eq!(broken[start.len() + 21..start.len() + 25], synced[21..]);
        }
    }
}

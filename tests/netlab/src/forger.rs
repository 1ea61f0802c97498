//! `Forger`: a proxy in front of a primary that changes packets of replication on their way and seals them again, so that no checksum
//! tells: what a mistake in a program, or in its memory, would send.
//!
//! Changes are made in place: no packet gets longer or shorter. The other direction is left alone.

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

/// How often a thread that waits looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Type, length and check byte (docs/replication-protocol.md).
const HEAD_BYTES: usize = 5;

/// The checksum at the end.
const SEAL_BYTES: usize = 4;

/// What becomes of a packet's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// It is made to fit.
    Again,
    /// It is left as it was: the packet is damaged, and shows it.
    AsItWas,
}

/// Changes the payload of a packet of the type that comes with it, and says what becomes of its checksum.
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
    /// Starts one in front of `primary`, where it serves replicas.
    ///
    /// # Errors
    /// There is no free port.
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

    /// Returns where it listens.
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

/// Passes bytes in both directions, on a thread each; none when the primary cannot be reached.
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
    let mut packets = Packets { forge: forge.clone(), waiting: Vec::new(), is_greeted: false };
    vec![
        thread::spawn(move || pass(&near, &far, &out_over, |bytes| bytes.to_vec())),
        thread::spawn(move || pass(&back_from, &back_to, &back_over, |bytes| packets.take(bytes))),
    ]
}

/// Passes on what `change` makes of what comes, until one side ends; then both do.
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

/// What comes from a primary, cut into packets.
struct Packets {
    forge: Arc<Forge>,
    waiting: Vec<u8>,
    /// PostgreSQL's start-up is over: packets follow.
    is_greeted: bool,
}

impl Packets {
    /// Takes bytes; returns those that may leave.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.waiting.extend_from_slice(bytes);
        let mut leave = Vec::new();
        while let Some(whole) = self.whole_bytes().filter(|whole| *whole <= self.waiting.len()) {
            let rest = self.waiting.split_off(whole);
            let mut packet = std::mem::replace(&mut self.waiting, rest);
            if self.is_greeted {
                self.change(&mut packet);
            } else {
                self.is_greeted = packet[0] == b'Z';
            }
            leave.extend_from_slice(&packet);
        }
        leave
    }

    /// Returns the length of what comes next, type and all; `None` until that is there.
    fn whole_bytes(&self) -> Option<usize> {
        let head = self.waiting.first_chunk::<HEAD_BYTES>()?;
        let length = if self.is_greeted {
            u32::from_le_bytes([head[1], head[2], head[3], 0])
        } else {
            u32::from_be_bytes([head[1], head[2], head[3], head[4]])
        };
        Some(1 + usize::try_from(length).expect("a length of 32 bits"))
    }

    fn change(&self, packet: &mut [u8]) {
        let sealed = packet.len().saturating_sub(SEAL_BYTES);
        let letter = packet[0];
        let Some(payload) = packet.get_mut(HEAD_BYTES..sealed) else { return };
        if (self.forge)(letter, payload) == Sealed::Again {
            let (covered, seal) = packet.split_at_mut(sealed);
            seal.copy_from_slice(&crc32c(covered).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what comes before packets and packets that nobody changes pass as they are, however they are cut; a changed one is sealed again, or
    /// left damaged. Method: a start-up's answer, the packet of docs/replication-protocol.md's example twice, byte by byte and at once.
    #[test]
    fn packets_are_changed_and_sealed() {
        let greeting = b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I";
        let mut synced = b"s\x18\x00\x00\x2a".to_vec();
        synced.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0x32, 0xa6, 0xbf, 0x7d]);
        let stream = [&greeting[..], &synced, &synced].concat();
        let pass = |piece: usize, forge: Arc<Forge>| {
            let mut packets = Packets { forge, waiting: Vec::new(), is_greeted: false };
            stream.chunks(piece).flat_map(|bytes| packets.take(bytes)).collect::<Vec<u8>>()
        };
        for piece in [1, 7, stream.len()] {
            assert_eq!(pass(piece, Arc::new(|_, _| Sealed::Again)), stream, "the same checksum is computed");
            let changed = pass(
                piece,
                Arc::new(|letter, payload| {
                    assert_eq!((letter, payload.len()), (b's', 16));
                    payload[8] = 1;
                    Sealed::Again
                }),
            );
            let (one, other) = changed[greeting.len()..].split_at(synced.len());
            assert!(one == other && one[13] == 1 && one[21..] == crc32c(&one[..21]).to_le_bytes());
            let broken = pass(
                piece,
                Arc::new(|_, payload| {
                    payload[8] = 1;
                    Sealed::AsItWas
                }),
            );
            assert_eq!(broken[greeting.len() + 21..greeting.len() + 25], synced[21..]);
        }
    }
}

//! The network: hosts, the links between them, and the two ends of each connection.
//!
//! # Invariants
//! - N1. The bytes that one end sends arrive at the other completely, once and in order, after the latency of the link.
//! - N2. A segment that arrives while its link is cut or its host is off waits, as with TCP's retransmissions, and is
//!   delivered when that is over.
//! - N3. The kernel of a host that is on answers for dead processes: it answers a segment for a missing end with a
//!   reset. A host that is off is silent.
//!
//! Checked by `tests`.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{Ipv4Addr, SocketAddrV4},
};

use crate::{
    descriptors::{AT_END, FAILED, READ, WRITE},
    kernel::Kernel,
};

/// Most bytes that one end may have sent and the other has not read.
const WINDOW_BYTES: usize = 256 << 10;

/// Most connections that wait for a listener to accept them.
const BACKLOG: usize = 1024;

/// The latency between two processes of one host, at least and at most.
const LOOPBACK_NS: (u64, u64) = (5_000, 30_000);

/// The time after which an end gives up a connection whose other end lost its power, as with keepalive.
const SILENCE_NS: u64 = 60_000_000_000;

/// The first port that connecting ends get.
const FIRST_PORT: u16 = 32_768;

/// One end of a connection, by its number.
pub(crate) type EndId = u64;

#[derive(Debug)]
struct Host {
    address: Ipv4Addr,
    is_on: bool,
    next_port: u16,
}

/// One direction between two hosts.
#[derive(Debug)]
struct Link {
    is_cut: bool,
    latency_ns: (u64, u64),
    /// No segment that is sent now arrives before this time, which keeps the order.
    last_ns: u64,
    /// The segments that wait (N2).
    held: VecDeque<Segment>,
}

impl Default for Link {
    fn default() -> Self {
        Self { is_cut: false, latency_ns: (50_000, 200_000), last_ns: 0, held: VecDeque::new() }
    }
}

#[derive(Debug)]
struct Segment {
    from: usize,
    to: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Requests a connection.
    Syn {
        by: EndId,
        address: SocketAddrV4,
    },
    /// Accepts the connection.
    SynAck {
        to: EndId,
        by: EndId,
    },
    Data {
        to: EndId,
        by: EndId,
        bytes: Vec<u8>,
    },
    /// The sender has stopped sending.
    Fin {
        to: EndId,
        by: EndId,
    },
    Reset {
        to: EndId,
    },
    /// The other end was silent for too long.
    Silence {
        to: EndId,
    },
}

/// The state of a connection, as one end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    /// It is over; the next call gets this error, once.
    Failed(Option<i32>),
}

#[derive(Debug)]
struct End {
    host: usize,
    peer_host: usize,
    peer: Option<EndId>,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    phase: Phase,
    /// The bytes that arrived and were not read.
    received: VecDeque<u8>,
    /// The peer has stopped sending.
    is_at_end: bool,
    /// This end has stopped sending.
    is_shut: bool,
    /// The bytes that were sent and have not arrived.
    on_the_way: usize,
    /// A send found too little room.
    wants_room: bool,
    /// The descriptor that gets its news; none in a backlog.
    descriptor: Option<i32>,
}

#[derive(Debug)]
struct Listener {
    descriptor: i32,
    backlog: VecDeque<EndId>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Network {
    hosts: Vec<Host>,
    links: BTreeMap<(usize, usize), Link>,
    /// The segments on their way, by the time of arrival and the order of sending.
    events: BTreeMap<(u64, u64), Segment>,
    sent: u64,
    ends: BTreeMap<EndId, End>,
    last_end: EndId,
    listeners: BTreeMap<SocketAddrV4, Listener>,
}

impl Network {
    pub(crate) fn add_host(&mut self, address: Ipv4Addr) -> usize {
        self.hosts.push(Host { address, is_on: true, next_port: FIRST_PORT });
        self.hosts.len() - 1
    }

    fn host_at(&self, address: Ipv4Addr) -> Option<usize> {
        self.hosts.iter().position(|host| host.address == address)
    }

    pub(crate) fn address_of(&self, host: usize) -> Ipv4Addr {
        self.hosts[host].address
    }

    fn window(&self, end: &End) -> usize {
        let unread = end.peer.and_then(|peer| self.ends.get(&peer)).map_or(0, |peer| peer.received.len());
        WINDOW_BYTES.saturating_sub(end.on_the_way + unread)
    }

    fn port(&mut self, host: usize) -> u16 {
        let port = self.hosts[host].next_port;
        self.hosts[host].next_port = if port == u16::MAX { FIRST_PORT } else { port + 1 };
        port
    }

    fn add_end(&mut self, end: End) -> EndId {
        self.last_end += 1;
        self.ends.insert(self.last_end, end);
        self.last_end
    }

    /// Returns the operations that are possible at an end now.
    pub(crate) fn readiness(&self, end: EndId) -> u32 {
        let Some(end) = self.ends.get(&end) else { return READ | WRITE | FAILED };
        let mut ready = 0;
        match end.phase {
            Phase::Connecting => return 0,
            Phase::Failed(_) => ready |= READ | WRITE | FAILED,
            Phase::Open => {}
        }
        if !end.received.is_empty() || end.is_at_end {
            ready |= READ;
        }
        if end.is_at_end {
            ready |= AT_END;
        }
        if self.window(end) > 0 {
            ready |= WRITE;
        }
        ready
    }

    /// Returns whether a connection waits to be accepted.
    pub(crate) fn is_called(&self, listener: SocketAddrV4) -> bool {
        self.listeners.get(&listener).is_some_and(|listener| !listener.backlog.is_empty())
    }

    /// Returns the addresses of an end, and whether it is connected.
    pub(crate) fn addresses(&self, end: EndId) -> Option<(SocketAddrV4, SocketAddrV4, bool)> {
        self.ends.get(&end).map(|end| (end.local, end.remote, end.phase == Phase::Open))
    }

    /// Returns the error of an end, and clears it.
    pub(crate) fn take_error(&mut self, end: EndId) -> i32 {
        match self.ends.get_mut(&end).map(|end| &mut end.phase) {
            Some(Phase::Failed(error)) => error.take().unwrap_or(0),
            _ => 0,
        }
    }
}

impl Kernel {
    fn send_segment(&mut self, from: usize, to: usize, what: What) {
        let (lowest, highest) = match from == to {
            true => LOOPBACK_NS,
            false => self.network.links.entry((from, to)).or_default().latency_ns,
        };
        let latency_ns = self.between(lowest, highest);
        let link = self.network.links.entry((from, to)).or_default();
        link.last_ns = link.last_ns.max(self.now_ns + latency_ns);
        let at_ns = link.last_ns;
        self.network.sent += 1;
        self.network.events.insert((at_ns, self.network.sent), Segment { from, to, what });
    }

    /// Returns the time of the next arrival.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        self.network.events.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    /// Delivers all segments that are due.
    pub(crate) fn deliver(&mut self) {
        while let Some(entry) = self.network.events.first_entry().filter(|entry| entry.key().0 <= self.now_ns) {
            let segment = entry.remove();
            let link = self.network.links.entry((segment.from, segment.to)).or_default();
            let is_held = link.is_cut || !link.held.is_empty() || !self.network.hosts[segment.to].is_on;
            match is_held {
                true => link.held.push_back(segment), // N2
                false => self.arrive(segment),
            }
        }
    }

    fn arrive(&mut self, segment: Segment) {
        let Segment { from, to, what } = segment;
        match what {
            What::Syn { by, address } => self.called(by, address, (from, to)),
            What::SynAck { to: end, by } => match self.network.ends.get_mut(&end) {
                Some(of) if of.phase == Phase::Connecting => {
                    (of.phase, of.peer) = (Phase::Open, Some(by));
                    self.tell(end, WRITE);
                }
                _ => self.send_segment(to, from, What::Reset { to: by }),
            },
            What::Data { to: end, by, bytes } => {
                if let Some(sender) = self.network.ends.get_mut(&by) {
                    sender.on_the_way = sender.on_the_way.saturating_sub(bytes.len());
                }
                match self.network.ends.get_mut(&end).filter(|of| of.phase == Phase::Open) {
                    Some(of) => {
                        of.received.extend(bytes);
                        self.tell(end, READ);
                    }
                    None => self.send_segment(to, from, What::Reset { to: by }), // N3
                }
            }
            What::Fin { to: end, by } => match self.network.ends.get_mut(&end) {
                Some(of) => {
                    of.is_at_end = true;
                    self.tell(end, READ | AT_END);
                }
                None => self.send_segment(to, from, What::Reset { to: by }),
            },
            What::Reset { to: end } => {
                let of = self.network.ends.get(&end);
                let is_refused = of.is_some_and(|of| of.phase == Phase::Connecting);
                self.fail_end(end, if is_refused { libc::ECONNREFUSED } else { libc::ECONNRESET });
            }
            What::Silence { to: end } => self.fail_end(end, libc::ETIMEDOUT),
        }
    }

    fn fail_end(&mut self, end: EndId, error: i32) {
        if let Some(of) = self.network.ends.get_mut(&end)
            && !matches!(of.phase, Phase::Failed(_))
        {
            of.phase = Phase::Failed(Some(error));
            self.tell(end, READ | WRITE | FAILED);
        }
    }

    /// Handles a request for a connection.
    fn called(&mut self, by: EndId, address: SocketAddrV4, (from, to): (usize, usize)) {
        let Some(remote) = self.network.ends.get(&by).map(|end| end.local) else { return };
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port());
        let listener = [address, any].into_iter().find(|at| self.network.listeners.contains_key(at));
        let listener = listener.filter(|at| self.network.listeners[at].backlog.len() < BACKLOG);
        let Some(listener) = listener else { return self.send_segment(to, from, What::Reset { to: by }) };
        let end = self.network.add_end(End {
            host: to,
            peer_host: from,
            peer: Some(by),
            local: address,
            remote,
            phase: Phase::Open,
            received: VecDeque::new(),
            is_at_end: false,
            is_shut: false,
            on_the_way: 0,
            wants_room: false,
            descriptor: None,
        });
        self.send_segment(to, from, What::SynAck { to: by, by: end });
        let mut descriptor = None;
        if let Some(listener) = self.network.listeners.get_mut(&listener) {
            listener.backlog.push_back(end);
            descriptor = Some(listener.descriptor);
        }
        descriptor.into_iter().for_each(|descriptor| self.news(descriptor, READ));
    }

    /// Reports news of an end to its descriptor.
    fn tell(&mut self, end: EndId, news: u32) {
        let descriptor = self.network.ends.get(&end).and_then(|end| end.descriptor);
        descriptor.into_iter().for_each(|descriptor| self.news(descriptor, news));
    }

    /// Listens at an address of `host`; returns it, with a drawn port if 0 was requested.
    pub(crate) fn listen(&mut self, host: usize, address: SocketAddrV4, descriptor: i32) -> Result<SocketAddrV4, i32> {
        let mut address = address;
        if address.port() == 0 {
            address.set_port(self.network.port(host));
        }
        if self.network.listeners.contains_key(&address) {
            return Err(libc::EADDRINUSE);
        }
        self.network.listeners.insert(address, Listener { descriptor, backlog: VecDeque::new() });
        Ok(address)
    }

    /// Returns whether a socket listens there.
    pub(crate) fn is_taken(&self, address: SocketAddrV4) -> bool {
        self.network.listeners.contains_key(&address)
    }

    /// Accepts a connection, if one waits.
    pub(crate) fn accept(&mut self, listener: SocketAddrV4) -> Option<EndId> {
        self.network.listeners.get_mut(&listener).and_then(|listener| listener.backlog.pop_front())
    }

    /// Stops listening; resets the connections that were not accepted.
    pub(crate) fn unlisten(&mut self, listener: SocketAddrV4) {
        if let Some(listener) = self.network.listeners.remove(&listener) {
            listener.backlog.into_iter().for_each(|end| self.reset_end(end));
        }
    }

    /// Sets the descriptor that gets the news of an end.
    pub(crate) fn watch_end(&mut self, end: EndId, descriptor: i32) {
        self.network.ends.get_mut(&end).into_iter().for_each(|end| end.descriptor = Some(descriptor));
    }

    /// Starts to connect from `host`.
    pub(crate) fn connect(&mut self, host: usize, address: SocketAddrV4, descriptor: i32) -> Result<EndId, i32> {
        let Some(to) = self.network.host_at(*address.ip()) else { return Err(libc::ENETUNREACH) };
        let local = SocketAddrV4::new(self.network.address_of(host), self.network.port(host));
        let end = self.network.add_end(End {
            host,
            peer_host: to,
            peer: None,
            local,
            remote: address,
            phase: Phase::Connecting,
            received: VecDeque::new(),
            is_at_end: false,
            is_shut: false,
            on_the_way: 0,
            wants_room: false,
            descriptor: Some(descriptor),
        });
        self.send_segment(host, to, What::Syn { by: end, address });
        Ok(end)
    }

    /// Sends as many bytes as there is room for; returns their number.
    pub(crate) fn send(&mut self, id: EndId, bytes: &[u8]) -> Result<usize, i32> {
        let Some(end) = self.network.ends.get(&id) else { return Err(libc::EPIPE) };
        let room = self.network.window(end);
        let Some(end) = self.network.ends.get_mut(&id) else { return Err(libc::EPIPE) };
        match &mut end.phase {
            Phase::Connecting => return Err(libc::ENOTCONN),
            Phase::Failed(error) => return Err(error.take().unwrap_or(libc::EPIPE)),
            Phase::Open if end.is_shut => return Err(libc::EPIPE),
            Phase::Open => {}
        }
        let count = room.min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            end.wants_room = true;
            return Err(libc::EAGAIN);
        }
        end.on_the_way += count;
        end.wants_room = count < bytes.len();
        let (from, to, peer) = (end.host, end.peer_host, end.peer.unwrap_or(0));
        let bytes = bytes.get(..count).unwrap_or_default().to_vec();
        self.send_segment(from, to, What::Data { to: peer, by: id, bytes });
        Ok(count)
    }

    /// Reads the received bytes, as many as fit into `bytes`.
    pub(crate) fn receive(&mut self, id: EndId, bytes: &mut [u8]) -> Result<usize, i32> {
        let Some(end) = self.network.ends.get_mut(&id) else { return Err(libc::EBADF) };
        if end.received.is_empty() {
            return match &mut end.phase {
                Phase::Connecting => Err(libc::ENOTCONN),
                Phase::Failed(error) => error.take().map_or(Ok(0), Err),
                Phase::Open if end.is_at_end => Ok(0),
                Phase::Open => Err(libc::EAGAIN),
            };
        }
        let count = bytes.len().min(end.received.len());
        bytes.iter_mut().zip(end.received.drain(..count)).for_each(|(to, from)| *to = from);
        let peer = end.peer;
        let is_awaited = peer.and_then(|peer| self.network.ends.get_mut(&peer)).filter(|peer| peer.wants_room);
        if let (Some(of), Some(peer)) = (is_awaited, peer) {
            of.wants_room = false;
            self.tell(peer, WRITE);
        }
        Ok(count)
    }

    /// Stops sending, and tells the peer.
    pub(crate) fn shut(&mut self, id: EndId) -> Result<(), i32> {
        let Some(end) = self.network.ends.get_mut(&id) else { return Err(libc::ENOTCONN) };
        match end.phase {
            Phase::Open if !end.is_shut => {
                end.is_shut = true;
                let (from, to, peer) = (end.host, end.peer_host, end.peer.unwrap_or(0));
                self.send_segment(from, to, What::Fin { to: peer, by: id });
                Ok(())
            }
            Phase::Open => Ok(()),
            Phase::Connecting | Phase::Failed(_) => Err(libc::ENOTCONN),
        }
    }

    /// Closes an end: in order if all bytes were read, otherwise with a reset.
    pub(crate) fn close_end(&mut self, id: EndId) {
        let Some(end) = self.network.ends.get(&id) else { return };
        match end.phase {
            Phase::Open if end.received.is_empty() => {
                let _was_open = self.shut(id);
                self.network.ends.remove(&id);
            }
            Phase::Open => self.reset_end(id),
            Phase::Connecting | Phase::Failed(_) => {
                self.network.ends.remove(&id);
            }
        }
    }

    fn reset_end(&mut self, id: EndId) {
        let Some(end) = self.network.ends.remove(&id) else { return };
        if let (Phase::Open, Some(peer)) = (end.phase, end.peer) {
            self.send_segment(end.host, end.peer_host, What::Reset { to: peer });
        }
    }

    /// Cuts or restores the link from one host to another.
    pub(crate) fn set_cut(&mut self, from: usize, to: usize, is_cut: bool) {
        self.network.links.entry((from, to)).or_default().is_cut = is_cut;
        self.release(from, to);
    }

    /// Sets the latency of a link, at least and at most.
    pub(crate) fn set_latency(&mut self, from: usize, to: usize, latency_ns: (u64, u64)) {
        self.network.links.entry((from, to)).or_default().latency_ns = latency_ns;
    }

    /// Turns a host off silently, so that its connections vanish and their peers get no message (N3); or turns it on.
    pub(crate) fn set_on(&mut self, host: usize, is_on: bool) {
        self.network.hosts[host].is_on = is_on;
        if is_on {
            (0..self.network.hosts.len()).for_each(|from| self.release(from, host));
        } else {
            self.network.ends.retain(|_, end| end.host != host);
            let left = self.network.ends.iter().filter(|(_, end)| end.peer_host == host);
            let left: Vec<(EndId, usize)> = left.map(|(id, end)| (*id, end.host)).collect();
            for (to, of) in left {
                self.network.sent += 1;
                let segment = Segment { from: of, to: of, what: What::Silence { to } };
                self.network.events.insert((self.now_ns + SILENCE_NS, self.network.sent), segment);
            }
            let address = self.network.address_of(host);
            self.network.listeners.retain(|at, _| *at.ip() != address);
        }
    }

    /// Sends the held segments again, unless the link is still cut or the host still off.
    fn release(&mut self, from: usize, to: usize) {
        let is_on = self.network.hosts[to].is_on;
        let link = self.network.links.entry((from, to)).or_default();
        if link.is_cut || !is_on {
            return;
        }
        let held = std::mem::take(&mut link.held);
        for segment in held {
            let Segment { from, to, what } = segment;
            self.send_segment(from, to, what);
        }
    }
}

//! `Proxy`: see the crate's documentation.
//!
//! One thread accepts; each connection has one thread in each direction, which reads, keeps bytes that are not due yet,
//! and writes. The threads check the weather between two reads, at least every [`LOOK_EVERY`].

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_env::{Clock, Env, SimRandom};
use parking_lot::Mutex;
use tokio::net::TcpSocket;

/// The interval at which a waiting thread checks the weather.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Most bytes that wait in one direction because they are not due: after that the sender waits.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Most bytes that are passed on at once.
const PIECE_BYTES: usize = 16 << 10;

/// The direction in which bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the connecting side to the target.
    Out,
    /// From the target to the connecting side.
    Back,
}

/// Both directions.
const BOTH: [Direction; 2] = [Direction::Out, Direction::Back];

/// The state of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Nothing passes (W2).
    pub cut: bool,
    /// The delay of each byte.
    pub delay: Duration,
    /// The most by which the delay is raised at random; the order is kept.
    pub jitter: Duration,
    /// The bytes that pass in a second; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Most bytes that come out at once, if it is not 0: 1 exposes programs that count on messages arriving whole.
    pub piece_bytes: usize,
}

#[derive(Debug, Default)]
struct Way {
    weather: Mutex<Weather>,
    /// The bytes that have passed, over all connections.
    passed: AtomicU64,
    /// The places in that count at which a bit is still to be flipped, with the number of the bit.
    flips: Mutex<Vec<(u64, u8)>>,
    flipped: AtomicU64,
}

impl Way {
    /// Takes the flips that are due before the count reaches `end`.
    fn take_flips(&self, end: u64) -> Vec<(u64, u8)> {
        self.flips.lock().extract_if(.., |(at, _)| *at < end).collect()
    }
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    ways: [Way; 2],
    /// Grows with each reset, which ends the earlier connections.
    resets: AtomicU64,
    /// Whether new connections are reset at once.
    refuses: AtomicBool,
    ended: AtomicBool,
    accepted: AtomicU64,
    clock: Arc<dyn Clock>,
    random: SimRandom,
}

impl Shared {
    fn way(&self, direction: Direction) -> &Way {
        let [out, back] = &self.ways;
        match direction {
            Direction::Out => out,
            Direction::Back => back,
        }
    }
}

/// A proxy in front of one address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of `target`; `seed` determines the jitter.
    ///
    /// # Errors
    /// Those of the operating system, such as that there is no free port.
    pub fn start(target: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            ways: Default::default(),
            resets: AtomicU64::new(0),
            refuses: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            clock: Env::real().clock,
            random: SimRandom::new(seed),
        });
        let accepting = shared.clone();
        let accepting = thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the target of later connections.
    pub fn set_target(&self, target: SocketAddr) {
        *self.shared.target.lock() = target;
    }

    /// Changes the weather in one direction, also for existing connections.
    pub fn set(&self, direction: Direction, weather: Weather) {
        *self.shared.way(direction).weather.lock() = weather;
    }

    /// Changes the weather in both directions.
    pub fn set_both(&self, weather: Weather) {
        BOTH.into_iter().for_each(|direction| self.set(direction, weather));
    }

    /// Cuts one direction (W2).
    pub fn cut(&self, direction: Direction) {
        self.shared.way(direction).weather.lock().cut = true;
    }

    /// Cuts both directions: a partition, or a peer that lost its power.
    pub fn cut_both(&self) {
        BOTH.into_iter().for_each(|direction| self.cut(direction));
    }

    /// Gives both directions fine weather, and accepts connections again.
    pub fn heal(&self) {
        self.set_both(Weather::default());
        self.shared.refuses.store(false, Ordering::SeqCst);
    }

    /// Ends every connection with RST, whatever the weather.
    pub fn reset(&self) {
        self.shared.resets.fetch_add(1, Ordering::SeqCst);
    }

    /// Resets new connections at once, as a machine does at a port without a listener, until [`Proxy::heal`].
    pub fn refuse(&self) {
        self.shared.refuses.store(true, Ordering::SeqCst);
    }

    /// Flips a bit (0 to 7) of the byte that passes after `bytes` further ones, or of the next byte if those are
    /// passing just now.
    pub fn flip(&self, direction: Direction, bytes: u64, bit: u8) {
        let way = self.shared.way(direction);
        way.flips.lock().push((way.passed.load(Ordering::SeqCst).saturating_add(bytes), bit % 8));
    }

    /// Returns the number of flipped bits.
    pub fn flipped(&self) -> u64 {
        self.shared.ways.iter().map(|way| way.flipped.load(Ordering::SeqCst)).sum()
    }

    /// Returns the number of bytes that have passed in a direction.
    pub fn passed(&self, direction: Direction) -> u64 {
        self.shared.way(direction).passed.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that have arrived.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take() {
            let _ended = accepting.join();
        }
    }
}

/// Accepts until the proxy ends, then waits for its connections.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.ended.load(Ordering::SeqCst) {
        threads.retain(|thread| !thread.is_finished());
        let Ok((near, _)) = listener.accept() else {
            thread::sleep(LOOK_EVERY);
            continue;
        };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let target = *shared.target.lock();
        let far = match TcpStream::connect(target) {
            Ok(far) if !shared.refuses.load(Ordering::SeqCst) => far,
            _ => {
                let _best_effort = close_by_reset(&near);
                continue;
            }
        };
        let (near, far) = (Arc::new(near), Arc::new(far));
        if let Err(error) = prepare(&near).and_then(|()| prepare(&far)) {
            eprintln!("netlab: a connection is not taken: {error}");
            continue;
        }
        let over = Arc::new(AtomicBool::new(false));
        for (direction, from, to) in [(Direction::Out, &near, &far), (Direction::Back, &far, &near)] {
            let resets = shared.resets.load(Ordering::SeqCst);
            let pump = Pump {
                shared: shared.clone(),
                direction,
                ends: [from.clone(), to.clone()],
                over: over.clone(),
                resets,
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                free_ns: 0,
            };
            threads.push(thread::spawn(move || pump.run()));
        }
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(LOOK_EVERY))
}

/// One direction of one connection.
struct Pump {
    shared: Arc<Shared>,
    direction: Direction,
    /// The socket that bytes come from, and the one that they go to.
    ends: [Arc<TcpStream>; 2],
    /// Set when the connection is reset or one of its ends is gone, so that the other thread ends too.
    over: Arc<AtomicBool>,
    /// The number of resets before this connection.
    resets: u64,
    /// The bytes that are not due yet, with the times at which they are.
    waiting: VecDeque<(u64, Vec<u8>)>,
    waiting_bytes: usize,
    /// The time at which the next byte may pass, at the rate of the weather.
    free_ns: u64,
}

/// The result of a read.
enum Came {
    Bytes(usize),
    Nothing,
    End,
}

impl Pump {
    fn run(mut self) {
        let result = self.pass();
        let [from, to] = &self.ends;
        match result {
            // The other direction may still have bytes to pass.
            Ok(()) => {
                let _gone_already = to.shutdown(Shutdown::Write);
            }
            Err(_) => {
                // Closing with unsent bytes and no time to send them makes the kernel send RST. No other thread holds
                // the sockets once both threads are gone.
                self.over.store(true, Ordering::SeqCst);
                for end in [from, to] {
                    let _best_effort = close_by_reset(end);
                }
            }
        }
    }

    /// Passes bytes until the sender has ended and all bytes are out.
    ///
    /// # Errors
    /// Any error means that the connection must be reset.
    fn pass(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut ended = false;
        loop {
            let reset = self.shared.resets.load(Ordering::SeqCst) > self.resets;
            if reset || self.over.load(Ordering::SeqCst) || self.shared.ended.load(Ordering::SeqCst) {
                return Err(ErrorKind::ConnectionReset.into());
            }
            let weather = *self.shared.way(self.direction).weather.lock();
            if weather.cut {
                thread::sleep(LOOK_EVERY);
                continue;
            }
            if ended && self.waiting.is_empty() {
                return Ok(());
            }
            let moved = self.write(weather)?;
            if moved && !self.waiting.is_empty() {
                continue; // more may be due
            }
            if ended || self.waiting_bytes >= WAITING_BYTES_MAX {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            match self.read(&mut piece)? {
                Came::Bytes(count) => self.take(&piece[..count], weather),
                Came::Nothing => {}
                Came::End => ended = true,
            }
        }
    }

    /// Waits for bytes for a short time.
    fn read(&self, piece: &mut [u8]) -> io::Result<Came> {
        let [mut from, _] = self.ends.each_ref().map(AsRef::as_ref);
        // Waiting bytes may be due soon, so the wait is shorter then.
        let wait = if self.waiting.is_empty() { LOOK_EVERY } else { Duration::from_millis(1) };
        from.set_read_timeout(Some(wait))?;
        match from.read(piece) {
            Ok(0) => Ok(Came::End),
            Ok(count) => Ok(Came::Bytes(count)),
            Err(error) if is_timeout(&error) => Ok(Came::Nothing),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, bytes: &[u8], weather: Weather) {
        let jitter_ns = u64::try_from(weather.jitter.as_nanos()).unwrap_or(u64::MAX);
        let jitter_ns = if jitter_ns == 0 { 0 } else { self.shared.random.below(jitter_ns) };
        let delay_ns = u64::try_from(weather.delay.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.shared.clock.now_ns().saturating_add(delay_ns).saturating_add(jitter_ns);
        let due_ns = self.waiting.back().map_or(due_ns, |(last_ns, _)| due_ns.max(*last_ns));
        self.waiting_bytes += bytes.len();
        self.waiting.push_back((due_ns, bytes.to_vec()));
    }

    /// Writes bytes that are due, as far as possible; returns whether any byte went out.
    fn write(&mut self, weather: Weather) -> io::Result<bool> {
        let now_ns = self.shared.clock.now_ns();
        let Some((due_ns, bytes)) = self.waiting.front_mut() else { return Ok(false) };
        if *due_ns > now_ns || self.free_ns > now_ns {
            return Ok(false);
        }
        let mut count = bytes.len();
        if weather.piece_bytes > 0 {
            count = count.min(weather.piece_bytes);
        }
        if let Some(rate) = weather.bytes_per_second {
            // Writes the bytes of a fiftieth of a second at a time.
            count = count.min(usize::try_from(rate / 50).unwrap_or(usize::MAX).max(1));
        }
        let way = self.shared.way(self.direction);
        let passed = way.passed.load(Ordering::SeqCst);
        let flips = way.take_flips(passed.saturating_add(count as u64));
        // A flip that was requested while the bytes before it were written has its place behind by now, and is due at
        // once.
        let place = |at: u64| usize::try_from(at.saturating_sub(passed)).unwrap_or(usize::MAX);
        let mut piece = bytes[..count].to_vec();
        flips.iter().for_each(|(at, bit)| piece[place(*at)] ^= 1 << bit);
        let [_, mut to] = self.ends.each_ref().map(AsRef::as_ref);
        let written = to.write(&piece);
        let sent = written.as_ref().map_or(0, |sent| *sent);
        // A flip whose byte was not sent stays due for the next write.
        let (flipped, unsent): (Vec<_>, Vec<_>) = flips.into_iter().partition(|(at, _)| place(*at) < sent);
        way.flips.lock().extend(unsent);
        way.flipped.fetch_add(flipped.len() as u64, Ordering::SeqCst);
        way.passed.fetch_add(sent as u64, Ordering::SeqCst);
        match written {
            Err(error) if is_timeout(&error) => return Ok(false),
            written => written?,
        };
        bytes.drain(..sent);
        if bytes.is_empty() {
            self.waiting.pop_front();
        }
        self.waiting_bytes -= sent;
        if let Some(rate) = weather.bytes_per_second {
            self.free_ns = now_ns.saturating_add((sent as u64).saturating_mul(1_000_000_000) / rate.max(1));
        }
        Ok(true)
    }
}

/// Makes the kernel close a socket by RST once no thread holds it any more. The standard library does not offer that
/// yet.
fn close_by_reset(stream: &TcpStream) -> io::Result<()> {
    TcpSocket::from_std_stream(stream.try_clone()?).set_zero_linger()
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;

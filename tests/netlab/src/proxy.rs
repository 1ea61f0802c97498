//! `Proxy`: see the crate's page.
//!
//! One thread accepts; each connection has one thread in each direction, which reads, keeps what is not due yet, and writes. Threads look
//! at the weather between two reads, at the latest every [`LOOK_EVERY`].

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

/// How often a thread that waits looks at the weather.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Most bytes that wait in one direction because they are not due: behind them the sender waits.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Most bytes passed on at once.
const PIECE_BYTES: usize = 16 << 10;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From who connects to the target.
    Out,
    /// From the target to who connected.
    Back,
}

/// Both directions.
const BOTH: [Direction; 2] = [Direction::Out, Direction::Back];

/// How one direction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Nothing passes (W2).
    pub cut: bool,
    /// How long each byte takes.
    pub delay: Duration,
    /// By how much longer it takes, at random; order is kept.
    pub jitter: Duration,
    /// How many bytes pass in a second; as many as can when `None`.
    pub bytes_per_second: Option<u64>,
    /// Most bytes that come out at once, when it is not 0: 1 shows who counts on messages coming whole.
    pub piece_bytes: usize,
}

#[derive(Debug, Default)]
struct Way {
    weather: Mutex<Weather>,
    /// Bytes that have passed, over all connections.
    passed: AtomicU64,
    /// Places in that count at which a bit is still to be flipped, and which.
    flips: Mutex<Vec<(u64, u8)>>,
    flipped: AtomicU64,
}

impl Way {
    /// Takes the flips that are due before the count comes to `end`.
    fn take_flips(&self, end: u64) -> Vec<(u64, u8)> {
        self.flips.lock().extract_if(.., |(at, _)| *at < end).collect()
    }
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    ways: [Way; 2],
    /// Grows with each reset: connections of before end.
    resets: AtomicU64,
    /// New connections are reset at once.
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
    /// Starts one in front of `target`; `seed` decides the jitter.
    ///
    /// # Errors
    /// There is no free port.
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

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends connections that come from here on elsewhere.
    pub fn set_target(&self, target: SocketAddr) {
        *self.shared.target.lock() = target;
    }

    /// Changes the weather in one direction, of connections that are there too.
    pub fn set(&self, direction: Direction, weather: Weather) {
        *self.shared.way(direction).weather.lock() = weather;
    }

    /// Changes the weather in both.
    pub fn set_both(&self, weather: Weather) {
        BOTH.into_iter().for_each(|direction| self.set(direction, weather));
    }

    /// Cuts one direction (W2).
    pub fn cut(&self, direction: Direction) {
        self.shared.way(direction).weather.lock().cut = true;
    }

    /// Cuts both: a partition, or a peer that lost its power.
    pub fn cut_both(&self) {
        BOTH.into_iter().for_each(|direction| self.cut(direction));
    }

    /// Gives both directions fine weather.
    pub fn heal(&self) {
        self.set_both(Weather::default());
        self.shared.refuses.store(false, Ordering::SeqCst);
    }

    /// Ends every connection with RST, whatever the weather.
    pub fn reset(&self) {
        self.shared.resets.fetch_add(1, Ordering::SeqCst);
    }

    /// Resets new connections at once, as a machine does on which nobody listens; until [`Proxy::heal`].
    pub fn refuse(&self) {
        self.shared.refuses.store(true, Ordering::SeqCst);
    }

    /// Flips a bit (0 to 7) of the byte that passes behind `bytes` further ones, or of the next one where those are just passing.
    pub fn flip(&self, direction: Direction, bytes: u64, bit: u8) {
        let way = self.shared.way(direction);
        way.flips.lock().push((way.passed.load(Ordering::SeqCst).saturating_add(bytes), bit % 8));
    }

    /// Returns how many bits were flipped.
    pub fn flipped(&self) -> u64 {
        self.shared.ways.iter().map(|way| way.flipped.load(Ordering::SeqCst)).sum()
    }

    /// Returns how many bytes have passed in a direction.
    pub fn passed(&self, direction: Direction) -> u64 {
        self.shared.way(direction).passed.load(Ordering::SeqCst)
    }

    /// Returns how many connections have come.
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
    /// Where bytes come from, and where they go.
    ends: [Arc<TcpStream>; 2],
    /// The connection is reset, or one of its ends is gone: the other thread ends too.
    over: Arc<AtomicBool>,
    /// Resets before this connection.
    resets: u64,
    /// Bytes that are not due yet, with when they are.
    waiting: VecDeque<(u64, Vec<u8>)>,
    waiting_bytes: usize,
    /// When the next byte may pass, at the rate of the weather.
    free_ns: u64,
}

/// What a look at the other end says.
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
            // The other direction may still have something to say.
            Ok(()) => {
                let _gone_already = to.shutdown(Shutdown::Write);
            }
            Err(_) => {
                // Closed with bytes unsent and no time to send them: RST. Nobody else holds the sockets once both threads are gone.
                self.over.store(true, Ordering::SeqCst);
                for end in [from, to] {
                    let _best_effort = close_by_reset(end);
                }
            }
        }
    }

    /// Passes bytes until the sender has ended and everything is out.
    ///
    /// # Errors
    /// The connection is to be reset.
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

    /// Waits for bytes, not long.
    fn read(&self, piece: &mut [u8]) -> io::Result<Came> {
        let [mut from, _] = self.ends.each_ref().map(AsRef::as_ref);
        // What waits is looked at soon.
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

    /// Writes what is due, as far as it goes; returns whether anything went.
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
            // A fiftieth of a second's worth at a time.
            count = count.min(usize::try_from(rate / 50).unwrap_or(usize::MAX).max(1));
        }
        let way = self.shared.way(self.direction);
        let passed = way.passed.load(Ordering::SeqCst);
        let flips = way.take_flips(passed.saturating_add(count as u64));
        // One that was asked for while the bytes before were written is behind by now, and is due.
        let place = |at: u64| usize::try_from(at.saturating_sub(passed)).unwrap_or(usize::MAX);
        let mut piece = bytes[..count].to_vec();
        flips.iter().for_each(|(at, bit)| piece[place(*at)] ^= 1 << bit);
        let [_, mut to] = self.ends.each_ref().map(AsRef::as_ref);
        let written = to.write(&piece);
        let sent = written.as_ref().map_or(0, |sent| *sent);
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

/// Has a socket closed by RST once nobody has it any more. The standard library does not offer that yet.
fn close_by_reset(stream: &TcpStream) -> io::Result<()> {
    TcpSocket::from_std_stream(stream.try_clone()?).set_zero_linger()
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;

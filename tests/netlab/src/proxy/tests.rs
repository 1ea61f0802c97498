//! Tests of the proxy: an echo server behind it, and each fault as seen from both ends.

use std::{io::ErrorKind, sync::mpsc};

use super::*;

/// How long a test waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a server that sends back all bytes, and reports how each connection ended.
fn echo() -> (SocketAddr, mpsc::Receiver<io::Result<()>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (say, said) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, say) = (stream.unwrap(), say.clone());
            thread::spawn(move || {
                let mut piece = [0; 4096];
                let ended = loop {
                    match stream.read(&mut piece) {
                        Ok(0) => break Ok(()),
                        Ok(count) => {
                            if let Err(error) = stream.write_all(&piece[..count]) {
                                break Err(error);
                            }
                        }
                        Err(error) => break Err(error),
                    }
                };
                let _the_test_is_over = say.send(ended);
            });
        }
    });
    (address, said)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and reads as many back.
fn through(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    back
}

/// Waits until this many bytes have passed in a direction: they are counted a moment after they were passed on.
fn until_passed(proxy: &Proxy, direction: Direction, bytes: u64) {
    let start_ns = Env::real().clock.now_ns();
    while proxy.passed(direction) != bytes {
        let waited = Duration::from_nanos(Env::real().clock.now_ns() - start_ns);
        assert!(waited < PATIENCE, "{direction:?}: {} passed of {bytes}", proxy.passed(direction));
        thread::yield_now();
    }
}

/// Goal: W1: bytes and the end of a connection pass unchanged, however they are cut, delayed or slowed. Method: an echo
/// in each weather; one side ends first.
#[test]
fn bytes_pass_unchanged_in_every_weather() {
    let (target, said) = echo();
    let proxy = Proxy::start(target, 1).unwrap();
    let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n * 7 % 251).to_le_bytes()[0]).collect();
    let ms = Duration::from_millis;
    for weather in [
        Weather::default(),
        Weather { delay: ms(20), jitter: ms(10), ..Weather::default() },
        Weather { bytes_per_second: Some(400_000), ..Weather::default() },
        Weather { piece_bytes: 7, ..Weather::default() },
    ] {
        proxy.set_both(weather);
        let mut stream = connect(&proxy);
        let start_ns = Env::real().clock.now_ns();
        assert_eq!(through(&mut stream, &bytes), bytes, "{weather:?}");
        let took = Duration::from_nanos(Env::real().clock.now_ns() - start_ns);
        let least = 2 * weather.delay + ms(if weather.bytes_per_second.is_some() { 45 } else { 0 });
        assert!(took >= least, "{took:?} in {weather:?}");
        stream.shutdown(Shutdown::Write).unwrap();
        said.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the end comes back");
    }
    assert_eq!(proxy.accepted(), 4);
}

/// Goal: W2: a cut direction holds bytes and ends back, the other one works, and a healed one continues. Method: each
/// direction in turn.
#[test]
fn cut_direction_goes_on_when_it_is_healed() {
    let (target, said) = echo();
    let proxy = Proxy::start(target, 1).unwrap();
    for (direction, out) in BOTH.into_iter().zip([0, 12]) {
        let mut stream = connect(&proxy);
        assert_eq!(through(&mut stream, b"before"), b"before");
        until_passed(&proxy, Direction::Out, out + 6);
        proxy.cut(direction);
        stream.write_all(b"during").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let error = stream.read(&mut [0; 6]).unwrap_err();
        assert!(is_timeout(&error), "{error}");
        until_passed(&proxy, Direction::Out, out + if direction == Direction::Out { 6 } else { 12 });
        proxy.heal();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut back = [0; 6];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"during");
        proxy.cut(direction);
        drop(stream);
        if direction == Direction::Out {
            assert!(said.recv_timeout(Duration::from_millis(100)).is_err(), "the end passes where bytes do not");
            proxy.heal();
        }
        said.recv_timeout(PATIENCE).expect("the end passes where bytes do").unwrap();
        proxy.heal();
    }
}

/// Goal: a reset reaches both ends in any weather, and new connections are accepted or refused as requested. Method: a
/// reset while both directions are cut; a connection while refusing, and after that.
#[test]
fn reset_reaches_both_ends() {
    let (target, said) = echo();
    let proxy = Proxy::start(target, 1).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(through(&mut stream, b"before"), b"before");
    proxy.cut_both();
    proxy.reset();
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = said.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    proxy.refuse();
    let refused = TcpStream::connect(proxy.address()).and_then(|mut stream| stream.read(&mut [0; 1]));
    assert!(refused.is_err(), "{refused:?}");
    proxy.heal();
    assert_eq!(through(&mut connect(&proxy), b"after"), b"after");
}

/// Goal: the named bit is flipped, and no other one. Method: one in each direction, in the second of three messages.
#[test]
fn one_named_bit_is_flipped() {
    let (target, _said) = echo();
    let proxy = Proxy::start(target, 1).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(through(&mut stream, b"first"), b"first");
    BOTH.into_iter().for_each(|way| until_passed(&proxy, way, 5));
    proxy.flip(Direction::Out, 1, 0);
    proxy.flip(Direction::Back, 3, 5);
    assert_eq!(through(&mut stream, b"second"), b"sdcOnd");
    assert_eq!(through(&mut stream, b"third"), b"third");
    assert_eq!(proxy.flipped(), 2);
}

/// Goal: a flip comes whenever it is requested. Method: flips of the next byte, one after the other, while bytes pass
/// all the time; the test waits for each.
#[test]
fn a_flip_asked_for_while_bytes_pass_comes() {
    let (target, _said) = echo();
    let proxy = Proxy::start(target, 1).unwrap();
    let mut stream = connect(&proxy);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let _flipped = through(&mut stream, b"some bytes");
            }
        });
        let all_came = (1..=3_000).all(|number| {
            proxy.flip(Direction::Out, 0, 0);
            let start_ns = Env::real().clock.now_ns();
            while proxy.flipped() < number && Env::real().clock.now_ns() - start_ns < 5_000_000_000 {
                thread::yield_now();
            }
            proxy.flipped() == number
        });
        stop.store(true, Ordering::SeqCst);
        assert!(all_came, "{} came", proxy.flipped());
    });
}

//! Threads, time, sockets and faults of a simulation, as programs see them.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what is tested is that the standard library's time and chance are simulated"
)]

use std::{
    collections::{HashMap, VecDeque},
    io::ErrorKind,
    net::Ipv4Addr,
    sync::{Arc, Condvar, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::*;

/// Held by the test whose simulation runs, since a process runs one at a time.
static ONE: OnceLock<Mutex<()>> = OnceLock::new();

fn run_one<T: Send>(seed: u64, world: impl FnOnce() -> T + Send) -> Ended<T> {
    let _one = ONE.get_or_init(Mutex::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    run(seed, Options::default(), world)
}

fn queue_of_threads() -> (Vec<u32>, HashMap<u32, u32>) {
    let queue = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let queue = queue.clone();
            thread::spawn(move || {
                for m in 0..20 {
                    thread::sleep(Duration::from_micros(u64::from(n * m % 7)));
                    queue.0.lock().unwrap().push_back(n);
                    queue.1.notify_one();
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    while seen.len() < 160 {
        let mut waiting = queue.0.lock().unwrap();
        while waiting.is_empty() {
            waiting = queue.1.wait(waiting).unwrap();
        }
        seen.extend(waiting.drain(..));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut counts = HashMap::new();
    seen.iter().for_each(|n| *counts.entry(*n).or_default() += 1);
    (seen, counts)
}

/// Goal: K1: a seed determines the order in which threads run, and also the order of a map with random keys; other
/// seeds give other orders. Method: eight threads and a queue, twice with each seed.
#[test]
fn a_seed_determines_the_order_of_threads() {
    let mut orders = Vec::new();
    for seed in 0..6 {
        let [one, two] = [(); 2].map(|()| run_one(seed, queue_of_threads));
        let order = |ended: &Ended<(Vec<u32>, HashMap<u32, u32>)>| {
            (ended.result.0.clone(), ended.result.1.keys().copied().collect::<Vec<_>>(), ended.trace, ended.passed)
        };
        assert_eq!(order(&one), order(&two), "seed {seed}");
        orders.push(one.result.0);
    }
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), 6, "every seed gives an order of its own");
}

/// Goal: K2: an hour of waiting takes no real time, and both clocks show it. Method: a sleep of an hour.
#[test]
fn an_hour_of_waiting_takes_no_time() {
    let real = Instant::now();
    let ended = run_one(1, || {
        let (began, clock) = (Instant::now(), clock(Duration::from_secs(50), 7));
        let wall_us = clock.wall_us();
        thread::sleep(Duration::from_secs(3600));
        (began.elapsed(), clock.wall_us() - wall_us)
    });
    let (elapsed, wall_us) = ended.result;
    assert!(elapsed >= Duration::from_secs(3600) && elapsed < Duration::from_secs(3601), "{elapsed:?}");
    assert!((3_600_000_000..3_601_000_000).contains(&wall_us), "{wall_us}");
    assert!(real.elapsed() < Duration::from_secs(600));
}

const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
const PORT: u16 = 4000;

/// Sends back all received bytes, on each connection.
fn echo() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind((SERVER, PORT)).await.unwrap();
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut bytes = [0; 1000];
                while let Ok(count @ 1..) = socket.read(&mut bytes).await {
                    if socket.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Runs a client of an echo server in a world of two hosts.
fn with_echo<T: Send, F: Future<Output = T>>(seed: u64, client: impl FnOnce(Host, Process) -> F + Send) -> Ended<T> {
    run_one(seed, || {
        let host = Host::add(SERVER);
        let server = Process::start("echo", host, echo);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(client(host, server))
    })
}

async fn connected() -> TcpStream {
    loop {
        match TcpStream::connect((SERVER, PORT)).await {
            Ok(socket) => return socket,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn answered(socket: &mut TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    socket.write_all(bytes).await?;
    let mut back = vec![0; bytes.len()];
    socket.read_exact(&mut back).await?;
    Ok(back)
}

/// Goal: N1, N2: bytes arrive completely and in order, a cut link only delays them, and the same seed repeats a run.
/// Method: an echo of a megabyte over a server of several threads, with the way back cut for five seconds.
#[test]
fn cut_link_makes_bytes_late_and_loses_none() {
    let lived = || {
        with_echo(5, |host, _| async move {
            let mut socket = connected().await;
            let began = Instant::now();
            host.cut(Host::world(), true);
            thread::spawn(move || {
                thread::sleep(Duration::from_secs(5));
                host.cut(Host::world(), false);
            });
            let (mut reading, mut writing) = socket.split();
            let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[usize::from(n % 2 == 0)]).collect();
            let mut back = vec![0; sent.len()];
            let (written, read) = tokio::join!(writing.write_all(&sent), reading.read_exact(&mut back));
            written.unwrap();
            read.unwrap();
            assert!(back == sent, "other bytes come back");
            began.elapsed()
        })
    };
    let (one, two) = (lived(), lived());
    assert!(one.result > Duration::from_secs(5) && one.result < Duration::from_secs(6), "{:?}", one.result);
    assert_eq!((one.trace, one.result), (two.trace, two.result));
}

/// Goal: N3, K3: a killed process resets its connections and refuses new ones, a paused one answers once it continues,
/// and a host without power is silent until its kernel is back. Method: each in turn; the test checks which result a
/// client of an echo server gets, and when.
#[test]
fn clients_are_told_what_a_kernel_would_tell_them() {
    with_echo(6, |host, server| async move {
        let mut socket = connected().await;
        assert_eq!(answered(&mut socket, b"first").await.unwrap(), b"first");
        server.pause();
        let late = timeout(Duration::from_secs(60), answered(&mut socket, b"second")).await;
        assert!(late.is_err(), "one that stands still answers");
        server.resume();
        let mut back = [0; 6];
        socket.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"second");

        server.kill();
        assert!(server.has_ended());
        assert!(answered(&mut socket, b"third").await.is_err());
        let refused = TcpStream::connect((SERVER, PORT)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

        let server = Process::start("echo", host, echo);
        let mut socket = connected().await;
        host.set_on(false);
        assert!(server.has_ended());
        let silent = timeout(Duration::from_secs(10), answered(&mut socket, b"fourth")).await;
        assert!(silent.is_err(), "a host without power answers");
        host.set_on(true);
        let told = timeout(Duration::from_secs(10), socket.read_exact(&mut back)).await;
        assert_eq!(told.expect("a kernel that is back answers").unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

/// Goal: threads that wait for each other forever are reported. Method: a thread joins another one, which waits for a
/// lock that the first one holds; in its own process, since that aborts it.
#[test]
fn threads_that_wait_for_ever_are_named() {
    const NAME: &str = "COLLIE_SIMKERNEL_DEADLOCK";
    if std::env::var_os(NAME).is_some() {
        run_one(1, || {
            let lock = Arc::new(Mutex::new(()));
            let held = lock.lock().unwrap();
            let other = lock.clone();
            let waiting = thread::spawn(move || drop(other.lock()));
            waiting.join().unwrap();
            drop(held);
        });
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::threads_that_wait_for_ever_are_named", "--nocapture"]).env(NAME, "1");
    let output = command.output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complained.contains("every thread waits for another one"), "{complained}");
    assert!(complained.contains("Join") && complained.contains("Futex"), "{complained}");
}

//! The functions of the C library by which a program calls its kernel, as symbols of this program: the calls of a
//! simulated thread go to the simulated kernel, those of every other thread to the real one.
//!
//! Files, memory and processes are not simulated here: their calls go to the real kernel, and the programs that run
//! here use a simulated disk. A call on a socket that is not simulated fails loudly, so that no result depends on the
//! real machine.
#![allow(
    clippy::missing_safety_doc,
    reason = "each function's contract is that of the C library's function of its name"
)]

use std::{
    ffi::{c_char, c_int, c_long, c_uint, c_void},
    net::{Ipv4Addr, SocketAddrV4},
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
};

use libc::{epoll_event, pthread_attr_t, pthread_t, size_t, sockaddr, sockaddr_in, socklen_t, ssize_t, timespec};

use crate::{
    descriptors::{FIRST, Outcome},
    kernel::{EPOCH_US, Kernel, enter},
    real::{futex_wait, real},
    threads::{self, ThreadId, Wait, Woken, current},
};

const NS: u64 = 1_000_000_000;

/// The number of processors of a simulated host.
const PROCESSORS: usize = 2;

fn fail(error: i32) -> c_int {
    // SAFETY: the pointer is that of this thread's own variable.
    unsafe { *libc::__errno_location() = error };
    -1
}

fn answer(outcome: Outcome<()>) -> c_int {
    outcome.map_or_else(fail, |()| 0)
}

fn counted(outcome: Outcome<usize>) -> ssize_t {
    match outcome {
        Ok(count) => ssize_t::try_from(count).unwrap_or(ssize_t::MAX),
        Err(error) => fail(error) as ssize_t,
    }
}

/// Returns the calling thread if it is simulated and the descriptor is too.
fn asks(descriptor: c_int) -> Option<ThreadId> {
    current().filter(|_| descriptor >= FIRST)
}

/// Runs `work` in the kernel, after other threads may have run.
fn call<T>(thread: ThreadId, work: impl FnOnce(&mut Kernel) -> T) -> T {
    threads::may_be_preempted(thread);
    enter(work)
}

// Threads.

/// The data with which a new thread starts.
struct Birth {
    thread: ThreadId,
    gate: &'static AtomicU32,
    is_born: &'static AtomicU32,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
}

/// The key whose destructor ends a thread, after those of its own variables; -1 if it was not made yet.
static END: AtomicI32 = AtomicI32::new(-1);

/// Makes the key that ends threads.
pub(crate) fn prepare() {
    if END.load(Ordering::Acquire) < 0 {
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: the key is written to a local variable, and the destructor has the required type.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) };
        assert_eq!(made, 0, "no key can be made");
        END.store(i32::try_from(key).unwrap_or(-1), Ordering::Release);
    }
}

unsafe extern "C" fn thread_ends(_value: *mut c_void) {
    current().into_iter().for_each(threads::end);
}

extern "C" fn thread_begins(birth: *mut c_void) -> *mut c_void {
    // SAFETY: the pointer is that of the box that `pthread_create` released.
    let Birth { thread, gate, is_born, start, argument } = *unsafe { Box::from_raw(birth.cast::<Birth>()) };
    let key = libc::pthread_key_t::try_from(END.load(Ordering::Acquire)).unwrap_or(0);
    // SAFETY: the key exists, and the value is never read.
    unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<c_void>()) };
    threads::await_birth(thread, gate, is_born);
    start(argument)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    made: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    let Some(this) = current() else {
        return real!(pthread_create as fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
            made, attributes, start, argument);
    };
    let (thread, gate) = enter(|kernel| {
        let process = kernel.birth.unwrap_or(kernel.threads.all[this].process);
        let thread = kernel.threads.add(process);
        (thread, threads::gate_of(kernel, thread))
    });
    let is_born: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let birth = Box::into_raw(Box::new(Birth { thread, gate, is_born, start, argument }));
    let result = real!(pthread_create as fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
        made, attributes, thread_begins, birth.cast());
    assert_eq!(result, 0, "the real kernel has no more threads");
    // K4: the new thread must have started before this one continues.
    while is_born.load(Ordering::Acquire) == 0 {
        futex_wait(is_born, 0);
    }
    // SAFETY: the successful call has written it.
    let handle = unsafe { *made };
    enter(|kernel| {
        kernel.threads.know_handle(thread, handle);
        kernel.threads.begin(thread);
    });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(joined: pthread_t, value: *mut *mut c_void) -> c_int {
    if let Some(this) = current() {
        let runs = enter(|kernel| kernel.threads.running(joined));
        if let Some(thread) = runs {
            threads::wait(this, Wait::Join(thread), None);
        }
        // The handle may be used again for another thread.
        enter(|kernel| kernel.threads.forget_handle(joined));
    }
    real!(pthread_join as fn(pthread_t, *mut *mut c_void) -> c_int; joined, value)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(detached: pthread_t) -> c_int {
    if current().is_some() {
        enter(|kernel| kernel.threads.forget_handle(detached));
    }
    real!(pthread_detach as fn(pthread_t) -> c_int; detached)
}

#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    match current() {
        Some(this) => {
            threads::give_way(this);
            0
        }
        None => real!(sched_yield as fn() -> c_int;),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getaffinity(process: libc::pid_t, bytes: size_t, set: *mut libc::cpu_set_t) -> c_int {
    if current().is_none() {
        return real!(sched_getaffinity as fn(libc::pid_t, size_t, *mut libc::cpu_set_t) -> c_int; process, bytes, set);
    }
    // SAFETY: the caller's set has that many bytes.
    unsafe { std::ptr::write_bytes(set.cast::<u8>(), 0, bytes) };
    for processor in 0..PROCESSORS {
        // SAFETY: it is the caller's set, which was just filled with zeros.
        unsafe { libc::CPU_SET(processor, &mut *set) };
    }
    0
}

// Locks of Rust's standard library and of others: futexes.

fn nanoseconds(time: &timespec) -> u64 {
    let (seconds, rest) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(NS).saturating_add(rest)
}

fn futex(this: ThreadId, word: *const AtomicU32, operation: c_int, value: u32, timeout: *const timespec) -> c_long {
    let command = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let queue = Wait::Futex(word.addr());
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            threads::may_be_preempted(this);
            // SAFETY: the caller's word stays valid during the wait.
            if unsafe { &*word }.load(Ordering::SeqCst) != value {
                return c_long::from(fail(libc::EAGAIN));
            }
            // SAFETY: the pointer is null or that of the caller's time.
            let timeout = unsafe { timeout.as_ref() }.map(nanoseconds);
            let is_relative = command == libc::FUTEX_WAIT;
            let is_calendar = operation & libc::FUTEX_CLOCK_REALTIME != 0;
            let now_ns = enter(|kernel| kernel.now_ns);
            let deadline_ns = timeout.map(|timeout| match (is_relative, is_calendar) {
                (true, _) => now_ns.saturating_add(timeout),
                (false, false) => timeout,
                (false, true) => timeout.saturating_sub(EPOCH_US.unsigned_abs() * 1_000),
            });
            match threads::wait(this, queue, deadline_ns) {
                Woken::ByEvent => 0,
                Woken::ByTime => c_long::from(fail(libc::ETIMEDOUT)),
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let most = usize::try_from(value.cast_signed()).unwrap_or(usize::MAX);
            let woken = enter(|kernel| kernel.threads.wake_some(queue, most));
            threads::may_be_preempted(this);
            c_long::try_from(woken).unwrap_or(c_long::MAX)
        }
        other => panic!("futex operation {other} is not simulated"),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    if let Some(this) = current() {
        match number {
            libc::SYS_futex => {
                let word = std::ptr::with_exposed_provenance(a);
                let timeout = std::ptr::with_exposed_provenance(d);
                let operation = c_int::try_from(b.cast_signed()).unwrap_or(0);
                return futex(this, word, operation, u32::try_from(c & 0xFFFF_FFFF).unwrap_or(0), timeout);
            }
            libc::SYS_getrandom => {
                // SAFETY: the caller's buffer has that many bytes.
                return unsafe { getrandom(std::ptr::with_exposed_provenance_mut(a), b, 0) } as c_long;
            }
            _ => {}
        }
    }
    real!(syscall as fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long; number, a, b, c, d, e, f)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(bytes: *mut c_void, count: size_t, flags: c_uint) -> ssize_t {
    if current().is_none() {
        return real!(getrandom as fn(*mut c_void, size_t, c_uint) -> ssize_t; bytes, count, flags);
    }
    // SAFETY: the caller's buffer has that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), count) };
    enter(|kernel| {
        for part in bytes.chunks_mut(8) {
            let word = kernel.draw().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    });
    counted(Ok(count))
}

// Time.

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut timespec) -> c_int {
    let Some(this) = current() else {
        return real!(clock_gettime as fn(libc::clockid_t, *mut timespec) -> c_int; clock, time);
    };
    let now_ns = call(this, |kernel| kernel.now_ns);
    let is_calendar = [libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_COARSE].contains(&clock);
    let now_ns = if is_calendar { now_ns + EPOCH_US.unsigned_abs() * 1_000 } else { now_ns };
    let part = |value: u64| c_long::try_from(value).unwrap_or(c_long::MAX);
    // SAFETY: the pointer is that of the caller's variable.
    unsafe { *time = timespec { tv_sec: part(now_ns / NS), tv_nsec: part(now_ns % NS) } };
    0
}

fn sleep(this: ThreadId, time: *const timespec, is_absolute: bool) {
    // SAFETY: the pointer is that of the caller's time.
    let time = nanoseconds(unsafe { &*time });
    let now_ns = enter(|kernel| kernel.now_ns);
    threads::wait(this, Wait::Sleep, Some(if is_absolute { time } else { now_ns.saturating_add(time) }));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    match current() {
        Some(this) => {
            sleep(this, time, false);
            0
        }
        None => real!(nanosleep as fn(*const timespec, *mut timespec) -> c_int; time, left),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    match current() {
        Some(this) => {
            sleep(this, time, flags & libc::TIMER_ABSTIME != 0);
            0
        }
        None => real!(clock_nanosleep as fn(libc::clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
            clock, flags, time, left),
    }
}

// Descriptors.

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    match current() {
        Some(this) => call(this, |kernel| kernel.make_epoll(this)),
        None => real!(epoll_create1 as fn(c_int) -> c_int; flags),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, descriptor: c_int, event: *mut epoll_event) -> c_int {
    let Some(this) = asks(epoll) else {
        return real!(epoll_ctl as fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
            epoll, operation, descriptor, event);
    };
    // SAFETY: the pointer is null or that of the caller's event.
    let (events, data) = unsafe { event.as_ref() }.map_or((0, 0), |event| (event.events, event.u64));
    answer(call(this, |kernel| kernel.control_epoll(epoll, operation, descriptor, events, data)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int {
    let Some(this) = asks(epoll) else {
        return real!(epoll_wait as fn(c_int, *mut epoll_event, c_int, c_int) -> c_int; epoll, events, most, timeout_ms);
    };
    let now_ns = call(this, |kernel| kernel.now_ns);
    let deadline_ns = u64::try_from(timeout_ms).ok().map(|ms| now_ns + ms * 1_000_000);
    let epoll = enter(|kernel| kernel.first_of(epoll));
    let most = usize::try_from(most).unwrap_or(0);
    loop {
        let news = match enter(|kernel| {
            kernel.deliver();
            kernel.take_news(epoll, most)
        }) {
            Ok(news) => news,
            Err(error) => return fail(error),
        };
        for (at, (what, data)) in news.iter().enumerate() {
            // SAFETY: the caller has room for `most` events.
            unsafe { *events.add(at) = epoll_event { events: *what, u64: *data } };
        }
        if !news.is_empty() || timeout_ms == 0 {
            return c_int::try_from(news.len()).unwrap_or(c_int::MAX);
        }
        if threads::wait(this, Wait::Epoll(epoll), deadline_ns) == Woken::ByTime {
            return 0;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd(count: c_uint, flags: c_int) -> c_int {
    match current() {
        Some(this) => {
            let is_blocking = flags & libc::EFD_NONBLOCK == 0;
            call(this, |kernel| kernel.make_counter(this, u64::from(count), is_blocking))
        }
        None => real!(eventfd as fn(c_uint, c_int) -> c_int; count, flags),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    match current() {
        Some(this) if family == libc::AF_INET => {
            call(this, |kernel| kernel.make_socket(this, kind & libc::SOCK_NONBLOCK == 0))
        }
        Some(_) => fail(libc::EAFNOSUPPORT),
        None => real!(socket as fn(c_int, c_int, c_int) -> c_int; family, kind, protocol),
    }
}

unsafe fn address_of(address: *const sockaddr, bytes: socklen_t) -> Outcome<SocketAddrV4> {
    // SAFETY: the caller's address is long enough to have a family.
    let is_there =
        bytes as usize >= size_of::<sockaddr_in>() && c_int::from(unsafe { (*address).sa_family }) == libc::AF_INET;
    if !is_there {
        return Err(libc::EAFNOSUPPORT);
    }
    // SAFETY: it has that family and the length of its type.
    let address = unsafe { &*address.cast::<sockaddr_in>() };
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    Ok(SocketAddrV4::new(ip, u16::from_be(address.sin_port)))
}

unsafe fn put_address(address: SocketAddrV4, to: *mut sockaddr, bytes: *mut socklen_t) {
    if to.is_null() {
        return;
    }
    let family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
    let of = sockaddr_in {
        sin_family: family,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: the caller's buffer has the length that it states, and gets the full length back.
    unsafe {
        let room = (*bytes as usize).min(size_of::<sockaddr_in>());
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(&of).cast::<u8>(), to.cast::<u8>(), room);
        *bytes = socklen_t::try_from(size_of::<sockaddr_in>()).unwrap_or(0);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(descriptor: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
    let Some(this) = asks(descriptor) else {
        return real!(bind as fn(c_int, *const sockaddr, socklen_t) -> c_int; descriptor, address, bytes);
    };
    // SAFETY: the caller's address.
    let address = unsafe { address_of(address, bytes) };
    answer(address.and_then(|address| call(this, |kernel| kernel.bind_socket(descriptor, address))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(descriptor: c_int, backlog: c_int) -> c_int {
    match asks(descriptor) {
        Some(this) => answer(call(this, |kernel| kernel.listen_at(this, descriptor))),
        None => real!(listen as fn(c_int, c_int) -> c_int; descriptor, backlog),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(descriptor: c_int, address: *mut sockaddr, bytes: *mut socklen_t, flags: c_int) -> c_int {
    let Some(this) = asks(descriptor) else {
        return real!(accept4 as fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
            descriptor, address, bytes, flags);
    };
    match call(this, |kernel| kernel.accept_at(this, descriptor, flags & libc::SOCK_NONBLOCK == 0)) {
        Ok((taken, remote)) => {
            // SAFETY: the caller's room.
            unsafe { put_address(remote, address, bytes) };
            taken
        }
        Err(error) => fail(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(descriptor: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
    let Some(this) = asks(descriptor) else {
        return real!(connect as fn(c_int, *const sockaddr, socklen_t) -> c_int; descriptor, address, bytes);
    };
    // SAFETY: the caller's address.
    let address = unsafe { address_of(address, bytes) };
    answer(address.and_then(|address| call(this, |kernel| kernel.connect_to(this, descriptor, address))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(descriptor: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
    match asks(descriptor) {
        // SAFETY: the caller's room.
        Some(this) => unsafe { name(this, descriptor, false, (address, bytes)) },
        None => real!(getsockname as fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int; descriptor, address, bytes),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(descriptor: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
    match asks(descriptor) {
        // SAFETY: the caller's room.
        Some(this) => unsafe { name(this, descriptor, true, (address, bytes)) },
        None => real!(getpeername as fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int; descriptor, address, bytes),
    }
}

unsafe fn name(
    this: ThreadId,
    descriptor: c_int,
    of_peer: bool,
    (address, bytes): (*mut sockaddr, *mut socklen_t),
) -> c_int {
    match call(this, |kernel| kernel.name_of(descriptor, of_peer)) {
        Ok(named) => {
            // SAFETY: the caller's room.
            unsafe { put_address(named, address, bytes) };
            0
        }
        Err(error) => fail(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    descriptor: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    bytes: *mut socklen_t,
) -> c_int {
    let Some(this) = asks(descriptor) else {
        return real!(getsockopt as fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
            descriptor, level, option, value, bytes);
    };
    let error = call(this, |kernel| kernel.socket_error(descriptor));
    match error {
        Ok(error) => {
            let error = if (level, option) == (libc::SOL_SOCKET, libc::SO_ERROR) { error } else { 0 };
            // SAFETY: the programs that run here ask for options of integer type only.
            unsafe { *value.cast::<c_int>() = error };
            0
        }
        Err(error) => fail(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    descriptor: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    bytes: socklen_t,
) -> c_int {
    match asks(descriptor) {
        // The options that these calls set are not simulated: buffers, delays, detection of a dead peer.
        Some(_) => 0,
        None => real!(setsockopt as fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
            descriptor, level, option, value, bytes),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(descriptor: c_int, how: c_int) -> c_int {
    match asks(descriptor) {
        Some(_) if how == libc::SHUT_RD => 0,
        Some(this) => answer(call(this, |kernel| kernel.shut_down(descriptor))),
        None => real!(shutdown as fn(c_int, c_int) -> c_int; descriptor, how),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    match asks(descriptor) {
        Some(_) => answer(enter(|kernel| kernel.close_descriptor(descriptor))),
        None => real!(close as fn(c_int) -> c_int; descriptor),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int {
    if asks(descriptor).is_none() {
        return real!(fcntl as fn(c_int, c_int, usize) -> c_int; descriptor, command, argument);
    }
    let flag = usize::try_from(libc::O_NONBLOCK).unwrap_or(0);
    match command {
        libc::F_GETFL => match enter(|kernel| kernel.is_blocking(descriptor)) {
            Ok(is_blocking) => libc::O_RDWR | if is_blocking { 0 } else { libc::O_NONBLOCK },
            Err(error) => fail(error),
        },
        libc::F_SETFL => answer(enter(|kernel| kernel.set_blocking(descriptor, argument & flag == 0))),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => enter(|kernel| kernel.copy(descriptor)).unwrap_or_else(fail),
        libc::F_GETFD | libc::F_SETFD => 0,
        other => panic!("fcntl {other} of a socket is not simulated"),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(descriptor: c_int, request: libc::Ioctl, argument: usize) -> c_int {
    if asks(descriptor).is_none() {
        return real!(ioctl as fn(c_int, libc::Ioctl, usize) -> c_int; descriptor, request, argument);
    }
    match request {
        libc::FIONBIO => {
            // SAFETY: the argument is the address of the caller's integer.
            let is_blocking = unsafe { *std::ptr::with_exposed_provenance::<c_int>(argument) } == 0;
            answer(enter(|kernel| kernel.set_blocking(descriptor, is_blocking)))
        }
        other => panic!("ioctl {other} of a socket is not simulated"),
    }
}

fn read_some(this: ThreadId, descriptor: c_int, bytes: &mut [u8]) -> ssize_t {
    let outcome = call(this, |kernel| kernel.read_at(descriptor, bytes));
    refuse_to_block(descriptor, &outcome);
    counted(outcome)
}

fn write_some(this: ThreadId, descriptor: c_int, bytes: &[u8]) -> ssize_t {
    let outcome = call(this, |kernel| kernel.write_at(descriptor, bytes));
    refuse_to_block(descriptor, &outcome);
    counted(outcome)
}

fn refuse_to_block(descriptor: c_int, outcome: &Outcome<usize>) {
    let would = *outcome == Err(libc::EAGAIN) && enter(|kernel| kernel.is_blocking(descriptor)) == Ok(true);
    assert!(!would, "sockets that block are not simulated");
}

/// Returns the bytes that a caller offers to be filled.
unsafe fn to_fill<'b>(bytes: *mut c_void, count: size_t) -> &'b mut [u8] {
    // SAFETY: the caller's buffer has that many bytes for the duration of the call.
    unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), count) }
}

/// Returns the bytes that a caller wants to send.
unsafe fn to_send<'b>(bytes: *const c_void, count: size_t) -> &'b [u8] {
    // SAFETY: the caller's buffer has that many bytes for the duration of the call.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(descriptor: c_int, bytes: *mut c_void, count: size_t) -> ssize_t {
    match asks(descriptor) {
        // SAFETY: the caller keeps the contract of the C library's function.
        Some(this) => read_some(this, descriptor, unsafe { to_fill(bytes, count) }),
        None => real!(read as fn(c_int, *mut c_void, size_t) -> ssize_t; descriptor, bytes, count),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(descriptor: c_int, bytes: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
    match asks(descriptor) {
        Some(_) if flags & libc::MSG_PEEK != 0 => panic!("looking ahead is not simulated"),
        // SAFETY: the caller keeps the contract of the C library's function.
        Some(this) => read_some(this, descriptor, unsafe { to_fill(bytes, count) }),
        None => real!(recv as fn(c_int, *mut c_void, size_t, c_int) -> ssize_t; descriptor, bytes, count, flags),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    if let Some(this) = asks(descriptor) {
        // SAFETY: the caller keeps the contract of the C library's function.
        return write_some(this, descriptor, unsafe { to_send(bytes, count) });
    }
    if let Some(this) = current()
        && [libc::STDOUT_FILENO, libc::STDERR_FILENO].contains(&descriptor)
    {
        // SAFETY: the caller keeps the contract of the C library's function.
        let text = unsafe { to_send(bytes, count) };
        if enter(|kernel| kernel.print(this, text)) {
            return counted(Ok(count));
        }
    }
    real!(write as fn(c_int, *const c_void, size_t) -> ssize_t; descriptor, bytes, count)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(descriptor: c_int, bytes: *const c_void, count: size_t, flags: c_int) -> ssize_t {
    match asks(descriptor) {
        // SAFETY: the caller keeps the contract of the C library's function.
        Some(this) => write_some(this, descriptor, unsafe { to_send(bytes, count) }),
        None => real!(send as fn(c_int, *const c_void, size_t, c_int) -> ssize_t; descriptor, bytes, count, flags),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(descriptor: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t {
    let Some(this) = asks(descriptor) else {
        return real!(writev as fn(c_int, *const libc::iovec, c_int) -> ssize_t; descriptor, parts, count);
    };
    let mut all = Vec::new();
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller gives `count` parts.
        let part = unsafe { &*parts.add(at) };
        // SAFETY: each part has that many bytes.
        all.extend_from_slice(unsafe { to_send(part.iov_base, part.iov_len) });
    }
    write_some(this, descriptor, &all)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(descriptor: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t {
    assert!(asks(descriptor).is_none(), "messages are not simulated");
    real!(sendmsg as fn(c_int, *const libc::msghdr, c_int) -> ssize_t; descriptor, message, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    result: *mut *mut libc::addrinfo,
) -> c_int {
    assert!(current().is_none(), "names of hosts are not simulated: give addresses");
    real!(getaddrinfo as fn(*const c_char, *const c_char, *const libc::addrinfo, *mut *mut libc::addrinfo) -> c_int;
        node, service, hints, result)
}

/// Keeps the linker from leaving this file out of a program, by a reference to one of its functions.
pub(crate) fn link() {
    #[used]
    static KEPT: extern "C" fn() -> c_int = sched_yield;
    std::hint::black_box(&raw const KEPT);
}

//! Descriptors of sockets, event counters and epolls. Their numbers are far above those of the real kernel.
//!
//! # Invariants
//! - D1. An epoll reports each change once, as an edge-triggered one does (`EPOLLET`), and reports the current state
//!   when a descriptor is added. The programs that run here use no other mode.
//!
//! Checked by `tests`: all waits for sockets there are waits for an epoll.

use std::{collections::BTreeMap, net::SocketAddrV4};

use crate::{
    kernel::Kernel,
    network::EndId,
    threads::{ThreadId, Wait},
};

pub(crate) const READ: u32 = libc::EPOLLIN as u32;
pub(crate) const WRITE: u32 = libc::EPOLLOUT as u32;
/// The peer has stopped sending.
pub(crate) const AT_END: u32 = libc::EPOLLRDHUP as u32;
/// The connection is over.
pub(crate) const FAILED: u32 = (libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLRDHUP) as u32;

/// The first number of a descriptor that is not the real kernel's.
pub(crate) const FIRST: i32 = 1 << 24;

#[derive(Debug)]
struct Interest {
    events: u32,
    data: u64,
    /// The changes that were not reported yet.
    news: u32,
}

#[derive(Debug)]
enum Kind {
    /// A socket that does not listen and is not connected yet.
    Fresh(Option<SocketAddrV4>),
    Listener(SocketAddrV4),
    Stream(EndId),
    Counter(u64),
    Epoll(BTreeMap<i32, Interest>),
}

#[derive(Debug)]
struct Descriptor {
    process: usize,
    kind: Kind,
    is_blocking: bool,
    /// The number of descriptor numbers that refer to it.
    names: u32,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    all: BTreeMap<i32, Descriptor>,
    made: i32,
    /// The further numbers of a descriptor, with its first one.
    copies: BTreeMap<i32, i32>,
    /// The epolls that watch a descriptor.
    watching: BTreeMap<i32, Vec<i32>>,
}

/// The result of a call, or its error number.
pub(crate) type Outcome<T> = Result<T, i32>;

impl Kernel {
    fn add(&mut self, process: usize, kind: Kind, is_blocking: bool) -> i32 {
        let number = FIRST + self.descriptors.made;
        self.descriptors.made += 1;
        self.descriptors.all.insert(number, Descriptor { process, kind, is_blocking, names: 1 });
        number
    }

    /// Returns the first number of a descriptor.
    pub(crate) fn first_of(&self, number: i32) -> i32 {
        self.descriptors.copies.get(&number).copied().unwrap_or(number)
    }

    /// Adds another number for a descriptor.
    pub(crate) fn copy(&mut self, number: i32) -> Outcome<i32> {
        let first = self.first_of(number);
        self.descriptors.all.get_mut(&first).ok_or(libc::EBADF)?.names += 1;
        let copy = FIRST + self.descriptors.made;
        self.descriptors.made += 1;
        self.descriptors.copies.insert(copy, first);
        Ok(copy)
    }

    fn kind(&mut self, number: i32) -> Outcome<&mut Kind> {
        let number = self.first_of(number);
        self.descriptors.all.get_mut(&number).map(|descriptor| &mut descriptor.kind).ok_or(libc::EBADF)
    }

    fn stream(&mut self, number: i32) -> Outcome<EndId> {
        match self.kind(number)? {
            Kind::Stream(end) => Ok(*end),
            Kind::Fresh(_) | Kind::Listener(_) => Err(libc::ENOTCONN),
            Kind::Counter(_) | Kind::Epoll(_) => Err(libc::ENOTSOCK),
        }
    }

    fn process_of(&self, thread: ThreadId) -> usize {
        self.threads.all[thread].process
    }

    fn host_of(&self, thread: ThreadId) -> usize {
        self.threads.processes[self.process_of(thread)].host
    }

    pub(crate) fn make_socket(&mut self, thread: ThreadId, is_blocking: bool) -> i32 {
        self.add(self.process_of(thread), Kind::Fresh(None), is_blocking)
    }

    pub(crate) fn make_counter(&mut self, thread: ThreadId, count: u64, is_blocking: bool) -> i32 {
        self.add(self.process_of(thread), Kind::Counter(count), is_blocking)
    }

    pub(crate) fn make_epoll(&mut self, thread: ThreadId) -> i32 {
        self.add(self.process_of(thread), Kind::Epoll(BTreeMap::new()), true)
    }

    pub(crate) fn bind_socket(&mut self, number: i32, address: SocketAddrV4) -> Outcome<()> {
        if self.is_taken(address) {
            return Err(libc::EADDRINUSE);
        }
        match self.kind(number)? {
            Kind::Fresh(bound) => *bound = Some(address),
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    pub(crate) fn listen_at(&mut self, thread: ThreadId, number: i32) -> Outcome<()> {
        let host = self.host_of(thread);
        let Kind::Fresh(Some(address)) = *self.kind(number)? else { return Err(libc::EINVAL) };
        let address = self.listen(host, address, number)?;
        *self.kind(number)? = Kind::Listener(address);
        Ok(())
    }

    pub(crate) fn accept_at(
        &mut self,
        thread: ThreadId,
        number: i32,
        is_blocking: bool,
    ) -> Outcome<(i32, SocketAddrV4)> {
        let Kind::Listener(address) = *self.kind(number)? else { return Err(libc::EINVAL) };
        let end = self.accept(address).ok_or(libc::EAGAIN)?;
        let taken = self.add(self.process_of(thread), Kind::Stream(end), is_blocking);
        self.watch_end(end, taken);
        let remote = self.network.addresses(end).map(|(_, remote, _)| remote);
        Ok((taken, remote.unwrap_or(address)))
    }

    pub(crate) fn connect_to(&mut self, thread: ThreadId, number: i32, address: SocketAddrV4) -> Outcome<()> {
        let host = self.host_of(thread);
        if !matches!(self.kind(number)?, Kind::Fresh(_)) {
            return Err(libc::EISCONN);
        }
        let end = self.connect(host, address, number)?;
        *self.kind(number)? = Kind::Stream(end);
        Err(libc::EINPROGRESS)
    }

    /// Returns the address of a socket, or of its peer.
    pub(crate) fn name_of(&mut self, number: i32, of_peer: bool) -> Outcome<SocketAddrV4> {
        match *self.kind(number)? {
            Kind::Listener(address) if !of_peer => Ok(address),
            Kind::Fresh(Some(address)) if !of_peer => Ok(address),
            Kind::Stream(end) => match self.network.addresses(end) {
                Some((local, _, _)) if !of_peer => Ok(local),
                Some((_, remote, true)) => Ok(remote),
                _ => Err(libc::ENOTCONN),
            },
            _ => Err(libc::ENOTCONN),
        }
    }

    pub(crate) fn socket_error(&mut self, number: i32) -> Outcome<i32> {
        match *self.kind(number)? {
            Kind::Stream(end) => Ok(self.network.take_error(end)),
            _ => Ok(0),
        }
    }

    pub(crate) fn is_blocking(&self, number: i32) -> Outcome<bool> {
        self.descriptors.all.get(&self.first_of(number)).map(|descriptor| descriptor.is_blocking).ok_or(libc::EBADF)
    }

    pub(crate) fn set_blocking(&mut self, number: i32, is_blocking: bool) -> Outcome<()> {
        let number = self.first_of(number);
        let descriptor = self.descriptors.all.get_mut(&number).ok_or(libc::EBADF)?;
        descriptor.is_blocking = is_blocking;
        Ok(())
    }

    pub(crate) fn read_at(&mut self, number: i32, bytes: &mut [u8]) -> Outcome<usize> {
        match self.kind(number)? {
            Kind::Counter(count) => {
                let taken = std::mem::take(count);
                if taken == 0 {
                    return Err(libc::EAGAIN);
                }
                bytes.get_mut(..8).ok_or(libc::EINVAL)?.copy_from_slice(&taken.to_le_bytes());
                Ok(8)
            }
            _ => {
                let end = self.stream(number)?;
                self.receive(end, bytes)
            }
        }
    }

    pub(crate) fn write_at(&mut self, number: i32, bytes: &[u8]) -> Outcome<usize> {
        match self.kind(number)? {
            Kind::Counter(count) => {
                let more = bytes.first_chunk::<8>().ok_or(libc::EINVAL)?;
                *count = count.saturating_add(u64::from_le_bytes(*more));
                let first = self.first_of(number);
                self.news(first, READ);
                Ok(8)
            }
            _ => {
                let end = self.stream(number)?;
                self.send(end, bytes)
            }
        }
    }

    pub(crate) fn shut_down(&mut self, number: i32) -> Outcome<()> {
        let end = self.stream(number)?;
        self.shut(end)
    }

    pub(crate) fn close_descriptor(&mut self, number: i32) -> Outcome<()> {
        let first = self.first_of(number);
        self.descriptors.copies.remove(&number);
        let descriptor = self.descriptors.all.get_mut(&first).ok_or(libc::EBADF)?;
        descriptor.names -= 1;
        if descriptor.names > 0 {
            return Ok(());
        }
        let number = first;
        let descriptor = self.descriptors.all.remove(&number).ok_or(libc::EBADF)?;
        for epoll in self.descriptors.watching.remove(&number).unwrap_or_default() {
            if let Ok(Kind::Epoll(interests)) = self.kind(epoll) {
                interests.remove(&number);
            }
        }
        match descriptor.kind {
            Kind::Listener(address) => self.unlisten(address),
            Kind::Stream(end) => self.close_end(end),
            Kind::Epoll(interests) => {
                for watched in interests.into_keys() {
                    self.descriptors.watching.entry(watched).or_default().retain(|epoll| *epoll != number);
                }
            }
            Kind::Fresh(_) | Kind::Counter(_) => {}
        }
        Ok(())
    }

    /// Closes all descriptors of a process, as its end does.
    pub(crate) fn close_all(&mut self, process: usize) {
        let of_it = |(number, descriptor): (&i32, &Descriptor)| (descriptor.process == process).then_some(*number);
        let open: Vec<i32> = self.descriptors.all.iter().filter_map(of_it).collect();
        for number in open {
            self.descriptors.copies.retain(|_, first| *first != number);
            self.descriptors.all.get_mut(&number).into_iter().for_each(|descriptor| descriptor.names = 1);
            _ = self.close_descriptor(number);
        }
    }

    fn readiness(&mut self, number: i32) -> u32 {
        match self.kind(number) {
            Ok(Kind::Counter(count)) => {
                if *count > 0 {
                    READ | WRITE
                } else {
                    WRITE
                }
            }
            Ok(Kind::Stream(end)) => {
                let end = *end;
                self.network.readiness(end)
            }
            Ok(Kind::Listener(address)) => {
                let address = *address;
                if self.network.is_called(address) { READ } else { 0 }
            }
            _ => 0,
        }
    }

    /// Adds, changes or removes a descriptor that an epoll watches. A descriptor of the real kernel never has news.
    pub(crate) fn control_epoll(
        &mut self,
        epoll: i32,
        operation: i32,
        number: i32,
        events: u32,
        data: u64,
    ) -> Outcome<()> {
        let (epoll, number) = (self.first_of(epoll), self.first_of(number));
        let news = if operation == libc::EPOLL_CTL_DEL { 0 } else { self.readiness(number) };
        let Kind::Epoll(interests) = self.kind(epoll)? else { return Err(libc::EINVAL) };
        match operation {
            libc::EPOLL_CTL_DEL => {
                interests.remove(&number).ok_or(libc::ENOENT)?;
                self.descriptors.watching.entry(number).or_default().retain(|other| *other != epoll);
            }
            libc::EPOLL_CTL_ADD if interests.contains_key(&number) => return Err(libc::EEXIST),
            _ => {
                interests.insert(number, Interest { events, data, news: 0 });
                let watching = self.descriptors.watching.entry(number).or_default();
                if !watching.contains(&epoll) {
                    watching.push(epoll);
                }
                self.news(number, news);
            }
        }
        Ok(())
    }

    /// Notes that a descriptor is ready for more than before, and wakes a thread of each epoll that watches it (D1).
    pub(crate) fn news(&mut self, number: i32, news: u32) {
        let watching = self.descriptors.watching.get(&number).cloned().unwrap_or_default();
        for epoll in watching {
            let mut is_told = false;
            if let Ok(Kind::Epoll(interests)) = self.kind(epoll)
                && let Some(interest) = interests.get_mut(&number)
            {
                interest.news |= news & (interest.events | FAILED);
                is_told = interest.news != 0;
            }
            if is_told {
                self.threads.wake_some(Wait::Epoll(epoll), 1);
            }
        }
    }

    /// Takes up to `most` reports of an epoll: the events, and the data of the descriptor.
    pub(crate) fn take_news(&mut self, epoll: i32, most: usize) -> Outcome<Vec<(u32, u64)>> {
        let Kind::Epoll(interests) = self.kind(epoll)? else { return Err(libc::EINVAL) };
        let with_news = interests.values_mut().filter(|interest| interest.news != 0).take(most);
        Ok(with_news.map(|interest| (std::mem::take(&mut interest.news), interest.data)).collect())
    }
}

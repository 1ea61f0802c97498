//! [`Port`]: an address on loopback that the kernel gives to no other program, also while no server listens there.
//!
//! The kernel gives a port that has become free to the next socket that asks for any port, even to a connecting one,
//! such as that of a replica which looks for its killed primary at this very port. A `Port` keeps a socket bound to it
//! that never listens: while it exists, the kernel gives the port only to programs that name it. A program that names
//! it and sets SO_REUSEADDR, as servers do, may listen there, one at a time, again and again.
//!
//! Checked by the test below.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that is kept until this value is dropped.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    /// This socket never listens and is not connected.
    _bound: TcpSocket,
}

impl Port {
    /// Finds a free port and keeps it.
    ///
    /// # Errors
    /// Those of the operating system, such as that there is no free port.
    pub fn keep() -> io::Result<Self> {
        let bound = TcpSocket::new_v4()?;
        bound.set_reuseaddr(true)?;
        bound.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: bound.local_addr()?, _bound: bound })
    }

    /// Returns the address, at which a program that names it may listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Goal: a server can return to its port whatever ports other programs take in the meantime, and shares it with
    /// none. Method: a listener on it, twice; before each, many ports are taken by listening and connecting sockets.
    #[test]
    fn a_kept_port_is_its_owners_over_and_over() {
        let port = Port::keep().unwrap();
        let elsewhere = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let take_others = || {
            for _ in 0..200 {
                let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                assert_ne!(listening.local_addr().unwrap(), port.address());
                let connecting = TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
                assert_ne!(connecting.local_addr().unwrap(), port.address());
                drop(elsewhere.accept().unwrap());
            }
            assert_ne!(Port::keep().unwrap().address(), port.address());
        };
        for _ in 0..2 {
            take_others();
            let refused = TcpStream::connect(port.address()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "nobody listens, and nobody meets himself");
            let listener = TcpListener::bind(port.address()).unwrap();
            assert_eq!(TcpListener::bind(port.address()).unwrap_err().kind(), ErrorKind::AddrInUse);
            let mut near = TcpStream::connect(port.address()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            far.write_all(b"it is served").unwrap();
            drop(far);
            let mut said = String::new();
            near.read_to_string(&mut said).unwrap();
            assert_eq!(said, "it is served");
        }
    }
}

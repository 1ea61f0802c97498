//! `Relay`: a proxy in this process through which a replica follows its primary, so that the network between them can
//! be held.
//!
//! # What always holds
//! - Y1. Every byte passes once, in order and unchanged: held bytes are late, not lost.
//! - Y2. Held bytes pass again when [`Held`] is dropped, whatever fails.
//! - Y3. Its connections and threads end with it.

use std::net::SocketAddr;

use anyhow::Context;
use collie_netlab::Proxy;

/// Seed of the jitter, which is not used.
const SEED: u64 = 0;

/// A proxy that listens on loopback and passes on what it receives.
#[derive(Debug)]
pub(crate) struct Relay(Proxy);

/// A hold: while this value exists, nothing passes.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held<'a>(&'a Proxy);

fn parsed(address: &str) -> anyhow::Result<SocketAddr> {
    address.parse().with_context(|| format!("{address} is no address of a relay"))
}

impl Relay {
    /// Starts a relay that passes everything on to `address`.
    ///
    /// # Errors
    /// `address` is no address and port; no port is free.
    pub(crate) fn to(address: &str) -> anyhow::Result<Self> {
        Ok(Self(Proxy::start(parsed(address)?, SEED).context("a relay has no port")?))
    }

    /// Directs new connections to `address`; returns the address on which the relay itself listens.
    ///
    /// # Errors
    /// `address` is no address and port.
    pub(crate) fn lead_to(&self, address: &str) -> anyhow::Result<String> {
        self.0.set_target(parsed(address)?);
        Ok(self.0.address().to_string())
    }

    /// Passes nothing on, in either direction, until the returned value is dropped; then passes all of it. It takes up
    /// to 5 ms to take effect.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.0.cut_both();
        Held(&self.0)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    /// The time in which nothing may arrive.
    const QUIET: Duration = Duration::from_millis(100);

    /// Returns both ends of a connection through a relay.
    fn through(relay: &Relay, behind: &TcpListener) -> [TcpStream; 2] {
        let address = relay.lead_to(&behind.local_addr().unwrap().to_string()).unwrap();
        let near = TcpStream::connect(address).unwrap();
        let (far, _) = behind.accept().unwrap();
        [near, far].map(|end| {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end
        })
    }

    fn passes(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8]) {
        from.write_all(bytes).unwrap();
        arrives(to, bytes);
    }

    fn arrives(to: &mut TcpStream, bytes: &[u8]) {
        let mut came = vec![0; bytes.len()];
        to.read_exact(&mut came).unwrap();
        assert_eq!(came, bytes);
    }

    fn is_quiet(end: &mut TcpStream) {
        end.set_read_timeout(Some(QUIET)).unwrap();
        let error = end.read(&mut [0; 1]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        end.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Goal: Y1 and Y2. Method: both ends of a connection; each sends before, during and after a hold that ends with a
    /// failure.
    #[test]
    fn what_is_held_is_late_and_not_lost() {
        let behind = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = Relay::to(&behind.local_addr().unwrap().to_string()).unwrap();
        let [mut near, mut far] = through(&relay, &behind);
        passes(&mut near, &mut far, b"before");
        passes(&mut far, &mut near, b"answered before");
        let mut hold_and_fail = || -> anyhow::Result<()> {
            let _held = relay.hold();
            near.write_all(b"during ")?;
            far.write_all(b"answered during ")?;
            is_quiet(&mut far);
            is_quiet(&mut near);
            anyhow::bail!("something fails meanwhile")
        };
        assert!(hold_and_fail().is_err());
        near.write_all(b"after").unwrap();
        far.write_all(b"answered after").unwrap();
        arrives(&mut far, b"during after");
        arrives(&mut near, b"answered during answered after");
    }

    /// Goal: Y3, and the end of one connection ends the other. Method: one end closes; the relay is dropped while it
    /// holds; new connections lead elsewhere once redirected; an invalid address.
    #[test]
    fn a_relay_ends_with_its_ends_and_they_with_it() {
        let behind = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = Relay::to("127.0.0.1:1").unwrap();
        let [near, mut far] = through(&relay, &behind);
        drop(near);
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0, "the other end has gone");
        let [mut near, mut far] = through(&relay, &behind);
        passes(&mut near, &mut far, b"still there");
        std::mem::forget(relay.hold());
        drop(relay);
        for end in [&mut near, &mut far] {
            assert!(
                end.read(&mut [0; 1])
                    .map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |count| count == 0)
            );
        }
        assert!(format!("{:#}", Relay::to("nowhere").unwrap_err()).contains("nowhere is no address"));
    }
}

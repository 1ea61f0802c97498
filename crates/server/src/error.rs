//! `ServeError`: the reason why the server did not start, or stopped.

use std::{fmt, io, net::SocketAddr};

use collie_base::Remedy;
use collie_replica::primary::NewerSlots;
use collie_sql::session::OpenError;

/// The reason why the server did not start, or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting is unknown, ill-typed or out of bounds.
    Setting {
        /// The problem, and the remedy.
        message: String,
    },
    /// The address is not on loopback.
    NotLoopback {
        /// The address.
        address: SocketAddr,
        /// The flag that gave it.
        flag: &'static str,
    },
    /// The address is not free.
    AddressInUse {
        /// The address.
        address: SocketAddr,
        /// The flag that gave it.
        flag: &'static str,
    },
    /// The operating system refused `operation` on `what`.
    Io {
        /// The attempted operation.
        operation: &'static str,
        /// The file or address.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The data directory could not be opened.
    Open(OpenError),
    /// A newer program has written the file of the slots.
    NewerSlots(NewerSlots),
    /// A replica cannot continue in its present state.
    Replication {
        /// The reason, and the remedy.
        message: String,
    },
    /// The log could not be flushed at the end.
    Close {
        /// The reason.
        message: String,
    },
}

impl ServeError {
    pub(crate) fn setting(message: impl Into<String>) -> Self {
        Self::Setting { message: message.into() }
    }

    /// Returns why the address that `flag` gave cannot be listened on.
    pub(crate) fn listening(address: SocketAddr, flag: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::AddressInUse { address, flag },
            _ => Self::Io { operation: "listen on", what: address.to_string(), source },
        }
    }

    /// Returns what the caller can do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Setting { .. } | Self::NotLoopback { .. } | Self::NewerSlots(_) => Remedy::FixCall,
            Self::AddressInUse { .. } => Remedy::FreeResources,
            Self::Io { .. } | Self::Close { .. } => Remedy::Reopen,
            Self::Replication { .. } => Remedy::RestoreData,
            Self::Open(OpenError::Engine(error)) => error.remedy(),
            Self::Open(OpenError::Catalog(error)) => error.remedy(),
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { message } | Self::Replication { message } => f.write_str(message),
            Self::NotLoopback { address, flag } => write!(
                f,
                "refusing to listen on {address}: there is no authentication yet, so only loopback addresses are served; \
                 use {flag} 127.0.0.1:{}",
                address.port()
            ),
            Self::AddressInUse { address, flag } => write!(
                f,
                "{address} is in use by another process: stop it, or choose another port with {flag} 127.0.0.1:PORT"
            ),
            Self::Io { operation, what, source } => write!(f, "cannot {operation} {what}: {source}"),
            Self::Open(error) => error.fmt(f),
            Self::NewerSlots(error) => error.fmt(f),
            Self::Close { message } => write!(f, "the log could not be flushed on shutdown: {message}"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<NewerSlots> for ServeError {
    fn from(error: NewerSlots) -> Self {
        Self::NewerSlots(error)
    }
}

impl From<OpenError> for ServeError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

//! `ServeError`: the reason why the server did not start, or stopped.

use std::{io, net::SocketAddr};

use collie_base::Remedy;
use collie_replica::primary::NewerSlots;
use collie_sql::session::OpenError;
use thiserror::Error;

/// The reason why the server did not start, or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting is unknown, ill-typed or out of bounds.
    #[error("{message}")]
    Setting {
        /// The problem, and the remedy.
        message: String,
    },
    /// The address is not on loopback.
    #[error(
        "refusing to listen on {address}: there is no authentication yet, so only loopback addresses are served; use \
         {flag} 127.0.0.1:{}",
        .address.port()
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
        /// The flag that gave it.
        flag: &'static str,
    },
    /// The address is not free.
    #[error("{address} is in use by another process: stop it, or choose another port with {flag} 127.0.0.1:PORT")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
        /// The flag that gave it.
        flag: &'static str,
    },
    /// The operating system refused `operation` on `what`.
    #[error("cannot {operation} {what}: {error}")]
    Io {
        /// The attempted operation.
        operation: &'static str,
        /// The file or address.
        what: String,
        /// The system's error.
        error: io::Error,
    },
    /// The data directory could not be opened.
    #[error("{0}")]
    Open(OpenError),
    /// A newer program has written the file of the slots.
    #[error("{0}")]
    NewerSlots(NewerSlots),
    /// A replica cannot continue in its present state.
    #[error("{message}")]
    Replication {
        /// The reason, and the remedy.
        message: String,
    },
    /// The log could not be flushed at the end.
    #[error("the log could not be flushed on shutdown: {message}")]
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
    pub(crate) fn listening(address: SocketAddr, flag: &'static str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::AddressInUse { address, flag },
            _ => Self::Io { operation: "listen on", what: address.to_string(), error },
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

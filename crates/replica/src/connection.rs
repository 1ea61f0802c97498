//! [`Connection`]: bytes in both directions.

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection that carries bytes in both directions.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection for T {}

//! A connection to a primary, up to the first packet: PostgreSQL's start-up, with `replication=collie`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{future::Future, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{LinkError, packet::ErrorCode};

/// From the first try to the last byte of the start-up.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Longest message of a start-up that is read: an error's text.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The value of `replication` in a start-up whose connection carries the stream.
pub const STREAM: &str = "collie";

/// Its value where one question about terms comes.
pub const TERMS: &str = "collie-terms";

/// The parameter of a start-up that names the database, where one question about terms comes.
pub const CLUSTER: &str = "collie_cluster";

/// Protocol 3.0.
const VERSION: u32 = 3 << 16;

/// Connects to `address`, host and port, and goes through the start-up as `name`.
///
/// # Errors
/// The network's; what the server says when it does not take replicas.
pub async fn connect(address: &str, name: &str) -> Result<TcpStream, LinkError> {
    within(CONNECT_TIME, start(address, name, STREAM, "")).await
}

/// Connects to `address` for one question about terms ([`crate::term::ask`]), which any node answers, whoever it follows.
///
/// # Errors
/// The network's; nothing was heard for as long as `patience`; what the server says when it is no node of Collie.
pub async fn connect_for_terms(
    address: &str,
    name: &str,
    cluster: u128,
    patience: Duration,
) -> Result<TcpStream, LinkError> {
    within(patience, start(address, name, TERMS, &cluster_text(cluster))).await
}

/// Returns a database's id as a start-up carries it: terms of another database are nobody's business.
pub fn cluster_text(cluster: u128) -> String {
    format!("{cluster:032x}")
}

async fn within(
    patience: Duration,
    starting: impl Future<Output = Result<TcpStream, LinkError>>,
) -> Result<TcpStream, LinkError> {
    let after_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    timeout(patience, starting).await.map_err(|_| LinkError::Silent { after_ms })?
}

async fn start(address: &str, name: &str, what: &str, cluster: &str) -> Result<TcpStream, LinkError> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&startup(name, what, cluster)).await?;
    loop {
        let (kind, body) = message(&mut stream).await?;
        match kind {
            b'Z' => return Ok(stream),
            b'R' if body == [0; 4] => {}
            b'R' => {
                let text =
                    "the primary asks for a password, which this version cannot give: --replica-listen on loopback";
                return Err(LinkError::Told { code: ErrorCode::Protocol, fatal: true, text: text.to_owned() });
            }
            b'E' => {
                let text = field(&body, b'M').unwrap_or_else(|| "an error without words".to_owned());
                return Err(LinkError::Told { code: ErrorCode::NotPrimary, fatal: false, text });
            }
            _ => {}
        }
    }
}

fn startup(name: &str, what: &str, cluster: &str) -> Vec<u8> {
    let mut body = VERSION.to_be_bytes().to_vec();
    let parameters = [
        ("user", "collie"),
        ("database", "collie"),
        ("replication", what),
        ("application_name", name),
        (CLUSTER, cluster),
    ];
    for (key, value) in parameters.into_iter().filter(|(_, value)| !value.is_empty()) {
        for text in [key, value] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
    }
    body.push(0);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).saturating_add(4);
    [&length.to_be_bytes()[..], &body].concat()
}

/// Reads one message, and nothing behind it: that is packets.
async fn message(stream: &mut TcpStream) -> Result<(u8, Vec<u8>), LinkError> {
    let kind = stream.read_u8().await?;
    let length = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
    let Some(length) = length.checked_sub(4).filter(|length| *length <= MESSAGE_BYTES_MAX) else {
        return Err(LinkError::Unexpected { what: "message: is it a Collie server?" });
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((kind, body))
}

/// Returns a field of an ErrorResponse.
fn field(body: &[u8], code: u8) -> Option<String> {
    let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&code))?;
    Some(String::from_utf8_lossy(field.get(1..)?).into_owned())
}

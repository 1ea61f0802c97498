//! A connection to a primary, up to the first packet: PostgreSQL's start-up, with `replication=collie`, in which
//! both nodes prove that they have the replication key.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{future::Future, time::Duration};

use collie_base::one_line;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    LinkError,
    key::{Calling, KeyFile, Purpose, Trusted, handshake::Caller},
    packet::ErrorCode,
};

/// The time from the first try to the last byte of the start-up.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The longest message of a start-up that is read: the text of an error.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The value of `replication` in a start-up whose connection carries the stream.
pub const STREAM: &str = "collie";

/// Its value for a connection with one question about terms.
pub const TERMS: &str = "collie-terms";

/// The parameter of a start-up that names the database, for a connection with one question about terms.
pub const CLUSTER: &str = "collie_cluster";

/// Protocol 3.0.
const VERSION: u32 = 3 << 16;

/// Connects to `address`, host and port, performs the start-up as `name`, and proves with `key` that this node is
/// one of the database's.
///
/// # Errors
/// The network failed; there is no key, or the other node does not have it; or the server's error if it accepts no
/// replicas.
pub async fn connect(address: &str, name: &str, key: &KeyFile) -> Result<Trusted<TcpStream>, LinkError> {
    within(CONNECT_TIME, start(address, Purpose { what: STREAM, name, cluster: "" }, key)).await
}

/// Connects to `address` for one question about terms ([`crate::term::ask`]), which any node answers, whichever
/// node it follows.
///
/// # Errors
/// The network failed; nothing arrived for as long as `patience`; there is no key, or the other node does not have
/// it; or the server's error if it is no node of this database.
pub async fn connect_for_terms(
    address: &str,
    name: &str,
    cluster: u128,
    key: &KeyFile,
    patience: Duration,
) -> Result<Trusted<TcpStream>, LinkError> {
    let cluster = cluster_text(cluster);
    within(patience, start(address, Purpose { what: TERMS, name, cluster: &cluster }, key)).await
}

/// Returns the id of a database in the form of a start-up, by which a node of another database refuses the
/// question.
pub fn cluster_text(cluster: u128) -> String {
    format!("{cluster:032x}")
}

async fn within<T>(patience: Duration, starting: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    let after_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    timeout(patience, starting).await.map_err(|_| LinkError::Silent { after_ms })?
}

async fn start(address: &str, purpose: Purpose<'_>, key: &KeyFile) -> Result<Trusted<TcpStream>, LinkError> {
    let keys = tokio::task::block_in_place(|| key.read())
        .map_err(|error| LinkError::refused(ErrorCode::Protocol, collie_base::Lsn::ZERO, error.to_string()))?;
    let mut calling = Calling::new(Caller::new(&keys, purpose, key.nonce()));
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&startup(purpose)).await?;
    loop {
        let (kind, body) = message(&mut stream).await?;
        match kind {
            b'Z' => {
                let Some(keys) = calling.proved() else {
                    return Err(LinkError::Unexpected { what: "end of the start-up" });
                };
                return Ok(Trusted::new(stream, keys));
            }
            b'R' => calling.asked(&mut stream, &body).await?,
            b'E' => {
                let text = field(&body, b'M').unwrap_or_else(|| "an error without words".to_owned());
                return Err(LinkError::Told { code: ErrorCode::NotPrimary, fatal: false, text });
            }
            _ => {}
        }
    }
}

fn startup(Purpose { what, name, cluster }: Purpose<'_>) -> Vec<u8> {
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

/// Reads one message, and no byte after it, where packets begin.
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
    Some(one_line(&String::from_utf8_lossy(field.get(1..)?)).into_owned())
}

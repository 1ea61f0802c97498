//! A question about terms over a separate connection, and its answer: one packet `T` each.

use std::time::Duration;

use crate::{
    Connection, LinkError,
    key::Trusted,
    link,
    packet::{ErrorCode, From, Packet, TermPacket},
};
use collie_base::Lsn;

/// Sends `packet`, and returns the answer of the other node, waiting up to `patience`.
///
/// # Errors
/// The network failed, or the other node sent an error instead.
pub async fn ask<C: Connection>(
    io: Trusted<C>,
    packet: &TermPacket,
    patience: Duration,
) -> Result<TermPacket, LinkError> {
    let (mut reading, mut writing) = link::open(io, From::Primary, patience);
    writing.send(&Packet::Term(*packet)).await?;
    match reading.next(patience).await? {
        Packet::Term(answer) => Ok(answer),
        _ => Err(LinkError::Unexpected { what: "packet instead of an answer about terms" }),
    }
}

/// Answers one question.
///
/// # Errors
/// The network failed; or the error of `decide`, which is reported to the other node.
pub async fn answer<C: Connection>(
    io: Trusted<C>,
    patience: Duration,
    decide: impl FnOnce(&TermPacket) -> Result<TermPacket, String> + Send,
) -> Result<(), LinkError> {
    let (mut reading, mut writing) = link::open(io, From::Replica, patience);
    let answered = match reading.next(patience).await {
        Ok(Packet::Term(asked)) => tokio::task::block_in_place(|| decide(&asked))
            .map_err(|text| LinkError::refused(ErrorCode::Storage, Lsn::ZERO, text)),
        Ok(_) => Err(LinkError::Unexpected { what: "packet instead of a question about terms" }),
        Err(error) => Err(error),
    };
    let result = match answered {
        Ok(packet) => writing.send(&Packet::Term(packet)).await,
        Err(error) => Err(error),
    };
    writing.end(result.as_ref().err()).await;
    result
}

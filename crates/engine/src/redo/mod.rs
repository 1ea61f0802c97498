//! Redo: the records in the log that rebuild rows.
//!
//! | file | holds |
//! |---|---|
//! | `records` | the bytes of the records |
//! | `buffer` | the operations of one open transaction, until the log takes them |
//! | `txn_chunks` | the chunks of a transaction in the log, and which of its operations count |
//! | `quorum_record` | the content of a QUORUM record |
//! | `describe` | a line about a record, for people |

pub(crate) mod buffer;
pub(crate) mod describe;
pub(crate) mod quorum_record;
pub(crate) mod records;
pub(crate) mod txn_chunks;

pub(crate) use self::records::{
    HEADER_BYTES_MAX, Incarnation, KEY_BYTES_MAX, Op, REDO_VERSION, Redo, Relogged, VALUE_BYTES_MAX, XID_BLOCK,
    encode_integers, encode_relog, encode_time, tag,
};

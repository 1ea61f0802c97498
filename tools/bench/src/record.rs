//! The records that every protocol carries, in Collie's own framing, so that all protocols move the same bytes.

/// Kind DATA with tag 1, as the log writes it.
const KIND: u32 = 1 | (1 << 3);

/// Length and kind, before the body of a record: at most 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    bytes: [u8; Head::STORED_BYTES],
    len: usize,
}

impl Head {
    /// Creates the head for a body of `body_bytes`, below 2 MiB.
    pub(crate) fn new(body_bytes: usize) -> Self {
        let body = u32::try_from(body_bytes).ok().filter(|body| *body < 1 << 21).expect("three bytes of length");
        // Built in one word, as in the log.
        let (low, middle, high) = (body & 0x7f, body >> 7 & 0x7f, body >> 14);
        let (word, len) = match body {
            0..0x80 => (low | KIND << 8, 2),
            0x80..0x4000 => (low | 0x80 | middle << 8 | KIND << 16, 3),
            _ => (low | 0x80 | (middle | 0x80) << 8 | high << 16 | KIND << 24, 4),
        };
        Self { bytes: word.to_le_bytes(), len }
    }

    /// Size of [`Head::stored`].
    pub(crate) const STORED_BYTES: usize = 4;

    /// Returns the bytes of the head, followed by zeros.
    pub(crate) fn stored(&self) -> [u8; Self::STORED_BYTES] {
        self.bytes
    }

    /// Returns the bytes of the head.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Splits the first record off `stream`; returns its body and the rest, or `None` if it is not a whole record.
#[cfg(test)]
pub(crate) fn split(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut len, mut at) = (0, 0);
    loop {
        let byte = *stream.get(at)?;
        len |= usize::from(byte & 0x7f) << (7 * at);
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (u32::from(*stream.get(at)?) == KIND).then_some(())?;
    let rest = stream.get(at + 1..)?;
    (rest.len() >= len).then(|| rest.split_at(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: heads are as long as those that the log writes. Method: one record of each length through a real log, and
    /// the positions that it takes.
    #[test]
    fn heads_are_as_long_as_the_logs_own() {
        let (env, _disk) = collie_env::Env::simulated(1);
        let (log, _found) = collie_wal::Log::open(&env, "/log".as_ref(), collie_wal::Options::small()).unwrap();
        let mut writer = log.writer();
        for len in [0, 1, 127, 128, 1024, 16_383, 16_384] {
            let appended = writer.append(1, &[&vec![0; len]]).unwrap();
            let expected = Head::new(len).as_slice().len() + len;
            assert_eq!(appended.end.bytes_since(appended.start), expected as u64, "{len} bytes");
        }
    }

    /// Goal: splitting reverses joining. Method: lengths around the steps of the encoded length.
    #[test]
    fn split_finds_what_a_head_announces() {
        for len in [0, 1, 127, 128, 300, 16_384] {
            let stream = [Head::new(len).as_slice(), &vec![7; len], b"rest"].concat();
            let (body, rest) = split(&stream).unwrap();
            assert_eq!((body.len(), rest), (len, &b"rest"[..]));
            assert!(split(&stream[..len]).is_none());
        }
    }
}

//! `count`: the number of records of a kind in a run of the stream, for callers that measure the work on the run
//! afterwards.
//!
//! It reads heads of records only, and of a long run only the front: the rest is taken to be like the front.

use crate::format::decode::{self, RawRecord};

/// Bytes at the front of a run whose records are read. At a hundred bytes per record this takes a few microseconds,
/// whereas a flush takes hundreds.
const LOOKED_AT_BYTES: usize = 256 << 10;

/// Returns the number of records of `run`, which begins with one, for which `counts` returns true: exactly up to
/// [`LOOKED_AT_BYTES`], beyond that in proportion to the bytes that were read. Stops at bytes that are no record.
/// Progress: bounded work, allocates nothing.
pub(crate) fn count(run: &[u8], counts: impl Fn(&RawRecord<'_>) -> bool) -> u64 {
    let (mut rest, mut found) = (run, 0_u64);
    while run.len() - rest.len() < LOOKED_AT_BYTES
        && let Some(raw) = decode::record(rest)
        && let Some(behind) = usize::try_from(raw.bytes).ok().and_then(|bytes| rest.get(bytes..))
    {
        found += u64::from(counts(&raw));
        rest = behind;
    }
    let (all, looked_at) = (run.len() as u64, (run.len() - rest.len()) as u64);
    (found * all + looked_at / 2).checked_div(looked_at).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{KIND_DATA, KIND_VOID, RecordHead};

    fn run(records: &[(u8, usize)]) -> Vec<u8> {
        let mut run = Vec::new();
        for (kind, bytes) in records {
            run.extend_from_slice(RecordHead::new(*bytes, *kind, 3).as_slice());
            run.resize(run.len() + bytes, 7);
        }
        run
    }

    /// Goal: records are counted one by one in a short run, and by bytes in a long one. Method: runs of two kinds,
    /// compared with what was put there; a long one that repeats itself; and one record longer than the part that is
    /// read.
    #[test]
    fn records_are_counted_to_a_bound_and_beyond_it_by_bytes() {
        let is_data = |raw: &RawRecord<'_>| raw.kind == KIND_DATA;
        assert_eq!(count(&[], is_data), 0);
        let mixed = run(&[(KIND_DATA, 0), (KIND_VOID, 5), (KIND_DATA, 200), (KIND_DATA, 40_000)]);
        assert_eq!((count(&mixed, is_data), count(&mixed, |_| true)), (3, 4));
        let half = [(KIND_DATA, 98), (KIND_VOID, 98)].repeat(LOOKED_AT_BYTES / 200 * 4);
        assert_eq!(count(&run(&half), is_data), half.len() as u64 / 2);
        let large = run(&[(KIND_DATA, LOOKED_AT_BYTES * 2), (KIND_DATA, 10), (KIND_DATA, 10)]);
        assert_eq!(count(&large, is_data), 1, "what lies behind it is not looked at");
        let cut = run(&[(KIND_DATA, 50), (KIND_DATA, 50)]);
        assert_eq!(count(&cut[..cut.len() - 1], is_data), 2, "by the bytes, where it ends in the midst of one");
    }
}

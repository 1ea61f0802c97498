//! [`StoredFile`]: a sample file as a list of files shows it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use collie_env::File;
use parquet::file::metadata::ParquetMetaDataReader;

use crate::FileName;

/// The end of a file: the length of its metadata in 4 bytes, and `PAR1`.
const TAIL_BYTES: u64 = 8;

/// No file's metadata is longer: it takes a few kilobytes for twenty columns.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

/// A file of samples or of context rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The facts in its path.
    pub name: FileName,
    /// Its length; 0 if it has been removed in the meantime.
    pub bytes: u64,
    /// Its number of rows, as its metadata states; `None` if it is damaged or gone.
    pub rows: Option<u64>,
}

/// Returns the number of rows of a file of `bytes` bytes, by two reads of its end, of a few kilobytes.
pub(crate) fn rows_of(file: &dyn File, bytes: u64) -> Option<u64> {
    let mut tail = [0; 8];
    let tail_at = bytes.checked_sub(TAIL_BYTES)?;
    if file.read_at(tail_at, &mut tail).ok()? < tail.len() || &tail[4..] != b"PAR1" {
        return None;
    }
    let [a, b, c, d, ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d])).min(DESCRIPTION_BYTES_MAX);
    let mut description = vec![0; usize::try_from(length).ok()?];
    if file.read_at(tail_at.checked_sub(length)?, &mut description).ok()? < description.len() {
        return None;
    }
    // The library trusts that a writer made the bytes, and may panic on others.
    let decode = || ParquetMetaDataReader::decode_metadata(&description);
    let metadata = catch_unwind(AssertUnwindSafe(decode)).ok()?.ok()?;
    u64::try_from(metadata.file_metadata().num_rows()).ok()
}

#[cfg(test)]
mod tests {
    use collie_env::{Access, Env};

    use crate::{Origin, SampleDir, SampleSink, SinkOptions, sample_of_unit};

    /// Goal: files are listed newest first with their rows, as many as requested, and a damaged one is listed without
    /// rows. Method: files of 3 and of 5 rows, of which the newer one loses its last byte, and then most of its bytes.
    #[test]
    fn files_are_listed_with_their_rows() {
        let (env, _disk) = Env::simulated(3);
        let mut sink = SampleSink::open(&env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default()).unwrap();
        for rows in [3, 5] {
            sink.add(&vec![sample_of_unit(13, 9); rows]);
            sink.finish();
        }
        let dir = SampleDir::new(env.files.clone(), "/data".as_ref());
        let rows = |limit| dir.stored(limit).unwrap().iter().map(|file| (file.name.seq, file.rows)).collect::<Vec<_>>();
        assert_eq!(rows(9), [(2, Some(5)), (1, Some(3))]);
        assert_eq!(rows(1), [(2, Some(5))]);
        let newest = dir.stored(1).unwrap().remove(0);
        assert_eq!(dir.stored(9).unwrap().iter().map(|file| file.bytes).sum::<u64>(), sink.bytes());
        let file = env.files.open(&newest.name.path("/data".as_ref()), Access::ReadWrite).unwrap();
        for bytes in [newest.bytes - 1, 20, 7, 0] {
            file.set_len(bytes).unwrap();
            assert_eq!(rows(9), [(2, None), (1, Some(3))], "{bytes} bytes");
        }
    }
}

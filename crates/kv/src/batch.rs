//! `Batch`: writes to any families that take effect together.

use collie_base::CfId;
use collie_engine::{KEY_BYTES_MAX, Upsert, VALUE_BYTES_MAX};

use crate::{Cf, Error};

/// Maximum redo of one batch: 1 GiB.
const REDO_BYTES_MAX: u64 = 1 << 30;
/// Upper bound of the log bytes of an operation in addition to its key and value.
const OPERATION_BYTES: u64 = 16;

/// Writes that take effect together: after a crash and in every snapshot, all of them are there or none. A later
/// operation on a key replaces earlier ones. A key has at most 65,531 bytes, a value 64 MiB, and the whole batch 1 GiB;
/// the write refuses a batch beyond a limit before anything is done.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    operations: Vec<Operation>,
    /// Keys and values, concatenated.
    bytes: Vec<u8>,
    redo_bytes: u64,
    /// The first limit that was exceeded.
    refused: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Operation {
    cf: Cf,
    /// Start and end of the key in `bytes`.
    key: (usize, usize),
    /// End of the value in `bytes`; `None` deletes the key.
    value_end: Option<usize>,
}

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) cf: &'a Cf,
    pub(crate) key: &'a [u8],
    /// `None` deletes.
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> Put<'a> {
    /// Returns the write as a call of a session.
    pub(crate) fn upsert(self) -> Upsert<'a> {
        Upsert::new(self.cf.family(), self.key, self.value)
    }
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a write that sets `key` to `value`.
    pub fn put(&mut self, cf: &Cf, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(cf, key.as_ref(), Some(value.as_ref()));
    }

    /// Adds a write that deletes `key`, if it exists.
    pub fn delete(&mut self, cf: &Cf, key: impl AsRef<[u8]>) {
        self.push(cf, key.as_ref(), None);
    }

    fn push(&mut self, cf: &Cf, key: &[u8], value: Option<&[u8]>) {
        if let Err(what) = check_sizes(key, value) {
            self.refused = self.refused.or(Some(what));
            return;
        }
        let size = key.len() + value.map_or(0, <[u8]>::len);
        self.redo_bytes += OPERATION_BYTES + u64::try_from(size).unwrap_or(u64::MAX);
        if self.redo_bytes > REDO_BYTES_MAX {
            self.refused = self.refused.or(Some("a batch is at most 1 GiB large: split it"));
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key = (start, self.bytes.len());
        let value_end = value.map(|value| {
            self.bytes.extend_from_slice(value);
            self.bytes.len()
        });
        self.operations.push(Operation { cf: cf.clone(), key, value_end });
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Removes all operations and keeps the memory for the next batch.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.bytes.clear();
        (self.redo_bytes, self.refused) = (0, None);
    }

    /// Returns the families that the batch writes to, in ascending order.
    pub(crate) fn families(&self) -> Vec<CfId> {
        let mut cfs: Vec<CfId> = self.operations.iter().map(|operation| operation.cf.id()).collect();
        cfs.sort_unstable();
        cfs.dedup();
        cfs
    }

    /// Fails if the batch exceeded a limit or a family of it cannot be written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(what) = self.refused {
            return Err(Error::invalid(what));
        }
        self.operations.iter().try_for_each(|operation| operation.cf.check_writable())
    }

    /// Sorts the operations by family and key, and keeps only the last operation of each key. All batches use one
    /// order, so two batches never deadlock.
    pub(crate) fn settle(&mut self) {
        if self.operations.len() < 2 {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let key = |one: &Operation| (one.cf.id(), &bytes[one.key.0..one.key.1]);
        self.operations.sort_by(|one, other| key(one).cmp(&key(other)));
        // The sort is stable: among the operations of a key, the last one stays last.
        self.operations.reverse();
        self.operations.dedup_by(|next, kept| key(next) == key(kept));
        self.operations.reverse();
        self.bytes = bytes;
    }

    /// Returns the operations in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Put<'_>> {
        self.operations.iter().map(|operation| {
            let value = operation.value_end.map(|end| &self.bytes[operation.key.1..end]);
            Put { cf: &operation.cf, key: &self.bytes[operation.key.0..operation.key.1], value }
        })
    }
}

/// Fails if a key or a value is too long.
pub(crate) fn check_sizes(key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
    if key.len() > KEY_BYTES_MAX {
        return Err("a key is at most 65,531 bytes long");
    }
    if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
        return Err("a value is at most 64 MiB long");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use collie_engine::{Family, NamedFamily};

    use super::*;

    fn cf(id: u32) -> Cf {
        let family = Arc::new(Family::new(CfId::new(id)));
        Cf::new(NamedFamily { name: "name".to_owned(), group: String::new(), family })
    }

    /// Goal: a batch does the last operation that was added for each key, in one order. Method: operations on two
    /// families out of order, some keys twice.
    #[test]
    fn batch_keeps_the_last_operation_of_a_key() {
        let (one, two) = (cf(1), cf(2));
        let mut batch = Batch::new();
        batch.put(&two, b"k", b"0");
        batch.put(&one, b"b", b"1");
        batch.delete(&one, b"a");
        batch.put(&one, b"b", b"2");
        batch.put(&one, b"a", b"3");
        batch.delete(&two, b"k");
        batch.settle();
        let all: Vec<String> = batch.iter().map(|it| format!("{} {:?} {:?}", it.cf.id(), it.key, it.value)).collect();
        assert_eq!(all, ["1 [97] Some([51])", "1 [98] Some([50])", "2 [107] None"]);
        batch.clear();
        assert!(batch.is_empty());
    }

    /// Goal: a batch beyond a limit is refused whatever is added later, and takes no memory for the refused write.
    /// Method: a key that is one byte too long, and more than 1 GiB with one key.
    #[test]
    fn batch_beyond_a_limit_is_refused() {
        let cf = cf(1);
        let mut batch = Batch::new();
        batch.put(&cf, vec![0; KEY_BYTES_MAX + 1], b"");
        batch.put(&cf, b"k", b"");
        assert!(batch.check().unwrap_err().to_string().contains("65,531"));
        batch.clear();
        batch.put(&cf, vec![0; KEY_BYTES_MAX], b"");
        batch.check().unwrap();
        batch.redo_bytes = REDO_BYTES_MAX; // instead of filling a gibibyte of memory
        batch.put(&cf, b"k", b"");
        assert!(batch.check().unwrap_err().to_string().contains("1 GiB"));
    }
}

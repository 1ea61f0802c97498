//! Settings by their names, from text and from the text of a file. An unknown name is an error that suggests the
//! nearest known one.

use collie_base::{parse_bytes, parse_time};
use collie_engine::{Compression, EngineError, JOBS_MAX, nearest_option};
use collie_wal::{RecoveryMode, RingKind};

use super::Options;
use crate::Error;

const RINGS: [(&str, RingKind); 3] =
    [("private", RingKind::Private), ("shared", RingKind::Shared), ("auto", RingKind::Auto)];

const MODES: [(&str, RecoveryMode); 4] = [
    ("tolerate_corrupted_tail_records", RecoveryMode::TolerateCorruptedTailRecords),
    ("absolute_consistency", RecoveryMode::AbsoluteConsistency),
    ("point_in_time", RecoveryMode::PointInTime),
    ("skip_any_corrupted_records", RecoveryMode::SkipAnyCorruptedRecords),
];

impl Options {
    /// Sets one option by its name, from text: `true` and `false`; counts; bytes as `1024`, `64KiB`, `1MiB`, `2GiB`;
    /// times as `10ms`, `500us`, `2s`, or a number of milliseconds; words in lower case.
    ///
    /// # Errors
    /// `InvalidArgument`; for an unknown name the text suggests the nearest known one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let bad =
            |wanted: &str| EngineError::BadOption { name: name.into(), value: value.into(), wanted: wanted.into() };
        let flag = || value.parse().map_err(|_| bad("true or false"));
        let count = || value.parse::<usize>().map_err(|_| bad("a count"));
        let number = || value.parse::<u32>().map_err(|_| bad("a count"));
        let bytes = || parse_bytes(value).ok_or_else(|| bad("bytes, such as 64MiB"));
        let time = || parse_time(value).ok_or_else(|| bad("a time, such as 10ms"));
        match name {
            "create_if_missing" => self.create_if_missing = flag()?,
            "read_only" => self.read_only = flag()?,
            "store.allow_replication_holes" => self.store.allow_replication_holes = flag()?,
            "store.avoid_flush_at_close" => self.store.avoid_flush_at_close = flag()?,
            "store.compaction_threads" => {
                let given = count()?;
                let wanted = || bad(&format!("1 to {JOBS_MAX}"));
                self.store.compaction_threads =
                    Some(given).filter(|given| (1..=JOBS_MAX).contains(given)).ok_or_else(wanted)?;
            }
            "store.compression" => {
                self.store.compression = word(&Compression::NAMES, value).map_err(|wanted| bad(&wanted))?;
            }
            "store.gc_interval" => self.store.gc_interval = time()?,
            "store.memory_limit" => self.store.memory_limit = bytes()?,
            "store.recovery_threads" => self.store.recovery_threads = count()?,
            "store.write_buffer_size" => self.store.write_buffer_size = bytes()?,
            "txn.max_sessions" => self.txn.max_sessions = count()?,
            "txn.max_snapshot_age" => self.txn.max_snapshot_age = Some(time()?).filter(|age| !age.is_zero()),
            "txn.old_version_memory" => self.txn.old_version_memory = bytes()?,
            "txn.xid_slots" => self.txn.xid_slots = count()?,
            "wal.chunk_size" => self.wal.chunk_size = bytes()?,
            "wal.enabled" => self.wal.enabled = flag()?,
            "wal.flush_bytes" => self.wal.flush_bytes = bytes()?,
            "wal.flush_delay" => self.wal.flush_delay = time()?,
            "wal.frame_size" => self.wal.frame_size = bytes()?,
            "wal.manual_wal_flush" => self.wal.manual_wal_flush = flag()?,
            "wal.max_segments" => self.wal.max_segments = number()?,
            "wal.max_total_wal_size" => self.wal.max_total_wal_size = bytes()?,
            "wal.recovery_mode" => self.wal.recovery_mode = word(&MODES, value).map_err(|wanted| bad(&wanted))?,
            "wal.ring" => self.wal.ring = word(&RINGS, value).map_err(|wanted| bad(&wanted))?,
            "wal.ring_dir" => self.wal.ring_dir = value.into(),
            "wal.ring_size" => self.wal.ring_size = bytes()?,
            "wal.segment_size" => self.wal.segment_size = bytes()?,
            "wal.slots" => self.wal.slots = number()?,
            "wal.spares" => self.wal.spares = number()?,
            "wal.wal_dir" => self.wal.wal_dir = Some(value.into()).filter(|_| !value.is_empty()),
            _ => {
                let nearest = nearest_option(name).to_owned();
                return Err(EngineError::UnknownOption { name: name.to_owned(), nearest }.into());
            }
        }
        Ok(())
    }

    /// Sets the options in a text, such as the content of a file: lines `wal.flush_delay = 20ms`, or `flush_delay =
    /// "20ms"` below a line `[wal]`; `#` begins a comment.
    ///
    /// # Errors
    /// As of [`Options::set`]; `InvalidArgument` for a line of no such form. The lines before it have taken effect.
    pub fn set_all(&mut self, text: &str) -> Result<(), Error> {
        let mut table = String::new();
        for line in text.lines().map(without_comment).filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = format!("{}.", name.trim());
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                let (value, wanted) = (String::new(), "name = value".to_owned());
                return Err(EngineError::BadOption { name: line.to_owned(), value, wanted }.into());
            };
            let (name, value) = (name.trim(), value.trim());
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            self.set(&format!("{table}{name}"), value)?;
        }
        Ok(())
    }
}

/// Strips a comment that does not begin inside quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.find(|letter| {
        quoted ^= letter == '"';
        letter == '#' && !quoted
    });
    line[..end.unwrap_or(line.len())].trim()
}

fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Result<T, String> {
    let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(known)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use collie_engine::OPTION_NAMES;

    use super::*;

    /// Goal: every name sets its own field and no other, in every notation, and the engine gets the value. Method: each
    /// name with a value that is not its default, in a file with and without tables.
    #[test]
    fn options_are_set_by_their_names() {
        let values = [
            "false",
            "true",
            "true",
            "true",
            "9",
            "none",
            "7ms",
            "3GiB",
            "3",
            "32MiB",
            "100",
            "3s",
            "5MiB",
            "2048",
            "32KiB",
            "false",
            "64KiB",
            "500us",
            "128KiB",
            "true",
            "9",
            "2GiB",
            "point_in_time",
            "shared",
            "/run",
            "1048576",
            "8MiB",
            "4",
            "1",
            "/wal",
        ];
        let mut all = Options::default();
        for (name, value) in OPTION_NAMES.into_iter().zip(values) {
            let before = all.clone();
            all.set(name, value).unwrap();
            assert_ne!(all, before, "{name} = {value} changes nothing");
        }
        assert_eq!((all.txn.max_sessions, all.wal.max_segments), (100, 9));
        assert_eq!(all.txn.max_snapshot_age, Some(Duration::from_secs(3)));
        assert_eq!((all.wal.flush_delay, all.wal.flush_bytes), (Duration::from_micros(500), 64 << 10));
        let mut file = String::new();
        for (name, value) in OPTION_NAMES.into_iter().zip(values) {
            file += &format!("{name} = \"{value}\" # \"quoted\" = [so]\n\n");
        }
        let mut read = Options::default();
        read.set_all(&file).unwrap();
        assert_eq!(read, all);
        let mut tables = Options::default();
        tables.set_all("# a comment\n[wal]\nring = shared\n ring_dir = \"/tmp/#1\"\n[txn]\nmax_sessions=7").unwrap();
        assert_eq!((tables.wal.ring, tables.wal.ring_dir.to_str()), (RingKind::Shared, Some("/tmp/#1")));
        assert_eq!(tables.txn.max_sessions, 7);
        let engine = all.clone().into_engine();
        assert_eq!(Options::from_engine(&engine), all);
        assert_eq!(Options::from_engine(&Options::small().into_engine()), Options::small());
        assert_eq!((engine.log.ring_bytes, engine.log.slots, engine.xid_slots), (1 << 20, 4, 2048));
    }

    /// Goal: unknown names and values are never ignored, and the message helps. Method: wrong names and values.
    #[test]
    fn wrong_options_are_refused_by_name() {
        let refused = |name: &str, value: &str| Options::default().set(name, value).unwrap_err().to_string();
        let said = refused("wal.flush_dely", "1");
        assert!(said.contains("wal.flush_dely") && said.contains("wal.flush_delay?"), "{said}");
        for (name, value) in [
            ("store.compaction_threads", "0"),
            ("store.compaction_threads", "65"),
            ("store.compression", "snappy"),
            ("wal.ring", "Shared"),
            ("wal.flush_delay", "10 minutes"),
            ("wal.segment_size", "64MB"),
            ("wal.segment_size", "99999999999GiB"),
            ("wal.manual_wal_flush", "yes"),
            ("txn.max_sessions", "-1"),
        ] {
            let said = refused(name, value);
            assert!(said.contains(name) && said.contains(value), "{said}");
        }
        assert!(Options::default().set_all("[wal]\nring").is_err());
    }
}

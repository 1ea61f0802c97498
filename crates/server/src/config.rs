//! `Config`: every setting of a server, from defaults, a TOML file and `--set key=value`, in that order.
//!
//! A key is `section.name` everywhere; in TOML it is `[section]` and `name`. An unknown key or a value of the wrong
//! type is an error that names the nearest key or the type; nothing is ignored.

mod keys;
mod peers;
mod training;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use collie_base::{Lsn, Xid, parse_time};
use collie_engine::{Compression, Options};
use collie_replica::primary::{Degrade, QuorumList};
use collie_sql::session::{ResourcesAsked, settings::Settings};
use collie_wal::{CopiesRequired, Protocol, RecoveryMode, RingKind};
use strsim::levenshtein;

pub use self::{
    keys::{KEYS, Key, Kind},
    training::Training,
};
pub use peers::{Peer, Peers};

use crate::error::ServeError;

/// The replication settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// The address at which replicas connect; `None`: replicas are not served.
    pub listen: Option<SocketAddr>,
    /// The primary that this server follows, host and port; `None`: this server is a primary.
    pub primary: Option<String>,
    /// `replication.apply_workers`; 0: according to the number of cores.
    pub apply_workers: usize,
    /// `replication.auto_rebuild`.
    pub auto_rebuild: bool,
    /// `replication.backup_rate`.
    pub backup_bytes_per_s: u64,
    /// `replication.key_file`; `None`: in the data directory.
    pub key_file: Option<PathBuf>,
    /// `replication.peers`.
    pub peers: Peers,
    /// `replication.slot`.
    pub slot: String,
    /// `replication.slot_age`; `None`: no limit.
    pub slot_age: Option<Duration>,
    /// `replication.slot_bytes`.
    pub slot_bytes: u64,
    /// `replication.slots`.
    pub slots_max: usize,
    /// `replication.flush_delay`.
    pub flush_delay: Duration,
    /// `replication.quorum`; with `majority`, the list that [`Replication::settle_quorum`] makes.
    pub quorum: Option<QuorumList>,
    /// `replication.quorum` is `majority`.
    pub majority: bool,
    /// `replication.degrade`.
    pub degrade: Degrade,
    /// `replication.switchover_timeout`.
    pub switchover_timeout: Duration,
    /// `replication.sync_timeout`; `None`: no limit.
    pub sync_timeout: Option<Duration>,
    /// `replication.ready_delay`; `None`: no limit.
    pub ready_delay: Option<Duration>,
    /// `replication.show` is `applied`.
    pub show_applied: bool,
    /// `replication.heartbeat`.
    pub heartbeat: Duration,
    /// `replication.timeout`.
    pub timeout: Duration,
    /// `replication.verify`; `None`: never.
    pub verify: Option<Duration>,
    /// `replication.window`.
    pub window_bytes: u64,
    /// `replication.witness`: the address where a node listens that promises and keeps no data.
    pub witness: Option<String>,
}

impl Default for Replication {
    fn default() -> Self {
        Self {
            listen: None,
            primary: None,
            apply_workers: 0,
            auto_rebuild: true,
            backup_bytes_per_s: 100 << 20,
            key_file: None,
            peers: Peers::default(),
            slot: String::new(),
            slot_age: Some(Duration::from_secs(24 * 3600)),
            slot_bytes: 8 << 30,
            slots_max: 10,
            flush_delay: Duration::from_micros(500),
            quorum: None,
            majority: false,
            degrade: Degrade::Wait,
            switchover_timeout: Duration::from_secs(10),
            sync_timeout: None,
            ready_delay: Some(Duration::from_secs(10)),
            show_applied: false,
            heartbeat: Duration::from_millis(100),
            timeout: Duration::from_secs(5),
            verify: None,
            window_bytes: 64 << 20,
            witness: None,
        }
    }
}

impl Replication {
    /// Returns the list that `majority` means: more than half of this node and its peers.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn majority_list(&self) -> Result<QuorumList, String> {
        if self.slot.is_empty() {
            return Err("majority counts this node by its name: give replication.slot".to_owned());
        }
        if self.peers.0.is_empty() {
            return Err("majority counts over the other nodes: name them in replication.peers".to_owned());
        }
        let names = self.peers.0.iter().map(|peer| peer.name.clone()).chain([self.slot.clone()]).collect();
        QuorumList::majority(names).map_err(|error| error.to_string())
    }

    /// Returns the nodes that promise terms: the peers, and the witness.
    pub fn voters(&self) -> Peers {
        let mut voters = self.peers.clone();
        voters.0.extend(self.witness.as_deref().map(Peer::witness));
        voters
    }

    /// Makes the list of `majority`, once all settings are known.
    ///
    /// # Errors
    /// [`ServeError::Setting`]: there is none.
    pub fn settle_quorum(&mut self) -> Result<(), ServeError> {
        if self.majority {
            let list = self.majority_list();
            self.quorum = Some(list.map_err(|why| ServeError::setting(format!("replication.quorum: {why}")))?);
        }
        Ok(())
    }
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address for SQL clients.
    pub listen: SocketAddr,
    /// The address of the HTTP port (console page, `/healthz`, `/readyz` and `/metrics`); `None`: there is none.
    pub http: Option<SocketAddr>,
    /// `server.copy_dir`; `None`: `copies` in the data directory.
    pub copy_dir: Option<PathBuf>,
    /// The most sessions at one time, without the reserved ones.
    pub max_connections: usize,
    /// The resource limits of statements and sessions.
    pub resources: ResourcesAsked,
    /// The number of further sessions, for clients that ask for a reserved one.
    pub reserved_connections: usize,
    /// Longest protocol message, in bytes.
    pub max_message_bytes: usize,
    /// Threads that run sessions; 0 is one per core, at least two.
    pub worker_threads: usize,
    /// `store.flush_at_stop`.
    pub flush_at_stop: bool,
    /// The replication settings.
    pub replication: Replication,
    /// The settings of collection and training.
    pub training: Training,
    /// The program that fits models, `collie` itself, which is called with `train fit --child` and runs next to the
    /// server. `None`: no models are fitted.
    pub trainer: Option<PathBuf>,
    /// The engine's options.
    pub engine: Options,
    /// The settings with which every session starts.
    pub session: Settings,
    /// Every key that was given, with its value.
    pub given: Vec<(&'static str, String)>,
}

impl Default for Config {
    fn default() -> Self {
        let mut engine = Options::default();
        engine.log.ring = RingKind::Auto;
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 5433)),
            http: None,
            copy_dir: None,
            max_connections: 1000,
            reserved_connections: 3,
            resources: ResourcesAsked {
                prepared_statements: 10_000,
                advisory_locks: 100_000,
                ..ResourcesAsked::default()
            },
            max_message_bytes: 64 << 20,
            worker_threads: 0,
            flush_at_stop: true,
            replication: Replication::default(),
            training: Training::default(),
            trainer: None,
            engine,
            session: Settings::default(),
            given: Vec::new(),
        }
    }
}

impl Config {
    /// Returns the maximum number of sessions, including the reserved ones.
    pub(crate) fn sessions_max(&self) -> usize {
        self.max_connections.saturating_add(self.reserved_connections)
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has an unknown key or a value that its key cannot take.
    pub fn read_file(&mut self, path: &Path) -> Result<(), ServeError> {
        let text = std::fs::read_to_string(path).map_err(|source| ServeError::Io {
            operation: "read the configuration file",
            what: path.display().to_string(),
            source,
        })?;
        let at = |message: String| ServeError::setting(format!("{}: {message}", path.display()));
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            at(format!("line {line}: {}", error.message()))
        })?;
        for (section, value) in table {
            let toml::Value::Table(keys) = value else {
                return Err(at(format!("\"{section}\" stands outside a section: write [section] and name = value")));
            };
            for (name, value) in keys {
                let text = match value {
                    toml::Value::String(text) => text,
                    toml::Value::Integer(number) => number.to_string(),
                    toml::Value::Float(number) => number.to_string(),
                    toml::Value::Boolean(on) => on.to_string(),
                    toml::Value::Array(texts) if texts.iter().all(toml::Value::is_str) => {
                        texts.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join(",")
                    }
                    other => return Err(at(format!("{section}.{name}: a {} is not a value", other.type_str()))),
                };
                self.set(&format!("{section}.{name}"), &text).map_err(|error| at(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Applies one `key=value`.
    ///
    /// # Errors
    /// The text is no `key=value`; those of [`Config::set`].
    pub fn set_pair(&mut self, pair: &str) -> Result<(), ServeError> {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| ServeError::setting(format!("--set {pair}: write key=value, as in wal.flush_delay=5ms")))?;
        self.set(name.trim(), value.trim())
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`ServeError::Setting`] for an unknown key, with the nearest one, or a value that the key cannot take.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ServeError> {
        let key = find(name)?;
        let bad = |what: &str| ServeError::setting(format!("{name} = {value}: {what}"));
        let count = || value.parse::<u64>().map_err(|_| bad("expected a whole number"));
        let size = |most: u64| count().and_then(|n| usize::try_from(n.min(most)).map_err(|_| bad("too large")));
        let bytes = || parse_bytes(value).ok_or_else(|| bad("expected bytes, as in 65536, 64KiB or 16MiB"));
        let time = || parse_time(value).ok_or_else(|| bad("expected a time, as in 500us, 10ms or 1s"));
        let (log, replication) = (&mut self.engine.log, &mut self.replication);
        if let Kind::Word(words) = key.kind
            && !words.contains(&value)
        {
            return Err(bad(&format!("expected one of {}", words.join(", "))));
        }
        match key.name {
            "replication.apply_workers" => {
                let workers = size(1 << 20)?;
                if workers > 16 {
                    return Err(bad("expected 0 to 16"));
                }
                replication.apply_workers = workers;
            }
            "replication.auto_rebuild" => {
                replication.auto_rebuild = value.parse().map_err(|_| bad("expected true or false"))?;
            }
            "replication.backup_rate" => {
                let rate = bytes()?;
                if rate < 64 << 10 {
                    return Err(bad("expected 64KiB or more"));
                }
                replication.backup_bytes_per_s = rate;
            }
            "replication.degrade" => {
                replication.degrade = match value.strip_prefix("after") {
                    Some(time) => {
                        Degrade::After(parse_time(time.trim()).ok_or_else(|| bad("expected a time, as in after 10s"))?)
                    }
                    None if value == "wait" => Degrade::Wait,
                    None => return Err(bad("expected wait, or after and a time, as in after 10s")),
                }
            }
            "replication.flush_delay" => replication.flush_delay = time()?,
            "replication.heartbeat" => {
                replication.heartbeat = time()?;
                if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&replication.heartbeat) {
                    return Err(bad("expected 1ms to 60s"));
                }
            }
            "replication.key_file" => replication.key_file = Some(value.into()).filter(|_| !value.is_empty()),
            "replication.peers" => replication.peers = value.parse().map_err(bad)?,
            "replication.quorum" => {
                replication.majority = value.eq_ignore_ascii_case("majority");
                let list = if replication.majority { "" } else { value };
                replication.quorum = QuorumList::parse(list)
                    .map_err(|error| bad(&format!("{error} (SQLSTATE {})", error.sqlstate())))?;
            }
            "replication.ready_delay" => replication.ready_delay = Some(time()?).filter(|time| !time.is_zero()),
            "replication.show" => replication.show_applied = value == "applied",
            "replication.slot" => {
                let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
                if value.len() > 55 || !value.bytes().all(good) {
                    return Err(bad("expected at most 55 letters, digits, -, _ and dots"));
                }
                value.clone_into(&mut replication.slot);
            }
            "replication.slot_age" => replication.slot_age = Some(time()?).filter(|age| !age.is_zero()),
            "replication.slot_bytes" => replication.slot_bytes = bytes()?.max(1),
            "replication.slots" => replication.slots_max = size(1000)?,
            "replication.switchover_timeout" => {
                replication.switchover_timeout = time()?;
                if !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&replication.switchover_timeout) {
                    return Err(bad("expected 1ms to 1h"));
                }
            }
            "replication.sync_timeout" => replication.sync_timeout = Some(time()?).filter(|time| !time.is_zero()),
            "replication.timeout" => {
                replication.timeout = time()?;
                if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&replication.timeout) {
                    return Err(bad("expected 1s to 600s"));
                }
            }
            "replication.verify" => replication.verify = Some(time()?).filter(|time| !time.is_zero()),
            "replication.window" => replication.window_bytes = bytes()?.max(1),
            "replication.witness" => {
                let is_address =
                    value.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
                if !value.is_empty() && !is_address {
                    return Err(bad("expected HOST:PORT, as in 127.0.0.1:5464"));
                }
                replication.witness = Some(value.to_owned()).filter(|_| !value.is_empty());
            }
            "server.copy_dir" => {
                if !value.is_empty() && !Path::new(value).is_absolute() {
                    return Err(bad("expected an absolute path, as in /backups"));
                }
                self.copy_dir = Some(value.into()).filter(|_| !value.is_empty());
            }
            "server.http" => {
                let address = || value.parse().map_err(|_| bad("expected ADDRESS:PORT, as in 127.0.0.1:8433"));
                self.http = if value.is_empty() { None } else { Some(address()?) };
            }
            "server.replica_listen" => {
                let address = || value.parse().map_err(|_| bad("expected ADDRESS:PORT, as in 127.0.0.1:5434"));
                replication.listen = if value.is_empty() { None } else { Some(address()?) };
            }
            "server.replica_of" => {
                if !value.is_empty() && !value.contains(':') {
                    return Err(bad("expected HOST:PORT, as in 127.0.0.1:5434"));
                }
                replication.primary = Some(value.to_owned()).filter(|value| !value.is_empty());
            }
            "server.listen" => {
                self.listen = value.parse().map_err(|_| bad("expected ADDRESS:PORT, as in 127.0.0.1:5433"))?;
            }
            "server.max_advisory_locks" => self.resources.advisory_locks = size(1 << 30)?.max(1),
            "server.max_prepared_statements" => self.resources.prepared_statements = size(1 << 30)?.max(1),
            "server.query_memory" => self.resources.query_bytes = bytes()?,
            "server.statement_memory" => self.resources.statement_bytes = bytes()?,
            "server.max_connections" => {
                self.max_connections = size(1 << 20)?.max(1);
                self.session.describe("max_connections", &self.max_connections.to_string());
            }
            "server.reserved_connections" => self.reserved_connections = size(1 << 20)?,
            "server.max_message_size" => {
                let limit = bytes()?;
                if !(1 << 10..=1 << 30).contains(&limit) {
                    return Err(bad("expected 1KiB to 1GiB"));
                }
                self.max_message_bytes = usize::try_from(limit).map_err(|_| bad("too large"))?;
            }
            "server.worker_threads" => self.worker_threads = size(1024)?,
            setting if setting.starts_with("sql.") => {
                let setting = setting.strip_prefix("sql.").unwrap_or(setting);
                self.session.set_default(setting, value).map_err(|error| bad(&error.to_string()))?;
            }
            "txn.first_xid" => {
                let first = count()?;
                if !(1..1 << 60).contains(&first) {
                    return Err(bad("expected 1 or more, below 2^60"));
                }
                self.engine.first_xid = Xid::new(first);
            }
            setting if setting.starts_with("training.") => {
                self.training.set(setting, value).map_err(|wanted| bad(&wanted))?
            }
            "store.compaction_threads" => {
                let given = size(1 << 20)?;
                if !(1..=64).contains(&given) {
                    return Err(bad("expected 1 to 64"));
                }
                self.engine.compaction_threads = given;
            }
            "store.compression" => {
                self.engine.levels.compression = if value == "none" { Compression::None } else { Compression::Lz4 };
            }
            "store.flush_at_stop" => {
                self.flush_at_stop = value.parse().map_err(|_| bad("expected true or false"))?;
            }
            "store.gc_interval" => {
                self.engine.gc_interval = time()?;
                if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&self.engine.gc_interval) {
                    return Err(bad("expected 1ms to 1s"));
                }
            }
            "store.memory_limit" => self.engine.memory_limit = bytes()?,
            "store.recovery_threads" => self.engine.recovery_threads = size(16)?,
            "store.scrub_rate" => self.engine.scrub_rate = bytes()?,
            "store.write_buffer_size" => self.engine.write_buffer_size = bytes()?,
            "txn.max_snapshot_age" => {
                let age = parse_time(value).ok_or_else(|| bad("expected a time, as in 500us, 10ms or 1s"))?;
                self.engine.max_snapshot_age = (!age.is_zero()).then_some(age);
            }
            "txn.old_version_memory" => self.engine.old_version_memory = bytes()?,
            "wal.chunk_size" => log.chunk_bytes = bytes()?,
            "wal.copies" => {
                log.copies = value.split(',').map(str::trim).filter(|dir| !dir.is_empty()).map(Into::into).collect();
            }
            "wal.copies_min" => log.copies_min = u32::try_from(count()?).map_err(|_| bad("too large"))?,
            "wal.copies_required" => {
                log.copies_required = if value == "quorum" { CopiesRequired::Quorum } else { CopiesRequired::All };
            }
            "wal.copy_stall" => {
                log.copy_stall = parse_time(value).ok_or_else(|| bad("expected a time, as in 500us, 10ms or 1s"))?;
            }
            "wal.enabled" => {
                if !value.parse::<bool>().map_err(|_| bad("expected true or false"))? {
                    return Err(bad(
                        "a table and its indexes would not survive a crash together: a server keeps a log",
                    ));
                }
            }
            "wal.first_lsn" => {
                let first = count()?;
                if !(Lsn::FIRST.get()..1 << 60).contains(&first) {
                    return Err(bad("expected 4096 or more, below 2^60"));
                }
                log.first_lsn = Lsn::new(first);
            }
            "wal.flush_bytes" => log.flush_bytes = bytes()?,
            "wal.flush_delay" => {
                log.flush_delay = parse_time(value).ok_or_else(|| bad("expected a time, as in 500us, 10ms or 1s"))?;
            }
            "wal.frame_size" => log.frame_bytes = bytes()?,
            "wal.manual_wal_flush" => {
                log.manual_wal_flush = value.parse().map_err(|_| bad("expected true or false"))?;
            }
            "wal.max_total_wal_size" => self.engine.max_total_wal_size = bytes()?,
            "wal.max_segments" => log.max_segments = u32::try_from(count()?).map_err(|_| bad("too large"))?,
            "wal.open_with" => {
                log.open_with = Some(u32::try_from(count()?).map_err(|_| bad("too large"))?).filter(|n| *n > 0);
            }
            "wal.protocol" => {
                log.protocol = match value {
                    "base" => Protocol::Base,
                    "help" => Protocol::Help,
                    _ => Protocol::Mutex,
                }
            }
            "wal.recent_size" => log.recent_bytes = bytes()?,
            "wal.recovery_mode" => {
                log.recovery_mode = match value {
                    "absolute_consistency" => RecoveryMode::AbsoluteConsistency,
                    "point_in_time" => RecoveryMode::PointInTime,
                    "skip_any_corrupted_records" => RecoveryMode::SkipAnyCorruptedRecords,
                    _ => RecoveryMode::TolerateCorruptedTailRecords,
                }
            }
            "wal.ring" => {
                log.ring = match value {
                    "shared" => RingKind::Shared,
                    "private" => RingKind::Private,
                    _ => RingKind::Auto,
                }
            }
            "wal.ring_dir" => log.ring_dir = value.into(),
            "wal.ring_size" => log.ring_bytes = bytes()?,
            "wal.segment_size" => log.segment_bytes = bytes()?,
            "wal.slots" => log.slots = u32::try_from(count()?).map_err(|_| bad("too large"))?,
            "wal.spares" => log.spares = u32::try_from(count()?).map_err(|_| bad("too large"))?,
            "wal.sync_every" => log.sync_every = count()?,
            "wal.wal_dir" => self.engine.wal_dir = Some(value.into()).filter(|_| !value.is_empty()),
            other => unreachable!("{other} is in the table and has no arm"),
        }
        self.given.retain(|(given, _)| *given != key.name);
        self.given.push((key.name, value.to_owned()));
        Ok(())
    }

    /// Returns the value of a key that is in force.
    pub fn value(&self, key: &Key) -> &str {
        self.given.iter().find(|(given, _)| *given == key.name).map_or(key.default, |(_, value)| value)
    }
}

/// Finds a key by name.
///
/// # Errors
/// [`ServeError::Setting`] with the nearest key.
pub fn find(name: &str) -> Result<&'static Key, ServeError> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let nearest = KEYS.iter().min_by_key(|key| levenshtein(key.name, name)).map_or("", |key| key.name);
        ServeError::setting(format!(
            "unknown setting {name}: did you mean {nearest}? `collie config` lists every setting"
        ))
    })
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" | "kB" | "K" => 1 << 10,
        "MiB" | "MB" | "M" => 1 << 20,
        "GiB" | "GB" | "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Entry point of the fuzz target: any text results in a configuration or an error.
pub fn fuzz_config(text: &str) {
    let mut config = Config::default();
    for line in text.lines() {
        let _ = config.set_pair(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the table and the code agree. Method: every default can be set, and gives the value with which the code
    /// starts.
    #[test]
    fn every_default_in_the_table_is_the_one_in_force() {
        assert!(KEYS.is_sorted_by(|a, b| a.name < b.name));
        let plain = Config::default();
        for key in KEYS {
            let mut set = Config::default();
            set.set(key.name, key.default).unwrap();
            let shown = |config: &Config| {
                format!("{:?}", Config { given: Vec::new(), session: Settings::default(), ..config.clone() })
            };
            assert_eq!(shown(&set), shown(&plain), "{}", key.name);
        }
    }

    /// Goal: `majority` is the same list on each node, whatever the order of its settings, and is refused if a name is
    /// missing or is used twice. Method: three nodes that name each other; settings that lack one.
    #[test]
    fn majority_is_one_list_on_all_nodes() {
        let list = |pairs: &[&str]| {
            let mut config = Config::default();
            pairs.iter().for_each(|pair| config.set_pair(pair).unwrap());
            let settled = config.replication.settle_quorum();
            settled.map(|()| config.replication.quorum.map(|list| list.to_string())).map_err(|error| error.to_string())
        };
        let peers = ["b=h:1,c=h:2", "c=h:2, a=h:0", "a=h:0,b=h:1"].map(|peers| format!("replication.peers={peers}"));
        for (own, peers) in ["a", "b", "c"].iter().zip(&peers) {
            let slot = format!("replication.slot={own}");
            let expected = Ok(Some("ANY 2 (a, b, c)".to_owned()));
            assert_eq!(list(&["replication.quorum=majority", peers, &slot]), expected);
            assert_eq!(list(&[peers, &slot, "replication.quorum=Majority"]), expected);
        }
        assert_eq!(list(&[&peers[0], "replication.slot=a", "replication.quorum="]), Ok(None));
        for (pairs, part) in [
            (&[&*peers[0]][..], "give replication.slot"),
            (&["replication.slot=a"], "name them in replication.peers"),
            (&[&peers[0], "replication.slot=b"], "\"b\" is named twice"),
        ] {
            let error = list(&[pairs, &["replication.quorum=majority"]].concat()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    /// Goal: an invalid setting is refused with a helpful line. Method: a table of bad keys and values.
    #[test]
    fn bad_settings_are_refused_with_help() {
        for (pair, part) in [
            ("wal.flush_dely=1ms", "did you mean wal.flush_delay"),
            ("wal.flush_delay=soon", "expected a time"),
            ("wal.flush_delay", "write key=value"),
            ("wal.ring_size=big", "expected bytes"),
            ("store.compaction_threads=0", "expected 1 to 64"),
            ("store.compaction_threads=65", "expected 1 to 64"),
            ("store.gc_interval=2s", "expected 1ms to 1s"),
            ("wal.enabled=false", "a server keeps a log"),
            ("store.compression=snappy", "expected one of none, lz4"),
            ("wal.protocol=fast", "expected one of mutex, base, help"),
            ("server.listen=everywhere", "expected ADDRESS:PORT"),
            ("server.http=8433", "expected ADDRESS:PORT"),
            ("sql.timezone=Mars", "invalid value"),
            ("sql.lock_timeout=soon", "invalid value"),
            ("replication.quorum=ANY 3 (a, b)", "3 of 2 named replicas are asked for (SQLSTATE 22023)"),
            (
                "replication.quorum=FIRST 1 (a, b)",
                "say ANY n (a, b, c), or ask for all that are named (SQLSTATE 0A000)",
            ),
            ("replication.apply_workers=17", "expected 0 to 16"),
            ("replication.backup_rate=1KiB", "expected 64KiB or more"),
            ("replication.degrade=never", "expected wait, or after and a time"),
            ("replication.degrade=after all", "expected a time, as in after 10s"),
            ("replication.witness=:5464", "expected HOST:PORT"),
            ("replication.witness=host", "expected HOST:PORT"),
            ("training.collection_policy=pilot", "expected one of none, always, hard_limit"),
            ("training.collection_delay_bound=-1%", "expected a part, as in 0.1 or 10%"),
            ("training.collection_delay_bound=1001%", "expected 0 to 1000%"),
            ("training.collection_delay_floor=11s", "expected 0 to 10s"),
            ("training.collection_delay_max=0", "expected 1ms to 1h"),
            ("training.collection_cpu=0", "expected more than 0, at most 100%"),
            ("training.collection_cpu=NaN", "expected a part"),
            ("training.read_share=101%", "expected 0 to 100%"),
            ("training.samples_bytes=4k", "expected bytes"),
            ("training.samples_bytes=1KiB", "expected 1MiB or more"),
            ("training.samples=maybe", "expected one of on, off"),
            ("training.fit_interval=soon", "expected a time"),
            ("training.shadow_time=721h", "expected 0 to 30 days"),
            ("training.apply=always", "expected one of off, propose, canary"),
        ] {
            let error = Config::default().set_pair(pair).unwrap_err().to_string();
            assert!(error.contains(part), "{pair}: {error}");
        }
    }
}

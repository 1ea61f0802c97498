//! [`KEYS`]: every key of the configuration, with its kind of value, its default and its effect.

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A count.
    Count,
    /// Bytes: a number, or with a unit `KiB`, `MiB`, `GiB`.
    Bytes,
    /// A time: a number of milliseconds, or with a unit `us`, `ms`, `s`, `min`, `h`.
    Time,
    /// A fraction: a number such as 0.25, or with the unit `%`.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Text.
    Text,
}

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `section.name`.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// Its default, as a user would write it.
    pub default: &'static str,
    /// Its exact effect.
    pub effect: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, effect: &'static str) -> Key {
    Key { name, kind, default, effect }
}

/// Every key, sorted.
pub const KEYS: &[Key] = &[
    key(
        "replication.apply_workers",
        Kind::Count,
        "0",
        "Number of threads of a replica that apply row writes, at most 16. 0: one per core, at most 8. CALL collie_set_option('replication.apply_workers', '1') gives work to fewer of the started threads, and can give it to all of them again.",
    ),
    key(
        "replication.auto_rebuild",
        Kind::Bool,
        "true",
        "true: a replica rebuilds itself from a base backup if its primary cannot bring it up to date any more, or if its files are damaged. Sessions end, and clients get 57P03 until the rebuild is done. The old files are kept until the copy is complete, so the directory needs space for both. Damage that recurs within ten minutes is not repaired. false: the replica continues to answer from the data that it has, and logs what to do each time it contacts its primary.",
    ),
    key(
        "replication.backup_rate",
        Kind::Bytes,
        "100MiB",
        "The most bytes per second that a primary sends to a replica during a base backup, so that its disk and its clients are not slowed.",
    ),
    key(
        "replication.degrade",
        Kind::Text,
        "wait",
        "What happens when too few replicas of replication.quorum answer. wait: commits at a level that needs them wait. after TIME, as in after 10s: once a commit has waited for this time, commits no longer wait for the quorum, each with a warning, until enough replicas have been within 1 MiB for 5 s.",
    ),
    key(
        "replication.flush_delay",
        Kind::Time,
        "500us",
        "While a replica is connected, the log is flushed when its oldest byte that no session waits for has this age. It bounds how long an asynchronous commit waits before it is sent to the replica. 0: wal.flush_delay applies. CALL collie_set_option changes it while the server runs, to a value above 0.",
    ),
    key(
        "replication.heartbeat",
        Kind::Time,
        "100ms",
        "Interval at which a primary sends a heartbeat to each replica, which answers it.",
    ),
    key(
        "replication.key_file",
        Kind::Text,
        "",
        "The file with the replication key, which every node of a database has. Without it no node can connect to --replica-listen. The first node creates it; copy it to the others, with mode 0600. The file is read at each connection: collie replica-key rotate changes the key while nodes run. Empty: replication.key in the data directory.",
    ),
    key(
        "replication.peers",
        Kind::Text,
        "",
        "The other nodes, as NAME=HOST:PORT, ...: the names of their slots, and the addresses where they listen for replicas. A node that is promoted contacts them first, a replica looks for its primary among them, and a primary that learns of a higher term follows the one that leads it.",
    ),
    key(
        "replication.quorum",
        Kind::Text,
        "",
        "The nodes that must have a commit before it is acknowledged at the levels remote_write, on and remote_apply of synchronous_commit. majority: more than half of this node and replication.peers; use the same value on every node. ANY 2 (a, b, c): this number of the listed nodes, by the names of their slots. The primary counts as one of the listed nodes. Empty: no other node, and these levels mean local. CALL collie_set_option('replication.quorum', 'ANY 1 (a)') changes it while the server runs and records the change in the log, where it overrides this value until this value changes. SHOW synchronous_standby_names and collie_quorum show the effective value.",
    ),
    key(
        "replication.ready_delay",
        Kind::Time,
        "10s",
        "A replica whose readers are further behind its primary than this is not ready: /readyz answers 503, and collie status names it. 0: no limit.",
    ),
    key(
        "replication.show",
        Kind::Word(&["settled", "applied"]),
        "settled",
        "With a quorum, which commits the readers of a replica see. settled: those that the quorum has on its disks, so that no failover takes them back. applied: each commit as soon as it is applied.",
    ),
    key(
        "replication.slot",
        Kind::Text,
        "",
        "Name of a replica's slot on its primary: at most 55 letters, digits, hyphens, underscores and dots. Empty: node- and the id of the directory.",
    ),
    key(
        "replication.slot_age",
        Kind::Time,
        "24h",
        "A primary keeps log for a replica that is not connected for this long, counted while the primary runs. Then the log is released, and the replica has to be rebuilt. 0: only replication.slot_bytes applies.",
    ),
    key(
        "replication.slot_bytes",
        Kind::Bytes,
        "8GiB",
        "A primary keeps at most this many bytes of log files for a replica. Beyond that the log is released, and the replica has to be rebuilt. Positions skipped by a crash do not count. During a base backup, and until the replica has caught up, the primary keeps all log that the replica needs; then wal.max_segments is the limit.",
    ),
    key(
        "replication.slots",
        Kind::Count,
        "10",
        "The most replicas that a primary knows, including those that are not connected; further ones are refused. At most 1000.",
    ),
    key(
        "replication.switchover_timeout",
        Kind::Time,
        "10s",
        "Time that collie promote --switchover gives the open transactions of the primary to end before it ends their sessions, and then the replica to take over; 1ms to 1h. After that the primary continues.",
    ),
    key(
        "replication.sync_timeout",
        Kind::Time,
        "0ms",
        "A commit that has waited this long for replicas is answered with 08007: it is durable on the primary, and its token has its position. 0: it waits, or as long as replication.degrade says.",
    ),
    key(
        "replication.timeout",
        Kind::Time,
        "5s",
        "A connection between primary and replica is closed when no packet has arrived for this time; 1s to 600s.",
    ),
    key(
        "replication.verify",
        Kind::Time,
        "0",
        "Interval at which the rows of each replica are compared with the primary's, at the same position. Both read all their rows for it. The log written since the last comparison is compared too, at most its last 16 MiB. A replica that differs stops. 0: never.",
    ),
    key(
        "replication.window",
        Kind::Bytes,
        "64MiB",
        "Bytes of log that may be sent to a replica without an acknowledgement; then the primary waits.",
    ),
    key(
        "replication.witness",
        Kind::Text,
        "",
        "The address where a witness listens (collie witness), as HOST:PORT; the same on every node. With it two nodes survive the loss of one: a replica leads with its own promise and that of the witness, and a primary whose replica is lost acknowledges commits alone, after replication.degrade, once the witness has noted that.",
    ),
    key(
        "server.copy_dir",
        Kind::Text,
        "",
        "The directory below which a running server makes copies: CALL collie_checkpoint('monday'), collie checkpoint and collie backup create its subdirectory monday. An absolute path without symbolic links; use another disk for copies that must survive the loss of this one. Empty: copies in the data directory.",
    ),
    key(
        "server.http",
        Kind::Text,
        "",
        "Address of the console page, /healthz, /readyz and /metrics over HTTP, such as 127.0.0.1:8433. Only loopback addresses until there is authentication. Empty: no HTTP port. The flag --http overrides it.",
    ),
    key(
        "server.listen",
        Kind::Text,
        "127.0.0.1:5433",
        "Address for SQL clients. Only loopback addresses until there is authentication. The flag --listen overrides it.",
    ),
    key(
        "server.max_advisory_locks",
        Kind::Count,
        "100000",
        "The most advisory locks of one session; the next one is refused with 53200.",
    ),
    key(
        "server.max_connections",
        Kind::Count,
        "1000",
        "The most sessions at one time; the next one is refused with 53300, unless it asks for a reserved one (server.reserved_connections). Connections that have not sent their start-up message do not count: there may be 256 of them, and a further one closes the oldest.",
    ),
    key(
        "server.max_message_size",
        Kind::Bytes,
        "64MiB",
        "Size of the largest protocol message; a larger one is refused with 08P01, and the connection is closed.",
    ),
    key(
        "server.max_prepared_statements",
        Kind::Count,
        "10000",
        "The most prepared statements of one session; the next one is refused with 53400.",
    ),
    key(
        "server.query_memory",
        Kind::Bytes,
        "0",
        "Memory for the rows that all running statements keep: sorts, hash joins, groups, DISTINCT, WITH, suspended portals. A statement that needs more is refused with 53200, which names the operator. The rows of tables do not count. 0: a fifth of the memory of the machine, or of what its control group permits.",
    ),
    key(
        "server.replica_listen",
        Kind::Text,
        "",
        "Address for replicas, such as 127.0.0.1:5434: nodes that have the replication key (replication.key_file). Only loopback addresses until there is encryption. Empty: no replica can connect. The flag --replica-listen overrides it.",
    ),
    key(
        "server.replica_of",
        Kind::Text,
        "",
        "HOST:PORT where a primary listens for replicas: this server follows it and answers reads only. Empty: the server is a primary. The flag --replica-of overrides it.",
    ),
    key(
        "server.reserved_connections",
        Kind::Count,
        "3",
        "Sessions beyond server.max_connections for an operator: for clients that connect with collie.use_reserved_connection = on, as in PGOPTIONS='-c collie.use_reserved_connection=on' psql, and for the commands of this program. They use a reserved session only when all others are in use. Any client can ask for one: there are no roles yet.",
    ),
    key(
        "server.statement_memory",
        Kind::Bytes,
        "0",
        "The part of server.query_memory that one statement may use, and the size of the largest value that a function returns. 0: half of server.query_memory.",
    ),
    key(
        "server.worker_threads",
        Kind::Count,
        "0",
        "Number of threads that run sessions. 0: one per core, at least two.",
    ),
    key(
        "sql.idle_in_transaction_session_timeout",
        Kind::Text,
        "0",
        "Default of SET idle_in_transaction_session_timeout, in its notation: milliseconds, or 500ms, 10s, 5min; 0: no limit.",
    ),
    key("sql.idle_session_timeout", Kind::Text, "0", "Default of SET idle_session_timeout, in its notation."),
    key("sql.lock_timeout", Kind::Text, "0", "Default of SET lock_timeout, in its notation."),
    key("sql.statement_timeout", Kind::Text, "0", "Default of SET statement_timeout, in its notation."),
    key(
        "sql.synchronous_commit",
        Kind::Word(&["on", "off"]),
        "on",
        "Default of SET synchronous_commit. on: a commit is acknowledged once it is on disk. off: a commit is acknowledged once it has its place in memory; wal.flush_delay says which of them a crash of the machine can lose.",
    ),
    key("sql.timezone", Kind::Text, "UTC", "Default of SET timezone: UTC or a fixed offset such as +02:00."),
    key("sql.transaction_timeout", Kind::Text, "0", "Default of SET transaction_timeout, in its notation."),
    key(
        "store.compaction_threads",
        Kind::Count,
        "4",
        "The most flushes of tables and indexes at one time, each with the compaction that it makes due: 1 to 64; above 4 only as many as the limit of open files permits. Each table or index has one at a time.",
    ),
    key(
        "store.compression",
        Kind::Word(&["none", "lz4"]),
        "lz4",
        "Compression of the files of the levels that flushes and compactions write from now on. Existing files are read as they are.",
    ),
    key(
        "store.flush_at_stop",
        Kind::Bool,
        "true",
        "true: a server that is stopped with SIGTERM or SIGINT first flushes every table, so that the next start replays no log. A second signal ends the flush early. false: the server stops as soon as the last commits are durable, and the next start replays the log of unflushed rows.",
    ),
    key(
        "store.gc_interval",
        Kind::Time,
        "2ms",
        "Time between two rounds of the garbage collector while it finds old versions to free: 1ms to 1s. While it finds none the interval grows, up to 64ms. CALL collie_set_option changes it while the server runs.",
    ),
    key(
        "store.memory_limit",
        Kind::Bytes,
        "0",
        "Memory for rows and their versions. At 90 % all old versions are pruned and a warning is logged; at 100 % writes that store a value are refused with 53200, while reads, DELETE and DROP continue. 0: half of the memory beyond 256 MiB that the machine has or its control group permits, and at least an eighth of all of it.",
    ),
    key(
        "store.recovery_threads",
        Kind::Count,
        "0",
        "Number of threads that load rows into memory while the server starts, at most 16. 0: one per core.",
    ),
    key(
        "store.scrub_rate",
        Kind::Bytes,
        "4MiB",
        "Bytes per second of the files of the levels that are read in the background and compared with their checksums. If a file differs, its tree is rewritten from memory, the file is kept in levels/quarantine, and collie_health shows it. 0: no file is read.",
    ),
    key(
        "store.write_buffer_size",
        Kind::Bytes,
        "64MiB",
        "Approximate size of the unflushed rows of a table or index at which it is flushed to its levels. CALL collie_set_option changes it while the server runs.",
    ),
    key(
        "training.apply",
        Kind::Word(&["off", "propose", "canary"]),
        "propose",
        "How changes of settings that models propose are used. off: they are ignored, and values that were kept before are not used. propose: a row in collie_training.decisions describes each. canary: the new value is tried in memory, alternating with the old one every second, then observed for ten minutes, then kept. Only wal.flush_delay (1 to 40 ms), replication.flush_delay, wal.flush_bytes, store.gc_interval, store.write_buffer_size and, on a replica, replication.apply_workers are changed, and none that an operator has set. CALL collie_set_option('training.apply', 'off') ends a trial at once.",
    ),
    key(
        "training.collection_cpu",
        Kind::Share,
        "25%",
        "The largest part of the machine's cores that collection on a replica uses, whatever the policy grants: above 0, at most 100%.",
    ),
    key(
        "training.collection_delay_bound",
        Kind::Share,
        "10%",
        "The part by which collection may increase the median delay of a replica in each second: 0 to 1000%. An increase within training.collection_delay_floor is always allowed.",
    ),
    key(
        "training.collection_delay_floor",
        Kind::Time,
        "1ms",
        "An increase of that delay that is always allowed: up to 10s. A tenth of a short delay is less than the resolution of timers.",
    ),
    key(
        "training.collection_delay_max",
        Kind::Time,
        "100ms",
        "A replica with a longer delay collects nothing until its mean delay is below half of this: 1ms to 1h.",
    ),
    key(
        "training.collection_policy",
        Kind::Word(&["none", "always", "hard_limit", "k_sigma", "switchback", "aimd", "headroom"]),
        "headroom",
        "The rule that decides, ten times per second, how much work a replica may spend on collection. headroom: the part of 85 % that its apply workers leave unused, reduced as the delay grows. A primary spends none. With every rule collection stops while no heartbeat of the primary has arrived for 1 s (so replication.heartbeat must be shorter), or while the delay is too long. SELECT * FROM collie_training.policy shows its state.",
    ),
    key(
        "training.fit_interval",
        Kind::Time,
        "1h",
        "Interval at which a replica fits models to its samples, with `collie train fit` as a separate process, if a tenth of the samples is new: up to 30 days. 0: never. A primary never fits models.",
    ),
    key(
        "training.read_share",
        Kind::Share,
        "0.01",
        "The part of a primary's read-only statements that is sent to replicas, where they are run again: 0 to 100%. 0: none.",
    ),
    key(
        "training.samples",
        Kind::Word(&["on", "off"]),
        "on",
        "Whether samples of operating units are taken and kept in the subdirectory samples of the data directory: on a replica within the budget that training.collection_policy grants, on a primary of one call in a thousand.",
    ),
    key(
        "training.samples_bytes",
        Kind::Bytes,
        "4GiB",
        "Size of a server's sample files above which the oldest are removed: 1MiB or more.",
    ),
    key(
        "training.shadow_time",
        Kind::Time,
        "1h",
        "How long a package in models/incoming is tested on samples before it is used or refused: up to 30 days.",
    ),
    key(
        "txn.first_xid",
        Kind::Count,
        "1",
        "First transaction id of a new database; an existing one continues from its own.",
    ),
    key(
        "txn.max_snapshot_age",
        Kind::Time,
        "0",
        "A snapshot that is older than this and keeps old row versions is cancelled: its next statement fails with 72000. 0: no limit.",
    ),
    key(
        "txn.old_version_memory",
        Kind::Bytes,
        "1GiB",
        "Memory for old row versions. Beyond it all of them are pruned that no snapshot needs, then the oldest snapshots are cancelled (72000), one after the other; if none is left, writes are refused with 53200.",
    ),
    key("wal.chunk_size", Kind::Bytes, "64KiB", "Size of the largest piece of a record; larger records are split."),
    key(
        "wal.copies",
        Kind::Text,
        "",
        "Directories, separated by commas (in a file: a list), that hold the same log files as the data directory. Each commit waits for all of them, and a damaged or lost file is repaired from another directory at the next start.",
    ),
    key(
        "wal.copies_min",
        Kind::Count,
        "1",
        "With fewer live copies of the log, including its own directory, no commit is acknowledged.",
    ),
    key(
        "wal.copies_required",
        Kind::Word(&["all", "quorum"]),
        "all",
        "The number of copies that have a commit before it is acknowledged. all: all live ones (a copy that fails or hangs is first left out, with a warning). quorum: more than half of the configured ones.",
    ),
    key(
        "wal.copy_stall",
        Kind::Time,
        "2s",
        "How much longer than the others one copy of the log may take before it is left out; it is tried again at the same interval.",
    ),
    key(
        "wal.enabled",
        Kind::Bool,
        "true",
        "Only true: without a log a table and its indexes would not survive a crash together. Databases of the embedded engine can do without one.",
    ),
    key(
        "wal.first_lsn",
        Kind::Count,
        "4096",
        "First position of the log of a new database; an existing one continues from its own.",
    ),
    key(
        "wal.flush_bytes",
        Kind::Bytes,
        "1MiB",
        "The log is flushed when it has this many bytes that no session waits for; at most half of wal.ring_size. CALL collie_set_option changes it while the server runs.",
    ),
    key(
        "wal.flush_delay",
        Kind::Time,
        "10ms",
        "A flush of the log begins when its oldest byte that no session waits for has this age, or as soon as the previous flush has ended. A crash of the machine can lose the asynchronous commits of this time and of two flushes; a flush takes as long as the disk does, most of a second on a busy one. 1ms to 10s. CALL collie_set_option changes it while the server runs.",
    ),
    key("wal.frame_size", Kind::Bytes, "1MiB", "The most bytes of log in one write."),
    key(
        "wal.manual_wal_flush",
        Kind::Bool,
        "false",
        "true: asynchronous commits reach the disk only together with a synchronous one, when the ring is half full, or when the log is closed. Less durable.",
    ),
    key("wal.max_segments", Kind::Count, "1024", "The most segment files; at the limit writes are refused with 53100."),
    key(
        "wal.max_total_wal_size",
        Kind::Bytes,
        "0",
        "Length of the log at which the table or index that needs its oldest part is flushed to its levels, so that this part can be released; at least two segments. 0: eight times store.write_buffer_size for each table and index, between 1 and 16 GiB and at most a quarter of the file system. At one and a half times this length writers are slowed, at twice this length they wait for flushes. CALL collie_set_option('wal.max_total_wal_size', '2GiB') changes it while the server runs.",
    ),
    key(
        "wal.open_with",
        Kind::Count,
        "0",
        "The server starts with this many copies of the log, although the missing ones may have later commits, which are then lost. 0: it starts only if no acknowledged commit can be missing.",
    ),
    key(
        "wal.protocol",
        Kind::Word(&["mutex", "base", "help"]),
        "base",
        "How space in the log is reserved. mutex: with a mutex. base: lock-free; other commits wait for one that stalls while it copies its record. help: lock-free, and no commit waits for another's copy, at the cost of one more copy of each record.",
    ),
    key(
        "wal.recent_size",
        Kind::Bytes,
        "8MiB",
        "Bytes of log kept in memory for readers that follow the log; none without such a reader.",
    ),
    key(
        "wal.recovery_mode",
        Kind::Word(&[
            "tolerate_corrupted_tail_records",
            "absolute_consistency",
            "point_in_time",
            "skip_any_corrupted_records",
        ]),
        "tolerate_corrupted_tail_records",
        "How the server opens a damaged log. tolerate_corrupted_tail_records: it removes an unfinished flush and refuses other damage. point_in_time: it opens with the part before the damage and reports the loss. skip_any_corrupted_records: it opens read-only with every transaction that can still be read completely, and reports the loss. absolute_consistency: it also refuses an unfinished flush.",
    ),
    key(
        "wal.ring",
        Kind::Word(&["auto", "shared", "private"]),
        "auto",
        "Where bytes of the log wait for their flush. shared: in memory that outlives the process, so that a kill loses no acknowledged commit, even with synchronous_commit off. private: in the memory of the process. auto: shared where that is possible; the server logs its choice at start.",
    ),
    key(
        "wal.ring_dir",
        Kind::Text,
        "/dev/shm",
        "Directory on a tmpfs for a shared ring. It needs wal.ring_size, and with wal.protocol = help also wal.chunk_size for each of wal.slots.",
    ),
    key("wal.ring_size", Kind::Bytes, "16MiB", "Bytes of log in memory; a power of two."),
    key("wal.segment_size", Kind::Bytes, "64MiB", "Size of a log file."),
    key("wal.slots", Kind::Count, "64", "Number of threads that can append without sharing a slot."),
    key(
        "wal.spares",
        Kind::Count,
        "2",
        "Segment files prepared in advance; one more is kept for emergencies. With 2 or more, one of them is reserved for DELETE, TRUNCATE and DROP on a full disk.",
    ),
    key(
        "wal.sync_every",
        Kind::Count,
        "0",
        "One commit in this many is acknowledged only once it is on disk, even with synchronous_commit off; 0: none.",
    ),
    key(
        "wal.wal_dir",
        Kind::Text,
        "",
        "Directory of the log, outside the data directory, for example on another device; empty: wal in the data directory. The directory of an existing database cannot be changed here: to move it, stop the server, move the directory with all its files, and set the new path.",
    ),
];

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
        "Threads of a replica that apply row writes, at most 16. 0: as many as there are cores, 8 at most. CALL collie_set_option('replication.apply_workers', '1') has fewer of those that were started work, and all of them again.",
    ),
    key(
        "replication.auto_rebuild",
        Kind::Bool,
        "true",
        "A replica that its primary cannot bring up to date any more, or with damage in what it has, is filled anew by itself: sessions end and clients get 57P03 until it is there. What was there is kept until the copy is whole, so there has to be room in the directory for both. Damage that comes again within ten minutes is not healed. false: the replica goes on answering from what it has, and says what to do each time that it asks its primary again.",
    ),
    key(
        "replication.backup_rate",
        Kind::Bytes,
        "100MiB",
        "Bytes a second, at most, at which a primary sends the files of a base backup to a replica that is filled: its disk and its clients have other work.",
    ),
    key(
        "replication.degrade",
        Kind::Text,
        "wait",
        "What happens when too few replicas of replication.quorum answer. wait: commits at a level that asks for them wait. after and a time, as in after 10s: once something has waited for so long, commits do without, each with a warning, until enough replicas have been within 1 MiB for 5 s.",
    ),
    key(
        "replication.flush_delay",
        Kind::Time,
        "500us",
        "While a replica is connected, the log is flushed when the oldest byte that nobody waits for is so old: how long an asynchronous commit takes to leave for the replica. 0: as wal.flush_delay says. CALL collie_set_option changes it while the server runs, to more than 0.",
    ),
    key(
        "replication.heartbeat",
        Kind::Time,
        "100ms",
        "How often a primary tells its replicas that it is there, and they answer.",
    ),
    key(
        "replication.key_file",
        Kind::Text,
        "",
        "The file of the replication key, which every node of a database has: without it nobody is let in on --replica-listen. The first node makes it; copy it to the others, with mode 0600. Read at each connection: collie replica-key rotate changes it while nodes run. Empty: replication.key in the data directory.",
    ),
    key(
        "replication.peers",
        Kind::Text,
        "",
        "The other nodes, as NAME=HOST:PORT, ...: the names of their slots and where they listen for replicas. Who is promoted asks them, a replica looks for its primary among them, and a primary that hears of a higher term follows the one of them that leads.",
    ),
    key(
        "replication.quorum",
        Kind::Text,
        "",
        "Which nodes must have a commit before it is answered at the levels remote_write, on and remote_apply of synchronous_commit. majority: more than half of this node and replication.peers; give every node the same words. ANY 2 (a, b, c): so many of these, by the names of their slots. The node that leads counts as one of those named. Empty: no other node, and these levels mean local. CALL collie_set_option('replication.quorum', 'ANY 1 (a)') changes it while the server runs, which the log remembers: this value counts again once it is another one. SHOW synchronous_standby_names and collie_quorum say it.",
    ),
    key(
        "replication.ready_delay",
        Kind::Time,
        "10s",
        "A replica whose readers are further behind its primary than this is not ready: /readyz says 503 and collie status names it. 0: however far.",
    ),
    key(
        "replication.show",
        Kind::Word(&["settled", "applied"]),
        "settled",
        "With a quorum, what readers of replicas see. settled: what the quorum has on its disks, so that no failover takes it back. applied: everything at once.",
    ),
    key(
        "replication.slot",
        Kind::Text,
        "",
        "Name of a replica's slot on its primary: at most 55 letters, digits, -, _ and dots. Empty: node- and the directory's id.",
    ),
    key(
        "replication.slot_age",
        Kind::Time,
        "24h",
        "A primary keeps log for a replica that it has not heard of for so long, while the primary ran; beyond it the log goes and the replica has to be filled anew. 0: only replication.slot_bytes counts.",
    ),
    key(
        "replication.slot_bytes",
        Kind::Bytes,
        "8GiB",
        "A primary keeps so many bytes in log files for a replica; beyond it the log goes and the replica has to be filled anew. Positions that a crash skips are no bytes. A replica that is being filled, until it has caught up, is kept what it needs whatever this says: wal.max_segments is the limit then.",
    ),
    key(
        "replication.slots",
        Kind::Count,
        "10",
        "Most replicas that a primary knows, those that are away included; further ones are refused. At most 1000.",
    ),
    key(
        "replication.switchover_timeout",
        Kind::Time,
        "10s",
        "What collie promote --switchover gives the primary's open transactions to end, before their sessions are ended, and then the replica to take over; 1ms to 1h. Beyond it the primary goes on.",
    ),
    key(
        "replication.sync_timeout",
        Kind::Time,
        "0ms",
        "A commit that has waited so long for replicas is answered with 08007: it is durable here, and its token says where. 0: it waits, or replication.degrade says.",
    ),
    key(
        "replication.timeout",
        Kind::Time,
        "5s",
        "A connection between primary and replica on which nothing was heard for so long is given up; 1s to 600s.",
    ),
    key(
        "replication.verify",
        Kind::Time,
        "0",
        "How often the rows of each replica are compared with the primary's, at the same position: both read all their rows for it. So is the log since the last time, the last 16 MiB at most. A replica that differs stops. 0: never.",
    ),
    key(
        "replication.window",
        Kind::Bytes,
        "64MiB",
        "Log under way to a replica at which a primary waits for its acks.",
    ),
    key(
        "server.copy_dir",
        Kind::Text,
        "",
        "The directory below which a running server makes copies: CALL collie_checkpoint('monday'), collie checkpoint and collie backup make its directory monday. An absolute path, on another disk for what is to survive the loss of this one; no symbolic link. Empty: copies in the data directory.",
    ),
    key(
        "server.http",
        Kind::Text,
        "",
        "Address of the console page, /healthz, /readyz and /metrics over HTTP, such as 127.0.0.1:8433. Only loopback until there is authentication. Empty: none. The flag --http wins.",
    ),
    key(
        "server.listen",
        Kind::Text,
        "127.0.0.1:5433",
        "Address for SQL clients. Only loopback until there is authentication. The flag --listen wins.",
    ),
    key(
        "server.max_advisory_locks",
        Kind::Count,
        "100000",
        "Advisory locks that one session may hold; the next one is refused with 53200.",
    ),
    key(
        "server.max_connections",
        Kind::Count,
        "1000",
        "Sessions at one time; the next one is refused with 53300, unless it asks for a reserved one (server.reserved_connections). Connections that have not sent their start-up message are no sessions: there may be 256 of them, and a further one ends the oldest.",
    ),
    key(
        "server.max_message_size",
        Kind::Bytes,
        "64MiB",
        "Longest protocol message; a longer one is refused with 08P01 and the connection closes.",
    ),
    key(
        "server.max_prepared_statements",
        Kind::Count,
        "10000",
        "Prepared statements that one session may have; the next one is refused with 53400.",
    ),
    key(
        "server.query_memory",
        Kind::Bytes,
        "0",
        "Memory that all statements together may take up for rows that they keep while they run: sorts, hash joins, groups, DISTINCT, WITH, suspended portals. A statement that asks for more is refused with 53200, which names the operator. Rows of tables are not part of it. 0: a fifth of the machine's memory, or of what its control group leaves.",
    ),
    key(
        "server.replica_listen",
        Kind::Text,
        "",
        "Address for replicas, such as 127.0.0.1:5434: nodes that have the replication key (replication.key_file). Only loopback until there is encryption. Empty: none are served. The flag --replica-listen wins.",
    ),
    key(
        "server.replica_of",
        Kind::Text,
        "",
        "HOST:PORT where a primary listens for replicas: this server follows it and answers reads only. Empty: it is a primary. The flag --replica-of wins.",
    ),
    key(
        "server.reserved_connections",
        Kind::Count,
        "3",
        "Sessions beyond server.max_connections for an operator: of clients that say collie.use_reserved_connection = on as they connect, as in PGOPTIONS='-c collie.use_reserved_connection=on' psql, and of the commands of this program. They take one of these only when all others are taken. It is a mark, not a right: there are no roles yet.",
    ),
    key(
        "server.statement_memory",
        Kind::Bytes,
        "0",
        "What one statement may take of server.query_memory, and the longest value that a function makes. 0: half of it.",
    ),
    key("server.worker_threads", Kind::Count, "0", "Threads that run sessions; 0 is one per core, at least two."),
    key(
        "sql.idle_in_transaction_session_timeout",
        Kind::Text,
        "0",
        "Default of SET idle_in_transaction_session_timeout, in its notation: milliseconds, or 500ms, 10s, 5min; 0 is no limit.",
    ),
    key("sql.idle_session_timeout", Kind::Text, "0", "Default of SET idle_session_timeout, in its notation."),
    key("sql.lock_timeout", Kind::Text, "0", "Default of SET lock_timeout, in its notation."),
    key("sql.statement_timeout", Kind::Text, "0", "Default of SET statement_timeout, in its notation."),
    key(
        "sql.synchronous_commit",
        Kind::Word(&["on", "off"]),
        "on",
        "Default of SET synchronous_commit. on: a commit is answered once it is on disk. off: once it is in order in memory; what a crash of the machine can lose of them, wal.flush_delay says.",
    ),
    key("sql.timezone", Kind::Text, "UTC", "Default of SET timezone: UTC or a fixed offset such as +02:00."),
    key("sql.transaction_timeout", Kind::Text, "0", "Default of SET transaction_timeout, in its notation."),
    key(
        "store.compaction_threads",
        Kind::Count,
        "4",
        "Flushes of tables and indexes at one time, each with the merge that it makes due: 1 to 64, above 4 only as many as the process may have files for. One table or index has one at a time.",
    ),
    key(
        "store.compression",
        Kind::Word(&["none", "lz4"]),
        "lz4",
        "How the tables of the levels are stored that are written from now on, by flushes and merges. What is there is read as it is.",
    ),
    key(
        "store.flush_at_stop",
        Kind::Bool,
        "true",
        "Whether a server that is stopped in order flushes every table first, so that the next start replays no log. A second SIGTERM or SIGINT ends it early. false: a stop takes as long as the last commits, and the next start replays what was not flushed.",
    ),
    key(
        "store.gc_interval",
        Kind::Time,
        "2ms",
        "Time between two rounds of the garbage collector while it finds old versions to free: 1ms to 1s. When it finds none they come less often, every 64ms at the least. CALL collie_set_option changes it while the server runs.",
    ),
    key(
        "store.memory_limit",
        Kind::Bytes,
        "0",
        "Memory that rows and their versions may take up. At 90 % everything old is pruned and a warning is given, at 100 % writes that store a value are refused with 53200; reads, DELETE and DROP go on. 0: half of what the machine has, or its control group leaves, beyond 256 MiB.",
    ),
    key(
        "store.recovery_threads",
        Kind::Count,
        "0",
        "Threads that put rows into memory while the server starts, at most 16. 0: as many as there are cores.",
    ),
    key(
        "store.scrub_rate",
        Kind::Bytes,
        "4MiB",
        "Bytes of table files of the levels that are read in a second, in the background, and compared with their checksums. The tree of a file that is not as it was written is written again from memory, the file is kept in levels/quarantine, and collie_health says so. 0: none are read.",
    ),
    key(
        "store.write_buffer_size",
        Kind::Bytes,
        "64MiB",
        "Unflushed rows of a table or index at which it is flushed to its levels, about. CALL collie_set_option changes it while the server runs.",
    ),
    key(
        "training.apply",
        Kind::Word(&["off", "propose", "canary"]),
        "propose",
        "What becomes of changes of settings that models propose: nothing (and what was kept before is not used), a row in collie_training.decisions that says so, or a trial with the new value in memory, second by second in turn with the old one, then ten minutes of it under watch, then it is kept. Only wal.flush_delay (1 to 40 ms), replication.flush_delay, wal.flush_bytes, store.gc_interval, store.write_buffer_size and, on a replica, replication.apply_workers, and none that somebody has set. CALL collie_set_option('training.apply', 'off') ends a change at once.",
    ),
    key(
        "training.collection_cpu",
        Kind::Share,
        "25%",
        "Part of the machine's cores that a replica's collection takes at the most, whatever the policy asks for: above 0, at most 100%.",
    ),
    key(
        "training.collection_delay_bound",
        Kind::Share,
        "10%",
        "By which part collection may make a replica's median delay of a second longer: 0 to 1000%. What training.collection_delay_floor allows is allowed in any case.",
    ),
    key(
        "training.collection_delay_floor",
        Kind::Time,
        "1ms",
        "By how much that delay may grow in any case: up to 10s. A tenth of a short delay is less than timers resolve.",
    ),
    key(
        "training.collection_delay_max",
        Kind::Time,
        "100ms",
        "A replica with a longer delay collects nothing, and nothing until its mean is below the half: 1ms to 1h.",
    ),
    key(
        "training.collection_policy",
        Kind::Word(&["none", "always", "hard_limit", "k_sigma", "switchback", "aimd", "headroom"]),
        "headroom",
        "Which rule says, ten times a second, how much work a replica may spend on collecting. headroom: what its apply workers have left of 85 %, less what the delay says. A primary spends none. Whatever the rule, nothing is collected while the primary is not heard for 1 s (so replication.heartbeat has to be shorter), or the delay is too long. SELECT * FROM collie_training.policy shows it.",
    ),
    key(
        "training.fit_interval",
        Kind::Time,
        "1h",
        "How often a replica fits models to its samples, by `collie train fit` beside the server, if a tenth of them is new: up to 30 days. 0: never. A primary never does.",
    ),
    key(
        "training.read_share",
        Kind::Share,
        "0.01",
        "Part of a primary's read-only statements that are sent to replicas, to be run again there: 0 to 100%. 0: none.",
    ),
    key(
        "training.samples",
        Kind::Word(&["on", "off"]),
        "on",
        "Whether samples of operating units are taken and kept in the folder samples of the data directory: on a replica within what training.collection_policy grants, on a primary a thousandth of calls.",
    ),
    key(
        "training.samples_bytes",
        Kind::Bytes,
        "4GiB",
        "Size of a server's files of samples at which the oldest go: 1MiB or more.",
    ),
    key(
        "training.shadow_time",
        Kind::Time,
        "1h",
        "For how long a package that was put into models/incoming is judged on samples before it is used, or refused: up to 30 days.",
    ),
    key(
        "txn.first_xid",
        Kind::Count,
        "1",
        "First transaction id of a database that is made; one that exists goes on from its own.",
    ),
    key(
        "txn.max_snapshot_age",
        Kind::Time,
        "0",
        "A snapshot older than this that keeps old row versions is cancelled: its next statement fails with 72000. 0: whatever its age.",
    ),
    key(
        "txn.old_version_memory",
        Kind::Bytes,
        "1GiB",
        "Memory that old row versions may take up. Beyond it everything is pruned, then the oldest snapshots are cancelled (72000), one by one; with none left, writes are refused with 53200.",
    ),
    key("wal.chunk_size", Kind::Bytes, "64KiB", "Largest piece of a record; larger records are cut."),
    key(
        "wal.copies",
        Kind::Text,
        "",
        "Directories, separated by commas (in a file: a list), that hold the same log files as the data directory: each commit waits for all of them, and what rots or is lost in one is repaired from another at start.",
    ),
    key(
        "wal.copies_min",
        Kind::Count,
        "1",
        "With fewer live copies of the log, its own directory included, nothing is acknowledged.",
    ),
    key(
        "wal.copies_required",
        Kind::Word(&["all", "quorum"]),
        "all",
        "How many copies hold a commit before it is acknowledged: all that are live (one that fails or hangs is left out first, with a warning), or a quorum: more than half of those configured.",
    ),
    key(
        "wal.copy_stall",
        Kind::Time,
        "2s",
        "How long one copy of the log may take longer than the others before it is left out; it is tried again as often.",
    ),
    key(
        "wal.enabled",
        Kind::Bool,
        "true",
        "Only true: without a log a table and its indexes would not survive a crash together. Databases of the embedded engine may be without one.",
    ),
    key(
        "wal.first_lsn",
        Kind::Count,
        "4096",
        "First position of the log of a database that is made; one that exists goes on where it is.",
    ),
    key(
        "wal.flush_bytes",
        Kind::Bytes,
        "1MiB",
        "The log is flushed when so much waits that nobody waits for; at most half of wal.ring_size. CALL collie_set_option changes it while the server runs.",
    ),
    key(
        "wal.flush_delay",
        Kind::Time,
        "10ms",
        "A flush of the log begins when the oldest byte that nobody waits for is so old, or as soon as the flush before it has ended. A crash of the machine can lose the asynchronous commits of this time and of two flushes, which take as long as the disk does: most of a second on a busy one. 1ms to 10s. CALL collie_set_option changes it while the server runs.",
    ),
    key("wal.frame_size", Kind::Bytes, "1MiB", "Most log bytes in one write."),
    key(
        "wal.manual_wal_flush",
        Kind::Bool,
        "false",
        "true: asynchronous commits reach the disk only with a synchronous one, a half-full ring, or at close. Less durable.",
    ),
    key("wal.max_segments", Kind::Count, "1024", "Most segment files; at the limit writes are refused with 53100."),
    key(
        "wal.max_total_wal_size",
        Kind::Bytes,
        "0",
        "Length of log at which the table or index that needs its oldest part is flushed to its levels, so that it can be cut; two segments at the least. 0: eight times store.write_buffer_size for each table and index, within 1 and 16 GiB and a quarter of the file system. From one and a half times of it on writers are slowed, at twice they wait for flushes. CALL collie_set_option('wal.max_total_wal_size', '2GiB') changes it while the server runs.",
    ),
    key(
        "wal.open_with",
        Kind::Count,
        "0",
        "Start with as few as so many copies of the log, although the missing ones may hold later commits, which are then lost. 0: start only when nothing acknowledged can be missing.",
    ),
    key(
        "wal.protocol",
        Kind::Word(&["mutex", "base", "help"]),
        "base",
        "How log space is reserved. mutex: one mutex. base: lock-free; others wait for a commit that stalls while it copies. help: lock-free, and nobody waits for its copy; one more copy of each record.",
    ),
    key(
        "wal.recent_size",
        Kind::Bytes,
        "8MiB",
        "Log bytes kept in memory for readers that follow the log; none without such a reader.",
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
        "What opening does about a damaged log. The default trims an unfinished flush and refuses damage; point_in_time opens with the prefix before the damage and says what is lost; skip_any_corrupted_records opens read-only with every transaction that still reads, whole, and says what is lost; absolute_consistency refuses an unfinished flush too.",
    ),
    key(
        "wal.ring",
        Kind::Word(&["auto", "shared", "private"]),
        "auto",
        "Where log bytes wait for their flush: shared (memory that outlives the process, so that a kill loses no commit that was answered, also with synchronous_commit off), private (this process's memory), or auto: shared where it can be had, which the server says at start.",
    ),
    key(
        "wal.ring_dir",
        Kind::Text,
        "/dev/shm",
        "Directory on a tmpfs for a shared ring, which takes wal.ring_size, with wal.protocol = help also wal.chunk_size for each of wal.slots.",
    ),
    key("wal.ring_size", Kind::Bytes, "16MiB", "Log bytes in memory; a power of two."),
    key("wal.segment_size", Kind::Bytes, "64MiB", "Size of a log file."),
    key("wal.slots", Kind::Count, "64", "Threads that append without sharing a slot."),
    key(
        "wal.spares",
        Kind::Count,
        "2",
        "Segment files prepared ahead; one more is kept for emergencies. With 2 or more, one is a reserve for DELETE, TRUNCATE and DROP on a full disk.",
    ),
    key(
        "wal.sync_every",
        Kind::Count,
        "0",
        "Every so-many-th commit is answered once it is on disk, also with synchronous_commit off; 0: none.",
    ),
    key(
        "wal.wal_dir",
        Kind::Text,
        "",
        "Directory of the log, outside the data directory, such as one on another device; empty: wal in the data directory. A database \
         stays with it: to move it, stop the server, move the directory with all its files, and name the new place.",
    ),
];

//! The operating units: each is one kind of work with an end. An interval since another event is a feature, never
//! the measured time.
//!
//! Ids are never reused; a change of meaning is a new version. After a change of this file, `UPDATE_GOLDEN=1 cargo
//! test -p collie-obs units` rewrites the golden file and the table in `docs/format.md`.

use crate::schema::{ELAPSED, FEATURES_MAX, Features, FieldSchema, LABELS_MAX, UNIT_SLOTS, UnitSchema, summed, units};

units! {
    /// A record is reserved, copied and made visible. `is_commit`: the append publishes something with it;
    /// `workers`: most writers with a slot at one time.
    1 v 1 LogAppend = "LOG_APPEND" ["`Writer::append` and its like, one piece"]
    { bytes: "bytes", is_commit: "flag", workers: "count", ring_fill_pct: "percent" } + {}

    /// A flush of the log: place, write, sync. `io_mode` 0: write and sync; 1: write only; 2: sync only.
    2 v 1 LogFlush = "LOG_FLUSH" ["flushes of the log; `records` of the first 256 KiB, times as many bytes as there were"]
    { stream_bytes: "bytes", records: "count", flights: "count", us_since_last: "us", copies: "count", io_mode: "code" }
    + { write_ns: "ns", sync_ns: "ns", disk_bytes: "bytes" }

    /// A thread waits for the log to reach its commit. `level` 0: boundary; 1: written; 2: durable.
    3 v 1 CommitWait = "COMMIT_WAIT" ["threads and futures that wait for the log; a thread's with the flushes it leads"]
    { level: "code", bytes_ahead: "bytes", flights: "count", waiters: "count", flush_ewma_us: "us" } + {}

    /// The boundary is computed from the slots.
    4 v 1 BoundaryScan = "BOUNDARY_SCAN" ["`Reserve::advance`: before flushes, and for callers that ask how far the log is"]
    { slots: "count", black: "count", staged: "count" } + {}

    /// A transaction begins. `kind` 0: READ COMMITTED; 1: REPEATABLE READ; 2: SERIALIZABLE.
    5 v 1 TxnBegin = "TXN_BEGIN" ["`Session::begin`"]
    { kind: "code", live_snapshots: "count" } + {}

    /// A transaction commits, without the waits for the log.
    6 v 1 TxnCommit = "TXN_COMMIT" ["`Session::commit_at`"]
    { rows: "rows", redo_bytes: "bytes", chunks: "count", read_only: "flag" } + {}

    /// A transaction is undone.
    7 v 1 TxnAbort = "TXN_ABORT" ["`Session`"]
    { rows: "rows", redo_bytes: "bytes" } + {}

    /// A wait for another transaction's row lock. `strength` 0: FOR KEY SHARE; 1: FOR SHARE; 2: FOR NO KEY UPDATE;
    /// 3: FOR UPDATE; `queue_len`: requests that already wait for the row; `holder_age_us`: time since the holder's
    /// first write or row lock.
    8 v 1 LockWait = "LOCK_WAIT" ["`Session::wait`, threads and futures; `holder_age_us` 0 of who wrote before waits were measured"]
    { strength: "code", queue_len: "count", holder_age_us: "us" } + {}

    /// A row is read by its key.
    9 v 1 RowRead = "ROW_READ" ["`Session::get`, `get_with`"]
    { key_bytes: "bytes", value_bytes: "bytes", chain_steps: "count", found: "flag" } + {}

    /// A row is inserted; `unique` 0: a put, whether or not the row existed.
    10 v 1 RowInsert = "ROW_INSERT" ["`Session::insert`; puts of the key-value interface"]
    { key_bytes: "bytes", value_bytes: "bytes", unique: "flag" } + { alloc_bytes: "bytes" }

    /// A row gets a new version. `retries`: restarts of this call because other transactions changed the row, and
    /// earlier calls for the same row in the same statement that had to wait or met a newer version.
    11 v 1 RowUpdate = "ROW_UPDATE" ["`Session::write`"]
    { key_bytes: "bytes", value_bytes: "bytes", chain_len: "count", retries: "count" } + { alloc_bytes: "bytes" }

    /// A row is deleted.
    12 v 1 RowDelete = "ROW_DELETE" ["`Session::write`"]
    { key_bytes: "bytes", chain_len: "count" } + {}

    /// Rows of a range are visited, including the caller's work on each.
    13 v 1 Scan = "SCAN" ["`Session::scan`; `chain_steps` of the first 64 rows, times as many as there were"]
    { rows_examined: "rows", rows_returned: "rows", value_bytes: "bytes", chain_steps: "count", reverse: "flag" } + {}

    /// A statement's text becomes a tree. `alloc_bytes` includes memory that is freed again within the call.
    14 v 1 Parse = "PARSE"
    ["`parse::statements`; `alloc_bytes` of its thread in Rust code, not the grammar's C; 0 where the program counts none"]
    { text_bytes: "bytes", tokens: "count" } + { alloc_bytes: "bytes" }

    /// Parameters are bound to a statement.
    15 v 1 Bind = "BIND" ["Bind messages"]
    { params: "count", param_bytes: "bytes", cached_plan: "flag" } + {}

    /// A statement is planned. `predicates`: terms of its conditions; `path` 0: a row by its key; 1: a range; 2:
    /// anything else.
    16 v 1 Plan = "PLAN" ["`plan::plan`; `alloc_bytes` 0 where the program counts none"]
    { tables: "count", predicates: "count", path: "code" } + { alloc_bytes: "bytes" }

    /// A plan is run row by row. `kind` 0: query; 1: INSERT; 2: UPDATE; 3: DELETE; 4: anything else.
    /// `rows_examined`: input rows of its operators, so that rows of inner operators count again in outer ones;
    /// `rows_written`: with a result or without; `index_depth`: levels from the top of an index to a row, summed
    /// over the indexes that the plan reads by a key or a range, once per use, and over those that an INSERT puts
    /// into.
    17 v 1 ExecuteRow = "EXECUTE_ROW"
    ["steps of an execution, up to a lock or a full output; `index_depth` summed over the plan's indexes, by their rows"]
    { kind: "code", rows_examined: "rows", rows_written: "rows", index_depth: "count" } + {}

    /// A plan is run batch by batch.
    18 v 1 ExecuteBatch = "EXECUTE_BATCH" [""]
    { operators: "count", rows_in: "rows", rows_out: "rows", bytes_in: "bytes", batches: "count" } + { peak_bytes: "bytes" }

    /// Rows of a result are passed to the system for the client, with all other output that waits for it.
    19 v 1 ResultSend = "RESULT_SEND" ["`Remote::flush`, without the wait for a client that is slow"]
    { rows: "rows", bytes: "bytes" } + {}

    /// Old versions are freed.
    20 v 1 GcTick = "GC_TICK" ["rounds of cleaning"]
    { rows_visited: "rows", versions_freed: "count", live_snapshots: "count", us_since_last: "us" } + { freed_bytes: "bytes" }

    /// Column families are written to their trees.
    21 v 1 FlushLevels = "FLUSH_LEVELS" ["flushes to a tree"]
    { rows: "rows", bytes: "bytes", cfs: "count", level0_runs: "count" } + { disk_bytes: "bytes" }

    /// Tables of a tree are merged; `bytes_in` is the size of the tree before. `level` 0: as far as its shape
    /// requires; 1: all into one run.
    22 v 1 Compact = "COMPACT" ["merges of a tree"]
    { bytes_in: "bytes", runs: "count", level: "count" } + { disk_bytes: "bytes" }

    /// Part of the log is sent to a replica.
    23 v 1 ReplSend = "REPL_SEND" ["`Shipper::try_next`, without the socket; `commits` of the first 256 KiB, times as many bytes as there were"]
    { bytes: "bytes", commits: "count", from_memory: "flag" } + {}

    /// A replica checks a part of the log that has arrived, and appends it to its own.
    24 v 1 ReplReceive = "REPL_RECEIVE" ["`Follower::receive`"]
    { bytes: "bytes", records: "count" } + {}

    /// A commit is applied, from its dispatch to the watermark. `cfs`: distinct families, at most 16; `queue_rows`:
    /// rows that wait in front of it; `barrier`: it changes the catalog, so it waits for the commits before it.
    25 v 1 ApplyTxn = "APPLY_TXN" ["commits that a replica takes, until its watermark has passed them"]
    { rows: "rows", bytes: "bytes", cfs: "count", workers: "count", queue_rows: "rows", barrier: "flag" } + {}

    /// A row of the log is applied. `kind` 0: put; 1: delete.
    26 v 1 ApplyRow = "APPLY_ROW" ["lanes of a replica, in runs"]
    { kind: "code", key_bytes: "bytes", value_bytes: "bytes", chain_len: "count", queue_rows: "rows" } + {}

    /// A piece of a backup is made. `rows`: entries of tables, by the piece's share of its file; other files have
    /// none.
    27 v 1 BackupChunk = "BACKUP_CHUNK" ["pieces of files copied for a checkpoint, a backup or from one"]
    { rows: "rows", bytes: "bytes" } + {}

    /// An opening reads the log.
    28 v 1 RecoverScan = "RECOVER_SCAN" ["opens of a log: reading all its files; `threads` 1"]
    { bytes: "bytes", segments: "count", threads: "count" } + { disk_bytes: "bytes" }

    /// An opening applies the rows that the levels lack.
    29 v 1 RecoverApply = "RECOVER_APPLY" ["opens: reading and applying"]
    { rows: "rows", bytes: "bytes", appliers: "count" } + {}

    /// An opening loads trees into memory.
    30 v 1 LevelOpen = "LEVEL_OPEN" ["opens; `bytes` those of the files"]
    { rows: "rows", bytes: "bytes", trees: "count" } + { disk_bytes: "bytes" }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

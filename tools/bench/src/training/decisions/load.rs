//! `Load`: the load of a server while it decides about its settings, and the settings that an expert would choose for
//! it.

use collie_train::decision::Setting;
use collie_workload::{Kind, Pacing};

use crate::measures::{micros, per_s};
use crate::replication::PairSettings;
use crate::replication::pair::Pair;
use crate::replication::small;

const READ: &str = "SELECT n FROM small WHERE id = $1";
const UPDATE: &str = "UPDATE small SET n = n + 1 WHERE id = $1";
/// Updates all rows of a client in one statement: see [`BULK_ROWS`].
const OVERWRITE: &str = "UPDATE bulk SET n = n + 1 WHERE id > ($1::int - 1) * 200 AND id <= $1::int * 200";
/// Rows of a client that one statement overwrites, of about half a kibibyte each.
const BULK_ROWS: u32 = 200;
/// Holds a snapshot from before the updates of a run, for the whole run.
const OLD_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(n) FROM small";

/// Bytes of a mebibyte, and microseconds of a millisecond.
const MIB: f64 = 1_048_576.0;
const MS: f64 = 1_000.0;

/// A load. See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Tpcc,
    SmallInMemory,
    SmallOnDisk,
    OldSnapshot,
    Bulk,
}

/// The settings that an expert would choose, and why. Decisions may choose all of them too; none trades durability.
pub(super) struct Expert {
    pub(super) settings: &'static [(Setting, f64)],
    pub(super) because: &'static str,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ran {
    /// Answers per second; for TPC-C, transactions per second.
    pub(super) per_s: f64,
    /// The latency of an answer; for TPC-C, of a New-Order.
    pub(super) p99_us: f64,
}

impl Load {
    pub(super) const ALL: [Self; 5] =
        [Self::Tpcc, Self::SmallInMemory, Self::SmallOnDisk, Self::OldSnapshot, Self::Bulk];

    /// Returns the name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tpcc => "TPC-C",
            Self::SmallInMemory => "half reads, half updates by key, commits in memory",
            Self::SmallOnDisk => "half reads, half updates by key, commits on disk",
            Self::OldSnapshot => "reads and updates by key beside an old snapshot",
            Self::Bulk => "overwrites of 200 rows in a statement",
        }
    }

    /// Returns how far its commits wait.
    pub(super) const fn level(self) -> &'static str {
        match self {
            Self::Tpcc | Self::SmallOnDisk => "disk",
            Self::SmallInMemory | Self::OldSnapshot | Self::Bulk => "memory",
        }
    }

    /// Returns the same as a value of `synchronous_commit`.
    fn commit(self) -> &'static str {
        if self.level() == "disk" { "on" } else { "off" }
    }

    /// Returns the settings that an expert would choose for it.
    pub(super) const fn expert(self) -> Expert {
        match self {
            Self::Tpcc => Expert {
                settings: &[(Setting::GcInterval, 8.0 * MS), (Setting::WriteBufferSize, 128.0 * MIB)],
                because: "short transactions leave short chains: fewer rounds of the collector, and fewer flushes to the levels",
            },
            Self::SmallInMemory => Expert {
                settings: &[(Setting::FlushDelay, 40.0 * MS), (Setting::FlushBytes, 4.0 * MIB)],
                because: "nobody waits for the log: fewer and larger flushes, within what decisions may lose too",
            },
            Self::SmallOnDisk => Expert {
                settings: &[(Setting::GcInterval, 8.0 * MS)],
                because: "commits wait for the disk, which no setting here makes faster: fewer rounds of the collector",
            },
            Self::OldSnapshot => Expert {
                settings: &[(Setting::GcInterval, MS)],
                because: "few rows are updated all the time: what is between the old snapshot and now is to go soon",
            },
            Self::Bulk => Expert {
                settings: &[
                    (Setting::FlushBytes, 8.0 * MIB),
                    (Setting::FlushDelay, 40.0 * MS),
                    (Setting::WriteBufferSize, 256.0 * MIB),
                ],
                because: "much is written, and the same rows again: larger flushes of the log, and fewer of the tables",
            },
        }
    }

    /// Creates its rows.
    ///
    /// # Errors
    /// Those of the driver.
    pub(super) fn prepare(self, settings: &PairSettings, pair: &Pair) -> anyhow::Result<()> {
        let clients = settings.clients;
        match self {
            Self::Tpcc => pair.load(settings),
            Self::SmallInMemory | Self::SmallOnDisk | Self::OldSnapshot => small::prepare(pair, clients),
            Self::Bulk => {
                let mut session = pair.connect()?;
                session
                    .batch_execute("CREATE TABLE bulk (id int PRIMARY KEY, n bigint NOT NULL, filled text NOT NULL)")?;
                let rows = clients * BULK_ROWS;
                session.batch_execute(&format!(
                    "INSERT INTO bulk SELECT n, 0, repeat('x', 500) FROM generate_series(1, {rows}) AS n"
                ))?;
                Ok(())
            }
        }
    }

    /// Runs it flat out, with the warm-up and the time of `with`. Runs with the same number send the same requests.
    ///
    /// # Errors
    /// Those of the driver; no request ended.
    pub(super) fn run(self, with: &PairSettings, pair: &Pair, run: u32) -> anyhow::Result<Ran> {
        let rows = |statements: &[&str]| small::run_rows(pair, with, with.clients, self.commit(), statements);
        let done = match self {
            Self::Tpcc => {
                let done = pair.drive(with, run, Pacing::FlatOut)?;
                let (ended, p99_ns) = (done.tally.ended(), done.tally.of(Kind::NewOrder).latencies.at_per_mille(990));
                anyhow::ensure!(ended > 0, "{}: nothing ended in {:?}", self.name(), with.time);
                return Ok(Ran { per_s: per_s(ended, done.ns), p99_us: micros(p99_ns) });
            }
            Self::SmallInMemory | Self::SmallOnDisk => rows(&[READ, UPDATE])?,
            Self::OldSnapshot => {
                let mut holder = pair.connect()?;
                holder.batch_execute(OLD_SNAPSHOT)?;
                let done = rows(&[READ, UPDATE])?;
                holder.batch_execute("COMMIT")?;
                done
            }
            Self::Bulk => rows(&[OVERWRITE])?,
        };
        let ended = done.latencies.count();
        anyhow::ensure!(ended > 0, "{}: nothing ended in {:?}", self.name(), with.time);
        Ok(Ran { per_s: per_s(ended, done.ns), p99_us: micros(done.latencies.at_per_mille(990)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an expert stays within what decisions may choose, so the arms differ by judgement and not by risk.
    /// Method: the ranges of docs/training.md.
    #[test]
    fn an_expert_stays_within_the_ranges_of_decisions() {
        for load in Load::ALL {
            let Expert { settings, because } = load.expert();
            assert!(!settings.is_empty() && !because.is_empty(), "{load:?}");
            for (setting, value) in settings {
                let range = match setting {
                    Setting::FlushDelay => MS..=40.0 * MS,
                    Setting::FlushBytes => 65_536.0..=8.0 * MIB,
                    Setting::GcInterval => MS..=256.0 * MS,
                    Setting::WriteBufferSize => 16.0 * MIB..=256.0 * MIB,
                    other => panic!("{load:?}: {other:?}"),
                };
                assert!(range.contains(value), "{load:?}: {setting:?} {value}");
            }
        }
    }

    /// Goal: a client overwrites its own rows, so that clients never wait for each other. Method: the number in the
    /// statement.
    #[test]
    fn a_client_has_as_many_rows_as_its_statement_takes() {
        assert_eq!(OVERWRITE.matches(&format!("* {BULK_ROWS}")).count(), 2);
    }
}

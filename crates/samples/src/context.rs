//! `Context`: what is too dear to measure with every sample, once per thread and drain. Samples point to it by `ctx`.

use crate::table::{Column, Kind, Table, Values};

/// The number in the place of a unit: context rows are in files of their own.
pub const CONTEXT_UNIT: u8 = 0;

/// Version of the columns below.
pub const CONTEXT_VERSION: u8 = 1;

/// What a thread and its node were doing in one period between two drains.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Context {
    /// The number by which samples point here, with their thread; it may come again after 2^32 periods.
    pub ctx: u32,
    /// The thread, as in its samples.
    pub thread: u16,
    /// When the period ended, in us since 1970.
    pub time_us: u64,
    /// The same in ns of the clock by which samples say their `start`.
    pub ended_ns: u64,
    /// How long the thread ran in it, in ns.
    pub cpu_ns: u64,
    /// How long it could have run and did not, in ns: tells "slow" from "was not running".
    pub run_wait_ns: u64,
    /// Samples of the thread that were dropped in it.
    pub dropped: u64,
    /// Commits per second of the node.
    pub commits_per_s: f32,
    /// Work per time and worker of the node, 1 for full.
    pub utilisation: f32,
    /// Sessions that ran a statement.
    pub running_sessions: u32,
    /// Which configuration was in force; it grows with each change.
    pub config_epoch: u64,
    /// What the policy was doing, in its own code.
    pub policy_state: u32,
    /// The replica's delay, in us; 0 on a primary.
    pub delay_us: f32,
}

/// The columns of a file of context rows.
const COLUMNS: [Column; 13] = [
    Column { name: "ctx", kind: Kind::U32 },
    Column { name: "thread", kind: Kind::U16 },
    Column { name: "time_us", kind: Kind::U64 },
    Column { name: "ended_ns", kind: Kind::U64 },
    Column { name: "cpu_ns", kind: Kind::U64 },
    Column { name: "run_wait_ns", kind: Kind::U64 },
    Column { name: "dropped", kind: Kind::U64 },
    Column { name: "commits_per_s", kind: Kind::F32 },
    Column { name: "utilisation", kind: Kind::F32 },
    Column { name: "running_sessions", kind: Kind::U32 },
    Column { name: "config_epoch", kind: Kind::U64 },
    Column { name: "policy_state", kind: Kind::U32 },
    Column { name: "delay_us", kind: Kind::F32 },
];

impl Context {
    /// Returns rows as a table, in the order of `COLUMNS`.
    pub(crate) fn table(rows: &[Self], footer: Vec<(String, String)>) -> Table {
        let whole = |of: fn(&Self) -> u64| Values::Whole(rows.iter().map(of).collect());
        let real = |of: fn(&Self) -> f32| Values::Real(rows.iter().map(of).collect());
        let values = vec![
            whole(|row| u64::from(row.ctx)),
            whole(|row| u64::from(row.thread)),
            whole(|row| row.time_us),
            whole(|row| row.ended_ns),
            whole(|row| row.cpu_ns),
            whole(|row| row.run_wait_ns),
            whole(|row| row.dropped),
            real(|row| row.commits_per_s),
            real(|row| row.utilisation),
            whole(|row| u64::from(row.running_sessions)),
            whole(|row| row.config_epoch),
            whole(|row| u64::from(row.policy_state)),
            real(|row| row.delay_us),
        ];
        Table { columns: COLUMNS.to_vec(), values, footer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each number of a row is in its own column. Method: a row of numbers unlike each other, written, read and compared by name.
    #[test]
    fn context_rows_read_back_by_name() {
        let row = Context {
            ctx: 1,
            thread: 2,
            time_us: 3,
            ended_ns: 4,
            cpu_ns: 5,
            run_wait_ns: 6,
            dropped: 7,
            commits_per_s: 8.0,
            utilisation: 9.0,
            running_sessions: 10,
            config_epoch: 11,
            policy_state: 12,
            delay_us: 13.0,
        };
        let bytes = Context::table(&[row], Vec::new()).encode().unwrap();
        let read = Table::decode(bytes, &COLUMNS).unwrap();
        let numbers: Vec<f64> = read
            .values
            .iter()
            .map(|values| match values {
                Values::Whole(values) => f64::from(u32::try_from(values[0]).unwrap()),
                Values::Real(values) => f64::from(values[0]),
            })
            .collect();
        assert_eq!(numbers, (1..=13).map(f64::from).collect::<Vec<_>>());
        let names: Vec<&str> = read.columns.iter().map(|column| column.name).collect();
        assert_eq!((names[7], names[12]), ("commits_per_s", "delay_us"));
    }
}

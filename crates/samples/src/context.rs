//! Files of context rows: values that are too expensive to measure with every sample, taken once per thread and drain.
//! Samples refer to them by `ctx`.

use collie_obs::ContextRow;

use crate::table::{Column, Kind, Table, Values};

/// The unit number of context rows, which are in files of their own.
pub const CONTEXT_UNIT: u8 = 0;

/// The version of the columns below.
pub const CONTEXT_VERSION: u8 = 1;

/// A context row and the time at which it was drained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drained {
    /// When its period ended, in us since 1970.
    pub(crate) time_us: u64,
    /// The row.
    pub(crate) row: ContextRow,
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

/// Returns rows as a table, in the order of `COLUMNS`.
pub(crate) fn table(rows: &[Drained], footer: Vec<(String, String)>) -> Table {
    let whole = |of: fn(&Drained) -> u64| Values::Whole(rows.iter().map(of).collect());
    let real = |of: fn(&Drained) -> f32| Values::Real(rows.iter().map(of).collect());
    let values = vec![
        whole(|drained| u64::from(drained.row.ctx)),
        whole(|drained| u64::from(drained.row.thread)),
        whole(|drained| drained.time_us),
        whole(|drained| drained.row.ended_ns),
        whole(|drained| drained.row.cpu_ns),
        whole(|drained| drained.row.run_wait_ns),
        whole(|drained| drained.row.dropped),
        real(|drained| drained.row.situation.commits_per_s),
        real(|drained| drained.row.situation.utilisation),
        whole(|drained| u64::from(drained.row.situation.running_sessions)),
        whole(|drained| drained.row.situation.config_epoch),
        whole(|drained| u64::from(drained.row.situation.policy_state)),
        real(|drained| drained.row.situation.delay_us),
    ];
    Table { columns: COLUMNS.to_vec(), values, footer }
}

#[cfg(test)]
mod tests {
    use collie_obs::Situation;

    use super::*;

    /// Goal: each number of a row is in its own column. Method: a row of distinct numbers is written, read and compared
    /// by name.
    #[test]
    fn context_rows_read_back_by_name() {
        let situation = Situation {
            commits_per_s: 8.0,
            utilisation: 9.0,
            running_sessions: 10,
            config_epoch: 11,
            policy_state: 12,
            delay_us: 13.0,
        };
        let row = ContextRow { ctx: 1, thread: 2, ended_ns: 4, cpu_ns: 5, run_wait_ns: 6, dropped: 7, situation };
        let bytes = table(&[Drained { time_us: 3, row }], Vec::new()).encode().unwrap();
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

//! Several experiments in one call, as sections of a report: `--matrix=figures`, of which `--matrix=recover` is one,
//! and `--matrix=wal-study`.
//!
//! | file | holds |
//! |---|---|
//! | `cells.rs` | one setting, run by run, alternately on both databases |
//! | `loads.rs` | the loads for which figures are promised, compared with the peer |
//! | `study.rs` | the three experiments on the log of the LevelDB wiki's page on RocksDB's write-ahead log |
//!
//! All cells of an experiment run once before any runs again, so that a change in the machine's speed affects all of
//! them.

mod cells;
mod loads;
mod study;

pub(super) use cells::Cells;

use super::flags::Matrix;
use crate::{Machine, Report};

/// Runs per cell of an experiment on whose figures the result depends, and of the others: as many as in the study.
const RUNS_MANY: u32 = 10;
const RUNS: u32 = 5;

/// Runs the experiments of `matrix` and reports progress to `say`.
///
/// # Errors
/// Those of the engine, the peer and the operating system.
pub(super) fn measure(matrix: Matrix, cells: &Cells<'_>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    let mut sections = Vec::new();
    if matches!(matrix, Matrix::Figures | Matrix::All) {
        sections.push(loads::measure(cells, loads::loads(cells.num()), say)?);
    }
    if matrix == Matrix::Recover {
        sections.push(loads::measure(cells, vec![loads::reopening()], say)?);
    }
    if matches!(matrix, Matrix::WalStudy | Matrix::All) {
        sections.push(study::without_log(cells, say)?);
        sections.extend(study::log_limits(cells, say)?);
        sections.push(study::descriptors(cells, say)?);
        sections.push(study::manual_flush(cells, say)?);
    }
    let runs = usize::try_from(cells.runs(RUNS))?;
    Ok(Report { machine: Machine::of(cells.dir()), runs, sections })
}

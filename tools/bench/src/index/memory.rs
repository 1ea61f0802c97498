//! How many bytes does an index need per key, and does it need more and more while keys come and go?
//!
//! The figure is the resident memory of a process that does nothing else. The program starts itself once per figure,
//! since one index would reuse the memory that another has freed. Rows are made before the measurement. While keys come
//! and go each gets a new row, as in the store, so that an index that keeps removed rows shows it.

use std::{process::Command, time::Duration};

use anyhow::Context;
use collie_base::Lsn;
use collie_store::{Key, OrderedIndex, Row as StoredRow};

use super::{
    FLOOR, KEY_BYTES, candidates,
    rows::{Dice, Rows, put},
};
use crate::{
    Plan, Section,
    measures::{float, median},
    report::{Figure, Row},
    together::{during, together},
};

/// Threads that insert and remove.
const THREADS: usize = 2;

/// What to fill and to churn.
struct Asked<'a> {
    plan: &'a Plan,
    rows: u64,
    churn: Duration,
}

/// Bytes of resident memory.
#[derive(Clone, Copy)]
struct Found {
    /// Per key, after the fill.
    filled: f64,
    /// Per key, halfway through the churn and at its end.
    halfway: f64,
    churned: f64,
}

fn resident_bytes() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc/self/status")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number of kB")?;
    Ok(float(kilobytes * 1024))
}

fn churn<I: OrderedIndex>(index: &I, rows: &Rows, plan: &Plan, time: Duration) -> anyhow::Result<()> {
    let worker = |thread: usize| {
        let mut dice = Dice::new(thread as u64 + 1);
        move || {
            let key = rows.at(rows.any(&mut dice)).key();
            let fresh = |key: Key| (StoredRow::committed(key, b"", Lsn::FIRST), ());
            if let Err(row) = index.get_or_insert(key, fresh) {
                index.remove_if(&row);
            }
            Ok(())
        }
    };
    together(plan, (0..THREADS).map(worker).collect(), during(plan, time))?;
    Ok(())
}

fn fill_and_churn<I: OrderedIndex + Default>(asked: &Asked<'_>, key_bytes: usize) -> anyhow::Result<Found> {
    let rows = Rows::new(key_bytes, asked.rows);
    let order = rows.shuffled(1);
    let before = resident_bytes()?;
    let index = I::default();
    for place in &order {
        put(&index, rows.at(*place));
    }
    let by_key = |bytes: f64| (bytes - before).max(0.0) / float(asked.rows.max(1));
    let filled = by_key(resident_bytes()?);
    let mut after = [filled; 2];
    if !asked.churn.is_zero() {
        for after in &mut after {
            churn(&index, &rows, asked.plan, asked.churn / 2)?;
            *after = by_key(resident_bytes()?);
        }
    }
    Ok(Found { filled, halfway: after[0], churned: after[1] })
}

/// Measures one candidate in this process: bytes per key after the fill, halfway through the churn, and at its end.
/// Returns them in one line. [`measure`] starts a process that calls this; it has no other use.
///
/// # Errors
/// Arguments that are not the candidate, the bytes of a key, the number of rows and the milliseconds of churn.
pub fn index_memory(plan: &Plan, arguments: &[String]) -> anyhow::Result<String> {
    let [candidate, key_bytes, rows, churn_ms] = arguments else {
        anyhow::bail!("needed: candidate, bytes of a key, rows, milliseconds of churn");
    };
    let asked = Asked { plan, rows: rows.parse()?, churn: Duration::from_millis(churn_ms.parse()?) };
    let (_, run) = candidates!(fill_and_churn)
        .into_iter()
        .find(|(name, _)| name == candidate)
        .with_context(|| format!("no candidate {candidate}"))?;
    let Found { filled, halfway, churned } = run(&asked, key_bytes.parse()?)?;
    Ok(format!("{filled} {halfway} {churned}"))
}

/// Measures a candidate in its own process.
fn ask(plan: &Plan, name: &str, key_bytes: usize, churn: Duration) -> anyhow::Result<Found> {
    let program = plan.program.as_ref().context("no program was named")?;
    let arguments =
        [name.to_owned(), key_bytes.to_string(), plan.index_rows().to_string(), churn.as_millis().to_string()];
    let output = Command::new(program).arg("index-memory").args(arguments).output()?;
    anyhow::ensure!(output.status.success(), "index-memory: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [filled, halfway, churned] = figures[..] else { anyhow::bail!("index-memory said {text:?}") };
    Ok(Found { filled, halfway, churned })
}

/// Measures every candidate.
///
/// # Errors
/// A process that cannot be started.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "memory",
        format!("how much memory beyond the rows? (resident bytes by key of {}, put in at random)", plan.index_rows()),
    );
    if plan.program.is_none() {
        section.notes.push("nothing was measured: no program was named".to_owned());
        return Ok(section);
    }
    for key_bytes in KEY_BYTES {
        let mut floor = None;
        for name in super::NAMES {
            let mut found = Vec::new();
            for run in 0..plan.runs() {
                plan.say(&format!("memory: {key_bytes} B, {name}, run {}", run + 1));
                // Keys come and go only in the last run, since that takes long.
                let churn =
                    if run + 1 == plan.runs() && key_bytes == KEY_BYTES[0] { plan.churn } else { Duration::ZERO };
                found.push(ask(plan, name, key_bytes, churn)?);
            }
            let filled: Vec<f64> = found.iter().map(|found| found.filled).collect();
            let mut row = Row::new(name, format!("{key_bytes} B"), "memory", "none").runs("filled_bytes", &filled);
            if let Some(last) = found.last().filter(|_| key_bytes == KEY_BYTES[0]) {
                row = row
                    .runs("halfway_bytes", &[last.halfway])
                    .runs("churned_bytes", &[last.churned])
                    .figure("churn_ms", Figure::Count(u64::try_from(plan.churn.as_millis()).unwrap_or(u64::MAX)))
                    .target("second half of the churn adds < 5 %", last.churned < last.halfway * 1.05 + 1.0);
            }
            let floor = *floor.get_or_insert(median(&filled));
            section.rows.push(if name == FLOOR { row } else { row.beside(FLOOR, median(&filled) / floor.max(1.0)) });
        }
    }
    section
        .notes
        .push("churned: half as many keys at a time, each with a row of its own, which the figure includes".to_owned());
    Ok(section)
}

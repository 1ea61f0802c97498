//! What state do faults during a decision leave? On simulated servers at every moment, and on a real pair with
//! changing settings.
//!
//! | file | holds |
//! |---|---|
//! | `rehearsed` | decisions over simulated servers (`collie_server::Rehearsal`) under various faults |
//! | `failovers` | primaries that are killed while settings change, as in a trial, each second and more often |
//!
//! # What always holds
//! - D1. A case counts how often its situation occurred: one with no open change would pass trivially.

mod failovers;
mod rehearsed;

use crate::Section;
use crate::replication::PairSettings;

/// Answers the question.
///
/// # Errors
/// No server program was named; the errors of the pair and of the driver.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "safety",
        format!(
            "what do faults in the midst of a decision leave? ({} servers that are made up for each fault, each second of a decision; {} \
             failovers of a pair under writers while settings change)",
            rehearsed::servers(settings),
            settings.runs
        ),
    );
    rehearsed::rows(settings, &mut section)?;
    failovers::rows(settings, &mut section)?;
    section.notes.push(
        "made up: settings, seconds and models; the state machine, the journal, what it does to a disk, and the order of both are the server's"
            .to_owned(),
    );
    Ok(section)
}

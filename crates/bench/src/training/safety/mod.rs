//! What do faults in the midst of a decision leave? Of servers that are made up at every moment, of a real pair with its settings changing.
//!
//! | file | holds |
//! |---|---|
//! | `rehearsed` | decisions over servers that are made up (`collie_server::Rehearsal`): power cuts, disks that fail or fill, replicas that are cut off, clocks that jump, models of the wrong sign |
//! | `failovers` | primaries that are killed while settings change, as a trial does, each second and more often |
//!
//! # What always holds
//! - D1. A case says how often what it is about has happened: one in which nothing was in flight would pass by that alone.

mod failovers;
mod rehearsed;

use super::settings::TrainingSettings;
use crate::Section;

/// Answers the question.
///
/// # Errors
/// No program was named that serves; as of the pair and the driver.
pub(crate) fn measure(settings: &TrainingSettings) -> anyhow::Result<Section> {
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

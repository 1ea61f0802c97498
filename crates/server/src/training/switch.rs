//! [`Switch`]: one of the switches by name, in the notation of `training.switch`: `SCAN:replayed_read=off`.

use collie_train::{SourceId, UnitId, budget::Switches};

use super::units::{sources, units};

/// Stands for all units, or all sources.
const ALL: &str = "*";

/// A switch and its wanted state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    units: Vec<UnitId>,
    sources: Vec<SourceId>,
    on: bool,
}

impl Switch {
    /// Parses a switch: a unit or `*`, a source or `*`, and `on` or `off`. Units may be in lower case.
    ///
    /// # Errors
    /// The expected text, in words.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(which, how)| Some((which.split_once(':')?, how.trim())));
        let Some(((unit, source), how)) = parts else {
            return Err("expected UNIT:SOURCE=on or =off, as in SCAN:replayed_read=off".to_owned());
        };
        let on = match how {
            "on" => true,
            "off" => false,
            _ => return Err(format!("expected on or off, not {how}")),
        };
        let (unit, source) = (unit.trim(), source.trim());
        let units: Vec<UnitId> =
            units().filter(|(_, name)| unit == ALL || name.eq_ignore_ascii_case(unit)).map(|(unit, _)| unit).collect();
        if units.is_empty() {
            return Err(format!("there is no unit {unit}: collie_training.switches has them all"));
        }
        let sources: Vec<SourceId> =
            sources().filter(|(_, name)| source == ALL || *name == source).map(|(source, _)| source).collect();
        if sources.is_empty() {
            return Err(format!("there is no source {source}: collie_training.switches has them all"));
        }
        Ok(Self { units, sources, on })
    }

    /// Sets the switches to the wanted state; returns how many changed.
    pub(super) fn put(&self, switches: &mut Switches) -> usize {
        let pairs = self.units.iter().flat_map(|unit| self.sources.iter().map(move |source| (*unit, *source)));
        pairs.filter(|(unit, source)| switches.set(*unit, *source, self.on)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a switch affects exactly what it names. Method: one, all units of a source, all sources of a unit, all;
    /// then on again.
    #[test]
    fn a_switch_concerns_what_it_names() {
        let put = |switches: &mut Switches, text: &str| Switch::parse(text).expect("a switch").put(switches);
        for (text, count) in [
            ("SCAN:replayed_read=off", 1),
            ("scan : local = off", 1),
            ("*:apply=off", 30),
            ("PLAN:*=off", 4),
            ("*:*=off", 120),
        ] {
            let mut switches = Switches::default();
            assert_eq!(put(&mut switches, text), count, "{text}");
            assert_eq!(put(&mut switches, text), 0, "{text} again");
            assert_eq!(put(&mut switches, "*:*=on"), count, "{text} taken back");
            assert_eq!(switches, Switches::default());
        }
        let mut switches = Switches::default();
        put(&mut switches, "SCAN:replayed_read=off");
        let (scan, read) = (UnitId::new(13), SourceId::new(2));
        assert!(!switches.is_on(scan, read) && switches.is_on(scan, SourceId::new(1)));
    }

    /// Goal: a text that is no switch is refused with the expected one. Method: a table.
    #[test]
    fn what_is_no_switch_is_refused() {
        for (text, part) in [
            ("", "UNIT:SOURCE=on"),
            ("SCAN=off", "UNIT:SOURCE=on"),
            ("SCAN:local", "UNIT:SOURCE=on"),
            ("SCAN:local=maybe", "on or off, not maybe"),
            ("SKIM:local=on", "no unit SKIM"),
            ("SCAN:*x=on", "no source *x"),
            ("SCAN:Local=on", "no source Local"),
        ] {
            let error = Switch::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

//! `Change`: a row of `collie_training.decisions`, and values of settings.

use collie_train::decision::Setting;
use postgres::Client;

/// Values of settings: times in us, sizes in bytes.
pub(super) type Values = Vec<(Setting, f64)>;

/// A change that models proposed, with its current state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) setting: Setting,
    pub(super) old: f64,
    pub(super) new: f64,
    /// The predicted gain as a ratio: 0.5 for half as much again.
    pub(super) gain: f64,
    /// The verdict, as in `Verdict::word`.
    pub(super) verdict: String,
    pub(super) reason: String,
}

impl Change {
    /// Returns every change of a server, oldest first.
    ///
    /// # Errors
    /// Those of the driver; a setting that decisions do not cover.
    pub(super) fn all(session: &mut Client) -> anyhow::Result<Vec<Self>> {
        let text =
            "SELECT setting, old_value, new_value, gain, verdict, reason FROM collie_training.decisions ORDER BY id";
        let change = |row: &postgres::Row| {
            let key: String = row.get(0);
            let setting = Setting::of_key(&key).ok_or_else(|| anyhow::anyhow!("a decision about {key}"))?;
            let (old, new, gain) = (row.get(1), row.get(2), row.get(3));
            Ok(Self { setting, old, new, gain, verdict: row.get(4), reason: row.get(5) })
        };
        session.query(text, &[])?.iter().map(change).collect()
    }

    /// Returns whether it is on trial, or a canary.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.verdict.as_str(), "trial" | "canary")
    }

    /// Returns whether the new value is in force; on trial both values are in turn.
    pub(super) fn is_in_force(&self) -> bool {
        matches!(self.verdict.as_str(), "canary" | "kept")
    }

    /// Describes the change in a line.
    pub(super) fn told(&self) -> String {
        let value = |value| self.setting.text(value);
        format!(
            "{} {} -> {}, {:+.0} % predicted of the time of its units: {}",
            self.setting.key(),
            value(self.old),
            value(self.new),
            100.0 * self.gain,
            self.reason
        )
    }
}

/// Returns the result of `changes`: `before` with the new values that are in force.
pub(super) fn values_after(before: &[(Setting, f64)], changes: &[Change]) -> Values {
    let new = changes.iter().filter(|change| change.is_in_force()).map(|change| (change.setting, change.new));
    with_values(before, &new.collect::<Vec<_>>())
}

/// Returns `before` with the values of `others` in their place. Settings that are not in `before` are left out, since
/// the node does not have them.
pub(super) fn with_values(before: &[(Setting, f64)], others: &[(Setting, f64)]) -> Values {
    let newest = |setting| others.iter().rfind(|(other, _)| *other == setting).map(|(_, value)| *value);
    before.iter().map(|&(setting, value)| (setting, newest(setting).unwrap_or(value))).collect()
}

/// Describes in a line how `values` differ from `before`.
pub(super) fn told(values: &[(Setting, f64)], before: &[(Setting, f64)]) -> String {
    let differ = values.iter().filter(|one| !before.contains(one));
    let told: Vec<String> =
        differ.map(|(setting, value)| format!("{}={}", setting.key(), setting.text(*value))).collect();
    if told.is_empty() { "as configured".to_owned() } else { told.join(", ") }
}

/// Reads the values in force from a text of `/metrics`.
pub(super) fn values_of_metrics(text: &str) -> Values {
    let value = |line: &str| {
        let (key, value) = line.strip_prefix("collie_training_setting{setting=\"")?.split_once("\"} ")?;
        Some((Setting::of_key(key)?, value.trim().parse().ok()?))
    };
    text.lines().filter_map(value).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a change of `store.gc_interval` from 2 to 4 ms.
    pub(crate) fn change(verdict: &str) -> Change {
        let (verdict, reason) = (verdict.to_owned(), format!("{verdict}, for a reason"));
        Change { setting: Setting::GcInterval, old: 2000.0, new: 4000.0, gain: 0.5, verdict, reason }
    }

    const BEFORE: [(Setting, f64); 2] = [(Setting::FlushDelay, 10_000.0), (Setting::GcInterval, 2000.0)];

    /// Goal: only changes in force count, and settings that the node does not have are not set. Method: each verdict;
    /// an expert's value of a replica's setting.
    #[test]
    fn only_what_is_in_force_is_what_the_loop_came_to() {
        for (verdict, value) in [("trial", 2000.0), ("canary", 4000.0), ("kept", 4000.0), ("rejected", 2000.0)] {
            let after = values_after(&BEFORE, &[change(verdict)]);
            assert_eq!(after, [(Setting::FlushDelay, 10_000.0), (Setting::GcInterval, value)], "{verdict}");
        }
        assert_eq!(with_values(&BEFORE, &[(Setting::ApplyWorkers, 2.0)]), BEFORE);
        let after = values_after(&BEFORE, &[change("kept")]);
        assert_eq!(
            (told(&after, &BEFORE), told(&BEFORE, &BEFORE)),
            ("store.gc_interval=4000us".into(), "as configured".into())
        );
        assert!(change("trial").is_open() && change("canary").is_open() && !change("rolled back").is_open());
        assert!(change("kept").told().contains("store.gc_interval 2000us -> 4000us, +50 % predicted"));
    }

    /// Goal: values are read in the server's format. Method: lines of `/metrics`, with others around them.
    #[test]
    fn values_in_force_are_read_from_metrics() {
        let text = "# HELP collie_training_setting Values.\n# TYPE collie_training_setting gauge\n\
            collie_training_setting{setting=\"wal.flush_delay\"} 10000\ncollie_training_setting{setting=\"store.gc_interval\"} 2000\n\
            collie_training_setting{setting=\"server.listen\"} 1\ncollie_up 1\n";
        assert_eq!(values_of_metrics(text), BEFORE);
    }
}

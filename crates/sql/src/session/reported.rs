//! `Reported`: the settings that a client follows by ParameterStatus, as the client last received them.
//!
//! A setting changes by SET, RESET, `set_config` and DISCARD, and at the end of a transaction or of a part of it. All
//! of them only note that something changed. Before ReadyForQuery the values are compared with those last sent, so a
//! client receives each new value once, and none that a rollback has already taken back.

use crate::session::{
    Session,
    settings::{SETTINGS, Settings},
};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Reported {
    last: Settings,
    is_changed: bool,
}

impl Reported {
    /// Notes that settings may have changed.
    pub(super) fn note_change(&mut self) {
        self.is_changed = true;
    }
}

impl Session {
    /// Returns the names and values of all settings that are reported to clients, for the start of a connection.
    pub fn all_parameters(&mut self) -> Vec<(&'static str, String)> {
        self.reported = Reported { last: self.settings.clone(), is_changed: false };
        let reported = SETTINGS.iter().filter(|setting| setting.reported);
        reported.map(|setting| (setting.display(), self.settings.get(setting.name).to_owned())).collect()
    }

    /// Returns the names and values of the settings that changed since the client last received them. The caller sends
    /// them before ReadyForQuery.
    pub fn parameters_to_report(&mut self) -> Vec<(&'static str, String)> {
        if !std::mem::take(&mut self.reported.is_changed) {
            return Vec::new();
        }
        let last = std::mem::replace(&mut self.reported.last, self.settings.clone());
        let reported = SETTINGS.iter().filter(|setting| setting.reported);
        let changed = reported.filter(|setting| last.get(setting.name) != self.settings.get(setting.name));
        changed.map(|setting| (setting.display(), self.settings.get(setting.name).to_owned())).collect()
    }
}

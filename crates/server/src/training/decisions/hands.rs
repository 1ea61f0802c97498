//! [`Hands`]: the settings that were set by hand: in the configuration, on the command line, or while the server runs.
//!
//! The lock is held while a value is put, by a user as well as by a decision, so that neither overwrites a value of the
//! other that it has not seen (C2). No other lock is taken under it.

use std::collections::BTreeSet;

use collie_train::decision::Setting;
use parking_lot::Mutex;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Hands(Mutex<BTreeSet<Setting>>);

impl Hands {
    /// Records that these keys were given when the server was started.
    pub(super) fn note_given<'a>(&self, keys: impl IntoIterator<Item = &'a str>) {
        self.0.lock().extend(keys.into_iter().filter_map(Setting::of_key));
    }

    /// Returns whether a setting was set by hand.
    pub(super) fn hold(&self, setting: Setting) -> bool {
        self.0.lock().contains(&setting)
    }

    /// Sets a setting by hand; it counts as set by hand if that succeeds.
    ///
    /// # Errors
    /// Those of `set`.
    pub(super) fn set(&self, setting: Setting, set: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let mut held = self.0.lock();
        set()?;
        held.insert(setting);
        Ok(())
    }

    /// Puts a setting for a decision, unless it was set by hand, in which case it succeeds without effect.
    ///
    /// # Errors
    /// Those of `put`.
    pub(super) fn unless_set(&self, setting: Setting, put: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let held = self.0.lock();
        if held.contains(&setting) { Ok(()) } else { put() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: C2: decisions no longer put settings that were given or set, but put one whose setting failed. Method: one
    /// setting of each kind.
    #[test]
    fn what_was_set_by_hand_is_left_alone() {
        let hands = Hands::default();
        hands.note_given(["wal.flush_delay", "server.listen"]);
        hands.set(Setting::FlushBytes, || Ok(())).unwrap();
        hands.set(Setting::GcInterval, || Err("out of bounds".to_owned())).unwrap_err();
        let put = |setting| {
            let mut is_put = false;
            hands
                .unless_set(setting, || {
                    is_put = true;
                    Ok(())
                })
                .unwrap();
            assert_eq!(is_put, !hands.hold(setting));
            is_put
        };
        let settings = [Setting::FlushDelay, Setting::FlushBytes, Setting::GcInterval, Setting::WriteBufferSize];
        assert_eq!(settings.map(put), [false, false, true, true]);
    }
}

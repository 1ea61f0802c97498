//! `CustomSettings`: settings with a dot in their name, as of extensions, in which programs keep any text.
//!
//! # Invariants
//! - C1. Names and values of one session take at most [`BYTES_MAX`].
//! - C2. Copies, which every savepoint keeps, share their memory until one of them changes.

use std::sync::Arc;

use collie_base::Map;

use crate::error::{Result, SqlError, SqlState};

/// Limit of all names and values, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct CustomSettings {
    /// Values by lower-case name.
    values: Arc<Map<String, Arc<str>>>,
    bytes: usize,
}

impl CustomSettings {
    /// Returns the value of a setting.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&name.to_ascii_lowercase()).map(|value| &**value)
    }

    /// Sets a value; `None` removes it.
    ///
    /// # Errors
    /// 53200 beyond the limit (C1).
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_lowercase();
        let before = self.values.get(&name).map_or(0, |value| name.len() + value.len());
        let after = value.map_or(0, |value| name.len() + value.len());
        let bytes = self.bytes - before + after;
        if bytes > BYTES_MAX {
            let text = format!("settings with a dot in their name take up to {BYTES_MAX} bytes in one session");
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, text).hint("RESET those that are not needed any more."));
        }
        self.bytes = bytes;
        let values = Arc::make_mut(&mut self.values);
        match value {
            Some(value) => _ = values.insert(name, value.into()),
            None => _ = values.remove(&name),
        }
        Ok(())
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: C1 and C2: a value beyond the limit is refused and changes nothing, removed values make room, and a copy
    /// keeps its values. Method: two values of half the limit, one more, and each way to make room.
    #[test]
    fn values_are_bounded_and_copies_stay() {
        let half = "x".repeat(BYTES_MAX / 2 - 3);
        let mut settings = CustomSettings::default();
        settings.set("a.a", Some(&half)).unwrap();
        settings.set("A.B", Some(&half)).unwrap();
        let copy = settings.clone();
        let refused = settings.set("a.c", Some("")).unwrap_err();
        assert_eq!((refused.state(), settings.get("a.c")), (SqlState::OUT_OF_MEMORY, None));
        assert!(settings.set("a.a", Some(&format!("{half}x"))).is_err());
        assert_eq!(settings.get("a.A"), Some(&*half));
        settings.set("a.a", Some("short")).unwrap();
        settings.set("a.c", Some("y")).unwrap();
        settings.set("a.b", None).unwrap();
        assert_eq!((settings.get("a.a"), settings.get("a.b"), settings.get("a.c")), (Some("short"), None, Some("y")));
        assert_eq!((copy.get("a.a"), copy.get("a.b"), copy.get("a.c")), (Some(&*half), Some(&*half), None));
        settings.clear();
        settings.set("a.a", Some(&half)).unwrap();
        settings.set("a.b", Some(&half)).unwrap();
    }
}

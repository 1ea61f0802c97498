//! Values of DateStyle: how dates are printed, and in which order the parts of an ambiguous one are read.
//!
//! A value names a style, an order, both or neither; a part that it leaves out stays as it is. `German` alone also
//! means day, month, year.

use crate::types::datetime::{DateOrder, DateStyle};

const STYLES: [(&str, DateStyle); 4] = [
    ("ISO", DateStyle::Iso),
    ("Postgres", DateStyle::Postgres),
    ("SQL", DateStyle::Sql),
    ("German", DateStyle::German),
];
const ORDERS: [(&str, DateOrder); 3] = [("MDY", DateOrder::Mdy), ("DMY", DateOrder::Dmy), ("YMD", DateOrder::Ymd)];

/// Reads a checked value.
pub(in crate::session) fn read(shown: &str) -> (DateStyle, DateOrder) {
    let (style, order) = parts(shown);
    let style = STYLES.iter().find(|(word, _)| *word == style).map(|(_, style)| *style);
    let order = ORDERS.iter().find(|(word, _)| *word == order).map(|(_, order)| *order);
    (style.unwrap_or_default(), order.unwrap_or_default())
}

fn parts(shown: &str) -> (&str, &str) {
    shown.split_once(", ").unwrap_or((shown, ""))
}

/// A part of a value while its words are read: its value so far, and whether a word named it.
struct Part<'a> {
    value: &'a str,
    is_named: bool,
    is_conflicting: bool,
}

impl<'a> Part<'a> {
    fn new(value: &'a str) -> Self {
        Self { value, is_named: false, is_conflicting: false }
    }

    fn name(&mut self, value: &'a str) {
        self.is_conflicting |= self.is_named && self.value != value;
        (self.value, self.is_named) = (value, true);
    }

    fn suggest(&mut self, value: &'a str) {
        if !self.is_named {
            self.value = value;
        }
    }
}

/// Returns the value in its shown form, or PostgreSQL's DETAIL of the error. `current` is the value in force and
/// `usual` the value of DEFAULT, both in shown form.
pub(super) fn check(value: &str, current: &str, usual: &str) -> Result<String, String> {
    let (current, usual) = (parts(current), parts(usual));
    let (mut style, mut order) = (Part::new(current.0), Part::new(current.1));
    let words = value.split(',').map(str::trim).filter(|_| !value.trim().is_empty());
    for word in words {
        let word = word.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(word);
        let lower = word.to_ascii_lowercase();
        if lower.is_empty() || lower.contains(char::is_whitespace) {
            return Err("List syntax is invalid.".to_owned());
        }
        match lower.as_str() {
            "iso" => style.name("ISO"),
            "sql" => style.name("SQL"),
            "german" => {
                style.name("German");
                order.suggest("DMY");
            }
            "ymd" => order.name("YMD"),
            "dmy" => order.name("DMY"),
            "mdy" | "us" => order.name("MDY"),
            "default" => {
                style.suggest(usual.0);
                order.suggest(usual.1);
            }
            _ if lower.starts_with("postgres") => style.name("Postgres"),
            _ if lower.starts_with("euro") => order.name("DMY"),
            _ if lower.starts_with("noneuro") => order.name("MDY"),
            _ => return Err(format!("Unrecognized key word: \"{lower}\".")),
        }
    }
    if style.is_conflicting || order.is_conflicting {
        return Err("Conflicting \"datestyle\" specifications.".to_owned());
    }
    Ok(format!("{}, {}", style.value, order.value))
}

//! Names that PostgreSQL chooses for constraints and indexes without a given name.

use crate::catalog::relation::Relation;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 63;

pub(in crate::session) fn column_names(relation: &Relation, places: &[usize]) -> String {
    let names = places.iter().filter_map(|place| relation.columns.get(*place));
    names.map(|column| column.name.to_string()).collect::<Vec<_>>().join("_")
}

/// Makes a name from its parts that `taken` does not refuse: cut to length, then numbered.
pub(in crate::session) fn unused_name(
    start: &str,
    middle: Option<&str>,
    end: &str,
    taken: impl Fn(&str) -> bool,
) -> String {
    for count in 0_u64.. {
        let end = if count == 0 { end.to_owned() } else { format!("{end}{count}") };
        let name = joined_name(start, middle, &end);
        if !taken(&name) {
            return name;
        }
    }
    unreachable!("there are more numbers than names")
}

/// Joins the parts with underscores, and shortens the longer of the first two until the whole fits.
fn joined_name(start: &str, middle: Option<&str>, end: &str) -> String {
    let (mut start, mut middle) = (start.to_owned(), middle.map(str::to_owned));
    let length =
        |start: &str, middle: &Option<String>| start.len() + middle.as_ref().map_or(0, |m| m.len() + 1) + end.len() + 1;
    while length(&start, &middle) > NAME_BYTES_MAX {
        match &mut middle {
            Some(middle) if middle.len() > start.len() => middle.pop(),
            _ => start.pop(),
        };
    }
    match middle {
        Some(middle) => format!("{start}_{middle}_{end}"),
        None => format!("{start}_{end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: chosen names are PostgreSQL's: cut to 63 bytes at the longer part, numbered if taken. Method: table.
    #[test]
    fn names_are_cut_and_counted() {
        assert_eq!(unused_name("t", None, "pkey", |_| false), "t_pkey");
        assert_eq!(unused_name("t", Some("a_b"), "key", |name| name == "t_a_b_key"), "t_a_b_key1");
        let long = "x".repeat(80);
        let name = unused_name(&long, Some("col"), "idx", |_| false);
        assert_eq!(name.len(), 63);
        assert!(name.ends_with("x_col_idx"));
    }
}

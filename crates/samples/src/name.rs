//! `FileName`: the place of a sample file, and the facts in its path.

use std::path::{Path, PathBuf};

/// The directory of samples under a data directory.
pub(crate) const ROOT: [&str; 2] = ["samples", "v1"];

/// The ending of a file's name while the file is written.
pub(crate) const TEMPORARY: &str = ".tmp";

const ENDING: &str = ".parquet";
const US_PER_DAY: i64 = 86_400_000_000;

/// The name `ou=NN/ver=V/day=YYYYMMDD/<node>-<seq>.parquet`. Ordered by day, then by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// The day on which the file was closed, as YYYYMMDD in UTC.
    pub day: u32,
    /// The file's number on its node; no two files of a node have the same number.
    pub seq: u64,
    /// The node's name, in the form that file names can have ([`safe_node`]).
    pub node: String,
    /// The operating unit; 0 for context rows.
    pub unit: u8,
    /// The schema version of the unit.
    pub version: u8,
}

/// Returns a node's name with each character that is not safe in paths replaced by `_`, cut to 64 characters.
pub fn safe_node(node: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' };
    let name: String = node.chars().take(64).map(safe).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

/// Returns the day of a time in us since 1970, as YYYYMMDD in UTC (Howard Hinnant's algorithm for the civil calendar).
pub(crate) fn day_of(wall_us: i64) -> u32 {
    let days = wall_us.div_euclid(US_PER_DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    u32::try_from((year * 100 + month) * 100 + day).unwrap_or(0)
}

impl FileName {
    /// Returns the path under the data directory `data`.
    pub fn path(&self, data: &Path) -> PathBuf {
        let dir = ROOT.iter().fold(data.to_owned(), |dir, part| dir.join(part));
        dir.join(format!("ou={:02}", self.unit))
            .join(format!("ver={}", self.version))
            .join(format!("day={:08}", self.day))
            .join(format!("{}-{}{ENDING}", self.node, self.seq))
    }

    /// Parses the last four parts of a path; `None` if it is not that of a sample file.
    pub(crate) fn of_parts(unit: &str, version: &str, day: &str, file: &str) -> Option<Self> {
        let (node, seq) = file.strip_suffix(ENDING)?.rsplit_once('-')?;
        let name = Self {
            day: day.strip_prefix("day=")?.parse().ok()?,
            seq: seq.parse().ok()?,
            node: node.to_owned(),
            unit: unit.strip_prefix("ou=")?.parse().ok()?,
            version: version.strip_prefix("ver=")?.parse().ok()?,
        };
        (!name.node.is_empty()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: days are those of the calendar. Method: edges of months, leap years and 1970.
    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, day) in [
            (0, 19_700_101),
            (-1, 19_691_231),
            (951_782_400, 20_000_229),
            (951_868_800, 20_000_301),
            (1_769_817_600, 20_260_131),
            (1_769_903_999, 20_260_131),
            (1_769_904_000, 20_260_201),
            (4_107_542_400, 21_000_301),
        ] {
            assert_eq!(day_of(seconds * 1_000_000), day, "{seconds}");
        }
    }

    /// Goal: a path states what its file is. Method: a name is written and read, and names that are not of sample files
    /// are refused.
    #[test]
    fn names_read_back() {
        let name = FileName { day: 20_260_131, seq: 17, node: "eu-1.n1".to_owned(), unit: 13, version: 1 };
        let path = name.path("/d".as_ref());
        assert_eq!(path, Path::new("/d/samples/v1/ou=13/ver=1/day=20260131/eu-1.n1-17.parquet"));
        let read = |file: &str| FileName::of_parts("ou=13", "ver=1", "day=20260131", file);
        assert_eq!(read("eu-1.n1-17.parquet"), Some(name));
        for other in ["eu-1.n1-17.parquet.tmp", "17.parquet", "-17.parquet", "n1-x.parquet", "n1-17"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(safe_node("a/b c:5433"), "a_b_c_5433");
        assert_eq!((safe_node(""), safe_node("..")), ("_".to_owned(), "_..".to_owned()));
    }
}

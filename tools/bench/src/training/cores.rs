//! `cores`: the cores of a primary and its replica, chosen so that neither takes the other's time.

use crate::Section;

/// Returns the first two processors that this process may run on, one for a primary and one for its replica; `None` if
/// there are fewer, or the system does not report them.
pub(crate) fn two_cores() -> Option<[usize; 2]> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = listed(list.trim());
    Some([cores.next()?, cores.next()?])
}

/// Returns the numbers of a list such as `0-2,5`.
fn listed(list: &str) -> impl Iterator<Item = usize> + '_ {
    list.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => first..last + 1,
            _ => 0..0,
        }
    })
}

/// Notes in `section` on which cores the processes of its pairs ran, and what that means for its figures.
pub(crate) fn note_cores(section: &mut Section, cores: Option<[usize; 2]>) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    section.notes.push(match cores {
        Some([primary, replica]) => format!(
            "the primary ran on core {primary} alone, the replica on core {replica} alone, the load on any of {all}: ratios of paired \
             runs can be compared with those of other machines, other figures cannot"
        ),
        None => "there are no two cores of their own for primary and replica: they disturbed each other".to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a list of processors in the kernel's format is read. Method: one, ranges, both, nonsense; that of this
    /// machine.
    #[test]
    fn a_list_of_cores_is_read() {
        let all = |list| listed(list).collect::<Vec<_>>();
        assert_eq!((all("3"), all("0-2,5"), all("1,4-5")), (vec![3], vec![0, 1, 2, 5], vec![1, 4, 5]));
        assert_eq!((all(""), all("a-b")), (vec![], vec![]));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(two_cores().is_none_or(|[first, second]| first < second) && (cores < 2) <= two_cores().is_none());
    }
}

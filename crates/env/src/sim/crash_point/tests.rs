//! Checks that the states of a crash point are exactly those of the model, each of them once.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

use proptest::prelude::*;

use super::*;
use crate::{Files, read_all};

const DIR: &str = "/d";
const A: &str = "/d/a";

fn synced_file(len: usize) -> (SimFiles, Arc<dyn crate::File>) {
    let disk = SimFiles::new();
    let file = disk.create(A.as_ref()).unwrap();
    file.write_at(0, &vec![1; len]).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(DIR.as_ref()).unwrap();
    (disk, file)
}

fn content(disk: &SimFiles, path: &str) -> Vec<u8> {
    read_all(disk, path.as_ref(), 1 << 20).unwrap()
}

fn all_contents(point: &CrashPoint, limits: Limits) -> Vec<Vec<u8>> {
    point.states(limits, 1).iter().map(|picks| content(&point.state(picks), A)).collect()
}

/// Goal: torn writes inside a block and reordered writes are covered: every combination of old and new sectors,
/// each once. Method: rewrite a block and expect the 256 contents; rewrite one sector again, which then has three.
#[test]
fn every_subset_of_sectors_is_visited_once() {
    let (disk, file) = synced_file(4096);
    file.write_at(0, &[2; 4096]).unwrap();
    let contents = all_contents(&disk.crash_point(), Limits::default());
    let distinct: BTreeSet<&Vec<u8>> = contents.iter().collect();
    assert_eq!((contents.len(), distinct.len()), (256, 256));
    assert!(contents.iter().all(|bytes| bytes.chunks(512).all(|s| s == [1; 512] || s == [2; 512])));
    file.write_at(512, &[3; 512]).unwrap();
    let contents = all_contents(&disk.crash_point(), Limits::default());
    assert_eq!(contents.iter().collect::<BTreeSet<_>>().len(), 3 * 128);
    assert_eq!(contents.len(), 3 * 128);
}

/// Goal: equal bytes are no choice, so that no state is counted twice. Method: write the same bytes again, and a
/// block that differs in one byte.
#[test]
fn same_bytes_written_again_are_no_choice() {
    let (disk, file) = synced_file(8192);
    file.write_at(0, &[1; 4096]).unwrap();
    assert_eq!(disk.crash_point().state_count(), Some(1));
    file.write_at(4096 + 700, &[9]).unwrap();
    assert_eq!(disk.crash_point().state_count(), Some(2));
}

/// Goal: a file that grew has any of its lengths, and zeros where nothing was kept. Method: grow twice.
#[test]
fn lengths_since_the_sync_are_all_possible() {
    let (disk, file) = synced_file(512);
    file.write_at(512, &[2; 512]).unwrap();
    file.write_at(1024, &[3; 512]).unwrap();
    let contents: BTreeSet<Vec<u8>> = all_contents(&disk.crash_point(), Limits::default()).into_iter().collect();
    let lens: BTreeSet<usize> = contents.iter().map(Vec::len).collect();
    assert_eq!(lens, [512, 1024, 1536].into());
    assert!(contents.iter().any(|bytes| bytes.len() == 1536 && bytes[512] == 0 && bytes[1024] == 3), "a hole");
}

/// Goal: unsynced names are kept or lost in every combination; a rename never loses its file and may leave both
/// names. Method: create one name and remove another, then rename a file; list the directories of all states.
#[test]
fn names_come_and_go_in_every_combination_the_model_allows() {
    let (disk, _file) = synced_file(512);
    disk.create("/d/b".as_ref()).unwrap();
    disk.remove(A.as_ref()).unwrap();
    let point = disk.crash_point();
    let listed = |point: &CrashPoint| -> BTreeSet<String> {
        let names =
            |picks: &Picks| point.state(picks).list(DIR.as_ref()).map_or(String::new(), |names| names.join(" "));
        point.states(Limits::default(), 1).iter().map(names).collect()
    };
    assert_eq!(listed(&point), ["", "a", "a b", "b"].map(String::from).into());

    let (disk, _file) = synced_file(512);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    disk.watch(move |point| sink.lock().unwrap().push(point));
    disk.replace(A.as_ref(), "/d/c".as_ref()).unwrap();
    let between = seen.lock().unwrap().pop().expect("the directory's sync in replace is a crash point");
    assert_eq!(listed(&between), ["a", "a c", "c"].map(String::from).into());
    assert_eq!(listed(&disk.crash_point()), ["c"].map(String::from).into());
}

/// Goal: beyond the bound the list has the documented states, is bounded and has no repetitions. Method: 64 sectors
/// in 8 writes; look for none, all, each one alone, each cut of the order, and torn sectors among the drawn states.
#[test]
fn beyond_the_bound_structured_and_drawn_states_are_visited() {
    let (disk, file) = synced_file(8 * 4096);
    for block in 0..8_u64 {
        file.write_at(block * 4096, &[2; 4096]).unwrap();
    }
    let point = disk.crash_point();
    assert_eq!(point.state_count(), None, "2^64 is beyond what is counted");
    let limits = Limits::default();
    let states = point.states(limits, 5);
    assert_eq!(states.iter().collect::<BTreeSet<_>>().len(), states.len(), "no state twice");
    assert_eq!(states, point.states(limits, 5), "a seed decides");
    assert!(states.len() < 600, "{} states", states.len());
    let contents: Vec<Vec<u8>> = states.iter().map(|picks| content(&point.state(picks), A)).collect();
    let new_of = |bytes: &Vec<u8>| bytes.chunks(512).filter(|sector| *sector == [2; 512]).count();
    for kept in [0, 1, 63, 64] {
        assert!(contents.iter().any(|bytes| new_of(bytes) == kept), "{kept} sectors kept");
    }
    for cut in 1..8 {
        let prefix = |bytes: &Vec<u8>| {
            bytes[..cut * 4096].iter().all(|b| *b == 2) && bytes[cut * 4096..].iter().all(|b| *b == 1)
        };
        let suffix = |bytes: &Vec<u8>| {
            bytes[..cut * 4096].iter().all(|b| *b == 1) && bytes[cut * 4096..].iter().all(|b| *b == 2)
        };
        assert!(contents.iter().any(prefix) && contents.iter().any(suffix), "cut after write {cut}");
    }
    let torn = |bytes: &Vec<u8>| bytes.chunks(512).any(|sector| sector.contains(&1) && sector.contains(&2));
    assert!(contents.iter().any(torn), "no torn sector among {}", contents.len());
}

/// Goal: states affect neither each other nor their disk. Method: write to one state and look at the others.
#[test]
fn states_share_content_and_stay_apart() {
    let (disk, file) = synced_file(4096);
    file.write_at(0, &[2; 512]).unwrap();
    let point = disk.crash_point();
    let (one, other) = (point.state(&point.all_kept()), point.state(&point.all_kept()));
    let written = one.open(A.as_ref(), crate::Access::ReadWrite).unwrap();
    written.write_at(0, &[7; 4096]).unwrap();
    written.sync_data().unwrap();
    assert_eq!((content(&one, A)[0], content(&other, A)[0], content(&disk, A)[0]), (7, 2, 2));
    assert_eq!(content(&point.state(&point.none_kept()), A)[0], 1);
}

/// Goal: a failed sync leaves its writes undecided forever. Method: fail one sync, let the next succeed, list the
/// states.
#[test]
fn writes_of_a_failed_sync_stay_undecided() {
    let (disk, file) = synced_file(1024);
    file.write_at(0, &[2; 512]).unwrap();
    disk.fail_call(disk.calls() + 1, crate::Fault::Eio);
    assert!(file.sync_data().is_err());
    file.write_at(512, &[3; 512]).unwrap();
    file.sync_data().unwrap();
    let contents: BTreeSet<Vec<u8>> = all_contents(&disk.crash_point(), Limits::default()).into_iter().collect();
    assert_eq!(contents.len(), 2);
    assert!(contents.iter().all(|bytes| bytes[512..] == [3; 512]));
}

proptest! {
    /// Goal: whatever the writes, each sector of a state holds content that was written there or was durable, and
    /// the last synced content is kept. Method: random writes and syncs, compared with a list of every sector's
    /// past.
    #[test]
    fn every_sector_of_every_state_has_a_past(
        steps in proptest::collection::vec((0_usize..16, 1_usize..12, any::<bool>()), 1..12)
    ) {
        let (disk, file) = synced_file(16 * 512);
        let mut past: Vec<Vec<u8>> = vec![vec![1]; 28];
        for (number, (sector, count, sync)) in steps.iter().enumerate() {
            let fill = u8::try_from(number + 2).unwrap();
            file.write_at(*sector as u64 * 512, &vec![fill; count * 512]).unwrap();
            past[*sector..sector + count].iter_mut().for_each(|of| of.push(fill));
            if *sync {
                file.sync_data().unwrap();
                past.iter_mut().for_each(|of| { of.drain(..of.len() - 1); });
            }
        }
        let point = disk.crash_point();
        for picks in point.states(Limits { exhaustive: 64, sampled: 32, structured: 16 }, 3) {
            let state = point.state(&picks);
            let bytes = content(&state, A);
            let torn = picks.0.iter().zip(&point.choices).any(|(pick, choice)| *pick >= choice.outcomes);
            for (at, sector) in bytes.chunks(512).enumerate() {
                let known = sector.iter().all(|byte| past[at].contains(byte) || (*byte <= 1 && at >= 16));
                prop_assert!(known, "sector {at} holds {:?}, not of {:?}", sector[0], past[at]);
                prop_assert!(torn || sector.iter().all(|byte| *byte == sector[0]));
            }
            prop_assert!(state.list(Path::new(DIR)).unwrap() == ["a"]);
        }
    }
}

/// Goal: once the removal of a directory is durable, no power cut brings back a name in it, also not into a directory
/// that has its name since; names in a directory that was moved stay undurable until their own directory is synced.
/// Method: the names in every state, for a directory that is removed and replaced, and for one that is moved.
#[test]
fn names_in_a_removed_directory_do_not_come_back() {
    let disk = SimFiles::new();
    let put = |path: &str, syncs: bool| {
        let path = Path::new(path);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.create(path).unwrap().sync_data().unwrap();
        if syncs {
            disk.sync_dir(path.parent().unwrap()).unwrap();
        }
    };
    let found = |dir: &str| -> BTreeSet<Vec<String>> {
        let point = disk.crash_point();
        let states = point.states(Limits::default(), 1);
        states.iter().map(|picks| point.state(picks).list(dir.as_ref()).unwrap_or_default()).collect()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    put("/d/sub/old", true);
    disk.sync_dir(DIR.as_ref()).unwrap();
    disk.remove("/d/sub/old".as_ref()).unwrap();
    disk.remove_dir_all("/d/sub".as_ref()).unwrap();
    assert_eq!(found("/d/sub"), [names(&[]), names(&["old"])].into(), "the removal may be lost");
    disk.sync_dir(DIR.as_ref()).unwrap();
    assert_eq!(found("/d/sub"), [names(&[])].into());
    put("/d/part/new", true);
    disk.replace("/d/part".as_ref(), "/d/sub".as_ref()).unwrap();
    assert_eq!(found("/d/sub"), [names(&["new"])].into());
    put("/d/part/late", false);
    disk.replace("/d/part".as_ref(), "/d/whole".as_ref()).unwrap();
    assert_eq!(found("/d/whole"), [names(&[]), names(&["late"])].into(), "its own directory was not synced");
}

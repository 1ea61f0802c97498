//! `collie wal` as a program: its output, its exit codes, and the one line for bad input.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use collie_base::{Lsn, checksum::crc32c};
use collie_env::Env;
use collie_wal::{Appended, Level, Log, Options, RingKind, TailOptions};
use common::{COLLIE, Done, run};
use serde_json::Value;

const BLOCK: usize = 4096;

fn wal(arguments: &[&str]) -> Done {
    run(Command::new(COLLIE).arg("wal").args(arguments))
}

/// Ends the other thread, even when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The records in a sample, of 10,000 bytes each.
const COUNT: u8 = 200;

/// A closed log of a few files.
struct Sample {
    dir: tempfile::TempDir,
    records: Vec<Appended>,
}

impl Sample {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
        let mut writer = log.writer();
        let records = (0..60).map(|n| writer.append(1, &[&[n; 10_000]]).unwrap()).collect();
        log.flush_wal(true).unwrap();
        for n in 60..COUNT {
            writer.commit(1, &[n; 10_000], Level::Disk).unwrap();
        }
        log.close().unwrap();
        Self { dir, records }
    }

    fn path(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    /// Returns the files with frames, oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        let named = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let holds = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes.get(BLOCK..BLOCK + 4) == Some(b"CLF1"));
        let mut files: Vec<_> =
            named.filter(|path| path.extension().is_some_and(|e| e == "wal")).filter(holds).collect();
        files.sort();
        assert!(files.len() > 2, "{files:?}");
        files
    }
}

/// Replaces bytes of a segment's header and updates its checksum.
fn forge_header(path: &Path, offset: usize, bytes: &[u8]) {
    let mut all = fs::read(path).unwrap();
    all[offset..offset + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c(&all[12..BLOCK]);
    all[8..12].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, all).unwrap();
}

/// Goal: each command shows a whole log, for people and for programs, with nothing on standard error. Method: one
/// closed log; texts by their parts, JSON by its keys and sums.
#[test]
fn whole_log_is_dumped_verified_and_counted() {
    let sample = Sample::new();
    let dump = wal(&["dump", sample.path()]).ok();
    assert_eq!(dump.lines().count(), usize::from(COUNT));
    let third = &sample.records[2];
    let line = dump.lines().nth(2).unwrap();
    assert!(line.starts_with(&format!("{} {} data tag 1 10000 bytes 0", third.start, third.end)), "{line}");
    let from = third.start.to_string();
    let to = sample.records[5].start.get().to_string();
    let some = wal(&["dump", sample.path(), "--from", &from, "--to", &to, "--json"]).ok();
    let some: Vec<Value> = some.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(some.len(), 3);
    assert_eq!((&some[0]["lsn"], &some[0]["payload_bytes"]), (&Value::from(from), &Value::from(10_000)));

    let said = wal(&["verify", sample.path()]).ok();
    assert!(said.contains(" frames, 200 records from 0/1000 to "), "{said}");
    assert!(said.lines().nth(1).unwrap().starts_with("opens with everything: it was closed at "), "{said}");
    let verify = wal(&["verify", sample.path(), "--json"]).json();
    assert_eq!(
        (&verify["opens"], &verify["ending"], &verify["records"]),
        (&true.into(), &"clean".into(), &COUNT.into())
    );
    assert_eq!(verify["damage"], Value::Null);

    let said = wal(&["stat", sample.path()]).ok();
    for word in ["log ", "durable ", "segments ", "spares ", "records   200, ", "frames ", "padding ", "segment "] {
        assert!(said.lines().any(|line| line.starts_with(word)), "{word}: {said}");
    }
    let stat = wal(&["stat", sample.path(), "--json"]).json();
    let number = |key: &str| stat[key].as_u64().unwrap_or_else(|| panic!("{key}: {stat}"));
    assert_eq!(number("payload_bytes"), u64::from(COUNT) * 10_000);
    assert_eq!(number("stream_bytes"), number("payload_bytes") + number("record_head_bytes"));
    assert_eq!(number("written_bytes"), number("stream_bytes") + number("frame_head_bytes") + number("padding_bytes"));
    let used: u64 =
        stat["segments"].as_array().unwrap().iter().map(|one| one["used_bytes"].as_u64().unwrap() - 4096).sum();
    assert_eq!(number("written_bytes"), used);
}

/// Goal: a reader that closes its end early causes neither an error nor output. Method: close the pipe after one line
/// of a dump that does not fit into it.
#[test]
fn closed_pipe_ends_a_dump_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let mut writer = log.writer();
    for n in 0..5_000_u32 {
        writer.append(1, &[&n.to_le_bytes()]).unwrap();
    }
    log.close().unwrap();
    let mut child = Command::new(COLLIE)
        .args(["wal", "dump", dir.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("0/1000 "), "{line}");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// Goal: a log in use is read up to its durable position, never called damaged, and cannot be cut. Method: one thread
/// appends and fills files while the commands run; each dump has all records durable before it, in order, without gaps.
#[test]
fn running_log_is_read_and_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let mut writer = log.writer();
            // Bounded, so that a dump ends even on a slow machine.
            for _ in 0..6_000 {
                writer.commit(1, &[7; 3_000], Level::Disk).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..6 {
            let durable = log.durable();
            let dump = wal(&["dump", path]).ok();
            let ends: Vec<Lsn> = dump.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
            assert!(ends.is_sorted());
            let last = ends.last().copied().unwrap_or(Lsn::FIRST);
            assert!(last >= durable && last <= log.boundary(), "{durable} <= {last}");
            assert_eq!(last.bytes_since(Lsn::FIRST), ends.len() as u64 * 3_003, "no gap");
            let verified = wal(&["verify", path, "--json"]).json();
            assert_eq!(verified["opens"], Value::from(true), "{verified}");
            wal(&["stat", path]).ok();
        }
        let refused = wal(&["truncate-at", path, "0/1000"]).refused();
        let pid = std::process::id();
        assert_eq!(
            refused,
            format!(
                "error: nothing was changed in {path}: wal: the log is open in process {pid}; stop that process or use \
                 another directory"
            )
        );
    });
    log.close().unwrap();
}

/// Goal: a cut reports what is removed, keeps a copy, and leaves a log that opens; a dry run and a repetition change
/// nothing. Method: dry run, cut, verify, dump of log and copy, the same again, then a cut without a copy.
#[test]
fn truncate_at_shows_copies_and_cuts() {
    let sample = Sample::new();
    let at = sample.records[40].start.to_string();
    let dry = wal(&["truncate-at", sample.path(), &at, "--dry-run"]).ok();
    assert!(dry.starts_with("goes: 160 records, "), "{dry}");
    assert!(dry.contains("; the last record among them: ") && dry.contains("\nstays: "), "{dry}");
    assert!(dry.ends_with("nothing was changed (--dry-run)\n"), "{dry}");
    assert_eq!(wal(&["dump", sample.path()]).ok().lines().count(), usize::from(COUNT));

    let said = wal(&["truncate-at", sample.path(), &at]).ok();
    assert!(said.contains(&format!("\ncut: the log ends at {at}; new records come at or above ")), "{said}");
    let copy = said.split("copied aside to ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(wal(&["dump", copy, "--from", &at]).ok().lines().count(), 160);
    assert_eq!(wal(&["dump", sample.path()]).ok().lines().count(), 40);
    wal(&["verify", sample.path()]).ok();
    let again = wal(&["truncate-at", sample.path(), &at, "--json"]).json();
    assert_eq!((&again["cut"], &again["removed_records"], &again["backup"]), (&true.into(), &0.into(), &Value::Null));

    let (log, found) = Log::open(&Env::real(), sample.dir.path(), Options::small()).unwrap();
    assert_eq!(log.read(found.start).map(Result::unwrap).count(), 40);
    drop(log);
    let earlier = sample.records[10].end.get().to_string();
    let bare = wal(&["truncate-at", sample.path(), &earlier, "--no-backup", "--json"]).json();
    assert_eq!((&bare["removed_records"], &bare["backup"]), (&29.into(), &Value::Null));
    assert_eq!(wal(&["dump", sample.path()]).ok().lines().count(), 11);
}

/// Goal: a cut that is impossible gives the reason in one line and changes nothing. Method: inside a record, beyond the
/// end, below the start, no position, and no room for the copy.
#[test]
fn truncate_at_refuses_what_is_no_cut() {
    let sample = Sample::new();
    let path = sample.path();
    let (first, second) = (sample.records[0], sample.records[1]);
    let inside = (second.start.get() + 5).to_string();
    let prefix = format!("error: nothing was changed in {path}: wal: cannot cut at ");
    assert_eq!(
        wal(&["truncate-at", path, &inside]).refused(),
        format!(
            "{prefix}{}: a record lies across it: use {} or {}, the nearest boundaries",
            Lsn::new(second.start.get() + 5),
            first.end,
            second.end
        )
    );
    let beyond = wal(&["truncate-at", path, "FF/0"]).refused();
    assert!(beyond.starts_with(&format!("{prefix}FF/0: the log can be read to 0/")), "{beyond}");
    let below = wal(&["truncate-at", path, "7"]).refused();
    assert_eq!(below, format!("{prefix}0/7: the lowest position it can be cut at is 0/1000"));
    let usage = wal(&["truncate-at", path, "here"]);
    assert_eq!(usage.code, Some(2));
    assert!(usage.err.contains("expected high/low in hexadecimal"), "{}", usage.err);
    // The copy's directory cannot be made.
    let name = format!("cut-at-{:016X}-incarnation-1", first.end.get());
    fs::write(sample.dir.path().join(&name), "in the way").unwrap();
    let no_room = wal(&["truncate-at", path, &first.end.to_string(), "--json"]).refused();
    assert!(no_room.starts_with("error: nothing was cut; make room, or leave the copy out with --no-backup: wal: "));
    assert!(no_room.contains(&name), "{no_room}");
    assert_eq!(wal(&["dump", path]).ok().lines().count(), usize::from(COUNT));
}

/// Goal: the log of a database is not cut below the position from which its checkpoint needs it, and can be cut exactly
/// there. Method: a closed database without a flush; a position below the start of its log, then the start.
#[test]
fn truncate_at_refuses_below_the_checkpoint_of_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let options = collie_engine::Options::small();
    let (db, _) = collie_engine::Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    db.close().unwrap();
    drop(db);
    let path = dir.path().to_str().unwrap();
    let below = wal(&["truncate-at", path, "0/FFF"]).refused();
    let expected = format!(
        "error: nothing was changed in {path}/wal: wal: cannot cut at 0/FFF: the checkpoint needs everything below \
         0/1000; restore a backup to go further back"
    );
    assert_eq!(below, expected);
    let start = wal(&["truncate-at", path, "0/1000"]).ok();
    assert!(start.contains("cut: the log ends at 0/1000;"), "{start}");
}

/// Goal: damage stops each command with the place, the loss and the ways out, and a cut there makes the log open.
/// Method: flip a bit in a frame in the middle.
#[test]
fn damaged_log_is_reported_and_can_be_cut() {
    let sample = Sample::new();
    let segment = &sample.segments()[0];
    let mut bytes = fs::read(segment).unwrap();
    let frame = (1..).map(|block| block * BLOCK).filter(|at| bytes[*at..].starts_with(b"CLF1")).nth(3).unwrap();
    bytes[frame + 200] ^= 1;
    fs::write(segment, bytes).unwrap();
    let dump = wal(&["dump", sample.path()]);
    let readable = dump.out.lines().count();
    assert!(readable > 5 && readable < usize::from(COUNT), "{readable}");
    let last_end = dump.out.lines().last().unwrap().split(' ').nth(1).unwrap().to_owned();
    let line = dump.refused();
    let place = format!("({} offset {frame})", segment.display());
    assert!(line.starts_with(&format!("error: wal: damaged at LSN {last_end} {place}: crc ")), "{line}");
    let verify = wal(&["verify", sample.path()]);
    assert!(verify.out.contains(&format!(" {readable} records from ")), "{verify:?}");
    assert_eq!(verify.refused(), line);
    let verify = wal(&["verify", sample.path(), "--json"]);
    let json: Value = serde_json::from_str(&verify.out).unwrap();
    assert_eq!((&json["opens"], &json["ending"]), (&false.into(), &"damaged".into()));
    assert_eq!((&json["damage"]["lsn"], &json["damage"]["offset_bytes"]), (&last_end.as_str().into(), &frame.into()));
    let stat = wal(&["stat", sample.path()]);
    assert_eq!(stat.code, Some(0));
    assert!(stat.err.starts_with("warning: figures end at the damage: wal: damaged at LSN "), "{}", stat.err);
    assert_eq!(wal(&["dump", sample.path(), "--to", &last_end]).ok().lines().count(), readable);

    let said = wal(&["truncate-at", sample.path(), &last_end]).ok();
    assert!(said.starts_with("goes: 0 records, 0 bytes, ") && said.contains("cannot be read in order"), "{said}");
    assert!(wal(&["verify", sample.path()]).ok().contains("opens with everything to "), "{said}");
    assert_eq!(wal(&["dump", sample.path()]).ok().lines().count(), readable);
}

/// Goal: an unfinished flush is no damage, and verify reports what an open would report. Method: half a frame after the
/// end of a log that was not closed.
#[test]
fn torn_tail_verifies_with_the_words_of_an_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let end = log.writer().commit(1, &[1; 9_000], Level::Disk).unwrap().end;
    log.writer().append(1, &[&[2; 9_000]]).unwrap();
    log.flush_wal(false).unwrap();
    log.abandon();
    drop(log);
    let segment = dir.path().join("00000000000000000001.wal");
    let mut bytes = fs::read(&segment).unwrap();
    let mut frames = (1..bytes.len() / BLOCK).map(|block| block * BLOCK).filter(|at| bytes[*at..].starts_with(b"CLF1"));
    let last = frames.next_back().unwrap();
    bytes[last + 2 * BLOCK..last + 3 * BLOCK].fill(0);
    fs::write(&segment, bytes).unwrap();
    let said = wal(&["verify", path]).ok();
    let words = format!(
        "opens with everything to {end}, and says: wal: dropped an unfinished flush of {} bytes after LSN {end} \
         (00000000000000000001.wal offset {last}); no later frame relied on it",
        3 * BLOCK
    );
    assert_eq!(said.lines().nth(1).unwrap(), words);
    let json = wal(&["verify", path, "--json"]).json();
    assert_eq!((&json["ending"], &json["torn_bytes"]), (&"torn".into(), &(3 * BLOCK).into()));
}

/// Goal: whatever the directory is, each command answers with one line that names it. Method: no directory, an empty
/// one, a file, a newer format, another log's file; all four commands on each.
#[test]
fn wrong_directories_get_one_line_each() {
    let check = |dir: &Path, words: &[&str]| {
        let path = dir.to_str().unwrap();
        for arguments in [&["dump", path][..], &["verify", path], &["stat", path], &["truncate-at", path, "4096"]] {
            let line = wal(arguments).refused();
            assert!(words.iter().all(|word| line.contains(word)), "{arguments:?}: {line}");
        }
    };
    let place = tempfile::tempdir().unwrap();
    let absent = place.path().join("absent");
    check(&absent, &["cannot list", absent.to_str().unwrap(), "No such file or directory"]);
    assert!(!absent.exists());
    check(place.path(), &["there is no log in", place.path().to_str().unwrap()]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing was made");
    let file = place.path().join("file");
    fs::write(&file, "no directory").unwrap();
    check(&file, &["cannot list", file.to_str().unwrap(), "Not a directory"]);

    let newer = Sample::new();
    let segment = newer.segments()[0].clone();
    forge_header(&segment, 12, &7_u16.to_le_bytes());
    check(newer.dir.path(), &[segment.to_str().unwrap(), "has format version 7, written by a newer program"]);

    let (mixed, other) = (Sample::new(), Sample::new());
    let foreign = mixed.dir.path().join("00000000000000000077.wal");
    fs::copy(&other.segments()[0], &foreign).unwrap();
    forge_header(&foreign, 32, &77_u64.to_le_bytes());
    check(mixed.dir.path(), &[foreign.to_str().unwrap(), "belongs to another log"]);
}

/// Goal: a directory without rights is refused in one line. Method: as a user that may not enter it; when the tests run
/// as root, the program is started as another user, from a directory that this user can access.
#[test]
fn directory_without_rights_is_refused() {
    let sample = Sample::new();
    let public = tempfile::tempdir().unwrap();
    fs::set_permissions(public.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = public.path().join("collie");
    // Copied by another process: if this process had the program open for writing while another test starts a child,
    // the child would inherit the descriptor, and starting the program would fail as busy.
    assert!(Command::new("cp").arg(COLLIE).arg(&program).status().unwrap().success());
    let as_root = rustix::process::getuid().is_root();
    let mode = if as_root { 0o700 } else { 0 };
    fs::set_permissions(sample.dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    for arguments in [&["dump"][..], &["verify"], &["stat"], &["truncate-at"]] {
        let mut command = Command::new(&program);
        command.arg("wal").args(arguments).arg(sample.path());
        if arguments == ["truncate-at"] {
            command.arg("4096");
        }
        if as_root {
            command.uid(65_534);
        }
        let line = run(&mut command).refused();
        assert!(line.contains("cannot list") && line.contains("Permission denied"), "{line}");
        assert!(line.contains(sample.path()), "{line}");
    }
    fs::set_permissions(sample.dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

/// Goal: a missing, a duplicated and a shortened segment each get one line that names the file. Method: one of each on
/// a log of several files; verify and dump.
#[test]
fn missing_doubled_and_shortened_segments_are_named() {
    let missing = Sample::new();
    let gone = missing.segments()[1].clone();
    fs::remove_file(&gone).unwrap();
    let line = wal(&["verify", missing.path()]).refused();
    assert!(line.starts_with("error: wal: ") && line.contains(gone.file_name().unwrap().to_str().unwrap()), "{line}");
    assert!(line.contains("so acknowledged commits are lost here: put it back"), "{line}");
    assert_eq!(wal(&["dump", missing.path()]).refused(), line);
    let json: Value = serde_json::from_str(&wal(&["verify", missing.path(), "--json"]).out).unwrap();
    assert!(json["damage"]["lsn"].is_string(), "{json}");

    let doubled = Sample::new();
    let (first, copy) = (doubled.segments()[0].clone(), doubled.dir.path().join("00000000000000000099.wal"));
    fs::copy(&first, &copy).unwrap();
    for command in ["verify", "dump", "stat"] {
        let line = wal(&[command, doubled.path()]).refused();
        let named =
            format!("{} is segment {} by its header", copy.display(), first.file_name().unwrap().to_str().unwrap());
        assert!(line.contains(&named), "{line}");
    }

    let shortened = Sample::new();
    let segment = shortened.segments()[0].clone();
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(BLOCK as u64 * 200).unwrap();
    let line = wal(&["verify", shortened.path()]).refused();
    assert!(line.contains(&format!("{} has 819200 of its 1048576 bytes", segment.display())), "{line}");
    let dump = wal(&["dump", shortened.path()]);
    assert!(dump.out.lines().count() > 2);
    assert_eq!(dump.refused(), line);
}

/// Goal: with --skip-bad every readable record is printed, and each loss as a hole of known size. Method: a flipped bit
/// in the middle; records printed and bytes lost make up the log; the bounds hold for holes too.
#[test]
fn skip_bad_prints_what_reads_and_what_is_lost() {
    let sample = Sample::new();
    let whole = wal(&["dump", sample.path()]).ok();
    let segment = &sample.segments()[1];
    let mut bytes = fs::read(segment).unwrap();
    let frame = (1..).map(|block| block * BLOCK).filter(|at| bytes[*at..].starts_with(b"CLF1")).nth(5).unwrap();
    bytes[frame + 200] ^= 1;
    fs::write(segment, bytes).unwrap();
    let done = wal(&["dump", sample.path(), "--skip-bad"]);
    assert_eq!(done.code, Some(0));
    let (holes, records): (Vec<&str>, Vec<&str>) = done.out.lines().partition(|line| line.starts_with("wal: lost "));
    assert_eq!(holes.len(), 1, "{holes:?}");
    assert!(records.iter().all(|line| whole.contains(line)));
    let lost = whole.lines().count() - records.len();
    assert!(lost >= 1, "{lost}");
    assert_eq!(done.err, format!("warning: {} bytes lost in 1 hole\n", lost * 10_003));
    let json = wal(&["dump", sample.path(), "--skip-bad", "--json"]);
    let objects: Vec<Value> = json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let hole = objects.iter().find(|object| object["kind"] == "hole").unwrap();
    assert_eq!(hole["lost_bytes"], Value::from(lost * 10_003));
    assert_eq!(hole["offset_bytes"], Value::from(frame));
    let below = wal(&["dump", sample.path(), "--skip-bad", "--to", hole["lsn"].as_str().unwrap()]).ok();
    let above = wal(&["dump", sample.path(), "--skip-bad", "--from", hole["end_lsn"].as_str().unwrap()]).ok();
    assert_eq!(below.lines().count() + above.lines().count(), records.len());
}

/// Goal: stat names the consumers that keep each file. Method: a consumer that stays at the start of a log that goes
/// on.
#[test]
fn stat_names_the_consumers_and_what_they_keep() {
    let sample = Sample::new();
    let (log, found) = Log::open(&Env::real(), sample.dir.path(), Options::small()).unwrap();
    drop(log.tail("feed", TailOptions::from(found.start)).unwrap());
    log.close().unwrap();
    let said = wal(&["stat", sample.path()]).ok();
    assert!(said.contains("\nconsumer  feed at 0/1000, reads again from 0/1000, "), "{said}");
    assert!(said.contains(", kept for feed\n"), "{said}");
    let stat = wal(&["stat", sample.path(), "--json"]).json();
    let feed = &stat["consumers"][0];
    assert_eq!(
        (&feed["name"], &feed["lsn"], &feed["policy"]),
        (&"feed".into(), &"0/1000".into(), &"invalidate".into())
    );
    let kept = stat["segments"].as_array().unwrap().iter().filter(|one| one["pinned_by"][0] == "feed").count();
    assert_eq!(feed["pinned_segments"], Value::from(kept));
    assert_eq!((&stat["ring"], &stat["ring_file"]), (&"private".into(), &Value::Null), "{stat}");
    assert!(kept > 0 && feed["lag_bytes"].as_u64().unwrap() > 1_000_000, "{stat}");
}

/// Goal: stat names the shared ring of a running log. Method: a log with a ring in a directory of the test; text and
/// JSON.
#[test]
fn stat_names_the_shared_ring() {
    let (dir, rings) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let options = Options { ring: RingKind::Shared, ring_dir: rings.path().to_owned(), ..Options::small() };
    let (log, _) = Log::open(&Env::real(), dir.path(), options).unwrap();
    log.writer().commit(1, b"a", Level::Disk).unwrap();
    let file = log.stat().ring_path.unwrap();
    assert!(file.starts_with(rings.path()) && log.stat().ring == RingKind::Shared);
    let arguments = ["stat", dir.path().to_str().unwrap(), "--ring-dir", rings.path().to_str().unwrap()];
    let text = wal(&arguments).ok();
    assert!(text.contains(&format!("\nring      shared, {}\n", file.display())), "{text}");
    let json = wal(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!((json["ring"].as_str(), json["ring_file"].as_str()), (Some("shared"), file.to_str()));
    log.close().unwrap();
    assert!(wal(&arguments).ok().contains("\nring      private: none of this log in "));
}

/// Goal: rot in one copy is found, the log still opens with the other copy, and the bad copy is repaired from it.
/// Method: a log in two directories, a flipped bit in the first; verify alone, together, with --repair, alone again.
#[test]
fn verify_repairs_a_copy_from_the_other() {
    let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (home, copy) = (place.path().to_str().unwrap(), other.path().to_str().unwrap());
    let options = Options { copies: vec![other.path().to_owned()], ..Options::small() };
    let (log, _) = Log::open(&Env::real(), place.path(), options).unwrap();
    let mut writer = log.writer();
    for n in 0..30 {
        writer.commit(1, &[n; 5_000], Level::Disk).unwrap();
    }
    log.close().unwrap();
    drop((writer, log));
    let both = wal(&["verify", home, "--copy", copy]).ok();
    assert_eq!(both.matches(": every frame reads\n").count(), 2, "{both}");
    let segment = place.path().join("00000000000000000001.wal");
    let mut bytes = fs::read(&segment).unwrap();
    let frame = (1..).map(|block| block * BLOCK).filter(|at| bytes[*at..].starts_with(b"CLF1")).nth(9).unwrap();
    bytes[frame + 300] ^= 4;
    fs::write(&segment, bytes).unwrap();
    wal(&["verify", home]).refused();
    let both = wal(&["verify", home, "--copy", copy]).ok();
    assert!(both.contains(&format!("copy {home}: wal: damaged at LSN ")), "{both}");
    assert!(both.contains("\nopens with everything"), "{both}");
    let hint = wal(&["verify", copy]).ok();
    assert!(hint.contains("\ncopies: the log was opened with 2 directories, 1 of them looked at; "), "{hint}");
    let settings = place.path().join("settings.toml");
    fs::write(&settings, format!("[wal]\ncopies = [\"{copy}\"]\n")).unwrap();
    for named in [["--config", settings.to_str().unwrap()], ["--set", &format!("wal.copies={copy}")]] {
        assert_eq!(wal(&["verify", home, named[0], named[1]]).ok(), both);
    }
    let alone = wal(&["verify", home, "--repair"]);
    assert_eq!(alone.code, Some(2), "{alone:?}");
    let done = wal(&["verify", home, "--copy", copy, "--repair", "--json"]);
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert!(json["repaired"].as_u64().unwrap() >= 1 && json["copies"][0]["bad"].is_null(), "{json}");
    assert!(done.err.contains("00000000000000000001.wal"), "{done:?}");
    assert!(wal(&["verify", home]).ok().contains(" 30 records from "));
}

/// Goal: a cut of one directory of a log in several is a cut of the log: the next open does not restore the removed
/// part from the others. Method: a log in two directories, cut in one, opened with both twice; then only the other one
/// is read.
#[test]
fn cut_of_one_copy_is_not_undone_by_the_other() {
    let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = Options { copies: vec![other.path().to_owned()], ..Options::small() };
    let open = || Log::open(&Env::real(), place.path(), options.clone()).unwrap();
    let (log, _) = open();
    let mut writer = log.writer();
    let records: Vec<Appended> = (0..30).map(|n| writer.commit(1, &[n; 5_000], Level::Disk).unwrap()).collect();
    log.close().unwrap();
    drop((writer, log));
    let at = records[20].start.to_string();
    wal(&["truncate-at", place.path().to_str().unwrap(), &at]).ok();
    for _ in 0..2 {
        let (log, found) = open();
        assert_eq!(log.read(found.start).map(Result::unwrap).count(), 20, "{found:?}");
        log.close().unwrap();
    }
    assert_eq!(wal(&["dump", other.path().to_str().unwrap()]).ok().lines().count(), 20);
}

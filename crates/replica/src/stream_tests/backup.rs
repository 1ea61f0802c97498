//! Tests of base backups over in-memory connections: a backup is complete or an error, and keeps to its rate.

use super::*;

/// A primary whose backup files are on a simulated disk.
#[derive(Debug)]
struct WithFiles {
    log: Followed,
    files: Vec<BackupFile>,
}

impl Source for WithFiles {
    type Shipper = Reader;

    fn identity(&self) -> Identity {
        self.log.identity()
    }

    fn durable(&self) -> Lsn {
        self.log.durable()
    }

    fn show(&self) -> Lsn {
        self.log.show()
    }

    fn commits(&self) -> u64 {
        0
    }

    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError> {
        self.log.crc_before(end, bytes)
    }

    fn ship(&self, slot: &str, from: Lsn, keep: Keep) -> Result<Reader, SourceError> {
        self.log.ship(slot, from, keep)
    }

    fn backup(&self, _slot: &str) -> Result<BackupFiles, SourceError> {
        Ok(BackupFiles {
            root: "/primary".into(),
            files: self.files.clone(),
            log_start: Lsn::FIRST,
            consistent: self.durable(),
            cleanup: None,
        })
    }

    fn drop_slot(&self, _slot: &str) -> Result<(), SourceError> {
        Ok(())
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

fn sum(bytes: &[u8]) -> (usize, u32) {
    (bytes.len(), crc32c(bytes))
}

/// Serves one connection of a replica until it ends.
fn serving(source: &Arc<WithFiles>, env: &Env, backup_bytes_per_s: u64) -> Trusted<DuplexStream> {
    let (near, far) = duplex(1 << 16);
    let (near, far) = trusted(near, far);
    let heartbeat = Duration::from_millis(5);
    let stream = StreamOptions { heartbeat, timeout: PATIENCE, backup_bytes_per_s, ..StreamOptions::default() };
    let (stop, stopping) = watch::channel(false);
    let (served, env) = ((source.clone(), Arc::new(Slots::new())), env.clone());
    tokio::spawn(async move {
        let _stop = stop;
        let _ended = serve(far, "here", served, stream, env, stopping).await;
    });
    near
}

/// Goal: a base backup is sent no faster than `replication.backup_rate` allows. Method: a file of four chunks, at
/// a rate at which it takes a fifth of a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_backup_keeps_to_its_rate() {
    let (env, _disk) = Env::simulated(6);
    let (bytes, name) = (256 << 10, "levels/MANIFEST");
    let path = Path::new("/primary").join(name);
    env.files.create_dir_all(path.parent().unwrap()).unwrap();
    env.files.create(&path).unwrap().write_at(0, &content(bytes)).unwrap();
    env.files.create_dir_all(Path::new("/paced")).unwrap();
    let files = vec![BackupFile { name: name.to_owned(), bytes: bytes as u64 }];
    let source = Arc::new(WithFiles { log: Followed(Node::primary()), files });
    let begun = tokio::time::Instant::now();
    let io = serving(&source, &env, 5 * bytes as u64);
    let cloned = clone(io, Path::new("/paced"), 9, &options(), &env, &mut |_, _| ()).await.unwrap();
    assert_eq!(cloned.bytes, bytes as u64);
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
}

/// Goal: a base backup yields the same files, on disk, or an error, and never a changed file. Method: files of
/// several lengths, transferred intact; then transfers that are cut, or have a bit flipped, at places that move
/// through the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_backup_is_whole_or_an_error() {
    let (env, disk) = Env::simulated(5);
    let sizes = [("levels/MANIFEST", 700_usize), ("levels/tree-1/tables/1", (1 << 20) + 13), ("levels/tree-1/v0", 0)];
    let mut files = Vec::new();
    for (name, bytes) in sizes {
        let path = Path::new("/primary").join(name);
        env.files.create_dir_all(path.parent().unwrap()).unwrap();
        env.files.create(&path).unwrap().write_at(0, &content(bytes)).unwrap();
        files.push(BackupFile { name: name.to_owned(), bytes: bytes as u64 });
    }
    let source = Arc::new(WithFiles { log: Followed(Node::primary()), files });
    let attempt = |target: &'static str, fault: Fault| {
        let (near, env) = (serving(&source, &env, 100 << 20), env.clone());
        async move {
            env.files.create_dir_all(Path::new(target)).unwrap();
            let io = near.map(|io| Faulty { io, fault, read: 0, pause: None });
            let mut seen = Vec::new();
            let mut progress = |done, total| seen.push((done, total));
            let cloned = clone(io, Path::new(target), 9, &options(), &env, &mut progress).await;
            (cloned, seen)
        }
    };
    let (cloned, seen) = attempt("/whole", Fault::None).await;
    let cloned = cloned.unwrap();
    assert_eq!((cloned.files, cloned.bytes, cloned.log_start), (3, 700 + (1 << 20) + 13, Lsn::FIRST));
    assert_eq!(cloned.consistent, source.durable());
    assert_eq!(seen.last(), Some(&(cloned.bytes, cloned.bytes)));
    let same = |env: &Env, target: &str| {
        let read = |root: &str, name: &str| {
            let file = env.files.open(&Path::new(root).join(name), Access::Read).ok()?;
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(0, &mut bytes).unwrap();
            Some(bytes)
        };
        let all =
            |(name, bytes): &(&str, usize)| read(target, name).is_some_and(|read| sum(&read) == sum(&content(*bytes)));
        sizes.iter().all(all)
    };
    let after = Env::over(disk.power_cut(1), 1);
    assert!(same(&after, "/whole"), "what was reported as done is on disk");
    for (target, fault) in [
        ("/a", Fault::Cut(20)),
        ("/b", Fault::Cut(900)),
        ("/c", Fault::Cut(700_000)),
        ("/d", Fault::Flip(30)),
        ("/e", Fault::Flip(500)),
        ("/f", Fault::Flip(600_000)),
    ] {
        let (cloned, _) = attempt(target, fault).await;
        assert!(cloned.is_err() || same(&env, target), "{target}: {cloned:?}");
        assert!(cloned.is_err() || matches!(fault, Fault::Flip(_)), "{target} was cut and says it is whole");
    }
}

//! Tests that comparing a replica of the engine with its primary finds a wrongly applied row.

use std::{path::Path, sync::Arc, time::Duration};

use collie_base::Lsn;
use collie_engine::{Db, Family, Isolation, Options, Replica, ReplicaOptions, Seed, Session, StatementKind, Upsert};
use collie_env::Env;
use tokio::{io::duplex, sync::watch, time::timeout};

use super::{EngineShipper, EngineSource, EngineTarget, SlotOptions};
use crate::{
    Keep, LinkError,
    compare::{Differing, Held},
    identity::Identity,
    key::trusted,
    primary::{BackupFiles, Ship, Shipment, Slots, Source, SourceError, StreamOptions, serve},
    standby::{Ended, FollowOptions, follow},
};

/// How long a test waits for an expected event: far longer than it takes on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A value that is changed in transit.
const PLANTED: &[u8] = b"a value with a planted mistake";

/// A primary whose stream changes a byte of [`PLANTED`].
#[derive(Debug)]
struct Mistaken(EngineSource);

/// The shipper of `Mistaken`.
#[derive(Debug)]
struct MistakenShipper(EngineShipper);

impl Ship for MistakenShipper {
    async fn next<'a>(&'a mut self, bytes_max: usize, out: &'a mut Vec<u8>) -> Result<Shipment, SourceError> {
        let shipment = self.0.next(bytes_max, out).await?;
        let planted = out.windows(PLANTED.len()).position(|window| window == PLANTED);
        if let Some(byte) = planted.and_then(|at| out.get_mut(at)) {
            *byte = b'A';
        }
        Ok(shipment)
    }

    fn advance(&mut self, durable: Lsn) -> Result<(), SourceError> {
        self.0.advance(durable)
    }
}

impl Source for Mistaken {
    type Shipper = MistakenShipper;

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn durable(&self) -> Lsn {
        self.0.durable()
    }

    fn show(&self) -> Lsn {
        self.0.show()
    }

    fn commits(&self) -> u64 {
        self.0.commits()
    }

    fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, SourceError> {
        self.0.crc_before(end, bytes)
    }

    fn ship(&self, slot: &str, from: Lsn, keep: Keep) -> Result<MistakenShipper, SourceError> {
        self.0.ship(slot, from, keep).map(MistakenShipper)
    }

    fn backup(&self, slot: &str) -> Result<BackupFiles, SourceError> {
        self.0.backup(slot)
    }

    fn hold(&self) -> Option<Box<dyn Held>> {
        self.0.hold()
    }

    fn drop_slot(&self, slot: &str) -> Result<(), SourceError> {
        self.0.drop_slot(slot)
    }
}

/// Sets or deletes a key in a transaction that is on disk on return.
fn write(session: &mut Session, family: &Family, key: &[u8], value: Option<&[u8]>) {
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    Upsert::new(family, key, value).block(session, None).unwrap();
    session.commit(true).unwrap().block().unwrap();
}

/// Goal: a wrongly applied row is found and reported with its family and both hashes, and correctly applied rows
/// are not reported. Method: comparisons every few milliseconds concurrently with writes; then one value is
/// changed in transit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_was_applied_wrongly_is_found() {
    let (env, _disk) = Env::simulated(7);
    let options = || Options { background: false, ..Options::small() };
    let (here, there) = (Path::new("/primary"), Path::new("/replica"));
    let (primary, _) = Db::open(here, options(), env.clone(), &mut |_| ()).unwrap();
    let (term, histories) = primary.histories();
    let seed = Seed { cluster_id: primary.cluster_id(), node_id: 77, term, histories, consistent_at: Lsn::ZERO };
    seed.plant(&env, there).unwrap();
    let (replica, _) = Replica::open(there, options(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap();
    let slot = SlotOptions { slot_bytes: 1 << 30, flush_delay: Duration::from_micros(500) };
    let source = Arc::new(Mistaken(EngineSource::new(primary.clone(), here, env.clone(), slot)));
    let slots = Arc::new(Slots::new());
    let (stop, stopping) = watch::channel(false);
    let connect = {
        let (source, slots, stopping) = (source.clone(), slots.clone(), stopping.clone());
        move || {
            let (near, far) = duplex(1 << 16);
            let (near, far) = trusted(near, far);
            let stream = StreamOptions {
                heartbeat: Duration::from_millis(5),
                timeout: PATIENCE,
                verify: Some(Duration::from_millis(5)),
                ..StreamOptions::default()
            };
            let (served, stopping) = ((source.clone(), slots.clone()), stopping.clone());
            tokio::spawn(async move { serve(far, "here", served, stream, Env::real(), stopping).await });
            std::future::ready(Ok::<_, LinkError>(near))
        }
    };
    let target = Arc::new(EngineTarget::new(replica.clone()));
    let follow_options = FollowOptions { slot: "north".to_owned(), timeout: PATIENCE, may_copy: true };
    let following = tokio::spawn(follow(connect, target, follow_options, Env::real(), stopping, |_| ()));

    let mut session = primary.session().unwrap();
    let families = ["one", "two"].map(|name| session.create_named_family(name, "").unwrap().family);
    let verified = || slots.stat(Lsn::ZERO, 0).first().map_or(Lsn::ZERO, |stat| stat.verified);
    let compared = async |at: Lsn| {
        let waiting = async {
            while verified() < at {
                assert!(!following.is_finished(), "rows that are equal differ");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{at} was not compared: {}", verified()));
    };
    for n in 0..200_u32 {
        let family = &families[usize::from(n % 3 == 0)];
        write(&mut session, family, &(n % 50).to_be_bytes(), Some(&n.to_le_bytes()));
        if n % 40 == 39 {
            write(&mut session, family, &(n % 50).to_be_bytes(), None);
            compared(primary.durable()).await;
        }
    }
    write(&mut session, &families[1], b"key", Some(PLANTED));
    let ended = timeout(PATIENCE, following).await.expect("it ends").unwrap();
    let Ended::Differs(difference) = ended else { panic!("{ended:?}") };
    let is_found = match difference.what {
        Differing::Rows { own, primary, .. } => own != primary,
        Differing::Log { own, primary, .. } => own != primary,
    };
    assert!(is_found && difference.at <= primary.durable(), "{difference:?}");
    write(&mut session, &families[0], b"key", Some(b"the primary goes on"));
    stop.send_replace(true);
    replica.close().unwrap();
}

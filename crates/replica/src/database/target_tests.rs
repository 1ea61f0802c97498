//! Tests of the positions that a replica of the engine reports, and of when it reports them.

use std::{path::Path, time::Duration};

use collie_base::Lsn;
use collie_engine::{Db, Isolation, Options, Replica, ReplicaOptions, Seed, StatementKind, Upsert};
use collie_env::Env;
use tokio::time::timeout;

use super::{EngineSource, EngineTarget, SlotOptions};
use crate::{
    Keep,
    primary::{Ship, Source},
    standby::{Positions, Target},
};

/// How long a test waits for an expected event: far longer than it takes on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Goal: an ack that a commit waits for is sent when its flush ends, without a timer in between. Method: one
/// commit is received, and a move is awaited from the replica's position before any of the commit was in a file,
/// and as if readers had seen it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flush_of_what_came_last_is_told() {
    let (env, _disk) = Env::simulated(7);
    let options = || Options { background: false, ..Options::small() };
    let (here, there) = (Path::new("/primary"), Path::new("/replica"));
    let (primary, _) = Db::open(here, options(), env.clone(), &mut |_| ()).unwrap();
    let (term, histories) = primary.histories();
    let seed = Seed { cluster_id: primary.cluster_id(), node_id: 77, term, histories, consistent_at: Lsn::ZERO };
    seed.plant(&env, there).unwrap();
    let (replica, _) = Replica::open(there, options(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap();
    let target = EngineTarget::new(replica.clone());
    let slot = SlotOptions { slot_bytes: 1 << 30, flush_delay: Duration::from_micros(500) };
    let source = EngineSource::new(primary.clone(), here, env.clone(), slot);
    let mut shipper = source.ship("north", target.identity().end, Keep::WithinBounds).unwrap();

    let (family, mut session) = (primary.family(primary.create_family()), primary.session().unwrap());
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    Upsert::new(&family, b"key", Some(b"value")).block(&mut session, None).unwrap();
    session.commit(true).unwrap().block().unwrap();
    let mut records = Vec::new();
    while replica.end() < primary.durable() {
        records.clear();
        let told = target.positions();
        let shipped = timeout(PATIENCE, shipper.next(1 << 20, &mut records)).await.expect("it is shipped").unwrap();
        let end = target.receive(shipped.start, shipped.prev_end, &records).unwrap();
        assert_eq!(end, shipped.end);
        let before = Positions { received: told.durable, applied: end, ..told };
        timeout(PATIENCE, target.moves(before)).await.expect("nobody says that it is flushed");
        assert!(target.positions().durable > told.durable);
    }
    replica.close().unwrap();
}

//! The engine's threads: a thread that is woken begins its round at once.

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::shared::flushing::tests::put_one;
use crate::{Db, Env, Options};

/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(1);
/// How long the machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Goal: the caller that gives a family up does not wait until its rows are out of memory, and the rows are freed
/// all the same. Method: the collector's lock, which freeing needs, is held while two families are given up, and
/// then released.
#[test]
fn a_family_is_given_up_at_once_and_freed_later() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).unwrap();
    let families = [db.create_family(), db.create_family()];
    families.iter().for_each(|cf| put_one(&db, &db.family(*cf), b"row", b"1"));
    let (tell, told) = channel();
    let given = db.clone();
    db.shared.garbage.while_nobody_cleans(|| {
        std::thread::spawn(move || {
            families.iter().for_each(|cf| given.free_family(*cf));
            tell.send(()).unwrap();
        });
        told.recv_timeout(PATIENCE).expect("the call waits for nobody");
        assert!(families.iter().all(|cf| db.families().contains(cf)), "the lock holds up who frees");
    });
    let begun = db.shared.now();
    while families.iter().any(|cf| db.families().contains(cf)) {
        assert!(db.shared.now() - begun < PATIENCE, "they stay");
        std::thread::sleep(LOOK);
    }
    db.close().unwrap();
}

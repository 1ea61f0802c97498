//! Tests of the end of a commit: each way in which a wait for replicas can end, and the reply to the client. The test
//! itself confirms positions for the replicas, and decides whether the node is still the primary.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use collie_engine::{Confirmed, Options};
use collie_env::Env;
use collie_sync::block_on;

use super::ReplicasAsked;
use crate::{
    analyze::bound::ResultColumn,
    catalog::system::FollowingRow,
    error::{Report, Result, SqlError},
    session::{
        Database, NodeState, Session,
        client::{Client, CopyInput, Formats, NoticeLevel},
        following::tests::ask,
        settings::Settings,
    },
    types::{Value, io::TextContext},
};

/// The messages to the client, in order: tags, warnings and errors by their codes; and the detail of the last error.
#[derive(Default)]
struct Heard {
    words: Vec<String>,
    detail: String,
}

impl Client for Heard {
    fn columns(&mut self, _: &[ResultColumn], _: &Formats) {}
    fn row(&mut self, _: &[Value], _: &[ResultColumn], _: &Formats, _: &TextContext) -> Result<()> {
        Ok(())
    }
    fn complete(&mut self, tag: &str) {
        self.words.push(tag.to_owned());
    }
    fn empty(&mut self) {}
    fn suspended(&mut self) {}
    fn notice(&mut self, _: NoticeLevel, report: &Report) {
        self.words.push(format!("warning {}", report.state.as_str()));
    }
    fn error(&mut self, error: &SqlError, _: &str) {
        let severity = if error.ends_session() { "fatal" } else { "error" };
        self.words.push(format!("{severity} {}", error.state().as_str()));
        self.detail = error.report().detail.clone().unwrap_or_default();
    }
    fn copy_in(&mut self, _: usize) {}
    fn copy_out(&mut self, _: usize) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn copy_done(&mut self) {}
    fn is_full(&self) -> bool {
        false
    }
    async fn drain(&mut self) -> Result<()> {
        Ok(())
    }
    async fn next_copy(&mut self) -> Result<CopyInput> {
        Ok(CopyInput::Done)
    }
}

/// The node's knowledge of its leadership.
#[derive(Default)]
struct Lead {
    /// Another node is the primary.
    is_lost: AtomicBool,
    /// It asks the other nodes, which have not answered.
    is_asking: AtomicBool,
}

struct Node(Arc<Lead>);

impl NodeState for Node {
    fn promised(&self) -> u64 {
        1
    }
    fn following(&self) -> Option<FollowingRow> {
        None
    }
    fn delay_max(&self) -> Option<Duration> {
        None
    }
    fn still_leads(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let lead = &*self.0;
        Box::pin(std::future::poll_fn(move |_| match lead.is_asking.load(SeqCst) {
            true => Poll::Pending,
            false => Poll::Ready(!lead.is_lost.load(SeqCst)),
        }))
    }
}

/// A database whose commits wait for replicas, with a table `t`.
struct World {
    database: Arc<Database>,
    lead: Arc<Lead>,
    _directory: tempfile::TempDir,
}

impl World {
    fn new(timeout: Option<Duration>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { quorum: true, ..Options::small() };
        let opened = Database::open(directory.path(), options, Env::real(), Settings::default(), &mut |_| ());
        let (database, lead) = (opened.unwrap().0, Arc::<Lead>::default());
        database.show_node(Box::new(Node(lead.clone())));
        database.ask_replicas(ReplicasAsked { configured: true, timeout, shows_settled: true });
        let world = Self { database, lead, _directory: directory };
        assert!(ask(&mut world.session(), "SET synchronous_commit = local; CREATE TABLE t (n int)").is_empty());
        world.database.engine().count_replicas(true);
        world
    }

    fn session(&self) -> Session {
        self.database.connect("collie", "test", None).unwrap()
    }

    /// Confirms the whole log, as a quorum of replicas would.
    fn confirm(&self) {
        let end = self.database.engine().durable();
        self.database.engine().confirm(Confirmed { received: end, durable: end, applied: end });
    }

    /// Returns the number of rows that other sessions see.
    fn rows(&self) -> String {
        ask(&mut self.session(), "SELECT count(*) FROM t").concat()
    }

    /// Runs `text`. When its commit is on disk and waits for replicas, calls `then` with the session's process id and
    /// with a function that runs it further. Returns the messages to the client.
    fn heard(&self, text: &str, then: impl FnOnce(&Self, u32, &mut dyn FnMut() -> bool)) -> Heard {
        let mut heard = Heard::default();
        let mut session = self.session();
        let pid = session.pid();
        {
            let mut running = pin!(session.simple_query(text, &mut heard));
            let mut runs = || running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
            assert!(runs(), "{text} waits");
            self.database.engine().log().unwrap().flush_wal(true).unwrap();
            assert!(runs(), "{text} waits for replicas");
            then(self, pid, &mut runs);
            while runs() {
                std::thread::yield_now();
            }
        }
        heard
    }
}

const INSERT: &str = "INSERT INTO t VALUES (1)";

/// Goal: SET LOCAL and `set_config` choose the level of their own transaction's commit, in both directions, and no
/// longer than that (T305). Method: a session that waits for replicas and one that does not, each with one
/// transaction of the other kind and one without.
#[test]
fn a_transaction_commits_at_the_level_that_it_sets() {
    let world = World::new(None);
    let local = "BEGIN; SET LOCAL synchronous_commit = local; INSERT INTO t VALUES (1); COMMIT";
    let function = "BEGIN; SELECT set_config('synchronous_commit', 'local', true); INSERT INTO t VALUES (1); COMMIT";
    let mut session = world.session();
    assert!(ask(&mut session, local).is_empty(), "it waits for no replica");
    assert_eq!(ask(&mut session, function), ["local"]);
    assert_eq!(ask(&mut session, "SHOW synchronous_commit"), ["on"]);
    world.confirm();
    let sets = "SET synchronous_commit = local; BEGIN; SET LOCAL synchronous_commit = on; INSERT INTO t VALUES (1); COMMIT; \
                INSERT INTO t VALUES (1)";
    let heard = world.heard(sets, |world, _, _| world.confirm());
    assert_eq!(heard.words, ["SET", "BEGIN", "SET", "INSERT 0 1", "COMMIT", "INSERT 0 1"]);
    world.confirm();
    assert_eq!(world.rows(), "4");
}

/// Goal: the table at the head of `replicas.rs`, row by row: no tag leaves unless the replicas have the commit, except
/// after a cancel by the client and while commits are answered without replicas, then with a warning and on a node that
/// is still the primary; a session that is ended gets 57P01 with the token, and readers see its commit once the
/// replicas have it, and no sooner. Method: a commit that waits, and each event that ends its wait; then a reader.
#[test]
fn no_tag_leaves_without_the_replicas_but_for_a_cancel() {
    let world = World::new(None);
    let ended = |heard: &Heard, what: &str| {
        assert_eq!(heard.words, ["fatal 57P01"], "{what}");
        assert!(
            heard.detail.contains("not confirmed by") && heard.detail.contains("Token "),
            "{what}: {}",
            heard.detail
        );
    };
    let answered = world.heard(INSERT, |world, _, _| world.confirm());
    assert_eq!((answered.words, world.rows()), (vec!["INSERT 0 1".to_owned()], "1".to_owned()));

    let terminated = world.heard(INSERT, |world, pid, _| assert!(world.database.terminate_backend(pid)));
    ended(&terminated, "pg_terminate_backend");
    assert_eq!(world.rows(), "1", "no reader sees it yet");
    world.confirm();
    assert_eq!(world.rows(), "2");

    ended(&world.heard(INSERT, |world, _, _| world.database.terminate_all()), "the server stops, or another one leads");
    world.confirm();
    let both = world.heard(INSERT, |world, pid, _| {
        assert!(world.database.cancel_backend(pid) && world.database.terminate_backend(pid));
    });
    ended(&both, "a cancel, and the end of the session behind it");
    world.confirm();
    assert_eq!(world.rows(), "4");

    let canceled = world.heard(INSERT, |world, pid, _| assert!(world.database.cancel_backend(pid)));
    assert_eq!(
        (canceled.words, world.rows()),
        (vec!["warning 01000".to_owned(), "INSERT 0 1".to_owned()], "5".to_owned())
    );

    let asked = world.heard(INSERT, |world, pid, runs| {
        world.lead.is_asking.store(true, SeqCst);
        assert!(world.database.cancel_backend(pid) && runs() && runs(), "it asks whether it leads");
        world.confirm();
        world.lead.is_asking.store(false, SeqCst);
    });
    assert_eq!(asked.words, ["INSERT 0 1"], "they have it by now");

    let degraded = world.heard(INSERT, |world, _, _| world.database.engine().count_replicas(false));
    assert_eq!(degraded.words, ["warning 01000", "INSERT 0 1"]);
    world.database.engine().count_replicas(true);
    assert_eq!(world.rows(), "7");

    world.lead.is_lost.store(true, SeqCst);
    let deposed = world.heard(INSERT, |world, pid, _| assert!(world.database.cancel_backend(pid)));
    ended(&deposed, "a cancel on a node that leads no more");
    assert_eq!(world.rows(), "7", "no reader sees what the new leader may lack");
    let deposed = world.heard(INSERT, |world, _, _| world.database.engine().count_replicas(false));
    ended(&deposed, "a node that made do without its replicas, and leads no more");
    world.database.engine().count_replicas(true);
    let in_block = world.heard("BEGIN; INSERT INTO t VALUES (1); COMMIT", |world, pid, _| {
        assert!(world.database.terminate_backend(pid));
    });
    assert_eq!(in_block.words, ["BEGIN", "INSERT 0 1", "fatal 57P01"]);
}

/// Goal: a change of definitions whose session is ended while it waits is in the catalog that other sessions see, since
/// its locks end with the session; no tag leaves. Method: CREATE TABLE, ended; another session uses the table.
#[test]
fn a_definition_whose_session_is_ended_is_there_for_others() {
    let world = World::new(None);
    let heard = world.heard("CREATE TABLE u (n int)", |world, pid, _| assert!(world.database.terminate_backend(pid)));
    assert_eq!(heard.words, ["fatal 57P01"]);
    assert_eq!(ask(&mut world.session(), "SELECT count(*) FROM u"), ["0"]);
}

/// Goal: a commit whose time for replicas is over is answered with 08007 and its token; on a node that is no longer the
/// primary, or whose database closes, its session is ended. Method: a short time and no replica that confirms; each
/// once.
#[test]
fn a_wait_whose_time_is_over_ends_with_an_error() {
    let world = World::new(Some(Duration::from_millis(1)));
    let mut heard = Heard::default();
    block_on(world.session().simple_query(INSERT, &mut heard));
    assert_eq!(heard.words, ["error 08007"]);
    assert!(heard.detail.contains("Token ") && heard.detail.contains("is committed"), "{}", heard.detail);
    assert_eq!(world.rows(), "1", "its client knows of it");
    world.lead.is_lost.store(true, SeqCst);
    let mut heard = Heard::default();
    block_on(world.session().simple_query(INSERT, &mut heard));
    assert_eq!(heard.words, ["fatal 57P01"]);

    let world = World::new(None);
    let closed = world.heard(INSERT, |world, _, _| world.database.engine().close().unwrap());
    assert_eq!(closed.words, ["fatal 57P01"]);
}

//! Tests of sampled reads next to the log, over in-memory connections.

use super::*;
use crate::reads::{Next, Read, ReadFeed, ReadInbox};

fn read(number: u64) -> Read {
    Read {
        hash: number % 2,
        text: format!("SELECT {} FROM t", number % 2).into(),
        parameters: number.to_le_bytes().into(),
        snapshot: Lsn::FIRST,
        arrival_us: now_ns() / 1000,
        latency_ns: 1,
        rows: 1,
    }
}

fn publish(feed: &Arc<ReadFeed>, number: u64) {
    let read = read(number);
    feed.publish(&read, read.arrival_us);
}

/// Returns a primary that samples reads, and a value that shows whether any are wanted.
fn sampling() -> (Arc<Node>, Arc<ReadFeed>, Arc<AtomicUsize>) {
    let (primary, wanted) = (Node::primary(), Arc::new(AtomicUsize::new(0)));
    let told = wanted.clone();
    let feed = ReadFeed::new(move |is| told.store(usize::from(is), Ordering::Relaxed));
    assert!(primary.feed.set(feed.clone()).is_ok());
    (primary, feed, wanted)
}

/// Goal: a replica that asks gets the reads of its primary with their texts, next to the log, and the texts again
/// on each connection; one that does not ask gets none, and none is wanted for it (an older replica does not ask).
/// Method: two replicas in turn, records mixed with reads, a connection that is cut in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_come_to_the_replica_that_asked() {
    let (primary, feed, wanted) = sampling();
    let setting = Setting::new(&primary);
    let (older, replica) = (Node::replica(2), Node::replica(3));
    let inbox = Arc::new(ReadInbox::default());
    assert!(replica.inbox.set(inbox.clone()).is_ok());

    let (following, _told) = setting.follow(&older, || Fault::None);
    until("it follows", || older.bytes() == primary.bytes()).await;
    publish(&feed, 0);
    primary.append(0, b"a record");
    until("it goes on", || older.bytes() == primary.bytes()).await;
    assert_eq!((wanted.load(Ordering::Relaxed), feed.stat().shipped), (0, 0));
    following.abort();
    until("it is gone", || setting.slots.stat(Lsn::FIRST, now_ns())[0].state == SlotState::Away).await;

    let turn = AtomicU64::new(0);
    let (following, _told) = setting.follow(&replica, move || match turn.fetch_add(1, Ordering::Relaxed) {
        0 => Fault::Cut(2500),
        _ => Fault::None,
    });
    until("it is wanted", || wanted.load(Ordering::Relaxed) == 1).await;
    let mut number = 0;
    until("reads of two connections", || {
        publish(&feed, number);
        number += 1;
        if number % 10 == 0 {
            primary.append(0, format!("record {number}").as_bytes());
        }
        setting.ended.lock().len() > 1 && inbox.stat().came > 100
    })
    .await;
    until("the log", || replica.bytes() == primary.bytes()).await;
    assert_eq!(inbox.stat().unknown, 0, "each text came before its reads");
    let due = loop {
        match inbox.poll(now_ns() / 1000 + 400_000) {
            Next::Run(due) => break due,
            Next::At(_) | Next::Nothing => tokio::time::sleep(Duration::from_millis(1)).await,
        }
        publish(&feed, 0);
    };
    let number = u64::from_le_bytes(due.parameters[..].try_into().unwrap());
    assert_eq!(*due.text, format!("SELECT {} FROM t", number % 2));
    setting.stop(following).await;
    until("it is not wanted", || wanted.load(Ordering::Relaxed) == 0).await;
}

/// Goal: V6: a replica that makes no progress is sent at most one batch of reads, however many there are; the
/// others are dropped and counted, and the log continues where it stopped. Method: a replica that is stuck while
/// it takes a packet, and 2,000 reads during that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_that_stands_still_is_sent_no_second_batch() {
    let (primary, feed, wanted) = sampling();
    let setting = Setting::new(&primary);
    let replica = Node::replica(3);
    let inbox = Arc::new(ReadInbox::default());
    assert!(replica.inbox.set(inbox.clone()).is_ok());
    let (following, _told) = setting.follow(&replica, || Fault::None);
    until("it follows", || wanted.load(Ordering::Relaxed) == 1 && replica.bytes() == primary.bytes()).await;
    // Both its tasks are stuck: neither sends an ack.
    let stuck = replica.log.lock();
    let before = feed.stat().shipped;
    for number in 0..2000 {
        let old = Read { parameters: vec![1; 1000].into(), ..read(number) };
        feed.publish(&old, old.arrival_us);
    }
    let batches = |reads: u64| reads * 1036 / (16 << 10);
    let start = now_ns();
    while now_ns() - start < 300_000_000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let shipped = feed.stat().shipped - before;
    drop(stuck);
    // One that was in transit before the replica got stuck, and one after it.
    assert!(batches(shipped) <= 3, "{shipped} reads");
    assert!(feed.stat().full > 1000, "{:?}", feed.stat());
    primary.append(0, b"behind all that");
    until("the log", || replica.bytes() == primary.bytes()).await;
    let before = feed.stat().shipped;
    until("reads", || {
        publish(&feed, 0);
        feed.stat().shipped > before
    })
    .await;
    setting.stop(following).await;
}

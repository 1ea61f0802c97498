//! Tests of a primary that performs a switchover, and of one that stops, against a replica over an in-memory
//! connection.

use super::*;
use crate::{
    primary::Phase,
    primary::{HandoverAsked, Switchover},
    standby::Succession,
};

const NODE: u64 = 2;
const WAIT: Duration = PATIENCE;

/// Waits until the replica follows, and has it ask for a switchover.
async fn asking(setting: &Arc<Setting>, replica: &Arc<Node>) -> JoinHandle<Result<Lsn, String>> {
    until("it follows", || replica.bytes() == setting.primary.bytes()).await;
    let succession: Arc<Succession> = replica.succession.clone();
    let asked = tokio::spawn(async move { succession.ask(WAIT).await });
    let expected = HandoverAsked { slot: "north".to_owned(), wait: WAIT };
    assert_eq!(timeout(PATIENCE, setting.primary.handing.asked()).await, Ok(expected));
    asked
}

/// Goal: a replica that asks receives the offer after all records below it, and may lead once it has all of them;
/// a primary that keeps the lead reports so on the same stream, which continues, and a second request is answered
/// too. Method: an offer that is withdrawn, records after it, an offer that is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_hands_over_to_the_replica_that_asked() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::new(&primary), Node::replica(NODE));
    let (following, told) = setting.follow(&replica, || Fault::None);
    let handing: &Switchover = &primary.handing;
    let asked = asking(&setting, &replica).await;
    let last = primary.append(0, b"the last before the offer");
    assert!(!handing.succeed(NODE, now_ns()), "nothing is offered");
    assert!(handing.offer(last, WAIT, now_ns()));
    assert_eq!(timeout(PATIENCE, asked).await.unwrap().unwrap(), Ok(last));
    assert_eq!(replica.bytes(), primary.bytes(), "the offer comes behind what it is about");
    assert!(handing.give_up("too late"));
    until("the refusal", || replica.succession.refusal().as_deref() == Some("too late")).await;
    assert!(!handing.succeed(NODE, now_ns()));
    primary.append(0, b"the primary goes on");

    let asked = asking(&setting, &replica).await;
    let last = primary.append(0, b"the last");
    assert!(handing.offer(last, WAIT, now_ns()));
    assert_eq!(timeout(PATIENCE, asked).await.unwrap().unwrap(), Ok(last));
    until("the acks", || handing.phase() == Phase::Taken { last }).await;
    assert!(!handing.succeed(NODE + 1, now_ns()) && handing.succeed(NODE, now_ns()));
    assert_eq!(told.lock().iter().filter(|told| matches!(told, Told::Lost { .. })).count(), 0, "{told:?}");
    setting.stop(following).await;
    assert_eq!(handing.phase(), Phase::Given, "the end of the stream changes nothing");
}

/// Goal: a primary keeps the lead when the connection of the asking replica ends before that replica has
/// everything, and reports why. Method: a replica whose task is aborted while transactions end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_goes_on_when_its_successor_goes() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::new(&primary), Node::replica(NODE));
    let (following, _told) = setting.follow(&replica, || Fault::None);
    let asked = asking(&setting, &replica).await;
    following.abort();
    assert_eq!(timeout(PATIENCE, primary.handing.settled()).await, Ok(Phase::Idle));
    assert!(!primary.handing.offer(Lsn::new(1 << 20), WAIT, now_ns()));
    asked.abort();
}

/// Goal: a primary that stops sends everything that is durable by then, and its stream ends once the replica has
/// it (V5); the replica recognizes an orderly end. Method: records that the replica takes slowly, and a stop after
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_stops_leaves_its_replica_with_everything() {
    let primary = Node::primary();
    let (setting, replica) = (Setting::new(&primary), Node::replica(NODE));
    *replica.takes.lock() = Duration::from_millis(2);
    let (stop, stopping) = watch::channel(false);
    let told: Arc<Mutex<Vec<Told>>> = Arc::default();
    let following = {
        let (setting, replica, told) = (setting.clone(), replica.clone(), told.clone());
        tokio::spawn(async move {
            let connect = || std::future::ready(Ok::<_, LinkError>(setting.connection(Fault::None)));
            follow(connect, replica, options(), Env::real(), stopping, move |news| told.lock().push(news)).await
        })
    };
    until("it follows", || replica.bytes() == primary.bytes()).await;
    for n in 0..200 {
        primary.append(0, format!("record {n} before the stop").as_bytes());
    }
    setting.stop.send_replace(true);
    until("the end", || !setting.ended.lock().is_empty()).await;
    assert_eq!(replica.bytes(), primary.bytes());
    assert_eq!(setting.ended.lock()[0], "shutting down");
    until("it knows", || told.lock().iter().any(|told| matches!(told, Told::Lost { .. }))).await;
    stop.send_replace(true);
    assert_eq!(timeout(PATIENCE, following).await.expect("it stops").unwrap(), Ended::Stopped);
}

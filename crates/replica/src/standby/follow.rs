//! [`follow`]: one stream after the other until it is asked to stop, or until the directory has to be changed.
//!
//! # Invariants
//! - F1. Records go to the log in the order of their packets; the position that readers may see is raised after
//!   that.
//! - F2. A separate task sends acks at least every heartbeat, with or without news, so that neither a slow apply
//!   nor a slow packet makes a primary consider its replica dead.
//! - F3. Nothing is taken from a primary of a lower term than this node has followed or promised, and nothing is
//!   acknowledged to it (REPL-8): the promised term is read after the positions of the target (T2 of
//!   `terms.rs`).
//! - F4. Where no session waits, one ack is sent as soon as readers see everything received, instead of one for
//!   each packet, and one every [`LOOK_EVERY`] until then. It reports since when positions have been visible: a
//!   primary measures by these times, not by the arrival of acks.
//! - F5. Its [`Life`] states whether it can continue as it is: once that is `Lost`, it is rebuilt, or it reports
//!   the action to take and asks from time to time whether that is still necessary.
//!
//! Checked by `stream_tests`, over connections in memory.

use std::{future::Future, sync::Arc, time::Duration};

use collie_base::{Lsn, Term, one_line};
use collie_env::{Env, fault_point};
use collie_sync::mutant;
use parking_lot::Mutex;
use tokio::{
    select,
    sync::{Notify, watch},
    task::{JoinHandle, block_in_place},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};

use super::{Backoff, Positions, ReceiverState, Target, TargetError};
use crate::{
    Connection, Event, Life, LinkError,
    compare::{self, Compared, Comparing, Difference, Differing, Stretch, Summing},
    identity::Identity,
    key::Trusted,
    link::{self, Reading, Writing},
    packet::{
        End, EndReason, ErrorCode, FLAG_READS, From, HELLO_HISTORIES_MAX, Handover, HandoverKind, Hello, Identify,
        PROTOCOL, PROTOCOL_MIN, Packet, Synced, Verdict, VerifyKind,
    },
};

/// How long a primary may take to answer a hello: it may have to read its log.
const IDENTIFY_TIME: Duration = Duration::from_secs(30);

/// How often positions are read while something is to be acknowledged.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The shortest time between two acks without news.
const HEARTBEAT_MIN: Duration = Duration::from_millis(5);

/// How a replica follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowOptions {
    /// The name of its slot; if empty, one made from its node id.
    pub slot: String,
    /// The silence after which a connection is given up; the primary's own timeout applies when it is longer.
    pub timeout: Duration,
    /// Whether its directory may be rebuilt when its primary cannot bring it up to date
    /// (`replication.auto_rebuild`).
    pub may_copy: bool,
}

/// The report of a replica that has to be rebuilt, and may not be.
pub const TO_BE_FILLED: &str = "the primary cannot bring this directory up to date any more, and replication.auto_rebuild is off: start it with \
     replication.auto_rebuild=true, or set the directory aside and start with an empty one";

/// Why following ended.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It was asked to stop.
    Stopped,
    /// The end of its log is no part of the primary's history, and has to be set aside.
    Truncate {
        /// The start of that part.
        at: Lsn,
        /// The primary's term.
        term: Term,
    },
    /// The directory has to be rebuilt.
    Rebuild,
    /// Its rows or its log differ from the primary's: it must not be read any more.
    Differs(Difference),
    /// A received record cannot be applied: no further one is, everything applied before can be read, and the
    /// directory has to be rebuilt.
    Damaged {
        /// The record that stopped it.
        at: Lsn,
        /// The reason.
        why: String,
    },
    /// The database has to be opened again.
    Failed(String),
}

/// News for an operator; passed to a callback at each change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// It follows.
    Following {
        /// The position from which it follows.
        from: Lsn,
        /// The primary's node id.
        node: u64,
    },
    /// It has everything that the primary had when the stream began.
    CaughtUp {
        /// Its readers see everything below.
        applied: Lsn,
    },
    /// The connection ended, or there was none.
    Lost {
        /// The reason.
        why: String,
        /// The time before the next try.
        wait: Duration,
    },
}

/// The result of one connection.
enum Outcome {
    Ended(Ended),
    /// The primary ended it in order.
    Over,
    /// The primary does not have the log that it needs.
    Beyond,
}

/// Follows a primary until `stop` turns true or the directory has to be changed; connects again whenever a
/// connection ends.
pub async fn follow<T, C, F>(
    connect: impl Fn() -> F + Send,
    target: Arc<T>,
    options: FollowOptions,
    env: Env,
    mut stop: watch::Receiver<bool>,
    tell: impl Fn(Told) + Send + Sync,
) -> Ended
where
    T: Target,
    C: Connection,
    F: Future<Output = Result<Trusted<C>, LinkError>> + Send,
{
    let mut backoff = Backoff::default();
    let mut life = Life::Away;
    loop {
        let one = async {
            let io = connect().await?;
            let (reading, writing) = link::open(io, From::Primary, options.timeout);
            let writing = Arc::new(tokio::sync::Mutex::new(writing));
            let link = Following { target: &target, options: &options, env: &env, tell: &tell };
            let result = link.converse(reading, &writing, &mut backoff, &mut life).await;
            writing.lock().await.end(result.as_ref().err()).await;
            result
        };
        let result = select! {
            result = one => result,
            () = link::stopping(&mut stop) => return Ended::Stopped,
        };
        life = life.on(if matches!(result, Ok(Outcome::Beyond)) { Event::Beyond } else { Event::Ended });
        let (why, fatal) = match result {
            Ok(Outcome::Ended(ended)) => return ended,
            // F5
            _ if life == Life::Lost && options.may_copy => return Ended::Rebuild,
            _ if life == Life::Lost => (TO_BE_FILLED.to_owned(), true),
            Ok(Outcome::Over | Outcome::Beyond) => ("the primary ended the stream".to_owned(), false),
            Err(error) => (error.to_string(), error.is_fatal()),
        };
        target.succession().into_iter().for_each(|succession| succession.lost(&why));
        let wait = backoff.next(fatal, env.random.u64());
        tell(Told::Lost { why, wait });
        select! {
            () = sleep(wait) => {}
            () = link::stopping(&mut stop) => return Ended::Stopped,
        }
    }
}

/// A writing half on which two tasks send.
type Shared<C> = Arc<tokio::sync::Mutex<Writing<C>>>;

/// One attempt to follow.
struct Following<'a, T, N> {
    target: &'a Arc<T>,
    options: &'a FollowOptions,
    env: &'a Env,
    tell: &'a N,
}

impl<T: Target, N: Fn(Told) + Send + Sync> Following<'_, T, N> {
    async fn converse<C: Connection>(
        &self,
        mut reading: Reading<C>,
        writing: &Shared<C>,
        backoff: &mut Backoff,
        life: &mut Life,
    ) -> Result<Outcome, LinkError> {
        let (own, tail) = match block_in_place(|| (self.target.identity(), self.target.tail())) {
            (own, Ok(tail)) => (own, tail),
            (_, Err(error)) => return Ok(Outcome::Ended(Ended::Failed(error.to_string()))),
        };
        let positions = self.target.positions();
        let reads = self.target.reads();
        let flags = if reads.is_some() { FLAG_READS } else { 0 };
        let hello = Hello { flags, ..hello(&own, positions, tail, &self.options.slot) };
        writing.lock().await.send(&Packet::Hello(hello)).await?;
        let Packet::Identify(identify) = reading.next(IDENTIFY_TIME).await? else {
            return Err(LinkError::Unexpected { what: "packet instead of an answer to the hello" });
        };
        check(&own, &identify)?;
        match identify.verdict {
            Verdict::Stream if identify.start == own.end => {
                reading.known();
                backoff.reset();
                *life = life.on(Event::Stream);
                reads.into_iter().for_each(|reads| reads.connected());
                (self.tell)(Told::Following { from: own.end, node: identify.node });
                self.stream(reading, writing, &identify).await
            }
            Verdict::Stream => Err(LinkError::Unexpected { what: "position to follow from" }),
            Verdict::Truncate if identify.start < own.end => {
                Ok(Outcome::Ended(Ended::Truncate { at: identify.start, term: identify.term }))
            }
            Verdict::Truncate => Err(LinkError::Unexpected { what: "position to cut at" }),
            Verdict::Backup => Ok(Outcome::Beyond),
            // The reason is in the next packet.
            Verdict::Ahead | Verdict::Refuse => match reading.next(IDENTIFY_TIME).await {
                Ok(_) => Err(LinkError::Unexpected { what: "packet instead of a reason" }),
                Err(error) => Err(error),
            },
        }
    }

    /// Takes packets until the connection ends.
    async fn stream<C: Connection>(
        &self,
        mut reading: Reading<C>,
        writing: &Shared<C>,
        identify: &Identify,
    ) -> Result<Outcome, LinkError> {
        let term = identify.term;
        let timeout = self.options.timeout.max(Duration::from_millis(u64::from(identify.timeout_ms)));
        let acks =
            Arc::new(Acks { heard: Mutex::new(ReceiverState::new(term, identify.start)), changed: Notify::new() });
        let every = Duration::from_millis(u64::from(identify.heartbeat_ms)).max(HEARTBEAT_MIN);
        let sending = send_acks(writing.clone(), acks.clone(), self.target.clone(), self.env.clone(), every);
        let mut sending = Sending(tokio::spawn(sending));
        acks.changed.notify_one();
        // The replica has caught up once it shows everything that is durable on the primary now.
        let behind = identify.durable;
        let mut told = false;
        let (mut comparing, mut summing) = (Comparing::default(), None::<Summing>);
        let mut last = None;
        // A stretch of log with the primary's checksum, and this node's while it is being read.
        let (mut theirs, mut stretch) = (None::<Stretch>, None::<compare::Reading>);
        loop {
            if let Some(Compared { at, differs }) = comparing.verdict() {
                let Some((family, own, primary)) = differs else {
                    for packet in compare::answers(at, &[]) {
                        writing.lock().await.send(&packet).await?;
                    }
                    continue;
                };
                let difference = Difference { at, term, what: Differing::Rows { family, own, primary } };
                return Ok(self.differs(writing, difference).await);
            }
            let packet = select! {
                packet = reading.heard(timeout) => packet?,
                own = compare::summed(&mut summing) => {
                    comparing.on_own(own);
                    continue;
                }
                wait = wanted(&**self.target) => {
                    let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
                    let question = Handover { kind: HandoverKind::Ask, term, wait_ms, text: "" };
                    writing.lock().await.send(&Packet::Handover(question)).await?;
                    continue;
                }
                own = compare::read(&mut stretch) => {
                    let primary = theirs.take();
                    let own = match own {
                        Ok(own) => own,
                        // Received log that cannot be read back would be lost with this process.
                        Err(why) => {
                            let at = primary.map_or(identify.start, |primary| primary.from);
                            return Ok(self.damaged(writing, at, why).await);
                        }
                    };
                    let (Some(own), Some(primary)) = (own, primary) else { continue };
                    if own != primary {
                        let Stretch { from, to: at, crc } = own;
                        let what = Differing::Log { from, own: crc, primary: primary.crc };
                        return Ok(self.differs(writing, Difference { at, term, what }).await);
                    }
                    writing.lock().await.send(&own.packet()).await?;
                    continue;
                }
                ended = &mut sending.0 => return Err(ended.unwrap_or(LinkError::Closed)),
            };
            check_term(&**self.target, term)?; // F3
            let now_ns = self.env.clock.now_ns();
            match packet {
                Packet::Data(data) => {
                    let show = {
                        let mut heard = acks.heard.lock();
                        heard.on_data(&data, now_ns)?;
                        self.target.heard(data.durable, now_ns);
                        heard.show()
                    };
                    // F1
                    let received = block_in_place(|| self.target.receive(data.start, data.prev_end, data.records));
                    let end = match received {
                        Ok(end) => end,
                        Err(TargetError::Failed(text)) => return Ok(Outcome::Ended(Ended::Failed(text))),
                        Err(TargetError::Damaged { at, why }) => return Ok(self.damaged(writing, at, why).await),
                        Err(error) => return Err(refuse_target(&error, data.start)),
                    };
                    fault_point!("stream.received");
                    debug_assert_eq!(end, acks.heard.lock().expected(), "whole packets are taken");
                    self.target.set_show(show);
                }
                Packet::Heartbeat(heartbeat) => {
                    let show = {
                        let mut heard = acks.heard.lock();
                        heard.on_heartbeat(&heartbeat, now_ns)?;
                        self.target.heard(heartbeat.durable, now_ns);
                        self.target.delayed(heartbeat.delay, heartbeat.owed_ns, now_ns);
                        heard.show()
                    };
                    self.target.set_show(show);
                }
                // The primary appends nothing more, and the stream continues until this node leads, or until the
                // primary reports that it keeps the lead.
                Packet::End(End { reason: EndReason::Switchover, last, .. }) => {
                    let offered = self.target.succession().is_some_and(|succession| succession.offered(last));
                    if !offered {
                        return Err(LinkError::Unexpected { what: "offer of the lead" });
                    }
                    acks.heard.lock().ask();
                }
                Packet::End(end) => {
                    last = Some(end.last);
                    acks.heard.lock().ask();
                }
                Packet::Handover(Handover { text, .. }) => {
                    if let Some(succession) = self.target.succession() {
                        _ = succession.refused(&one_line(text)); // the caller that asked may have given up
                    }
                }
                Packet::Verify(verify) if verify.kind == VerifyKind::StateHash => {
                    if verify.from == verify.to {
                        comparing.on_primary(&verify)?;
                        continue;
                    }
                    comparing.clear();
                    let stands_there = acks.heard.lock().expected() == verify.to;
                    let held = if stands_there { block_in_place(|| self.target.hold(verify.to)) } else { None };
                    summing = held.map(Summing::of);
                    continue;
                }
                Packet::Verify(verify) => {
                    let asked = Stretch::of(&verify)?;
                    let target = self.target.clone();
                    stretch = Some(compare::Reading::of((asked.from, asked.to), move || {
                        target.crc_between(asked.from, asked.to)
                    }));
                    theirs = Some(asked);
                    continue;
                }
                // No ack is due for it, and it waits for nothing.
                Packet::Sample(sample) => {
                    self.target.reads().into_iter().for_each(|reads| reads.take(&sample, now_ns / 1000));
                    continue;
                }
                _ => return Err(LinkError::Unexpected { what: "packet from a primary that streams" }),
            }
            acks.changed.notify_one();
            let Positions { applied, durable, .. } = self.target.positions();
            // V5 of `primary/serve.rs`: a primary that stops waits until everything is on the disk here.
            if last.is_some_and(|last| applied >= last && durable >= last) {
                writing.lock().await.send(&Packet::Synced(Synced { term, applied })).await?;
                return Ok(Outcome::Over);
            }
            if !told && applied >= behind {
                told = true;
                (self.tell)(Told::CaughtUp { applied });
            }
        }
    }
}

/// Waits until the lead is to be asked for; returns how long the primary is to wait.
async fn wanted<T: Target>(target: &T) -> Duration {
    match target.succession() {
        Some(succession) => succession.wanted().await,
        None => std::future::pending().await,
    }
}

impl<T, N> Following<'_, T, N> {
    /// Reports to the primary that this node's rows or log differ from the primary's, and ends.
    async fn differs<C: Connection>(&self, writing: &Shared<C>, difference: Difference) -> Outcome {
        let text = format!("slot {}: {difference}", self.options.slot);
        let error = LinkError::fatal(ErrorCode::StateDiffers, difference.at, text);
        writing.lock().await.end(Some(&error)).await;
        Outcome::Ended(Ended::Differs(difference))
    }

    /// Reports to the primary that no further record can be applied, and ends.
    async fn damaged<C: Connection>(&self, writing: &Shared<C>, at: Lsn, why: String) -> Outcome {
        let text = format!("slot {}: replay has stopped: {why}", self.options.slot);
        writing.lock().await.end(Some(&LinkError::fatal(ErrorCode::Damaged, at, text))).await;
        Outcome::Ended(Ended::Damaged { at, why })
    }
}

/// The state that the two tasks of a connection share.
#[derive(Debug)]
struct Acks {
    heard: Mutex<ReceiverState>,
    changed: Notify,
}

/// The task that sends acks; it ends with its connection.
#[derive(Debug)]
struct Sending(JoinHandle<LinkError>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends acks while positions move, and every `every` in any case (F2); returns why it cannot continue.
async fn send_acks<T: Target, C: Connection>(
    writing: Shared<C>,
    acks: Arc<Acks>,
    target: Arc<T>,
    env: Env,
    every: Duration,
) -> LinkError {
    let mut synced = false;
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = Instant::now();
    let mut times = Vec::new();
    loop {
        let positions = target.positions();
        let is_look = Instant::now() >= look;
        let (ack, behind, now_synced, term, awaited) = {
            let mut heard = acks.heard.lock();
            // F4
            let ack = if is_look || !heard.may_hold_back(positions) {
                look = Instant::now() + LOOK_EVERY;
                target.take_shown_times(positions.applied, &mut times);
                heard.ack(positions, &mut times, target.queue_bytes(), env.clock.now_ns())
            } else {
                None
            };
            (ack, heard.is_behind(positions), heard.is_synced(positions), heard.term(), heard.awaited(positions))
        };
        if let Err(error) = check_term(&*target, term) {
            return error; // F3
        }
        if let Some(ack) = ack {
            let applied = ack.applied;
            fault_point!("stream.ack");
            let mut writing = writing.lock().await;
            if let Err(error) = writing.send(&Packet::Ack(ack)).await {
                return error;
            }
            if now_synced
                && !synced
                && let Err(error) = writing.send(&Packet::Synced(Synced { term, applied })).await
            {
                return error;
            }
            synced = now_synced;
        }
        select! {
            () = acks.changed.notified() => {}
            () = moved(&*target, awaited) => {}
            _ = due.tick() => acks.heard.lock().ask(),
            () = sleep_until(look), if behind => {}
        }
    }
}

/// Waits until the target is beyond `awaited`; forever if that is `None`.
async fn moved<T: Target>(target: &T, awaited: Option<Positions>) {
    match awaited {
        Some(told) => target.moves(told).await,
        None => std::future::pending().await,
    }
}

fn hello<'a>(own: &Identity, positions: Positions, (tail_bytes, tail_crc): (u32, u32), slot: &'a str) -> Hello<'a> {
    let newest = own.histories.len().saturating_sub(HELLO_HISTORIES_MAX);
    Hello {
        proto_min: PROTOCOL_MIN,
        proto_max: PROTOCOL,
        flags: 0,
        cluster: own.cluster,
        node: own.node,
        promised: own.term,
        received: own.end,
        durable: positions.durable,
        applied: positions.applied,
        tail_bytes,
        tail_crc,
        histories: own.histories.get(newest..).unwrap_or_default().to_vec(),
        slot,
    }
}

/// Checks that the answer comes from a primary that may be followed (F3).
fn check(own: &Identity, identify: &Identify) -> Result<(), LinkError> {
    if !(PROTOCOL_MIN..=PROTOCOL).contains(&identify.proto) {
        return Err(LinkError::Unexpected { what: "protocol" });
    }
    // A primary of another database refuses too, and its reason is reported.
    if matches!(identify.verdict, Verdict::Refuse) {
        return Ok(());
    }
    if own.cluster != 0 && identify.cluster != own.cluster {
        let text = format!("the primary belongs to database {:032x}, this is {:032x}", identify.cluster, own.cluster);
        return Err(LinkError::fatal(ErrorCode::Cluster, Lsn::ZERO, text));
    }
    if identify.term < own.term {
        let text = format!("the primary leads in term {}, this node has followed term {}", identify.term, own.term);
        // It learns of the higher term, and then follows.
        return Err(LinkError::refused(ErrorCode::Term, Lsn::ZERO, text));
    }
    Ok(())
}

/// Checks that no term above that of the connection was promised (F3).
fn check_term<T: Target>(target: &T, term: Term) -> Result<(), LinkError> {
    let promised = target.promised();
    if promised > term && !mutant!("STALE_TERM_ACKED") {
        let text = format!("this node has promised term {promised}: it no longer follows a primary of term {term}");
        return Err(LinkError::refused(ErrorCode::Term, Lsn::ZERO, text));
    }
    Ok(())
}

fn refuse_target(error: &TargetError, lsn: Lsn) -> LinkError {
    let code = match error {
        TargetError::Stream(_) => ErrorCode::Gap,
        TargetError::Full(_) | TargetError::Failed(_) => ErrorCode::Storage,
        TargetError::Damaged { .. } => ErrorCode::Damaged,
    };
    LinkError::refused(code, lsn, error.to_string())
}

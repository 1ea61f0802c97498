//! One connection of a replica, from its hello to its end.
//!
//! Two tasks: this one sends, and the other takes acks, so that neither a replica that reads slowly nor a slow
//! read of a file delays acks.
//!
//! # Invariants
//! - V1. No byte of data leaves before the replica is known to be of this database, to know no higher term, and to
//!   have the same log at its end.
//! - V2. No byte at or above `durable` leaves (REPL-1).
//! - V3. The log that is kept for the slot is released only below the position that the replica reports to be on
//!   its disk.
//! - V4. A replica is given up when no ack arrives for as long as the timeout; it sends one every heartbeat. The
//!   time that a packet takes to leave is no criterion: on a slow link a full packet takes longer.
//! - V5. When asked to stop, it sends everything that is durable by then, and an end with that position, and waits
//!   until the replica has it on its disk, for [`CLOSE_TIME`] at most. The caller that stops it appends nothing
//!   any more.
//! - V6. Sampled reads are sent only when nothing else is to be sent, and no second batch before the replica has
//!   sent something since the first: a replica that makes no progress is sent at most one (`reads` Q1).
//!
//! Checked by `stream_tests`, over a connection in memory.

use std::{future::Future, sync::Arc, time::Duration};

use collie_base::{Lsn, Term};
use collie_env::{Env, fault_point};
use parking_lot::Mutex;
use tokio::{
    select,
    sync::{Notify, watch},
    task::{JoinHandle, block_in_place},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    HandoverAsked, Progress, Ship, Slots, Source, SourceError, StreamOptions, Switchover, backup,
    slots::{Attached, Busy},
    switchover::{HandingWatch, News},
    synchronous::Membership,
};
use crate::{
    Connection, Event, Keep, Life, LinkError,
    compare::{self, Held, Summing},
    identity::{Decision, Identity, Rebuild, common_protocol, decide},
    key::Trusted,
    link::{self, Reading, Writing},
    packet::{
        Data, DataFlags, End, EndReason, ErrorCode, FLAG_READS, From, Handover, HandoverKind, Heartbeat, Hello,
        IDENTIFY_HISTORIES_MAX, Identify, Packet, Verdict, VerifyKind,
    },
    reads::Subscription,
};

/// How long a peer may take to identify itself.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// The period of a timer that is not used.
const NEVER: Duration = Duration::from_secs(3600);

/// How long a replica may take for the remaining log when its primary stops.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// How long reading continues when nothing can be sent any more: the last packet of the replica may still be
/// buffered.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A replica that owes nothing older than this keeps up.
const NEAR_NS: u64 = 1_000_000_000;

/// The approximate bytes of records in one packet.
const PACKET_BYTES: usize = 1 << 20;

/// The most bytes of the log that are compared with a replica's at a time.
const LOG_BYTES: u64 = 16 << 20;

/// The database and the settings that a connection is served with.
#[derive(Debug)]
pub(super) struct Served<S> {
    pub(super) source: Arc<S>,
    pub(super) slots: Arc<Slots>,
    pub(super) options: StreamOptions,
    pub(super) env: Env,
}

/// The content of a replica's hello.
struct Greeting {
    replica: Identity,
    proto: u16,
    slot: String,
    tail: (u32, u32),
    /// Features that it offers.
    flags: u32,
}

/// Serves one connection to its end, and returns why it ended.
///
/// # Errors
/// [`LinkError::Stopping`] once `stop` turned true; otherwise the reason why the connection ended. The replica was
/// notified if possible.
pub async fn serve<S: Source, C: Connection>(
    io: Trusted<C>,
    address: &str,
    (source, slots): (Arc<S>, Arc<Slots>),
    options: StreamOptions,
    env: Env,
    mut stop: watch::Receiver<bool>,
) -> Result<(), LinkError> {
    let served = Served { source, slots, options, env };
    let (reading, mut writing) = link::open(io, From::Replica, options.timeout);
    let result = served.converse(reading, &mut writing, address, &mut stop).await;
    writing.end(result.as_ref().err()).await;
    result
}

impl<S: Source> Served<S> {
    async fn converse<C: Connection>(
        &self,
        mut reading: Reading<C>,
        writing: &mut Writing<C>,
        address: &str,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), LinkError> {
        let greeting = greet(&mut reading).await?;
        let now_ns = self.env.clock.now_ns();
        let slots_max = self.options.slots_max;
        // The slot is attached before the decision, so that no other connection gets it, and is restored if it is
        // not admitted (S1, S3 of `slots.rs`).
        let attached = self.slots.attach(&greeting.slot, greeting.replica.node, address, slots_max, now_ns);
        let attached = Arc::new(attached.map_err(|busy| refuse_busy(busy, &greeting.slot, slots_max))?);
        let own = self.source.identity();
        let (decision, shipper) = block_in_place(|| self.decide(&own, &greeting, attached.life()))?;
        let identify = |verdict, start| self.identify(&own, &greeting, verdict, start);
        match decision {
            Decision::Stream { start } => {
                let Some(shipper) = shipper else { return Err(LinkError::Unexpected { what: "decision" }) };
                writing.send(&identify(Verdict::Stream, start)).await?;
                attached.admit();
                attached.on(Event::Stream, self.env.clock.now_ns());
                reading.known();
                let term = self.source.identity().term;
                let now_ns = self.env.clock.now_ns();
                let progress = Progress::new(term, start, self.options.window_bytes, now_ns);
                let acks = Arc::new(Acks { progress: Mutex::new(progress), changed: Notify::new() });
                let streamed =
                    self.stream(reading, writing, shipper, (&attached, &greeting), (term, &acks), stop).await;
                let streamed = match streamed {
                    // A replica that was notified of the end and has everything may close first.
                    Err(LinkError::Closed) if *stop.borrow() => Err(LinkError::Stopping),
                    streamed => streamed,
                };
                if let Err(error) = &streamed {
                    let received = acks.progress.lock().positions().received;
                    attached.ended(received, error);
                }
                streamed
            }
            Decision::Backup { why: why @ Rebuild::Empty } => {
                // A backup does not start from a lost position, so the old one is dropped before the copy makes
                // its own.
                let dropped = block_in_place(|| self.source.drop_slot(&greeting.slot));
                dropped.map_err(|error| refuse_source(error, own.end))?;
                attached.admit();
                attached.on(Event::Copy, self.env.clock.now_ns());
                attached.tell("is being filled", why.text());
                writing.send(&identify(Verdict::Backup, Lsn::ZERO)).await?;
                reading.known();
                backup::send(self, (&greeting.slot, &attached), &own, &mut reading, writing, stop).await?;
                attached.on(Event::Copied, self.env.clock.now_ns());
                Ok(())
            }
            // A replica that has a database closes it before it is filled, and connects again without one.
            Decision::Backup { why } => {
                attached.admit();
                // Reported once: the replica may connect again and again, until an operator empties its directory.
                if attached.life() != Life::Lost {
                    attached.tell("has to be rebuilt (replication.auto_rebuild there)", why.text());
                }
                attached.on(Event::Beyond, self.env.clock.now_ns());
                writing.send(&identify(Verdict::Backup, Lsn::ZERO)).await
            }
            Decision::Truncate { start } => writing.send(&identify(Verdict::Truncate, start)).await,
            Decision::Ahead { end, received } => {
                writing.send(&identify(Verdict::Ahead, end)).await?;
                let text = format!(
                    "the replica has the log up to {received}, this primary only to {end}: it has lost what it had confirmed. \
                     Promote the replica, or empty its directory to give up what it has"
                );
                Err(LinkError::fatal(ErrorCode::Ahead, end, text))
            }
            Decision::Refuse { code, text } => {
                writing.send(&identify(Verdict::Refuse, Lsn::ZERO)).await?;
                Err(LinkError::fatal(code, Lsn::ZERO, text))
            }
            Decision::StepDown { term } => {
                block_in_place(|| self.source.heard(term));
                writing.send(&identify(Verdict::Refuse, Lsn::ZERO)).await?;
                let text =
                    format!("this node leads in term {}, and term {term} has begun: follow its primary", own.term);
                Err(LinkError::refused(ErrorCode::Term, Lsn::ZERO, text))
            }
        }
    }

    /// Decides about the replica, and compares the logs where that is needed (V1). Blocks on reading the log.
    fn decide(
        &self,
        own: &Identity,
        greeting: &Greeting,
        life: Life,
    ) -> Result<(Decision, Option<S::Shipper>), LinkError> {
        let decision = decide(own, &greeting.replica);
        let Decision::Stream { start } = decision else { return Ok((decision, None)) };
        let backup = |why| Ok((Decision::Backup { why }, None));
        // The shipper comes first: it keeps the log that is compared.
        let keep = match life.on(Event::Stream).keeps() {
            Keep::Whatever => Keep::Whatever,
            Keep::Nothing | Keep::WithinBounds => Keep::WithinBounds,
        };
        let shipper = match self.source.ship(&greeting.slot, start, keep) {
            Ok(shipper) => shipper,
            Err(SourceError::Gone) => return backup(Rebuild::LogGone),
            Err(error) => return Err(refuse_source(error, start)),
        };
        let (bytes, crc) = greeting.tail;
        if bytes > 0 {
            match self.source.crc_before(start, bytes).map_err(|error| refuse_source(error, start))? {
                Some(own) if own == crc => {}
                Some(_) => return backup(Rebuild::TailDiffers),
                None => return backup(Rebuild::LogGone),
            }
        }
        Ok((decision, Some(shipper)))
    }

    /// Returns the features in use.
    fn flags(&self, greeting: &Greeting) -> u32 {
        let own = if self.source.reads().is_some() { FLAG_READS } else { 0 };
        greeting.flags & own
    }

    fn identify(&self, own: &Identity, greeting: &Greeting, verdict: Verdict, start: Lsn) -> Packet<'static> {
        let newest = own.histories.len().saturating_sub(IDENTIFY_HISTORIES_MAX);
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Packet::Identify(Identify {
            proto: greeting.proto,
            flags: self.flags(greeting),
            cluster: own.cluster,
            node: own.node,
            term: own.term,
            history: own.histories.last().map_or(collie_base::HistoryId::new(0), |history| history.id),
            verdict,
            start,
            durable: self.source.durable(),
            show: self.source.show(),
            mono_ns: self.env.clock.now_ns(),
            heartbeat_ms: ms(self.options.heartbeat),
            timeout_ms: ms(self.options.timeout),
            histories: own.histories.get(newest..).unwrap_or_default().to_vec(),
        })
    }

    /// Sends a heartbeat; returns the `show` that it carried. One that `is_due` reports the delay since the last
    /// such heartbeat; those in between would cover only a commit or two.
    async fn heartbeat<C: Connection>(
        &self,
        writing: &mut Writing<C>,
        (term, is_due): (Term, bool),
        acks: &Acks,
        attached: &Attached,
    ) -> Result<Lsn, LinkError> {
        let rtt_min_ns = acks.progress.lock().rtt_min_ns();
        let (durable, show, mono_ns) = (self.source.durable(), self.source.show(), self.env.clock.now_ns());
        let delay = is_due.then(|| attached.take_beat(mono_ns)).flatten();
        let owed_ns = attached.owed_ns(durable, mono_ns);
        let commits = self.source.commits();
        let heartbeat = Heartbeat { term, durable, show, mono_ns, delay, owed_ns, rtt_min_ns, commits };
        writing.send_patiently(&Packet::Heartbeat(heartbeat)).await?;
        Ok(show)
    }

    /// Makes the packet of `records`, which begin at `start`.
    fn data<'a>(&self, stream: &Streaming, (prev_end, start): (Lsn, Lsn), mono_ns: u64, records: &'a [u8]) -> Data<'a> {
        Data {
            term: stream.term,
            start,
            prev_end,
            durable: self.source.durable(),
            show: stream.show,
            mono_ns,
            flags: DataFlags { new_history: start > prev_end, want_flush: stream.counts, want_apply: stream.counts },
            records,
        }
    }

    /// Starts summing up the log between `from` and `to`, which the replica has on its disk: at most the last
    /// [`LOG_BYTES`] of it.
    fn sum_up(&self, from: Lsn, to: Lsn) -> Option<compare::Reading> {
        let from = from.max(Lsn::new(to.get().saturating_sub(LOG_BYTES)));
        let source = self.source.clone();
        (from < to).then(|| compare::Reading::of((from, to), move || source.crc_between(from, to)))
    }

    /// Sends records as they become durable, until the connection ends.
    async fn stream<C: Connection>(
        &self,
        reading: Reading<C>,
        writing: &mut Writing<C>,
        shipper: S::Shipper,
        (attached, greeting): (&Arc<Attached>, &Greeting),
        (term, acks): (Term, &Arc<Acks>),
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), LinkError> {
        let (slot, node) = (greeting.slot.as_str(), greeting.replica.node);
        // REPL-7: the reports of the replica count while its acks are of this term, which `Progress`
        // checks.
        let member = self.source.synchronous().map(|synchronous| synchronous.connected(slot));
        let successor =
            self.source.handing().map(|handing| Successor { handing: handing.clone(), slot: slot.to_owned(), node });
        let news = successor.as_ref().map(|successor| successor.handing.watch());
        let hearing = Hearing {
            acks: acks.clone(),
            attached: attached.clone(),
            source: self.source.clone(),
            env: self.env.clone(),
            member,
            successor,
        };
        let taking = take_acks(reading, hearing, self.options.timeout);
        let mut taking = Taking(Some(tokio::spawn(taking)));
        let sent = self.send((&mut taking, news), writing, shipper, (attached, greeting), (term, acks), stop).await;
        match sent {
            Err(lost @ (LinkError::Io(_) | LinkError::Closed)) => Err(taking.last_word(lost).await),
            sent => sent,
        }
    }

    async fn send<C: Connection>(
        &self,
        (taking, mut news): (&mut Taking, Option<HandingWatch>),
        writing: &mut Writing<C>,
        mut shipper: S::Shipper,
        (attached, greeting): (&Arc<Attached>, &Greeting),
        (term, acks): (Term, &Arc<Acks>),
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), LinkError> {
        let (slot, node) = (greeting.slot.as_str(), greeting.replica.node);
        let mut shows = self.source.synchronous().map(|synchronous| synchronous.shows());
        // The position that the replica has to show before it keeps up; `None` once it does.
        let mut behind = Some(self.source.durable());
        let mut told_show = Lsn::ZERO;
        let mut heartbeats = interval(self.options.heartbeat);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut verifies = interval(self.options.verify.unwrap_or(NEVER));
        verifies.set_missed_tick_behavior(MissedTickBehavior::Delay);
        verifies.reset();
        // A snapshot, kept until the log was sent up to its position; then its rows are read.
        let (mut held, mut summing): (Option<Box<dyn Held>>, Option<Summing>) = (None, None);
        // The log below `compared` was compared, and `stretch` is being summed up.
        let (mut compared, mut stretch) = (acks.progress.lock().positions().sent, None::<compare::Reading>);
        let mut records = Vec::new();
        let reads = self.source.reads().filter(|_| self.flags(greeting) & FLAG_READS != 0);
        let (reads, mut sampled) = (reads.map(|reads| reads.subscribe(&self.env)), false);
        // Ends to announce once everything below them is sent.
        let (mut offer, mut closing): (Option<Ending>, Option<Ending>) = (None, None);
        let close_by = sleep(NEVER);
        tokio::pin!(close_by);
        loop {
            records.clear();
            let (may_send, at) = {
                let progress = acks.progress.lock();
                (progress.may_send(), progress.positions())
            };
            // An end is announced once everything below it was sent.
            for (ending, reason) in [(&mut offer, EndReason::Switchover), (&mut closing, EndReason::Shutdown)] {
                if let Some(Ending { last, told }) =
                    ending.as_mut().filter(|ending| !ending.told && at.sent >= ending.last)
                {
                    writing.send(&Packet::End(End { term, reason, last: *last })).await?;
                    *told = true;
                }
            }
            // V5: the replica has everything on its disk.
            if closing.is_some_and(|closing| closing.told && at.durable >= closing.last) {
                return Err(LinkError::Stopping);
            }
            // V6
            let is_idle = !sampled && offer.is_none() && closing.is_none() && at.sent >= self.source.durable();
            select! {
                ended = taking.ended() => return ended,
                // V5
                () = link::stopping(stop), if closing.is_none() => {
                    closing = Some(Ending { last: self.source.durable(), told: false });
                    close_by.as_mut().reset(tokio::time::Instant::now() + CLOSE_TIME.min(self.options.timeout));
                }
                () = &mut close_by, if closing.is_some() => return Err(LinkError::Stopping),
                heard = news_of(&mut news, node) => match heard {
                    News::Offered(last) => _ = offer.get_or_insert(Ending { last, told: false }),
                    News::Refused(why) => {
                        offer = None;
                        let refusal = Handover { kind: HandoverKind::Refuse, term, wait_ms: 0, text: &why };
                        writing.send(&Packet::Handover(refusal)).await?;
                    }
                },
                () = acks.changed.notified() => {
                    sampled = false;
                    let progress = *acks.progress.lock();
                    attached.show(&progress);
                    let at = progress.positions();
                    if behind.is_some_and(|behind| at.applied >= behind) {
                        let (durable, now_ns) = (self.source.durable(), self.env.clock.now_ns());
                        // Catching up may have taken so long that as much is owed again.
                        behind = (attached.owed_ns(durable, now_ns) > NEAR_NS).then_some(durable);
                        if behind.is_none() {
                            attached.caught_up(&*self.source, now_ns);
                        }
                    }
                    // V3
                    block_in_place(|| shipper.advance(at.durable)).map_err(|error| refuse_source(error, at.durable))?;
                }
                () = sampled_by(reads.as_ref()), if is_idle => {
                    // More log may have become durable in the meantime.
                    if let Some(reads) = reads.as_ref().filter(|_| at.sent >= self.source.durable()) {
                        sampled = true;
                        let batch = reads.take();
                        for packet in batch.packets() {
                            taking.while_heard(writing.send_patiently(&packet)).await?;
                        }
                    }
                }
                _ = heartbeats.tick() => {
                    told_show = taking.while_heard(self.heartbeat(writing, (term, true), acks, attached)).await?;
                }
                // The replica's readers may wait for `show` alone, when there are no records to send.
                () = grows_above(&mut shows, told_show) => {
                    told_show = taking.while_heard(self.heartbeat(writing, (term, false), acks, attached)).await?;
                }
                _ = verifies.tick(), if self.options.verify.is_some() && held.is_none() && summing.is_none() => {
                    let sent = acks.progress.lock().positions().sent;
                    // The replica can no longer take a snapshot below the position that was sent.
                    held = block_in_place(|| self.source.hold()).filter(|held| held.at() >= sent);
                    if held.as_ref().is_some_and(|held| held.at() == sent) {
                        ask(&mut held, &mut summing, writing).await?;
                    }
                    if stretch.is_none() {
                        let durable = acks.progress.lock().positions().durable;
                        stretch = self.sum_up(compared, durable);
                        compared = durable;
                    }
                }
                summed = compare::read(&mut stretch) => {
                    let summed = summed.map_err(|why| LinkError::refused(ErrorCode::Storage, Lsn::ZERO, why))?;
                    if let Some(summed) = summed {
                        writing.send(&summed.packet()).await?;
                    }
                }
                summed = compare::summed(&mut summing) => {
                    let Some((at, sums)) = summed else { continue };
                    for packet in compare::answers(at, &sums) {
                        writing.send(&packet).await?;
                    }
                }
                shipped = shipper.next(PACKET_BYTES, &mut records), if may_send => {
                    let at = shipped.map_err(|error| refuse_source(error, Lsn::ZERO))?;
                    // The time is read before the position, so that no position above it had been passed by then.
                    let mono_ns = self.env.clock.now_ns();
                    let durable = self.source.durable();
                    assert!(at.end <= durable, "{} would leave before it is durable, which {durable} is (V2)", at.end);
                    self.slots.pass(durable, mono_ns);
                    told_show = self.source.show();
                    // Commits may wait for this replica's reports, possibly only since a moment ago.
                    let counts = self.source.synchronous().is_some_and(|synchronous| synchronous.has(slot));
                    let stream = Streaming { term, show: told_show, counts };
                    acks.progress.lock().on_sent(at.end);
                    fault_point!("stream.ship");
                    // The records up to the snapshot, the question about it, and the remaining records.
                    let asked = held.as_ref().map(|held| held.at()).filter(|asked| *asked > at.start && *asked <= at.end);
                    let bytes = asked.map_or(records.len(), |asked| {
                        usize::try_from(asked.bytes_since(at.start)).unwrap_or(usize::MAX)
                    });
                    let (front, rest) = records.split_at_checked(bytes).unwrap_or((&records, &[]));
                    let packet = Packet::Data(self.data(&stream, (at.prev_end, at.start), mono_ns, front));
                    taking.while_heard(writing.send_patiently(&packet)).await?;
                    if let Some(asked) = asked {
                        ask(&mut held, &mut summing, writing).await?;
                        if !rest.is_empty() {
                            let packet = Packet::Data(self.data(&stream, (asked, asked), mono_ns, rest));
                            taking.while_heard(writing.send_patiently(&packet)).await?;
                        }
                    }
                    // A snapshot that a jump of positions has passed is dropped.
                    held = held.filter(|held| held.at() > at.end);
                }
            }
        }
    }
}

/// An end of the stream to announce.
#[derive(Clone, Copy, Debug)]
struct Ending {
    last: Lsn,
    told: bool,
}

/// Waits for news of a switchover to `node`; forever where there can be none.
async fn news_of(news: &mut Option<HandingWatch>, node: u64) -> News {
    match news {
        Some(news) => news.news(node).await,
        None => std::future::pending().await,
    }
}

/// Waits until there are sampled reads to send; forever where there are none.
async fn sampled_by(reads: Option<&Subscription>) {
    match reads {
        Some(reads) => reads.ready().await,
        None => std::future::pending().await,
    }
}

/// Waits until `show` has grown above `told`; forever without a quorum.
async fn grows_above(shows: &mut Option<watch::Receiver<Lsn>>, told: Lsn) {
    if let Some(shows) = shows
        && shows.wait_for(|show| *show > told).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Asks about a snapshot, up to whose position everything was sent, and starts reading its rows.
async fn ask<C: Connection>(
    held: &mut Option<Box<dyn Held>>,
    summing: &mut Option<Summing>,
    writing: &mut Writing<C>,
) -> Result<(), LinkError> {
    let Some(held) = held.take() else { return Ok(()) };
    writing.send(&compare::question(held.at())).await?;
    *summing = Some(Summing::of(held));
    Ok(())
}

/// The fields of a packet of records other than the records.
struct Streaming {
    term: Term,
    /// The position below which the replica's readers may see commits.
    show: Lsn,
    /// Whether commits wait for the replica's reports.
    counts: bool,
}

/// The state that the two tasks of a connection share.
#[derive(Debug)]
struct Acks {
    progress: Mutex<Progress>,
    changed: Notify,
}

/// The task that takes acks; it ends with its connection.
#[derive(Debug)]
struct Taking(Option<JoinHandle<Result<(), LinkError>>>);

impl Taking {
    /// Waits until the task ends, when nothing arrives from the replica any more; forever after it has returned
    /// once.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    async fn ended(&mut self) -> Result<(), LinkError> {
        let Some(handle) = &mut self.0 else { return std::future::pending().await };
        let ended = handle.await;
        self.0 = None;
        ended.unwrap_or(Err(LinkError::Closed))
    }

    /// Waits for `sending`, as long as packets arrive from the replica (V4).
    async fn while_heard<T>(&mut self, sending: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
        select! {
            sent = sending => sent,
            ended = self.ended() => Err(ended.err().unwrap_or(LinkError::Closed)),
        }
    }

    /// Returns why a connection ended on which nothing can be sent any more: the error that the replica sent
    /// before it closed, or else `lost`.
    async fn last_word(&mut self, lost: LinkError) -> LinkError {
        if self.0.is_none() {
            return lost;
        }
        match timeout(LAST_WORD, self.ended()).await {
            Ok(Err(told @ LinkError::Told { .. })) => told,
            _ => lost,
        }
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// The context of the task that takes a replica's packets.
struct Hearing<S> {
    acks: Arc<Acks>,
    attached: Arc<Attached>,
    source: Arc<S>,
    env: Env,
    member: Option<Membership>,
    successor: Option<Successor>,
}

/// A replica that may take over the lead, as long as its connection lasts.
struct Successor {
    handing: Arc<Switchover>,
    slot: String,
    node: u64,
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.handing.gone(self.node);
    }
}

async fn take_acks<C: Connection, S: Source>(
    mut reading: Reading<C>,
    hearing: Hearing<S>,
    timeout: Duration,
) -> Result<(), LinkError> {
    let Hearing { acks, attached, source, env, member, successor } = hearing;
    loop {
        match reading.heard(timeout).await? {
            Packet::Ack(ack) => {
                let now_ns = env.clock.now_ns();
                let positions = {
                    let mut progress = acks.progress.lock();
                    progress.on_ack(&ack, now_ns)?;
                    progress.positions()
                };
                if let Some(member) = &member {
                    member.report(&*source, positions);
                    fault_point!("stream.confirmed");
                }
                successor.iter().for_each(|successor| successor.handing.reached(successor.node, positions));
                attached.acked(&*source, &ack, now_ns);
                acks.changed.notify_one();
            }
            // The replica found rows equal to this node's.
            Packet::Verify(verify) if verify.kind == VerifyKind::StateHash && verify.from == verify.to => {
                attached.verified(verify.to);
            }
            // The replica found a stretch of its log equal to this node's.
            Packet::Verify(verify) if verify.kind == VerifyKind::LogCrc => attached.log_verified(verify.to),
            Packet::Handover(Handover { kind: HandoverKind::Ask, wait_ms, .. }) => {
                if let Some(Successor { handing, slot, node }) = &successor {
                    let wait = Duration::from_millis(u64::from(wait_ms));
                    handing.ask(*node, HandoverAsked { slot: slot.clone(), wait }, env.clock.now_ns());
                }
            }
            // An ack reports the same; both may arrive.
            Packet::Synced(_) => {}
            _ => return Err(LinkError::Unexpected { what: "packet from a replica that follows" }),
        }
    }
}

/// Reads the hello.
async fn greet<C: Connection>(reading: &mut Reading<C>) -> Result<Greeting, LinkError> {
    let Packet::Hello(hello) = reading.next(HELLO_TIME).await? else {
        return Err(LinkError::Unexpected { what: "packet instead of a hello" });
    };
    let Some(proto) = common_protocol(&hello) else {
        let text = format!(
            "the replica speaks protocols {} to {}, this primary {} to {}: install releases that are next to each other",
            hello.proto_min,
            hello.proto_max,
            crate::packet::PROTOCOL_MIN,
            crate::packet::PROTOCOL
        );
        return Err(LinkError::fatal(ErrorCode::Version, Lsn::ZERO, text));
    };
    let Hello { flags, cluster, node, promised, received, tail_bytes, tail_crc, histories, slot, .. } = hello;
    let slot = if slot.is_empty() { format!("node-{node:016x}") } else { slot.to_owned() };
    let replica = Identity { cluster, node, term: promised, histories, end: received };
    Ok(Greeting { replica, proto, slot, tail: (tail_bytes, tail_crc), flags })
}

fn refuse_busy(busy: Busy, slot: &str, slots_max: usize) -> LinkError {
    match busy {
        Busy::Node(other) => LinkError::refused(
            ErrorCode::NodeInUse,
            Lsn::ZERO,
            format!("this node follows already, as slot {other}: a copied directory is no second replica"),
        ),
        Busy::Slot => {
            let text = format!("slot {slot} is in use by another node: choose another name (replication.slot)");
            LinkError::refused(ErrorCode::Slot, Lsn::ZERO, text)
        }
        Busy::TooMany => {
            let text = format!(
                "there are {slots_max} slots already (replication.slots): drop one on the primary, \
                 SELECT pg_drop_replication_slot(name)"
            );
            LinkError::fatal(ErrorCode::Slot, Lsn::ZERO, text)
        }
    }
}

/// Turns a failure of the database that is followed into the end of a connection.
pub(super) fn refuse_source(error: SourceError, lsn: Lsn) -> LinkError {
    let code = match &error {
        SourceError::Gone => ErrorCode::LogGone,
        SourceError::Taken(_) => ErrorCode::Slot,
        SourceError::Ended(_) => ErrorCode::Shutdown,
        SourceError::Failed(_) => ErrorCode::Storage,
    };
    LinkError::refused(code, lsn, error.to_string())
}

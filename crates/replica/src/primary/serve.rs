//! One connection of a replica, from its hello to its end.
//!
//! Two tasks: this one sends, the other takes acks, so that neither a replica that is slow to read nor a file that is slow to
//! be read keeps acks waiting.
//!
//! # Invariants
//! - V1. No byte of data leaves before the replica is known to be of this database, of no higher term, and equal at its end.
//! - V2. Nothing at or above `durable` leaves (replication.md R1).
//! - V3. What the log keeps for the slot moves up only to what the replica says is on its disk.
//!
//! Checked by `stream_tests`, over a connection in memory.

use std::{sync::Arc, time::Duration};

use collie_base::Lsn;
use collie_env::Env;
use parking_lot::Mutex;
use tokio::{
    select,
    sync::{Notify, watch},
    task::{JoinHandle, block_in_place},
    time::{MissedTickBehavior, interval},
};

use super::{
    Progress, Ship, SlotState, Slots, Source, SourceError, StreamOptions, backup,
    slots::{Attached, Busy},
};
use crate::{
    Connection, LinkError,
    identity::{Decision, Identity, Rebuild, common_protocol, decide},
    link::{self, Reading, Writing},
    packet::{
        Data, DataFlags, End, EndReason, ErrorCode, From, Heartbeat, Hello, IDENTIFY_HISTORIES_MAX, Identify, Packet,
        Verdict,
    },
};

/// How long a peer is given to say who it is.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// Bytes of records in one packet, about.
const PACKET_BYTES: usize = 1 << 20;

/// What a connection is served with.
#[derive(Debug)]
pub(super) struct Served<S> {
    pub(super) source: Arc<S>,
    pub(super) slots: Arc<Slots>,
    pub(super) options: StreamOptions,
    pub(super) env: Env,
}

/// What a replica said.
struct Greeting {
    replica: Identity,
    proto: u16,
    slot: String,
    tail: (u32, u32),
}

/// Serves one connection to its end; `early` are bytes of it that have arrived. Returns why it ended.
///
/// # Errors
/// [`LinkError::Stopping`] once `stop` turned true; whatever else ends a connection. The replica was told, if it could hear.
pub async fn serve<S: Source, C: Connection>(
    io: C,
    early: &[u8],
    address: &str,
    (source, slots): (Arc<S>, Arc<Slots>),
    options: StreamOptions,
    env: Env,
    mut stop: watch::Receiver<bool>,
) -> Result<(), LinkError> {
    let served = Served { source, slots, options, env };
    let (reading, mut writing) = link::open(io, From::Replica, early, options.timeout);
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
        let attached = self.slots.attach(&greeting.slot, greeting.replica.node, address, slots_max, now_ns);
        let attached = Arc::new(attached.map_err(|busy| refuse_busy(busy, &greeting.slot, slots_max))?);
        let own = self.source.identity();
        let (decision, shipper) = block_in_place(|| self.decide(&own, &greeting))?;
        let identify = |verdict, start| self.identify(&own, &greeting, verdict, start);
        match decision {
            Decision::Stream { start } => {
                let Some(shipper) = shipper else { return Err(LinkError::Unexpected { what: "decision" }) };
                writing.send(&identify(Verdict::Stream, start)).await?;
                reading.known();
                self.stream(reading, writing, shipper, &attached, start, stop).await
            }
            Decision::Backup { .. } => {
                attached.state(SlotState::Backup);
                writing.send(&identify(Verdict::Backup, Lsn::ZERO)).await?;
                reading.known();
                backup::send(self, &greeting.slot, &own, &mut reading, writing, stop).await
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
                writing.send(&identify(Verdict::Refuse, Lsn::ZERO)).await?;
                let text =
                    format!("this node leads in term {}, and term {term} has begun: follow its primary", own.term);
                Err(LinkError::fatal(ErrorCode::Term, Lsn::ZERO, text))
            }
        }
    }

    /// Decides, and looks at the log where that is needed (V1). Blocks on reading it.
    fn decide(&self, own: &Identity, greeting: &Greeting) -> Result<(Decision, Option<S::Shipper>), LinkError> {
        let decision = decide(own, &greeting.replica);
        let Decision::Stream { start } = decision else { return Ok((decision, None)) };
        let backup = |why| Ok((Decision::Backup { why }, None));
        // Held first, so that what is compared stays.
        let shipper = match self.source.ship(&greeting.slot, start) {
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

    fn identify(&self, own: &Identity, greeting: &Greeting, verdict: Verdict, start: Lsn) -> Packet<'static> {
        let newest = own.histories.len().saturating_sub(IDENTIFY_HISTORIES_MAX);
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Packet::Identify(Identify {
            proto: greeting.proto,
            flags: 0,
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

    /// Sends what becomes durable until the connection ends.
    async fn stream<C: Connection>(
        &self,
        reading: Reading<C>,
        writing: &mut Writing<C>,
        mut shipper: S::Shipper,
        attached: &Arc<Attached>,
        start: Lsn,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), LinkError> {
        let term = self.source.identity().term;
        let now_ns = self.env.clock.now_ns();
        let progress = Progress::new(term, start, self.options.window_bytes, now_ns);
        let acks = Arc::new(Acks { progress: Mutex::new(progress), changed: Notify::new() });
        let taking = take_acks(reading, acks.clone(), attached.clone(), self.env.clone(), self.options.timeout);
        let mut taking = Taking(tokio::spawn(taking));
        let behind = self.source.durable();
        let mut heartbeats = interval(self.options.heartbeat);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut records = Vec::new();
        loop {
            records.clear();
            let may_send = acks.progress.lock().may_send();
            select! {
                ended = &mut taking.0 => return ended.unwrap_or(Err(LinkError::Closed)),
                () = link::stopping(stop) => {
                    let last = acks.progress.lock().positions().sent;
                    writing.send(&Packet::End(End { term, reason: EndReason::Shutdown, last })).await?;
                    return Err(LinkError::Stopping);
                }
                () = acks.changed.notified() => {
                    let progress = *acks.progress.lock();
                    attached.show(&progress);
                    let at = progress.positions();
                    if at.applied >= behind {
                        attached.state(SlotState::Streaming);
                    }
                    // V3
                    block_in_place(|| shipper.advance(at.durable)).map_err(|error| refuse_source(error, at.durable))?;
                }
                _ = heartbeats.tick() => {
                    let rtt_min_ns = acks.progress.lock().rtt_min_ns();
                    let (durable, mono_ns) = (self.source.durable(), self.env.clock.now_ns());
                    self.slots.pass(durable, mono_ns);
                    writing.send(&Packet::Heartbeat(Heartbeat {
                        term,
                        durable,
                        show: self.source.show(),
                        mono_ns,
                        delay_ns: attached.delay_ns(durable, mono_ns),
                        rtt_min_ns,
                        commits: self.source.commits(),
                    })).await?;
                }
                shipped = shipper.next(PACKET_BYTES, &mut records), if may_send => {
                    let at = shipped.map_err(|error| refuse_source(error, Lsn::ZERO))?;
                    let durable = self.source.durable();
                    assert!(at.end <= durable, "{} would leave before it is durable, which {durable} is (V2)", at.end);
                    let mono_ns = self.env.clock.now_ns();
                    self.slots.pass(durable, mono_ns);
                    let data = Data {
                        term,
                        start: at.start,
                        prev_end: at.prev_end,
                        durable,
                        show: self.source.show(),
                        mono_ns,
                        flags: DataFlags { new_history: at.start > at.prev_end, ..DataFlags::default() },
                        records: &records,
                    };
                    acks.progress.lock().on_sent(at.end);
                    writing.send(&Packet::Data(data)).await?;
                }
            }
        }
    }
}

/// What the two tasks of a connection share.
#[derive(Debug)]
struct Acks {
    progress: Mutex<Progress>,
    changed: Notify,
}

/// The task that takes acks; it ends with its connection.
#[derive(Debug)]
struct Taking(JoinHandle<Result<(), LinkError>>);

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn take_acks<C: Connection>(
    mut reading: Reading<C>,
    acks: Arc<Acks>,
    attached: Arc<Attached>,
    env: Env,
    timeout: Duration,
) -> Result<(), LinkError> {
    loop {
        match reading.next(timeout).await? {
            Packet::Ack(ack) => {
                let now_ns = env.clock.now_ns();
                let rtt_min_ns = {
                    let mut progress = acks.progress.lock();
                    progress.on_ack(&ack, now_ns)?;
                    progress.rtt_min_ns()
                };
                attached.applied(&ack, rtt_min_ns, now_ns);
                acks.changed.notify_one();
            }
            // What an ack says too; both may come.
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
    let Hello { cluster, node, promised, received, tail_bytes, tail_crc, histories, slot, .. } = hello;
    let slot = if slot.is_empty() { format!("node-{node:016x}") } else { slot.to_owned() };
    let replica = Identity { cluster, node, term: promised, histories, end: received };
    Ok(Greeting { replica, proto, slot, tail: (tail_bytes, tail_crc) })
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
            let text = format!("there are {slots_max} slots already: drop one on the primary");
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

//! Tests of sampled reads from primary to replica, with clocks that the tests move.

use std::sync::{Arc, atomic::Ordering};

use collie_base::Lsn;
use collie_env::Env;
use parking_lot::Mutex;

use super::{
    BATCH_BYTES, BURST_BYTES, BYTES_PER_S, LATE_US, Next, Pacing, QUEUE_BYTES_MAX, Read, ReadFeed, ReadInbox,
    ReadQueue, Templates, TokenBucket,
    queue::{Counts, Due},
};
use crate::packet::{From, Input, Packet, Sample, encode};

const SECOND: u64 = 1_000_000;

fn read(hash: u64, arrival_us: u64, parameter_bytes: usize) -> Read {
    Read {
        hash,
        text: format!("SELECT {hash}").into(),
        parameters: vec![7; parameter_bytes].into(),
        snapshot: Lsn::new(100),
        arrival_us,
        latency_ns: 5,
        rows: 3,
    }
}

fn queue() -> (ReadQueue, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    (ReadQueue::new(counts.clone(), 0), counts)
}

/// Sends the due reads as bytes to an inbox; returns the number of bytes.
fn send(queue: &mut ReadQueue, inbox: &ReadInbox, now_us: u64) -> usize {
    let batch = queue.take(now_us);
    let mut bytes = Vec::new();
    for packet in batch.packets() {
        encode(&packet, &mut bytes);
    }
    let mut input = Input::stream(From::Primary);
    input.feed(&bytes);
    while let Some(packet) = input.next().unwrap() {
        let Packet::Sample(sample) = packet else { panic!("{packet:?}") };
        inbox.take(&sample, now_us);
    }
    bytes.len()
}

/// Goal: over any time the taken bytes are those of the rate and one burst; a pause saves up one burst; a clock
/// that goes back adds nothing. Method: pieces of a few sizes whenever they are available, for ten seconds.
#[test]
fn a_bucket_gives_its_rate_and_one_burst() {
    for piece in [1, 100, 5000, 64 << 10] {
        let mut bucket = TokenBucket::new(64 << 10, 64 << 10, 0);
        let (mut taken, mut now_us) = (0, 0);
        while now_us < 10 * SECOND {
            if bucket.take(piece, now_us) {
                taken += piece;
            } else {
                let at_us = bucket.there_at_us(piece, now_us);
                assert!(at_us > now_us, "it was refused");
                assert!(!bucket.take(piece, at_us - 1) && bucket.take(piece, at_us), "to the microsecond");
                (taken, now_us) = (taken + piece, at_us);
            }
        }
        let most = 11 * (64 << 10) + piece;
        assert!(taken <= most && taken + 2 * piece >= most - piece, "{taken} of {most} in pieces of {piece}");
    }
    let mut bucket = TokenBucket::new(10, 100, 0);
    assert!(bucket.take(100, 3600 * SECOND) && !bucket.take(1, 0) && !bucket.take(1, 3600 * SECOND));
    assert_eq!(bucket.there_at_us(1000, 3600 * SECOND), 3610 * SECOND, "full is as much as there can be");
}

/// Goal: Q2: however many reads are added, at most 256 KiB wait and 64 KiB are sent per second, and every read
/// that is not sent is counted. Method: 10,000 reads per second with parameters of 100 bytes for five seconds, a
/// batch whenever one is due.
#[test]
fn a_queue_is_bounded_and_counts_what_it_drops() {
    let (mut queue, counts) = queue();
    let inbox = ReadInbox::default();
    let (mut given, mut sent_bytes) = (0, 0);
    for ms in 0..5000_u64 {
        for each in 0..10 {
            queue.push(read(each, ms * 1000, 100), ms * 1000);
            given += 1;
        }
        assert!(queue.waiting_bytes() <= QUEUE_BYTES_MAX);
        if queue.due(ms * 1000) == Due::Now {
            let bytes = send(&mut queue, &inbox, ms * 1000);
            assert!(bytes > 0 && bytes <= BATCH_BYTES + 64, "a batch of {bytes} bytes");
            sent_bytes += bytes as u64;
        }
    }
    assert!(sent_bytes <= 5 * BYTES_PER_S + BURST_BYTES, "{sent_bytes} bytes");
    assert!(sent_bytes >= 5 * BYTES_PER_S - BYTES_PER_S / 4, "{sent_bytes} bytes: it is used");
    assert_eq!(queue.due(60 * SECOND), Due::Never, "what is late is gone");
    let [shipped, late, full] =
        [&counts.shipped, &counts.late, &counts.full].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(shipped + late + full, given, "{shipped} shipped, {late} late, {full} too many");
    assert_eq!(inbox.stat().came, shipped);
    assert!(late > 0 && full > 0 && inbox.stat().unknown == 0);
}

/// Goal: a full queue accepts reads again as soon as the waiting ones are late, and returns no late one. Method: a
/// queue that is full at one time, used a little more than a second later.
#[test]
fn what_is_late_makes_room() {
    let (mut queue, counts) = queue();
    for _ in 0..1000 {
        queue.push(read(1, 0, 1000), 0);
    }
    assert!(counts.full.load(Ordering::Relaxed) > 700);
    let later = LATE_US + 1;
    queue.push(read(2, later, 1000), later);
    assert_eq!(queue.waiting_bytes(), 1036);
    let batch = queue.take(later);
    let packets: Vec<Packet<'_>> = batch.packets().collect();
    assert!(
        matches!(&packets[..], [Packet::Sample(Sample::Template { hash: 2, .. }), Packet::Sample(Sample::Reads(reads))] if reads.len() == 1)
    );
}

/// Goal: M1: the receiver knows the text of every read, even when there are more texts than either side remembers.
/// Method: 3,000 texts in turn, three times; texts of 30 KiB.
#[test]
fn texts_are_known_however_many_there_are() {
    let (mut queue, counts) = queue();
    let inbox = ReadInbox::default();
    let mut now_us = 0;
    let mut push = |read: Read, now_us: &mut u64| {
        queue.push(Read { arrival_us: *now_us, ..read }, *now_us);
        while let due @ (Due::Now | Due::At(_)) = queue.due(*now_us) {
            if let Due::At(at_us) = due {
                *now_us = at_us;
            }
            send(&mut queue, &inbox, *now_us);
        }
    };
    for number in 0..9000 {
        push(read(number % 3000, 0, 8), &mut now_us);
    }
    for number in 0..100 {
        let text = "x".repeat(30 << 10).into();
        push(Read { text, ..read(10_000 + number % 50, 0, 8) }, &mut now_us);
    }
    assert_eq!((inbox.stat().came, inbox.stat().unknown), (counts.shipped.load(Ordering::Relaxed), 0));
    assert_eq!(inbox.stat().came, 9100);
    let mut templates = Templates::default();
    (0..5000).for_each(|hash| templates.put(hash, 10, hash));
    assert!(templates.get(4999).is_some() && templates.get(0).is_none());
}

/// Goal: Q3: reads are run as far apart as they arrived, however they were batched for sending, and a runner that
/// takes ten times as long does not slow their arrival: it runs the reads that are due and not late, and is on
/// time again as soon as it is fast. Method: a read each 10 ms in packets at uneven times; a runner that takes no
/// time, then 100 ms, then none.
#[test]
fn spacing_is_kept_when_the_runner_is_ten_times_too_slow() {
    const EVERY_US: u64 = 10_000;
    let inbox = ReadInbox::default();
    let (mut queue, _) = queue();
    let there = 7_000 * SECOND; // another machine's clock
    let (mut now_us, mut next_arrival, mut next_packet) = (SECOND, 0, 0);
    let (mut busy_until, mut ran, mut started) = (0, 0_u64, Vec::new());
    let mut gaps = Vec::new();
    while next_arrival < 1500 {
        now_us += 1000;
        let elapsed = now_us - SECOND;
        while next_arrival * EVERY_US <= elapsed {
            queue.push(read(1, there + next_arrival * EVERY_US, 0), there + elapsed);
            next_arrival += 1;
        }
        if elapsed >= next_packet {
            // The bucket uses the clock of the arrivals, the inbox that of the replica.
            let batch = queue.take(there + elapsed);
            for packet in batch.packets() {
                let Packet::Sample(sample) = packet else { panic!("{packet:?}") };
                inbox.take(&sample, now_us);
            }
            next_packet = elapsed + [3000, 90_000, 40_000][usize::try_from(next_arrival % 3).unwrap()];
        }
        let takes_us = if (3 * SECOND..8 * SECOND).contains(&elapsed) { 10 * EVERY_US } else { 0 };
        while now_us >= busy_until {
            let Next::Run(read) = inbox.poll(now_us) else { break };
            assert!(read.due_us <= now_us && now_us <= read.due_us + LATE_US, "due and not late (X2)");
            ran += 1;
            if takes_us == 0 && elapsed > 10 * SECOND {
                assert!(now_us - read.due_us <= 1000, "it is on time again");
                started.push(now_us);
            }
            busy_until = now_us + takes_us;
        }
    }
    started.windows(2).for_each(|two| gaps.push(two[1] - two[0]));
    assert!(gaps.len() > 300);
    for gap in gaps {
        assert!(gap.abs_diff(EVERY_US) <= 2000, "{gap} us apart");
    }
    let stat = inbox.stat();
    assert!(stat.late > 200, "the slow runner ran what it could, and what was late was dropped: {stat:?}");
    assert!(ran + stat.late <= stat.came && stat.full == 0, "{stat:?}");
}

/// Goal: the latency of a long read neither makes it late nor changes when others are due: it could not arrive
/// before it had ended. Method: short reads each 10 ms, and every hundredth time one of 3 s that ends then, alone
/// in its packet.
#[test]
fn long_reads_are_not_late_for_having_taken_long() {
    let inbox = ReadInbox::default();
    let (mut queue, counts) = queue();
    let (mut longs, mut ran, mut last_due) = (0, [0; 2], 0);
    for step in 0..1000_u64 {
        let now_us = 10 * SECOND + step * 10_000;
        queue.push(read(1, now_us, 0), now_us);
        send(&mut queue, &inbox, now_us);
        if step % 100 == 99 {
            queue.push(Read { latency_ns: 3_000_000_000, ..read(2, now_us - 3 * SECOND, 0) }, now_us);
            send(&mut queue, &inbox, now_us);
            longs += 1;
        }
        while let Next::Run(found) = inbox.poll(now_us) {
            let is_long = found.latency_ns > 5;
            ran[usize::from(is_long)] += 1;
            if is_long {
                assert!(found.due_us < now_us, "as soon as it comes");
            } else {
                assert!(last_due == 0 || found.due_us - last_due == 10_000, "{} apart", found.due_us - last_due);
                last_due = found.due_us;
            }
        }
    }
    assert_eq!((longs, ran[1]), (10, 10));
    assert!(ran[0] >= 960, "{ran:?}");
    let dropped = inbox.stat().late + counts.late.load(Ordering::Relaxed);
    assert_eq!(dropped, 0);
}

/// Goal: clocks that drift apart by 200 ppm over an hour make nothing late, and move the due times by about a
/// millisecond at most from one packet to the next; a jump is followed at once. Method: a packet each 100 ms, with
/// a transit time between 0 and 80 ms.
#[test]
fn drift_moves_what_is_due_slowly() {
    let mut pacing = Pacing::default();
    let mut before: Option<u64> = None;
    for step in 0..36_000_u64 {
        let arrival_us = step * 100_000;
        let now_us = 5 * SECOND + arrival_us + arrival_us / 5000 + (step * 7919 % 81) * 1000;
        pacing.came(arrival_us, now_us);
        let due_us = pacing.due_us(arrival_us);
        assert!(due_us + LATE_US > now_us && due_us < now_us + 400_000, "step {step}: due {due_us} at {now_us}");
        if let Some(before) = before {
            assert!((due_us - before).abs_diff(100_000) <= 1100, "step {step}");
        }
        before = Some(due_us);
    }
    let jumped = 36_000 * 100_000;
    pacing.came(jumped, jumped + 500 * SECOND);
    assert_eq!(pacing.due_us(jumped), jumped + 500 * SECOND + 300_000);
}

/// Goal: the content of the inbox is bounded (X1), and dropped when it is closed. Method: more than it accepts,
/// then closed.
#[test]
fn an_inbox_is_bounded_and_can_be_closed() {
    let inbox = ReadInbox::default();
    inbox.connected();
    let given = |count: usize| {
        let (mut queue, _) = queue();
        for _ in 0..count {
            queue.push(read(1, 0, 8000), 0);
        }
        while send(&mut queue, &inbox, 0) > 0 {}
    };
    (0..20).for_each(|_| given(8));
    let stat = inbox.stat();
    assert!(stat.full > 0 && (stat.came - stat.full) * 8000 <= QUEUE_BYTES_MAX as u64, "{stat:?}");
    assert!(matches!(inbox.poll(0), Next::At(_)));
    inbox.close();
    assert!(matches!(inbox.poll(60 * SECOND), Next::Nothing));
    given(1);
    assert!(matches!(inbox.poll(60 * SECOND), Next::Nothing));
    let stat = inbox.stat();
    assert_eq!(stat.came, stat.full + stat.late, "all of it is accounted for: {stat:?}");
}

/// Goal: G1: reads are wanted from the first connection to the end of the last. Method: two connections, and one
/// after them.
#[test]
fn reads_are_wanted_while_somebody_takes_them() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = told.clone();
    let feed = ReadFeed::new(move |wanted| list.lock().push(wanted));
    let (env, _disk) = Env::simulated(1);
    let one = feed.subscribe(&env);
    let two = feed.subscribe(&env);
    feed.publish(&read(1, SECOND, 10), SECOND);
    drop(one);
    assert_eq!(*told.lock(), [true]);
    assert_eq!(two.take().packets().count(), 2);
    drop(two);
    drop(feed.subscribe(&env));
    assert_eq!(*told.lock(), [true, false, true, false]);
    assert_eq!(feed.stat().shipped, 1);
}

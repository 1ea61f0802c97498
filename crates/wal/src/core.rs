//! `Core`: state that the handles of an open log share, and the checks of an append for room.
//!
//! A reservation promises bytes in the ring and bytes on disk. An append waits for ring bytes after it has reserved
//! ([`Room`], `append`). It checks for disk bytes before it reserves, so that a full disk refuses an append and never
//! stops one halfway (LOG-11).

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use collie_base::Lsn;
use collie_env::{Env, FileLock};
use parking_lot::Mutex;

use crate::{
    Mark, Options, Recovered, RingKind, WalError, append::POSITION_MAX, append::Reserve, append::Room, append::State,
    append::ring_file::Home, append::ring_file::Life, consumers::Consumers, consumers::cursor_file,
    consumers::cursor_file::StoredCursors, copies::Copies, copies::Mirror, flush::Flusher, recovery,
    recovery::dead_rings, segment::Segments,
};

/// An open log, without its threads.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) flusher: Flusher,
    pub(crate) home: Home,
    pub(crate) consumers: Consumers,
    // Constant after open.
    pub(crate) options: Options,
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    /// Writes the copies, if there are several.
    pub(crate) mirror: Option<Mirror>,
    // Counters, Relaxed: no other data is read through them.
    pub(crate) ring_full: AtomicU64,
    pub(crate) slotless_writers: AtomicU64,
    /// Commits counted for `wal.sync_every`; stays 0 without it.
    pub(crate) commits: AtomicU64,
    /// The locks of the directories, until the log is closed.
    pub(crate) locks: Mutex<Vec<Option<Arc<dyn FileLock>>>>,
}

impl Core {
    /// Locks the directories, recovers the log in them, and creates the parts of the running log. If it `follows`
    /// another log, it takes no appends.
    ///
    /// # Errors
    /// Those of [`Log::open`](crate::Log::open).
    pub(crate) fn open(env: &Env, dir: &Path, options: Options, follows: bool) -> Result<(Self, Recovered), WalError> {
        options.validate()?;
        let copies = Copies::lock(env, dir, &options.copies)?;
        // Read before anything is written.
        let stored = copies.first_of(&env.files, |dir| StoredCursors::read(&*env.files, dir))?;
        let mut opened = recovery::open(env, &copies, &options, follows)?;
        let (env, mirror) = (opened.env, opened.writer.mirror.clone());
        if stored.as_ref().is_some_and(|stored| stored.log_id != opened.start.log_id) {
            return Err(WalError::ForeignLog { path: dir.join(cursor_file::FILE_NAME) });
        }
        if opened.recovered.next.get() > POSITION_MAX {
            let next = opened.recovered.next;
            return Err(WalError::options(format!("the positions of this log are used up at {next}: start a new log")));
        }
        // Records that an earlier incarnation left in a ring are on disk by now.
        let life = Life { env: &env, dir, log_id: opened.start.log_id, incarnation: opened.recovered.incarnation };
        let (home, fallback) = Home::choose(&life, &options)?;
        opened.recovered.notes.extend(fallback);
        opened.recovered.ring = home.kind();
        let reserve = Reserve::new(&home, &options, opened.recovered.next);
        let segments = Segments::new(env.clone(), dir.to_owned(), &options, opened.start);
        let flusher = Flusher::new(&home, reserve, segments, opened.writer, (&options, follows), &env);
        let core = Self {
            consumers: Consumers::new(&env, &options, &flusher.segments, stored, opened.lost_above),
            flusher,
            home,
            env,
            dir: dir.to_owned(),
            mirror,
            ring_full: AtomicU64::new(0),
            slotless_writers: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            locks: Mutex::new(copies.into_locks()),
            options,
        };
        // A consumer that lost its place by this opening does not get it back at the next one.
        core.consumers.save(&core.flusher.segments)?;
        core.home.publish();
        if core.home.kind() == RingKind::Shared {
            dead_rings::remove(&core.env, &core.options.ring_dir);
        }
        Ok((core, opened.recovered))
    }

    /// Refuses an append that would have to wait for a flush. Another append may take the room after this check; then
    /// the append does wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_for_room_in_the_ring(&self, bytes: u64) -> Result<(), WalError> {
        let end = self.flusher.reserve.next().plus(bytes);
        if end.bytes_since(self.flusher.durable.load()) <= self.options.ring_bytes {
            return Ok(());
        }
        self.ring_full.fetch_add(1, Ordering::Relaxed);
        let until = Lsn::new(end.get() - self.options.ring_bytes);
        Err(WalError::RingFull { until })
    }

    /// Refuses an append while the disk, or the bound on files, has no room for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_for_room_on_disk(&self, gives_back: bool) -> Result<(), WalError> {
        if self.flusher.follows {
            return Err(WalError::Follows);
        }
        self.look_for_room(gives_back)
    }

    /// Refuses received records while the disk, or the bound on files, has no room for them.
    pub(crate) fn look_for_room_to_follow(&self) -> Result<(), WalError> {
        self.look_for_room(false)
    }

    fn look_for_room(&self, gives_back: bool) -> Result<(), WalError> {
        self.flusher.refresh_full();
        let state = self.flusher.queue.lock().state;
        if state != State::Open {
            return Err(self.flusher.refusal(state));
        }
        let segments = &self.flusher.segments;
        match if gives_back { segments.full_to_give_back() } else { segments.full() } {
            Some(pinned_by) => Err(WalError::Full { pinned_by }),
            None => Ok(()),
        }
    }
}

impl Room for Core {
    fn durable(&self) -> Lsn {
        self.flusher.durable.load()
    }

    #[cold]
    #[inline(never)]
    fn wait_durable(&self, until: Lsn) -> Result<(), WalError> {
        self.ring_full.fetch_add(1, Ordering::Relaxed);
        self.flusher.wait(Mark::Durable, until)
    }

    fn has_stopped(&self) -> bool {
        self.flusher.queue.lock().state != State::Open
    }

    fn poison(&self) {
        self.flusher.poison();
    }

    #[cold]
    #[inline(never)]
    fn refusal(&self, state: State) -> WalError {
        self.flusher.refusal(state)
    }
}

//! The rounds of the thread that looks for rot in the LSM levels (`flush/scrub.rs`), and the repair of rotten trees.

use std::time::Duration;

use collie_store::{LevelsError, TreeId};

use crate::EngineError;
use crate::flush::Base;
use crate::flush::figures::FlushCause;
use crate::flush::scrub::{PASS_PAUSE, PIECE_BYTES_MAX, PIECE_BYTES_MIN, PIECES_PER_S, Pass, Rot, Step};
use crate::shared::Shared;

/// Returns the round function of the scrub thread.
pub(crate) fn scrubber() -> impl FnMut(&Shared) -> Duration + Send {
    let (mut pass, mut is_first, mut piece) = (None::<Pass>, true, Vec::new());
    move |shared| {
        let Some(base) = shared.base() else { return PASS_PAUSE };
        if std::mem::take(&mut is_first) {
            return PASS_PAUSE;
        }
        let per_s = shared.scrub.bytes_per_s.max(1);
        let bytes = (per_s / PIECES_PER_S).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        piece.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let now = pass.get_or_insert_with(|| {
            shared.scrub_manifest(base);
            Pass::of(base.levels())
        });
        match now.step(base.levels(), &shared.env, &mut piece) {
            Step::Next => Duration::ZERO,
            Step::Read(bytes) => {
                shared.scrub.count(|stat| stat.bytes += bytes);
                Duration::from_micros(bytes.saturating_mul(1_000_000) / per_s)
            }
            Step::Whole => {
                shared.scrub.count(|stat| stat.tables += 1);
                Duration::ZERO
            }
            Step::Rotten(tree, fault) => {
                shared.mend(base, tree, &fault);
                Duration::ZERO
            }
            Step::Over => {
                pass = None;
                shared.scrub.count(|stat| stat.passes += 1);
                PASS_PAUSE
            }
        }
    }
}

impl Shared {
    /// Reads every table once, without a pause, and repairs rot. Returns the findings.
    pub(crate) fn scrub(&self) -> Result<Vec<Rot>, EngineError> {
        let base = self.writable_base()?;
        let _told = self.mend_failed(base); // their files would be unknown otherwise
        let mut found: Vec<Rot> = self.scrub_manifest(base).into_iter().collect();
        let mut pass = Pass::of(base.levels());
        let mut piece = vec![0; usize::try_from(PIECE_BYTES_MAX).unwrap_or(0)];
        loop {
            match pass.step(base.levels(), &self.env, &mut piece) {
                Step::Next => {}
                Step::Read(bytes) => self.scrub.count(|stat| stat.bytes += bytes),
                Step::Whole => self.scrub.count(|stat| stat.tables += 1),
                Step::Rotten(tree, fault) => found.extend(self.mend(base, tree, &fault)),
                Step::Over => break,
            }
        }
        self.scrub.count(|stat| stat.passes += 1);
        Ok(found)
    }

    /// Compares MANIFEST with memory, and writes it again if they differ.
    fn scrub_manifest(&self, base: &Base) -> Option<Rot> {
        // If the disk refuses, the next flush reports it.
        let fault = base.levels().mend_manifest().ok()??;
        self.scrub.warnings.warn(format!("levels: {fault}: it was written again from memory; look at the disk"));
        let path = match &fault {
            LevelsError::ManifestDamaged { path, .. } | LevelsError::NewerFormat { path, .. } => path.clone(),
            _ => base.levels().dir().to_owned(),
        };
        let rot = Rot { path, families: Vec::new(), what: fault.to_string(), is_mended: true, quarantined: None };
        self.scrub.note(rot.clone());
        Some(rot)
    }

    /// Rewrites a tree with a damaged file. Returns the finding and its repair; `None` if another thread has repaired
    /// it, or the tree was dropped.
    fn mend(&self, base: &Base, tree: TreeId, fault: &LevelsError) -> Option<Rot> {
        let LevelsError::TreeDamaged { path, cfs, .. } = fault else { return None };
        let _one_at_a_time = self.scrub.mending.lock();
        if base.levels().trees().iter().all(|known| known.id != tree) {
            return None;
        }
        let mut rot = Rot {
            path: path.clone(),
            families: cfs.clone(),
            what: fault.to_string(),
            is_mended: false,
            quarantined: None,
        };
        self.scrub.warnings.warn(format!("levels: {fault}: writing its rows again from memory"));
        match base.write_rotten_anew(tree, std::slice::from_ref(path), &rot.what, &self.parts()) {
            Ok(None) => return None,
            Ok(Some(written)) => {
                (rot.is_mended, rot.quarantined) = (true, written.quarantined.first().cloned());
                let kept = rot.quarantined.as_ref().map_or_else(String::new, |kept| {
                    format!("; the damaged file is kept as {}", kept.display())
                });
                self.scrub.warnings.warn(format!(
                    "levels: {} is made up for: {} rows were written again, as tree {}{kept}; look at the disk",
                    path.display(),
                    written.keys.values().sum::<u64>(),
                    written.tree
                ));
            }
            Err(error) => self.scrub.warnings.warn(format!(
                "levels: {} cannot be made up for yet: {error}; its rows are in memory alone, and no copy is made until it is",
                path.display()
            )),
        }
        self.scrub.note(rot.clone());
        Some(rot)
    }

    /// Rewrites the trees that failed; flushes report the outcome.
    fn mend_failed(&self, base: &Base) -> Result<(), EngineError> {
        base.flush(&base.levels().to_be_replaced(), FlushCause::Failure, &self.parts())
    }

    /// Repairs the trees that kept a copy from being made, according to its error. Returns `Ok` if a tree was repaired,
    /// so that another attempt is worthwhile.
    ///
    /// # Errors
    /// The fault, with the name that the file has in the database and not in the copy.
    pub(crate) fn mend_for_copy(&self, error: EngineError) -> Result<(), EngineError> {
        let EngineError::Levels(levels_error) = &error else { return Err(error) };
        let base = self.writable_base()?;
        let cfs = match &**levels_error {
            LevelsError::TreeDamaged { cfs, .. } => cfs,
            // Its next flush rewrites it (`tree_rewrite.rs`).
            LevelsError::TreeFailed { .. } => return self.mend_failed(base).map_err(|_told| error),
            _ => return Err(error),
        };
        let levels = base.levels();
        let Some(tree) = cfs.first().and_then(|cf| levels.tree_of(*cf)) else { return Ok(()) }; // dropped
        let fault = match levels.sums_of(tree) {
            Err(fault) => fault,
            Ok(sums) => {
                let faults = sums.read_all::<LevelsError>(&*self.env.files, &mut |_| Ok(()));
                match faults.map_err(EngineError::levels)?.into_iter().next() {
                    Some(fault) => fault,
                    None if levels.tree_of(cfs[0]) != Some(tree) => return Ok(()), // repaired since
                    None => return Err(error),                                     // the copy itself is bad
                }
            }
        };
        match self.mend(base, tree, &fault) {
            Some(rot) if !rot.is_mended => Err(EngineError::levels(fault)),
            _ => Ok(()),
        }
    }
}

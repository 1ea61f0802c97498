//! `Rot`: damage to one file of a directory, drawn from a seed. The kind of file is drawn first, so that rare kinds are
//! damaged as often as frequent ones.

use std::{collections::BTreeMap, fmt, fs, os::unix::fs::FileExt, path::Path};

use anyhow::Context;

use super::files::{self, Files, Kind};
use crate::random::Random;

/// The unit in which many disks lose data.
const BLOCK: usize = 4096;

/// How a file is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// One bit is flipped.
    Bit,
    /// A block is zeroed.
    Zeros,
    /// The file has an earlier state, as after a write that was reported but never reached the disk.
    Older,
}

/// The damaged file, and the kind of damage.
#[derive(Clone, Debug)]
pub(super) struct Rot {
    pub(super) kind: Kind,
    pub(super) name: String,
    damage: Damage,
    offset: usize,
}

impl fmt::Display for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} of {}, {:?}", self.damage, self.offset, self.name, self.kind)
    }
}

impl Rot {
    /// Damages a file in `dir` in place, since a running server may have it open. `older` has earlier states of the
    /// files. Returns `None` if the damage that was drawn changes nothing.
    pub(super) fn plant(
        dir: &Path,
        older: &Files,
        among: impl Fn(Kind) -> bool,
        random: &mut Random,
    ) -> anyhow::Result<Option<Self>> {
        let mut by_kind: BTreeMap<Kind, Vec<(String, Vec<u8>)>> = BTreeMap::new();
        for (name, bytes) in files::read(dir)? {
            if let Some(kind) = Kind::of(&name).filter(|kind| among(*kind) && !bytes.is_empty()) {
                by_kind.entry(kind).or_default().push((name, bytes));
            }
        }
        let at = usize::try_from(random.below(by_kind.len() as u64))?;
        let (kind, mut found) = by_kind.into_iter().nth(at).context("there are files")?;
        let last = found.len() - 1;
        let at = usize::try_from(random.below(found.len() as u64))?;
        let (name, bytes) = found.swap_remove(at);
        let damage = [Damage::Bit, Damage::Bit, Damage::Zeros, Damage::Older][usize::try_from(random.below(4))?];
        // The newest log file is left out: in an earlier state it lacks commits at its end without a trace, which
        // nothing can show.
        let before = older.get(&name).filter(|_| kind != Kind::Log || at != last);
        let mut bad = bytes.clone();
        // Only a small part of a log file is used.
        let within = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
        let mut offset = usize::try_from(random.below(within as u64))?;
        match (damage, before) {
            (Damage::Older, Some(before)) => {
                bad.clone_from(before);
                offset = 0;
            }
            (Damage::Older, None) => return Ok(None),
            (Damage::Zeros, _) => {
                offset = offset / BLOCK * BLOCK;
                let end = (offset + BLOCK).min(bad.len());
                bad[offset..end].fill(0);
            }
            (Damage::Bit, _) => bad[offset] ^= 1 << random.below(8),
        }
        if bad == bytes {
            return Ok(None);
        }
        let opened = fs::File::options().write(true).open(dir.join(&name));
        let Some(file) = files::unless_gone(opened)? else { return Ok(None) };
        file.write_all_at(&bad, 0)?;
        file.set_len(bad.len() as u64)?;
        Ok(Some(Self { kind, name, damage, offset }))
    }
}

//! `Promise`: the highest term in which a node has promised to lead or to follow, and the leader of that term.
//!
//! It is kept in the file `promise` of the data directory, which is always replaced as a whole; frame ([`frame`])
//! `COLLIEPR`, version 1:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 16 | 8 | term |
//! | 24 | 8 | node id of the leader of the term, or of the candidate; 0: the term is known, its leader is not |
//!
//! A directory without the file has promised nothing beyond the term in its control file.
//!
//! # Invariants
//! - K1. The term in the file never falls, and within a term the node changes from 0 only, unless two nodes are
//!   forced to lead in it. The exception is [`Promise::force`], by which an operator gives up a promise.
//! - K2. A promise is durable before any other node learns of it (REPL-8).
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::path::Path;

use collie_base::Term;
use collie_env::Env;

use crate::dir::frame;
use crate::dir::log_place::{read_framed, write_framed};
use crate::{DirectoryIdentity, EngineError};

const NAME: &str = "promise";
const MAGIC: &[u8; 8] = b"COLLIEPR";
const VERSION: u32 = 1;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The term.
    pub term: Term,
    /// The id of its leader; 0 if it is not known.
    pub node: u64,
}

impl Promise {
    /// Reads the promise of the directory `dir`; returns the default if there is no file.
    ///
    /// # Errors
    /// The file is damaged, has a newer version, or cannot be read.
    pub fn read(env: &Env, dir: &Path) -> Result<Self, EngineError> {
        let found = read_framed(env, dir.join(NAME), |bytes| {
            let (_version, mut fields) = frame::decode(MAGIC, VERSION, bytes)?;
            let (term, node) = (Term::new(fields.u64()?), fields.u64()?);
            fields.finish()?;
            Ok(Self { term, node })
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Replaces the file in the directory `dir`.
    ///
    /// # Durability
    /// Durable when this returns (K2).
    ///
    /// # Errors
    /// An I/O error: the file is then the old or the new one.
    pub fn write(&self, env: &Env, dir: &Path) -> Result<(), EngineError> {
        let fields = [self.term.get().to_le_bytes(), self.node.to_le_bytes()].concat();
        write_framed(env, dir, NAME, &frame::encode(MAGIC, VERSION, &fields))
    }

    /// Replaces the promise of the closed directory `dir`, whatever its term, by one of `term`; returns the old
    /// promise. A primary's directory leads again in `term`, which must be the term of its records; a replica's
    /// follows any leader of `term` or of a higher one.
    ///
    /// # Durability
    /// Durable when this returns.
    ///
    /// # Errors
    /// There is no database; `term` does not fit the term of its records; an I/O error.
    pub fn force(env: &Env, dir: &Path, term: Term) -> Result<Self, EngineError> {
        let who = DirectoryIdentity::read(dir, env)?.ok_or_else(|| EngineError::NotFound { path: dir.to_owned() })?;
        let fits = if who.follows { term >= who.term } else { term == who.term };
        if !fits {
            let what = "this term: the directory of a primary leads in the term of its records only, a replica's follows in none below";
            return Err(EngineError::InvalidArgument { what });
        }
        let before = Self::read(env, dir).unwrap_or_default();
        let node = if who.follows { 0 } else { who.node_id };
        Self { term, node }.write(env, dir)?;
        Ok(before)
    }

    /// Returns the promise after `node` has asked for `term` (K1); `None` if the term is promised to another node,
    /// or a higher term is promised.
    #[must_use]
    pub fn after(&self, term: Term, node: u64) -> Option<Self> {
        let is_free = term > self.term || (term == self.term && (self.node == 0 || self.node == node || node == 0));
        let node = if term == self.term && node == 0 { self.node } else { node };
        is_free.then_some(Self { term, node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a written promise reads back, a damaged one is refused, and a missing one is the default. Method:
    /// write, read, flip a bit.
    #[test]
    fn promise_is_read_as_written_and_refused_when_damaged() {
        let (env, disk) = Env::simulated(5);
        let dir = Path::new("/db");
        env.files.create_dir_all(dir).unwrap();
        assert_eq!(Promise::read(&env, dir).unwrap(), Promise::default());
        for term in [3, 7] {
            let promise = Promise { term: Term::new(term), node: 9 };
            promise.write(&env, dir).unwrap();
            assert_eq!(
                Promise::read(&Env::over(disk.crash_point().state(&disk.crash_point().none_kept()), 6), dir).unwrap(),
                promise
            );
        }
        disk.flip(&dir.join(NAME), 20, 1).unwrap();
        assert!(matches!(Promise::read(&env, dir), Err(EngineError::BadControlFile { .. })));
    }

    /// Goal: a term is promised to one node, and a lower term to no node (K1). Method: each order of requests.
    #[test]
    fn a_term_is_promised_to_one_node() {
        let promise = |term, node| Promise { term: Term::new(term), node };
        let ask = |had: Promise, term, node| had.after(Term::new(term), node);
        assert_eq!(ask(promise(0, 0), 1, 7), Some(promise(1, 7)));
        assert_eq!(ask(promise(1, 7), 1, 7), Some(promise(1, 7)), "asked again");
        assert_eq!(ask(promise(1, 7), 1, 8), None, "it is another's");
        assert_eq!(ask(promise(2, 7), 1, 7), None, "it is over");
        assert_eq!(ask(promise(1, 7), 2, 0), Some(promise(2, 0)), "heard of");
        assert_eq!(ask(promise(2, 0), 2, 8), Some(promise(2, 8)), "and then asked for");
        assert_eq!(ask(promise(2, 8), 2, 0), Some(promise(2, 8)), "what is known stays");
    }
}

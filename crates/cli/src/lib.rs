//! What the programs that serve share: the allocator, the command line of `serve`, and how a program ends.
//!
//! It is no API for embedding: that is `collie_engine` and `collie_server`. The program `collie` is `main.rs`; the
//! program `collie-bench` serves with changes that are no settings ([`serve::run_with`]), in a process that is the same
//! in everything else.
#![deny(unsafe_code)]

pub mod allocated;
pub mod progress;
mod returned_memory;
pub mod serve;

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Sessions allocate row versions, and the thread that prunes, mostly another one, frees them (decision 0075).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Makes files that this process creates accessible to the owner only, those that libraries create too: tables,
/// samples, models, backups.
pub fn keep_files_private() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Returns the exit code of a program, after printing its error in one line on standard error.
pub fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", one_line(&error));
        ExitCode::FAILURE
    })
}

/// Returns an error in one line: the added contexts, outermost first, then the causes, each only once. Errors of the
/// crates include their cause in their own text.
pub fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().fold(String::new(), |line, cause| match cause.to_string() {
        cause if line.is_empty() => cause,
        cause if line.contains(&cause) => line,
        cause => format!("{line}: {cause}"),
    });
    collie_base::one_line(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use anyhow::Context as _;

    use super::*;

    /// An error of a crate, which includes its cause in its text.
    #[derive(Debug)]
    struct Named(Error);

    impl std::fmt::Display for Named {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot list /here: {}", self.0)
        }
    }

    impl std::error::Error for Named {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    /// Goal: a line gives each cause once. Method: an error that includes its cause, with and without a context in
    /// front of it, and one that does not.
    #[test]
    fn line_says_each_cause_once() {
        let missing = || Error::from(ErrorKind::NotFound);
        let named = || anyhow::Error::from(Named(missing()));
        assert_eq!(one_line(&named()), "cannot list /here: entity not found");
        assert_eq!(
            one_line(&named().context("cannot read the log")),
            "cannot read the log: cannot list /here: entity not found"
        );
        let plain = Err::<(), _>(missing()).context("cannot start").unwrap_err();
        assert_eq!(one_line(&plain), "cannot start: entity not found");
    }
}

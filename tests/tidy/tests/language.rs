//! The language of comments and documents: the standard terms of the field, in lines of at most 120 columns.
//!
//! `docs/glossary.md` has the terms. A name in backticks, a block of code and a link's target are not prose.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use collie_tidy::texts;

/// Words that the project does not use in prose, each with the term to use in its place.
const BANNED: [(&str, &str); 22] = [
    ("anew", "again, or rewrite"),
    ("beside", "in parallel with, compared with, or as well as"),
    ("everybody", "every session, thread or reader"),
    ("flight", "in-flight flush"),
    ("flights", "in-flight flushes"),
    ("foretold", "predicted"),
    ("haste", "flush delay override"),
    ("keeper", "background flusher"),
    ("leg", "in-flight frame"),
    ("legs", "in-flight frames"),
    ("nobody", "no session, thread or reader"),
    ("sleeper", "boundary waiter"),
    ("sleepers", "boundary waiters"),
    ("somebody", "a session, thread or reader"),
    ("survey", "scan"),
    ("told", "notified, or the verb of the message"),
    ("unforetold", "without a prediction"),
    ("who", "the session, thread or reader that"),
    ("whoever", "each session, thread or reader that"),
    ("whom", "the session, thread or reader that"),
    ("whose", ""),
    ("yonder", "there"),
];

/// The most columns of a line of a comment or of a document; a row of a table may be longer.
const COLUMNS_MAX: usize = 120;

/// Paths that are not checked yet, or are written by a program.
const EXEMPT: [&str; 3] = ["docs/bench/", "docs/decisions/", "bench/results/"];

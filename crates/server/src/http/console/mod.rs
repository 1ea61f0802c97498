//! The console: a page for any browser that shows the state of a server, and the same data as JSON.
//!
//! | file | what |
//! |---|---|
//! | `page/` | the page: HTML, style and script, with nothing from other sites |
//! | `pages.rs` | [`page`]: those files by their paths, and what a browser may do with them |
//! | `figures.rs` | [`figures`]: the data of the page, as rows of views |
//! | `rows.rs` | [`Rows`](rows::Rows): rows of a statement as JSON |
//! | `access.rs` | the pages that may read it: those of this machine, in its browsers |
//!
//! # Invariants
//! - O1. The data are rows of system views, read by a session like any other: nothing is kept or counted for the page,
//!   and a table of a user is never read.
//! - O2. The page shows values as text, and may run and load only its own files (its Content-Security-Policy).
//! - O3. A foreign page reads nothing: neither under its own name for this machine, nor by querying across origins
//!   (`access.rs`).
//!
//! Checked by the tests here and by `tests/clients/tests/console.rs`, in a browser too.

mod access;
mod figures;
mod pages;
mod rows;

pub(super) use self::{
    access::{allowed_origin, is_for_here},
    figures::{figures, without_database},
    pages::{POLICY, Page, page},
};

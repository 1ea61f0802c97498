//! The console: a page in any browser that shows how a server does, and the same as JSON.
//!
//! | file | what |
//! |---|---|
//! | `page/` | the page: HTML, style and script, with nothing from anywhere else |
//! | `pages.rs` | [`page`]: those files by their paths, and what a browser may do with them |
//! | `figures.rs` | [`figures`]: what the page shows, as rows of views |
//! | `rows.rs` | [`Rows`](rows::Rows): rows of a statement as JSON |
//! | `access.rs` | who may read it: browsers on this machine, pages of this machine |
//!
//! # Invariants
//! - O1. What is shown are rows of system views, read by a session like any other's: none is kept or counted for it, and a table of a user is
//!   never read.
//! - O2. The page shows values as text, and may run and load nothing but its own files (its Content-Security-Policy).
//! - O3. A page from elsewhere reads nothing: not by its own name for this machine, nor by asking across origins (`access.rs`).
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

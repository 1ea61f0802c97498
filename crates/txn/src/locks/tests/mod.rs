//! Locks and waits through sessions.

mod advisory;
mod cancel;
mod picture;
mod wait;
mod wait_model;

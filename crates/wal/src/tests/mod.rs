//! Tests of the log through its public interface. Models (loom, shuttle) are built without them: a test of a model
//! stands next to the code that it checks.

mod bad_input;
mod consumers;
mod dead_rings;
mod duplicate;
mod fault;
mod flush;
mod follow;
mod future;
mod lab;
mod level;
mod log;
mod misplaced;
mod read;
mod recycle;
mod rewrite;
mod ring_file;
mod salvage;
mod ship;
mod tail;
mod truncate;
mod view;
mod warning;

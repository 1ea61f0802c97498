//! Checks of the tree itself, as tests: style that a tool can hold is held by one. Nothing here is a library.
#![forbid(unsafe_code)]

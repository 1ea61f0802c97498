//! Checks of the source tree, as tests: a tool keeps the rules of style that a tool can keep. The library itself is
//! empty.
#![forbid(unsafe_code)]

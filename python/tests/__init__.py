"""Tests of the Python side against the Rust side; `make python` runs them."""

//! The files of TPC-C's workload on SQL databases, compiled as modules of `collie-bench`.

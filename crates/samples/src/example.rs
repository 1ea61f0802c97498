//! A plain sample, for examples and tests.

use collie_obs::Sample;

/// Returns a sample of a unit, version 1: features 1, 2, 3 and on, an elapsed time of `elapsed_ns`, taken for certain.
pub fn sample_of_unit(unit: u8, elapsed_ns: u64) -> Sample {
    let features = [1, 2, 3, 4, 5, 6, 7, 8];
    Sample {
        ou: unit,
        version: 1,
        source: 0,
        flags: 0,
        thread: 1,
        calls: 1,
        p: 1.0,
        ctx: 1,
        start: 0,
        lsn: 0,
        features,
        labels: [elapsed_ns, 0, 0, 0],
    }
}

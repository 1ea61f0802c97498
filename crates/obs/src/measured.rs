//! A measured call: the values known when it begins, and those that its call site passes at its end.

use crate::schema::FEATURES_MAX;

/// A call that is being measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) ticks: u64,
    pub(crate) p: f32,
    pub(crate) source: u8,
}

/// The values that a call site passes about a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    pub(crate) unit: u8,
    pub(crate) version: u8,
    pub(crate) calls: u16,
    pub(crate) lsn: u64,
    pub(crate) features: [u32; FEATURES_MAX],
    pub(crate) labels: &'a [u64],
}

//! `Scale`: the number of rows of each kind.

use std::ops::RangeInclusive;

/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Lines of an order.
pub(crate) const LINES: RangeInclusive<u32> = 5..=15;
/// The number of last names: three syllables out of ten.
const NAMES: u32 = 1_000;

/// The number of rows of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Items, and rows of stock of each warehouse.
    pub items: u32,
    /// Customers of a district, and its initial orders.
    pub customers: u32,
    /// Orders of a district that are undelivered initially: the newest.
    pub undelivered: u32,
}

impl Scale {
    /// Returns the scale of the specification.
    pub const fn standard(warehouses: u32) -> Self {
        Self { warehouses, items: 100_000, customers: 3_000, undelivered: 900 }
    }

    /// Returns a hundredth of it, for tests and experiments: conflicts are more frequent, and figures are not TPC-C's.
    pub const fn small(warehouses: u32) -> Self {
        Self { warehouses, items: 1_000, customers: 30, undelivered: 9 }
    }

    /// Returns the number of orders of a district that are delivered initially.
    pub const fn delivered(&self) -> u32 {
        self.customers - self.undelivered
    }

    /// Returns the number of last names that customers have.
    pub(crate) const fn names(&self) -> u32 {
        if self.customers < NAMES { self.customers } else { NAMES }
    }
}

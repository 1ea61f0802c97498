//! `Scale`: how many rows there are of each kind.

use std::ops::RangeInclusive;

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u32 = 10;
/// Lines of an order.
pub(crate) const LINES: RangeInclusive<u32> = 5..=15;
/// Last names there are: three syllables of ten.
pub(crate) const NAMES: u32 = 1_000;

/// How many rows there are of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Warehouses.
    pub(crate) warehouses: u32,
    /// Items, and rows of stock of each warehouse.
    pub(crate) items: u32,
    /// Customers of a district, and orders that it has at first.
    pub(crate) customers: u32,
    /// Orders of a district that are not delivered at first: the newest.
    pub(crate) undelivered: u32,
}

impl Scale {
    /// As the specification has it.
    pub(crate) const fn standard(warehouses: u32) -> Self {
        Self { warehouses, items: 100_000, customers: 3_000, undelivered: 900 }
    }

    /// A hundredth of it, for tests and to try things out: conflicts are more frequent, figures are not TPC-C's.
    pub(crate) const fn small(warehouses: u32) -> Self {
        Self { warehouses, items: 1_000, customers: 30, undelivered: 9 }
    }

    /// Returns the orders of a district that are delivered at first.
    pub(crate) const fn delivered(&self) -> u32 {
        self.customers - self.undelivered
    }

    /// Returns how many last names customers have.
    pub(crate) const fn names(&self) -> u32 {
        if self.customers < NAMES { self.customers } else { NAMES }
    }
}

//! `Population`: the initial rows of a database (clause 4.3.3), drawn from a seed. They do not depend on the order in
//! which they are generated or on the number of threads.
//!
//! Money is in cents, rates are in ten-thousandths. Times are microseconds since 1970.

use super::chance::{Chance, Constants, last_name};
use super::scale::{DISTRICTS, LINES, Scale};

/// The initial payment of each customer.
const FIRST_PAYMENT: i64 = 1_000;
const CREDIT_LIMIT: i64 = 5_000_000;

/// The address of a warehouse, a district or a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) street_1: String,
    pub(crate) street_2: String,
    pub(crate) city: String,
    pub(crate) state: String,
    pub(crate) zip: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: u32,
    pub(crate) image: u32,
    pub(crate) name: String,
    pub(crate) price: i64,
    pub(crate) data: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Warehouse {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) tax: i64,
    pub(crate) ytd: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct District {
    pub(crate) warehouse: u32,
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) tax: i64,
    pub(crate) ytd: i64,
    pub(crate) next_order: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Customer {
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    pub(crate) id: u32,
    pub(crate) first: String,
    pub(crate) last: String,
    pub(crate) address: Address,
    pub(crate) phone: String,
    pub(crate) since: i64,
    pub(crate) bad_credit: bool,
    pub(crate) credit_limit: i64,
    pub(crate) discount: i64,
    pub(crate) balance: i64,
    pub(crate) ytd_payment: i64,
    pub(crate) payments: u32,
    pub(crate) deliveries: u32,
    pub(crate) data: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) customer_warehouse: u32,
    pub(crate) customer_district: u32,
    pub(crate) customer: u32,
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    pub(crate) at: i64,
    pub(crate) amount: i64,
    pub(crate) data: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    pub(crate) id: u32,
    pub(crate) customer: u32,
    pub(crate) entered: i64,
    pub(crate) carrier: Option<u32>,
    pub(crate) all_local: bool,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: u32,
    pub(crate) supplier: u32,
    pub(crate) delivered: Option<i64>,
    pub(crate) quantity: u32,
    pub(crate) amount: i64,
    pub(crate) info: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stock {
    pub(crate) warehouse: u32,
    pub(crate) item: u32,
    pub(crate) quantity: i32,
    pub(crate) info: Vec<String>,
    pub(crate) data: String,
}

/// The parameters that rows are drawn from. Each kind of row of each warehouse has its own stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    pub(crate) constants: Constants,
    /// The time of loading.
    pub(crate) now: i64,
}

#[derive(Clone, Copy)]
enum Kind {
    Items,
    Places,
    Customers,
    Histories,
    Orders,
    Stock,
}

fn address(chance: &mut Chance) -> Address {
    Address {
        street_1: chance.text(10, 20),
        street_2: chance.text(10, 20),
        city: chance.text(10, 20),
        state: chance.state(),
        zip: chance.digits(4) + "11111",
    }
}

impl Population {
    pub(crate) fn new(scale: Scale, seed: u64, now: i64) -> Self {
        Self { scale, seed, constants: Constants::draw(seed), now }
    }

    fn chance(&self, kind: Kind, warehouse: u32) -> Chance {
        // Streams of terminals begin at 2^31.
        Chance::new(self.seed, warehouse * 8 + kind as u32)
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = Item> + use<> {
        let mut chance = self.chance(Kind::Items, 0);
        (1..=self.scale.items).map(move |id| Item {
            id,
            image: chance.within(1, 10_000),
            name: chance.text(14, 24),
            price: i64::from(chance.within(100, 10_000)),
            data: chance.data(),
        })
    }

    pub(crate) fn warehouse(&self, id: u32) -> (Warehouse, Vec<District>) {
        let mut chance = self.chance(Kind::Places, id);
        let warehouse = Warehouse {
            id,
            name: chance.text(6, 10),
            address: address(&mut chance),
            tax: i64::from(chance.within(0, 2_000)),
            // The sum of the districts, so that the consistency conditions hold at small scales too.
            ytd: i64::from(DISTRICTS) * self.district_ytd(),
        };
        let districts = (1..=DISTRICTS).map(|district| District {
            warehouse: id,
            id: district,
            name: chance.text(6, 10),
            address: address(&mut chance),
            tax: i64::from(chance.within(0, 2_000)),
            ytd: self.district_ytd(),
            next_order: self.scale.customers + 1,
        });
        let districts = districts.collect();
        (warehouse, districts)
    }

    /// Returns the sum of what the customers of a district have paid.
    fn district_ytd(&self) -> i64 {
        i64::from(self.scale.customers) * FIRST_PAYMENT
    }

    pub(crate) fn customers(&self, warehouse: u32) -> impl Iterator<Item = Customer> + use<> {
        let (mut chance, Self { scale, constants, now, .. }) = (self.chance(Kind::Customers, warehouse), *self);
        let ids = (1..=DISTRICTS).flat_map(move |district| (1..=scale.customers).map(move |id| (district, id)));
        ids.map(move |(district, id)| Customer {
            warehouse,
            district,
            id,
            last: if id <= scale.names() { last_name(id - 1) } else { chance.name_to_load(&constants, scale.names()) },
            first: chance.text(8, 16),
            address: address(&mut chance),
            phone: chance.digits(16),
            since: now,
            bad_credit: chance.one_in(10),
            credit_limit: CREDIT_LIMIT,
            discount: i64::from(chance.within(0, 5_000)),
            balance: -FIRST_PAYMENT,
            ytd_payment: FIRST_PAYMENT,
            payments: 1,
            deliveries: 0,
            data: chance.text(300, 500),
        })
    }

    pub(crate) fn histories(&self, warehouse: u32) -> impl Iterator<Item = History> + use<> {
        let (mut chance, Self { scale, now, .. }) = (self.chance(Kind::Histories, warehouse), *self);
        let ids = (1..=DISTRICTS).flat_map(move |district| (1..=scale.customers).map(move |id| (district, id)));
        ids.map(move |(district, customer)| History {
            customer_warehouse: warehouse,
            customer_district: district,
            customer,
            warehouse,
            district,
            at: now,
            amount: FIRST_PAYMENT,
            data: chance.text(12, 24),
        })
    }

    /// Returns the orders with their lines; undelivered orders are in NEW-ORDER too.
    pub(crate) fn orders(&self, warehouse: u32) -> impl Iterator<Item = Order> + use<> {
        let (mut chance, Self { scale, now, .. }) = (self.chance(Kind::Orders, warehouse), *self);
        (1..=DISTRICTS).flat_map(move |district| {
            let customers = chance.permutation(scale.customers);
            let mut chance = chance.fork();
            customers.into_iter().zip(1..).map(move |(customer, id)| {
                let delivered = id <= scale.delivered();
                let carrier = delivered.then(|| chance.within(1, 10));
                let lines = (0..chance.within(*LINES.start(), *LINES.end())).map(|_| Line {
                    item: chance.within(1, scale.items),
                    supplier: warehouse,
                    delivered: delivered.then_some(now),
                    quantity: 5,
                    amount: if delivered { 0 } else { i64::from(chance.within(1, 999_999)) },
                    info: chance.text(24, 24),
                });
                let lines = lines.collect();
                Order { warehouse, district, id, customer, entered: now, carrier, all_local: true, lines }
            })
        })
    }

    pub(crate) fn stock(&self, warehouse: u32) -> impl Iterator<Item = Stock> + use<> {
        let mut chance = self.chance(Kind::Stock, warehouse);
        (1..=self.scale.items).map(move |item| Stock {
            warehouse,
            item,
            quantity: i32::try_from(chance.within(10, 100)).expect("at most 100"),
            info: (0..DISTRICTS).map(|_| chance.text(24, 24)).collect(),
            data: chance.data(),
        })
    }
}

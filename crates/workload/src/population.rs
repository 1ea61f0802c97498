//! `Population`: the initial rows of a database (clause 4.3.3), drawn from a seed. They do not depend on the order in
//! which they are generated or on the number of threads.
//!
//! Money is in cents, rates are in ten-thousandths. Times are microseconds since 1970.

use crate::chance::{Chance, Constants, last_name};
use crate::scale::{DISTRICTS, LINES, Scale};

/// The initial payment of each customer.
const FIRST_PAYMENT: i64 = 1_000;
const CREDIT_LIMIT: i64 = 5_000_000;

/// The address of a warehouse, a district or a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The first line of the street.
    pub street_1: String,
    /// The second line of the street.
    pub street_2: String,
    /// The city.
    pub city: String,
    /// The state, two letters.
    pub state: String,
    /// The postal code.
    pub zip: String,
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its number.
    pub id: u32,
    /// The number of its image.
    pub image: u32,
    /// Its name.
    pub name: String,
    /// Its price.
    pub price: i64,
    /// Its text; one in ten contains ORIGINAL.
    pub data: String,
}

/// A warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warehouse {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its rate of tax.
    pub tax: i64,
    /// The sum of the payments that it has received.
    pub ytd: i64,
}

/// A district.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct District {
    /// Its warehouse.
    pub warehouse: u32,
    /// Its number in the warehouse.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its rate of tax.
    pub tax: i64,
    /// The sum of the payments that it has received.
    pub ytd: i64,
    /// The number of its next order.
    pub next_order: u32,
}

/// A customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customer {
    /// The warehouse.
    pub warehouse: u32,
    /// The district.
    pub district: u32,
    /// The number in the district.
    pub id: u32,
    /// The first name.
    pub first: String,
    /// The last name.
    pub last: String,
    /// The address.
    pub address: Address,
    /// The telephone number.
    pub phone: String,
    /// When the customer was entered.
    pub since: i64,
    /// Whether the credit is bad.
    pub bad_credit: bool,
    /// The limit of the credit.
    pub credit_limit: i64,
    /// The rate of the discount.
    pub discount: i64,
    /// The balance.
    pub balance: i64,
    /// The sum of the payments.
    pub ytd_payment: i64,
    /// The number of payments.
    pub payments: u32,
    /// The number of deliveries.
    pub deliveries: u32,
    /// A text.
    pub data: String,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The warehouse of the payer.
    pub customer_warehouse: u32,
    /// The district of the payer.
    pub customer_district: u32,
    /// The number of the payer.
    pub customer: u32,
    /// The warehouse that received it.
    pub warehouse: u32,
    /// The district that received it.
    pub district: u32,
    /// When it was made.
    pub at: i64,
    /// The amount.
    pub amount: i64,
    /// A text.
    pub data: String,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The warehouse.
    pub warehouse: u32,
    /// The district.
    pub district: u32,
    /// Its number in the district.
    pub id: u32,
    /// The number of the customer.
    pub customer: u32,
    /// When it was entered.
    pub entered: i64,
    /// The carrier; `None` until it is delivered.
    pub carrier: Option<u32>,
    /// Whether all items come from its own warehouse.
    pub all_local: bool,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The item.
    pub item: u32,
    /// The warehouse that has it.
    pub supplier: u32,
    /// When it was delivered; `None` until then.
    pub delivered: Option<i64>,
    /// Pieces.
    pub quantity: u32,
    /// The amount.
    pub amount: i64,
    /// The text of the stock for the district.
    pub info: String,
}

/// The stock of an item in a warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// The warehouse.
    pub warehouse: u32,
    /// The item.
    pub item: u32,
    /// Pieces.
    pub quantity: i32,
    /// A text for each district.
    pub info: Vec<String>,
    /// A text; one in ten contains ORIGINAL.
    pub data: String,
}

/// The parameters that rows are drawn from. Each kind of row of each warehouse has its own stream.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// The number of rows of each kind.
    pub scale: Scale,
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
    /// Makes the population of `scale`, drawn from `seed` and loaded at `now`.
    pub fn new(scale: Scale, seed: u64, now: i64) -> Self {
        Self { scale, seed, constants: Constants::draw(seed), now }
    }

    fn chance(&self, kind: Kind, warehouse: u32) -> Chance {
        // Streams of terminals begin at 2^31.
        Chance::new(self.seed, warehouse * 8 + kind as u32)
    }

    /// Returns the items.
    pub fn items(&self) -> impl Iterator<Item = Item> + use<> {
        let mut chance = self.chance(Kind::Items, 0);
        (1..=self.scale.items).map(move |id| Item {
            id,
            image: chance.within(1, 10_000),
            name: chance.text(14, 24),
            price: i64::from(chance.within(100, 10_000)),
            data: chance.data(),
        })
    }

    /// Returns a warehouse and its districts.
    pub fn warehouse(&self, id: u32) -> (Warehouse, Vec<District>) {
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

    /// Returns the customers of a warehouse.
    pub fn customers(&self, warehouse: u32) -> impl Iterator<Item = Customer> + use<> {
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

    /// Returns the payments of the customers of a warehouse.
    pub fn histories(&self, warehouse: u32) -> impl Iterator<Item = History> + use<> {
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
    pub fn orders(&self, warehouse: u32) -> impl Iterator<Item = Order> + use<> {
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

    /// Returns the stock of a warehouse.
    pub fn stock(&self, warehouse: u32) -> impl Iterator<Item = Stock> + use<> {
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

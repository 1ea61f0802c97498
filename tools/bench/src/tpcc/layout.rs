//! Keys and values of the embedded engine: in keys numbers are big-endian, so that they sort; in values they have fixed
//! places.
//!
//! | family | key | value |
//! |---|---|---|
//! | `item` | item | price i64, image u32, name and data as text |
//! | `warehouse` | warehouse | tax u16, name, address |
//! | `warehouse_ytd` | warehouse | i64 |
//! | `district` | warehouse, district | tax u16, name, address |
//! | `district_ytd` | warehouse, district | i64 |
//! | `district_next` | warehouse, district | next order u32 |
//! | `customer` | warehouse, district, customer | discount u16, bad credit u8, credit limit i64, since i64, texts |
//! | `customer_money` | warehouse, district, customer | balance i64, paid i64, payments u32, deliveries u32 |
//! | `customer_data` | warehouse, district, customer | text |
//! | `customer_name` | warehouse, district, last, first (each 16 bytes, padded with zeros), customer | nothing |
//! | `history` | warehouse, district, number u64 | customer's warehouse, district, number; at i64, amount i64, text |
//! | `orders` | warehouse, district, order | customer u32, entered i64, carrier u8 (0: none), lines u8, all local u8 |
//! | `orders_customer` | warehouse, district, customer, order | nothing |
//! | `new_order` | warehouse, district, order | nothing |
//! | `order_lines` | warehouse, district, order | its lines |
//! | `stock` | warehouse, item | quantity i32, ytd u32, orders u32, remote orders u32 |
//! | `stock_text` | warehouse, item | info of ten districts, 24 bytes each; data |
//!
//! The texts of a customer are last name, first name, phone, address. A line of an order is item u32, supplier u32,
//! delivered i64 (0: not), amount i64, quantity u8, info of 24 bytes.
//!
//! Columns that change are separate from those that do not, and columns that two transactions change are separate from
//! each other; the lines of an order are stored together. The transactions depend on it, whereas TPC-C requires that
//! applications do not see how tables are partitioned (clause 1.6). So this is TPC-C's workload, not its physical
//! design.

use collie_workload::population::{Address, Customer, District, History, Item, Line, Order, Stock, Warehouse};

/// Bytes of a line, and of the text in it.
pub(crate) const LINE_BYTES: usize = 49;
pub(crate) const INFO_BYTES: usize = 24;
/// The offsets in a line of its delivery time and its amount.
const DELIVERED_AT: usize = 8;
const AMOUNT_AT: usize = 16;
const NAME_BYTES: usize = 16;

/// A key or value under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn u8(mut self, value: u32) -> Self {
        self.0.push(u8::try_from(value).expect("a small number"));
        self
    }

    pub(crate) fn u16(mut self, value: i64) -> Self {
        self.0.extend(u16::try_from(value).expect("a rate is below 1").to_be_bytes());
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn i32(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn i64(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.push(u8::try_from(text.len()).expect("texts but the last of a value are short"));
        self.0.extend(text.as_bytes());
        self
    }

    pub(crate) fn rest(mut self, text: &str) -> Self {
        self.0.extend(text.as_bytes());
        self
    }

    fn padded(mut self, text: &str) -> Self {
        let end = self.0.len() + NAME_BYTES;
        self.0.extend(text.as_bytes());
        self.0.resize(end, 0);
        self
    }

    fn address(self, address: &Address) -> Self {
        let Address { street_1, street_2, city, state, zip } = address;
        [street_1, street_2, city, state, zip].into_iter().fold(self, |bytes, text| bytes.text(text))
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the word at `at`. All values come from this benchmark, so one that is too short is an error of the engine.
fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> i64 {
    i64::from(u16::from_be_bytes(word(bytes, at)))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(word(bytes, at))
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(word(bytes, at))
}

pub(crate) fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(word(bytes, at))
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_i64(bytes: &mut [u8], at: usize, value: i64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// Adds to the amount at `at`; returns the sum.
pub(crate) fn add_i64(bytes: &mut [u8], at: usize, amount: i64) -> i64 {
    let sum = i64_at(bytes, at) + amount;
    put_i64(bytes, at, sum);
    sum
}

/// Adds to the count at `at`; returns the sum.
pub(crate) fn add_u32(bytes: &mut [u8], at: usize, count: u32) -> u32 {
    let sum = u32_at(bytes, at) + count;
    put_u32(bytes, at, sum);
    sum
}

pub(crate) fn key1(first: u32) -> [u8; 4] {
    first.to_be_bytes()
}

/// Returns the key of a district's row, or the prefix of the keys in a district.
pub(crate) fn key2(warehouse: u32, district: u32) -> [u8; 5] {
    let mut key = [0; 5];
    key[..4].copy_from_slice(&warehouse.to_be_bytes());
    key[4] = u8::try_from(district).expect("ten districts");
    key
}

/// Returns the key of a customer or order.
pub(crate) fn key3(warehouse: u32, district: u32, id: u32) -> [u8; 9] {
    let mut key = [0; 9];
    key[..5].copy_from_slice(&key2(warehouse, district));
    key[5..].copy_from_slice(&id.to_be_bytes());
    key
}

/// Returns the key of an order by its customer; with order 0, a lower bound of that customer's keys.
pub(crate) fn key4(warehouse: u32, district: u32, customer: u32, order: u32) -> [u8; 13] {
    let mut key = [0; 13];
    key[..9].copy_from_slice(&key3(warehouse, district, customer));
    key[9..].copy_from_slice(&order.to_be_bytes());
    key
}

pub(crate) fn stock_key(warehouse: u32, item: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&warehouse.to_be_bytes());
    key[4..].copy_from_slice(&item.to_be_bytes());
    key
}

pub(crate) fn history_key(warehouse: u32, district: u32, number: u64) -> [u8; 13] {
    let mut key = [0; 13];
    key[..5].copy_from_slice(&key2(warehouse, district));
    key[5..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns the prefix of the keys of customers with this last name.
pub(crate) fn name_prefix(warehouse: u32, district: u32, last: &str) -> Vec<u8> {
    Bytes::default().u32(warehouse).u8(district).padded(last).done()
}

pub(crate) fn name_key(customer: &Customer) -> Vec<u8> {
    let Customer { warehouse, district, id, first, last, .. } = customer;
    Bytes(name_prefix(*warehouse, *district, last)).padded(first).u32(*id).done()
}

pub(crate) fn item(item: &Item) -> Vec<u8> {
    Bytes::default().i64(item.price).u32(item.image).text(&item.name).rest(&item.data).done()
}

pub(crate) fn warehouse(of: &Warehouse) -> Vec<u8> {
    Bytes::default().u16(of.tax).text(&of.name).address(&of.address).done()
}

pub(crate) fn district(of: &District) -> Vec<u8> {
    Bytes::default().u16(of.tax).text(&of.name).address(&of.address).done()
}

pub(crate) fn customer(of: &Customer) -> Vec<u8> {
    let bytes = Bytes::default().u16(of.discount).u8(u32::from(of.bad_credit)).i64(of.credit_limit).i64(of.since);
    bytes.text(&of.last).text(&of.first).text(&of.phone).address(&of.address).done()
}

/// The offset in `customer` of the flag for bad credit.
pub(crate) const BAD_CREDIT_AT: usize = 2;

pub(crate) fn customer_money(of: &Customer) -> Vec<u8> {
    Bytes::default().i64(of.balance).i64(of.ytd_payment).u32(of.payments).u32(of.deliveries).done()
}

pub(crate) fn history(of: &History) -> Vec<u8> {
    let bytes = Bytes::default().u32(of.customer_warehouse).u8(of.customer_district).u32(of.customer);
    bytes.i64(of.at).i64(of.amount).rest(&of.data).done()
}

pub(crate) fn order(of: &Order) -> Vec<u8> {
    let lines = u32::try_from(of.lines.len()).expect("at most 15");
    let bytes = Bytes::default().u32(of.customer).i64(of.entered).u8(of.carrier.unwrap_or(0)).u8(lines);
    bytes.u8(u32::from(of.all_local)).done()
}

/// The offsets in `order` of carrier and number of lines.
pub(crate) const CARRIER_AT: usize = 12;
pub(crate) const LINES_AT: usize = 13;

pub(crate) fn lines(of: &[Line]) -> Vec<u8> {
    let mut bytes = Bytes(Vec::with_capacity(of.len() * LINE_BYTES));
    for line in of {
        bytes = bytes.u32(line.item).u32(line.supplier).i64(line.delivered.unwrap_or(0)).i64(line.amount);
        bytes = bytes.u8(line.quantity).rest(&line.info);
    }
    bytes.done()
}

/// Returns a line's item, delivery time and amount.
pub(crate) fn line(bytes: &[u8]) -> (u32, Option<i64>, i64) {
    let delivered = i64_at(bytes, DELIVERED_AT);
    (u32_at(bytes, 0), (delivered != 0).then_some(delivered), i64_at(bytes, AMOUNT_AT))
}

/// Writes the delivery time into every line, and returns the sum of the amounts.
pub(crate) fn deliver(lines: &mut [u8], now: i64) -> i64 {
    let mut sum = 0;
    for line in lines.chunks_exact_mut(LINE_BYTES) {
        put_i64(line, DELIVERED_AT, now);
        sum += i64_at(line, AMOUNT_AT);
    }
    sum
}

pub(crate) fn stock(of: &Stock) -> Vec<u8> {
    Bytes::default().i32(of.quantity).u32(0).u32(0).u32(0).done()
}

pub(crate) fn stock_text(of: &Stock) -> Vec<u8> {
    let mut bytes = of.info.iter().fold(Bytes::default(), |bytes, info| bytes.rest(info));
    bytes.0.extend(of.data.as_bytes());
    bytes.done()
}

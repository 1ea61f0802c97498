//! The SQL tables (clause 1.3), and their rows in COPY's text format.

use std::fmt::Write as _;

use crate::population::{Address, Customer, District, History, Item, Order, Stock, Warehouse};

/// The names of the tables.
pub(crate) const TABLES: [&str; 9] =
    ["warehouse", "district", "customer", "history", "orders", "new_order", "order_line", "item", "stock"];

/// The definitions. Foreign keys are not declared; the specification leaves this open.
pub(crate) const DEFINITIONS: &str = "\
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10) NOT NULL, w_street_1 varchar(20) NOT NULL,
  w_street_2 varchar(20) NOT NULL, w_city varchar(20) NOT NULL, w_state char(2) NOT NULL, w_zip char(9) NOT NULL,
  w_tax numeric(4,4) NOT NULL, w_ytd numeric(12,2) NOT NULL);
CREATE TABLE district (d_w_id int, d_id int, d_name varchar(10) NOT NULL, d_street_1 varchar(20) NOT NULL,
  d_street_2 varchar(20) NOT NULL, d_city varchar(20) NOT NULL, d_state char(2) NOT NULL, d_zip char(9) NOT NULL,
  d_tax numeric(4,4) NOT NULL, d_ytd numeric(12,2) NOT NULL, d_next_o_id int NOT NULL, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16) NOT NULL, c_middle char(2) NOT NULL,
  c_last varchar(16) NOT NULL, c_street_1 varchar(20) NOT NULL, c_street_2 varchar(20) NOT NULL, c_city varchar(20) NOT NULL,
  c_state char(2) NOT NULL, c_zip char(9) NOT NULL, c_phone char(16) NOT NULL, c_since timestamp NOT NULL,
  c_credit char(2) NOT NULL, c_credit_lim numeric(12,2) NOT NULL, c_discount numeric(4,4) NOT NULL,
  c_balance numeric(12,2) NOT NULL, c_ytd_payment numeric(12,2) NOT NULL, c_payment_cnt int NOT NULL,
  c_delivery_cnt int NOT NULL, c_data varchar(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (h_c_id int NOT NULL, h_c_d_id int NOT NULL, h_c_w_id int NOT NULL, h_d_id int NOT NULL,
  h_w_id int NOT NULL, h_date timestamp NOT NULL, h_amount numeric(6,2) NOT NULL, h_data varchar(24) NOT NULL);
CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int NOT NULL, o_entry_d timestamp NOT NULL,
  o_carrier_id int, o_ol_cnt int NOT NULL, o_all_local int NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int NOT NULL,
  ol_supply_w_id int NOT NULL, ol_delivery_d timestamp, ol_quantity int NOT NULL, ol_amount numeric(6,2) NOT NULL,
  ol_dist_info char(24) NOT NULL, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int NOT NULL, i_name varchar(24) NOT NULL, i_price numeric(5,2) NOT NULL,
  i_data varchar(50) NOT NULL);
CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int NOT NULL, s_dist_01 char(24) NOT NULL, s_dist_02 char(24) NOT NULL,
  s_dist_03 char(24) NOT NULL, s_dist_04 char(24) NOT NULL, s_dist_05 char(24) NOT NULL, s_dist_06 char(24) NOT NULL,
  s_dist_07 char(24) NOT NULL, s_dist_08 char(24) NOT NULL, s_dist_09 char(24) NOT NULL, s_dist_10 char(24) NOT NULL,
  s_ytd int NOT NULL, s_order_cnt int NOT NULL, s_remote_cnt int NOT NULL, s_data varchar(50) NOT NULL,
  PRIMARY KEY (s_w_id, s_i_id));";

/// Lines of COPY's text format. They contain only letters and digits, so nothing is escaped.
#[derive(Debug, Default)]
pub(crate) struct Lines(pub(crate) String);

/// Formats an amount in cents.
struct Cents(i64);

impl std::fmt::Display for Cents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, cents) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

/// Formats a rate in ten-thousandths.
struct Share(i64);

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0.{:04}", self.0)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { street_1, street_2, city, state, zip } = self;
        write!(f, "{street_1}\t{street_2}\t{city}\t{state}\t{zip}")
    }
}

impl Lines {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.write_fmt(line).expect("memory takes everything");
        self.0.push('\n');
    }

    pub(crate) fn item(&mut self, item: &Item) {
        let Item { id, image, name, price, data } = item;
        self.line(format_args!("{id}\t{image}\t{name}\t{}\t{data}", Cents(*price)));
    }

    pub(crate) fn warehouse(&mut self, of: &Warehouse) {
        let Warehouse { id, name, address, tax, ytd } = of;
        self.line(format_args!("{id}\t{name}\t{address}\t{}\t{}", Share(*tax), Cents(*ytd)));
    }

    pub(crate) fn district(&mut self, of: &District) {
        let District { warehouse, id, name, address, tax, ytd, next_order } = of;
        let (tax, ytd) = (Share(*tax), Cents(*ytd));
        self.line(format_args!("{warehouse}\t{id}\t{name}\t{address}\t{tax}\t{ytd}\t{next_order}"));
    }

    /// `now` is the time of loading as the server writes it, here and below.
    pub(crate) fn customer(&mut self, of: &Customer, now: &str) {
        let Customer { warehouse, district, id, first, last, address, phone, payments, deliveries, data, .. } = of;
        let credit = if of.bad_credit { "BC" } else { "GC" };
        let (limit, discount) = (Cents(of.credit_limit), Share(of.discount));
        let (balance, paid) = (Cents(of.balance), Cents(of.ytd_payment));
        self.line(format_args!(
            "{warehouse}\t{district}\t{id}\t{first}\tOE\t{last}\t{address}\t{phone}\t{now}\t{credit}\t{limit}\t{discount}\t\
             {balance}\t{paid}\t{payments}\t{deliveries}\t{data}"
        ));
    }

    pub(crate) fn history(&mut self, of: &History, now: &str) {
        let History { customer_warehouse, customer_district, customer, warehouse, district, amount, data, .. } = of;
        let amount = Cents(*amount);
        self.line(format_args!(
            "{customer}\t{customer_district}\t{customer_warehouse}\t{district}\t{warehouse}\t{now}\t{amount}\t{data}"
        ));
    }

    pub(crate) fn order(&mut self, of: &Order, now: &str) {
        let Order { warehouse, district, id, customer, carrier, all_local, lines, .. } = of;
        let carrier = carrier.map_or_else(|| "\\N".to_owned(), |carrier| carrier.to_string());
        let (count, all_local) = (lines.len(), u8::from(*all_local));
        self.line(format_args!("{warehouse}\t{district}\t{id}\t{customer}\t{now}\t{carrier}\t{count}\t{all_local}"));
    }

    pub(crate) fn new_order(&mut self, of: &Order) {
        let Order { warehouse, district, id, .. } = of;
        self.line(format_args!("{warehouse}\t{district}\t{id}"));
    }

    pub(crate) fn order_lines(&mut self, of: &Order, now: &str) {
        let Order { warehouse, district, id, lines, .. } = of;
        for (line, number) in lines.iter().zip(1..) {
            let delivered = if line.delivered.is_some() { now } else { "\\N" };
            let (item, supplier, quantity, amount, info) =
                (line.item, line.supplier, line.quantity, Cents(line.amount), &line.info);
            self.line(format_args!(
                "{warehouse}\t{district}\t{id}\t{number}\t{item}\t{supplier}\t{delivered}\t{quantity}\t{amount}\t{info}"
            ));
        }
    }

    pub(crate) fn stock(&mut self, of: &Stock) {
        let Stock { warehouse, item, quantity, info, data } = of;
        self.line(format_args!("{warehouse}\t{item}\t{quantity}\t{}\t0\t0\t0\t{data}", info.join("\t")));
    }
}
